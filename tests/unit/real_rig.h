/*
 * Real models against the float64 reference: distributions over a text of some 3,300 tokens and the end of each prompt, beside the
 * peer's figures on the same file. Up to a minute each with AVX2; skipped without it, without the model or without the reference.
 */
#ifndef AKV_TESTS_REAL_RIG_H
#define AKV_TESTS_REAL_RIG_H

#include "tests/unit/engine_rig.h"

#include <math.h>
#include <time.h>

#define CHUNK 128
#define N_CTX 3400

struct real {
    const char *stem; /* of the reference's files */
    const char *path; /* the model; NULL: not here */
    double kl_last;   /* the largest divergence allowed after a prompt's last token */
};

static inline double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static inline const char *reference(const struct real *real, const char *suffix)
{
    char name[128];
    snprintf(name, sizeof name, "golden/models/real/%s.%s", real->stem, suffix);
    return shared_file(name);
}

static inline bool can_run(const struct real *real)
{
    return real->path && akv_ops_pick("avx2") && reference(real, "ppl.jsonl") && reference(real, "golden.jsonl") &&
           reference(real, "peer.json");
}

static inline double log_sum_exp(const float *x, size_t n)
{
    double max = x[rig_argmax(x, n)], sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += exp(x[i] - max);
    return max + log(sum);
}

struct listed { /* reference log-probabilities of the best ids at a position */
    size_t pos, n;
    uint32_t *ids;
    double *lp;
};

/* sum p ln(p / q) over the listed ids and one bucket for the rest: a lower bound of the divergence, close to it */
static inline double divergence(const struct listed *ref, const float *logits, double lse)
{
    double kl = 0, p_rest = 1, q_rest = 1;
    for (size_t i = 0; i < ref->n; i++) {
        double p = exp(ref->lp[i]), log_q = logits[ref->ids[i]] - lse;
        kl += p * (ref->lp[i] - log_q);
        p_rest -= p;
        q_rest -= exp(log_q);
    }
    if (p_rest > 1e-12 && q_rest > 1e-12)
        kl += p_rest * log(p_rest / q_rest);
    return kl;
}

static inline void read_listed(struct listed *l, const json_t *ids, const json_t *lp, size_t pos)
{
    l->pos = pos;
    l->ids = rig_ids(ids, &l->n);
    l->lp = calloc(l->n + 1, sizeof *l->lp);
    for (size_t i = 0; i < l->n; i++)
        l->lp[i] = json_number_value(json_array_get(lp, i));
}

static inline void free_listed(struct listed *l)
{
    free(l->ids);
    free(l->lp);
}

struct sums {
    double kl, kl_max, nll;
    size_t n_kl, n_nll, n_top1, n_sure, n_sure_top1;
};

static inline void compare(struct sums *s, const struct listed *ref, const float *logits, size_t n_vocab, double lse)
{
    double kl = divergence(ref, logits, lse);
    s->kl += kl;
    s->kl_max = fmax(s->kl_max, kl);
    s->n_kl++;
    bool same = rig_argmax(logits, n_vocab) == ref->ids[0], sure = ref->lp[0] - ref->lp[1] > 0.5;
    s->n_top1 += same;
    s->n_sure += sure;
    s->n_sure_top1 += sure && same;
}

/* The text's ids through the model, CHUNK at a time; every position of the reference (rows of f) is compared. */
static inline void score_text(const struct real *real, const uint32_t *ids, size_t n, FILE *f, struct sums *s)
{
    struct rig r;
    rig_open(&r, real->path, akv_ops_pick("avx2"), 1, AKV_KV_F16, CHUNK, N_CTX);
    size_t n_vocab = r.model->hp.n_vocab;
    float *logits = malloc(CHUNK * n_vocab * sizeof *logits);
    struct listed ref = {0};
    json_t *row = rig_json_line(f);
    for (size_t at = 0; at < n; at += CHUNK) {
        struct akv_err err = {0};
        size_t m = n - at < CHUNK ? n - at : CHUNK;
        assert_ok(rig_feed(&r, &r.seq, ids + at, m, m, logits, true, &err), &err);
        for (size_t i = 0; i < m; i++) {
            const float *x = logits + i * n_vocab;
            double lse = log_sum_exp(x, n_vocab);
            if (at + i + 1 < n) {
                s->nll += lse - x[ids[at + i + 1]];
                s->n_nll++;
            }
            if (row && (size_t)json_integer_value(json_object_get(row, "pos")) == at + i) {
                read_listed(&ref, json_object_get(row, "ids"), json_object_get(row, "lp"), at + i);
                compare(s, &ref, x, n_vocab, lse);
                free_listed(&ref);
                json_decref(row);
                row = rig_json_line(f);
            }
        }
    }
    assert_null(row);
    free(logits);
    rig_close(&r);
}

