/* Tensors to their places: each must be there, of the right shape, and of a type that can be computed with. */
#include "model/arch.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/gguf_note.h"

#define ROPE_FACTORS "rope_freqs.weight"

struct binder {
    const struct akv_gguf *g;
    bool *used; /* [n_tensors] */
    struct akv_err *err;
};

static int wrong(const struct binder *b, const struct akv_tensor *t, int code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

static int wrong(const struct binder *b, const struct akv_tensor *t, int code, const char *fmt, ...)
{
    char why[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    return akv_fail(b->err, code, "%s: tensor %s (data at offset %llu): %s", t->path, akv_str_show(t->name).s,
                    (unsigned long long)t->offset, why);
}

/* rows 0: any number. The shape in messages is the file's order: row length first. */
static int find(struct binder *b, const struct akv_tensor **out, const char *name, uint64_t rows, uint64_t k)
{
    const struct akv_tensor *t = akv_gguf_tensor(b->g, name);
    if (!t)
        return akv_fail(b->err, AKV_E_INPUT, "%s: tensor %s: missing", b->g->path, name);
    b->used[t - b->g->tensors] = true;
    if (t->ne[0] != k || (rows && t->ne[1] != rows) || t->ne[2] != 1 || t->ne[3] != 1)
        return wrong(b, t, AKV_E_INPUT, "its shape %s does not fit the hyperparameters: %llux%llu", akv_tensor_dims(t).s,
                     (unsigned long long)k, (unsigned long long)(rows ? rows : t->ne[1]));
    *out = t;
    return 0;
}

static int find_matrix(struct binder *b, const struct akv_tensor **out, const char *name, uint64_t rows, uint64_t k)
{
    int rc = find(b, out, name, rows, k);
    if (rc < 0)
        return rc;
    const struct akv_dtype_info *info = &akv_dtypes[(*out)->dtype];
    return info->runs ? 0 : wrong(b, *out, AKV_E_INCOMPAT, "weights of type %s are not supported yet", info->name);
}

/* Norm weights, biases, factors: n values in F32. */
static int find_vector(struct binder *b, const struct akv_tensor **out, const char *name, uint64_t n)
{
    int rc = find(b, out, name, 1, n);
    if (rc < 0)
        return rc;
    const struct akv_tensor *t = *out;
    if (t->dtype != AKV_F32)
        return wrong(b, t, AKV_E_INCOMPAT, "a vector of type %s: only F32 is supported", akv_dtypes[t->dtype].name);
    const float *w = (const float *)(const void *)t->data; /* aligned: the data's alignment is at least 8 */
    for (uint64_t i = 0; i < n; i++)
        if (!isfinite(w[i]))
            return wrong(b, t, AKV_E_INPUT, "value %llu is not finite", (unsigned long long)i);
    return 0;
}

static int bind_layer(struct binder *b, const struct akv_arch *arch, const struct akv_hparams *hp, struct akv_layer *l, uint32_t i)
{
    const uint64_t q = (uint64_t)hp->n_heads * hp->dim_k, k = (uint64_t)hp->n_kv_heads * hp->dim_k;
    const uint64_t v = (uint64_t)hp->n_kv_heads * hp->dim_v, o = (uint64_t)hp->n_heads * hp->dim_v;
    const struct {
        const char *name;
        const struct akv_tensor **out;
        uint64_t rows, k; /* rows 0: a vector */
        unsigned feature; /* only an architecture that has it has this; 0: all have */
    } parts[] = {
        {"attn_norm.weight", &l->attn_norm, 0, hp->n_embd, 0},
        {"attn_q.weight", &l->wq, q, hp->n_embd, 0},
        {"attn_q.bias", &l->bq, 0, q, AKV_HAS_QKV_BIAS},
        {"attn_k.weight", &l->wk, k, hp->n_embd, 0},
        {"attn_k.bias", &l->bk, 0, k, AKV_HAS_QKV_BIAS},
        {"attn_v.weight", &l->wv, v, hp->n_embd, 0},
        {"attn_v.bias", &l->bv, 0, v, AKV_HAS_QKV_BIAS},
        {"attn_q_norm.weight", &l->q_norm, 0, hp->dim_k, AKV_HAS_QK_NORM},
        {"attn_k_norm.weight", &l->k_norm, 0, hp->dim_k, AKV_HAS_QK_NORM},
        {"attn_output.weight", &l->wo, hp->n_embd, o, 0},
        {"post_attention_norm.weight", &l->post_attn, 0, hp->n_embd, AKV_HAS_POST_NORMS},
        {"ffn_norm.weight", &l->ffn_norm, 0, hp->n_embd, 0},
        {"ffn_gate.weight", &l->gate, hp->n_ff, hp->n_embd, 0},
        {"ffn_up.weight", &l->up, hp->n_ff, hp->n_embd, 0},
        {"ffn_down.weight", &l->down, hp->n_embd, hp->n_ff, 0},
        {"post_ffw_norm.weight", &l->post_ffn, 0, hp->n_embd, AKV_HAS_POST_NORMS},
    };
    for (size_t p = 0; p < sizeof parts / sizeof *parts; p++) {
        char name[64];
        if (parts[p].feature && !(arch->features & parts[p].feature))
            continue;
        snprintf(name, sizeof name, "blk.%u.%s", i, parts[p].name);
        int rc = parts[p].rows ? find_matrix(b, parts[p].out, name, parts[p].rows, parts[p].k)
                               : find_vector(b, parts[p].out, name, parts[p].k);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/*
 * They divide frequencies, of which the largest is 1: a factor below 3/4 would take the angles of the last positions out of the
 * range where they are reduced exactly (engine/dmath.h). Real ones are at least 1, give or take a rounding.
 */
static int bind_rope_factors(struct akv_model *m, struct binder *b)
{
    int rc = find_vector(b, &m->rope_factors, ROPE_FACTORS, m->hp.n_rot / 2);
    if (rc < 0)
        return rc;
    const float *f = (const float *)(const void *)m->rope_factors->data;
    for (uint32_t i = 0; i < m->hp.n_rot / 2; i++)
        if (!(f[i] >= 0.75F))
            return wrong(b, m->rope_factors, AKV_E_INPUT, "value %u is below 0.75", i);
    return 0;
}

static bool begins(struct akv_str s, const char *prefix)
{
    return s.len >= strlen(prefix) && !memcmp(s.s, prefix, strlen(prefix));
}

static bool ends(struct akv_str s, const char *suffix)
{
    return s.len >= strlen(suffix) && !memcmp(s.s + s.len - strlen(suffix), suffix, strlen(suffix));
}

/*
 * A tensor without a place. Inside a layer, or as a bias or a table of RoPE factors, it takes part in the model's computation:
 * leaving it out would give other answers without a word.
 */
static int judge_extra(struct binder *b, const struct akv_tensor *t, const char *arch, struct akv_buf *notes)
{
    if (begins(t->name, "rope_"))
        return wrong(b, t, AKV_E_INCOMPAT, "RoPE factors of this kind are not supported for architecture %s", arch);
    if (begins(t->name, "blk.") || ends(t->name, ".bias"))
        return wrong(b, t, AKV_E_INCOMPAT, "not a part of architecture %s as it is supported here", arch);
    akv_note(notes, "tensor %s is not known and is ignored", akv_str_show(t->name).s);
    return 0;
}

static int bind_all(struct akv_model *m, struct binder *b, struct akv_buf *notes)
{
    const struct akv_hparams *hp = &m->hp;
    int rc = find_matrix(b, &m->embd, "token_embd.weight", hp->n_vocab, hp->n_embd);
    if (rc < 0 || (rc = find_vector(b, &m->output_norm, "output_norm.weight", hp->n_embd)) < 0)
        return rc;
    m->output = m->embd;
    if (akv_gguf_tensor(b->g, "output.weight"))
        rc = find_matrix(b, &m->output, "output.weight", m->embd->ne[1], hp->n_embd);
    if (rc == 0 && m->arch->features & AKV_HAS_ROPE_FACTORS && akv_gguf_tensor(b->g, ROPE_FACTORS))
        rc = bind_rope_factors(m, b);
    for (uint32_t i = 0; rc == 0 && i < hp->n_layers; i++)
        rc = bind_layer(b, m->arch, hp, &m->layers[i], i);
    for (uint64_t i = 0; rc == 0 && i < b->g->n_tensors; i++)
        if (!b->used[i])
            rc = judge_extra(b, &b->g->tensors[i], m->arch->name, notes);
    return rc;
}

int akv_arch_bind(struct akv_model *m, struct akv_buf *notes, struct akv_err *err)
{
    struct binder b = {.g = &m->gguf, .err = err};
    int rc = AKV_E_IO;
    b.used = akv_alloc(m->gguf.n_tensors, sizeof *b.used, err);
    if (b.used)
        rc = bind_all(m, &b, notes);
    free(b.used);
    return rc;
}
