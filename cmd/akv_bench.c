/* akv-bench: engine rates beside the machine's limits, and cold against warm turns. */
#include <errno.h>
#include <ftw.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cmd.h"

static const char usage[] = "[options] [--turns FILE]";
static const char help[] =
    "Time prefill and decode, and print the machine's limits beside them; or run the turns of a conversation cold and warm.\n"
    "Lists are comma-separated; every combination is run.\n\n"
    "  -p, --n-prompt LIST  tokens of prefill (default: 512; 0: none)\n"
    "  -n, --n-gen LIST     tokens of decode (default: 64; 0: none)\n"
    "  -d, --n-depth LIST   tokens that stand before them (default: 0)\n"
    "  -t, -@, --threads LIST  threads (default: 1)\n"
    "  -r, --repetitions N  runs of each test after a warm-up (default: 3)\n"
    "  -o, --output FORMAT  md, json or jsonl (default: md)\n"
    "      --turns FILE     token records of a conversation's turns: time to first token without a store and with one\n"
    "      --kv TYPE        f16 or f32 KV (default: f16)\n"
    "      --pre NAME       the model's pre-tokenizer, whatever its file says\n"
    "  -m, --model FILE     the model, a GGUF file (default: $AKV_MODEL)\n"
    "  -q, --quiet          no warnings and no progress\n"
    "  -v, --verbose        more words\n"
    "  -h, --help           this text\n"
    "  -V, --version        the version\n";

enum { OPT_TURNS = CMD_OPT_OWN };

static const struct option longs[] = {{"help", no_argument, NULL, 'h'},
                                      {"version", no_argument, NULL, 'V'},
                                      {"quiet", no_argument, NULL, 'q'},
                                      {"verbose", no_argument, NULL, 'v'},
                                      {"model", required_argument, NULL, 'm'},
                                      {"n-prompt", required_argument, NULL, 'p'},
                                      {"n-gen", required_argument, NULL, 'n'},
                                      {"n-depth", required_argument, NULL, 'd'},
                                      {"threads", required_argument, NULL, 't'},
                                      {"repetitions", required_argument, NULL, 'r'},
                                      {"output", required_argument, NULL, 'o'},
                                      {"turns", required_argument, NULL, OPT_TURNS},
                                      {"kv", required_argument, NULL, CMD_OPT_KV},
                                      {"pre", required_argument, NULL, CMD_OPT_PRE},
                                      {0}};

#define LIST_MAX 32
struct list {
    uint32_t v[LIST_MAX];
    size_t n;
};

enum format { MD, JSON, JSONL };

struct tool {
    struct cmd_opts o;
    struct list prompt, gen, depth, threads;
    uint32_t reps;
    enum format format;
    const char *turns;
    struct akv_model *model;
    json_t *about; /* the model described */
    struct akv_machine machine;
    struct cmd_out out;
    bool first; /* nothing printed yet */
};

static void parse_list(struct list *l, const char *text, uint64_t most, const char *what)
{
    char *copy = cmd_strdup(text), *save = NULL;
    l->n = 0;
    for (char *at = strtok_r(copy, ",", &save); at; at = strtok_r(NULL, ",", &save)) {
        if (l->n == LIST_MAX)
            cmd_die(2, "%s: more than %d values", what, LIST_MAX);
        l->v[l->n++] = (uint32_t)cmd_number(at, most, what);
    }
    if (!l->n)
        cmd_die(2, "%s: empty", what);
    free(copy);
}

static uint64_t sum(const struct list *l)
{
    uint64_t total = 0;
    for (size_t i = 0; i < l->n; i++)
        total += l->v[i];
    return total;
}

