/* akv-bench engine: rates of prefill and decode beside the machine's limits. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

/* Tokens of prefill or of decode after `depth` tokens: "pp512", "tg64 @ d2048". */
struct test {
    uint32_t prompt, gen, depth;
};

#define TOKENS_MAX (1u << 24)

struct engine {
    struct bench *b;
    struct akv_machine machine;
    struct akv_session *session; /* of `threads`, for all tests: tokens that stand already are not computed again */
    uint32_t threads;
};

static void name_test(const struct test *t, char *name, size_t cap)
{
    snprintf(name, cap, t->depth ? "%s%u @ d%u" : "%s%u", t->gen ? "tg" : "pp", t->gen ? t->gen : t->prompt, t->depth);
}

/* The best int8 loop bounds a prefill, reading bounds a decode: its rows are few. */
static double limit_of(const struct engine *e, const struct test *t)
{
    const struct akv_machine *m = &e->machine;
    return t->gen ? m->read_gbs : m->int8_best_gops * e->threads;
}

static json_t *samples(const struct akv_bench_run *runs, size_t n, bool cpu)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_real(cpu ? runs[i].cpu_ns : runs[i].ns));
    return list;
}

static void put_test(struct engine *e, const struct test *t, const struct akv_bench_run *runs)
{
    struct bench *b = e->b;
    double avg_ns, stddev_ns, avg_ts, stddev_ts, n = t->prompt + t->gen;
    double *ns = cmd_alloc(b->reps * sizeof *ns), *ts = cmd_alloc(b->reps * sizeof *ts);
    for (uint32_t i = 0; i < b->reps; i++) {
        ns[i] = runs[i].ns;
        ts[i] = n * 1e9 / ns[i];
    }
    bench_mean(ns, b->reps, &avg_ns, &stddev_ns);
    bench_mean(ts, b->reps, &avg_ts, &stddev_ts);
    double median_ts = bench_median(ts, b->reps);
    free(ns);
    free(ts);
    double gops = median_ts * akv_bench_token_ops(b->model, t->gen > 0) * 1e-9;
    double gbs = median_ts * akv_bench_token_bytes(b->model) * 1e-9, limit = limit_of(e, t);
    double share = limit > 0 ? (t->gen ? gbs : gops) / limit : 0;
    const char *type = json_string_value(json_object_get(b->about, "name"));
    json_int_t size = json_integer_value(json_object_get(b->about, "tensor_bytes"));
    if (b->format != BENCH_MD) {
        bench_json(
            b, json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:o, s:o}",
                         "model_type", type ? type : "", "model_size", size, "n_threads", (json_int_t)e->threads, "n_prompt",
                         (json_int_t)t->prompt, "n_gen", (json_int_t)t->gen, "n_depth", (json_int_t)t->depth, "avg_ns", avg_ns,
                         "stddev_ns", stddev_ns, "avg_ts", avg_ts, "stddev_ts", stddev_ts, "median_ts", median_ts, "gops", gops,
                         "gbs", gbs, "int8_gops_limit", e->machine.int8_gops, "int8_i16_gops_limit", e->machine.int8_i16_gops,
                         "int8_vnni_gops_limit", e->machine.int8_vnni_gops, "read_gbs_limit", e->machine.read_gbs, "share_of_limit",
                         share, "samples_ns", samples(runs, b->reps, false), "samples_cpu_ns", samples(runs, b->reps, true)));
        return;
    }
    char name[64], rate[32] = "";
    name_test(t, name, sizeof name);
    if (t->gen) /* a prefill reads the weights once for many tokens */
        snprintf(rate, sizeof rate, "%.2f", gbs);
    bench_row(b,
              "| model | size MiB | threads | test | tokens/s | median | GOP/s | GB/s | of limit |\n"
              "|---|--:|--:|---|--:|--:|--:|--:|--:|\n",
              "| %.60s | %.1f | %u | %s | %.2f ± %.2f | %.2f | %.1f | %s | %.0f %% |\n", type ? type : "", (double)size / 1048576.0,
              e->threads, name, avg_ts, stddev_ts, median_ts, gops, rate, share * 100);
}

static void put_machine(struct engine *e)
{
    const struct akv_machine *m = &e->machine;
    if (m->int8_gops <= 0) {
        bench_text(e->b, "\nThe machine's limits cannot be measured on this processor.\n");
        return;
    }
    bench_text(e->b,
               "\nLimits of one thread: int8 %.1f GOP/s (maddubs + madd + add), %.1f summed in int16, %.1f with VNNI; f32 fma %.1f "
               "GFLOP/s; read "
               "%.1f GB/s.\n"
               "Of limit: prefill against the best int8 loop x threads, decode against read.\n",
               m->int8_gops, m->int8_i16_gops, m->int8_vnni_gops, m->fma_gflops, m->read_gbs);
}

