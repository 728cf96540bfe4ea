/*
 * Matrix products and decoded rows of the scalar kernel table against checks that share nothing with it: blocks decoded by others,
 * double precision, the chains of the specification built anew, and known answers that pin the numerics id.
 */
#include "kern_rig.h"

#include <math.h>

static const struct akv_ops *const ops = &akv_ops_scalar;

static uint8_t *read_all(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    uint8_t *p = rig_alloc(1 << 20);
    *n = fread(p, 1, 1 << 20, f);
    fclose(f);
    return p;
}

/* dequant gives, bit for bit, the values that other implementations decode. */
static void dequant_golden(void **state)
{
    (void)state;
    size_t n_types;
    const enum akv_dtype *t = rig_dtypes(&n_types);
    for (size_t i = 0; i < n_types; i++) {
        char name[64];
        if (t[i] == AKV_F32) /* has no blocks */
            continue;
        snprintf(name, sizeof name, "golden/quants/%s.bin", akv_dtypes[t[i]].name);
        const char *bin = shared_file(name);
        snprintf(name, sizeof name, "golden/quants/%s.f32", akv_dtypes[t[i]].name);
        const char *f32 = shared_file(name);
        if (!bin || !f32)
            skip();
        size_t n_bytes, want_bytes;
        uint8_t *blocks = read_all(bin, &n_bytes), *want = read_all(f32, &want_bytes);
        const size_t k = n_bytes / akv_dtypes[t[i]].block_bytes * akv_dtypes[t[i]].block;
        assert_int_equal(want_bytes, k * sizeof(float));
        float *y = rig_alloc(want_bytes);
        ops->dequant(t[i], y, blocks, k);
        assert_memory_equal(y, want, want_bytes);
        free(y);
        free(blocks);
        free(want);
    }
}

/* MXFP4: every exponent is the power of two that it says, subnormal ones too; 255 is NaN. */
static void dequant_exponents(void **state)
{
    (void)state;
    for (int e = 0; e < 256; e++) {
        uint8_t block[17] = {(uint8_t)e, 0xf1};
        float y[32];
        ops->dequant(AKV_MXFP4, y, block, 32);
        if (e == 255) {
            assert_true(isnan(y[0]) && isnan(y[5]));
            continue;
        }
        assert_true((double)y[0] == ldexp(1, e - 128));
        assert_true((double)y[16] == (e < 253 ? -12 * ldexp(1, e - 128) : -INFINITY));
        assert_int_equal(akv_bits(y[1]), 0);
    }
}

/* mul: every dtype is the sum, in double, of decoded weight times activation (as quantised, where it is). */
static void mul_reference(void **state)
{
    (void)state;
    uint64_t seed = 2;
    size_t n_types;
    const enum akv_dtype *t = rig_dtypes(&n_types);
    for (size_t i = 0; i < n_types; i++) {
        const size_t k = rig_k(t[i], akv_dtypes[t[i]].block > 32 ? 512 : 160), n_out = 5, n_rows = 3,
                     row_bytes = k / akv_dtypes[t[i]].block * akv_dtypes[t[i]].block_bytes;
        uint8_t *w = rig_matrix(t[i], n_out, k, &seed);
        struct akv_act act;
        rig_act(&act, n_rows, k, RIG_PLAIN, &seed);
        float *y = rig_mul(ops, t[i], w, &act, 0, n_out, n_out);
        for (size_t r = 0; r < n_rows; r++) {
            for (size_t o = 0; o < n_out; o++) {
                float row[512];
                double sum = 0, size = 0;
                ops->dequant(t[i], row, w + o * row_bytes, k);
                for (size_t j = 0; j < k; j++) {
                    double a = akv_dtypes[t[i]].quantised ? (double)act.q[r * k + j] * (double)act.d[(r * k + j) / 32]
                                                          : (double)act.x[r * k + j];
                    sum += (double)row[j] * a;
                    size += fabs((double)row[j] * a);
                }
                rig_near(y[r * n_out + o], sum, 1e-6 * size, akv_dtypes[t[i]].name);
            }
        }
        free(y);
        free(w);
        rig_act_free(&act);
    }
}

/* The factors of a block of 32, told by what it decodes to with its scales replaced by 0 and 1. */
struct factors {
    float d, m;
    double w[32], min[32];
};

