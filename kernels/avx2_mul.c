/*
 * Matrix product: to the family of the dtype.
 */
#include "kernels/avx2.h"

void akv_avx2_mul(const struct akv_mul *m)
{
    if (!akv_dtypes[m->dtype].quantised)
        akv_avx2_mulf(m);
    else if (akv_dtypes[m->dtype].block == AKV_QBLOCK)
        akv_avx2_mulq(m);
    else
        akv_avx2_kquant(m);
}

size_t akv_avx2_mul_scratch_bytes(enum akv_dtype dtype, size_t k)
{
    return akv_dtypes[dtype].quantised ? akv_avx2_mulq_scratch_bytes(k) : akv_avx2_mulf_scratch_bytes();
}
