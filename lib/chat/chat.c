#include "chat/chat.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "chat/chat_control.h"
#include "chat/chat_given.h"
#include "chat/chat_ids.h"

void akv_chat_warn(struct akv_buf *notes, const char *fmt, ...)
{
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (notes->len)
        akv_buf_putc(notes, '\n');
    akv_buf_puts(notes, text);
}

/* Hand the warnings to the caller, also when the request failed. */
static void give_warnings(struct akv_buf *notes, char **warnings)
{
    if (warnings)
        *warnings = notes->len ? akv_buf_steal(notes) : NULL;
    akv_buf_release(notes);
}

/* What the template leaves out of the request that the user may miss. */
static void warn_ignored(struct akv_buf *notes, struct akv_chat_tmpl *t, const struct akv_chat_request *r,
                         const struct akv_buf *text, bool tools_ignored)
{
    size_t k;
    if (tools_ignored)
        akv_chat_warn(notes, "tools: the chat template ignores them");
    enum akv_chat_drops drops = akv_chat_drops_arguments(t, r, text, &k);
    if (drops)
        akv_chat_warn(notes, "messages[%zu].tool_calls: the chat template leaves %s", k,
                      drops == AKV_CHAT_DROPS_ALL ? "their arguments out" : "arguments out that are a string: give an object");
}

int akv_chat_render(const struct akv_model *model, const json_t *request, const struct akv_chat_opts *opts,
                    struct akv_chat_cache *cache, struct akv_buf *text, char **warnings, struct akv_err *err)
{
    struct akv_chat_request r;
    struct akv_chat_tmpl t = {0};
    struct akv_buf notes;
    akv_buf_init(&notes, 0);
    int rc = akv_chat_request_read(&r, request, opts->flags, err);
    if (rc == 0 && r.prompt) {
        akv_buf_clear(text);
        akv_buf_add(text, json_string_value(r.prompt), json_string_length(r.prompt));
        rc = akv_buf_check(text, "prompt", err);
    } else if (rc == 0) {
        rc = akv_chat_tmpl_open(&t, model, &r, opts, cache, err);
        if (rc == 0)
            rc = akv_chat_tmpl_render(&t, &r, text, err);
        if (rc == 0)
            warn_ignored(&notes, &t, &r, text, akv_chat_ignores_tools(&t, &r, text));
    }
    akv_chat_tmpl_release(&t);
    akv_chat_request_release(&r);
    give_warnings(&notes, warnings);
    return rc;
}

/* ---- records ---- */

static json_t *new_fields(const struct akv_tok *tok, const char *id)
{
    char hex[AKV_SHA_HEX];
    akv_hex(hex, akv_tok_digest(tok), AKV_SHA_BYTES);
    return json_pack("{s:s,s:s,s:s,s:[],s:[]}", "akv", "tokens/1", "id", id, "tok", hex, "spans", "anchors");
}

static void add_span(json_t *fields, const char *kind, size_t from, size_t to)
{
    if (from < to)
        json_array_append_new(json_object_get(fields, "spans"),
                              json_pack("{s:s,s:I,s:I}", "kind", kind, "from", (json_int_t)from, "to", (json_int_t)to));
}

static void add_anchor(json_t *fields, const char *name, size_t at, size_t wanted)
{
    json_t *a = json_pack("{s:s,s:I}", "name", name, "at", (json_int_t)at);
    if (at != wanted)
        json_object_set_new(a, "moved_from", json_integer((json_int_t)wanted));
    json_array_append_new(json_object_get(fields, "anchors"), a);
}

static void warn_lost(struct akv_buf *notes, size_t n_lost)
{
    if (n_lost)
        akv_chat_warn(notes, "%zu byte%s of the text cannot be expressed by the vocabulary and %s dropped", n_lost,
                      n_lost == 1 ? "" : "s", n_lost == 1 ? "was" : "were");
}

