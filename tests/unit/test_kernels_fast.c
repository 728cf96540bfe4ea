/*
 * The AVX2 and AVX-512 tables against the scalar one, bit for bit, on random and hostile input (numerics R6). Matrix products:
 * test_kernels_mul_fast.
 */
#include "table_rig.h"

/* Lengths around every vector width used. */
static const size_t lengths[] = {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 48, 63, 64, 65, 127, 129, 576};
#define N_LENGTHS (sizeof lengths / sizeof *lengths)

/* quantise: q, d, sum and the return value are the same for every kind of float. */
static void quantise_equal(void **state)
{
    (void)state;
    NEED_TABLE();
    uint64_t seed = 1;
    float x[128], d[2][4];
    int8_t q[2][128];
    int32_t sum[2][8];
    for (int kind = 0; kind < RIG_KINDS; kind++) {
        for (int turn = 0; turn < 400; turn++) {
            rig_fill(x, 128, (enum rig_kind)kind, &seed);
            assert_int_equal(spec->quantise(q[0], d[0], sum[0], x, 128), fast->quantise(q[1], d[1], sum[1], x, 128));
            assert_memory_equal(q[0], q[1], sizeof q[0]);
            assert_memory_equal(d[0], d[1], sizeof d[0]);
            assert_memory_equal(sum[0], sum[1], sizeof sum[0]);
        }
    }
}

/* quantise: amax around its bounds and non-finite values give the same bits and the same answer. */
static void quantise_bounds(void **state)
{
    (void)state;
    NEED_TABLE();
    const uint32_t inf = AKV_F32_INF, bound = akv_bits(0x1p-100f);
    const uint32_t specials[] = {bound - 1,         bound,   bound + 1,   1,          inf - 1, inf,
                                 inf | 0x80000000u, inf + 1, AKV_F32_NAN, 0xffffffffu};
    for (size_t s = 0; s < sizeof specials / sizeof *specials; s++) {
        for (size_t at = 0; at < 32; at++) {
            float x[32] = {0}, d[2];
            int8_t q[2][32];
            int32_t sum[2][2];
            x[at] = akv_float(specials[s]);
            int rc = spec->quantise(q[0], &d[0], sum[0], x, 32);
            assert_int_equal(rc, (specials[s] & 0x7fffffffu) >= inf ? -1 : 0);
            assert_int_equal(rc, fast->quantise(q[1], &d[1], sum[1], x, 32));
            assert_memory_equal(q[0], q[1], 32);
            assert_memory_equal(&d[0], &d[1], 4);
            assert_memory_equal(sum[0], sum[1], 8);
        }
    }
}

/* quantise: exact ties at steps whose reciprocal is not a float. */
static void quantise_ties(void **state)
{
    (void)state;
    NEED_TABLE();
    for (int step = 1; step < 100; step += 2) {
        float x[32], d[2];
        int8_t q[2][32];
        int32_t sum[2][2];
        for (int i = 0; i < 32; i++)
            x[i] = (float)step * (i ? (float)(4 * i) - 63.5f : 127.0f);
        assert_int_equal(spec->quantise(q[0], &d[0], sum[0], x, 32), 0);
        assert_int_equal(fast->quantise(q[1], &d[1], sum[1], x, 32), 0);
        assert_memory_equal(q[0], q[1], 32);
        assert_memory_equal(&d[0], &d[1], 4);
        assert_memory_equal(sum[0], sum[1], 8);
    }
}

