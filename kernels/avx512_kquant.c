/*
 * Matrix products of the dtypes in super-blocks of 256.
 */
#include "kernels/avx512_mulq.h"

void akv_avx512_kquant(const struct akv_mul *m)
{
    switch (m->dtype) {
    case AKV_Q2_K:
        mul_quantised(AKV_Q2_K, m);
        break;
    case AKV_Q3_K:
        mul_quantised(AKV_Q3_K, m);
        break;
    case AKV_Q4_K:
        mul_quantised(AKV_Q4_K, m);
        break;
    case AKV_Q5_K:
        mul_quantised(AKV_Q5_K, m);
        break;
    case AKV_Q6_K:
        mul_quantised(AKV_Q6_K, m);
        break;
    default:
        mul_quantised(AKV_IQ4_XS, m);
    }
}
