/*
 * The scalar table: the specification that every other table is tested against, bit for bit.
 */
#include "kernels/gelu.h"
#include "kernels/scalar.h"

const struct akv_ops akv_ops_scalar = {
    .name = "scalar",
    .quantise = akv_scalar_quantise,
    .mul = akv_scalar_mul,
    .mul_scratch_bytes = akv_scalar_mul_scratch_bytes,
    .dequant = akv_scalar_dequant,
    .rmsnorm = akv_scalar_rmsnorm,
    .rope = akv_scalar_rope,
    .silu_mul = akv_scalar_silu_mul,
    .gelu_mul = akv_scalar_gelu_mul,
    .add = akv_scalar_add,
    .kv_put = {akv_scalar_kv_put_f16, akv_scalar_kv_put_f32},
    .attn = {akv_scalar_attn_f16, akv_scalar_attn_f32},
    .attn_join = akv_scalar_attn_join,
    .attn_scratch_bytes = akv_scalar_attn_scratch_bytes,
    .exp = akv_scalar_exp,
    .finite = akv_scalar_finite,
    .has = akv_scalar_has,
};
