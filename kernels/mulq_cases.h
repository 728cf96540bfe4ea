/*
 * The end of a template for products with quantised weights: its mul_quantised() made once for each dtype.
 */
#ifndef AKV_KERNELS_MULQ_CASES_H
#define AKV_KERNELS_MULQ_CASES_H

/* Blocks of 32. */
AKV_INLINE void mul_blocks(const struct akv_mul *m)
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

/* Super-blocks of 256. */
AKV_INLINE void mul_super_blocks(const struct akv_mul *m)
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

#endif
