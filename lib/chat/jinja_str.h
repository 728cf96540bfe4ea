/* Inside the template interpreter: what methods and filters on strings share. */
#ifndef AKV_CHAT_JINJA_STR_H
#define AKV_CHAT_JINJA_STR_H

#include "chat/jinja_value.h"

/* ---- arguments ---- */

/* The argument as a string, or the error "what: needs a string". */
const struct akv_jstr *akv_jwant_str(struct akv_jrun *r, struct akv_jval v, const char *what);
int64_t akv_jwant_int(struct akv_jrun *r, struct akv_jval v, const char *what);
static inline bool akv_jgiven(struct akv_jval v) /* neither left out nor none */
{
    return v.kind != AKV_J_MISSING && v.kind != AKV_J_NONE;
}

/* ---- case (jinja_case.c) ---- */

enum akv_jcase { AKV_JC_UPPER, AKV_JC_LOWER, AKV_JC_TITLE, AKV_JC_CAPITALIZE, AKV_JC_SWAP, AKV_JC_FOLD };

struct akv_jval akv_jrecase(struct akv_jrun *r, struct akv_jval v, enum akv_jcase how); /* v is a string */
void akv_jput_upper(struct akv_jrun *r, struct akv_jtext *t, uint32_t c);
bool akv_jcased_as(const struct akv_jstr *s, bool upper); /* str.isupper, str.islower */

/* ---- searching, cutting and splitting (jinja_method.c, jinja_split.c) ---- */

#define AKV_JSTRIP_LEFT 1u
#define AKV_JSTRIP_RIGHT 2u

struct akv_jval akv_jpart(struct akv_jrun *r, struct akv_jval v, size_t from, size_t to); /* bytes from…to of a string */
struct akv_jval akv_jstrip(struct akv_jrun *r, struct akv_jval v, struct akv_jval chars, unsigned sides);
struct akv_jval akv_jreplace(struct akv_jrun *r, struct akv_jval v, struct akv_jval old, struct akv_jval with, int64_t max);
/* The last place of what in n bytes, or NULL. */
const char *akv_jfind_last(const char *p, size_t n, const struct akv_jstr *what);
struct akv_jval akv_jsplit_lines(struct akv_jrun *r, struct akv_jval v, bool keep);
/* `fill` (one character) that many times before and after. */
struct akv_jval akv_jpad(struct akv_jrun *r, struct akv_jval v, int64_t before, int64_t after, const struct akv_jstr *fill);

struct akv_jval akv_jstr_split(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a); /* methods */
struct akv_jval akv_jstr_rsplit(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a);
struct akv_jval akv_jstr_splitlines(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a);
struct akv_jval akv_jstr_partition(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a);
struct akv_jval akv_jstr_rpartition(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a);
const struct akv_jfunc *akv_jstr_method(const struct akv_jstr *name); /* NULL: none of that name */

#endif