static void options(struct tool *t, int argc, char **argv)
{
    cmd_opts_init(&t->o);
    t->prompt = (struct list){{512}, 1};
    t->gen = (struct list){{64}, 1};
    t->depth = (struct list){{0}, 1};
    t->threads = (struct list){{1}, 1};
    t->reps = 3;
    bool engine_only = false;
    for (int c; (c = cmd_getopt(argc, argv, "hVqvm:p:n:d:t:@:r:o:", longs)) != -1;) {
        engine_only = engine_only || c == 'p' || c == 'n' || c == 'd' || c == 'r';
        switch (c) {
        case 'p':
            parse_list(&t->prompt, optarg, 1u << 24, "--n-prompt");
            break;
        case 'n':
            parse_list(&t->gen, optarg, 1u << 24, "--n-gen");
            break;
        case 'd':
            parse_list(&t->depth, optarg, 1u << 24, "--n-depth");
            break;
        case 't':
        case '@':
            parse_list(&t->threads, optarg, 256, "--threads");
            for (size_t i = 0; i < t->threads.n; i++)
                if (!t->threads.v[i])
                    cmd_die(2, "--threads: must be at least 1");
            break;
        case 'r':
            t->reps = (uint32_t)cmd_number(optarg, 1000, "--repetitions");
            break;
        case 'o':
            if (strcmp(optarg, "md") && strcmp(optarg, "json") && strcmp(optarg, "jsonl"))
                cmd_die(2, "--output: %.40s: must be md, json or jsonl", optarg);
            t->format = !strcmp(optarg, "md") ? MD : !strcmp(optarg, "json") ? JSON : JSONL;
            break;
        case OPT_TURNS:
            t->turns = optarg;
            break;
        default:
            cmd_opt(&t->o, c, usage, help);
        }
    }
    if (optind < argc)
        cmd_die(2, "%.40s: no operands are expected", argv[optind]);
    if (!t->reps)
        cmd_die(2, "--repetitions: must be at least 1");
    if (t->turns && engine_only)
        cmd_die(2, "--turns: -p, -n, -d and -r are for the engine's tests");
    if (t->turns && t->threads.n > 1)
        cmd_die(2, "--turns: one number of threads, please");
    if (!t->turns && !sum(&t->prompt) && !sum(&t->gen))
        cmd_die(2, "nothing to run: --n-prompt and --n-gen are both 0");
}

/* ---- rows ---- */

static void put(struct tool *t, const char *text)
{
    cmd_out_write(&t->out, text, strlen(text));
}

/* A JSON row; takes the reference. */
static void put_json(struct tool *t, json_t *row)
{
    char *dump = row ? json_dumps(row, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    if (!dump)
        cmd_die(5, "out of memory");
    if (t->format == JSON)
        put(t, t->first ? "[\n" : ",\n");
    put(t, dump);
    if (t->format == JSONL)
        put(t, "\n");
    t->first = false;
    free(dump);
    json_decref(row);
}

/* Square root by Newton's iteration, so that the tools need no libm. */
static double root(double x)
{
    double r = x > 1 ? x : 1;
    for (int i = 0; i < 60 && x > 0; i++)
        r = (r + x / r) / 2;
    return x > 0 ? r : 0;
}

static void mean_and_deviation(const double *v, size_t n, double *mean, double *deviation)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++)
        sum += v[i];
    *mean = sum / (double)n;
    for (size_t i = 0; i < n; i++)
        squares += (v[i] - *mean) * (v[i] - *mean);
    *deviation = n > 1 ? root(squares / (double)(n - 1)) : 0;
}

/* One result: rates, and the share of the machine's limit that bounds such work. */
static void put_engine_row(struct tool *t, uint32_t prompt, uint32_t gen, uint32_t depth, uint32_t threads, const double *ns)
{
    double avg_ns, stddev_ns, avg_ts, stddev_ts, *ts = cmd_alloc(t->reps * sizeof *ts);
    double n = prompt + gen;
    for (uint32_t i = 0; i < t->reps; i++)
        ts[i] = n * 1e9 / ns[i];
    mean_and_deviation(ns, t->reps, &avg_ns, &stddev_ns);
    mean_and_deviation(ts, t->reps, &avg_ts, &stddev_ts);
    free(ts);
    double gops = avg_ts * akv_bench_token_ops(t->model, gen > 0) * 1e-9, gbs = avg_ts * akv_bench_token_bytes(t->model) * 1e-9;
    double limit = gen ? t->machine.read_gbs : t->machine.int8_gops * threads;
    double share = limit > 0 ? (gen ? gbs : gops) / limit : 0;
    const char *type = json_string_value(json_object_get(t->about, "name"));
    json_int_t size = json_integer_value(json_object_get(t->about, "tensor_bytes"));
    if (t->format != MD) {
        put_json(t,
                 json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "model_type",
                           type ? type : "", "model_size", size, "n_threads", (json_int_t)threads, "n_prompt", (json_int_t)prompt,
                           "n_gen", (json_int_t)gen, "n_depth", (json_int_t)depth, "avg_ns", avg_ns, "stddev_ns", stddev_ns,
                           "avg_ts", avg_ts, "stddev_ts", stddev_ts, "gops", gops, "gbs", gbs, "int8_gops_limit",
                           t->machine.int8_gops, "read_gbs_limit", t->machine.read_gbs, "share_of_limit", share));
        return;
    }
    char test[64], rate[32] = "", line[256];
    snprintf(test, sizeof test, depth ? "%s%u @ d%u" : "%s%u", gen ? "tg" : "pp", gen ? gen : prompt, depth);
    if (t->first)
        put(t, "| model | size MiB | threads | test | tokens/s | GOP/s | GB/s | of limit |\n|---|--:|--:|---|--:|--:|--:|--:|\n");
    t->first = false;
    if (gen) /* a prefill reads the weights once for many tokens */
        snprintf(rate, sizeof rate, "%.2f", gbs);
    snprintf(line, sizeof line, "| %.60s | %.1f | %u | %s | %.2f ± %.2f | %.1f | %s | %.0f %% |\n", type ? type : "",
             (double)size / 1048576.0, threads, test, avg_ts, stddev_ts, gops, rate, share * 100);
    put(t, line);
}

