/* The sampler against a plain model of its definition: full sort, C library functions. */
#include "tests/check.h"

#include <math.h>

#include "engine/order.h"
#include "engine/sampler.h"

static uint32_t rnd = 1;

static uint32_t next_random(void)
{
    rnd = rnd * 1664525u + 1013904223u;
    return rnd >> 8;
}

/* Logits with many ties, both zeros among them. */
static void random_logits(float *logits, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        logits[i] = (float)(next_random() % 400) * 0.05f - 10.0f;
    logits[next_random() % n] = -0.0f;
    logits[next_random() % n] = 0.0f;
}

struct candidate {
    float logit;
    uint32_t id;
};

static int by_order(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->logit > y->logit || x->logit < y->logit)
        return x->logit > y->logit ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* SplitMix64 as published: state += golden gamma, mixed. */
static uint64_t splitmix_next(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* The definition, step by step; sets *close when rounding could tip a decision. */
static uint32_t plain_sample(const struct akv_sampling *how, const float *logits, uint32_t n, const uint32_t *history,
                             size_t n_history, uint64_t draw, bool *close)
{
    struct candidate *c = calloc(n, sizeof *c);
    double *w = calloc(n, sizeof *w);
    for (uint32_t i = 0; i < n; i++) {
        c[i] = (struct candidate){logits[i], i};
        for (size_t j = 0; j < n_history; j++) {
            if (history[j] == i) {
                c[i].logit = (float)(logits[i] > 0 ? logits[i] / how->repeat_penalty : logits[i] * how->repeat_penalty);
                break;
            }
        }
    }
    qsort(c, n, sizeof *c, by_order);
    uint32_t id = c[0].id;
    *close = false;
    if (how->temperature > 0) {
        uint32_t kept = how->top_k && how->top_k < n ? how->top_k : n;
        double sum = 0, mass = 0;
        for (uint32_t i = 0; i < kept; i++)
            sum += w[i] = exp((double)c[i].logit - c[0].logit);
        if (how->top_p < 1) {
            uint32_t k = 0;
            while (k < kept && mass / sum < how->top_p) {
                mass += w[k++];
                *close |= fabs(mass / sum - how->top_p) < 1e-9;
            }
            kept = k;
        }
        while (kept > 1 && w[kept - 1] < how->min_p) {
            *close |= fabs(w[kept - 1] - how->min_p) < 1e-9;
            kept--;
        }
        sum = 0;
        for (uint32_t i = 0; i < kept; i++)
            sum += w[i] = exp(((double)c[i].logit - c[0].logit) / how->temperature);
        uint64_t state = how->seed, z = 0;
        for (uint64_t i = 0; i <= draw; i++)
            z = splitmix_next(&state);
        double u = (double)(z >> 11) / 9007199254740992.0;
        mass = 0;
        for (uint32_t i = 0; i < kept; i++) {
            mass += w[i];
            *close |= fabs(mass / sum - u) < 1e-9;
            id = c[i].id;
            if (mass / sum > u)
                break;
        }
    }
    free(c);
    free(w);
    return id;
}

/* every combination of settings gives what the plain definition gives, for small and large vocabularies */
static void test_definition(void **unused)
{
    (void)unused;
    static const uint32_t sizes[] = {1, 2, 7, 100, 3000};
    static const double temperatures[] = {0, 0.1, 0.8, 1, 5};
    size_t compared = 0;
    for (size_t v = 0; v < sizeof sizes / sizeof *sizes; v++) {
        uint32_t n = sizes[v];
        float *logits = calloc(n, sizeof *logits);
        struct akv_sampler *s = NULL;
        assert_int_equal(akv_sampler_open(&s, n, NULL), 0);
        for (int round = 0; round < 300; round++) {
            random_logits(logits, n);
            uint32_t history[20];
            for (int i = 0; i < 20; i++)
                history[i] = next_random() % (n + 3); /* some outside: ignored */
            struct akv_sampling how = {.temperature = temperatures[round % 5],
                                       .top_k = next_random() % 3 ? next_random() % 60 : 0,
                                       .top_p = next_random() % 2 ? 1 : 0.05 + next_random() % 90 / 100.0,
                                       .min_p = next_random() % 2 ? 0 : next_random() % 100 / 100.0,
                                       .repeat_penalty = next_random() % 2 ? 1 : 0.5 + next_random() % 100 / 50.0,
                                       .seed = next_random()};
            uint64_t draw = next_random() % 50;
            bool close;
            uint32_t want = plain_sample(&how, logits, n, history, 20, draw, &close);
            uint32_t got = akv_sample(s, &how, logits, history, 20, draw);
            if (!close) {
                assert_int_equal(got, want);
                compared++;
            }
        }
        akv_sampler_free(s);
        free(logits);
    }
    assert_true(compared > 1400);
}

/* the first k by heap and by full sort are the same, ties by id, both zeros equal */
static void test_order(void **unused)
{
    (void)unused;
    enum { N = 5000 };
    static float logits[N];
    static uint64_t all[N], first[N], tmp[N];
    random_logits(logits, N);
    for (uint32_t i = 0; i < N; i++)
        all[i] = akv_order_key(logits[i], i);
    akv_order_first(all, N, N, tmp);
    for (size_t i = 0; i + 1 < N; i++) {
        float a = akv_order_logit(all[i]), b = akv_order_logit(all[i + 1]);
        assert_true(a > b || (!(a < b) && akv_order_id(all[i]) < akv_order_id(all[i + 1])));
        assert_true(!(a < logits[akv_order_id(all[i])]) && !(a > logits[akv_order_id(all[i])]));
    }
    for (size_t k = 1; k <= N; k = k * 3 + 1) {
        for (uint32_t i = 0; i < N; i++)
            first[i] = akv_order_key(logits[i], i);
        akv_order_first(first, N, k, tmp);
        assert_memory_equal(first, all, k * sizeof *all);
    }
    assert_true(akv_order_key(INFINITY, 0) < akv_order_key(3e38f, 0) && akv_order_key(-3e38f, 0) < akv_order_key(-INFINITY, 0));
    assert_true(akv_order_key(-0.0f, 5) == akv_order_key(0.0f, 5));
}

/* temperature 0 takes the lowest id among equal largest logits */
static void test_greedy_tie(void **unused)
{
    (void)unused;
    float logits[] = {-1, 2, 0.5f, 2, 2};
    struct akv_sampler *s = NULL;
    assert_int_equal(akv_sampler_open(&s, 5, NULL), 0);
    assert_int_equal(akv_sample(s, &akv_sampling_default, logits, NULL, 0, 0), 1);
    struct akv_sampling how = akv_sampling_default;
    how.repeat_penalty = 2;
    assert_int_equal(akv_sample(s, &how, logits, (uint32_t[]){1, 1, 1}, 3, 0), 3);
    akv_sampler_free(s);
}

/* the draw number alone decides: known SplitMix64 outputs, any order of calls, frequencies near the probabilities */
static void test_draws(void **unused)
{
    (void)unused;
    uint64_t state = 1234567;
    assert_true(splitmix_next(&state) == 6457827717110365317u && splitmix_next(&state) == 3203168211198807973u);
    float logits[4] = {logf(0.5f), logf(0.25f), logf(0.125f), logf(0.125f)};
    struct akv_sampler *s = NULL;
    assert_int_equal(akv_sampler_open(&s, 4, NULL), 0);
    struct akv_sampling how = akv_sampling_default;
    how.temperature = 1;
    how.seed = 42;
    uint32_t counts[4] = {0}, forward[64];
    for (uint64_t i = 0; i < 40000; i++) {
        uint32_t id = akv_sample(s, &how, logits, NULL, 0, i);
        counts[id]++;
        if (i < 64)
            forward[i] = id;
    }
    for (uint64_t i = 64; i-- > 0;)
        assert_int_equal(akv_sample(s, &how, logits, NULL, 0, i), forward[i]);
    assert_in_range(counts[0], 19500, 20500);
    assert_in_range(counts[1], 9600, 10400);
    assert_in_range(counts[2], 4700, 5300);
    akv_sampler_free(s);
}

/* log-probabilities match logsumexp to 1e-12 and come in order; ids of any rank are scored */
static void test_logprobs(void **unused)
{
    (void)unused;
    enum { N = 3000 };
    static float logits[N];
    random_logits(logits, N);
    double sum = 0;
    for (int i = 0; i < N; i++)
        sum += exp((double)logits[i]);
    struct akv_sampler *s = NULL;
    assert_int_equal(akv_sampler_open(&s, N, NULL), 0);
    struct akv_logprob top[8];
    double lp;
    akv_logprobs(s, logits, 17, &lp, top, 8);
    assert_true(fabs(lp - ((double)logits[17] - log(sum))) < 1e-12);
    for (int i = 0; i < 8; i++) {
        assert_true(fabs(top[i].logprob - ((double)logits[top[i].id] - log(sum))) < 1e-12);
        assert_true(i == 0 || top[i].logprob < top[i - 1].logprob ||
                    (top[i].logprob <= top[i - 1].logprob && top[i].id > top[i - 1].id));
    }
    akv_logprobs(s, logits, 0, NULL, top, 1);
    akv_sampler_free(s);
}

/* extreme logits and settings neither hang nor leave the vocabulary */
static void test_extremes(void **unused)
{
    (void)unused;
    float logits[4] = {3e38f, -3e38f, 0, 3e38f};
    struct akv_sampler *s = NULL;
    assert_int_equal(akv_sampler_open(&s, 4, NULL), 0);
    struct akv_sampling how = {.temperature = 1e-300, .top_p = 1e-300, .min_p = 1, .repeat_penalty = 1e-300, .top_k = 4};
    assert_int_equal(akv_sampling_check(&how, NULL), 0);
    assert_in_range(akv_sample(s, &how, logits, (uint32_t[]){0, 1}, 2, UINT64_MAX), 0, 3);
    how = (struct akv_sampling){.temperature = 1000, .top_p = 1, .repeat_penalty = 1000};
    for (uint64_t i = 0; i < 100; i++)
        assert_in_range(akv_sample(s, &how, logits, (uint32_t[]){0, 1}, 2, i), 0, 3);
    double lp;
    akv_logprobs(s, logits, 1, &lp, NULL, 0);
    assert_true(isfinite(lp));
    akv_sampler_free(s);
}

/* values out of range, NaN included, are refused with the field's name */
static void test_check(void **unused)
{
    (void)unused;
    assert_int_equal(akv_sampling_check(&akv_sampling_default, NULL), 0);
    static const struct {
        struct akv_sampling s;
        const char *field;
    } bad[] = {
        {{.temperature = -1, .top_p = 1, .repeat_penalty = 1}, "temperature"},
        {{.temperature = NAN, .top_p = 1, .repeat_penalty = 1}, "temperature"},
        {{.top_p = -0.5, .repeat_penalty = 1}, "top_p"},
        {{.top_p = 1.5, .repeat_penalty = 1}, "top_p"},
        {{.top_p = 1, .min_p = NAN, .repeat_penalty = 1}, "min_p"},
        {{.top_p = 1, .repeat_penalty = 0}, "repeat_penalty"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct akv_err err = {0};
        assert_int_equal(akv_sampling_check(&bad[i].s, &err), AKV_E_INPUT);
        assert_non_null(strstr(err.msg, bad[i].field));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_definition), cmocka_unit_test(test_order),    cmocka_unit_test(test_greedy_tie),
        cmocka_unit_test(test_draws),      cmocka_unit_test(test_logprobs), cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
