/* What the descriptions for akv-inspect share. */
#ifndef AKV_RUN_DESCRIBE_H
#define AKV_RUN_DESCRIBE_H

#include "base/json.h"
#include "snap/snap.h"

json_t *akv_describe_hex(const void *p, size_t n); /* n <= AKV_SHA_BYTES */
json_t *akv_describe_fields(const struct akv_head *h);
int akv_describe_done(json_t *o, char **json, struct akv_err *err); /* as one line of text, malloc'd */

#endif
