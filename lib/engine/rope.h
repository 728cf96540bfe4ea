/* RoPE tables, computed on the host in double and rounded once to f32 (numerics, Functions). */
#ifndef AKV_ENGINE_ROPE_H
#define AKV_ENGINE_ROPE_H

#include "model/model.h"

#define AKV_ROPE_MAX_POS (1u << 20) /* the argument reduction is good to here */

/* freq[i] = base^(-2i / n_rot) for i < n_rot / 2; base a normal float >= 1. */
void akv_rope_freqs(double *freq, uint32_t n_rot, float base);

/*
 * Divide the frequencies by the model's factors ([n_rot / 2], each at least 3/4; NULL: none) and stretch them as s says. Returns
 * what cos and sin are multiplied by. YaRN as Peng et al., "YaRN: Efficient Context Window Extension of Large Language Models"
 * (2023), section 3.2 to 3.4, with the limits of its ramp rounded outwards to whole dimensions.
 */
double akv_rope_scale(double *freq, uint32_t n_rot, float base, const float *factors, const struct akv_rope_scaling *s);

/* cs[2i], cs[2i+1] = scale times cos and sin of pos * freq[i] for i < n; pos < AKV_ROPE_MAX_POS, freq <= 4/3. */
void akv_rope_angles(float *cs, const double *freq, size_t n, double scale, uint32_t pos);

#endif
