#include <emmintrin.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine_impl.h"
#include "engine/rope.h"

#define MAX_ROWS 65536u

/* A block of memory laid out twice: once to measure (base NULL), once to hand out. */
struct plan {
    uint8_t *base;
    size_t bytes;
    bool overflow;
};

static void *part(struct plan *p, size_t n, size_t size)
{
    size_t bytes, end;
    if (__builtin_mul_overflow(n, size, &bytes) || __builtin_add_overflow(p->bytes, bytes, &end) || end > SIZE_MAX / 2) {
        p->overflow = true;
        return NULL;
    }
    void *at = p->base ? p->base + p->bytes : NULL;
    p->bytes = (end + 63) & ~(size_t)63;
    return at;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t mul_scratch_bytes(const struct akv_engine *e)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i <= e->hp.n_layers; i++) {
        const struct akv_layer *l = i < e->hp.n_layers ? &e->model->layers[i] : NULL;
        const struct akv_tensor *w[] = {l ? l->wq : e->model->output, l ? l->wk : NULL, l ? l->wv : NULL,  l ? l->wo : NULL,
                                        l ? l->gate : NULL,           l ? l->up : NULL, l ? l->down : NULL};
        for (size_t j = 0; j < sizeof w / sizeof *w; j++) {
            if (w[j])
                bytes = larger(bytes, e->ops->mul_scratch_bytes(w[j]->dtype, w[j]->ne[0]));
        }
    }
    return bytes;
}

static void lay_out_threads(struct akv_engine *e, struct plan *p)
{
    const struct akv_hparams *hp = &e->hp;
    unsigned n_threads = akv_pool_threads(e->pool);
    size_t mul_bytes = mul_scratch_bytes(e), group = hp->n_heads / hp->n_kv_heads;
    struct akv_thread_scratch *thread = part(p, n_threads, sizeof *thread);
    e->thread = thread;
    for (unsigned i = 0; i < n_threads; i++) {
        struct akv_thread_scratch t;
        t.mul = part(p, mul_bytes, 1);
        t.attn = part(p, e->ops->attn_scratch_bytes(hp->dim_k, hp->dim_v), 1);
        t.queries = part(p, AKV_ATTN_TILE * group, sizeof *t.queries);
        t.logits = part(p, (size_t)e->max_rows * AKV_LOGITS_TILE, sizeof *t.logits);
#ifdef AKV_DEBUG
        t.page = part(p, AKV_PAGE * akv_geom_elem(&e->geom), (size_t)hp->dim_k + hp->dim_v);
#endif
        if (thread)
            thread[i] = t;
    }
}

/* Vectors come from a mapping whose alignment the file decides; the kernels want theirs. */
static const float *copy_vector(struct plan *p, const struct akv_tensor *t)
{
    float *v = t ? part(p, t->ne[0], sizeof *v) : NULL;
    if (v)
        memcpy(v, t->data, t->bytes);
    return v;
}

static void lay_out_vectors(struct akv_engine *e, struct plan *p)
{
    struct akv_layer_vectors *vec = part(p, e->hp.n_layers, sizeof *vec);
    for (uint32_t i = 0; i < e->hp.n_layers; i++) {
        const struct akv_layer *l = &e->model->layers[i];
        struct akv_layer_vectors v;
        v.attn_norm = copy_vector(p, l->attn_norm);
        v.post_attn = copy_vector(p, l->post_attn);
        v.ffn_norm = copy_vector(p, l->ffn_norm);
        v.post_ffn = copy_vector(p, l->post_ffn);
        v.bq = copy_vector(p, l->bq);
        v.bk = copy_vector(p, l->bk);
        v.bv = copy_vector(p, l->bv);
        v.q_norm = copy_vector(p, l->q_norm);
        v.k_norm = copy_vector(p, l->k_norm);
        if (vec)
            vec[i] = v;
    }
    e->vec = vec;
    e->output_norm = copy_vector(p, e->model->output_norm);
}

