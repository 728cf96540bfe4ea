/*
 * Packing of quantised weight rows for avx2_mulq.h: eight rows become a panel in which a vector holds the same four columns of all of
 * them, so that their products with four activations come out with the outputs in the lanes.
 */
#ifndef AKV_KERNELS_AVX2_PANEL_H
#define AKV_KERNELS_AVX2_PANEL_H

#include "kernels/avx2.h"
#include "kernels/scalar_quant.h"

#define AKV_PANEL_ROWS 8u

/* One block of 32 columns; what a dtype does not have is not written. Pairs: two int16 in each lane. */
struct akv_panel {
    /* w[g]: columns 4g..4g+3 of row 0, then of row 1, ...: unsigned codes; Q8_0 and IQ4 signed values, MXFP4 values + 12 */
    __m256i w[8];
    __m256 d, m;     /* scales; minima, or scales of the minima */
    __m256i scale;   /* sub-scale of the block, or of its first half, twice: a pair */
    __m256i offset;  /* pair for the halves: sub-scales of the minima, or -32 (Q6_K), -4 (Q3_K) times the sub-scales */
    __m256i scale_2; /* of the second half, where it has its own */
};

/* Dwords of eight rows from byte off on: t[i] lane r = dword i of row r. */
AKV_INLINE void akv_panel_transpose(__m256i t[4], const uint8_t *const row[AKV_PANEL_ROWS], size_t off)
{
    __m256i a[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        a[i] = _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)(row[i] + off)));
        a[i] = _mm256_inserti128_si256(a[i], _mm_loadu_si128((const __m128i *)(const void *)(row[i + 4] + off)), 1);
    }
    __m256i lo01 = _mm256_unpacklo_epi32(a[0], a[1]), lo23 = _mm256_unpacklo_epi32(a[2], a[3]);
    __m256i hi01 = _mm256_unpackhi_epi32(a[0], a[1]), hi23 = _mm256_unpackhi_epi32(a[2], a[3]);
    t[0] = _mm256_unpacklo_epi64(lo01, lo23);
    t[1] = _mm256_unpackhi_epi64(lo01, lo23);
    t[2] = _mm256_unpacklo_epi64(hi01, hi23);
    t[3] = _mm256_unpackhi_epi64(hi01, hi23);
}

/* 32 bytes of eight rows. */
AKV_INLINE void akv_panel_bytes(__m256i w[8], const uint8_t *const row[AKV_PANEL_ROWS], size_t off)
{
    akv_panel_transpose(w, row, off);
    akv_panel_transpose(w + 4, row, off + 16);
}

/* Halves in the lanes of t to floats: lo the low ones, hi the high ones. */
AKV_INLINE void akv_panel_halves(__m256 *lo, __m256 *hi, __m256i t)
{
    const __m256i split = _mm256_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15, /* */
                                           0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
    t = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(t, split), 0xd8);
    *lo = _mm256_cvtph_ps(_mm256_castsi256_si128(t));
    *hi = _mm256_cvtph_ps(_mm256_extracti128_si256(t, 1));
}

/* Bits [from, from + 1..8) of every byte, moved to bit `to`; mask has those bits at `to`. */
AKV_INLINE __m256i akv_panel_bits(__m256i v, int from, int to, __m256i mask)
{
    if (from > to)
        v = _mm256_srli_epi16(v, from - to);
    else if (from < to)
        v = _mm256_slli_epi16(v, to - from);
    return _mm256_and_si256(v, mask);
}

/* 16 bytes of nibbles: byte i has columns i and i + 16. */
AKV_INLINE void akv_panel_nibbles(__m256i w[8], const uint8_t *const row[AKV_PANEL_ROWS], size_t off)
{
    const __m256i low = _mm256_set1_epi8(15);
    __m256i t[4];
    akv_panel_transpose(t, row, off);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        w[i] = akv_panel_bits(t[i], 0, 0, low);
        w[i + 4] = akv_panel_bits(t[i], 4, 0, low);
    }
}

