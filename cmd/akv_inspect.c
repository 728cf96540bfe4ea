/* akv-inspect: what a stream, a store object or a model file holds. */
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd.h"

static const char usage[] = "[options] [FILE ...]";
static const char help[] = "Describe akv streams, store objects and GGUF models.\n\n"
                           "      --json           JSON Lines: one object a record\n"
                           "      --verify         check everything, bodies included; print one line a file\n"
                           "      --quick          headers only: do not read page bodies\n"
                           "      --raw            write the raw KV bytes of the pages, in order\n"
                           "      --text           show the pages' text (needs -m): a snapshot reveals its prompt\n"
                           "      --root           with a model: print its root and ingredients (hashes the weights)\n" CMD_HELP;

enum { OPT_JSON = CMD_OPT_OWN, OPT_VERIFY, OPT_QUICK, OPT_RAW, OPT_TEXT, OPT_ROOT };

static const struct option longs[] = {CMD_LONG,
                                      {"json", no_argument, NULL, OPT_JSON},
                                      {"verify", no_argument, NULL, OPT_VERIFY},
                                      {"quick", no_argument, NULL, OPT_QUICK},
                                      {"raw", no_argument, NULL, OPT_RAW},
                                      {"text", no_argument, NULL, OPT_TEXT},
                                      {"root", no_argument, NULL, OPT_ROOT},
                                      {0}};

struct tool {
    struct cmd_opts o;
    bool json, verify, quick, raw, text, root;
    struct akv_model *model; /* for --text */
    struct cmd_out out;
    uint64_t n_done; /* files described */
    json_int_t pages, tokens, requests, sections, raw_bytes, coded_bytes;
};

static void options(struct tool *t, int argc, char **argv)
{
    cmd_opts_init(&t->o);
    for (int c; (c = cmd_getopt(argc, argv, CMD_SHORT, longs)) != -1;) {
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
        }
    }
    if (t->verify && t->json)
        cmd_die(2, "--verify prints one line a file: it excludes --json");
    if (t->quick && (t->verify || t->raw))
        cmd_die(2, "--quick reads no page bodies: it excludes --verify and --raw");
    if (t->raw && (t->json || t->verify || t->text))
        cmd_die(2, "--raw writes bytes only: it excludes --json, --verify and --text");
}

static void print(struct tool *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void print(struct tool *t, const char *fmt, ...)
{
    char line[4096];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    cmd_out_write(&t->out, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
}

static json_int_t num(const json_t *o, const char *key)
{
    return json_integer_value(json_object_get(o, key));
}

static const char *str(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "-";
}

static void print_fields(struct tool *t, const json_t *fields)
{
    const char *tag;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)fields, tag, value) {
        char *line = cmd_escaped(tag);
        print(t, "    %-12s %s\n", line, json_string_value(value));
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

/* A description to be shown: names and ingredients come from elsewhere and may hold anything, each is to stay on its line. */
static json_t *load_shown(const char *json)
{
    json_t *o = json_loads(json, 0, NULL);
    if (!o)
        cmd_die(5, "out of memory");
    escape_strings(o);
    escape_strings(json_object_get(o, "fields"));
    return o;
}

/* The text of a page on one line, control bytes escaped. */
static void print_text(struct tool *t, const json_t *ids)
{
    size_t n = json_array_size(ids), len;
    uint32_t *v = cmd_alloc(n * sizeof *v);
    for (size_t i = 0; i < n; i++)
        v[i] = (uint32_t)json_integer_value(json_array_get(ids, i));
    char *text;
    struct akv_err err = {0};
    if (akv_decode(t->model, v, n, false, &text, &len, &err) < 0)
        cmd_die_err(&err);
    print(t, "    \"");
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c < 0x20 || c == 0x7f || c == '"' || c == '\\')
            print(t, c == '\n' ? "\\n" : "\\x%02x", c);
        else
            cmd_out_write(&t->out, text + i, 1);
    }
    print(t, "\"\n");
    free(text);
    free(v);
}

static void count(struct tool *t, const json_t *o)
{
    switch (*str(o, "type")) {
    case 'P':
        t->pages++;
        t->tokens += num(o, "n");
        t->raw_bytes += num(o, "raw_bytes");
        t->coded_bytes += num(o, "coded_bytes");
        break;
    case 'Q':
        t->requests++;
        break;
    case 'E':
        t->sections++;
        break;
    }
}

