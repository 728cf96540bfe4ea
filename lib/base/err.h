/* Errors: the one convention of the library (see akv.h). */
#ifndef AKV_BASE_ERR_H
#define AKV_BASE_ERR_H

#include "akv.h"

/*
 * Record an error and return its code, so that `return akv_fail(err, AKV_E_INPUT, "%s: ...", path)` is the idiom.
 * The first error wins: a second call leaves the text alone and returns the *first* code. err may be NULL.
 * Control bytes in the formatted text are escaped as \xNN. Never quote more than 40 bytes of a prompt.
 */
int akv_fail(struct akv_err *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* The same with ": " and the text of errno appended (AKV_E_IO). Reads errno at once. */
int akv_fail_errno(struct akv_err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Put "context: " in front of an error already recorded; no effect when there is none. */
void akv_err_prefix(struct akv_err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Forget an error (a miss that was handled). */
void akv_err_clear(struct akv_err *err);

/* calloc(n, size) with overflow check; on failure records "out of memory" and returns NULL. n*size == 0 gives a valid pointer. */
void *akv_alloc(size_t n, size_t size, struct akv_err *err);

/* realloc(p, n*size) with overflow check; on failure records the error, returns NULL, p stays valid. */
void *akv_realloc(void *p, size_t n, size_t size, struct akv_err *err);

/*
 * n*size bytes of undefined content; free() them. Where they are many, in huge pages if the system gives any: small ones take longer to
 * come than to fill.
 */
void *akv_alloc_huge(size_t n, size_t size, struct akv_err *err);

/* strndup that records an error. */
char *akv_strndup(const char *s, size_t len, struct akv_err *err);

#endif