/* The mean divergence is at most 1.1 times the peer's; NLL within 0.01; top-1 agreement at least 97 % where the reference is sure. */
static inline void test_text(void **state)
{
    const struct real *real = *state;
    if (!can_run(real))
        skip();
    json_t *about = json_load_file(reference(real, "peer.json"), 0, NULL), *peer = json_object_get(about, "ppl");
    double peer_kl = json_number_value(json_object_get(peer, "kl_top32_mean"));
    FILE *f = fopen(reference(real, "ppl.jsonl"), "r");
    assert_non_null(f);
    assert_true(peer_kl > 0);
    json_t *head = rig_json_line(f);
    size_t n;
    uint32_t *ids = rig_ids(json_object_get(head, "ids"), &n);
    double nll_ref = json_number_value(json_object_get(head, "nll_mean"));
    struct sums s = {0};
    double start = seconds();
    score_text(real, ids, n, f, &s);
    double took = seconds() - start, kl = s.kl / (double)s.n_kl, nll = s.nll / (double)s.n_nll;
    double sure = (double)s.n_sure_top1 / (double)s.n_sure;
    printf(
        "%-20s %zu tokens  KL mean %.5f max %.4f (%zu positions)  top-1 %.3f, where sure %.4f (%zu)  perplexity %.4f (NLL %.4f)\n",
        real->stem, n, kl, s.kl_max, s.n_kl, (double)s.n_top1 / (double)s.n_kl, sure, s.n_sure, exp(nll), nll);
    printf(
        "%-20s peer: KL mean %.5f max %.4f  top-1 %.3f  perplexity %.4f (NLL %.4f)  reference %.4f (NLL %.4f)  ours took %.0f s\n",
        real->stem, peer_kl, json_number_value(json_object_get(peer, "kl_top32_max")),
        json_number_value(json_object_get(peer, "top1")), exp(json_number_value(json_object_get(peer, "nll"))),
        json_number_value(json_object_get(peer, "nll")), exp(nll_ref), nll_ref, took);
    assert_int_equal(s.n_kl, (n - 1) / 8); /* every eighth position that has a next token */
    assert_true(kl <= 1.1 * peer_kl);
    assert_true(fabs(nll - nll_ref) <= 0.01);
    assert_true(sure >= 0.97);
    json_decref(about);
    json_decref(head);
    fclose(f);
    free(ids);
}

/* the reference's continuation, teacher-forced: where its margin is above 0.5 the same token is best */
static inline void follow(struct rig *r, struct sums *s, float *logits, const json_t *row)
{
    size_t n, n_vocab = r->model->hp.n_vocab;
    uint32_t *greedy = rig_ids(json_object_get(row, "greedy"), &n);
    const json_t *margins = json_object_get(row, "greedy_margin");
    for (size_t i = 0; i < n; i++) {
        struct akv_err err = {0};
        bool same = rig_argmax(logits, n_vocab) == greedy[i], sure = json_number_value(json_array_get(margins, i)) > 0.5;
        s->n_top1 += same;
        s->n_kl++;
        s->n_sure += sure;
        s->n_sure_top1 += same && sure;
        assert_ok(rig_feed(r, &r->seq, &greedy[i], 1, 1, logits, false, &err), &err);
    }
    free(greedy);
}

/* Each prompt of the reference: the distribution after the last token, and the continuation wherever it is sure. */
static inline void test_prompts(void **state)
{
    const struct real *real = *state;
    if (!can_run(real))
        skip();
    FILE *f = fopen(reference(real, "golden.jsonl"), "r");
    assert_non_null(f);
    struct rig r;
    rig_open(&r, real->path, akv_ops_pick("avx2"), 1, AKV_KV_F16, CHUNK, N_CTX);
    size_t n_vocab = r.model->hp.n_vocab;
    float *logits = malloc(n_vocab * sizeof *logits);
    for (json_t *row; (row = rig_json_line(f)); json_decref(row)) {
        size_t n;
        uint32_t *ids = rig_ids(json_object_get(row, "ids"), &n);
        const json_t *top_ids = json_object_get(row, "top_ids"), *top_lp = json_object_get(row, "top_lp");
        size_t last = json_array_size(top_ids) - 1;
        struct listed ref;
        read_listed(&ref, json_array_get(top_ids, last), json_array_get(top_lp, last), n - 1);
        struct akv_err err = {0};
        akv_seq_truncate(&r.seq, 0);
        double start = seconds();
        assert_ok(rig_feed(&r, &r.seq, ids, n, CHUNK, logits, false, &err), &err);
        double prefill = seconds() - start;
        double kl = divergence(&ref, logits, log_sum_exp(logits, n_vocab));
        struct sums s = {0};
        start = seconds();
        follow(&r, &s, logits, row);
        double decode = seconds() - start;
        printf("%-20s %-14s %4zu tokens  KL last %.5f  greedy %zu/%zu, where sure %zu/%zu  prefill %.0f tokens/s, decode %.0f\n",
               real->stem, json_string_value(json_object_get(row, "seq")), n, kl, s.n_top1, s.n_kl, s.n_sure_top1, s.n_sure,
               (double)n / prefill, (double)s.n_kl / decode);
        assert_true(kl <= real->kl_last);
        assert_int_equal(s.n_sure_top1, s.n_sure);
        free_listed(&ref);
        free(ids);
    }
    fclose(f);
    free(logits);
    rig_close(&r);
}

#endif
