#include "chat/split.h"

#include <stdlib.h>
#include <string.h>

#include "chat/chat_ids.h"

int akv_split_text_read(struct akv_split_text *t, const struct akv_record *r, size_t n, const struct akv_tok *tok,
                        struct akv_err *err)
{
    akv_buf_init(&t->b, 0);
    t->ends = akv_alloc(n, sizeof *t->ends, err);
    int rc = t->ends ? 0 : AKV_E_IO;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        rc = akv_tok_decode(tok, &r->ids[i], 1, false, &t->b, err);
        t->ends[i] = t->b.len;
    }
    return rc < 0 ? rc : akv_buf_check(&t->b, "decoded text", err);
}

void akv_split_text_release(struct akv_split_text *t)
{
    akv_buf_release(&t->b);
    free(t->ends);
}

/* "tools, system": the names there are, for a message. */
static void list_anchors(const struct akv_record *r, struct akv_buf *b)
{
    for (size_t i = 0; i < r->n_anchors && b->len < 200; i++)
        akv_buf_printf(b, "%s%.40s", i ? ", " : "", r->anchors[i].name);
    if (!r->n_anchors)
        akv_buf_puts(b, "no anchors at all");
}

int akv_split_places(const struct akv_record *r, const char *what, struct akv_split_place **out, size_t *n, struct akv_err *err)
{
    struct akv_split_place *v = akv_alloc(r->n_anchors, sizeof *v, err);
    *out = v;
    *n = 0;
    if (!v)
        return AKV_E_IO;
    for (size_t i = 0; i < r->n_anchors && !*n; i++)
        if (!strcmp(r->anchors[i].name, what))
            v[(*n)++] = (struct akv_split_place){r->anchors[i].name, r->anchors[i].at};
    if (!*n && !strcmp(what, "last") && r->n_anchors)
        v[(*n)++] = (struct akv_split_place){r->anchors[r->n_anchors - 1].name, r->anchors[r->n_anchors - 1].at};
    bool all = !*n && !strcmp(what, "all");
    for (size_t i = 0; all && i < r->n_anchors; i++)
        if (!*n || v[*n - 1].at != r->anchors[i].at)
            v[(*n)++] = (struct akv_split_place){r->anchors[i].name, r->anchors[i].at};
    if (*n)
        return 0;
    struct akv_buf names;
    akv_buf_init(&names, 0);
    list_anchors(r, &names);
    akv_fail(err, AKV_E_NO, "record %.40s: no anchor \"%.40s\": it has %s", r->id, what, names.data);
    akv_buf_release(&names);
    free(v);
    *out = NULL;
    return AKV_E_NO;
}

/* The spans, cut at a position. */
static json_t *cut_spans(const struct akv_record *r, uint32_t at)
{
    json_t *list = json_array();
    for (size_t i = 0; i < r->n_spans && r->spans[i].from < at; i++) {
        const struct akv_span *s = &r->spans[i];
        const json_t *control = json_object_get(json_array_get(json_object_get(r->json, "spans"), i), "control");
        json_t *cut =
            json_pack("{s:s,s:I,s:I}", "kind", s->kind, "from", (json_int_t)s->from, "to", (json_int_t)(s->to < at ? s->to : at));
        json_t *kept = NULL;
        for (size_t k = 0; k < json_array_size(control) && json_integer_value(json_array_get(control, k)) < (json_int_t)at; k++) {
            if (!kept)
                json_object_set_new(cut, "control", kept = json_array());
            json_array_append(kept, json_array_get(control, k));
        }
        json_array_append_new(list, cut);
    }
    return list;
}

/* The anchors up to a position, as they are (a moved_from goes with them). */
static json_t *cut_anchors(const struct akv_record *r, uint32_t at)
{
    json_t *list = json_array();
    const json_t *all = json_object_get(r->json, "anchors");
    for (size_t i = 0; i < r->n_anchors && r->anchors[i].at <= at; i++)
        json_array_append(list, json_array_get(all, i));
    return list;
}

int akv_split_prefix(struct akv_record *out, const struct akv_record *r, const struct akv_split_place *place, const char *key,
                     struct akv_err *err)
{
    *out = (struct akv_record){0};
    if (place->at > r->n)
        return akv_fail(err, AKV_E_USAGE, "record %.40s: position %u is past its %zu tokens", r->id, place->at, r->n);
    struct akv_buf id;
    akv_buf_init(&id, 0);
    akv_buf_printf(&id, "%s:%s", place->name, key);
    json_t *fields = json_pack("{s:s,s:s%,s:o,s:o,s:{s:i}}", "akv", "tokens/1", "id", id.data, id.len, "spans",
                               cut_spans(r, place->at), "anchors", cut_anchors(r, place->at), "gen", "max_tokens", 0);
    if (fields && r->tok)
        json_object_set(fields, "tok", json_object_get(r->json, "tok"));
    akv_buf_release(&id);
    uint32_t *ids = akv_alloc(place->at, sizeof *ids, err);
    int rc = fields && ids ? 0 : akv_fail(err, AKV_E_IO, "out of memory for a prefix");
    if (rc == 0) {
        memcpy(ids, r->ids, place->at * sizeof *ids);
        rc = akv_record_make(out, fields, ids, place->at, err);
    } else {
        free(ids);
    }
    json_decref(fields);
    return rc;
}

int akv_split_safe(const struct akv_record *r, const struct akv_tok *tok, uint32_t at, uint32_t *safe, struct akv_err *err)
{
    struct akv_chat_ids c;
    struct akv_buf text;
    size_t got = 0;
    akv_buf_init(&text, 0);
    int rc = akv_chat_ids_of(&c, tok, r->ids, r->n, &text, err);
    if (rc == 0)
        rc = akv_chat_cut_at(&c, at, &got, err);
    *safe = (uint32_t)got;
    akv_chat_ids_release(&c);
    akv_buf_release(&text);
    return rc;
}

const struct akv_span *akv_split_span(const struct akv_record *r, size_t at)
{
    size_t lo = 0, hi = r->n_spans;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (r->spans[mid].to <= at)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < r->n_spans && r->spans[lo].from <= at ? &r->spans[lo] : NULL;
}

void akv_split_compare(const struct akv_record *a, const struct akv_record *b, struct akv_split_diff *diff)
{
    size_t n = a->n < b->n ? a->n : b->n, at = 0;
    while (at < n && a->ids[at] == b->ids[at])
        at++;
    *diff = (struct akv_split_diff){.equal = at == a->n && at == b->n, .is_prefix = at == n, .at = at};
    diff->a = akv_split_span(a, at);
    diff->b = akv_split_span(b, at);
}

int akv_split_set_lint(struct akv_record *r, const struct akv_finding *findings, size_t n, struct akv_err *err)
{
    json_t *list = json_array();
    struct akv_buf words;
    akv_buf_init(&words, 0);
    for (size_t i = 0; i < n; i++) {
        akv_buf_clear(&words);
        akv_finding_words(&findings[i], &words);
        json_array_append_new(list, json_stringn(words.data, words.len));
    }
    akv_buf_release(&words);
    int rc = json_array_size(list) == n ? 0 : akv_fail(err, AKV_E_IO, "out of memory for findings");
    if (rc == 0 && n)
        rc = json_object_set(r->json, "lint", list) < 0 ? akv_fail(err, AKV_E_IO, "out of memory for findings") : 0;
    else if (rc == 0)
        json_object_del(r->json, "lint");
    json_decref(list);
    return rc;
}