static void print_record(struct tool *t, const json_t *o)
{
    const json_t *g = json_object_get(o, "geometry");
    switch (*str(o, "type")) {
    case 'H':
        print(t, "H  root %s\n   %lld layers, %lld kv heads, %lld + %lld dims, %s, %lld bytes per token\n", str(o, "root"),
              (long long)num(g, "layers"), (long long)num(g, "kv_heads"), (long long)num(g, "k_dims"), (long long)num(g, "v_dims"),
              str(g, "dtype"), (long long)num(g, "bytes_per_token"));
        print_fields(t, json_object_get(o, "fields"));
        break;
    case 'P':
        print(t, "P  %.16s  page %lld, %2lld tokens, %s %lld -> %lld bytes (%.2f)%s\n", str(o, "key"), (long long)num(o, "index"),
              (long long)num(o, "n"), str(o, "codec"), (long long)num(o, "raw_bytes"), (long long)num(o, "coded_bytes"),
              num(o, "coded_bytes") ? (double)num(o, "raw_bytes") / (double)num(o, "coded_bytes") : 0.0,
              json_is_true(json_object_get(o, "open")) ? "  open: its parent is elsewhere" : "");
        if (cmd_verbose)
            print(t, "    key %s\n    parent %s\n    sha256 %s\n", str(o, "key"), str(o, "parent"), str(o, "sha256"));
        if (t->text)
            print_text(t, json_object_get(o, "tokens"));
        break;
    case 'Q':
        print(t, "Q  %s: %lld tokens\n", str(o, "id"), (long long)num(o, "n"));
        break;
    case 'E':
        for (size_t i = 0; i < json_array_size(json_object_get(o, "tips")); i++)
            print(t, "E  tip %.16s\n", json_string_value(json_array_get(json_object_get(o, "tips"), i)));
        break;
    }
}

static void take_record(struct tool *t, const char *json)
{
    if (t->json && !t->verify) {
        cmd_out_line(&t->out, json);
    }
    json_t *o = load_shown(json);
    count(t, o);
    if (!t->json && !t->verify && !t->raw)
        print_record(t, o);
    json_decref(o);
}

static void totals(struct tool *t, const char *name)
{
    char *line = cmd_escaped(name);
    t->n_done++;
    if (t->verify)
        print(t, "%s: ok: %lld pages, %lld tokens, %lld requests\n", line, (long long)t->pages, (long long)t->tokens,
              (long long)t->requests);
    else if (!t->json && !t->raw)
        print(t, "%lld pages, %lld tokens, %lld requests, %lld sections, %lld -> %lld bytes\n", (long long)t->pages,
              (long long)t->tokens, (long long)t->requests, (long long)t->sections, (long long)t->raw_bytes,
              (long long)t->coded_bytes);
    free(line);
}

static void inspect_stream(struct tool *t, struct akv_input *in, const char *name)
{
    unsigned flags = (t->verify ? AKV_INSPECT_VERIFY : 0) | (t->quick ? AKV_INSPECT_QUICK : 0);
    t->pages = t->tokens = t->requests = t->sections = t->raw_bytes = t->coded_bytes = 0;
    for (;;) {
        struct akv_err err = {0};
        char *json = NULL;
        uint8_t *body = NULL;
        size_t n = 0;
        int rc = akv_inspect_next(in, flags, &json, t->raw ? &body : NULL, &n, &err);
        if (rc < 0 && t->verify) { /* the answer to --verify is no, whatever was wrong */
            err.code = akv_exit_status(rc) == 5 ? rc : AKV_E_NO;
            cmd_report(&err);
            return;
        }
        if (rc < 0)
            cmd_die_err(&err);
        if (rc == 0)
            break;
        if (body)
            cmd_out_write(&t->out, body, n);
        take_record(t, json);
        free(json);
        free(body);
    }
    totals(t, name);
}

