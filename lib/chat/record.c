#include "chat/record.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

#define FORMAT "tokens/1"

static int read_version(const json_t *json, struct akv_err *err)
{
    const char *v = json_string_value(json_object_get(json, "akv"));
    if (v && !strcmp(v, FORMAT))
        return 0;
    if (v && !strncmp(v, "tokens/", 7))
        return akv_fail(err, AKV_E_INCOMPAT, "akv: the record's format is \"%.20s\", this version reads \"" FORMAT "\"", v);
    return akv_fail(err, AKV_E_INPUT, "akv: missing or not \"" FORMAT "\"; not a token record");
}

static bool is_digest(const json_t *v)
{
    uint8_t raw[AKV_SHA_BYTES];
    return json_is_string(v) && akv_unhex(raw, sizeof raw, json_string_value(v), json_string_length(v));
}

static int read_names(struct akv_record *r, struct akv_err *err)
{
    const json_t *id = json_object_get(r->json, "id"), *tok = json_object_get(r->json, "tok");
    if (!json_is_string(id))
        return akv_fail(err, AKV_E_INPUT, "id: missing or not a string");
    r->id = json_string_value(id);
    if (strlen(r->id) != json_string_length(id))
        return akv_fail(err, AKV_E_INPUT, "id: holds a NUL character");
    if (tok && !is_digest(tok))
        return akv_fail(err, AKV_E_INPUT, "tok: must be a digest of 64 hexadecimal digits");
    r->tok = json_string_value(tok);
    return 0;
}

static int read_tokens(struct akv_record *r, uint32_t n_vocab, struct akv_err *err)
{
    const json_t *n = json_object_get(r->json, "n"), *tokens = json_object_get(r->json, "tokens");
    if (!json_is_integer(n))
        return akv_fail(err, AKV_E_INPUT, "n: missing or not a whole number");
    if (!json_is_array(tokens))
        return akv_fail(err, AKV_E_INPUT, "tokens: missing or not an array");
    r->n = json_array_size(tokens);
    if (json_integer_value(n) < 0 || (size_t)json_integer_value(n) != r->n)
        return akv_fail(err, AKV_E_INPUT, "n: says %lld, but there are %zu tokens", (long long)json_integer_value(n), r->n);
    if (r->n >= UINT32_MAX)
        return akv_fail(err, AKV_E_INPUT, "tokens: too many");
    r->ids = akv_alloc(r->n, sizeof *r->ids, err);
    if (!r->ids)
        return AKV_E_IO;
    json_int_t limit = n_vocab ? n_vocab : UINT32_MAX;
    for (size_t i = 0; i < r->n; i++) {
        const json_t *v = json_array_get(tokens, i);
        json_int_t id = json_integer_value(v);
        if (!json_is_integer(v))
            return akv_fail(err, AKV_E_INPUT, "tokens[%zu]: not a whole number", i);
        if (id < 0 || id >= limit)
            return akv_fail(err, AKV_E_INPUT, "tokens[%zu]: id %lld is outside the vocabulary of %lld", i, (long long)id,
                            (long long)limit);
        r->ids[i] = (uint32_t)id;
    }
    return 0;
}

/* An optional array of objects: 0 when absent, else its length; *out is set. */
static int read_list(const json_t *json, const char *key, const json_t **out, size_t *n, struct akv_err *err)
{
    const json_t *v = json_object_get(json, key);
    *out = v;
    *n = json_array_size(v);
    return v && !json_is_array(v) ? akv_fail(err, AKV_E_INPUT, "%s: must be an array", key) : 0;
}

static bool read_position(const json_t *obj, const char *key, size_t n, uint32_t *out)
{
    const json_t *v = json_object_get(obj, key);
    json_int_t x = json_integer_value(v);
    *out = (uint32_t)x;
    return json_is_integer(v) && x >= 0 && (size_t)x <= n;
}

static int read_spans(struct akv_record *r, struct akv_err *err)
{
    const json_t *list;
    size_t n;
    int rc = read_list(r->json, "spans", &list, &n, err);
    if (rc < 0)
        return rc;
    r->spans = akv_alloc(n, sizeof *r->spans, err);
    if (!r->spans)
        return AKV_E_IO;
    uint32_t end = 0;
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(list, i);
        struct akv_span *s = &r->spans[i];
        s->kind = json_string_value(json_object_get(v, "kind"));
        if (!s->kind)
            return akv_fail(err, AKV_E_INPUT, "spans[%zu].kind: missing or not a string", i);
        if (!read_position(v, "from", r->n, &s->from) || !read_position(v, "to", r->n, &s->to))
            return akv_fail(err, AKV_E_INPUT, "spans[%zu]: from and to must be positions from 0 to n = %zu", i, r->n);
        if (s->from < end || s->to < s->from)
            return akv_fail(err, AKV_E_INPUT, "spans[%zu]: %u to %u: spans must ascend and not overlap", i, s->from, s->to);
        end = s->to;
        r->n_spans++;
    }
    return 0;
}

