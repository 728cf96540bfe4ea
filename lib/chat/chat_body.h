/* Replies that are more than their content: calls of tools, thinking. Private to lib/chat. */
#ifndef AKV_CHAT_BODY_H
#define AKV_CHAT_BODY_H

#include "chat/chat_layout.h"

/* What the template writes to open a reply: text of a layout, or of `own`. */
struct akv_chat_opener {
    const char *text;
    size_t len;
    struct akv_buf own;
};

/* Find it; len 0 when the template writes none. Released in any case. */
void akv_chat_find_opener(struct akv_chat_opener *o, const struct akv_chat_layout *l, struct akv_chat_tmpl *t,
                          const struct akv_chat_request *r);
void akv_chat_opener_release(struct akv_chat_opener *o);

/*
 * All that stands for message k in the text, from where a reply to the messages before it would have begun to the control token that
 * closes it. False when the template writes a message of the history in another way.
 */
bool akv_chat_find_body(const struct akv_chat_layout *l, const struct akv_tok *tok, const struct akv_chat_opener *o, size_t k,
                        size_t *from, size_t *to);

/*
 * Whether a reply (its text, control tokens spelled out; taken apart here) is what message m tells of it, and body, what the template makes
 * of m, tells it too: NULL, or what is missing, in words. In the reply: the content and the thinking without white space around them,
 * the names of the calls, and of their arguments all names, strings and whole numbers, as they are or with JSON escapes. In the body: the
 * content, the thinking and the names of the calls. look_left: bytes that may still be looked through, for all messages of a request.
 */
#define AKV_CHAT_LOOK ((size_t)256 << 20)
const char *akv_chat_body_differs(struct akv_buf *reply, const char *body, size_t body_len, const json_t *m, size_t *look_left);

#endif
