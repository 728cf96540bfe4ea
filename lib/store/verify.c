/* Checking every object of a store, on all threads; what is damaged leaves it, and what depended on that is named. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/pool.h"
#include "store/census.h"
#include "store/chain.h"

#define WHOLE AKV_CENSUS_NONE      /* the chain is there down to page 0 */
#define OPEN (AKV_CENSUS_NONE - 1) /* a page of it is not there */
#define UNKNOWN (AKV_CENSUS_NONE - 2)

struct flaw {
    struct akv_key name;
    int code; /* 0: it is whole, but built on what is not */
    char *why;
};

struct worker {
    struct akv_object object;
    struct akv_coder coder;
    struct akv_buf body;
};

struct verifying {
    struct akv_store *store;
    const struct akv_store_work *work;
    struct akv_census census;
    struct worker *workers; /* one a thread */
    pthread_mutex_t lock;   /* of flaws */
    struct flaw *flaws;
    size_t n_flaws, cap_flaws;
    bool no_memory;
    uint32_t *cause; /* of each entry: the damaged page that it is built on, or WHOLE, OPEN */
};

/* ---- one object ---- */

static void note_flaw(struct verifying *v, uint32_t entry, int code, const char *why)
{
    pthread_mutex_lock(&v->lock);
    if (v->n_flaws == v->cap_flaws) {
        size_t cap = v->cap_flaws ? 2 * v->cap_flaws : 16;
        struct flaw *list = akv_realloc(v->flaws, cap, sizeof *list, NULL);
        v->no_memory = v->no_memory || !list;
        v->flaws = list ? list : v->flaws;
        v->cap_flaws = list ? cap : v->cap_flaws;
    }
    if (v->n_flaws < v->cap_flaws) {
        struct flaw *f = &v->flaws[v->n_flaws++];
        *f = (struct flaw){.name = v->census.list[entry].name, .code = code, .why = akv_strndup(why, strlen(why), NULL)};
        v->no_memory = v->no_memory || !f->why;
    }
    pthread_mutex_unlock(&v->lock);
}

static int check_bytes(struct verifying *v, struct worker *w, struct akv_census_entry *e, const struct akv_object_name *path,
                       struct akv_err *err)
{
    int rc = akv_object_read(v->store, &w->object, path, NULL, false, err);
    if (rc <= 0)
        return rc;
    if (!akv_census_fill(e, &w->object))
        return akv_fail(err, AKV_E_INPUT, AKV_OBJECT_FMT ": forged or renamed: it holds another page", v->store->dir, path->s);
    rc = akv_page_check(&w->coder, &akv_reader_head(w->object.reader)->geom, akv_reader_page(w->object.reader), &w->body, err);
    akv_err_prefix(err, AKV_OBJECT_FMT, v->store->dir, path->s);
    return rc < 0 ? rc : 1;
}

static void check_object(void *ctx, size_t task, unsigned thread)
{
    struct verifying *v = ctx;
    struct akv_census_entry *e = &v->census.list[task];
    struct worker *w = &v->workers[thread];
    struct akv_object_name path;
    struct akv_err why = {0};
    if (v->work->cancel && *v->work->cancel)
        return;
    path = akv_object_path(&e->name);
    int rc = check_bytes(v, w, e, &path, &why);
    e->gone = rc == 0;
    e->unread = rc < 0;
    if (rc < 0)
        note_flaw(v, (uint32_t)task, rc, why.msg);
    if (rc == AKV_E_INPUT)
        v->store->ops->set_aside(v->store, &path, &w->object.info, why.msg);
    akv_object_forget(&w->object);
}

static int check_objects(struct verifying *v, struct akv_err *err)
{
    unsigned n = v->work->n_threads ? v->work->n_threads : 1;
    struct akv_pool *pool;
    int rc = akv_pool_open(&pool, n, err);
    if (rc < 0)
        return rc;
    v->workers = akv_alloc(n, sizeof *v->workers, err);
    if (!v->workers) {
        akv_pool_close(pool);
        return AKV_E_IO;
    }
    for (unsigned i = 0; i < n; i++) {
        akv_object_init(&v->workers[i].object);
        akv_buf_init(&v->workers[i].body, 0);
    }
    akv_pool_run(pool, check_object, v, v->census.n);
    for (unsigned i = 0; i < n; i++) {
        akv_object_release(&v->workers[i].object);
        akv_coder_release(&v->workers[i].coder);
        akv_buf_release(&v->workers[i].body);
    }
    free(v->workers);
    akv_pool_close(pool);
    if (v->work->cancel && *v->work->cancel)
        return akv_fail(err, AKV_E_CANCEL, "interrupted");
    return v->no_memory ? akv_fail(err, AKV_E_IO, "out of memory") : 0;
}

