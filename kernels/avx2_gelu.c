#include "kernels/avx2_math.h"
#include "kernels/gelu.h"

void akv_avx2_gelu_mul(float *gate, const float *up, size_t n)
{
    const __m256 sign = _mm256_set1_ps(-0.0f), one = _mm256_set1_ps(1.0f);
    const __m256 c1 = _mm256_set1_ps(AKV_GELU_C1), c3 = _mm256_set1_ps(AKV_GELU_C3);
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256 x = _mm256_loadu_ps(gate + i), t = _mm256_fmadd_ps(_mm256_mul_ps(x, x), c3, c1);
        __m256 e = akv_exp8(_mm256_xor_ps(_mm256_mul_ps(x, t), sign));
        _mm256_storeu_ps(gate + i, _mm256_mul_ps(_mm256_div_ps(x, _mm256_add_ps(one, e)), _mm256_loadu_ps(up + i)));
    }
    akv_scalar_gelu_mul(gate + i, up + i, n - i);
}
