/* SentencePiece tokenizers: reading a file, merging by score, spaces, bytes, the unknown token; hostile text. */
#include "tok_rig.h"

#include "base/bytes.h"
#include "model/tok_spm.h"

#define G "tokenizer.ggml."
#define M AKV_TOKSPM_MARK /* U+2581 */

struct token {
    const char *text;
    int type;
    float score;
};

enum { NORMAL = AKV_TOKTYPE_NORMAL, UNKNOWN = 2, CONTROL = 3, USER = 4, UNUSED = 5, BYTE = 6 };

static void put_f32(struct rig_file *f, float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    akv_buf_put_u32(&f->b, bits);
}

/* What of a good file is left out or spoilt. */
enum flaw { NONE, NO_SCORES, SCORES_FEWER, SCORES_TYPE, SCORE_NAN, NO_TYPES, PREFIX_TYPE };

static void begin(struct rig_file *f, const struct token *tokens, size_t n, enum flaw flaw)
{
    rig_file_begin(f);
    rig_str(f, G "model", "llama");
    rig_array(f, G "tokens", AKV_GGUF_STRING, n);
    for (size_t i = 0; i < n; i++)
        rig_put_str(f, tokens[i].text, strlen(tokens[i].text));
    if (flaw != NO_SCORES) {
        size_t n_scores = flaw == SCORES_FEWER ? n - 1 : n;
        rig_array(f, G "scores", flaw == SCORES_TYPE ? AKV_GGUF_I32 : AKV_GGUF_F32, n_scores);
        for (size_t i = 0; i < n_scores; i++)
            put_f32(f, flaw == SCORE_NAN && i == 1 ? __builtin_nanf("") : tokens[i].score);
    }
    if (flaw != NO_TYPES) {
        rig_array(f, G "token_type", AKV_GGUF_I32, n);
        for (size_t i = 0; i < n; i++)
            akv_buf_put_u32(&f->b, (uint32_t)tokens[i].type);
    }
    if (flaw == PREFIX_TYPE)
        rig_u32(f, G "add_space_prefix", 1);
}

static void put_flag(struct rig_file *f, const char *key, bool on)
{
    rig_key(f, key, AKV_GGUF_BOOL);
    akv_buf_putc(&f->b, on);
}

static void open_plain(struct rig *r, const struct token *tokens, size_t n)
{
    struct rig_file f;
    begin(&f, tokens, n, NONE);
    put_flag(&f, G "add_space_prefix", false);
    assert_ok(rig_file_open(r, &f, NULL), &r->err);
}

static void expect_ids(const struct rig *r, const char *s, unsigned flags, size_t n, const uint32_t *want)
{
    struct akv_ids ids = {0};
    size_t n_lost;
    rig_encode(r, s, strlen(s), flags, &ids, &n_lost);
    for (size_t i = 0; i < n && i < ids.n; i++) {
        if (ids.v[i] != want[i])
            fail_msg("'%s': token %zu is %u, expected %u", s, i, ids.v[i], want[i]);
    }
    assert_int_equal(ids.n, n);
    akv_ids_release(&ids);
}
#define EXPECT(r, s, flags, ...) expect_ids(r, s, flags, sizeof((uint32_t[]){__VA_ARGS__}) / 4, (const uint32_t[]){__VA_ARGS__})
#define COUNT(a) (sizeof(a) / sizeof *(a))

