/* Merging a piece of text: a short way for words, a linear-logarithmic one for anything. */
#include <stdlib.h>

#include "model/tok_merge.h"

#define NONE AKV_TOKVOCAB_NONE

static uint32_t rank_of(const struct akv_tokmerges *m, uint32_t left, uint32_t right, uint32_t *id)
{
    const struct akv_tokpair *pair = akv_tokmerges_probe(m, left, right);
    if (!pair || pair->left == NONE)
        return NONE;
    *id = pair->id;
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

/* Words: look for the lowest rank again after every merge. */
static size_t merge_short(const struct akv_tokmerges *m, struct akv_toksym *sym, size_t n)
{
    uint32_t rank[AKV_TOKMERGES_SHORT], made[AKV_TOKMERGES_SHORT]; /* of the pair (i, i + 1) */
    for (size_t i = 0; i + 1 < n; i++)
        rank[i] = rank_of(m, sym[i].id, sym[i + 1].id, &made[i]);
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++) {
            if (rank[i] < rank[best])
                best = i;
        }
        if (rank[best] == NONE)
            break;
        sym[best].id = made[best];
        n--;
        for (size_t i = best + 1; i < n; i++)
            sym[i] = sym[i + 1];
        for (size_t i = best + 1; i + 1 < n; i++) {
            rank[i] = rank[i + 1];
            made[i] = made[i + 1];
        }
        if (best > 0)
            rank[best - 1] = rank_of(m, sym[best - 1].id, sym[best].id, &made[best - 1]);
        if (best + 1 < n)
            rank[best] = rank_of(m, sym[best].id, sym[best + 1].id, &made[best]);
    }
    return n;
}

/*
 * Long pieces: a heap of (rank, position) over a linked list. An entry is stale unless its rank is still that of the pair at its
 * position. A merge takes one entry and adds at most two, so 2n are room enough.
 */
struct link {
    uint32_t prev, next; /* NONE at the ends */
    uint32_t rank;       /* of the pair that begins here, or NONE */
};

struct long_piece {
    const struct akv_tokmerges *m;
    struct akv_toksym *sym;
    struct link *link;
    uint64_t *heap; /* rank << 32 | position: the smallest first */
    size_t n_heap;
};

static void sift_down(uint64_t *heap, size_t n, size_t i)
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

static void push(struct long_piece *p, uint64_t x)
{
    size_t i = p->n_heap++;
    for (; i > 0 && p->heap[(i - 1) / 2] > x; i = (i - 1) / 2)
        p->heap[i] = p->heap[(i - 1) / 2];
    p->heap[i] = x;
}

static uint64_t pop(struct long_piece *p)
{
    uint64_t top = p->heap[0];
    p->heap[0] = p->heap[--p->n_heap];
    if (p->n_heap > 1)
        sift_down(p->heap, p->n_heap, 0);
    return top;
}

/* Look up the pair that begins at i; true when it merges. */
static bool rank_pair(struct long_piece *p, uint32_t i)
{
    uint32_t made, next = p->link[i].next;
    p->link[i].rank = next == NONE ? NONE : rank_of(p->m, p->sym[i].id, p->sym[next].id, &made);
    return p->link[i].rank != NONE;
}

static void merge_at(struct long_piece *p, uint32_t i)
{
    struct link *l = &p->link[i];
    uint32_t right = l->next;
    rank_of(p->m, p->sym[i].id, p->sym[right].id, &p->sym[i].id);
    p->link[right].rank = NONE;
    l->next = p->link[right].next;
    if (l->next != NONE)
        p->link[l->next].prev = i;
    if (rank_pair(p, i))
        push(p, (uint64_t)l->rank << 32 | i);
    if (l->prev != NONE && rank_pair(p, l->prev))
        push(p, (uint64_t)p->link[l->prev].rank << 32 | l->prev);
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

static size_t merge_long(const struct akv_tokmerges *m, struct akv_toksym *sym, size_t n, struct akv_tokscratch *scratch)
{
    struct long_piece p = {.m = m, .sym = sym};
    if (!scratch_reserve(scratch, n * (2 * sizeof *p.heap + sizeof *p.link)))
        return SIZE_MAX;
    p.heap = scratch->p;
    p.link = (struct link *)(p.heap + 2 * n);
    for (size_t i = 0; i < n; i++)
        p.link[i] = (struct link){i ? (uint32_t)i - 1 : NONE, i + 1 < n ? (uint32_t)i + 1 : NONE, NONE};
    for (uint32_t i = 0; i < n; i++) {
        if (rank_pair(&p, i))
            p.heap[p.n_heap++] = (uint64_t)p.link[i].rank << 32 | i;
    }
    for (size_t i = p.n_heap / 2; i-- > 0;)
        sift_down(p.heap, p.n_heap, i);
    while (p.n_heap) {
        uint64_t top = pop(&p);
        if (p.link[(uint32_t)top].rank == (uint32_t)(top >> 32))
            merge_at(&p, (uint32_t)top);
    }
    size_t kept = 0;
    for (uint32_t i = 0; i != NONE; i = p.link[i].next)
        sym[kept++] = sym[i];
    return kept;
}

size_t akv_tokmerges_apply(const struct akv_tokmerges *m, const char *s, size_t len, struct akv_toksym *sym, size_t *n_lost,
                           struct akv_tokscratch *scratch)
{
    size_t n = bytes_to_symbols(m, s, len, sym, n_lost);
    if (n < 2)
        return n;
    return n <= AKV_TOKMERGES_SHORT ? merge_short(m, sym, n) : merge_long(m, sym, n, scratch);
}
