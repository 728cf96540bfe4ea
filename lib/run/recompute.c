/* Computing stored pages again, each from its stored predecessors, and comparing the bits. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "run/session.h"
#include "store/census.h"
#include "store/chain.h"

struct recomputing {
    struct akv_session *session;
    const struct akv_store_work *work;
    struct akv_census census;
    uint32_t *candidates; /* entries of this root, by name */
    uint32_t *picked;     /* of them, by index */
    uint32_t *cause;      /* of each entry: the wrong page that it is or is built on, or AKV_CENSUS_NONE */
    size_t n, n_picked;
    struct akv_object object;
    uint8_t *body;
    struct akv_recomputed *done;
};

static int by_name(const void *a, const void *b, void *ctx)
{
    const struct akv_census *c = ctx;
    return memcmp(c->list[*(const uint32_t *)a].name.b, c->list[*(const uint32_t *)b].name.b, AKV_SHA_BYTES);
}

static int find_candidates(struct recomputing *r, struct akv_err *err)
{
    struct akv_census *c = &r->census;
    uint64_t root = akv_root_tag(&r->session->head.root);
    int rc = akv_census_take(c, r->session->store, r->work->n_threads, r->work->cancel, err);
    if (rc < 0)
        return rc;
    r->candidates = akv_alloc(c->n, sizeof *r->candidates, err);
    r->cause = akv_alloc(c->n, sizeof *r->cause, err);
    if (!r->candidates || !r->cause)
        return AKV_E_IO;
    for (uint32_t i = 0; i < c->n; i++) {
        r->cause[i] = AKV_CENSUS_NONE;
        if (!c->list[i].gone && !c->list[i].unread && c->list[i].root == root)
            r->candidates[r->n++] = i;
    }
    if (r->n)
        qsort_r(r->candidates, r->n, sizeof *r->candidates, by_name, c);
    r->done->pages = r->n;
    return 0;
}

/* First pages first: what is built on a wrong one is wrong for its sake, and leaves with it. */
static int by_index(const void *a, const void *b, void *ctx)
{
    const struct akv_census *c = ctx;
    const struct akv_census_entry *x = &c->list[*(const uint32_t *)a], *y = &c->list[*(const uint32_t *)b];
    return x->index != y->index ? (x->index < y->index ? -1 : 1) : memcmp(x->name.b, y->name.b, sizeof x->name.b);
}

/* `most` of the candidates, from a place that is another one each time, so that all pages have their turn. */
static int pick(struct recomputing *r, uint64_t most, struct akv_err *err)
{
    uint64_t random = 0;
    r->n_picked = r->n > most ? (size_t)most : r->n;
    r->picked = akv_alloc(r->n_picked, sizeof *r->picked, err);
    if (!r->picked)
        return AKV_E_IO;
    if (r->n > most && getrandom(&random, sizeof random, 0) < 0)
        random = 0;
    for (size_t i = 0; i < r->n_picked; i++)
        r->picked[i] = r->candidates[(random % r->n + i) % r->n];
    if (r->n_picked)
        qsort_r(r->picked, r->n_picked, sizeof *r->picked, by_index, &r->census);
    return 0;
}

/* A page of the chain that comes before the one in question, from the store into the sequence. */
static int attach(struct recomputing *r, const struct akv_link *link, struct akv_err *err)
{
    struct akv_session *s = r->session;
    struct akv_object_name path;
    struct akv_page *page;
    int rc = akv_object_name(&path, &s->head.root, &link->key, err);
    if (rc == 0)
        rc = akv_object_read(s->store, &r->object, &path, &s->head, false, err);
    if (rc == 0)
        rc = akv_fail(err, AKV_E_NO, "%s: it went away", path.s);
    if (rc < 0)
        return rc;
    rc = akv_pages_admit(s, akv_reader_page(r->object.reader), &page, err);
    return rc < 0 ? rc : akv_seq_attach(&s->seq, page, err);
}

