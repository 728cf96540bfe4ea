/*
 * SmolLM2-135M-Instruct Q4_1 against the float64 reference: distributions over a text of 3,323 tokens and the end of eight prompts.
 * Takes up to a minute with AVX2; skipped without it, without the model or without the reference.
 */
#include "engine_rig.h"

#include <math.h>
#include <time.h>

#define CHUNK 128
#define N_CTX 3400

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static bool can_run(void)
{
    return demo_model() && akv_ops_pick("avx2") && shared_file("golden/models/real/smollm2-135m-q4_1.ppl.jsonl") &&
           shared_file("golden/models/real/smollm2-135m-q4_1.golden.jsonl");
}

static double log_sum_exp(const float *x, size_t n)
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
static double divergence(const struct listed *ref, const float *logits, double lse)
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

static void read_listed(struct listed *l, const json_t *ids, const json_t *lp, size_t pos)
{
    l->pos = pos;
    l->ids = rig_ids(ids, &l->n);
    l->lp = calloc(l->n + 1, sizeof *l->lp);
    for (size_t i = 0; i < l->n; i++)
        l->lp[i] = json_number_value(json_array_get(lp, i));
}

static void free_listed(struct listed *l)
{
    free(l->ids);
    free(l->lp);
}

struct sums {
    double kl, kl_max, nll;
    size_t n_kl, n_nll, n_top1, n_sure, n_sure_top1;
};

static void compare(struct sums *s, const struct listed *ref, const float *logits, size_t n_vocab, double lse)
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

/* mean KL at most 0.0022, NLL within 0.01, top-1 agreement at least 97 % where the reference is sure: about as llama.cpp */
static void test_text(void **unused)
{
    (void)unused;
    if (!can_run())
        skip();
    FILE *f = fopen(shared_file("golden/models/real/smollm2-135m-q4_1.ppl.jsonl"), "r");
    assert_non_null(f);
    json_t *head = rig_json_line(f);
    size_t n;
    uint32_t *ids = rig_ids(json_object_get(head, "ids"), &n);
    double nll_ref = json_number_value(json_object_get(head, "nll_mean"));
    struct rig r;
    rig_open(&r, demo_model(), akv_ops_pick("avx2"), 1, AKV_KV_F16, CHUNK, N_CTX);
    size_t n_vocab = r.model->hp.n_vocab;
    float *logits = malloc(CHUNK * n_vocab * sizeof *logits);
    struct sums s = {0};
    struct listed ref = {0};
    json_t *row = rig_json_line(f);
    double start = seconds();
    for (size_t at = 0; at < n; at += CHUNK) {
        struct akv_err err = {0};
        size_t m = n - at < CHUNK ? n - at : CHUNK;
        assert_ok(rig_feed(&r, &r.seq, ids + at, m, m, logits, true, &err), &err);
        for (size_t i = 0; i < m; i++) {
            const float *x = logits + i * n_vocab;
            double lse = log_sum_exp(x, n_vocab);
            if (at + i + 1 < n) {
                s.nll += lse - x[ids[at + i + 1]];
                s.n_nll++;
            }
            if (row && (size_t)json_integer_value(json_object_get(row, "pos")) == at + i) {
                read_listed(&ref, json_object_get(row, "ids"), json_object_get(row, "lp"), at + i);
                compare(&s, &ref, x, n_vocab, lse);
                free_listed(&ref);
                json_decref(row);
                row = rig_json_line(f);
            }
        }
    }
    double took = seconds() - start, kl = s.kl / (double)s.n_kl, nll = s.nll / (double)s.n_nll;
    double sure = (double)s.n_sure_top1 / (double)s.n_sure;
    printf("smollm2-135m-q4_1    %zu tokens  KL mean %.5f max %.4f (%zu positions)  NLL %.4f reference %.4f  top-1 %.3f, where "
           "sure %.4f "
           "(%zu)  %.0f tokens/s with all logits scored\n",
           n, kl, s.kl_max, s.n_kl, nll, nll_ref, (double)s.n_top1 / (double)s.n_kl, sure, s.n_sure, (double)n / took);
    assert_null(row);
    assert_true(s.n_kl >= n / 8);
    assert_true(kl <= 0.0022);
    assert_true(fabs(nll - nll_ref) <= 0.01);
    assert_true(sure >= 0.97);
    json_decref(head);
    fclose(f);
    free(ids);
    free(logits);
    rig_close(&r);
}

/* the reference's continuation, teacher-forced: where its margin is above 0.5 the same token is best */
static void follow(struct rig *r, struct sums *s, float *logits, const json_t *row)
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

/* eight prompts (chat, code, tools, Unicode, long): distribution after the last token, and the continuation wherever it is sure */
static void test_prompts(void **unused)
{
    (void)unused;
    if (!can_run())
        skip();
    FILE *f = fopen(shared_file("golden/models/real/smollm2-135m-q4_1.golden.jsonl"), "r");
    assert_non_null(f);
    struct rig r;
    rig_open(&r, demo_model(), akv_ops_pick("avx2"), 1, AKV_KV_F16, CHUNK, N_CTX);
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
        printf("smollm2-135m-q4_1    %-14s %4zu tokens  KL last %.5f  greedy %zu/%zu, where sure %zu/%zu  prefill %.0f tokens/s, "
               "decode %.0f\n",
               json_string_value(json_object_get(row, "seq")), n, kl, s.n_top1, s.n_kl, s.n_sure_top1, s.n_sure,
               (double)n / prefill, (double)s.n_kl / decode);
        assert_true(kl <= 0.02);
        assert_int_equal(s.n_sure_top1, s.n_sure);
        free_listed(&ref);
        free(ids);
    }
    fclose(f);
    free(logits);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_prompts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