static void lay_out(struct akv_engine *e, struct plan *p)
{
    const struct akv_hparams *hp = &e->hp;
    size_t rows = e->max_rows, heads_v = (size_t)hp->n_heads * hp->dim_v;
    size_t widest = larger(larger(hp->n_embd, hp->n_ff), heads_v);
    for (unsigned i = 0; i < e->n_ropes; i++) {
        e->rope[i].freq = part(p, hp->n_rot / 2, sizeof *e->rope[i].freq);
        e->rope[i].cs = part(p, rows * hp->n_rot, sizeof *e->rope[i].cs);
    }
    lay_out_vectors(e, p);
    e->row = part(p, rows, sizeof *e->row);
    e->tiles = part(p, rows, sizeof *e->tiles);
    size_t n_parts = AKV_PARTED_ROWS * AKV_PARTS * (size_t)hp->n_heads; /* touched as far as a context is deep */
    e->parts = part(p, n_parts, sizeof *e->parts);
    e->part_o = part(p, n_parts, hp->dim_v * sizeof *e->part_o);
    e->x = part(p, rows * hp->n_embd, sizeof *e->x);
    e->h = part(p, rows * hp->n_embd, sizeof *e->h);
    const size_t shared = p->bytes; /* attention is done with its own when the feed-forward block begins */
    e->q = part(p, rows * hp->n_heads, hp->dim_k * sizeof *e->q);
    e->k = part(p, rows * hp->n_kv_heads, hp->dim_k * sizeof *e->k);
    e->v = part(p, rows * hp->n_kv_heads, hp->dim_v * sizeof *e->v);
    e->att = part(p, rows, heads_v * sizeof *e->att);
    const size_t end = p->bytes;
    p->bytes = shared;
    e->gate = part(p, rows * hp->n_ff, sizeof *e->gate);
    e->up = part(p, rows * hp->n_ff, sizeof *e->up);
    p->bytes = larger(p->bytes, end);
    e->act_q = part(p, rows, widest);
    e->act_d = part(p, rows * (widest / AKV_QBLOCK), sizeof *e->act_d);
    e->act_sum = part(p, rows * (widest / 16), sizeof *e->act_sum);
    lay_out_threads(e, p);
}

static int check_dtype(const struct akv_ops *ops, const struct akv_tensor *w, struct akv_err *err)
{
    if (ops->has(w->dtype))
        return 0;
    return akv_fail(err, AKV_E_INCOMPAT, "tensor %.*s: dtype %s: cannot be computed with",
                    (int)(w->name.len < 64 ? w->name.len : 64), w->name.s, akv_dtypes[w->dtype].name);
}

static int check_model(const struct akv_model *m, const struct akv_ops *ops, struct akv_err *err)
{
    const struct akv_hparams *hp = &m->hp;
    if (!m->arch)
        return akv_fail(err, AKV_E_INCOMPAT, "model: opened for its vocabulary only");
    if (hp->n_rot % 2 || hp->n_rot > hp->dim_k)
        return akv_fail(err, AKV_E_INPUT, "model: rope dimension count %u: must be even and at most %u", hp->n_rot, hp->dim_k);
    float least = hp->window && hp->rope_base_local < hp->rope_base ? hp->rope_base_local : hp->rope_base;
    float most = hp->window && hp->rope_base_local > hp->rope_base ? hp->rope_base_local : hp->rope_base;
    if (!(least >= 1 && most <= 0x1p126f))
        return akv_fail(err, AKV_E_INPUT, "model: rope base: must be at least 1");
    int rc = check_dtype(ops, m->embd, err);
    rc = rc < 0 ? rc : check_dtype(ops, m->output, err);
    for (uint32_t i = 0; rc == 0 && i < hp->n_layers; i++) {
        const struct akv_layer *l = &m->layers[i];
        const struct akv_tensor *w[] = {l->wq, l->wk, l->wv, l->wo, l->gate, l->up, l->down};
        for (size_t j = 0; rc == 0 && j < sizeof w / sizeof *w; j++)
            rc = check_dtype(ops, w[j], err);
    }
    return rc;
}

void akv_engine_geom(const struct akv_model *m, enum akv_kv_dtype kv, struct akv_geom *out)
{
    *out = (struct akv_geom){
        .n_layers = m->hp.n_layers, .n_kv_heads = m->hp.n_kv_heads, .dim_k = m->hp.dim_k, .dim_v = m->hp.dim_v, .dtype = kv};
}

