/* akv_bench_kernels(): it knows every op and type, and a table that computes otherwise does not pass. */
#include "tests/check.h"

#include "akv.h"
#include "kernels/kernels.h"

/* Instead of the library's own: a table that is wrong in two ops, before the scalar one. */
static struct akv_ops wrong;

const struct akv_ops *akv_ops_nth(size_t i)
{
    return i == 0 ? &wrong : i == 1 ? &akv_ops_scalar : NULL;
}

const struct akv_ops *akv_ops_pick(const char *want)
{
    (void)want;
    return &akv_ops_scalar;
}

static void wrong_add(float *x, const float *y, size_t n)
{
    akv_ops_scalar.add(x, y, n);
    x[n - 1] += 0x1p-20f;
}

/* One output of a row is not written. */
static void wrong_mul(const struct akv_mul *m)
{
    struct akv_mul less = *m;
    less.to--;
    akv_ops_scalar.mul(&less);
}

struct seen {
    const char *only; /* the op to run, or NULL: none */
    size_t n_mul, n_ops, n_rows;
    bool equal[2]; /* of the wrong table and of the scalar one */
};

static bool want(void *ctx, const char *op, const char *type)
{
    struct seen *s = ctx;
    s->n_ops++;
    s->n_mul += !strcmp(op, "mul");
    return s->only && !strcmp(op, s->only) && (!*type || !strcmp(type, "Q4_0"));
}

static int row(void *ctx, const struct akv_kernel_row *r, struct akv_err *err)
{
    struct seen *s = ctx;
    (void)err;
    assert_true(r->min_ns > 0 && r->median_ns >= r->min_ns && r->bytes > 0);
    assert_string_equal(r->table, s->n_rows % 2 ? "scalar" : "wrong");
    s->equal[s->n_rows++ % 2] = r->equal;
    return 0;
}

static struct seen run(const char *only)
{
    struct seen s = {.only = only};
    struct akv_machine machine = {0};
    struct akv_err err = {0};
    wrong = akv_ops_scalar;
    wrong.name = "wrong";
    wrong.add = wrong_add;
    wrong.mul = wrong_mul;
    assert_int_equal(akv_bench_kernels(&machine, 1, want, row, &s, NULL, &err), 0);
    return s;
}

static void every_op_and_type(void **state)
{
    (void)state;
    size_t n_types = 0;
    for (int t = 0; t < AKV_DTYPES; t++)
        n_types += akv_dtypes[t].runs;
    struct seen s = run(NULL);
    assert_int_equal(s.n_mul, 2 * n_types);
    assert_int_equal(s.n_ops, 3 * n_types + 6 + 9); /* dequant too; attn and kv_put of both KV types; the rest */
    assert_int_equal(s.n_rows, 0);
}

static void a_wrong_table_shows(void **state)
{
    (void)state;
    const char *const bad[] = {"add", "mul"}, *const good[] = {"rmsnorm", "silu_mul", "quantise", "dequant"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct seen s = run(bad[i]);
        assert_true(s.n_rows > 0 && !s.equal[0] && s.equal[1]);
    }
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct seen s = run(good[i]);
        assert_true(s.n_rows > 0 && s.equal[0] && s.equal[1]);
    }
}

static void cancelled(void **state)
{
    (void)state;
    const volatile int stop = 1;
    struct akv_machine machine = {0};
    struct akv_err err = {0};
    assert_int_equal(akv_bench_kernels(&machine, 1, NULL, row, NULL, &stop, &err), AKV_E_CANCEL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_op_and_type),
        cmocka_unit_test(a_wrong_table_shows),
        cmocka_unit_test(cancelled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
