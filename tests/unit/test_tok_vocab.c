/* The tokenizer's reading of a file: damaged and odd vocabularies, added tokens, ends, digest. All files are made here. */
#include "tok_rig.h"

#include "base/hash.h"
#include "model/tok_vocab.h"

#define G "tokenizer.ggml."

/* A vocabulary of the printable ASCII bytes and the given tokens after them; types: one digit a token given. */
struct odd {
    const char *model, *pre;
    const char *tokens[8], *types;
    const char *merges[8];
    size_t n_merges;
    bool no_merges, no_types;
};

static void put_tokens(struct rig_file *f, const struct odd *o)
{
    size_t n = 0;
    while (n < 8 && o->tokens[n])
        n++;
    rig_array(f, G "tokens", AKV_GGUF_STRING, 94 + n);
    for (char c = '!'; c <= '~'; c++)
        rig_put_str(f, &c, 1);
    for (size_t i = 0; i < n; i++)
        rig_put_str(f, o->tokens[i], strlen(o->tokens[i]));
    if (o->no_types)
        return;
    rig_array(f, G "token_type", AKV_GGUF_I32, 94 + n);
    for (size_t i = 0; i < 94 + n; i++)
        akv_buf_put_u32(&f->b, i < 94 || !o->types ? 1 : (uint32_t)(o->types[i - 94] - '0'));
}

static void begin(struct rig_file *f, const struct odd *o)
{
    rig_file_begin(f);
    rig_str(f, G "model", o->model ? o->model : "gpt2");
    rig_str(f, G "pre", o->pre ? o->pre : "smollm");
    put_tokens(f, o);
    if (!o->no_merges)
        rig_strs(f, G "merges", o->merges, o->n_merges);
}

static void open_good(struct rig *r, const struct odd *o)
{
    struct rig_file f;
    begin(&f, o);
    assert_ok(rig_file_open(r, &f, NULL), &r->err);
}

static void expect_ids(const struct rig *r, const char *s, unsigned flags, size_t n, const uint32_t *want)
{
    struct akv_ids ids = {0};
    size_t n_lost;
    rig_encode(r, s, strlen(s), flags, &ids, &n_lost);
    assert_int_equal(ids.n, n);
    if (n)
        assert_memory_equal(ids.v, want, n * sizeof *want);
    akv_ids_release(&ids);
}
#define EXPECT(r, s, flags, ...) expect_ids(r, s, flags, sizeof((uint32_t[]){__VA_ARGS__}) / 4, (const uint32_t[]){__VA_ARGS__})

enum { BYTE_A = 'a' - '!', FIRST = 94 };

/* Every reference file with a damaged tokenizer is refused, and every odd one opens with a warning or is refused. */
static void damaged_files(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int code; /* 0: opens with a warning */
        const char *says;
    } files[] = {
        {"missing-tokens", AKV_E_INPUT, "tokenizer.ggml.tokens"},
        {"missing-merges", AKV_E_INPUT, "tokenizer.ggml.merges"},
        {"missing-model", AKV_E_INPUT, "tokenizer.ggml.model"},
        {"tokens-type", AKV_E_INPUT, "tokenizer.ggml.tokens"},
        {"token-types-fewer", AKV_E_INPUT, "tokenizer.ggml.token_type"},
        {"tokenizer-unknown", AKV_E_INCOMPAT, "tokenizer.ggml.model"},
        {"pre-unknown", AKV_E_INCOMPAT, "tokenizer.ggml.pre"},
        {"token-duplicate", 0, "repeat"},
        {"bos-overlarge", 0, "bos_token_id"},
        {"eos-negative", 0, "eos_token_id"},
        {"merge-unknown", 0, "no token"},
        {"merge-no-space", 0, "no space"},
        {"merge-empty-left", 0, "empty side"},
        {"merge-duplicate", 0, "repeat"},
        {"ok-nano", 0, NULL},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct rig r;
        char rel[256];
        snprintf(rel, sizeof rel, "golden/models/bad/%s.gguf", files[i].name);
        const char *path = shared_file(rel);
        if (!path)
            skip();
        int rc = rig_open(&r, path, NULL);
        if (rc != files[i].code)
            fail_msg("%s: %d instead of %d: %s", files[i].name, rc, files[i].code, r.err.msg);
        const char *text = rc < 0 ? r.err.msg : r.warnings;
        if (!files[i].says)
            assert_null(text);
        else if (!text || !strstr(text, files[i].says))
            fail_msg("%s: '%s' does not say %s", files[i].name, text ? text : "", files[i].says);
        if (rc == 0) {
            struct akv_ids ids = {0};
            size_t n_lost;
            rig_encode(&r, "abab a b", 8, AKV_TOK_SPECIAL, &ids, &n_lost);
            akv_ids_release(&ids);
        }
        rig_close(&r);
    }
}

