/* Loops that show what the machine can do at most, for akv-bench: each runs for about `rounds` passes and returns what it did. */
#ifndef AKV_PEAK_H
#define AKV_PEAK_H

#include <stddef.h>
#include <stdint.h>

/* They need AVX2 + FMA: ask akv_ops_pick("avx2") first. Operations count a multiplication and an addition as two. */
uint64_t akv_peak_int8(uint64_t rounds);         /* maddubs + madd + add, all in registers; int8 operations done */
uint64_t akv_peak_int8_i16(uint64_t rounds);     /* eight maddubs summed in int16 before one madd + add */
uint64_t akv_peak_fma(uint64_t rounds);          /* f32 operations done */
uint64_t akv_peak_read(const void *p, size_t n); /* read n bytes (a multiple of 256) once; a sum, so that the reads stay */

/* They need the avx512 table. */
uint64_t akv_peak_int8_vnni(uint64_t rounds);
uint64_t akv_peak_fma_512(uint64_t rounds);

#endif
