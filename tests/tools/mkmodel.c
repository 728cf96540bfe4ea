/*
 * mkmodel: writes a small random model as GGUF, complete with tokenizer and chat template: the model that the tests run on. Any
 * architecture that runs can be asked for. The same options give the same bytes on every machine. The weights mean nothing; the
 * text that comes out is noise that does not repeat itself at once.
 */
#include <fcntl.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/io.h"
#include "model/gguf.h"
#include "tests/tools/mkmodel_blocks.h"
#include "tests/tools/mkmodel_vocab.h"

#define ALIGN 32u

/* What an architecture has beyond a llama; one that is not listed is written like a llama under its name. */
struct shape {
    const char *arch;
    bool qkv_bias, qk_norm, post_norms, windows;
};

static const struct shape shapes[] = {
    {.arch = "qwen2", .qkv_bias = true},
    {.arch = "qwen3", .qk_norm = true},
    {.arch = "gemma3", .qk_norm = true, .post_norms = true, .windows = true},
};

struct options {
    const char *out, *arch, *rope;
    struct shape shape;
    enum akv_dtype dtype;
    uint64_t seed;
    unsigned layers, width, heads, kv_heads, head_dim, ff, ctx, window, pattern, softcap;
    bool tied, vocab_only;
};

static size_t head_dim(const struct options *o)
{
    return o->head_dim ? o->head_dim : o->width / o->heads;
}

/* ---- keys ---- */

struct keys {
    struct akv_buf buf;
    const char *arch;
    uint64_t n;
};

static void put_string(struct akv_buf *b, const char *s)
{
    akv_buf_put_u64(b, strlen(s));
    akv_buf_puts(b, s);
}

/* name with a leading dot: below the architecture. */
static void put_key(struct keys *k, const char *name, uint32_t type)
{
    char full[128];
    snprintf(full, sizeof full, "%s%s", name[0] == '.' ? k->arch : "", name);
    put_string(&k->buf, full);
    akv_buf_put_u32(&k->buf, type);
    k->n++;
}

static void put_u32_key(struct keys *k, const char *name, uint32_t v)
{
    put_key(k, name, AKV_GGUF_U32);
    akv_buf_put_u32(&k->buf, v);
}

static void put_f32_key(struct keys *k, const char *name, float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    put_key(k, name, AKV_GGUF_F32);
    akv_buf_put_u32(&k->buf, bits);
}

static void put_string_key(struct keys *k, const char *name, const char *v)
{
    put_key(k, name, AKV_GGUF_STRING);
    put_string(&k->buf, v);
}

static void put_array_key(struct keys *k, const char *name, uint32_t type, uint64_t n)
{
    put_key(k, name, AKV_GGUF_ARRAY);
    akv_buf_put_u32(&k->buf, type);
    akv_buf_put_u64(&k->buf, n);
}

static void put_hparams(struct keys *k, const struct options *o)
{
    put_string_key(k, "general.architecture", o->arch);
    put_string_key(k, "general.name", "a random model for tests");
    put_u32_key(k, ".block_count", o->layers);
    put_u32_key(k, ".context_length", o->ctx);
    put_u32_key(k, ".embedding_length", o->width);
    put_u32_key(k, ".feed_forward_length", o->ff);
    put_u32_key(k, ".attention.head_count", o->heads);
    put_u32_key(k, ".attention.head_count_kv", o->kv_heads);
    put_f32_key(k, ".attention.layer_norm_rms_epsilon", 1e-5F);
    bool llama = !o->shape.arch; /* the others leave out what the defaults say */
    put_f32_key(k, ".rope.freq_base", llama ? 10000.0F : 1e6F);
    if (llama) {
        put_u32_key(k, ".rope.dimension_count", (uint32_t)head_dim(o));
        put_u32_key(k, ".vocab_size", N_VOCAB);
    }
    if (o->head_dim || o->shape.qk_norm) {
        put_u32_key(k, ".attention.key_length", (uint32_t)head_dim(o));
        put_u32_key(k, ".attention.value_length", (uint32_t)head_dim(o));
    }
    if (o->shape.windows)
        put_u32_key(k, ".attention.sliding_window", o->window);
    if (o->pattern)
        put_u32_key(k, ".attention.sliding_window_pattern", o->pattern);
    if (o->softcap)
        put_f32_key(k, ".final_logit_softcapping", (float)o->softcap);
    if (o->rope && strcmp(o->rope, "factors") != 0) {
        put_string_key(k, ".rope.scaling.type", o->rope);
        put_f32_key(k, ".rope.scaling.factor", 4);
        put_u32_key(k, ".rope.scaling.original_context_length", 64);
    }
}

