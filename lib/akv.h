/*
 * akv: reuse of computed prefixes, bit for bit.
 *
 * The one public header of libakv. Conventions that hold throughout:
 *  - Functions return 0 (or a count, where said) or a negative AKV_E code; the last parameter,
 *    struct akv_err *, may be NULL and otherwise receives the first error's text.
 *  - The library never prints, never exits, reads no environment and touches no signals.
 *  - Strings are UTF-8; token ids are uint32_t; positions count tokens from 0; times are milliseconds.
 *  - What a function hands out through a `char **` is malloc'd and freed by the caller with free().
 *  - An object may be used by one thread at a time; struct akv_model may be shared by many.
 */
#ifndef AKV_H
#define AKV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define AKV_API __attribute__((visibility("default")))

/* ---- errors ---- */

#define AKV_E_NO (-1)       /* the answer is no: a required hit missed, verification failed, files differ */
#define AKV_E_USAGE (-2)    /* the caller asked for something that makes no sense */
#define AKV_E_INPUT (-3)    /* bad input or damaged data */
#define AKV_E_INCOMPAT (-4) /* another model, version or architecture */
#define AKV_E_IO (-5)       /* I/O, memory or another resource */
#define AKV_E_CANCEL (-6)   /* stopped by the caller's cancel flag or callback */

#define AKV_ERR_BYTES 1024

/* An error: msg reads "what: why", one line, control bytes escaped, ready to print after a tool's name. */
struct akv_err {
    int code; /* 0: no error yet */
    char msg[AKV_ERR_BYTES];
};

AKV_API int akv_exit_status(int code); /* the tools' exit status for a return code: 0..5 */
AKV_API const char *akv_version(void);

/* ---- models ---- */

struct akv_model;

#define AKV_MODEL_VOCAB_ONLY 1u  /* only the tokenizer.* keys: any architecture, tensors not needed */
#define AKV_MODEL_DECODE_ONLY 2u /* ids become text, but no text ids: opens in a fraction of the time and memory */

/* pre: the pre-tokenizer to use whatever the file says, or NULL. */
AKV_API int akv_model_open(struct akv_model **out, const char *path, unsigned flags, const char *pre, struct akv_err *err);
AKV_API void akv_model_close(struct akv_model *m);              /* NULL-safe */
AKV_API const char *akv_model_notes(const struct akv_model *m); /* oddities worth a warning, newline-separated, or NULL */

/* ---- input: chat requests, token records or a stream, told apart by the first bytes ---- */

enum akv_kind {
    AKV_KIND_EMPTY,  /* nothing at all */
    AKV_KIND_JSON,   /* JSON values or other text */
    AKV_KIND_STREAM, /* an akv stream */
    AKV_KIND_GGUF    /* a model file */
};

struct akv_input;

/*
 * fd is borrowed. cancel (may be NULL) is what a signal handler sets to end a read that waits (AKV_E_CANCEL); it must outlive the input.
 * Waits for the first byte.
 */
AKV_API int akv_input_open(struct akv_input **out, int fd, const char *name, const volatile int *cancel, struct akv_err *err);
/* Go on with another descriptor, as cat would join them: pages met before stay known, requests are counted on. */
AKV_API int akv_input_next(struct akv_input *in, int fd, const char *name, struct akv_err *err);
AKV_API void akv_input_close(struct akv_input *in);
AKV_API enum akv_kind akv_input_kind(const struct akv_input *in);

/* ---- requests: token records ---- */

struct akv_request;

#define AKV_CHAT_IGNORE_UNKNOWN 1u /* pass over unknown top-level fields */
#define AKV_CHAT_RAW_MESSAGES 2u   /* messages go to the template as written */
#define AKV_CHAT_SORT_TOOLS 4u     /* tools by name, in whatever order they come */
#define AKV_CHAT_LITERAL 8u        /* control tokens that a message's text spells are text */

/*
 * A jq program that turns each foreign request into chat requests (one, none or several). of_text: the input is plain text, given to the
 * program whole, as one string. NULL-safe to close.
 */