/* ---- chains ---- */

/* The object of an entry that is still what was read of it. */
static void set_aside(struct akv_store *s, const struct akv_census_entry *e, const struct akv_object_name *path, const char *why)
{
    if (akv_object_read(s, &s->object, path, NULL, true, NULL) == 1 && akv_reader_page(s->object.reader)->index == e->index)
        s->ops->set_aside(s, path, &s->object.info, why);
    akv_object_forget(&s->object);
}

/* A page whose parent is not the full page before it: its record was forged, for its key does not cover the index. */
static void check_links(struct verifying *v)
{
    struct akv_census *c = &v->census;
    for (uint32_t i = 0; i < c->n; i++) {
        struct akv_census_entry *e = &c->list[i];
        const struct akv_census_entry *up = e->up == AKV_CENSUS_NONE ? NULL : &c->list[e->up];
        struct akv_object_name path;
        char why[128];
        if (!up || up->unread || (up->n_tokens == AKV_PAGE_TOKENS && up->index + 1 == e->index))
            continue;
        snprintf(why, sizeof why, "page %u follows page %u with %u tokens", e->index, up->index, up->n_tokens);
        path = akv_object_path(&e->name);
        note_flaw(v, i, AKV_E_INPUT, why);
        set_aside(v->store, e, &path, why);
        e->unread = true;
    }
}

/* What an entry's chain ends in, each entry being looked at twice at most. */
static uint32_t find_cause(struct verifying *v, uint32_t entry)
{
    const struct akv_census *c = &v->census;
    uint32_t found, at = entry;
    for (found = v->cause[at]; found == UNKNOWN; found = v->cause[at]) {
        const struct akv_census_entry *e = &c->list[at];
        if (e->unread)
            v->cause[at] = at;
        else if (!e->has_parent)
            v->cause[at] = WHOLE;
        else if (e->up == AKV_CENSUS_NONE)
            v->cause[at] = OPEN;
        else
            at = e->up;
    }
    for (at = entry; v->cause[at] == UNKNOWN; at = c->list[at].up)
        v->cause[at] = found;
    return found;
}

/* The pages that cannot be reached any more because of what was found. */
static int find_dependents(struct verifying *v, struct akv_verified *done, struct akv_err *err)
{
    struct akv_census *c = &v->census;
    v->cause = akv_alloc(c->n, sizeof *v->cause, err);
    if (!v->cause)
        return AKV_E_IO;
    for (size_t i = 0; i < c->n; i++)
        v->cause[i] = UNKNOWN;
    for (uint32_t i = 0; i < c->n; i++) {
        uint32_t cause = c->list[i].gone ? WHOLE : find_cause(v, i);
        struct akv_object_name path;
        char why[128];
        done->open += cause == OPEN;
        if (cause == WHOLE || cause == OPEN || cause == i)
            continue;
        path = akv_object_path(&c->list[cause].name);
        snprintf(why, sizeof why, "built on %s", path.s);
        note_flaw(v, i, 0, why);
    }
    return v->no_memory ? akv_fail(err, AKV_E_IO, "out of memory") : 0;
}

/* ---- telling ---- */

void akv_store_tell(const struct akv_store_work *w, const char *kind, const char *what, const char *why)
{
    const struct akv_flaw f = {.kind = kind, .what = what, .why = why};
    if (w->flaw)
        w->flaw(w->ctx, &f);
}

static int by_kind(const void *a, const void *b)
{
    const struct flaw *x = a, *y = b;
    if (!x->code != !y->code)
        return !x->code ? 1 : -1;
    return memcmp(x->name.b, y->name.b, sizeof x->name.b);
}

