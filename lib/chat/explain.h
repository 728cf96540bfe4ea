/*
 * Two prompts, one of which was expected to begin like the other: where they part, what kind of difference it is, what it costs.
 */
#ifndef AKV_CHAT_EXPLAIN_H
#define AKV_CHAT_EXPLAIN_H

#include "chat/split.h"

struct akv_explain {
    bool parts;                   /* false: equal, or one is the beginning of the other; nothing below is set then */
    size_t token;                 /* the first differing token */
    size_t lost;                  /* tokens of b, from the beginning of that page, that would have been there if nothing differed */
    const struct akv_span *a, *b; /* the span that `token` lies in, on either side; NULL: none */
    const char *kind;             /* a word or a few, static; NULL: cannot be told without the text */
    struct akv_buf detail;        /* more words, or empty */
    bool has_text;
    size_t byte, line;            /* of the first differing byte; lines count from 1 */
    struct akv_buf before, after; /* excerpts of a and b: at most AKV_EXCERPT bytes each */
};

/*
 * Why does b not go on from a? The text, and so most kinds, need the tokenizer (NULL: none). AKV_E_INCOMPAT: records of two tokenizers.
 * e is zeroed before and released after, also on failure; it borrows from the records.
 */
int akv_explain(struct akv_explain *e, const struct akv_record *a, const struct akv_record *b, const struct akv_tok *tok,
                struct akv_err *err);
void akv_explain_release(struct akv_explain *e);

/* One line, without the newline. */
void akv_explain_words(const struct akv_explain *e, const struct akv_record *a, const struct akv_record *b, struct akv_buf *out);
json_t *akv_explain_json(const struct akv_explain *e, const struct akv_record *a, const struct akv_record *b);

/* ---- of its own: what the texts say ---- */

struct akv_side {
    const char *s;
    size_t len;
    size_t lo, hi;    /* the span that the difference lies in, or all of the text */
    const char *role; /* kind of that span; "" none */
};
struct akv_sides {
    struct akv_side a, b;
    size_t at; /* the texts are equal up to here and differ here */
};

/* A piece of text on both sides, from the same place. */
struct akv_piece {
    size_t from, a_to, b_to;
};

/* A kind of value that both sides have there ("date", "uuid", "number" ...), and where it stands; NULL: none. */
const char *akv_explain_value(const struct akv_sides *s, struct akv_piece *piece);
/* "reordered tools", "reordered keys", "whitespace" of JSON; NULL: none of these. */
const char *akv_explain_order(const struct akv_sides *s);
bool akv_explain_is_blank(const struct akv_sides *s);
bool akv_explain_is_thinking(const struct akv_sides *s);

#endif
