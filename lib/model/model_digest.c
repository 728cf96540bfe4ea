/*
 * The weights digest: SHA-256 over these fields (u32-LE length, then the bytes), in this order:
 *
 *   for every tensor of the model, in ascending byte order of names:
 *     name
 *     type, as in the dtype table                    "Q4_1"
 *     dimensions in decimal, row length first        "576x49152"; as many as the file gives
 *     SHA-256 of its data                            32 raw bytes
 *   then the hyperparameters that determine KV bytes, "key=value", sorted:
 *     architecture=llama  dim_k=64  dim_v=64  n_embd=576  n_ff=1536  n_heads=9  n_kv_heads=3  n_layers=30  n_rot=64
 *     rms_eps=3727c5ac  rope_base=47c35000           binary32 bits in hex
 *     rope_style=pairs                               or halves
 *
 * Values are those in effect: a default and the same value spelled out give one digest.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "model/digest_cache.h"
#include "model/model.h"

struct job {
    size_t tensor; /* index by name */
    size_t bytes;
    int rc;
};

struct hashing {
    const struct akv_gguf *g;
    struct job *jobs;
    uint8_t (*sha)[AKV_SHA_BYTES]; /* by name */
};

/* The largest first: one that starts last would leave the other threads waiting. */
static int compare_jobs(const void *a, const void *b)
{
    const struct job *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return x->tensor < y->tensor ? -1 : 1;
}

static void hash_tensor(void *ctx, size_t task, unsigned thread)
{
    struct hashing *h = ctx;
    struct job *j = &h->jobs[task];
    (void)thread;
    j->rc = akv_sha256(h->sha[j->tensor], h->g->tensors_by_name[j->tensor]->data, j->bytes, NULL);
}

static int hash_tensors(const struct akv_gguf *g, struct akv_pool *pool, uint8_t (*sha)[AKV_SHA_BYTES], struct akv_err *err)
{
    struct hashing h = {.g = g, .sha = sha, .jobs = akv_alloc(g->n_tensors, sizeof *h.jobs, err)};
    if (!h.jobs)
        return AKV_E_IO;
    for (size_t i = 0; i < g->n_tensors; i++)
        h.jobs[i] = (struct job){.tensor = i, .bytes = g->tensors_by_name[i]->bytes};
    qsort(h.jobs, g->n_tensors, sizeof *h.jobs, compare_jobs);
    akv_pool_run(pool, hash_tensor, &h, g->n_tensors);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < g->n_tensors; i++)
        if (h.jobs[i].rc < 0)
            rc = akv_fail(err, AKV_E_IO, "%s: SHA-256 of the weights failed", g->path);
    free(h.jobs);
    return rc;
}

static void add_tensor(struct akv_sha *s, const struct akv_tensor *t, const uint8_t sha[AKV_SHA_BYTES])
{
    struct akv_shown dims = akv_tensor_dims(t);
    const char *type = akv_dtypes[t->dtype].name;
    akv_sha_field(s, t->name.s, t->name.len);
    akv_sha_field(s, type, strlen(type));
    akv_sha_field(s, dims.s, strlen(dims.s));
    akv_sha_field(s, sha, AKV_SHA_BYTES);
}

