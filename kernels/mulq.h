/*
 * What products with quantised weights share in every table: what tells the dtypes from each other, and the activations they meet. For
 * the templates avx2_mulq.h and avx512_mulq.h, which are compiled once for each dtype.
 */
#ifndef AKV_KERNELS_MULQ_H
#define AKV_KERNELS_MULQ_H

#include "kernels/avx2_panel.h"

#define GROUP 4u  /* activation rows that share a panel's loads */
#define TILE 128u /* activation rows that share a panel's packing */

/*
 * One block of GROUP activation rows: d, what the dtype needs of the sums of q, and q. The sums, as bits, are one of
 *   float    d * sum                 Q4_1, Q5_1
 *   int32    offset * sum            those whose codes have an offset
 *   2 int16  sums of the halves      K-quants
 */
struct act_block {
    float d[GROUP];
    int32_t s[GROUP];
    int8_t q[GROUP][AKV_QBLOCK];
};

AKV_INLINE bool has_added_min(enum akv_dtype t)
{
    return t == AKV_Q4_1 || t == AKV_Q5_1;
}

AKV_INLINE bool has_subtracted_min(enum akv_dtype t)
{
    return t == AKV_Q2_K || t == AKV_Q4_K || t == AKV_Q5_K;
}

/* What is taken off the codes. */
AKV_INLINE int32_t code_offset(enum akv_dtype t)
{
    return t == AKV_Q4_0 ? 8 : t == AKV_Q5_0 ? 16 : t == AKV_MXFP4 ? 12 : 0;
}

/* Sub-scales times an offset of the codes, in the panel. */
AKV_INLINE bool has_scaled_offset(enum akv_dtype t)
{
    return t == AKV_Q3_K || t == AKV_Q6_K;
}

/* Blocks that are packed at once. */
AKV_INLINE size_t unit_of(enum akv_dtype t)
{
    return t == AKV_Q2_K || t == AKV_Q3_K || t == AKV_Q4_K || t == AKV_Q5_K || t == AKV_Q6_K || t == AKV_IQ4_XS ? 8 : 1;
}

AKV_INLINE akv_kpanel_fn *kpanel_fn(enum akv_dtype t)
{
    switch (t) {
    case AKV_Q2_K:
        return akv_kpanel_q2_k;
    case AKV_Q3_K:
        return akv_kpanel_q3_k;
    case AKV_Q4_K:
        return akv_kpanel_q4_k;
    case AKV_Q5_K:
        return akv_kpanel_q5_k;
    case AKV_Q6_K:
        return akv_kpanel_q6_k;
    default:
        return akv_kpanel_iq4_xs;
    }
}

/* Pack the unit (a block or super-block) at byte off of eight rows: unit_of(t) panels. */
AKV_INLINE void pack_unit(enum akv_dtype t, struct akv_panel *to, const uint8_t *const row[AKV_PANEL_ROWS], size_t off)
{
    if (unit_of(t) == 1)
        akv_panel_pack(t, to, row, off);
    else
        kpanel_fn(t)(to, row, off);
}

/* Ask for part i of n of what follows `bytes` of weights at w, which is packed next, so that little of it is waited for then. */
AKV_INLINE void prefetch_next(const uint8_t *w, size_t bytes, size_t i, size_t n)
{
    const size_t part = bytes / n + 1;
    const uintptr_t next = (uintptr_t)w + bytes;
    for (size_t at = i * part; at < (i + 1) * part; at += 64)
        _mm_prefetch((const char *)(next + at), _MM_HINT_T1);
}

AKV_INLINE int32_t term_of_sums(enum akv_dtype t, int32_t offset, float d, const int32_t sum[2])
{
    if (has_added_min(t)) {
        const float x = d * (float)(sum[0] + sum[1]);
        int32_t bits;
        memcpy(&bits, &x, sizeof bits);
        return bits;
    }
    if (offset)
        return offset * (sum[0] + sum[1]);
    return (int32_t)((uint32_t)sum[1] << 16 | ((uint32_t)sum[0] & 0xffff));
}

/* n activation rows from `first` on, by groups. offset: what is taken off the codes. */
AKV_INLINE void gather(enum akv_dtype t, int32_t offset, struct act_block *a, const struct akv_act *act, size_t first, size_t n)
{
    const size_t n_blocks = act->k / AKV_QBLOCK;
    for (size_t r = 0; r < n; r++) {
        const int8_t *q = act->q + (first + r) * act->k;
        const float *d = act->d + (first + r) * n_blocks;
        const int32_t *sum = act->sum + (first + r) * 2 * n_blocks;
        struct act_block *to = a + r / GROUP * n_blocks;
        for (size_t b = 0; b < n_blocks; b++) {
            to[b].d[r % GROUP] = d[b];
            to[b].s[r % GROUP] = term_of_sums(t, offset, d[b], sum + 2 * b);
            memcpy(to[b].q[r % GROUP], q + b * AKV_QBLOCK, AKV_QBLOCK);
        }
    }
}

#endif