static void tell_flaws(struct verifying *v, struct akv_verified *done)
{
    if (v->n_flaws)
        qsort(v->flaws, v->n_flaws, sizeof *v->flaws, by_kind);
    for (size_t i = 0; i < v->n_flaws; i++) {
        const struct flaw *f = &v->flaws[i];
        struct akv_object_name path;
        uint64_t *count = !f->code ? &done->depends : f->code == AKV_E_INPUT ? &done->damaged : &done->unreadable;
        (*count)++;
        path = akv_object_path(&f->name);
        akv_store_tell(v->work, !f->code ? "depends" : f->code == AKV_E_INPUT ? "damaged" : "unreadable", path.s, f->why);
    }
}

struct telling {
    struct verifying *v;
    struct akv_verified *done;
};

static void tell_blocked(void *ctx, const char *place, const char *why)
{
    struct telling *t = ctx;
    t->done->unreadable++;
    akv_store_tell(t->v->work, "unreadable", place, why);
}

/* ---- pins ---- */

static void bad_ref(void *ctx, const char *name, const struct akv_err *why)
{
    struct telling *t = ctx;
    t->done->pins++;
    t->done->broken_pins++;
    akv_store_tell(t->v->work, "pin", name, why->msg);
}

/* What the census knows is worth more than a look at headers: an object that is wrong may not have been moved. */
static int check_pin(struct verifying *v, const struct akv_ref *ref, struct akv_err *err)
{
    struct akv_key name;
    struct akv_object_name path;
    struct akv_link *links;
    size_t n;
    int rc = akv_index_key(&name, ref->root.b, sizeof ref->root.b, &ref->tip, err);
    if (rc < 0)
        return rc;
    uint32_t tip = akv_census_find(&v->census, &name), cause = tip == AKV_CENSUS_NONE ? OPEN : v->cause[tip];
    if (cause < UNKNOWN) {
        path = akv_object_path(&v->census.list[cause].name);
        return akv_fail(err, AKV_E_INPUT, "its page %s is damaged", path.s);
    }
    rc = akv_chain_of(v->store, ref, &links, &n, err);
    free(links);
    return rc;
}

static int check_pins(struct verifying *v, struct akv_verified *done, struct akv_err *err)
{
    struct akv_ref *refs;
    size_t n;
    struct telling bad = {v, done};
    int rc = akv_store_refs_but(v->store, &refs, &n, bad_ref, &bad, err);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < n; i++) {
        struct akv_err why = {0};
        done->pins++;
        if (check_pin(v, &refs[i], &why) < 0) {
            done->broken_pins++;
            akv_store_tell(v->work, "pin", refs[i].name, why.msg);
        }
        akv_ref_release(&refs[i]);
    }
    free(refs);
    return 0;
}

static void count(const struct verifying *v, struct akv_verified *done)
{
    for (size_t i = 0; i < v->census.n; i++) {
        done->objects += !v->census.list[i].gone;
        done->bytes += v->census.list[i].gone ? 0 : v->census.list[i].bytes;
    }
}

int akv_store_verify(struct akv_store *s, const struct akv_store_work *w, struct akv_verified *done, struct akv_err *err)
{
    struct verifying v = {.store = s, .work = w, .lock = PTHREAD_MUTEX_INITIALIZER};
    *done = (struct akv_verified){0};
    int rc = akv_census_names(&v.census, s, err);
    if (rc == 0)
        rc = check_objects(&v, err);
    if (rc < 0)
        goto out;
    akv_census_link(&v.census);
    check_links(&v);
    count(&v, done);
    rc = find_dependents(&v, done, err);
    if (rc < 0)
        goto out;
    tell_flaws(&v, done);
    s->ops->blocked(s, tell_blocked, &(struct telling){&v, done});
    rc = check_pins(&v, done, err);
    if (rc == 0 && (done->damaged || done->unreadable || done->broken_pins))
        rc = akv_fail(err, AKV_E_NO, "%s: %llu of %llu objects are damaged, %llu cannot be read; %llu of %llu pins are broken",
                      s->dir, (unsigned long long)done->damaged, (unsigned long long)done->objects,
                      (unsigned long long)done->unreadable, (unsigned long long)done->broken_pins, (unsigned long long)done->pins);
out:
    for (size_t i = 0; i < v.n_flaws; i++)
        free(v.flaws[i].why);
    free(v.flaws);
    free(v.cause);
    akv_census_release(&v.census);
    return rc;
}
