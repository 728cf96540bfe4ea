/*
 * The scalar kernel table, the specification, against checks that share nothing with it: exact rational arithmetic, double
 * precision, and known answers that pin the numerics id. Matrix products: test_kernels_mul.
 */
#include "kern_rig.h"

#include <math.h>

static const struct akv_ops *const ops = &akv_ops_scalar;

/* fma rounds once: cases that a double-precision sum rounds wrongly, results from exact rational arithmetic. */
static void fma_exact(void **state)
{
    (void)state;
    static const uint32_t cases[][4] = {
        {0x3f800008, 0xb4fffff0, 0xc12d1a45, 0xc12d1a45}, {0x3f800002, 0xb2fffffc, 0xbf13272d, 0xbf13272d},
        {0x3f800008, 0xbb7ffff0, 0xc7ce5185, 0xc7ce5185}, {0x3f800100, 0xb27ffe00, 0xbecccbaf, 0xbecccbaf},
        {0x3f800080, 0x317fff00, 0xbdd1ea2b, 0xbdd1ea2b}, {0x3f800001, 0x337ffffe, 0x3fd7b331, 0x3fd7b331},
        {0x3f800010, 0xb5ffffe0, 0x420e6d17, 0x420e6d17}, {0x3f800020, 0xbcffffc0, 0xc90bcd03, 0xc90bcd03},
        {0x1d000001, 0x16fffffe, 0x0082e5dd, 0x0082e5dd}, {0x20000001, 0x13fffffe, 0x008eaa4b, 0x008eaa4b},
        {0x9d000010, 0x16ffffe0, 0x00860c53, 0x00860c53}, {0xa1800040, 0x127fff80, 0x0083cea1, 0x0083cea1},
        {0x1d000020, 0x16ffffc0, 0x0009b8fb, 0x0009b8fb}, {0xa1800004, 0x127ffff8, 0x0088f667, 0x0088f667},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const float a = akv_float(cases[i][0]), b = akv_float(cases[i][1]), c = akv_float(cases[i][2]);
        assert_int_equal(akv_bits(akv_fma(a, b, c)), cases[i][3]);
        assert_int_not_equal(akv_bits((float)((double)a * b + c)), cases[i][3]);
    }
    assert_int_equal(akv_bits(akv_fma(-1.0f, 0.0f, 0.0f)), 0);
    assert_int_equal(akv_bits(akv_fma(-1.0f, 0.0f, -0.0f)), 0x80000000);
    assert_int_equal(akv_bits(akv_fma(0x1p100f, 0x1p100f, -1.0f)), AKV_F32_INF);
    assert_int_equal(akv_bits(akv_fma(0x1p100f, 0x1p100f, -INFINITY)), AKV_F32_INF | 0x80000000u);
}

/* Every half widens to the value that its fields say, and narrows back to itself; infinities are refused. */
static void half_widens(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x10000; h++) {
        const int exponent = (int)(h >> 10 & 31);
        const double fraction = (double)(h & 1023) / 1024, sign = h & 0x8000 ? -1 : 1;
        const float x = akv_f32_from_f16((uint16_t)h);
        uint16_t back;
        if (exponent == 31) {
            assert_true(h & 1023 ? isnan(x) : isinf(x) && (x > 0) == (sign > 0));
            assert_false(akv_f16_from_f32(&back, x));
            continue;
        }
        assert_true((double)x == sign * (exponent ? ldexp(1 + fraction, exponent - 15) : ldexp(fraction, -14)));
        assert_true(akv_f16_from_f32(&back, x));
        assert_int_equal(back, h);
    }
}

/* Narrowing takes the nearest half, the even one of two as near: between every two neighbours, at the middle and beside it. */
static void half_narrows(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x7c00; h++) {
        const float lo = akv_f32_from_f16((uint16_t)h), hi = h == 0x7bff ? 65536.0f : akv_f32_from_f16((uint16_t)(h + 1));
        const float middle = lo + (hi - lo) / 2;
        const uint32_t even = h & 1 ? h + 1 : h;
        const struct {
            float x;
            uint32_t want;
        } cases[] = {{middle, even}, {akv_float(akv_bits(middle) - 1), h}, {akv_float(akv_bits(middle) + 1), h + 1}};
        for (size_t i = 0; i < 3; i++) {
            uint16_t got;
            const bool fits = cases[i].want < 0x7c00;
            assert_int_equal(akv_f16_from_f32(&got, cases[i].x), fits);
            if (!fits)
                continue;
            assert_int_equal(got, cases[i].want);
            assert_true(akv_f16_from_f32(&got, -cases[i].x));
            assert_int_equal(got, cases[i].want | 0x8000);
        }
    }
}