/* Add the fifth bits: that of column i is bit i of its row's lane. */
AKV_INLINE void akv_panel_fifth(__m256i w[8], __m256i bits)
{
    const __m256i sixteen = _mm256_set1_epi8(16), even = _mm256_set1_epi32(0x08040201), odd = _mm256_set1_epi32((int)0x80402010);
#pragma GCC unroll 8
    for (int g = 0; g < 8; g++) {
        const __m256i byte =
            _mm256_add_epi8(_mm256_set1_epi32(0x01010101 * (g / 2)), /* that byte, four times */
                            _mm256_setr_epi32(0, 0x04040404, 0x08080808, 0x0c0c0c0c, 0, 0x04040404, 0x08080808, 0x0c0c0c0c));
        const __m256i want = g % 2 ? odd : even, has = _mm256_and_si256(_mm256_shuffle_epi8(bits, byte), want);
        w[g] = _mm256_or_si256(w[g], _mm256_and_si256(_mm256_cmpeq_epi8(has, want), sixteen));
    }
}

/* Codes 0..15 to values of a codebook, plus an offset. */
AKV_INLINE void akv_panel_lookup(__m256i w[8], const int8_t values[16], int8_t offset)
{
    const __m128i v = _mm_add_epi8(_mm_loadu_si128((const __m128i *)(const void *)values), _mm_set1_epi8(offset));
#pragma GCC unroll 8
    for (int g = 0; g < 8; g++)
        w[g] = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(v), w[g]);
}

/* MXFP4's exponent, the lowest byte of every lane: 2^(e - 128), NaN for 255. */
AKV_INLINE __m256 akv_panel_e8m0(__m256i t)
{
    const __m256i e = _mm256_and_si256(t, _mm256_set1_epi32(255));
    __m256i d = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
    d = _mm256_blendv_epi8(d, _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e), _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e));
    d = _mm256_or_si256(d, _mm256_and_si256(_mm256_cmpeq_epi32(e, _mm256_set1_epi32(255)), _mm256_set1_epi32(0x7fc00000)));
    return _mm256_castsi256_ps(d);
}

/* The block of 32 at byte off of eight rows. */
AKV_INLINE void akv_panel_pack(enum akv_dtype t, struct akv_panel *p, const uint8_t *const row[AKV_PANEL_ROWS], size_t off)
{
    __m256i head[4];
    __m256 m;
    akv_panel_transpose(head, row, off);
    akv_panel_halves(&p->d, &m, head[0]);
    if (t == AKV_Q4_1 || t == AKV_Q5_1)
        p->m = m;
    switch (t) {
    case AKV_Q4_0:
        akv_panel_nibbles(p->w, row, off + 2);
        break;
    case AKV_Q4_1:
        akv_panel_nibbles(p->w, row, off + 4);
        break;
    case AKV_Q5_0:
        akv_panel_nibbles(p->w, row, off + 6);
        akv_panel_fifth(p->w, _mm256_or_si256(_mm256_srli_epi32(head[0], 16), _mm256_slli_epi32(head[1], 16)));
        break;
    case AKV_Q5_1:
        akv_panel_nibbles(p->w, row, off + 8);
        akv_panel_fifth(p->w, head[1]);
        break;
    case AKV_IQ4_NL:
        akv_panel_nibbles(p->w, row, off + 2);
        akv_panel_lookup(p->w, akv_iq4_values, 0);
        break;
    case AKV_MXFP4:
        p->d = akv_panel_e8m0(head[0]);
        akv_panel_nibbles(p->w, row, off + 1);
        akv_panel_lookup(p->w, akv_mxfp4_values, 12);
        break;
    default:
        akv_panel_bytes(p->w, row, off + 2);
    }
}

/* avx2_kpanel.c: the super-block at byte off of eight rows. */
typedef void akv_kpanel_fn(struct akv_panel p[8], const uint8_t *const row[AKV_PANEL_ROWS], size_t off);
akv_kpanel_fn akv_kpanel_q2_k, akv_kpanel_q3_k, akv_kpanel_q4_k, akv_kpanel_q5_k, akv_kpanel_q6_k, akv_kpanel_iq4_xs;

#endif
