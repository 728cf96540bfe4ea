/* Hyperparameters: read by one table, completed by the format's defaults, checked against each other. */
#include "model/arch.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#define AT(field) offsetof(struct akv_hparams, field)

static const struct count {
    const char *key; /* below the architecture's name */
    size_t at;
    uint32_t max;
    bool required;
} counts[] = {
    {"block_count", AT(n_layers), AKV_MAX_LAYERS, true},          {"context_length", AT(n_ctx_train), UINT32_MAX, true},
    {"embedding_length", AT(n_embd), AKV_MAX_WIDTH, true},        {"feed_forward_length", AT(n_ff), AKV_MAX_WIDTH, true},
    {"attention.head_count", AT(n_heads), AKV_MAX_HEADS, true},   {"attention.head_count_kv", AT(n_kv_heads), AKV_MAX_HEADS, false},
    {"attention.key_length", AT(dim_k), AKV_MAX_HEAD_DIM, false}, {"attention.value_length", AT(dim_v), AKV_MAX_HEAD_DIM, false},
    {"rope.dimension_count", AT(n_rot), AKV_MAX_HEAD_DIM, false}, {"vocab_size", AT(n_vocab), AKV_MAX_VOCAB, false},
};

struct key {
    char s[96];
};

static struct key key_of(const struct akv_model *m, const char *name)
{
    struct key k;
    snprintf(k.s, sizeof k.s, "%s.%s", m->arch->name, name);
    return k;
}

int akv_arch_wrong_key(const struct akv_model *m, const char *name, struct akv_err *err, const char *fmt, ...)
{
    char why[160];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    return akv_fail(err, AKV_E_INPUT, "%s: key %s: %s", m->gguf.path, key_of(m, name).s, why);
}

int akv_arch_u32(const struct akv_model *m, const char *name, uint32_t *out, struct akv_err *err)
{
    return akv_gguf_u32(&m->gguf, key_of(m, name).s, out, err);
}

int akv_arch_f32(const struct akv_model *m, const char *name, float *out, struct akv_err *err)
{
    return akv_gguf_f32(&m->gguf, key_of(m, name).s, out, err);
}

int akv_arch_str(const struct akv_model *m, const char *name, struct akv_str *out, struct akv_err *err)
{
    return akv_gguf_str(&m->gguf, key_of(m, name).s, out, err);
}

const struct akv_gguf_kv *akv_arch_find(const struct akv_model *m, const char *name)
{
    return akv_gguf_find(&m->gguf, key_of(m, name).s);
}

/* A count stays 0 when its key is absent: present ones are at least 1. */
static int read_count(struct akv_model *m, const struct count *c, struct akv_err *err)
{
    uint32_t v = 0;
    int rc = akv_arch_u32(m, c->key, &v, err);
    if (rc < 0)
        return rc;
    if (rc == 0)
        return c->required ? akv_arch_wrong_key(m, c->key, err, "missing") : 0;
    if (c->max == UINT32_MAX && v < 1)
        return akv_arch_wrong_key(m, c->key, err, "%u, must be at least 1", v);
    if (v < 1 || v > c->max)
        return akv_arch_wrong_key(m, c->key, err, "%u, must be 1 to %u", v, c->max);
    *(uint32_t *)(void *)((char *)&m->hp + c->at) = v;
    return 0;
}

int akv_arch_positive(const struct akv_model *m, const char *name, float fallback, float *out, struct akv_err *err)
{
    *out = fallback;
    int rc = akv_arch_f32(m, name, out, err);
    if (rc < 0)
        return rc;
    if (rc == 0 && !(fallback > 0))
        return akv_arch_wrong_key(m, name, err, "missing");
    if (!(*out > 0) || isinf(*out))
        return akv_arch_wrong_key(m, name, err, "must be finite and greater than 0");
    return 0;
}

static int check_heads(struct akv_model *m, struct akv_err *err)
{
    struct akv_hparams *hp = &m->hp;
    if (!hp->n_kv_heads)
        hp->n_kv_heads = hp->n_heads;
    if (hp->n_heads % hp->n_kv_heads)
        return akv_arch_wrong_key(m, "attention.head_count_kv", err, "%u does not divide the %u heads", hp->n_kv_heads,
                                  hp->n_heads);
    if ((!hp->dim_k || !hp->dim_v) && hp->n_embd % hp->n_heads)
        return akv_arch_wrong_key(m, "attention.head_count", err, "%u heads do not divide the width of %u", hp->n_heads,
                                  hp->n_embd);
    if (!hp->dim_k)
        hp->dim_k = hp->n_embd / hp->n_heads;
    if (!hp->dim_v)
        hp->dim_v = hp->n_embd / hp->n_heads;
    if (hp->dim_k > AKV_MAX_HEAD_DIM || hp->dim_v > AKV_MAX_HEAD_DIM)
        return akv_arch_wrong_key(m, "attention.head_count", err, "heads of %u values, the limit is %u", hp->n_embd / hp->n_heads,
                                  AKV_MAX_HEAD_DIM);
    if (!hp->n_rot)
        hp->n_rot = hp->dim_k;
    if (hp->n_rot % 2 || hp->n_rot > hp->dim_k)
        return akv_arch_wrong_key(m, "rope.dimension_count", err, "%u, must be even and at most the head size of %u", hp->n_rot,
                                  hp->dim_k);
    hp->scale_dim = hp->n_layers == m->arch->width_scale_layers ? hp->n_embd / hp->n_heads : hp->dim_k;
    if (!hp->scale_dim)
        return akv_arch_wrong_key(m, "attention.head_count", err, "%u heads for a width of %u", hp->n_heads, hp->n_embd);
    return 0;
}

/* 0, as when the key is absent: none. */
static int read_softcap(struct akv_model *m, struct akv_err *err)
{
    static const char name[] = "final_logit_softcapping";
    int rc = m->arch->features & AKV_HAS_SOFTCAP ? akv_arch_f32(m, name, &m->hp.softcap, err) : 0;
    if (rc >= 0 && (!(m->hp.softcap >= 0) || isinf(m->hp.softcap)))
        rc = akv_arch_wrong_key(m, name, err, "must be finite and not negative");
    return rc < 0 ? rc : 0;
}

int akv_arch_read_hparams(struct akv_model *m, struct akv_err *err)
{
    m->hp = (struct akv_hparams){.rope_style = m->arch->rope_style};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        int rc = read_count(m, &counts[i], err);
        if (rc < 0)
            return rc;
    }
    m->layers = akv_alloc(m->hp.n_layers, sizeof *m->layers, err);
    if (!m->layers)
        return AKV_E_IO;
    int rc = akv_arch_positive(m, "attention.layer_norm_rms_epsilon", 0, &m->hp.rms_eps, err);
    if (rc == 0)
        rc = akv_arch_positive(m, "rope.freq_base", 10000, &m->hp.rope_base, err);
    if (rc == 0)
        rc = check_heads(m, err);
    if (rc == 0)
        rc = read_softcap(m, err);
    return rc < 0 ? rc : akv_arch_read_positions(m, err);
}
