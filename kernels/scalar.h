/*
 * The scalar table's parts. Together with fp32.h they are numerics.md in C: the order of every operation is as written here, and
 * every other table gives the same bits.
 */
#ifndef AKV_KERNELS_SCALAR_H
#define AKV_KERNELS_SCALAR_H

#include "kernels/kernels.h"

/* scalar_mul.c */
bool akv_scalar_has(enum akv_dtype dtype);
void akv_scalar_mul(const struct akv_mul *m);
size_t akv_scalar_mul_scratch_bytes(enum akv_dtype dtype, size_t k);

/* scalar_dequant.c */
void akv_scalar_dequant(enum akv_dtype dtype, float *y, const uint8_t *row, size_t k);

/* scalar_vec.c */
int akv_scalar_quantise(int8_t *q, float *d, int32_t *sum, const float *x, size_t k);
void akv_scalar_rmsnorm(float *y, const float *x, const float *w, size_t n, float eps);
void akv_scalar_rope(float *x, const float *cs, size_t n_rot, int style);
void akv_scalar_silu_mul(float *gate, const float *up, size_t n);
void akv_scalar_add(float *x, const float *y, size_t n);
void akv_scalar_exp(float *y, const float *x, size_t n);
bool akv_scalar_finite(const float *x, size_t n);
float akv_scalar_exp1(float x);
float akv_scalar_softmax_exp(float x); /* +0 below -87 */
float akv_scalar_tree16(float s[16]);  /* R3: +8, +4, +2, +1; s is used up */

/* scalar_attn.c */
int akv_scalar_kv_put_f16(uint8_t *page, size_t k_offset, size_t v_offset, uint32_t slot, const float *k, uint32_t dim_k,
                          const float *v, uint32_t dim_v);
int akv_scalar_kv_put_f32(uint8_t *page, size_t k_offset, size_t v_offset, uint32_t slot, const float *k, uint32_t dim_k,
                          const float *v, uint32_t dim_v);
void akv_scalar_attn_f16(const struct akv_attn *a);
void akv_scalar_attn_f32(const struct akv_attn *a);
void akv_scalar_attn_join(float *o, const struct akv_attn_query *parts, size_t n, uint32_t dim_v);
size_t akv_scalar_attn_scratch_bytes(uint32_t dim_k, uint32_t dim_v);

#endif