static int take_memory(struct akv_engine *e, struct akv_err *err)
{
    struct plan p = {0};
    lay_out(e, &p);
    if (p.overflow)
        return akv_fail(err, AKV_E_INPUT, "engine: %u rows of this model: too large", e->max_rows);
    if (posix_memalign(&e->memory, 64, p.bytes)) {
        e->memory = NULL;
        return akv_fail(err, AKV_E_IO, "engine: out of memory (%zu bytes for %u rows)", p.bytes, e->max_rows);
    }
    p = (struct plan){.base = e->memory};
    lay_out(e, &p);
    return 0;
}

/* Correctly rounded; the instruction, as sqrtf would bring in libm. */
static float square_root(uint32_t d)
{
    return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss((float)d)));
}

/* What follows from the hyperparameters by arithmetic; in the standard float environment. */
static void prepare(struct akv_engine *e)
{
    const struct akv_hparams *hp = &e->hp;
    const struct akv_rope_scaling plain = {.attn_factor = 1};
    const struct akv_tensor *factors = e->model->rope_factors;
    e->attn_scale = 1.0f / square_root(hp->scale_dim);
    e->embd_scale = e->model->arch->features & AKV_HAS_EMBD_SCALE ? square_root(hp->n_embd) : 0;
    for (unsigned i = 0; i < e->n_ropes; i++) {
        struct akv_rope_table *t = &e->rope[i];
        float base = i ? hp->rope_base_local : hp->rope_base;
        const void *f = factors && !i ? factors->data : NULL;
        akv_rope_freqs(t->freq, hp->n_rot, base);
        t->scale = akv_rope_scale(t->freq, hp->n_rot, base, f, i ? &plain : &hp->scaling);
    }
}

/* Weights of files of up to this size in all are mapped at once. Of larger ones not all may fit in memory, and a step takes long anyway. */
#define WANT_BYTES_MAX ((size_t)1 << 30)
#define WANT_SLICE ((size_t)4 << 20)

static void want_slice(void *ctx, size_t task, unsigned thread)
{
    const struct akv_map *map = ctx;
    size_t at = task * WANT_SLICE, n = map->size - at;
    (void)thread;
    akv_map_want(map->data + at, n < WANT_SLICE ? n : WANT_SLICE);
}

/* The first step uses every weight. */
static void want_weights(const struct akv_gguf *g, struct akv_pool *pool)
{
    if (g->stamp.size > WANT_BYTES_MAX)
        return;
    for (uint32_t i = 0; i <= g->n_parts; i++) {
        struct akv_map map = i ? g->parts[i - 1].map : g->map;
        akv_pool_run(pool, want_slice, &map, (map.size + WANT_SLICE - 1) / WANT_SLICE);
    }
}

int akv_engine_open(struct akv_engine **out, const struct akv_model *m, const struct akv_ops *ops, struct akv_pool *pool,
                    enum akv_kv_dtype kv, uint32_t max_rows, struct akv_err *err)
{
    if (max_rows < 1 || max_rows > MAX_ROWS)
        return akv_fail(err, AKV_E_USAGE, "engine: %u rows: must be 1 to %u", max_rows, MAX_ROWS);
    int rc = check_model(m, ops, err);
    if (rc < 0)
        return rc;
    struct akv_engine *e = akv_alloc(1, sizeof *e, err);
    if (!e)
        return AKV_E_IO;
    e->model = m;
    e->ops = ops;
    e->pool = pool;
    e->hp = m->hp;
    e->max_rows = max_rows;
    e->n_ropes = m->hp.window ? 2 : 1;
    e->gated_unit = m->arch->activation == AKV_GELU_TANH ? ops->gelu_mul : ops->silu_mul;
    akv_engine_geom(m, kv, &e->geom);
    rc = take_memory(e, err);
    if (rc < 0) {
        akv_engine_close(e);
        return rc;
    }
    struct akv_fenv saved;
    akv_fenv_enter(&saved);
    prepare(e);
    akv_fenv_leave(&saved);
    want_weights(&m->gguf, pool);
    *out = e;
    return 0;
}

void akv_engine_close(struct akv_engine *e)
{
    if (!e)
        return;
    free(e->memory);
    free(e);
}

uint32_t akv_engine_max_rows(const struct akv_engine *e)
{
    return e->max_rows;
}
