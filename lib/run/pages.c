#include <string.h>

#include "run/session.h"

int akv_pages_admit(struct akv_session *s, const struct akv_page_rec *rec, enum akv_origin origin, struct akv_page **out,
                    struct akv_err *err)
{
    int rc = akv_session_need_arena(s, err);
    if (rc < 0)
        return rc;
    struct akv_page *p = akv_arena_find(s->arena, &rec->key, rec->ids, rec->n_tokens);
    if (p) {
        if (out)
            *out = p;
        return 0;
    }
    p = akv_arena_take(s->arena, err);
    if (!p)
        return AKV_E_IO;
    rc = akv_page_decode(&s->coder, &s->geom, rec, p->kv, err);
    if (rc < 0) {
        akv_arena_release(s->arena, p);
        return rc;
    }
    memcpy(p->ids, rec->ids, rec->n_tokens * sizeof *p->ids);
    memcpy(p->raw_sha, rec->raw_sha, sizeof p->raw_sha);
    p->has_sha = true;
    p->index = rec->index;
    p->n_tokens = rec->n_tokens;
    p->origin = (uint8_t)origin;
    akv_arena_seal(s->arena, p, &rec->key, &rec->parent);
    akv_arena_release(s->arena, p);
    if (out)
        *out = p;
    return 0;
}

int akv_pages_write(struct akv_session *s, const struct akv_page_rec *rec, struct akv_stats *st, struct akv_err *err)
{
    struct akv_page_rec again = *rec;
    if (rec->codec == AKV_CODEC_RAW) { /* a store may keep raw what a cold run would write as planes */
        akv_buf_clear(&s->coded);
        int rc = akv_body_decode(&s->coder, &s->geom, rec, s->body, err);
        if (rc == 0)
            rc = akv_body_encode(&s->coder, &s->geom, s->body, (size_t)rec->raw_bytes, AKV_CODEC_PLANES, &again.codec, &s->coded,
                                 err);
        if (rc < 0)
            return rc;
        again.coded = (const uint8_t *)s->coded.data;
        again.coded_bytes = s->coded.len;
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

int akv_pages_encode(struct akv_session *s, const struct akv_page *p, uint32_t n, const struct akv_key *key,
                     const struct akv_key *parent, enum akv_codec codec, struct akv_page_rec *rec, struct akv_err *err)
{
    size_t raw = n * akv_geom_token_bytes(&s->geom);
    akv_page_to_body(&s->geom, s->body, p->kv, n);
    *rec = (struct akv_page_rec){.key = *key, .index = p->index, .n_tokens = n, .ids = p->ids, .raw_bytes = raw};
    rec->has_parent = parent != NULL;
    if (parent)
        rec->parent = *parent;
    int rc = akv_sha256(rec->raw_sha, s->body, raw, err);
    if (rc < 0)
        return rc;
    if (p->sealed && p->has_sha && n == p->n_tokens && memcmp(rec->raw_sha, p->raw_sha, sizeof p->raw_sha))
        return akv_fail(err, AKV_E_INPUT, "page %u: its bytes are not those that its record promised", p->index);
    akv_buf_clear(&s->coded);
    rc = akv_body_encode(&s->coder, &s->geom, s->body, raw, codec, &rec->codec, &s->coded, err);
    rec->coded = (const uint8_t *)s->coded.data;
    rec->coded_bytes = s->coded.len;
    return rc;
}

static bool saving(const struct akv_session *s)
{
    return s->opts.save && s->store && !s->save_err.code;
}

/* The first failure to save is kept: saving stops, the request goes on. */
static void publish(struct akv_session *s, const struct akv_page_rec *rec, bool computed, struct akv_stats *st)
{
    struct akv_err err = {0};
    if (akv_model_restat(s->model, &err) < 0 || akv_store_put(s->store, &s->head, rec, computed, &st->bytes_written, &err) < 0)
        s->save_err = err;
}

/*
 * Send the first n tokens of page p where they are wanted and not yet. A page that this request's steps wrote (not sealed yet) is
 * always offered to the store, whose copy is thereby compared with it. Output and store may want different codecs.
 */
static int deliver(struct akv_session *s, const struct akv_page *p, uint32_t n, const struct akv_key *key,
                   const struct akv_key *parent, bool write, struct akv_stats *st, struct akv_err *err)
{
    struct akv_page_rec rec;
    bool fresh = !p->sealed, encoded = false;
    bool to_output = write && s->writer && !akv_writer_has(s->writer, key);
    if (write && s->writer && !to_output)
        akv_writer_outgrow(s->writer, p->index, parent, p->ids, n);
    if (to_output) {
        int rc = akv_pages_encode(s, p, n, key, parent, AKV_CODEC_PLANES, &rec, err);
        if (rc == 0)
            rc = akv_writer_page(s->writer, &rec, err);
        if (rc < 0)
            return rc;
        st->bytes_written += rec.coded_bytes;
        encoded = true;
    }
    if (saving(s) && (fresh || !akv_store_has(s->store, &s->head, key))) {
        enum akv_codec codec = akv_store_codec(s->store);
        int rc = encoded && codec == AKV_CODEC_PLANES ? 0 : akv_pages_encode(s, p, n, key, parent, codec, &rec, err);
        if (rc < 0)
            return rc;
        publish(s, &rec, fresh && !s->n_restored, st);
    }
    return 0;
}

static void seal(struct akv_session *s, struct akv_page *p, const struct akv_key *key, const struct akv_key *parent)
{
    static const struct akv_key none;
    if (p->sealed)
        return;
    p->origin = AKV_FROM_COMPUTE;
    akv_arena_seal(s->arena, p, key, parent ? parent : &none);
}

int akv_pages_flush(struct akv_session *s, struct akv_stats *st, struct akv_err *err)
{
    while (s->n_sealed < s->seq.n_tokens / AKV_PAGE_TOKENS) {
        uint32_t i = s->n_sealed;
        struct akv_page *p = s->seq.pages[i];
        const struct akv_key *parent = i ? &s->keys[i - 1] : NULL;
        int rc = akv_page_key(&s->keys[i], parent, s->seq.ids + (size_t)i * AKV_PAGE_TOKENS, AKV_PAGE_TOKENS, err);
        if (rc == 0)
            rc = deliver(s, p, AKV_PAGE_TOKENS, &s->keys[i], parent, true, st, err);
        if (rc < 0)
            return rc;
        seal(s, p, &s->keys[i], parent);
        s->n_sealed++;
    }
    return 0;
}

int akv_pages_tail(struct akv_session *s, uint32_t n, bool write, bool is_tip, struct akv_stats *st, struct akv_err *err)
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
    rc = deliver(s, p, len, &key, parent, write, st, err);
    if (rc == 0 && is_tip)
        seal(s, p, &key, parent);
    return rc;
}
