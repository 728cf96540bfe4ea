#include "kernels/peak.h"

#include <immintrin.h>

/* Keep the compiler from seeing through a register, so that a loop over constants stays a loop. */
#define OPAQUE(x) __asm__ volatile("" : "+x"(x))

/* Independent accumulators: more than latency x throughput of any of the instructions. The loops over them are unrolled so that they stay
 * in registers. */
#define CHAINS 8
#define FMA_CHAINS 10

/* Read the accumulators, so that they are results. */
#define CONSUME(acc) _Pragma("GCC unroll 8") for (int i_ = 0; i_ < CHAINS; i_++) OPAQUE((acc)[i_])

uint64_t akv_peak_int8(uint64_t rounds)
{
    __m256i acc[CHAINS], a = _mm256_set1_epi8(3), b = _mm256_set1_epi8(5), ones = _mm256_set1_epi16(1);
#pragma GCC unroll 8
    for (int i = 0; i < CHAINS; i++)
        acc[i] = _mm256_setzero_si256();
    for (uint64_t r = 0; r < rounds; r++) {
#pragma GCC unroll 8
        for (int i = 0; i < CHAINS; i++) {
            OPAQUE(a);
            acc[i] = _mm256_add_epi32(acc[i], _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), ones));
        }
    }
    CONSUME(acc);
    return rounds * CHAINS * 64;
}

uint64_t akv_peak_int8_i16(uint64_t rounds)
{
    __m256i acc[CHAINS], a = _mm256_set1_epi8(3), b = _mm256_set1_epi8(5), ones = _mm256_set1_epi16(1);
#pragma GCC unroll 8
    for (int i = 0; i < CHAINS; i++)
        acc[i] = _mm256_setzero_si256();
    for (uint64_t r = 0; r < rounds; r++) {
#pragma GCC unroll 8
        for (int i = 0; i < CHAINS; i++) {
            __m256i sum = _mm256_setzero_si256();
#pragma GCC unroll 8
            for (int k = 0; k < 8; k++) {
                OPAQUE(a);
                sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(a, b));
            }
            acc[i] = _mm256_add_epi32(acc[i], _mm256_madd_epi16(sum, ones));
        }
    }
    CONSUME(acc);
    return rounds * CHAINS * 8 * 64;
}

uint64_t akv_peak_fma(uint64_t rounds)
{
    __m256 acc[FMA_CHAINS], a = _mm256_set1_ps(0.999f), b = _mm256_set1_ps(0.001f);
#pragma GCC unroll 10
    for (int i = 0; i < FMA_CHAINS; i++)
        acc[i] = _mm256_setzero_ps();
    for (uint64_t r = 0; r < rounds; r++) {
#pragma GCC unroll 10
        for (int i = 0; i < FMA_CHAINS; i++)
            acc[i] = _mm256_fmadd_ps(acc[i], a, b);
    }
#pragma GCC unroll 10
    for (int i = 0; i < FMA_CHAINS; i++)
        OPAQUE(acc[i]);
    return rounds * FMA_CHAINS * 16;
}

uint64_t akv_peak_read(const void *p, size_t n)
{
    const __m256i *v = p;
    __m256i s0 = _mm256_setzero_si256(), s1 = s0, s2 = s0, s3 = s0;
    for (size_t i = 0; i < n / 32; i += 8) {
        s0 = _mm256_add_epi64(s0, _mm256_xor_si256(_mm256_loadu_si256(v + i), _mm256_loadu_si256(v + i + 4)));
        s1 = _mm256_add_epi64(s1, _mm256_xor_si256(_mm256_loadu_si256(v + i + 1), _mm256_loadu_si256(v + i + 5)));
        s2 = _mm256_add_epi64(s2, _mm256_xor_si256(_mm256_loadu_si256(v + i + 2), _mm256_loadu_si256(v + i + 6)));
        s3 = _mm256_add_epi64(s3, _mm256_xor_si256(_mm256_loadu_si256(v + i + 3), _mm256_loadu_si256(v + i + 7)));
    }
    s0 = _mm256_add_epi64(_mm256_add_epi64(s0, s1), _mm256_add_epi64(s2, s3));
    return (uint64_t)_mm256_extract_epi64(s0, 0) + (uint64_t)_mm256_extract_epi64(s0, 2);
}
