#include <string.h>

#include "run/session.h"

void akv_pages_settle(struct akv_session *s, struct akv_page *p, const struct akv_page_rec *rec, enum akv_origin origin)
{
    memcpy(p->ids, rec->ids, rec->n_tokens * sizeof *p->ids);
    memcpy(p->raw_sha, rec->raw_sha, sizeof p->raw_sha);
    p->has_sha = true;
    p->index = rec->index;
    p->n_tokens = rec->n_tokens;
    p->origin = (uint8_t)origin;
    akv_arena_seal(s->arena, p, &rec->key, &rec->parent);
}

int akv_pages_admit(struct akv_session *s, const struct akv_page_rec *rec, struct akv_page **out, struct akv_err *err)
{
    struct akv_page *p = *out = akv_arena_find(s->arena, &rec->key, rec->ids, rec->n_tokens);
    if (p)
        return 0;
    p = akv_arena_take(s->arena, err);
    if (!p)
        return AKV_E_IO;
    int rc = akv_page_decode(&s->coders[0], &s->geom, rec, p->kv, err);
    if (rc == 0) {
        akv_pages_settle(s, p, rec, AKV_FROM_STORE);
        *out = p;
    }
    akv_arena_release(s->arena, p);
    return rc;
}

int akv_pages_write(struct akv_session *s, const struct akv_page_rec *rec, struct akv_stats *st, struct akv_err *err)
{
    struct akv_page_rec again = *rec;
    if (rec->codec == AKV_CODEC_RAW) { /* a store may keep raw what a cold run would write as planes */
        akv_buf_clear(&s->coded);
        int rc = akv_page_recode(&s->coders[0], &s->geom, AKV_CODEC_PLANES, &again, &s->coded, err);
        if (rc < 0)
            return rc;
    }
    st->bytes_written += again.coded_bytes;
    return akv_writer_page(s->writer, &again, err);
}

int akv_pages_pass(struct akv_session *s, const struct akv_page_rec *rec, enum akv_origin origin, struct akv_stats *st,
                   struct akv_err *err)
{
    if (!s->writer)
        return 0;
    if (akv_writer_has(s->writer, &rec->key)) {
        akv_writer_outgrow(s->writer, rec->index, rec->has_parent ? &rec->parent : NULL, rec->ids, rec->n_tokens);
        return 0;
    }
    if (s->without_input && origin == AKV_FROM_STREAM)
        return akv_writer_exclude(s->writer, &rec->key, err);
    return akv_pages_write(s, rec, st, err);
}

static bool saving(const struct akv_session *s)
{
    return s->opts.save && s->store && !s->save_err.code;
}

/* Send the first n tokens of page p where they are wanted and not yet. One that is not sealed was written by this request's steps. */
static int deliver(struct akv_session *s, struct akv_page *p, uint32_t n, const struct akv_key *key, const struct akv_key *parent,
                   bool write, struct akv_err *err)
{
    struct akv_parcel parcel = {.page = p, .n = n, .key = *key, .has_parent = parent != NULL};
    if (parent)
        parcel.parent = *parent;
    parcel.writer = write ? s->writer : NULL;
    parcel.store = saving(s) ? s->store : NULL;
    parcel.fresh = !p->sealed;
    parcel.computed = parcel.fresh && !s->n_restored;
    parcel.chain = s->seq.pages;
    parcel.keys = s->keys;
    if (!parcel.writer && !parcel.store)
        return 0;
    int rc = s->outbox ? 0 : akv_outbox_open(&s->outbox, s->model, &s->head, err);
    return rc < 0 ? rc : akv_outbox_put(s->outbox, &parcel, err);
}

int akv_pages_drain(struct akv_session *s, struct akv_stats *st, struct akv_err *err)
{
    return akv_outbox_drain(s->outbox, &st->bytes_written, &s->save_err, err);
}

static void seal(struct akv_session *s, struct akv_page *p, const struct akv_key *key, const struct akv_key *parent)
{
    static const struct akv_key none;
    if (p->sealed)
        return;
    p->origin = AKV_FROM_COMPUTE;
    akv_arena_seal(s->arena, p, key, parent ? parent : &none);
}

int akv_pages_flush(struct akv_session *s, struct akv_err *err)
{
    while (s->n_sealed < s->seq.n_tokens / AKV_PAGE_TOKENS) {
        uint32_t i = s->n_sealed;
        struct akv_page *p = s->seq.pages[i];
        const struct akv_key *parent = i ? &s->keys[i - 1] : NULL;
        int rc = 0;
        if (i == s->n_keys) {
            rc = akv_page_key(&s->keys[i], parent, s->seq.ids + (size_t)i * AKV_PAGE_TOKENS, AKV_PAGE_TOKENS, err);
            s->n_keys += rc == 0;
        }
        if (rc == 0)
            rc = deliver(s, p, AKV_PAGE_TOKENS, &s->keys[i], parent, true, err);
        if (rc < 0)
            return rc;
        seal(s, p, &s->keys[i], parent);
        s->n_sealed++;
    }
    return 0;
}

int akv_pages_tail(struct akv_session *s, uint32_t n, bool write, bool is_tip, struct akv_err *err)
{
    uint32_t index = n / AKV_PAGE_TOKENS, len = n % AKV_PAGE_TOKENS;
    if (!len)
        return 0;
    struct akv_page *p = s->seq.pages[index];
    const struct akv_key *parent = index ? &s->keys[index - 1] : NULL;
    struct akv_key key;
    int rc = akv_page_key(&key, parent, s->seq.ids + (size_t)index * AKV_PAGE_TOKENS, len, err);
    if (rc < 0)
        return rc;
    rc = deliver(s, p, len, &key, parent, write, err);
    if (rc == 0 && is_tip)
        seal(s, p, &key, parent);
    return rc;
}
