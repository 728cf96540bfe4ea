/* What tells the architectures apart: tensors, windows, RoPE scaling, and the text of it all for the root. */
#include "tests/unit/model_rig.h"

#include <math.h>

#define GEMMA "--arch gemma3 --dtype f32 --width 32 --heads 2 --kv-heads 1 --ff 32 --layers "

/* The bits of a float as the four bytes of its key. */
static void put_float(struct akv_buf *keys, const char *key, float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    put_key(keys, key, AKV_GGUF_F32);
    akv_buf_put_u32(keys, bits);
}

static void put_number(struct akv_buf *keys, const char *key, uint32_t v)
{
    put_key(keys, key, AKV_GGUF_U32);
    akv_buf_put_u32(keys, v);
}

static void put_string(struct akv_buf *keys, const char *key, const char *v)
{
    put_key(keys, key, AKV_GGUF_STRING);
    put_text(keys, v);
}

/* "tag=value" of all facts, one a line. */
static void assert_facts(const struct akv_model *m, const char *expected)
{
    static struct akv_model_facts facts;
    struct akv_buf b;
    struct akv_err err = {0};
    akv_buf_init(&b, 0);
    assert_ok(akv_model_facts(m, &facts, &err), &err);
    for (size_t i = 0; i < facts.n; i++)
        akv_buf_printf(&b, "%s=%s\n", facts.fact[i].tag, facts.fact[i].value);
    assert_string_equal(b.data, expected);
    akv_buf_release(&b);
}

/* qwen2: biases of q, k and v, which must be there, each as long as its matrix has rows, and finite */
static void test_qwen2(void **state)
{
    static const char options[] = "--arch qwen2 --dtype f32 --layers 2 --width 48 --heads 4 --kv-heads 2 --ff 32 --tied";
    (void)state;
    struct akv_model *m = load(make_model("m.gguf", options), 0);
    assert_null(m->warnings);
    assert_int_equal(m->hp.rope_style, AKV_ROPE_HALVES);
    assert_int_equal(m->layers[1].bq->ne[0], 48);
    assert_int_equal(m->layers[1].bk->ne[0], 24);
    assert_int_equal(m->layers[1].bv->ne[0], 24);
    assert_null(m->layers[1].q_norm);
    assert_int_equal(m->hp.n_vocab, akv_tok_n_vocab(m->tok));
    assert_facts(m, "rope.base=49742400\nrope.dims=12\nrope.style=halves\nwindow=none\n");
    akv_model_unload(m);
    refuse(model_with_text(options, "blk.1.attn_k.bias", "blk.1.attn_k.bia_"), AKV_E_INPUT, "blk.1.attn_k.bias", "missing");
}

/* qwen3: a norm for the heads of q and of k, heads of a size of their own, all of it rotated by default */
static void test_qwen3(void **state)
{
    static const char options[] = "--arch qwen3 --dtype f32 --layers 1 --width 48 --heads 4 --kv-heads 2 --head-dim 20 --ff 32";
    (void)state;
    struct akv_model *m = load(make_model("m.gguf", options), 0);
    assert_null(m->warnings);
    assert_int_equal(m->hp.dim_k, 20);
    assert_int_equal(m->hp.n_rot, 20);
    assert_int_equal(m->hp.scale_dim, 20);
    assert_int_equal(m->layers[0].wq->ne[1], 80);
    assert_int_equal(m->layers[0].q_norm->ne[0], 20);
    assert_int_equal(m->layers[0].k_norm->ne[0], 20);
    assert_null(m->layers[0].bq);
    assert_null(m->layers[0].post_attn);
    akv_model_unload(m);
    refuse(model_with_text(options, "blk.0.attn_q_norm.weight", "blk.0.attn_q_norm.weigh_"), AKV_E_INPUT, "attn_q_norm", "missing");
}

