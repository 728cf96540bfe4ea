#include <stdlib.h>
#include <string.h>

#include "engine/bench_ops.h"

#define ROWS ((size_t)256)         /* of activations in a step of pfill */
#define K ((size_t)1536)           /* inputs of a matrix */
#define OUT_PREFILL ((size_t)192)  /* rows of a matrix: a thread's share of a small one */
#define OUT_DECODE ((size_t)16384) /* ... so many that they do not stay in the caches nearby */
#define VEC ((size_t)4096)         /* values of the other ops: in the nearest cache */
#define DEQUANT_ROWS ((size_t)16)
#define DIM 64u  /* of a head */
#define GROUP 3u /* heads that share keys */
#define KEYS_PREFILL 512u
#define ROWS_PREFILL 16u
#define KEYS_DECODE 2048u
#define HEAD_VALUES ((size_t)AKV_PAGE * DIM) /* of K, or of V, in a page */

/* ---- inputs ---- */

static uint64_t next(uint64_t *seed) /* SplitMix64 */
{
    uint64_t z = *seed += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static void fill_floats(float *x, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(int32_t)(next(&seed) >> 32) * 0x1p-29f; /* -4 .. 4 */
}

/* n bytes of numbers of a type: no subnormals among the wide ones, which would take the processor much longer. */
static void fill_bits(uint8_t *p, size_t n, enum akv_dtype t)
{
    uint64_t seed = 4 + (uint64_t)t;
    if (t == AKV_F32) {
        fill_floats((float *)(void *)p, n / sizeof(float), seed);
        return;
    }
    for (size_t i = 0; t == AKV_BF16 && i < n; i += 2) {
        uint16_t half = (uint16_t)(0x3c00 | (next(&seed) & 0x83ff)); /* +- 2^-7 .. 2 */
        memcpy(p + i, &half, 2);
    }
    /* Else random bits that are less than 2 as f16 wherever those lie at even offsets: the exponent's highest bit is 0. */
    for (size_t i = 0; t != AKV_BF16 && i < n; i += 8) {
        uint64_t bits = next(&seed) & 0xbfffbfffbfffbfffu;
        memcpy(p + i, &bits, n - i < 8 ? n - i : 8);
    }
}

static size_t row_bytes(enum akv_dtype t)
{
    return K / akv_dtypes[t].block * akv_dtypes[t].block_bytes;
}

static void fill_weights(struct akv_bed *b, enum akv_dtype t, size_t rows)
{
    size_t n = rows * row_bytes(t), block = akv_dtypes[t].block_bytes;
    fill_bits(b->w, n, t);
    for (size_t i = 0; t == AKV_MXFP4 && i < n; i += block) /* the exponent of a block */
        b->w[i] = (uint8_t)(112 + b->w[i] % 16);
}

static void *room(size_t n, struct akv_err *err)
{
    void *p = NULL;
    if (posix_memalign(&p, 64, n)) {
        akv_fail(err, AKV_E_IO, "out of memory");
        return NULL;
    }
    memset(p, 0, n);
    return p;
}

static size_t most_scratch(void)
{
    size_t most = 0;
    for (size_t i = 0; akv_ops_nth(i); i++) {
        const struct akv_ops *ops = akv_ops_nth(i);
        size_t n = ops->attn_scratch_bytes(DIM, DIM);
        most = n > most ? n : most;
        for (int t = 0; t < AKV_DTYPES; t++) {
            n = akv_dtypes[t].runs ? ops->mul_scratch_bytes((enum akv_dtype)t, K) : 0;
            most = n > most ? n : most;
        }
    }
    return most + 64;
}

int akv_bed_open(struct akv_bed *b, struct akv_err *err)
{
    const size_t n_pages = KEYS_DECODE / AKV_PAGE, page_bytes = 2 * HEAD_VALUES * sizeof(float);
    *b = (struct akv_bed){0};
    b->x = room(ROWS * K * sizeof(float), err);
    b->y = room(VEC * sizeof(float), err);
    b->z = room(VEC * sizeof(float), err);
    b->cs = room(DIM * sizeof(float), err);
    b->out = room(ROWS * K * sizeof(float), err);
    b->q = room(ROWS * K, err);
    b->d = room(ROWS * (K / AKV_QBLOCK) * sizeof *b->d, err);
    b->sum = room(ROWS * (K / 16) * sizeof *b->sum, err);
    b->w = room(OUT_DECODE * K * sizeof(float), err);
    b->kv = room(n_pages * page_bytes, err);
    b->pages = room(n_pages * sizeof *b->pages, err);
    b->queries = room(ROWS_PREFILL * GROUP * sizeof *b->queries, err);
    b->scratch = room(most_scratch(), err);
    if (!b->x || !b->y || !b->z || !b->cs || !b->out || !b->q || !b->d || !b->sum || !b->w || !b->kv || !b->pages || !b->queries ||
        !b->scratch)
        return AKV_E_IO;
    for (size_t i = 0; i < n_pages; i++)
        b->pages[i] = b->kv + i * page_bytes;
    fill_floats(b->x, ROWS * K, 1);
    fill_floats(b->y, VEC, 2);
    fill_floats(b->z, VEC, 3);
    for (size_t i = 0; i < VEC; i++)
        b->z[i] /= 4; /* -1 .. 1 */
    for (size_t i = 0; i < DIM / 2; i++) {
        float t = b->z[i], norm = 1 + t * t;
        b->cs[2 * i] = (1 - t * t) / norm;
        b->cs[2 * i + 1] = 2 * t / norm;
    }
    return 0;
}

void akv_bed_release(struct akv_bed *b)
{
    void *all[] = {b->x, b->y, b->z, b->cs, b->out, b->q, b->d, b->sum, b->w, b->kv, b->pages, b->queries, b->scratch};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    *b = (struct akv_bed){0};
}

/* ---- products ---- */

static void prepare_mul(struct akv_bed *b, const struct akv_bench_op *op, const struct akv_ops *scalar)
{
    fill_weights(b, op->dtype, op->out_bytes / sizeof(float) / op->n);
    for (size_t r = 0; r < op->n; r++)
        scalar->quantise(b->q + r * K, b->d + r * (K / AKV_QBLOCK), b->sum + r * (K / 16), b->x + r * K, K);
}

static void run_mul(struct akv_bed *b, const struct akv_bench_op *op, const struct akv_ops *ops)
{
    struct akv_act act = {.n_rows = op->n, .k = K, .x = b->x, .q = b->q, .d = b->d, .sum = b->sum};
    size_t n_out = op->out_bytes / sizeof(float) / op->n;
    struct akv_mul m = {.dtype = op->dtype,
                        .w = b->w,
                        .row_bytes = row_bytes(op->dtype),
                        .act = &act,
                        .to = n_out,
                        .y = b->out,
                        .y_stride = n_out,
                        .scratch = b->scratch};
    ops->mul(&m);
}

static void prepare_dequant(struct akv_bed *b, const struct akv_bench_op *op, const struct akv_ops *scalar)
{
    (void)scalar;
    fill_weights(b, op->dtype, op->n);
}

static void run_dequant(struct akv_bed *b, const struct akv_bench_op *op, const struct akv_ops *ops)
{
    for (size_t r = 0; r < op->n; r++)
        ops->dequant(op->dtype, b->out + r * K, b->w + r * row_bytes(op->dtype), K);
}

/* ---- attention ---- */

static size_t kv_type(const struct akv_bench_op *op) /* the index of a KV dtype in the table */
{
    return op->dtype == AKV_F32;
}

static void prepare_attn(struct akv_bed *b, const struct akv_bench_op *op, const struct akv_ops *scalar)
{
    (void)scalar;
    fill_bits(b->kv, KEYS_DECODE / AKV_PAGE * 2 * HEAD_VALUES * sizeof(float), op->dtype);
    uint32_t keys = op->n == GROUP ? KEYS_DECODE : KEYS_PREFILL;
    for (uint32_t i = 0; i < op->n; i++)
        b->queries[i] =
            (struct akv_attn_query){.q = b->x + i * DIM, .o = b->out + i * DIM, .to = keys - (uint32_t)(op->n - 1 - i) / GROUP};
}

static void run_attn(struct akv_bed *b, const struct akv_bench_op *op, const struct akv_ops *ops)
{
    struct akv_attn a = {.pages = b->pages,
                         .v_offset = HEAD_VALUES * (op->dtype == AKV_F32 ? 4 : 2),
                         .dim_k = DIM,
                         .dim_v = DIM,
                         .scale = 0.125f,
                         .queries = b->queries,
                         .n_queries = op->n,
                         .scratch = b->scratch};
    ops->attn[kv_type(op)](&a);
}

/* A page's worth of tokens: the result is the page. */
static void run_kv_put(struct akv_bed *b, const struct akv_bench_op *op, const struct akv_ops *ops)
{
    for (uint32_t slot = 0; slot < AKV_PAGE; slot++)
        ops->kv_put[kv_type(op)]((uint8_t *)b->out, 0, op->out_bytes / 2, slot, b->x + slot * DIM, DIM,
                                 b->x + (AKV_PAGE + slot) * DIM, DIM);
}

/* ---- the others ---- */

/* Ops that overwrite what they read go on from there when they are timed: the inputs are such that this neither grows nor ends as NaN. */
static void fill(struct akv_bed *b)
{
    memcpy(b->out, b->x, VEC * sizeof *b->out);
}

static void run_quantise(struct akv_bed *b, const struct akv_bench_op *op, const struct akv_ops *ops)
{
    (void)op;
    uint8_t *out = (uint8_t *)b->out; /* q, d and sum behind one another */
    ops->quantise((int8_t *)out, (float *)(void *)(out + VEC), (int32_t *)(void *)(out + VEC + VEC / 8), b->x, VEC);
}

static void run_rmsnorm(struct akv_bed *b, const struct akv_bench_op *op, const struct akv_ops *ops)
{
    (void)op;
    ops->rmsnorm(b->out, b->x, b->y, VEC, 1e-5f);
}

static void run_rope_pairs(struct akv_bed *b, const struct akv_bench_op *op, const struct akv_ops *ops)
{
    (void)op;
    for (size_t i = 0; i < VEC; i += DIM)
        ops->rope(b->out + i, b->cs, DIM, AKV_ROPE_STYLE_PAIRS);
}

static void run_rope_halves(struct akv_bed *b, const struct akv_bench_op *op, const struct akv_ops *ops)
{
    (void)op;
    for (size_t i = 0; i < VEC; i += DIM)
        ops->rope(b->out + i, b->cs, DIM, AKV_ROPE_STYLE_HALVES);
}

static void run_silu_mul(struct akv_bed *b, const struct akv_bench_op *op, const struct akv_ops *ops)
{
    (void)op;
    ops->silu_mul(b->out, b->z, VEC);
}

static void run_gelu_mul(struct akv_bed *b, const struct akv_bench_op *op, const struct akv_ops *ops)
{
    (void)op;
    ops->gelu_mul(b->out, b->z, VEC);
}

static void run_add(struct akv_bed *b, const struct akv_bench_op *op, const struct akv_ops *ops)
{
    (void)op;
    ops->add(b->out, b->z, VEC);
}

static void run_exp(struct akv_bed *b, const struct akv_bench_op *op, const struct akv_ops *ops)
{
    (void)op;
    ops->exp(b->out, b->x, VEC);
}

static void run_finite(struct akv_bed *b, const struct akv_bench_op *op, const struct akv_ops *ops)
{
    (void)op;
    b->out[0] = ops->finite(b->x, VEC);
}

/* ---- the list ---- */

/* Ops on one type each: KV types, or none. */
#define F32S(n) ((double)(n) * sizeof(float))
static const struct akv_bench_op others[] = {
    {.name = "quantise", .shape = "4096", .bytes = VEC * 5.375, .run = run_quantise, .out_bytes = VEC + VEC / 8 + VEC / 4},
    {.name = "rmsnorm", .shape = "4096", .bytes = F32S(3 * VEC), .run = run_rmsnorm, .out_bytes = VEC * 4},
    {.name = "rope-pairs",
     .shape = "64 heads of 64",
     .bytes = F32S(2 * VEC),
     .fill = fill,
     .run = run_rope_pairs,
     .out_bytes = VEC * 4},
    {.name = "rope-halves",
     .shape = "64 heads of 64",
     .bytes = F32S(2 * VEC),
     .fill = fill,
     .run = run_rope_halves,
     .out_bytes = VEC * 4},
    {.name = "silu_mul", .shape = "4096", .bytes = F32S(3 * VEC), .fill = fill, .run = run_silu_mul, .out_bytes = VEC * 4},
    {.name = "gelu_mul", .shape = "4096", .bytes = F32S(3 * VEC), .fill = fill, .run = run_gelu_mul, .out_bytes = VEC * 4},
    {.name = "add", .shape = "4096", .bytes = F32S(3 * VEC), .fill = fill, .run = run_add, .out_bytes = VEC * 4},
    {.name = "exp", .shape = "4096", .bytes = F32S(2 * VEC), .run = run_exp, .out_bytes = VEC * 4},
    {.name = "finite", .shape = "4096", .bytes = F32S(VEC), .run = run_finite, .out_bytes = 4},
};

static struct akv_bench_op attn(enum akv_dtype t, bool pfill)
{
    size_t rows = pfill ? ROWS_PREFILL : 1, keys = pfill ? KEYS_PREFILL - ROWS_PREFILL / 2 : KEYS_DECODE;
    return (struct akv_bench_op){.name = "attn",
                                 .shape = pfill ? "16 rows, 3 heads, 512 keys" : "1 row, 3 heads, 2048 keys",
                                 .dtype = t,
                                 .limit = AKV_LIMIT_FMA,
                                 .n = rows * GROUP,
                                 .ops = 2.0 * (double)(rows * GROUP * keys) * (DIM + DIM),
                                 .bytes = (double)keys * (DIM + DIM) * akv_dtypes[t].block_bytes,
                                 .prepare = prepare_attn,
                                 .run = run_attn,
                                 .out_bytes = rows * GROUP * DIM * sizeof(float)};
}

static struct akv_bench_op kv_put(enum akv_dtype t)
{
    size_t page = 2 * HEAD_VALUES;
    return (struct akv_bench_op){.name = "kv_put",
                                 .shape = "64 tokens of a head",
                                 .dtype = t,
                                 .limit = AKV_LIMIT_CACHE,
                                 .bytes = (double)page * (4 + akv_dtypes[t].block_bytes),
                                 .run = run_kv_put,
                                 .out_bytes = page * akv_dtypes[t].block_bytes};
}

static struct akv_bench_op mul(enum akv_dtype t, bool pfill)
{
    size_t rows = pfill ? ROWS : 1, n_out = pfill ? OUT_PREFILL : OUT_DECODE;
    return (struct akv_bench_op){.name = "mul",
                                 .shape = pfill ? "256 rows, 1536 x 192" : "1 row, 1536 x 16384",
                                 .dtype = t,
                                 .limit = !pfill                    ? AKV_LIMIT_READ
                                          : akv_dtypes[t].quantised ? AKV_LIMIT_INT8
                                                                    : AKV_LIMIT_FMA,
                                 .n = rows,
                                 .ops = 2.0 * (double)rows * (double)n_out * K,
                                 .bytes = (double)(n_out * row_bytes(t)),
                                 .prepare = prepare_mul,
                                 .run = run_mul,
                                 .out_bytes = rows * n_out * sizeof(float)};
}

static struct akv_bench_op dequant(enum akv_dtype t)
{
    return (struct akv_bench_op){.name = "dequant",
                                 .shape = "16 rows of 1536",
                                 .dtype = t,
                                 .limit = AKV_LIMIT_CACHE,
                                 .n = DEQUANT_ROWS,
                                 .bytes = (double)DEQUANT_ROWS * (double)(row_bytes(t) + K * sizeof(float)),
                                 .prepare = prepare_dequant,
                                 .run = run_dequant,
                                 .out_bytes = DEQUANT_ROWS * K * sizeof(float)};
}

bool akv_bench_op(struct akv_bench_op *out, size_t i)
{
    for (int t = 0; t < AKV_DTYPES; t++) {
        if (!akv_dtypes[t].runs)
            continue;
        if (i < 3) {
            *out = i == 2 ? dequant((enum akv_dtype)t) : mul((enum akv_dtype)t, i == 0);
            out->type = akv_dtypes[t].name;
            return true;
        }
        i -= 3;
    }
    for (int t = AKV_F32; t <= AKV_F16; t++) {
        if (i < 3) {
            *out = i == 2 ? kv_put((enum akv_dtype)t) : attn((enum akv_dtype)t, i == 0);
            out->type = akv_dtypes[t].name;
            return true;
        }
        i -= 3;
    }
    if (i >= sizeof others / sizeof *others)
        return false;
    *out = others[i];
    out->type = "";
    out->limit = AKV_LIMIT_CACHE;
    return true;
}
