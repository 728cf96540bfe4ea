#include <assert.h>
#include <limits.h>
#include <string.h>

#include "engine/engine_impl.h"
#include "engine/rope.h"

/*
 * Rows in a task of the element-wise stages: a few tasks a thread. At most half a page of tokens, whose keys fill whole cache lines in
 * f16: tasks of fewer rows write the same lines at the same time.
 */
#define ROWS_MIN 4u
#define ROWS_MAX (AKV_PAGE / 2)
#define TASKS_PER_THREAD 4u

static void stage_task(void *ctx, size_t task, unsigned thread)
{
    const struct akv_stage *s = ctx;
    size_t from = task * s->task_rows, to = from + s->task_rows;
    to = to < s->e->n_rows ? to : s->e->n_rows;
    for (size_t row = from; row < to; row++)
        s->fn(s, row, thread);
}

void akv_stage_run(const struct akv_stage *s)
{
    struct akv_stage copy = *s;
    const size_t share = s->e->n_rows / (akv_pool_threads(s->e->pool) * TASKS_PER_THREAD);
    copy.task_rows = ROWS_MIN;
    while (copy.task_rows < ROWS_MAX && copy.task_rows < share)
        copy.task_rows *= 2;
    akv_pool_run(s->e->pool, stage_task, &copy, (s->e->n_rows + copy.task_rows - 1) / copy.task_rows);
}

void akv_engine_flag(struct akv_engine *e, size_t row)
{
    unsigned seen = atomic_load(&e->bad_row);
    while (row < seen && !atomic_compare_exchange_weak(&e->bad_row, &seen, (unsigned)row))
        ;
}

void akv_engine_quantise(struct akv_engine *e, const float *x, size_t k, size_t r)
{
    if (e->ops->quantise(e->act_q + r * k, e->act_d + r * (k / AKV_QBLOCK), e->act_sum + r * (k / 16), x + r * k, k) < 0)
        akv_engine_flag(e, r);
}

static void embed(const struct akv_stage *s, size_t row, unsigned thread)
{
    (void)thread;
    struct akv_engine *e = s->e;
    const struct akv_tensor *w = e->model->embd;
    const struct akv_row *r = e->row[row];
    float *x = e->x + row * e->hp.n_embd;
    e->ops->dequant(w->dtype, x, w->data + r->id * w->row_bytes, e->hp.n_embd);
    for (size_t i = 0; e->embd_scale > 0 && i < e->hp.n_embd; i++)
        x[i] *= e->embd_scale;
    for (unsigned i = 0; i < e->n_ropes; i++)
        akv_rope_angles(e->rope[i].cs + row * e->hp.n_rot, e->rope[i].freq, e->hp.n_rot / 2, e->rope[i].scale, r->pos);
}

/* h = norm(x), after the output of the block before has been added to x */
static void norm(const struct akv_stage *s, size_t row, unsigned thread)
{
    (void)thread;
    struct akv_engine *e = s->e;
    size_t n = e->hp.n_embd;
    float *x = e->x + row * n, *h = e->h + row * n;
    if (s->post)
        e->ops->rmsnorm(h, h, s->post, n, e->hp.rms_eps);
    if (s->add)
        e->ops->add(x, h, n);
    e->ops->rmsnorm(h, x, s->norm, n, e->hp.rms_eps);
    if (s->quantised)
        akv_engine_quantise(e, e->h, n, row);
}

static void quantise_attention(const struct akv_stage *s, size_t row, unsigned thread)
{
    (void)thread;
    akv_engine_quantise(s->e, s->e->att, (size_t)s->e->hp.n_heads * s->e->hp.dim_v, row);
}

static void activate(const struct akv_stage *s, size_t row, unsigned thread)
{
    (void)thread;
    struct akv_engine *e = s->e;
    size_t n = e->hp.n_ff;
    e->gated_unit(e->gate + row * n, e->up + row * n, n);
    if (s->quantised)
        akv_engine_quantise(e, e->gate, n, row);
}

