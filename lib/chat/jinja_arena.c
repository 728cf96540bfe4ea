/* Memory and errors of the template interpreter. */
#include "chat/jinja_value.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES ((size_t)64 << 10)
#define ALIGN ((size_t)16)

struct akv_jchunk {
    struct akv_jchunk *next;
    size_t bytes; /* keeps the data 16-byte aligned */
};

void akv_jfail_as(struct akv_jfault *f, int code, const char *fmt, ...)
{
    char text[AKV_ERR_BYTES];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    f->rc = akv_fail(f->err, code, "%s", text);
    longjmp(f->env, 1);
}

void akv_jfail(struct akv_jfault *f, const char *fmt, ...)
{
    char text[AKV_ERR_BYTES - 64];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    akv_jfail_as(f, AKV_E_INPUT, "template line %u: %s", f->line, text);
}

/* A block of its own for n bytes (a multiple of ALIGN). */
static char *chunk_add(struct akv_jarena *a, size_t n)
{
    if (n > a->max - a->used)
        akv_jfail(a->fault, "needs more than %zu bytes of memory", a->max);
    struct akv_jchunk *c = malloc(sizeof *c + n);
    if (!c)
        akv_jfail_as(a->fault, AKV_E_IO, "template: out of memory");
    c->bytes = n;
    c->next = a->chunks;
    a->chunks = c;
    a->used += n;
    return (char *)(c + 1);
}

void *akv_jalloc(struct akv_jarena *a, size_t n)
{
    if (n > a->max)
        akv_jfail(a->fault, "needs more than %zu bytes of memory", a->max);
    n = n ? (n + ALIGN - 1) & ~(ALIGN - 1) : ALIGN;
    if (n > (size_t)(a->end - a->at)) {
        if (n > CHUNK_BYTES / 4)
            return chunk_add(a, n);
        a->at = chunk_add(a, CHUNK_BYTES);
        a->end = a->at + CHUNK_BYTES;
    }
    void *p = a->at;
    a->at += n;
    return p;
}

void *akv_jgrow(struct akv_jarena *a, void *p, size_t n_old, size_t n_new)
{
    size_t old = (n_old + ALIGN - 1) & ~(ALIGN - 1);
    if (p && (char *)p + old == a->at && n_new <= (size_t)(a->end - (char *)p)) {
        size_t whole = (n_new + ALIGN - 1) & ~(ALIGN - 1);
        a->at = (char *)p + whole;
        return p;
    }
    void *q = akv_jalloc(a, n_new);
    if (n_old)
        memcpy(q, p, n_old);
    return q;
}

void akv_jarena_release(struct akv_jarena *a)
{
    while (a->chunks) {
        struct akv_jchunk *c = a->chunks;
        a->chunks = c->next;
        free(c);
    }
    *a = (struct akv_jarena){0};
}
