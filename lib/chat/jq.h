/*
 * jq programs that turn foreign requests into chat requests: the only place that knows libjq.
 *
 * libjq keeps numbers as doubles and cannot tell 1 from 1.0. So that nothing is lost, an integer beyond 2^53 and a real without a fraction
 * pass through the program as strings that begin with U+E000 and come out as they were.
 */
#ifndef AKV_CHAT_JQ_H
#define AKV_CHAT_JQ_H

#include "base/json.h"

/* akv_normaliser_open (AKV_E_INPUT with jq's words for a program that does not compile), _named and _close: akv.h. */

/* name: what messages call the program. of_text: its input is plain text. */
int akv_normaliser_make(struct akv_normaliser **out, const char *program, const char *name, bool of_text, struct akv_err *err);
/* Whether an input is to be given to it whole, as one string, instead of value by value. */
bool akv_normaliser_of_text(const struct akv_normaliser *q);

/* Give the program its next input. Outputs not taken yet are dropped. */
int akv_normaliser_start(struct akv_normaliser *q, const json_t *input, struct akv_err *err);
/* 1: *out is the next output (new reference); 0: no more; AKV_E_INPUT: the program failed, in its words cut at 120 bytes. */
int akv_normaliser_next(struct akv_normaliser *q, json_t **out, struct akv_err *err);

#endif
