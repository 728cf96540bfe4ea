/*
 * Matrix products of the AVX2 and AVX-512 tables against the scalar one, bit for bit: every dtype, shape tail, kind of activation and scale.
 */
#include "table_rig.h"

/* Both tables on these weights and activations, outputs from..to of n_out; columns that were not asked for must be untouched. */
static void same_product(enum akv_dtype t, const uint8_t *w, const struct akv_act *act, size_t n_out, size_t from, size_t to,
                         const char *what)
{
    const size_t stride = n_out + 3;
    float *a = rig_mul(spec, t, w, act, from, to, stride), *b = rig_mul(fast, t, w, act, from, to, stride);
    char name[120];
    snprintf(name, sizeof name, "%s, %zu x %zu, outputs %zu..%zu, %zu rows, %s", akv_dtypes[t].name, n_out, act->k, from, to,
             act->n_rows, what);
    rig_same(a, b, act->n_rows * stride, name);
    free(a);
    free(b);
}

static void same_mul(enum akv_dtype t, size_t n_out, size_t n_rows, size_t k, size_t from, size_t to, enum rig_kind kind,
                     uint64_t *seed)
{
    uint8_t *w = rig_matrix(t, n_out, k, seed);
    struct akv_act act;
    rig_act(&act, n_rows, k, kind, seed);
    same_product(t, w, &act, n_out, from, to, "random");
    free(w);
    rig_act_free(&act);
}

/* Every dtype at every count of activation rows around the groups and tiles, every count of outputs around the panel. */
static void shapes(void **state)
{
    (void)state;
    NEED_TABLE();
    const size_t rows[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 63, 64, 65, 70, 195}, outs[] = {0, 1, 7, 8, 9, 17, 25, 31, 33, 49};
    uint64_t seed = 2;
    size_t n;
    const enum akv_dtype *t = rig_dtypes(&n);
    for (size_t i = 0; i < n; i++) {
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
            for (size_t o = 0; o < sizeof outs / sizeof *outs; o++)
                same_mul(t[i], outs[o] + 2, rows[r], rig_k(t[i], 64), 1, outs[o] + 1, RIG_PLAIN, &seed);
        }
    }
}

/* Every dtype at lengths with and without tails, none included, and every kind of float. */
static void values(void **state)
{
    (void)state;
    NEED_TABLE();
    const size_t lengths[] = {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 129, 576, 768};
    uint64_t seed = 3;
    size_t n;
    const enum akv_dtype *t = rig_dtypes(&n);
    for (size_t i = 0; i < n; i++) {
        for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
            const size_t k = rig_k(t[i], lengths[l]);
            if (l && k == rig_k(t[i], lengths[l - 1]))
                continue;
            for (int kind = 0; kind < RIG_KINDS; kind++) {
                same_mul(t[i], 19, 1, k, 0, 19, (enum rig_kind)kind, &seed);
                same_mul(t[i], 11, 6, k, 0, 11, (enum rig_kind)kind, &seed);
            }
        }
    }
}

/* Scales of weights that are zero, subnormal, negative, as large as can be, infinite, NaN. */
static void scales(void **state)
{
    (void)state;
    NEED_TABLE();
    uint64_t seed = 4;
    size_t n;
    const enum akv_dtype *t = rig_dtypes(&n);
    for (size_t i = 0; i < n; i++) {
        for (int turn = 0; turn < 20; turn++) {
            const size_t k = rig_k(t[i], 96), n_out = 16;
            struct akv_act act;
            uint8_t *w = rig_matrix(t[i], n_out, k, &seed);
            rig_hostile(t[i], w, n_out * k / akv_dtypes[t[i]].block, turn % 4 == 3, &seed);
            rig_act(&act, turn % 2 ? 1 : 5, k, turn % 3 ? RIG_PLAIN : RIG_TINY, &seed);
            same_product(t[i], w, &act, n_out, 0, n_out, "scales");
            free(w);
            rig_act_free(&act);
        }
    }
}

