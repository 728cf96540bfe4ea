#include "run/basis.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

#define FOLLOWED 64 /* pages of a chain that are read on from where a prompt parts from it: as much as an explanation looks at */

int akv_base_pages_add(struct akv_base_pages *p, const struct akv_key *root, const struct akv_page_rec *rec, struct akv_err *err)
{
    if (p->n == p->cap) {
        size_t cap = p->cap * 2 + 64;
        struct akv_base_page *grown = akv_realloc(p->v, cap, sizeof *grown, err);
        if (!grown)
            return AKV_E_IO;
        p->v = grown;
        p->cap = cap;
    }
    struct akv_base_page *page = &p->v[p->n++];
    *page = (struct akv_base_page){.root = *root, .key = rec->key, .n = rec->n_tokens};
    if (rec->has_parent)
        page->parent = rec->parent;
    memcpy(page->ids, rec->ids, rec->n_tokens * sizeof *page->ids);
    return 0;
}

size_t akv_common_ids(const uint32_t *a, size_t n_a, const uint32_t *b, size_t n_b)
{
    size_t n = n_a < n_b ? n_a : n_b, i = 0;
    while (i < n && a[i] == b[i])
        i++;
    return i;
}

int akv_compare_ids(const uint32_t *a, size_t n_a, const uint32_t *b, size_t n_b)
{
    size_t i = akv_common_ids(a, n_a, b, n_b);
    if (i < n_a && i < n_b)
        return a[i] < b[i] ? -1 : 1;
    return (n_a > n_b) - (n_a < n_b);
}

/* By root, parent, then ids. */
static int compare(const struct akv_base_page *a, const struct akv_base_page *b)
{
    int c = memcmp(&a->root, &b->root, sizeof a->root);
    c = c ? c : memcmp(&a->parent, &b->parent, sizeof a->parent);
    return c ? c : akv_compare_ids(a->ids, a->n, b->ids, b->n);
}

static int compare_pages(const void *a, const void *b)
{
    return compare(a, b);
}

void akv_base_pages_sort(struct akv_base_pages *p)
{
    size_t n = 0;
    if (p->n)
        qsort(p->v, p->n, sizeof *p->v, compare_pages);
    for (size_t i = 0; i < p->n; i++)
        if (!n || compare(&p->v[n - 1], &p->v[i]))
            p->v[n++] = p->v[i];
    p->n = n;
}

