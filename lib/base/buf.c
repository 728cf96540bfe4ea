#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

static char empty[1];

void akv_buf_init(struct akv_buf *b, size_t max)
{
    *b = (struct akv_buf){.data = empty, .max = max ? max : SIZE_MAX / 2};
}

void akv_buf_release(struct akv_buf *b)
{
    if (b->cap)
        free(b->data);
    *b = (struct akv_buf){.data = empty};
}

void akv_buf_clear(struct akv_buf *b)
{
    b->len = 0;
    b->failed = false;
    if (b->cap)
        b->data[0] = '\0';
}

char *akv_buf_reserve(struct akv_buf *b, size_t n)
{
    if (b->failed || n > b->max || b->len > b->max - n) {
        b->failed = true;
        return NULL;
    }
    size_t need = b->len + n + 1;
    if (need > b->cap) {
        size_t cap = b->cap + b->cap / 2 + 64;
        if (cap < need)
            cap = need;
        char *p = realloc(b->cap ? b->data : NULL, cap);
        if (!p) {
            b->failed = true;
            return NULL;
        }
        b->data = p;
        b->cap = cap;
        p[b->len] = '\0';
    }
    return b->data + b->len;
}

void akv_buf_add(struct akv_buf *b, const void *p, size_t n)
{
    if (!n)
        return;
    char *at = akv_buf_reserve(b, n);
    if (!at)
        return;
    memcpy(at, p, n);
    b->len += n;
    b->data[b->len] = '\0';
}

void akv_buf_puts(struct akv_buf *b, const char *s)
{
    akv_buf_add(b, s, strlen(s));
}

void akv_buf_putc(struct akv_buf *b, int c)
{
    char ch = (char)c;
    akv_buf_add(b, &ch, 1);
}

void akv_buf_printf(struct akv_buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    char *at = n < 0 ? NULL : akv_buf_reserve(b, (size_t)n);
    if (!at) {
        b->failed = true;
        return;
    }
    va_start(ap, fmt);
    vsnprintf(at, (size_t)n + 1, fmt, ap);
    va_end(ap);
    b->len += (size_t)n;
}

void akv_buf_put_u16(struct akv_buf *b, uint16_t v)
{
    uint8_t t[2];
    akv_put_u16(t, v);
    akv_buf_add(b, t, sizeof t);
}

void akv_buf_put_u32(struct akv_buf *b, uint32_t v)
{
    uint8_t t[4];
    akv_put_u32(t, v);
    akv_buf_add(b, t, sizeof t);
}

void akv_buf_put_u64(struct akv_buf *b, uint64_t v)
{
    uint8_t t[8];
    akv_put_u64(t, v);
    akv_buf_add(b, t, sizeof t);
}

char *akv_buf_steal(struct akv_buf *b)
{
    char *p = b->cap ? b->data : calloc(1, 1);
    *b = (struct akv_buf){.data = empty, .max = b->max};
    return p;
}

int akv_buf_check(const struct akv_buf *b, const char *what, struct akv_err *err)
{
    if (!b->failed)
        return 0;
    return akv_fail(err, AKV_E_IO, "%s: out of memory or over the limit of %zu bytes", what, b->max);
}
