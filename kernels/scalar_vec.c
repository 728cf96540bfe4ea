/*
 * Scalar specification of the element-wise ops, the norms and the quantisation of activations (numerics R2, R3, functions).
 */
#include "kernels/expf.h"
#include "kernels/fp32.h"
#include "kernels/scalar.h"

/* Magnitudes are compared as integers: the order of finite floats is theirs, and NaN cannot slip through a comparison. */
static uint32_t max_magnitude(const float *x, size_t n)
{
    uint32_t max = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t u = akv_bits(x[i]) & 0x7fffffffu;
        max = u > max ? u : max;
    }
    return max;
}

/* R2: one block of 32. q = rne(x / d) by division; |x / d| <= 127 (1 + 2^-23), so q cannot leave -127..127. */
static int quantise_block(int8_t *q, float *d, int32_t *sum, const float *x)
{
    uint32_t amax = max_magnitude(x, AKV_QBLOCK);
    bool ok = amax < AKV_F32_INF;
    sum[0] = sum[1] = 0;
    if (!ok || amax < akv_bits(0x1p-100f)) {
        memset(q, 0, AKV_QBLOCK);
        *d = ok ? 0.0f : akv_float(AKV_F32_NAN);
        return ok ? 0 : -1;
    }
    *d = akv_float(amax) / 127.0f;
    for (size_t i = 0; i < AKV_QBLOCK; i++) {
        q[i] = (int8_t)akv_rne(x[i] / *d);
        sum[i / 16] += q[i];
    }
    return 0;
}

int akv_scalar_quantise(int8_t *q, float *d, int32_t *sum, const float *x, size_t k)
{
    int rc = 0;
    for (size_t b = 0; b < k / AKV_QBLOCK; b++) {
        rc |= quantise_block(q + AKV_QBLOCK * b, d + b, sum + 2 * b, x + AKV_QBLOCK * b);
    }
    return rc;
}

float akv_scalar_tree16(float s[16])
{
    for (size_t half = 8; half > 0; half /= 2) {
        for (size_t i = 0; i < half; i++)
            s[i] += s[i + half];
    }
    return s[0];
}

void akv_scalar_rmsnorm(float *y, const float *x, const float *w, size_t n, float eps)
{
    float s[16] = {0};
    for (size_t i = 0; i < n; i++)
        s[i % 16] = akv_fma(x[i], x[i], s[i % 16]);
    float root = akv_sqrt(akv_scalar_tree16(s) / (float)n + eps);
    for (size_t i = 0; i < n; i++)
        y[i] = (x[i] / root) * w[i];
}

void akv_scalar_rope(float *x, const float *cs, size_t n_rot, int style)
{
    size_t half = n_rot / 2;
    for (size_t i = 0; i < half; i++) {
        float *a = style == AKV_ROPE_STYLE_PAIRS ? x + 2 * i : x + i;
        float *b = style == AKV_ROPE_STYLE_PAIRS ? a + 1 : a + half;
        float c = cs[2 * i], s = cs[2 * i + 1], x0 = *a, x1 = *b;
        *a = akv_fma(x0, c, -(x1 * s));
        *b = akv_fma(x0, s, x1 * c);
    }
}

float akv_scalar_exp1(float x)
{
    x = x > AKV_EXP_MIN ? x : AKV_EXP_MIN;
    x = x < AKV_EXP_MAX ? x : AKV_EXP_MAX;
    float n = akv_rne(x * AKV_EXP_LOG2E);
    float r = akv_fma(-n, AKV_EXP_LN2_HI, x);
    r = akv_fma(-n, AKV_EXP_LN2_LO, r);
    float p = akv_fma(AKV_EXP_C6, r, AKV_EXP_C5);
    p = akv_fma(p, r, AKV_EXP_C4);
    p = akv_fma(p, r, AKV_EXP_C3);
    p = akv_fma(p, r, AKV_EXP_C2);
    p = akv_fma(p, r, 1.0f);
    p = akv_fma(p, r, 1.0f);
    return p * akv_float((uint32_t)((int32_t)n + 127) << 23);
}

float akv_scalar_softmax_exp(float x)
{
    return x < AKV_EXP_MIN ? 0.0f : akv_scalar_exp1(x);
}

void akv_scalar_exp(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = akv_scalar_exp1(x[i]);
}

void akv_scalar_silu_mul(float *gate, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i++)
        gate[i] = gate[i] / (1.0f + akv_scalar_exp1(-gate[i])) * up[i];
}

void akv_scalar_add(float *x, const float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] += y[i];
}

bool akv_scalar_finite(const float *x, size_t n)
{
    return max_magnitude(x, n) < AKV_F32_INF;
}
