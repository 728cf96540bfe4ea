/* Inside the store: its directory. */
#ifndef AKV_STORE_STORE_DIR_H
#define AKV_STORE_STORE_DIR_H

#include <sys/stat.h>

#include "store/objects.h"

/* Directories that a reader finds missing are -1: what they would hold is a miss. */
struct akv_store {
    char *dir;
    const struct akv_object_ops *ops;
    int root, objects, refs, tmp, quarantine, lock;
    unsigned n_batches, n_temps;
    enum akv_codec codec;
    struct akv_object object; /* the one last read: rec of akv_store_get() points into it */
};

/* "store/objects/ab/…": for messages. */
#define AKV_OBJECT_FMT "%s/objects/%s"

/* Of the user or root, and not writable by others. */
int akv_store_trust(const struct stat *st, const char *path, const char *rel, struct akv_err *err);
/* Open a directory in another without following a link. The descriptor, or -1 with errno. */
int akv_store_dir(int at, const char *name);

/* A new file in tmp/, opened for writing; name receives its name. */
int akv_store_temp(struct akv_store *s, char name[64], struct akv_err *err);

/* Put the page of this key and its descendants under this root into quarantine. */
int akv_store_condemn(struct akv_store *s, const struct akv_key *root, const struct akv_key *key, uint32_t index,
                      const char *reason, struct akv_err *err);

#endif
