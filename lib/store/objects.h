/*
 * Where a store keeps its objects: immutable blobs by name, behind a table of functions, so that another place is one more file.
 * The only place there is: the directory objects/ of a local store.
 */
#ifndef AKV_STORE_OBJECTS_H
#define AKV_STORE_OBJECTS_H

#include "store/store.h"

/* An object's place, relative to objects/: ab/<62 hex>.akv */
struct akv_object_name {
    char s[AKV_SHA_HEX + 5];
};

struct akv_object_info {
    uint64_t bytes;
    int64_t used;      /* when it was last used: ns since 1970 */
    uint64_t instance; /* differs between two objects that had one name at different times */
};

typedef int akv_object_fn(void *ctx, const struct akv_object_name *name, struct akv_err *err);
typedef void akv_blocked_fn(void *ctx, const char *place, const char *why);

/* has, ahead, open, get, touch and set_aside may be called by several threads at once. */
struct akv_object_ops {
    /* Whether an object of that name is there; its content is not looked at. info may be NULL. */
    bool (*has)(struct akv_store *s, const struct akv_object_name *name, struct akv_object_info *info);
    /* Begin to fetch what will be asked for next, without waiting. false: there is certainly none of that name. */
    bool (*ahead)(struct akv_store *s, const struct akv_object_name *name);
    /*
     * A descriptor that gives its bytes from the first on, and the caller's to close. 1; 0: it is not there; an error when it cannot be
     * read, AKV_E_INPUT for what can be no object, of which info tells the instance.
     */
    int (*open)(struct akv_store *s, const struct akv_object_name *name, int *fd, struct akv_object_info *info,
                struct akv_err *err);
    /* Append its bytes from..from+most, fewer at its end, to `into`. Results as of open. */
    int (*get)(struct akv_store *s, const struct akv_object_name *name, uint64_t from, size_t most, struct akv_buf *into,
               struct akv_object_info *info, struct akv_err *err);
    /* Publish a complete file of tmp/. 1: done and durable; 0: the name is taken. The temp stays: the caller unlinks it. */
    int (*put)(struct akv_store *s, const char *temp, const struct akv_object_name *name, struct akv_err *err);
    /* Take it away; nothing to do when it is not there. */
    int (*remove)(struct akv_store *s, const struct akv_object_name *name, struct akv_err *err);
    /* Make durable whether an object of that name is there, whoever put it there or took it away. */
    int (*settle)(struct akv_store *s, const struct akv_object_name *name, struct akv_err *err);
    /* Mark use. Best effort: a store that cannot be written keeps no recency. */
    void (*touch)(struct akv_store *s, const struct akv_object_name *name);
    /* Every object, in no order. A negative result of fn ends it and is returned. */
    int (*list)(struct akv_store *s, akv_object_fn *fn, void *ctx, struct akv_err *err);
    /* The places where objects can be neither kept nor found because of what stands there; list passes them over. */
    void (*blocked)(struct akv_store *s, akv_blocked_fn *fn, void *ctx);
    /*
     * Move it to quarantine/ with the reason beside it, if it is still the instance that was seen. Best effort: a store that cannot be
     * written stays as it is.
     */
    void (*set_aside)(struct akv_store *s, const struct akv_object_name *name, const struct akv_object_info *seen,
                      const char *reason);
};

extern const struct akv_object_ops akv_objects_dir;

struct akv_object_name akv_object_path(const struct akv_key *name);            /* of an index key */
bool akv_object_key(struct akv_key *name, const struct akv_object_name *path); /* and back */
/* Of a page under a root. */
int akv_object_name(struct akv_object_name *out, const struct akv_key *root, const struct akv_key *key, struct akv_err *err);

#define AKV_OBJECT_HEADERS ((size_t)4096) /* the headers of H and P lie in there, except in odd objects */

/* An object that was read: its bytes and what they say. One for each thread that reads. */
struct akv_object {
    struct akv_object_info info;
    struct akv_buf bytes;
    int fd; /* -1: closed */
    uint8_t ahead[AKV_OBJECT_HEADERS];
    struct akv_in in;          /* over bytes, or over fd with ahead for a buffer */
    struct akv_reader *reader; /* its head and page; the page points into bytes */
};
void akv_object_init(struct akv_object *o);
void akv_object_release(struct akv_object *o);
void akv_object_forget(struct akv_object *o); /* what was read; keeps the memory */

/*
 * Read an object: its H, then its P, and unless headers_only the body and that nothing but an E follows. want: the head that it
 * must have, or NULL. 1: o holds head and page; 0: it is not there; AKV_E_INPUT: damaged or forged (not yet in quarantine).
 */
int akv_object_read(struct akv_store *s, struct akv_object *o, const struct akv_object_name *name, const struct akv_head *want,
                    bool headers_only, struct akv_err *err);
/*
 * Or in parts, for a body that the caller takes from o->in by itself: begin reads H and the header of P, end sees that nothing but an E
 * follows. Results as of akv_object_read().
 */
int akv_object_begin(struct akv_store *s, struct akv_object *o, const struct akv_object_name *name, const struct akv_head *want,
                     struct akv_err *err);
int akv_object_end(struct akv_object *o, struct akv_err *err);

#endif
