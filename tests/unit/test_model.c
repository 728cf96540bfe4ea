/* Loading models: hyperparameters, what is refused and why, templates, and the collection of malformed files. */
#include "tests/unit/model_rig.h"

#include <sys/mman.h>

/* Hyperparameters and tensors of the test model are what it was made with, separate output or tied. */
static void test_hparams(void **state)
{
    (void)state;
    struct akv_model *m = load(make_model("m.gguf", "--layers 3 --width 64 --heads 4 --kv-heads 2 --ff 96 --ctx 512"), 0);
    const struct akv_hparams *hp = &m->hp;
    assert_null(m->warnings);
    assert_string_equal(m->arch->name, "llama");
    assert_int_equal(hp->n_layers, 3);
    assert_int_equal(hp->n_embd, 64);
    assert_int_equal(hp->n_ff, 96);
    assert_int_equal(hp->n_heads, 4);
    assert_int_equal(hp->n_kv_heads, 2);
    assert_int_equal(hp->dim_k, 16);
    assert_int_equal(hp->dim_v, 16);
    assert_int_equal(hp->n_rot, 16);
    assert_int_equal(hp->n_ctx_train, 512);
    assert_int_equal(hp->n_vocab, akv_tok_n_vocab(m->tok));
    assert_true(hp->rope_base == 10000.0F && hp->rms_eps == 1e-5F && hp->rope_style == AKV_ROPE_PAIRS);
    assert_int_equal(m->layers[2].down->ne[0], 96);
    assert_ptr_not_equal(m->output, m->embd);
    akv_model_unload(m);
    m = load(make_model("m.gguf", SMALL " --tied"), 0);
    assert_ptr_equal(m->output, m->embd);
    akv_model_unload(m);
}

/* Optional keys may be absent: the format's defaults hold (another key's name keeps the file's shape). */
static void test_defaults(void **state)
{
    static const char *const optional[][2] = {{"llama.rope.freq_base", "llama.rope.freq_basX"},
                                              {"llama.rope.dimension_count", "llama.rope.dimension_counX"},
                                              {"llama.vocab_size", "llama.vocab_sizX"}};
    (void)state;
    for (size_t i = 0; i < sizeof optional / sizeof *optional; i++) {
        struct akv_model *m = load(model_with_text(SMALL, optional[i][0], optional[i][1]), 0);
        assert_int_equal(m->hp.n_rot, 16);
        assert_true(m->hp.rope_base == 10000.0F);
        assert_int_equal(m->hp.n_vocab, akv_tok_n_vocab(m->tok));
        akv_model_unload(m);
    }
    /* without its own key, every query head has its kv head: the tensors no longer fit */
    refuse(model_with_text(SMALL, "llama.attention.head_count_kv", "llama.attention.head_count_kX"), AKV_E_INPUT, "attn_k.weight",
           "shape");
    refuse(model_with_text(SMALL, "llama.context_length", "llama.context_lengtX"), AKV_E_INPUT, "llama.context_length", "missing");
}

