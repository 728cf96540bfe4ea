/* akv_session_restore: what the store has of a prompt goes to the output as it stands; nothing is decoded or computed. */
#include "run/session.h"

/* The page from the store: 1, or 0: a miss, with words when it was more than absence. *rec lives until the store's next call. */
static int fetch(struct akv_session *s, const struct akv_place *p, struct akv_page_rec *rec, struct akv_stats *st)
{
    struct akv_err why = {0};
    if (!s->store)
        return 0;
    int found = akv_store_get(s->store, &s->head, p->key, p->parent, p->index, p->ids, p->n, rec, &why);
    if (found == 1) {
        akv_store_touch(s->store, &s->head, p->key);
        st->bytes_read += rec->coded_bytes;
        return 1;
    }
    akv_miss(s, st, p->index, &why);
    return 0;
}

/* 1: the page is there and was written, 0: a miss. */
static int emit(struct akv_session *s, const struct akv_place *p, struct akv_stats *st, struct akv_err *err)
{
    struct akv_page_rec rec;
    if (akv_writer_has(s->writer, p->key)) {
        akv_writer_outgrow(s->writer, p->index, p->parent, p->ids, p->n);
        st->source = "stream";
    } else {
        if (!fetch(s, p, &rec, st))
            return 0;
        int rc = akv_pages_write(s, &rec, st, err);
        if (rc < 0)
            return rc;
        st->source = "store";
    }
    st->pages++;
    return 1;
}

/* The full pages of ids[n] to the first miss. Returns their tokens. */
static int64_t emit_pages(struct akv_session *s, const uint32_t *ids, uint32_t n, struct akv_stats *st, struct akv_err *err)
{
    uint32_t at = 0;
    const struct akv_key *parent = NULL;
    for (; n - at >= AKV_PAGE_TOKENS; at += AKV_PAGE_TOKENS) {
        uint32_t i = at / AKV_PAGE_TOKENS;
        int rc = akv_page_key(&s->keys[i], parent, ids + at, AKV_PAGE_TOKENS, err);
        if (rc == 0)
            s->n_keys = i + 1;
        if (rc == 0)
            rc = emit(s, &(struct akv_place){&s->keys[i], parent, i, ids + at, AKV_PAGE_TOKENS}, st, err);
        if (rc < 0)
            return rc;
        if (rc == 0)
            break;
        parent = &s->keys[i];
    }
    return at;
}

/* The longest tail behind the whole pages of ids[0..at). Returns the tokens written in all. */
static int64_t emit_tail(struct akv_session *s, const uint32_t *ids, uint32_t n, uint32_t at, struct akv_stats *st,
                         struct akv_err *err)
{
    const uint32_t i = at / AKV_PAGE_TOKENS;
    const struct akv_key *parent = i ? &s->keys[i - 1] : NULL;
    for (uint32_t len = n - at < AKV_PAGE_TOKENS ? n - at : AKV_PAGE_TOKENS - 1; len; len--) {
        struct akv_key key;
        int rc = akv_page_key(&key, parent, ids + at, len, err);
        if (rc == 0)
            rc = emit(s, &(struct akv_place){&key, parent, i, ids + at, len}, st, err);
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
    if (s->out_fd < 0)
        return akv_fail(err, AKV_E_USAGE, "restoring needs an output stream");
    int rc = akv_check_size(s, &r->rec, err);
    if (rc == 0)
        rc = akv_session_need_store(s, err);
    if (rc == 0)
        rc = akv_session_need_writer(s, err);
    if (rc < 0)
        return rc;
    int64_t found = emit_pages(s, r->rec.ids, n, st, err);
    if (found >= 0)
        found = emit_tail(s, r->rec.ids, n, (uint32_t)found, st, err);
    if (found < 0)
        return (int)found;
    st->cached_tokens = (uint32_t)found;
    st->missing_tokens = n - st->cached_tokens;
    st->hit = !found ? "none" : st->missing_tokens <= 1 ? "full" : "partial"; /* a cold run computes the last token too */
    akv_explain_miss(s, st);
    rc = akv_output_request(s, r, err);
    st->restore_ms = akv_now_ms() - start;
    if (rc == 0 && require && st->missing_tokens > 1)
        rc = akv_fail(err, AKV_E_NO, "request %.40s: %u of %u tokens are not in the store: %.200s", r->rec.id, st->missing_tokens,
                      n, st->miss);
    return rc;
}
