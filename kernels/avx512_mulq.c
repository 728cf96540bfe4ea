/*
 * Matrix products of the dtypes in blocks of 32.
 */
#include "kernels/avx512_mulq.h"

void akv_avx512_mulq(const struct akv_mul *m)
{
    switch (m->dtype) {
    case AKV_Q4_0:
        mul_quantised(AKV_Q4_0, m);
        break;
    case AKV_Q4_1:
        mul_quantised(AKV_Q4_1, m);
        break;
    case AKV_Q5_0:
        mul_quantised(AKV_Q5_0, m);
        break;
    case AKV_Q5_1:
        mul_quantised(AKV_Q5_1, m);
        break;
    case AKV_IQ4_NL:
        mul_quantised(AKV_IQ4_NL, m);
        break;
    case AKV_MXFP4:
        mul_quantised(AKV_MXFP4, m);
        break;
    default:
        mul_quantised(AKV_Q8_0, m);
    }
}

size_t akv_avx512_mulq_scratch_bytes(size_t k)
{
    return mulq_scratch_bytes(k);
}
