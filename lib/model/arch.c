/* The table of architectures, and the reasons for refusing what is not in it. */
#include "model/arch.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"

#define N_OF(a) (sizeof(a) / sizeof *(a))

static const struct akv_arch archs[] = {
    {.name = "llama", .rope_style = AKV_ROPE_PAIRS, .features = AKV_HAS_ROPE_FACTORS},
    {.name = "qwen2", .rope_style = AKV_ROPE_HALVES, .features = AKV_HAS_QKV_BIAS},
    {.name = "qwen3", .rope_style = AKV_ROPE_HALVES, .features = AKV_HAS_QK_NORM},
    {.name = "gemma3",
     .rope_style = AKV_ROPE_HALVES,
     .activation = AKV_GELU_TANH,
     .features = AKV_HAS_QK_NORM | AKV_HAS_POST_NORMS | AKV_HAS_EMBD_SCALE | AKV_HAS_WINDOWS | AKV_HAS_SOFTCAP,
     .width_scale_layers = 62},
};

/* Models that carry a state from token to token beside (or instead of) the KV cache. */
static const char *const recurrent[] = {"mamba",     "mamba2",        "rwkv6",      "rwkv6qwen2",     "rwkv7",  "arwkv7", "jamba",
                                        "falcon-h1", "granitehybrid", "nemotron_h", "nemotron_h_moe", "plamo2", "lfm2",   "lfm2moe",
                                        "qwen3next", "qwen35",        "qwen35moe",  "kimi-linear",    "bamba",  "zamba2"};

/* Groups of keys, below the architecture's name, that only such models have. */
static const char *const recurrent_keys[] = {"ssm.", "wkv.", "shortconv.", "kda."};

static bool begins(struct akv_str s, const char *prefix)
{
    size_t n = strlen(prefix);
    return s.len >= n && !memcmp(s.s, prefix, n);
}

/* key = arch "." rest; false when key belongs to something else. */
static bool key_below(struct akv_str key, struct akv_str arch, struct akv_str *rest)
{
    if (key.len <= arch.len || memcmp(key.s, arch.s, arch.len) || key.s[arch.len] != '.')
        return false;
    *rest = (struct akv_str){key.s + arch.len + 1, key.len - arch.len - 1};
    return true;
}

static bool is_recurrent(const struct akv_gguf *g, struct akv_str arch)
{
    for (size_t i = 0; i < N_OF(recurrent); i++)
        if (akv_str_is(arch, recurrent[i]))
            return true;
    struct akv_str rest;
    for (uint64_t i = 0; i < g->n_kv; i++)
        for (size_t k = 0; k < N_OF(recurrent_keys); k++)
            if (key_below(g->kv[i].key, arch, &rest) && begins(rest, recurrent_keys[k]))
                return true;
    return false;
}

int akv_arch_pick(const struct akv_arch **out, const struct akv_gguf *g, struct akv_err *err)
{
    struct akv_str name;
    int rc = akv_gguf_str(g, "general.architecture", &name, err);
    if (rc < 0)
        return rc;
    if (rc == 0)
        return akv_fail(err, AKV_E_INPUT, "%s: key general.architecture: missing", g->path);
    char list[256] = "";
    for (size_t i = 0, n = 0; i < N_OF(archs); i++) {
        if (akv_str_is(name, archs[i].name)) {
            *out = &archs[i];
            return 0;
        }
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", n ? ", " : "", archs[i].name);
    }
    if (is_recurrent(g, name))
        return akv_fail(err, AKV_E_INCOMPAT,
                        "%s: architecture %s: it keeps a recurrent state, which pages of attention keys and values do not hold: "
                        "restoring them would give wrong answers",
                        g->path, akv_str_show(name).s);
    return akv_fail(err, AKV_E_INCOMPAT, "%s: architecture %s: not supported (supported: %s)", g->path, akv_str_show(name).s, list);
}

/* Keys that select another computation, with the value that leaves it as it is, unless the architecture has what they select. */
static const struct variant {
    const char *key; /* below the architecture's name */
    const char *what;
    float neutral;
    unsigned feature;
} variants[] = {
    {"rope.scaling.yarn_log_multiplier", "this form of YaRN", 0, 0},
    {"rope.dimension_sections", "RoPE in sections", 0, 0},
    {"expert_count", "a mixture of experts", 0, 0},
    {"attention.sliding_window", "a sliding window", 0, AKV_HAS_WINDOWS},
    {"attention.scale", "a scale of its own for attention", 0, 0},
    {"attention.clamp_kqv", "clamped projections", 0, 0},
    {"attention.causal", "attention in both directions", 1, 0},
    {"attn_logit_softcapping", "softcapped attention", 0, 0},
    {"final_logit_softcapping", "softcapped logits", 0, AKV_HAS_SOFTCAP},
    {"embedding_scale", "scaled embeddings", 1, 0},
    {"residual_scale", "scaled residuals", 1, 0},
    {"logit_scale", "scaled logits", 1, 0},
};

/* Below rope.scaling., where any other key would mean another way of scaling; `finetuned` only informs. */
static const char *const scaling_keys[] = {"type",           "factor",          "attn_factor",
                                           "finetuned",      "yarn_ext_factor", "yarn_attn_factor",
                                           "yarn_beta_fast", "yarn_beta_slow",  "original_context_length"};

/* Whether a number or boolean is exactly v; another type is not. */
static bool equals(const struct akv_gguf_kv *kv, float v)
{
    struct akv_gguf_kv one = *kv;
    one.elem_type = kv->type;
    if (kv->type == AKV_GGUF_F32 || kv->type == AKV_GGUF_F64)
        return akv_gguf_array_f32(&one, 0) == v;
    if (kv->type == AKV_GGUF_STRING || kv->type == AKV_GGUF_ARRAY)
        return false;
    return (float)akv_gguf_array_u32(&one, 0) == v;
}

/* What a key selects that is not built, or NULL. */
static const char *selects(const struct akv_arch *a, const struct akv_gguf_kv *kv, struct akv_str rest)
{
    for (size_t i = 0; i < N_OF(variants); i++)
        if (akv_str_is(rest, variants[i].key))
            return a->features & variants[i].feature || equals(kv, variants[i].neutral) ? NULL : variants[i].what;
    static const char scaling[] = "rope.scaling.";
    if (!begins(rest, scaling))
        return NULL;
    for (size_t i = 0; i < N_OF(scaling_keys); i++)
        if (akv_str_is((struct akv_str){rest.s + sizeof scaling - 1, rest.len - (sizeof scaling - 1)}, scaling_keys[i]))
            return NULL;
    return "this way of scaling RoPE";
}

int akv_arch_check_keys(const struct akv_arch *a, const struct akv_gguf *g, struct akv_err *err)
{
    struct akv_str arch = {a->name, strlen(a->name)}, rest;
    for (uint64_t i = 0; i < g->n_kv; i++) {
        const struct akv_gguf_kv *kv = &g->kv[i];
        if (!key_below(kv->key, arch, &rest))
            continue;
        const char *what = selects(a, kv, rest);
        if (what)
            return akv_fail(err, AKV_E_INCOMPAT, "%s: key %s at offset %llu: %s is not supported yet", g->path,
                            akv_str_show(kv->key).s, (unsigned long long)kv->offset, what);
    }
    return 0;
}
