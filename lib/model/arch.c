/* The table of architectures, and the reasons for refusing what is not in it. */
#include "model/arch.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"

#define N_OF(a) (sizeof(a) / sizeof *(a))

static const struct akv_arch archs[] = {
    {.name = "llama", .rope_style = AKV_ROPE_PAIRS},
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

/* Keys that select another computation, with the value that leaves it as it is. */
static const struct variant {
    const char *key; /* below the architecture's name; a final dot: every key of the group */
    const char *what;
    float neutral;
} variants[] = {
    {"rope.scaling.", "RoPE scaling", 0},
    {"rope.scale_linear", "RoPE scaling", 1},
    {"expert_count", "a mixture of experts", 0},
    {"attention.sliding_window", "a sliding window", 0},
    {"attention.scale", "a scale of its own for attention", 0},
    {"attention.clamp_kqv", "clamped projections", 0},
    {"attention.causal", "attention in both directions", 1},
    {"embedding_scale", "scaled embeddings", 1},
    {"residual_scale", "scaled residuals", 1},
    {"logit_scale", "scaled logits", 1},
};

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

int akv_arch_check_keys(const struct akv_arch *a, const struct akv_gguf *g, struct akv_err *err)
{
    struct akv_str arch = {a->name, strlen(a->name)}, rest;
    for (uint64_t i = 0; i < g->n_kv; i++) {
        const struct akv_gguf_kv *kv = &g->kv[i];
        if (!key_below(kv->key, arch, &rest))
            continue;
        for (size_t k = 0; k < N_OF(variants); k++) {
            const struct variant *v = &variants[k];
            bool group = v->key[strlen(v->key) - 1] == '.';
            if (group ? !begins(rest, v->key) : !akv_str_is(rest, v->key) || equals(kv, v->neutral))
                continue;
            return akv_fail(err, AKV_E_INCOMPAT, "%s: key %s at offset %llu: %s is not supported yet", g->path,
                            akv_str_show(kv->key).s, (unsigned long long)kv->offset, v->what);
        }
    }
    uint32_t parts = 0;
    int rc = akv_gguf_u32(g, "split.count", &parts, err);
    if (rc >= 0 && parts > 1)
        return akv_fail(err, AKV_E_INCOMPAT, "%s: one of %u parts of a split model: not supported yet", g->path, parts);
    return rc < 0 ? rc : 0;
}
