/* RoPE tables, computed on the host in double and rounded once to f32 (numerics, Functions). */
#ifndef AKV_ENGINE_ROPE_H
#define AKV_ENGINE_ROPE_H

#include <stddef.h>
#include <stdint.h>

#define AKV_ROPE_MAX_POS (1u << 20) /* the argument reduction is good to here */

/* freq[i] = base^(-2i / n_rot) for i < n_rot / 2; base a normal float > 0. */
void akv_rope_freqs(double *freq, uint32_t n_rot, float base);

/* cs[2i], cs[2i+1] = cos and sin of pos * freq[i] for i < n; pos <= AKV_ROPE_MAX_POS, freq <= 1. */
void akv_rope_angles(float *cs, const double *freq, size_t n, uint32_t pos);

#endif
