/*
 * Byte-pair merges: the table of pairs, and merging one piece of text.
 */
#ifndef AKV_MODEL_TOK_MERGE_H
#define AKV_MODEL_TOK_MERGE_H

#include "model/tok_vocab.h"

struct akv_tokpair {
    uint32_t left, right; /* left AKV_TOKVOCAB_NONE: free slot */
    uint32_t rank;        /* lower merges first */
    uint32_t id;          /* what the two become */
};

struct akv_tokmerges {
    uint32_t n_slots;
    struct akv_tokpair *slots;
    uint32_t byte_id[256]; /* the token of a byte, or AKV_TOKVOCAB_NONE */
};

/* Whether tokenizer.ggml.merges is there and such an array; its entries are not looked at. */
int akv_tokmerges_check(const struct akv_gguf *g, struct akv_err *err);
/* Read tokenizer.ggml.merges. Odd entries are ignored with a warning. */
int akv_tokmerges_open(struct akv_tokmerges *m, const struct akv_tokvocab *v, const struct akv_gguf *g, struct akv_buf *warn,
                       struct akv_err *err);
void akv_tokmerges_close(struct akv_tokmerges *m);

/* A token of a piece and the offset of its first byte there. */
struct akv_toksym {
    uint32_t id, at;
};

/* The slot that holds the pair, or the free slot where it belongs, or NULL after AKV_TOK_PROBES: no such pair. */
struct akv_tokpair *akv_tokmerges_probe(const struct akv_tokmerges *m, uint32_t left, uint32_t right);

/*
 * Merge the piece s of len <= UINT32_MAX bytes: always the pair of lowest rank, of equal ones the leftmost, until none is left.
 * sym has room for len entries; returns how many tokens there are. *n_lost grows by the bytes that have no token: they are
 * dropped before merging, so that their neighbours may merge. scratch is for pieces longer than AKV_TOKMERGES_SHORT.
 * Time O(n log n). Returns SIZE_MAX when out of memory.
 */
#define AKV_TOKMERGES_SHORT 48u
struct akv_tokscratch { /* zero-initialise */
    void *p;
    size_t bytes;
};
size_t akv_tokmerges_apply(const struct akv_tokmerges *m, const char *s, size_t len, struct akv_toksym *sym, size_t *n_lost,
                           struct akv_tokscratch *scratch);
void akv_tokscratch_release(struct akv_tokscratch *scratch);

#endif
