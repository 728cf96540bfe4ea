/* Hyperparameters about positions: how RoPE is scaled, and which layers see only a window. */
#include "model/arch.h"

#include <stdio.h>

/* A float of low to high, which `range` says in words; fallback when absent. */
static int read_within(const struct akv_model *m, const char *name, float low, float high, const char *range, float fallback,
                       float *out, struct akv_err *err)
{
    *out = fallback;
    int rc = akv_arch_f32(m, name, out, err);
    if (rc > 0 && !(*out >= low && *out <= high))
        return akv_arch_wrong_key(m, name, err, "must be %s", range);
    return rc;
}

static int read_kind(const struct akv_model *m, struct akv_rope_scaling *s, struct akv_err *err)
{
    static const struct {
        const char *name;
        enum akv_rope_kind kind;
    } kinds[] = {{"none", AKV_ROPE_PLAIN}, {"linear", AKV_ROPE_LINEAR}, {"yarn", AKV_ROPE_YARN}};
    struct akv_str type = {"linear", 6}; /* what a factor alone means */
    int rc = akv_arch_str(m, "rope.scaling.type", &type, err);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (akv_str_is(type, kinds[i].name)) {
            s->kind = kinds[i].kind;
            return 0;
        }
    return akv_fail(err, AKV_E_INCOMPAT, "%s: key %s.rope.scaling.type: RoPE scaling of type %s is not supported", m->gguf.path,
                    m->arch->name, akv_str_show(type).s);
}

/* The older key says the same; 0 in either means 1, which changes nothing. */
static int read_factor(const struct akv_model *m, struct akv_rope_scaling *s, struct akv_err *err)
{
    const char *name = akv_arch_find(m, "rope.scaling.factor") ? "rope.scaling.factor" : "rope.scale_linear";
    s->factor = 1;
    int rc = akv_arch_f32(m, name, &s->factor, err);
    if (s->factor == 0)
        s->factor = 1;
    if (rc > 0 && !(s->factor >= 1 && s->factor <= 0x1p20F))
        rc = akv_arch_wrong_key(m, name, err, "must be 1 to 2^20");
    if (s->kind == AKV_ROPE_PLAIN)
        s->factor = 1;
    else if (s->kind == AKV_ROPE_LINEAR && s->factor == 1)
        s->kind = AKV_ROPE_PLAIN;
    return rc < 0 ? rc : 0;
}

static int read_yarn(const struct akv_model *m, struct akv_rope_scaling *s, struct akv_err *err)
{
    static const char ctx[] = "rope.scaling.original_context_length", betas[] = "0.001 to 1000000";
    if (!(m->hp.rope_base > 1))
        return akv_arch_wrong_key(m, "rope.freq_base", err, "must be greater than 1 for YaRN");
    s->n_ctx_orig = m->hp.n_ctx_train;
    int rc = akv_arch_u32(m, ctx, &s->n_ctx_orig, err);
    if (rc >= 0 && s->n_ctx_orig < 1)
        return akv_arch_wrong_key(m, ctx, err, "0, must be at least 1");
    if (rc >= 0)
        rc = read_within(m, "rope.scaling.yarn_ext_factor", 0, 1, "0 to 1", 1, &s->ext_factor, err);
    if (rc >= 0)
        rc = read_within(m, "rope.scaling.yarn_beta_fast", 0.001F, 1e6F, betas, 32, &s->beta_fast, err);
    if (rc >= 0)
        rc = read_within(m, "rope.scaling.yarn_beta_slow", 0.001F, 1e6F, betas, 1, &s->beta_slow, err);
    if (rc >= 0 && s->beta_fast < s->beta_slow)
        rc = akv_arch_wrong_key(m, "rope.scaling.yarn_beta_fast", err, "less than yarn_beta_slow");
    return rc < 0 ? rc : 0;
}

static int read_scaling(struct akv_model *m, struct akv_err *err)
{
    static const char range[] = "0.001 to 1000";
    struct akv_rope_scaling *s = &m->hp.scaling;
    float attn = 1, yarn_attn = 1;
    int rc = read_kind(m, s, err);
    if (rc == 0)
        rc = read_factor(m, s, err);
    if (rc == 0)
        rc = read_within(m, "rope.scaling.attn_factor", 0.001F, 1000, range, 1, &attn, err);
    if (rc >= 0)
        rc = read_within(m, "rope.scaling.yarn_attn_factor", 0.001F, 1000, range, 1, &yarn_attn, err);
    if (rc >= 0)
        rc = s->kind == AKV_ROPE_YARN ? read_yarn(m, s, err) : 0;
    s->attn_factor = s->kind == AKV_ROPE_YARN ? attn * yarn_attn : attn;
    return rc;
}

#define PATTERN "attention.sliding_window_pattern"

/* An array says it of each layer; a number n: the last of every n layers is global; 0: none is. */
static int read_pattern(struct akv_model *m, struct akv_err *err)
{
    const struct akv_gguf_kv *kv = akv_arch_find(m, PATTERN);
    const uint32_t n_layers = m->hp.n_layers;
    uint32_t period = 6;
    if (kv && kv->type == AKV_GGUF_ARRAY) {
        if (kv->elem_type != AKV_GGUF_BOOL && kv->elem_type != AKV_GGUF_U32 && kv->elem_type != AKV_GGUF_I32)
            return akv_arch_wrong_key(m, PATTERN, err, "an array of type %s, must be of bool", akv_gguf_type_name(kv->elem_type));
        if (kv->n != n_layers)
            return akv_arch_wrong_key(m, PATTERN, err, "%llu values for %u layers", (unsigned long long)kv->n, n_layers);
        for (uint32_t i = 0; i < n_layers; i++)
            m->layers[i].local = akv_gguf_array_u32(kv, i) != 0;
        return 0;
    }
    int rc = akv_arch_u32(m, PATTERN, &period, err);
    for (uint32_t i = 0; rc >= 0 && i < n_layers; i++)
        m->layers[i].local = period == 0 || i % period + 1 < period;
    return rc < 0 ? rc : 0;
}

static int read_windows(struct akv_model *m, struct akv_err *err)
{
    uint32_t window = 0;
    int rc = akv_arch_u32(m, "attention.sliding_window", &window, err);
    if (rc < 0 || !window)
        return rc < 0 ? rc : 0;
    rc = read_pattern(m, err);
    for (uint32_t i = 0; rc == 0 && i < m->hp.n_layers; i++)
        if (m->layers[i].local)
            m->hp.window = window;
    return rc == 0 && m->hp.window ? akv_arch_positive(m, "rope.freq_base_swa", 10000, &m->hp.rope_base_local, err) : rc;
}

int akv_arch_read_positions(struct akv_model *m, struct akv_err *err)
{
    int rc = read_scaling(m, err);
    return rc == 0 && m->arch->features & AKV_HAS_WINDOWS ? read_windows(m, err) : rc;
}
