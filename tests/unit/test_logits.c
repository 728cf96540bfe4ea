/*
 * Logits of tiny models against float64 references that were computed elsewhere: one test a model and KV dtype, each with a line of
 * figures. The references hold log-probabilities of the 8 best ids at every position and all logits of the last one.
 */
#include "engine_rig.h"

#include <math.h>

/*
 * Quantised weights meet int8 activations: the NMSE that llama.cpp shows on the same file is the measure (ok-nano: on that of
 * llama-tiny-q8_0). 0: the weights are floats and so are the activations.
 */
static const struct golden_model {
    const char *name;
    double peer;
} models[] = {
    {"llama-tiny-f32", 0},        {"llama-tiny-f16", 0},       {"llama-tiny-bf16", 0},      {"llama-tiny-tied-f32", 0},
    {"llama-tiny-q8_0", 5.2e-4},  {"llama-tiny-q4_0", 5.1e-4}, {"llama-tiny-q4_1", 5.4e-4}, {"llama-tiny-q5_0", 5.2e-4},
    {"llama-tiny-q5_1", 5.5e-4},  {"llama-tiny-q4_k", 1.2e-3}, {"llama-tiny-q5_k", 1.2e-3}, {"llama-tiny-q6_k", 1.1e-3},
    {"llama3-tiny-f32", 0},       {"qwen2-tiny-f32", 0},       {"qwen2-tiny-q8_0", 7.6e-4}, {"qwen3-tiny-f32", 0},
    {"qwen3-tiny-f16", 0},        {"qwen3-tiny-bf16", 0},      {"qwen3-tiny-q8_0", 9.0e-4}, {"qwen3-tiny-q4_0", 8.7e-4},
    {"qwen3-tiny-q4_1", 9.2e-4},  {"qwen3-tiny-q5_0", 8.7e-4}, {"qwen3-tiny-q5_1", 9.4e-4}, {"qwen3-tiny-q4_k", 1.9e-3},
    {"qwen3-tiny-q5_k", 1.8e-3},  {"qwen3-tiny-q6_k", 1.9e-3}, {"gemma3-tiny-f32", 0},      {"gemma3-tiny-keys-f32", 0},
    {"gemma3-tiny-q8_0", 3.6e-3}, {"bad/ok-nano", 5.2e-4},
};
#define N_MODELS (sizeof models / sizeof *models)

struct figures {
    double diff2, ref2, max_abs;
    size_t n_top1, n_positions, n_greedy, n_greedy_steps;
};

static float *read_floats(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    *n = (size_t)ftell(f) / sizeof(float);
    rewind(f);
    float *x = malloc(*n * sizeof *x + 1);
    assert_int_equal(fread(x, sizeof *x, *n, f), *n);
    fclose(f);
    return x;
}

static void compare_last(struct figures *fig, const float *got, const float *ref, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double d = (double)got[i] - (double)ref[i];
        fig->diff2 += d * d;
        fig->ref2 += (double)ref[i] * (double)ref[i];
        fig->max_abs = fmax(fig->max_abs, fabs(d));
    }
}

static void compare_top1(struct figures *fig, const float *got, size_t n_vocab, const json_t *top_ids)
{
    for (size_t i = 0; i < json_array_size(top_ids); i++) {
        const json_t *best = json_array_get(json_array_get(top_ids, i), 0);
        fig->n_positions++;
        fig->n_top1 += (json_int_t)rig_argmax(got + i * n_vocab, n_vocab) == json_integer_value(best);
    }
}

/* The reference's own continuation, up to the first step so close that the engine's error could turn it. */
static void compare_greedy(struct figures *fig, struct rig *r, const float *last, const json_t *row)
{
    size_t n;
    uint32_t *greedy = rig_ids(json_object_get(row, "greedy"), &n);
    const json_t *margins = json_object_get(row, "greedy_margin");
    size_t n_vocab = r->model->hp.n_vocab;
    float *logits = malloc(n_vocab * sizeof *logits);
    memcpy(logits, last, n_vocab * sizeof *logits);
    for (size_t i = 0; i < n && json_number_value(json_array_get(margins, i)) >= 2 * fig->max_abs; i++) {
        struct akv_err err = {0};
        fig->n_greedy_steps++;
        fig->n_greedy += rig_argmax(logits, n_vocab) == greedy[i];
        assert_ok(rig_feed(r, &r->seq, &greedy[i], 1, 1, logits, false, &err), &err);
    }
    free(logits);
    free(greedy);
}