/* gemma3 without further keys: the last of every six layers is global, the others see 16 positions and rotate by 10000 */
static void test_gemma3(void **state)
{
    (void)state;
    struct akv_model *m = load(make_model("m.gguf", GEMMA "8"), 0);
    assert_null(m->warnings);
    assert_int_equal(m->hp.window, 16);
    assert_true(m->hp.rope_base == 1e6F && m->hp.rope_base_local == 10000.0F && m->hp.softcap == 0);
    assert_ptr_equal(m->output, m->embd);
    assert_non_null(m->layers[7].post_attn);
    assert_non_null(m->layers[7].post_ffn);
    assert_facts(m, "rope.base=49742400\nrope.base.local=461c4000\nrope.dims=16\nrope.style=halves\n"
                    "window=16\nwindow.layers=lllllgll\n");
    akv_model_unload(m);
    m = load(make_model("m.gguf", GEMMA "3 --pattern 3 --window 24 --softcap 6"), 0);
    assert_true(m->hp.softcap == 6 && m->hp.window == 24);
    assert_true(m->layers[0].local && m->layers[1].local && !m->layers[2].local);
    akv_model_unload(m);
    refuse(model_with_text(GEMMA "1", "post_ffw_norm", "post_ffx_norm"), AKV_E_INPUT, "blk.0.post_ffw_norm.weight", "missing");
}

/* Two layers with a pattern: "ll" and so on, "" where no layer is local; NULL: refused for this word. */
static void expect_pattern(uint32_t type, const char *value, size_t n, const char *layers, const char *word)
{
    struct akv_buf keys;
    akv_buf_init(&keys, 0);
    put_key(&keys, "gemma3.attention.sliding_window_pattern", type);
    akv_buf_add(&keys, value, n);
    const char *path = model_with_keys(GEMMA "2", &keys, 1);
    if (!layers) {
        refuse(path, AKV_E_INPUT, "gemma3.attention.sliding_window_pattern", word);
        return;
    }
    struct akv_model *m = load(path, 0);
    assert_int_equal(m->hp.window, *layers ? 16 : 0);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(m->layers[i].local, *layers && layers[i] == 'l');
    akv_model_unload(m);
}