static void run_test(struct engine *e, const struct test *t)
{
    struct akv_err err = {0};
    struct bench *b = e->b;
    struct akv_bench_run *runs = cmd_alloc(b->reps * sizeof *runs);
    char name[64];
    if (akv_bench_engine(e->session, t->prompt, t->gen, t->depth, b->reps, runs, &err) < 0)
        cmd_die_err(&err);
    name_test(t, name, sizeof name);
    for (uint32_t i = 0; i < b->reps; i++)
        cmd_detail("%s, %u threads, run %u: %.1f ms, %.1f ms of processors", name, e->threads, i + 1, runs[i].ns * 1e-6,
                   runs[i].cpu_ns * 1e-6);
    put_test(e, t, runs);
    free(runs);
}

/* ---- which tests ---- */

/* Digits at *at, up to `most`; false: none, or more. */
static bool take_number(const char **at, uint32_t most, uint32_t *out)
{
    char *end;
    errno = 0;
    unsigned long long v = **at >= '0' && **at <= '9' ? strtoull(*at, &end, 10) : 0;
    if (!v || errno || v > most)
        return false;
    *at = end;
    *out = (uint32_t)v;
    return true;
}

/* pp512, tg64, tg64@d2048; spaces around the @ are fine, as the table has them. */
static struct test parse_test(const char *text)
{
    struct test t = {0};
    const char *at = text + 2;
    bool pp = !strncmp(text, "pp", 2),
         ok = (pp || !strncmp(text, "tg", 2)) && take_number(&at, TOKENS_MAX, pp ? &t.prompt : &t.gen);
    at += ok ? strspn(at, " ") : 0;
    if (ok && *at == '@') {
        at += 1 + strspn(at + 1, " ");
        ok = *at++ == 'd' && take_number(&at, TOKENS_MAX, &t.depth);
    }
    if (!ok || *at)
        cmd_die(2, "%.40s: not a test: pp512, tg64 or tg64@d2048", text);
    return t;
}

/* The tests of the lists, every combination. */
static struct test *listed_tests(const struct bench *b, size_t *n)
{
    struct test *tests = cmd_alloc(2 * BENCH_LIST_MAX * BENCH_LIST_MAX * sizeof *tests);
    *n = 0;
    for (size_t d = 0; d < b->depth.n; d++) {
        for (size_t p = 0; p < b->prompt.n; p++)
            if (b->prompt.v[p])
                tests[(*n)++] = (struct test){.prompt = b->prompt.v[p], .depth = b->depth.v[d]};
        for (size_t g = 0; g < b->gen.n; g++)
            if (b->gen.v[g])
                tests[(*n)++] = (struct test){.gen = b->gen.v[g], .depth = b->depth.v[d]};
    }
    if (!*n)
        cmd_die(2, "nothing to run: --n-prompt and --n-gen are both 0");
    return tests;
}

static struct test *named_tests(const struct bench *b, size_t *n)
{
    struct test *tests = cmd_alloc((size_t)b->n_operands * sizeof *tests);
    *n = (size_t)b->n_operands;
    for (size_t i = 0; i < *n; i++)
        tests[i] = parse_test(b->operands[i]);
    return tests;
}

static void open_session(struct engine *e, uint32_t threads, uint32_t n_ctx)
{
    struct akv_session_opts so = {0};
    e->threads = threads;
    e->b->o.threads = threads;
    e->b->o.n_ctx = n_ctx;
    e->b->o.no_store = true;
    e->session = cmd_session(&e->b->o, e->b->model, &so);
}

static void run_tests(struct engine *e, const struct test *tests, size_t n)
{
    uint64_t n_ctx = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t need = (uint64_t)tests[i].prompt + tests[i].gen + tests[i].depth;
        n_ctx = need > n_ctx ? need : n_ctx;
    }
    for (size_t t = 0; t < e->b->threads.n; t++) {
        open_session(e, e->b->threads.v[t], (uint32_t)n_ctx);
        for (size_t i = 0; i < n; i++)
            run_test(e, &tests[i]);
        akv_session_close(e->session);
    }
}

/* Tests as they come on standard input, so that another program can have its turn between two of them. */
static void run_asked(struct engine *e)
{
    char *line = NULL;
    size_t cap = 0, n_tests = 0;
    if (e->b->threads.n > 1)
        cmd_die(2, "--threads: one number when the tests come on standard input, please");
    open_session(e, e->b->threads.v[0], 0);
    for (ssize_t n; (n = getline(&line, &cap, stdin)) > 0; n_tests++) {
        if (line[n - 1] == '\n')
            line[n - 1] = 0;
        struct test t = parse_test(line);
        run_test(e, &t);
    }
    if (!n_tests)
        cmd_die(3, "standard input: empty input");
    free(line);
    akv_session_close(e->session);
}

void bench_engine(struct bench *b)
{
    struct engine e = {.b = b};
    struct akv_err err = {0};
    bool asked = b->n_operands == 1 && !strcmp(b->operands[0], "-");
    size_t n = 0;
    struct test *tests = asked ? NULL : b->n_operands ? named_tests(b, &n) : listed_tests(b, &n);
    bench_need_model(b);
    if (akv_bench_machine(&e.machine, getenv("AKV_CPU"), &err) < 0)
        cmd_die_err(&err);
    if (asked)
        run_asked(&e);
    else
        run_tests(&e, tests, n);
    put_machine(&e);
    free(tests);
}
