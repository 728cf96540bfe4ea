/* The tokenizer against reference ids and bytes, and its digest. */
#include "tok_rig.h"

#include "base/bytes.h"

/* Call fn for each line of a JSON Lines file under the shared directory; returns the number of lines, 0 when it is absent. */
static size_t each_line(const char *rel, void (*fn)(const struct rig *r, const json_t *line), const struct rig *r)
{
    const char *path = shared_file(rel);
    if (!path)
        return 0;
    size_t len, n = 0;
    char *text = rig_read(path, &len);
    for (char *line = text, *end; (end = memchr(line, '\n', len - (size_t)(line - text))) != NULL; line = end + 1, n++) {
        json_error_t why;
        json_t *v = json_loadb(line, (size_t)(end - line), JSON_ALLOW_NUL, &why);
        if (!v)
            fail_msg("%s: line %zu: %s", rel, n + 1, why.text);
        fn(r, v);
        json_decref(v);
    }
    free(text);
    return n;
}

static void load_ids(const json_t *list, struct akv_ids *ids)
{
    struct akv_err err = {0};
    ids->n = 0;
    for (size_t i = 0; i < json_array_size(list); i++)
        assert_ok(akv_ids_push(ids, (uint32_t)json_integer_value(json_array_get(list, i)), &err), &err);
}

static void check_encode(const struct rig *r, const json_t *line)
{
    const json_t *text = json_object_get(line, "text"), *special = json_object_get(line, "parse_special");
    const char *s = json_string_value(text);
    size_t len = json_string_length(text), n_lost;
    struct akv_ids want = {0}, got = {0};
    load_ids(json_object_get(line, "ids"), &want);
    rig_encode(r, s, len, !special || json_is_true(special) ? AKV_TOK_SPECIAL : 0, &got, &n_lost);
    long long id = (long long)json_integer_value(json_object_get(line, "id"));
    for (size_t i = 0; i < want.n && i < got.n; i++) {
        if (want.v[i] != got.v[i])
            fail_msg("text %lld: token %zu is %u, expected %u", id, i, got.v[i], want.v[i]);
    }
    if (want.n != got.n)
        fail_msg("text %lld: %zu tokens, expected %zu", id, got.n, want.n);
    if (n_lost && !json_is_true(json_object_get(line, "lossy")))
        fail_msg("text %lld: %zu bytes lost", id, n_lost);
    struct akv_buf back;
    akv_buf_init(&back, 0);
    rig_decode(r, &got, false, &back);
    bool same = back.len == len && memcmp(back.data, s, len) == 0;
    bool nfc = json_is_true(json_object_get(line, "nfc")) || json_object_get(line, "ids_without_nfc");
    if (same == (nfc || json_is_true(json_object_get(line, "lossy"))))
        fail_msg("text %lld: decoding %s the text", id, same ? "gives" : "does not give");
    akv_buf_release(&back);
    akv_ids_release(&want);
    akv_ids_release(&got);
}

static void check_bytes(const struct akv_buf *got, const json_t *hex, long long id)
{
    uint8_t want[65536];
    size_t n = json_string_length(hex) / 2;
    assert_true(n <= sizeof want);
    assert_true(akv_unhex(want, n, json_string_value(hex), 2 * n));
    if (got->len != n || memcmp(got->data, want, n) != 0)
        fail_msg("decode %lld: %zu bytes differ from the %zu expected", id, got->len, n);
}

static void check_decode(const struct rig *r, const json_t *line)
{
    struct akv_ids ids = {0};
    struct akv_buf got;
    akv_buf_init(&got, 0);
    long long id = (long long)json_integer_value(json_object_get(line, "id"));
    load_ids(json_object_get(line, "ids"), &ids);
    rig_decode(r, &ids, false, &got);
    check_bytes(&got, json_object_get(line, "hex"), id);
    rig_decode(r, &ids, true, &got);
    check_bytes(&got, json_object_get(line, "hex_skip_control"), id);
    akv_buf_release(&got);
    akv_ids_release(&ids);
}

static void check_golden(const char *name)
{
    struct rig r;
    char rel[256];
    if (!rig_open_golden(&r, name))
        skip();
    assert_null(r.warnings);
    snprintf(rel, sizeof rel, "golden/tokenizer/%s.jsonl", name);
    size_t n = each_line(rel, check_encode, &r);
    snprintf(rel, sizeof rel, "golden/tokenizer/%s.decode.jsonl", name);
    size_t n_decode = each_line(rel, check_decode, &r);
    print_message("%s: %zu texts, %zu decodings\n", name, n, n_decode);
    rig_close(&r);
    assert_true(n > 0 && n_decode > 0);
}

/* Every reference text of SmolLM2 gives the reference ids in both settings, and every id list the reference bytes. */
static void smollm2_golden(void **state)
{
    (void)state;
    check_golden("smollm2");
}

/* The same for Qwen 3: NFC, user-defined tokens. */
static void qwen3_golden(void **state)
{
    (void)state;
    check_golden("qwen3");
}

