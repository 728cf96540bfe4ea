/*
 * Matrix product with quantised weights for many activation rows: sixteen outputs in the lanes, K ascending. A template: avx512_mulq.c
 * and avx512_kquant.c alone include it and make of it one function a dtype.
 *
 * Two panels of eight weight rows (avx2_panel.h) side by side make a wide one. Two of those meet four activation rows, four bytes of each
 * broadcast at a time: one VNNI instruction multiplies them with the unsigned codes of sixteen outputs and adds the sums of four to exact
 * 32-bit sums. Signed weights are made unsigned by adding 128, which the sums of the activations take off again.
 */
#ifndef AKV_KERNELS_AVX512_MULQ_H
#define AKV_KERNELS_AVX512_MULQ_H

#include "kernels/mulq.h"
#include "kernels/avx512.h"

#define WIDE 2u /* wide panels that share the loads of activations */
#define LANES (2 * AKV_PANEL_ROWS)
#define ROWS (WIDE * LANES)

/* As struct akv_panel, for sixteen rows; scales are one int32 a lane. */
struct wide_panel {
    __m512i w[8];
    __m512 d, m;
    __m512i scale, offset, scale_2;
};

/* What a group of activation rows meets. */
struct pass {
    const uint8_t *row[ROWS]; /* weights */
    struct wide_panel *panel; /* the same, packed: [n_blocks][WIDE] */
    size_t n_blocks;          /* of 32 */
    size_t unit_bytes;        /* of a block or super-block of a row */
    const struct act_block *act;
};

/* Signed values in the panel. */
AKV_INLINE bool is_signed(enum akv_dtype t)
{
    return t == AKV_Q8_0 || t == AKV_IQ4_NL || t == AKV_IQ4_XS;
}

/* What is taken off the codes. */
AKV_INLINE int32_t offset_of(enum akv_dtype t)
{
    return is_signed(t) ? 128 : code_offset(t);
}

/* Sub-scales: one for 32 columns, or one for each 16. */
AKV_INLINE bool has_scale(enum akv_dtype t)
{
    return unit_of(t) > 1;
}

AKV_INLINE bool has_two_scales(enum akv_dtype t)
{
    return t == AKV_Q2_K || has_scaled_offset(t);
}

AKV_INLINE __m512i broadcast4(const int8_t *q)
{
    int32_t v;
    memcpy(&v, q, sizeof v);
    return _mm512_set1_epi32(v);
}

/* Sums of products of half h of a block. */
AKV_INLINE void add_products(__m512i isum[WIDE][GROUP], const struct wide_panel *p, const struct act_block *act, int h)
{
#pragma GCC unroll 4
    for (int g = 4 * h; g < 4 * h + 4; g++) {
        const __m512i v0 = p[0].w[g], v1 = p[1].w[g];
#pragma GCC unroll 4
        for (size_t r = 0; r < GROUP; r++) {
            const __m512i q = broadcast4(&act->q[r][4 * g]);
            isum[0][r] = _mm512_dpbusd_epi32(isum[0][r], v0, q);
            isum[1][r] = _mm512_dpbusd_epi32(isum[1][r], v1, q);
        }
    }
}

/* Continue a chain over one block. */
AKV_INLINE __m512 add_block(enum akv_dtype t, __m512 acc, const struct wide_panel *p, __m512i isum, __m512i second, __m512 d,
                            __m512i s)
{
    if (offset_of(t))
        isum = _mm512_sub_epi32(isum, s);
    if (has_scale(t))
        isum = _mm512_mullo_epi32(isum, p->scale);
    if (has_two_scales(t))
        isum = _mm512_add_epi32(isum, _mm512_mullo_epi32(second, p->scale_2));
    if (has_scaled_offset(t))
        isum = _mm512_add_epi32(isum, _mm512_madd_epi16(p->offset, s));
    acc = _mm512_fmadd_ps(_mm512_mul_ps(p->d, d), _mm512_cvtepi32_ps(isum), acc);
    if (has_added_min(t))
        acc = _mm512_fmadd_ps(p->m, _mm512_castsi512_ps(s), acc);
    else if (has_subtracted_min(t))
        acc = _mm512_fnmadd_ps(_mm512_mul_ps(p->m, d), _mm512_cvtepi32_ps(_mm512_madd_epi16(p->offset, s)), acc);
    return acc;
}

/* Continue the chains over one block. */
AKV_INLINE void step(enum akv_dtype t, __m512 acc[WIDE][GROUP], const struct wide_panel *p, const struct act_block *a)
{
    __m512i isum[WIDE][GROUP], second[WIDE][GROUP];
#pragma GCC unroll 4
    for (size_t r = 0; r < GROUP; r++)
        isum[0][r] = isum[1][r] = second[0][r] = second[1][r] = _mm512_setzero_si512();
    add_products(isum, p, a, 0);
    add_products(has_two_scales(t) ? second : isum, p, a, 1);
#pragma GCC unroll 4
    for (size_t r = 0; r < GROUP; r++) {
        const __m512i s = _mm512_set1_epi32(a->s[r]);
        const __m512 d = _mm512_set1_ps(a->d[r]);
        acc[0][r] = add_block(t, acc[0][r], p, isum[0][r], second[0][r], d, s);
        acc[1][r] = add_block(t, acc[1][r], p + 1, isum[1][r], second[1][r], d, s);
    }
}

