/* akv_session_restore: what the store has of a prompt goes to the output as it stands; nothing is decoded or computed. */
#include <stdio.h>
#include <string.h>

#include "run/session.h"

/* 1: emitted (or already in the output), 0: a miss. */
static int emit_page(struct akv_session *s, const struct akv_key *key, const struct akv_key *parent, uint32_t index,
                     const uint32_t *ids, uint32_t n, struct akv_stats *st, struct akv_err *err)
{
    struct akv_page_rec rec;
    struct akv_err why = {0};
    if (!s->store)
        return 0;
    if (akv_writer_has(s->writer, key)) {
        akv_writer_outgrow(s->writer, index, parent, ids, n);
        st->source = "stream";
        st->pages++;
        return 1;
    }
    int found = akv_store_get(s->store, &s->head, key, parent, index, ids, n, &rec, &why);
    if (found != 1) {
        if (why.code) {
            akv_session_note(s, "%s", why.msg);
            snprintf(st->miss, sizeof st->miss, "page %u: %.200s", index, why.msg);
        }
        return 0;
    }
    int rc = akv_writer_page(s->writer, &rec, err);
    if (rc < 0)
        return rc;
    akv_store_touch(s->store, &s->head, key);
    st->source = "store";
    st->pages++;
    st->bytes_read += rec.coded_bytes;
    st->bytes_written += rec.coded_bytes;
    return 1;
}

/* Tokens of ids[n] whose pages were emitted, or an error. */
static int64_t emit_chain(struct akv_session *s, const uint32_t *ids, uint32_t n, struct akv_stats *st, struct akv_err *err)
{
    struct akv_key key = {0}, parent = {0};
    uint32_t at = 0;
    for (; n - at >= AKV_PAGE_TOKENS; at += AKV_PAGE_TOKENS) {
        const struct akv_key *prev = at ? &parent : NULL;
        int rc = akv_page_key(&key, prev, ids + at, AKV_PAGE_TOKENS, err);
        if (rc == 0)
            rc = emit_page(s, &key, prev, at / AKV_PAGE_TOKENS, ids + at, AKV_PAGE_TOKENS, st, err);
        if (rc < 0)
            return rc;
        if (rc == 0)
            break;
        parent = key;
    }
    uint32_t most = n - at < AKV_PAGE_TOKENS ? n - at : AKV_PAGE_TOKENS - 1;
    for (uint32_t len = most; len; len--) {
        const struct akv_key *prev = at ? &parent : NULL;
        int rc = akv_page_key(&key, prev, ids + at, len, err);
        if (rc == 0)
            rc = emit_page(s, &key, prev, at / AKV_PAGE_TOKENS, ids + at, len, st, err);
        if (rc < 0)
            return rc;
        if (rc == 1)
            return at + len;
    }
    return at;
}

int akv_session_restore(struct akv_session *s, const struct akv_request *r, bool require, struct akv_stats *st, struct akv_err *err)
{
    uint32_t n = (uint32_t)r->rec.n;
    double start = akv_now_ms();
    s->can_go_on = true;
    *st = (struct akv_stats){.hit = "none", .source = "none", .prompt_tokens = n};
    int rc = akv_session_need_writer(s, err);
    if (rc == 0)
        rc = akv_session_need_store(s, err);
    if (rc < 0)
        return rc;
    int64_t cached = emit_chain(s, r->rec.ids, n, st, err);
    if (cached < 0)
        return (int)cached;
    st->cached_tokens = (uint32_t)cached;
    st->missing_tokens = n - st->cached_tokens;
    st->hit = !cached ? "none" : n - st->cached_tokens <= 1 ? "full" : "partial";
    akv_buf_clear(&s->scratch);
    rc = akv_record_write(&r->rec, &s->scratch, err);
    if (rc == 0)
        rc = akv_writer_request(s->writer, s->scratch.data, s->scratch.len, err);
    st->restore_ms = akv_now_ms() - start;
    if (rc == 0 && require && st->missing_tokens)
        rc = akv_fail(err, AKV_E_NO, "request %.40s: %u of %u tokens are not in the store", r->rec.id, st->missing_tokens, n);
    return rc;
}
