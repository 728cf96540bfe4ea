#include "chat/explain.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

#define PAGE 64 /* tokens; what is lost is lost by pages */

static size_t start_of(const struct akv_split_text *t, size_t token)
{
    return token ? t->ends[token - 1] : 0;
}

static struct akv_side side_of(const struct akv_split_text *t, const struct akv_span *span)
{
    struct akv_side s = {t->b.data, t->b.len, 0, t->b.len, ""};
    if (span) {
        s.lo = start_of(t, span->from);
        s.hi = start_of(t, span->to);
        s.role = span->kind;
    }
    return s;
}

/* Whether both sides have a token end at the same byte after the first differing token began and before the text differs. */
static bool other_tokens(const struct akv_split_text *a, size_t na, const struct akv_split_text *b, size_t nb, size_t token,
                         size_t at)
{
    for (size_t i = token, j = token; i < na && j < nb && a->ends[i] < at && b->ends[j] < at;) {
        if (a->ends[i] == b->ends[j])
            return true;
        if (a->ends[i] < b->ends[j])
            i++;
        else
            j++;
    }
    return false;
}

/* Whole characters from `from`, at most AKV_EXCERPT bytes and not past `to`. */
static void excerpt(struct akv_buf *out, const struct akv_side *s, size_t from, size_t to)
{
    size_t len = 0, step;
    if (to - from > AKV_EXCERPT)
        to = from + AKV_EXCERPT;
    while (from + len < to) {
        step = akv_utf8_len(s->s + from + len, s->len - from - len);
        step = step ? step : 1;
        if (from + len + step > to)
            break;
        len += step;
    }
    akv_buf_add(out, s->s + from, len);
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* ---- kinds ---- */

/* Options of the template that the two requests set differently. */
struct options {
    struct akv_buf words; /* "enable_thinking: true became false" */
    bool differ, early;   /* early: any but add_generation_prompt, which changes the end of a text only */
};

static void find_options(const struct akv_record *a, const struct akv_record *b, struct options *o)
{
    json_t *x = json_object_get(a->json, "options"), *y = json_object_get(b->json, "options"), *all = json_object();
    const char *key;
    json_t *v;
    json_object_update(all, x);
    json_object_update(all, y);
    json_object_foreach (all, key, v) {
        const json_t *was = json_object_get(x, key), *is = json_object_get(y, key);
        if (was && is && json_equal(was, is))
            continue;
        o->early = o->early || strcmp(key, "add_generation_prompt") != 0;
        struct akv_buf one;
        akv_buf_init(&one, 0);
        akv_buf_printf(&one, "%s%.40s: ", o->differ ? ", " : "", key);
        o->differ = true;
        const json_t *values[] = {was, is};
        for (size_t i = 0; i < 2; i++) {
            struct akv_buf value;
            akv_buf_init(&value, 0);
            if (values[i])
                akv_json_dump(&value, values[i]);
            else
                akv_buf_puts(&value, "unset");
            akv_buf_printf(&one, "%s%.40s", i ? " became " : "", value.data);
            akv_buf_release(&value);
        }
        if (o->words.len < 200)
            akv_buf_add(&o->words, one.data, one.len);
        akv_buf_release(&one);
    }
    json_decref(all);
}

static const char *edited(const struct akv_span *span)
{
    return !span                           ? NULL
           : !strcmp(span->kind, "tools")  ? "edited tools"
           : !strcmp(span->kind, "system") ? "edited system text"
                                           : "edited turn";
}

static bool is_message_of_others(const struct akv_span *span)
{
    return span && (!strcmp(span->kind, "user") || !strcmp(span->kind, "tool"));
}

static bool opens_reply(const struct akv_span *span)
{
    return span && !strcmp(span->kind, "generation");
}

/* What the text says, most certain first. Values are quoted whole, the rest from the first differing byte on. */
static void find_kind(struct akv_explain *e, const struct akv_sides *s, const struct options *o)
{
    struct akv_piece p = {s->at, s->a.len, s->b.len};
    const char *order = akv_explain_order(s), *value = akv_explain_value(s, &p);
    bool option = o->early && !is_message_of_others(e->b);
    if (order)
        e->kind = order;
    else if (value && !(option && !strcmp(value, "number")))
        e->kind = value;
    else if (option)
        e->kind = "template option";
    if (!e->kind && akv_explain_is_thinking(s)) {
        e->kind = "dropped thinking";
        akv_buf_puts(&e->detail, "an assistant turn is rendered differently");
    }
    if (!e->kind && akv_explain_is_blank(s))
        e->kind = "whitespace";
    if (!e->kind && (o->early || (o->differ && (opens_reply(e->a) || opens_reply(e->b)))))
        e->kind = "template option";
    if (!e->kind && opens_reply(e->a)) {
        e->kind = "generation prompt";
        akv_buf_puts(&e->detail, "an assistant turn is rendered differently");
    }
    if (e->kind != value)
        p = (struct akv_piece){s->at, s->a.len, s->b.len};
    size_t from = p.from;
    while (from && from < s->a.len && ((unsigned char)s->a.s[from] & 0xc0) == 0x80)
        from--;
    excerpt(&e->before, &s->a, from, p.a_to);
    excerpt(&e->after, &s->b, from, p.b_to);
}

static int explain_text(struct akv_explain *e, const struct akv_record *a, const struct akv_record *b, const struct akv_tok *tok,
                        const struct options *o, struct akv_err *err)
{
    struct akv_split_text ta = {0}, tb = {0};
    int rc = akv_split_text_read(&ta, a, a->n, tok, err), rc_b = akv_split_text_read(&tb, b, b->n, tok, err);
    if (rc == 0)
        rc = rc_b;
    if (rc < 0)
        goto out;
    size_t from = start_of(&ta, e->token), n = least(ta.b.len, tb.b.len), at = from;
    while (at < n && ta.b.data[at] == tb.b.data[at])
        at++;
    struct akv_sides s = {side_of(&ta, e->a), side_of(&tb, e->b), at};
    if (!e->a) { /* a chain: what is in its place */
        s.a.lo = s.b.lo;
        s.a.hi = least(s.a.len, s.b.hi);
    }
    e->has_text = true;
    if ((at == ta.b.len && at == tb.b.len) || other_tokens(&ta, a->n, &tb, b->n, e->token, at)) {
        e->kind = "other tokens";
        akv_buf_puts(&e->detail, "the same text, cut into tokens otherwise");
        s.at = from;
        excerpt(&e->before, &s.a, from, at);
        excerpt(&e->after, &s.b, from, at);
    } else {
        find_kind(e, &s, o);
    }
    e->byte = s.at;
    e->line = 1;
    for (size_t i = 0; i < e->byte; i++)
        e->line += tb.b.data[i] == '\n';
    rc = akv_buf_check(&e->before, "excerpt", err);
    if (rc == 0)
        rc = akv_buf_check(&e->after, "excerpt", err);
out:
    akv_split_text_release(&ta);
    akv_split_text_release(&tb);
    return rc;
}

/* How much of a record another one may be expected to share: what its anchors vouch for, else all of it. */
static size_t shareable(const struct akv_record *r)
{
    return r->n_anchors ? r->anchors[r->n_anchors - 1].at : r->n;
}

int akv_explain(struct akv_explain *e, const struct akv_record *a, const struct akv_record *b, const struct akv_tok *tok,
                struct akv_err *err)
{
    struct akv_split_diff d;
    akv_buf_init(&e->detail, 0);
    akv_buf_init(&e->before, 0);
    akv_buf_init(&e->after, 0);
    if (a->tok && b->tok && strcmp(a->tok, b->tok))
        return akv_fail(err, AKV_E_INCOMPAT, "record %.40s: made with another tokenizer than %.40s", b->id, a->id);
    akv_split_compare(a, b, &d);
    e->parts = !d.is_prefix;
    if (!e->parts)
        return 0;
    e->token = d.at;
    e->a = d.a;
    e->b = d.b;
    size_t expected = least(shareable(a), shareable(b)), kept = d.at / PAGE * PAGE;
    e->lost = expected > kept ? expected - kept : 0;
    struct options o = {0};
    akv_buf_init(&o.words, 0);
    find_options(a, b, &o);
    int rc = tok ? explain_text(e, a, b, tok, &o, err) : 0;
    if (!tok && o.early && !is_message_of_others(e->b))
        e->kind = "template option";
    if (e->kind && !strcmp(e->kind, "template option"))
        akv_buf_add(&e->detail, o.words.data, o.words.len);
    if (rc == 0 && tok && !e->kind)
        e->kind = edited(e->b);
    akv_buf_release(&o.words);
    return rc < 0 ? rc : akv_buf_check(&e->detail, "explanation", err);
}

void akv_explain_release(struct akv_explain *e)
{
    akv_buf_release(&e->detail);
    akv_buf_release(&e->before);
    akv_buf_release(&e->after);
    *e = (struct akv_explain){0};
}

/* ---- output ---- */

static const char *span_kind(const struct akv_span *span)
{
    return span ? span->kind : "no span";
}

void akv_explain_words(const struct akv_explain *e, const struct akv_record *a, const struct akv_record *b, struct akv_buf *out)
{
    akv_buf_printf(out, "%.200s: parts from %.200s at ", b->id, a->id);
    if (e->has_text)
        akv_buf_printf(out, "byte %zu, line %zu, ", e->byte, e->line);
    akv_buf_printf(out, "token %zu of %zu (page %zu, %s", e->token, b->n, e->token / PAGE, span_kind(e->b));
    if (e->a && strcmp(e->a->kind, span_kind(e->b)))
        akv_buf_printf(out, "; there %s", e->a->kind);
    akv_buf_puts(out, "): ");
    if (e->kind)
        akv_buf_printf(out, "%s: ", e->kind);
    if (e->detail.len)
        akv_buf_printf(out, "%s: ", e->detail.data);
    if (e->has_text) {
        akv_json_string(out, e->before.data, e->before.len);
        akv_buf_puts(out, " became ");
        akv_json_string(out, e->after.data, e->after.len);
        akv_buf_puts(out, ": ");
    }
    akv_buf_printf(out, "%zu tokens lost", e->lost);
}

/* Text as JSON has it: what is no UTF-8 is replaced. */
static json_t *clean_string(const struct akv_buf *b)
{
    char *out = malloc(b->len * 3 + 1);
    json_t *v = out ? json_stringn(out, akv_utf8_clean(out, b->data, b->len)) : NULL;
    free(out);
    return v;
}

json_t *akv_explain_json(const struct akv_explain *e, const struct akv_record *a, const struct akv_record *b)
{
    json_t *o = json_pack("{s:s, s:s, s:I, s:I, s:I}", "id", b->id, "against", a->id, "token", (json_int_t)e->token, "tokens",
                          (json_int_t)b->n, "page", (json_int_t)(e->token / PAGE));
    if (e->has_text) {
        json_object_set_new(o, "byte", json_integer((json_int_t)e->byte));
        json_object_set_new(o, "line", json_integer((json_int_t)e->line));
    }
    if (e->b)
        json_object_set_new(o, "span", json_string(e->b->kind));
    if (e->a)
        json_object_set_new(o, "against_span", json_string(e->a->kind));
    if (e->kind)
        json_object_set_new(o, "kind", json_string(e->kind));
    if (e->detail.len)
        json_object_set_new(o, "detail", clean_string(&e->detail));
    if (e->has_text) {
        json_object_set_new(o, "before", clean_string(&e->before));
        json_object_set_new(o, "after", clean_string(&e->after));
    }
    json_object_set_new(o, "lost", json_integer((json_int_t)e->lost));
    return o;
}
