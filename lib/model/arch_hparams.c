/* Hyperparameters: read by one table, completed by the format's defaults, checked against each other. */
#include "model/arch.h"

#include <math.h>
#include <stdio.h>

#include "base/buf.h"

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

static int wrong(const struct akv_model *m, const char *key, struct akv_err *err, const char *why)
{
    return akv_fail(err, AKV_E_INPUT, "%s: key %s.%s: %s", m->gguf.path, m->arch->name, key, why);
}

/* A count stays 0 when its key is absent: present ones are at least 1. */
static int read_count(struct akv_model *m, const struct count *c, struct akv_err *err)
{
    char key[96], why[64];
    snprintf(key, sizeof key, "%s.%s", m->arch->name, c->key);
    uint32_t v = 0;
    int rc = akv_gguf_u32(&m->gguf, key, &v, err);
    if (rc < 0)
        return rc;
    if (rc == 0)
        return c->required ? wrong(m, c->key, err, "missing") : 0;
    if (v < 1 || v > c->max) {
        snprintf(why, sizeof why, c->max == UINT32_MAX ? "%u, must be at least 1" : "%u, must be 1 to %u", v, c->max);
        return wrong(m, c->key, err, why);
    }
    *(uint32_t *)(void *)((char *)&m->hp + c->at) = v;
    return 0;
}

/* A finite float above zero; fallback 0: required. */
static int read_float(struct akv_model *m, const char *name, float fallback, float *out, struct akv_err *err)
{
    char key[96];
    snprintf(key, sizeof key, "%s.%s", m->arch->name, name);
    *out = fallback;
    int rc = akv_gguf_f32(&m->gguf, key, out, err);
    if (rc < 0)
        return rc;
    if (rc == 0 && !(fallback > 0))
        return wrong(m, name, err, "missing");
    if (!(*out > 0) || isinf(*out))
        return wrong(m, name, err, "must be finite and greater than 0");
    return 0;
}

static int check_heads(struct akv_model *m, struct akv_err *err)
{
    struct akv_hparams *hp = &m->hp;
    char why[96];
    if (!hp->n_kv_heads)
        hp->n_kv_heads = hp->n_heads;
    if (hp->n_heads % hp->n_kv_heads) {
        snprintf(why, sizeof why, "%u does not divide the %u heads", hp->n_kv_heads, hp->n_heads);
        return wrong(m, "attention.head_count_kv", err, why);
    }
    if ((!hp->dim_k || !hp->dim_v) && hp->n_embd % hp->n_heads) {
        snprintf(why, sizeof why, "%u heads do not divide the width of %u", hp->n_heads, hp->n_embd);
        return wrong(m, "attention.head_count", err, why);
    }
    if (!hp->dim_k)
        hp->dim_k = hp->n_embd / hp->n_heads;
    if (!hp->dim_v)
        hp->dim_v = hp->n_embd / hp->n_heads;
    if (hp->dim_k > AKV_MAX_HEAD_DIM || hp->dim_v > AKV_MAX_HEAD_DIM) {
        snprintf(why, sizeof why, "heads of %u values, the limit is %u", hp->n_embd / hp->n_heads, AKV_MAX_HEAD_DIM);
        return wrong(m, "attention.head_count", err, why);
    }
    if (!hp->n_rot)
        hp->n_rot = hp->dim_k;
    if (hp->n_rot % 2 || hp->n_rot > hp->dim_k) {
        snprintf(why, sizeof why, "%u, must be even and at most the head size of %u", hp->n_rot, hp->dim_k);
        return wrong(m, "rope.dimension_count", err, why);
    }
    return 0;
}

int akv_arch_read_hparams(struct akv_model *m, struct akv_err *err)
{
    m->hp = (struct akv_hparams){.rope_style = m->arch->rope_style};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        int rc = read_count(m, &counts[i], err);
        if (rc < 0)
            return rc;
    }
    int rc = read_float(m, "attention.layer_norm_rms_epsilon", 0, &m->hp.rms_eps, err);
    if (rc == 0)
        rc = read_float(m, "rope.freq_base", 10000, &m->hp.rope_base, err);
    return rc < 0 ? rc : check_heads(m, err);
}