static void put_machine(struct tool *t)
{
    const struct akv_machine *m = &t->machine;
    char line[256];
    if (t->format != MD)
        return;
    if (m->int8_gops <= 0) {
        put(t, "\nThe machine's limits cannot be measured on this processor.\n");
        return;
    }
    snprintf(line, sizeof line,
             "\nLimits of one thread: int8 %.1f GOP/s (maddubs + madd + add), %.1f summed in int16; f32 fma %.1f GFLOP/s; read "
             "%.1f GB/s.\n"
             "Of limit: prefill against int8 x threads, decode against read.\n",
             m->int8_gops, m->int8_i16_gops, m->fma_gflops, m->read_gbs);
    put(t, line);
}

static void engine_test(struct tool *t, uint32_t prompt, uint32_t gen, uint32_t depth, uint32_t threads)
{
    struct akv_err err = {0};
    struct akv_session_opts so = {0};
    double *ns = cmd_alloc(t->reps * sizeof *ns);
    t->o.threads = threads;
    t->o.n_ctx = prompt + gen + depth;
    t->o.no_store = true;
    struct akv_session *s = cmd_session(&t->o, t->model, &so);
    if (akv_bench_engine(s, prompt, gen, depth, t->reps, ns, &err) < 0)
        cmd_die_err(&err);
    for (uint32_t i = 0; i < t->reps; i++)
        cmd_detail("%s%u at depth %u, %u threads, run %u: %.1f ms", gen ? "tg" : "pp", prompt + gen, depth, threads, i + 1,
                   ns[i] * 1e-6);
    put_engine_row(t, prompt, gen, depth, threads, ns);
    akv_session_close(s);
    free(ns);
}

static void engine_tests(struct tool *t)
{
    struct akv_err err = {0};
    if (akv_bench_machine(&t->machine, &err) < 0)
        cmd_die_err(&err);
    for (size_t th = 0; th < t->threads.n; th++)
        for (size_t d = 0; d < t->depth.n; d++) {
            for (size_t p = 0; p < t->prompt.n; p++)
                if (t->prompt.v[p])
                    engine_test(t, t->prompt.v[p], 0, t->depth.v[d], t->threads.v[th]);
            for (size_t g = 0; g < t->gen.n; g++)
                if (t->gen.v[g])
                    engine_test(t, 0, t->gen.v[g], t->depth.v[d], t->threads.v[th]);
        }
    put_machine(t);
}

/* ---- cold and warm turns ---- */

