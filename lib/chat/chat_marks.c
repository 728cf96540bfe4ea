/*
 * Each content is wrapped in two marks that occur nowhere else and the request is rendered again. If taking the marks out gives the
 * first text, byte for byte, then the places where they stood are where the contents begin and end; no guess is involved. If not,
 * the template looks into some content: the messages are halved until those are alone.
 */
#include "chat/chat_marks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

struct search {
    struct akv_chat_tmpl *t;
    const struct akv_chat_request *r;
    const struct akv_buf *text;
    struct akv_chat_mark *marks;
    char base[16]; /* every mark begins so: letters and digits, which no filter changes */
    size_t base_len;
    struct akv_buf marked, plain;
    struct place {
        size_t at;
        unsigned count;
    } * places; /* two per message: begin, end */
};

json_t *akv_chat_with_content(const json_t *m, const char *text, size_t len)
{
    json_t *copy = json_copy((json_t *)(uintptr_t)m);
    if (json_object_set_new(copy, "content", json_stringn(text, len)) < 0) {
        json_decref(copy);
        return NULL;
    }
    return copy;
}

/* Pick a beginning for the marks that is not in the text; contents that the template leaves out do not matter. */
static bool choose_base(struct search *s)
{
    for (unsigned i = 0; i < 64; i++) {
        s->base_len = (size_t)snprintf(s->base, sizeof s->base, "akv%uQ", i);
        if (!memmem(s->text->data, s->text->len, s->base, s->base_len))
            return true;
    }
    return false;
}

/* s with the marks of message k: at its ends, or just inside its white space. open, close: which of the two. NULL: nothing to mark. */
static json_t *wrap(const struct search *s, const json_t *str, size_t k, bool open, bool close, bool inside)
{
    const char *p = json_string_value(str);
    size_t len = json_string_length(str), from = 0, to = len;
    while (inside && from < to && akv_is_blank(p[from]))
        from++;
    while (inside && to > from && akv_is_blank(p[to - 1]))
        to--;
    struct akv_buf b;
    akv_buf_init(&b, 0);
    akv_buf_add(&b, p, from);
    if (open)
        akv_buf_printf(&b, "%sa%zux", s->base, k);
    akv_buf_add(&b, p + from, to - from);
    if (close)
        akv_buf_printf(&b, "%sz%zux", s->base, k);
    akv_buf_add(&b, p + to, len - to);
    json_t *v = b.failed ? NULL : json_stringn(b.data, b.len);
    akv_buf_release(&b);
    return v;
}

static bool has_text(const json_t *str)
{
    const char *p = json_string_value(str);
    for (size_t i = 0; i < json_string_length(str); i++)
        if (!akv_is_blank(p[i]))
            return true;
    return false;
}

/* The first or last text part of a content in parts, or NULL. */
static json_t *text_part(const json_t *parts, bool last)
{
    size_t n = json_array_size(parts);
    for (size_t i = 0; i < n; i++) {
        json_t *part = json_array_get(parts, last ? n - 1 - i : i);
        const char *type = json_string_value(json_object_get(part, "type"));
        if (type && !strcmp(type, "text") && has_text(json_object_get(part, "text")))
            return part;
    }
    return NULL;
}

static bool can_mark(const json_t *message)
{
    const json_t *content = json_object_get(message, "content");
    return has_text(content) || text_part(content, false);
}

/* Message k with marks (new reference). */
static json_t *mark_message(const struct search *s, size_t k, bool inside)
{
    const json_t *m = json_array_get(s->r->messages, k), *content = json_object_get(m, "content");
    json_t *copy = json_copy((json_t *)(uintptr_t)m);
    if (json_is_string(content)) {
        json_object_set_new(copy, "content", wrap(s, content, k, true, true, inside));
        return copy;
    }
    json_t *parts = json_deep_copy(content), *first = text_part(parts, false), *last = text_part(parts, true);
    json_object_set_new(first, "text", wrap(s, json_object_get(first, "text"), k, true, first == last, inside));
    if (first != last)
        json_object_set_new(last, "text", wrap(s, json_object_get(last, "text"), k, false, true, inside));
    json_object_set_new(copy, "content", parts);
    return copy;
}

static const json_t *first_call(const json_t *message)
{
    return json_array_get(json_object_get(message, "tool_calls"), 0);
}

static const json_t *call_name(const json_t *call)
{
    return json_object_get(akv_chat_function(call), "name");
}

