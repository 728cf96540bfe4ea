/*
 * A growing byte buffer.
 *
 * Invariants: data[len] is always 0 (data points at a static "" while empty), so data can be used as a C string;
 * len < cap once allocated; len never exceeds max. A failed append (no memory, or max exceeded) sets `failed` and leaves
 * the content as it was; later appends do nothing. So a run of appends is checked once, by akv_buf_check().
 */
#ifndef AKV_BASE_BUF_H
#define AKV_BASE_BUF_H

#include "base/err.h"

struct akv_buf {
    char *data;
    size_t len, cap, max;
    bool failed;
};

void akv_buf_init(struct akv_buf *b, size_t max); /* max: the most bytes it may hold; 0 = no limit */
void akv_buf_release(struct akv_buf *b);          /* frees; b must be initialised again before use */
void akv_buf_clear(struct akv_buf *b);            /* len = 0, failed = false, keeps the memory */
void akv_buf_add(struct akv_buf *b, const void *p, size_t n);
void akv_buf_puts(struct akv_buf *b, const char *s);
void akv_buf_putc(struct akv_buf *b, int c);
void akv_buf_printf(struct akv_buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void akv_buf_put_u16(struct akv_buf *b, uint16_t v); /* little-endian */
void akv_buf_put_u32(struct akv_buf *b, uint32_t v);
void akv_buf_put_u64(struct akv_buf *b, uint64_t v);
/* Make room for n more bytes and return where they go (the caller then adds to len), or NULL with failed set. */
char *akv_buf_reserve(struct akv_buf *b, size_t n);
/* Hand the memory (malloc'd, NUL-terminated) to the caller; b is empty afterwards. NULL if out of memory. */
char *akv_buf_steal(struct akv_buf *b);
/* 0, or AKV_E_IO naming `what` if an append failed. */
int akv_buf_check(const struct akv_buf *b, const char *what, struct akv_err *err);

#endif
