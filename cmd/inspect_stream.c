/* Streams and store objects: described record by record, verified, or their KV bytes. */
#include <stdlib.h>

#include "inspect.h"

/* Over the records of one stream. */
struct totals {
    long long record, pages, tokens, requests, sections, raw_bytes, coded_bytes;
};

static double ratio(long long raw, long long coded)
{
    return coded ? (double)raw / (double)coded : 0;
}

/* The text of a page: its exact bytes, malloc'd. */
static char *text_of(const struct inspect *t, const json_t *ids, size_t *len)
{
    size_t n = json_array_size(ids);
    uint32_t *v = cmd_alloc(n * sizeof *v);
    for (size_t i = 0; i < n; i++)
        v[i] = (uint32_t)json_integer_value(json_array_get(ids, i));
    char *text;
    struct akv_err err = {0};
    if (akv_decode(t->model, v, n, false, &text, len, &err) < 0)
        cmd_die_err(&err);
    free(v);
    return text;
}

/* On one line, control bytes escaped. */
static void print_text(struct inspect *t, const json_t *ids)
{
    size_t len;
    char *text = text_of(t, ids, &len);
    inspect_print(t, "    \"");
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c < 0x20 || c == 0x7f || c == '"' || c == '\\')
            inspect_print(t, c == '\n' ? "\\n" : "\\x%02x", c);
        else
            inspect_put(t, text + i, 1);
    }
    inspect_print(t, "\"\n");
    free(text);
}

/* The same for JSON: a character that the page's edge cuts is left out, a byte that is no text becomes U+FFFD. */
static void add_text(const struct inspect *t, json_t *o)
{
    size_t len, n;
    char *text = text_of(t, json_object_get(o, "tokens"), &len), *clean;
    struct akv_err err = {0};
    if (akv_clean_text(text, len, &clean, &n, &err) < 0)
        cmd_die_err(&err);
    if (json_object_set_new(o, "text", json_stringn(clean, n)) < 0)
        cmd_die(5, "out of memory");
    free(clean);
    free(text);
}

static void count(struct totals *s, const json_t *o)
{
    s->record = inspect_num(o, "record");
    switch (*inspect_str(o, "type")) {
    case 'P':
        s->pages++;
        s->tokens += inspect_num(o, "n");
        s->raw_bytes += inspect_num(o, "raw_bytes");
        s->coded_bytes += inspect_num(o, "coded_bytes");
        break;
    case 'Q':
        s->requests++;
        break;
    case 'E':
        s->sections++;
        break;
    }
}

static void print_record(struct inspect *t, const json_t *o)
{
    const json_t *g = json_object_get(o, "geometry");
    switch (*inspect_str(o, "type")) {
    case 'H':
        inspect_print(t, "H  root %s\n   %lld layers, %lld kv heads, %lld + %lld dims, %s, %lld bytes per token\n",
                      inspect_str(o, "root"), inspect_num(g, "layers"), inspect_num(g, "kv_heads"), inspect_num(g, "k_dims"),
                      inspect_num(g, "v_dims"), inspect_str(g, "dtype"), inspect_num(g, "bytes_per_token"));
        inspect_fields(t, json_object_get(o, "fields"));
        break;
    case 'P':
        inspect_print(t, "P  %.16s  page %lld, %2lld tokens, %s %lld -> %lld bytes (%.2f)%s\n", inspect_str(o, "key"),
                      inspect_num(o, "index"), inspect_num(o, "n"), inspect_str(o, "codec"), inspect_num(o, "raw_bytes"),
                      inspect_num(o, "coded_bytes"), ratio(inspect_num(o, "raw_bytes"), inspect_num(o, "coded_bytes")),
                      json_is_true(json_object_get(o, "open")) ? "  open: its parent is elsewhere" : "");
        if (cmd_verbose)
            inspect_print(t, "    key %s\n    parent %s\n    sha256 %s\n", inspect_str(o, "key"), inspect_str(o, "parent"),
                          inspect_str(o, "sha256"));
        if (t->text)
            print_text(t, json_object_get(o, "tokens"));
        break;
    case 'Q':
        inspect_print(t, "Q  %s: %lld tokens\n", inspect_str(o, "id"), inspect_num(o, "n"));
        break;
    case 'E':
        for (size_t i = 0; i < json_array_size(json_object_get(o, "tips")); i++)
            inspect_print(t, "E  tip %.16s\n", json_string_value(json_array_get(json_object_get(o, "tips"), i)));
        break;
    }
}

/* Ids of another tokenizer would become another text. A head that names none is taken, as token records are. */
static int check_tokenizer(const struct inspect *t, const json_t *o, struct akv_err *err)
{
    const char *digest = json_string_value(json_object_get(json_object_get(o, "fields"), "tokenizer"));
    return digest ? akv_model_check_tokenizer(t->model, digest, err) : 0;
}

static int take_record(struct inspect *t, struct totals *s, const char *json, struct akv_err *err)
{
    json_t *o = inspect_parse(json);
    int rc = t->text && *inspect_str(o, "type") == 'H' ? check_tokenizer(t, o, err) : 0;
    count(s, o);
    if (rc < 0 || t->verify || t->raw) {
        /* only counted */
    } else if (t->json && t->text && *inspect_str(o, "type") == 'P') {
        add_text(t, o);
        inspect_json(t, o);
    } else if (t->json) {
        cmd_out_line(&t->out, json);
    } else {
        inspect_escape(o);
        print_record(t, o);
    }
    json_decref(o);
    return rc;
}

static void print_totals(struct inspect *t, const struct totals *s)
{
    t->n_done++;
    if (t->raw)
        return;
    json_t *o = json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I}", "type", "totals", "sections", (json_int_t)s->sections, "pages",
                          (json_int_t)s->pages, "tokens", (json_int_t)s->tokens, "requests", (json_int_t)s->requests, "raw_bytes",
                          (json_int_t)s->raw_bytes, "coded_bytes", (json_int_t)s->coded_bytes);
    if (t->json)
        inspect_json(t, o);
    else
        inspect_print(t, "%lld pages, %lld tokens, %lld requests, %lld sections, %lld -> %lld bytes (%.2f)\n", s->pages, s->tokens,
                      s->requests, s->sections, s->raw_bytes, s->coded_bytes, ratio(s->raw_bytes, s->coded_bytes));
    json_decref(o);
}

void inspect_stream(struct inspect *t, struct akv_input *in, const char *name)
{
    unsigned flags = t->quick ? t->verify ? 0 : AKV_INSPECT_HEADERS : t->verify ? AKV_INSPECT_VERIFY : 0;
    struct totals s = {0};
    for (;;) {
        struct akv_err err = {0};
        char *json = NULL;
        uint8_t *body = NULL;
        size_t n = 0;
        int rc = akv_inspect_next(in, flags, &json, t->raw ? &body : NULL, &n, &err);
        if (rc < 0 && t->verify) {
            inspect_bad(t, name, &err);
            return;
        }
        if (rc < 0)
            cmd_die_err(&err);
        if (rc == 0)
            break;
        if (body)
            cmd_out_write(&t->out, body, n);
        rc = take_record(t, &s, json, &err);
        free(json);
        free(body);
        if (rc < 0)
            cmd_die(akv_exit_status(rc), "%s: record %lld: %s", name, s.record, err.msg);
    }
    if (t->verify)
        inspect_good(t, name, s.pages, s.tokens, s.requests);
    else
        print_totals(t, &s);
}