static void put_tokenizer(struct keys *k, const struct vocab *v)
{
    put_string_key(k, "tokenizer.ggml.model", "gpt2");
    put_string_key(k, "tokenizer.ggml.pre", "smollm");
    put_array_key(k, "tokenizer.ggml.tokens", AKV_GGUF_STRING, N_VOCAB);
    for (unsigned i = 0; i < N_VOCAB; i++)
        put_string(&k->buf, v->text[i]);
    put_array_key(k, "tokenizer.ggml.token_type", AKV_GGUF_I32, N_VOCAB);
    for (unsigned i = 0; i < N_VOCAB; i++)
        akv_buf_put_u32(&k->buf, i < N_SPECIAL ? 3 : 1);
    put_array_key(k, "tokenizer.ggml.merges", AKV_GGUF_STRING, N_MERGES);
    for (unsigned i = 0; i < N_MERGES; i++)
        put_string(&k->buf, v->merges[i]);
    put_u32_key(k, "tokenizer.ggml.bos_token_id", 1);
    put_u32_key(k, "tokenizer.ggml.eos_token_id", 2);
    put_u32_key(k, "tokenizer.ggml.unknown_token_id", 0);
    put_u32_key(k, "tokenizer.ggml.padding_token_id", 2);
    put_key(k, "tokenizer.ggml.add_bos_token", AKV_GGUF_BOOL);
    akv_buf_putc(&k->buf, 0);
    put_string_key(k, "tokenizer.chat_template", chat_template);
}

/* ---- weights ---- */

/* SplitMix64; 24 bits to [-1, 1). */
static float draw(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return (float)(z >> 40) * 0x1p-23F - 1;
}

struct tensors {
    struct akv_buf infos, data;
    uint64_t n, seed;
};

/* rows x k values, base + spread * uniform; rows 0: a vector. Each tensor has its own stream, so that a model's other sizes and
 * types do not move its values. */
static void put_tensor(struct tensors *t, const char *name, enum akv_dtype dtype, size_t rows, size_t k, float base, float spread)
{
    while (t->data.len % ALIGN)
        akv_buf_putc(&t->data, 0);
    put_string(&t->infos, name);
    akv_buf_put_u32(&t->infos, rows ? 2 : 1);
    akv_buf_put_u64(&t->infos, k);
    if (rows)
        akv_buf_put_u64(&t->infos, rows);
    akv_buf_put_u32(&t->infos, dtype);
    akv_buf_put_u64(&t->infos, t->data.len);
    t->n++;
    uint64_t state = t->seed ^ akv_xxh64(name, strlen(name));
    float row[4096];
    for (size_t r = 0; r < (rows ? rows : 1); r++) {
        for (size_t i = 0; i < k; i++)
            row[i] = base + spread * draw(&state);
        put_values(&t->data, dtype, row, k);
    }
}

/* Spread so that outputs have about `gain` times the size of the inputs. */
static void put_matrix(struct tensors *t, const struct options *o, const char *name, size_t rows, size_t k, float gain)
{
    put_tensor(t, name, o->dtype, rows, k, 0, gain * sqrtf(3.0F / (float)k));
}

/* A vector of about `middle`; a bias, whose middle is 0, of up to 1. */
static void put_vector(struct tensors *t, const char *name, size_t n, float middle)
{
    put_tensor(t, name, AKV_F32, 0, n, middle, middle > 0 ? 0.25F * middle : 1);
}

static void put_layer(struct tensors *t, const struct options *o, unsigned i)
{
    const struct shape *s = &o->shape;
    const size_t w = o->width, dim = head_dim(o), q = dim * o->heads, kv = dim * o->kv_heads;
    /* a tied model must drown its input, or it would say it again and again; a gemma has it scaled up */
    const float out = o->tied ? 6 : 2;
    const struct {
        const char *name;
        size_t rows, k; /* rows 0: a vector */
        float gain;     /* or its middle */
        bool absent;
    } parts[] = {
        {"attn_norm.weight", 0, w, 1, false},
        {"attn_q.weight", q, w, 2, false},
        {"attn_q.bias", 0, q, 0, !s->qkv_bias},
        {"attn_k.weight", kv, w, 2, false},
        {"attn_k.bias", 0, kv, 0, !s->qkv_bias},
        {"attn_v.weight", kv, w, 1, false},
        {"attn_v.bias", 0, kv, 0, !s->qkv_bias},
        {"attn_q_norm.weight", 0, dim, 2, !s->qk_norm},
        {"attn_k_norm.weight", 0, dim, 2, !s->qk_norm},
        {"attn_output.weight", w, q, out, false},
        {"post_attention_norm.weight", 0, w, 8 * out, !s->post_norms},
        {"ffn_norm.weight", 0, w, 1, false},
        {"ffn_gate.weight", o->ff, w, 2, false},
        {"ffn_up.weight", o->ff, w, 1, false},
        {"ffn_down.weight", w, o->ff, out / 2, false},
        {"post_ffw_norm.weight", 0, w, 8 * out, !s->post_norms},
    };
    for (size_t p = 0; p < sizeof parts / sizeof *parts; p++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%u.%s", i, parts[p].name);
        if (parts[p].absent)
            continue;
        if (parts[p].rows)
            put_matrix(t, o, name, parts[p].rows, parts[p].k, parts[p].gain);
        else
            put_vector(t, name, parts[p].k, parts[p].gain);
    }
}

