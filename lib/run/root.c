#include "run/root.h"

#include <stdio.h>

#include "base/bytes.h"
#include "engine/engine.h"

/* Every value is text that a mismatch can quote. */
struct ingredients {
    struct akv_root_field field[AKV_FACTS_MAX + 9];
    size_t n;
    struct akv_model_facts facts; /* RoPE and windows */
    char weights[AKV_SHA_HEX], tokenizer[AKV_SHA_HEX], salt[AKV_SHA_HEX], page[16];
};

static void add(struct ingredients *in, const char *tag, const char *value)
{
    in->field[in->n++] = (struct akv_root_field){tag, value};
}

/* All that is known without reading the weights. */
static int begin(struct ingredients *in, const struct akv_model *m, enum akv_kv_dtype kv, struct akv_err *err)
{
    in->n = 0;
    int rc = akv_model_facts(m, &in->facts, err);
    if (rc < 0)
        return rc;
    akv_hex(in->tokenizer, akv_tok_digest(m->tok), AKV_SHA_BYTES);
    snprintf(in->page, sizeof in->page, "%u", AKV_PAGE_TOKENS);
    add(in, "format", "akv/1");
    add(in, "kv", kv == AKV_KV_F16 ? "f16" : "f32");
    add(in, "layout", "k-dims-v-tokens"); /* K dimension-major, V token-major within the page */
    add(in, "numerics", AKV_NUMERICS);
    add(in, "page", in->page);
    add(in, "tokenizer", in->tokenizer);
    for (size_t i = 0; i < in->facts.n; i++)
        add(in, in->facts.fact[i].tag, in->facts.fact[i].value);
    return 0;
}

static int finish(struct akv_head *head, struct ingredients *in, const struct akv_key *root, const struct akv_model *m,
                  enum akv_kv_dtype kv, struct akv_err *err)
{
    struct akv_head h = {.root = *root, .fields = in->field, .n_fields = in->n};
    akv_engine_geom(m, kv, &h.geom);
    return akv_head_copy(head, &h, err);
}

int akv_root_known(struct akv_head *head, const struct akv_model *m, enum akv_kv_dtype kv, struct akv_err *err)
{
    struct ingredients in;
    int rc = begin(&in, m, kv, err);
    return rc < 0 ? rc : finish(head, &in, &(struct akv_key){0}, m, kv, err);
}

/* Hash and head sort the fields by tag. The salt comes last so that it can be hashed as its digest and shown as salted=1. */
int akv_root_head(struct akv_head *head, const struct akv_model *m, enum akv_kv_dtype kv, struct akv_pool *pool,
                  const char *cache_dir, const void *salt, size_t salt_bytes, struct akv_err *err)
{
    uint8_t digest[AKV_SHA_BYTES];
    struct ingredients in;
    struct akv_key root;
    int rc = akv_model_digest(m, pool, cache_dir, digest, err);
    if (rc == 0)
        rc = begin(&in, m, kv, err);
    if (rc < 0)
        return rc;
    akv_hex(in.weights, digest, sizeof digest);
    add(&in, "weights", in.weights);
    if (salt) {
        rc = akv_sha256(digest, salt, salt_bytes, err);
        if (rc < 0)
            return rc;
        akv_hex(in.salt, digest, sizeof digest);
        add(&in, "salt", in.salt);
    }
    rc = akv_root_hash(&root, in.field, in.n, err);
    if (rc == 0 && salt)
        in.field[in.n - 1] = (struct akv_root_field){"salted", "1"};
    return rc < 0 ? rc : finish(head, &in, &root, m, kv, err);
}