struct akv_normaliser;
AKV_API int akv_normaliser_open(struct akv_normaliser **out, const char *program, bool of_text, struct akv_err *err);
/* One that the library has: "anthropic", "responses", "sharegpt", "transcript" (of text). AKV_E_USAGE: no such name. */
AKV_API int akv_normaliser_named(struct akv_normaliser **out, const char *name, struct akv_err *err);
AKV_API void akv_normaliser_close(struct akv_normaliser *n);

struct akv_chat_opts {
    unsigned flags;            /* AKV_CHAT_* */
    const char *template_text; /* replaces the model's template; NULL: the model's */
    size_t template_len;
    const char *template_name;         /* a named alternative of the model ("tool_use"), or NULL */
    struct akv_normaliser *normaliser; /* NULL: requests are chat requests as they stand */
    int64_t now;                       /* seconds since 1970 for strftime_now: the library reads no clock */
};

/*
 * The next request of `in`. 1: *out is a request (free with akv_request_free), 0: the end, negative: this one is bad; after
 * AKV_E_INPUT and AKV_E_INCOMPAT the next call goes on with the one after it. notes: warnings, newline-separated, NULL if none.
 */
AKV_API int akv_request_from_chat(struct akv_request **out, struct akv_input *in, const struct akv_model *m,
                                  const struct akv_chat_opts *opts, char **notes, struct akv_err *err);
/* A token record; its `tok` and ids are checked against m unless m is NULL. */
AKV_API int akv_request_read(struct akv_request **out, struct akv_input *in, const struct akv_model *m, struct akv_err *err);
/* All of `in` as plain text. special: recognise control tokens in it. */
AKV_API int akv_request_from_text(struct akv_request **out, struct akv_input *in, const struct akv_model *m, bool special,
                                  bool add_special, char **notes, struct akv_err *err);
/* Render the next chat request to text; id receives its id. m may be NULL when a template is given. */
AKV_API int akv_chat_text(char **text, size_t *len, char **id, struct akv_input *in, const struct akv_model *m,
                          const struct akv_chat_opts *opts, char **notes, struct akv_err *err);
AKV_API void akv_request_free(struct akv_request *r);

AKV_API const char *akv_request_id(const struct akv_request *r);
AKV_API int64_t akv_request_max_tokens(const struct akv_request *r); /* -1 when the record does not say */
AKV_API const uint32_t *akv_request_ids(const struct akv_request *r, size_t *n);
AKV_API int akv_request_json(const struct akv_request *r, char **json, size_t *len, struct akv_err *err); /* one line, no newline */

/* AKV_E_INCOMPAT when the digest, of token ids' tokenizer as a record or the head of a stream names it, is not that of m. */
AKV_API int akv_model_check_tokenizer(const struct akv_model *m, const char *digest, struct akv_err *err);
/* The exact bytes of ids; control tokens as their text, or left out. */
AKV_API int akv_decode(const struct akv_model *m, const uint32_t *ids, size_t n, bool skip_control, char **text, size_t *len,
                       struct akv_err *err);

/*
 * Reply bytes as text for JSON (malloc'd): bytes that are no UTF-8 become U+FFFD each, an incomplete character at the end is left out.
 * A message with this content is recognised as the tokens' own.
 */
AKV_API int akv_clean_text(const char *text, size_t len, char **clean, size_t *clean_len, struct akv_err *err);

/*
 * Add an anchor "at-N" for position N (1 .. length); AKV_E_USAGE when it is not in there. Nothing to do when it exists. With m (may be
 * NULL) it is proved that the text before and after the place, each encoded alone, gives the same tokens as together; if not, the anchor
 * moves left to where that holds.
 */