/* Another model or pre-tokenizer is refused as incompatible with its name and the known ones; --pre's name is used instead. */
static void unknown_names(void **state)
{
    (void)state;
    struct rig r;
    struct rig_file f;
    begin(&f, &(struct odd){.model = "bert"});
    assert_int_equal(rig_file_open(&r, &f, NULL), AKV_E_INCOMPAT);
    assert_non_null(strstr(r.err.msg, "'bert'"));
    assert_non_null(strstr(r.err.msg, "gpt2, llama"));
    rig_close(&r);

    begin(&f, &(struct odd){.pre = "nobody\n"});
    assert_int_equal(rig_file_open(&r, &f, NULL), AKV_E_INCOMPAT);
    assert_non_null(strstr(r.err.msg, "'nobody?'"));
    assert_non_null(strstr(r.err.msg, "smollm, "));
    assert_non_null(strstr(r.err.msg, "--pre NAME"));
    rig_close(&r);

    begin(&f, &(struct odd){.pre = "nobody"});
    assert_ok(rig_file_open(&r, &f, "gpt-2"), &r.err);
    assert_string_equal(akv_tok_pre(r.tok), "gpt-2");
    rig_close(&r);

    begin(&f, &(struct odd){0});
    assert_int_equal(rig_file_open(&r, &f, "nobody"), AKV_E_INCOMPAT);
    rig_close(&r);

    rig_file_begin(&f);
    rig_str(&f, G "model", "gpt2");
    put_tokens(&f, &(struct odd){0});
    rig_strs(&f, G "merges", NULL, 0);
    assert_ok(rig_file_open(&r, &f, NULL), &r.err);
    assert_string_equal(akv_tok_pre(r.tok), "default");
    assert_non_null(strstr(r.warnings, "tokenizer.ggml.pre"));
    rig_close(&r);
}

/* Merges that mean nothing are ignored, the others work; a merge may not make an added token. */
static void odd_merges(void **state)
{
    (void)state;
    struct rig r;
    open_good(&r, &(struct odd){.tokens = {"ab", "abc", "<x>", "cd"},
                                .types = "1131",
                                .merges = {"ab", " b", "a ", "a b", "a b", "ab c", "<x >", "c d"},
                                .n_merges = 8});
    assert_non_null(strstr(r.warnings, "merges: 1 entries have no space and are ignored (first: number 0)"));
    assert_non_null(strstr(r.warnings, "merges: 2 entries have an empty side and are ignored (first: number 1)"));
    assert_non_null(strstr(r.warnings, "merges: 1 entries repeat an earlier one and are ignored (first: number 4)"));
    assert_non_null(strstr(r.warnings, "merges: 1 entries name or make a text that is no token and are ignored (first: number 6)"));
    EXPECT(&r, "abcd", 0, FIRST + 1, BYTE_A + 3); /* "a b" and "ab c" come before "c d" */
    EXPECT(&r, "cd", 0, FIRST + 3);
    rig_close(&r);
}

