/*
 * Packing of super-blocks of 256 columns into eight panels (avx2_panel.h). The layouts are told in scalar_kquant.c.
 */
#include "kernels/avx2_panel.h"

/* In every lane: bytes a and b (0..3) as the low bytes of a pair, the high ones 0. */
AKV_INLINE __m256i pair_of(__m256i v, int a, int b)
{
    const __m256i lanes = _mm256_setr_epi32(0, 0x00040004, 0x00080008, 0x000c000c, 0, 0x00040004, 0x00080008, 0x000c000c);
    return _mm256_shuffle_epi8(v, _mm256_add_epi32(lanes, _mm256_set1_epi32((int)0x80008000 | a | b << 16)));
}

/* Bytes a and b as the high bytes of a pair, so as 256 times their signed values, shifted right: 8 gives the values. */
AKV_INLINE __m256i signed_pair(__m256i v, int a, int b, int shift)
{
    const __m256i lanes = _mm256_setr_epi32(0, 0x04000400, 0x08000800, 0x0c000c00, 0, 0x04000400, 0x08000800, 0x0c000c00);
    v = _mm256_shuffle_epi8(v, _mm256_add_epi32(lanes, _mm256_set1_epi32(0x00800080 | a << 8 | b << 24)));
    return _mm256_srai_epi16(v, shift);
}

/* Signed sub-scales s of 16 columns, dword i of a row in s[i], to block b; offset = -2^(8 - shift) * s. */
AKV_INLINE void signed_scales(struct akv_panel *p, const __m256i s[4], int b, int shift)
{
    const int a = b % 2 * 2;
    p->scale = signed_pair(s[b / 2], a, a, 8);
    p->scale_2 = signed_pair(s[b / 2], a + 1, a + 1, 8);
    p->offset = _mm256_sub_epi16(_mm256_setzero_si256(), signed_pair(s[b / 2], a, a + 1, shift));
}

void akv_kpanel_q2_k(struct akv_panel p[8], const uint8_t *const row[AKV_PANEL_ROWS], size_t off)
{
    const __m256i low = _mm256_set1_epi8(15), three = _mm256_set1_epi8(3);
    __m256i s[4], t[4], v[8];
    __m256 d, m;
    akv_panel_transpose(s, row, off);
    akv_panel_transpose(t, row, off + 68);
    akv_panel_halves(&d, &m, t[3]);
#pragma GCC unroll 8
    for (int b = 0; b < 8; b++) {
        const __m256i scale = akv_panel_bits(s[b / 2], 0, 0, low), min = akv_panel_bits(s[b / 2], 4, 0, low);
        const int a = b % 2 * 2;
        p[b].d = d;
        p[b].m = m;
        p[b].scale = pair_of(scale, a, a);
        p[b].scale_2 = pair_of(scale, a + 1, a + 1);
        p[b].offset = pair_of(min, a, a + 1);
    }
#pragma GCC unroll 2
    for (int h = 0; h < 2; h++) {
        akv_panel_bytes(v, row, off + 16 + 32 * (size_t)h);
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) {
#pragma GCC unroll 8
            for (int g = 0; g < 8; g++)
                p[4 * h + j].w[g] = akv_panel_bits(v[g], 2 * j, 0, three);
        }
    }
}

/* Six-bit sub-scales less 32, in bytes. */
AKV_INLINE void scales_of_q3_k(__m256i s[4], const uint8_t *const row[AKV_PANEL_ROWS], size_t off)
{
    const __m256i low = _mm256_set1_epi8(15), high = _mm256_set1_epi8(48), bias = _mm256_set1_epi8(32);
    __m256i t[4];
    akv_panel_transpose(t, row, off - 4);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        s[i] = akv_panel_bits(t[1 + i % 2], i / 2 * 4, 0, low);
        s[i] = _mm256_sub_epi8(_mm256_or_si256(s[i], akv_panel_bits(t[3], 2 * i, 4, high)), bias);
    }
}

void akv_kpanel_q3_k(struct akv_panel p[8], const uint8_t *const row[AKV_PANEL_ROWS], size_t off)
{
    const __m256i three = _mm256_set1_epi8(3), four = _mm256_set1_epi8(4);
    __m256i s[4], t[4], v[8], third[8];
    __m256 d, unused;
    akv_panel_transpose(t, row, off + 94);
    akv_panel_halves(&unused, &d, t[3]);
    scales_of_q3_k(s, row, off + 96);
    akv_panel_bytes(third, row, off);
#pragma GCC unroll 2
    for (int h = 0; h < 2; h++) {
        akv_panel_bytes(v, row, off + 32 + 32 * (size_t)h);
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) {
            const int b = 4 * h + j;
            p[b].d = d;
            signed_scales(&p[b], s, b, 6);
#pragma GCC unroll 8
            for (int g = 0; g < 8; g++)
                p[b].w[g] = _mm256_or_si256(akv_panel_bits(v[g], 2 * j, 0, three), akv_panel_bits(third[g], b, 2, four));
        }
    }
}