static int read_anchors(struct akv_record *r, struct akv_err *err)
{
    const json_t *list;
    size_t n;
    int rc = read_list(r->json, "anchors", &list, &n, err);
    json_t *seen = json_object();
    r->anchors = akv_alloc(n, sizeof *r->anchors, err);
    if (rc == 0 && (!r->anchors || !seen))
        rc = akv_fail(err, AKV_E_IO, "out of memory");
    for (size_t i = 0; rc == 0 && i < n; i++) {
        const json_t *v = json_array_get(list, i), *name = json_object_get(v, "name");
        struct akv_anchor *a = &r->anchors[i];
        size_t len = json_string_length(name);
        if (!len || strlen(json_string_value(name)) != len)
            rc = akv_fail(err, AKV_E_INPUT, "anchors[%zu].name: must be a string that is not empty and holds no NUL", i);
        else if (json_object_get(seen, json_string_value(name)))
            rc = akv_fail(err, AKV_E_INPUT, "anchors[%zu].name: \"%.40s\" stands twice", i, json_string_value(name));
        else if (!read_position(v, "at", r->n, &a->at) || (i && a->at < r->anchors[i - 1].at))
            rc = akv_fail(err, AKV_E_INPUT, "anchors[%zu].at: must be a position from 0 to n = %zu, in ascending order", i, r->n);
        else if (!(a->name = akv_strndup(json_string_value(name), len, err)) || json_object_set_new(seen, a->name, json_true()) < 0)
            rc = akv_fail(err, AKV_E_IO, "out of memory");
        r->n_anchors = a->name ? i + 1 : i;
    }
    json_decref(seen);
    return rc;
}

static int read_keys(const json_t *json, struct akv_err *err)
{
    const json_t *list;
    size_t n;
    int rc = read_list(json, "keys", &list, &n, err);
    for (size_t i = 0; rc == 0 && i < n; i++)
        if (!is_digest(json_array_get(list, i)))
            rc = akv_fail(err, AKV_E_INPUT, "keys[%zu]: must be a key of 64 hexadecimal digits", i);
    return rc;
}

/* Everything but the ids. */
static int read_fields(struct akv_record *r, struct akv_err *err)
{
    int rc = read_version(r->json, err);
    if (rc == 0)
        rc = read_names(r, err);
    if (rc == 0)
        rc = read_spans(r, err);
    if (rc == 0)
        rc = read_anchors(r, err);
    if (rc == 0)
        rc = read_keys(r->json, err);
    const json_t *gen = json_object_get(r->json, "gen");
    if (rc == 0 && gen) {
        rc = akv_gen_from_json(&r->gen, gen, err);
        if (rc < 0)
            akv_err_prefix(err, "gen");
    }
    return rc;
}

/* The common end: on failure the message gets the record's name and r is emptied. */
static int finish(struct akv_record *r, int rc, struct akv_err *err)
{
    if (rc == 0)
        return 0;
    const char *id = json_string_value(json_object_get(r->json, "id"));
    if (id)
        akv_err_prefix(err, "id %.40s", id);
    akv_record_release(r);
    return rc;
}

int akv_record_from_json(struct akv_record *r, json_t *json, uint32_t n_vocab, struct akv_err *err)
{
    *r = (struct akv_record){.json = json_incref(json)};
    int rc = json_is_object(json) ? read_version(json, err) : akv_fail(err, AKV_E_INPUT, "not a JSON object");
    if (rc == 0)
        rc = read_tokens(r, n_vocab, err);
    if (rc == 0)
        rc = read_fields(r, err);
    return finish(r, rc, err);
}

int akv_record_make(struct akv_record *r, json_t *fields, uint32_t *ids, size_t n, struct akv_err *err)
{
    *r = (struct akv_record){.json = json_incref(fields), .ids = ids, .n = n};
    int rc = n >= UINT32_MAX ? akv_fail(err, AKV_E_INPUT, "tokens: too many") : read_fields(r, err);
    return finish(r, rc, err);
}

