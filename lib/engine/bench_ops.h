/* What akv_bench_kernels() calls: every op of a kernel table on inputs of the sizes that small models have. */
#ifndef AKV_ENGINE_BENCH_OPS_H
#define AKV_ENGINE_BENCH_OPS_H

#include "base/err.h"
#include "kernels/kernels.h"

/* Inputs and outputs of all ops. Opened once; an op's prepare() fills what it reads. */
struct akv_bed {
    float *x, *y, *z, *cs; /* inputs: z from -1 to 1, cs pairs of a cosine and a sine */
    float *out;            /* results */
    int8_t *q;             /* quantised x */
    float *d;              /* and its scales */
    int32_t *sum;          /* and its sums */
    uint8_t *w;            /* weights */
    uint8_t *kv;           /* pages */
    const uint8_t **pages; /* each of them */
    struct akv_attn_query *queries;
    void *scratch;
};

int akv_bed_open(struct akv_bed *b, struct akv_err *err);
void akv_bed_release(struct akv_bed *b); /* of what open made, also when it failed */

enum akv_bench_limit { AKV_LIMIT_INT8, AKV_LIMIT_FMA, AKV_LIMIT_READ, AKV_LIMIT_CACHE };

struct akv_bench_op {
    const char *name, *shape;
    enum akv_dtype dtype;       /* what `type` says */
    const char *type;           /* "Q4_1"; "": the op has none */
    enum akv_bench_limit limit; /* what bounds it */
    size_t n;                   /* rows of activations, queries */
    double ops, bytes;          /* of one call: operations (a multiplication and an addition are two), bytes read and written */
    void (*prepare)(struct akv_bed *b, const struct akv_bench_op *op,
                    const struct akv_ops *scalar); /* once for all tables; NULL: nothing to do */
    void (*fill)(struct akv_bed *b);               /* b->out, of an op that overwrites what it reads; NULL: it does not */
    void (*run)(struct akv_bed *b, const struct akv_bench_op *op, const struct akv_ops *ops);
    size_t out_bytes; /* of b->out, compared between tables */
};

/* The i-th op; false: past the last. */
bool akv_bench_op(struct akv_bench_op *out, size_t i);

#endif
