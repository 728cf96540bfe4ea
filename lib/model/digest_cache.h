/*
 * Private to the weights digest: hashes of a file's tensors, kept from run to run. They depend on the file's content alone, not on
 * this version's idea of hyperparameters, so an entry never outlives its truth.
 */
#ifndef AKV_MODEL_DIGEST_CACHE_H
#define AKV_MODEL_DIGEST_CACHE_H

#include "base/hash.h"
#include "model/gguf.h"

/* Fill sha[0..n) from dir's entry for this state of the file; false: no entry, or none that can be trusted. */
bool akv_digest_cache_get(const char *dir, const struct akv_stamp *stamp, uint8_t (*sha)[AKV_SHA_BYTES], size_t n);

/*
 * Keep them; dir and its parents are made when missing. Nothing is written when the file changed less than two seconds before
 * now_ns (the realtime clock when hashing began): another change could hide behind the same ctime. What writers that died have left is
 * removed after ten minutes. Trouble is silent.
 */
void akv_digest_cache_put(const char *dir, const struct akv_stamp *stamp, const uint8_t (*sha)[AKV_SHA_BYTES], size_t n,
                          int64_t now_ns);

#endif
