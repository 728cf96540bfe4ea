#include "snap/known.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

void akv_known_release(struct akv_known *k)
{
    free(k->pages);
    free(k->slots);
    *k = (struct akv_known){0};
}

/* The slot where the key is, or where it would go. Keys are SHA-256 values: their first bytes spread by themselves. */
static size_t slot_of(const struct akv_known *k, const struct akv_key *key)
{
    size_t i = (size_t)akv_get_u64(key->b) & (k->n_slots - 1);
    while (k->slots[i] && !akv_key_eq(&k->pages[k->slots[i] - 1].key, key))
        i = (i + 1) & (k->n_slots - 1);
    return i;
}

const struct akv_known_page *akv_known_find(const struct akv_known *k, const struct akv_key *key)
{
    size_t at = k->n_slots ? k->slots[slot_of(k, key)] : 0;
    return at ? &k->pages[at - 1] : NULL;
}

static int grow(struct akv_known *k, struct akv_err *err)
{
    if (k->n == k->cap) {
        size_t cap = k->cap ? 2 * k->cap : 64;
        struct akv_known_page *pages = akv_realloc(k->pages, cap, sizeof *pages, err);
        if (!pages)
            return AKV_E_IO;
        k->pages = pages;
        k->cap = cap;
    }
    if (2 * (k->n + 1) <= k->n_slots)
        return 0;
    size_t n_slots = k->n_slots ? 2 * k->n_slots : 128;
    size_t *slots = akv_alloc(n_slots, sizeof *slots, err);
    if (!slots)
        return AKV_E_IO;
    free(k->slots);
    k->slots = slots;
    k->n_slots = n_slots;
    for (size_t i = 0; i < k->n; i++)
        slots[slot_of(k, &k->pages[i].key)] = i + 1;
    return 0;
}

int akv_known_add(struct akv_known *k, const struct akv_key *key, const struct akv_page_rec *rec, bool open, struct akv_err *err)
{
    int rc = grow(k, err);
    if (rc < 0)
        return rc;
    struct akv_known_page *p = &k->pages[k->n];
    *p = (struct akv_known_page){.key = *key, .open = open};
    if (rec) {
        p->parent = rec->parent;
        p->index = rec->index;
        p->n_tokens = rec->n_tokens;
        memcpy(p->raw_sha, rec->raw_sha, sizeof p->raw_sha);
        memcpy(p->ids, rec->ids, rec->n_tokens * sizeof *rec->ids);
    }
    k->n++;
    k->slots[slot_of(k, key)] = k->n;
    return 0;
}

int akv_known_same(const struct akv_known *k, const struct akv_page_rec *rec, struct akv_err *err)
{
    const struct akv_known_page *p = akv_known_find(k, &rec->key);
    if (!p)
        return 0;
    if (p->n_tokens && memcmp(p->raw_sha, rec->raw_sha, sizeof p->raw_sha))
        return akv_fail(err, AKV_E_INPUT, "page %lu: exactness is broken: the same token ids came before with other KV bytes",
                        (unsigned long)rec->index);
    return 1;
}

bool akv_page_outgrown(uint32_t index_a, const struct akv_key *parent_a, const uint32_t *ids_a, uint32_t n_a,
                       const struct akv_page_rec *b)
{
    return index_a == b->index && n_a < b->n_tokens && akv_key_eq(parent_a, &b->parent) &&
           !memcmp(ids_a, b->ids, n_a * sizeof *ids_a);
}

/* By parent, then ids as words, a prefix before what extends it. */
static int by_place(const void *a, const void *b)
{
    const struct akv_known_page *x = *(const struct akv_known_page *const *)a, *y = *(const struct akv_known_page *const *)b;
    int order = memcmp(x->parent.b, y->parent.b, sizeof x->parent.b);
    if (order)
        return order;
    uint32_t n = x->n_tokens < y->n_tokens ? x->n_tokens : y->n_tokens;
    for (uint32_t i = 0; i < n; i++)
        if (x->ids[i] != y->ids[i])
            return x->ids[i] < y->ids[i] ? -1 : 1;
    return x->n_tokens < y->n_tokens ? -1 : x->n_tokens > y->n_tokens;
}

int akv_known_tips(const struct akv_known *k, size_t from, struct akv_key **out, size_t *n_out, struct akv_err *err)
{
    size_t n = k->n - from, n_sorted = 0;
    const struct akv_known_page **sorted = akv_alloc(n, sizeof *sorted, err);
    bool *inner = akv_alloc(n, sizeof *inner, err);
    struct akv_key *tips = akv_alloc(n, sizeof *tips, err);
    int rc = sorted && inner && tips ? 0 : AKV_E_IO;
    *out = NULL;
    *n_out = 0;
    if (rc < 0)
        goto out;
    for (size_t at = from; at < k->n; at++) {
        const struct akv_known_page *p = &k->pages[at];
        if (!p->n_tokens)
            continue;
        sorted[n_sorted++] = p;
        const struct akv_known_page *parent = p->index ? akv_known_find(k, &p->parent) : NULL;
        if (parent && parent >= k->pages + from)
            inner[parent - k->pages - (ptrdiff_t)from] = true;
    }
    qsort(sorted, n_sorted, sizeof *sorted, by_place);
    for (size_t i = 0; i + 1 < n_sorted; i++) {
        /* what extends a page stands behind it without a gap, so the next one tells */
        const struct akv_known_page *p = sorted[i], *q = sorted[i + 1];
        struct akv_page_rec next = {.index = q->index, .parent = q->parent, .ids = q->ids, .n_tokens = q->n_tokens};
        if (akv_page_outgrown(p->index, &p->parent, p->ids, p->n_tokens, &next))
            inner[p - k->pages - (ptrdiff_t)from] = true;
    }
    for (size_t i = 0; i < n; i++)
        if (!inner[i] && k->pages[from + i].n_tokens)
            tips[(*n_out)++] = k->pages[from + i].key;
    *out = tips;
    tips = NULL;
out:
    free(sorted);
    free(inner);
    free(tips);
    return rc;
}