static void check_logits(const struct akv_stage *s, size_t row, unsigned thread)
{
    (void)thread;
    if (!s->e->ops->finite(s->e->row[row]->logits, s->e->hp.n_vocab))
        akv_engine_flag(s->e, row);
}

/* Run a stage and report the first row that it flagged. */
static int run(const struct akv_stage *s, const char *what, struct akv_err *err)
{
    struct akv_engine *e = s->e;
    akv_stage_run(s);
    unsigned bad = atomic_load(&e->bad_row);
    if (bad == UINT_MAX)
        return 0;
    if (s->layer == e->hp.n_layers)
        return akv_fail(err, AKV_E_INPUT, "output layer, position %u: %s", e->row[bad]->pos, what);
    return akv_fail(err, AKV_E_INPUT, "layer %u, position %u: %s", s->layer, e->row[bad]->pos, what);
}

/* From here on only rows whose logits are wanted matter: in the last layer, once every row's K and V are in place. */
static void keep_wanted(struct akv_engine *e)
{
    size_t n_x = e->hp.n_embd, n_q = (size_t)e->hp.n_heads * e->hp.dim_k, n = 0;
    for (size_t r = 0; r < e->n_rows; r++) {
        if (!e->row[r]->logits)
            continue;
        if (n < r) {
            e->row[n] = e->row[r];
            memcpy(e->x + n * n_x, e->x + r * n_x, n_x * sizeof *e->x);
            memcpy(e->q + n * n_q, e->q + r * n_q, n_q * sizeof *e->q);
        }
        n++;
    }
    e->n_rows = n;
    akv_engine_tiles(e);
}

/* x to K and V in their pages and RoPE'd q */
static int project(struct akv_engine *e, uint32_t layer, struct akv_err *err)
{
    const struct akv_layer *l = &e->model->layers[layer];
    struct akv_stage s = {.e = e,
                          .fn = norm,
                          .layer = layer,
                          .norm = e->vec[layer].attn_norm,
                          .add = layer > 0,
                          .post = layer > 0 ? e->vec[layer - 1].post_ffn : NULL,
                          .quantised = akv_is_quantised(l->wq) || akv_is_quantised(l->wk) || akv_is_quantised(l->wv)};
    int rc = run(&s, "the input of attention is not finite", err);
    if (rc < 0)
        return rc;
    akv_engine_matmul(e, e->h, e->hp.n_embd, (struct akv_matmul[]){{l->wq, e->q}, {l->wk, e->k}, {l->wv, e->v}}, 3);
    s.fn = akv_engine_put_heads;
    return run(&s,
               e->geom.dtype == AKV_KV_F16 ? "a query, key or value is not finite or exceeds the range of f16"
                                           : "a query, key or value is not finite",
               err);
}

/* attention and its output projection, to h */
static int attend(struct akv_engine *e, uint32_t layer, struct akv_err *err)
{
    const struct akv_tensor *wo = e->model->layers[layer].wo;
    akv_engine_attend(e, layer);
    struct akv_stage s = {.e = e, .fn = quantise_attention, .layer = layer};
    if (akv_is_quantised(wo)) {
        int rc = run(&s, "the output of attention is not finite", err);
        if (rc < 0)
            return rc;
    }
    akv_engine_matmul(e, e->att, (size_t)e->hp.n_heads * e->hp.dim_v, &(struct akv_matmul){wo, e->h}, 1);
    return 0;
}

/* the feed-forward block, to h */
static int feed_forward(struct akv_engine *e, uint32_t layer, struct akv_err *err)
{
    const struct akv_layer *l = &e->model->layers[layer];
    struct akv_stage s = {.e = e,
                          .fn = norm,
                          .layer = layer,
                          .norm = e->vec[layer].ffn_norm,
                          .add = true,
                          .post = e->vec[layer].post_attn,
                          .quantised = akv_is_quantised(l->gate) || akv_is_quantised(l->up)};
    int rc = run(&s, "the input of the feed-forward block is not finite", err);
    if (rc < 0)
        return rc;
    akv_engine_matmul(e, e->h, e->hp.n_embd, (struct akv_matmul[]){{l->gate, e->gate}, {l->up, e->up}}, 2);
    s.fn = activate;
    s.quantised = akv_is_quantised(l->down);
    rc = run(&s, "the feed-forward block is not finite", err);
    if (rc < 0)
        return rc;
    akv_engine_matmul(e, e->gate, e->hp.n_ff, &(struct akv_matmul){l->down, e->h}, 1);
    return 0;
}

