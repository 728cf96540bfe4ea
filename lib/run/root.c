#include "run/root.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "engine/engine.h"

/*
 * The ingredients; hash and head sort them by tag. `salt` comes last so that it can be hashed as its digest and shown as salted=1;
 * every value is text that a mismatch can quote.
 */
int akv_root_head(struct akv_head *head, const struct akv_model *m, enum akv_kv_dtype kv, struct akv_pool *pool,
                  const char *cache_dir, const void *salt, size_t salt_bytes, struct akv_err *err)
{
    uint8_t digest[AKV_SHA_BYTES];
    char weights[AKV_SHA_HEX], tokenizer[AKV_SHA_HEX], salted[AKV_SHA_HEX], page[16];
    struct akv_model_facts facts; /* RoPE and windows */
    int rc = akv_model_digest(m, pool, cache_dir, digest, err);
    if (rc == 0)
        rc = akv_model_facts(m, &facts, err);
    if (rc < 0)
        return rc;
    akv_hex(weights, digest, sizeof digest);
    akv_hex(tokenizer, akv_tok_digest(m->tok), AKV_SHA_BYTES);
    snprintf(page, sizeof page, "%u", AKV_PAGE_TOKENS);

    enum { N_FIXED = 7 };
    struct akv_root_field fields[N_FIXED + AKV_FACTS_MAX + 1] = {
        {"format", "akv/1"},           {"kv", kv == AKV_KV_F16 ? "f16" : "f32"},
        {"layout", "k-dims-v-tokens"}, /* K dimension-major, V token-major within the page */
        {"numerics", AKV_NUMERICS},    {"page", page},
        {"tokenizer", tokenizer},      {"weights", weights},
    };
    size_t n = N_FIXED;
    for (size_t i = 0; i < facts.n; i++)
        fields[n++] = (struct akv_root_field){facts.fact[i].tag, facts.fact[i].value};
    struct akv_head h = {.fields = fields, .n_fields = n};
    akv_engine_geom(m, kv, &h.geom);
    if (salt) {
        rc = akv_sha256(digest, salt, salt_bytes, err);
        if (rc < 0)
            return rc;
        akv_hex(salted, digest, sizeof digest);
        fields[n] = (struct akv_root_field){"salt", salted};
        h.n_fields = ++n;
    }
    rc = akv_root_hash(&h.root, fields, n, err);
    if (rc == 0 && salt)
        fields[n - 1] = (struct akv_root_field){"salted", "1"};
    return rc < 0 ? rc : akv_head_copy(head, &h, err);
}
