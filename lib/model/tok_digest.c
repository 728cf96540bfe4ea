#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "model/tok_priv.h"

#define ARRAY_HEAD 12 /* bytes between the type of an array value and its first element: u32 element type, u64 count */

/* Made when it is first asked for: to hash a vocabulary takes as long as to open it for decoding. */
struct akv_tokdigest {
    const struct akv_gguf *g;
    const char *pre_name;
    pthread_mutex_t lock;
    bool known;
    uint8_t sha[AKV_SHA_BYTES];
};

static bool starts_with(struct akv_str s, const char *prefix)
{
    size_t n = strlen(prefix);
    return s.len >= n && memcmp(s.s, prefix, n) == 0;
}

static bool counts(struct akv_str key)
{
    return starts_with(key, "tokenizer.") && !starts_with(key, "tokenizer.chat_template");
}

int akv_tokdigest_open(struct akv_tokdigest **out, const struct akv_gguf *g, const char *pre_name, struct akv_err *err)
{
    for (uint64_t i = 0; i < g->n_kv; i++) {
        const struct akv_gguf_kv *kv = &g->kv[i];
        if (counts(kv->key) && kv->bytes > UINT32_MAX - ARRAY_HEAD)
            return akv_fail(err, AKV_E_INPUT, "%s: %s: %zu bytes are too many for a tokenizer key", g->path,
                            akv_str_show(kv->key).s, kv->bytes);
    }
    struct akv_tokdigest *d = akv_alloc(1, sizeof *d, err);
    if (!d)
        return AKV_E_IO;
    *d = (struct akv_tokdigest){.g = g, .pre_name = pre_name};
    pthread_mutex_init(&d->lock, NULL);
    *out = d;
    return 0;
}

void akv_tokdigest_close(struct akv_tokdigest *d)
{
    if (!d)
        return;
    pthread_mutex_destroy(&d->lock);
    free(d);
}

static void add_kv(struct akv_sha *sha, const struct akv_gguf_kv *kv)
{
    char type[16];
    size_t head = kv->type == AKV_GGUF_ARRAY ? ARRAY_HEAD : 0;
    int n = snprintf(type, sizeof type, "%u", kv->type);
    akv_sha_field(sha, kv->key.s, kv->key.len);
    akv_sha_field(sha, type, (size_t)n);
    akv_sha_field(sha, kv->value - head, kv->bytes + head);
}

static void compute(struct akv_tokdigest *d)
{
    char pre[64];
    struct akv_sha sha;
    akv_sha_begin(&sha);
    for (uint64_t i = 0; i < d->g->n_kv; i++) {
        if (counts(d->g->kv_by_name[i]->key))
            add_kv(&sha, d->g->kv_by_name[i]);
    }
    int n = snprintf(pre, sizeof pre, "pre=%s", d->pre_name);
    assert(n > 0 && (size_t)n < sizeof pre); /* a name of ours */
    akv_sha_field(&sha, pre, (size_t)n);
    int rc = akv_sha_end(&sha, d->sha, NULL);
    assert(rc == 0); /* it fails for fields that are too long, which open refused */
    (void)rc;
}

const uint8_t *akv_tokdigest_get(struct akv_tokdigest *d)
{
    pthread_mutex_lock(&d->lock);
    if (!d->known)
        compute(d);
    d->known = true;
    pthread_mutex_unlock(&d->lock);
    return d->sha;
}
