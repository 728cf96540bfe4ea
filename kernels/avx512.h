/*
 * The parts of the AVX-512 table. Only avx512*.c include this: they alone are built for those instructions.
 */
#ifndef AKV_KERNELS_AVX512_H
#define AKV_KERNELS_AVX512_H

#include "kernels/avx2.h"

/* avx512_mul.c */
void akv_avx512_mul(const struct akv_mul *m);
size_t akv_avx512_mul_scratch_bytes(enum akv_dtype dtype, size_t k);

/* avx512_mulq.c (blocks of 32), avx512_kquant.c (super-blocks of 256) */
void akv_avx512_mulq(const struct akv_mul *m);
void akv_avx512_kquant(const struct akv_mul *m);
size_t akv_avx512_mulq_scratch_bytes(size_t k);

/* avx512_attn.c */
void akv_avx512_attn_f16(const struct akv_attn *a);
void akv_avx512_attn_f32(const struct akv_attn *a);
void akv_avx512_attn_join(float *o, const struct akv_attn_query *parts, size_t n, uint32_t dim_v);
size_t akv_avx512_attn_scratch_bytes(uint32_t dim_k, uint32_t dim_v);

#endif
