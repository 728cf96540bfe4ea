/*
 * exp, log, sin and cos in double, from + - * / alone, in the order written here: the same bits on every machine and C library
 * (numerics R5). Used by the RoPE tables and the sampler. The float environment is the standard one (base/pool.h).
 *
 * Constants: DM_LN2_HI is ln 2 cut to 32 bits, so that n * DM_LN2_HI is exact for |n| < 2^21, and DM_LN2_LO is the rest rounded.
 * DM_PIO2_1 and _2 are the first and the next 33 bits of pi/2, _3 the rest rounded: 119 bits, and n times the first two is exact
 * for |n| < 2^20. All from series in exact rational arithmetic (ln 2 = sum 1/(k 2^k); pi by Machin's formula). The polynomials are
 * Taylor series, cut where the next term is below 2^-58 of the sum on the reduced range; coefficients are quotients of integers.
 */
#ifndef AKV_ENGINE_DMATH_H
#define AKV_ENGINE_DMATH_H

#include <stdint.h>
#include <string.h>

#define DM_LOG2E 0x1.71547652b82fep+0
#define DM_LN2 0x1.62e42fefa39efp-1
#define DM_LN2_HI 0x1.62e42feep-1
#define DM_LN2_LO 0x1.a39ef35793c76p-33
#define DM_2OPI 0x1.45f306dc9c883p-1
#define DM_2PI 0x1.921fb54442d18p+2
#define DM_PIO2_1 0x1.921fb544p+0
#define DM_PIO2_2 0x1.0b4611a6p-34
#define DM_PIO2_3 0x1.3198a2e037073p-69

/* Nearest integer, ties to even, for |x| < 2^51: adding 1.5 * 2^52 leaves no room for a fraction. */
static inline double dm_rint(double x)
{
    const double magic = 0x1.8p52;
    return (x + magic) - magic;
}

/* 2^n for -1022 <= n <= 1023. */
static inline double dm_pow2(int n)
{
    uint64_t u = (uint64_t)(n + 1023) << 52;
    double x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* e^r for |r| <= 0.35, to r^14. */
static inline double dm_exp_reduced(double r)
{
    double p = 1.0 / 87178291200;
    p = p * r + 1.0 / 6227020800;
    p = p * r + 1.0 / 479001600;
    p = p * r + 1.0 / 39916800;
    p = p * r + 1.0 / 3628800;
    p = p * r + 1.0 / 362880;
    p = p * r + 1.0 / 40320;
    p = p * r + 1.0 / 5040;
    p = p * r + 1.0 / 720;
    p = p * r + 1.0 / 120;
    p = p * r + 1.0 / 24;
    p = p * r + 1.0 / 6;
    p = p * r + 0.5;
    return (p * r) * r + r + 1.0;
}

/* e^x; +0 below -708 (so that no result is subnormal), the value at 709 above 709. */
static inline double dm_exp(double x)
{
    if (x < -708)
        return 0;
    x = x < 709 ? x : 709;
    double n = dm_rint(x * DM_LOG2E);
    double r = (x - n * DM_LN2_HI) - n * DM_LN2_LO;
    return dm_exp_reduced(r) * dm_pow2((int)n);
}

/* 2^x for -1000 <= x <= 1000. */
static inline double dm_exp2(double x)
{
    double n = dm_rint(x);
    return dm_exp_reduced((x - n) * DM_LN2) * dm_pow2((int)n);
}

/* x > 0, normal and finite = 2^k * m with m in [sqrt 1/2, sqrt 2): returns k, and ln m = 2 artanh((m - 1) / (m + 1)) in *ln_m. */
static inline int dm_log_split(double x, double *ln_m)
{
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    int k = (int)(u >> 52) - 1023;
    u = (u & 0xfffffffffffffu) | (uint64_t)1023 << 52;
    double m;
    memcpy(&m, &u, sizeof m);
    if (m >= 0x1.6a09e667f3bcdp+0) {
        m *= 0.5;
        k++;
    }
    double s = (m - 1) / (m + 1), z = s * s; /* z <= 0.0295 */
    double p = 1.0 / 23;
    p = p * z + 1.0 / 21;
    p = p * z + 1.0 / 19;
    p = p * z + 1.0 / 17;
    p = p * z + 1.0 / 15;
    p = p * z + 1.0 / 13;
    p = p * z + 1.0 / 11;
    p = p * z + 1.0 / 9;
    p = p * z + 1.0 / 7;
    p = p * z + 1.0 / 5;
    p = p * z + 1.0 / 3;
    *ln_m = 2 * s + 2 * s * (p * z);
    return k;
}

/* Natural logarithm of a normal, finite x > 0. */
static inline double dm_log(double x)
{
    double ln_m;
    double k = dm_log_split(x, &ln_m);
    return k * DM_LN2_HI + (k * DM_LN2_LO + ln_m);
}

/* Base-2 logarithm of a normal, finite x > 0. */
static inline double dm_log2(double x)
{
    double ln_m;
    double k = dm_log_split(x, &ln_m);
    return k + ln_m * DM_LOG2E;
}

/* sin r for |r| <= 0.79, to r^19. */
static inline double dm_sin_reduced(double r)
{
    double z = r * r;
    double p = -1.0 / 121645100408832000;
    p = p * z + 1.0 / 355687428096000;
    p = p * z - 1.0 / 1307674368000;
    p = p * z + 1.0 / 6227020800;
    p = p * z - 1.0 / 39916800;
    p = p * z + 1.0 / 362880;
    p = p * z - 1.0 / 5040;
    p = p * z + 1.0 / 120;
    p = p * z - 1.0 / 6;
    return (p * z) * r + r;
}

/* cos r for |r| <= 0.79, to r^18. */
static inline double dm_cos_reduced(double r)
{
    double z = r * r;
    double p = -1.0 / 6402373705728000;
    p = p * z + 1.0 / 20922789888000;
    p = p * z - 1.0 / 87178291200;
    p = p * z + 1.0 / 479001600;
    p = p * z - 1.0 / 3628800;
    p = p * z + 1.0 / 40320;
    p = p * z - 1.0 / 720;
    p = p * z + 1.0 / 24;
    p = p * z - 0.5;
    return p * z + 1.0;
}

/* cos x and sin x for 0 <= x <= 1.5 * 2^20, which is less than 2^20 times pi/2. */
static inline void dm_cos_sin(double x, double *cos_x, double *sin_x)
{
    double n = dm_rint(x * DM_2OPI);
    double r = ((x - n * DM_PIO2_1) - n * DM_PIO2_2) - n * DM_PIO2_3;
    double c = dm_cos_reduced(r), s = dm_sin_reduced(r);
    unsigned quadrant = (unsigned)(int)n & 3;
    *cos_x = quadrant == 0 ? c : quadrant == 1 ? -s : quadrant == 2 ? -c : s;
    *sin_x = quadrant == 0 ? s : quadrant == 1 ? c : quadrant == 2 ? -s : -c;
}

#endif
