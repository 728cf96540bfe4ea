/*
 * Pre-tokenizers: how text is cut into the pieces that merges work on. One row each in tok_pre_rows.c.
 *
 * A row is a list of patterns applied in turn: every match becomes a piece of its own and so does the text between two matches;
 * the next pattern then cuts each of these pieces alone, so that "end of text" in it means the end of the piece.
 */
#ifndef AKV_MODEL_TOK_PRE_H
#define AKV_MODEL_TOK_PRE_H

#include "base/err.h"

#define AKV_TOKPRE_PATTERNS 6u

#define AKV_TOKPRE_NFC 1u           /* text is brought to Unicode NFC first */
#define AKV_TOKPRE_IGNORE_MERGES 2u /* a piece that is a token as a whole is that token, whatever the merges say */
#define AKV_TOKPRE_ADD_BOS 4u       /* bos is added unless tokenizer.ggml.add_bos_token says otherwise */
/*
 * The last pattern takes a run of ASCII letters, with at most one space before it and nothing or another ASCII character after
 * it, as one piece. WORDS: any such run; CASED: small letters with at most one capital in front, if no apostrophe follows. Such
 * pieces are found without the pattern.
 */
#define AKV_TOKPRE_WORDS 8u
#define AKV_TOKPRE_CASED 16u

struct akv_tokpre_row {
    const char *name;
    unsigned flags;
    const char *patterns[AKV_TOKPRE_PATTERNS + 1]; /* PCRE2, UTF and UCP; none matches empty text; ends with NULL */
};

extern const struct akv_tokpre_row akv_tokpre_rows[]; /* ends with a row without a name */

struct akv_tokpre {
    const struct akv_tokpre_row *row;
    unsigned n;
    struct akv_tokpre_code {
        void *code;
        bool jit;
    } codes[AKV_TOKPRE_PATTERNS];
};

/* NULL when there is no such row. */
const struct akv_tokpre_row *akv_tokpre_find(const char *name, size_t len);
/* Append the names of all rows, separated by ", ". */
struct akv_buf;
void akv_tokpre_names(struct akv_buf *out);

int akv_tokpre_open(struct akv_tokpre *p, const struct akv_tokpre_row *row, struct akv_err *err);
void akv_tokpre_close(struct akv_tokpre *p); /* safe on a zeroed object */

/* What one thread needs to match. */
struct akv_tokpre_run {
    const struct akv_tokpre *pre;
    void *match[AKV_TOKPRE_PATTERNS];
    void *context;
    bool no_shortcut; /* use the patterns alone; for tests */
    int (*piece)(void *ctx, const char *s, size_t len);
    void *ctx;
};

int akv_tokpre_run_open(struct akv_tokpre_run *run, const struct akv_tokpre *pre, struct akv_err *err);
void akv_tokpre_run_close(struct akv_tokpre_run *run); /* safe on a zeroed object */

/* Cut valid UTF-8 and hand each piece, in order, to run->piece, which returns 0 or a negative code that ends the cutting. */
int akv_tokpre_split(struct akv_tokpre_run *run, const char *s, size_t len, struct akv_err *err);

#endif
