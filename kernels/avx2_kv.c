/*
 * Rounding of one token's K and V into a page. The f32 form is a copy with a check and stays the specification's.
 */
#include "kernels/avx2_math.h"
#include "kernels/fp32.h"

static int put_f16(uint8_t *to, size_t stride, const float *x, uint32_t n)
{
    uint32_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256 v = _mm256_loadu_ps(x + i);
        if (akv_max_epi32(akv_magnitude8(v)) >= 0x477ff000) /* 65520 rounds beyond half; NaN is larger still */
            return -1;
        uint16_t h[8];
        _mm_storeu_si128((__m128i *)(void *)h, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
        for (size_t j = 0; j < 8; j++)
            memcpy(to + (i + j) * stride, &h[j], sizeof h[j]);
    }
    for (; i < n; i++) {
        uint16_t h;
        if (!akv_f16_from_f32(&h, x[i]))
            return -1;
        memcpy(to + i * stride, &h, sizeof h);
    }
    return 0;
}

int akv_avx2_kv_put_f16(uint8_t *page, size_t k_offset, size_t v_offset, uint32_t slot, const float *k, uint32_t dim_k,
                        const float *v, uint32_t dim_v)
{
    if (put_f16(page + k_offset + 2 * slot, 2 * AKV_PAGE, k, dim_k) < 0)
        return -1;
    return put_f16(page + v_offset + (size_t)2 * slot * dim_v, 2, v, dim_v);
}
