/* gelu_mul of every table: near the tanh approximation, bit-equal to the specification, and NaN and infinity come through. */
#include "tests/unit/kern_rig.h"

static double gelu(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
}

/* the function is the tanh approximation, to 2e-7 where it is positive; where it falls off, the exponent shows */
static void test_accuracy(void **state)
{
    (void)state;
    enum { N = 4001 };
    const struct akv_ops *ops;
    for (size_t table = 0; (ops = akv_ops_nth(table)); table++) {
        float *x = rig_alloc(N * sizeof *x), *one = rig_alloc(N * sizeof *one);
        for (int i = 0; i < N; i++) {
            x[i] = (float)(i - 2000) / 200;
            one[i] = 1;
        }
        ops->gelu_mul(x, one, N);
        for (int i = 0; i < N; i++) {
            double want = gelu((double)(float)((float)(i - 2000) / 200));
            if (!(fabs((double)x[i] - want) <= (want < 0 ? 1e-6 : 2e-7) * fabs(want) + 1e-9))
                fail_msg("%s: gelu(%g) = %.9g, not %.9g", ops->name, (double)(i - 2000) / 200, (double)x[i], want);
        }
        free(x);
        free(one);
    }
}

/* every table gives the specification's bits, at every length and for every kind of float */
static void test_same(void **state)
{
    (void)state;
    const struct akv_ops *fast = akv_ops_pick("avx2");
    if (!fast)
        skip();
    uint64_t seed = 5;
    for (size_t n = 0; n < 67; n++)
        for (int kind = 0; kind < RIG_KINDS; kind++) {
            float *a = rig_alloc(n * sizeof *a), *b = rig_alloc(n * sizeof *b), *up = rig_alloc(n * sizeof *up);
            rig_fill(a, n, (enum rig_kind)kind, &seed);
            rig_fill(up, n, kind == RIG_HUGE ? RIG_PLAIN : (enum rig_kind)kind, &seed);
            memcpy(b, a, n * sizeof *a);
            akv_ops_scalar.gelu_mul(a, up, n);
            fast->gelu_mul(b, up, n);
            rig_same(a, b, n, "gelu_mul");
            free(a);
            free(b);
            free(up);
        }
}

/* zeros keep their sign; infinity and NaN stay visible; the largest floats pass, or vanish on the negative side */
static void test_special(void **state)
{
    (void)state;
    const struct akv_ops *ops;
    for (size_t table = 0; (ops = akv_ops_nth(table)); table++) {
        float inf = akv_float(AKV_F32_INF), *x = rig_alloc(16 * sizeof *x), *up = rig_alloc(16 * sizeof *up);
        const float in[8] = {0.0F, -0.0F, inf, -inf, akv_float(AKV_F32_NAN), 3e38F, -3e38F, 1e-44F};
        for (int i = 0; i < 16; i++) { /* whole vectors */
            x[i] = in[i % 8];
            up[i] = 1;
        }
        ops->gelu_mul(x, up, 16);
        assert_int_equal(akv_bits(x[0]), 0);
        assert_int_equal(akv_bits(x[1]), 0x80000000u);
        assert_true(x[2] == inf);
        assert_false(x[3] - x[3] == 0);
        assert_true(x[4] != x[4]);
        assert_true(x[5] == 3e38F && x[6] <= 0 && x[6] > -2);
        assert_true(x[7] >= 0 && x[7] <= 1e-44F);
        free(x);
        free(up);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_accuracy), cmocka_unit_test(test_same),
                                       cmocka_unit_test(test_special)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
