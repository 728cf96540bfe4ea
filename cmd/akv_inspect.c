/* akv-inspect: what a stream, a store object or a model file holds. */
#include "inspect.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] = "[options] [FILE ...] | --explain A B";
static const char help[] = "Describe akv streams, store objects and GGUF models.\n\n"
                           "      --json           JSON Lines: one object a record\n"
                           "      --verify         check everything, bodies included: a line for each good file\n"
                           "      --diff           compare two streams: what differs, and how far their KV is apart\n"
                           "      --quick          headers only; with --verify: all but decoding the bodies\n"
                           "      --raw            write the raw KV bytes of the pages, in order\n"
                           "      --text           show the pages' text (needs -m): a snapshot reveals its prompt\n"
                           "      --root           with a model: print its root and ingredients (hashes the weights)\n"
                           "      --explain        instead: say where prompt B parts from A, why and at what cost; exit 1 when it\n"
                           "                       does. A, B: a file of records, a stream, pin:NAME; A also a store\n"
                           "  -s, --store DIR      the store of pin:NAME (default: $AKV_STORE, else ~/.cache/akv/store)\n" CMD_HELP;

enum { OPT_JSON = CMD_OPT_OWN, OPT_VERIFY, OPT_QUICK, OPT_RAW, OPT_TEXT, OPT_ROOT, OPT_EXPLAIN, OPT_DIFF };

static const struct option longs[] = {CMD_LONG,
                                      {"json", no_argument, NULL, OPT_JSON},
                                      {"verify", no_argument, NULL, OPT_VERIFY},
                                      {"quick", no_argument, NULL, OPT_QUICK},
                                      {"raw", no_argument, NULL, OPT_RAW},
                                      {"text", no_argument, NULL, OPT_TEXT},
                                      {"root", no_argument, NULL, OPT_ROOT},
                                      {"explain", no_argument, NULL, OPT_EXPLAIN},
                                      {"store", required_argument, NULL, 's'},
                                      {"diff", no_argument, NULL, OPT_DIFF},
                                      {0}};

static void options(struct inspect *t, int argc, char **argv)
{
    cmd_opts_init(&t->o);
    for (int c; (c = cmd_getopt(argc, argv, CMD_SHORT "s:", longs)) != -1;) {
        if (cmd_opt(&t->o, c, usage, help))
            continue;
        switch (c) {
        case OPT_JSON:
            t->json = true;
            break;
        case OPT_VERIFY:
            t->verify = true;
            break;
        case OPT_QUICK:
            t->quick = true;
            break;
        case OPT_RAW:
            t->raw = true;
            break;
        case OPT_TEXT:
            t->text = true;
            break;
        case OPT_ROOT:
            t->root = true;
            break;
        case OPT_EXPLAIN:
            t->explain = true;
            break;
        case OPT_DIFF:
            t->diff = true;
            break;
        }
    }
    if (t->verify && t->text)
        cmd_die(2, "--verify prints one line a file: it excludes --text");
    if (t->raw && (t->json || t->verify || t->text || t->quick))
        cmd_die(2, "--raw writes bytes only: it excludes --json, --verify, --text and --quick");
    if (t->explain && (t->verify || t->quick || t->raw || t->text || t->root || t->diff))
        cmd_die(2, "--explain goes with --json only");
    if (t->diff && (t->verify || t->quick || t->raw || t->text || t->root))
        cmd_die(2, "--diff goes with --json only");
    if ((t->explain || t->diff) && argc - optind != 2)
        cmd_die(2, "--%s: two operands are expected: see %s -h", t->diff ? "diff" : "explain", cmd_name);
}

static void flush(struct inspect *t)
{
    cmd_out_write(&t->out, t->line, t->n_line);
    t->n_line = 0;
}

void inspect_put(struct inspect *t, const char *text, size_t n)
{
    if (n > sizeof t->line - t->n_line)
        flush(t);
    if (n > sizeof t->line) {
        cmd_out_write(&t->out, text, n);
        return;
    }
    memcpy(t->line + t->n_line, text, n);
    t->n_line += n;
    if (n && text[n - 1] == '\n')
        flush(t);
}

