/*
 * Matrix products of the dtypes in super-blocks of 256.
 */
#include "kernels/avx2_mulq.h"

void akv_avx2_kquant(const struct akv_mul *m)
{
    mul_super_blocks(m);
}
