/*
 * The tanh approximation of GELU (akv-numerics(7)): constants and the tables' forms.
 *
 * x (1 + tanh u) / 2 with u = sqrt(2/pi) (x + 0.044715 x^3) is x / (1 + e^(-2u)), the shape of silu. In this order:
 *   t = fma(x * x, C3, C1), gelu(x) = x / (1 + exp(-(x * t))), exp as in expf.h
 * C1 = 2 sqrt(2/pi) and C3 = 0.044715 C1, each rounded to f32.
 */
#ifndef AKV_KERNELS_GELU_H
#define AKV_KERNELS_GELU_H

#include <stddef.h>

#define AKV_GELU_C1 0x1.988454p+0f
#define AKV_GELU_C3 0x1.2444f2p-4f

void akv_scalar_gelu_mul(float *gate, const float *up, size_t n);
void akv_avx2_gelu_mul(float *gate, const float *up, size_t n);

#endif
