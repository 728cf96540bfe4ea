/*
 * Vector forms of the specification's functions: the same operations in the same order, eight at a time.
 */
#ifndef AKV_KERNELS_AVX2_MATH_H
#define AKV_KERNELS_AVX2_MATH_H

#include "kernels/avx2.h"
#include "kernels/expf.h"

/*
 * Of |x| <= 88: rne(x * log2 e) comes with adding and taking away 1.5 * 2^23, in whose last bits it is left on the way. A zero may get
 * another sign than by rounding, which no later step shows: the first fma adds it to x, or the last one adds 1.
 */
AKV_INLINE __m256 akv_exp8_clamped(__m256 x)
{
    const __m256 magic = _mm256_set1_ps(0x1.8p23f);
    const __m256 sum = _mm256_add_ps(_mm256_mul_ps(x, _mm256_set1_ps(AKV_EXP_LOG2E)), magic);
    const __m256 n = _mm256_sub_ps(sum, magic);
    __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(AKV_EXP_LN2_HI), x);
    r = _mm256_fnmadd_ps(n, _mm256_set1_ps(AKV_EXP_LN2_LO), r);
    __m256 p = _mm256_fmadd_ps(_mm256_set1_ps(AKV_EXP_C6), r, _mm256_set1_ps(AKV_EXP_C5));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(AKV_EXP_C4));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(AKV_EXP_C3));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(AKV_EXP_C2));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
    const __m256i power = _mm256_add_epi32(_mm256_slli_epi32(_mm256_castps_si256(sum), 23), _mm256_set1_epi32(127 << 23));
    return _mm256_mul_ps(p, _mm256_castsi256_ps(power));
}

/* The maximum and minimum instructions return their second operand for NaN, as the specification's comparisons do. */
AKV_INLINE __m256 akv_exp8(__m256 x)
{
    x = _mm256_max_ps(x, _mm256_set1_ps(AKV_EXP_MIN));
    return akv_exp8_clamped(_mm256_min_ps(x, _mm256_set1_ps(AKV_EXP_MAX)));
}

/* R3: the tree +8, +4, +2, +1 over sixteen lanes. */
AKV_INLINE float akv_tree16(__m256 lo, __m256 hi)
{
    __m256 s8 = _mm256_add_ps(lo, hi);
    __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
    __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));
    return _mm_cvtss_f32(_mm_add_ss(s2, _mm_movehdup_ps(s2)));
}

AKV_INLINE __m256i akv_magnitude8(__m256 x)
{
    return _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32(0x7fffffff));
}

AKV_INLINE int akv_max_epi32(__m256i v)
{
    __m128i m = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4e));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0xb1));
    return _mm_cvtsi128_si32(m);
}

#endif