/* All activations at one end; half of each block may be at the other. */
static void extreme_act(struct akv_act *act, int8_t lower, int8_t upper)
{
    int8_t *q = (int8_t *)(uintptr_t)act->q;
    int32_t *sum = (int32_t *)(uintptr_t)act->sum;
    for (size_t i = 0; i < act->n_rows * act->k; i++)
        q[i] = i / 16 % 2 ? upper : lower;
    for (size_t i = 0; i < act->n_rows * act->k / 16; i++)
        sum[i] = 16 * (i % 2 ? upper : lower);
}

/* The largest integers, all of one sign or not, saturate nowhere: bytes of codes and sub-scales alike, and of both ends mixed. */
static void extremes(void **state)
{
    (void)state;
    NEED_TABLE();
    const uint8_t ends[] = {0x00, 0x7f, 0x80, 0x81, 0xff, 0x0f, 0xf0, 0x3f};
    uint64_t seed = 5;
    size_t n;
    const enum akv_dtype *t = rig_dtypes(&n);
    for (size_t i = 0; i < n; i++) {
        if (!akv_dtypes[t[i]].quantised)
            continue;
        for (size_t turn = 0; turn < 16 * sizeof ends; turn++) {
            const size_t k = rig_k(t[i], 64), bytes = 9 * k / akv_dtypes[t[i]].block * akv_dtypes[t[i]].block_bytes;
            struct akv_act act;
            uint8_t *w = rig_alloc(bytes);
            for (size_t j = 0; j < bytes; j++)
                w[j] = turn / 4 < sizeof ends ? ends[turn / 4] : ends[rig_below(&seed, sizeof ends)];
            rig_hostile(t[i], w, bytes / akv_dtypes[t[i]].block_bytes, false, &seed);
            rig_act(&act, 5, k, RIG_PLAIN, &seed);
            extreme_act(&act, turn & 1 ? -127 : 127, turn & 2 ? -127 : 127);
            same_product(t[i], w, &act, 9, 0, 9, "extremes");
            free(w);
            rig_act_free(&act);
        }
    }
}

/* One row in a call gives the bits that it gives among others, in both tables. */
static void batch_free(void **state)
{
    (void)state;
    NEED_TABLE();
    uint64_t seed = 6;
    size_t n;
    const enum akv_dtype *t = rig_dtypes(&n);
    for (size_t i = 0; i < n; i++) {
        const size_t k = rig_k(t[i], 96);
        struct akv_act act;
        uint8_t *w = rig_matrix(t[i], 24, k, &seed);
        rig_act(&act, 13, k, RIG_PLAIN, &seed);
        float *all = rig_mul(fast, t[i], w, &act, 0, 24, 24);
        for (size_t r = 0; r < 13; r++) {
            struct akv_act one = {1, k, act.x + r * k, act.q + r * k, act.d + r * (k / 32), act.sum + r * (k / 16)};
            float *y = rig_mul(r % 2 ? fast : spec, t[i], w, &one, 0, 24, 24);
            rig_same(y, all + r * 24, 24, akv_dtypes[t[i]].name);
            free(y);
        }
        free(all);
        free(w);
        rig_act_free(&act);
    }
}

/* Decoded rows: every dtype, random blocks. */
static void dequant_equal(void **state)
{
    (void)state;
    NEED_TABLE();
    uint64_t seed = 7;
    size_t n;
    const enum akv_dtype *t = rig_dtypes(&n);
    for (size_t i = 0; i < n; i++) {
        float a[256], b[256];
        uint8_t *w = rig_matrix(t[i], 1, 256, &seed);
        spec->dequant(t[i], a, w, 256);
        fast->dequant(t[i], b, w, 256);
        rig_same(a, b, 256, akv_dtypes[t[i]].name);
        free(w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH_TABLE(shapes),   EACH_TABLE(values),     EACH_TABLE(scales),
        EACH_TABLE(extremes), EACH_TABLE(batch_free), EACH_TABLE(dequant_equal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
