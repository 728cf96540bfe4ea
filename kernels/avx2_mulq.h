/*
 * Matrix product with quantised weights: eight outputs in the lanes, K ascending. A template: avx2_mulq.c and avx2_kquant.c alone
 * include it and make of it one function a dtype.
 *
 * Eight weight rows make a panel (avx2_panel.h). Up to four activation rows share its loads, four bytes of each broadcast at a time: one
 * multiplication gives sums of pairs for all eight outputs. As many of them are added in 16 bits as can be, codes being unsigned, before
 * one more multiplication widens them, by the sub-scale where there is one. Many rows go over a panel kept in scratch; four or fewer
 * meet each block as it is packed, at the speed of memory.
 */
#ifndef AKV_KERNELS_AVX2_MULQ_H
#define AKV_KERNELS_AVX2_MULQ_H

#include "kernels/mulq.h"

#define ROWS AKV_PANEL_ROWS

/* What n activation rows (1..GROUP) meet. */
struct pass {
    const uint8_t *row[ROWS]; /* weights */
    struct akv_panel *panel;  /* the same, packed */
    size_t n_blocks;          /* of 32 */
    size_t unit_bytes;        /* of a block or super-block of a row */
    const struct act_block *act;
};

/* Products of pairs that sum up in 16 bits: 2 * 127 times the largest code, 0 for signed weights, which fill 16 bits at once. */
AKV_INLINE int sums_of_16(enum akv_dtype t)
{
    switch (t) {
    case AKV_Q4_0: /* 8 * 2 * 127 * 15 = 30,480 */
    case AKV_Q4_1:
    case AKV_Q4_K:
        return 8;
    case AKV_Q5_0: /* 4 * 2 * 127 * 31 = 31,496 */
    case AKV_Q5_1:
    case AKV_Q5_K:
    case AKV_MXFP4: /* codes 0..24 */
    case AKV_Q2_K:  /* codes 0..3, sub-scales of 16 columns */
    case AKV_Q3_K:  /* codes 0..7 */
        return 4;
    case AKV_Q6_K: /* 2 * 2 * 127 * 63 = 32,004 */
        return 2;
    default:
        return 0;
    }
}

AKV_INLINE __m256i broadcast4(const int8_t *q)
{
    int32_t v;
    memcpy(&v, q, sizeof v);
    return _mm256_set1_epi32(v);
}

/* What widens the sums of 16 bits: ones or the sub-scale of column group g. */
AKV_INLINE __m256i widener(enum akv_dtype t, const struct akv_panel *p, int g)
{
    if (unit_of(t) == 1)
        return _mm256_set1_epi16(1);
    return g >= 4 && (t == AKV_Q2_K || has_scaled_offset(t)) ? p->scale_2 : p->scale;
}

/* Add the products of one block to isum; sums of 16 bits as they can be. */
AKV_INLINE void add_products(enum akv_dtype t, size_t n, __m256i isum[GROUP], const struct akv_panel *p,
                             const struct act_block *act)
{
    const int run = sums_of_16(t);
    __m256i x[GROUP];
#pragma GCC unroll 8
    for (int g = 0; g < 8; g++) {
        const __m256i v = p->w[g];
#pragma GCC unroll 4
        for (size_t r = 0; r < n; r++) {
            const __m256i a = broadcast4(&act->q[r][4 * g]);
            const __m256i y = run ? _mm256_maddubs_epi16(v, a) : _mm256_maddubs_epi16(_mm256_abs_epi8(v), _mm256_sign_epi8(a, v));
            x[r] = run && g % run ? _mm256_add_epi16(x[r], y) : y;
            if (!run || g % run == run - 1)
                isum[r] = _mm256_add_epi32(isum[r], _mm256_madd_epi16(x[r], widener(t, p, g)));
            if (run && g % run != run - 1)
                AKV_STAY(x[r]);
            else
                AKV_STAY(isum[r]);
        }
    }
}

/* Continue the chains over one block. */
AKV_INLINE void step(enum akv_dtype t, size_t n, __m256 acc[GROUP], const struct akv_panel *p, const struct act_block *a)
{
    __m256i isum[GROUP];
#pragma GCC unroll 4
    for (size_t r = 0; r < n; r++) {
        isum[r] = _mm256_setzero_si256();
        if (has_scaled_offset(t))
            isum[r] = _mm256_madd_epi16(p->offset, _mm256_set1_epi32(a->s[r]));
    }
    add_products(t, n, isum, p, a);
#pragma GCC unroll 4
    for (size_t r = 0; r < n; r++) {
        const __m256i s = _mm256_set1_epi32(a->s[r]);
        const __m256 d = _mm256_broadcast_ss(&a->d[r]);
        if (code_offset(t))
            isum[r] = _mm256_sub_epi32(isum[r], s);
        acc[r] = _mm256_fmadd_ps(_mm256_mul_ps(p->d, d), _mm256_cvtepi32_ps(isum[r]), acc[r]);
        if (has_added_min(t))
            acc[r] = _mm256_fmadd_ps(p->m, _mm256_castsi256_ps(s), acc[r]);
        else if (has_subtracted_min(t))
            acc[r] = _mm256_fnmadd_ps(_mm256_mul_ps(p->m, d), _mm256_cvtepi32_ps(_mm256_madd_epi16(p->offset, s)), acc[r]);
    }
}

