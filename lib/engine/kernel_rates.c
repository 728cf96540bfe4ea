/* Rates of every kernel, and whether the tables agree to the bit; for akv-bench. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/pool.h"
#include "engine/bench_ops.h"

#define TABLES_MAX 8
#define SAMPLE_NS 2e6 /* a sample is many calls of a short op */

struct timed {
    const struct akv_ops *ops;
    size_t calls;    /* in a sample */
    double *samples; /* [runs] nanoseconds of a call */
    bool equal;
};

struct rounds {
    struct akv_bed bed;
    const struct akv_machine *limits;
    uint32_t runs;
    struct timed tables[TABLES_MAX]; /* the scalar one last */
    size_t n_tables;
    uint8_t *expected; /* what the scalar table gives */
};

/* On the thread's own clock: what others do meanwhile is not in it. */
static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Nanoseconds of a call. */
static double sample(struct akv_bed *b, const struct akv_bench_op *op, const struct timed *t)
{
    double start = now_ns();
    for (size_t i = 0; i < t->calls; i++)
        op->run(b, op, t->ops);
    return (now_ns() - start) / (double)t->calls;
}

/* One call: its result, and how many make a sample. */
static void try_once(struct akv_bed *b, const struct akv_bench_op *op, struct timed *t)
{
    memset(b->out, 0xa5, op->out_bytes); /* what is not written does not agree by chance */
    if (op->fill)
        op->fill(b);
    double start = now_ns();
    op->run(b, op, t->ops);
    double ns = now_ns() - start;
    t->calls = ns < SAMPLE_NS / 2e4 ? 20000 : ns < SAMPLE_NS ? (size_t)(SAMPLE_NS / ns) : 1;
}

static void measure(struct rounds *r, const struct akv_bench_op *op)
{
    const struct timed *scalar = &r->tables[r->n_tables - 1];
    if (op->prepare)
        op->prepare(&r->bed, op, scalar->ops);
    for (size_t i = r->n_tables; i-- > 0;) {
        try_once(&r->bed, op, &r->tables[i]);
        if (&r->tables[i] == scalar)
            memcpy(r->expected, r->bed.out, op->out_bytes);
        r->tables[i].equal = memcmp(r->expected, r->bed.out, op->out_bytes) == 0;
    }
    for (uint32_t run = 0; run < r->runs; run++)
        for (size_t i = 0; i < r->n_tables; i++)
            r->tables[i].samples[run] = sample(&r->bed, op, &r->tables[i]);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double share_of(const struct akv_machine *m, const struct akv_bench_op *op, double ns, const char **limit)
{
    static const char *const names[] = {"int8", "fma", "read", "cache"};
    const double rates[] = {m->int8_best_gops, m->fma_gflops, m->read_gbs, m->cache_gbs};
    bool counts_bytes = op->limit == AKV_LIMIT_READ || op->limit == AKV_LIMIT_CACHE;
    *limit = names[op->limit];
    return rates[op->limit] > 0 ? (counts_bytes ? op->bytes : op->ops) / ns / rates[op->limit] : 0;
}

static int tell(struct rounds *r, const struct akv_bench_op *op, akv_kernel_fn *fn, void *ctx, struct akv_err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < r->n_tables; i++) {
        struct timed *t = &r->tables[i];
        qsort(t->samples, r->runs, sizeof *t->samples, ascending);
        struct akv_kernel_row row = {.op = op->name,
                                     .type = op->type,
                                     .shape = op->shape,
                                     .table = t->ops->name,
                                     .ops = op->ops,
                                     .bytes = op->bytes,
                                     .min_ns = t->samples[0],
                                     .median_ns = (t->samples[(r->runs - 1) / 2] + t->samples[r->runs / 2]) / 2,
                                     .equal = t->equal};
        row.share = share_of(r->limits, op, row.min_ns, &row.limit);
        rc = fn(ctx, &row, err);
    }
    return rc;
}

static int open_rounds(struct rounds *r, struct akv_err *err)
{
    struct akv_bench_op op;
    size_t most = 0;
    int rc = akv_bed_open(&r->bed, err);
    for (size_t i = 0; akv_bench_op(&op, i); i++)
        most = op.out_bytes > most ? op.out_bytes : most;
    for (const struct akv_ops *ops; rc == 0 && r->n_tables < TABLES_MAX && (ops = akv_ops_nth(r->n_tables)); r->n_tables++) {
        r->tables[r->n_tables].ops = ops;
        if (!(r->tables[r->n_tables].samples = akv_alloc(r->runs, sizeof(double), err)))
            rc = AKV_E_IO;
    }
    if (rc == 0 && !(r->expected = akv_alloc(most, 1, err)))
        rc = AKV_E_IO;
    return rc;
}

int akv_bench_kernels(const struct akv_machine *limits, uint32_t runs, bool (*want)(void *ctx, const char *op, const char *type),
                      akv_kernel_fn *fn, void *ctx, const volatile int *cancel, struct akv_err *err)
{
    struct rounds r = {.limits = limits, .runs = runs};
    struct akv_bench_op op;
    struct akv_fenv saved;
    if (!runs)
        return akv_fail(err, AKV_E_USAGE, "no runs");
    int rc = open_rounds(&r, err);
    for (size_t i = 0; rc == 0 && akv_bench_op(&op, i); i++) {
        if (want && !want(ctx, op.name, op.type))
            continue;
        if (cancel && *cancel) {
            rc = akv_fail(err, AKV_E_CANCEL, "interrupted");
            break;
        }
        akv_fenv_enter(&saved);
        measure(&r, &op);
        akv_fenv_leave(&saved);
        rc = tell(&r, &op, fn, ctx, err);
    }
    for (size_t i = 0; i < TABLES_MAX; i++)
        free(r.tables[i].samples);
    free(r.expected);
    akv_bed_release(&r.bed);
    return rc;
}
