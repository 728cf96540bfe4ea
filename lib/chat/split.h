/*
 * What is done with finished token records: cut a prefix at an anchor, compare two, look for text that will not be the same next time.
 */
#ifndef AKV_CHAT_SPLIT_H
#define AKV_CHAT_SPLIT_H

#include "chat/record.h"

/* What the first n tokens of a record say, and where each of them ends in that. Zeroed before, released after, also on failure. */
struct akv_split_text {
    struct akv_buf b;
    size_t *ends;
};
int akv_split_text_read(struct akv_split_text *t, const struct akv_record *r, size_t n, const struct akv_tok *tok,
                        struct akv_err *err);
void akv_split_text_release(struct akv_split_text *t);

/* A place to cut. The name lives in the record. */
struct akv_split_place {
    const char *name;
    uint32_t at;
};

/*
 * The places that `what` names: an anchor, "last" (the last anchor) or "all" (each position once, under its first name), ascending.
 * An anchor really called "last" or "all" is found first. *out: *n places, malloc'd. AKV_E_NO: the record has no such anchor.
 */
int akv_split_places(const struct akv_record *r, const char *what, struct akv_split_place **out, size_t *n, struct akv_err *err);

/*
 * The first `place->at` tokens as a record of their own: id "NAME:key", max_tokens 0, spans and anchors cut there. key: hex, of those tokens.
 * Other fields of r, unknown ones included, speak of the whole and are left out.
 */
int akv_split_prefix(struct akv_record *out, const struct akv_record *r, const struct akv_split_place *place, const char *key,
                     struct akv_err *err);

/*
 * The last position up to `at` at which the text before and the text after, each encoded alone, give the record's ids; 0 when there is none
 * or the search grew too long.
 */
int akv_split_safe(const struct akv_record *r, const struct akv_tok *tok, uint32_t at, uint32_t *safe, struct akv_err *err);

/* Where two records part. */
struct akv_split_diff {
    bool equal;                   /* the same ids */
    bool is_prefix;               /* one is the beginning of the other */
    size_t at;                    /* the first differing position, or the length of the shorter */
    const struct akv_span *a, *b; /* the span that `at` lies in, on either side; NULL: none */
};
void akv_split_compare(const struct akv_record *a, const struct akv_record *b, struct akv_split_diff *diff);

/* The span that holds position at, or NULL. */
const struct akv_span *akv_split_span(const struct akv_record *r, size_t at);

#define AKV_EXCERPT 40 /* bytes of a prompt that may be quoted */

/* A piece of text that is likely to differ the next time. */
struct akv_finding {
    const char *kind; /* "date", "clock", "timestamp", "uuid", "hex", "id", "path"; akv_split_lint: also "order", "control" */
    size_t at, len;   /* bytes of the text */
    char excerpt[AKV_EXCERPT + 1]; /* its beginning: whole characters, control bytes as spaces */
    /* akv_split_lint: */
    uint32_t pos;     /* the token it begins in */
    const char *span; /* the kind of the span, "" outside of any; owned by the record */
    uint32_t
        cost; /* tokens up to the last anchor, from the beginning of the page: lost whenever the text changes; 0: does not apply */
    const char *per; /* how often that is: "day", "minute", "session", "request" */
};

/* Findings in any text, ascending, at most AKV_FINDINGS_MAX. *out is malloc'd. */
#define AKV_FINDINGS_MAX 1000
int akv_lint_text(const char *text, size_t len, struct akv_finding **out, size_t *n, struct akv_err *err);

/*
 * Findings in the text before the last anchor (nothing without anchors): volatile text, but not what is said to be an example, a version
 * or the like; "order" when much text that does not change stands behind it; control tokens that a message's own text spells. At most
 * AKV_FINDINGS_MAX.
 */
int akv_split_lint(const struct akv_record *r, const struct akv_tok *tok, struct akv_finding **out, size_t *n, struct akv_err *err);

/* "date at token 57 (system), 480 tokens a day: 2026-01-15" */
void akv_finding_words(const struct akv_finding *f, struct akv_buf *out);

/* The findings' words as the record's `lint` field, an array of strings: replaces it, removes it when there are none. */
int akv_split_set_lint(struct akv_record *r, const struct akv_finding *findings, size_t n, struct akv_err *err);

#endif
