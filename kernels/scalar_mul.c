/*
 * Scalar specification of the matrix product (numerics R1, R2). Of each output: K ascending, the chain starts at +0.
 *
 * Order per block of 32 elements, by dtype. Exact integers: w is the code less the dtype's offset, or its codebook value; s the
 * sub-scale and ms that of the minimum (of 16 elements in Q2_K, Q3_K, Q6_K, of 32 in Q4_K, Q5_K, IQ4_XS); q the activations.
 * d_a is the activations' scale; d, m, dmin are the f16 scales of the block or super-block widened (MXFP4: d = 2^(e - 128)).
 *
 *   Q4_0, Q5_0, Q8_0, IQ4_NL, MXFP4   acc = fma(d * d_a, (float) sum(w * q), acc)
 *   Q4_1, Q5_1                        acc = fma(d * d_a, (float) sum(w * q), acc)
 *                                     acc = fma(m, d_a * (float) sum(q), acc)
 *   Q3_K, Q6_K, IQ4_XS                acc = fma(d * d_a, (float) sum(s * sum(w * q)), acc)
 *   Q2_K, Q4_K, Q5_K                  acc = fma(d * d_a, (float) sum(s * sum(w * q)), acc)
 *                                     acc = fma(-(dmin * d_a), (float) sum(ms * sum(q)), acc)
 *
 * and per element:
 *
 *   F32, F16, BF16                    acc = fma(w, x, acc), w widened exactly
 */
#include "kernels/fp32.h"
#include "kernels/scalar.h"
#include "kernels/scalar_quant.h"

#define PIECE 64u /* float weights that are widened at once */

/* Continue an output's chain over 32 weights, which meet q, its scale and the sums of its halves. */
static float step(const struct akv_weights *b, enum akv_minimum minimum, const int8_t *q, float d, const int32_t *sum, float acc)
{
    int32_t isum = 0;
    for (size_t half = 0; half < 2; half++) {
        int32_t dot = 0;
        for (size_t i = 16 * half; i < 16 * half + 16; i++)
            dot += b->w[i] * q[i];
        isum += b->scale[half] * dot;
    }
    acc = akv_fma(b->d * d, (float)isum, acc);
    if (minimum == AKV_MIN_ADDED)
        acc = akv_fma(b->m, d * (float)(sum[0] + sum[1]), acc);
    else if (minimum == AKV_MIN_SUBTRACTED)
        acc = akv_fma(-(b->m * d), (float)(b->min[0] * sum[0] + b->min[1] * sum[1]), acc);
    return acc;
}

/* Output o of every activation row. */
static void mul_quantised(const struct akv_mul *m, size_t o)
{
    const struct akv_dtype_info *t = &akv_dtypes[m->dtype];
    const struct akv_quant *quant = &akv_quants[m->dtype];
    const struct akv_act *act = m->act;
    const uint8_t *w = m->w + o * m->row_bytes;
    for (size_t row = 0; row < act->n_rows; row++)
        m->y[row * m->y_stride + o] = 0;
    for (size_t i = 0; i < act->k; i += AKV_QBLOCK) {
        struct akv_weights b;
        quant->unpack(&b, w + i / t->block * t->block_bytes, i % t->block / AKV_QBLOCK);
        for (size_t row = 0; row < act->n_rows; row++) {
            const size_t at = row * act->k + i;
            float *acc = &m->y[row * m->y_stride + o];
            *acc = step(&b, quant->minimum, act->q + at, act->d[at / AKV_QBLOCK], act->sum + at / 16, *acc);
        }
    }
}

/* The same for floats: a row of weights is widened piece by piece. */
static void mul_floats(const struct akv_mul *m, size_t o)
{
    const struct akv_act *act = m->act;
    const uint8_t *w = m->w + o * m->row_bytes;
    for (size_t row = 0; row < act->n_rows; row++)
        m->y[row * m->y_stride + o] = 0;
    for (size_t from = 0; from < act->k; from += PIECE) {
        const size_t n = act->k - from < PIECE ? act->k - from : PIECE;
        float piece[PIECE];
        akv_scalar_dequant(m->dtype, piece, w + from * akv_dtypes[m->dtype].block_bytes, n);
        for (size_t row = 0; row < act->n_rows; row++) {
            float *acc = &m->y[row * m->y_stride + o];
            for (size_t i = 0; i < n; i++)
                *acc = akv_fma(piece[i], act->x[row * act->k + from + i], *acc);
        }
    }
}

bool akv_scalar_has(enum akv_dtype dtype)
{
    return (unsigned)dtype < AKV_DTYPES && akv_dtypes[dtype].runs;
}

void akv_scalar_mul(const struct akv_mul *m)
{
    for (size_t o = m->from; o < m->to; o++) {
        if (akv_dtypes[m->dtype].quantised)
            mul_quantised(m, o);
        else
            mul_floats(m, o);
    }
}

size_t akv_scalar_mul_scratch_bytes(enum akv_dtype dtype, size_t k)
{
    (void)dtype;
    (void)k;
    return 0;
}
