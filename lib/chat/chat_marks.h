/* Where the text of each message stands in a rendering. Private to lib/chat. */
#ifndef AKV_CHAT_MARKS_H
#define AKV_CHAT_MARKS_H

#include "chat/chat_render.h"

/*
 * The content of one message in the text: bytes from..to. A side that could not be proved is not there: the template dropped the
 * content, took it apart, or writes other things when it differs.
 */
struct akv_chat_mark {
    size_t from, to;
    size_t first; /* where what the message itself says begins: its content, or the name of its first call */
    bool has_from, has_to, has_first;
    bool stripped; /* the content's leading and trailing white space is not part of from..to */
};

/* text: the rendering of r. marks: one per message, zeroed. AKV_E_IO only. */
int akv_chat_find_marks(struct akv_chat_tmpl *t, const struct akv_chat_request *r, const struct akv_buf *text,
                        struct akv_chat_mark *marks, struct akv_err *err);

/* A copy of message m with other content (new reference, NULL if out of memory). */
json_t *akv_chat_with_content(const json_t *m, const char *text, size_t len);

#endif
