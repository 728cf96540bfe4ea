/*
 * Cuts that are proved, and differences that are named: against the reference's clean and dirty cuts, on pairs of texts whose difference is
 * known, and on texts made to mislead or to take long.
 */
#include "tests/unit/tok_rig.h"

#include "base/json.h"
#include "chat/explain.h"

static struct rig vocab; /* the demo model's vocabulary; tok NULL when it is absent */

static int open_vocab(void **state)
{
    (void)state;
    rig_open_golden(&vocab, "smollm2");
    return 0;
}

static int close_vocab(void **state)
{
    (void)state;
    rig_close(&vocab);
    return 0;
}

/* A record of a text, all of it one span of this kind (NULL: none), with these options (JSON, or NULL). */
static void make(struct akv_record *r, const struct akv_tok *tok, const char *text, size_t len, const char *kind,
                 const char *options)
{
    struct akv_ids ids = {0};
    struct akv_err err = {0};
    assert_ok(akv_tok_encode(tok, text, len, AKV_TOK_SPECIAL, &ids, NULL, &err), &err);
    json_t *fields = json_pack("{s:s, s:s, s:[]}", "akv", "tokens/1", "id", kind ? kind : "text", "spans");
    if (kind)
        json_array_append_new(json_object_get(fields, "spans"),
                              json_pack("{s:s, s:i, s:I}", "kind", kind, "from", 0, "to", (json_int_t)ids.n));
    if (options)
        json_object_set_new(fields, "options", json_loads(options, 0, NULL));
    assert_ok(akv_record_make(r, fields, ids.v, ids.n, &err), &err);
    json_decref(fields);
}

static bool is_clean(const struct akv_tok *tok, const char *s, size_t len, size_t cut, const struct akv_record *whole)
{
    struct akv_ids ids = {0};
    assert_int_equal(akv_tok_encode(tok, s, cut, AKV_TOK_SPECIAL, &ids, NULL, NULL), 0);
    assert_int_equal(akv_tok_encode(tok, s + cut, len - cut, AKV_TOK_SPECIAL, &ids, NULL, NULL), 0);
    bool same = ids.n == whole->n && !memcmp(ids.v, whole->ids, ids.n * sizeof *ids.v);
    akv_ids_release(&ids);
    return same;
}

static bool holds(const json_t *list, size_t at)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if ((size_t)json_integer_value(json_array_get(list, i)) == at)
            return true;
    return false;
}

struct count {
    size_t clean, moved;
};

/* At every token of a reference text: where the reference cuts cleanly the cut stays, elsewhere it moves left to where it may. */
static void check_cuts(const struct rig *r, const json_t *line, struct count *count)
{
    const char *s = json_string_value(json_object_get(line, "text"));
    size_t len = json_string_length(json_object_get(line, "text"));
    struct akv_record rec;
    struct akv_ids ids = {0}, at = {0};
    assert_int_equal(akv_tok_encode_offsets(r->tok, s, len, AKV_TOK_SPECIAL, &ids, &at, NULL, NULL), 0);
    make(&rec, r->tok, s, len, NULL, NULL);
    struct akv_buf said;
    akv_buf_init(&said, 0);
    assert_int_equal(akv_tok_decode(r->tok, rec.ids, rec.n, false, &said, NULL), 0);
    bool exact = said.len == len && !memcmp(said.data, s, len); /* not normalised, nothing lost */
    akv_buf_release(&said);
    for (uint32_t i = 1; exact && i < rec.n; i++) {
        uint32_t safe;
        struct akv_err err = {0};
        assert_ok(akv_split_safe(&rec, r->tok, i, &safe, &err), &err);
        if (holds(json_object_get(line, "clean"), at.v[i])) {
            assert_int_equal(safe, i);
            count->clean++;
            continue;
        }
        if (holds(json_object_get(line, "dirty"), at.v[i])) {
            assert_true(safe < i);
            count->moved++;
        }
        if (safe && !is_clean(r->tok, s, len, at.v[safe], &rec))
            fail_msg("%s: token %u: moved to %u, which is no better", s, i, safe);
    }
    akv_record_release(&rec);
    akv_ids_release(&ids);
    akv_ids_release(&at);
}