/* Factors from 1 to 8, as long-context llamas have them. */
static void put_rope_factors(struct tensors *t, const struct options *o)
{
    put_tensor(t, "rope_freqs.weight", AKV_F32, 0, head_dim(o) / 2, 4.5F, 3.5F);
}

static void put_tensors(struct tensors *t, const struct options *o)
{
    put_tensor(t, "token_embd.weight", o->dtype, N_VOCAB, o->width, 0, 1);
    for (unsigned i = 0; i < o->layers; i++)
        put_layer(t, o, i);
    put_vector(t, "output_norm.weight", o->width, 1);
    if (o->rope && strcmp(o->rope, "factors") == 0)
        put_rope_factors(t, o);
    if (!o->tied)
        put_matrix(t, o, "output.weight", N_VOCAB, o->width, 3);
}

/* ---- the file ---- */

static int write_file(const char *path, const struct akv_buf *head, const struct akv_buf *data, struct akv_err *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        return akv_fail_errno(err, "%s: cannot create", path);
    int rc = akv_write_all(fd, head->data, head->len, path, err);
    if (rc == 0)
        rc = akv_write_all(fd, data->data, data->len, path, err);
    if (close(fd) && rc == 0)
        rc = akv_fail_errno(err, "%s: cannot write", path);
    return rc;
}

static int make(const struct options *o, struct akv_err *err)
{
    static struct vocab vocab;
    struct keys k = {.arch = o->arch};
    struct tensors t = {.seed = o->seed};
    struct akv_buf head;
    akv_buf_init(&head, 0);
    akv_buf_init(&k.buf, 0);
    akv_buf_init(&t.infos, 0);
    akv_buf_init(&t.data, 0);
    int rc = make_vocab(&vocab) ? 0 : akv_fail(err, AKV_E_USAGE, "the built-in text gives no vocabulary");
    if (rc == 0) {
        put_hparams(&k, o);
        put_tokenizer(&k, &vocab);
        if (!o->vocab_only)
            put_tensors(&t, o);
        akv_buf_puts(&head, "GGUF");
        akv_buf_put_u32(&head, 3);
        akv_buf_put_u64(&head, t.n);
        akv_buf_put_u64(&head, k.n);
        akv_buf_add(&head, k.buf.data, k.buf.len);
        akv_buf_add(&head, t.infos.data, t.infos.len);
        while (head.len % ALIGN)
            akv_buf_putc(&head, 0);
        if ((rc = akv_buf_check(&head, "keys", err)) == 0 && (rc = akv_buf_check(&t.data, "weights", err)) == 0)
            rc = write_file(o->out, &head, &t.data, err);
    }
    akv_buf_release(&head);
    akv_buf_release(&k.buf);
    akv_buf_release(&t.infos);
    akv_buf_release(&t.data);
    return rc;
}

/* ---- options ---- */

static const char usage[] =
    "usage: mkmodel -o FILE [--dtype f32|q4_1|...] [--seed N] [--layers N] [--width N] [--heads N] [--kv-heads N]\n"
    "               [--head-dim N] [--ff N] [--ctx N] [--tied] [--arch NAME] [--vocab-only]\n"
    "               [--rope linear|yarn|factors]              any architecture; factors: a llama\n"
    "               [--window N] [--pattern N] [--softcap N]  gemma3, which is always tied\n";

static bool number(const char *s, uint64_t max, uint64_t *out)
{
    char *end;
    *out = strtoull(s, &end, 10);
    return *s >= '0' && *s <= '9' && !*end && *out <= max;
}

static bool count(const char *s, unsigned max, unsigned *out)
{
    uint64_t v;
    bool ok = number(s, max, &v) && v > 0;
    *out = (unsigned)v;
    return ok;
}

