/* Writing a stream. */
#include "snap/format.h"
#include "snap/known.h"

#include <stdlib.h>
#include <string.h>

/* A partial page that may still be outgrown. rec points into the arrays here. */
struct held {
    struct akv_page_rec rec;
    uint32_t ids[AKV_PAGE_TOKENS];
    uint8_t *coded;
};

struct akv_writer {
    int fd;
    char *name;
    const volatile int *cancel;
    struct akv_head head;
    struct akv_buf header;
    struct akv_known known;
    struct held **held;
    size_t n_held, cap_held;
    bool in_section;
    size_t section_from; /* first page of the section in known */
    uint64_t section_pages, bytes;
    int failed;
};

int akv_writer_open(struct akv_writer **out, int fd, const char *name, const struct akv_head *head, struct akv_err *err)
{
    *out = NULL;
    struct akv_writer *w = akv_alloc(1, sizeof *w, err);
    if (!w)
        return AKV_E_IO;
    w->fd = fd;
    akv_buf_init(&w->header, 0);
    w->name = akv_strndup(name, strlen(name), err);
    int rc = w->name ? akv_head_copy(&w->head, head, err) : AKV_E_IO;
    if (rc == 0)
        rc = akv_head_check(&w->head, err);
    if (rc < 0)
        akv_writer_abort(w);
    else
        *out = w;
    return rc;
}

void akv_writer_set_cancel(struct akv_writer *w, const volatile int *cancel)
{
    w->cancel = cancel;
}

static void free_held(struct held *h)
{
    if (h)
        free(h->coded);
    free(h);
}

void akv_writer_abort(struct akv_writer *w)
{
    if (!w)
        return;
    for (size_t i = 0; i < w->n_held; i++)
        free_held(w->held[i]);
    free(w->held);
    akv_known_release(&w->known);
    akv_buf_release(&w->header);
    akv_head_release(&w->head);
    free(w->name);
    free(w);
}

static int write_bytes(struct akv_writer *w, const void *p, size_t n, struct akv_err *err)
{
    w->bytes += n;
    return akv_write_out(w->fd, p, n, w->name, w->cancel, err);
}

static int write_header(struct akv_writer *w, struct akv_err *err)
{
    return write_bytes(w, w->header.data, w->header.len, err);
}

/* H is written with the first record behind it, so that a run which fails before has written nothing. */
static int begin_section(struct akv_writer *w, struct akv_err *err)
{
    if (w->in_section)
        return 0;
    int rc = akv_head_put(&w->header, &w->head, err);
    if (rc == 0)
        rc = write_header(w, err);
    w->in_section = true;
    w->section_from = w->known.n;
    w->section_pages = 0;
    return rc;
}

static int end_section(struct akv_writer *w, struct akv_err *err)
{
    struct akv_key *tips = NULL;
    size_t n_tips = 0;
    int rc = akv_known_tips(&w->known, w->section_from, &tips, &n_tips, err);
    if (rc == 0)
        rc = akv_end_put(&w->header, w->section_pages, tips, n_tips, err);
    if (rc == 0)
        rc = write_header(w, err);
    w->in_section = false;
    free(tips);
    return rc;
}

static int emit_page(struct akv_writer *w, const struct akv_page_rec *p, struct akv_err *err)
{
    int rc = 0;
    if (w->section_pages == AKV_TIPS_MAX) /* the tips of a section must fit into its E */
        rc = end_section(w, err);
    if (rc == 0)
        rc = begin_section(w, err);
    if (rc == 0)
        rc = akv_page_put(&w->header, p, err);
    if (rc == 0)
        rc = write_header(w, err);
    if (rc == 0)
        rc = write_bytes(w, p->coded, p->coded_bytes, err);
    if (rc == 0)
        rc = akv_known_add(&w->known, &p->key, p, false, err);
    w->section_pages++;
    return rc;
}

static int flush_held(struct akv_writer *w, struct akv_err *err)
{
    int rc = 0;
    for (size_t i = 0; i < w->n_held; i++) {
        if (rc == 0)
            rc = emit_page(w, &w->held[i]->rec, err);
        free_held(w->held[i]);
    }
    w->n_held = 0;
    return rc;
}

static int hold(struct akv_writer *w, const struct akv_page_rec *p, struct akv_err *err)
{
    if (w->n_held == w->cap_held) {
        size_t cap = w->cap_held ? 2 * w->cap_held : 4;
        struct held **list = akv_realloc(w->held, cap, sizeof(struct held *), err);
        if (!list)
            return AKV_E_IO;
        w->held = list;
        w->cap_held = cap;
    }
    struct held *h = akv_alloc(1, sizeof *h, err);
    if (!h)
        return AKV_E_IO;
    h->coded = akv_alloc(p->coded_bytes, 1, err);
    if (!h->coded) {
        free_held(h);
        return AKV_E_IO;
    }
    h->rec = *p;
    memcpy(h->ids, p->ids, p->n_tokens * sizeof *p->ids);
    memcpy(h->coded, p->coded, p->coded_bytes);
    h->rec.ids = h->ids;
    h->rec.coded = h->coded;
    w->held[w->n_held++] = h;
    return 0;
}

