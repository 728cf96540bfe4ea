/* Characters: UTF-8, and what Unicode says about them. */
#include "chat/jinja_value.h"

#include <string.h>
#include <utf8proc.h>

uint32_t akv_jchar(const char *p, size_t len, size_t *used)
{
    const uint8_t *s = (const uint8_t *)p;
    size_t need = s[0] < 0xc0 ? 1 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
    if (need > len)
        need = 1;
    *used = need;
    switch (need) {
    case 1:
        return s[0];
    case 2:
        return (uint32_t)(s[0] & 0x1f) << 6 | (s[1] & 0x3f);
    case 3:
        return (uint32_t)(s[0] & 0x0f) << 12 | (uint32_t)(s[1] & 0x3f) << 6 | (s[2] & 0x3f);
    default:
        return (uint32_t)(s[0] & 0x07) << 18 | (uint32_t)(s[1] & 0x3f) << 12 | (uint32_t)(s[2] & 0x3f) << 6 | (s[3] & 0x3f);
    }
}

size_t akv_jchar_before(const char *p, size_t at)
{
    size_t stop = at > 4 ? at - 4 : 0;
    do
        at--;
    while (at > stop && ((uint8_t)p[at] & 0xc0) == 0x80);
    return at;
}

size_t akv_jchar_put(char out[4], uint32_t c)
{
    return (size_t)utf8proc_encode_char((utf8proc_int32_t)c, (utf8proc_uint8_t *)out);
}

bool akv_jchar_space(uint32_t c)
{
    if (c < 0x80)
        return c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1c && c <= 0x1f);
    return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
           c == 0x205f || c == 0x3000;
}

bool akv_jchar_name(uint32_t c, bool first)
{
    if (c < 0x80)
        return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (!first && c >= '0' && c <= '9');
    switch (utf8proc_category((utf8proc_int32_t)c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_NL:
        return true;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_PC:
        return !first;
    default:
        return false;
    }
}

bool akv_jchar_printable(uint32_t c)
{
    if (c < 0x7f)
        return c >= ' ';
    switch (utf8proc_category((utf8proc_int32_t)c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
        return false;
    default:
        return true;
    }
}

size_t akv_jchar_offset(struct akv_jrun *r, const struct akv_jstr *s, size_t index)
{
    if (s->n_chars == s->len) /* ASCII */
        return index < s->len ? index : s->len;
    if (index >= s->n_chars)
        return s->len;
    size_t at = 0;
    akv_jtick_bytes(r, 4 * index);
    while (index--) {
        size_t used;
        akv_jchar(s->p + at, s->len - at, &used);
        at += used;
    }
    return at;
}
