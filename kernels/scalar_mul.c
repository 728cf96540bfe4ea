/*
 * Scalar specification of the matrix product (numerics R1, R2). One output at a time, K ascending, the chain starts at +0.
 *
 * Order per block of 32 activations, with isum an exact integer and d_a, sum_q the activation block's scale and sum of q:
 *   Q8_0:  isum = sum w * q        acc = fma(d_w * d_a, (float) isum, acc)
 *   Q4_0:  isum = sum (w - 8) * q  acc = fma(d_w * d_a, (float) isum, acc)
 *   Q4_1:  isum = sum w * q        acc = fma(d_w * d_a, (float) isum, acc), then acc = fma(m, d_a * (float) sum_q, acc)
 * and per element:
 *   F32, F16:                      acc = fma(w, x, acc), w widened exactly
 */
#include "kernels/fp32.h"
#include "kernels/scalar.h"

/* Continue an output's chain over one block of weights, which meets q, d, sum of the same elements. */
typedef float block_fn(const uint8_t *w, const int8_t *q, const float *d, const int32_t *sum, float acc);

static int32_t dot_nibbles(const uint8_t *w, const int8_t *q)
{
    int32_t isum = 0;
    for (size_t i = 0; i < 16; i++) {
        isum += (w[i] & 15) * q[i] + (w[i] >> 4) * q[i + 16];
    }
    return isum;
}

static float block_q4_0(const uint8_t *w, const int8_t *q, const float *d, const int32_t *sum, float acc)
{
    int32_t isum = dot_nibbles(w + 2, q) - 8 * (sum[0] + sum[1]);
    return akv_fma(akv_f32_from_f16(akv_load16(w)) * d[0], (float)isum, acc);
}

static float block_q4_1(const uint8_t *w, const int8_t *q, const float *d, const int32_t *sum, float acc)
{
    acc = akv_fma(akv_f32_from_f16(akv_load16(w)) * d[0], (float)dot_nibbles(w + 4, q), acc);
    return akv_fma(akv_f32_from_f16(akv_load16(w + 2)), d[0] * (float)(sum[0] + sum[1]), acc);
}

static float block_q8_0(const uint8_t *w, const int8_t *q, const float *d, const int32_t *sum, float acc)
{
    (void)sum;
    int32_t isum = 0;
    for (size_t i = 0; i < AKV_QBLOCK; i++) {
        isum += (int8_t)w[2 + i] * q[i];
    }
    return akv_fma(akv_f32_from_f16(akv_load16(w)) * d[0], (float)isum, acc);
}

static float dot_f32(const uint8_t *w, const float *x, size_t k)
{
    float acc = 0;
    for (size_t i = 0; i < k; i++) {
        float v;
        memcpy(&v, w + 4 * i, sizeof v);
        acc = akv_fma(v, x[i], acc);
    }
    return acc;
}

static float dot_f16(const uint8_t *w, const float *x, size_t k)
{
    float acc = 0;
    for (size_t i = 0; i < k; i++) {
        acc = akv_fma(akv_f32_from_f16(akv_load16(w + 2 * i)), x[i], acc);
    }
    return acc;
}

static const struct {
    block_fn *step;                                           /* a quantised dtype: one block */
    float (*dot)(const uint8_t *w, const float *x, size_t k); /* any other: the whole row */
} products[AKV_DTYPES] = {
    [AKV_F32] = {.dot = dot_f32},      [AKV_F16] = {.dot = dot_f16},      [AKV_Q4_0] = {.step = block_q4_0},
    [AKV_Q4_1] = {.step = block_q4_1}, [AKV_Q8_0] = {.step = block_q8_0},
};

bool akv_scalar_has(enum akv_dtype dtype)
{
    return (unsigned)dtype < AKV_DTYPES && (products[dtype].step || products[dtype].dot);
}

static float dot_row(enum akv_dtype dtype, const uint8_t *w, const struct akv_act *act, size_t row)
{
    const struct akv_dtype_info *t = &akv_dtypes[dtype];
    if (!t->quantised)
        return products[dtype].dot(w, act->x + row * act->k, act->k);
    const int8_t *q = act->q + row * act->k;
    const float *d = act->d + row * (act->k / AKV_QBLOCK);
    const int32_t *sum = act->sum + row * (act->k / 16);
    float acc = 0;
    for (size_t i = 0; i < act->k; i += t->block, w += t->block_bytes) {
        acc = products[dtype].step(w, q + i, d + i / AKV_QBLOCK, sum + i / 16, acc);
    }
    return acc;
}

void akv_scalar_mul(const struct akv_mul *m)
{
    for (size_t row = 0; row < m->act->n_rows; row++) {
        for (size_t o = m->from; o < m->to; o++) {
            m->y[row * m->y_stride + o] = dot_row(m->dtype, m->w + o * m->row_bytes, m->act, row);
        }
    }
}

size_t akv_scalar_mul_scratch_bytes(enum akv_dtype dtype, size_t k)
{
    (void)dtype;
    (void)k;
    return 0;
}