/* The file's scores and types are needed and checked, and so is a pre-tokenizer that such a vocabulary cannot have. */
static void damaged_files(void **state)
{
    (void)state;
    static const struct token tokens[] = {{"<unk>", UNKNOWN, 0}, {"a", NORMAL, 0}, {"b", NORMAL, 0}};
    static const struct {
        enum flaw flaw;
        const char *says;
    } flaws[] = {{NO_SCORES, "scores: the key is missing"},
                 {SCORES_FEWER, "2 scores for 3 tokens"},
                 {SCORES_TYPE, "not an array of f32"},
                 {SCORE_NAN, "the score of token 1 is not a number"},
                 {NO_TYPES, "token_type"},
                 {PREFIX_TYPE, "add_space_prefix"}};
    struct rig r;
    struct rig_file f;
    for (size_t i = 0; i < COUNT(flaws); i++) {
        begin(&f, tokens, COUNT(tokens), flaws[i].flaw);
        assert_int_equal(rig_file_open(&r, &f, NULL), AKV_E_INPUT);
        if (!strstr(r.err.msg, flaws[i].says))
            fail_msg("'%s' does not say '%s'", r.err.msg, flaws[i].says);
        rig_close(&r);
    }
    begin(&f, tokens, COUNT(tokens), NONE);
    rig_str(&f, G "pre", "llama-bpe");
    assert_int_equal(rig_file_open(&r, &f, NULL), AKV_E_INCOMPAT);
    assert_non_null(strstr(r.err.msg, "'llama-bpe'"));
    rig_close(&r);
    begin(&f, tokens, COUNT(tokens), NONE);
    rig_str(&f, G "pre", "llama-bpe");
    assert_ok(rig_file_open(&r, &f, "default"), &r.err);
    assert_string_equal(akv_tok_pre(r.tok), "default");
    rig_close(&r);
}

/* SentencePiece's own ids are the default where tokens of the right type have them; the file's keys win. */
static void default_ends(void **state)
{
    (void)state;
    static const struct token tokens[] = {{"<unk>", UNKNOWN, 0}, {"<s>", CONTROL, 0}, {"</s>", CONTROL, 0},
                                          {M "a", NORMAL, -1},   {"a", NORMAL, -2},   {M, NORMAL, -3}},
                              other[] = {{"a", NORMAL, 0}, {"b", NORMAL, 0}, {"c", NORMAL, 0}};
    struct rig r;
    struct rig_file f;
    begin(&f, tokens, COUNT(tokens), NONE);
    assert_ok(rig_file_open(&r, &f, NULL), &r.err);
    assert_null(r.warnings);
    assert_true(akv_tok_bos(r.tok) == 1 && akv_tok_eos(r.tok) == 2 && akv_tok_add_bos(r.tok) && akv_tok_is_eog(r.tok, 2));
    EXPECT(&r, "a", AKV_TOK_ADD_SPECIAL, 1, 3);
    EXPECT(&r, "", AKV_TOK_ADD_SPECIAL, 1);
    EXPECT(&r, "b", 0, 5, 0);
    rig_close(&r);

    begin(&f, tokens, COUNT(tokens), NONE);
    rig_u32(&f, G "bos_token_id", 2);
    rig_u32(&f, G "unknown_token_id", 9);
    put_flag(&f, G "add_bos_token", false);
    put_flag(&f, G "add_eos_token", true);
    assert_ok(rig_file_open(&r, &f, NULL), &r.err);
    assert_non_null(strstr(r.warnings, "unknown_token_id"));
    assert_true(akv_tok_bos(r.tok) == 2 && !akv_tok_add_bos(r.tok));
    EXPECT(&r, "ab", AKV_TOK_ADD_SPECIAL, 3, 2);
    rig_close(&r);

    begin(&f, other, COUNT(other), NONE);
    assert_ok(rig_file_open(&r, &f, NULL), &r.err);
    assert_true(akv_tok_bos(r.tok) == AKV_TOK_NONE && akv_tok_eos(r.tok) == AKV_TOK_NONE && !akv_tok_add_bos(r.tok));
    assert_non_null(strstr(r.warnings, "no bos token"));
    rig_close(&r);
}

