#include "kv/key.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

int akv_page_key(struct akv_key *out, const struct akv_key *prev, const uint32_t *ids, size_t n, struct akv_err *err)
{
    /* field(prev) | field(ids) | field(""): put together first, because one digest call on 300 bytes beats three updates */
    uint8_t msg[4 + AKV_SHA_BYTES + 4 + 4 * AKV_PAGE_TOKENS + 4];
    size_t at = 4;
    if (n > AKV_PAGE_TOKENS)
        return akv_fail(err, AKV_E_USAGE, "page key: %zu tokens in a page of %u", n, AKV_PAGE_TOKENS);
    akv_put_u32(msg, prev ? AKV_SHA_BYTES : 0);
    if (prev) {
        memcpy(msg + at, prev->b, AKV_SHA_BYTES);
        at += AKV_SHA_BYTES;
    }
    akv_put_u32(msg + at, (uint32_t)(4 * n));
    at += 4;
    for (size_t i = 0; i < n; i++, at += 4)
        akv_put_u32(msg + at, ids[i]);
    akv_put_u32(msg + at, 0);
    return akv_sha256(out->b, msg, at + 4, err);
}

int akv_chain_keys(struct akv_key *keys, const uint32_t *ids, size_t n, struct akv_err *err)
{
    size_t n_pages = n / AKV_PAGE_TOKENS + (n % AKV_PAGE_TOKENS != 0);
    for (size_t i = 0; i < n_pages; i++) {
        size_t from = i * AKV_PAGE_TOKENS;
        size_t len = n - from < AKV_PAGE_TOKENS ? n - from : AKV_PAGE_TOKENS;
        int rc = akv_page_key(&keys[i], i ? &keys[i - 1] : NULL, ids + from, len, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

int akv_index_key(struct akv_key *out, const void *root, size_t root_len, const struct akv_key *page, struct akv_err *err)
{
    struct akv_sha sha;
    akv_sha_begin(&sha);
    akv_sha_field(&sha, root, root_len);
    akv_sha_field(&sha, page->b, sizeof page->b);
    return akv_sha_end(&sha, out->b, err);
}

bool akv_key_eq(const struct akv_key *a, const struct akv_key *b)
{
    return memcmp(a->b, b->b, sizeof a->b) == 0;
}

static int by_tag(const void *a, const void *b)
{
    const struct akv_root_field *const *x = a, *const *y = b;
    return strcmp((*x)->tag, (*y)->tag);
}

int akv_root_hash(struct akv_key *out, const struct akv_root_field *fields, size_t n, struct akv_err *err)
{
    struct akv_sha sha;
    const struct akv_root_field **sorted = akv_alloc(n, sizeof *sorted, err);
    int rc = sorted ? 0 : AKV_E_IO;
    if (rc < 0)
        goto out;
    for (size_t i = 0; i < n; i++)
        sorted[i] = &fields[i];
    qsort(sorted, n, sizeof *sorted, by_tag);
    akv_sha_begin(&sha);
    for (size_t i = 0; i < n; i++) {
        const char *tag = sorted[i]->tag, *value = sorted[i]->value;
        size_t tag_len = strlen(tag), value_len = strlen(value);
        /* an empty tag, '=' in a tag or the same tag twice would make two ingredient lists hash alike */
        if (!tag_len || memchr(tag, '=', tag_len) || (i && !strcmp(sorted[i - 1]->tag, tag))) {
            rc = akv_fail(err, AKV_E_USAGE, "root: bad or repeated tag '%s'", tag);
            goto out;
        }
        uint8_t len[4];
        akv_put_u32(len, (uint32_t)(tag_len + 1 + value_len));
        akv_sha_add(&sha, len, sizeof len);
        akv_sha_add(&sha, tag, tag_len);
        akv_sha_add(&sha, "=", 1);
        akv_sha_add(&sha, value, value_len);
    }
    rc = akv_sha_end(&sha, out->b, err);
out:
    free(sorted);
    return rc;
}
