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
    uint32_t layer, window;
    uint32_t n_parts; /* of chunks that are attended to apart and joined after; 1: whole */
};

static uint32_t first_key(const struct attention *p, const struct akv_row *row)
{
    return row->pos + 1 > p->window ? row->pos + 1 - p->window : 0;
}

/* The chunks that hold keys of a tile. */
static void tile_chunks(const struct attention *p, const struct akv_attn_tile *tile, uint32_t *first, uint32_t *last)
{
    *first = UINT32_MAX;
    *last = 0;
    for (size_t r = tile->from; r < tile->to; r++) {
        const uint32_t from = first_key(p, p->e->row[r]) / AKV_CHUNK, to = p->e->row[r]->pos / AKV_CHUNK;
        *first = from < *first ? from : *first;
        *last = to > *last ? to : *last;
    }
}

/* The keys of a part: one chunk, or the first ones where there are more than parts; none: from >= to. */
static void part_keys(const struct attention *p, const struct akv_attn_tile *tile, uint32_t part, uint32_t *from, uint32_t *to)
{
    uint32_t first, last;
    tile_chunks(p, tile, &first, &last);
    const uint32_t n = last - first + 1 < p->n_parts ? last - first + 1 : p->n_parts;
    const uint32_t chunk = last - n + 1 + part;
    *from = part ? chunk * AKV_CHUNK : 0;
    *to = part < n ? (chunk + 1) * AKV_CHUNK : 0;
}

static struct akv_attn_query *part_of(const struct akv_engine *e, size_t row, size_t head, uint32_t part)
{
    return &e->parts[(row * e->hp.n_heads + head) * AKV_PARTS + part];
}

/* One tile of rows and one kv head: every query head that reads it, for every row; all keys or one part of them. */
static void attend_task(void *ctx, size_t task, unsigned thread)
{
    const struct attention *p = ctx;
    struct akv_engine *e = p->e;
    const struct akv_hparams *hp = &e->hp;
    const uint32_t part = (uint32_t)(task % p->n_parts);
    task /= p->n_parts;
    const struct akv_attn_tile *tile = &e->tiles[task / hp->n_kv_heads];
    uint32_t kv_head = (uint32_t)(task % hp->n_kv_heads), group = hp->n_heads / hp->n_kv_heads, from = 0, to = UINT32_MAX;
    const size_t head = (size_t)kv_head * group, end = head + group;
    const bool parted = p->n_parts > 1;
    struct akv_attn a = {.pages = e->row[tile->from]->seq->kv,
                         .k_offset = akv_geom_k_offset(&e->geom, p->layer, kv_head),
                         .v_offset = akv_geom_v_offset(&e->geom, p->layer, kv_head),
                         .dim_k = hp->dim_k,
                         .dim_v = hp->dim_v,
                         .scale = e->attn_scale,
                         .part = parted,
                         .queries = e->thread[thread].queries,
                         .scratch = e->thread[thread].attn};
    if (parted)
        part_keys(p, tile, part, &from, &to);
    for (size_t r = tile->from; r < tile->to; r++) {
        const uint32_t first = first_key(p, e->row[r]), past = e->row[r]->pos + 1;
        for (size_t h = head; h < end; h++) {
            struct akv_attn_query q = {.q = e->q + (r * hp->n_heads + h) * hp->dim_k,
                                       .o = e->att + (r * hp->n_heads + h) * hp->dim_v,
                                       .from = first > from ? first : from,
                                       .to = past < to ? past : to};
            if (parted) {
                q.o = e->part_o + (size_t)(part_of(e, r, h, part) - e->parts) * hp->dim_v;
                *part_of(e, r, h, part) = q;
            }
            if (q.from < q.to)
                a.queries[a.n_queries++] = q;
        }
    }
    if (a.n_queries)
        e->ops->attn[e->geom.dtype](&a);
    for (size_t r = tile->from, i = 0; parted && r < tile->to; r++) {
        for (size_t h = head; h < end; h++) {
            struct akv_attn_query *q = part_of(e, r, h, part);
            if (q->from < q->to)
                *q = a.queries[i++];
        }
    }
}

/* What a row's head has of its keys in parts, to att. Those that see none are before and after the others. */
static void join_parts(const struct attention *p, size_t row, size_t head)
{
    const struct akv_engine *e = p->e;
    const struct akv_attn_query *q = part_of(e, row, head, 0), *end = q + p->n_parts;
    size_t n = 0;
    while (q->from >= q->to)
        q++;
    while (q + n < end && q[n].from < q[n].to)
        n++;
    e->ops->attn_join(e->att + (row * e->hp.n_heads + head) * e->hp.dim_v, q, n, e->hp.dim_v);
}

/* Few rows at a depth: kv heads alone would keep few threads busy, and not evenly. */
static uint32_t parts(const struct attention *p)
{
    const struct akv_engine *e = p->e;
    const unsigned n_threads = akv_pool_threads(e->pool);
    uint32_t n = 1;
    if (n_threads == 1 || e->n_rows > AKV_PARTED_ROWS || e->n_tiles * e->hp.n_kv_heads >= 4 * (size_t)n_threads)
        return 1;
    for (size_t i = 0; i < e->n_tiles; i++) {
        uint32_t first, last;
        tile_chunks(p, &e->tiles[i], &first, &last);
        n = last - first + 1 > n ? last - first + 1 : n;
    }
    return n < AKV_PARTS ? n : AKV_PARTS;
}

void akv_engine_attend(struct akv_engine *e, uint32_t layer)
{
    struct attention p = {.e = e, .layer = layer, .window = e->model->layers[layer].local ? e->hp.window : UINT32_MAX};
    p.n_parts = parts(&p);
    akv_pool_run(e->pool, attend_task, &p, e->n_tiles * e->hp.n_kv_heads * p.n_parts);
    for (size_t r = 0; p.n_parts > 1 && r < e->n_rows; r++) {
        for (size_t h = 0; h < e->hp.n_heads; h++)
            join_parts(&p, r, h);
    }
}
