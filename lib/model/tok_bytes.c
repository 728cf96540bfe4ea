/* The byte alphabet of byte-level vocabularies. */
#include "model/tok_vocab.h"

/* The bytes that do not stand for themselves come in four runs; U+0100 + rank is their character. */
static int rank_of(uint8_t byte)
{
    if (byte <= 0x20)
        return byte;
    if (byte >= 0x7f && byte <= 0xa0)
        return byte - 0x7f + 0x21;
    return byte == 0xad ? 0x43 : -1;
}

static int byte_of(uint32_t cp)
{
    if ((cp >= 0x21 && cp <= 0x7e) || (cp >= 0xa1 && cp <= 0xff && cp != 0xad))
        return (int)cp;
    if (cp >= 0x100 && cp <= 0x120)
        return (int)cp - 0x100;
    if (cp >= 0x121 && cp <= 0x142)
        return (int)cp - 0x121 + 0x7f;
    return cp == 0x143 ? 0xad : -1;
}

size_t akv_tokbyte_put(char out[2], uint8_t byte)
{
    int rank = rank_of(byte);
    uint32_t cp = rank < 0 ? byte : 0x100u + (uint32_t)rank;
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    out[0] = (char)(0xc0 | cp >> 6);
    out[1] = (char)(0x80 | (cp & 0x3f));
    return 2;
}

int akv_tokbyte_get(const char *s, size_t len, size_t *used)
{
    uint8_t a = (uint8_t)s[0];
    *used = 1;
    if (a < 0x80)
        return byte_of(a);
    if (len < 2 || (a & 0xe0) != 0xc0 || ((uint8_t)s[1] & 0xc0) != 0x80)
        return -1;
    *used = 2;
    return byte_of((uint32_t)(a & 0x1f) << 6 | ((uint32_t)(uint8_t)s[1] & 0x3f));
}

size_t akv_tokbyte_count(struct akv_str text)
{
    size_t n = 0, used;
    for (size_t i = 0; i < text.len; i += used, n++) {
        if (akv_tokbyte_get(text.s + i, text.len - i, &used) < 0)
            return text.len;
    }
    return n;
}

void akv_tokbyte_decode(struct akv_buf *out, struct akv_str text)
{
    size_t used, start = out->len;
    char *p = akv_buf_reserve(out, text.len);
    if (!p)
        return;
    size_t n = 0;
    for (size_t i = 0; i < text.len; i += used, n++) {
        int byte = akv_tokbyte_get(text.s + i, text.len - i, &used);
        if (byte < 0) {
            akv_buf_add(out, text.s, text.len); /* not written in the alphabet: the text itself */
            return;
        }
        p[n] = (char)byte;
    }
    out->len = start + n;
    p[n] = '\0';
}
