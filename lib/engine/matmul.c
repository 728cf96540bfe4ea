#include <math.h>
#include <string.h>

#include "engine/engine_impl.h"

/* Tasks are ranges of outputs in multiples of this, the kernels' widest panel, for at most so many rows, which share its packing. */
#define PANEL 32u
#define ROWS 128u
/* Tasks per thread: enough that a slow core does not hold up the others. */
#define TASKS_PER_THREAD 4u

static struct akv_act activations(const struct akv_engine *e, const float *x, size_t k, size_t from, size_t to)
{
    const size_t n_blocks = k / AKV_QBLOCK;
    return (struct akv_act){.n_rows = to - from,
                            .k = k,
                            .x = x + from * k,
                            .q = e->act_q + from * k,
                            .d = e->act_d + from * n_blocks,
                            .sum = e->act_sum + from * 2 * n_blocks};
}

struct products {
    struct akv_engine *e;
    const float *x;
    size_t k;
    const struct akv_matmul *m;
    size_t n, chunk; /* matrices; outputs of a task */
    size_t n_chunks; /* tasks of all matrices for a tile of rows */
};

static size_t chunks_of(const struct products *p, size_t i)
{
    return (p->m[i].w->ne[1] + p->chunk - 1) / p->chunk;
}

static void product_task(void *ctx, size_t task, unsigned thread)
{
    const struct products *p = ctx;
    struct akv_engine *e = p->e;
    const size_t first = task / p->n_chunks * ROWS, end = first + ROWS < e->n_rows ? first + ROWS : e->n_rows;
    const struct akv_act act = activations(e, p->x, p->k, first, end);
    size_t i = 0, chunk = task % p->n_chunks;
    for (; chunk >= chunks_of(p, i); i++)
        chunk -= chunks_of(p, i);
    const struct akv_tensor *w = p->m[i].w;
    const size_t from = chunk * p->chunk, to = from + p->chunk;
    struct akv_mul mul = {.dtype = w->dtype,
                          .w = w->data,
                          .row_bytes = w->row_bytes,
                          .act = &act,
                          .from = from,
                          .to = to < w->ne[1] ? to : w->ne[1],
                          .y = p->m[i].y + first * w->ne[1],
                          .y_stride = w->ne[1],
                          .scratch = e->thread[thread].mul};
    e->ops->mul(&mul);
}

void akv_engine_matmul(struct akv_engine *e, const float *x, size_t k, const struct akv_matmul *m, size_t n)
{
    struct products p = {.e = e, .x = x, .k = k, .m = m, .n = n};
    const size_t n_tiles = (e->n_rows + ROWS - 1) / ROWS;
    const unsigned n_threads = akv_pool_threads(e->pool);
    const size_t wanted = n_threads == 1 ? 1 : (n_threads * TASKS_PER_THREAD + n_tiles - 1) / n_tiles;
    size_t n_out = 0;
    for (size_t i = 0; i < n; i++)
        n_out += m[i].w->ne[1];
    p.chunk = wanted == 1 ? n_out : (n_out / wanted + PANEL) / PANEL * PANEL;
    for (size_t i = 0; i < n; i++)
        p.n_chunks += chunks_of(&p, i);
    akv_pool_run(e->pool, product_task, &p, p.n_chunks * n_tiles);
}

struct logits {
    struct akv_engine *e;
    struct akv_act act;
};

/*
 * Soft cap c: x becomes c tanh(x / c), with tanh y = (1 - t) / (1 + t), t = exp(-2 |y|), and the sign of y. What is not finite must
 * be found before: it would come out as c.
 */
static void soften(struct akv_engine *e, size_t row, float *x, size_t n)
{
    const float cap = e->hp.softcap;
    _Alignas(32) float t[AKV_LOGITS_TILE];
    if (!e->ops->finite(x, n))
        akv_engine_flag(e, row);
    for (size_t i = 0; i < n; i++) {
        x[i] /= cap;
        t[i] = -2 * fabsf(x[i]);
    }
    e->ops->exp(t, t, n);
    for (size_t i = 0; i < n; i++) {
        float tanh_y = (1 - t[i]) / (1 + t[i]);
        x[i] = cap * (x[i] < 0 ? -tanh_y : tanh_y);
    }
}

static void logits_task(void *ctx, size_t task, unsigned thread)
{
    const struct logits *p = ctx;
    struct akv_engine *e = p->e;
    const struct akv_tensor *w = e->model->output;
    size_t from = task * AKV_LOGITS_TILE, n = w->ne[1] - from;
    n = n < AKV_LOGITS_TILE ? n : AKV_LOGITS_TILE;
    float *tile = e->thread[thread].logits;
    struct akv_mul mul = {.dtype = w->dtype,
                          .w = w->data + from * w->row_bytes,
                          .row_bytes = w->row_bytes,
                          .act = &p->act,
                          .to = n,
                          .y = tile,
                          .y_stride = AKV_LOGITS_TILE,
                          .scratch = e->thread[thread].mul};
    e->ops->mul(&mul);
    for (size_t r = 0; r < e->n_rows; r++) {
        if (e->hp.softcap > 0)
            soften(e, r, tile + r * AKV_LOGITS_TILE, n);
        memcpy(e->row[r]->logits + from, tile + r * AKV_LOGITS_TILE, n * sizeof *tile);
    }
}

void akv_engine_logits(struct akv_engine *e)
{
    struct logits p = {.e = e, .act = activations(e, e->h, e->hp.n_embd, 0, e->n_rows)};
    akv_pool_run(e->pool, logits_task, &p, (e->hp.n_vocab + AKV_LOGITS_TILE - 1) / AKV_LOGITS_TILE);
}
