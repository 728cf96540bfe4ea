/* What the descriptions for akv-inspect share. */
#ifndef AKV_RUN_DESCRIBE_H
#define AKV_RUN_DESCRIBE_H

#include "base/json.h"
#include "snap/snap.h"

json_t *akv_describe_text(const char *s); /* bytes that are no UTF-8 as U+FFFD: a file's name may be anything */
json_t *akv_describe_geom(const struct akv_geom *g);
json_t *akv_describe_hex(const void *p, size_t n); /* n <= AKV_SHA_BYTES */
json_t *akv_describe_fields(const struct akv_head *h);
int akv_describe_done(json_t *o, char **json, struct akv_err *err); /* as one line of text, malloc'd */

#endif
