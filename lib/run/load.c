/* Pages from the store into the arena: read, verified and decoded where they belong, by all threads. */
#include <stdlib.h>

#include "run/session.h"
#include "store/objects.h"

/* Most pages in hand. When their coded bytes go to an output too, they are all kept until they have: then fewer. */
#define LOADS 64u
#define LOADS_WITH_OUTPUT 4u /* a thread */

/* A page of the prompt: in the arena already, or being loaded into a page that nobody else sees yet. */
struct load {
    struct akv_place place;
    struct akv_page *page; /* owned once by this list */
    bool found, loaded;
    struct akv_page_rec rec; /* when loaded; its coded bytes only when there is an output */
    struct akv_err why;
};

struct loading {
    struct akv_session *s;
    struct load *list; /* [cap] */
    size_t n, cap;
    struct akv_key tail;        /* the key of the last one listed when that is a tail */
    struct akv_object *objects; /* one a thread, or one a page */
    size_t n_objects;
    struct akv_err why; /* no page to load into */
};

/* Threads work far from each other: two that touch one huge page of new memory at the same time would both clear one for it. */
static size_t spread(const struct loading *l, size_t task)
{
    size_t threads = akv_pool_threads(l->s->pool), each = l->n / threads, odd = l->n % threads, t = task % threads;
    return t * each + (t < odd ? t : odd) + task / threads;
}

static void load_one(void *ctx, size_t task, unsigned thread)
{
    struct loading *l = ctx;
    const size_t at = spread(l, task);
    struct load *one = &l->list[at];
    struct akv_session *s = l->s;
    const struct akv_place *p = &one->place;
    if (one->found)
        return;
    struct akv_object *o = &l->objects[s->writer ? at : thread];
    struct akv_page_rec want = {
        .key = *p->key, .has_parent = p->parent != NULL, .index = p->index, .n_tokens = p->n, .ids = p->ids};
    if (p->parent)
        want.parent = *p->parent;
    one->loaded = !s->writer && akv_store_load(s->store, o, &s->coders[thread], &s->head, &want, &one->rec, one->page->kv);
    if (one->loaded)
        return;
    if (akv_store_read(s->store, o, &s->head, p->key, p->parent, p->index, p->ids, p->n, &one->rec, &one->why) != 1)
        return;
    if (akv_page_decode(&s->coders[thread], &s->geom, &one->rec, one->page->kv, &one->why) < 0) {
        akv_store_reject(s->store, o, &s->head, p->key, &one->why);
        return;
    }
    one->rec.ids = p->ids; /* the same ids, and they stay */
    akv_store_touch(s->store, &s->head, p->key);
    one->loaded = true;
}

/* Add the page if it may be had. false: the chain ends here. */
static bool add(struct loading *l, const struct akv_place *place)
{
    struct akv_session *s = l->s;
    struct load *one = &l->list[l->n];
    struct akv_page *page = akv_arena_find(s->arena, place->key, place->ids, place->n);
    bool found = page != NULL;
    if (found)
        akv_arena_share(page);
    else if (!s->store || !akv_store_ahead(s->store, &s->head, place->key) || !(page = akv_arena_take(s->arena, &l->why)))
        return false;
    *one = (struct load){.place = *place, .page = page, .found = found};
    l->n++;
    return true;
}

/* List the longest tail of ids[at..n) that may be had. */
static int gather_tail(struct loading *l, const uint32_t *ids, uint32_t n, uint32_t at, struct akv_err *err)
{
    const uint32_t i = at / AKV_PAGE_TOKENS;
    const struct akv_key *parent = i ? &l->s->keys[i - 1] : NULL;
    for (uint32_t len = n - at < AKV_PAGE_TOKENS ? n - at : AKV_PAGE_TOKENS - 1; len && !l->why.code; len--) {
        int rc = akv_page_key(&l->tail, parent, ids + at, len, err);
        if (rc < 0)
            return rc;
        if (add(l, &(struct akv_place){&l->tail, parent, i, ids + at, len}))
            break;
    }
    return 0;
}

