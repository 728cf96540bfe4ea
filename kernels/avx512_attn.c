/*
 * Attention with vectors of sixteen. Thirty-two registers hold twenty-four chains and what they share.
 */
#include "kernels/avx2_math.h"
#include "kernels/avx512.h"

typedef __m512 vec;
#define LANES 16u
#define WIDE(n) 4u /* a page of keys */

AKV_INLINE vec v_set1(float x)
{
    return _mm512_set1_ps(x);
}

AKV_INLINE vec v_load(const float *p)
{
    return _mm512_loadu_ps(p);
}

AKV_INLINE vec v_load_f16(const void *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256(p));
}

AKV_INLINE void v_store(float *p, vec x)
{
    _mm512_storeu_ps(p, x);
}

AKV_INLINE vec v_add(vec a, vec b)
{
    return _mm512_add_ps(a, b);
}

AKV_INLINE vec v_sub(vec a, vec b)
{
    return _mm512_sub_ps(a, b);
}

AKV_INLINE vec v_mul(vec a, vec b)
{
    return _mm512_mul_ps(a, b);
}

AKV_INLINE vec v_fma(vec a, vec b, vec c)
{
    return _mm512_fmadd_ps(a, b, c);
}

/* b where one of them is not a number */
AKV_INLINE vec v_max(vec a, vec b)
{
    return _mm512_max_ps(a, b);
}

AKV_INLINE __m256 high_half(vec x)
{
    return _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(x), 1));
}

AKV_INLINE float v_largest(vec x)
{
    __m256 y = _mm256_max_ps(_mm512_castps512_ps256(x), high_half(x));
    y = _mm256_max_ps(y, _mm256_permute2f128_ps(y, y, 1));
    y = _mm256_max_ps(y, _mm256_permute_ps(y, 0x4e));
    y = _mm256_max_ps(y, _mm256_permute_ps(y, 0xb1));
    return _mm256_cvtss_f32(y);
}

/* As akv_softmax_exp8(). */
AKV_INLINE vec v_exp(vec of)
{
    const vec min = _mm512_set1_ps(AKV_EXP_MIN), magic = _mm512_set1_ps(0x1.8p23f);
    const vec x = _mm512_max_ps(of, min);
    const vec sum = _mm512_add_ps(_mm512_mul_ps(x, _mm512_set1_ps(AKV_EXP_LOG2E)), magic);
    const vec n = _mm512_sub_ps(sum, magic);
    vec r = _mm512_fnmadd_ps(n, _mm512_set1_ps(AKV_EXP_LN2_HI), x);
    r = _mm512_fnmadd_ps(n, _mm512_set1_ps(AKV_EXP_LN2_LO), r);
    vec p = _mm512_fmadd_ps(_mm512_set1_ps(AKV_EXP_C6), r, _mm512_set1_ps(AKV_EXP_C5));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(AKV_EXP_C4));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(AKV_EXP_C3));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(AKV_EXP_C2));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
    const __m512i power = _mm512_add_epi32(_mm512_slli_epi32(_mm512_castps_si512(sum), 23), _mm512_set1_epi32(127 << 23));
    return _mm512_maskz_mul_ps(_mm512_knot(_mm512_cmp_ps_mask(of, min, _CMP_LT_OQ)), p, _mm512_castsi512_ps(power));
}

AKV_INLINE float v_tree16(const vec sum[1])
{
    return akv_tree16(_mm512_castps512_ps256(sum[0]), high_half(sum[0]));
}

#include "kernels/attn.h"

void akv_avx512_attn_f16(const struct akv_attn *a)
{
    attn(2, a);
}

void akv_avx512_attn_f32(const struct akv_attn *a)
{
    attn(4, a);
}

void akv_avx512_attn_join(float *o, const struct akv_attn_query *parts, size_t n, uint32_t dim_v)
{
    join(o, parts, n, dim_v);
}

size_t akv_avx512_attn_scratch_bytes(uint32_t dim_k, uint32_t dim_v)
{
    return scratch_bytes(dim_k, dim_v);
}
