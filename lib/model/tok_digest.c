#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "model/tok_priv.h"

#define ARRAY_HEAD 12 /* bytes between the type of an array value and its first element: u32 element type, u64 count */

static bool starts_with(struct akv_str s, const char *prefix)
{
    size_t n = strlen(prefix);
    return s.len >= n && memcmp(s.s, prefix, n) == 0;
}

static bool counts(struct akv_str key)
{
    return starts_with(key, "tokenizer.") && !starts_with(key, "tokenizer.chat_template");
}

static int by_key(const void *pa, const void *pb)
{
    struct akv_str a = (*(const struct akv_gguf_kv *const *)pa)->key, b = (*(const struct akv_gguf_kv *const *)pb)->key;
    int c = memcmp(a.s, b.s, a.len < b.len ? a.len : b.len);
    if (c == 0 && a.len != b.len)
        c = a.len < b.len ? -1 : 1;
    return c;
}

static int add_kv(struct akv_sha *sha, const struct akv_gguf_kv *kv, const struct akv_gguf *g, struct akv_err *err)
{
    char type[16];
    size_t head = kv->type == AKV_GGUF_ARRAY ? ARRAY_HEAD : 0;
    if (kv->bytes > UINT32_MAX - ARRAY_HEAD)
        return akv_fail(err, AKV_E_INPUT, "%s: %s: %zu bytes are too many for a tokenizer key", g->path, akv_str_show(kv->key).s,
                        kv->bytes);
    int n = snprintf(type, sizeof type, "%u", kv->type);
    akv_sha_field(sha, kv->key.s, kv->key.len);
    akv_sha_field(sha, type, (size_t)n);
    akv_sha_field(sha, kv->value - head, kv->bytes + head);
    return 0;
}

int akv_tok_compute_digest(uint8_t digest[AKV_SHA_BYTES], const struct akv_gguf *g, const char *pre_name, struct akv_err *err)
{
    struct akv_sha sha;
    size_t n = 0;
    int rc = 0;
    const struct akv_gguf_kv **list = akv_alloc(g->n_kv, sizeof *list, err);
    struct akv_buf pre;
    akv_buf_init(&pre, 0);
    if (!list) {
        rc = AKV_E_IO;
        goto out;
    }
    for (uint64_t i = 0; i < g->n_kv; i++) {
        if (counts(g->kv[i].key))
            list[n++] = &g->kv[i];
    }
    qsort(list, n, sizeof *list, by_key);
    akv_sha_begin(&sha);
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = add_kv(&sha, list[i], g, err);
    akv_buf_puts(&pre, "pre=");
    akv_buf_puts(&pre, pre_name);
    if (rc == 0)
        rc = akv_buf_check(&pre, "tokenizer digest", err);
    if (rc == 0) {
        akv_sha_field(&sha, pre.data, pre.len);
        rc = akv_sha_end(&sha, digest, err);
    }
out:
    akv_buf_release(&pre);
    free(list);
    return rc;
}
