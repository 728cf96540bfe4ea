/* A rendered chat as token ids, and where it may be cut. Private to lib/chat. */
#ifndef AKV_CHAT_IDS_H
#define AKV_CHAT_IDS_H

#include "chat/chat_given.h"

struct akv_chat_ids {
    const struct akv_tok *tok;
    const struct akv_buf *text;
    struct akv_ids ids;
    struct akv_ids at;                     /* at[i]: the byte of text where token i starts; ascending */
    const struct akv_chat_layout *literal; /* control tokens in its contents are text; NULL: are control tokens */
    bool *given;                           /* given[i]: token i was handed in by akv_ids, not made from text */
    size_t n_lost;                         /* bytes that the vocabulary cannot express */
    size_t work_left;                      /* tokens that proofs may still encode */
};

/*
 * Encode text (borrowed), taking the ids of the n given parts (ascending) as they are; begin with a bos where the tokenizer would. literal:
 * the layout of the text if control tokens in its contents are text, else NULL; borrowed.
 */
int akv_chat_encode(struct akv_chat_ids *c, const struct akv_tok *tok, const struct akv_buf *text,
                    const struct akv_chat_given *given, size_t n_given, const struct akv_chat_layout *literal, struct akv_err *err);
/* Ids that are there already: text receives what they say. */
int akv_chat_ids_of(struct akv_chat_ids *c, const struct akv_tok *tok, const uint32_t *ids, size_t n, struct akv_buf *text,
                    struct akv_err *err);
void akv_chat_ids_release(struct akv_chat_ids *c);

/* The token where a boundary lies: the last one in floor..at next to a control token, else the first that starts at `at` or after it. */
size_t akv_chat_position(const struct akv_chat_ids *c, const struct akv_chat_place *place);

/*
 * Where the ids may be cut for a boundary: *wanted is its position, *safe the last position up to it at which the text before and the text
 * after, each encoded alone, give the same ids as together, also with other text after it unless a control token stands there; 0 when there
 * is none or the search grew too long. last: the layout, if the boundary is the end of the last message; else NULL. AKV_E_IO only.
 */
int akv_chat_cut(struct akv_chat_ids *c, const struct akv_chat_place *place, const struct akv_chat_layout *last, size_t *wanted,
                 size_t *safe, struct akv_err *err);
/* The same for a position instead of a boundary: *safe is the last such position up to pos. */
int akv_chat_cut_at(struct akv_chat_ids *c, size_t pos, size_t *safe, struct akv_err *err);

#endif
