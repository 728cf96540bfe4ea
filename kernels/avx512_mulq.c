/*
 * Matrix products of the dtypes in blocks of 32.
 */
#include "kernels/avx512_mulq.h"

void akv_avx512_mulq(const struct akv_mul *m)
{
    mul_blocks(m);
}

size_t akv_avx512_mulq_scratch_bytes(size_t k)
{
    return mulq_scratch_bytes(k);
}
