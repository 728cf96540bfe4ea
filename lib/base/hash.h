/* SHA-256 (OpenSSL) with the field encoding of the keys, and XXH64. */
#ifndef AKV_BASE_HASH_H
#define AKV_BASE_HASH_H

/*
 * Not through EVP: a process's first digest would take a millisecond and two megabytes there, as OpenSSL sets up all that it has, and
 * each short one three times as long. These functions have been marked as deprecated since 3.0, which this passes over.
 */
#define OPENSSL_API_COMPAT 0x10100000L
#include <openssl/sha.h>

#include "base/err.h"

#define AKV_SHA_BYTES 32
#define AKV_SHA_HEX (2 * AKV_SHA_BYTES + 1)

struct akv_sha { /* owns nothing */
    SHA256_CTX ctx;
    bool failed;
};

/* Start, also again on the same object. A failure is sticky and reported by akv_sha_end(): a field too long for its length. */
void akv_sha_begin(struct akv_sha *s);
void akv_sha_add(struct akv_sha *s, const void *p, size_t n);
void akv_sha_field(struct akv_sha *s, const void *p, size_t n); /* u32-LE length, then the bytes */
int akv_sha_end(struct akv_sha *s, uint8_t out[AKV_SHA_BYTES], struct akv_err *err);

/* One call. */
int akv_sha256(uint8_t out[AKV_SHA_BYTES], const void *p, size_t n, struct akv_err *err);

uint64_t akv_xxh64(const void *p, size_t n);

#endif