/* rmsnorm, silu_mul, add, exp, finite, rope: every length and kind of float. */
static void vectors_equal(void **state)
{
    (void)state;
    NEED_TABLE();
    uint64_t seed = 7;
    for (size_t l = 0; l < N_LENGTHS; l++) {
        const size_t n = lengths[l], bytes = n * sizeof(float);
        float *x = rig_alloc(bytes), *w = rig_alloc(bytes), *a = rig_alloc(bytes), *b = rig_alloc(bytes);
        for (int turn = 0; turn < 10 * RIG_KINDS; turn++) {
            rig_fill(x, n, (enum rig_kind)(turn % RIG_KINDS), &seed);
            rig_fill(w, n, (enum rig_kind)(turn / RIG_KINDS % RIG_KINDS), &seed);
            assert_int_equal(spec->finite(x, n), fast->finite(x, n));
            spec->rmsnorm(a, x, w, n, 1e-5f);
            fast->rmsnorm(b, x, w, n, 1e-5f);
            rig_same(a, b, n, "rmsnorm");
            memcpy(b, x, bytes);
            fast->rmsnorm(b, b, w, n, 1e-5f);
            rig_same(a, b, n, "rmsnorm in place");
            memcpy(a, x, bytes);
            memcpy(b, x, bytes);
            spec->silu_mul(a, w, n);
            fast->silu_mul(b, w, n);
            rig_same(a, b, n, "silu_mul");
            memcpy(a, x, bytes);
            memcpy(b, x, bytes);
            spec->add(a, w, n);
            fast->add(b, w, n);
            rig_same(a, b, n, "add");
            spec->exp(a, x, n);
            fast->exp(b, x, n);
            rig_same(a, b, n, "exp");
            for (int style = 0; style < 2; style++) {
                memcpy(a, x, bytes);
                memcpy(b, x, bytes);
                spec->rope(a, w, n / 2 * 2, style);
                fast->rope(b, w, n / 2 * 2, style);
                rig_same(a, b, n, style == AKV_ROPE_STYLE_PAIRS ? "rope of pairs" : "rope of halves");
            }
        }
        free(x);
        free(w);
        free(a);
        free(b);
    }
}

/* exp and silu_mul: a dense sweep over the whole range, its clamps and non-finite arguments. */
static void exp_sweep(void **state)
{
    (void)state;
    NEED_TABLE();
    float x[64], up[64], a[64], b[64];
    for (size_t i = 0; i < 64; i++)
        up[i] = 1.0f;
    for (uint64_t u = 0; u <= UINT32_MAX; u += 64 * 5003) {
        for (uint64_t i = 0; i < 64; i++)
            x[i] = akv_float((uint32_t)(u + i * 5003));
        spec->exp(a, x, 64);
        fast->exp(b, x, 64);
        rig_same(a, b, 64, "exp");
        memcpy(a, x, sizeof x);
        memcpy(b, x, sizeof x);
        spec->silu_mul(a, up, 64);
        fast->silu_mul(b, up, 64);
        rig_same(a, b, 64, "silu_mul");
    }
}

/* finite: one non-finite value at any place of any length is seen, and nothing else is taken for one. */
static void finite_equal(void **state)
{
    (void)state;
    NEED_TABLE();
    const uint32_t bad[] = {AKV_F32_INF, AKV_F32_INF | 0x80000000u, AKV_F32_NAN, 0xffffffffu, AKV_F32_INF + 1};
    for (size_t n = 0; n < 40; n++) {
        float x[40];
        for (size_t i = 0; i < n; i++)
            x[i] = akv_float(AKV_F32_INF - 1);
        assert_true(fast->finite(x, n));
        for (size_t at = 0; at < n; at++) {
            x[at] = akv_float(bad[at % 5]);
            assert_false(fast->finite(x, n));
            assert_false(spec->finite(x, n));
            x[at] = -0.0f;
        }
    }
}

/* The specification's software fma is the instruction, on any finite bits. */
__attribute__((target("fma"))) static float fma_instruction(float a, float b, float c)
{
    return __builtin_fmaf(a, b, c);
}

static void fma_equal(void **state)
{
    (void)state;
    NEED_TABLE();
    uint64_t seed = 8;
    for (int i = 0; i < 1000000; i++) {
        float a = rig_float(&seed, (enum rig_kind)(i % RIG_KINDS)), b = rig_float(&seed, RIG_ANY), c = rig_float(&seed, RIG_ANY);
        if (i % 3 == 0) /* an addend near the product: cancellation, and ties after it */
            c = -(a * b) * (i % 2 ? 1.0f : 0x1p24f);
        float x = akv_fma(a, b, c), y = fma_instruction(a, b, c);
        if (akv_bits(x) != akv_bits(y) && (x == x || y == y))
            fail_msg("fma(%a, %a, %a): %a and %a", (double)a, (double)b, (double)c, (double)x, (double)y);
    }
}