static void store_some(float *y, __m256 v, size_t n)
{
    float lanes[ROWS];
    _mm256_storeu_ps(lanes, v);
    memcpy(y, lanes, n * sizeof *y);
}

/* Ask for what the stream comes to after block b: evenly, for the processor has few places to wait in. */
AKV_INLINE void prefetch(enum akv_dtype t, const struct pass *p, size_t b)
{
    const size_t bytes = ROWS * p->unit_bytes / unit_of(t); /* of a block of eight rows */
    akv_prefetch(p->row[0], b * bytes, bytes);
}

AKV_INLINE void pack(enum akv_dtype t, const struct pass *p)
{
    for (size_t b = 0; b < p->n_blocks; b += unit_of(t))
        pack_unit(t, p->panel + b, p->row, b / unit_of(t) * p->unit_bytes);
}

/* The chains of n activation rows, to y[n][y_stride]; n_out of eight outputs. */
AKV_INLINE void chains(enum akv_dtype t, size_t n, bool packed, const struct pass *p, float *y, size_t y_stride, size_t n_out)
{
    __m256 acc[GROUP];
#pragma GCC unroll 4
    for (size_t r = 0; r < n; r++)
        acc[r] = _mm256_setzero_ps();
    if (packed) {
        for (size_t b = 0; b < p->n_blocks; b++)
            step(t, n, acc, p->panel + b, p->act + b);
    } else {
        for (size_t b = 0; b < p->n_blocks; b += unit_of(t)) {
            struct akv_panel unit[8];
            pack_unit(t, unit, p->row, b / unit_of(t) * p->unit_bytes);
            for (size_t i = 0; i < unit_of(t); i++) {
                prefetch(t, p, b + i);
                step(t, n, acc, unit + i, p->act + b + i);
            }
        }
    }
#pragma GCC unroll 4
    for (size_t r = 0; r < n; r++) {
        if (n_out == ROWS)
            _mm256_storeu_ps(y + r * y_stride, acc[r]);
        else
            store_some(y + r * y_stride, acc[r], n_out);
    }
}

AKV_INLINE void chains_n(enum akv_dtype t, size_t n, bool packed, const struct pass *p, float *y, size_t y_stride, size_t n_out)
{
    switch (n) {
    case 1:
        chains(t, 1, packed, p, y, y_stride, n_out);
        break;
    case 2:
        chains(t, 2, packed, p, y, y_stride, n_out);
        break;
    case 3:
        chains(t, 3, packed, p, y, y_stride, n_out);
        break;
    default:
        chains(t, 4, packed, p, y, y_stride, n_out);
    }
}

/* Eight outputs (the last ones may be fewer) from o on for activation rows first .. first + n_rows, gathered in act. */
AKV_INLINE void panel(enum akv_dtype t, const struct akv_mul *m, size_t o, size_t first, size_t n_rows, struct pass *p,
                      const struct act_block *act)
{
    const size_t n_out = m->to - o < ROWS ? m->to - o : ROWS;
    float *y = m->y + first * m->y_stride + o;
    for (size_t i = 0; i < ROWS; i++)
        p->row[i] = m->w + (o + (i < n_out ? i : n_out - 1)) * m->row_bytes;
    p->act = act;
    if (n_rows <= GROUP) {
        chains_n(t, n_rows, false, p, y, m->y_stride, n_out);
        return;
    }
    pack(t, p);
    for (size_t r = 0; r < n_rows; r += GROUP, p->act += p->n_blocks, y += GROUP * m->y_stride) {
        prefetch_next(p->row[0], ROWS * p->n_blocks / unit_of(t) * p->unit_bytes, r / GROUP, (n_rows + GROUP - 1) / GROUP);
        chains_n(t, n_rows - r < GROUP ? n_rows - r : GROUP, true, p, y, m->y_stride, n_out);
    }
}

AKV_INLINE void mul_quantised(enum akv_dtype t, const struct akv_mul *m)
{
    const size_t n_blocks = m->act->k / AKV_QBLOCK;
    struct pass p = {.panel = m->scratch, .n_blocks = n_blocks, .unit_bytes = akv_dtypes[t].block_bytes};
    struct act_block *act = (void *)(p.panel + n_blocks);
    for (size_t first = 0; first < m->act->n_rows; first += TILE) {
        const size_t n_rows = m->act->n_rows - first < TILE ? m->act->n_rows - first : TILE;
        gather(t, code_offset(t), act, m->act, first, n_rows);
        for (size_t o = m->from; o < m->to; o += ROWS)
            panel(t, m, o, first, n_rows, &p, act);
    }
}

AKV_INLINE size_t mulq_scratch_bytes(size_t k)
{
    return k / AKV_QBLOCK * (sizeof(struct akv_panel) + TILE / GROUP * sizeof(struct act_block));
}

#include "kernels/mulq_cases.h"

#endif