/* The same for Llama 3: whole pieces before merges. */
static void llama3_golden(void **state)
{
    (void)state;
    check_golden("llama3");
}

/* The same for DeepSeek V3: three cuts in turn. */
static void deepseek_v3_golden(void **state)
{
    (void)state;
    check_golden("deepseek_v3");
}

/* The same for gpt-oss: words by case, marks, 200,019 tokens. */
static void gptoss_golden(void **state)
{
    (void)state;
    check_golden("gptoss");
}

/* The same for Gemma 3: SentencePiece by scores, 262,145 tokens, runs of spaces, bytes. */
static void gemma3_golden(void **state)
{
    (void)state;
    check_golden("gemma3");
}

static void check_tiny(const char *model, const char *golden)
{
    struct rig r;
    const char *path = shared_file(model);
    if (!path)
        skip();
    assert_ok(rig_open(&r, path, NULL), &r.err);
    size_t n = each_line(golden, check_encode, &r);
    rig_close(&r);
    assert_true(n > 0);
}

/* A tiny vocabulary of 640 tokens with the smollm cut gives its reference ids. */
static void tiny_smollm(void **state)
{
    (void)state;
    check_tiny("golden/models/llama-tiny-f32.gguf", "golden/models/tokenizer-smollm.golden.jsonl");
    check_tiny("golden/models/gemma3-tiny-f32.gguf", "golden/models/tokenizer-smollm.golden.jsonl");
}

/* The same with the qwen2 cut and NFC. */
static void tiny_qwen2(void **state)
{
    (void)state;
    check_tiny("golden/models/qwen2-tiny-f32.gguf", "golden/models/tokenizer-qwen2.golden.jsonl");
}

static void check_prompt(const struct rig *r, const json_t *line)
{
    const json_t *text = json_object_get(line, "text");
    const char *s = json_string_value(text);
    struct akv_ids want = {0}, got = {0};
    size_t n_lost;
    if (!s)
        return;
    load_ids(json_object_get(line, "ids"), &want);
    unsigned bos = strncmp(s, "<bos>", 5) == 0 ? 0 : AKV_TOK_ADD_SPECIAL;
    rig_encode(r, s, json_string_length(text), AKV_TOK_SPECIAL | bos, &got, &n_lost);
    if (got.n != want.n || memcmp(got.v, want.v, got.n * sizeof *got.v) != 0)
        fail_msg("prompt %s: other ids", json_string_value(json_object_get(line, "seq")));
    akv_ids_release(&want);
    akv_ids_release(&got);
}

/* Whole prompts of Gemma 3 give the ids, bos first, that its numbers were computed from. */
static void gemma3_prompts(void **state)
{
    (void)state;
    struct rig r;
    if (!rig_open_golden(&r, "gemma3"))
        skip();
    assert_true(each_line("golden/models/real/gemma3-270m-q4_k_m.golden.jsonl", check_prompt, &r) > 0);
    rig_close(&r);
}

static void check_split(const struct rig *r, const json_t *line)
{
    if (strcmp(json_string_value(json_object_get(line, "tokenizer")), "smollm2") != 0)
        return;
    const json_t *text = json_object_get(line, "text");
    const char *s = json_string_value(text);
    size_t len = json_string_length(text), n_lost;
    struct akv_ids whole = {0}, a = {0}, b = {0};
    rig_encode(r, s, len, AKV_TOK_SPECIAL, &whole, &n_lost);
    for (int clean = 0; clean < 2; clean++) {
        const json_t *cuts = json_object_get(line, clean ? "clean" : "dirty");
        for (size_t i = 0; i < json_array_size(cuts); i++) {
            size_t cut = (size_t)json_integer_value(json_array_get(cuts, i));
            rig_encode(r, s, cut, AKV_TOK_SPECIAL, &a, &n_lost);
            rig_encode(r, s + cut, len - cut, AKV_TOK_SPECIAL, &b, &n_lost);
            bool same = a.n + b.n == whole.n && memcmp(a.v, whole.v, a.n * sizeof *a.v) == 0 &&
                        memcmp(b.v, whole.v + a.n, b.n * sizeof *b.v) == 0;
            if (same != (clean == 1))
                fail_msg("%s: cut at %zu is %s", s, cut, same ? "clean" : "dirty");
        }
    }
    akv_ids_release(&whole);
    akv_ids_release(&a);
    akv_ids_release(&b);
}

/* Texts cut in two are equal to the whole exactly where the reference says so. */
static void smollm2_splits(void **state)
{
    (void)state;
    struct rig r;
    if (!rig_open_golden(&r, "smollm2"))
        skip();
    assert_true(each_line("golden/tokenizer/splits.jsonl", check_split, &r) > 0);
    rig_close(&r);
}

