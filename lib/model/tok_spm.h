/*
 * SentencePiece vocabularies of the BPE sort: which neighbours merge and how early is said by the score of what they make.
 *
 * In token texts U+2581 stands for a space. Text is handled with plain spaces as long as possible ("space form") and written with
 * U+2581 ("marked") only where it meets token texts.
 */
#ifndef AKV_MODEL_TOK_SPM_H
#define AKV_MODEL_TOK_SPM_H

#include "model/tok_merge.h"

#define AKV_TOKSPM_MARK "\xe2\x96\x81" /* U+2581 */
#define AKV_TOKSPM_MARK_BYTES 3u
#define AKV_TOKSPM_RUNS 85u /* longest run of spaces that is looked for as one user-defined token */

struct akv_tokspm {
    const struct akv_tokvocab *vocab;
    const struct akv_gguf_kv *scores;     /* f32 a token */
    bool prefix;                          /* a space goes before text */
    uint32_t byte_id[256];                /* the token of a byte (type byte, <0xXX>), or AKV_TOKVOCAB_NONE */
    uint32_t run_id[AKV_TOKSPM_RUNS + 1]; /* the user-defined token of so many spaces, or NONE */
    uint32_t shortest_run, longest_run;   /* of those there are; UINT32_MAX and 0 when there is none */
    uint32_t inner[256][8];               /* bit b of [a]: some token has byte a before byte b, in space form */
};

/*
 * Reads scores and add_space_prefix; decode_only: no single score, and not the texts. Errors and warnings as in akv_tok_open(). Owns
 * nothing.
 */
int akv_tokspm_open(struct akv_tokspm *m, const struct akv_tokvocab *v, const struct akv_gguf *g, bool decode_only,
                    struct akv_buf *warn, struct akv_err *err);

/* Whether no token reaches over the border between byte a and byte b of text in space form. */
static inline bool akv_tokspm_parts(const struct akv_tokspm *m, char a, char b)
{
    return !(m->inner[(uint8_t)a][(uint8_t)b >> 5] >> ((uint8_t)b & 31) & 1);
}

/*
 * Merge a piece of marked, valid UTF-8: always the pair that makes the token of the highest score, of equal ones the leftmost,
 * until none is left. Only tokens of type normal are made. A character that is no token keeps AKV_TOKVOCAB_NONE as its id. sym has
 * room for a symbol a character; returns how many there are, SIZE_MAX when out of memory. Time O(n log n).
 */
size_t akv_tokspm_merge(const struct akv_tokspm *m, const char *s, uint32_t len, struct akv_toksym *sym,
                        struct akv_tokscratch *scratch);

/* Bytes that marked text has in space form. */
size_t akv_tokspm_width(const char *s, size_t len);

/* Whether the text is spaces only, written either way; *n receives how many (> 0). */
bool akv_tokspm_is_run(struct akv_str text, size_t *n);

/* The byte that "<0xXX>" names, or -1. */
int akv_tokspm_byte(struct akv_str text);

#endif
