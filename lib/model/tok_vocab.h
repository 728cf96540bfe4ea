/*
 * The token texts of a GGUF, by id and by text, and the byte alphabet that byte-level vocabularies are written in.
 * Texts stay in the mapping; the index is two arrays and one hash table.
 */
#ifndef AKV_MODEL_TOK_VOCAB_H
#define AKV_MODEL_TOK_VOCAB_H

#include <string.h>

#include "base/buf.h"
#include "model/gguf.h"

#define AKV_TOKVOCAB_NONE UINT32_MAX

enum akv_toktype { /* tokenizer.ggml.token_type */
                   AKV_TOKTYPE_NORMAL = 1,
                   AKV_TOKTYPE_UNKNOWN = 2,
                   AKV_TOKTYPE_CONTROL = 3,
                   AKV_TOKTYPE_USER = 4,
                   AKV_TOKTYPE_UNUSED = 5,
                   AKV_TOKTYPE_BYTE = 6
};

/*
 * A text as the table knows it. Up to 16 bytes, as nearly all are, a and b and len are the text itself (its first and last 8 bytes), so
 * that finding it reads one slot and nothing else; of a longer one a is its hash, and the text is compared.
 */
struct akv_tokname {
    uint64_t a, b, hash;
    uint32_t len;
};

struct akv_tokslot {
    uint64_t a, b;
    uint32_t len;
    uint32_t id; /* AKV_TOKVOCAB_NONE: free */
};

struct akv_tokvocab {
    uint32_t n;
    uint32_t max_len;       /* the longest text, bytes */
    uint32_t n_duplicates;  /* texts that an earlier token has already; find returns the earliest */
    const uint8_t *strings; /* the tokens array in the file: per string a u64 length, then its bytes */
    uint32_t *at;           /* [n + 1] where the bytes of token i start in strings; at[n] is where a further one would */
    uint8_t *type;          /* [n] enum akv_toktype */
    uint32_t n_slots;
    struct akv_tokslot *slots; /* by text; only tokens that plain text may become (not control, user-defined or unknown) */
};

/* Read tokens and token_type. Errors and warnings as in akv_tok_open(). */
int akv_tokvocab_open(struct akv_tokvocab *v, const struct akv_gguf *g, struct akv_buf *warn, struct akv_err *err);
/* The table by text, for all that finds. */
int akv_tokvocab_index(struct akv_tokvocab *v, const struct akv_gguf *g, struct akv_buf *warn, struct akv_err *err);
void akv_tokvocab_close(struct akv_tokvocab *v); /* safe on a zeroed or failed object */

__extension__ typedef unsigned __int128 akv_tokwide;

static inline uint64_t akv_tok_fold(uint64_t a, uint64_t b)
{
    akv_tokwide m = (akv_tokwide)a * b;
    return (uint64_t)m ^ (uint64_t)(m >> 64);
}

static inline uint64_t akv_tok_load(const char *p, size_t n)
{
    uint64_t x = 0;
    uint32_t y;
    if (n == 8) {
        memcpy(&x, p, 8);
        return x;
    }
    memcpy(&y, p, 4);
    return y;
}

uint64_t akv_tok_hash_long(const char *s, size_t len); /* of more than 16 bytes */

/* Hashes are fast, not for hostile keys without a bound on the probes, and never leave the process. */
static inline struct akv_tokname akv_tokname_of(const char *s, size_t len)
{
    struct akv_tokname name = {.len = (uint32_t)len};
    if (len > 16) {
        name.a = name.hash = akv_tok_hash_long(s, len);
        return name;
    }
    if (len >= 8) {
        name.a = akv_tok_load(s, 8);
        name.b = akv_tok_load(s + len - 8, 8);
    } else if (len >= 4) {
        name.a = akv_tok_load(s, 4) | akv_tok_load(s + len - 4, 4) << 32;
    } else if (len > 0) {
        name.a = (uint64_t)(uint8_t)s[0] << 16 | (uint64_t)(uint8_t)s[len / 2] << 8 | (uint8_t)s[len - 1];
    }
    name.hash = akv_tok_fold(akv_tok_fold(name.a ^ 0xd1342543de82ef95u, name.b ^ 0x9e3779b97f4a7c15u ^ len), 0x9e3779b97f4a7c15u);
    return name;
}

/* A slot of n for a hash without a division: its low half decides. */
static inline uint32_t akv_tok_slot(uint64_t hash, uint32_t n)
{
    return (uint32_t)(((hash & UINT32_MAX) * n) >> 32);
}

/* The id of a token of plain text, or AKV_TOKVOCAB_NONE. */
uint32_t akv_tokvocab_find(const struct akv_tokvocab *v, const char *s, size_t len);
uint32_t akv_tokvocab_find_name(const struct akv_tokvocab *v, const char *s, const struct akv_tokname *name);

/* For many look-ups at once: have what find reads brought into the caches. */
static inline void akv_tokvocab_fetch(const struct akv_tokvocab *v, const struct akv_tokname *name)
{
    __builtin_prefetch(&v->slots[akv_tok_slot(name->hash, v->n_slots)]);
}

static inline struct akv_str akv_tokvocab_text(const struct akv_tokvocab *v, uint32_t id)
{
    return (struct akv_str){(const char *)v->strings + v->at[id], v->at[id + 1] - v->at[id] - 8u};
}

/* Whether the token's text is written in plain characters: an added token. */
static inline bool akv_tokvocab_is_plain(const struct akv_tokvocab *v, uint32_t id)
{
    return v->type[id] == AKV_TOKTYPE_CONTROL || v->type[id] == AKV_TOKTYPE_USER || v->type[id] == AKV_TOKTYPE_UNKNOWN;
}

/*
 * Memory of n entries for a hash table, all bytes 0xff; free() it. In huge pages when it is large: it is read all over the place.
 */
void *akv_tok_alloc_table(size_t n, size_t size, struct akv_err *err);

/* Longest chain in any hash table here; a vocabulary made to exceed it is refused, so that no lookup can be slow. */
#define AKV_TOK_PROBES 512u

/*
 * The byte alphabet: printable Latin-1 characters stand for themselves, the other 68 bytes, in order, for U+0100 to U+0143.
 * put writes the UTF-8 of a byte's character (1 or 2 bytes) and returns its length. get reads one character: its byte, or -1
 * when it is none of the alphabet; *used receives the length.
 */
size_t akv_tokbyte_put(char out[2], uint8_t byte);
int akv_tokbyte_get(const char *s, size_t len, size_t *used);

/* Bytes that the text stands for: append them to out. Texts with a character outside the alphabet stand for themselves. */
void akv_tokbyte_decode(struct akv_buf *out, struct akv_str text);
size_t akv_tokbyte_count(struct akv_str text); /* how many akv_tokbyte_decode() would append */

#endif
