#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_PAGE ((size_t)2 << 20)

/* Copy src to dst with control bytes as \xNN; cuts at whole escapes, always terminates. */
static void copy_escaped(char *dst, size_t dst_bytes, const char *src)
{
    size_t n = 0;
    for (; *src; src++) {
        unsigned char c = (unsigned char)*src;
        if (c >= 0x20 && c != 0x7f) {
            if (n + 1 >= dst_bytes)
                break;
            dst[n++] = (char)c;
        } else {
            if (n + 4 >= dst_bytes)
                break;
            snprintf(dst + n, 5, "\\x%02x", c);
            n += 4;
        }
    }
    dst[n] = '\0';
}

int akv_fail(struct akv_err *err, int code, const char *fmt, ...)
{
    if (!err)
        return code;
    if (err->code)
        return err->code;
    char text[AKV_ERR_BYTES];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    err->code = code;
    copy_escaped(err->msg, sizeof err->msg, text);
    return code;
}

int akv_fail_errno(struct akv_err *err, const char *fmt, ...)
{
    int saved = errno;
    if (!err)
        return AKV_E_IO;
    if (err->code)
        return err->code;
    char text[AKV_ERR_BYTES];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    char why[128];
    const char *reason = strerror_r(saved, why, sizeof why); /* the GNU form: may ignore the buffer */
    return akv_fail(err, AKV_E_IO, "%.900s: %s", text, reason);
}

void akv_err_prefix(struct akv_err *err, const char *fmt, ...)
{
    if (!err || !err->code)
        return;
    char text[AKV_ERR_BYTES], old[AKV_ERR_BYTES];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    memcpy(old, err->msg, sizeof old);
    copy_escaped(err->msg, sizeof err->msg, text);
    size_t n = strlen(err->msg);
    snprintf(err->msg + n, sizeof err->msg - n, ": %s", old);
}

void akv_err_clear(struct akv_err *err)
{
    if (err) {
        err->code = 0;
        err->msg[0] = '\0';
    }
}

void *akv_alloc(size_t n, size_t size, struct akv_err *err)
{
    void *p = calloc(n ? n : 1, size ? size : 1);
    if (!p)
        akv_fail(err, AKV_E_IO, "out of memory (%zu x %zu bytes)", n, size);
    return p;
}

void *akv_realloc(void *p, size_t n, size_t size, struct akv_err *err)
{
    void *q = NULL;
    if (!size || n <= SIZE_MAX / size)
        q = realloc(p, n && size ? n * size : 1);
    if (!q)
        akv_fail(err, AKV_E_IO, "out of memory (%zu x %zu bytes)", n, size);
    return q;
}

void *akv_alloc_huge(size_t n, size_t size, struct akv_err *err)
{
    if (!size || n > SIZE_MAX / 2 / size || n * size < HUGE_PAGE / 2)
        return akv_realloc(NULL, n, size, err);
    size_t bytes = (n * size + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    void *p = aligned_alloc(HUGE_PAGE, bytes);
    if (p)
        (void)madvise(p, bytes, MADV_HUGEPAGE); /* a wish: no matter if it is refused */
    else
        akv_fail(err, AKV_E_IO, "out of memory (%zu x %zu bytes)", n, size);
    return p;
}

char *akv_strndup(const char *s, size_t len, struct akv_err *err)
{
    char *p = akv_alloc(len + 1, 1, err);
    if (p)
        memcpy(p, s, len);
    return p;
}