/* The highest score merges first, of equal ones the leftmost; only normal tokens are made, whatever their parts are. */
static void merging(void **state)
{
    (void)state;
    static const struct token tokens[] = {
        {"a", NORMAL, -9},    {"b", NORMAL, -9}, {"c", NORMAL, -9},  {"ab", NORMAL, -2}, {"bc", NORMAL, -1}, {"aa", NORMAL, -3},
        {"abc", NORMAL, -4},  {"cc", UNUSED, 5}, {"ca", CONTROL, 5}, {"cb", BYTE, 5},    {"xy", NORMAL, 0},  {"-0", NORMAL, -0.0f},
        {"0-", NORMAL, 0.0f}, {"-", NORMAL, -9}, {"0", NORMAL, -9},  {"de", NORMAL, 1},  {"ef", NORMAL, 2},  {"d", NORMAL, 0}};
    struct rig r;
    open_plain(&r, tokens, COUNT(tokens));
    assert_non_null(strstr(r.warnings, "1 tokens of type byte are not written <0xXX>"));
    EXPECT(&r, "ab", 0, 3);
    EXPECT(&r, "abc", 0, 6); /* bc first, then a + bc */
    EXPECT(&r, "aaa", 0, 5, 0);
    EXPECT(&r, "aaab", 0, 5, 3);
    EXPECT(&r, "cc", 0, 2, 2);
    EXPECT(&r, "cacb", 0, 2, 0, 2, 1);
    EXPECT(&r, "xy", 0, 10);      /* made of characters that are no tokens */
    EXPECT(&r, "-0-", 0, 11, 13); /* minus zero is zero: a tie */
    EXPECT(&r, "0-0", 0, 12, 14);
    EXPECT(&r, "def", 0, 17, 16);
    EXPECT(&r, "ded", 0, 15, 17);
    rig_close(&r);
}

static void expect_text(const struct rig *r, const uint32_t *ids, size_t n, const char *want)
{
    struct akv_buf out;
    struct akv_err err = {0};
    akv_buf_init(&out, 0);
    assert_ok(akv_tok_decode(r->tok, ids, n, false, &out, &err), &err);
    assert_string_equal(out.data, want);
    akv_buf_release(&out);
}

/* Characters without a token become the tokens of their bytes; where one of these is missing, one unknown token for all around. */
static void bytes_and_unknown(void **state)
{
    (void)state;
    static const struct token tokens[] = {{"<unk>", UNKNOWN, 0},  {"<0xC3>", BYTE, 0}, {"<0xA9>", BYTE, 0}, {"<0xe2>", BYTE, 0},
                                          {"<0x41>", NORMAL, -1}, {"a", NORMAL, -1},   {"<0xff>", BYTE, 0}, {M, NORMAL, -1}};
    static const uint32_t all[] = {1, 2, 3, 4, 5, 6, 7};
    struct rig r;
    struct akv_ids ids = {0}, at = {0};
    size_t n_lost = 0;
    open_plain(&r, tokens, COUNT(tokens));
    EXPECT(&r, "\xc3\xa9", 0, 1, 2);
    EXPECT(&r, "a\xe2\x82\xac", 0, 5, 0); /* e2 has a token, 82 has not: the character is unknown as a whole */
    EXPECT(&r,
           "a\xff"
           "a",
           0, 5, 6, 5);
    EXPECT(&r, "<0x41>a", 0, 0, 5); /* its text is no way to name a byte */
    expect_text(&r, all, COUNT(all), "\xc3\xa9\xe2<0x41>a\xff ");

    static const uint32_t want[] = {5, 0, 5, 0, 7, 0}, want_at[] = {0, 1, 6, 7, 9, 10};
    assert_ok(akv_tok_encode_offsets(r.tok,
                                     "a\xe2\x82\xac\xfe"
                                     "baxx x",
                                     11, 0, &ids, &at, &n_lost, &r.err),
              &r.err);
    assert_int_equal(ids.n, COUNT(want));
    assert_memory_equal(ids.v, want, sizeof want);
    assert_memory_equal(at.v, want_at, sizeof want_at);
    assert_int_equal(n_lost, 8);
    akv_ids_release(&ids);
    akv_ids_release(&at);
    rig_close(&r);
}

