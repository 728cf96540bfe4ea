/*
 * The contract of every compute kernel: struct akv_ops. kernels/scalar*.c is the specification, numerics.md in C; every other
 * table is bit-equal to it on all inputs (tests/unit/test_kernels). One file per instruction set and family of ops.
 *
 * Preconditions throughout: pointers to floats are 32-byte aligned unless said; counts may be any value, also 0, and not a multiple
 * of a vector; inputs and outputs do not overlap unless said; the float environment is the standard one (base/pool.h). No op
 * allocates, none has state; scratch comes from the caller.
 */
#ifndef AKV_KERNELS_H
#define AKV_KERNELS_H

#include "model/dtype.h"

#define AKV_PAGE 64u     /* tokens in a page */
#define AKV_CHUNK 256u   /* keys in an attention chunk (numerics R4) */
#define AKV_QBLOCK 32u   /* activations in a quantised block (numerics R2) */
#define AKV_NUMERICS "1" /* the numerics id: changes with any bit of KV or logits */

/* style of rope(): which elements form a pair; the values of enum akv_rope_style */
enum { AKV_ROPE_STYLE_PAIRS, AKV_ROPE_STYLE_HALVES }; /* (2i, 2i+1) | (i, i + n_rot/2) */

/* Activations of n_rows rows of length k: as f32 and, where a quantised weight will meet them, as int8 blocks. */
struct akv_act {
    size_t n_rows, k;
    const float *x;     /* [n_rows][k] */
    const int8_t *q;    /* [n_rows][k], valid when quantised; row r starts at q + r*k; 32-byte aligned as k % 32 == 0 */
    const float *d;     /* [n_rows][k/32] block scales */
    const int32_t *sum; /* [n_rows][k/16] exact sums of q over 16 elements */
};

/* y[r * y_stride + o] = sum over i of w[o][i] * act[r][i] for r < n_rows, o in [from, to). */
struct akv_mul {
    enum akv_dtype dtype;
    const uint8_t *w; /* first row of the matrix; row o at w + o*row_bytes; 2-byte aligned at least */
    size_t row_bytes;
    const struct akv_act *act;
    size_t from, to;
    float *y; /* any alignment */
    size_t y_stride;
    void *scratch; /* mul_scratch_bytes(dtype, k) bytes, 64-byte aligned, private to the calling thread */
};

/* One query of an attention tile: one (row, head). */
struct akv_attn_query {
    const float *q;    /* [dim_k], after RoPE */
    float *o;          /* [dim_v] */
    uint32_t from, to; /* visible keys: from <= position < to; to > from */
    float max, sum;    /* out: of the scores and of the exponentials */
};

struct akv_attn {
    const uint8_t *const *pages; /* page p holds positions 64p..64p+63; only those that cover [min from, max to) are read */
    size_t k_offset, v_offset;   /* of this kv head in a page: K as [dim_k][64], V as [64][dim_v], in the KV dtype */
    uint32_t dim_k, dim_v;
    float scale; /* applied after the score's chain */
    struct akv_attn_query *queries;
    size_t n_queries; /* all of the same sequence and kv head */
    bool part;        /* leave o as the weighted sum, for attn_join */
    void *scratch;    /* attn_scratch_bytes(dim_k, dim_v) bytes, 64-byte aligned */
};

struct akv_ops {
    const char *name; /* "scalar", "avx2" */

    /*
     * R2: q, d, sum of one row of k (a multiple of 32) values. Returns 0, or -1 when a value is not finite: the block that holds it
     * has q and sum 0 and d NaN.
     */
    int (*quantise)(int8_t *q, float *d, int32_t *sum, const float *x, size_t k);

    /* R1, R2: the matrix product. */
    void (*mul)(const struct akv_mul *m);
    size_t (*mul_scratch_bytes)(enum akv_dtype dtype, size_t k);

    /* One row of a weight matrix to f32 (embedding rows): k values, exact order of operations as in golden/quants. */
    void (*dequant)(enum akv_dtype dtype, float *y, const uint8_t *row, size_t k);

    /* R3: y = (x / sqrt(sum(x*x)/n + eps)) * w. y may be x. */
    void (*rmsnorm)(float *y, const float *x, const float *w, size_t n, float eps);

    /* Rotation of n_rot leading elements of one head in place; cs holds n_rot/2 pairs (cos, sin). style: enum akv_rope_style */
    void (*rope)(float *x, const float *cs, size_t n_rot, int style);

    /* gate[i] = silu(gate[i]) * up[i]; the same with the tanh approximation of gelu */
    void (*silu_mul)(float *gate, const float *up, size_t n);
    void (*gelu_mul)(float *gate, const float *up, size_t n);

    /* x[i] = x[i] + y[i] */
    void (*add)(float *x, const float *y, size_t n);

    /*
     * Round one token's K and V of one kv head to the KV dtype and put them into slot `slot` of a page: k[dim_k] goes to column
     * slot of [dim_k][64] at page + k_offset, v[dim_v] to row slot of [64][dim_v] at page + v_offset. Returns 0, or -1 when a value
     * is not finite or overflows the dtype; the slot then holds anything. [0]: f16, [1]: f32.
     */
    int (*kv_put[2])(uint8_t *page, size_t k_offset, size_t v_offset, uint32_t slot, const float *k, uint32_t dim_k, const float *v,
                     uint32_t dim_v);

    /* R4. [0]: f16, [1]: f32. */
    void (*attn[2])(const struct akv_attn *a);
    size_t (*attn_scratch_bytes)(uint32_t dim_k, uint32_t dim_v);

    /*
     * R4: o of one query from what attn made of its parts, n >= 1 of them in ascending order. All but the first are of the visible keys
     * of one chunk each; the first may be of several.
     */
    void (*attn_join)(float *o, const struct akv_attn_query *parts, size_t n, uint32_t dim_v);

    /* e^x of numerics.md, for tests and the sampler's callers. y may be x. */
    void (*exp)(float *y, const float *x, size_t n);

    /* Whether all n values are finite. */
    bool (*finite)(const float *x, size_t n);

    /* Whether mul and dequant know the dtype; they must not be called with others. The same in every table. */
    bool (*has)(enum akv_dtype dtype);
};

extern const struct akv_ops akv_ops_scalar;
extern const struct akv_ops akv_ops_avx2;   /* AVX2 + FMA + F16C */
extern const struct akv_ops akv_ops_avx512; /* the same, AVX-512 F + BW + VNNI */

/* The best table this CPU runs; want: NULL, or "scalar" / "avx2" (NULL is returned when that cannot run here or is not known). */
const struct akv_ops *akv_ops_pick(const char *want);
/* The i-th table that this CPU runs, best first, the scalar one last; NULL past it. */
const struct akv_ops *akv_ops_nth(size_t i);

#endif
