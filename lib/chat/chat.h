/*
 * Chat requests to token records: rendering through the model's own template, spans, anchors (design.md 4.1, 8).
 */
#ifndef AKV_CHAT_CHAT_H
#define AKV_CHAT_CHAT_H

#include "chat/record.h"
#include "model/model.h"

/* The template that was parsed last, for requests that come one after another. Zeroed before its first use; for one thread. */
struct akv_chat_cache {
    struct akv_jinja *jinja;
    char *text; /* what it was parsed from */
    size_t len;
};
void akv_chat_cache_release(struct akv_chat_cache *c);

/* Options: struct akv_chat_opts and AKV_CHAT_* of akv.h. */

/*
 * Render a request (chat or completions shape) to text. model may be NULL when template_text is given. warnings (may be NULL): joined by
 * newlines, malloc'd or NULL. cache may be NULL.
 */
int akv_chat_render(const struct akv_model *model, const json_t *request, const struct akv_chat_opts *opts,
                    struct akv_chat_cache *cache, struct akv_buf *text, char **warnings, struct akv_err *err);

/* A request to a token record (id: given to the record unless the request has one). */
int akv_chat_record(const struct akv_model *model, const json_t *request, const char *id, const struct akv_chat_opts *opts,
                    struct akv_chat_cache *cache, struct akv_record *out, char **warnings, struct akv_err *err);

/* Plain text (--raw) to a record. */
int akv_chat_raw(const struct akv_model *model, const char *text, size_t len, unsigned tok_flags, const char *id,
                 struct akv_record *out, char **warnings, struct akv_err *err);

#endif