static bool dtype(const char *s, enum akv_dtype *out)
{
    static const enum akv_dtype types[] = {AKV_F32,  AKV_F16,  AKV_BF16, AKV_Q8_0, AKV_Q4_0, AKV_Q4_1,   AKV_Q5_0,   AKV_Q5_1,
                                           AKV_Q2_K, AKV_Q3_K, AKV_Q4_K, AKV_Q5_K, AKV_Q6_K, AKV_IQ4_NL, AKV_IQ4_XS, AKV_MXFP4};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const char *name = akv_dtypes[types[i]].name;
        size_t at = 0;
        while (s[at] && s[at] == (name[at] >= 'A' && name[at] <= 'Z' ? name[at] + 32 : name[at]))
            at++;
        if (!s[at] && !name[at]) {
            *out = types[i];
            return true;
        }
    }
    return false;
}

/* What the options give together. */
static bool settle(struct options *o)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (!strcmp(o->arch, shapes[i].arch))
            o->shape = shapes[i];
    o->tied = o->tied || o->shape.windows;
    uint32_t block = akv_dtypes[o->dtype].block;
    bool rope = !o->rope || !strcmp(o->rope, "linear") || !strcmp(o->rope, "yarn") || !strcmp(o->rope, "factors");
    return rope && o->out && (o->head_dim || o->width % o->heads == 0) && head_dim(o) % 2 == 0 && o->heads % o->kv_heads == 0 &&
           o->width % block == 0 && o->ff % block == 0 && o->heads * head_dim(o) % block == 0;
}

static bool parse(struct options *o, int argc, char **argv)
{
    static const struct option longs[] = {
        {"dtype", 1, NULL, 'd'}, {"seed", 1, NULL, 's'},     {"layers", 1, NULL, 'l'},     {"width", 1, NULL, 'w'},
        {"heads", 1, NULL, 'H'}, {"kv-heads", 1, NULL, 'k'}, {"ff", 1, NULL, 'f'},         {"ctx", 1, NULL, 'c'},
        {"tied", 0, NULL, 't'},  {"arch", 1, NULL, 'a'},     {"vocab-only", 0, NULL, 'v'}, {"head-dim", 1, NULL, 'D'},
        {"rope", 1, NULL, 'r'},  {"window", 1, NULL, 'W'},   {"pattern", 1, NULL, 'p'},    {"softcap", 1, NULL, 'S'},
        {NULL, 0, NULL, 0},
    };
    int c;
    bool ok = true;
    while (ok && (c = getopt_long(argc, argv, "o:", longs, NULL)) != -1) {
        switch (c) {
        case 'o':
            o->out = optarg;
            break;
        case 'd':
            ok = dtype(optarg, &o->dtype);
            break;
        case 's':
            ok = number(optarg, UINT64_MAX, &o->seed);
            break;
        case 'l':
            ok = count(optarg, 64, &o->layers);
            break;
        case 'w':
            ok = count(optarg, 4096, &o->width);
            break;
        case 'H':
            ok = count(optarg, 1024, &o->heads);
            break;
        case 'k':
            ok = count(optarg, 1024, &o->kv_heads);
            break;
        case 'f':
            ok = count(optarg, 4096, &o->ff);
            break;
        case 'c':
            ok = count(optarg, 1u << 30, &o->ctx);
            break;
        case 't':
            o->tied = true;
            break;
        case 'a':
            o->arch = optarg;
            break;
        case 'v':
            o->vocab_only = true;
            break;
        case 'D':
            ok = count(optarg, 4096, &o->head_dim);
            break;
        case 'r':
            o->rope = optarg;
            break;
        case 'W':
            ok = count(optarg, 1u << 20, &o->window);
            break;
        case 'p':
            ok = count(optarg, 1024, &o->pattern);
            break;
        case 'S':
            ok = count(optarg, 1000, &o->softcap);
            break;
        default:
            ok = false;
        }
    }
    return ok && optind == argc && settle(o);
}

int main(int argc, char **argv)
{
    struct options o = {.arch = "llama",
                        .dtype = AKV_Q4_1,
                        .seed = 1,
                        .layers = 2,
                        .width = 128,
                        .heads = 4,
                        .kv_heads = 2,
                        .ff = 384,
                        .ctx = 8192,
                        .window = 16};
    struct akv_err err = {0};
    if (!parse(&o, argc, argv)) {
        fputs(usage, stderr);
        return 2;
    }
    if (make(&o, &err) < 0) {
        fprintf(stderr, "mkmodel: %s\n", err.msg);
        return 5;
    }
    return 0;
}
