/*
 * Matrix product: few rows wait for memory, which AVX2 does as well.
 */
#include "kernels/avx512.h"

#define FEW 4u

void akv_avx512_mul(const struct akv_mul *m)
{
    if (m->act->n_rows <= FEW || !akv_dtypes[m->dtype].quantised)
        akv_avx2_mul(m);
    else if (akv_dtypes[m->dtype].block == AKV_QBLOCK)
        akv_avx512_mulq(m);
    else
        akv_avx512_kquant(m);
}

size_t akv_avx512_mul_scratch_bytes(enum akv_dtype dtype, size_t k)
{
    const size_t narrow = akv_avx2_mul_scratch_bytes(dtype, k), wide = akv_avx512_mulq_scratch_bytes(k);
    return akv_dtypes[dtype].quantised && wide > narrow ? wide : narrow;
}
