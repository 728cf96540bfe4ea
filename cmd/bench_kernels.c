/* akv-bench kernels: every op of every kernel table beside the machine's limits, and whether they agree to the bit. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "bench.h"

struct kernels {
    struct bench *b;
    bool *used; /* of each operand: it named something */
    uint64_t n_rows, n_unequal;
};

/* Without operands all; else what one of them names: an op or a type. */
static bool wanted(void *ctx, const char *op, const char *type)
{
    struct kernels *k = ctx;
    bool yes = !k->b->n_operands;
    for (int i = 0; i < k->b->n_operands; i++) {
        bool named = !strcmp(k->b->operands[i], op) || !strcasecmp(k->b->operands[i], type);
        k->used[i] = k->used[i] || named;
        yes = yes || named;
    }
    return yes;
}

static int put_kernel(void *ctx, const struct akv_kernel_row *row, struct akv_err *err)
{
    struct kernels *k = ctx;
    double gops = row->ops / row->min_ns, gbs = row->bytes / row->min_ns;
    char rate[32] = "", share[32] = "";
    (void)err;
    k->n_rows++;
    k->n_unequal += !row->equal;
    if (k->b->format != BENCH_MD) {
        bench_json(k->b,
                   json_pack("{s:s, s:s, s:s, s:s, s:f, s:f, s:f, s:f, s:s, s:f, s:b}", "op", row->op, "type", row->type, "shape",
                             row->shape, "table", row->table, "min_ns", row->min_ns, "median_ns", row->median_ns, "gops", gops,
                             "gbs", gbs, "limit", row->limit, "share_of_limit", row->share, "equal", row->equal));
        return 0;
    }
    if (row->ops > 0)
        snprintf(rate, sizeof rate, "%.1f", gops);
    if (row->share > 0)
        snprintf(share, sizeof share, "%.0f %% %s", row->share * 100, row->limit);
    bench_row(k->b,
              "| op | type | shape | table | min us | median us | GOP/s | GB/s | of limit | bits |\n"
              "|---|---|---|---|--:|--:|--:|--:|--:|---|\n",
              "| %s | %s | %s | %s | %.2f | %.2f | %s | %.2f | %s | %s |\n", row->op, row->type, row->shape, row->table,
              row->min_ns * 1e-3, row->median_ns * 1e-3, rate, gbs, share, row->equal ? "equal" : "DIFFER");
    return 0;
}

static bool look(void *ctx, const char *op, const char *type)
{
    (void)wanted(ctx, op, type);
    return false;
}

/* Before anything is measured: each operand names something. */
static void check_operands(struct kernels *k)
{
    struct akv_machine none = {0};
    struct akv_err err = {0};
    if (akv_bench_kernels(&none, 1, look, put_kernel, k, &cmd_cancel, &err) < 0)
        cmd_die_err(&err);
    for (int i = 0; i < k->b->n_operands; i++)
        if (!k->used[i])
            cmd_die(2, "%.40s: neither an op nor a type", k->b->operands[i]);
}

void bench_kernels(struct bench *b)
{
    struct kernels k = {.b = b, .used = cmd_alloc((size_t)b->n_operands * sizeof(bool))};
    struct akv_machine machine;
    struct akv_err err = {0};
    check_operands(&k);
    if (akv_bench_machine(&machine, NULL, &err) < 0)
        cmd_die_err(&err);
    if (akv_bench_kernels(&machine, b->reps, wanted, put_kernel, &k, &cmd_cancel, &err) < 0)
        cmd_die_err(&err);
    if (machine.int8_gops > 0)
        bench_text(b,
                   "\nLimits of one thread: int8 %.1f GOP/s (maddubs + madd + add), %.1f summed in int16, %.1f with VNNI; f32 fma "
                   "%.1f GFLOP/s; read "
                   "%.1f GB/s, from the nearest cache %.1f.\n",
                   machine.int8_gops, machine.int8_i16_gops, machine.int8_vnni_gops, machine.fma_gflops, machine.read_gbs,
                   machine.cache_gbs);
    free(k.used);
    if (k.n_unequal)
        cmd_die(1, "%llu of %llu rows differ from the scalar table", (unsigned long long)k.n_unequal, (unsigned long long)k.n_rows);
}
