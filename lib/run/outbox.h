/*
 * Pages on their way out: a thread of their own encodes and hashes them, writes them to the output and publishes them to the store,
 * in the order in which they were put, while the next tokens are computed.
 *
 * Invariant: between the calls of akv.h the outbox is empty and its thread waits, so that output and store may be used directly then.
 */
#ifndef AKV_RUN_OUTBOX_H
#define AKV_RUN_OUTBOX_H

#include "kv/arena.h"
#include "store/store.h"

struct akv_outbox;

/* The first n tokens of a page, as the page `key`. */
struct akv_parcel {
    struct akv_page *page;
    uint32_t n;
    struct akv_key key, parent;
    bool has_parent;
    bool fresh;    /* computed by this request: the store is asked to compare its copy, if it has one */
    bool computed; /* and so was everything before it */
    struct akv_page *const
        *chain;                 /* the full pages before it and their keys, which stay as they are until the next drain: should */
    const struct akv_key *keys; /* the store have lost some, they are published again; NULL: then the page cannot be */
    struct akv_writer *writer;  /* where it goes unless it is there already; NULL: not to the output, not to the store */
    struct akv_store *store;
};

/* model (looked at again before each publication) and head are borrowed. */
int akv_outbox_open(struct akv_outbox **out, const struct akv_model *model, const struct akv_head *head, struct akv_err *err);
void akv_outbox_close(struct akv_outbox *o); /* after a drain; NULL-safe */
/*
 * Put a page, which is owned once more until it is delivered; waits while too many are under way. The arena's calls all come from the
 * caller's thread. An error is one of an earlier page: nothing is delivered any more until the next drain.
 */
int akv_outbox_put(struct akv_outbox *o, const struct akv_parcel *parcel, struct akv_err *err);
/*
 * Wait until all is delivered. written: bytes written to output and store since the last drain are added. save_err: the first failure
 * to publish, once; what follows it is not published. Returns the first error otherwise. NULL-safe.
 */
int akv_outbox_drain(struct akv_outbox *o, uint64_t *written, struct akv_err *save_err, struct akv_err *err);

#endif
