/*
 * Rows of a weight matrix as f32. Order of operations, each rounded: d * scale (the sub-scale, where there is one), times the
 * integer w; then one addition of m (Q4_1, Q5_1) or one subtraction of dmin * min (Q2_K, Q4_K, Q5_K).
 */
#include "kernels/fp32.h"
#include "kernels/scalar.h"
#include "kernels/scalar_quant.h"

static void decode(float *y, const struct akv_weights *b, enum akv_minimum minimum)
{
    for (size_t i = 0; i < AKV_QBLOCK; i++) {
        y[i] = b->d * (float)b->scale[i / 16] * (float)b->w[i];
        if (minimum == AKV_MIN_ADDED)
            y[i] = y[i] + b->m;
        else if (minimum == AKV_MIN_SUBTRACTED)
            y[i] = y[i] - b->m * (float)b->min[i / 16];
    }
}

static void widen_f16(float *y, const uint8_t *row, size_t k)
{
    for (size_t i = 0; i < k; i++)
        y[i] = akv_f32_from_f16(akv_load16(row + 2 * i));
}

static void widen_bf16(float *y, const uint8_t *row, size_t k)
{
    for (size_t i = 0; i < k; i++)
        y[i] = akv_float((uint32_t)akv_load16(row + 2 * i) << 16);
}

static void decode_quantised(enum akv_dtype dtype, float *y, const uint8_t *row, size_t k)
{
    const struct akv_dtype_info *t = &akv_dtypes[dtype];
    for (size_t i = 0; i < k; i += AKV_QBLOCK) {
        struct akv_weights b;
        akv_quants[dtype].unpack(&b, row + i / t->block * t->block_bytes, i % t->block / AKV_QBLOCK);
        decode(y + i, &b, akv_quants[dtype].minimum);
    }
}

void akv_scalar_dequant(enum akv_dtype dtype, float *y, const uint8_t *row, size_t k)
{
    if (dtype == AKV_F32)
        memcpy(y, row, k * sizeof *y);
    else if (dtype == AKV_F16)
        widen_f16(y, row, k);
    else if (dtype == AKV_BF16)
        widen_bf16(y, row, k);
    else
        decode_quantised(dtype, y, row, k);
}
