/* Inside the store: the objects from position 0 to a tip. */
#ifndef AKV_STORE_CHAIN_H
#define AKV_STORE_CHAIN_H

#include "store/objects.h"

struct akv_link {
    struct akv_key key;
    uint8_t raw_sha[AKV_SHA_BYTES];
    uint32_t n_tokens;
    uint64_t bytes; /* of the object */
};

/*
 * Follow the parents from a tip by headers alone. links (malloc'd) are first to last. absent: the code for a page that is not there
 * (AKV_E_NO or AKV_E_INPUT); a damaged or renamed one is AKV_E_INPUT.
 */
int akv_chain_trace(struct akv_store *s, const struct akv_key *root, const struct akv_key *tip, int absent, struct akv_link **links,
                    size_t *n, struct akv_err *err);
/* The chain of a ref, which must be the one that was pinned (AKV_E_INPUT). */
int akv_chain_of(struct akv_store *s, const struct akv_ref *ref, struct akv_link **links, size_t *n, struct akv_err *err);
/* A page of a chain, whole, into s->object; name receives its object's. */
int akv_chain_read(struct akv_store *s, const struct akv_key *root, const struct akv_link *link, struct akv_object_name *name,
                   struct akv_err *err);
/* What a ref records of a chain: fills n_tokens, bytes and content. */
int akv_chain_sum(struct akv_ref *ref, const struct akv_link *links, size_t n, struct akv_err *err);

#endif