/* Offsets ascend, begin each token's bytes, and concatenate to the text when it is not normalised. */
static void check_offsets(const struct rig *r, const json_t *line)
{
    const json_t *text = json_object_get(line, "text");
    const char *s = json_string_value(text);
    size_t len = json_string_length(text);
    struct akv_ids ids = {0}, at = {0};
    struct akv_err err = {0};
    struct akv_buf one;
    akv_buf_init(&one, 0);
    bool nfc = json_is_true(json_object_get(line, "nfc")), lossy = json_is_true(json_object_get(line, "lossy"));
    assert_ok(akv_tok_encode_offsets(r->tok, s, len, AKV_TOK_SPECIAL, &ids, &at, NULL, &err), &err);
    assert_int_equal(ids.n, at.n);
    for (size_t i = 0; i < ids.n; i++) {
        assert_true(at.v[i] < len && (i == 0 || at.v[i] >= at.v[i - 1]));
        akv_buf_clear(&one);
        assert_ok(akv_tok_decode(r->tok, &ids.v[i], 1, false, &one, &err), &err);
        if (!nfc)
            assert_true(one.data[0] == s[at.v[i]] || (one.data[0] == ' ' && memcmp(s + at.v[i], "\xe2\x96\x81", 3) == 0));
        if (!nfc && !lossy) {
            assert_true(at.v[i] + one.len <= len);
            assert_memory_equal(s + at.v[i], one.data, one.len);
            assert_int_equal(at.v[i] + one.len, i + 1 < ids.n ? at.v[i + 1] : len);
        }
    }
    akv_buf_release(&one);
    akv_ids_release(&ids);
    akv_ids_release(&at);
}

static void golden_offsets(void **state)
{
    (void)state;
    static const char *const names[] = {"smollm2", "qwen3", "gemma3"};
    for (size_t i = 0; i < 3; i++) {
        struct rig r;
        char rel[256];
        if (!rig_open_golden(&r, names[i]))
            skip();
        snprintf(rel, sizeof rel, "golden/tokenizer/%s.jsonl", names[i]);
        assert_true(each_line(rel, check_offsets, &r) > 0);
        rig_close(&r);
    }
}

/* bos, eos and the tokens that end generation are those of the files. */
static void golden_ends(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t bos, eos, eot;
        bool add_bos;
        const char *more; /* another token that ends generation */
    } want[] = {
        {"smollm2", 1, 2, 2, false, "<|endoftext|>"},           {"qwen3", 151643, 151645, 151645, false, "<|endoftext|>"},
        {"llama3", 128000, 128001, 128009, true, "<|eom_id|>"}, {"gptoss", 199998, 200002, 200007, false, "<|call|>"},
        {"gemma3", 2, 1, 106, true, "<end_of_turn>"},
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        struct rig r;
        if (!rig_open_golden(&r, want[i].name))
            skip();
        assert_int_equal(akv_tok_bos(r.tok), want[i].bos);
        assert_int_equal(akv_tok_eos(r.tok), want[i].eos);
        assert_int_equal(akv_tok_add_bos(r.tok), want[i].add_bos);
        assert_true(akv_tok_is_eog(r.tok, want[i].eos) && akv_tok_is_eog(r.tok, want[i].eot));
        uint32_t more = akv_tok_find(r.tok, want[i].more, strlen(want[i].more));
        assert_true(more == AKV_TOK_NONE || akv_tok_is_eog(r.tok, more));
        assert_false(akv_tok_is_eog(r.tok, 1000) || akv_tok_is_eog(r.tok, AKV_TOK_NONE));
        rig_close(&r);
    }
}

/* bos is added only on request, and one id is appended after what the list holds already. */
static void add_special(void **state)
{
    (void)state;
    struct rig r;
    if (!rig_open_golden(&r, "llama3"))
        skip();
    struct akv_ids ids = {0}, at = {0};
    size_t n_lost;
    rig_encode(&r, "Hi", 2, 0, &ids, &n_lost);
    assert_int_equal(ids.n, 1);
    assert_ok(akv_tok_encode_offsets(r.tok, "Hi", 2, AKV_TOK_ADD_SPECIAL, &ids, &at, NULL, &r.err), &r.err);
    assert_int_equal(ids.n, 3);
    assert_int_equal(ids.v[1], 128000);
    assert_int_equal(ids.v[2], ids.v[0]);
    assert_int_equal(at.n, 2);
    assert_int_equal(at.v[0] + at.v[1], 0);
    rig_encode(&r, "", 0, AKV_TOK_ADD_SPECIAL, &ids, &n_lost);
    assert_int_equal(ids.n, 1);
    akv_ids_release(&ids);
    akv_ids_release(&at);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(smollm2_golden),     cmocka_unit_test(qwen3_golden),   cmocka_unit_test(llama3_golden),
        cmocka_unit_test(deepseek_v3_golden), cmocka_unit_test(gptoss_golden),  cmocka_unit_test(gemma3_golden),
        cmocka_unit_test(tiny_smollm),        cmocka_unit_test(tiny_qwen2),     cmocka_unit_test(gemma3_prompts),
        cmocka_unit_test(smollm2_splits),     cmocka_unit_test(golden_offsets), cmocka_unit_test(golden_ends),
        cmocka_unit_test(add_special),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
