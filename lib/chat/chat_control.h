/* Control tokens that the request's own text spells: where they are, and reading them as text. Private to lib/chat. */
#ifndef AKV_CHAT_CONTROL_H
#define AKV_CHAT_CONTROL_H

#include "chat/chat_layout.h"
#include "model/tok.h"

/*
 * Whether bytes from..to of the text belong to the content of a message, in whole or in part. Contents whose place is not known are not
 * found.
 */
bool akv_chat_in_content(const struct akv_chat_layout *l, size_t from, size_t to);

/*
 * Refuse a request (AKV_E_INPUT) that spells a control token in a string which the template does not write as it is: there it cannot be
 * told from the template's own.
 */
int akv_chat_check_literal(const struct akv_tok *tok, const struct akv_chat_request *r, const struct akv_chat_layout *l,
                           struct akv_err *err);

#endif