static void set_scale(enum akv_dtype t, uint8_t *block, size_t i, uint16_t half)
{
    if (rig_scales(t)[i] >= 0)
        memcpy(block + rig_scales(t)[i], &half, sizeof half);
}

static void decode_integers(enum akv_dtype t, double *to, const uint8_t *block, size_t i, uint16_t d, uint16_t m)
{
    uint8_t copy[256];
    float y[256];
    memcpy(copy, block, akv_dtypes[t].block_bytes);
    set_scale(t, copy, 0, d);
    set_scale(t, copy, 1, m);
    if (t == AKV_MXFP4)
        copy[0] = 128;
    ops->dequant(t, y, copy, akv_dtypes[t].block);
    for (size_t j = 0; j < 32; j++)
        to[j] = (double)y[32 * i + j];
}

static struct factors factors_of(enum akv_dtype t, const uint8_t *block, size_t i)
{
    const uint16_t one = 0x3c00;
    struct factors f = {0};
    const int *at = rig_scales(t);
    f.d = t == AKV_MXFP4 ? (float)ldexp(1, block[0] - 128) : akv_f32_from_f16(akv_load16(block + at[0]));
    decode_integers(t, f.w, block, i, one, 0);
    if (at[1] >= 0) {
        f.m = akv_f32_from_f16(akv_load16(block + at[1]));
        decode_integers(t, f.min, block, i, 0, one);
    }
    return f;
}

/* One output: the chain as akv-numerics(7) has it, the integers in double, where all of them are exact. */
static float chain_of(enum akv_dtype t, const uint8_t *row, const struct akv_act *act, size_t r)
{
    float acc = 0;
    for (size_t b = 0; b < act->k / 32; b++) {
        const size_t in_block = akv_dtypes[t].block / 32;
        const struct factors f = factors_of(t, row + b / in_block * akv_dtypes[t].block_bytes, b % in_block);
        const float da = act->d[r * (act->k / 32) + b];
        double isum = 0, qsum = 0, msum = 0;
        for (size_t i = 0; i < 32; i++) {
            const double q = act->q[r * act->k + 32 * b + i];
            isum += f.w[i] * q;
            qsum += q;
            msum -= f.min[i] * q;
        }
        acc = akv_fma(f.d * da, (float)isum, acc);
        if (t == AKV_Q4_1 || t == AKV_Q5_1)
            acc = akv_fma(f.m, da * (float)qsum, acc);
        else if (rig_scales(t)[1] >= 0)
            acc = akv_fma(-(f.m * da), (float)msum, acc);
    }
    return acc;
}

/* mul: quantised dtypes give, to the bit, the chain of the specification over exact integers, with scales of every kind. */
static void mul_chains(void **state)
{
    (void)state;
    uint64_t seed = 3;
    size_t n_types;
    const enum akv_dtype *t = rig_dtypes(&n_types);
    for (size_t i = 0; i < n_types; i++) {
        if (!akv_dtypes[t[i]].quantised)
            continue;
        for (int turn = 0; turn < 8; turn++) {
            const size_t k = rig_k(t[i], turn % 2 ? 512 : 32), n_out = 3,
                         row_bytes = k / akv_dtypes[t[i]].block * akv_dtypes[t[i]].block_bytes;
            uint8_t *w = rig_matrix(t[i], n_out, k, &seed);
            if (turn >= 4)
                rig_hostile(t[i], w, n_out * k / akv_dtypes[t[i]].block, false, &seed);
            struct akv_act act;
            rig_act(&act, 2, k, RIG_PLAIN, &seed);
            float *y = rig_mul(ops, t[i], w, &act, 0, n_out, n_out);
            for (size_t j = 0; j < 2 * n_out; j++) {
                const float want = chain_of(t[i], w + j % n_out * row_bytes, &act, j / n_out);
                rig_same(&want, y + j, 1, akv_dtypes[t[i]].name);
            }
            free(y);
            free(w);
            rig_act_free(&act);
        }
    }
}

