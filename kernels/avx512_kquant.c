/*
 * Matrix products of the dtypes in super-blocks of 256.
 */
#include "kernels/avx512_mulq.h"

void akv_avx512_kquant(const struct akv_mul *m)
{
    mul_super_blocks(m);
}
