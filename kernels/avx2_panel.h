/*
 * Packing of quantised weight rows for avx2_mulq.c: eight rows become a panel in which a vector holds the same four columns of all of
 * them. A new dtype is a case in akv_panel_pack().
 */
#ifndef AKV_KERNELS_AVX2_PANEL_H
#define AKV_KERNELS_AVX2_PANEL_H

#include "kernels/avx2.h"

#define AKV_PANEL_ROWS 8u

/* One block of 32 columns. */
struct akv_panel {
    __m256i w[8]; /* w[g]: columns 4g..4g+3 of row 0, then of row 1, ...: Q8_0 signed, four-bit dtypes 0..15 */
    __m256 d, m;  /* scales; minima where the dtype has them */
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

/* The first dword of eight rows' blocks as two vectors of halves: the first halves of rows 0..7, then the second ones. */
AKV_INLINE __m256i akv_panel_halves(const uint8_t *const row[AKV_PANEL_ROWS], size_t off)
{
    const __m128i split = _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
    __m256i t[4];
    akv_panel_transpose(t, row, off);
    return _mm256_permute4x64_epi64(_mm256_shuffle_epi8(t[0], _mm256_broadcastsi128_si256(split)), 0xd8);
}

AKV_INLINE void akv_panel_nibbles(__m256i w[8], const uint8_t *const row[AKV_PANEL_ROWS], size_t off)
{
    const __m256i low = _mm256_set1_epi8(15);
    __m256i t[4];
    akv_panel_transpose(t, row, off);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        w[i] = _mm256_and_si256(t[i], low);
        w[i + 4] = _mm256_and_si256(_mm256_srli_epi16(t[i], 4), low);
    }
}

/* The block at byte off of eight rows. */
AKV_INLINE void akv_panel_pack(enum akv_dtype t, struct akv_panel *p, const uint8_t *const row[AKV_PANEL_ROWS], size_t off)
{
    __m256i halves = akv_panel_halves(row, off);
    p->d = _mm256_cvtph_ps(_mm256_castsi256_si128(halves));
    if (t == AKV_Q4_1) {
        p->m = _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1));
        akv_panel_nibbles(p->w, row, off + 4);
    } else if (t == AKV_Q4_0) {
        akv_panel_nibbles(p->w, row, off + 2);
    } else {
        akv_panel_transpose(p->w, row, off + 2);
        akv_panel_transpose(p->w + 4, row, off + 18);
    }
}

#endif