static void reference_cuts(void **state)
{
    (void)state;
    const char *path = shared_file("golden/tokenizer/splits.jsonl");
    struct rig qwen;
    if (!path || !vocab.tok || !rig_open_golden(&qwen, "qwen3"))
        skip();
    size_t n, n_lines = 0;
    char *file = rig_read(path, &n);
    struct count count = {0};
    for (char *at = file, *end; at < file + n; at = end + 1, n_lines++) {
        json_t *line;
        struct akv_err err = {0};
        end = memchr(at, '\n', (size_t)(file + n - at));
        assert_non_null(end);
        assert_ok(akv_json_parse(&line, at, (size_t)(end - at), "line", &err), &err);
        const char *name = json_string_value(json_object_get(line, "tokenizer"));
        check_cuts(strcmp(name, "qwen3") ? &vocab : &qwen, line, &count);
        json_decref(line);
    }
    print_message("%zu texts: %zu cuts stay, %zu move\n", n_lines, count.clean, count.moved);
    assert_true(n_lines > 100 && count.clean > 1000 && count.moved > 5);
    free(file);
    rig_close(&qwen);
}

struct pair {
    const char *a, *b, *span, *kind, *before, *after;
    const char *options_a, *options_b;
};

static const struct pair pairs[] = {
    {"Today is 2026-01-15, a day.", "Today is 2026-01-16, a day.", "system", "date", "2026-01-15", "2026-01-16", 0, 0},
    {"Today is 15 January 2026.", "Today is 2 February 2026.", "system", "date", 0, 0, 0, 0},
    {"Today is Thursday, January 15, 2026.", "Today is Friday, January 16, 2026.", "system", "date", 0, 0, 0, 0},
    {"It is 9:59 AM.", "It is 10:00 AM.", "system", "clock", 0, 0, 0, 0},
    {"It is 09:59:58 now", "It is 10:00:01 now", "system", "clock", "09:59:58", "10:00:01", 0, 0},
    {"at 1768478400 it", "at 1768478460 it", "system", "timestamp", "1768478400", "1768478460", 0, 0},
    {"id 3e0a7c52-9b1d-4f6e-8a37-d2c5b1f09e44.", "id 3e0a7c52-9b1d-4f6e-8a37-d2c5b1f09e45.", "system", "uuid",
     "3e0a7c52-9b1d-4f6e-8a37-d2c5b1f09e44", 0, 0, 0},
    {"x 7f3a9c2e81d4b650 y", "x 7f3a9c2e81d4b651 y", "user", "hex", "7f3a9c2e81d4b650", "7f3a9c2e81d4b651", 0, 0},
    {"in /tmp/a1/x go", "in /tmp/b2/x go", "system", "path", "/tmp/a1/x", "/tmp/b2/x", 0, 0},
    {"at 3f2a1bc mend", "at 9bc04de mend", "system", "hex", "3f2a1bc", "9bc04de", 0, 0},
    {"a facade of it", "a decade of it", "system", "edited system text", 0, 0, 0, 0},
    {"2026-01-15T10:00:00.123Z", "2026-01-15T10:00:00.45Z", "system", "clock", "10:00:00.123", "10:00:00.45", 0, 0},
    {"there are 41 ships", "there are 7 ships", "system", "number", "41", "7", 0, 0},
    {"costs 1,250.50 a day", "costs 1,350.50 a day", "system", "number", "1,250.50", "1,350.50", 0, 0},
    {"a ship's berth", "a ship's  berth", "system", "whitespace", 0, 0, 0, 0},
    {"one\ntwo", "one\n\ntwo", "user", "whitespace", 0, 0, 0, 0},
    {"Name the quay.", "Name the ship.", "system", "edited system text", "quay.", "ship.", 0, 0},
    {"Name the quay.", "Name the ship.", "user", "edited turn", "quay.", "ship.", 0, 0},
    {"is it the quay or the ship", "is it the ship or the quay", "user", "edited turn", 0, 0, 0, 0},
    {"{\"name\": \"f\"}\n{\"name\": \"g\"}", "{\"name\": \"g\"}\n{\"name\": \"f\"}", "tools", "reordered tools", 0, 0, 0, 0},
    {"{\"name\": \"f\"}\n{\"name\": \"g\"}", "{\"name\": \"h\"}\n{\"name\": \"f\"}", "tools", "edited tools", 0, 0, 0, 0},
    {"{\"a\": 1, \"b\": {\"c\": 2, \"d\": 3}}", "{\"a\": 1, \"b\": {\"d\": 3, \"c\": 2}}", "assistant", "reordered keys", 0, 0, 0,
     0},
    {"{\"a\": [1, 2]}", "{\"a\": [2, 1]}", "assistant", "number", "1", "2", 0, 0},
    {"{\"a\": 1, \"b\": 2}", "{\"a\":1,\"b\":2}", "assistant", "whitespace", 0, 0, 0, 0},
    {"{\"args\": \"{\\\"a\\\": 1, \\\"b\\\": 2}\"}", "{\"args\": \"{\\\"b\\\": 2, \\\"a\\\": 1}\"}", "assistant", "reordered keys",
     0, 0, 0, 0},
    {"call \"{\\\"a\\\": 1, \\\"b\\\": 2}\"", "call \"{\\\"b\\\": 2, \\\"a\\\": 1}\"", "assistant", "reordered keys", 0, 0, 0, 0},
    {"<arg>a</arg><v>x</v><arg>b</arg>", "<arg>b</arg><v>x</v><arg>a</arg>", "assistant", "reordered keys", 0, 0, 0, 0},
    {"def f(a: int, b: str)", "def f(b: str, a: int)", "system", "reordered keys", 0, 0, 0, 0},
    {"def f(a)\ndef g(a)", "def g(a)\ndef f(a)", "system", "reordered tools", 0, 0, 0, 0},
    {"<think>\nHm.\n</think>\nQuay four.", "<think>\n\n</think>\nQuay four.", "assistant", "dropped thinking", 0, 0, 0, 0},
    {"<think>Let me see.</think>Quay four lies", "Quay four lies", "assistant", "dropped thinking", 0, 0, 0, 0},
    {"Quay four lies", "Quay nine lies", "assistant", "edited turn", "four lies", "nine lies", 0, 0},
    {"Reasoning: high", "Reasoning: low", "system", "template option", "high", "low", "{\"effort\": \"high\"}",
     "{\"effort\": \"low\"}"},
    {"Budget: 512 tokens", "Budget: 64 tokens", "system", "template option", 0, 0, "{\"budget\": 512}", "{\"budget\": 64}"},
    {"Today is 2026-01-15", "Today is 2026-01-16", "system", "date", 0, 0, "{\"x\": 1}", "{\"x\": 2}"},
    {"<think>Let me see.</think>Quay four lies", "Quay four lies", "assistant", "dropped thinking", 0, 0,
     "{\"add_generation_prompt\": false}", 0},
    {"a ship's berth", "a ship's  berth", "system", "whitespace", 0, 0, 0, "{\"add_generation_prompt\": false}"},
    {"Name the quay.", "Name the ship.", "user", "edited turn", 0, 0, "{\"add_generation_prompt\": false}", 0},
    {"<end>", "<open>", "generation", "template option", 0, 0, "{\"add_generation_prompt\": false}", 0},
    {"<open>", "<other>", "generation", "generation prompt", 0, 0, 0, 0},
};

