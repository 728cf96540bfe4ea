/*
 * The store: a directory of page objects, each a valid stream H P E, and refs (design.md 4.3; akv-store(5)).
 */
#ifndef AKV_STORE_STORE_H
#define AKV_STORE_STORE_H

#include "snap/snap.h"

struct akv_store;

#define AKV_STORE_CREATE 1u /* make it, or complete a half-made one */

/* AKV_E_NO when it does not exist and CREATE is not given (a miss with a note); ownership, mode and version are checked. */
int akv_store_open(struct akv_store **out, const char *dir, unsigned flags, struct akv_err *err);
void akv_store_close(struct akv_store *s);

/*
 * Fetch the page with this key under this root, checked against the ids expected. 1: found, *rec valid until the next call on the
 * same `store`; 0: a miss; why (may be NULL) says so when it was not plain absence (damaged: quarantined; I/O error; unknown version).
 */
int akv_store_get(struct akv_store *s, const struct akv_head *head, const struct akv_key *key, const struct akv_key *parent, uint32_t index,
                  const uint32_t *ids, uint32_t n_ids, struct akv_page_rec *rec, struct akv_err *why);
bool akv_store_has(struct akv_store *s, const struct akv_head *head, const struct akv_key *key);

/*
 * Publish one page: temp, fsync, link (first writer wins), directory fsync. 1: written (*bytes added to), 0: was there already with the
 * same raw SHA-256. The parent must be there (re-checked). computed: this process computed it from position 0, so that a stored page with
 * another SHA-256 goes to quarantine and the error (AKV_E_INPUT) says that exactness was broken; otherwise the new one is refused.
 */
int akv_store_put(struct akv_store *s, const struct akv_head *head, const struct akv_page_rec *rec, bool computed, uint64_t *bytes,
                  struct akv_err *err);

/* Mark use (mtime). */
void akv_store_touch(struct akv_store *s, const struct akv_head *head, const struct akv_key *key);

struct akv_ref {
    char *name;
    struct akv_key root, tip;
    uint64_t n_tokens, bytes; /* bytes: of its objects */
    uint8_t content[AKV_SHA_BYTES]; /* SHA-256 over the raw SHA-256s of its pages, first to last */
    char *made_by;
};
void akv_ref_release(struct akv_ref *r);
int akv_store_ref_put(struct akv_store *s, const struct akv_ref *ref, struct akv_err *err); /* atomic, replaces */
/* 1 found, 0 absent. root NULL: under any root; more than one: AKV_E_USAGE naming them. */
int akv_store_ref_get(struct akv_store *s, const char *name, const struct akv_key *root, struct akv_ref *out, struct akv_err *err);
int akv_store_ref_remove(struct akv_store *s, const char *name, const struct akv_key *root, struct akv_err *err);
int akv_store_ref_rename(struct akv_store *s, const char *from, const char *to, const struct akv_key *root, struct akv_err *err);
/* All refs, sorted by name then root; caller frees with akv_ref_release and free. */
int akv_store_refs(struct akv_store *s, struct akv_ref **out, size_t *n, struct akv_err *err);
/*
 * The pages of a ref, first to last: each object is read, checked and handed to fn as it stands (rec valid in the call only), with the head of
 * the first before them. A missing or damaged page: AKV_E_INPUT naming it.
 */
int akv_store_chain(struct akv_store *s, const struct akv_ref *ref, int (*fn)(void *ctx, const struct akv_head *head, const struct akv_page_rec *rec, struct akv_err *err),
                    void *ctx, struct akv_err *err);

#endif
