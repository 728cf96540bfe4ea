/* Little-endian integers, read and written byte by byte; hexadecimal. */
#ifndef AKV_BASE_BYTES_H
#define AKV_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline uint16_t akv_get_u16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t akv_get_u32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t akv_get_u64(const uint8_t *p)
{
    return (uint64_t)akv_get_u32(p) | (uint64_t)akv_get_u32(p + 4) << 32;
}

static inline void akv_put_u16(uint8_t *p, uint16_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}

static inline void akv_put_u32(uint8_t *p, uint32_t v)
{
    akv_put_u16(p, (uint16_t)v);
    akv_put_u16(p + 2, (uint16_t)(v >> 16));
}

static inline void akv_put_u64(uint8_t *p, uint64_t v)
{
    akv_put_u32(p, (uint32_t)v);
    akv_put_u32(p + 4, (uint32_t)(v >> 32));
}

/* White space of ASCII, in any locale. */
static inline bool akv_is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* hex receives 2n lower-case digits and a NUL. */
void akv_hex(char *hex, const void *bytes, size_t n);

/* Parse exactly 2n lower- or upper-case digits; false otherwise. */
bool akv_unhex(void *bytes, size_t n, const char *hex, size_t hex_len);

/* Length of the valid UTF-8 sequence at s (1–4), or 0: broken, overlong, surrogate or cut. */
size_t akv_utf8_len(const char *s, size_t len);

/*
 * Copy text to out (room for 3 * len bytes) as valid UTF-8: bytes that are not become U+FFFD each, an incomplete character at the end is
 * left out. Returns the length.
 */
size_t akv_utf8_clean(char *out, const char *text, size_t len);

/* Whether all of s is valid UTF-8; *bad (may be NULL) is the offset of the first byte that is not. */
bool akv_utf8_valid(const char *s, size_t len, size_t *bad);

#endif
