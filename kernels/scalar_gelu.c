#include "kernels/gelu.h"

#include "kernels/fp32.h"
#include "kernels/scalar.h"

void akv_scalar_gelu_mul(float *gate, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float x = gate[i], t = akv_fma(x * x, AKV_GELU_C3, AKV_GELU_C1);
        gate[i] = x / (1.0f + akv_scalar_exp1(-(x * t))) * up[i];
    }
}
