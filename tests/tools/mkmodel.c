/*
 * mkmodel: writes a small random llama model as GGUF, complete with tokenizer and chat template: the model that the tests run on.
 * The same options give the same bytes on every machine. The weights mean nothing; the text that comes out is noise that does not
 * repeat itself at once.
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

#define N_SPECIAL 3u
#define N_MERGES 125u
#define N_VOCAB (N_SPECIAL + 256u + N_MERGES)
#define ALIGN 32u

struct options {
    const char *out, *arch;
    enum akv_dtype dtype;
    uint64_t seed;
    unsigned layers, width, heads, kv_heads, ff, ctx;
    bool tied, vocab_only;
};

static const char *const specials[N_SPECIAL] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};

static const char chat_template[] = "{% for message in messages %}"
                                    "{% if loop.first and messages[0]['role'] != 'system' %}"
                                    "{{ '<|im_start|>system\nYou are a small model made for tests.<|im_end|>\n' }}"
                                    "{% endif %}"
                                    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
                                    "{% endfor %}"
                                    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

/* What the merges are learnt from: the kind of text that the tests send. */
static const char corpus[] =
    "You are a helpful assistant that plans the work of a small workshop. Answer in short sentences and call a tool when the "
    "question "
    "needs one. The tools are described below, each with its name, its parameters and what it returns. The weather tool takes the "
    "name "
    "of a city and returns the temperature in degrees and the chance of rain. The calendar tool takes a date and returns the list "
    "of "
    "appointments of that day. The search tool takes a question and returns the three best answers with the place where they were "
    "found. "
    "When the user asks for the time of a meeting, look into the calendar first, then answer with the time and the name of the "
    "room. "
    "What is the weather in the city today? It is warm and there is no chance of rain this morning. Then we should meet outside "
    "after "
    "lunch. Please write a short note to the others and tell them where to find us. The system reads the message, the model writes "
    "the "
    "answer, and the store keeps the pages that both of them have seen before, so that the next question is answered in less time. "
    "name: string, type: object, required: true, description: the name of the function and the values that it takes. ";

/* ---- vocabulary ---- */

struct vocab {
    char text[N_VOCAB][64]; /* in the byte alphabet of GPT-2; learnt ones join two of at most 31 bytes */
    char merges[N_MERGES][128];
    uint16_t byte_id[256];
};

/* Bytes that print stand for themselves, the others for code points from 256 on: so no token holds a space or a control byte. */
static void alphabet(struct vocab *v)
{
    unsigned id = N_SPECIAL;
    for (int pass = 0; pass < 2; pass++) {
        unsigned other = 256;
        for (unsigned b = 0; b < 256; b++) {
            bool prints = (b >= 33 && b <= 126) || (b >= 161 && b != 173);
            unsigned cp = prints ? b : other++;
            if (prints != (pass == 0))
                continue;
            char *t = v->text[id];
            if (cp < 128) {
                t[0] = (char)cp;
            } else {
                t[0] = (char)(0xc0 | cp >> 6);
                t[1] = (char)(0x80 | (cp & 63));
            }
            v->byte_id[b] = (uint16_t)id++;
        }
    }
}

static bool letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Pairs are counted within words: letters with the space before them. The rest stays single bytes. */
static size_t split_words(const struct vocab *v, uint16_t *ids, bool *starts)
{
    size_t n = sizeof corpus - 1;
    for (size_t i = 0; i < n; i++) {
        char c = corpus[i], before = i ? corpus[i - 1] : ' ';
        ids[i] = v->byte_id[(unsigned char)c];
        starts[i] = !(letter(c) && (letter(before) || before == ' '));
    }
    return n;
}

/* The most frequent pair; among equals the one with the lowest ids. */
static bool best_pair(const uint16_t *ids, const bool *starts, size_t n, uint16_t pair[2])
{
    static uint16_t count[N_VOCAB][N_VOCAB];
    memset(count, 0, sizeof count);
    for (size_t i = 1; i < n; i++)
        if (!starts[i])
            count[ids[i - 1]][ids[i]]++;
    unsigned best = 1;
    for (unsigned a = 0; a < N_VOCAB; a++)
        for (unsigned b = 0; b < N_VOCAB; b++)
            if (count[a][b] > best) {
                best = count[a][b];
                pair[0] = (uint16_t)a;
                pair[1] = (uint16_t)b;
            }
    return best > 1;
}

