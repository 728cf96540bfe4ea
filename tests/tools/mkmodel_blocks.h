/* Weights of every type for mkmodel: the simple ones rounded to, the others drawn. */
#ifndef AKV_TESTS_MKMODEL_BLOCKS_H
#define AKV_TESTS_MKMODEL_BLOCKS_H

#include <math.h>
#include <string.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "model/dtype.h"

/* Round to nearest even, subnormals kept; the magnitudes here never overflow. */
static uint16_t to_f16(float v)
{
    uint32_t x;
    memcpy(&x, &v, sizeof x);
    uint32_t sign = x >> 16 & 0x8000, mag = x & 0x7fffffff;
    int exp = (int)(mag >> 23) - 112; /* biased for f16 */
    if (exp < -10)
        return (uint16_t)sign;
    uint32_t man = (mag & 0x7fffff) | 0x800000;
    unsigned drop = exp > 0 ? 13 : (unsigned)(14 - exp);
    uint32_t kept = man >> drop, rest = man & ((1u << drop) - 1), half = 1u << (drop - 1);
    kept += rest > half || (rest == half && (kept & 1));
    return (uint16_t)(sign | (kept + (exp > 0 ? (uint32_t)(exp - 1) << 10 : 0)));
}

static int nearest(float v)
{
    return (int)(v < 0 ? v - 0.5F : v + 0.5F);
}

static unsigned nibble(float v)
{
    int q = nearest(v);
    return (unsigned)(q < 0 ? 0 : q > 15 ? 15 : q);
}

static void put_q8_0(struct akv_buf *b, const float *x)
{
    float amax = 0;
    for (int i = 0; i < 32; i++)
        amax = fabsf(x[i]) > amax ? fabsf(x[i]) : amax;
    float d = amax / 127;
    akv_buf_put_u16(b, to_f16(d));
    for (int i = 0; i < 32; i++)
        akv_buf_putc(b, nearest(d > 0 ? x[i] / d : 0) & 255);
}

/* The value of largest magnitude becomes code 0, -8 times the scale. */
static void put_q4_0(struct akv_buf *b, const float *x)
{
    float peak = 0;
    for (int i = 0; i < 32; i++)
        peak = fabsf(x[i]) > fabsf(peak) ? x[i] : peak;
    float d = peak / -8;
    akv_buf_put_u16(b, to_f16(d));
    for (int i = 0; i < 16; i++) {
        float lo = peak != 0 ? x[i] / d : 0, hi = peak != 0 ? x[i + 16] / d : 0;
        akv_buf_putc(b, (int)(nibble(lo + 8) | nibble(hi + 8) << 4));
    }
}

static void put_q4_1(struct akv_buf *b, const float *x)
{
    float min = x[0], max = x[0];
    for (int i = 1; i < 32; i++) {
        min = x[i] < min ? x[i] : min;
        max = x[i] > max ? x[i] : max;
    }
    float d = (max - min) / 15;
    akv_buf_put_u16(b, to_f16(d));
    akv_buf_put_u16(b, to_f16(min));
    for (int i = 0; i < 16; i++) {
        float lo = d > 0 ? (x[i] - min) / d : 0, hi = d > 0 ? (x[i + 16] - min) / d : 0;
        akv_buf_putc(b, (int)(nibble(lo) | nibble(hi) << 4));
    }
}

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/*
 * Blocks of the other types are drawn, not quantised: random bits, with scales such that the values spread like x does. `unit` is
 * the spread of a block of random bits whose scale is 1 (a minimum, where there is one, is `min` times the scale and centres them).
 */
static const struct drawn {
    float unit, min;
    uint8_t d_at, min_at; /* bytes from the block's start */
} drawn[AKV_DTYPES] = {
    [AKV_Q5_0] = {16, 0, 0, 0},     [AKV_Q5_1] = {16, -15.5F, 0, 2}, [AKV_Q2_K] = {24, 1.5F, 80, 82}, [AKV_Q3_K] = {75, 0, 108, 0},
    [AKV_Q4_K] = {447, 7.5F, 0, 2}, [AKV_Q5_K] = {900, 15.5F, 0, 2}, [AKV_Q6_K] = {2365, 0, 208, 0},  [AKV_IQ4_NL] = {116, 0, 0, 0},
    [AKV_IQ4_XS] = {2147, 0, 0, 0}, [AKV_MXFP4] = {5, 0, 0, 0},
};

static void put_drawn(struct akv_buf *b, enum akv_dtype dtype, const float *x)
{
    const struct akv_dtype_info *info = &akv_dtypes[dtype];
    const struct drawn *how = &drawn[dtype];
    float peak = 0;
    for (uint32_t i = 0; i < info->block; i++)
        peak = fabsf(x[i]) > peak ? fabsf(x[i]) : peak;
    uint8_t *block = (uint8_t *)akv_buf_reserve(b, info->block_bytes);
    if (!block)
        return;
    for (uint32_t i = 0; i < info->block_bytes; i++)
        block[i] = (uint8_t)(bits_of(x[i]) * 2654435761u >> 24);
    float d = peak / how->unit;
    if (dtype == AKV_MXFP4) {
        block[0] = (uint8_t)(bits_of(d) >> 23); /* the power of two below */
    } else {
        akv_put_u16(block + how->d_at, to_f16(d));
        if (how->min != 0)
            akv_put_u16(block + how->min_at, to_f16(how->min * d));
    }
    b->len += info->block_bytes;
}

/* n values; a multiple of the block. */
static void put_values(struct akv_buf *b, enum akv_dtype dtype, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += akv_dtypes[dtype].block) {
        uint32_t bits = bits_of(x[i]);
        switch (dtype) {
        case AKV_F32:
            akv_buf_put_u32(b, bits);
            break;
        case AKV_F16:
            akv_buf_put_u16(b, to_f16(x[i]));
            break;
        case AKV_BF16:
            akv_buf_put_u16(b, (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16));
            break;
        case AKV_Q8_0:
            put_q8_0(b, x + i);
            break;
        case AKV_Q4_0:
            put_q4_0(b, x + i);
            break;
        case AKV_Q4_1:
            put_q4_1(b, x + i);
            break;
        default:
            put_drawn(b, dtype, x + i);
        }
    }
}

#endif