/* quantise: the largest magnitude becomes 127, every value is within half a step, sums are exact. */
static void quantise_properties(void **state)
{
    (void)state;
    uint64_t seed = 1;
    for (int turn = 0; turn < 2000; turn++) {
        float x[64], d[2];
        int8_t q[64];
        int32_t sum[4] = {0}, want[4] = {0};
        const float scale = akv_float((uint32_t)(30 + rig_below(&seed, 220)) << 23); /* 2^-97 .. 2^122 */
        for (size_t i = 0; i < 64; i++)
            x[i] = rig_unit(&seed) * scale;
        assert_int_equal(ops->quantise(q, d, sum, x, 64), 0);
        for (size_t b = 0; b < 2; b++) {
            int largest = 0;
            for (size_t i = 32 * b; i < 32 * b + 32; i++) {
                rig_near(q[i], (double)x[i] / (double)d[b], 0.5 + 1e-5, "q");
                largest = abs(q[i]) > largest ? abs(q[i]) : largest;
                want[i / 16] += q[i];
            }
            assert_int_equal(largest, 127);
        }
        assert_memory_equal(sum, want, sizeof sum);
    }
}

/* quantise: blocks below 2^-100 are zero, from it on they are not; a non-finite value is told, and marks its own block only. */
static void quantise_bounds(void **state)
{
    (void)state;
    float x[64] = {0}, d[2];
    int8_t q[64], zero[64] = {0};
    int32_t sum[4];
    x[5] = akv_float(akv_bits(0x1p-100f) - 1);
    assert_int_equal(ops->quantise(q, d, sum, x, 64), 0);
    assert_memory_equal(q, zero, 64);
    assert_true(d[0] == 0 && d[1] == 0);
    x[5] = -0x1p-100f;
    assert_int_equal(ops->quantise(q, d, sum, x, 64), 0);
    assert_int_equal(q[5], -127);
    assert_true(d[0] > 0);
    for (size_t i = 0; i < 3; i++) {
        x[40] = (float[]){INFINITY, -INFINITY, NAN}[i];
        assert_int_equal(ops->quantise(q, d, sum, x, 64), -1);
        assert_int_equal(q[5], -127);
        assert_true(isnan(d[1]));
        assert_memory_equal(q + 32, zero, 32);
    }
}

/* Ties of x / d go to the even integer, and the division is one: times 1 / d, these ties would fall to either side. */
static void quantise_ties(void **state)
{
    (void)state;
    for (int step = 1; step < 100; step += 2) {
        float x[32], d;
        int8_t q[32];
        int32_t sum[2];
        for (int i = 0; i < 32; i++)
            x[i] = (float)step * (i ? (float)(4 * i) - 63.5f : 127.0f);
        assert_int_equal(ops->quantise(q, &d, sum, x, 32), 0);
        assert_true(d == (float)step);
        for (int i = 1; i < 32; i++)
            assert_int_equal(q[i], 4 * i - 64); /* the even one beside 4i - 63.5 */
    }
}

/* e^x in long double by its series: independent of libm and of the polynomial. */
static double exp_reference(double x)
{
    long double r = (long double)x / 1024, term = 1, sum = 1;
    for (int i = 1; i < 16; i++) {
        term *= r / i;
        sum += term;
    }
    for (int i = 0; i < 10; i++)
        sum *= sum;
    return (double)sum;
}

/* exp is within one unit in the last place on its whole range, exact at zero, clamped outside. */
static void exp_accuracy(void **state)
{
    (void)state;
    double worst = 0;
    for (double x = -87; x <= 88; x += 0.00071) {
        const float in = (float)x;
        float y;
        ops->exp(&y, &in, 1);
        const double want = exp_reference(in), ulp = ldexp(1, ilogb(want) - 23), error = fabs((double)y - want) / ulp;
        worst = error > worst ? error : worst;
    }
    if (worst > 1.0)
        fail_msg("%g units in the last place", worst);
    const float in[] = {0.0f, -0.0f, -1000.0f, -INFINITY, 1000.0f, INFINITY, -87.0f, 88.0f};
    float y[8];
    ops->exp(y, in, 8);
    assert_true(y[0] == 1 && y[1] == 1);
    assert_true(y[2] == y[6] && y[3] == y[6] && y[6] > 0);
    assert_true(y[4] == y[7] && y[5] == y[7] && isfinite(y[7]));
}