AKV_API int akv_request_add_anchor(struct akv_request *r, uint32_t at, const struct akv_model *m, struct akv_err *err);
/* AKV_E_NO, naming those that there are, when the record has no such anchor; "last" and "all" as in akv_tree_add(). */
AKV_API int akv_request_need_anchor(const struct akv_request *r, const char *name, struct akv_err *err);
/* Add the field `keys`: the (unrooted) page keys of the whole prompt, hex. */
AKV_API int akv_request_add_keys(struct akv_request *r, struct akv_err *err);
/*
 * Look for volatile text (dates, clock times, UUIDs ...) before the last anchor: the findings become the record's `lint` field and
 * *words, one a line (malloc'd; NULL: none).
 */
AKV_API int akv_request_lint(struct akv_request *r, const struct akv_model *m, char **words, struct akv_err *err);

/* ---- sessions: look up, restore, compute, generate, save ---- */

struct akv_session;

enum akv_kv_dtype { AKV_KV_F16, AKV_KV_F32 };

struct akv_session_opts {
    uint32_t n_ctx;     /* 0: the model's */
    unsigned n_threads; /* 0: 1 */
    enum akv_kv_dtype kv;
    const char *cpu;       /* kernel table: NULL the best here, "scalar", "avx2", "avx512" */
    const char *cache_dir; /* where weights digests are kept; NULL: no cache */
    const void *salt;      /* NULL: none; else at least 16 bytes */
    size_t salt_bytes;
    const char *store_dir;      /* NULL: no store */
    bool save;                  /* publish computed pages to the store */
    bool no_reuse;              /* compute everything, look nothing up (a cold run) */
    const volatile int *cancel; /* non-zero: stop soon with AKV_E_CANCEL; may be NULL */
    void (*progress)(void *ctx, const char *what, uint32_t done, uint32_t total); /* tokens; may be NULL */
    void (*note)(void *ctx, const char *msg); /* words that are no error: a damaged page, a missing store */
    void *ctx;
};

/* What one request cost (design: cached + prefilled + missing == prompt). */
struct akv_stats {
    const char *hit;    /* "none", "partial", "full" */
    const char *source; /* "store", "stream", "arena", "none": where the last cached page came from */
    uint32_t prompt_tokens, cached_tokens, prefilled_tokens, missing_tokens, completion_tokens;
    double restore_ms, prefill_ms, ttft_ms, decode_ms;
    uint64_t bytes_read, bytes_written; /* store and stream pages, coded */
    uint32_t pages;                     /* pages restored */
    char miss[256];                     /* why, when not full; "" otherwise */
};

AKV_API int akv_session_open(struct akv_session **out, const struct akv_model *m, const struct akv_session_opts *opts,
                             struct akv_err *err);
AKV_API void akv_session_close(struct akv_session *s); /* before the model; NULL-safe */

/* Write a stream to fd: pages of every request as they are computed or restored, then the request. Finish with akv_session_finish(). */
AKV_API int akv_session_output(struct akv_session *s, int fd, const char *name, bool without_input, struct akv_err *err);
/* End the output stream (E). Nothing to do without one. */
AKV_API int akv_session_finish(struct akv_session *s, struct akv_err *err);
/* Take the pages of a stream as already known to the reader of the output: they are restored from, and left out of it. */
AKV_API int akv_session_base(struct akv_session *s, int fd, const char *name, struct akv_err *err);

/*
 * The next request of records or a stream; pages met on the way enter the arena. 1, 0 at the end, or negative; after AKV_E_INPUT from a
 * bad *record* (akv_session_can_go_on) the next call goes on, a damaged stream is final.
 */
AKV_API int akv_session_next(struct akv_session *s, struct akv_input *in, struct akv_request **out, struct akv_err *err);
AKV_API bool akv_session_can_go_on(const struct akv_session *s);

/*
 * Restore or compute all of the prompt's KV, publish and write what is asked for. A failed save is reported through *save_err (may be NULL)
 * and leaves the output whole.
 */
AKV_API int akv_session_prefill(struct akv_session *s, const struct akv_request *r, struct akv_stats *st, struct akv_err *save_err,
                                struct akv_err *err);
