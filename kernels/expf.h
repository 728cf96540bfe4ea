/*
 * Constants of the exponential (akv-numerics(7)), shared by every table.
 *
 * x = n ln 2 + r with n = rne(x * log2 e) and |r| <= 0.3466; e^r = 1 + r + r^2 (C2 + C3 r + ... + C6 r^4) by Horner's rule in fma,
 * that is fma(fma(...fma(C6, r, C5)..., r, 1), r, 1); the result is scaled by 2^n, which is exact for the clamped range.
 *
 * C2..C6 minimise the largest relative error on |r| <= 0.34661: Remez exchange in 50-digit arithmetic, each coefficient rounded to
 * f32 in turn and the later ones solved again; the polynomial itself is within 2^-27.6 of e^r, the computed value within 1 ulp.
 * LN2_HI is ln 2 rounded to f32 and LN2_LO the rest: n * LN2_HI is a multiple of 2^-24, so the first fma is exact.
 */
#ifndef AKV_KERNELS_EXPF_H
#define AKV_KERNELS_EXPF_H

#define AKV_EXP_MIN (-87.0f)
#define AKV_EXP_MAX 88.0f
#define AKV_EXP_LOG2E 0x1.715476p+0f
#define AKV_EXP_LN2_HI 0x1.62e430p-1f
#define AKV_EXP_LN2_LO (-0x1.05c610p-29f)
#define AKV_EXP_C2 0x1.000000p-1f
#define AKV_EXP_C3 0x1.555466p-3f
#define AKV_EXP_C4 0x1.5552fep-5f
#define AKV_EXP_C5 0x1.12585ep-7f
#define AKV_EXP_C6 0x1.6ffd58p-10f

#endif