static bool equals(const struct akv_buf *b, const char *text)
{
    return !text || (b->len == strlen(text) && !memcmp(b->data, text, b->len));
}

static void kinds(void **state)
{
    (void)state;
    if (!vocab.tok)
        skip();
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        const struct pair *p = &pairs[i];
        struct akv_record a, b;
        struct akv_explain e = {0}, blind = {0};
        struct akv_err err = {0};
        make(&a, vocab.tok, p->a, strlen(p->a), p->span, p->options_a);
        make(&b, vocab.tok, p->b, strlen(p->b), p->span, p->options_b);
        assert_ok(akv_explain(&e, &a, &b, vocab.tok, &err), &err);
        if (!e.parts || !e.kind || strcmp(e.kind, p->kind) || !equals(&e.before, p->before) || !equals(&e.after, p->after))
            fail_msg("%s -> %s: %s \"%s\" \"%s\"", p->a, p->b, e.kind ? e.kind : "(none)", e.before.data, e.after.data);
        assert_true(e.before.len <= AKV_EXCERPT && e.after.len <= AKV_EXCERPT && e.lost <= b.n);
        assert_ok(akv_explain(&blind, &a, &b, NULL, &err), &err);
        assert_true(blind.parts && blind.token == e.token && !blind.has_text && blind.lost == e.lost);
        akv_explain_release(&e);
        akv_explain_release(&blind);
        akv_record_release(&a);
        akv_record_release(&b);
    }
}