static int compute(struct akv_session *s, const uint32_t *ids, uint32_t n, struct akv_err *err)
{
    uint32_t most = akv_engine_max_rows(s->engine);
    int rc = 0;
    for (uint32_t at = 0; rc == 0 && at < n;) {
        struct akv_row rows[AKV_PAGE_TOKENS];
        uint32_t k = n - at < most ? n - at : most, from = s->seq.n_tokens;
        for (uint32_t i = 0; i < k; i++)
            rows[i] = (struct akv_row){.seq = &s->seq, .id = ids[at + i], .pos = from + i};
        rc = akv_seq_reserve(&s->seq, k, err);
        if (rc == 0)
            rc = akv_engine_step(s->engine, rows, k, err);
        at += k;
    }
    return rc;
}

/* 1: the same bits; 0: others. chain[n] ends with the page in question, ids are that page's. */
static int same_bits(struct recomputing *r, const struct akv_link *chain, size_t n, const uint32_t *ids, struct akv_err *err)
{
    struct akv_session *s = r->session;
    const struct akv_link *last = &chain[n - 1];
    bool same = false;
    int rc = akv_compute_begin(s, err);
    for (size_t i = 0; rc == 0 && i + 1 < n; i++)
        rc = attach(r, &chain[i], err);
    if (rc == 0)
        rc = compute(s, ids, last->n_tokens, err);
    if (rc == 0) {
        uint8_t sha[AKV_SHA_BYTES];
        akv_page_to_body(&s->geom, r->body, s->seq.pages[n - 1]->kv, last->n_tokens);
        rc = akv_sha256(sha, r->body, last->n_tokens * akv_geom_token_bytes(&s->geom), err);
        same = rc == 0 && !memcmp(sha, last->raw_sha, sizeof sha);
    }
    akv_compute_end(s);
    return rc < 0 ? rc : same;
}

static int condemn(struct recomputing *r, uint32_t entry, const struct akv_link *link, const char *path, struct akv_err *err)
{
    static const char why[] = "computing the page again gives other KV bytes";
    struct akv_session *s = r->session;
    r->done->wrong++;
    akv_store_tell(r->work, "wrong", path, why);
    int rc = akv_store_condemn(s->store, &s->head.root, &link->key, link->raw_sha, why, err);
    if (rc != 0) /* else another process has replaced it, and has dealt with the others */
        r->cause[entry] = entry;
    return rc;
}

/* One page. What went away, or to quarantine with one that it was built on, counts as not looked at. */
static int recompute_page(struct recomputing *r, uint32_t entry, struct akv_err *err)
{
    struct akv_session *s = r->session;
    struct akv_object_name path;
    struct akv_link *chain;
    struct akv_key key;
    uint32_t ids[AKV_PAGE_TOKENS];
    size_t n;
    path = akv_object_path(&r->census.list[entry].name);
    if (akv_object_read(s->store, &r->object, &path, &s->head, true, NULL) != 1)
        return 0;
    const struct akv_page_rec *page = akv_reader_page(r->object.reader);
    key = page->key;
    memcpy(ids, page->ids, page->n_tokens * sizeof *ids);
    if (akv_chain_trace(s->store, &s->head.root, &key, AKV_E_NO, &chain, &n, NULL) < 0)
        return 0;
    int rc = 1;
    if ((n - 1) * AKV_PAGE_TOKENS + chain[n - 1].n_tokens > s->opts.n_ctx)
        r->done->too_long++;
    else if ((rc = same_bits(r, chain, n, ids, err)) >= 0)
        r->done->checked++;
    if (rc == 0)
        rc = condemn(r, entry, &chain[n - 1], path.s, err);
    free(chain);
    return rc < 0 ? rc : 0;
}

/* ---- what was lost with the wrong pages ---- */

