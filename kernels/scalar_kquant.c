/*
 * The dtypes in super-blocks of 256: eight blocks of 32 with integer sub-scales under one f16 scale, and one for the minima where
 * there are some. Two- and three-bit codes lie in planes of 32 bytes: byte l of half h holds elements 128h + 32j + l, j = 0..3,
 * from its lowest bits up.
 */
#include "kernels/fp32.h"
#include "kernels/scalar_quant.h"

/* The low (even i) or high (odd i) half of a byte. */
static int nibble(uint8_t byte, size_t i)
{
    return (byte >> i % 2 * 4) & 15;
}

/* 16 bytes, sub-scale low and minimum high, one for 16 elements; 64 bytes of 2-bit codes; d; dmin */
void akv_unpack_q2_k(struct akv_weights *restrict b, const uint8_t *restrict p, size_t i)
{
    const uint8_t *codes = p + 16 + i / 4 * 32;
    b->d = akv_f32_from_f16(akv_load16(p + 80));
    b->m = akv_f32_from_f16(akv_load16(p + 82));
    for (size_t half = 0; half < 2; half++) {
        b->scale[half] = p[2 * i + half] & 15;
        b->min[half] = p[2 * i + half] >> 4;
    }
    for (size_t l = 0; l < AKV_QBLOCK; l++)
        b->w[l] = (int8_t)((codes[l] >> 2 * (i % 4)) & 3);
}

/* Sub-scale j of Q3_K: six bits, the low four in nibbles of eight bytes, the high two in four bytes. */
static int32_t q3_k_scale(const uint8_t *p, size_t j)
{
    return (nibble(p[j % 8], j / 8) | ((p[8 + j % 4] >> 2 * (j / 4)) & 3) << 4) - 32;
}

/*
 * 32 bytes of third bits, block i's in bit i; 64 bytes of 2-bit codes; 12 bytes of 6-bit sub-scales; d. Codes - 4, sub-scales - 32
 */
void akv_unpack_q3_k(struct akv_weights *restrict b, const uint8_t *restrict p, size_t i)
{
    const uint8_t *codes = p + 32 + i / 4 * 32;
    b->d = akv_f32_from_f16(akv_load16(p + 108));
    for (size_t half = 0; half < 2; half++)
        b->scale[half] = q3_k_scale(p + 96, 2 * i + half);
    for (size_t l = 0; l < AKV_QBLOCK; l++)
        b->w[l] = (int8_t)(((codes[l] >> 2 * (i % 4)) & 3) + ((p[l] >> i) & 1) * 4 - 4);
}

/*
 * d, dmin, and 12 bytes of 6-bit sub-scales and minima of Q4_K and Q5_K: those of blocks 0..3 in the low six bits of bytes 0..3 and
 * 4..7; of blocks 4..7 the low four bits in the nibbles of bytes 8..11 and the high two on top of bytes 0..3 and 4..7.
 */
static void scales_of_32(struct akv_weights *restrict b, const uint8_t *restrict p, size_t i)
{
    const uint8_t *s = p + 4;
    b->d = akv_f32_from_f16(akv_load16(p));
    b->m = akv_f32_from_f16(akv_load16(p + 2));
    b->scale[0] = i < 4 ? s[i] & 63 : (s[i + 4] & 15) | s[i - 4] >> 6 << 4;
    b->min[0] = i < 4 ? s[i + 4] & 63 : s[i + 4] >> 4 | s[i] >> 6 << 4;
    b->scale[1] = b->scale[0];
    b->min[1] = b->min[0];
}

/* scales; 128 bytes of nibbles, those of 32 bytes for two blocks */
void akv_unpack_q4_k(struct akv_weights *restrict b, const uint8_t *restrict p, size_t i)
{
    scales_of_32(b, p, i);
    for (size_t l = 0; l < AKV_QBLOCK; l++)
        b->w[l] = (int8_t)nibble(p[16 + i / 2 * 32 + l], i);
}

/* scales; 32 bytes of fifth bits, block i's in bit i; nibbles as Q4_K */
void akv_unpack_q5_k(struct akv_weights *restrict b, const uint8_t *restrict p, size_t i)
{
    scales_of_32(b, p, i);
    for (size_t l = 0; l < AKV_QBLOCK; l++)
        b->w[l] = (int8_t)(nibble(p[48 + i / 2 * 32 + l], i) + ((p[16 + l] >> i) & 1) * 16);
}

/*
 * 128 bytes of low nibbles, 64 of two high bits in planes, 16 signed sub-scales for 16 elements each, d. Codes - 32. In a half of
 * 128 elements, blocks 0 and 1 take the low nibbles of 64 bytes, blocks 2 and 3 the high ones.
 */
void akv_unpack_q6_k(struct akv_weights *restrict b, const uint8_t *restrict p, size_t i)
{
    const uint8_t *low = p + i / 4 * 64 + i % 2 * 32, *high = p + 128 + i / 4 * 32;
    b->d = akv_f32_from_f16(akv_load16(p + 208));
    for (size_t half = 0; half < 2; half++)
        b->scale[half] = (int8_t)p[192 + 2 * i + half];
    for (size_t l = 0; l < AKV_QBLOCK; l++)
        b->w[l] = (int8_t)((nibble(low[l], i / 2) | ((high[l] >> 2 * (i % 4)) & 3) << 4) - 32);
}

/*
 * d; sub-scales of six bits, - 32: the high two in a 16-bit word, the low four in four bytes of nibbles; 128 bytes of codes, those
 * of a block in 16 bytes of nibbles as in IQ4_NL
 */
void akv_unpack_iq4_xs(struct akv_weights *restrict b, const uint8_t *restrict p, size_t i)
{
    const uint8_t *codes = p + 8 + 16 * i;
    b->d = akv_f32_from_f16(akv_load16(p));
    b->scale[0] = b->scale[1] = (nibble(p[4 + i / 2], i) | ((akv_load16(p + 2) >> 2 * i) & 3) << 4) - 32;
    for (size_t l = 0; l < 16; l++) {
        b->w[l] = akv_iq4_values[codes[l] & 15];
        b->w[l + 16] = akv_iq4_values[codes[l] >> 4];
    }
}
