/*
 * Quantised weights as integers: what the products and the decoding of rows (scalar_mul.c, scalar_dequant.c) are written in.
 */
#ifndef AKV_KERNELS_SCALAR_QUANT_H
#define AKV_KERNELS_SCALAR_QUANT_H

#include "kernels/kernels.h"

/* 32 consecutive weights, w[i] of half i / 16: (d * scale) * w, with a minimum as enum akv_minimum says. */
struct akv_weights {
    int8_t w[AKV_QBLOCK]; /* offsets and codebooks applied */
    int32_t scale[2];     /* of the halves; 1 where the dtype has no sub-scales */
    int32_t min[2];       /* of the halves, AKV_MIN_SUBTRACTED only */
    float d, m;
};

enum akv_minimum {
    AKV_MIN_NONE,
    AKV_MIN_ADDED /* + m */,
    AKV_MIN_SUBTRACTED /* - m * min */
};

/* Take out the i-th 32 weights of the block (i == 0) or super-block (i < 8) at p. */
typedef void akv_unpack_fn(struct akv_weights *restrict b, const uint8_t *restrict p, size_t i);

struct akv_quant {
    akv_unpack_fn *unpack; /* NULL: not a quantised dtype, or not one that is known */
    enum akv_minimum minimum;
};

extern const struct akv_quant akv_quants[AKV_DTYPES];

/* scalar_quant.c: blocks of 32 */
akv_unpack_fn akv_unpack_q4_0, akv_unpack_q4_1, akv_unpack_q5_0, akv_unpack_q5_1, akv_unpack_q8_0, akv_unpack_iq4_nl,
    akv_unpack_mxfp4;
/* scalar_kquant.c: super-blocks of 256 */
akv_unpack_fn akv_unpack_q2_k, akv_unpack_q3_k, akv_unpack_q4_k, akv_unpack_q5_k, akv_unpack_q6_k, akv_unpack_iq4_xs;

/* Values of the four-bit codes of IQ4_NL and IQ4_XS, and of MXFP4 (twice the E2M1 values). */
extern const int8_t akv_iq4_values[16];
extern const int8_t akv_mxfp4_values[16];

#endif
