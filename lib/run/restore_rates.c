/* Restoring beside what decompressing the same frames takes at least, for akv-bench. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "run/session.h"
#include "store/store_dir.h"

/* A page's body: where its object and in it the frame lie; the frame itself when its codec is raw. */
struct frame {
    struct akv_object_name name;
    size_t offset, coded_bytes, raw_bytes;
    enum akv_codec codec;
    struct akv_buf coded;
};

struct plain {
    struct akv_store *store;
    struct frame *frames;
    size_t n, page_bytes;
    uint8_t *memory; /* [n] pages that memory is copied to */
    struct plain_thread {
        ZSTD_DCtx *ctx;
        uint8_t *out; /* a page */
        struct akv_buf file;
    } * threads;
    unsigned n_threads;
    atomic_bool failed;
};

/* What the zstd tool does: read the file, decompress the frame. */
static bool unzstd(const struct plain *p, const struct frame *f, struct plain_thread *t)
{
    struct akv_object_info info;
    size_t end = f->offset + f->coded_bytes;
    akv_buf_clear(&t->file);
    return p->store->ops->get(p->store, &f->name, 0, end, &t->file, &info, NULL) == 1 && t->file.len == end &&
           ZSTD_decompressDCtx(t->ctx, t->out, f->raw_bytes, t->file.data + f->offset, f->coded_bytes) == f->raw_bytes;
}

/* Stored blocks are held against memory: copied to as many bytes elsewhere, and hashed there. */
static void plain_one(void *ctx, size_t task, unsigned thread)
{
    struct plain *p = ctx;
    const struct frame *f = &p->frames[task];
    bool ok = true;
    if (f->codec == AKV_CODEC_RAW) {
        uint8_t *copy = p->memory + task * p->page_bytes;
        memcpy(copy, f->coded.data, f->raw_bytes);
        ok = akv_xxh64(copy, f->raw_bytes) != 0;
    } else {
        ok = unzstd(p, f, &p->threads[thread]);
    }
    if (!ok)
        atomic_store(&p->failed, true);
}

static int plain_open(struct plain *p, struct akv_session *s, size_t n, struct akv_err *err)
{
    *p = (struct plain){.n = n, .page_bytes = akv_geom_page_bytes(&s->geom), .n_threads = akv_pool_threads(s->pool)};
    p->frames = akv_alloc(n, sizeof *p->frames, err);
    p->threads = akv_alloc(p->n_threads, sizeof *p->threads, err);
    p->memory = akv_alloc(n, p->page_bytes, err);
    if (!p->frames || !p->threads || !p->memory)
        return AKV_E_IO;
    for (size_t i = 0; i < n; i++)
        akv_buf_init(&p->frames[i].coded, 0);
    for (unsigned i = 0; i < p->n_threads; i++) {
        struct plain_thread *t = &p->threads[i];
        akv_buf_init(&t->file, 0);
        t->ctx = ZSTD_createDCtx();
        t->out = akv_alloc(p->page_bytes, 1, err);
        if (!t->ctx || !t->out)
            return akv_fail(err, AKV_E_IO, "out of memory");
    }
    return 0;
}

static void plain_close(struct plain *p)
{
    for (size_t i = 0; p->frames && i < p->n; i++)
        akv_buf_release(&p->frames[i].coded);
    for (unsigned i = 0; p->threads && i < p->n_threads; i++) {
        ZSTD_freeDCtx(p->threads[i].ctx);
        free(p->threads[i].out);
        akv_buf_release(&p->threads[i].file);
    }
    free(p->memory);
    free(p->frames);
    free(p->threads);
}

static int take_frame(struct frame *f, struct akv_session *s, struct akv_object *o, uint32_t i, const uint32_t *ids,
                      struct akv_err *err)
{
    struct akv_page_rec rec;
    int rc = akv_store_read(s->store, o, &s->head, &s->keys[i], i ? &s->keys[i - 1] : NULL, i, ids, AKV_PAGE_TOKENS, &rec, err);
    if (rc == 0)
        rc = akv_fail(err, AKV_E_IO, "page %u: was saved and is not there", i);
    if (rc < 0)
        return rc;
    f->offset = (size_t)((const char *)rec.coded - o->bytes.data);
    f->coded_bytes = rec.coded_bytes;
    f->raw_bytes = (size_t)rec.raw_bytes;
    f->codec = rec.codec;
    if (rec.codec == AKV_CODEC_RAW)
        akv_buf_add(&f->coded, rec.coded, rec.coded_bytes);
    rc = akv_object_name(&f->name, &s->head.root, &s->keys[i], err);
    return rc < 0 ? rc : akv_buf_check(&f->coded, "page body", err);
}