/* kv_put: page bytes and answers are the same, at every slot, for values around the limits of half. */
static void kv_put_equal(void **state)
{
    (void)state;
    NEED_TABLE();
    const float edges[] = {65519.996f,      -65519.996f, 65520.0f,     -65520.0f,    65504.0f, 0x1p-24f,  0x1p-25f,
                           0x1.000002p-25f, -0x1p-26f,   0x1.ffcp-15f, 0x1.ffep-15f, -0.0f,    0x1p-149f, 3e38f};
    const uint32_t dims[] = {1, 7, 8, 20, 64};
    uint64_t seed = 9;
    for (size_t t = 0; t < 2 * 5 * AKV_PAGE; t++) {
        const int dtype = (int)(t % 2);
        const uint32_t dim = dims[t / 2 % 5], slot = (uint32_t)(t / 10 % AKV_PAGE);
        const size_t bytes = (dtype == 0 ? 2u : 4u) * 2 * dim * AKV_PAGE;
        uint8_t *a = rig_alloc(bytes), *b = rig_alloc(bytes);
        float k[64], v[64];
        for (uint32_t i = 0; i < dim; i++) {
            k[i] = rig_unit(&seed) * 70000;
            v[i] = rig_below(&seed, 3) ? rig_unit(&seed) * 0x1p-13f : edges[rig_below(&seed, 14)];
        }
        if (rig_below(&seed, 8) == 0)
            v[rig_below(&seed, dim)] = akv_float(AKV_F32_NAN);
        int rc = spec->kv_put[dtype](a, 0, bytes / 2, slot, k, dim, v, dim);
        assert_int_equal(rc, fast->kv_put[dtype](b, 0, bytes / 2, slot, k, dim, v, dim));
        if (rc == 0)
            assert_memory_equal(a, b, bytes);
        free(a);
        free(b);
    }
}

/* Attention of both tables on the same queries; o is exact in size. */
static void same_attn(const struct rig_kv *c, struct akv_attn_query *queries, size_t n, float scale, const char *what)
{
    float *o[2];
    const size_t n_o = n * c->dim_v;
    for (int t = 0; t < 2; t++) {
        o[t] = rig_alloc(n_o * sizeof(float));
        for (size_t i = 0; i < n; i++)
            queries[i].o = o[t] + i * c->dim_v;
        rig_attend(t ? fast : spec, c, scale, queries, n);
    }
    rig_same(o[0], o[1], n_o, what);
    free(o[0]);
    free(o[1]);
}

static float *random_queries(struct akv_attn_query *queries, size_t n, uint32_t dim, enum rig_kind kind, uint64_t *seed)
{
    float *q = rig_alloc(n * dim * sizeof(float));
    rig_fill(q, n * dim, kind, seed);
    for (size_t i = 0; i < n; i++)
        queries[i].q = q + i * dim;
    return q;
}

/* attn: every end around pages and chunks, for one to seven queries that see the same keys. */
static void attn_equal_ends(void **state)
{
    (void)state;
    NEED_TABLE();
    const uint32_t ends[] = {1, 2, 15, 16, 17, 63, 64, 65, 255, 256, 257, 511, 512, 513, 700};
    uint64_t seed = 10;
    for (int dtype = 0; dtype < 2; dtype++) {
        struct rig_kv c;
        rig_kv_open(&c, spec, dtype, 700, 32, 32, RIG_PLAIN, &seed);
        for (size_t e = 0; e < sizeof ends / sizeof *ends; e++) {
            struct akv_attn_query queries[7];
            const size_t n = 1 + e % 7;
            float *q = random_queries(queries, n, 32, RIG_PLAIN, &seed);
            for (size_t i = 0; i < n; i++)
                queries[i].from = 0, queries[i].to = ends[e];
            same_attn(&c, queries, n, 0.17f, "ends");
            free(q);
        }
        rig_kv_close(&c);
    }
}