/* Added tokens: the longest wins, control ones only on request, user-defined ones always; ordinary text between them is encoded. */
static void added_tokens(void **state)
{
    (void)state;
    struct rig r;
    open_good(&r, &(struct odd){.tokens = {"<a", "<ab>", "<a>", "<u>", "<u><u>", "<?>"}, .types = "333442", .n_merges = 0});
    assert_null(r.warnings);
    EXPECT(&r, "<ab>", AKV_TOK_SPECIAL, FIRST + 1);
    EXPECT(&r, "<a>b", AKV_TOK_SPECIAL, FIRST + 2, BYTE_A + 1);
    EXPECT(&r, "<ab", AKV_TOK_SPECIAL, FIRST, BYTE_A + 1);
    EXPECT(&r, "b<a", AKV_TOK_SPECIAL, BYTE_A + 1, FIRST);
    EXPECT(&r, "<u><u><u>", 0, FIRST + 4, FIRST + 3);
    EXPECT(&r, "<?>", AKV_TOK_SPECIAL, FIRST + 5);
    EXPECT(&r, "<a>", 0, '<' - '!', BYTE_A, '>' - '!');
    EXPECT(&r, "<<a<", AKV_TOK_SPECIAL, '<' - '!', FIRST, '<' - '!');
    assert_int_equal(akv_tok_find(r.tok, "<ab>", 4), FIRST + 1);
    assert_int_equal(akv_tok_find(r.tok, "<ab", 3), AKV_TOK_NONE);
    assert_int_equal(akv_tok_find(r.tok, "", 0), AKV_TOK_NONE);
    assert_int_equal(akv_tok_find(r.tok, "a", 1), AKV_TOK_NONE);
    assert_true(akv_tok_is_control(r.tok, FIRST));
    assert_false(akv_tok_is_control(r.tok, FIRST + 3) || akv_tok_is_control(r.tok, FIRST + 100));
    rig_close(&r);
}

/* Bytes without a token are dropped and counted, and what is left beside them merges. */
static void lost_bytes(void **state)
{
    (void)state;
    struct rig r;
    struct akv_ids ids = {0}, at = {0};
    size_t n_lost = 5;
    open_good(&r, &(struct odd){.tokens = {"ab"}, .merges = {"a b"}, .n_merges = 1});
    assert_ok(akv_tok_encode_offsets(r.tok,
                                     "xa\x06"
                                     "b\xff"
                                     "a",
                                     6, 0, &ids, &at, &n_lost, &r.err),
              &r.err);
    assert_int_equal(n_lost, 7);
    static const uint32_t want[] = {'x' - '!', BYTE_A, BYTE_A + 1, BYTE_A}, want_at[] = {0, 1, 3, 5};
    assert_int_equal(ids.n, 4);
    assert_memory_equal(ids.v, want, sizeof want); /* U+0006 is a piece of its own: a and b do not meet */
    assert_memory_equal(at.v, want_at, sizeof want_at);
    ids.n = at.n = n_lost = 0;
    assert_ok(akv_tok_encode_offsets(r.tok, "\xc3\xa9", 2, 0, &ids, &at, &n_lost, &r.err), &r.err);
    assert_true(ids.n == 0 && at.n == 0 && n_lost == 2);
    akv_ids_release(&ids);
    akv_ids_release(&at);
    rig_close(&r);
}

/* Without token_type all tokens are ordinary; a text outside the byte alphabet stands for itself; a bad id changes nothing. */
static void decoding(void **state)
{
    (void)state;
    struct rig r;
    struct akv_buf out;
    akv_buf_init(&out, 0);
    open_good(&r, &(struct odd){.tokens = {"\xc4\xa0"
                                           "a",
                                           "\xe4\xb8\x80", "<x>"},
                                .no_types = true});
    const uint32_t ids[] = {FIRST, FIRST + 1, FIRST + 2}, bad[] = {FIRST, 97};
    assert_ok(akv_tok_decode(r.tok, ids, 3, true, &out, &r.err), &r.err);
    assert_string_equal(out.data, " a\xe4\xb8\x80<x>");
    assert_int_equal(akv_tok_decode(r.tok, bad, 2, false, &out, &r.err), AKV_E_INPUT);
    assert_string_equal(out.data, " a\xe4\xb8\x80<x>");
    EXPECT(&r, "<x>", AKV_TOK_SPECIAL, '<' - '!', 'x' - '!', '>' - '!');
    akv_buf_release(&out);
    rig_close(&r);
}

static void expect_eog(const struct rig *r, const char *want)
{
    for (uint32_t i = 0; want[i]; i++)
        assert_int_equal(akv_tok_is_eog(r->tok, FIRST + i), want[i] == '1');
}

