#include "base/bytes.h"

#include <string.h>

void akv_hex(char *hex, const void *bytes, size_t n)
{
    static const char digits[] = "0123456789abcdef";
    const uint8_t *p = bytes;
    for (size_t i = 0; i < n; i++) {
        hex[2 * i] = digits[p[i] >> 4];
        hex[2 * i + 1] = digits[p[i] & 15];
    }
    hex[2 * n] = '\0';
}

static int nibble(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

bool akv_unhex(void *bytes, size_t n, const char *hex, size_t hex_len)
{
    if (hex_len != 2 * n)
        return false;
    uint8_t *p = bytes;
    for (size_t i = 0; i < n; i++) {
        int hi = nibble(hex[2 * i]), lo = nibble(hex[2 * i + 1]);
        if (hi < 0 || lo < 0)
            return false;
        p[i] = (uint8_t)(hi << 4 | lo);
    }
    return true;
}

size_t akv_utf8_len(const char *s, size_t len)
{
    const uint8_t *p = (const uint8_t *)s;
    if (!len)
        return 0;
    if (p[0] < 0x80)
        return 1;
    size_t n = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    if (p[0] < 0xc2 || p[0] > 0xf4 || len < n)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    /* overlong forms, surrogates, past U+10FFFF */
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) || (p[0] == 0xf0 && p[1] < 0x90) ||
        (p[0] == 0xf4 && p[1] > 0x8f))
        return 0;
    return n;
}

/* Whether s[0..len) is the beginning of a character that may still be completed. */
static bool is_incomplete(const char *s, size_t len)
{
    static const char *const ends[] = {"\x80", "\x80\x80", "\x80\x80\x80", "\xa0\x80", "\x90\x80\x80"};
    char whole[8];
    for (size_t i = 0; len < 4 && i < sizeof ends / sizeof *ends; i++) {
        size_t n = strlen(ends[i]);
        memcpy(whole, s, len);
        memcpy(whole + len, ends[i], n);
        if (akv_utf8_len(whole, len + n) == len + n)
            return true;
    }
    return false;
}

size_t akv_utf8_clean(char *out, const char *text, size_t len)
{
    size_t n = 0;
    for (size_t i = 0; i < len;) {
        size_t c = akv_utf8_len(text + i, len - i);
        if (!c && is_incomplete(text + i, len - i))
            break;
        memcpy(out + n, c ? text + i : "\xef\xbf\xbd", c ? c : 3);
        n += c ? c : 3;
        i += c ? c : 1;
    }
    return n;
}

bool akv_utf8_valid(const char *s, size_t len, size_t *bad)
{
    for (size_t i = 0; i < len;) {
        size_t n = akv_utf8_len(s + i, len - i);
        if (!n) {
            if (bad)
                *bad = i;
            return false;
        }
        i += n;
    }
    return true;
}