/* Hyperparameters out of range, or at odds with each other or with the tensors, are refused by key or tensor. */
static void test_hparam_rules(void **state)
{
    static const struct {
        const char *key;
        uint32_t bits;
        const char *names, *word;
    } cases[] = {
        {".block_count", 0, "llama.block_count", "must be 1 to 1024"},
        {".block_count", UINT32_MAX, "llama.block_count", "must be 1 to 1024"},
        {".block_count", 2, "blk.1.attn_norm.weight", "missing"},
        {".context_length", 0, "llama.context_length", "at least 1"},
        {".embedding_length", 64, "token_embd.weight", "shape 32x384"},
        {".feed_forward_length", 96, "blk.0.ffn_gate.weight", "shape 32x64"},
        {".attention.head_count", 0, "llama.attention.head_count", "must be 1"},
        {".attention.head_count", 3, "llama.attention.head_count", "3 heads do not divide"},
        {".attention.head_count_kv", 0, "llama.attention.head_count_kv", "must be 1"},
        {".attention.head_count_kv", 3, "llama.attention.head_count_kv", "does not divide"},
        {".rope.dimension_count", 15, "llama.rope.dimension_count", "must be even"},
        {".rope.dimension_count", 18, "llama.rope.dimension_count", "head size of 16"},
        {".rope.freq_base", 0, "llama.rope.freq_base", "greater than 0"},
        {".rope.freq_base", 0x7f800000, "llama.rope.freq_base", "finite"},
        {".attention.layer_norm_rms_epsilon", 0x7fc00000, "layer_norm_rms_epsilon", "finite"},
        {".attention.layer_norm_rms_epsilon", 0xb727c5ac, "layer_norm_rms_epsilon", "greater than 0"},
        {".vocab_size", 383, "token_embd.weight", "shape 32x384"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct akv_buf file;
        char key[96];
        const char *path = make_model("rule.gguf", SMALL);
        read_whole(path, &file);
        uint32_t type = strstr(cases[i].key, "freq") || strstr(cases[i].key, "eps") ? AKV_GGUF_F32 : AKV_GGUF_U32;
        snprintf(key, sizeof key, "llama%s%c", cases[i].key, (int)type); /* the type's first byte tells a key from a longer one */
        akv_put_u32(behind_text(&file, key) + 3, cases[i].bits);
        write_whole(path, file.data, file.len);
        akv_buf_release(&file);
        refuse(path, AKV_E_INPUT, cases[i].names, cases[i].word);
    }
}

/* Embeddings for another number of tokens than the tokenizer has are refused. */
static void test_vocab_size(void **state)
{
    static const char *const matrices[] = {"token_embd.weight", "output.weight"};
    struct akv_buf file;
    (void)state;
    const char *path = make_model("rows.gguf", SMALL);
    read_whole(path, &file);
    akv_put_u32(behind_text(&file, "llama.vocab_size") + 4, 383);
    for (size_t i = 0; i < 2; i++)
        akv_put_u64(behind_text(&file, matrices[i]) + 4 + 8, 383);
    write_whole(path, file.data, file.len);
    akv_buf_release(&file);
    refuse(path, AKV_E_INPUT, "384 tokens", "rows for 383");
}

/* Every weight type with kernels loads; others are refused by tensor and type, but not when only the vocabulary is wanted. */
static void test_dtypes(void **state)
{
    char options[96];
    (void)state;
    for (int t = 0; t < AKV_DTYPES; t++) {
        char name[16] = "";
        if (!akv_dtypes[t].runs)
            continue;
        for (size_t i = 0; akv_dtypes[t].name[i]; i++)
            name[i] = (char)(akv_dtypes[t].name[i] | (akv_dtypes[t].name[i] >= 'A' && akv_dtypes[t].name[i] <= 'Z' ? 32 : 0));
        snprintf(options, sizeof options, "--layers 1 --width 256 --ff 256 --dtype %s", name);
        akv_model_unload(load(make_model("m.gguf", options), 0));
    }
    struct akv_buf file;
    const char *path = make_model("m.gguf", SMALL);
    read_whole(path, &file);
    akv_put_u32(behind_text(&file, "blk.0.ffn_up.weight") + 4 + 16, 24);
    write_whole(path, file.data, file.len);
    akv_buf_release(&file);
    refuse(path, AKV_E_INCOMPAT, "blk.0.ffn_up.weight", "I8");
    akv_model_unload(load(path, AKV_MODEL_VOCAB_ONLY));
}

/* An architecture that is not built in is named with those that are; a recurrent one, known by name or keys, with the reason. */
static void test_architectures(void **state)
{
    static const uint32_t four = 4;
    (void)state;
    refuse(make_model("m.gguf", SMALL " --arch qwen9"), AKV_E_INCOMPAT, "architecture qwen9",
           "supported: llama, qwen2, qwen3, gemma3");
    refuse(make_model("m.gguf", SMALL " --arch mamba2"), AKV_E_INCOMPAT, "architecture mamba2", "recurrent");
    struct akv_buf file, keys;
    read_whole(make_model("m.gguf", SMALL " --arch newmix"), &file);
    akv_buf_init(&keys, 0);
    put_key(&keys, "newmix.ssm.conv_kernel", AKV_GGUF_U32);
    akv_buf_put_u32(&keys, four);
    insert_keys(&file, &keys, 1);
    const char *path = temp_path("mix.gguf");
    write_whole(path, file.data, file.len);
    akv_buf_release(&keys);
    akv_buf_release(&file);
    refuse(path, AKV_E_INCOMPAT, "architecture newmix", "recurrent");
    struct akv_model *m = load(path, AKV_MODEL_VOCAB_ONLY);
    assert_null(m->arch);
    akv_model_unload(m);
}

/* A file without tensors is enough for the vocabulary, and only for that. */
static void test_vocab_only(void **state)
{
    (void)state;
    const char *path = make_model("v.gguf", "--vocab-only");
    struct akv_model *m = load(path, AKV_MODEL_VOCAB_ONLY);
    assert_true(akv_tok_n_vocab(m->tok) > 256);
    uint8_t digest[AKV_SHA_BYTES];
    struct akv_pool *pool = NULL;
    assert_int_equal(akv_pool_open(&pool, 1, NULL), 0);
    assert_int_equal(akv_model_digest(m, pool, NULL, digest, NULL), AKV_E_USAGE);
    akv_pool_close(pool);
    akv_model_unload(m);
    refuse(path, AKV_E_INPUT, "token_embd.weight", "missing");
}

/* Keys that select another computation are refused by name, unless their value changes nothing. */
static void test_variants(void **state)
{
    static const struct {
        const char *key;
        uint32_t type;
        const char *value; /* little-endian bytes */
        size_t n;
        bool runs;
    } cases[] = {
        {"llama.rope.scaling.alpha", AKV_GGUF_F32, "\0\0\0\100", 4, false},
        {"llama.rope.scaling.yarn_log_multiplier", AKV_GGUF_F32, "\0\0\0\100", 4, false},
        {"llama.rope.scaling.yarn_log_multiplier", AKV_GGUF_F32, "\0\0\0\0", 4, true},
        {"llama.rope.scaling.finetuned", AKV_GGUF_BOOL, "\1", 1, true},
        {"llama.rope.dimension_sections", AKV_GGUF_ARRAY, "\4\0\0\0\0\0\0\0\0\0\0\0", 12, false},
        {"llama.expert_count", AKV_GGUF_U32, "\10\0\0\0", 4, false},
        {"llama.expert_count", AKV_GGUF_U32, "\0\0\0\0", 4, true},
        {"llama.attention.sliding_window", AKV_GGUF_U32, "\0\20\0\0", 4, false},
        {"llama.attention.sliding_window", AKV_GGUF_U32, "\0\0\0\0", 4, true},
        {"llama.final_logit_softcapping", AKV_GGUF_F32, "\0\0\0\100", 4, false},
        {"llama.attn_logit_softcapping", AKV_GGUF_F32, "\0\0\0\100", 4, false},
        {"llama.attention.causal", AKV_GGUF_BOOL, "\0", 1, false},
        {"llama.attention.causal", AKV_GGUF_BOOL, "\1", 1, true},
        {"split.count", AKV_GGUF_U16, "\1\0", 2, true},
        {"other.rope.scaling.type", AKV_GGUF_U8, "\1", 1, true},
        {"llama.harmless", AKV_GGUF_U8, "\1", 1, true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *path = model_with_key(cases[i].key, cases[i].type, cases[i].value, cases[i].n);
        if (cases[i].runs)
            akv_model_unload(load(path, 0));
        else
            refuse(path, AKV_E_INCOMPAT, cases[i].key, "not supported yet");
    }
}

/* A tensor that nothing uses: a warning outside the layers; inside, as a bias or as RoPE factors it would change the answer. */
static void test_extra_tensors(void **state)
{
    (void)state;
    struct akv_model *m = load(model_with_text(SMALL, "output.weight", "outpux.weight"), 0);
    assert_non_null(m->warnings);
    assert_non_null(strstr(m->warnings, "outpux.weight"));
    akv_model_unload(m);
    refuse(model_with_text(SMALL, "output.weight", "outputxx.bias"), AKV_E_INCOMPAT, "outputxx.bias", "not a part");
    refuse(model_with_text(SMALL, "output.weight", "rope_freqs.wt"), AKV_E_INCOMPAT, "rope_freqs.wt", "RoPE");
    refuse(model_with_text(SMALL, "output.weight", "blk.0.surplus"), AKV_E_INCOMPAT, "blk.0.surplus", "not a part");
    refuse(model_with_text(SMALL, "blk.0.ffn_up.weight", "blk.0.ffn_uq.weight"), AKV_E_INPUT, "blk.0.ffn_up.weight", "missing");
}

/* A norm weight that is no number is found at load and named. */
static void test_norm_nan(void **state)
{
    (void)state;
    const char *path = make_model("nan.gguf", SMALL);
    struct akv_model *m = load(path, 0);
    uint64_t at = m->layers[0].ffn_norm->offset + 4 * 5;
    akv_model_unload(m);
    int fd = open(path, O_WRONLY);
    assert_int_equal(pwrite(fd, "\0\0\xc0\x7f", 4, (off_t)at), 4);
    close(fd);
    refuse(path, AKV_E_INPUT, "blk.0.ffn_norm.weight", "value 5 is not finite");
}

/* The template is the model's text; a named one is found by its name; none is none. */
static void test_template(void **state)
{
    struct akv_str t = {0};
    (void)state;
    struct akv_model *m = load(model_with_key("tokenizer.chat_template.tool_use", AKV_GGUF_STRING, "\2\0\0\0\0\0\0\0hi", 10), 0);
    assert_int_equal(akv_model_template(m, NULL, &t), 1);
    assert_non_null(memmem(t.s, t.len, "add_generation_prompt", 21));
    assert_int_equal(akv_model_template(m, "tool_use", &t), 1);
    assert_true(akv_str_is(t, "hi"));
    assert_int_equal(akv_model_template(m, "rag", &t), 0);
    akv_model_unload(m);
    m = load(model_with_text(SMALL, "tokenizer.chat_template", "tokenizer.chat_templatX"), 0);
    assert_int_equal(akv_model_template(m, NULL, &t), 0);
    akv_model_unload(m);
}

/* A bit of every byte of the metadata flipped in turn: a model or an error, never a crash, also for the vocabulary alone. */
static void test_flipped(void **state)
{
    (void)state;
    const char *path = make_model("flip.gguf", SMALL);
    struct akv_model *m = load(path, 0);
    size_t end = (size_t)m->gguf.data_offset, size = m->gguf.map.size;
    akv_model_unload(m);
    int fd = open(path, O_RDWR);
    uint8_t *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(fd >= 0 && p != MAP_FAILED);
    for (size_t i = 0; i < end; i++) {
        uint8_t bit = (uint8_t)(1u << i % 8);
        struct akv_err err = {0};
        p[i] ^= bit;
        int rc = akv_model_load(&m, path, i % 2 ? AKV_MODEL_VOCAB_ONLY : 0, &err);
        if (rc == 0)
            akv_model_unload(m);
        else
            assert_true(rc == err.code && err.msg[0]);
        p[i] ^= bit;
    }
    munmap(p, size);
    close(fd);
}

/* One row of the index of malformed files. */
static void check_malformed(const char *path, const char *expected)
{
    struct akv_model *m = NULL;
    struct akv_err err = {0};
    int rc = akv_model_load(&m, path, 0, &err);
    bool said = rc < 0 ? strlen(err.msg) > strlen(path) + 2 && !strncmp(err.msg, path, strlen(path)) : m->warnings != NULL;
    /* what shows only when the template is parsed, or the weights are multiplied */
    bool later = strstr(path, "template-broken") || strstr(path, "weights-inf");
    if (!strcmp(expected, "ok") ? rc < 0 || said : !strcmp(expected, "reject") ? rc >= 0 || !said : !said && !later)
        fail_msg("%s: expected %s, got %d '%s'", path, expected, rc, rc < 0 ? err.msg : said ? m->warnings : "");
    akv_model_unload(m);
}

/* Every malformed file of the collection is refused, or loaded with a warning, as its index says; messages begin with the path. */
static void test_malformed(void **state)
{
    (void)state;
    char line[512], file[256], expected[16], path[512];
    const char *index = shared_file("golden/models/bad/INDEX.tsv");
    FILE *f = index ? fopen(index, "r") : NULL;
    if (!f)
        skip();
    size_t n = 0;
    for (; fgets(line, sizeof line, f); n++) {
        assert_int_equal(sscanf(line, "%255[^\t]\t%*[^\t]\t%15[^\n]", file, expected), 2);
        snprintf(path, sizeof path, "golden/models/bad/%s", file);
        const char *full = shared_file(path);
        assert_non_null(full);
        check_malformed(full, expected);
    }
    fclose(f);
    assert_true(n > 90);
}

/* The demo model opens with the hyperparameters that its makers publish, and without a warning. */
static void test_demo_model(void **state)
{
    (void)state;
    if (!demo_model())
        skip();
    struct akv_model *m = load(demo_model(), 0);
    if (m->hp.n_layers == 30 && m->hp.n_embd == 576) {
        assert_int_equal(m->hp.n_heads, 9);
        assert_int_equal(m->hp.n_kv_heads, 3);
        assert_int_equal(m->hp.dim_k, 64);
        assert_int_equal(m->hp.n_vocab, 49152);
        assert_int_equal(m->hp.n_ctx_train, 8192);
        assert_true(m->hp.rope_base == 100000.0F);
        assert_ptr_equal(m->output, m->embd);
        assert_null(m->warnings);
    }
    akv_model_unload(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hparams),    cmocka_unit_test(test_defaults),   cmocka_unit_test(test_hparam_rules),
        cmocka_unit_test(test_vocab_size), cmocka_unit_test(test_dtypes),     cmocka_unit_test(test_architectures),
        cmocka_unit_test(test_vocab_only), cmocka_unit_test(test_variants),   cmocka_unit_test(test_extra_tensors),
        cmocka_unit_test(test_norm_nan),   cmocka_unit_test(test_template),   cmocka_unit_test(test_flipped),
        cmocka_unit_test(test_malformed),  cmocka_unit_test(test_demo_model),
    };
    return cmocka_run_group_tests_name("model", tests, temp_setup, temp_teardown);
}