/* Emit what the store has of the prompt, then the request; nothing is computed. require: AKV_E_NO unless it is a full hit. */
AKV_API int akv_session_restore(struct akv_session *s, const struct akv_request *r, bool require, struct akv_stats *st,
                                struct akv_err *err);

struct akv_logprob {
    uint32_t id;
    double logprob;
};

struct akv_gen_opts { /* what the command line set; a negative value leaves it to the record */
    int64_t max_tokens;
    double temperature, top_p, min_p, repeat_penalty;
    int64_t top_k, seed;
    const char *const *stop; /* n_stop strings replace the record's when n_stop > 0 */
    size_t n_stop;
    uint32_t n_logprobs; /* top candidates to report per token, 0: no log-probabilities, at most 64 */
    bool want_logprobs;
    bool echo; /* the prompt's text comes first; with want_logprobs its log-probabilities too */
    /* Text as it becomes certain (stop strings are held back). Return non-zero to stop: AKV_E_CANCEL. */
    int (*text)(void *ctx, const char *text, size_t len);
    void *ctx;
};
AKV_API void akv_gen_opts_init(struct akv_gen_opts *o);

struct akv_reply {
    uint32_t *ids; /* generated, without the end-of-generation id */
    size_t n;
    char *text; /* the reply's bytes, the echoed prompt not included; may be invalid UTF-8 at a cut */
    size_t text_len;
    const char *finish_reason;      /* "stop", "length" (max_tokens), "context" (no room left) */
    double *logprobs;               /* [n] when asked for */
    struct akv_logprob *top;        /* [n][n_top] */
    struct akv_logprob *prompt_top; /* [prompt][n_top]: the distribution after prompt token i */
    double *prompt_logprobs;        /* [prompt]: log-probability of prompt token i+1 there; the last is 0 */
    size_t n_prompt, n_top;
};
AKV_API void akv_reply_release(struct akv_reply *reply);

/* Prefill, then generate. A failed save is reported through *save_err (may be NULL) and leaves the reply whole. */
AKV_API int akv_session_generate(struct akv_session *s, const struct akv_request *r, const struct akv_gen_opts *o,
                                 struct akv_reply *reply, struct akv_stats *st, struct akv_err *save_err, struct akv_err *err);

/* ---- stores and pins ---- */

struct akv_store;

#define AKV_STORE_CREATE 1u    /* make it, or complete a half-made one */
#define AKV_STORE_ANY_QUOTA 2u /* a quota in its config that is not one is passed over: akv_store_set_quota() replaces it */

/*
 * AKV_E_NO when it does not exist (or is half-made) and CREATE is not given: a miss with a note. AKV_E_INCOMPAT: a newer version, nothing
 * is touched. AKV_E_IO: no directory, not owned by this user or root, writable by others. AKV_E_USAGE: CREATE on a directory that holds other
 * things.
 */
AKV_API int akv_store_open(struct akv_store **out, const char *dir, unsigned flags, struct akv_err *err);
AKV_API void akv_store_close(struct akv_store *s); /* NULL-safe */
/* What a signal handler sets to end a wait for a collection by another process (AKV_E_CANCEL); it must outlive the store. */
AKV_API void akv_store_set_cancel(struct akv_store *s, const volatile int *cancel);

#define AKV_STORE_DRY_RUN 1u /* only say what would be done */
#define AKV_STORE_FORCE 2u   /* also what is younger than ten minutes */

/* What is wrong with an object or a pin. */
struct akv_flaw {
    const char *kind; /* "damaged", "unreadable", "wrong" (computed anew it has other bytes), "depends" (built on such), "pin" */
    const char *what; /* the object's place below objects/, or the pin's name */
    const char *why;
};

/* How work on a whole store is done and watched. */
struct akv_store_work {
    unsigned flags;                                    /* AKV_STORE_DRY_RUN, AKV_STORE_FORCE */
    const volatile int *cancel;                        /* non-zero: stop soon with AKV_E_CANCEL; may be NULL */
    void (*note)(void *ctx, const char *msg);          /* may be NULL */
    void (*flaw)(void *ctx, const struct akv_flaw *f); /* of akv_store_verify() and akv_session_recompute(); may be NULL */
    unsigned n_threads;                                /* 0: 1 */
    void *ctx;
};