/* ids are taken over. */
static int make_record(struct akv_record *out, json_t *fields, json_t *gen, struct akv_ids *ids, struct akv_err *err)
{
    if (!fields || (json_object_size(gen) && json_object_set(fields, "gen", gen) < 0))
        return akv_fail(err, AKV_E_IO, "out of memory for a record");
    uint32_t *v = ids->v;
    size_t n = ids->n;
    *ids = (struct akv_ids){0};
    return akv_record_make(out, fields, v, n, err);
}

/* The one span and the one anchor of a text that no template made. */
static int text_record(const struct akv_model *model, const char *text, size_t len, unsigned tok_flags, const char *id, json_t *gen,
                       struct akv_record *out, struct akv_buf *notes, struct akv_err *err)
{
    struct akv_ids ids = {0};
    size_t n_lost = 0;
    int rc = akv_tok_encode(model->tok, text, len, tok_flags, &ids, &n_lost, err);
    if (rc < 0) {
        akv_ids_release(&ids);
        return rc;
    }
    uint32_t bos = akv_tok_bos(model->tok);
    if (tok_flags & AKV_TOK_ADD_SPECIAL && akv_tok_add_bos(model->tok) && ids.n > 1 && ids.v[0] == bos && ids.v[1] == bos)
        memmove(ids.v, ids.v + 1, --ids.n * sizeof *ids.v); /* the text began with it already */
    warn_lost(notes, n_lost);
    json_t *fields = new_fields(model->tok, id);
    add_span(fields, "prompt", 0, ids.n);
    if (ids.n)
        add_anchor(fields, "prompt", ids.n, ids.n);
    rc = make_record(out, fields, gen, &ids, err);
    json_decref(fields);
    akv_ids_release(&ids);
    return rc;
}

int akv_chat_raw(const struct akv_model *model, const char *text, size_t len, unsigned tok_flags, const char *id,
                 struct akv_record *out, char **warnings, struct akv_err *err)
{
    struct akv_buf notes;
    akv_buf_init(&notes, 0);
    *out = (struct akv_record){0};
    int rc = text_record(model, text, len, tok_flags, id, NULL, out, &notes, err);
    give_warnings(&notes, warnings);
    return rc;
}

static void add_spans(json_t *fields, const struct akv_chat_request *r, const struct akv_chat_layout *l,
                      const struct akv_chat_ids *c)
{
    size_t from = 0;
    const char *merged = NULL; /* the kind of a run of messages with no known boundary between them */
    if (l->tools.at != AKV_CHAT_NOWHERE) {
        from = akv_chat_position(c, &l->tools);
        add_span(fields, "tools", 0, from);
    }
    if (!l->n_head && l->head.at != AKV_CHAT_NOWHERE) {
        size_t to = akv_chat_position(c, &l->head);
        add_span(fields, "system", from, to);
        from = to > from ? to : from;
    }
    for (size_t k = 0; k < l->n; k++) {
        const char *role = json_string_value(json_object_get(json_array_get(r->messages, k), "role"));
        if (merged && strcmp(merged, role))
            role = "messages";
        merged = role;
        if (l->ends[k].at == AKV_CHAT_NOWHERE)
            continue;
        size_t to = akv_chat_position(c, &l->ends[k]);
        add_span(fields, role, from, to);
        from = to > from ? to : from;
        merged = NULL;
    }
    add_span(fields, "generation", from, c->ids.n);
}

/* Control tokens that contents spell, noted with the span that they lie in. */
static void note_control(json_t *fields, const struct akv_chat_layout *l, const struct akv_chat_ids *c)
{
    size_t i;
    json_t *span;
    json_array_foreach (json_object_get(fields, "spans"), i, span) {
        json_int_t to = json_integer_value(json_object_get(span, "to"));
        json_t *list = NULL;
        for (json_int_t t = json_integer_value(json_object_get(span, "from")); t < to; t++) {
            size_t from = c->at.v[t], end = (size_t)t + 1 < c->at.n ? c->at.v[t + 1] : l->text.len;
            if (!akv_tok_is_control(c->tok, c->ids.v[t]) || c->given[t] || !akv_chat_in_content(l, from, end))
                continue;
            if (!list)
                json_object_set_new(span, "control", list = json_array());
            json_array_append_new(list, json_integer(t));
        }
    }
}

