/*
 * What a store holds, in memory: name, parent, size and use of its objects, some 120 bytes each. Taken while nothing is added or
 * collected (the lock is held) it is the truth; else it may lack what came since and hold what went.
 */
#ifndef AKV_STORE_CENSUS_H
#define AKV_STORE_CENSUS_H

#include "store/store_dir.h"

#define AKV_CENSUS_NONE UINT32_MAX

struct akv_census_entry {
    struct akv_key name;   /* the index key */
    struct akv_key parent; /* the parent's index key, when has_parent */
    uint64_t root;         /* the root's first eight bytes */
    uint64_t bytes;
    int64_t used;    /* ns since 1970 */
    uint32_t up;     /* the parent's entry; NONE: it has none, or that is not there */
    uint32_t n_kids; /* entries whose parent it is */
    uint32_t n_pins; /* pins whose chains it is in, if somebody counts */
    uint32_t index;  /* of the page */
    uint8_t n_tokens;
    bool has_parent;
    bool unread; /* its header is damaged or cannot be read: nothing but name, bytes and use is known */
    bool held;   /* not to be deleted; so are its ancestors then */
    bool gone;   /* deleted, or not there when it was to be read */
};

/* slots is a hash table of positions + 1, at most half full. */
struct akv_census {
    struct akv_store *store;
    struct akv_census_entry *list;
    size_t n, cap, n_slots;
    uint32_t *slots;
    uint64_t bytes; /* of all entries that are not gone */
};

void akv_census_release(struct akv_census *c); /* NULL-safe on a zeroed object */
/* All objects by their headers, linked to their parents. n_threads 0: 1. */
int akv_census_take(struct akv_census *c, struct akv_store *s, unsigned n_threads, const volatile int *cancel, struct akv_err *err);
/* In steps: the names of all objects; what an object that was read says of its entry (false: it is another page's); parents. */
int akv_census_names(struct akv_census *c, struct akv_store *s, struct akv_err *err);
bool akv_census_fill(struct akv_census_entry *e, const struct akv_object *o);
void akv_census_link(struct akv_census *c);

uint32_t akv_census_find(const struct akv_census *c, const struct akv_key *name);
/* Read what the census has not yet of the chain to this tip; *tip is its entry, or NONE. */
int akv_census_chain(struct akv_census *c, const struct akv_key *root, const struct akv_key *key, uint32_t *tip,
                     struct akv_err *err);
/* Hold an entry and its ancestors. */
void akv_census_hold(struct akv_census *c, uint32_t entry);
/* Whether the chain from an entry reaches page 0 over entries that were read. */
bool akv_census_whole(const struct akv_census *c, uint32_t entry);

uint64_t akv_root_tag(const struct akv_key *root); /* its first eight bytes */

#endif