static int take_frames(struct plain *p, struct akv_session *s, const uint32_t *ids, struct akv_bench_pages *pages,
                       struct akv_err *err)
{
    struct akv_object o;
    int rc = 0;
    akv_object_init(&o);
    p->store = s->store;
    for (uint32_t i = 0; rc == 0 && i < p->n; i++) {
        const struct frame *f = &p->frames[i];
        rc = take_frame(&p->frames[i], s, &o, i, ids + (size_t)i * AKV_PAGE_TOKENS, err);
        pages->raw_bytes += f->raw_bytes;
        pages->coded_bytes += f->coded_bytes;
        pages->n_raw += f->codec == AKV_CODEC_RAW;
    }
    akv_object_release(&o);
    return rc;
}

/* Restore the pages into an arena that has none, as a new process does. */
static int restore(struct akv_session *s, const uint32_t *ids, uint32_t n, double *ns, struct akv_err *err)
{
    struct akv_stats st = {0};
    akv_arena_close(s->arena);
    s->arena = NULL;
    double start = akv_now_ms();
    int rc = akv_compute_begin(s, err);
    int64_t found = rc < 0 ? rc : akv_load(s, ids, n, &st, err);
    *ns = (akv_now_ms() - start) * 1e6;
    akv_compute_end(s);
    if (found >= 0 && found != n)
        return akv_fail(err, AKV_E_IO, "%lld of %u tokens were restored: %.200s", (long long)found, n, st.miss);
    return found < 0 ? (int)found : 0;
}

/* See to it that the store has the pages. */
static int save(struct akv_session *s, const uint32_t *ids, uint32_t n, struct akv_err *err)
{
    struct akv_stats st = {0};
    struct akv_request r = {.rec = {.id = (char *)"bench", .ids = (uint32_t *)ids, .n = n}};
    int rc = akv_session_prefill(s, &r, &st, NULL, err);
    return rc == 0 && s->save_err.code ? akv_fail(err, s->save_err.code, "%s", s->save_err.msg) : rc;
}

int akv_bench_restore(struct akv_session *s, uint32_t n_pages, uint32_t reps, struct akv_bench_pages *pages, double *restore_ns,
                      double *plain_ns, struct akv_err *err)
{
    uint32_t n = n_pages * AKV_PAGE_TOKENS;
    struct plain p = {0};
    *pages = (struct akv_bench_pages){0};
    if (!n_pages || n_pages > s->opts.n_ctx / AKV_PAGE_TOKENS || !s->opts.save)
        return akv_fail(err, AKV_E_USAGE, "%u pages: the context holds %u, and they must be saved", n_pages,
                        s->opts.n_ctx / AKV_PAGE_TOKENS);
    uint32_t *ids = akv_alloc(n, sizeof *ids, err);
    int rc = ids ? plain_open(&p, s, n_pages, err) : AKV_E_IO;
    for (uint32_t i = 0; rc == 0 && i < n; i++)
        ids[i] = akv_bench_id(s, i);
    if (rc == 0)
        rc = save(s, ids, n, err);
    if (rc == 0)
        rc = take_frames(&p, s, ids, pages, err);
    for (uint32_t i = 0; rc == 0 && reps && i <= reps; i++) {
        double mine = 0, start;
        rc = akv_session_cancelled(s) ? akv_fail(err, AKV_E_CANCEL, "interrupted") : restore(s, ids, n, &mine, err);
        start = akv_now_ms();
        akv_pool_run(s->pool, plain_one, &p, p.n);
        if (rc == 0 && i) { /* the first warms caches up */
            restore_ns[i - 1] = mine;
            plain_ns[i - 1] = (akv_now_ms() - start) * 1e6;
        }
    }
    if (rc == 0 && atomic_load(&p.failed))
        rc = akv_fail(err, AKV_E_INPUT, "zstd cannot read what was saved");
    plain_close(&p);
    free(ids);
    return rc;
}