/* Tools that stand inside another span, as most templates put them into the system text, get one of their own. */
static void cut_out_tools(json_t *fields, const struct akv_chat_layout *l, const struct akv_chat_ids *c)
{
    json_t *spans = json_object_get(fields, "spans"), *span;
    size_t i;
    if (l->tools.at != AKV_CHAT_NOWHERE || l->tools_from >= l->tools_to)
        return;
    struct akv_chat_place a = {.floor = l->tools_from, .at = l->tools_from}, b = {.floor = l->tools_to, .at = l->tools_to};
    json_int_t from = (json_int_t)akv_chat_position(c, &a), to = (json_int_t)akv_chat_position(c, &b);
    json_array_foreach (spans, i, span) {
        json_int_t first = json_integer_value(json_object_get(span, "from")), end = json_integer_value(json_object_get(span, "to"));
        if (from < first || to > end || from >= to)
            continue;
        const char *kind = json_string_value(json_object_get(span, "kind"));
        json_t *rest = json_pack("{s:s,s:I,s:I}", "kind", kind, "from", to, "to", end);
        json_object_set_new(span, "to", json_integer(from));
        json_array_insert_new(spans, i + 1, json_pack("{s:s,s:I,s:I}", "kind", "tools", "from", from, "to", to));
        if (to < end)
            json_array_insert(spans, i + 2, rest);
        json_decref(rest);
        if (from == first)
            json_array_remove(spans, i);
        return;
    }
}

struct anchors {
    json_t *fields;
    const struct akv_chat_layout *l;
    struct akv_chat_ids *c;
    size_t last;                 /* position of the last one: they ascend */
    struct akv_chat_place place; /* the one looked at last, */
    size_t wanted, safe;         /* and what came of it: the last turn ends where the prompt does */
};

static bool same_place(const struct akv_chat_place *a, const struct akv_chat_place *b)
{
    return a->floor == b->floor && a->at == b->at && a->before_content == b->before_content;
}

static int put_anchor(struct anchors *a, const char *name, const struct akv_chat_place *place, struct akv_err *err)
{
    if (place->at == AKV_CHAT_NOWHERE || place->at > a->l->stable)
        return 0;
    bool is_last = a->l->n && place->at == a->l->ends[a->l->n - 1].at; /* the end of the last message */
    int rc = same_place(place, &a->place) ? 0 : akv_chat_cut(a->c, place, is_last ? a->l : NULL, &a->wanted, &a->safe, err);
    a->place = *place;
    if (rc == 0 && a->safe > 0 && a->safe >= a->last) {
        add_anchor(a->fields, name, a->safe, a->wanted);
        a->last = a->safe;
    }
    return rc;
}

static int add_anchors(json_t *fields, const struct akv_chat_layout *l, struct akv_chat_ids *c, struct akv_err *err)
{
    struct anchors a = {.fields = fields, .l = l, .c = c};
    int rc = put_anchor(&a, "tools", &l->tools, err);
    if (rc == 0)
        rc = put_anchor(&a, "system", &l->head, err);
    for (size_t k = l->n_head; rc == 0 && k < l->n; k++) {
        char name[32];
        snprintf(name, sizeof name, "turn-%zu", k - l->n_head + 1);
        if (l->head.at == AKV_CHAT_NOWHERE || l->ends[k].at >= l->head.at)
            rc = put_anchor(&a, name, &l->ends[k], err);
    }
    /* the prompt as far as a later prompt has it too: what the template writes for the reply is not part of it */
    struct akv_chat_place end = l->n ? l->ends[l->n - 1] : l->head;
    if (end.at > l->stable)
        end = (struct akv_chat_place){l->stable, l->stable, true, false};
    return rc < 0 ? rc : put_anchor(&a, "prompt", &end, err);
}

