/*
 * Inside the store: the directory and its objects as named blobs. A back end somewhere else would implement the functions of
 * objects.c and nothing above them.
 */
#ifndef AKV_STORE_STORE_DIR_H
#define AKV_STORE_STORE_DIR_H

#include <sys/stat.h>

#include "store/store.h"

/* Directories that a reader finds missing are -1: what they would hold is a miss. */
struct akv_store {
    char *dir;
    int root, objects, refs, tmp, quarantine, lock;
    unsigned n_batches, n_temps;
    enum akv_codec codec;
    /* the object last read: rec of akv_store_get() points into its reader */
    struct akv_in in;
    struct akv_reader *reader;
};

/* An object's place, relative to objects/: ab/<62 hex>.akv */
struct akv_object_name {
    char s[AKV_SHA_HEX + 5];
};

/* "store/objects/ab/…": for messages. */
#define AKV_OBJECT_FMT "%s/objects/%s"

/* Of the user or root, and not writable by others. */
int akv_store_trust(const struct stat *st, const char *path, const char *rel, struct akv_err *err);
/* Open a directory in another without following a link. The descriptor, or -1 with errno. */
int akv_store_dir(int at, const char *name);

/* A new file in tmp/, opened for writing; name receives its name. */
int akv_store_temp(struct akv_store *s, char name[64], struct akv_err *err);

int akv_object_name(struct akv_object_name *out, const struct akv_key *root, const struct akv_key *key, struct akv_err *err);
/*
 * Open for reading. The descriptor; or -1 for a miss, with why filled in when it was not plain absence. What is there but no
 * regular file goes to quarantine.
 */
int akv_object_open(struct akv_store *s, const struct akv_object_name *name, struct akv_err *why);
bool akv_object_has(struct akv_store *s, const struct akv_object_name *name);
/* Give a complete temp its name. 1: done and durable; 0: the name is taken. The temp stays: the caller unlinks it. */
int akv_object_link(struct akv_store *s, const char *temp, const struct akv_object_name *name, struct akv_err *err);
/*
 * Out of the way, with the reason beside it; fd >= 0: only if it is still that file. Best effort: a store that cannot be written
 * stays as it is.
 */
void akv_object_quarantine(struct akv_store *s, const struct akv_object_name *name, int fd, const char *reason);
/* Every object, in no order. A negative result of fn ends it and is returned. */
int akv_object_list(struct akv_store *s, int (*fn)(void *ctx, const struct akv_object_name *name, struct akv_err *err), void *ctx,
                    struct akv_err *err);

/*
 * Read an object: its H, then its P, and unless headers_only the body and that nothing but an E follows. want: the head that it
 * must have, or NULL. s->reader then holds head and page, until the next call. fd is the store's from here on. AKV_E_INPUT:
 * damaged or forged.
 */
int akv_store_read(struct akv_store *s, int fd, const struct akv_object_name *name, const struct akv_head *want, bool headers_only,
                   struct akv_err *err);
void akv_store_unread(struct akv_store *s); /* forget the object last read */

/* Put the page of this key and its descendants under this root into quarantine. */
int akv_store_condemn(struct akv_store *s, const struct akv_key *root, const struct akv_key *key, uint32_t index,
                      const char *reason, struct akv_err *err);

#endif
