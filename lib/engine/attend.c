#include <assert.h>
#include <string.h>

#include "engine/engine_impl.h"

#ifdef AKV_DEBUG
/* A query-only row's K and V, computed again, must be what its page holds: reuse would change bits otherwise. */
static void assert_same_kv(const struct akv_engine *e, const struct akv_row *row, uint32_t layer, uint32_t head, const float *k,
                           const float *v, uint8_t *scratch)
{
    const struct akv_geom *g = &e->geom;
    size_t elem = akv_geom_elem(g), v_at = (size_t)g->dim_k * AKV_PAGE * elem;
    uint32_t slot = row->pos % AKV_PAGE;
    const uint8_t *page = row->seq->kv[row->pos / AKV_PAGE];
    int rc = e->ops->kv_put[g->dtype](scratch, 0, v_at, slot, k, g->dim_k, v, g->dim_v);
    assert(rc == 0);
    for (uint32_t i = 0; i < g->dim_k; i++) {
        size_t at = ((size_t)i * AKV_PAGE + slot) * elem;
        assert(memcmp(scratch + at, page + akv_geom_k_offset(g, layer, head) + at, elem) == 0);
    }
    size_t at = (size_t)slot * g->dim_v * elem;
    assert(memcmp(scratch + v_at + at, page + akv_geom_v_offset(g, layer, head) + at, g->dim_v * elem) == 0);
    (void)rc;
}
#endif

static void put_kv(const struct akv_stage *s, size_t r, uint32_t head, const float *k, const float *v, unsigned thread)
{
    struct akv_engine *e = s->e;
    const struct akv_geom *g = &e->geom;
    const struct akv_row *row = e->row[r];
    if (row->query_only) {
#ifdef AKV_DEBUG
        assert_same_kv(e, row, s->layer, head, k, v, e->thread[thread].page);
#endif
        (void)thread;
        return;
    }
    if (e->ops->kv_put[g->dtype](row->seq->pages[row->pos / AKV_PAGE]->kv, akv_geom_k_offset(g, s->layer, head),
                                 akv_geom_v_offset(g, s->layer, head), row->pos % AKV_PAGE, k, g->dim_k, v, g->dim_v) < 0)
        akv_engine_flag(e, r);
}

/* The heads of q or k. The bias is added last (numerics R2): to the finished product. */
static void finish_heads(const struct akv_engine *e, float *x, uint32_t n_heads, const float *bias, const float *norm,
                         const float *cs)
{
    const struct akv_hparams *hp = &e->hp;
    if (bias)
        e->ops->add(x, bias, (size_t)n_heads * hp->dim_k);
    for (uint32_t i = 0; i < n_heads; i++, x += hp->dim_k) {
        if (norm)
            e->ops->rmsnorm(x, x, norm, hp->dim_k, hp->rms_eps);
        e->ops->rope(x, cs, hp->n_rot, (int)hp->rope_style);
    }
}

void akv_engine_put_heads(const struct akv_stage *s, size_t row, unsigned thread)
{
    struct akv_engine *e = s->e;
    const struct akv_hparams *hp = &e->hp;
    const struct akv_layer_vectors *vec = &e->vec[s->layer];
    const float *cs = e->rope[e->model->layers[s->layer].local].cs + row * hp->n_rot;
    float *q = e->q + row * hp->n_heads * hp->dim_k;
    float *k = e->k + row * hp->n_kv_heads * hp->dim_k;
    float *v = e->v + row * hp->n_kv_heads * hp->dim_v;
    finish_heads(e, q, hp->n_heads, vec->bq, vec->q_norm, cs);
    finish_heads(e, k, hp->n_kv_heads, vec->bk, vec->k_norm, cs);
    if (vec->bv)
        e->ops->add(v, vec->bv, (size_t)hp->n_kv_heads * hp->dim_v);
    if (!e->ops->finite(q, (size_t)hp->n_heads * hp->dim_k)) /* no later check would see it: exp clamps */
        akv_engine_flag(e, row);
    for (uint32_t i = 0; i < hp->n_kv_heads; i++)
        put_kv(s, row, i, k + (size_t)i * hp->dim_k, v + (size_t)i * hp->dim_v, thread);
}

void akv_engine_tiles(struct akv_engine *e)
{
    e->n_tiles = 0;
    for (size_t from = 0, to; from < e->n_rows; from = to) {
        for (to = from + 1; to < e->n_rows && to - from < AKV_ATTN_TILE && e->row[to]->seq == e->row[from]->seq; to++)
            ;
        e->tiles[e->n_tiles++] = (struct akv_attn_tile){from, to};
    }
}

struct attention {
    struct akv_engine *e;
    uint32_t layer;
};

/* One tile of rows and one kv head: every query head that reads it, for every row. */
static void attend_task(void *ctx, size_t task, unsigned thread)
{
    const struct attention *p = ctx;
    struct akv_engine *e = p->e;
    const struct akv_hparams *hp = &e->hp;
    const struct akv_attn_tile *tile = &e->tiles[task / hp->n_kv_heads];
    uint32_t kv_head = (uint32_t)(task % hp->n_kv_heads), group = hp->n_heads / hp->n_kv_heads;
    struct akv_attn a = {.pages = e->row[tile->from]->seq->kv,
                         .k_offset = akv_geom_k_offset(&e->geom, p->layer, kv_head),
                         .v_offset = akv_geom_v_offset(&e->geom, p->layer, kv_head),
                         .dim_k = hp->dim_k,
                         .dim_v = hp->dim_v,
                         .scale = e->attn_scale,
                         .queries = e->thread[thread].queries,
                         .scratch = e->thread[thread].attn};
    const uint32_t window = e->model->layers[p->layer].local ? hp->window : UINT32_MAX;
    for (size_t r = tile->from; r < tile->to; r++) {
        uint32_t to = e->row[r]->pos + 1;
        for (size_t head = (size_t)kv_head * group; head < (size_t)(kv_head + 1) * group; head++) {
            a.queries[a.n_queries++] = (struct akv_attn_query){.q = e->q + (r * hp->n_heads + head) * hp->dim_k,
                                                               .o = e->att + (r * hp->n_heads + head) * hp->dim_v,
                                                               .from = to > window ? to - window : 0,
                                                               .to = to};
        }
    }
    e->ops->attn[e->geom.dtype](&a);
}

void akv_engine_attend(struct akv_engine *e, uint32_t layer)
{
    struct attention p = {.e = e, .layer = layer};
    akv_pool_run(e->pool, attend_task, &p, e->n_tiles * e->hp.n_kv_heads);
}
