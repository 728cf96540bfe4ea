/* Inside the store: its directory. */
#ifndef AKV_STORE_STORE_DIR_H
#define AKV_STORE_STORE_DIR_H

#include <dirent.h>
#include <sys/stat.h>

#include "store/objects.h"

/* Directories that a reader finds missing are -1: what they would hold is a miss. */
struct akv_store {
    char *dir;
    const struct akv_object_ops *ops;
    int root, objects, refs, tmp, quarantine, lock;
    unsigned n_batches, n_temps;
    const volatile int *cancel; /* ends a wait for the lock or for a reader; may be NULL */
    enum akv_codec codec;       /* of the config, as it was when config was its state */
    uint64_t quota;             /* 0: none */
    bool any_quota;             /* one that is none is passed over */
    struct stat config;
    bool fan_durable[256]; /* objects/ab is known to survive a loss of power */
    struct {
        struct akv_key root, key;
        uint32_t index;
        bool any;
    } last;                   /* the page last published here: its name is durable */
    struct akv_object object; /* the one last read: rec of akv_store_get() points into it */
};

/* "store/objects/ab/…": for messages. */
#define AKV_OBJECT_FMT "%s/objects/%s"

/* Of the user or root, and not writable by others. */
int akv_store_trust(const struct stat *st, const char *path, const char *rel, struct akv_err *err);
/* Open a directory in another without following a link. The descriptor, or -1 with errno; EPERM: not to be trusted. */
int akv_store_dir(int at, const char *name);
/* The same to be read: closedir() it. NULL with errno. */
DIR *akv_store_list(int at, const char *name);
/* AKV_E_IO in words, after either has failed for that directory of the store. */
int akv_store_fail_dir(const struct akv_store *s, const char *rel, const char *name, struct akv_err *err);

/* A new file in tmp/, opened for writing; name receives its name. */
int akv_store_temp(struct akv_store *s, char name[64], struct akv_err *err);
/* One with this content, synced and closed; none is left after an error. */
int akv_store_temp_of(struct akv_store *s, char name[64], const void *p, size_t n, struct akv_err *err);

/*
 * The exclusive lock: nobody publishes or collects. Taken inside a batch it may let another one in between, for a moment at its
 * begin and its end: what was looked at before must be looked at again. An error of either leaves the batch without a lock: it must end.
 */
int akv_store_alone_begin(struct akv_store *s, struct akv_err *err);
int akv_store_alone_end(struct akv_store *s, struct akv_err *err);

/*
 * The shared lock for one who only reads, in a store that may not be writable: if there is a lock file and it can be opened, else none.
 * Nests with the others.
 */
int akv_store_look_begin(struct akv_store *s, struct akv_err *err);
void akv_store_look_end(struct akv_store *s);

/* ---- config.c ---- */

/* A small text file into text (NUL-terminated, cut at size - 1). 1, 0 when it is absent. */
int akv_store_read_text(struct akv_store *s, const char *name, char *text, size_t size, struct akv_err *err);
/* Whole or not at all. replace: else the one that is there stays, so that the first of two processes wins. */
int akv_store_write_text(struct akv_store *s, const char *name, const char *text, bool replace, struct akv_err *err);
/* Fill codec and quota, if the file has changed since. */
int akv_store_read_config(struct akv_store *s, struct akv_err *err);
int akv_store_write_quota(struct akv_store *s, uint64_t quota, struct akv_err *err); /* 0: none */

/* ---- usage.c, collect.c: under a quota ---- */

uint64_t akv_store_now(struct akv_store *s); /* seconds since 1970 by the clock of its file system; 0: it cannot be asked */
/* Count an object that is about to be published. 1; 0: there is no room, or that is not known. */
int akv_usage_reserve(struct akv_store *s, uint64_t bytes, struct akv_err *err);
void akv_usage_return(struct akv_store *s, uint64_t bytes); /* it was not published */
int akv_usage_set(struct akv_store *s, uint64_t objects, uint64_t bytes, struct akv_err *err);
/*
 * Make room for an object that follows the page `own` (NULL: none), and count it. Within a batch; others may have come in between.
 * AKV_E_IO: there is no room. Nothing to do without a quota.
 */
int akv_store_reserve(struct akv_store *s, const struct akv_key *root, const struct akv_key *own, uint64_t bytes,
                      struct akv_err *err);

/*
 * Put the page of this key and its descendants under this root into quarantine, if its bytes are still those of that SHA-256: 1; 0: they
 * are not, for another process was first. Takes the exclusive lock (see there).
 */
int akv_store_condemn(struct akv_store *s, const struct akv_key *root, const struct akv_key *key,
                      const uint8_t raw_sha[AKV_SHA_BYTES], const char *reason, struct akv_err *err);

/* One finding, to whom the work has for it. */
void akv_store_tell(const struct akv_store_work *w, const char *kind, const char *what, const char *why);

#endif
