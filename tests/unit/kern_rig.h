/*
 * Shared by the kernel tests: seeded numbers of several kinds, hostile ones among them, exact-sized aligned memory, and matrices,
 * caches and comparisons on top of them.
 */
#ifndef AKV_TESTS_KERN_RIG_H
#define AKV_TESTS_KERN_RIG_H

#include "tests/check.h"

#include "kernels/fp32.h"
#include "kernels/kernels.h"

static inline uint64_t rig_next(uint64_t *seed) /* SplitMix64 */
{
    uint64_t z = *seed += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static inline uint32_t rig_below(uint64_t *seed, uint32_t n)
{
    return (uint32_t)(rig_next(seed) % n);
}

static inline float rig_unit(uint64_t *seed) /* -1 .. 1 */
{
    return (float)(int32_t)(rig_next(seed) >> 32) * 0x1p-31f;
}

/* What floats of a test look like. */
enum rig_kind { RIG_PLAIN, RIG_TINY, RIG_HUGE, RIG_ZEROS, RIG_ANY, RIG_KINDS };

static inline float rig_float(uint64_t *seed, enum rig_kind kind)
{
    switch (kind) {
    case RIG_TINY: /* subnormals and just above */
        return akv_float((uint32_t)rig_next(seed) & 0x81ffffffu);
    case RIG_HUGE:
        return rig_unit(seed) * 0x1p126f;
    case RIG_ZEROS: /* mostly signed zeros */
        return rig_below(seed, 4) == 0 ? rig_unit(seed) : akv_float((uint32_t)rig_next(seed) & 0x80000000u);
    case RIG_ANY: /* any finite bits */
        for (;;) {
            uint32_t u = (uint32_t)rig_next(seed);
            if ((u & 0x7f800000u) != 0x7f800000u)
                return akv_float(u);
        }
    default:
        return rig_unit(seed) * 4;
    }
}

static inline void rig_fill(float *x, size_t n, enum rig_kind kind, uint64_t *seed)
{
    for (size_t i = 0; i < n; i++)
        x[i] = rig_float(seed, kind);
}

/* n bytes, 64-byte aligned, with nothing behind them; free() */
static inline void *rig_alloc(size_t n)
{
    void *p;
    assert_int_equal(posix_memalign(&p, 64, n ? n : 1), 0);
    memset(p, 0xa5, n);
    return p;
}

/* Equal bits, or NaN in both. */
static inline void rig_same(const float *a, const float *b, size_t n, const char *what)
{
    for (size_t i = 0; i < n; i++) {
        bool nan = a[i] != a[i] && b[i] != b[i];
        if (!nan && akv_bits(a[i]) != akv_bits(b[i]))
            fail_msg("%s: element %zu of %zu: %a and %a", what, i, n, (double)a[i], (double)b[i]);
    }
}

static inline void rig_near(double got, double want, double tolerance, const char *what)
{
    double error = got - want;
    if (!(error <= tolerance && -error <= tolerance))
        fail_msg("%s: %.9g, expected %.9g", what, got, want);
}

static inline uint64_t rig_hash(uint64_t h, const void *p, size_t n) /* FNV-1a */
{
    for (size_t i = 0; i < n; i++)
        h = (h ^ ((const uint8_t *)p)[i]) * 0x100000001b3u;
    return h;
}

static inline const enum akv_dtype *rig_dtypes(size_t *n)
{
    static const enum akv_dtype dtypes[] = {AKV_F32,  AKV_F16,  AKV_BF16, AKV_Q4_0, AKV_Q4_1, AKV_Q5_0,   AKV_Q5_1,   AKV_Q8_0,
                                            AKV_Q2_K, AKV_Q3_K, AKV_Q4_K, AKV_Q5_K, AKV_Q6_K, AKV_IQ4_NL, AKV_IQ4_XS, AKV_MXFP4};
    *n = sizeof dtypes / sizeof *dtypes;
    return dtypes;
}

/* Where a block has its f16 scales (BF16: the value); -1: no such. */
static inline const int *rig_scales(enum akv_dtype t)
{
    static const int scales[AKV_DTYPES][2] = {
        [AKV_F32] = {-1, -1},   [AKV_F16] = {0, -1},    [AKV_BF16] = {0, -1},   [AKV_Q4_0] = {0, -1},
        [AKV_Q4_1] = {0, 2},    [AKV_Q5_0] = {0, -1},   [AKV_Q5_1] = {0, 2},    [AKV_Q8_0] = {0, -1},
        [AKV_Q2_K] = {80, 82},  [AKV_Q3_K] = {108, -1}, [AKV_Q4_K] = {0, 2},    [AKV_Q5_K] = {0, 2},
        [AKV_Q6_K] = {208, -1}, [AKV_IQ4_NL] = {0, -1}, [AKV_IQ4_XS] = {0, -1}, [AKV_MXFP4] = {-1, -1}};
    return scales[t];
}

/* n blocks of random bytes with finite scales, |scale| < 2, subnormals among them. */
static inline uint8_t *rig_blocks(enum akv_dtype t, size_t n, uint64_t *seed)
{
    const size_t bytes = akv_dtypes[t].block_bytes;
    uint8_t *w = rig_alloc(n * bytes);
    for (size_t i = 0; i < n; i++) {
        uint8_t *b = w + i * bytes;
        for (size_t j = 0; j < bytes; j++)
            b[j] = (uint8_t)rig_next(seed);
        if (t == AKV_F32) {
            float x = rig_unit(seed);
            memcpy(b, &x, sizeof x);
        }
        for (const int *s = rig_scales(t), *end = s + 2; s < end && *s >= 0; s++)
            b[*s + 1] &= 0xbf;
        if (t == AKV_MXFP4)
            b[0] &= 0x7f;
    }
    return w;
}

static inline uint8_t *rig_matrix(enum akv_dtype t, size_t n_out, size_t k, uint64_t *seed)
{
    return rig_blocks(t, n_out * k / akv_dtypes[t].block, seed);
}

/* Other scales for n blocks: zeros, subnormals, the smallest normal, 1, 65504, in both signs; with `wild`, infinite and NaN. */
static inline void rig_hostile(enum akv_dtype t, uint8_t *blocks, size_t n, bool wild, uint64_t *seed)
{
    static const uint16_t halves[] = {0, 1, 0x3ff, 0x400, 0x3c00, 0x7bff, 0x7c00, 0x7e01};
    static const uint8_t exponents[] = {0, 1, 2, 3, 100, 127, 128, 200, 254, 255};
    for (size_t i = 0; i < n; i++) {
        uint8_t *b = blocks + i * akv_dtypes[t].block_bytes;
        for (const int *s = rig_scales(t), *end = s + 2; s < end && *s >= 0; s++) {
            const uint16_t half = (uint16_t)(halves[rig_below(seed, wild ? 8 : 6)] | rig_below(seed, 2) << 15);
            memcpy(b + *s, &half, sizeof half);
        }
        if (t == AKV_MXFP4)
            b[0] = exponents[rig_below(seed, wild ? 10 : 9)];
    }
}

/* k, or as many whole blocks as fit if that is not 0, else one. */
static inline size_t rig_k(enum akv_dtype t, size_t k)
{
    const size_t unit = akv_dtypes[t].quantised ? akv_dtypes[t].block : 1;
    return k >= unit ? k / unit * unit : k ? unit : 0;
}

static inline void rig_act(struct akv_act *a, size_t n_rows, size_t k, enum rig_kind kind, uint64_t *seed)
{
    float *x = rig_alloc(n_rows * k * sizeof *x), *d = rig_alloc(n_rows * (k / 32) * sizeof *d);
    int8_t *q = rig_alloc(n_rows * k);
    int32_t *sum = rig_alloc(n_rows * (k / 16) * sizeof *sum);
    rig_fill(x, n_rows * k, kind, seed);
    for (size_t r = 0; r < n_rows; r++)
        assert_int_equal(akv_ops_scalar.quantise(q + r * k, d + r * (k / 32), sum + r * (k / 16), x + r * k, k), 0);
    *a = (struct akv_act){.n_rows = n_rows, .k = k, .x = x, .q = q, .d = d, .sum = sum};
}

static inline void rig_act_free(struct akv_act *a)
{
    free((void *)(uintptr_t)a->x);
    free((void *)(uintptr_t)a->d);
    free((void *)(uintptr_t)a->q);
    free((void *)(uintptr_t)a->sum);
}

/* The pages of n_tokens of one kv head, K before V, filled through kv_put; slots that no token has hold NaN. */
struct rig_kv {
    uint8_t *pages[16];
    size_t n_pages, k_offset, v_offset;
    int dtype; /* 0: f16, 1: f32 */
    uint32_t dim_k, dim_v;
    float *k, *v; /* what was put: [n_tokens][dim_k], [n_tokens][dim_v] */
};

static inline void rig_kv_open(struct rig_kv *c, const struct akv_ops *ops, int dtype, uint32_t n_tokens, uint32_t dim_k,
                               uint32_t dim_v, enum rig_kind kind, uint64_t *seed)
{
    const size_t width = dtype == 0 ? 2 : 4;
    *c = (struct rig_kv){.dtype = dtype, .dim_k = dim_k, .dim_v = dim_v, .v_offset = width * dim_k * AKV_PAGE};
    c->n_pages = (n_tokens + AKV_PAGE - 1) / AKV_PAGE;
    assert_true(c->n_pages <= 16);
    for (size_t i = 0; i < c->n_pages; i++) {
        c->pages[i] = rig_alloc(width * (dim_k + dim_v) * AKV_PAGE);
        memset(c->pages[i], 0xff, width * (dim_k + dim_v) * AKV_PAGE);
    }
    c->k = rig_alloc((size_t)n_tokens * dim_k * sizeof(float));
    c->v = rig_alloc((size_t)n_tokens * dim_v * sizeof(float));
    rig_fill(c->k, (size_t)n_tokens * dim_k, kind, seed);
    rig_fill(c->v, (size_t)n_tokens * dim_v, kind, seed);
    for (uint32_t i = 0; i < n_tokens; i++) {
        int rc = ops->kv_put[dtype](c->pages[i / AKV_PAGE], c->k_offset, c->v_offset, i % AKV_PAGE, c->k + (size_t)i * dim_k, dim_k,
                                    c->v + (size_t)i * dim_v, dim_v);
        assert_int_equal(rc, 0);
    }
}

static inline void rig_kv_close(struct rig_kv *c)
{
    for (size_t i = 0; i < c->n_pages; i++)
        free(c->pages[i]);
    free(c->k);
    free(c->v);
}

/* Run attention over the cache: only the pages that the queries may look at are given. */
static inline void rig_attend_as(const struct akv_ops *ops, const struct rig_kv *c, float scale, bool part,
                                 struct akv_attn_query *queries, size_t n)
{
    const uint8_t *pages[16] = {0};
    uint32_t from = UINT32_MAX, to = 0;
    for (size_t i = 0; i < n; i++) {
        from = queries[i].from < from ? queries[i].from : from;
        to = queries[i].to > to ? queries[i].to : to;
    }
    for (size_t i = from / AKV_PAGE; i <= (to - 1) / AKV_PAGE; i++)
        pages[i] = c->pages[i];
    struct akv_attn a = {.pages = pages,
                         .k_offset = c->k_offset,
                         .v_offset = c->v_offset,
                         .dim_k = c->dim_k,
                         .dim_v = c->dim_v,
                         .scale = scale,
                         .part = part,
                         .queries = queries,
                         .n_queries = n,
                         .scratch = rig_alloc(ops->attn_scratch_bytes(c->dim_k, c->dim_v))};
    ops->attn[c->dtype](&a);
    free(a.scratch);
}

static inline void rig_attend(const struct akv_ops *ops, const struct rig_kv *c, float scale, struct akv_attn_query *queries,
                              size_t n)
{
    rig_attend_as(ops, c, scale, false, queries, n);
}

static inline void rig_attend_part(const struct akv_ops *ops, const struct rig_kv *c, float scale, struct akv_attn_query *queries,
                                   size_t n)
{
    rig_attend_as(ops, c, scale, true, queries, n);
}

/* y[n_rows][stride] of outputs from..to; the rest stays as rig_alloc left it. */
static inline float *rig_mul(const struct akv_ops *ops, enum akv_dtype t, const uint8_t *w, const struct akv_act *act, size_t from,
                             size_t to, size_t stride)
{
    struct akv_mul m = {.dtype = t,
                        .w = w,
                        .row_bytes = act->k / akv_dtypes[t].block * akv_dtypes[t].block_bytes,
                        .act = act,
                        .from = from,
                        .to = to,
                        .y = rig_alloc(act->n_rows * stride * sizeof(float)),
                        .y_stride = stride,
                        .scratch = rig_alloc(ops->mul_scratch_bytes(t, act->k))};
    ops->mul(&m);
    free(m.scratch);
    return m.y;
}

#endif
