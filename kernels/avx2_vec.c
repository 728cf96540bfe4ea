/*
 * Element-wise ops, norms and the quantisation of activations. What is left behind the last whole vector goes to the specification.
 */
#include "kernels/avx2_math.h"
#include "kernels/fp32.h"
#include "kernels/scalar.h"

static int32_t sum_epi32(__m256i v)
{
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}

AKV_INLINE void quantise_block(int8_t *q, float *d, int32_t *sum, const __m256 v[4], float amax)
{
    *d = amax / 127.0f;
    __m256i i[4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++)
        i[j] = _mm256_cvtps_epi32(_mm256_div_ps(v[j], _mm256_set1_ps(*d)));
    sum[0] = sum_epi32(_mm256_add_epi32(i[0], i[1]));
    sum[1] = sum_epi32(_mm256_add_epi32(i[2], i[3]));
    __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(i[0], i[1]), _mm256_packs_epi32(i[2], i[3]));
    bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)); /* undo the packs' order of halves */
    _mm256_storeu_si256((__m256i *)(void *)q, bytes);
}

int akv_avx2_quantise(int8_t *q, float *d, int32_t *sum, const float *x, size_t k)
{
    const int smallest = (int)akv_bits(0x1p-100f);
    int rc = 0;
    for (size_t b = 0; b < k / AKV_QBLOCK; b++, q += AKV_QBLOCK, d++, sum += 2, x += AKV_QBLOCK) {
        __m256 v[4];
        __m256i m = _mm256_setzero_si256();
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) {
            v[j] = _mm256_loadu_ps(x + 8 * j);
            m = _mm256_max_epi32(m, akv_magnitude8(v[j]));
        }
        int amax = akv_max_epi32(m);
        if (amax >= smallest && amax < (int)AKV_F32_INF)
            quantise_block(q, d, sum, v, akv_float((uint32_t)amax));
        else
            rc |= akv_scalar_quantise(q, d, sum, x, AKV_QBLOCK);
    }
    return rc;
}

void akv_avx2_rmsnorm(float *y, const float *x, const float *w, size_t n, float eps)
{
    __m256 lo = _mm256_setzero_ps(), hi = lo;
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m256 a = _mm256_loadu_ps(x + i), b = _mm256_loadu_ps(x + i + 8);
        lo = _mm256_fmadd_ps(a, a, lo);
        hi = _mm256_fmadd_ps(b, b, hi);
    }
    if (i < n) {
        float lanes[16];
        _mm256_storeu_ps(lanes, lo);
        _mm256_storeu_ps(lanes + 8, hi);
        for (; i < n; i++)
            lanes[i % 16] = akv_fma(x[i], x[i], lanes[i % 16]);
        lo = _mm256_loadu_ps(lanes);
        hi = _mm256_loadu_ps(lanes + 8);
    }
    float root = akv_sqrt(akv_tree16(lo, hi) / (float)n + eps);
    for (i = 0; i + 8 <= n; i += 8) {
        __m256 scaled = _mm256_div_ps(_mm256_loadu_ps(x + i), _mm256_set1_ps(root));
        _mm256_storeu_ps(y + i, _mm256_mul_ps(scaled, _mm256_loadu_ps(w + i)));
    }
    for (; i < n; i++)
        y[i] = (x[i] / root) * w[i];
}

/* Four pairs (x0, x1) side by side: even lanes x0 c - x1 s, odd lanes x0 s + x1 c. */
static size_t rope_pairs(float *x, const float *cs, size_t n_rot)
{
    size_t i = 0;
    for (; i + 8 <= n_rot; i += 8) {
        __m256 v = _mm256_loadu_ps(x + i), c = _mm256_loadu_ps(cs + i);
        __m256 other = _mm256_mul_ps(_mm256_movehdup_ps(v), _mm256_permute_ps(c, 0xb1));
        _mm256_storeu_ps(x + i, _mm256_fmaddsub_ps(_mm256_moveldup_ps(v), c, other));
    }
    return i / 2;
}

static size_t rope_halves(float *x, const float *cs, size_t n_rot)
{
    const size_t half = n_rot / 2;
    size_t i = 0;
    for (; i + 8 <= half; i += 8) {
        __m256 a = _mm256_loadu_ps(cs + 2 * i), b = _mm256_loadu_ps(cs + 2 * i + 8);
        __m256 low = _mm256_permute2f128_ps(a, b, 0x20), high = _mm256_permute2f128_ps(a, b, 0x31);
        __m256 c = _mm256_shuffle_ps(low, high, 0x88), s = _mm256_shuffle_ps(low, high, 0xdd);
        __m256 x0 = _mm256_loadu_ps(x + i), x1 = _mm256_loadu_ps(x + half + i);
        _mm256_storeu_ps(x + i, _mm256_fmsub_ps(x0, c, _mm256_mul_ps(x1, s)));
        _mm256_storeu_ps(x + half + i, _mm256_fmadd_ps(x0, s, _mm256_mul_ps(x1, c)));
    }
    return i;
}

void akv_avx2_rope(float *x, const float *cs, size_t n_rot, int style)
{
    const size_t half = n_rot / 2;
    if (style == AKV_ROPE_STYLE_PAIRS) {
        size_t i = rope_pairs(x, cs, n_rot);
        akv_scalar_rope(x + 2 * i, cs + 2 * i, 2 * (half - i), style);
        return;
    }
    for (size_t i = rope_halves(x, cs, n_rot); i < half; i++) {
        float c = cs[2 * i], s = cs[2 * i + 1], x0 = x[i], x1 = x[half + i];
        x[i] = akv_fma(x0, c, -(x1 * s));
        x[half + i] = akv_fma(x0, s, x1 * c);
    }
}

void akv_avx2_exp(float *y, const float *x, size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(y + i, akv_exp8(_mm256_loadu_ps(x + i)));
    akv_scalar_exp(y + i, x + i, n - i);
}

void akv_avx2_silu_mul(float *gate, const float *up, size_t n)
{
    const __m256 sign = _mm256_set1_ps(-0.0f), one = _mm256_set1_ps(1.0f);
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256 g = _mm256_loadu_ps(gate + i);
        __m256 silu = _mm256_div_ps(g, _mm256_add_ps(one, akv_exp8(_mm256_xor_ps(g, sign))));
        _mm256_storeu_ps(gate + i, _mm256_mul_ps(silu, _mm256_loadu_ps(up + i)));
    }
    akv_scalar_silu_mul(gate + i, up + i, n - i);
}

void akv_avx2_add(float *x, const float *y, size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(x + i, _mm256_add_ps(_mm256_loadu_ps(x + i), _mm256_loadu_ps(y + i)));
    akv_scalar_add(x + i, y + i, n - i);
}

bool akv_avx2_finite(const float *x, size_t n)
{
    __m256i m = _mm256_setzero_si256();
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        m = _mm256_max_epi32(m, akv_magnitude8(_mm256_loadu_ps(x + i)));
    return akv_max_epi32(m) < (int)AKV_F32_INF && akv_scalar_finite(x + i, n - i);
}