struct akv_collected {
    uint64_t objects, bytes;          /* that the store holds now */
    uint64_t pinned_bytes, quota;     /* of objects that pins hold; quota 0: none */
    uint64_t gone, gone_bytes, temps; /* objects, their bytes, and temporary files deleted; or that would be */
};

/*
 * Delete the objects that no pin holds, and what interrupted processes left, unless used in the last ten minutes; and what such objects
 * are built on stays with them. Alone with the store: waits for others to finish publishing. AKV_E_INPUT: a pin cannot be read, nothing is
 * deleted. A dry run only reads: the store need not be writable, nor opened with AKV_STORE_CREATE.
 */
AKV_API int akv_store_collect(struct akv_store *s, const struct akv_store_work *w, struct akv_collected *done, struct akv_err *err);
/*
 * Keep the store within `quota` bytes of objects from now on (0: no quota): the chains least recently used go first, from their ends; pins
 * stay. What is too much goes at once. AKV_E_USAGE, and nothing is written: the pins alone hold more.
 */
AKV_API int akv_store_set_quota(struct akv_store *s, uint64_t quota, const struct akv_store_work *w, struct akv_collected *done,
                                struct akv_err *err);

struct akv_verified {
    uint64_t objects, bytes;
    uint64_t damaged;    /* now in quarantine */
    uint64_t unreadable; /* passed over: an I/O error, a later version; and what stands in the place of a directory of objects */
    uint64_t depends;    /* whole, but built on those */
    uint64_t open;       /* whole, but a page of their chains is not there; no failure */
    uint64_t pins, broken_pins;
};

/*
 * Check every object, without a model: structure, checksums, keys from the ids, its name, its parent, the SHA-256 of its KV bytes; and every
 * pin. Damaged objects go to quarantine. AKV_E_NO: something was found.
 */
AKV_API int akv_store_verify(struct akv_store *s, const struct akv_store_work *w, struct akv_verified *done, struct akv_err *err);

/* An object in quarantine. Strings live until the callback returns. */
struct akv_quarantined {
    const char *name;   /* of the file: the index key, a dot, a number */
    const char *reason; /* "": not known */
    uint64_t bytes;
    int64_t since; /* seconds since 1970 */
};
typedef int akv_quarantined_fn(void *ctx, const struct akv_quarantined *q, struct akv_err *err);
AKV_API int akv_store_quarantined(struct akv_store *s, akv_quarantined_fn *fn, void *ctx, struct akv_err *err); /* by name */

struct akv_recomputed {
    uint64_t pages; /* of this session's root in its store */
    uint64_t checked, wrong;
    uint64_t too_long;             /* taken, but beyond the context */
    uint64_t depends, broken_pins; /* pages that were built on wrong ones; pins with such or wrong ones */
};

/*
 * Compute up to `most` pages of the session's store again, each from its stored predecessors, beginning at a random one in the order of
 * their names, and compare bits. A wrong one and what was built on it go to quarantine, and are told with the pins that held them: AKV_E_NO.
 */
AKV_API int akv_session_recompute(struct akv_session *s, uint64_t most, const struct akv_store_work *w, struct akv_recomputed *done,
                                  struct akv_err *err);
/* Hash the weights and compare with the digest that is kept of them, which is corrected: AKV_E_NO when it was another. */
AKV_API int akv_session_check_weights(struct akv_session *s, struct akv_err *err);

/*
 * A name for a pin: 1 to 200 bytes of UTF-8, no '/', no control characters, no leading dot; AKV_E_USAGE otherwise, in all calls that take
 * one. A pin that is there may have U+0080 to U+009F in its name.
 */
AKV_API int akv_pin_name_check(const char *name, struct akv_err *err);

