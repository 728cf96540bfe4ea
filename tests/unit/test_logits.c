/*
 * Logits of tiny models against float64 references that were computed elsewhere. A line of figures for each model.
 * The references hold log-probabilities of the 8 best ids at every position and all logits of the last one.
 */
#include "engine_rig.h"

#include <math.h>

struct golden_model {
    const char *name;
    double nmse_f32, nmse_f16; /* the most allowed with f32 and with f16 KV */
};

/* Quantised weights meet int8 activations: 1.25 times what llama.cpp shows on the same file (ok-nano: on llama-tiny-q8_0). */
static const struct golden_model models[] = {
    {"llama-tiny-f32", 1e-9, 1e-5},
    {"llama-tiny-f16", 1e-9, 1e-5},
    {"llama-tiny-tied-f32", 1e-9, 1e-5},
    {"llama-tiny-q8_0", 1.25 * 5.2e-4, 1.25 * 5.2e-4},
    {"llama-tiny-q4_0", 1.25 * 5.1e-4, 1.25 * 5.1e-4},
    {"llama-tiny-q4_1", 1.25 * 5.4e-4, 1.25 * 5.4e-4},
    {"bad/ok-nano", 1.25 * 5.2e-4, 1.25 * 5.2e-4},
};

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

static void run_model(const struct golden_model *m, enum akv_kv_dtype kv)
{
    char rel[4][256];
    static const char *const suffix[] = {".gguf", ".golden.jsonl", ".logits.bin"};
    const char *path[3];
    for (size_t i = 0; i < 3; i++) {
        snprintf(rel[i], sizeof rel[i], "golden/models/%s%s", m->name, suffix[i]);
        path[i] = shared_file(rel[i]);
        if (!path[i])
            skip();
    }
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
    double nmse = fig.diff2 / fig.ref2, most = kv == AKV_KV_F16 ? m->nmse_f16 : m->nmse_f32;
    printf("%-20s kv %s  NMSE %.2e (at most %.2e)  max abs %.1e  top-1 %.3f  greedy %zu/%zu\n", m->name,
           kv == AKV_KV_F16 ? "f16" : "f32", nmse, most, fig.max_abs, (double)fig.n_top1 / (double)fig.n_positions, fig.n_greedy,
           fig.n_greedy_steps);
    assert_true(fig.n_positions > 0);
    assert_true(nmse <= most);
    assert_int_equal(fig.n_greedy, fig.n_greedy_steps);
    rig_close(&r);
    free(refs);
}

/* with f32 KV the logits are the reference's to float32 accuracy, or as near as int8 activations allow */
static void test_kv_f32(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        run_model(&models[i], AKV_KV_F32);
}

/* rounding K and V to f16 costs no more than its share */
static void test_kv_f16(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        run_model(&models[i], AKV_KV_F16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kv_f32),
        cmocka_unit_test(test_kv_f16),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
