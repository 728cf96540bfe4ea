/*
 * Single-precision arithmetic that the specification is written in (numerics R5): fma and conversions, exact on every libc and
 * compiler.
 */
#ifndef AKV_KERNELS_FP32_H
#define AKV_KERNELS_FP32_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define AKV_F32_INF 0x7f800000u /* bits of +inf; a larger magnitude is NaN */
#define AKV_F32_NAN 0x7fc00000u

static inline uint32_t akv_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline float akv_float(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* The double below or above s that is odd, when s has lost something: rounding it again cannot meet a false tie. */
static inline double akv_round_odd(double s, double lost)
{
    int64_t u;
    memcpy(&u, &s, sizeof u);
    if (lost != 0 && (u & 1) == 0)
        u += (lost > 0) == (s > 0) ? 1 : -1;
    memcpy(&s, &u, sizeof s);
    return s;
}

/*
 * a * b + c with one rounding. The product is exact in double, and rounding its sum with c to f32 is right unless the sum, itself
 * rounded, lies half way between two floats: then it is rounded to odd first (Boldo and Melquiond 2008). Where floats are subnormal
 * the middles lie elsewhere, so all of them go that way. Not fmaf(): C libraries differ in its subnormal results.
 */
static inline float akv_fma(float a, float b, float c)
{
    double p = (double)a * (double)b, s = p + (double)c;
    uint64_t u;
    memcpy(&u, &s, sizeof u);
    bool subnormal = (u & INT64_MAX) < (uint64_t)(1023 - 126) << 52, infinite = (u & INT64_MAX) >= (uint64_t)0x7ff << 52;
    if (((u & 0x1fffffff) == 0x10000000 || subnormal) && !infinite) {
        double back = s - p;
        s = akv_round_odd(s, (p - (s - back)) + ((double)c - back));
    }
    return (float)s;
}

/* The one call into libm: a square root is exactly specified. */
static inline float akv_sqrt(float x)
{
    return sqrtf(x);
}

/* Nearest integer, ties to even, for |x| < 2^22. */
static inline float akv_rne(float x)
{
    const float magic = 0x1.8p23f;
    return (x + magic) - magic;
}

static inline uint16_t akv_load16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

/* Exact widening of IEEE half. */
static inline float akv_f32_from_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, magnitude = h & 0x7fffu;
    if (magnitude < 0x0400u) { /* zero or subnormal: a multiple of 2^-24 */
        return akv_float(sign | akv_bits((float)magnitude * 0x1p-24f));
    }
    uint32_t bias = magnitude < 0x7c00u ? (127u - 15u) << 23 : (255u - 31u) << 23;
    return akv_float(sign | ((magnitude << 13) + bias));
}

/* Nearest half, ties to even, subnormals kept. False when x is not finite or rounds beyond 65504. */
static inline bool akv_f16_from_f32(uint16_t *h, float x)
{
    uint32_t u = akv_bits(x), sign = u >> 16 & 0x8000u, magnitude = u & 0x7fffffffu;
    if (magnitude >= 0x477ff000u) /* 65520: half way to the next power of two */
        return false;
    if (magnitude < 0x38800000u) { /* below 2^-14: 0.5 has the spacing of half's subnormals, so the addition rounds */
        *h = (uint16_t)(sign | (akv_bits(akv_float(magnitude) + 0.5f) - akv_bits(0.5f)));
        return true;
    }
    uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
    *h = (uint16_t)(sign | ((rounded - ((127u - 15u) << 23)) >> 13));
    return true;
}

#endif
