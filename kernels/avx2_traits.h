/*
 * What tells the quantised dtypes from each other in a product, for templates that are compiled once for each of them.
 */
#ifndef AKV_KERNELS_AVX2_TRAITS_H
#define AKV_KERNELS_AVX2_TRAITS_H

#include "kernels/avx2_panel.h"

AKV_INLINE bool has_added_min(enum akv_dtype t)
{
    return t == AKV_Q4_1 || t == AKV_Q5_1;
}

AKV_INLINE bool has_subtracted_min(enum akv_dtype t)
{
    return t == AKV_Q2_K || t == AKV_Q4_K || t == AKV_Q5_K;
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

#endif
