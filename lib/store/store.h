/*
 * The store: a directory of page objects, each a valid stream H P E, and refs (design.md 4.3; akv-store(5)).
 */
#ifndef AKV_STORE_STORE_H
#define AKV_STORE_STORE_H

#include "snap/snap.h"

/* struct akv_store, AKV_STORE_CREATE, akv_store_open and akv_store_close: akv.h. */

#define AKV_STORE_VERSION 1u
#define AKV_PIN_NAME_MAX 200u

/* The codec in which this store wants new pages (from its config). */
enum akv_codec akv_store_codec(const struct akv_store *s);

/*
 * Hold the shared lock over several puts, so that a collection cannot come between a parent and its child. Each put and ref change
 * outside of a batch takes it by itself. begin waits for a running collection. Calls nest.
 */
int akv_store_batch_begin(struct akv_store *s, struct akv_err *err);
void akv_store_batch_end(struct akv_store *s);

/*
 * Fetch the page with this key under this root, checked against the ids expected. parent: NULL for page 0. 1: found, *rec valid
 * until the next call on the same `store`; 0: a miss; why (may be NULL) says so when it was not plain absence (damaged or forged:
 * quarantined; I/O error; unknown version). AKV_E_USAGE when something is there, but the ids expected do not hash to the key.
 */
int akv_store_get(struct akv_store *s, const struct akv_head *head, const struct akv_key *key, const struct akv_key *parent,
                  uint32_t index, const uint32_t *ids, uint32_t n_ids, struct akv_page_rec *rec, struct akv_err *why);
/*
 * The same by several threads at once, each with an object of its own (store/objects.h), in which the record lies until the object's
 * next use.
 */
struct akv_object;
int akv_store_read(struct akv_store *s, struct akv_object *o, const struct akv_head *head, const struct akv_key *key,
                   const struct akv_key *parent, uint32_t index, const uint32_t *ids, uint32_t n_ids, struct akv_page_rec *rec,
                   struct akv_err *why);
/*
 * A page straight into its memory: read, verified by what is used of it and decoded in one go, without keeping its coded bytes
 * (rec->coded is NULL), and its use marked. want: key, parent, index, number of tokens, ids. false: it was not to be had so, and `page`
 * may hold anything; akv_store_read() and what follows it tell why, or get it after all.
 */
bool akv_store_load(struct akv_store *s, struct akv_object *o, struct akv_coder *c, const struct akv_head *head,
                    const struct akv_page_rec *want, struct akv_page_rec *rec, uint8_t *page);
/*
 * The page that such a call has just given does not decode, for the reason `why`, which gets the object's path: damaged (AKV_E_INPUT)
 * it goes to quarantine. o NULL: akv_store_get() gave it.
 */
void akv_store_reject(struct akv_store *s, struct akv_object *o, const struct akv_head *head, const struct akv_key *key,
                      struct akv_err *why);
/* Begin to fetch a page that will be read next, without waiting. false: it is certainly not there. */
bool akv_store_ahead(struct akv_store *s, const struct akv_head *head, const struct akv_key *key);
/* Whether an object of that name is there; its content is not looked at. */
bool akv_store_has(struct akv_store *s, const struct akv_head *head, const struct akv_key *key);

/*
 * Publish one page: temp, fsync, link (first writer wins), directory fsync. 1: written (*bytes added to), 0: was there already
 * with the same raw SHA-256 (its use is marked). AKV_E_NO: the parent is not there (collected since), publish the chain again from
 * its start.
 * computed: this process computed it from position 0, so that a stored page with another SHA-256 and its descendants go to
 * quarantine, the new one is published and the error (AKV_E_INPUT) says that exactness was broken; otherwise the new one is
 * refused (AKV_E_INPUT).
 * A damaged object of that name is replaced; one of an unknown version stays (AKV_E_INCOMPAT).
 */
int akv_store_put(struct akv_store *s, const struct akv_head *head, const struct akv_page_rec *rec, bool computed, uint64_t *bytes,
                  struct akv_err *err);

