/* The pages that a stream has had so far: by key, and which of them are tips. */
#ifndef AKV_SNAP_KNOWN_H
#define AKV_SNAP_KNOWN_H

#include "snap/snap.h"

struct akv_known_page {
    struct akv_key key, parent;
    uint8_t raw_sha[AKV_SHA_BYTES];
    uint32_t index, n_tokens; /* n_tokens 0: a key only, its page is elsewhere */
    uint32_t ids[AKV_PAGE_TOKENS];
    bool open; /* its parent, or an ancestor, was absent when it came */
};

/* pages[n] in order of arrival; slots[n_slots] is a hash table of positions + 1, at most half full. */
struct akv_known {
    struct akv_known_page *pages;
    size_t n, cap;
    size_t *slots;
    size_t n_slots;
};

void akv_known_release(struct akv_known *k); /* a zeroed object is an empty table */
/* NULL when absent; the pointer lives until the next add. */
const struct akv_known_page *akv_known_find(const struct akv_known *k, const struct akv_key *key);
/* The key must be absent. rec NULL: the key only. */
int akv_known_add(struct akv_known *k, const struct akv_key *key, const struct akv_page_rec *rec, bool open, struct akv_err *err);
/* 1: the same page is there; 0: absent; AKV_E_INPUT: it is there with other KV bytes, so exactness is broken. */
int akv_known_same(const struct akv_known *k, const struct akv_page_rec *rec, struct akv_err *err);
/*
 * Tips among pages[from .. n): no parent of another of them, nor a proper prefix of another with the same parent. In order of
 * arrival, malloc'd; *n_out may be 0.
 */
int akv_known_tips(const struct akv_known *k, size_t from, struct akv_key **out, size_t *n_out, struct akv_err *err);

/* Whether a is a proper prefix of b: same place in the same chain, fewer tokens, and those equal. */
bool akv_page_outgrown(uint32_t index_a, const struct akv_key *parent_a, const uint32_t *ids_a, uint32_t n_a,
                       const struct akv_page_rec *b);

#endif