static void tell_dependents(struct recomputing *r)
{
    struct akv_census *c = &r->census;
    qsort_r(r->candidates, r->n, sizeof *r->candidates, by_index, c); /* what a page is built on stands before it */
    for (size_t i = 0; i < r->n; i++) {
        uint32_t at = r->candidates[i], up = c->list[at].up;
        struct akv_object_name path;
        char why[128];
        if (r->cause[at] != AKV_CENSUS_NONE || up == AKV_CENSUS_NONE || r->cause[up] == AKV_CENSUS_NONE)
            continue;
        r->cause[at] = r->cause[up];
        r->done->depends++;
        path = akv_object_path(&c->list[r->cause[at]].name);
        snprintf(why, sizeof why, "built on %s", path.s);
        path = akv_object_path(&c->list[at].name);
        akv_store_tell(r->work, "depends", path.s, why);
    }
}

/* One that cannot be read is the matter of akv_store_verify(). */
static void pass_over(void *ctx, const char *name, const struct akv_err *why)
{
    (void)ctx;
    (void)name;
    (void)why;
}

static int tell_pin(struct recomputing *r, const struct akv_ref *ref, struct akv_err *err)
{
    struct akv_key name;
    struct akv_object_name path;
    char why[128];
    int rc = akv_index_key(&name, ref->root.b, sizeof ref->root.b, &ref->tip, err);
    uint32_t tip = rc < 0 ? AKV_CENSUS_NONE : akv_census_find(&r->census, &name);
    if (tip == AKV_CENSUS_NONE || r->cause[tip] == AKV_CENSUS_NONE)
        return rc;
    r->done->broken_pins++;
    path = akv_object_path(&r->census.list[r->cause[tip]].name);
    snprintf(why, sizeof why, "its page %s is wrong", path.s);
    akv_store_tell(r->work, "pin", ref->name, why);
    return 0;
}

static int tell_lost(struct recomputing *r, struct akv_err *err)
{
    struct akv_ref *refs = NULL;
    size_t n = 0;
    tell_dependents(r);
    int rc = akv_store_refs_but(r->session->store, &refs, &n, pass_over, NULL, err);
    for (size_t i = 0; i < n; i++) {
        rc = rc < 0 ? rc : tell_pin(r, &refs[i], err);
        akv_ref_release(&refs[i]);
    }
    free(refs);
    return rc;
}

int akv_session_recompute(struct akv_session *s, uint64_t most, const struct akv_store_work *w, struct akv_recomputed *done,
                          struct akv_err *err)
{
    struct recomputing r = {.session = s, .work = w, .done = done};
    *done = (struct akv_recomputed){0};
    akv_object_init(&r.object);
    int rc = akv_session_need_store(s, err);
    if (rc == 0 && !s->store)
        rc = akv_fail(err, AKV_E_USAGE, "computing pages again needs a store");
    if (rc == 0)
        rc = akv_session_need_engine(s, err);
    if (rc == 0)
        rc = find_candidates(&r, err);
    if (rc == 0)
        rc = pick(&r, most, err);
    if (rc == 0 && !(r.body = akv_alloc(akv_geom_page_bytes(&s->geom), 1, err)))
        rc = AKV_E_IO;
    for (size_t i = 0; rc == 0 && i < r.n_picked; i++) {
        if (akv_session_cancelled(s))
            rc = akv_fail(err, AKV_E_CANCEL, "interrupted");
        else
            rc = recompute_page(&r, r.picked[i], err);
    }
    if (done->wrong) { /* also when it ended early: they are gone */
        int told = tell_lost(&r, rc < 0 ? NULL : err);
        rc = rc < 0 ? rc : told;
    }
    if (rc == 0 && done->wrong)
        rc = akv_fail(err, AKV_E_NO, "exactness was broken: of %llu pages computed again %llu have other KV bytes",
                      (unsigned long long)done->checked, (unsigned long long)done->wrong);
    akv_object_release(&r.object);
    akv_census_release(&r.census);
    free(r.candidates);
    free(r.picked);
    free(r.cause);
    free(r.body);
    return rc;
}

int akv_session_check_weights(struct akv_session *s, struct akv_err *err)
{
    return akv_model_recheck(s->model, s->pool, s->cache_dir, err);
}
