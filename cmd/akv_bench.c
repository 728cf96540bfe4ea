/* akv-bench: the engine beside the machine's limits, and turns with and without a store. What each mode does is in bench_MODE.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

static const char usage[] = "[MODE] [options] [operand...]";
static const char help[] =
    "Modes:\n"
    "  engine [TEST...]     time prefill and decode beside the machine's limits (default). Tests are pp512, tg64, tg64@d2048;\n"
    "                       -: as they come on standard input; without any, every combination of the lists is run\n"
    "  kernels [OP|TYPE...] time every op of every kernel table, and compare their results bit for bit; needs no model\n"
    "  restore              time restoring full pages from a store, in both codecs, beside zstd on the same bytes\n"
    "  turns [FILE...]      token records of a conversation's turns: time to the first text without a store, with an empty one, "
    "and\n"
    "                       with the one that the turns before have filled\n\n"
    "Lists are comma-separated.\n"
    "  -p, --n-prompt LIST  engine: tokens of prefill (default: 512; 0: none); restore: tokens, in whole pages\n"
    "  -n, --n-gen LIST     engine: tokens of decode (default: 64; 0: none)\n"
    "  -d, --n-depth LIST   engine: tokens that stand before them (default: 0)\n"
    "  -r, --repetitions N  runs of each test (default: 3)\n"
    "  -s, --store DIR      turns: make the stores there and keep them (default: in TMPDIR, removed)\n"
    "      --drop-cache     turns: drop the store from the page cache before each warm run\n"
    "  -t, -@, --threads LIST  threads (default: 1)\n"
    "  -o, --output FORMAT  md, json or jsonl (default: md)\n"
    "      --kv TYPE        f16 or f32 KV (default: f16)\n"
    "      --pre NAME       the model's pre-tokenizer, whatever its file says\n"
    "  -m, --model FILE     the model, a GGUF file (default: $AKV_MODEL)\n"
    "  -q, --quiet          no warnings and no progress\n"
    "  -v, --verbose        more words\n"
    "  -h, --help           this text\n"
    "  -V, --version        the version\n";

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
                                      {"store", required_argument, NULL, 's'},
                                      {"drop-cache", no_argument, NULL, 'D'},
                                      {"kv", required_argument, NULL, CMD_OPT_KV},
                                      {"pre", required_argument, NULL, CMD_OPT_PRE},
                                      {0}};

/* takes: the options of a mode beside -o -m -q -v, --kv and --pre; any other one that is given is refused. The first is the default. */
static const struct {
    const char *name, *takes;
    void (*run)(struct bench *b);
} modes[] = {
    {"engine", "pndrt", bench_engine},
    {"kernels", "r", bench_kernels},
    {"restore", "prt", bench_restore},
    {"turns", "rtsD", bench_turns},
};

static void parse_list(struct bench_list *l, const char *text, uint64_t most, const char *what)
{
    char *copy = cmd_strdup(text), *save = NULL;
    l->n = 0;
    for (char *at = strtok_r(copy, ",", &save); at; at = strtok_r(NULL, ",", &save)) {
        if (l->n == BENCH_LIST_MAX)
            cmd_die(2, "%s: more than %d values", what, BENCH_LIST_MAX);
        l->v[l->n++] = (uint32_t)cmd_number(at, most, what);
    }
    if (!l->n)
        cmd_die(2, "%s: empty", what);
    free(copy);
}

static void parse_format(struct bench *b, const char *text)
{
    if (strcmp(text, "md") && strcmp(text, "json") && strcmp(text, "jsonl"))
        cmd_die(2, "--output: %.40s: must be md, json or jsonl", text);
    b->format = !strcmp(text, "md") ? BENCH_MD : !strcmp(text, "json") ? BENCH_JSON : BENCH_JSONL;
}

/* An option of akv-bench's own; false: not one. */
static bool own_option(struct bench *b, int c)
{
    switch (c) {
    case 'p':
        parse_list(&b->prompt, optarg, 1u << 24, "--n-prompt");
        return true;
    case 'n':
        parse_list(&b->gen, optarg, 1u << 24, "--n-gen");
        return true;
    case 'd':
        parse_list(&b->depth, optarg, 1u << 24, "--n-depth");
        return true;
    case 't':
    case '@':
        parse_list(&b->threads, optarg, 256, "--threads");
        for (size_t i = 0; i < b->threads.n; i++)
            if (!b->threads.v[i])
                cmd_die(2, "--threads: must be at least 1");
        return true;
    case 'r':
        b->reps = (uint32_t)cmd_number(optarg, 1000, "--repetitions");
        if (!b->reps)
            cmd_die(2, "--repetitions: must be at least 1");
        return true;
    case 's':
        b->store = optarg;
        return true;
    case 'D':
        b->drop_cache = true;
        return true;
    case 'o':
        parse_format(b, optarg);
        return true;
    default:
        return false;
    }
}

static const char *long_name(char c)
{
    size_t i = 0;
    while (longs[i].val != c)
        i++;
    return longs[i].name;
}

/* The index of the mode. */
static size_t options(struct bench *b, int argc, char **argv)
{
    char given[64] = "";
    size_t n_given = 0, mode = 0, n_modes = sizeof modes / sizeof *modes;
    cmd_opts_init(&b->o);
    b->prompt = (struct bench_list){{512}, 1};
    b->gen = (struct bench_list){{64}, 1};
    b->depth = (struct bench_list){{0}, 1};
    b->threads = (struct bench_list){{1}, 1};
    b->reps = 3;
    for (int c; (c = cmd_getopt(argc, argv, "hVqvm:p:n:d:t:@:r:o:s:", longs)) != -1;) {
        if (!own_option(b, c))
            cmd_opt(&b->o, c, usage, help);
        else if (c != 'o' && !strchr(given, c == '@' ? 't' : c))
            given[n_given++] = (char)(c == '@' ? 't' : c);
    }
    if (optind < argc) {
        while (mode < n_modes && strcmp(argv[optind], modes[mode].name))
            mode++;
        if (mode == n_modes)
            cmd_die(2, "%.40s: no such mode: see akv-bench -h", argv[optind]);
        optind++;
    }
    for (size_t i = 0; i < n_given; i++)
        if (!strchr(modes[mode].takes, given[i]))
            cmd_die(2, "--%s: not an option of %s", long_name(given[i]), modes[mode].name);
    b->operands = argv + optind;
    b->n_operands = argc - optind;
    return mode;
}

void bench_need_model(struct bench *b)
{
    struct akv_err err = {0};
    char *about;
    b->model = cmd_model(&b->o, AKV_MODEL_DECODE_ONLY);
    if (akv_inspect_model(b->o.model, b->o.pre, &about, &err) < 0)
        cmd_die_err(&err);
    b->about = json_loads(about, 0, NULL);
    free(about);
}

int main(int argc, char **argv)
{
    cmd_begin("akv-bench");
    struct bench b = {.first = true};
    size_t mode = options(&b, argc, argv);
    cmd_out_open(&b.out, NULL, false);
    modes[mode].run(&b);
    bench_end(&b);
    cmd_out_commit(&b.out);
    json_decref(b.about);
    akv_model_close(b.model);
    return cmd_exit();
}