/* List pages from token `at` on. 1: there may be more behind them, 0: the chain ends. */
static int gather(struct loading *l, const uint32_t *ids, uint32_t n, uint32_t at, struct akv_err *err)
{
    struct akv_session *s = l->s;
    for (l->n = 0; l->n < l->cap; at += AKV_PAGE_TOKENS) {
        if (n - at < AKV_PAGE_TOKENS)
            return gather_tail(l, ids, n, at, err);
        uint32_t i = at / AKV_PAGE_TOKENS;
        const struct akv_key *parent = i ? &s->keys[i - 1] : NULL;
        int rc = akv_page_key(&s->keys[i], parent, ids + at, AKV_PAGE_TOKENS, err);
        if (rc < 0)
            return rc;
        s->n_keys = i + 1;
        if (!add(l, &(struct akv_place){&s->keys[i], parent, i, ids + at, AKV_PAGE_TOKENS}))
            return gather_tail(l, ids, n, at, err);
    }
    return 1;
}

/* Attach a page that was found. */
static int attach(struct akv_session *s, struct akv_page *page, struct akv_stats *st, struct akv_err *err)
{
    static const char *const sources[] = {"arena", "stream", "store"};
    int rc = akv_seq_attach(&s->seq, page, err);
    if (rc < 0)
        return rc;
    s->n_restored++;
    st->source = sources[page->origin];
    st->pages++;
    return 0;
}

/* Put one to use. 1; 0: it could not be had, which ends the chain. */
static int use(struct akv_session *s, struct load *one, struct akv_stats *st, struct akv_err *err)
{
    int rc = 0;
    if (!one->found && !one->loaded) {
        akv_miss(s, st, one->place.index, &one->why);
        return 0;
    }
    if (one->loaded) {
        st->bytes_read += one->rec.coded_bytes;
        akv_pages_settle(s, one->page, &one->rec, AKV_FROM_STORE);
        rc = akv_pages_pass(s, &one->rec, AKV_FROM_STORE, st, err);
    }
    if (rc == 0)
        rc = attach(s, one->page, st, err);
    return rc < 0 ? rc : 1;
}

/* 1; 0: the chain ends at one that could not be had, whose tokens are *missed. */
static int load_listed(struct loading *l, uint32_t *missed, struct akv_stats *st, struct akv_err *err)
{
    int rc = 1;
    akv_pool_run(l->s->pool, load_one, l, l->n);
    for (size_t i = 0; i < l->n; i++) {
        if (rc == 1) {
            rc = use(l->s, &l->list[i], st, err);
            *missed = l->list[i].place.n;
        }
        akv_arena_release(l->s->arena, l->list[i].page);
    }
    return rc;
}

static int open_loading(struct loading *l, struct akv_session *s, uint32_t n_pages, struct akv_err *err)
{
    unsigned threads = akv_pool_threads(s->pool);
    size_t most = s->writer ? (size_t)threads * LOADS_WITH_OUTPUT : LOADS;
    *l = (struct loading){.s = s, .cap = n_pages < most ? n_pages : most};
    size_t n = s->writer ? l->cap : threads;
    l->list = akv_alloc(l->cap, sizeof *l->list, err);
    l->objects = akv_alloc(n, sizeof *l->objects, err);
    if (!l->list || !l->objects)
        return AKV_E_IO;
    for (; l->n_objects < n; l->n_objects++)
        akv_object_init(&l->objects[l->n_objects]);
    return 0;
}

int64_t akv_load(struct akv_session *s, const uint32_t *ids, uint32_t n, struct akv_stats *st, struct akv_err *err)
{
    struct loading l;
    uint32_t missed = 0;
    int rc = open_loading(&l, s, n / AKV_PAGE_TOKENS + 1, err), more = 1;
    while (rc >= 0 && more) {
        if (akv_session_cancelled(s)) {
            rc = akv_fail(err, AKV_E_CANCEL, "interrupted");
            break;
        }
        rc = more = gather(&l, ids, n, s->seq.n_tokens, err);
        int used = load_listed(&l, &missed, st, rc < 0 ? NULL : err);
        if (rc >= 0 && used < 0)
            rc = used;
        if (used == 0) { /* there may be a shorter one in its place */
            n = s->seq.n_tokens + missed - 1;
            more = 1;
            l.why = (struct akv_err){0}; /* the memory of what follows it is free again */
        }
    }
    if (rc >= 0)
        akv_miss(s, st, s->seq.n_tokens / AKV_PAGE_TOKENS, &l.why);
    for (size_t i = 0; i < l.n_objects; i++)
        akv_object_release(&l.objects[i]);
    free(l.objects);
    free(l.list);
    return rc < 0 ? rc : (int64_t)s->seq.n_tokens;
}