/* Mark use (mtime). */
void akv_store_touch(struct akv_store *s, const struct akv_head *head, const struct akv_key *key);

struct akv_ref {
    char *name;
    struct akv_key root, tip;
    uint64_t n_tokens, bytes;       /* bytes: of its objects */
    uint8_t content[AKV_SHA_BYTES]; /* SHA-256 over the raw SHA-256s of its pages, first to last */
    char *made_by;
    char *model;   /* its name, for people; NULL: unknown, and so for what follows */
    char *options; /* given when the pin was made */
    bool has_input;
    uint8_t input[AKV_SHA_BYTES]; /* SHA-256 of the stream that it was made from */
};
void akv_ref_release(struct akv_ref *r);
/*
 * Pin a chain: ref->name, root, tip, made_by (NULL: none) and what follows it are given; n_tokens, bytes and content are filled in from the
 * objects, which must all be there (AKV_E_NO names the page that is not). Atomic; replaces a ref of that name and root.
 * Names: 1 to 200 bytes of UTF-8, no '/', no control characters, no leading dot; AKV_E_USAGE otherwise, in all calls that take one. A pin
 * that is there may have U+0080 to U+009F in its name, which no pin is given.
 */
int akv_store_ref_put(struct akv_store *s, struct akv_ref *ref, struct akv_err *err);
/* 1 found, 0 absent. root NULL: under any root; more than one: AKV_E_USAGE naming them. */
int akv_store_ref_get(struct akv_store *s, const char *name, const struct akv_key *root, struct akv_ref *out, struct akv_err *err);
/* 1 done, 0 absent; root as above. Objects stay. A damaged ref can be removed. */
int akv_store_ref_remove(struct akv_store *s, const char *name, const struct akv_key *root, struct akv_err *err);
/* 1 done, 0 absent; AKV_E_USAGE when `to` stands under that root already. */
int akv_store_ref_rename(struct akv_store *s, const char *from, const char *to, const struct akv_key *root, struct akv_err *err);
/* All refs, sorted by name then root; caller frees with akv_ref_release and free. */
int akv_store_refs(struct akv_store *s, struct akv_ref **out, size_t *n, struct akv_err *err);
/* The same; one that cannot be read is told to bad and passed over. */
typedef void akv_bad_ref_fn(void *ctx, const char *name, const struct akv_err *why);
int akv_store_refs_but(struct akv_store *s, struct akv_ref **out, size_t *n, akv_bad_ref_fn *bad, void *ctx, struct akv_err *err);
/*
 * The pages of a ref, first to last: each object is read, checked and handed to fn as it stands (head and rec are valid in the
 * call only; the store must not be used in it). A negative result of fn ends the walk and is returned. A missing or damaged page,
 * or a content that is not the ref's: AKV_E_INPUT naming it.
 */
typedef int akv_store_page_fn(void *ctx, const struct akv_head *head, const struct akv_page_rec *rec, struct akv_err *err);
int akv_store_chain(struct akv_store *s, const struct akv_ref *ref, akv_store_page_fn *fn, void *ctx, struct akv_err *err);

/* ---- by their headers: rec->coded is NULL in fn ---- */

/* The `most` most recently used pages, of all roots, in no order. What is damaged is passed over. */
int akv_store_recent(struct akv_store *s, size_t most, akv_store_page_fn *fn, void *ctx, struct akv_err *err);
/* The pages of a chain from its tip back to page 0. A missing or damaged one: AKV_E_INPUT. */
int akv_store_ancestry(struct akv_store *s, const struct akv_key *root, const struct akv_key *tip, akv_store_page_fn *fn, void *ctx,
                       struct akv_err *err);

/* The files of a ref as paths below the store: VERSION, its objects first to last (checked as above), the ref. */
typedef int akv_manifest_fn(void *ctx, const char *sha256, const char *path, struct akv_err *err);
int akv_store_manifest(struct akv_store *s, const struct akv_ref *ref, akv_manifest_fn *fn, void *ctx, struct akv_err *err);

#endif
