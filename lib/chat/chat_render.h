/* A template bound to what stays the same over all renderings of one request. Private to lib/chat. */
#ifndef AKV_CHAT_RENDER_H
#define AKV_CHAT_RENDER_H

#include "chat/chat_request.h"
#include "chat/jinja.h"

struct akv_chat_tmpl {
    struct akv_chat_cache *cache, own; /* where the parsed template is: the caller's, or our own */
    json_t *base;                      /* the context but for messages, tools and add_generation_prompt */
    const json_t *kwargs;              /* borrowed from the request; NULL if none */
    int64_t now;
    uint64_t steps;            /* limit of one rendering */
    uint64_t probe_steps_left; /* of all renderings that may still be made to learn about the text, */
    size_t probe_bytes_left;   /* and bytes of them */
};

/* model may be NULL when opts has a template, cache always. The request must outlive t. */
int akv_chat_tmpl_open(struct akv_chat_tmpl *t, const struct akv_model *model, const struct akv_chat_request *r,
                       const struct akv_chat_opts *opts, struct akv_chat_cache *cache, struct akv_err *err);
void akv_chat_tmpl_release(struct akv_chat_tmpl *t);

/* The text of the request itself; also sets the limits for the probes that follow. out is cleared first. */
int akv_chat_tmpl_render(struct akv_chat_tmpl *t, const struct akv_chat_request *r, struct akv_buf *out, struct akv_err *err);

/* Whether renderings are left. */
bool akv_chat_tmpl_may_probe(const struct akv_chat_tmpl *t);

/* The text of other messages (a reference is stolen) under the same template; false when the template refuses them or enough was tried. */
bool akv_chat_tmpl_probe(struct akv_chat_tmpl *t, json_t *messages, const json_t *tools, bool add_generation_prompt,
                         struct akv_buf *out);

/* Whether the text would be the same without the tools: chat_tools.c. */
bool akv_chat_ignores_tools(struct akv_chat_tmpl *t, const struct akv_chat_request *r, const struct akv_buf *text);
/* Whether it would be with other arguments of calls, where these are a string, in the first message *k that has such. */
enum akv_chat_drops { AKV_CHAT_DROPS_NONE, AKV_CHAT_DROPS_STRINGS, AKV_CHAT_DROPS_ALL };
enum akv_chat_drops akv_chat_drops_arguments(struct akv_chat_tmpl *t, const struct akv_chat_request *r, const struct akv_buf *text,
                                             size_t *k);

#endif
