#include <stdio.h>
#include <string.h>

#include "run/session.h"

/*
 * One page of the chain: from the arena, else from the store. 1: attached, 0: a miss. A damaged or unreadable object is a miss
 * with words, never an error.
 */
static int attach(struct akv_session *s, const struct akv_key *key, const struct akv_key *parent, const uint32_t *ids, uint32_t n,
                  struct akv_stats *st, struct akv_err *err)
{
    uint32_t index = s->seq.n_pages;
    struct akv_page *p = akv_arena_find(s->arena, key, ids, n);
    enum akv_origin origin = p ? (enum akv_origin)p->origin : AKV_FROM_STORE;
    if (!p && s->store) {
        struct akv_page_rec rec;
        struct akv_err why = {0};
        int found = akv_store_get(s->store, &s->head, key, parent, index, ids, n, &rec, &why);
        if (found == 1 && akv_pages_admit(s, &rec, AKV_FROM_STORE, &p, &why) < 0)
            found = 0;
        if (found != 1 && why.code) {
            akv_session_note(s, "%s", why.msg);
            if (!st->miss[0])
                snprintf(st->miss, sizeof st->miss, "page %u: %.200s", index, why.msg);
        }
        if (found != 1)
            return 0;
        int rc = akv_pages_pass(s, &rec, err);
        if (rc < 0)
            return rc;
        st->bytes_read += rec.coded_bytes;
        akv_store_touch(s->store, &s->head, key);
    }
    if (!p)
        return 0;
    int rc = akv_seq_attach(&s->seq, p, err);
    if (rc < 0)
        return rc;
    s->n_restored++;
    static const char *const sources[] = {"arena", "stream", "store"};
    st->source = sources[origin];
    st->pages++;
    return 1;
}

/* After the full pages: the longest tail of 63..1 tokens that arena or store have. */
static int attach_tail(struct akv_session *s, const uint32_t *ids, uint32_t n, struct akv_stats *st, struct akv_err *err)
{
    uint32_t at = s->seq.n_tokens;
    uint32_t most = n - at < AKV_PAGE_TOKENS ? n - at : AKV_PAGE_TOKENS - 1;
    const struct akv_key *parent = s->seq.n_pages ? &s->keys[s->seq.n_pages - 1] : NULL;
    for (uint32_t len = most; len; len--) {
        struct akv_key key;
        int rc = akv_page_key(&key, parent, ids + at, len, err);
        if (rc == 0)
            rc = attach(s, &key, parent, ids + at, len, st, err);
        if (rc != 0)
            return rc < 0 ? rc : 0;
    }
    return 0;
}

int akv_lookup(struct akv_session *s, const uint32_t *ids, uint32_t n, struct akv_stats *st, struct akv_err *err)
{
    double start = akv_now_ms();
    int rc = akv_session_need_store(s, err);
    if (rc < 0)
        return rc;
    while (n - s->seq.n_tokens >= AKV_PAGE_TOKENS) {
        uint32_t i = s->seq.n_pages;
        const struct akv_key *parent = i ? &s->keys[i - 1] : NULL;
        rc = akv_page_key(&s->keys[i], parent, ids + s->seq.n_tokens, AKV_PAGE_TOKENS, err);
        if (rc == 0)
            rc = attach(s, &s->keys[i], parent, ids + s->seq.n_tokens, AKV_PAGE_TOKENS, st, err);
        if (rc < 0)
            return rc;
        if (rc == 0)
            break;
    }
    rc = attach_tail(s, ids, n, st, err);
    st->restore_ms = akv_now_ms() - start;
    return rc;
}
