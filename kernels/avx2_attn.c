/*
 * Attention with vectors of eight. Sixteen registers hold twelve chains, what they share, and one vector more.
 */
#include "kernels/avx2_math.h"

typedef __m256 vec;
#define LANES 8u
#define WIDE(n) ((n) == 1 ? 8u : (n) <= 3 ? 4u : 2u)

AKV_INLINE vec v_set1(float x)
{
    return _mm256_set1_ps(x);
}

AKV_INLINE vec v_load(const float *p)
{
    return _mm256_loadu_ps(p);
}

AKV_INLINE vec v_load_f16(const void *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128(p));
}

AKV_INLINE void v_store(float *p, vec x)
{
    _mm256_storeu_ps(p, x);
}

AKV_INLINE vec v_add(vec a, vec b)
{
    return _mm256_add_ps(a, b);
}

AKV_INLINE vec v_sub(vec a, vec b)
{
    return _mm256_sub_ps(a, b);
}

AKV_INLINE vec v_mul(vec a, vec b)
{
    return _mm256_mul_ps(a, b);
}

AKV_INLINE vec v_fma(vec a, vec b, vec c)
{
    return _mm256_fmadd_ps(a, b, c);
}

/* b where one of them is not a number */
AKV_INLINE vec v_max(vec a, vec b)
{
    return _mm256_max_ps(a, b);
}

AKV_INLINE float v_largest(vec x)
{
    x = _mm256_max_ps(x, _mm256_permute2f128_ps(x, x, 1));
    x = _mm256_max_ps(x, _mm256_permute_ps(x, 0x4e));
    x = _mm256_max_ps(x, _mm256_permute_ps(x, 0xb1));
    return _mm256_cvtss_f32(x);
}

AKV_INLINE vec v_fnma(vec a, vec b, vec c)
{
    return _mm256_fnmadd_ps(a, b, c);
}

/* 2^n where the last bits of x are n */
AKV_INLINE vec v_power(vec x)
{
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_slli_epi32(_mm256_castps_si256(x), 23), _mm256_set1_epi32(127 << 23)));
}

/* y, or +0 where a < b */
AKV_INLINE vec v_unless_less(vec a, vec b, vec y)
{
    return _mm256_andnot_ps(_mm256_cmp_ps(a, b, _CMP_LT_OQ), y);
}

AKV_INLINE float v_first(vec x)
{
    return _mm256_cvtss_f32(x);
}

AKV_INLINE float v_tree16(const vec sum[2])
{
    return akv_tree16(sum[0], sum[1]);
}

#include "kernels/attn.h"

void akv_avx2_attn_f16(const struct akv_attn *a)
{
    attn(2, a);
}

void akv_avx2_attn_f32(const struct akv_attn *a)
{
    attn(4, a);
}

void akv_avx2_attn_join(float *o, const struct akv_attn_query *parts, size_t n, uint32_t dim_v)
{
    join(o, parts, n, dim_v);
}

size_t akv_avx2_attn_scratch_bytes(uint32_t dim_k, uint32_t dim_v)
{
    return scratch_bytes(dim_k, dim_v);
}