static size_t apply_merge(uint16_t *ids, bool *starts, size_t n, const uint16_t pair[2], uint16_t id)
{
    size_t out = 0;
    for (size_t i = 0; i < n; i++, out++) {
        starts[out] = starts[i];
        if (i + 1 < n && ids[i] == pair[0] && ids[i + 1] == pair[1] && !starts[i + 1]) {
            ids[out] = id;
            i++;
        } else {
            ids[out] = ids[i];
        }
    }
    return out;
}

static bool make_vocab(struct vocab *v)
{
    static uint16_t ids[sizeof corpus];
    static bool starts[sizeof corpus];
    memset(v, 0, sizeof *v);
    for (unsigned i = 0; i < N_SPECIAL; i++)
        snprintf(v->text[i], sizeof v->text[i], "%s", specials[i]);
    alphabet(v);
    size_t n = split_words(v, ids, starts);
    for (unsigned m = 0; m < N_MERGES; m++) {
        uint16_t pair[2] = {0, 0}, id = (uint16_t)(N_SPECIAL + 256 + m);
        if (!best_pair(ids, starts, n, pair) || strlen(v->text[pair[0]]) > 31 || strlen(v->text[pair[1]]) > 31)
            return false;
        const char *a = v->text[pair[0]], *b = v->text[pair[1]];
        snprintf(v->merges[m], sizeof v->merges[m], "%s %s", a, b);
        memcpy(v->text[id], a, strlen(a));
        memcpy(v->text[id] + strlen(a), b, strlen(b) + 1);
        n = apply_merge(ids, starts, n, pair, id);
    }
    return true;
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
    put_f32_key(k, ".rope.freq_base", 10000.0F);
    put_u32_key(k, ".rope.dimension_count", o->width / o->heads);
    put_u32_key(k, ".vocab_size", N_VOCAB);
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

/* Round to nearest even, subnormals kept; the magnitudes here never overflow. */
static uint16_t to_f16(float v)
{
    uint32_t x;
    memcpy(&x, &v, sizeof x);
    uint32_t sign = x >> 16 & 0x8000, mag = x & 0x7fffffff;
    int exp = (int)(mag >> 23) - 112; /* biased for f16 */
    if (exp < -10)
        return (uint16_t)sign;
    uint32_t man = (mag & 0x7fffff) | 0x800000;
    unsigned drop = exp > 0 ? 13 : (unsigned)(14 - exp);
    uint32_t kept = man >> drop, rest = man & ((1u << drop) - 1), half = 1u << (drop - 1);
    kept += rest > half || (rest == half && (kept & 1));
    return (uint16_t)(sign | (kept + (exp > 0 ? (uint32_t)(exp - 1) << 10 : 0)));
}

static int nearest(float v)
{
    return (int)(v < 0 ? v - 0.5F : v + 0.5F);
}

static unsigned nibble(float v)
{
    int q = nearest(v);
    return (unsigned)(q < 0 ? 0 : q > 15 ? 15 : q);
}

static void put_q8_0(struct akv_buf *b, const float *x)
{
    float amax = 0;
    for (int i = 0; i < 32; i++)
        amax = fabsf(x[i]) > amax ? fabsf(x[i]) : amax;
    float d = amax / 127;
    akv_buf_put_u16(b, to_f16(d));
    for (int i = 0; i < 32; i++)
        akv_buf_putc(b, nearest(d > 0 ? x[i] / d : 0) & 255);
}

/* The value of largest magnitude becomes code 0, -8 times the scale. */
static void put_q4_0(struct akv_buf *b, const float *x)
{
    float peak = 0;
    for (int i = 0; i < 32; i++)
        peak = fabsf(x[i]) > fabsf(peak) ? x[i] : peak;
    float d = peak / -8;
    akv_buf_put_u16(b, to_f16(d));
    for (int i = 0; i < 16; i++) {
        float lo = peak != 0 ? x[i] / d : 0, hi = peak != 0 ? x[i + 16] / d : 0;
        akv_buf_putc(b, (int)(nibble(lo + 8) | nibble(hi + 8) << 4));
    }
}

static void put_q4_1(struct akv_buf *b, const float *x)
{
    float min = x[0], max = x[0];
    for (int i = 1; i < 32; i++) {
        min = x[i] < min ? x[i] : min;
        max = x[i] > max ? x[i] : max;
    }
    float d = (max - min) / 15;
    akv_buf_put_u16(b, to_f16(d));
    akv_buf_put_u16(b, to_f16(min));
    for (int i = 0; i < 16; i++) {
        float lo = d > 0 ? (x[i] - min) / d : 0, hi = d > 0 ? (x[i + 16] - min) / d : 0;
        akv_buf_putc(b, (int)(nibble(lo) | nibble(hi) << 4));
    }
}

/* n values; a multiple of the block. */
static void put_values(struct akv_buf *b, enum akv_dtype dtype, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += akv_dtypes[dtype].block) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        switch (dtype) {
        case AKV_F16:
            akv_buf_put_u16(b, to_f16(x[i]));
            break;
        case AKV_Q8_0:
            put_q8_0(b, x + i);
            break;
        case AKV_Q4_0:
            put_q4_0(b, x + i);
            break;
        case AKV_Q4_1:
            put_q4_1(b, x + i);
            break;
        default: /* F32 */
            akv_buf_put_u32(b, bits);
        }
    }
}

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