/* Message k, which begins with a call, with a mark before the name of that (new reference). */
static json_t *mark_call(const struct search *s, size_t k)
{
    const json_t *m = json_array_get(s->r->messages, k);
    json_t *copy = json_copy((json_t *)(uintptr_t)m), *calls = json_copy(json_object_get(m, "tool_calls"));
    json_t *call = json_deep_copy(json_array_get(calls, 0));
    json_object_set_new(akv_chat_function(call), "name", wrap(s, call_name(call), k, true, false, false));
    json_array_set_new(calls, 0, call);
    json_object_set_new(copy, "tool_calls", calls);
    return copy;
}

/* Take the marks out of `marked`, noting where they were; false if what is left is not the text. */
static bool take_out(struct search *s, size_t n)
{
    const char *p = s->marked.data, *end = p + s->marked.len;
    akv_buf_clear(&s->plain);
    memset(s->places, 0, 2 * n * sizeof *s->places);
    for (;;) {
        const char *hit = memmem(p, (size_t)(end - p), s->base, s->base_len);
        akv_buf_add(&s->plain, p, (size_t)((hit ? hit : end) - p));
        if (!hit)
            break;
        p = hit + s->base_len;
        bool close = *p == 'z';
        size_t k = 0;
        for (p++; *p >= '0' && *p <= '9' && k < n; p++)
            k = k * 10 + (size_t)(*p - '0');
        if (*p != 'x' || k >= n)
            return false; /* a template that cuts texts short */
        p++;
        struct place *place = &s->places[2 * k + close];
        place->at = s->plain.len;
        place->count++;
    }
    return !s->plain.failed && s->plain.len == s->text->len && !memcmp(s->plain.data, s->text->data, s->text->len);
}

static bool try_marks(struct search *s, size_t lo, size_t hi, bool inside)
{
    size_t n = json_array_size(s->r->messages);
    json_t *messages = json_copy(s->r->messages);
    for (size_t k = lo; k < hi; k++)
        if (can_mark(json_array_get(messages, k)))
            json_array_set_new(messages, k, mark_message(s, k, inside));
    if (!akv_chat_tmpl_probe(s->t, messages, s->r->tools, s->r->add_generation_prompt, &s->marked) || !take_out(s, n))
        return false;
    for (size_t k = lo; k < hi; k++) {
        const struct place *a = &s->places[2 * k], *z = a + 1;
        s->marks[k] = (struct akv_chat_mark){
            .from = a->at, .to = z->at, .has_from = a->count == 1, .has_to = z->count == 1, .stripped = inside};
    }
    return true;
}

/* Messages without content of their own begin with their calls. One rendering for all of them: they only save others. */
static void locate_calls(struct search *s)
{
    size_t n = json_array_size(s->r->messages), n_marked = 0;
    json_t *messages = json_copy(s->r->messages);
    for (size_t k = 0; k < n; k++)
        if (!can_mark(json_array_get(messages, k)) && has_text(call_name(first_call(json_array_get(messages, k))))) {
            json_array_set_new(messages, k, mark_call(s, k));
            n_marked++;
        }
    if (!n_marked) {
        json_decref(messages);
        return;
    }
    if (!akv_chat_tmpl_probe(s->t, messages, s->r->tools, s->r->add_generation_prompt, &s->marked) || !take_out(s, n))
        return;
    for (size_t k = 0; k < n; k++)
        if (s->places[2 * k].count == 1) {
            s->marks[k].first = s->places[2 * k].at;
            s->marks[k].has_first = true;
        }
}

static void locate(struct search *s, size_t lo, size_t hi)
{
    while (lo < hi && !can_mark(json_array_get(s->r->messages, lo)))
        lo++;
    if (lo == hi || !akv_chat_tmpl_may_probe(s->t) || try_marks(s, lo, hi, false))
        return;
    if (hi - lo == 1) {
        try_marks(s, lo, hi, true); /* a template that trims */
        return;
    }
    size_t mid = lo + (hi - lo) / 2;
    locate(s, lo, mid);
    locate(s, mid, hi);
}

int akv_chat_find_marks(struct akv_chat_tmpl *t, const struct akv_chat_request *r, const struct akv_buf *text,
                        struct akv_chat_mark *marks, struct akv_err *err)
{
    size_t n = json_array_size(r->messages);
    struct search s = {.t = t, .r = r, .text = text, .marks = marks};
    s.places = akv_alloc(2 * n, sizeof *s.places, err);
    if (!s.places)
        return AKV_E_IO;
    akv_buf_init(&s.marked, 0);
    akv_buf_init(&s.plain, 0);
    if (choose_base(&s)) {
        locate(&s, 0, n);
        locate_calls(&s);
    }
    for (size_t k = 0; k < n; k++)
        if (marks[k].has_from) {
            marks[k].first = marks[k].from;
            marks[k].has_first = true;
        }
    akv_buf_release(&s.marked);
    akv_buf_release(&s.plain);
    free(s.places);
    return 0;
}
