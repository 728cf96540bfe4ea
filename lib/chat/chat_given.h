/* Ids that came with a message (`akv_ids`) instead of being made from its text. Private to lib/chat. */
#ifndef AKV_CHAT_GIVEN_H
#define AKV_CHAT_GIVEN_H

#include "chat/chat_layout.h"

/* Part of the text that has its ids already. */
struct akv_chat_given {
    size_t from, to; /* bytes */
    struct akv_ids ids;
};

struct akv_chat_givens {
    struct akv_chat_given *v; /* ascending */
    size_t n;
};

/*
 * Collect them from all messages. The ids stand for a content when it is what they decode to, or the beginning of that, and the template
 * writes the content as it is. They stand for a whole message, its calls and thinking included, when they tell what it tells and the
 * template writes it where and as it opens a reply (chat_body.h). A control token at their end that the template writes there, too, is left
 * out. Otherwise the text is tokenised and notes get a warning. An id outside the vocabulary is AKV_E_INPUT.
 * g is zeroed before and released after, also on failure.
 */
int akv_chat_find_givens(struct akv_chat_givens *g, const struct akv_tok *tok, const struct akv_chat_request *r,
                         const struct akv_chat_layout *l, struct akv_chat_tmpl *t, struct akv_buf *notes, struct akv_err *err);
void akv_chat_givens_release(struct akv_chat_givens *g);

/* Add a line to the warnings. */
void akv_chat_warn(struct akv_buf *notes, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