int akv_record_parse(struct akv_record *r, const char *text, size_t len, uint32_t n_vocab, struct akv_err *err)
{
    *r = (struct akv_record){0};
    json_t *json;
    int rc = akv_json_parse(&json, text, len, "record", err);
    if (rc == 0)
        rc = akv_record_from_json(r, json, n_vocab, err);
    json_decref(json);
    return rc;
}

void akv_record_release(struct akv_record *r)
{
    for (size_t i = 0; i < r->n_anchors; i++)
        free(r->anchors[i].name);
    free(r->anchors);
    free(r->spans);
    free(r->ids);
    akv_gen_release(&r->gen);
    json_decref(r->json);
    *r = (struct akv_record){0};
}

int akv_record_add_anchor(struct akv_record *r, const char *name, uint32_t at, uint32_t wanted, struct akv_err *err)
{
    size_t i = 0;
    for (size_t k = 0; k < r->n_anchors; k++) {
        if (!strcmp(r->anchors[k].name, name))
            return akv_fail(err, AKV_E_INPUT, "record %.40s: anchor \"%.40s\" is there already", r->id, name);
        if (r->anchors[k].at <= at)
            i = k + 1;
    }
    if (at > r->n)
        return akv_fail(err, AKV_E_INPUT, "record %.40s: anchor \"%.40s\": position %u is past the %zu tokens", r->id, name, at,
                        r->n);
    json_t *list = json_object_get(r->json, "anchors");
    if (!list && json_object_set_new(r->json, "anchors", list = json_array()) < 0)
        return akv_fail(err, AKV_E_IO, "out of memory");
    struct akv_anchor *grown = akv_realloc(r->anchors, r->n_anchors + 1, sizeof *grown, err);
    if (!grown)
        return AKV_E_IO;
    r->anchors = grown;
    char *copy = akv_strndup(name, strlen(name), err);
    json_t *fields = json_pack("{s:s,s:I}", "name", name, "at", (json_int_t)at);
    if (fields && at != wanted)
        json_object_set_new(fields, "moved_from", json_integer((json_int_t)wanted));
    if (!copy || json_array_insert_new(list, i, fields) < 0) {
        free(copy);
        return akv_fail(err, AKV_E_INPUT, "anchor name: not valid UTF-8, or out of memory");
    }
    memmove(grown + i + 1, grown + i, (r->n_anchors - i) * sizeof *grown);
    grown[i] = (struct akv_anchor){.name = copy, .at = at};
    r->n_anchors++;
    return 0;
}

static void put_field(struct akv_buf *out, const char *key, const json_t *v)
{
    akv_buf_putc(out, ',');
    akv_json_string(out, key, strlen(key));
    akv_buf_putc(out, ':');
    akv_json_dump(out, v);
}

/* ",\"n\":3,\"tokens\":[1,2,3]"; digits by hand because a prompt has a hundred thousand of them. */
static void put_tokens(struct akv_buf *out, const uint32_t *ids, size_t n)
{
    akv_buf_printf(out, ",\"n\":%zu,\"tokens\":[", n);
    for (size_t i = 0; i < n; i++) {
        char text[12];
        size_t at = sizeof text;
        uint32_t v = ids[i];
        do
            text[--at] = (char)('0' + v % 10);
        while (v /= 10);
        if (i)
            text[--at] = ',';
        akv_buf_add(out, text + at, sizeof text - at);
    }
    akv_buf_putc(out, ']');
}

int akv_record_write(const struct akv_record *r, struct akv_buf *out, struct akv_err *err)
{
    static const char *const first[] = {"spans", "anchors", "gen"};
    static const char *const known[] = {"akv", "id", "tok", "n", "tokens", "spans", "anchors", "gen"};
    akv_buf_puts(out, "{\"akv\":\"" FORMAT "\"");
    put_field(out, "id", json_object_get(r->json, "id"));
    if (r->tok)
        put_field(out, "tok", json_object_get(r->json, "tok"));
    put_tokens(out, r->ids, r->n);
    for (size_t i = 0; i < sizeof first / sizeof *first; i++) {
        const json_t *v = json_object_get(r->json, first[i]);
        if (v)
            put_field(out, first[i], v);
    }
    for (void *it = json_object_iter(r->json); it; it = json_object_iter_next(r->json, it)) {
        const char *key = json_object_iter_key(it);
        bool done = false;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            done = done || !strcmp(key, known[i]);
        if (!done)
            put_field(out, key, json_object_iter_value(it));
    }
    akv_buf_putc(out, '}');
    return akv_buf_check(out, "record", err);
}
