/*
 * The parts of the AVX2 + FMA + F16C table. Only avx2*.c include this: they alone are built for those instructions.
 */
#ifndef AKV_KERNELS_AVX2_H
#define AKV_KERNELS_AVX2_H

#include <immintrin.h>
#include <string.h>

#include "kernels/kernels.h"

#define AKV_INLINE static inline __attribute__((always_inline))

/* Before a loop of a constant number of steps, up to n: none is left of it. clang unrolls no loop by more than its steps. */
#ifdef __clang__
#define AKV_UNROLL(n) _Pragma("clang loop unroll(full)")
#else
#define AKV_UNROLL(n) AKV_PRAGMA(GCC unroll n)
#define AKV_PRAGMA(text) _Pragma(#text)
#endif

/* Keeps chains in their order and so in registers: left free, compilers gather the loads first and spill the chains. */
#define AKV_STAY(v) __asm__ volatile("" : "+v"(v))

/*
 * Ask for the bytes that a stream of weights comes to after this place: the processor's own prefetchers follow eight rows at once
 * badly. To the second cache, as there are too many for the first; and one line of those further on, so that their page has been
 * looked up by then. Any address will do: past the matrix lies the next one, or nothing.
 */
AKV_INLINE void akv_prefetch(const uint8_t *w, size_t off, size_t bytes)
{
    const uintptr_t at = (uintptr_t)w + off + 16384;
    _mm_prefetch((const char *)(at + 8192), _MM_HINT_T1);
    for (size_t i = 0; i < bytes; i += 64)
        _mm_prefetch((const char *)(at + i), _MM_HINT_T1);
}

/* avx2_vec.c */
int akv_avx2_quantise(int8_t *q, float *d, int32_t *sum, const float *x, size_t k);
void akv_avx2_rmsnorm(float *y, const float *x, const float *w, size_t n, float eps);
void akv_avx2_rope(float *x, const float *cs, size_t n_rot, int style);
void akv_avx2_silu_mul(float *gate, const float *up, size_t n);
void akv_avx2_add(float *x, const float *y, size_t n);
void akv_avx2_exp(float *y, const float *x, size_t n);
bool akv_avx2_finite(const float *x, size_t n);

/* avx2_mul.c, avx2_mulq.c (blocks of 32), avx2_kquant.c (super-blocks of 256), avx2_mulf.c (float weights) */
void akv_avx2_mul(const struct akv_mul *m);
size_t akv_avx2_mul_scratch_bytes(enum akv_dtype dtype, size_t k);
void akv_avx2_mulq(const struct akv_mul *m);
void akv_avx2_kquant(const struct akv_mul *m);
size_t akv_avx2_mulq_scratch_bytes(size_t k);
void akv_avx2_mulf(const struct akv_mul *m);
size_t akv_avx2_mulf_scratch_bytes(void);

/* avx2_attn.c, avx2_kv.c */
int akv_avx2_kv_put_f16(uint8_t *page, size_t k_offset, size_t v_offset, uint32_t slot, const float *k, uint32_t dim_k,
                        const float *v, uint32_t dim_v);
void akv_avx2_attn_f16(const struct akv_attn *a);
void akv_avx2_attn_f32(const struct akv_attn *a);
void akv_avx2_attn_join(float *o, const struct akv_attn_query *parts, size_t n, uint32_t dim_v);
size_t akv_avx2_attn_scratch_bytes(uint32_t dim_k, uint32_t dim_v);

#endif
