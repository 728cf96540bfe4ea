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

AKV_INLINE vec v_fnma(vec a, vec b, vec c)
{
    return _mm512_fnmadd_ps(a, b, c);
}

/* 2^n where the last bits of x are n */
AKV_INLINE vec v_power(vec x)
{
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_slli_epi32(_mm512_castps_si512(x), 23), _mm512_set1_epi32(127 << 23)));
}

/* y, or +0 where a < b */
AKV_INLINE vec v_unless_less(vec a, vec b, vec y)
{
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(a, b, _CMP_NLT_UQ), y);
}

AKV_INLINE float v_first(vec x)
{
    return _mm512_cvtss_f32(x);
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
