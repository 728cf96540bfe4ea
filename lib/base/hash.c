#include "base/hash.h"

#include <xxhash.h>

#include "base/bytes.h"

void akv_sha_begin(struct akv_sha *s)
{
    s->failed = SHA256_Init(&s->ctx) != 1;
}

void akv_sha_add(struct akv_sha *s, const void *p, size_t n)
{
    if (!s->failed && n && SHA256_Update(&s->ctx, p, n) != 1)
        s->failed = true;
}

void akv_sha_field(struct akv_sha *s, const void *p, size_t n)
{
    uint8_t len[4];
    if (n > UINT32_MAX)
        s->failed = true;
    akv_put_u32(len, (uint32_t)n);
    akv_sha_add(s, len, sizeof len);
    akv_sha_add(s, p, n);
}

int akv_sha_end(struct akv_sha *s, uint8_t out[AKV_SHA_BYTES], struct akv_err *err)
{
    if (s->failed || SHA256_Final(out, &s->ctx) != 1)
        return akv_fail(err, AKV_E_IO, "SHA-256: the OpenSSL digest failed");
    return 0;
}

int akv_sha256(uint8_t out[AKV_SHA_BYTES], const void *p, size_t n, struct akv_err *err)
{
    struct akv_sha s;
    akv_sha_begin(&s);
    akv_sha_add(&s, p, n);
    return akv_sha_end(&s, out, err);
}

uint64_t akv_xxh64(const void *p, size_t n)
{
    return XXH64(p, n, 0);
}