static char store_dir[4096]; /* of the warm arm; removed at the end */

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static void remove_store(void)
{
    if (store_dir[0])
        nftw(store_dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static double wall_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

/* When the first byte of the reply came. */
static int first_text(void *ctx, const char *text, size_t len)
{
    double *at = ctx;
    (void)text;
    (void)len;
    if (*at == 0)
        *at = wall_ms();
    return 0;
}

/* One turn in a session of its own, as a process of its own would run it. */
static double run_turn(struct tool *t, const struct akv_request *r, bool warm, struct akv_reply *reply, struct akv_stats *st)
{
    struct akv_err err = {0}, save_err = {0};
    struct akv_session_opts so = {0};
    struct akv_gen_opts go;
    double start = wall_ms(), first = 0;
    t->o.store = store_dir;
    t->o.threads = t->threads.v[0];
    t->o.no_store = !warm;
    t->o.save = warm;
    struct akv_session *s = cmd_session(&t->o, t->model, &so);
    akv_gen_opts_init(&go);
    go.text = first_text;
    go.ctx = &first;
    if (akv_session_generate(s, r, &go, reply, st, &save_err, &err) < 0)
        cmd_die_err(&err);
    if (save_err.code)
        cmd_die_err(&save_err);
    akv_session_close(s);
    return (first > 0 ? first : wall_ms()) - start;
}

static void compare(const struct akv_request *r, const struct akv_reply *cold, const struct akv_reply *warm)
{
    size_t n = cold->n < warm->n ? cold->n : warm->n, i = 0;
    while (i < n && cold->ids[i] == warm->ids[i])
        i++;
    if (i < n || cold->n != warm->n)
        cmd_die(1, "%.40s: the arms differ at reply token %zu: cold %lld, warm %lld", akv_request_id(r), i,
                i < cold->n ? (long long)cold->ids[i] : -1LL, i < warm->n ? (long long)warm->ids[i] : -1LL);
}

static void put_turn(struct tool *t, const struct akv_request *r, const struct akv_stats *cold, const struct akv_stats *warm,
                     double cold_ms, double warm_ms)
{
    char line[256];
    if (t->format != MD) {
        put_json(t, json_pack("{s:s, s:I, s:I, s:I, s:f, s:f, s:f, s:b}", "turn", akv_request_id(r), "prompt_tokens",
                              (json_int_t)warm->prompt_tokens, "cached_tokens", (json_int_t)warm->cached_tokens, "prefilled_tokens",
                              (json_int_t)warm->prefilled_tokens, "cold_ms", cold_ms, "warm_ms", warm_ms, "speedup",
                              cold_ms / warm_ms, "void", cold->cached_tokens != 0));
        return;
    }
    if (t->first)
        put(t,
            "| turn | prompt | cached | prefilled | first token cold ms | warm ms | speed-up |\n|---|--:|--:|--:|--:|--:|--:|\n");
    t->first = false;
    snprintf(line, sizeof line, "| %.60s | %u | %u | %u | %.0f | %.0f | %.1fx |%s\n", akv_request_id(r), warm->prompt_tokens,
             warm->cached_tokens, warm->prefilled_tokens, cold_ms, warm_ms, cold_ms / warm_ms,
             cold->cached_tokens ? " void: the cold arm was not cold" : "");
    put(t, line);
}

static void turns(struct tool *t)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(store_dir, sizeof store_dir, "%s/akv-bench-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(store_dir))
        cmd_die(5, "%s: cannot create: %s", store_dir, strerror(errno));
    atexit(remove_store);
    cmd_last = remove_store;
    struct cmd_inputs inputs = {0};
    char *name = (char *)(uintptr_t)t->turns;
    cmd_first_input(&inputs, 1, &name);
    struct akv_request *r;
    struct akv_err err = {0};
    uint64_t hits = 0, void_rows = 0;
    int rc;
    while ((rc = akv_request_read(&r, inputs.in, t->model, &err)) > 0) {
        struct akv_reply cold, warm;
        struct akv_stats cold_st, warm_st;
        double cold_ms = run_turn(t, r, false, &cold, &cold_st), warm_ms = run_turn(t, r, true, &warm, &warm_st);
        compare(r, &cold, &warm);
        put_turn(t, r, &cold_st, &warm_st, cold_ms, warm_ms);
        hits += warm_st.cached_tokens;
        void_rows += cold_st.cached_tokens != 0;
        akv_reply_release(&cold);
        akv_reply_release(&warm);
        akv_request_free(r);
    }
    if (rc < 0)
        cmd_die_err(&err);
    if (!hits)
        cmd_die(1, "%s: the warm arm never hit", t->turns);
    if (void_rows)
        cmd_die(1, "%s: a cold arm was not cold", t->turns);
    cmd_input_done(&inputs);
}

int main(int argc, char **argv)
{
    cmd_begin("akv-bench");
    struct tool t = {.first = true};
    struct akv_err err = {0};
    char *about;
    options(&t, argc, argv);
    t.model = cmd_model(&t.o, 0);
    if (akv_inspect_model(t.model, t.o.model, &about, &err) < 0)
        cmd_die_err(&err);
    t.about = json_loads(about, 0, NULL);
    cmd_out_open(&t.out, NULL, false);
    if (t.turns)
        turns(&t);
    else
        engine_tests(&t);
    if (t.format == JSON)
        put(&t, t.first ? "[]\n" : "\n]\n");
    cmd_out_commit(&t.out);
    json_decref(t.about);
    free(about);
    akv_model_close(t.model);
    return cmd_exit();
}