/* rmsnorm and silu_mul agree with double precision; add adds; rope turns pairs by their angle and leaves what it must. */
static void vectors_reference(void **state)
{
    (void)state;
    uint64_t seed = 3;
    float x[100], w[100], y[100], z[100];
    double sum = 0;
    rig_fill(x, 100, RIG_PLAIN, &seed);
    rig_fill(w, 100, RIG_PLAIN, &seed);
    for (size_t i = 0; i < 100; i++)
        sum += (double)x[i] * (double)x[i];
    ops->rmsnorm(y, x, w, 100, 1e-5f);
    memcpy(z, x, sizeof x);
    ops->rmsnorm(z, z, w, 100, 1e-5f);
    rig_same(y, z, 100, "rmsnorm in place");
    for (size_t i = 0; i < 100; i++)
        rig_near(y[i], (double)x[i] / sqrt(sum / 100 + 1e-5) * (double)w[i], 2e-6, "rmsnorm");
    memcpy(y, x, sizeof x);
    ops->silu_mul(y, w, 100);
    for (size_t i = 0; i < 100; i++)
        rig_near(y[i], (double)x[i] / (1 + exp_reference(-(double)x[i])) * (double)w[i], 4e-6, "silu_mul");
    memcpy(y, x, sizeof x);
    ops->add(y, w, 100);
    for (size_t i = 0; i < 100; i++)
        assert_true(y[i] == x[i] + w[i]);
}

static void rope_reference(void **state)
{
    (void)state;
    uint64_t seed = 4;
    for (int style = 0; style < 2; style++) {
        float x[32], y[32], cs[20];
        rig_fill(x, 32, RIG_PLAIN, &seed);
        memcpy(y, x, sizeof x);
        for (size_t i = 0; i < 10; i++) {
            cs[2 * i] = (float)cos((double)i + 0.3);
            cs[2 * i + 1] = (float)sin((double)i + 0.3);
        }
        ops->rope(y, cs, 20, style);
        for (size_t i = 0; i < 10; i++) {
            const size_t a = style == AKV_ROPE_STYLE_PAIRS ? 2 * i : i, b = style == AKV_ROPE_STYLE_PAIRS ? 2 * i + 1 : i + 10;
            const double c = cos((double)i + 0.3), s = sin((double)i + 0.3);
            rig_near(y[a], (double)x[a] * c - (double)x[b] * s, 1e-6, "rope");
            rig_near(y[b], (double)x[a] * s + (double)x[b] * c, 1e-6, "rope");
        }
        assert_memory_equal(y + 20, x + 20, 12 * sizeof *x);
    }
}

/* Sixteen interleaved partial sums: a value that a sequential sum loses is kept by its own lane. */
static void rmsnorm_lanes(void **state)
{
    (void)state;
    float x[32] = {0}, w[32], y[32];
    for (size_t i = 0; i < 32; i++)
        w[i] = 1;
    x[0] = 4096; /* x0^2 + 1 rounds to x0^2 in f32, but lane 8 gathers 2, and 2^24 + 2 is a float */
    x[8] = x[24] = 1;
    ops->rmsnorm(y, x, w, 32, 0.0f);
    const float root = akv_sqrt((0x1p24f + 2) / 32);
    assert_int_equal(akv_bits(y[8]), akv_bits(1 / root));
    assert_int_not_equal(akv_bits(y[8]), akv_bits(1 / akv_sqrt(0x1p24f / 32)));
}

