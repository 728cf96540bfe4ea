/* Merging a piece of text: what the loop of tok_merge_loop.h needs besides a look-up, and byte-level merging. */
#include <stdlib.h>

#include "model/tok_merge_loop.h"

#define NONE AKV_TOKVOCAB_NONE

void akv_tokmerge_sift_down(uint64_t *heap, size_t n, size_t i)
{
    uint64_t x = heap[i];
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && heap[child + 1] < heap[child])
            child++;
        if (heap[child] >= x)
            break;
        heap[i] = heap[child];
    }
    heap[i] = x;
}

void akv_tokmerge_push(struct akv_tokmerge_long *p, uint64_t x)
{
    size_t i = p->n_heap++;
    for (; i > 0 && p->heap[(i - 1) / 2] > x; i = (i - 1) / 2)
        p->heap[i] = p->heap[(i - 1) / 2];
    p->heap[i] = x;
}

uint64_t akv_tokmerge_pop(struct akv_tokmerge_long *p)
{
    uint64_t top = p->heap[0];
    p->heap[0] = p->heap[--p->n_heap];
    if (p->n_heap > 1)
        akv_tokmerge_sift_down(p->heap, p->n_heap, 0);
    return top;
}

static bool scratch_reserve(struct akv_tokscratch *scratch, size_t bytes)
{
    if (scratch->bytes >= bytes)
        return true;
    free(scratch->p);
    scratch->p = malloc(bytes);
    scratch->bytes = scratch->p ? bytes : 0;
    return scratch->p != NULL;
}

void akv_tokscratch_release(struct akv_tokscratch *scratch)
{
    free(scratch->p);
    *scratch = (struct akv_tokscratch){0};
}

bool akv_tokmerge_begin(struct akv_tokmerge_long *p, struct akv_toksym *sym, size_t n, struct akv_tokscratch *scratch)
{
    if (!scratch_reserve(scratch, n * (2 * sizeof *p->heap + sizeof *p->link)))
        return false;
    p->sym = sym;
    p->heap = scratch->p;
    p->link = (struct akv_tokmerge_link *)(p->heap + 2 * n);
    for (size_t i = 0; i < n; i++)
        p->link[i] = (struct akv_tokmerge_link){i ? (uint32_t)i - 1 : NONE, i + 1 < n ? (uint32_t)i + 1 : NONE, NONE};
    return true;
}

size_t akv_tokmerge_end(struct akv_tokmerge_long *p)
{
    size_t kept = 0;
    for (uint32_t i = 0; i != NONE; i = p->link[i].next)
        p->sym[kept++] = p->sym[i];
    return kept;
}

/* --- byte-level merging --- */

static uint32_t rank_of(const void *ctx, const struct akv_toksym *left, const struct akv_toksym *right, uint32_t end,
                        uint32_t *made)
{
    (void)end;
    const struct akv_tokpair *pair = akv_tokmerges_probe(ctx, left->id, right->id);
    if (!pair || pair->left == NONE)
        return NONE;
    *made = pair->id;
    return pair->rank;
}

static size_t bytes_to_symbols(const struct akv_tokmerges *m, const char *s, size_t len, struct akv_toksym *sym, size_t *n_lost)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        uint32_t id = m->byte_id[(uint8_t)s[i]];
        if (id != NONE)
            sym[n++] = (struct akv_toksym){id, (uint32_t)i};
    }
    *n_lost += len - n;
    return n;
}

size_t akv_tokmerges_apply(const struct akv_tokmerges *m, const char *s, size_t len, struct akv_toksym *sym, size_t *n_lost,
                           struct akv_tokscratch *scratch)
{
    size_t n = bytes_to_symbols(m, s, len, sym, n_lost);
    return akv_tokmerge(rank_of, m, sym, n, (uint32_t)len, scratch);
}
