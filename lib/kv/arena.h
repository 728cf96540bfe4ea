/*
 * The arena: a fixed pool of KV pages with owner counts, sequences over them, and an index of sealed pages by key.
 *
 * Invariants: a page with n_tokens == 64 may be sealed (immutable, shared); a partial page is owned by one sequence, or is sealed
 * as a *tail* that must be copied before it grows. Memory is one anonymous mapping made at open; nothing is allocated while
 * decoding.
 */
#ifndef AKV_KV_ARENA_H
#define AKV_KV_ARENA_H

#include "kv/key.h"

/* Geometry of KV: fixes the layout of page bodies. */
struct akv_geom {
    uint32_t n_layers, n_kv_heads, dim_k, dim_v;
    enum akv_kv_dtype dtype;
};

size_t akv_geom_elem(const struct akv_geom *g);        /* bytes of an element: 2 or 4 */
size_t akv_geom_token_bytes(const struct akv_geom *g); /* bytes of KV per token, all layers */
size_t akv_geom_page_bytes(const struct akv_geom *g);  /* 64 tokens */
/* Offset in a page of K (or V) of a layer and kv head: per layer, per kv head, K [dim_k][64] then V [64][dim_v]. */
size_t akv_geom_k_offset(const struct akv_geom *g, uint32_t layer, uint32_t head);
size_t akv_geom_v_offset(const struct akv_geom *g, uint32_t layer, uint32_t head);

/* Body of a page of n tokens (stride n) <-> page in memory (stride 64). For n == 64 both are a memcpy. */
void akv_body_to_page(const struct akv_geom *g, uint8_t *page, const uint8_t *body, uint32_t n);
void akv_page_to_body(const struct akv_geom *g, uint8_t *body, const uint8_t *page, uint32_t n);

struct akv_arena;

struct akv_page {
    uint8_t *kv;                    /* page_bytes, 64-byte aligned */
    struct akv_key key, parent;     /* valid when sealed; parent: of the previous full page, zeros for the first */
    uint8_t raw_sha[AKV_SHA_BYTES]; /* of the body; valid when has_sha */
    bool sealed, has_sha;
    uint8_t origin; /* the session's mark: where the content came from */
    uint32_t index, n_tokens;
    uint32_t n_owners;
    uint32_t ids[AKV_PAGE_TOKENS];
    struct akv_arena *arena; /* the arena's own, like the rest */
    bool indexed;            /* akv_arena_find() can see it */
    struct akv_page *hash_next, *lru_prev, *lru_next;
};

/* The memory is reserved, not touched: pages cost nothing until used. */
int akv_arena_open(struct akv_arena **out, const struct akv_geom *g, size_t n_pages, struct akv_err *err);
void akv_arena_close(struct akv_arena *a); /* NULL-safe; sequences are closed before */
const struct akv_geom *akv_arena_geom(const struct akv_arena *a);
size_t akv_arena_free_pages(const struct akv_arena *a); /* unowned ones in the index count: they can be dropped */

/*
 * A page owned once by the caller, contents undefined, n_tokens 0; drops the least recently used unowned page if needed.
 * NULL + error if all are owned.
 */
struct akv_page *akv_arena_take(struct akv_arena *a, struct akv_err *err);
void akv_arena_share(struct akv_page *p); /* one owner more; also of a found page that had none */
/* One owner less; a sealed page with no owner stays findable until its slot is needed. */
void akv_arena_release(struct akv_arena *a, struct akv_page *p);
/*
 * Freeze a page under its key and make it findable. If the key is there already, nothing is added (it stays findable through the
 * older page). parent: NULL for the first page of a chain.
 */
void akv_arena_seal(struct akv_arena *a, struct akv_page *p, const struct akv_key *key, const struct akv_key *parent);
/* The sealed page with this key and exactly these ids, or NULL. Ownership is not taken. */
struct akv_page *akv_arena_find(struct akv_arena *a, const struct akv_key *key, const uint32_t *ids, size_t n);

/* A sequence: token ids from position 0 and the pages that hold their KV. */
struct akv_seq {
    struct akv_arena *arena;
    struct akv_page **pages; /* [cap_pages] */
    const uint8_t **kv;      /* the same pages' memory, as the kernels want it */
    uint32_t *ids;           /* [cap] */
    uint32_t n_tokens;       /* tokens whose KV is present */
    uint32_t cap;            /* most tokens it can hold; memory for the tables is taken at open */
    uint32_t n_pages;
    uint32_t n_pending; /* tokens of the step under way; 0 outside akv_engine_step() */
};

int akv_seq_open(struct akv_seq *s, struct akv_arena *a, uint32_t cap, struct akv_err *err);
void akv_seq_close(struct akv_seq *s); /* releases its pages */
/* Append a sealed page (ids of it at position 64*index == n_tokens); one owner more. */
int akv_seq_attach(struct akv_seq *s, struct akv_page *p, struct akv_err *err);
/* Make room for n more tokens: take pages, copy a sealed or shared tail before it is written. */
int akv_seq_reserve(struct akv_seq *s, uint32_t n, struct akv_err *err);
/* Count one token as present (its KV has been written by the engine to page n_tokens/64, slot n_tokens%64). */
void akv_seq_push(struct akv_seq *s, uint32_t id);
/* Keep the first n <= n_tokens tokens; pages wholly past n are released. A sealed page that is cut is copied on next reserve. */
void akv_seq_truncate(struct akv_seq *s, uint32_t n);

#endif
