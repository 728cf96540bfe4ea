/*
 * The AVX2 + FMA + F16C table. Ops that are not worth a vector are the scalar ones.
 */
#include "kernels/avx2.h"
#include "kernels/gelu.h"
#include "kernels/scalar.h"

const struct akv_ops akv_ops_avx2 = {
    .name = "avx2",
    .quantise = akv_avx2_quantise,
    .mul = akv_avx2_mul,
    .mul_scratch_bytes = akv_avx2_mul_scratch_bytes,
    .dequant = akv_scalar_dequant,
    .rmsnorm = akv_avx2_rmsnorm,
    .rope = akv_avx2_rope,
    .silu_mul = akv_avx2_silu_mul,
    .gelu_mul = akv_avx2_gelu_mul,
    .add = akv_avx2_add,
    .kv_put = {akv_avx2_kv_put_f16, akv_scalar_kv_put_f32},
    .attn = {akv_avx2_attn_f16, akv_avx2_attn_f32},
    .attn_join = akv_avx2_attn_join,
    .attn_scratch_bytes = akv_avx2_attn_scratch_bytes,
    .exp = akv_avx2_exp,
    .finite = akv_avx2_finite,
    .has = akv_scalar_has,
};
