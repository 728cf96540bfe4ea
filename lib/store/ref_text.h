/*
 * The text of a ref, one "key value" a line:
 *     akv-ref 1
 *     root <64 hex>
 *     tip <64 hex>
 *     tokens <decimal>
 *     bytes <decimal>
 *     content <64 hex>
 *     made-by <text to the end of the line>
 *     model <text>, options <text>, input <64 hex>        each only if it is known
 * Lines of other keys are passed over. Those up to made-by must be there, so that a ref cut short is no ref.
 */
#ifndef AKV_STORE_REF_TEXT_H
#define AKV_STORE_REF_TEXT_H

#include "store/store.h"

#define AKV_REF_TEXT_MAX ((size_t)4096)

int akv_ref_format(const struct akv_ref *ref, struct akv_buf *text, struct akv_err *err);
/* Fills all but the name. */
int akv_ref_parse(struct akv_ref *out, const char *text, size_t len, struct akv_err *err);

#endif
