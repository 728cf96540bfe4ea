/* The root of a run: everything but the ids that determines KV bytes (design: keys and identity). */
#ifndef AKV_RUN_ROOT_H
#define AKV_RUN_ROOT_H

#include "base/pool.h"
#include "model/model.h"
#include "snap/snap.h"

#define AKV_SALT_MIN 16 /* bytes; fewer could be guessed */

/* Fill *head for this model, KV dtype and salt. Hashes the weights unless cache_dir has their digest. */
int akv_root_head(struct akv_head *head, const struct akv_model *m, enum akv_kv_dtype kv, struct akv_pool *pool,
                  const char *cache_dir, const void *salt, size_t salt_bytes, struct akv_err *err);

/* The same without what takes time or a secret: no weights among the fields, no salt, a root of zeros. */
int akv_root_known(struct akv_head *head, const struct akv_model *m, enum akv_kv_dtype kv, struct akv_err *err);

#endif
