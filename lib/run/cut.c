/* What akv-split does with requests: prefixes, anchors, keys, lint. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "chat/split.h"
#include "kv/key.h"
#include "model/model.h"
#include "run/request.h"

static size_t page_count(size_t n)
{
    return (n + AKV_PAGE_TOKENS - 1) / AKV_PAGE_TOKENS;
}

/* The page keys of the first n ids; malloc'd. */
static struct akv_key *chain_keys(const uint32_t *ids, size_t n, struct akv_err *err)
{
    struct akv_key *keys = akv_alloc(page_count(n), sizeof *keys, err);
    if (keys && akv_chain_keys(keys, ids, n, err) < 0) {
        free(keys);
        return NULL;
    }
    return keys;
}

static int one_prefix(struct akv_request **out, const struct akv_record *rec, const struct akv_split_place *place,
                      struct akv_err *err)
{
    char hex[AKV_SHA_HEX];
    struct akv_record cut = {0};
    struct akv_key *keys = chain_keys(rec->ids, place->at, err);
    if (!keys)
        return AKV_E_IO;
    akv_hex(hex, &keys[page_count(place->at) - 1], sizeof *keys);
    free(keys);
    int rc = akv_split_prefix(&cut, rec, place, hex, err);
    return rc < 0 ? rc : akv_request_wrap(out, &cut, err);
}

int akv_request_prefixes(struct akv_request ***out, size_t *n, const struct akv_request *r, const char *what, struct akv_err *err)
{
    struct akv_split_place *places = NULL;
    size_t n_places = 0;
    int rc = akv_split_places(&r->rec, what, &places, &n_places, err);
    if (rc < 0)
        return rc;
    struct akv_request **list = akv_alloc(n_places, sizeof *list, err);
    size_t done = 0;
    rc = list ? 0 : AKV_E_IO;
    for (size_t i = 0; rc == 0 && i < n_places; i++)
        if (places[i].at) /* a prefix of no tokens is nothing to keep */
            rc = one_prefix(&list[done++], &r->rec, &places[i], err);
    free(places);
    if (rc < 0) {
        for (size_t i = 0; list && i < done; i++)
            akv_request_free(list[i]);
        free(list);
        return rc;
    }
    *out = list;
    *n = done;
    return 0;
}

int akv_request_add_anchor(struct akv_request *r, uint32_t at, struct akv_err *err)
{
    char name[24];
    if (!at || at > r->rec.n)
        return akv_fail(err, AKV_E_USAGE, "request %.40s: position %u: it has %zu tokens", r->rec.id, at, r->rec.n);
    snprintf(name, sizeof name, "at-%u", at);
    for (size_t i = 0; i < r->rec.n_anchors; i++)
        if (!strcmp(r->rec.anchors[i].name, name))
            return 0;
    return akv_record_add_anchor(&r->rec, name, at, err);
}

int akv_request_add_keys(struct akv_request *r, struct akv_err *err)
{
    json_t *list = json_array();
    struct akv_key *keys = chain_keys(r->rec.ids, r->rec.n, err);
    if (!keys || !list) {
        json_decref(list);
        free(keys);
        return AKV_E_IO;
    }
    for (size_t i = 0; i < page_count(r->rec.n); i++) {
        char hex[AKV_SHA_HEX];
        akv_hex(hex, &keys[i], sizeof keys[i]);
        json_array_append_new(list, json_string(hex));
    }
    free(keys);
    if (json_object_set_new(r->rec.json, "keys", list))
        return akv_fail(err, AKV_E_IO, "out of memory for page keys");
    return 0;
}

int akv_request_check_keys(const struct akv_record *rec, struct akv_err *err)
{
    const json_t *list = json_object_get(rec->json, "keys");
    if (!list)
        return 0;
    size_t n = page_count(rec->n);
    if (!json_is_array(list) || json_array_size(list) != n)
        return akv_fail(err, AKV_E_INPUT, "request %.40s: keys: must be an array of %zu page keys", rec->id, n);
    struct akv_key *keys = chain_keys(rec->ids, rec->n, err);
    if (!keys)
        return AKV_E_IO;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        char hex[AKV_SHA_HEX];
        const char *given = json_string_value(json_array_get(list, i));
        akv_hex(hex, &keys[i], sizeof keys[i]);
        if (!given || strcmp(given, hex))
            rc = akv_fail(err, AKV_E_INPUT, "request %.40s: keys[%zu]: is not the key of these tokens", rec->id, i);
    }
    free(keys);
    return rc;
}

int akv_request_lint(struct akv_request *r, const struct akv_model *m, char **words, struct akv_err *err)
{
    struct akv_finding *findings = NULL;
    struct akv_buf text;
    size_t n = 0;
    *words = NULL;
    akv_buf_init(&text, 0);
    int rc = akv_split_lint(&r->rec, m->tok, &findings, &n, err);
    if (rc == 0)
        rc = akv_split_set_lint(&r->rec, findings, n, err);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        if (i)
            akv_buf_putc(&text, '\n');
        akv_finding_words(&findings[i], &text);
    }
    if (rc == 0)
        rc = akv_buf_check(&text, "lint", err);
    if (rc == 0 && n)
        *words = akv_buf_steal(&text);
    akv_buf_release(&text);
    free(findings);
    return rc;
}