void inspect_print(struct inspect *t, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    char text[512], *longer = NULL;
    int n = vsnprintf(text, sizeof text, fmt, ap);
    if (n >= (int)sizeof text) {
        longer = cmd_alloc((size_t)n + 1);
        vsnprintf(longer, (size_t)n + 1, fmt, again);
    }
    va_end(again);
    va_end(ap);
    inspect_put(t, longer ? longer : text, n > 0 ? (size_t)n : 0);
    free(longer);
}

long long inspect_num(const json_t *o, const char *key)
{
    return json_integer_value(json_object_get(o, key));
}

const char *inspect_str(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "-";
}

void inspect_fields(struct inspect *t, const json_t *fields)
{
    const char *tag;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)fields, tag, value) {
        char *line = cmd_escaped(tag);
        inspect_print(t, "    %-16s %s\n", line, json_string_value(value));
        free(line);
    }
}

static void escape_strings(json_t *object)
{
    const char *key;
    json_t *value;
    json_object_foreach (object, key, value) {
        char *line = json_is_string(value) ? cmd_escaped(json_string_value(value)) : NULL;
        if (line && json_string_set(value, line))
            cmd_die(5, "out of memory");
        free(line);
    }
}

void inspect_json(struct inspect *t, const json_t *o)
{
    char *line = json_dumps(o, JSON_COMPACT);
    if (!line)
        cmd_die(5, "out of memory");
    cmd_out_line(&t->out, line);
    free(line);
}

json_t *inspect_parse(const char *json)
{
    json_t *o = json_loads(json, 0, NULL);
    if (!o)
        cmd_die(5, "out of memory");
    return o;
}

void inspect_escape(json_t *o)
{
    escape_strings(o);
    escape_strings(json_object_get(o, "fields"));
}

/* Damaged from its first byte on, for --verify. */
static void no_stream(struct inspect *t, const char *name, const char *why)
{
    struct akv_err err = {.code = AKV_E_INPUT};
    snprintf(err.msg, sizeof err.msg, "%.900s: %s", name, why);
    if (!t->verify)
        cmd_die_err(&err);
    inspect_bad(t, name, &err);
}

/* Each file by itself. */
static void each_file(struct inspect *t, int argc, char **argv)
{
    struct cmd_inputs inputs = {.apart = true, .with_empty = t->verify};
    cmd_first_input(&inputs, argc, argv);
    for (struct akv_input *in; (in = cmd_input(&inputs)); cmd_input_done(&inputs)) {
        const char *name = cmd_input_name(&inputs);
        enum akv_kind kind = akv_input_kind(in);
        bool is_model = kind == AKV_KIND_GGUF;
        if (kind == AKV_KIND_JSON || kind == AKV_KIND_EMPTY) {
            no_stream(t, name, kind == AKV_KIND_JSON ? "neither an akv stream nor a GGUF model" : "empty input");
            continue;
        }
        if (is_model && (t->raw || t->quick || t->text || t->verify))
            cmd_die(2, "%s: is a model: --raw, --quick, --text and --verify are for streams", name);
        if (!is_model && t->root)
            cmd_die(2, "%s: is a stream: --root is for models", name);
        if (is_model && inputs.fd == STDIN_FILENO)
            cmd_die(2, "a model is opened by its name, not from standard input");
        if (is_model)
            inspect_model(t, name);
        else
            inspect_stream(t, in, name);
    }
    if (t->verify)
        inspect_verified(t);
}

int main(int argc, char **argv)
{
    cmd_begin("akv-inspect");
    struct inspect t = {0};
    options(&t, argc, argv);
    if (t.text || (t.explain && t.o.model))
        t.model = cmd_model(&t.o, AKV_MODEL_VOCAB_ONLY | AKV_MODEL_DECODE_ONLY);
    cmd_out_open(&t.out, t.o.out, t.raw);
    int no = 0; /* the answer is no: exit status 1 */
    if (t.explain)
        no = inspect_explain(&t, argv[optind], argv[optind + 1]);
    else if (t.diff)
        no = inspect_diff(&t, argv + optind, argv + optind + 1);
    else
        each_file(&t, argc - optind, argv + optind);
    cmd_leave_if_none(t.n_done);
    cmd_out_commit(&t.out);
    akv_model_close(t.model);
    int status = cmd_exit();
    return status ? status : no;
}