AKV_INLINE __m512i join(__m256i low, __m256i high)
{
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

AKV_INLINE __m512 join_floats(__m256 low, __m256 high)
{
    return _mm512_castsi512_ps(join(_mm256_castps_si256(low), _mm256_castps_si256(high)));
}

/* Two panels side by side. What a dtype does not have is not looked at. */
AKV_INLINE void widen(enum akv_dtype t, struct wide_panel *to, const struct akv_panel *a, const struct akv_panel *b)
{
    const __m512i flip = _mm512_set1_epi8(is_signed(t) ? -128 : 0);
#pragma GCC unroll 8
    for (int g = 0; g < 8; g++)
        to->w[g] = _mm512_xor_si512(join(a->w[g], b->w[g]), flip);
    to->d = join_floats(a->d, b->d);
    if (has_added_min(t) || has_subtracted_min(t))
        to->m = join_floats(a->m, b->m);
    if (has_scale(t))
        to->scale = _mm512_srai_epi32(join(a->scale, b->scale), 16);
    if (has_two_scales(t))
        to->scale_2 = _mm512_srai_epi32(join(a->scale_2, b->scale_2), 16);
    if (has_scaled_offset(t) || has_subtracted_min(t))
        to->offset = join(a->offset, b->offset);
}

AKV_INLINE void pack(enum akv_dtype t, const struct pass *p)
{
    struct akv_panel half[2][8];
    for (size_t b = 0; b < p->n_blocks; b += unit_of(t)) {
        const size_t off = b / unit_of(t) * p->unit_bytes;
        for (size_t j = 0; j < WIDE; j++) {
            pack_unit(t, half[0], p->row + j * LANES, off);
            pack_unit(t, half[1], p->row + j * LANES + AKV_PANEL_ROWS, off);
            for (size_t i = 0; i < unit_of(t); i++)
                widen(t, p->panel + (b + i) * WIDE + j, &half[0][i], &half[1][i]);
        }
    }
}

/* The chains of a group, to y[n_rows][y_stride]: the group may have more rows. n_out of the outputs. */
AKV_INLINE void chains(enum akv_dtype t, const struct pass *p, float *y, size_t y_stride, size_t n_rows, size_t n_out)
{
    const uint32_t outs = n_out < ROWS ? (1u << n_out) - 1 : UINT32_MAX;
    __m512 acc[WIDE][GROUP];
#pragma GCC unroll 4
    for (size_t r = 0; r < GROUP; r++)
        acc[0][r] = acc[1][r] = _mm512_setzero_ps();
    for (size_t b = 0; b < p->n_blocks; b++)
        step(t, acc, p->panel + b * WIDE, p->act + b);
#pragma GCC unroll 4
    for (size_t r = 0; r < GROUP; r++) {
        if (r < n_rows) {
            _mm512_mask_storeu_ps(y + r * y_stride, (__mmask16)outs, acc[0][r]);
            _mm512_mask_storeu_ps(y + r * y_stride + LANES, (__mmask16)(outs >> LANES), acc[1][r]);
        }
    }
}

/* ROWS outputs (the last ones may be fewer) from o on for activation rows first .. first + n_rows, gathered in act. */
AKV_INLINE void panel(enum akv_dtype t, const struct akv_mul *m, size_t o, size_t first, size_t n_rows, struct pass *p,
                      const struct act_block *act)
{
    const size_t n_out = m->to - o < ROWS ? m->to - o : ROWS, n_groups = (n_rows + GROUP - 1) / GROUP;
    float *y = m->y + first * m->y_stride + o;
    for (size_t i = 0; i < ROWS; i++)
        p->row[i] = m->w + (o + (i < n_out ? i : n_out - 1)) * m->row_bytes;
    pack(t, p);
    for (size_t i = 0; i < n_groups; i++, y += GROUP * m->y_stride) {
        p->act = act + i * p->n_blocks;
        prefetch_next(p->row[0], ROWS * p->n_blocks / unit_of(t) * p->unit_bytes, i, n_groups);
        chains(t, p, y, m->y_stride, n_rows - i * GROUP, n_out);
    }
}

AKV_INLINE void mul_quantised(enum akv_dtype t, const struct akv_mul *m)
{
    const size_t n_blocks = m->act->k / AKV_QBLOCK;
    struct pass p = {.panel = m->scratch, .n_blocks = n_blocks, .unit_bytes = akv_dtypes[t].block_bytes};
    struct act_block *act = (void *)(p.panel + WIDE * n_blocks);
    for (size_t first = 0; first < m->act->n_rows; first += TILE) {
        const size_t n_rows = m->act->n_rows - first < TILE ? m->act->n_rows - first : TILE;
        if (n_rows % GROUP) /* zeros where the last group has none */
            memset(act + n_rows / GROUP * n_blocks, 0, n_blocks * sizeof *act);
        gather(t, offset_of(t), act, m->act, first, n_rows);
        for (size_t o = m->from; o < m->to; o += ROWS)
            panel(t, m, o, first, n_rows, &p, act);
    }
}

AKV_INLINE size_t mulq_scratch_bytes(size_t k)
{
    return k / AKV_QBLOCK * (WIDE * sizeof(struct wide_panel) + TILE / GROUP * sizeof(struct act_block));
}

#include "kernels/mulq_cases.h"

#endif