static void put_layer(struct tensors *t, const struct options *o, unsigned i)
{
    const size_t w = o->width, kv = w / o->heads * o->kv_heads;
    /* a tied model must drown its input, or it would say it again and again */
    const float out = o->tied ? 6 : 2;
    const struct {
        const char *name;
        size_t rows, k; /* rows 0: a norm */
        float gain;
    } parts[] = {
        {"attn_norm", 0, w, 0},    {"attn_q", w, w, 2},        {"attn_k", kv, w, 2},
        {"attn_v", kv, w, 1},      {"attn_output", w, w, out}, {"ffn_norm", 0, w, 0},
        {"ffn_gate", o->ff, w, 2}, {"ffn_up", o->ff, w, 1},    {"ffn_down", w, o->ff, out / 2},
    };
    for (size_t p = 0; p < sizeof parts / sizeof *parts; p++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%u.%s.weight", i, parts[p].name);
        if (parts[p].rows)
            put_matrix(t, o, name, parts[p].rows, parts[p].k, parts[p].gain);
        else
            put_tensor(t, name, AKV_F32, 0, w, 1, 0.25F);
    }
}

static void put_tensors(struct tensors *t, const struct options *o)
{
    put_tensor(t, "token_embd.weight", o->dtype, N_VOCAB, o->width, 0, 1);
    for (unsigned i = 0; i < o->layers; i++)
        put_layer(t, o, i);
    put_tensor(t, "output_norm.weight", AKV_F32, 0, o->width, 1, 0.25F);
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
    "usage: mkmodel -o FILE [--dtype f32|f16|q8_0|q4_0|q4_1] [--seed N] [--layers N] [--width N] [--heads N]\n"
    "               [--kv-heads N] [--ff N] [--ctx N] [--tied] [--arch NAME] [--vocab-only]\n";

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
    static const struct {
        const char *name;
        enum akv_dtype dtype;
    } names[] = {{"f32", AKV_F32}, {"f16", AKV_F16}, {"q8_0", AKV_Q8_0}, {"q4_0", AKV_Q4_0}, {"q4_1", AKV_Q4_1}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(s, names[i].name)) {
            *out = names[i].dtype;
            return true;
        }
    return false;
}

static bool parse(struct options *o, int argc, char **argv)
{
    static const struct option longs[] = {
        {"dtype", 1, NULL, 'd'}, {"seed", 1, NULL, 's'},     {"layers", 1, NULL, 'l'},     {"width", 1, NULL, 'w'},
        {"heads", 1, NULL, 'H'}, {"kv-heads", 1, NULL, 'k'}, {"ff", 1, NULL, 'f'},         {"ctx", 1, NULL, 'c'},
        {"tied", 0, NULL, 't'},  {"arch", 1, NULL, 'a'},     {"vocab-only", 0, NULL, 'v'}, {NULL, 0, NULL, 0},
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
        default:
            ok = false;
        }
    }
    uint32_t block = akv_dtypes[o->dtype].block;
    return ok && optind == argc && o->out && o->width % o->heads == 0 && o->width / o->heads % 2 == 0 &&
           o->heads % o->kv_heads == 0 && o->width % block == 0 && o->ff % block == 0;
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
                        .ctx = 8192};
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
