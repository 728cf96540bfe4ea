/* The engine's own exp, log, sin and cos in double, and the RoPE tables made from them, against the C library in long double. */
#include "tests/check.h"

#include <math.h>

#include "engine/dmath.h"
#include "engine/rope.h"

static uint64_t state = 1;

static double random_unit(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 11) * 0x1p-53;
}

static long double relative(double got, long double want)
{
    return fabsl((long double)got - want) / fabsl(want);
}

/* Distance in units of the last place of an f32 near want. */
static long double ulps_f32(float got, long double want)
{
    int e;
    frexpl(want, &e);
    e = e < -125 ? -125 : e;
    return fabsl((long double)got - want) / ldexpl(1, e - 24);
}

/* exp is within 2 double ulps over its whole range, exact at 0, +0 below -708 and finite above 709 */
static void test_exp(void **unused)
{
    (void)unused;
    long double worst = 0;
    for (int i = 0; i < 200000; i++) {
        double x = (random_unit() - 0.5) * (i % 2 ? 1416 : 4);
        worst = fmaxl(worst, relative(dm_exp(x), expl(x)));
    }
    assert_true(worst < 2 * 0x1p-53L * 2);
    assert_true(dm_exp(0.0) == 1 && dm_exp(-0.0) == 1);
    assert_true(dm_exp(-708.5) == 0 && dm_exp(-INFINITY) == 0);
    assert_true(isfinite(dm_exp(1e300)));
}

/* log and log2 are within 2 double ulps, near 1 too, and exact at powers of two */
static void test_log(void **unused)
{
    (void)unused;
    long double worst = 0, worst2 = 0;
    for (int i = 0; i < 200000; i++) {
        double x = i % 2 ? ldexp(1 + random_unit(), (int)(random_unit() * 2000) - 1000) : 1 + (random_unit() - 0.5) * 0x1p-6;
        if (x > 1 || x < 1) {
            worst = fmaxl(worst, relative(dm_log(x), logl(x)));
            worst2 = fmaxl(worst2, relative(dm_log2(x), log2l(x)));
        }
    }
    assert_true(worst < 4 * 0x1p-53L);
    assert_true(worst2 < 4 * 0x1p-53L);
    for (int k = -1000; k <= 1000; k++) {
        assert_true(dm_log2(ldexp(1, k)) == k);
    }
    assert_true(dm_log(1) == 0);
}

/* cos and sin, rounded to f32, are within 1 f32 ulp for every kind of argument up to 2^20, multiples of pi/2 included */
static void test_cos_sin(void **unused)
{
    (void)unused;
    long double worst = 0;
    for (int i = 0; i < 400000; i++) {
        double x = random_unit() * (i % 2 ? 0x1p20 : 8);
        if (i % 3 == 0) /* as close to a zero as a double gets */
            x = (double)(rintl(x / M_PI_2) * 1.57079632679489661923132169163975144L);
        if (x > 0x1p20)
            continue;
        double c, s;
        dm_cos_sin(x, &c, &s);
        worst = fmaxl(worst, fmaxl(ulps_f32((float)c, cosl(x)), ulps_f32((float)s, sinl(x))));
    }
    assert_true(worst <= 0.5001L);
    double c, s;
    dm_cos_sin(0, &c, &s);
    assert_true(c == 1 && s == 0);
}

/* the frequencies are base^(-2i/d) to 1e-14, and a table's entries are within 1 f32 ulp of cos and sin at pos * freq */
static void test_rope_table(void **unused)
{
    (void)unused;
    static const float bases[] = {1, 2, 10000, 100000, 500000, 1e6f, 1e9f};
    static const uint32_t positions[] = {0, 1, 2, 63, 64, 8191, 131071, (1u << 20) - 1};
    enum { D = 128 };
    double freq[D / 2];
    float cs[D];
    for (size_t b = 0; b < sizeof bases / sizeof *bases; b++) {
        akv_rope_freqs(freq, D, bases[b]);
        for (int i = 0; i < D / 2; i++)
            assert_true(relative(freq[i], powl((long double)bases[b], -2.0L * i / D)) < 1e-14L);
        assert_true(freq[0] == 1);
        for (size_t p = 0; p < sizeof positions / sizeof *positions; p++) {
            akv_rope_angles(cs, freq, D / 2, 1, positions[p]);
            for (int i = 0; i < D / 2; i++) {
                double angle = positions[p] * freq[i];
                assert_true(ulps_f32(cs[2 * i], cosl(angle)) <= 1);
                assert_true(ulps_f32(cs[2 * i + 1], sinl(angle)) <= 1);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exp),
        cmocka_unit_test(test_log),
        cmocka_unit_test(test_cos_sin),
        cmocka_unit_test(test_rope_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