/* d, dmin and the sub-scales of Q4_K and Q5_K. */
AKV_INLINE void scales_of_32(struct akv_panel p[8], const uint8_t *const row[AKV_PANEL_ROWS], size_t off)
{
    const __m256i six = _mm256_set1_epi8(63), low = _mm256_set1_epi8(15), high = _mm256_set1_epi8(48);
    __m256i t[4], scale[2], min[2];
    __m256 d, m;
    akv_panel_transpose(t, row, off);
    akv_panel_halves(&d, &m, t[0]);
    scale[0] = _mm256_and_si256(t[1], six);
    min[0] = _mm256_and_si256(t[2], six);
    scale[1] = _mm256_or_si256(akv_panel_bits(t[3], 0, 0, low), akv_panel_bits(t[1], 6, 4, high));
    min[1] = _mm256_or_si256(akv_panel_bits(t[3], 4, 0, low), akv_panel_bits(t[2], 6, 4, high));
#pragma GCC unroll 8
    for (int b = 0; b < 8; b++) {
        p[b].d = d;
        p[b].m = m;
        p[b].scale = pair_of(scale[b / 4], b % 4, b % 4);
        p[b].offset = pair_of(min[b / 4], b % 4, b % 4);
    }
}

void akv_kpanel_q4_k(struct akv_panel p[8], const uint8_t *const row[AKV_PANEL_ROWS], size_t off)
{
    const __m256i low = _mm256_set1_epi8(15);
    scales_of_32(p, row, off);
#pragma GCC unroll 4
    for (int b = 0; b < 8; b += 2) {
        __m256i v[8];
        akv_panel_bytes(v, row, off + 16 + 16 * (size_t)b);
#pragma GCC unroll 8
        for (int g = 0; g < 8; g++) {
            p[b].w[g] = akv_panel_bits(v[g], 0, 0, low);
            p[b + 1].w[g] = akv_panel_bits(v[g], 4, 0, low);
        }
    }
}

void akv_kpanel_q5_k(struct akv_panel p[8], const uint8_t *const row[AKV_PANEL_ROWS], size_t off)
{
    const __m256i low = _mm256_set1_epi8(15), sixteen = _mm256_set1_epi8(16);
    __m256i fifth[8];
    scales_of_32(p, row, off);
    akv_panel_bytes(fifth, row, off + 16);
#pragma GCC unroll 4
    for (int b = 0; b < 8; b += 2) {
        __m256i v[8];
        akv_panel_bytes(v, row, off + 48 + 16 * (size_t)b);
#pragma GCC unroll 8
        for (int g = 0; g < 8; g++) {
            p[b].w[g] = _mm256_or_si256(akv_panel_bits(v[g], 0, 0, low), akv_panel_bits(fifth[g], b, 4, sixteen));
            p[b + 1].w[g] = _mm256_or_si256(akv_panel_bits(v[g], 4, 0, low), akv_panel_bits(fifth[g], b + 1, 4, sixteen));
        }
    }
}

void akv_kpanel_q6_k(struct akv_panel p[8], const uint8_t *const row[AKV_PANEL_ROWS], size_t off)
{
    const __m256i low = _mm256_set1_epi8(15), two = _mm256_set1_epi8(48);
    __m256i s[4], t[4];
    __m256 d, unused;
    akv_panel_transpose(s, row, off + 192);
    akv_panel_transpose(t, row, off + 194);
    akv_panel_halves(&unused, &d, t[3]);
#pragma GCC unroll 2
    for (int h = 0; h < 2; h++) {
        __m256i high[8];
        akv_panel_bytes(high, row, off + 128 + 32 * (size_t)h);
#pragma GCC unroll 2
        for (int j = 0; j < 2; j++) {
            struct akv_panel *const p0 = p + 4 * h + j, *const p2 = p0 + 2;
            __m256i v[8];
            akv_panel_bytes(v, row, off + 64 * (size_t)h + 32 * (size_t)j);
            p0->d = p2->d = d;
            signed_scales(p0, s, 4 * h + j, 3);
            signed_scales(p2, s, 4 * h + j + 2, 3);
#pragma GCC unroll 8
            for (int g = 0; g < 8; g++) {
                p0->w[g] = _mm256_or_si256(akv_panel_bits(v[g], 0, 0, low), akv_panel_bits(high[g], 2 * j, 4, two));
                p2->w[g] = _mm256_or_si256(akv_panel_bits(v[g], 4, 0, low), akv_panel_bits(high[g], 2 * j + 4, 4, two));
            }
        }
    }
}

void akv_kpanel_iq4_xs(struct akv_panel p[8], const uint8_t *const row[AKV_PANEL_ROWS], size_t off)
{
    const __m256i low = _mm256_set1_epi32(15), two = _mm256_set1_epi32(48), bias = _mm256_set1_epi32(32);
    __m256i t[4];
    __m256 d, unused;
    akv_panel_transpose(t, row, off);
    akv_panel_halves(&d, &unused, t[0]);
    t[0] = _mm256_srli_epi32(t[0], 12); /* the high bits from bit 4 on */
#pragma GCC unroll 8
    for (int b = 0; b < 8; b++) {
        __m256i s = _mm256_and_si256(_mm256_srli_epi32(t[1], 4 * b), low);
        s = _mm256_sub_epi32(_mm256_or_si256(s, _mm256_and_si256(_mm256_srli_epi32(t[0], 2 * b), two)), bias);
        p[b].d = d;
        p[b].scale = _mm256_blend_epi16(s, _mm256_slli_epi32(s, 16), 0xaa);
        akv_panel_nibbles(p[b].w, row, off + 8 + 16 * (size_t)b);
        akv_panel_lookup(p[b].w, akv_iq4_values, 0);
    }
}