/* What the request set for the template besides messages and tools: two prompts that part may do so for that reason. */
static int add_options(json_t *fields, const struct akv_chat_request *r, struct akv_err *err)
{
    json_t *options = json_object();
    if (r->effort)
        json_object_set(options, "reasoning_effort", (json_t *)(uintptr_t)r->effort);
    if (!r->add_generation_prompt)
        json_object_set_new(options, "add_generation_prompt", json_false());
    if (r->kwargs)
        json_object_update(options, (json_t *)(uintptr_t)r->kwargs);
    int rc = json_object_size(options) && json_object_set(fields, "options", options) < 0
                 ? akv_fail(err, AKV_E_IO, "out of memory for a record")
                 : 0;
    json_decref(options);
    return rc;
}

static int chat_record(const struct akv_model *model, const struct akv_chat_request *r, const char *id,
                       const struct akv_chat_opts *opts, struct akv_chat_cache *cache, struct akv_record *out,
                       struct akv_buf *notes, struct akv_err *err)
{
    struct akv_chat_tmpl t;
    struct akv_chat_layout l = {0};
    struct akv_chat_ids c = {0};
    struct akv_chat_givens g = {0};
    json_t *fields = NULL;
    int rc = akv_chat_tmpl_open(&t, model, r, opts, cache, err);
    if (rc == 0)
        rc = akv_chat_layout_make(&l, &t, r, err);
    if (rc == 0 && opts->flags & AKV_CHAT_LITERAL)
        rc = akv_chat_check_literal(model->tok, r, &l, err);
    if (rc == 0)
        rc = akv_chat_find_givens(&g, model->tok, r, &l, &t, notes, err);
    if (rc == 0)
        rc = akv_chat_encode(&c, model->tok, &l.text, g.v, g.n, opts->flags & AKV_CHAT_LITERAL ? &l : NULL, err);
    if (rc < 0)
        goto out;
    warn_ignored(notes, &t, r, &l.text, l.tools_ignored);
    warn_lost(notes, c.n_lost);
    fields = new_fields(model->tok, id);
    add_spans(fields, r, &l, &c);
    cut_out_tools(fields, &l, &c);
    note_control(fields, &l, &c);
    rc = add_anchors(fields, &l, &c, err);
    if (rc == 0)
        rc = add_options(fields, r, err);
    if (rc == 0)
        rc = make_record(out, fields, r->gen, &c.ids, err);
out:
    json_decref(fields);
    akv_chat_ids_release(&c);
    akv_chat_givens_release(&g);
    akv_chat_layout_release(&l);
    akv_chat_tmpl_release(&t);
    return rc;
}

int akv_chat_record(const struct akv_model *model, const json_t *request, const char *id, const struct akv_chat_opts *opts,
                    struct akv_chat_cache *cache, struct akv_record *out, char **warnings, struct akv_err *err)
{
    struct akv_chat_request r;
    struct akv_buf notes;
    akv_buf_init(&notes, 0);
    *out = (struct akv_record){0};
    int rc = akv_chat_request_read(&r, request, opts->flags, err);
    if (rc == 0 && r.id)
        id = r.id;
    if (rc == 0 && r.prompt) {
        unsigned flags = (r.parse_special ? AKV_TOK_SPECIAL : 0) | (r.add_special ? AKV_TOK_ADD_SPECIAL : 0);
        rc = text_record(model, json_string_value(r.prompt), json_string_length(r.prompt), flags, id, r.gen, out, &notes, err);
    } else if (rc == 0) {
        rc = chat_record(model, &r, id, opts, cache, out, &notes, err);
    }
    akv_chat_request_release(&r);
    give_warnings(&notes, warnings);
    return rc;
}