/* The same text in other tokens is told from another text. */
static void other_tokens(void **state)
{
    (void)state;
    if (!vocab.tok)
        skip();
    struct akv_record a, b, c;
    struct akv_ids ids = {0};
    struct akv_explain e = {0};
    struct akv_err err = {0};
    const char *text = "Where is the lighthouse keeper";
    make(&a, vocab.tok, text, strlen(text), "assistant", NULL);
    for (const char *p = text; *p; p++) /* letter by letter */
        assert_int_equal(akv_tok_encode(vocab.tok, p, 1, 0, &ids, NULL, NULL), 0);
    assert_true(ids.n > a.n);
    assert_ok(akv_record_make(&b, a.json, ids.v, ids.n, &err), &err);
    assert_ok(akv_explain(&e, &a, &b, vocab.tok, &err), &err);
    assert_string_equal(e.kind, "other tokens");
    assert_int_equal(e.token, 0);
    akv_explain_release(&e);
    make(&c, vocab.tok, text, strlen(text) - 7, "assistant", NULL); /* ends before the other does: parts from nothing */
    assert_ok(akv_explain(&e, &a, &c, vocab.tok, &err), &err);
    assert_false(e.parts);
    akv_explain_release(&e);
    akv_record_release(&a);
    akv_record_release(&b);
    akv_record_release(&c);
}

/* Texts of one shape repeated until they are long; the time grows with the length, not with its square. */
static void hostile(void **state)
{
    (void)state;
    if (!vocab.tok)
        skip();
    static const char *const units[] = {"{",    "{\"", "{\"a\":{", "\"{\\", "}{\"a\": 1}", "think<",
                                        "a b ", "1.",  "\xff\xc3", "/",     "name\": \"x"};
    for (size_t u = 0; u < sizeof units / sizeof *units; u++)
        for (size_t k = 0; k < 3; k++) {
            struct akv_buf x, y;
            akv_buf_init(&x, 0);
            akv_buf_init(&y, 0);
            for (size_t i = 0; i < 20000; i++) {
                akv_buf_puts(&x, units[u]);
                akv_buf_puts(&y, units[u]);
            }
            size_t at = k * (x.len - 1) / 2;
            y.data[at] = y.data[at] == 'Q' ? 'R' : 'Q';
            if (k == 1)
                y.data[at] = '\0';
            struct akv_record a, b;
            struct akv_explain e = {0};
            struct akv_err err = {0};
            struct akv_buf words;
            make(&a, vocab.tok, x.data, x.len, "assistant", NULL);
            make(&b, vocab.tok, y.data, y.len, k ? "assistant" : NULL, NULL);
            assert_ok(akv_explain(&e, &a, &b, vocab.tok, &err), &err);
            assert_true(e.before.len <= AKV_EXCERPT && e.after.len <= AKV_EXCERPT);
            akv_buf_init(&words, 0);
            if (e.parts) {
                akv_explain_words(&e, &a, &b, &words);
                json_t *o = akv_explain_json(&e, &a, &b);
                assert_non_null(json_object_get(o, "lost"));
                json_decref(o);
                assert_null(memchr(words.data, '\n', words.len));
            }
            akv_buf_release(&words);
            akv_explain_release(&e);
            akv_record_release(&a);
            akv_record_release(&b);
            akv_buf_release(&x);
            akv_buf_release(&y);
        }
}

/* However many there are: the findings are no more than is said, and what all of them come to is among them. */
static void many_findings(void **state)
{
    (void)state;
    if (!vocab.tok)
        skip();
    struct akv_buf text;
    struct akv_record r;
    struct akv_finding *v;
    struct akv_err err = {0};
    size_t n, orders = 0;
    akv_buf_init(&text, 0);
    for (size_t i = 0; i < 1200; i++)
        akv_buf_puts(&text, "Today is 2026-01-15.\n");
    for (size_t i = 0; i < 100; i++)
        akv_buf_puts(&text, "Name the quay.\n");
    make(&r, vocab.tok, text.data, text.len, "system", NULL);
    assert_ok(akv_record_add_anchor(&r, "system", (uint32_t)r.n, (uint32_t)r.n, &err), &err);
    assert_ok(akv_split_lint(&r, vocab.tok, &v, &n, &err), &err);
    for (size_t i = 0; i < n; i++)
        orders += !strcmp(v[i].kind, "order");
    assert_int_equal(n, 1000);
    assert_int_equal(orders, 1);
    free(v);
    akv_record_release(&r);
    akv_buf_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reference_cuts), cmocka_unit_test(kinds),   cmocka_unit_test(other_tokens),
        cmocka_unit_test(many_findings),  cmocka_unit_test(hostile),
    };
    return cmocka_run_group_tests(tests, open_vocab, close_vocab);
}