/* A space goes before text and after added tokens unless the text continues other text or the file says no; U+2581 is a space. */
static void spaces(void **state)
{
    (void)state;
    static const struct token tokens[] = {{"<unk>", UNKNOWN, 0}, {"<s>", CONTROL, 0}, {"</s>", CONTROL, 0}, {"a", NORMAL, -2},
                                          {M, NORMAL, -2},       {M "a", NORMAL, -1}, {M M, NORMAL, -1},    {"<0xFF>", BYTE, 0}};
    struct rig r;
    struct rig_file f;
    struct akv_ids ids = {0}, at = {0};
    begin(&f, tokens, COUNT(tokens), NONE);
    assert_ok(rig_file_open(&r, &f, NULL), &r.err);
    EXPECT(&r, "a", 0, 5);
    EXPECT(&r, " a", 0, 6, 3);
    EXPECT(&r, "a", AKV_TOK_CONTINUE, 3);
    EXPECT(&r, "a</s>a a", AKV_TOK_SPECIAL, 5, 2, 5, 5);
    EXPECT(&r, "a</s>a a", AKV_TOK_SPECIAL | AKV_TOK_CONTINUE, 3, 2, 5, 5);
    EXPECT(&r, "</s>a", AKV_TOK_SPECIAL | AKV_TOK_CONTINUE, 2, 5);
    EXPECT(&r, "a" M "a", 0, 5, 5);
    EXPECT(&r,
           "\xff"
           "a",
           0, 4, 7, 3);
    expect_ids(&r, "", 0, 0, NULL);
    assert_ok(akv_tok_encode_offsets(r.tok, "aa</s>" M "a", 10, AKV_TOK_SPECIAL, &ids, &at, NULL, &r.err), &r.err);
    assert_int_equal(ids.n, 5);
    static const uint32_t want[] = {5, 3, 2, 6, 3}, offsets[] = {0, 1, 2, 6, 9}; /* the mark is three bytes of text */
    assert_memory_equal(ids.v, want, sizeof want);
    assert_memory_equal(at.v, offsets, sizeof offsets);
    akv_ids_release(&ids);
    akv_ids_release(&at);
    rig_close(&r);

    open_plain(&r, tokens, COUNT(tokens));
    EXPECT(&r, "a a", 0, 3, 5);
    expect_text(&r, (const uint32_t[]){5, 1, 6}, 3, " a<s>  ");
    rig_close(&r);
}

/* User-defined runs of spaces: the longest from the left, never part of another token, and found where they are written out too. */
static void runs_of_spaces(void **state)
{
    (void)state;
    static const struct token tokens[] = {{"a", NORMAL, -2},  {M, NORMAL, -2},     {M "a", NORMAL, -1},    {"  ", USER, -9},
                                          {"    ", USER, -9}, {M M, NORMAL, 0},    {"a" M "a", NORMAL, 0}, {"<u>", USER, 0},
                                          {"a" M, NORMAL, 0}, {M M "a", NORMAL, 0}};
    struct rig r;
    open_plain(&r, tokens, COUNT(tokens));
    EXPECT(&r, "  ", 0, 3);
    EXPECT(&r, "   a", 0, 3, 2);
    EXPECT(&r, "       a", 0, 4, 3, 2); /* 4 + 2 + 1 */
    EXPECT(&r, "a  a", 0, 0, 3, 0);
    EXPECT(&r, "a a", 0, 6);
    EXPECT(&r, "a<u>a", 0, 0, 7, 0);
    EXPECT(&r, " " M " a", 0, 3, 2); /* one by one they are spaces */
    EXPECT(&r, " " M M " ", 0, 1, 3, 1);
    expect_text(&r, (const uint32_t[]){4, 2, 7}, 3, "     a<u>");
    rig_close(&r);
}

/* --- against the definition --- */

struct plain {
    struct rig r;
    struct akv_tokvocab v;
    const struct akv_gguf_kv *scores;
};

/* One merge at a time over the whole text, nothing cut, nothing remembered. */
static size_t merge_plainly(const struct plain *p, const char *s, uint32_t len, struct akv_toksym *sym)
{
    size_t n = 0;
    for (uint32_t i = 0; i < len; i++) {
        if (((uint8_t)s[i] & 0xc0) != 0x80)
            sym[n++] = (struct akv_toksym){akv_tokvocab_find(&p->v, s + i, akv_utf8_len(s + i, len - i)), i};
    }
    for (;;) {
        size_t best = SIZE_MAX;
        uint32_t made = 0;
        float high = 0;
        for (size_t i = 0; i + 1 < n; i++) {
            uint32_t end = i + 2 < n ? sym[i + 2].at : len, id = akv_tokvocab_find(&p->v, s + sym[i].at, end - sym[i].at);
            if (id == AKV_TOK_NONE || (best != SIZE_MAX && akv_gguf_array_f32(p->scores, id) <= high))
                continue;
            best = i;
            made = id;
            high = akv_gguf_array_f32(p->scores, id);
        }
        if (best == SIZE_MAX)
            return n;
        sym[best].id = made;
        memmove(sym + best + 1, sym + best + 2, (n - best - 2) * sizeof *sym);
        n--;
    }
}