/* What ends generation: the ids that the file names, and well-known markers when they are control tokens. */
static void ends(void **state)
{
    (void)state;
    struct rig r;
    struct rig_file f;
    struct odd o = {.tokens = {"<|im_end|>", "</s>", "<|x|>", "<|end|>", "<|call|>"}, .types = "31333"};
    begin(&f, &o);
    rig_u32(&f, G "eos_token_id", FIRST + 2);
    rig_u32(&f, G "bos_token_id", 0);
    assert_ok(rig_file_open(&r, &f, NULL), &r.err);
    expect_eog(&r, "10111");
    assert_true(akv_tok_bos(r.tok) == 0 && akv_tok_eos(r.tok) == FIRST + 2 && !akv_tok_add_bos(r.tok));
    rig_close(&r);

    o = (struct odd){.tokens = {"<|return|>", "<|end|>", "<|call|>"}, .types = "333"};
    begin(&f, &o);
    assert_ok(rig_file_open(&r, &f, NULL), &r.err);
    expect_eog(&r, "101");
    assert_true(akv_tok_eos(r.tok) == AKV_TOK_NONE && akv_tok_bos(r.tok) == AKV_TOK_NONE);
    rig_close(&r);

    begin(&f, &o);
    rig_u32(&f, G "eot_token_id", FIRST + 1);
    assert_ok(rig_file_open(&r, &f, NULL), &r.err);
    expect_eog(&r, "111");
    rig_close(&r);

    begin(&f, &o);
    rig_str(&f, G "eos_token_id", "2");
    assert_int_equal(rig_file_open(&r, &f, NULL), AKV_E_INPUT);
    assert_non_null(strstr(r.err.msg, "eos_token_id"));
    rig_close(&r);
}

/* eos is added where the file says so; bos cannot be where there is none, with a word about it. */
static void added_ends(void **state)
{
    (void)state;
    struct rig r;
    struct rig_file f;
    begin(&f, &(struct odd){0});
    rig_u32(&f, G "eos_token_id", 7);
    rig_key(&f, G "add_eos_token", AKV_GGUF_BOOL);
    akv_buf_putc(&f.b, 1);
    rig_key(&f, G "add_bos_token", AKV_GGUF_BOOL);
    akv_buf_putc(&f.b, 1);
    assert_ok(rig_file_open(&r, &f, NULL), &r.err);
    EXPECT(&r, "a", AKV_TOK_ADD_SPECIAL, BYTE_A, 7);
    EXPECT(&r, "a", 0, BYTE_A);
    assert_false(akv_tok_add_bos(r.tok));
    assert_non_null(strstr(r.warnings, "no bos token"));
    rig_close(&r);
}

/* A vocabulary whose texts all fall on one slot of the hash table is refused instead of being read slowly. */
static void collisions(void **state)
{
    (void)state;
    enum { N = 600 };
    struct rig r;
    struct rig_file f;
    const uint32_t n_slots = N + N / 2 + 16;
    rig_file_begin(&f);
    rig_str(&f, G "model", "gpt2");
    rig_str(&f, G "pre", "smollm");
    rig_array(&f, G "tokens", AKV_GGUF_STRING, N);
    for (uint32_t i = 0, n = 0; n < N; i++) {
        if (akv_tok_slot(akv_tokname_of((const char *)&i, sizeof i).hash, n_slots) < 8) {
            rig_put_str(&f, (const char *)&i, sizeof i);
            n++;
        }
    }
    rig_strs(&f, G "merges", NULL, 0);
    assert_int_equal(rig_file_open(&r, &f, NULL), AKV_E_INPUT);
    assert_non_null(strstr(r.err.msg, "collide"));
    rig_close(&r);
}

static void open_digest(uint8_t digest[AKV_SHA_BYTES], const char *eos, const char *template, bool swapped, const char *pre)
{
    struct rig r;
    struct rig_file f;
    const char *one = "x";
    rig_file_begin(&f);
    rig_str(&f, "general.name", template);
    if (!swapped)
        rig_str(&f, G "model", "gpt2");
    rig_strs(&f, G "tokens", &one, 1);
    rig_strs(&f, G "merges", NULL, 0);
    rig_str(&f, "tokenizer.chat_template", template);
    rig_str(&f, "tokenizer.chat_template.tool_use", template);
    rig_str(&f, G "pre", "smollm");
    if (swapped)
        rig_str(&f, G "model", "gpt2");
    rig_str(&f, "tokenizer.note", eos);
    assert_ok(rig_file_open(&r, &f, pre), &r.err);
    memcpy(digest, akv_tok_digest(r.tok), AKV_SHA_BYTES);
    rig_close(&r);
}

