/* struct akv_request: a token record behind the public interface. */
#ifndef AKV_RUN_REQUEST_H
#define AKV_RUN_REQUEST_H

#include "chat/record.h"

struct akv_request {
    struct akv_record rec;
};

/* Allocate a request around a record, which it then owns (also on failure). */
int akv_request_wrap(struct akv_request **out, struct akv_record *rec, struct akv_err *err);

/* Parse a record's text and check ids and `tok` against the model (NULL: neither). */
int akv_request_parse(struct akv_request **out, json_t *json, const char *text, size_t len, const struct akv_model *m,
                      struct akv_err *err);

/* The `keys` field, when there is one, must be the prompt's page keys: AKV_E_INPUT. */
int akv_request_check_keys(const struct akv_record *rec, struct akv_err *err);

#endif
