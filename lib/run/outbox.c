#include "run/outbox.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "model/model.h"

/* Pages under way: enough to ride out a slow sync, few enough to hold little memory. Fits the arena's spare pages. */
#define PLACES 8u
/* To publish a chain again: each that fails needs another process that collects, or a damaged page, in between. */
#define ATTEMPTS 8

struct place {
    struct akv_parcel parcel;
    uint32_t ids[AKV_PAGE_TOKENS]; /* the page's other fields may change when it is sealed: what is needed is copied */
    uint8_t raw_sha[AKV_SHA_BYTES];
    bool has_sha; /* of all of the parcel */
    uint32_t index;
};

struct akv_outbox {
    const struct akv_model *model;
    const struct akv_head *head;
    pthread_t thread;
    bool started;
    pthread_mutex_t lock;
    pthread_cond_t put, delivered;

    /* under the lock: counts since the beginning, released <= n_delivered <= n_put <= released + PLACES */
    uint64_t n_put, n_delivered, n_released;
    bool quit;

    /* the thread's while n_delivered < n_put, else the caller's */
    struct place places[PLACES];
    struct akv_coder coder;
    struct akv_buf coded;
    uint64_t written;
    struct akv_err err, save_err;
};

/* ---- delivering: the thread ---- */

static int encode(struct akv_outbox *o, const struct place *p, enum akv_codec codec, struct akv_page_rec *rec, struct akv_err *err)
{
    const struct akv_parcel *in = &p->parcel;
    *rec = (struct akv_page_rec){
        .key = in->key, .parent = in->parent, .has_parent = in->has_parent, .index = p->index, .n_tokens = in->n, .ids = p->ids};
    akv_buf_clear(&o->coded);
    int rc = akv_page_encode(&o->coder, &o->head->geom, in->page->kv, codec, rec, &o->coded, err);
    if (rc == 0 && p->has_sha && memcmp(rec->raw_sha, p->raw_sha, sizeof p->raw_sha))
        rc = akv_fail(err, AKV_E_INPUT, "page %u: its bytes are not those that its record promised", p->index);
    return rc;
}

/*
 * Again what the store has lost of the chain before a page: it was collected, or found damaged, since it was published or found there.
 * AKV_E_NO: some of it was lost meanwhile.
 */
static int publish_chain(struct akv_outbox *o, const struct place *p, struct akv_err *err)
{
    const struct akv_parcel *in = &p->parcel;
    int rc = 0;
    for (uint32_t i = 0; rc >= 0 && i < p->index; i++) {
        struct akv_page *page = in->chain[i];
        struct place one = {.parcel = {.page = page, .n = AKV_PAGE_TOKENS, .key = in->keys[i], .has_parent = i > 0}, .index = i};
        struct akv_page_rec rec;
        if (akv_store_has(in->store, o->head, &in->keys[i]))
            continue;
        if (i)
            one.parcel.parent = in->keys[i - 1];
        memcpy(one.ids, page->ids, sizeof one.ids);
        rc = encode(o, &one, akv_store_codec(in->store), &rec, err);
        if (rc == 0)
            rc = akv_store_put(in->store, o->head, &rec, in->computed, &o->written, err);
    }
    return rc < 0 ? rc : 0;
}

/* In one batch, so that nothing is collected in between, but while room is made under a quota. */
static int put_in_store(struct akv_outbox *o, const struct place *p, struct akv_page_rec *rec, struct akv_err *err)
{
    const struct akv_parcel *in = &p->parcel;
    struct akv_err why = {0};
    int rc = akv_store_batch_begin(in->store, err);
    if (rc < 0)
        return rc;
    rc = akv_store_put(in->store, o->head, rec, in->computed, &o->written, &why);
    for (int i = 0; rc == AKV_E_NO && in->chain && i < ATTEMPTS; i++) {
        akv_err_clear(&why);
        rc = publish_chain(o, p, &why);
        if (rc == 0)
            rc = encode(o, p, akv_store_codec(in->store), rec, &why);
        if (rc == 0)
            rc = akv_store_put(in->store, o->head, rec, in->computed, &o->written, &why);
    }
    akv_store_batch_end(in->store);
    /* "no" would be an answer; this is a save that failed */
    return rc < 0 ? akv_fail(err, rc == AKV_E_NO ? AKV_E_IO : rc, "%s", why.msg) : rc;
}

/* The first failure to save is kept: saving stops, the request goes on. */
static void publish(struct akv_outbox *o, const struct place *p, struct akv_page_rec *rec, bool encoded)
{
    const struct akv_parcel *in = &p->parcel;
    enum akv_codec codec = akv_store_codec(in->store);
    struct akv_err err = {0};
    int rc = akv_model_restat(o->model, &err);
    if (rc == 0 && !(encoded && codec == AKV_CODEC_PLANES)) /* output and store may want different codecs */
        rc = encode(o, p, codec, rec, &err);
    if (rc == 0)
        rc = put_in_store(o, p, rec, &err);
    if (rc < 0)
        o->save_err = err;
}