static uint32_t float_bits(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

static void add_hparams(struct akv_sha *s, const struct akv_model *m)
{
    const struct akv_hparams *hp = &m->hp;
    char text[12][48];
    snprintf(text[0], sizeof text[0], "architecture=%s", m->arch->name);
    snprintf(text[1], sizeof text[1], "dim_k=%u", hp->dim_k);
    snprintf(text[2], sizeof text[2], "dim_v=%u", hp->dim_v);
    snprintf(text[3], sizeof text[3], "n_embd=%u", hp->n_embd);
    snprintf(text[4], sizeof text[4], "n_ff=%u", hp->n_ff);
    snprintf(text[5], sizeof text[5], "n_heads=%u", hp->n_heads);
    snprintf(text[6], sizeof text[6], "n_kv_heads=%u", hp->n_kv_heads);
    snprintf(text[7], sizeof text[7], "n_layers=%u", hp->n_layers);
    snprintf(text[8], sizeof text[8], "n_rot=%u", hp->n_rot);
    snprintf(text[9], sizeof text[9], "rms_eps=%08x", float_bits(hp->rms_eps));
    snprintf(text[10], sizeof text[10], "rope_base=%08x", float_bits(hp->rope_base));
    snprintf(text[11], sizeof text[11], "rope_style=%s", hp->rope_style == AKV_ROPE_PAIRS ? "pairs" : "halves");
    for (size_t i = 0; i < sizeof text / sizeof *text; i++)
        akv_sha_field(s, text[i], strlen(text[i]));
}

/* Hashes of all tensors from the data, into the cache too. */
static int make_hashes(const struct akv_gguf *g, struct akv_pool *pool, const char *dir, uint8_t (*sha)[AKV_SHA_BYTES],
                       struct akv_err *err)
{
    struct timespec t = {0};
    clock_gettime(CLOCK_REALTIME, &t);
    int rc = hash_tensors(g, pool, sha, err);
    if (rc < 0 || (rc = akv_gguf_restat(g, err)) < 0)
        return rc;
    if (dir)
        akv_digest_cache_put(dir, &g->stamp, (const uint8_t(*)[AKV_SHA_BYTES])sha, g->n_tensors,
                             (int64_t)t.tv_sec * 1000000000 + t.tv_nsec);
    return 0;
}

static int get_hashes(const struct akv_gguf *g, struct akv_pool *pool, const char *dir, uint8_t (*sha)[AKV_SHA_BYTES],
                      struct akv_err *err)
{
    int rc = akv_gguf_restat(g, err);
    if (rc < 0 || (dir && akv_digest_cache_get(dir, &g->stamp, sha, g->n_tensors)))
        return rc;
    return make_hashes(g, pool, dir, sha, err);
}

int akv_model_recheck(const struct akv_model *m, struct akv_pool *pool, const char *cache_dir, struct akv_err *err)
{
    const struct akv_gguf *g = &m->gguf;
    uint8_t(*sha)[AKV_SHA_BYTES] = akv_alloc(2 * g->n_tensors, sizeof *sha, err);
    if (!sha)
        return AKV_E_IO;
    bool kept = cache_dir && akv_digest_cache_get(cache_dir, &g->stamp, sha + g->n_tensors, g->n_tensors);
    int rc = make_hashes(g, pool, cache_dir, sha, err);
    if (rc == 0 && kept && memcmp(sha, sha + g->n_tensors, g->n_tensors * sizeof *sha))
        rc =
            akv_fail(err, AKV_E_NO,
                     "%s: the weights have changed, though size, times and inode have not: what was saved since is wrong", g->path);
    free(sha);
    return rc;
}

int akv_model_digest(const struct akv_model *m, struct akv_pool *pool, const char *cache_dir, uint8_t out[AKV_SHA_BYTES],
                     struct akv_err *err)
{
    const struct akv_gguf *g = &m->gguf;
    struct akv_sha s;
    if (!m->arch)
        return akv_fail(err, AKV_E_USAGE, "%s: opened for its vocabulary only: no weights to hash", g->path);
    uint8_t(*sha)[AKV_SHA_BYTES] = akv_alloc(g->n_tensors, sizeof *sha, err);
    if (!sha)
        return AKV_E_IO;
    int rc = get_hashes(g, pool, cache_dir, sha, err);
    if (rc == 0) {
        akv_sha_begin(&s);
        for (size_t i = 0; i < g->n_tensors; i++)
            add_tensor(&s, g->tensors_by_name[i], sha[i]);
        add_hparams(&s, m);
        rc = akv_sha_end(&s, out, err);
    }
    free(sha);
    return rc;
}