/* attn: windows that start anywhere, chunks that some or no queries see, rows of a prefill, unrelated ranges in one call. */
static void attn_equal_mixed(void **state)
{
    (void)state;
    NEED_TABLE();
    uint64_t seed = 11;
    for (int dtype = 0; dtype < 2; dtype++) {
        struct rig_kv c;
        rig_kv_open(&c, spec, dtype, 700, 16, 24, RIG_PLAIN, &seed);
        for (int turn = 0; turn < 60; turn++) {
            struct akv_attn_query queries[16];
            const size_t n = 1 + rig_below(&seed, 16);
            const uint32_t base = rig_below(&seed, 680), window = 1 + rig_below(&seed, 400);
            float *q = random_queries(queries, n, 16, RIG_PLAIN, &seed);
            for (size_t i = 0; i < n; i++) {
                if (turn % 3 == 0) { /* unrelated */
                    queries[i].from = rig_below(&seed, 699);
                    queries[i].to = queries[i].from + 1 + rig_below(&seed, 700 - queries[i].from);
                } else { /* three heads of neighbouring rows, in a window or not */
                    queries[i].to = base + 1 + (uint32_t)i / 3;
                    queries[i].from = turn % 3 == 1 || queries[i].to < window ? 0 : queries[i].to - window;
                }
            }
            same_attn(&c, queries, n, 0.25f, "mixed");
            free(q);
        }
        rig_kv_close(&c);
    }
}

/* attn: more queries than a tile holds, of rows that reach into the next one. */
static void attn_equal_many(void **state)
{
    (void)state;
    NEED_TABLE();
    uint64_t seed = 17;
    const size_t counts[] = {95, 96, 97, 101, 200};
    for (size_t t = 0; t < 10; t++) {
        struct rig_kv c;
        struct akv_attn_query queries[200];
        const size_t n = counts[t % 5];
        rig_kv_open(&c, spec, t < 5 ? 0 : 1, 600, 16, 24, RIG_PLAIN, &seed);
        float *q = random_queries(queries, n, 16, RIG_PLAIN, &seed);
        for (size_t i = 0; i < n; i++) {
            queries[i].to = 480 + (uint32_t)i / 2;
            queries[i].from = t % 2 ? queries[i].to - 270 : 0;
        }
        same_attn(&c, queries, n, 0.2f, "many");
        free(q);
        rig_kv_close(&c);
    }
}

/* attn: parts come out the same, and so does what they are joined to. */
static void attn_equal_parts(void **state)
{
    (void)state;
    NEED_TABLE();
    uint64_t seed = 18;
    for (int kind = 0; kind < 4; kind++) {
        struct rig_kv c;
        struct akv_attn_query parts[2][3];
        float o[2][3 * 20], joined[2][20];
        rig_kv_open(&c, spec, 1, 768, 20, 20, kind == 2 ? RIG_PLAIN : (enum rig_kind)kind, &seed);
        float *q = random_queries(parts[0], 1, 20, kind == 2 ? RIG_HUGE : RIG_PLAIN, &seed);
        for (int t = 0; t < 2; t++) {
            for (uint32_t i = 0; i < 3; i++) {
                parts[t][i] = (struct akv_attn_query){.q = q, .o = o[t] + 20 * i, .from = 256 * i, .to = 256 * i + 200};
                rig_attend_part(t ? fast : spec, &c, 1.5f, &parts[t][i], 1);
                rig_same(&parts[0][i].max, &parts[t][i].max, 1, "maximum");
                rig_same(&parts[0][i].sum, &parts[t][i].sum, 1, "sum");
            }
            (t ? fast : spec)->attn_join(joined[t], parts[t], 3, 20);
        }
        rig_same(o[0], o[1], 60, "parts");
        rig_same(joined[0], joined[1], 20, "joined");
        free(q);
        rig_kv_close(&c);
    }
}

