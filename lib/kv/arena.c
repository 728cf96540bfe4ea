#include "kv/arena.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/bytes.h"

/* Limits of design.md 4.2: so that no product of counts below can overflow 64 bits. */
#define MAX_LAYERS 1024u
#define MAX_HEADS 1024u
#define MAX_DIM 4096u

#define HUGE_PAGE ((size_t)2 << 20) /* a huge page */

struct akv_arena {
    struct akv_geom geom;
    size_t n_pages, page_bytes, map_bytes;
    uint8_t *map;
    struct akv_page *pages;    /* [n_pages] */
    struct akv_page *unused;   /* neither owned nor findable; linked by lru_next, last freed first: its memory is warm */
    size_t n_owned;            /* pages with n_owners > 0 */
    struct akv_page **buckets; /* [n_buckets], a power of two */
    size_t n_buckets;
    struct akv_page lru; /* ring of findable pages without owner; lru_next is the oldest */
};

static struct akv_page **bucket(struct akv_arena *a, const struct akv_key *key)
{
    return &a->buckets[akv_get_u64(key->b) & (a->n_buckets - 1)];
}

static void lru_remove(struct akv_page *p)
{
    p->lru_prev->lru_next = p->lru_next;
    p->lru_next->lru_prev = p->lru_prev;
    p->lru_prev = p->lru_next = NULL;
}

static void lru_append(struct akv_arena *a, struct akv_page *p)
{
    p->lru_next = &a->lru;
    p->lru_prev = a->lru.lru_prev;
    p->lru_prev->lru_next = p;
    a->lru.lru_prev = p;
}

static void unindex(struct akv_arena *a, struct akv_page *p)
{
    struct akv_page **at = bucket(a, &p->key);
    while (*at != p)
        at = &(*at)->hash_next;
    *at = p->hash_next;
    p->hash_next = NULL;
    p->indexed = false;
}

static void put_unused(struct akv_arena *a, struct akv_page *p)
{
    p->lru_next = a->unused;
    a->unused = p;
}

static int check_geom(const struct akv_geom *g, size_t n_pages, struct akv_err *err)
{
    if (!g->n_layers || !g->n_kv_heads || !g->dim_k || !g->dim_v || g->n_layers > MAX_LAYERS || g->n_kv_heads > MAX_HEADS ||
        g->dim_k > MAX_DIM || g->dim_v > MAX_DIM)
        return akv_fail(err, AKV_E_INPUT, "arena: %u layers x %u heads x (%u + %u): out of range", g->n_layers, g->n_kv_heads,
                        g->dim_k, g->dim_v);
    if (!n_pages || n_pages > SIZE_MAX / 4 / akv_geom_page_bytes(g) || n_pages > UINT32_MAX)
        return akv_fail(err, AKV_E_USAGE, "arena: %zu pages of %zu bytes: out of range", n_pages, akv_geom_page_bytes(g));
    return 0;
}

int akv_arena_open(struct akv_arena **out, const struct akv_geom *g, size_t n_pages, struct akv_err *err)
{
    int rc = check_geom(g, n_pages, err);
    if (rc < 0)
        return rc;
    struct akv_arena *a = akv_alloc(1, sizeof *a, err);
    if (!a)
        return AKV_E_IO;
    a->geom = *g;
    a->n_pages = n_pages;
    a->page_bytes = akv_geom_page_bytes(g); /* a multiple of 64 tokens x 2 bytes, so every page is 64-byte aligned */
    a->n_buckets = 16;
    while (a->n_buckets < 2 * n_pages)
        a->n_buckets *= 2;
    a->lru.lru_prev = a->lru.lru_next = &a->lru;
    a->pages = akv_alloc(n_pages, sizeof *a->pages, err);
    a->buckets = akv_alloc(a->n_buckets, sizeof *a->buckets, err);
    if (!a->pages || !a->buckets)
        goto fail;
    a->map_bytes = n_pages * a->page_bytes + HUGE_PAGE;
    void *map = mmap(NULL, a->map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED) {
        akv_fail_errno(err, "arena: %zu pages of %zu bytes", n_pages, a->page_bytes);
        goto fail;
    }
    a->map = map;
    /* Restoring writes pages faster than small faults come; the advice is not needed to work. Whole huge pages from the first one on. */
    uint8_t *first = a->map + (HUGE_PAGE - (uintptr_t)map % HUGE_PAGE) % HUGE_PAGE;
    (void)madvise(first, n_pages * a->page_bytes, MADV_HUGEPAGE);
    for (size_t i = n_pages; i-- > 0;) {
        a->pages[i].kv = first + i * a->page_bytes;
        put_unused(a, &a->pages[i]);
    }
    *out = a;
    return 0;
fail:
    akv_arena_close(a);
    return AKV_E_IO;
}

void akv_arena_close(struct akv_arena *a)
{
    if (!a)
        return;
    if (a->map)
        munmap(a->map, a->map_bytes);
    free(a->buckets);
    free(a->pages);
    free(a);
}

const struct akv_geom *akv_arena_geom(const struct akv_arena *a)
{
    return &a->geom;
}

size_t akv_arena_free_pages(const struct akv_arena *a)
{
    return a->n_pages - a->n_owned;
}

struct akv_page *akv_arena_take(struct akv_arena *a, struct akv_err *err)
{
    struct akv_page *p = a->unused;
    if (p) {
        a->unused = p->lru_next;
    } else if (a->lru.lru_next != &a->lru) {
        p = a->lru.lru_next;
        lru_remove(p);
        unindex(a, p);
    } else {
        akv_fail(err, AKV_E_IO, "arena: all %zu pages (%zu tokens) are in use", a->n_pages, a->n_pages * AKV_PAGE_TOKENS);
        return NULL;
    }
    uint8_t *kv = p->kv;
    *p = (struct akv_page){.kv = kv, .arena = a, .n_owners = 1};
    a->n_owned++;
    return p;
}

void akv_arena_share(struct akv_page *p)
{
    assert(p->n_owners > 0 || p->indexed);
    if (!p->n_owners++) {
        lru_remove(p);
        p->arena->n_owned++;
    }
}

void akv_arena_release(struct akv_arena *a, struct akv_page *p)
{
    assert(p->n_owners > 0);
    if (--p->n_owners)
        return;
    a->n_owned--;
    if (p->indexed)
        lru_append(a, p);
    else
        put_unused(a, p);
}

static struct akv_page *lookup(struct akv_arena *a, const struct akv_key *key)
{
    struct akv_page *p = *bucket(a, key);
    while (p && !akv_key_eq(&p->key, key))
        p = p->hash_next;
    return p;
}

void akv_arena_seal(struct akv_arena *a, struct akv_page *p, const struct akv_key *key, const struct akv_key *parent)
{
    assert(p->n_owners > 0 && !p->sealed);
    p->sealed = true;
    p->key = *key;
    if (parent)
        p->parent = *parent;
    else
        memset(&p->parent, 0, sizeof p->parent);
    if (lookup(a, key))
        return;
    struct akv_page **at = bucket(a, key);
    p->hash_next = *at;
    *at = p;
    p->indexed = true;
}

struct akv_page *akv_arena_find(struct akv_arena *a, const struct akv_key *key, const uint32_t *ids, size_t n)
{
    struct akv_page *p = lookup(a, key);
    if (!p || p->n_tokens != n || (n && memcmp(p->ids, ids, n * sizeof *ids) != 0))
        return NULL;
    if (!p->n_owners) { /* used now: youngest */
        lru_remove(p);
        lru_append(a, p);
    }
    return p;
}
