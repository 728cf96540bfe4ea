/*
 * The AVX-512 + VNNI table: products of many rows, and attention. Everything else is the AVX2 table's.
 */
#include "kernels/avx512.h"
#include "kernels/gelu.h"
#include "kernels/scalar.h"

const struct akv_ops akv_ops_avx512 = {
    .name = "avx512",
    .quantise = akv_avx2_quantise,
    .mul = akv_avx512_mul,
    .mul_scratch_bytes = akv_avx512_mul_scratch_bytes,
    .dequant = akv_scalar_dequant,
    .rmsnorm = akv_avx2_rmsnorm,
    .rope = akv_avx2_rope,
    .silu_mul = akv_avx2_silu_mul,
    .gelu_mul = akv_avx2_gelu_mul,
    .add = akv_avx2_add,
    .kv_put = {akv_avx2_kv_put_f16, akv_scalar_kv_put_f32},
    .attn = {akv_avx512_attn_f16, akv_avx512_attn_f32},
    .attn_join = akv_avx512_attn_join,
    .attn_scratch_bytes = akv_avx512_attn_scratch_bytes,
    .exp = akv_avx2_exp,
    .finite = akv_avx2_finite,
    .has = akv_scalar_has,
};