/* A pin: a named chain under a root. Strings live until the callback returns; "" or NULL: unknown. */
struct akv_pin {
    const char *name;
    char root[65], tip[65], content[65]; /* hex; content: SHA-256 over the SHA-256s of its pages */
    uint64_t tokens, bytes;
    const char *made_by, *options; /* the tool and its version; what it was told */
    const char *model;             /* its name, when the pin was made with the model at hand */
    char input[65];                /* SHA-256 of the stream that it was made from */
    /* of akv_pin_list() only: */
    char weights[65];                 /* the weights digest among the ingredients of its root */
    uint64_t own_bytes, shared_bytes; /* of objects that are in no other pin's chain, and in others' too */
    int64_t used;                     /* when one of its pages was last used, in seconds since 1970; 0: unknown */
    bool whole;                       /* every page is there and has a readable header */
};
typedef int akv_pin_fn(void *ctx, const struct akv_pin *pin, struct akv_err *err);

struct akv_pin_opts {
    bool all;                      /* of several tips make NAME-1, NAME-2 ... in order */
    const char *made_by, *options; /* for the pin to keep; may be NULL */
    struct akv_session *session;   /* of the model, whose name is kept; NULL: none. Of another model: a note, and no name */
    akv_pin_fn *pinned;            /* told of each pin made; may be NULL */
    void (*note)(void *ctx, const char *msg); /* also lint findings of the stream's requests; may be NULL */
    void *ctx;
};

/*
 * Publish the pages of a stream and pin its tip as name. Several tips, unless all: AKV_E_USAGE naming them. The stream's pages are trusted.
 */
AKV_API int akv_pin_stream(struct akv_store *s, struct akv_input *in, const char *name, const struct akv_pin_opts *o,
                           struct akv_err *err);
/* By name, then root. A pin that cannot be read is told to bad (may be NULL: it is an error). */
AKV_API int akv_pin_list(struct akv_store *s, akv_pin_fn *fn, void (*bad)(void *ctx, const char *name, const struct akv_err *why),
                         void *ctx, struct akv_err *err);
/*
 * root: hex (a prefix will do) or NULL. AKV_E_NO: no such pin; AKV_E_USAGE: under several roots. One that cannot be read is removed too: root
 * NULL, or 16 digits of it.
 */
AKV_API int akv_pin_remove(struct akv_store *s, const char *name, const char *root, struct akv_err *err);
AKV_API int akv_pin_rename(struct akv_store *s, const char *from, const char *to, const char *root, struct akv_err *err);
/* Write the pinned chain as a stream without requests. */
AKV_API int akv_pin_export(struct akv_store *s, const char *name, const char *root, int fd, const char *fd_name,
                           struct akv_err *err);
/* The files that make up a pin, each with the SHA-256 (hex) of its content: paths below the store. Copied elsewhere they are a store. */
AKV_API int akv_pin_manifest(struct akv_store *s, const char *name, const char *root,
                             int (*fn)(void *ctx, const char *sha256, const char *path, struct akv_err *err), void *ctx,
                             struct akv_err *err);

/* ---- the prefixes of many requests ---- */

/* Distinct prefixes, and how many requests begin with each. Takes some 100 bytes a prefix. */
struct akv_tree;

AKV_API int akv_tree_open(struct akv_tree **out, struct akv_err *err);
AKV_API void akv_tree_close(struct akv_tree *t); /* NULL-safe */
/* A prefix as a request of its own, valid in the call and free to be added to: id "NAME:key", max_tokens 0. */
typedef int akv_prefix_fn(void *ctx, struct akv_request *prefix, struct akv_err *err);
/*
 * Count the prefixes of r that end at its anchors of these names ("last": the last one; "all": every one; no names: all); fn (may be NULL)
 * is given those that no request before it had. AKV_E_NO: the record has no such anchor; then none of it counts.
 */
AKV_API int akv_tree_add(struct akv_tree *t, const struct akv_request *r, const char *const *names, size_t n_names,
                         akv_prefix_fn *fn, void *ctx, struct akv_err *err);