static int deliver(struct akv_outbox *o, const struct place *p, struct akv_err *err)
{
    const struct akv_parcel *in = &p->parcel;
    struct akv_writer *w = in->writer;
    struct akv_page_rec rec;
    bool encoded = false;
    if (w && akv_writer_has(w, &in->key)) {
        akv_writer_outgrow(w, p->index, in->has_parent ? &in->parent : NULL, p->ids, in->n);
    } else if (w) {
        /* looked at now: who reads the stream keeps a page before he learns how it ends */
        int rc = in->fresh ? akv_model_intact(o->model, err) : 0;
        if (rc == 0)
            rc = encode(o, p, AKV_CODEC_PLANES, &rec, err);
        if (rc == 0)
            rc = akv_writer_page(w, &rec, err);
        if (rc < 0)
            return rc;
        o->written += rec.coded_bytes;
        encoded = true;
    }
    if (in->store && !o->save_err.code && (in->fresh || !akv_store_has(in->store, o->head, &in->key)))
        publish(o, p, &rec, encoded);
    return 0;
}

static void *deliver_all(void *ctx)
{
    struct akv_outbox *o = ctx;
    pthread_mutex_lock(&o->lock);
    for (;;) {
        while (o->n_delivered == o->n_put && !o->quit)
            pthread_cond_wait(&o->put, &o->lock);
        if (o->n_delivered == o->n_put)
            break;
        const struct place *p = &o->places[o->n_delivered % PLACES];
        bool skip = o->err.code;
        pthread_mutex_unlock(&o->lock);
        struct akv_err err = {0};
        if (!skip)
            (void)deliver(o, p, &err);
        pthread_mutex_lock(&o->lock);
        if (err.code)
            o->err = err;
        o->n_delivered++;
        pthread_cond_signal(&o->delivered);
    }
    pthread_mutex_unlock(&o->lock);
    return NULL;
}

/* ---- putting: the caller ---- */

int akv_outbox_open(struct akv_outbox **out, const struct akv_model *model, const struct akv_head *head, struct akv_err *err)
{
    struct akv_outbox *o = akv_alloc(1, sizeof *o, err);
    if (!o)
        return AKV_E_IO;
    o->model = model;
    o->head = head;
    akv_buf_init(&o->coded, 0);
    pthread_mutex_init(&o->lock, NULL);
    pthread_cond_init(&o->put, NULL);
    pthread_cond_init(&o->delivered, NULL);
    o->started = pthread_create(&o->thread, NULL, deliver_all, o) == 0;
    if (!o->started) {
        akv_outbox_close(o);
        return akv_fail(err, AKV_E_IO, "cannot start the thread that writes pages");
    }
    *out = o;
    return 0;
}

void akv_outbox_close(struct akv_outbox *o)
{
    if (!o)
        return;
    pthread_mutex_lock(&o->lock);
    o->quit = true;
    pthread_cond_signal(&o->put);
    pthread_mutex_unlock(&o->lock);
    if (o->started)
        pthread_join(o->thread, NULL);
    pthread_cond_destroy(&o->delivered);
    pthread_cond_destroy(&o->put);
    pthread_mutex_destroy(&o->lock);
    akv_coder_release(&o->coder);
    akv_buf_release(&o->coded);
    free(o);
}

/* Let go of what is delivered; wait until at most n are under way. Under the lock. */
static void await(struct akv_outbox *o, uint64_t n)
{
    for (;;) {
        for (; o->n_released < o->n_delivered; o->n_released++) {
            struct akv_page *p = o->places[o->n_released % PLACES].parcel.page;
            akv_arena_release(p->arena, p);
        }
        if (o->n_put - o->n_released <= n)
            return;
        pthread_cond_wait(&o->delivered, &o->lock);
    }
}

int akv_outbox_put(struct akv_outbox *o, const struct akv_parcel *parcel, struct akv_err *err)
{
    struct akv_page *page = parcel->page;
    akv_arena_share(page);
    pthread_mutex_lock(&o->lock);
    await(o, PLACES - 1);
    struct place *p = &o->places[o->n_put % PLACES];
    *p = (struct place){.parcel = *parcel, .index = page->index};
    memcpy(p->ids, page->ids, parcel->n * sizeof *p->ids);
    p->has_sha = page->sealed && page->has_sha && parcel->n == page->n_tokens;
    if (p->has_sha)
        memcpy(p->raw_sha, page->raw_sha, sizeof p->raw_sha);
    o->n_put++;
    int rc = o->err.code ? akv_fail(err, o->err.code, "%s", o->err.msg) : 0;
    pthread_cond_signal(&o->put);
    pthread_mutex_unlock(&o->lock);
    return rc;
}

int akv_outbox_drain(struct akv_outbox *o, uint64_t *written, struct akv_err *save_err, struct akv_err *err)
{
    if (!o)
        return 0;
    pthread_mutex_lock(&o->lock);
    await(o, 0);
    pthread_mutex_unlock(&o->lock);
    *written += o->written;
    o->written = 0;
    if (o->save_err.code && !save_err->code)
        *save_err = o->save_err;
    int rc = o->err.code ? akv_fail(err, o->err.code, "%s", o->err.msg) : 0;
    akv_err_clear(&o->err);
    return rc;
}
