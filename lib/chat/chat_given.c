#include "chat/chat_given.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "chat/chat_body.h"

void akv_chat_givens_release(struct akv_chat_givens *g)
{
    for (size_t i = 0; i < g->n; i++)
        akv_ids_release(&g->v[i].ids);
    free(g->v);
}

static int read_ids(const json_t *list, size_t message, uint32_t n_vocab, struct akv_ids *out, struct akv_err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < json_array_size(list); i++) {
        const json_t *v = json_array_get(list, i);
        json_int_t id = json_integer_value(v);
        if (!json_is_integer(v) || id < 0 || id >= (json_int_t)n_vocab)
            return akv_fail(err, AKV_E_INPUT, "messages[%zu].akv_ids[%zu]: not an id of this vocabulary of %u", message, i,
                            n_vocab);
        rc = akv_ids_push(out, (uint32_t)id, err);
    }
    return rc;
}

static bool begins_with(const struct akv_buf *text, const json_t *content)
{
    size_t len = json_string_length(content);
    return json_is_string(content) && len <= text->len && !memcmp(text->data, json_string_value(content), len);
}

/* As a JSON reply shows it: bytes that are no UTF-8 replaced. False when out of memory. */
static bool clean(struct akv_buf *text)
{
    size_t len = text->len;
    char *out = akv_buf_reserve(text, len * 3);
    if (!out)
        return false;
    size_t n = akv_utf8_clean(out, text->data, len);
    memmove(text->data, out, n);
    text->len = n;
    text->data[n] = '\0';
    return true;
}

/* Whether content is what the ids say, or the beginning of it; control tokens may have been left out of it. */
static int is_said_by(const struct akv_tok *tok, const struct akv_ids *ids, const json_t *content, bool *yes, struct akv_err *err)
{
    struct akv_buf text;
    akv_buf_init(&text, 0);
    *yes = false;
    int rc = 0;
    for (int skip = 0; rc == 0 && !*yes && skip < 2; skip++) {
        akv_buf_clear(&text);
        rc = akv_tok_decode(tok, ids->v, ids->n, skip, &text, err);
        *yes = rc == 0 && (begins_with(&text, content) || (clean(&text) && begins_with(&text, content)));
    }
    akv_buf_release(&text);
    return rc;
}

/*
 * The part of the text that is exactly this content. Where the template trims, white space that the text has around the rest may be the
 * content's or the template's own; then it is not known.
 */
static bool find_content(const struct akv_chat_layout *l, size_t k, const json_t *content, struct akv_chat_given *g)
{
    const struct akv_chat_mark *m = &l->marks[k];
    if (!m->has_from || !m->has_to || m->from > m->to)
        return false;
    const char *s = json_string_value(content), *core = l->text.data + m->from;
    size_t len = json_string_length(content), core_len = m->to - m->from, lead = 0;
    while (m->stripped && lead < len && akv_is_blank(s[lead]))
        lead++;
    if (core_len > len - lead || memcmp(core, s + lead, core_len))
        return false;
    size_t trail = len - lead - core_len;
    if (!m->stripped && trail)
        return false;
    if (lead && m->from >= lead && !memcmp(core - lead, s, lead))
        return false;
    if (trail && m->to + trail <= l->text.len && !memcmp(core + core_len, s + lead + core_len, trail))
        return false;
    g->from = m->from;
    g->to = m->to;
    return true;
}

/*
 * Where the ids of message k go. Content alone: in its place. If that is not all there is, or has no place of its own, all that the
 * template writes for the message. *why: NULL, or why they cannot be used.
 */
static int place_given(struct akv_chat_given *g, const struct akv_tok *tok, const struct akv_chat_layout *l,
                       const struct akv_chat_opener *o, const json_t *m, size_t k, size_t *look_left, const char **why,
                       struct akv_err *err)
{
    const json_t *content = json_object_get(m, "content");
    bool calls = json_array_size(json_object_get(m, "tool_calls")) > 0, said = false;
    int rc = calls ? 0 : is_said_by(tok, &g->ids, content, &said, err);
    *why = NULL;
    if (rc < 0 || (said && find_content(l, k, content, g)))
        return rc;
    if (!calls && !said) {
        *why = "they do not spell the content";
    } else if ((!calls && !json_string_length(content)) || !akv_chat_find_body(l, tok, o, k, &g->from, &g->to)) {
        *why = "the template does not write the message as a reply";
    } else {
        struct akv_buf reply;
        akv_buf_init(&reply, 0);
        rc = akv_tok_decode(tok, g->ids.v, g->ids.n, false, &reply, err);
        if (rc == 0 && !clean(&reply))
            rc = akv_fail(err, AKV_E_IO, "out of memory for a reply");
        if (rc == 0)
            *why = akv_chat_body_differs(&reply, l->text.data + g->from, g->to - g->from, m, look_left);
        akv_buf_release(&reply);
    }
    return rc;
}

/* A reply may end with the token that closes it. Where the template writes the same one behind it, it must not be there twice. */
static int drop_closer(struct akv_chat_given *g, const struct akv_tok *tok, const struct akv_chat_layout *l, struct akv_err *err)
{
    struct akv_buf text;
    const uint32_t *last = &g->ids.v[g->ids.n - 1];
    if (!akv_tok_is_control(tok, *last))
        return 0;
    akv_buf_init(&text, 0);
    int rc = akv_tok_decode(tok, last, 1, false, &text, err);
    const char *end = l->text.data + g->to;
    bool written = text.len && text.len <= l->text.len - g->to && !memcmp(end, text.data, text.len);
    bool in_message = text.len <= g->to - g->from && !memcmp(end - text.len, text.data, text.len); /* which spells it */
    if (rc == 0 && written && !in_message)
        g->ids.n--;
    akv_buf_release(&text);
    return rc;
}

int akv_chat_find_givens(struct akv_chat_givens *g, const struct akv_tok *tok, const struct akv_chat_request *r,
                         const struct akv_chat_layout *l, struct akv_chat_tmpl *t, struct akv_buf *notes, struct akv_err *err)
{
    struct akv_chat_opener o = {0};
    g->v = akv_alloc(l->n, sizeof *g->v, err);
    int rc = g->v ? 0 : AKV_E_IO;
    size_t last = 0, look_left = AKV_CHAT_LOOK;
    for (size_t k = 0; rc == 0 && k < l->n; k++) {
        const json_t *m = json_array_get(r->sent, k), *list = json_object_get(m, "akv_ids");
        if (!json_array_size(list))
            continue;
        if (!o.text)
            akv_chat_find_opener(&o, l, t, r);
        struct akv_chat_given *v = &g->v[g->n++];
        const char *why = NULL;
        rc = read_ids(list, k, akv_tok_n_vocab(tok), &v->ids, err);
        if (rc == 0)
            rc = place_given(v, tok, l, &o, m, k, &look_left, &why, err);
        if (rc == 0 && !why && v->from >= last) {
            last = v->to;
            rc = drop_closer(v, tok, l, err);
        } else if (rc == 0) {
            akv_chat_warn(notes, "messages[%zu].akv_ids: not used, the text is tokenised: %s", k,
                          why ? why : "their places overlap");
            akv_ids_release(&v->ids);
            g->n--;
        }
    }
    akv_chat_opener_release(&o);
    return rc;
}