/* the pattern as a number or as one boolean a layer; without a local layer there is no window */
static void test_patterns(void **state)
{
    (void)state;
    expect_pattern(AKV_GGUF_U32, "\0\0\0\0", 4, "ll", NULL);
    expect_pattern(AKV_GGUF_U32, "\1\0\0\0", 4, "", NULL);
    expect_pattern(AKV_GGUF_U32, "\2\0\0\0", 4, "lg", NULL);
    expect_pattern(AKV_GGUF_ARRAY, "\7\0\0\0\2\0\0\0\0\0\0\0\0\1", 14, "gl", NULL);
    expect_pattern(AKV_GGUF_ARRAY, "\7\0\0\0\2\0\0\0\0\0\0\0\0\0", 14, "", NULL);
    expect_pattern(AKV_GGUF_ARRAY, "\7\0\0\0\3\0\0\0\0\0\0\0\0\1\1", 15, NULL, "3 values for 2 layers");
    expect_pattern(AKV_GGUF_ARRAY, "\6\0\0\0\2\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 20, NULL, "array of type f32");
    expect_pattern(AKV_GGUF_STRING, "\1\0\0\0\0\0\0\0x", 9, NULL, "");
}

/* other values of the keys of gemma3, and those that no model has */
static void test_gemma3_keys(void **state)
{
    (void)state;
    struct akv_buf keys;
    akv_buf_init(&keys, 0);
    put_float(&keys, "gemma3.rope.freq_base_swa", 5000);
    put_float(&keys, "gemma3.rope.scaling.factor", 8);
    struct akv_model *m = load(model_with_keys(GEMMA "2", &keys, 2), 0);
    assert_facts(m, "rope.base=49742400\nrope.base.local=459c4000\nrope.dims=16\nrope.factor=41000000\nrope.scaling=linear\n"
                    "rope.style=halves\nwindow=16\nwindow.layers=ll\n");
    akv_model_unload(m);
    static const struct {
        const char *key;
        float value;
        const char *word;
    } bad[] = {{"gemma3.rope.freq_base_swa", 0, "greater than 0"},
               {"gemma3.final_logit_softcapping", -1, "not negative"},
               {"gemma3.final_logit_softcapping", HUGE_VALF, "finite"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        akv_buf_init(&keys, 0);
        put_float(&keys, bad[i].key, bad[i].value);
        refuse(model_with_keys(GEMMA "1", &keys, 1), AKV_E_INPUT, bad[i].key, bad[i].word);
    }
    akv_buf_init(&keys, 0);
    put_float(&keys, "gemma3.attn_logit_softcapping", 50);
    refuse(model_with_keys(GEMMA "1", &keys, 1), AKV_E_INCOMPAT, "gemma3.attn_logit_softcapping", "not supported");
    /* a file without a window has global layers only */
    m = load(model_with_text(GEMMA "2", "gemma3.attention.sliding_window", "gemma3.attention.sliding_windoX"), 0);
    assert_int_equal(m->hp.window, 0);
    assert_false(m->layers[0].local);
    akv_model_unload(m);
}

/* the one depth whose attention scale comes from the width */
static void test_width_scale(void **state)
{
    static const char *const layers[] = {"61", "62"};
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        char options[160];
        snprintf(options, sizeof options,
                 "--arch gemma3 --dtype f32 --width 16 --heads 1 --kv-heads 1 --head-dim 4 --ff 8 --layers %s", layers[i]);
        struct akv_model *m = load(make_model("m.gguf", options), 0);
        assert_int_equal(m->hp.scale_dim, i ? 16 : 4);
        akv_model_unload(m);
    }
}

/* What the keys of RoPE scaling come to, as facts; or the word of the refusal. */
static void expect_scaling(struct akv_buf *keys, uint64_t n, const char *facts, int code, const char *word)
{
    const char *path = model_with_keys(SMALL, keys, n);
    akv_buf_init(keys, 0);
    if (!facts) {
        refuse(path, code, "llama.rope", word);
        return;
    }
    struct akv_model *m = load(path, 0);
    assert_facts(m, facts);
    akv_model_unload(m);
}

#define PLAIN "rope.base=461c4000\nrope.dims=16\nrope.style=pairs\nwindow=none\n"
#define LINEAR "rope.base=461c4000\nrope.dims=16\nrope.factor=40000000\nrope.scaling=linear\nrope.style=pairs\nwindow=none\n"

/* a factor alone, under its old or new name, is linear; `none` leaves it without effect, as 1 and 0 do; others are refused */
static void test_linear(void **state)
{
    static const float bad[] = {0.5F, -2, 2e6F};
    struct akv_buf keys;
    (void)state;
    akv_buf_init(&keys, 0);
    expect_scaling(&keys, 0, PLAIN, 0, NULL);
    put_float(&keys, "llama.rope.scale_linear", 2);
    expect_scaling(&keys, 1, LINEAR, 0, NULL);
    put_float(&keys, "llama.rope.scaling.factor", 2);
    expect_scaling(&keys, 1, LINEAR, 0, NULL);
    put_float(&keys, "llama.rope.scaling.factor", 2);
    put_string(&keys, "llama.rope.scaling.type", "linear");
    expect_scaling(&keys, 2, LINEAR, 0, NULL);
    put_float(&keys, "llama.rope.scaling.factor", 2);
    put_string(&keys, "llama.rope.scaling.type", "none");
    expect_scaling(&keys, 2, PLAIN, 0, NULL);
    put_float(&keys, "llama.rope.scaling.factor", 1);
    expect_scaling(&keys, 1, PLAIN, 0, NULL);
    put_float(&keys, "llama.rope.scale_linear", 0);
    expect_scaling(&keys, 1, PLAIN, 0, NULL);
    put_float(&keys, "llama.rope.scaling.attn_factor", 2);
    expect_scaling(&keys, 1, "rope.attn_factor=40000000\n" PLAIN, 0, NULL);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        put_float(&keys, "llama.rope.scaling.factor", bad[i]);
        expect_scaling(&keys, 1, NULL, AKV_E_INPUT, "must be 1 to");
    }
    put_string(&keys, "llama.rope.scaling.type", "longrope");
    expect_scaling(&keys, 1, NULL, AKV_E_INCOMPAT, "type longrope");
    put_number(&keys, "llama.rope.scaling.type", 1);
    expect_scaling(&keys, 1, NULL, AKV_E_INPUT, "llama.rope.scaling.type");
}