/* The first page that is not before `what`. */
static size_t lower_bound(const struct akv_base_pages *p, const struct akv_base_page *what)
{
    size_t lo = 0, hi = p->n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (compare(&p->v[mid], what) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static bool same_parent(const struct akv_base_page *a, const struct akv_base_page *b)
{
    return akv_key_eq(&a->root, &b->root) && akv_key_eq(&a->parent, &b->parent);
}

/* The child whose ids are most like those wanted, or NULL when none begins with even the first. */
static const struct akv_base_page *nearest_child(const struct akv_base_pages *p, const struct akv_base_page *want, size_t *common)
{
    const struct akv_base_page *best = NULL;
    size_t at = lower_bound(p, want);
    *common = 0;
    for (size_t i = at ? at - 1 : 0; i <= at && i < p->n; i++) {
        size_t c = same_parent(&p->v[i], want) ? akv_common_ids(p->v[i].ids, p->v[i].n, want->ids, want->n) : 0;
        if (c > *common) {
            best = &p->v[i];
            *common = c;
        }
    }
    if (best && best->n == *common && best->n < AKV_PAGE_TOKENS && best + 1 < p->v + p->n && same_parent(best + 1, want) &&
        akv_common_ids(best[1].ids, best[1].n, want->ids, want->n) == *common)
        best++; /* one that ends here is no news if another goes on */
    return best;
}

/* Where the chain under one root that is nearest to ids leaves them. */
struct leave {
    const struct akv_base_page *page; /* the last one that has an equal token; NULL: none */
    size_t from, common;              /* where that page begins, tokens that are equal in all */
};

static struct leave walk(const struct akv_base_pages *p, const struct akv_key *root, const uint32_t *ids, size_t n)
{
    struct leave l = {0};
    struct akv_base_page want = {.root = *root};
    for (size_t at = 0; at < n; at += AKV_PAGE_TOKENS) {
        size_t common;
        want.n = (uint32_t)(n - at < AKV_PAGE_TOKENS ? n - at : AKV_PAGE_TOKENS);
        memcpy(want.ids, ids + at, want.n * sizeof *ids);
        const struct akv_base_page *page = nearest_child(p, &want, &common);
        if (!page)
            break;
        l = (struct leave){page, at, at + common};
        if (common < AKV_PAGE_TOKENS)
            break;
        want.parent = page->key;
    }
    return l;
}

/* A record of ids (taken over). */
static int make_record(struct akv_record *out, const char *id, uint32_t *ids, size_t n, struct akv_err *err)
{
    json_t *fields = json_pack("{s:s, s:s}", "akv", "tokens/1", "id", id);
    if (!fields) {
        free(ids);
        return akv_fail(err, AKV_E_IO, "out of memory for a chain");
    }
    int rc = akv_record_make(out, fields, ids, n, err);
    json_decref(fields);
    return rc;
}

/* The prompt up to where its page leaves it, that page, and some of what follows there. */
static int follow(const struct akv_base_pages *p, const struct leave *l, const uint32_t *ids, struct akv_record *out,
                  struct akv_err *err)
{
    uint32_t *v = akv_alloc(l->from + (FOLLOWED + 1) * AKV_PAGE_TOKENS, sizeof *v, err);
    const struct akv_base_page *page = l->page;
    size_t n = l->from;
    if (!v)
        return AKV_E_IO;
    memcpy(v, ids, n * sizeof *v);
    for (size_t i = 0;; i++) {
        memcpy(v + n, page->ids, page->n * sizeof *v);
        n += page->n;
        struct akv_base_page want = {.root = page->root, .parent = page->key};
        size_t child = lower_bound(p, &want);
        if (i == FOLLOWED || page->n < AKV_PAGE_TOKENS || child == p->n || !same_parent(&p->v[child], &want))
            break;
        page = &p->v[child];
    }
    char hex[AKV_SHA_HEX], id[32];
    akv_hex(hex, &page->key, sizeof page->key);
    snprintf(id, sizeof id, "chain %.16s", hex);
    return make_record(out, id, v, n, err);
}

int akv_base_pages_nearest(const struct akv_base_pages *p, const uint32_t *ids, size_t n, struct akv_record *out, size_t *common,
                           struct akv_err *err)
{
    struct leave best = {0};
    for (size_t i = 0; i < p->n;) {
        struct leave l = walk(p, &p->v[i].root, ids, n);
        if (l.common > best.common)
            best = l;
        struct akv_base_page next = {.root = p->v[i].root, .parent = p->v[i].parent}; /* to the next root */
        memset(&next.parent, 0xff, sizeof next.parent);
        size_t skip = lower_bound(p, &next);
        i = skip > i ? skip : i + 1;
    }
    *common = best.common;
    if (!best.page)
        return 0;
    int rc = follow(p, &best, ids, out, err);
    return rc < 0 ? rc : 1;
}

static int by_key(const void *a, const void *b)
{
    return memcmp(&(*(const struct akv_base_page *const *)a)->key, &(*(const struct akv_base_page *const *)b)->key,
                  sizeof(struct akv_key));
}

int akv_base_pages_index(struct akv_base_pages *p, struct akv_err *err)
{
    p->index = akv_alloc(p->n, sizeof *p->index, err);
    if (!p->index)
        return AKV_E_IO;
    for (size_t i = 0; i < p->n; i++)
        p->index[i] = &p->v[i];
    if (p->n)
        qsort(p->index, p->n, sizeof *p->index, by_key);
    return 0;
}

static const struct akv_base_page *find_page(const struct akv_base_pages *p, const struct akv_key *key)
{
    struct akv_base_page want = {.key = *key};
    const struct akv_base_page *w = &want, **hit = bsearch(&w, p->index, p->n, sizeof *p->index, by_key);
    return hit ? *hit : NULL;
}

static const struct akv_base_page *parent_of(const struct akv_base_pages *p, const struct akv_base_page *page, bool *first)
{
    static const struct akv_key none;
    *first = akv_key_eq(&page->parent, &none);
    return *first ? NULL : find_page(p, &page->parent);
}

int akv_base_pages_chain(const struct akv_base_pages *p, const struct akv_key *tip, const char *id, size_t most,
                         struct akv_record *out, struct akv_err *err)
{
    const struct akv_base_page *page = find_page(p, tip);
    bool first = false;
    size_t n = 0;
    for (const struct akv_base_page *up = page; up && n <= most; up = parent_of(p, up, &first))
        n += up->n;
    if (n > most)
        return akv_fail(err, AKV_E_INPUT, "%s: too many chains to compare with", id);
    if (!first)
        return akv_fail(err, AKV_E_INPUT, "%s: a page of the chain is not there", id);
    uint32_t *ids = akv_alloc(n, sizeof *ids, err);
    if (!ids)
        return AKV_E_IO;
    for (size_t at = n; page; page = parent_of(p, page, &first)) {
        at -= page->n;
        memcpy(ids + at, page->ids, page->n * sizeof *ids);
    }
    return make_record(out, id, ids, n, err);
}

void akv_base_pages_release(struct akv_base_pages *p)
{
    free(p->index);
    free(p->v);
    *p = (struct akv_base_pages){0};
}