/* kv_put: a value is found again where the layout says, rounded to the dtype; what does not fit is refused. */
static void kv_put_layout(void **state)
{
    (void)state;
    for (int dtype = 0; dtype < 2; dtype++) {
        const size_t width = dtype == 0 ? 2 : 4;
        uint8_t *page = rig_alloc(2 * 5 * 64 * width + 64);
        const float k[5] = {1.0f, 0x1.001p0f, -2.5f, 0x1p-24f, 0}, v[5] = {7, -7, 65504, 0.5f, -0.0f};
        for (uint32_t slot = 0; slot < 64; slot++)
            assert_int_equal(ops->kv_put[dtype](page, 64, 64 + 5 * 64 * width, slot, k, 5, v, 5), 0);
        for (size_t i = 0; i < 5; i++) {
            for (size_t slot = 0; slot < 64; slot++) {
                const uint8_t *pk = page + 64 + width * (i * 64 + slot), *pv = page + 64 + 5 * 64 * width + width * (slot * 5 + i);
                float a, b;
                if (dtype == 0) {
                    a = akv_f32_from_f16(akv_load16(pk));
                    b = akv_f32_from_f16(akv_load16(pv));
                } else {
                    memcpy(&a, pk, 4);
                    memcpy(&b, pv, 4);
                }
                assert_true(a == (dtype == 0 && i == 1 ? 1.0f : k[i])); /* 1 + 2^-12 is not a half */
                assert_int_equal(akv_bits(b), akv_bits(v[i]));
            }
        }
        const float bad[3] = {dtype == 0 ? 65520.0f : INFINITY, NAN, -INFINITY};
        for (size_t i = 0; i < 3; i++) {
            assert_int_equal(ops->kv_put[dtype](page, 0, 640, 3, bad + i, 1, v, 1), -1);
            assert_int_equal(ops->kv_put[dtype](page, 0, 640, 3, k, 1, bad + i, 1), -1);
        }
        free(page);
    }
}

/* attn: softmax-weighted values in double, over pages, chunks and windows, f16 and f32. */
static void attn_reference(void **state)
{
    (void)state;
    const uint32_t ranges[][2] = {{0, 1},   {0, 63},  {0, 64},    {0, 65},    {0, 255},   {0, 256},
                                  {0, 257}, {0, 700}, {200, 300}, {299, 300}, {256, 512}, {511, 700}};
    uint64_t seed = 5;
    for (int dtype = 0; dtype < 2; dtype++) {
        struct rig_kv c;
        rig_kv_open(&c, ops, dtype, 700, 20, 12, RIG_PLAIN, &seed);
        for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
            float q[20], o[12];
            double want[12] = {0}, total = 0;
            rig_fill(q, 20, RIG_PLAIN, &seed);
            struct akv_attn_query query = {.q = q, .o = o, .from = ranges[i][0], .to = ranges[i][1]};
            rig_attend(ops, &c, 0.125f, &query, 1);
            for (uint32_t pos = query.from; pos < query.to; pos++) {
                double s = 0;
                for (size_t d = 0; d < 20; d++)
                    s += (double)q[d] * (double)c.k[pos * 20 + d];
                const double e = exp_reference(s * 0.125);
                total += e;
                for (size_t d = 0; d < 12; d++)
                    want[d] += e * (double)c.v[pos * 12 + d];
            }
            for (size_t d = 0; d < 12; d++) /* the half's own rounding is all the difference of f16 */
                rig_near(o[d], want[d] / total, dtype == 0 ? 1e-2 : 1e-5, "attention");
        }
        rig_kv_close(&c);
    }
}

/* attn: the bits of a query do not depend on what else is in the call, nor on its order. */
static void attn_alone(void **state)
{
    (void)state;
    uint64_t seed = 6;
    struct rig_kv c;
    float q[5 * 16], o[5 * 16], alone[16];
    struct akv_attn_query queries[5];
    rig_kv_open(&c, ops, 0, 300, 16, 16, RIG_PLAIN, &seed);
    rig_fill(q, 5 * 16, RIG_PLAIN, &seed);
    for (size_t i = 0; i < 5; i++)
        queries[i] =
            (struct akv_attn_query){.q = q + 16 * i, .o = o + 16 * i, .from = (uint32_t)i * 13, .to = 230 + (uint32_t)i * 13};
    rig_attend(ops, &c, 0.25f, queries, 5);
    for (size_t i = 0; i < 5; i++) {
        queries[i].o = alone;
        rig_attend(ops, &c, 0.25f, &queries[i], 1);
        rig_same(alone, o + 16 * i, 16, "alone");
    }
    rig_kv_close(&c);
}

static uint64_t hash_vectors(uint64_t h)
{
    uint64_t seed = 8;
    float x[200], w[200], y[200];
    rig_fill(w, 200, RIG_PLAIN, &seed);
    for (size_t n = 101; n <= 200; n++) { /* many, for a sum's last bit is seldom seen in the result */
        rig_fill(x, n, RIG_PLAIN, &seed);
        ops->rmsnorm(y, x, w, n, 1e-5f);
        h = rig_hash(h, y, n * sizeof *y);
        ops->silu_mul(x, w, n);
        h = rig_hash(h, x, n * sizeof *x);
        ops->rope(x, w, n / 2 * 2, (int)(n % 2));
        h = rig_hash(h, x, n * sizeof *x);
    }
    for (int i = -70000; i < 70000; i++) {
        const float in = (float)i / 1024;
        ops->exp(y, &in, 1);
        h = rig_hash(h, y, sizeof *y);
    }
    return h;
}

