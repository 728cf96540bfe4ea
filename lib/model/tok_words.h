/*
 * Words met before in one encode call, so that a repeated one costs a look-up. One cache line each, replaced on collision; longer
 * words, longer results and those that lose bytes are not kept.
 */
#ifndef AKV_MODEL_TOK_WORDS_H
#define AKV_MODEL_TOK_WORDS_H

#include <string.h>

#include "base/err.h"
#include "model/tok_merge.h"

#define AKV_TOKWORD_BYTES 16u
#define AKV_TOKWORD_IDS 11u

struct akv_tokword {
    uint64_t key[AKV_TOKWORD_BYTES / 8]; /* the bytes, zero-filled */
    uint8_t len;                         /* 0: free */
    uint8_t n;
    uint32_t ids[AKV_TOKWORD_IDS];
};

struct akv_tokwords {
    struct akv_tokword *slots;
    uint32_t n; /* a power of two */
};

/* Room that suits a text of that length; free() slots. */
static inline int akv_tokwords_open(struct akv_tokwords *words, size_t text_len, struct akv_err *err)
{
    for (words->n = 16; words->n < 16384 && words->n < text_len / 16;)
        words->n *= 2;
    words->slots = akv_alloc(words->n, sizeof *words->slots, err);
    return words->slots ? 0 : AKV_E_IO;
}

/*
 * The slot of a word of len <= AKV_TOKWORD_BYTES bytes: *known when it holds the word's ids. Else it is free and waits for
 * akv_tokword_keep().
 */
static inline struct akv_tokword *akv_tokwords_at(struct akv_tokwords *words, const char *s, size_t len, bool *known)
{
    uint64_t key[2] = {0, 0};
    memcpy(key, s, len);
    uint64_t h = (key[0] ^ key[1] * 0x9e3779b97f4a7c15u) * 0xd1342543de82ef95u;
    struct akv_tokword *w = &words->slots[(h ^ h >> 29) >> 32 & (words->n - 1)];
    *known = w->len == len && w->key[0] == key[0] && w->key[1] == key[1];
    if (!*known) {
        w->len = 0;
        w->key[0] = key[0];
        w->key[1] = key[1];
    }
    return w;
}

/* Remember the tokens of the word of that slot, if they fit. */
static inline void akv_tokword_keep(struct akv_tokword *w, size_t len, const struct akv_toksym *sym, size_t n)
{
    if (n > AKV_TOKWORD_IDS)
        return;
    w->len = (uint8_t)len;
    w->n = (uint8_t)n;
    for (size_t i = 0; i < n; i++)
        w->ids[i] = sym[i].id;
}

#endif
