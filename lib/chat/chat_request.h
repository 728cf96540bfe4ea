/* A chat or completions request, checked and made ready for a template. Private to lib/chat. */
#ifndef AKV_CHAT_REQUEST_H
#define AKV_CHAT_REQUEST_H

#include "chat/chat.h"

/*
 * Members borrow from the request, which must outlive it, but for `messages` and `gen` (owned).
 * Either messages or prompt is set.
 */
struct akv_chat_request {
    const char *id;                                                /* NULL when the request has none */
    json_t *messages;                                              /* as the template gets them */
    const json_t *sent;                                            /* as they came: the same length, `akv_ids` still inside */
    const json_t *tools, *documents, *kwargs, *bos, *eos, *effort; /* NULL when absent */
    json_t *sorted_tools;                                          /* owned; NULL unless akv_chat_sort_tools() was called */
    bool add_generation_prompt;
    const json_t *prompt;
    bool parse_special;
    bool add_special; /* add what the tokenizer would add to a plain text */
    json_t *gen;      /* object of sampling fields as the record has them */
    char id_text[24];
};

/* flags: AKV_CHAT_*. AKV_E_INPUT names the field. On failure r is empty. */
int akv_chat_request_read(struct akv_chat_request *r, const json_t *request, unsigned flags, struct akv_err *err);
/* Put the tools in the order of their names: chat_tools.c. */
int akv_chat_sort_tools(struct akv_chat_request *r, struct akv_err *err);
/* What a tool or a call says of its function: most clients put it into a member of that name. */
static inline json_t *akv_chat_function(const json_t *v)
{
    json_t *function = json_object_get(v, "function");
    return function ? function : (json_t *)(uintptr_t)v;
}
void akv_chat_request_release(struct akv_chat_request *r);

#endif
