/* Page keys, index keys and roots (design.md 5). All keys are raw SHA-256 values. */
#ifndef AKV_KV_KEY_H
#define AKV_KV_KEY_H

#include "base/hash.h"

#define AKV_PAGE_TOKENS 64u

struct akv_key {
    uint8_t b[AKV_SHA_BYTES];
};

/* Key of a page: prev is the previous full page's key, or NULL for the first; ids[n] are this page's ids, 0 <= n <= 64. */
int akv_page_key(struct akv_key *out, const struct akv_key *prev, const uint32_t *ids, size_t n, struct akv_err *err);

/* Keys of all pages of a prompt, the partial tail included: keys[(n + 63) / 64]. */
int akv_chain_keys(struct akv_key *keys, const uint32_t *ids, size_t n, struct akv_err *err);

/* H(field(root) | field(page key)); root is raw bytes of any length (32 outside tests). */
int akv_index_key(struct akv_key *out, const void *root, size_t root_len, const struct akv_key *page, struct akv_err *err);

bool akv_key_eq(const struct akv_key *a, const struct akv_key *b);

/* One ingredient of a root. Values are text; digests as lower-case hex; floats as hex bits ("47c35000"). */
struct akv_root_field {
    const char *tag, *value;
};

/* H over field("tag=value") sorted by tag (bytewise). */
int akv_root_hash(struct akv_key *out, const struct akv_root_field *fields, size_t n, struct akv_err *err);

#endif