static void run_sequence(struct figures *fig, struct rig *r, const json_t *row, const float *refs, size_t n_refs, bool greedy)
{
    size_t n, n_vocab = r->model->hp.n_vocab;
    size_t ref_row = (size_t)json_integer_value(json_object_get(row, "logits_row"));
    assert_true((ref_row + 1) * n_vocab <= n_refs);
    uint32_t *ids = rig_ids(json_object_get(row, "ids"), &n);
    float *logits = malloc(n * n_vocab * sizeof *logits), *last = logits + (n - 1) * n_vocab;
    struct akv_err err = {0};
    akv_seq_truncate(&r->seq, 0);
    assert_ok(rig_feed(r, &r->seq, ids, n, 64, logits, true, &err), &err);
    if (greedy) {
        compare_greedy(fig, r, last, row);
    } else {
        compare_last(fig, last, refs + ref_row * n_vocab, n_vocab);
        compare_top1(fig, logits, n_vocab, json_object_get(row, "top_ids"));
    }
    free(logits);
    free(ids);
}

/* Whether kernels exist for every type in the file. */
static bool computable(const char *path)
{
    struct akv_gguf g = {0};
    struct akv_err err = {0};
    assert_ok(akv_gguf_open(&g, path, &err), &err);
    bool all = true;
    for (uint64_t i = 0; i < g.n_tensors; i++)
        all = all && akv_dtypes[g.tensors[i].dtype].runs && akv_ops_pick(NULL)->has(g.tensors[i].dtype);
    akv_gguf_close(&g);
    return all;
}

/* The most allowed. f16 KV costs a float model what rounding K and V must; a quantised one nothing that is seen. */
static void judge(const struct golden_model *m, enum akv_kv_dtype kv, const struct figures *fig)
{
    double nmse = fig->diff2 / fig->ref2, most = m->peer > 0 ? 1.25 * m->peer : kv == AKV_KV_F16 ? 1e-5 : 1e-9;
    printf("%-20s kv %s  NMSE %.2e (at most %.2e)  max abs %.1e  top-1 %.3f  greedy %zu/%zu\n", m->name,
           kv == AKV_KV_F16 ? "f16" : "f32", nmse, most, fig->max_abs, (double)fig->n_top1 / (double)fig->n_positions,
           fig->n_greedy, fig->n_greedy_steps);
    assert_true(fig->n_positions > 0);
    assert_true(nmse <= most);
    assert_true(m->peer > 0 || kv == AKV_KV_F16 || fig->max_abs <= 2e-3);
    assert_int_equal(fig->n_greedy, fig->n_greedy_steps);
}

static void run_model(const struct golden_model *m, enum akv_kv_dtype kv)
{
    static const char *const suffix[] = {".gguf", ".golden.jsonl", ".logits.bin"};
    char rel[256];
    const char *path[3];
    for (size_t i = 0; i < 3; i++) {
        snprintf(rel, sizeof rel, "golden/models/%s%s", m->name, suffix[i]);
        path[i] = shared_file(rel);
        if (!path[i])
            skip();
    }
    if (!computable(path[0]) || (RIG_SAMPLES && (m - models) % 4 != 0))
        skip();
    size_t n_refs;
    float *refs = read_floats(path[2], &n_refs);
    struct rig r;
    rig_open(&r, path[0], NULL, 1, kv, 64, 400);
    struct figures fig = {0};
    for (int pass = 0; pass < 2; pass++) { /* the errors first: they say which greedy steps can be compared */
        FILE *f = fopen(path[1], "r");
        assert_non_null(f);
        for (json_t *row; (row = rig_json_line(f)); json_decref(row))
            run_sequence(&fig, &r, row, refs, n_refs, pass == 1);
        fclose(f);
    }
    rig_close(&r);
    free(refs);
    judge(m, kv, &fig);
}

/* with f32 KV the logits are the reference's to float32 accuracy, or as near as int8 activations allow */
static void test_kv_f32(void **state)
{
    run_model(*state, AKV_KV_F32);
}

/* rounding K and V to f16 costs no more than its share */
static void test_kv_f16(void **state)
{
    run_model(*state, AKV_KV_F16);
}

int main(void)
{
    static struct CMUnitTest tests[2 * N_MODELS];
    for (size_t i = 0; i < 2 * N_MODELS; i++) {
        const struct golden_model *m = &models[i % N_MODELS];
        tests[i] = (struct CMUnitTest){
            .name = m->name, .test_func = i < N_MODELS ? test_kv_f32 : test_kv_f16, .initial_state = (void *)(uintptr_t)m};
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