/* attn: head sizes of every tail, K and V of different sizes. */
static void attn_equal_dims(void **state)
{
    (void)state;
    NEED_TABLE();
    const uint32_t dims[] = {1, 4, 7, 16, 20, 33, 64, 72, 80, 96, 100, 128};
    uint64_t seed = 12;
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
        for (size_t n = 1; n <= 6; n++) {
            struct rig_kv c;
            struct akv_attn_query queries[6];
            const uint32_t dim_k = dims[i], dim_v = dims[(i + n) % (sizeof dims / sizeof *dims)];
            rig_kv_open(&c, fast, (int)(n % 2), 300, dim_k, dim_v, RIG_PLAIN, &seed);
            float *q = random_queries(queries, n, dim_k, RIG_PLAIN, &seed);
            for (size_t j = 0; j < n; j++)
                queries[j].from = 0, queries[j].to = 290 + (uint32_t)j;
            same_attn(&c, queries, n, 0.1f, "dims");
            free(q);
            rig_kv_close(&c);
        }
    }
}

/* attn: terms that vanish, zeros, subnormals, and scores that overflow. */
static void attn_equal_values(void **state)
{
    (void)state;
    NEED_TABLE();
    const float scales[] = {0.125f, 30.0f, 0x1p-140f};
    uint64_t seed = 13;
    for (int kind = 0; kind < RIG_KINDS; kind++) {
        for (int query_kind = 0; query_kind < RIG_KINDS; query_kind++) {
            struct rig_kv c;
            struct akv_attn_query queries[6];
            const int dtype = kind == RIG_HUGE || kind == RIG_ANY;
            rig_kv_open(&c, spec, dtype, 280, 16, 16, (enum rig_kind)kind, &seed);
            float *q = random_queries(queries, 6, 16, (enum rig_kind)query_kind, &seed);
            for (size_t j = 0; j < 6; j++)
                queries[j].from = (uint32_t)j, queries[j].to = 275 + (uint32_t)j;
            same_attn(&c, queries, 6, scales[(kind + query_kind) % 3], "values");
            free(q);
            rig_kv_close(&c);
        }
    }
}

/* attn: a chain of products that comes to -0 stays -0 whether or not the next key is seen by a neighbour. */
static void attn_negative_zero(void **state)
{
    (void)state;
    NEED_TABLE();
    struct rig_kv c;
    uint64_t seed = 14;
    rig_kv_open(&c, spec, 1, 4, 8, 8, RIG_PLAIN, &seed);
    const float v[3] = {0x1p-149f, -0x1.000002p-149f, 1.0f};
    for (uint32_t i = 0; i < 3; i++) {
        float k8[8] = {0}, v8[8];
        for (size_t j = 0; j < 8; j++)
            v8[j] = -v[i] * 0.25f;
        assert_int_equal(spec->kv_put[1](c.pages[0], 0, c.v_offset, i, k8, 8, v8, 8), 0);
    }
    struct akv_attn_query queries[2];
    float *q = random_queries(queries, 2, 8, RIG_PLAIN, &seed);
    queries[0].from = queries[1].from = 0;
    queries[0].to = 2;
    queries[1].to = 3;
    same_attn(&c, queries, 2, 1.0f, "negative zero");
    free(q);
    rig_kv_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH_TABLE(quantise_equal),     EACH_TABLE(quantise_bounds),  EACH_TABLE(quantise_ties),    EACH_TABLE(vectors_equal),
        EACH_TABLE(exp_sweep),          EACH_TABLE(finite_equal),     EACH_TABLE(fma_equal),        EACH_TABLE(kv_put_equal),
        EACH_TABLE(attn_equal_ends),    EACH_TABLE(attn_equal_mixed), EACH_TABLE(attn_equal_dims),  EACH_TABLE(attn_equal_values),
        EACH_TABLE(attn_negative_zero), EACH_TABLE(attn_equal_many),  EACH_TABLE(attn_equal_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