/* mul: float dtypes are one fma chain over k, from +0, on weights widened exactly. */
static void mul_float_chains(void **state)
{
    (void)state;
    const enum akv_dtype types[] = {AKV_F32, AKV_F16, AKV_BF16};
    uint64_t seed = 4;
    for (size_t i = 0; i < 3; i++) {
        float row[77], acc = 0;
        struct akv_act act;
        uint8_t *w = rig_matrix(types[i], 1, 77, &seed);
        rig_act(&act, 1, 77, RIG_PLAIN, &seed);
        ops->dequant(types[i], row, w, 77);
        for (size_t j = 0; j < 77; j++)
            acc = akv_fma(row[j], act.x[j], acc);
        float *y = rig_mul(ops, types[i], w, &act, 0, 1, 1);
        rig_same(&acc, y, 1, akv_dtypes[types[i]].name);
        free(y);
        free(w);
        rig_act_free(&act);
    }
}

static uint64_t hash_mul(enum akv_dtype t, uint64_t h)
{
    uint64_t seed = 7;
    struct akv_act act;
    uint8_t *w = rig_matrix(t, 7, rig_k(t, 192), &seed);
    rig_act(&act, 3, rig_k(t, 192), RIG_PLAIN, &seed);
    float *y = rig_mul(ops, t, w, &act, 0, 7, 7);
    h = rig_hash(h, y, 21 * sizeof *y);
    free(y);
    free(w);
    rig_act_free(&act);
    return h;
}

static uint64_t hash_dequant(enum akv_dtype t, uint64_t h)
{
    uint64_t seed = 10;
    float y[512];
    uint8_t *w = rig_matrix(t, 1, 512, &seed);
    ops->dequant(t, y, w, 512);
    free(w);
    return rig_hash(h, y, sizeof y);
}

/* Known answers: when one of these moves, the numerics id (AKV_NUMERICS) must move with it. */
static void known_answers(void **state)
{
    (void)state;
    const uint64_t start = 0xcbf29ce484222325u;
    static const struct {
        enum akv_dtype t;
        uint64_t mul, dequant;
    } known[] = {
        {AKV_F32, 0xe3c1a4b09a615c60u, 0x9b184446eaca5696u},    {AKV_F16, 0x4afaed8b5a824052u, 0x3a14a97bc876f8c6u},
        {AKV_BF16, 0x4a58607f55b54b9cu, 0x52e64865a86b77c9u},   {AKV_Q4_0, 0x6234b089bc756217u, 0x4fd9b0e658fffd1au},
        {AKV_Q4_1, 0x4480fc562fa22c0du, 0xa15d81d7f4685a1cu},   {AKV_Q5_0, 0xd49bb53f1c6fc3e4u, 0xdba563702fc1384bu},
        {AKV_Q5_1, 0xdf930e36981bc998u, 0xa20fc6f4a0feebf1u},   {AKV_Q8_0, 0x8a5d916b874e431du, 0x6a9f1b755beef66au},
        {AKV_Q2_K, 0xbff6bb2593059900u, 0x29bfed8009f1559cu},   {AKV_Q3_K, 0x9735b1b566bcfb0eu, 0x8898952f3989fb7au},
        {AKV_Q4_K, 0x1f45d230ee5f05d0u, 0xec01f75a6dd31761u},   {AKV_Q5_K, 0x35e3a0c35579817eu, 0x447e20056f2714abu},
        {AKV_Q6_K, 0xfa539ede49179ecau, 0xd8c556fa1f087857u},   {AKV_IQ4_NL, 0xa3a456dd29d77ea2u, 0xa6d436b0643329ceu},
        {AKV_IQ4_XS, 0x7c6cae5651c0f042u, 0xf84d51aec971824du}, {AKV_MXFP4, 0x827b4703dcc6de34u, 0x037e9736efd4df60u},
    };
    size_t n_types;
    rig_dtypes(&n_types);
    assert_int_equal(n_types, sizeof known / sizeof *known);
    assert_string_equal(AKV_NUMERICS, "1");
    for (size_t i = 0; i < n_types; i++) {
        assert_int_equal(hash_mul(known[i].t, start), known[i].mul);
        assert_int_equal(hash_dequant(known[i].t, start), known[i].dequant);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dequant_golden), cmocka_unit_test(dequant_exponents), cmocka_unit_test(mul_reference),
        cmocka_unit_test(mul_chains),     cmocka_unit_test(mul_float_chains),  cmocka_unit_test(known_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
