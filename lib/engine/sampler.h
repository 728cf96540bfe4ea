/* Sampling (numerics.md, "Sampling"): deterministic, double precision, no libm. */
#ifndef AKV_ENGINE_SAMPLER_H
#define AKV_ENGINE_SAMPLER_H

#include "base/err.h"

struct akv_sampling {      /* defaults: akv_sampling_default */
    double temperature;    /* 0: greedy */
    uint32_t top_k;        /* 0: off */
    double top_p;          /* 1: off */
    double min_p;          /* 0: off */
    double repeat_penalty; /* 1: off; over all ids, prompt included */
    uint64_t seed;
};

extern const struct akv_sampling akv_sampling_default;

/* Check ranges; AKV_E_INPUT naming the field. The functions below take only what has passed. */
int akv_sampling_check(const struct akv_sampling *s, struct akv_err *err);

struct akv_sampler;
int akv_sampler_open(struct akv_sampler **out, uint32_t n_vocab, struct akv_err *err);
void akv_sampler_free(struct akv_sampler *s);

/*
 * The id for draw number `draw` (0 for the first generated token). logits[n_vocab] are finite and read only; history[n_history] are
 * all ids so far. Candidates are ordered by logit descending, id ascending, and cut in this order: the penalty (each id of the
 * history once: a positive logit divided by it, others multiplied), the first top_k, then those that reach the mass top_p at
 * temperature 1, then those of at least min_p times the best one's probability. The draw is from the softmax of logit / temperature
 * over the rest, by output `draw` of SplitMix64(seed). Temperature 0: the lowest id among the largest logits.
 */
uint32_t akv_sample(struct akv_sampler *s, const struct akv_sampling *how, const float *logits, const uint32_t *history,
                    size_t n_history, uint64_t draw);

/*
 * Natural-log probabilities, without penalty and temperature: of the n <= n_vocab most likely ids (logit descending, id ascending)
 * to top[n], and of `id` to *logprob (NULL: not wanted).
 */
void akv_logprobs(struct akv_sampler *s, const float *logits, uint32_t id, double *logprob, struct akv_logprob *top, size_t n);

#endif