static const char *const letters[] = {"a", "b", M, "\xc3\xa9", "\xc3\xa8", "c"};

static void open_random(struct plain *p, uint64_t *seed)
{
    enum { N = 60 };
    static char texts[N][32];
    struct token tokens[N];
    size_t n = 0;
    struct akv_buf warn;
    for (; n < COUNT(letters); n++)
        tokens[n] = (struct token){letters[n], NORMAL, -100};
    for (; n < N; n++) {
        texts[n][0] = '\0';
        for (unsigned k = 2 + rig_random(seed) % 4; k > 0; k--) {
            const char *letter = letters[rig_random(seed) % 5];
            memcpy(texts[n] + strlen(texts[n]), letter, strlen(letter) + 1);
        }
        tokens[n] = (struct token){texts[n], NORMAL, -(float)(rig_random(seed) % 20)};
    }
    open_plain(&p->r, tokens, N);
    akv_buf_init(&warn, 0);
    assert_ok(akv_tokvocab_open(&p->v, &p->r.gguf, &warn, &p->r.err), &p->r.err);
    assert_ok(akv_tokvocab_index(&p->v, &p->r.gguf, &warn, &p->r.err), &p->r.err);
    p->scores = akv_gguf_find(&p->r.gguf, G "scores");
    akv_buf_release(&warn);
}

/* Cutting, remembered words and the heap give what the definition gives, for vocabularies and texts made at random. */
static void equals_definition(void **state)
{
    (void)state;
    uint64_t seed = 4;
    struct akv_ids ids = {0};
    for (unsigned round = 0; round < 60; round++) {
        struct plain p;
        open_random(&p, &seed);
        for (unsigned k = 0; k < 40; k++) {
            char raw[600] = "", marked[600] = "";
            struct akv_toksym want[600];
            size_t n_lost, n = rig_random(&seed) % 150;
            for (size_t i = 0; i < n; i++) {
                const char *letter = letters[rig_random(&seed) % COUNT(letters)];
                memcpy(marked + strlen(marked), letter, strlen(letter) + 1);
                letter = strcmp(letter, M) ? letter : " ";
                memcpy(raw + strlen(raw), letter, strlen(letter) + 1);
            }
            n = merge_plainly(&p, marked, (uint32_t)strlen(marked), want);
            rig_encode(&p.r, k % 2 ? raw : marked, strlen(k % 2 ? raw : marked), 0, &ids, &n_lost);
            if (ids.n != n)
                fail_msg("round %u: '%s': %zu tokens, expected %zu", round, raw, ids.n, n);
            for (size_t i = 0; i < n; i++)
                assert_int_equal(ids.v[i], want[i].id);
        }
        akv_tokvocab_close(&p.v);
        rig_close(&p.r);
    }
    akv_ids_release(&ids);
}

/* --- hostile text --- */

/* decode(encode(s)) must be s with its U+2581 as spaces. */
static void check_round_trip(const struct rig *r, const char *s, size_t len)
{
    struct akv_ids ids = {0};
    struct akv_buf want, got;
    size_t n_lost;
    akv_buf_init(&want, 0);
    akv_buf_init(&got, 0);
    for (size_t i = 0; i < len;) {
        bool mark = len - i >= 3 && memcmp(s + i, M, 3) == 0;
        akv_buf_putc(&want, mark ? ' ' : s[i]);
        i += mark ? 3 : 1;
    }
    rig_encode(r, s, len, 0, &ids, &n_lost);
    rig_decode(r, &ids, false, &got);
    assert_int_equal(n_lost, 0);
    assert_int_equal(got.len, want.len);
    assert_memory_equal(got.data, want.data, want.len);
    akv_buf_release(&want);
    akv_buf_release(&got);
    akv_ids_release(&ids);
}

