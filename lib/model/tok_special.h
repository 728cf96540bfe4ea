/*
 * Added tokens found in running text: at each position the longest one wins. A set is the texts in byte order, searched by
 * narrowing a range byte by byte; an index by first byte keeps plain text fast.
 */
#ifndef AKV_MODEL_TOK_SPECIAL_H
#define AKV_MODEL_TOK_SPECIAL_H

#include "model/tok_vocab.h"

/* Longer texts are no markers and are never recognised: this bounds the work at a position. */
#define AKV_TOKSPECIAL_MAX 256u

struct akv_tokspecial {
    struct akv_tokspecial_text {
        const char *s;
        uint32_t len, id;
    } * texts; /* sorted bytewise, no two equal */
    uint32_t n;
    uint32_t first[257]; /* texts that begin with byte b: [first[b], first[b + 1]) */
    int only;            /* the one first byte there is, or -1 */
};

/*
 * The user-defined tokens, and with control also control and unknown ones. space_mark: of a kind that writes spaces as U+2581;
 * there a user-defined token of spaces only is found in text only where U+2581 is written out, since runs of spaces belong to the
 * kind. warn may be NULL.
 */
int akv_tokspecial_open(struct akv_tokspecial *s, const struct akv_tokvocab *v, bool control, bool space_mark, struct akv_buf *warn,
                        struct akv_err *err);
void akv_tokspecial_close(struct akv_tokspecial *s);

/*
 * The first added token in text at or after from: its position and *len, *id; or text_len when there is none.
 */
size_t akv_tokspecial_next(const struct akv_tokspecial *s, const char *text, size_t text_len, size_t from, size_t *len,
                           uint32_t *id);

/* The token that is exactly this text, or AKV_TOKVOCAB_NONE. */
uint32_t akv_tokspecial_find(const struct akv_tokspecial *s, const char *text, size_t len);

#endif
