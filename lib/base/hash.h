/* SHA-256 (OpenSSL EVP) with the field encoding of the keys, and XXH64. */
#ifndef AKV_BASE_HASH_H
#define AKV_BASE_HASH_H

#include "base/err.h"

#define AKV_SHA_BYTES 32
#define AKV_SHA_HEX (2 * AKV_SHA_BYTES + 1)

struct akv_sha {
    void *ctx; /* EVP_MD_CTX */
    bool failed;
};

/* Start, also again after akv_sha_end() on the same object. A failure inside is sticky and reported by akv_sha_end(). */
void akv_sha_begin(struct akv_sha *s);
void akv_sha_add(struct akv_sha *s, const void *p, size_t n);
void akv_sha_field(struct akv_sha *s, const void *p, size_t n); /* u32-LE length, then the bytes */
int akv_sha_end(struct akv_sha *s, uint8_t out[AKV_SHA_BYTES], struct akv_err *err);
void akv_sha_release(struct akv_sha *s); /* NULL-safe on a zeroed object */

/* One call. */
int akv_sha256(uint8_t out[AKV_SHA_BYTES], const void *p, size_t n, struct akv_err *err);

uint64_t akv_xxh64(const void *p, size_t n);

#endif