static void print_model(struct tool *t, const json_t *o)
{
    print(t, "%s: %s, architecture %s, %lld bytes\n", str(o, "path"), str(o, "name"), str(o, "architecture"),
          (long long)num(o, "file_bytes"));
    if (json_object_get(o, "layers"))
        print(
            t,
            "  %lld layers, width %lld, ff %lld, %lld heads, %lld kv heads of %lld, context %lld, KV %lld bytes per token (f16)\n",
            (long long)num(o, "layers"), (long long)num(o, "width"), (long long)num(o, "ff"), (long long)num(o, "heads"),
            (long long)num(o, "kv_heads"), (long long)num(o, "k_dims"), (long long)num(o, "context"),
            (long long)num(o, "kv_bytes_per_token"));
    const char *dtype;
    json_t *mix;
    json_object_foreach (json_object_get(o, "tensors"), dtype, mix)
        print(t, "  %-8s %4lld tensors %12lld bytes\n", dtype, (long long)num(mix, "tensors"), (long long)num(mix, "bytes"));
    print(t, "  vocabulary %lld, tokenizer %.16s, chat template: %s\n", (long long)num(o, "vocabulary"), str(o, "tokenizer"),
          !json_is_true(json_object_get(o, "chat_template")) ? "no"
          : json_object_get(o, "chat_template_error")        ? "broken"
                                                             : "yes");
}

static void print_root(struct tool *t, const struct akv_model *m)
{
    struct akv_err err = {0};
    struct akv_session_opts so = {0};
    char *json;
    struct akv_session *s = cmd_session(&t->o, m, &so);
    if (akv_session_root(s, &json, &err) < 0)
        cmd_die_err(&err);
    json_t *o = json_loads(json, 0, NULL);
    if (t->json) {
        cmd_out_line(&t->out, json);
    } else {
        print(t, "  root %s\n", str(o, "root"));
        print_fields(t, json_object_get(o, "fields"));
    }
    json_decref(o);
    free(json);
    akv_session_close(s);
}

static void inspect_model(struct tool *t, const char *path)
{
    struct akv_err err = {0}, reason = {0};
    struct akv_model *m = NULL;
    char *json;
    /* an architecture that cannot be run can still be described */
    if (akv_model_open(&m, path, 0, t->o.pre, &reason) < 0 && akv_model_open(&m, path, AKV_MODEL_VOCAB_ONLY, t->o.pre, &err) < 0)
        cmd_die_err(&reason);
    if (akv_model_notes(m))
        cmd_notes(cmd_strdup(akv_model_notes(m)));
    if (akv_inspect_model(m, path, &json, &err) < 0)
        cmd_die_err(&err);
    json_t *o = load_shown(json);
    if (json_object_get(o, "chat_template_error"))
        cmd_note("%s: chat template: %s", path, str(o, "chat_template_error"));
    if (t->json) {
        cmd_out_line(&t->out, json);
    } else {
        print_model(t, o);
        if (reason.code)
            print(t, "  cannot be run: %s\n", reason.msg);
    }
    json_decref(o);
    free(json);
    if (t->root && !reason.code)
        print_root(t, m);
    t->n_done++;
    akv_model_close(m);
}

int main(int argc, char **argv)
{
    cmd_begin("akv-inspect");
    struct tool t = {0};
    options(&t, argc, argv);
    if (t.text)
        t.model = cmd_model(&t.o, AKV_MODEL_VOCAB_ONLY);
    cmd_out_open(&t.out, t.o.out, t.raw);
    struct cmd_inputs inputs = {0};
    inputs.apart = true; /* each file is described and verified by itself */
    cmd_first_input(&inputs, argc - optind, argv + optind);
    for (struct akv_input *in; (in = cmd_input(&inputs)); cmd_input_done(&inputs)) {
        const char *name = cmd_input_name(&inputs);
        bool is_model = akv_input_kind(in) == AKV_KIND_GGUF;
        if (akv_input_kind(in) == AKV_KIND_JSON)
            cmd_die(3, "%s: neither an akv stream nor a GGUF model", name);
        if (is_model && (t.raw || t.quick || t.text || t.verify))
            cmd_die(2, "%s: is a model: --raw, --quick, --text and --verify are for streams", name);
        if (!is_model && t.root)
            cmd_die(2, "%s: is a stream: --root is for models", name);
        if (is_model && inputs.fd == STDIN_FILENO)
            cmd_die(2, "a model is opened by its name, not from standard input");
        if (is_model)
            inspect_model(&t, name);
        else
            inspect_stream(&t, in, name);
    }
    cmd_leave_if_none(t.n_done);
    cmd_out_commit(&t.out);
    akv_model_close(t.model);
    return cmd_exit();
}