/* YaRN: all defaults, all keys, and values that make no sense */
static void test_yarn(void **state)
{
    static const struct {
        const char *key;
        float value;
        const char *word;
    } bad[] = {{"llama.rope.scaling.yarn_ext_factor", 1.5F, "0 to 1"},
               {"llama.rope.scaling.yarn_beta_fast", 0, "0.001 to 1000000"},
               {"llama.rope.scaling.yarn_beta_fast", 0.5F, "less than yarn_beta_slow"},
               {"llama.rope.scaling.yarn_beta_slow", -1, "0.001 to 1000000"},
               {"llama.rope.scaling.attn_factor", 0, "0.001 to 1000"},
               {"llama.rope.scaling.yarn_attn_factor", HUGE_VALF, "0.001 to 1000"}};
    struct akv_buf keys;
    (void)state;
    akv_buf_init(&keys, 0);
    put_string(&keys, "llama.rope.scaling.type", "yarn");
    put_float(&keys, "llama.rope.scaling.factor", 4);
    expect_scaling(&keys, 2,
                   "rope.base=461c4000\nrope.dims=16\nrope.factor=40800000\nrope.scaling=yarn\nrope.style=pairs\n"
                   "rope.yarn.beta_fast=42000000\nrope.yarn.beta_slow=3f800000\nrope.yarn.context=8192\n"
                   "rope.yarn.ext_factor=3f800000\nwindow=none\n",
                   0, NULL);
    put_string(&keys, "llama.rope.scaling.type", "yarn");
    put_float(&keys, "llama.rope.scaling.factor", 4);
    put_number(&keys, "llama.rope.scaling.original_context_length", 2048);
    put_float(&keys, "llama.rope.scaling.attn_factor", 2);
    put_float(&keys, "llama.rope.scaling.yarn_attn_factor", 2);
    put_float(&keys, "llama.rope.scaling.yarn_ext_factor", 0.5F);
    put_float(&keys, "llama.rope.scaling.yarn_beta_fast", 8);
    put_float(&keys, "llama.rope.scaling.yarn_beta_slow", 2);
    expect_scaling(&keys, 8,
                   "rope.attn_factor=40800000\nrope.base=461c4000\nrope.dims=16\nrope.factor=40800000\nrope.scaling=yarn\n"
                   "rope.style=pairs\nrope.yarn.beta_fast=41000000\nrope.yarn.beta_slow=40000000\nrope.yarn.context=2048\n"
                   "rope.yarn.ext_factor=3f000000\nwindow=none\n",
                   0, NULL);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        put_string(&keys, "llama.rope.scaling.type", "yarn");
        put_float(&keys, bad[i].key, bad[i].value);
        expect_scaling(&keys, 2, NULL, AKV_E_INPUT, bad[i].word);
    }
    put_string(&keys, "llama.rope.scaling.type", "yarn");
    put_number(&keys, "llama.rope.scaling.original_context_length", 0);
    expect_scaling(&keys, 2, NULL, AKV_E_INPUT, "at least 1");
}

/* a llama's RoPE factors are bound, hashed into the facts, and refused below 3/4 or in another architecture */
static void test_factors(void **state)
{
    static const char options[] = "--rope factors --dtype f32 --layers 1 --width 32 --heads 2 --kv-heads 1 --ff 32";
    (void)state;
    const char *path = make_model("m.gguf", options);
    struct akv_model *m = load(path, 0);
    assert_null(m->warnings);
    assert_non_null(m->rope_factors);
    static struct akv_model_facts facts;
    struct akv_err err = {0};
    assert_ok(akv_model_facts(m, &facts, &err), &err);
    assert_string_equal(facts.fact[2].tag, "rope.factors");
    assert_int_equal(strlen(facts.fact[2].value), 64);
    uint64_t at = m->rope_factors->offset;
    akv_model_unload(m);
    int fd = open(path, O_WRONLY);
    const float low = 0.7F;
    assert_int_equal(pwrite(fd, &low, sizeof low, (off_t)at + 4), 4);
    close(fd);
    refuse(path, AKV_E_INPUT, "rope_freqs.weight", "value 1 is below 0.75");
    refuse(make_model("m.gguf", "--arch qwen2 --rope factors --dtype f32 --layers 1 --width 32 --heads 2 --kv-heads 1 --ff 32"),
           AKV_E_INCOMPAT, "rope_freqs.weight", "architecture qwen2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_qwen2),    cmocka_unit_test(test_qwen3),       cmocka_unit_test(test_gemma3),
        cmocka_unit_test(test_patterns), cmocka_unit_test(test_gemma3_keys), cmocka_unit_test(test_width_scale),
        cmocka_unit_test(test_linear),   cmocka_unit_test(test_yarn),        cmocka_unit_test(test_factors),
    };
    return cmocka_run_group_tests_name("arch", tests, temp_setup, temp_teardown);
}
