/* What akv-split does with requests: anchors, keys, lint. */
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

int akv_request_need_anchor(const struct akv_request *r, const char *name, struct akv_err *err)
{
    struct akv_split_place *places = NULL;
    size_t n;
    int rc = akv_split_places(&r->rec, name, &places, &n, err);
    free(places);
    return rc;
}

int akv_request_add_anchor(struct akv_request *r, uint32_t at, const struct akv_model *m, struct akv_err *err)
{
    char name[24];
    uint32_t safe = at;
    if (!r->rec.n)
        return akv_fail(err, AKV_E_USAGE, "request %.40s: position %u: it has no tokens", r->rec.id, at);
    if (!at || at > r->rec.n)
        return akv_fail(err, AKV_E_USAGE, "request %.40s: position %u: must be 1 to %zu, its tokens", r->rec.id, at, r->rec.n);
    snprintf(name, sizeof name, "at-%u", at);
    if (akv_request_need_anchor(r, name, NULL) == 0)
        return 0;
    int rc = m ? akv_split_safe(&r->rec, m->tok, at, &safe, err) : 0;
    if (rc == 0 && !safe)
        rc = akv_fail(err, AKV_E_NO, "request %.40s: position %u: there is no safe place to cut at or before it", r->rec.id, at);
    return rc < 0 ? rc : akv_record_add_anchor(&r->rec, name, safe, at, err);
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
