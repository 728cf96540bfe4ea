#include "chat/chat_control.h"

#include <string.h>

#define LEVELS 64

/* Contents do not overlap: the last one that begins before `to` decides. */
bool akv_chat_in_content(const struct akv_chat_layout *l, size_t from, size_t to)
{
    size_t lo = 0, hi = l->n_contents;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (l->contents[mid].from < to)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo && from < l->contents[lo - 1].to;
}

static int spells_control(const struct akv_tok *tok, const char *s, size_t len, bool *yes, struct akv_err *err)
{
    struct akv_ids ids = {0};
    int rc = akv_tok_encode(tok, s, len, AKV_TOK_SPECIAL, &ids, NULL, err);
    for (size_t i = 0; rc == 0 && i < ids.n && !*yes; i++)
        *yes = akv_tok_is_control(tok, ids.v[i]);
    akv_ids_release(&ids);
    return rc;
}

/* Any string or key in v. */
static int any_spells(const struct akv_tok *tok, const json_t *v, unsigned level, bool *yes, struct akv_err *err)
{
    const char *key;
    json_t *member;
    size_t i;
    int rc = 0;
    if (level > LEVELS) {
        *yes = true; /* not looked at: not known to be harmless */
        return 0;
    }
    if (json_is_string(v))
        return spells_control(tok, json_string_value(v), json_string_length(v), yes, err);
    if (json_is_object(v))
        json_object_foreach ((json_t *)(uintptr_t)v, key, member) {
            rc = rc < 0 ? rc : spells_control(tok, key, strlen(key), yes, err);
            rc = rc < 0 ? rc : any_spells(tok, member, level + 1, yes, err);
        }
    if (json_is_array(v))
        json_array_foreach (v, i, member)
            rc = rc < 0 ? rc : any_spells(tok, member, level + 1, yes, err);
    return rc;
}

int akv_chat_check_literal(const struct akv_tok *tok, const struct akv_chat_request *r, const struct akv_chat_layout *l,
                           struct akv_err *err)
{
    bool yes = false;
    const struct {
        const char *name;
        const json_t *v;
    } others[] = {{"tools", r->tools}, {"documents", r->documents}, {"chat_template_kwargs", r->kwargs}};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sizeof others / sizeof *others; i++) {
        rc = any_spells(tok, others[i].v, 0, &yes, err);
        if (rc == 0 && yes)
            return akv_fail(err, AKV_E_INPUT, "%s: spells a control token where it cannot be told from the template's own",
                            others[i].name);
    }
    for (size_t k = 0; rc == 0 && k < l->n; k++) {
        const struct akv_chat_mark *m = &l->marks[k];
        const char *key;
        json_t *member;
        json_object_foreach (json_array_get(r->messages, k), key, member) {
            if (!strcmp(key, "content") && m->has_from && m->has_to)
                continue;
            rc = rc < 0 ? rc : any_spells(tok, member, 0, &yes, err);
            if (rc == 0 && yes)
                return akv_fail(err, AKV_E_INPUT,
                                "messages[%zu].%.40s: spells a control token where it cannot be told from the template's own", k,
                                key);
        }
    }
    return rc;
}