/* A prefix that several requests share. Strings live until the callback returns. */
struct akv_shared {
    const char *name;         /* of the anchor under which it was met first */
    char key[65], parent[65]; /* page keys, hex; parent: of the longest shared prefix that it begins with, "" for none */
    uint32_t level;           /* how many such there are above it */
    uint32_t tokens;
    uint64_t requests; /* that begin with it */
    uint64_t saved;    /* tokens behind its parent that only the first of them computes if it is kept */
};
typedef int akv_shared_fn(void *ctx, const struct akv_shared *s, struct akv_err *err);
AKV_API void akv_tree_size(const struct akv_tree *t, uint64_t *n_requests, uint64_t *n_tokens); /* of all that were added */
/* Every prefix of at least so many requests, each before those that begin with it, the most shared first. */
AKV_API int akv_tree_each(struct akv_tree *t, uint64_t least, akv_shared_fn *fn, void *ctx, struct akv_err *err);

/* ---- why a prompt does not go on from another ---- */

/* Prompts to compare with. */
struct akv_basis;

AKV_API int akv_basis_open(struct akv_basis **out, struct akv_err *err);
AKV_API void akv_basis_close(struct akv_basis *b); /* NULL-safe */
/* All records of an input; of a stream its requests or, when it has none, its chains. m as in akv_request_read(). */
AKV_API int akv_basis_read(struct akv_basis *b, struct akv_input *in, const struct akv_model *m, struct akv_err *err);
/* The chain of a pin; root as in akv_pin_remove(). */
AKV_API int akv_basis_pin(struct akv_basis *b, struct akv_store *s, const char *name, const char *root, struct akv_err *err);
/* What a store holds: all pinned chains, and the 16384 pages that were used last. */
AKV_API int akv_basis_store(struct akv_basis *b, struct akv_store *s, struct akv_err *err);
/* The i-th record or chain that was read, in order; NULL past the last. Pages of a store are none. */
AKV_API const struct akv_request *akv_basis_request(const struct akv_basis *b, size_t i);
/*
 * Where r parts from the prompt of the basis that it has most tokens in common with: one line (malloc'd), in words or as JSON; with m (may
 * be NULL) also what kind of difference it is and the text there. Returns 1 when it parts; 0 when it does not (one is the beginning of the
 * other), *line is NULL then. AKV_E_NO: nothing there has even the first token in common.
 */
AKV_API int akv_basis_explain(struct akv_basis *b, const struct akv_request *r, const struct akv_model *m, bool json, char **line,
                              struct akv_err *err);

/* ---- inspection ---- */

#define AKV_INSPECT_VERIFY 1u  /* decode every body and compare its SHA-256 */
#define AKV_INSPECT_HEADERS 2u /* headers only: bodies are passed over unchecked */

/*
 * The next record of a stream described as one line of JSON (malloc'd): {"record","offset","type",...}; see akv-inspect(1). 1, 0 at the end.
 * body (may be NULL) receives the raw KV bytes of a page, malloc'd (NULL for other records).
 */
AKV_API int akv_inspect_next(struct akv_input *in, unsigned flags, char **json, uint8_t **body, size_t *body_bytes,
                             struct akv_err *err);
/*
 * Two streams compared, as one line of JSON: ingredients of the roots, pages, where the ids part, requests, and how far the KV of the pages
 * that both have is apart, layer by layer; see akv-inspect(1). Each input is read to its end. 1: they differ, 0: they are equal.
 */
AKV_API int akv_inspect_diff(struct akv_input *a, struct akv_input *b, char **json, struct akv_err *err);
/*
 * A model file described as one line of JSON, also one that cannot be run: what can be read of it, and the reason for each thing that
 * cannot be done with it; see akv-inspect(1). pre: as in akv_model_open(). An error only when not even the file's keys can be read.
 */
AKV_API int akv_inspect_model(const char *path, const char *pre, char **json, struct akv_err *err);
/* The root of a session's pages and its ingredients: {"root","fields":{...}}. Hashes the weights unless their digest is cached. */
AKV_API int akv_session_root(struct akv_session *s, char **json, struct akv_err *err);

