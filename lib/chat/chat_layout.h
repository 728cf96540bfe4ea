/* Which part of a rendered chat came from what, and how far it will stay as it is. Private to lib/chat. */
#ifndef AKV_CHAT_LAYOUT_H
#define AKV_CHAT_LAYOUT_H

#include "chat/chat_marks.h"

#define AKV_CHAT_NOWHERE SIZE_MAX

/* A boundary in the text. It may be put anywhere in floor..at: between them stands only what the template writes around contents. */
struct akv_chat_place {
    size_t floor, at;    /* bytes; at = AKV_CHAT_NOWHERE when not known */
    bool before_content; /* a content begins at `at`: the boundary must not depend on what it says */
    bool guessed;        /* from what stands before a content like the next one elsewhere */
};

struct akv_chat_content {
    size_t from, to; /* bytes */
};

#define AKV_CHAT_BEHIND 64 /* bytes: beyond them nothing changes the tokens before */
#define AKV_CHAT_N_BEHIND 4

struct akv_chat_behind {
    char text[AKV_CHAT_BEHIND];
    size_t len;
};

struct akv_chat_layout {
    struct akv_buf text;
    size_t n, n_head; /* messages; leading system and developer messages among them */
    struct akv_chat_mark *marks;
    struct akv_chat_content *contents; /* the contents whose place is known, by place */
    size_t n_contents;
    struct akv_chat_place tools; /* end of the tools, when they stand before the system text */
    size_t tools_from, tools_to; /* bytes that are there only with tools, wherever they stand; equal: not known */
    struct akv_chat_place head;  /* end of what every conversation with these tools and system messages begins with */
    struct akv_chat_place *ends; /* ends[k]: of message k */
    size_t stable;               /* the text before it stays when the conversation goes on */
    struct akv_chat_behind behind[AKV_CHAT_N_BEHIND]; /* what then stands behind the end of the last message, */
    size_t n_behind;                                  /* as far as it was tried */
    bool tools_ignored;                               /* tools were given, the template writes the same without */
};

/* t has rendered nothing yet. On failure l is empty. */
int akv_chat_layout_make(struct akv_chat_layout *l, struct akv_chat_tmpl *t, const struct akv_chat_request *r, struct akv_err *err);
void akv_chat_layout_release(struct akv_chat_layout *l);

#endif
