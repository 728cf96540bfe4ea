/*
 * Rows of a weight matrix as f32. Order of operations: products first, then one subtraction or addition, each rounded.
 */
#include "kernels/fp32.h"
#include "kernels/scalar.h"

static void block_f32(float *y, const uint8_t *w)
{
    memcpy(y, w, sizeof *y);
}

static void block_f16(float *y, const uint8_t *w)
{
    *y = akv_f32_from_f16(akv_load16(w));
}

static void block_q4_0(float *y, const uint8_t *w)
{
    float d = akv_f32_from_f16(akv_load16(w));
    for (size_t i = 0; i < 16; i++) {
        y[i] = d * (float)((w[2 + i] & 15) - 8);
        y[i + 16] = d * (float)((w[2 + i] >> 4) - 8);
    }
}

static void block_q4_1(float *y, const uint8_t *w)
{
    float d = akv_f32_from_f16(akv_load16(w)), m = akv_f32_from_f16(akv_load16(w + 2));
    for (size_t i = 0; i < 16; i++) {
        y[i] = d * (float)(w[4 + i] & 15) + m;
        y[i + 16] = d * (float)(w[4 + i] >> 4) + m;
    }
}

static void block_q8_0(float *y, const uint8_t *w)
{
    float d = akv_f32_from_f16(akv_load16(w));
    for (size_t i = 0; i < 32; i++) {
        y[i] = d * (float)(int8_t)w[2 + i];
    }
}

static void (*const blocks[AKV_DTYPES])(float *y, const uint8_t *w) = {
    [AKV_F32] = block_f32, [AKV_F16] = block_f16, [AKV_Q4_0] = block_q4_0, [AKV_Q4_1] = block_q4_1, [AKV_Q8_0] = block_q8_0,
};

void akv_scalar_dequant(enum akv_dtype dtype, float *y, const uint8_t *row, size_t k)
{
    const struct akv_dtype_info *t = &akv_dtypes[dtype];
    for (size_t i = 0; i < k; i += t->block, row += t->block_bytes) {
        blocks[dtype](y + i, row);
    }
}