/* ---- benchmarks ---- */

/* What the machine can do at most, one thread each; 0: cannot be measured on this processor. */
struct akv_machine {
    double int8_gops;      /* 10^9 int8 multiply-and-adds x 2 a second: maddubs + madd + add in registers */
    double int8_i16_gops;  /* the same with eight products summed in int16 first */
    double int8_vnni_gops; /* with VNNI, 64 bytes at once */
    double int8_best_gops; /* the largest of the three */
    double fma_gflops;     /* f32 */
    double read_gbs;       /* 10^9 bytes a second read from memory */
    double cache_gbs;      /* ... from the nearest cache */
};
/* With the instructions of a kernel table (NULL: the best here; another one that cannot run here counts as "scalar"). About a second. */
AKV_API int akv_bench_machine(struct akv_machine *out, const char *cpu, struct akv_err *err);

/* One op of one kernel table on one type. Strings live until the callback returns. */
struct akv_kernel_row {
    const char *op, *type, *shape, *table; /* "mul", "Q4_1", "1 row, 1536 x 16384", "avx2"; type "": the op has none */
    double ops, bytes;                     /* of one call; a multiplication and an addition are two operations */
    double min_ns, median_ns;              /* of one call, over the runs */
    const char *limit;                     /* what bounds it: "int8", "fma", "read", "cache" */
    double share;                          /* of that limit, at the fastest; 0: the limit is not known */
    bool equal;                            /* the result is bit for bit that of the scalar table */
};
typedef int akv_kernel_fn(void *ctx, const struct akv_kernel_row *row, struct akv_err *err);

/*
 * Time every op on every type in every table that runs here, one after the other in each of `runs` rounds, and compare their results. fn
 * is told of each, the scalar table last. want (may be NULL): only ops for which it returns true. cancel as in akv_input_open().
 */
AKV_API int akv_bench_kernels(const struct akv_machine *limits, uint32_t runs,
                              bool (*want)(void *ctx, const char *op, const char *type), akv_kernel_fn *fn, void *ctx,
                              const volatile int *cancel, struct akv_err *err);

struct akv_bench_run {
    double ns, cpu_ns; /* on the clock, and of all processors that worked */
};
/*
 * Time n_prompt tokens of prefill, then n_gen tokens of decode, after n_depth tokens, reps times after a short warm-up; runs[reps]
 * receives what each took. The context must hold all three. The session is for nothing else; tokens that stand from an earlier call are
 * not computed again to reach n_depth.
 */
AKV_API int akv_bench_engine(struct akv_session *s, uint32_t n_prompt, uint32_t n_gen, uint32_t n_depth, uint32_t reps,
                             struct akv_bench_run *runs, struct akv_err *err);
/* What a restored chain's pages are. */
struct akv_bench_pages {
    uint64_t raw_bytes, coded_bytes;
    uint32_t n_raw; /* pages in the codec raw */
};
/*
 * Time restoring n_pages full pages from the session's store (which must save; they are computed first) into an empty arena, and beside it
 * reading and decompressing the same frames with zstd alone, or copying and hashing in memory those of the codec raw, by the same
 * threads: reps times in turns, after one of each that does not count. restore_ns[reps] and plain_ns[reps] receive nanoseconds. With
 * reps 0 the pages are there, and nothing is timed.
 */
AKV_API int akv_bench_restore(struct akv_session *s, uint32_t n_pages, uint32_t reps, struct akv_bench_pages *pages,
                              double *restore_ns, double *plain_ns, struct akv_err *err);
/* int8 operations of the matrix products of one token, the output matrix included only when with_output. */
AKV_API double akv_bench_token_ops(const struct akv_model *m, bool with_output);
/* Bytes of weights that decoding one token reads. */
AKV_API double akv_bench_token_bytes(const struct akv_model *m);

#ifdef __cplusplus
}
#endif
#endif