static bool outgrown_by(const struct akv_page_rec *a, const struct akv_page_rec *b)
{
    return akv_page_outgrown(a->index, &a->parent, a->ids, a->n_tokens, b);
}

static void drop_outgrown(struct akv_writer *w, const struct akv_page_rec *p)
{
    size_t kept = 0;
    for (size_t i = 0; i < w->n_held; i++) {
        struct held *h = w->held[i];
        if (outgrown_by(&h->rec, p))
            free_held(h);
        else
            w->held[kept++] = h;
    }
    w->n_held = kept;
}

void akv_writer_outgrow(struct akv_writer *w, uint32_t index, const struct akv_key *parent, const uint32_t *ids, uint32_t n)
{
    struct akv_page_rec p = {.index = index, .n_tokens = n, .ids = ids};
    if (parent)
        p.parent = *parent;
    drop_outgrown(w, &p);
}

/* 1: the page is held itself, or outgrown by one that is. */
static int is_held(const struct akv_writer *w, const struct akv_page_rec *p, struct akv_err *err)
{
    for (size_t i = 0; i < w->n_held; i++) {
        const struct held *h = w->held[i];
        if (outgrown_by(p, &h->rec))
            return 1;
        if (!akv_key_eq(&h->rec.key, &p->key))
            continue;
        if (memcmp(h->rec.raw_sha, p->raw_sha, sizeof p->raw_sha))
            return akv_fail(err, AKV_E_INPUT, "page %lu: exactness is broken: the same token ids came before with other KV bytes",
                            (unsigned long)p->index);
        return 1;
    }
    return 0;
}

static int offer_page(struct akv_writer *w, const struct akv_page_rec *p, struct akv_err *err)
{
    int rc = akv_page_rec_check(&w->head.geom, p, err);
    if (rc < 0)
        return rc;
    drop_outgrown(w, p); /* also when it is known itself: the tail that it outgrows must not be written behind it */
    rc = akv_known_same(&w->known, p, err);
    if (rc == 0)
        rc = is_held(w, p, err);
    if (rc != 0)
        return rc < 0 ? rc : 0;
    const struct akv_known_page *parent = p->has_parent ? akv_known_find(&w->known, &p->parent) : NULL;
    if (p->has_parent && !parent)
        return akv_fail(err, AKV_E_USAGE, "page %lu: its parent has not been written", (unsigned long)p->index);
    if (parent && parent->n_tokens && (parent->n_tokens != AKV_PAGE_TOKENS || parent->index + 1 != p->index))
        return akv_fail(err, AKV_E_USAGE, "page %lu: its parent is not the full page before it", (unsigned long)p->index);
    return p->n_tokens < AKV_PAGE_TOKENS ? hold(w, p, err) : emit_page(w, p, err);
}

/* After a failure the stream has a hole: nothing more may be written to it. */
static int note(struct akv_writer *w, int rc, struct akv_err *err)
{
    if (rc < 0 && !w->failed) {
        w->failed = rc;
        if (rc != AKV_E_IO) /* a failed write says where */
            akv_err_prefix(err, "%s", w->name);
    }
    return rc;
}

static int usable(const struct akv_writer *w, struct akv_err *err)
{
    return w->failed ? akv_fail(err, w->failed, "%s: an earlier write to this stream failed", w->name) : 0;
}

int akv_writer_page(struct akv_writer *w, const struct akv_page_rec *p, struct akv_err *err)
{
    int rc = usable(w, err);
    return rc < 0 ? rc : note(w, offer_page(w, p, err), err);
}

int akv_writer_exclude(struct akv_writer *w, const struct akv_key *key, struct akv_err *err)
{
    return akv_known_find(&w->known, key) ? 0 : akv_known_add(&w->known, key, NULL, false, err);
}

bool akv_writer_has(const struct akv_writer *w, const struct akv_key *key)
{
    for (size_t i = 0; i < w->n_held; i++)
        if (akv_key_eq(&w->held[i]->rec.key, key))
            return true;
    return akv_known_find(&w->known, key) != NULL;
}

int akv_writer_request(struct akv_writer *w, const char *json, size_t len, struct akv_err *err)
{
    int rc = usable(w, err);
    if (rc < 0)
        return rc;
    rc = flush_held(w, err);
    if (rc == 0)
        rc = begin_section(w, err);
    if (rc == 0)
        rc = akv_request_put(&w->header, json, len, err);
    if (rc == 0)
        rc = write_header(w, err);
    return note(w, rc, err);
}

int akv_writer_close(struct akv_writer *w, uint64_t *bytes_written, struct akv_err *err)
{
    int rc = usable(w, err);
    if (rc == 0) {
        rc = flush_held(w, err);
        if (rc == 0)
            rc = begin_section(w, err);
        if (rc == 0)
            rc = end_section(w, err);
        rc = note(w, rc, err);
    }
    if (bytes_written)
        *bytes_written = w->bytes;
    akv_writer_abort(w);
    return rc;
}