static void field_of(struct akv_sha *sha, const char *key, const char *type, const void *value, size_t n)
{
    akv_sha_field(sha, key, strlen(key));
    akv_sha_field(sha, type, strlen(type));
    akv_sha_field(sha, value, n);
}

/* The digest is what tok.h says, byte for byte, whatever the order of the keys and the templates. */
static void digest(void **state)
{
    (void)state;
    uint8_t want[AKV_SHA_BYTES], got[AKV_SHA_BYTES];
    struct akv_err err = {0};
    struct akv_sha sha;
    akv_sha_begin(&sha);
    field_of(&sha, G "merges", "9", "\x08\0\0\0\0\0\0\0\0\0\0\0", 12);
    field_of(&sha, G "model", "8", "\x04\0\0\0\0\0\0\0gpt2", 12);
    field_of(&sha, G "pre", "8", "\x06\0\0\0\0\0\0\0smollm", 14);
    field_of(&sha, G "tokens", "9", "\x08\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0x", 21);
    field_of(&sha, "tokenizer.note", "8", "\x02\0\0\0\0\0\0\0no", 10);
    akv_sha_field(&sha, "pre=smollm", 10);
    assert_ok(akv_sha_end(&sha, want, &err), &err);
    open_digest(got, "no", "a", false, NULL);
    assert_memory_equal(got, want, sizeof want);
    open_digest(got, "no", "another", true, NULL);
    assert_memory_equal(got, want, sizeof want);
    open_digest(got, "No", "a", false, NULL);
    assert_memory_not_equal(got, want, sizeof want);
    open_digest(got, "no", "a", false, "gpt-2");
    assert_memory_not_equal(got, want, sizeof want);
}

/* A file with some bytes changed is refused or opens; either way what follows stays within its memory and ends. */
static void changed_bytes(void **state)
{
    (void)state;
    const char *path = shared_file("golden/models/bad/ok-nano.gguf");
    if (!path)
        skip();
    size_t n;
    char *file = rig_read(path, &n), *copy = malloc(n), name[] = "/tmp/akv-test-tok-XXXXXX";
    int fd = mkstemp(name);
    assert_true(fd >= 0 && copy);
    uint64_t seed = 9;
    unsigned n_opened = 0;
    for (unsigned round = 0; round < 1500; round++) {
        struct rig r = {0};
        struct akv_ids ids = {0};
        struct akv_buf out;
        memcpy(copy, file, n);
        for (unsigned k = rig_random(&seed) % 4 + 1; k > 0; k--)
            copy[rig_random(&seed) % 12000] = (char)rig_random(&seed);
        assert_int_equal(pwrite(fd, copy, n, 0), (ssize_t)n);
        akv_buf_init(&out, 0);
        if (akv_gguf_open_keys(&r.gguf, name, &r.err) == 0 && akv_tok_open(&r.tok, &r.gguf, NULL, 0, &r.warnings, &r.err) == 0) {
            n_opened++;
            assert_ok(akv_tok_encode(r.tok, copy, 2000, AKV_TOK_SPECIAL, &ids, NULL, &r.err), &r.err);
            assert_ok(akv_tok_decode(r.tok, ids.v, ids.n, false, &out, &r.err), &r.err);
        }
        akv_buf_release(&out);
        akv_ids_release(&ids);
        rig_close(&r);
    }
    assert_true(n_opened > 100 && n_opened < 1500);
    close(fd);
    unlink(name);
    free(copy);
    free(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(damaged_files), cmocka_unit_test(unknown_names), cmocka_unit_test(odd_merges),
        cmocka_unit_test(added_tokens),  cmocka_unit_test(lost_bytes),    cmocka_unit_test(decoding),
        cmocka_unit_test(ends),          cmocka_unit_test(added_ends),    cmocka_unit_test(collisions),
        cmocka_unit_test(changed_bytes), cmocka_unit_test(digest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
