/* RoPE scaling: YaRN against values that an independent program computed in 40 digits, linear scaling, factors, and the tables. */
#include "tests/check.h"

#include <math.h>

#include "engine/rope.h"

static const struct akv_rope_scaling yarn = {
    .kind = AKV_ROPE_YARN, .factor = 4, .attn_factor = 1, .n_ctx_orig = 32768, .ext_factor = 1, .beta_fast = 32, .beta_slow = 1};

static void near(double got, double want)
{
    if (!(fabs(got - want) <= 1e-14 * fabs(want)))
        fail_msg("%.17g, not %.17g", got, want);
}

/* YaRN's frequencies and the factor of cos and sin are the paper's: kept, on the ramp, interpolated */
static void test_yarn(void **unused)
{
    (void)unused;
    static const struct {
        unsigned n_rot;
        float base, factor;
        unsigned n_ctx;
        double scale;
        struct {
            unsigned i;
            double freq;
        } at[7];
    } cases[] = {
        {128,
         1e6f,
         4,
         32768,
         1.1386294361119891,
         {{0, 1},
          {23, 0.0069783058485986633},
          {24, 0.0053753214907901019},
          {31, 0.00080295972754523034},
          {39, 6.4903943208370293e-05},
          {40, 4.4456985250973067e-05},
          {63, 3.1023444018792988e-07}}},
        {64,
         10000,
         16,
         4096,
         1.2772588722239782,
         {{0, 1},
          {7, 0.1333521432163324},
          {10, 0.056234132519034911},
          {15, 0.0085268437729674081},
          {20, 0.00088178896293156727},
          {23, 8.3345089510207754e-05},
          {31, 8.3345089510207747e-06}}},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        double freq[64];
        struct akv_rope_scaling s = yarn;
        s.factor = cases[c].factor;
        s.n_ctx_orig = cases[c].n_ctx;
        akv_rope_freqs(freq, cases[c].n_rot, cases[c].base);
        near(akv_rope_scale(freq, cases[c].n_rot, cases[c].base, NULL, &s), cases[c].scale);
        for (size_t i = 0; i < 7; i++)
            near(freq[cases[c].at[i].i], cases[c].at[i].freq);
    }
}

/* without its ramp YaRN is linear scaling; half of it is half way; the attention factors multiply */
static void test_yarn_parts(void **unused)
{
    (void)unused;
    double plain[32], whole[32], half[32], none[32];
    struct akv_rope_scaling s = yarn;
    s.n_ctx_orig = 256;
    s.attn_factor = 2;
    for (double *f = NULL, **p = (double *[]){plain, whole, half, none, NULL}; (f = *p); p++)
        akv_rope_freqs(f, 64, 10000);
    near(akv_rope_scale(whole, 64, 10000, NULL, &s), 2 * 1.1386294361119891);
    s.ext_factor = 0.5F;
    near(akv_rope_scale(half, 64, 10000, NULL, &s), 2 * 1.1386294361119891);
    s.ext_factor = 0;
    near(akv_rope_scale(none, 64, 10000, NULL, &s), 2);
    for (int i = 0; i < 32; i++) {
        near(none[i], plain[i] / 4);
        near(half[i], (whole[i] + none[i]) / 2);
    }
}

/* a ramp without length, or one outside the dimensions, still gives finite frequencies between the two */
static void test_yarn_extremes(void **unused)
{
    (void)unused;
    static const unsigned contexts[] = {1, 2, 7, 1u << 31};
    static const float betas[] = {0.001F, 1, 1e6F}, bases[] = {1.0000001F, 10000, 0x1p126F};
    for (int i = 0; i < 4 * 3 * 3; i++) {
        double freq[2], plain[2];
        struct akv_rope_scaling s = yarn;
        s.n_ctx_orig = contexts[i % 4];
        s.beta_fast = s.beta_slow = betas[i / 4 % 3];
        akv_rope_freqs(freq, 4, bases[i / 12]);
        memcpy(plain, freq, sizeof plain);
        akv_rope_scale(freq, 4, bases[i / 12], NULL, &s);
        for (int k = 0; k < 2; k++)
            assert_true(freq[k] >= plain[k] / 4 * (1 - 1e-15) && freq[k] <= plain[k] * (1 + 1e-15));
    }
}

/* linear scaling divides all frequencies, the model's factors each its own, before that; no scaling changes no bit */
static void test_linear(void **unused)
{
    (void)unused;
    static const float factors[4] = {1, 2, 0.75F, 8};
    const struct akv_rope_scaling linear = {.kind = AKV_ROPE_LINEAR, .factor = 8, .attn_factor = 1},
                                  none = {.factor = 1, .attn_factor = 1};
    double plain[4], freq[4];
    akv_rope_freqs(plain, 8, 10000);
    memcpy(freq, plain, sizeof freq);
    assert_true(akv_rope_scale(freq, 8, 10000, NULL, &none) == 1);
    assert_memory_equal(freq, plain, sizeof freq);
    assert_true(akv_rope_scale(freq, 8, 10000, factors, &linear) == 1);
    for (int i = 0; i < 4; i++)
        near(freq[i], plain[i] / factors[i] / 8);
}

/* cos and sin are multiplied before the one rounding, and the largest angle that can occur is still good */
static void test_angles(void **unused)
{
    (void)unused;
    static const double freq[3] = {1.3333333333333333, 0.5, 1e-9};
    static const unsigned positions[] = {0, 1, 1000, AKV_ROPE_MAX_POS - 1};
    for (int p = 0; p < 4; p++) {
        float cs[6];
        akv_rope_angles(cs, freq, 3, 1.1386294361119891, positions[p]);
        for (int i = 0; i < 3; i++) {
            long double angle = (long double)(positions[p] * freq[i]);
            assert_true(fabsl(cs[2 * i] - 1.1386294361119891L * cosl(angle)) < 8e-8L);
            assert_true(fabsl(cs[2 * i + 1] - 1.1386294361119891L * sinl(angle)) < 8e-8L);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_yarn),   cmocka_unit_test(test_yarn_parts), cmocka_unit_test(test_yarn_extremes),
        cmocka_unit_test(test_linear), cmocka_unit_test(test_angles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
