#include "model/tok_vocab.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/err.h"

#define KEY_TOKENS "tokenizer.ggml.tokens"
#define KEY_TYPES "tokenizer.ggml.token_type"

/* Multiply and fold 16 bytes at a time; the last two words may overlap the ones before. */
uint64_t akv_tok_hash_long(const char *s, size_t len)
{
    const uint64_t k0 = 0x9e3779b97f4a7c15u, k1 = 0xd1342543de82ef95u;
    uint64_t h = k0 ^ len;
    for (size_t i = 0; i + 16 < len; i += 16)
        h = akv_tok_fold(akv_tok_load(s + i, 8) ^ k1, akv_tok_load(s + i + 8, 8) ^ h);
    return akv_tok_fold(akv_tok_fold(akv_tok_load(s + len - 16, 8) ^ k1, akv_tok_load(s + len - 8, 8) ^ h), k0);
}

void *akv_tok_alloc_table(size_t n, size_t size, struct akv_err *err)
{
    void *p = akv_alloc_huge(n, size, err);
    return p ? memset(p, 0xff, n * size) : NULL;
}

/* The slot that holds the text, or the free slot where it belongs, or NULL after AKV_TOK_PROBES. */
static struct akv_tokslot *probe(const struct akv_tokvocab *v, const char *s, const struct akv_tokname *name)
{
    uint32_t i = akv_tok_slot(name->hash, v->n_slots);
    for (unsigned n = 0; n < AKV_TOK_PROBES; n++) {
        struct akv_tokslot *slot = &v->slots[i];
        if (slot->id == AKV_TOKVOCAB_NONE || (slot->a == name->a && slot->b == name->b && slot->len == name->len &&
                                              (name->len <= 16 || !memcmp(v->strings + v->at[slot->id], s, name->len))))
            return slot;
        if (++i == v->n_slots)
            i = 0;
    }
    return NULL;
}

uint32_t akv_tokvocab_find_name(const struct akv_tokvocab *v, const char *s, const struct akv_tokname *name)
{
    const struct akv_tokslot *slot = probe(v, s, name);
    return slot ? slot->id : AKV_TOKVOCAB_NONE;
}

uint32_t akv_tokvocab_find(const struct akv_tokvocab *v, const char *s, size_t len)
{
    struct akv_tokname name;
    if (len > v->max_len)
        return AKV_TOKVOCAB_NONE;
    name = akv_tokname_of(s, len);
    return akv_tokvocab_find_name(v, s, &name);
}

static int read_tokens(struct akv_tokvocab *v, const struct akv_gguf *g, struct akv_err *err)
{
    const struct akv_gguf_kv *kv = akv_gguf_find(g, KEY_TOKENS);
    if (!kv)
        return akv_fail(err, AKV_E_INPUT, "%s: " KEY_TOKENS ": the key is missing", g->path);
    if (kv->type != AKV_GGUF_ARRAY || kv->elem_type != AKV_GGUF_STRING)
        return akv_fail(err, AKV_E_INPUT, "%s: " KEY_TOKENS " at byte %llu: not an array of strings", g->path,
                        (unsigned long long)kv->offset);
    if (kv->n == 0 || kv->n >= UINT32_MAX / 2 || kv->bytes > UINT32_MAX - 8)
        return akv_fail(err, AKV_E_INPUT, "%s: " KEY_TOKENS " at byte %llu: %llu tokens in %zu bytes are not a vocabulary", g->path,
                        (unsigned long long)kv->offset, (unsigned long long)kv->n, kv->bytes);
    v->n = (uint32_t)kv->n;
    v->strings = kv->value;
    v->at = akv_alloc(v->n + 1u, sizeof *v->at, err);
    v->type = akv_alloc(v->n, 1, err);
    if (!v->at || !v->type)
        return AKV_E_IO;
    const uint8_t *walk = NULL;
    for (uint32_t i = 0; i < v->n; i++) {
        struct akv_str s = akv_gguf_next_string(kv, &walk);
        v->at[i] = (uint32_t)((const uint8_t *)s.s - v->strings);
        if (s.len > v->max_len)
            v->max_len = (uint32_t)s.len;
    }
    v->at[v->n] = (uint32_t)kv->bytes + 8u;
    return 0;
}

static int read_types(struct akv_tokvocab *v, const struct akv_gguf *g, struct akv_buf *warn, struct akv_err *err)
{
    const struct akv_gguf_kv *kv = akv_gguf_find(g, KEY_TYPES);
    memset(v->type, AKV_TOKTYPE_NORMAL, v->n);
    if (!kv)
        return 0;
    if (kv->type != AKV_GGUF_ARRAY || (kv->elem_type != AKV_GGUF_I32 && kv->elem_type != AKV_GGUF_U32))
        return akv_fail(err, AKV_E_INPUT, "%s: " KEY_TYPES " at byte %llu: not an array of i32", g->path,
                        (unsigned long long)kv->offset);
    if (kv->n != v->n)
        return akv_fail(err, AKV_E_INPUT, "%s: " KEY_TYPES " at byte %llu: %llu types for %u tokens", g->path,
                        (unsigned long long)kv->offset, (unsigned long long)kv->n, v->n);
    uint32_t n_odd = 0;
    for (uint32_t i = 0; i < v->n; i++) {
        uint32_t type = akv_get_u32(kv->value + (size_t)i * 4);
        if (type >= AKV_TOKTYPE_NORMAL && type <= AKV_TOKTYPE_BYTE)
            v->type[i] = (uint8_t)type;
        else
            n_odd++;
    }
    if (n_odd)
        akv_buf_printf(warn, KEY_TYPES ": %u types are not 1 to 6 and are taken as normal\n", n_odd);
    return 0;
}

int akv_tokvocab_index(struct akv_tokvocab *v, const struct akv_gguf *g, struct akv_buf *warn, struct akv_err *err)
{
    v->n_slots = v->n + v->n / 2 + 16;
    v->slots = akv_tok_alloc_table(v->n_slots, sizeof *v->slots, err);
    if (!v->slots)
        return AKV_E_IO;
    uint32_t first = 0;
    for (uint32_t i = 0; i < v->n; i++) {
        if (akv_tokvocab_is_plain(v, i))
            continue;
        struct akv_str s = akv_tokvocab_text(v, i);
        struct akv_tokname name = akv_tokname_of(s.s, s.len);
        struct akv_tokslot *slot = probe(v, s.s, &name);
        if (!slot)
            return akv_fail(err, AKV_E_INPUT, "%s: " KEY_TOKENS ": token %u: the texts collide on purpose", g->path, i);
        if (slot->id == AKV_TOKVOCAB_NONE)
            *slot = (struct akv_tokslot){name.a, name.b, name.len, i};
        else if (v->n_duplicates++ == 0)
            first = i;
    }
    if (v->n_duplicates)
        akv_buf_printf(warn, KEY_TOKENS ": %u tokens repeat the text of an earlier one, which is used (first: token %u)\n",
                       v->n_duplicates, first);
    return 0;
}

int akv_tokvocab_open(struct akv_tokvocab *v, const struct akv_gguf *g, struct akv_buf *warn, struct akv_err *err)
{
    *v = (struct akv_tokvocab){0};
    int rc = read_tokens(v, g, err);
    if (rc == 0)
        rc = read_types(v, g, warn, err);
    return rc;
}

void akv_tokvocab_close(struct akv_tokvocab *v)
{
    free(v->slots);
    free(v->type);
    free(v->at);
    *v = (struct akv_tokvocab){0};
}
