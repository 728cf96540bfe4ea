#include "engine/sampler.h"

#include <assert.h>
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "base/pool.h"
#include "engine/dmath.h"
#include "engine/order.h"

const struct akv_sampling akv_sampling_default = {.top_p = 1, .repeat_penalty = 1};

struct akv_sampler {
    uint32_t n_vocab;
    uint64_t *keys, *tmp; /* [n_vocab] candidates in order; scratch */
    double *weight;       /* [n_vocab] */
    float *logits;        /* [n_vocab] after the penalty */
    uint8_t *seen;        /* [n_vocab] ids of the history */
};

int akv_sampling_check(const struct akv_sampling *s, struct akv_err *err)
{
    /* written so that NaN fails */
    if (!(s->temperature >= 0 && s->temperature <= 1000))
        return akv_fail(err, AKV_E_INPUT, "temperature: must be 0 to 1000");
    if (!(s->top_p >= 0 && s->top_p <= 1))
        return akv_fail(err, AKV_E_INPUT, "top_p: must be 0 to 1");
    if (!(s->min_p >= 0 && s->min_p <= 1))
        return akv_fail(err, AKV_E_INPUT, "min_p: must be 0 to 1");
    if (!(s->repeat_penalty > 0 && s->repeat_penalty <= 1000))
        return akv_fail(err, AKV_E_INPUT, "repeat_penalty: must be above 0 and at most 1000");
    return 0;
}

int akv_sampler_open(struct akv_sampler **out, uint32_t n_vocab, struct akv_err *err)
{
    if (!n_vocab)
        return akv_fail(err, AKV_E_USAGE, "sampler: an empty vocabulary");
    struct akv_sampler *s = akv_alloc(1, sizeof *s, err);
    if (!s)
        return AKV_E_IO;
    s->n_vocab = n_vocab;
    s->keys = akv_alloc(n_vocab, sizeof *s->keys, err);
    s->tmp = akv_alloc(n_vocab, sizeof *s->tmp, err);
    s->weight = akv_alloc(n_vocab, sizeof *s->weight, err);
    s->logits = akv_alloc(n_vocab, sizeof *s->logits, err);
    s->seen = akv_alloc(n_vocab, sizeof *s->seen, err);
    if (!s->keys || !s->tmp || !s->weight || !s->logits || !s->seen) {
        akv_sampler_free(s);
        return AKV_E_IO;
    }
    *out = s;
    return 0;
}

void akv_sampler_free(struct akv_sampler *s)
{
    if (!s)
        return;
    free(s->keys);
    free(s->tmp);
    free(s->weight);
    free(s->logits);
    free(s->seen);
    free(s);
}

static float to_float(double x)
{
    return (float)(x > FLT_MAX ? FLT_MAX : x < -FLT_MAX ? -FLT_MAX : x);
}

/* Each id of the history once: positive logits are divided, negative ones multiplied, in double, rounded to f32. */
static const float *penalise(struct akv_sampler *s, double penalty, const float *logits, const uint32_t *history, size_t n)
{
    memcpy(s->logits, logits, s->n_vocab * sizeof *logits);
    for (size_t i = 0; i < n; i++) {
        uint32_t id = history[i];
        if (id >= s->n_vocab || s->seen[id])
            continue;
        s->seen[id] = 1;
        double x = logits[id];
        s->logits[id] = to_float(x > 0 ? x / penalty : x * penalty);
    }
    for (size_t i = 0; i < n; i++) {
        if (history[i] < s->n_vocab)
            s->seen[history[i]] = 0;
    }
    return s->logits;
}

static uint32_t best(const float *logits, uint32_t n)
{
    uint32_t id = 0;
    for (uint32_t i = 1; i < n; i++) {
        if (logits[i] > logits[id])
            id = i;
    }
    return id;
}

/* The first n candidates in order, to s->keys. */
static void order(struct akv_sampler *s, const float *logits, size_t n)
{
    for (uint32_t i = 0; i < s->n_vocab; i++)
        s->keys[i] = akv_order_key(logits[i], i);
    akv_order_first(s->keys, s->n_vocab, n, s->tmp);
}

/* weight[i] = e^((logit i - the largest) / temperature) of the first n candidates; returns their sum. */
static double weigh(struct akv_sampler *s, size_t n, double temperature)
{
    double largest = akv_order_logit(s->keys[0]), sum = 0;
    for (size_t i = 0; i < n; i++) {
        s->weight[i] = dm_exp((akv_order_logit(s->keys[i]) - largest) / temperature);
        sum += s->weight[i];
    }
    return sum;
}

/* How many of the first n candidates top-p and then min-p leave: at least one. */
static size_t cut(struct akv_sampler *s, size_t n, double top_p, double min_p)
{
    double sum = weigh(s, n, 1);
    if (top_p < 1) {
        double goal = top_p * sum, mass = 0;
        size_t kept = 0;
        do
            mass += s->weight[kept++];
        while (kept < n && mass < goal);
        n = kept;
    }
    while (n > 1 && s->weight[n - 1] < min_p) /* the largest weight is 1 */
        n--;
    return n;
}

/* Output number i of the SplitMix64 generator started with seed, as a fraction of 53 bits in [0, 1). */
static double uniform(uint64_t seed, uint64_t i)
{
    uint64_t z = seed + (i + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return (double)(z >> 11) * 0x1p-53;
}

static uint32_t pick(const struct akv_sampler *s, size_t n, double sum, double u)
{
    double goal = u * sum, mass = 0;
    size_t i = 0;
    for (; i + 1 < n; i++) {
        mass += s->weight[i];
        if (mass > goal)
            break;
    }
    return akv_order_id(s->keys[i]);
}

static uint32_t draw_id(struct akv_sampler *s, const struct akv_sampling *how, const float *logits, uint64_t draw)
{
    size_t n = how->top_k && how->top_k < s->n_vocab ? how->top_k : s->n_vocab;
    order(s, logits, n);
    if (how->top_p < 1 || how->min_p > 0)
        n = cut(s, n, how->top_p, how->min_p);
    double sum = weigh(s, n, how->temperature);
    return pick(s, n, sum, uniform(how->seed, draw));
}

uint32_t akv_sample(struct akv_sampler *s, const struct akv_sampling *how, const float *logits, const uint32_t *history,
                    size_t n_history, uint64_t draw)
{
    struct akv_fenv saved;
    akv_fenv_enter(&saved);
    if (how->repeat_penalty < 1 || how->repeat_penalty > 1)
        logits = penalise(s, how->repeat_penalty, logits, history, n_history);
    uint32_t id = how->temperature > 0 ? draw_id(s, how, logits, draw) : best(logits, s->n_vocab);
    akv_fenv_leave(&saved);
    return id;
}

void akv_logprobs(struct akv_sampler *s, const float *logits, uint32_t id, double *logprob, struct akv_logprob *top, size_t n)
{
    assert(n <= s->n_vocab && (!logprob || id < s->n_vocab));
    struct akv_fenv saved;
    akv_fenv_enter(&saved);
    order(s, logits, s->n_vocab);
    double base = akv_order_logit(s->keys[0]) + dm_log(weigh(s, s->n_vocab, 1));
    if (logprob)
        *logprob = logits[id] - base;
    for (size_t i = 0; i < n; i++) {
        top[i].id = akv_order_id(s->keys[i]);
        top[i].logprob = akv_order_logit(s->keys[i]) - base;
    }
    akv_fenv_leave(&saved);
}
