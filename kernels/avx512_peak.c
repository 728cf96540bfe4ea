#include "kernels/peak.h"

#include <immintrin.h>

/* As in avx2_peak.c. */
#define OPAQUE(x) __asm__ volatile("" : "+v"(x))
#define CHAINS 12 /* independent sums: more than latency x throughput */

uint64_t akv_peak_int8_vnni(uint64_t rounds)
{
    __m512i acc[CHAINS], a = _mm512_set1_epi8(3), b = _mm512_set1_epi8(5);
#pragma GCC unroll 12
    for (int i = 0; i < CHAINS; i++)
        acc[i] = _mm512_setzero_si512();
    for (uint64_t r = 0; r < rounds; r++) {
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++) {
            OPAQUE(a);
            acc[i] = _mm512_dpbusd_epi32(acc[i], a, b);
        }
    }
#pragma GCC unroll 12
    for (int i = 0; i < CHAINS; i++)
        OPAQUE(acc[i]);
    return rounds * CHAINS * 128;
}

uint64_t akv_peak_fma_512(uint64_t rounds)
{
    __m512 acc[CHAINS], a = _mm512_set1_ps(0.999f), b = _mm512_set1_ps(0.001f);
#pragma GCC unroll 12
    for (int i = 0; i < CHAINS; i++)
        acc[i] = _mm512_setzero_ps();
    for (uint64_t r = 0; r < rounds; r++) {
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++)
            acc[i] = _mm512_fmadd_ps(acc[i], a, b);
    }
#pragma GCC unroll 12
    for (int i = 0; i < CHAINS; i++)
        OPAQUE(acc[i]);
    return rounds * CHAINS * 32;
}