/* Any bytes come back, and runs of a megabyte in the time that one pass takes: a quadratic step would never finish. */
static void any_text(void **state)
{
    (void)state;
    static const char *const units[] = {"a",         " ",    "7", "\n", "!", "=", " x", "> </", "<start_of", "\xe4\xb8\x80",
                                        "e\xcc\x81", "\xff", M,   "the"};
    const size_t size = (size_t)1 << 20;
    struct rig r;
    if (!rig_open_golden(&r, "gemma3"))
        skip();
    uint64_t seed = 7;
    for (unsigned round = 0; round < 600; round++) {
        char s[300];
        size_t len = rig_random(&seed) % sizeof s;
        unsigned mask = round % 3 == 0 ? 0xff : round % 3 == 1 ? 0x7f : 0xef;
        for (size_t i = 0; i < len; i++)
            s[i] = (char)(rig_random(&seed) & mask);
        check_round_trip(&r, s, len);
    }
    char *s = malloc(size + 1);
    assert_non_null(s);
    for (size_t k = 0; k < COUNT(units); k++) {
        size_t n = strlen(units[k]), len = size / n * n;
        for (size_t i = 0; i < len; i++)
            s[i] = units[k][i % n];
        s[len] = 'x';
        check_round_trip(&r, s, k % 2 ? len : len + 1);
    }
    free(s);
    rig_close(&r);
}

/* A vocabulary with some bytes changed is refused or opens; either way what follows stays within its memory and ends. */
static void changed_bytes(void **state)
{
    (void)state;
    static const struct token tokens[] = {{"<unk>", UNKNOWN, 0}, {"<s>", CONTROL, 0}, {"</s>", CONTROL, 0},   {"<0x41>", BYTE, 0},
                                          {"  ", USER, 0},       {M, NORMAL, -2},     {"a", NORMAL, -2},      {M "a", NORMAL, -1},
                                          {M M, NORMAL, -1},     {"ab", NORMAL, 1},   {"\xc3\xa9", NORMAL, 0}};
    struct rig_file f;
    uint64_t seed = 9;
    unsigned n_opened = 0;
    begin(&f, tokens, COUNT(tokens), NONE);
    put_flag(&f, G "add_space_prefix", true);
    f.b.data[16] = (char)f.n_kv;
    char *copy = malloc(f.b.len), name[] = "/tmp/akv-test-spm-XXXXXX";
    int fd = mkstemp(name);
    assert_true(fd >= 0 && copy);
    for (unsigned round = 0; round < 3000; round++) {
        struct rig r = {0};
        struct akv_ids ids = {0};
        struct akv_buf out;
        memcpy(copy, f.b.data, f.b.len);
        for (unsigned k = rig_random(&seed) % 3 + 1; k > 0; k--)
            copy[100 + rig_random(&seed) % (f.b.len - 100)] = (char)rig_random(&seed);
        assert_int_equal(pwrite(fd, copy, f.b.len, 0), (ssize_t)f.b.len);
        akv_buf_init(&out, 0);
        if (akv_gguf_open_keys(&r.gguf, name, &r.err) == 0 && akv_tok_open(&r.tok, &r.gguf, NULL, 0, &r.warnings, &r.err) == 0) {
            n_opened++;
            assert_ok(akv_tok_encode(r.tok, copy, f.b.len, AKV_TOK_SPECIAL, &ids, NULL, &r.err), &r.err);
            assert_ok(akv_tok_decode(r.tok, ids.v, ids.n, false, &out, &r.err), &r.err);
        }
        akv_buf_release(&out);
        akv_ids_release(&ids);
        rig_close(&r);
    }
    assert_true(n_opened > 300 && n_opened < 3000);
    close(fd);
    unlink(name);
    free(copy);
    akv_buf_release(&f.b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(damaged_files),     cmocka_unit_test(default_ends), cmocka_unit_test(merging),
        cmocka_unit_test(bytes_and_unknown), cmocka_unit_test(spaces),       cmocka_unit_test(runs_of_spaces),
        cmocka_unit_test(equals_definition), cmocka_unit_test(any_text),     cmocka_unit_test(changed_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
