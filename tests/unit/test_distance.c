/* How far two KV bodies are apart: exact for both types, counted in values and bits, the first place found. */
#include "tests/check.h"

#include "base/bytes.h"
#include "run/distance.h"

#define N 3u /* tokens */

static const struct akv_geom half = {.n_layers = 2, .n_kv_heads = 1, .dim_k = 2, .dim_v = 4, .dtype = AKV_KV_F16};
static const struct akv_geom single = {.n_layers = 2, .n_kv_heads = 1, .dim_k = 2, .dim_v = 4, .dtype = AKV_KV_F32};

/* Where K of (layer, dim, token) and V of (layer, token, dim) are in a body of N tokens, one head. */
static size_t k_at(size_t layer, size_t dim, size_t token)
{
    return layer * 6 * N + dim * N + token;
}

static size_t v_at(size_t layer, size_t token, size_t dim)
{
    return layer * 6 * N + 2 * N + token * 4 + dim;
}

static void put_float(uint8_t *body, size_t i, float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    akv_put_u32(body + 4 * i, bits);
}

static void test_one_value(void **state)
{
    uint8_t a[2 * 6 * N * 2] = {0}, b[sizeof a] = {0};
    struct akv_distance d;
    struct akv_err err = {0};
    (void)state;
    assert_ok(akv_distance_open(&d, 2, &err), &err);
    akv_put_u16(a + 2 * k_at(1, 1, 2), 0x3c00); /* 1.0 and 1.5 */
    akv_put_u16(b + 2 * k_at(1, 1, 2), 0x3e00);
    akv_distance_add(&d, &half, &half, a, b, 5, N);
    assert_true(d.any);
    assert_int_equal(d.first_pos, 5 * 64 + 2);
    assert_int_equal(d.first_layer, 1);
    assert_int_equal(d.layers[0].n_differ, 0);
    assert_int_equal(d.layers[1].n_differ, 1);
    assert_int_equal(d.layers[1].n_bits, 1);
    assert_true(d.layers[1].k.max == 0.5 && d.layers[1].k.sum == 0.5 && d.layers[1].v.max == 0);
    assert_int_equal(d.layers[1].k.n, 2 * N);
    assert_int_equal(d.layers[1].v.n, 4 * N);

    /* an earlier token in a later page does not come first; one in the same page, in V of layer 0, does */
    akv_distance_same(&d, &half, 64);
    akv_distance_add(&d, &half, &half, a, b, 6, N);
    assert_int_equal(d.first_pos, 5 * 64 + 2);
    akv_put_u16(b + 2 * v_at(0, 1, 3), 0x8000); /* -0: a bit, no distance */
    akv_distance_add(&d, &half, &half, a, b, 5, N);
    assert_int_equal(d.first_pos, 5 * 64 + 1);
    assert_int_equal(d.first_layer, 0);
    assert_int_equal(d.layers[0].n_bits, 1);
    assert_true(d.layers[0].v.sum == 0);
    assert_int_equal(d.layers[0].k.n, 2 * (3 * N + 64));
    akv_distance_release(&d);
}

/* Every half, the subnormal ones too, is equal to its float; infinities and NaN are counted, and spoil no sum. */
static void test_two_types(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x10000; h++) {
        uint8_t a[2 * 6 * N * 2] = {0}, b[2 * 6 * N * 4] = {0};
        struct akv_distance d;
        struct akv_err err = {0};
        int exp = (int)(h >> 10 & 31);
        float m = (float)(h & 1023), f = exp ? (1024 + m) * 0x1p-25F : m * 0x1p-24F;
        for (int i = 0; i < exp; i++)
            f *= 2;
        assert_ok(akv_distance_open(&d, 2, &err), &err);
        akv_put_u16(a + 2 * v_at(0, 0, 0), (uint16_t)h);
        put_float(b, v_at(0, 0, 0), h & 0x8000 ? -f : f);
        akv_distance_add(&d, &half, &single, a, b, 0, N);
        assert_int_equal(d.any, exp == 31);
        assert_int_equal(d.layers[0].n_not_finite, exp == 31);
        assert_true(d.layers[0].v.sum == 0);
        akv_distance_release(&d);
    }
    assert_true(akv_distance_can(&half, &single));
    struct akv_geom other = half;
    other.dim_v = 2;
    assert_false(akv_distance_can(&half, &other));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_value),
        cmocka_unit_test(test_two_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
