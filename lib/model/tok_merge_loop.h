/*
 * Merging neighbours: always the pair of lowest rank, of equal ones the leftmost, until none is left. The kinds of tokenizer differ
 * only in how a pair is looked up, so the loop is written once and compiled into each around its own look-up.
 *
 * A look-up returns the rank of the pair (left, right), or AKV_TOKVOCAB_NONE when the two do not merge, and what they become in
 * *made. end is where the right one ends in the piece. The rank may depend on the text from left to end only.
 */
#ifndef AKV_MODEL_TOK_MERGE_LOOP_H
#define AKV_MODEL_TOK_MERGE_LOOP_H

#include "model/tok_merge.h"

#define AKV_TOKMERGE_INLINE static inline __attribute__((always_inline))

typedef uint32_t akv_tokmerge_fn(const void *ctx, const struct akv_toksym *left, const struct akv_toksym *right, uint32_t end,
                                 uint32_t *made);

/* Words: look for the lowest rank again after every merge. n <= AKV_TOKMERGES_SHORT. */
AKV_TOKMERGE_INLINE size_t akv_tokmerge_short(akv_tokmerge_fn *look, const void *ctx, struct akv_toksym *sym, size_t n,
                                              uint32_t end)
{
    uint32_t rank[AKV_TOKMERGES_SHORT], made[AKV_TOKMERGES_SHORT]; /* of the pair (i, i + 1) */
    for (size_t i = 0; i + 1 < n; i++)
        rank[i] = look(ctx, &sym[i], &sym[i + 1], i + 2 < n ? sym[i + 2].at : end, &made[i]);
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++) {
            if (rank[i] < rank[best])
                best = i;
        }
        if (rank[best] == AKV_TOKVOCAB_NONE)
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
            rank[best - 1] = look(ctx, &sym[best - 1], &sym[best], best + 1 < n ? sym[best + 1].at : end, &made[best - 1]);
        if (best + 1 < n)
            rank[best] = look(ctx, &sym[best], &sym[best + 1], best + 2 < n ? sym[best + 2].at : end, &made[best]);
    }
    return n;
}

/*
 * Long pieces: a heap of (rank, position) over a linked list. An entry is stale unless its rank is still that of the pair at its
 * position. A merge takes one entry and adds at most two, so 2n are room enough.
 */
struct akv_tokmerge_link {
    uint32_t prev, next; /* NONE at the ends */
    uint32_t rank;       /* of the pair that begins here, or NONE */
};

struct akv_tokmerge_long {
    const void *ctx;
    struct akv_toksym *sym;
    uint32_t end;
    struct akv_tokmerge_link *link;
    uint64_t *heap; /* rank << 32 | position: the smallest first */
    size_t n_heap;
};

void akv_tokmerge_sift_down(uint64_t *heap, size_t n, size_t i);
void akv_tokmerge_push(struct akv_tokmerge_long *p, uint64_t x);
uint64_t akv_tokmerge_pop(struct akv_tokmerge_long *p);
/* Set up for n symbols in scratch; false when out of memory. */
bool akv_tokmerge_begin(struct akv_tokmerge_long *p, struct akv_toksym *sym, size_t n, struct akv_tokscratch *scratch);
/* Move what is left together; returns how many. */
size_t akv_tokmerge_end(struct akv_tokmerge_long *p);

/* Look up the pair that begins at i and enter its rank; true when it merges. */
AKV_TOKMERGE_INLINE bool akv_tokmerge_rank(akv_tokmerge_fn *look, struct akv_tokmerge_long *p, uint32_t i, uint32_t *made)
{
    struct akv_tokmerge_link *l = &p->link[i];
    l->rank = AKV_TOKVOCAB_NONE;
    if (l->next != AKV_TOKVOCAB_NONE) {
        uint32_t after = p->link[l->next].next;
        l->rank = look(p->ctx, &p->sym[i], &p->sym[l->next], after == AKV_TOKVOCAB_NONE ? p->end : p->sym[after].at, made);
    }
    return l->rank != AKV_TOKVOCAB_NONE;
}

AKV_TOKMERGE_INLINE void akv_tokmerge_at(akv_tokmerge_fn *look, struct akv_tokmerge_long *p, uint32_t i)
{
    struct akv_tokmerge_link *l = &p->link[i];
    uint32_t right = l->next, made;
    if (akv_tokmerge_rank(look, p, i, &made))
        p->sym[i].id = made;
    p->link[right].rank = AKV_TOKVOCAB_NONE;
    l->next = p->link[right].next;
    if (l->next != AKV_TOKVOCAB_NONE)
        p->link[l->next].prev = i;
    if (akv_tokmerge_rank(look, p, i, &made))
        akv_tokmerge_push(p, (uint64_t)l->rank << 32 | i);
    if (l->prev != AKV_TOKVOCAB_NONE && akv_tokmerge_rank(look, p, l->prev, &made))
        akv_tokmerge_push(p, (uint64_t)p->link[l->prev].rank << 32 | l->prev);
}

/*
 * Merge the n symbols of a piece that ends at `end`; returns how many are left, SIZE_MAX when out of memory.
 * look must be a constant, or the compiler cannot put it in its place.
 */
AKV_TOKMERGE_INLINE size_t akv_tokmerge(akv_tokmerge_fn *look, const void *ctx, struct akv_toksym *sym, size_t n, uint32_t end,
                                        struct akv_tokscratch *scratch)
{
    struct akv_tokmerge_long p = {.ctx = ctx, .end = end};
    uint32_t made;
    if (n < 2)
        return n;
    if (n <= AKV_TOKMERGES_SHORT)
        return akv_tokmerge_short(look, ctx, sym, n, end);
    if (!akv_tokmerge_begin(&p, sym, n, scratch))
        return SIZE_MAX;
    for (uint32_t i = 0; i < n; i++) {
        if (akv_tokmerge_rank(look, &p, i, &made))
            p.heap[p.n_heap++] = (uint64_t)p.link[i].rank << 32 | i;
    }
    for (size_t i = p.n_heap / 2; i-- > 0;)
        akv_tokmerge_sift_down(p.heap, p.n_heap, i);
    while (p.n_heap) {
        uint64_t top = akv_tokmerge_pop(&p);
        if (p.link[(uint32_t)top].rank == (uint32_t)(top >> 32))
            akv_tokmerge_at(look, &p, (uint32_t)top);
    }
    return akv_tokmerge_end(&p);
}

#endif