static int finish(struct akv_engine *e, struct akv_err *err)
{
    struct akv_stage s = {.e = e,
                          .fn = norm,
                          .layer = e->hp.n_layers,
                          .norm = e->output_norm,
                          .add = true,
                          .post = e->vec[e->hp.n_layers - 1].post_ffn,
                          .quantised = akv_is_quantised(e->model->output)};
    int rc = run(&s, "the input is not finite", err);
    if (rc < 0)
        return rc;
    akv_engine_logits(e);
    s.fn = check_logits;
    return run(&s, "logits are not finite", err);
}

static int compute(struct akv_engine *e, struct akv_err *err)
{
    akv_stage_run(&(struct akv_stage){.e = e, .fn = embed});
    akv_engine_tiles(e);
    for (uint32_t layer = 0; layer < e->hp.n_layers; layer++) {
        int rc = project(e, layer, err);
        if (rc < 0)
            return rc;
        if (layer + 1 == e->hp.n_layers) {
            keep_wanted(e);
            if (!e->n_rows)
                return 0;
        }
        rc = attend(e, layer, err);
        if (rc == 0)
            rc = feed_forward(e, layer, err);
        if (rc < 0)
            return rc;
    }
    return finish(e, err);
}

static int accept_row(struct akv_engine *e, const struct akv_row *r, struct akv_err *err)
{
    const struct akv_seq *s = r->seq;
    assert(memcmp(akv_arena_geom(s->arena), &e->geom, sizeof e->geom) == 0);
    if (r->id >= e->hp.n_vocab)
        return akv_fail(err, AKV_E_INPUT, "position %u: token id %u: the vocabulary has %u", r->pos, r->id, e->hp.n_vocab);
    if (r->pos >= AKV_ROPE_MAX_POS)
        return akv_fail(err, AKV_E_INPUT, "position %u: the largest is %u", r->pos, AKV_ROPE_MAX_POS - 1);
    if (r->query_only) {
        if (r->pos >= s->n_tokens || r->id != s->ids[r->pos])
            return akv_fail(err, AKV_E_USAGE, "position %u: a query of id %u, which the sequence does not hold there", r->pos,
                            r->id);
        return 0;
    }
    if (r->pos != s->n_tokens + s->n_pending || r->pos / AKV_PAGE >= s->n_pages || s->pages[r->pos / AKV_PAGE]->sealed)
        return akv_fail(err, AKV_E_USAGE, "position %u: not the next one of its sequence, or no room was reserved", r->pos);
    r->seq->n_pending++;
    return 0;
}

static int accept_rows(struct akv_engine *e, const struct akv_row *rows, size_t n, struct akv_err *err)
{
    if (n > e->max_rows)
        return akv_fail(err, AKV_E_USAGE, "step: %zu rows: the engine was opened for %u", n, e->max_rows);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        e->row[i] = &rows[i];
        rc = accept_row(e, &rows[i], err);
    }
    e->n_rows = n;
    atomic_store(&e->bad_row, UINT_MAX);
    return rc;
}

int akv_engine_step(struct akv_engine *e, const struct akv_row *rows, size_t n, struct akv_err *err)
{
    if (!n)
        return 0;
    int rc = accept_rows(e, rows, n, err);
    if (rc == 0)
        rc = compute(e, err); /* in the pool, whose float environment is the standard one */
    for (size_t i = 0; i < n; i++) {
        rows[i].seq->n_pending = 0;
        if (rc == 0 && !rows[i].query_only)
            akv_seq_push(rows[i].seq, rows[i].id);
    }
    return rc;
}