/* attn_join: a query in parts, chunk by chunk or the first ones together, has the bits of the whole. */
static void attn_parts(void **state)
{
    (void)state;
    uint64_t seed = 16;
    struct rig_kv c;
    float q[20], o[12], whole[12], part_o[4][12];
    rig_kv_open(&c, ops, 0, 900, 20, 12, RIG_PLAIN, &seed);
    for (uint32_t from = 0; from < 700; from += 233) {
        for (uint32_t first = from / AKV_CHUNK; first < 4; first++) {
            struct akv_attn_query query = {.q = q, .o = whole, .from = from, .to = 900}, parts[4];
            size_t n = 0;
            rig_fill(q, 20, RIG_PLAIN, &seed);
            rig_attend(ops, &c, 0.3f, &query, 1);
            for (uint32_t chunk = first; chunk < 4; chunk++, n++) {
                const uint32_t begin = n ? chunk * AKV_CHUNK : from, end = (chunk + 1) * AKV_CHUNK;
                parts[n] = (struct akv_attn_query){.q = q, .o = part_o[n], .from = begin, .to = end < 900 ? end : 900};
                rig_attend_part(ops, &c, 0.3f, &parts[n], 1);
            }
            ops->attn_join(o, parts, n, 12);
            rig_same(whole, o, 12, "parts");
        }
    }
    rig_kv_close(&c);
}

static uint64_t hash_attn(int dtype, uint64_t h)
{
    uint64_t seed = 9;
    struct rig_kv c;
    float q[16], o[16];
    rig_kv_open(&c, ops, dtype, 600, 16, 16, RIG_PLAIN, &seed);
    h = rig_hash(h, c.pages[1], c.v_offset * 2);
    for (uint32_t i = 0; i < 30; i++) {
        struct akv_attn_query query = {.q = q, .o = o, .from = 7 * i, .to = 600 - 13 * i};
        rig_fill(q, 16, RIG_PLAIN, &seed);
        rig_attend(ops, &c, 0.044f, &query, 1);
        h = rig_hash(h, o, sizeof o);
    }
    rig_kv_close(&c);
    return h;
}

/* Known answers: when one of these moves, the numerics id (AKV_NUMERICS) must move with it. */
static void known_answers(void **state)
{
    (void)state;
    const uint64_t start = 0xcbf29ce484222325u;
    assert_string_equal(AKV_NUMERICS, "1");
    assert_int_equal(hash_vectors(start), 0x7e94f8f30d39aca5u);
    assert_int_equal(hash_attn(0, start), 0xe08a16356970654cu);
    assert_int_equal(hash_attn(1, start), 0x5a9fd123b43c1ed2u);
}

/* pick: by name, the best without one, nothing for an unknown name; every table knows the same dtypes. */
static void pick(void **state)
{
    (void)state;
    assert_ptr_equal(akv_ops_pick("scalar"), &akv_ops_scalar);
    assert_null(akv_ops_pick("avx1024"));
    assert_null(akv_ops_pick(""));
    const struct akv_ops *best = akv_ops_pick(NULL);
    assert_ptr_equal(best, akv_ops_pick(best->name));
    for (int t = -1; t <= AKV_DTYPES; t++) {
        const bool known = t >= 0 && t < AKV_DTYPES && akv_dtypes[t].runs;
        assert_int_equal(akv_ops_scalar.has((enum akv_dtype)t), known);
        assert_int_equal(best->has((enum akv_dtype)t), known);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fma_exact),       cmocka_unit_test(half_widens),
        cmocka_unit_test(half_narrows),    cmocka_unit_test(quantise_properties),
        cmocka_unit_test(quantise_bounds), cmocka_unit_test(quantise_ties),
        cmocka_unit_test(exp_accuracy),    cmocka_unit_test(vectors_reference),
        cmocka_unit_test(rope_reference),  cmocka_unit_test(rmsnorm_lanes),
        cmocka_unit_test(kv_put_layout),   cmocka_unit_test(attn_reference),
        cmocka_unit_test(attn_alone),      cmocka_unit_test(attn_parts),
        cmocka_unit_test(known_answers),   cmocka_unit_test(pick),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
