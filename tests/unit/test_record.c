/* Token records: every field's checks, writing, prefixes, comparing, lint of text. */
#include "tests/check.h"

#include <time.h>

#include "base/bytes.h"
#include "chat/split.h"

#define TOK "0123456789abcdef0123456789abcdef0123456789abcdef0123456789ABCDEF"

static void parse_ok(struct akv_record *r, const char *text)
{
    struct akv_err err = {0};
    assert_ok(akv_record_parse(r, text, strlen(text), 0, &err), &err);
}

static char *written(const struct akv_record *r)
{
    struct akv_buf b;
    akv_buf_init(&b, 0);
    struct akv_err err = {0};
    assert_ok(akv_record_write(r, &b, &err), &err);
    return akv_buf_steal(&b);
}

static const char whole[] =
    "{\"akv\":\"tokens/1\",\"id\":\"r1\",\"tok\":\"" TOK "\",\"n\":5,\"tokens\":[1,2,3,49151,0],"
    "\"spans\":[{\"kind\":\"system\",\"from\":0,\"to\":2},{\"kind\":\"user\",\"from\":2,\"to\":5}],"
    "\"anchors\":[{\"name\":\"system\",\"at\":2},{\"name\":\"turn-1\",\"at\":4,\"moved_from\":5}],"
    "\"gen\":{\"max_tokens\":64,\"temperature\":0.5,\"top_k\":40,\"top_p\":1,\"min_p\":0.05,\"repeat_penalty\":1.1,"
    "\"seed\":1,\"stop\":[\"a\\u0000b\",\"\\n\"],\"other\":1e-05},"
    "\"keys\":[\"" TOK "\"],\"lint\":[],\"mine\":{\"x\":[1.0,9007199254740993]}}";

/* All fields are taken apart, and the record is written again byte for byte. */
static void reads_and_writes(void **state)
{
    (void)state;
    struct akv_record r;
    parse_ok(&r, whole);
    assert_string_equal(r.id, "r1");
    assert_string_equal(r.tok, TOK);
    assert_int_equal(r.n, 5);
    assert_int_equal(r.ids[3], 49151);
    assert_int_equal(r.n_spans, 2);
    assert_string_equal(r.spans[1].kind, "user");
    assert_int_equal(r.spans[1].from, 2);
    assert_int_equal(r.n_anchors, 2);
    assert_string_equal(r.anchors[1].name, "turn-1");
    assert_int_equal(r.anchors[1].at, 4);
    assert_int_equal(r.gen.has, 255);
    assert_int_equal(r.gen.max_tokens, 64);
    assert_int_equal(r.gen.top_k, 40);
    assert_int_equal(r.gen.seed, 1);
    assert_true(r.gen.temperature == 0.5 && r.gen.top_p == 1.0 && r.gen.min_p == 0.05 && r.gen.repeat_penalty == 1.1);
    assert_int_equal(r.gen.n_stop, 2);
    assert_int_equal(r.gen.stop_len[0], 3);
    assert_memory_equal(r.gen.stop[0], "a\0b", 4);
    char *text = written(&r);
    assert_string_equal(text, whole);
    free(text);
    akv_record_release(&r);
}

/* Fields in any order come out in the documented order, unknown ones after them in their own. */
static void orders_fields(void **state)
{
    (void)state;
    struct akv_record r;
    parse_ok(&r, "{\"z\":1,\"gen\":{},\"tokens\":[],\"a\":null,\"n\":0,\"anchors\":[],\"id\":\"\",\"akv\":\"tokens/1\"}");
    char *text = written(&r);
    assert_string_equal(text,
                        "{\"akv\":\"tokens/1\",\"id\":\"\",\"n\":0,\"tokens\":[],\"anchors\":[],\"gen\":{},\"z\":1,\"a\":null}");
    free(text);
    akv_record_release(&r);
}

#define HEAD "{\"akv\":\"tokens/1\",\"id\":\"x\","
#define BASE HEAD "\"n\":3,\"tokens\":[1,2,3]"

/* Each wrong field is refused with its name and the right code. */
static void refuses(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
        int code;
    } rows[] = {
        {"[]", "not a JSON object", AKV_E_INPUT},
        {"{}", "akv: missing", AKV_E_INPUT},
        {"{\"akv\":1}", "akv:", AKV_E_INPUT},
        {"{\"akv\":\"tokens/2\"}", "tokens/2", AKV_E_INCOMPAT},
        {"{\"akv\":\"tokens/1\",\"n\":0,\"tokens\":[]}", "id: missing", AKV_E_INPUT},
        {"{\"akv\":\"tokens/1\",\"id\":7,\"n\":0,\"tokens\":[]}", "id:", AKV_E_INPUT},
        {"{\"akv\":\"tokens/1\",\"id\":\"a\\u0000b\",\"n\":0,\"tokens\":[]}", "id: holds a NUL", AKV_E_INPUT},
        {HEAD "\"tokens\":[]}", "id x: n: missing", AKV_E_INPUT},
        {HEAD "\"n\":0}", "tokens: missing", AKV_E_INPUT},
        {HEAD "\"n\":2,\"tokens\":[1]}", "n: says 2, but there are 1", AKV_E_INPUT},
        {HEAD "\"n\":-1,\"tokens\":[]}", "n: says -1", AKV_E_INPUT},
        {HEAD "\"n\":1.0,\"tokens\":[1]}", "n: missing or not a whole", AKV_E_INPUT},
        {HEAD "\"n\":2,\"tokens\":[1,-2]}", "tokens[1]: id -2", AKV_E_INPUT},
        {HEAD "\"n\":2,\"tokens\":[1,100]}", "tokens[1]: id 100 is outside the vocabulary of 100", AKV_E_INPUT},
        {HEAD "\"n\":1,\"tokens\":[1.0]}", "tokens[0]: not a whole", AKV_E_INPUT},
        {HEAD "\"n\":1,\"tokens\":[\"1\"]}", "tokens[0]:", AKV_E_INPUT},
        {BASE ",\"tok\":\"abc\"}", "tok:", AKV_E_INPUT},
        {BASE ",\"tok\":null}", "tok:", AKV_E_INPUT},
        {BASE ",\"spans\":{}}", "spans: must be an array", AKV_E_INPUT},
        {BASE ",\"spans\":[1]}", "spans[0].kind", AKV_E_INPUT},
        {BASE ",\"spans\":[{\"kind\":\"a\",\"from\":0,\"to\":4}]}", "spans[0]: from and to", AKV_E_INPUT},
        {BASE ",\"spans\":[{\"kind\":\"a\",\"from\":2,\"to\":1}]}", "spans[0]: 2 to 1", AKV_E_INPUT},
        {BASE ",\"spans\":[{\"kind\":\"a\",\"from\":0,\"to\":2},{\"kind\":\"b\",\"from\":1,\"to\":3}]}", "spans[1]: 1 to 3",
         AKV_E_INPUT},
        {BASE ",\"anchors\":1}", "anchors: must be an array", AKV_E_INPUT},
        {BASE ",\"anchors\":[{\"at\":1}]}", "anchors[0].name", AKV_E_INPUT},
        {BASE ",\"anchors\":[{\"name\":\"\",\"at\":1}]}", "anchors[0].name", AKV_E_INPUT},
        {BASE ",\"anchors\":[{\"name\":\"a\"}]}", "anchors[0].at", AKV_E_INPUT},
        {BASE ",\"anchors\":[{\"name\":\"a\",\"at\":4}]}", "anchors[0].at", AKV_E_INPUT},
        {BASE ",\"anchors\":[{\"name\":\"a\",\"at\":2},{\"name\":\"b\",\"at\":1}]}", "anchors[1].at", AKV_E_INPUT},
        {BASE ",\"anchors\":[{\"name\":\"a\",\"at\":2},{\"name\":\"a\",\"at\":3}]}", "\"a\" stands twice", AKV_E_INPUT},
        {BASE ",\"keys\":[\"zz\"]}", "keys[0]", AKV_E_INPUT},
        {BASE ",\"keys\":\"\"}", "keys: must be an array", AKV_E_INPUT},
        {BASE ",\"gen\":[]}", "gen: must be an object", AKV_E_INPUT},
        {BASE ",\"gen\":{\"max_tokens\":-1}}", "gen: max_tokens", AKV_E_INPUT},
        {BASE ",\"gen\":{\"max_tokens\":4294967296}}", "gen: max_tokens", AKV_E_INPUT},
        {BASE ",\"gen\":{\"max_tokens\":\"1\"}}", "gen: max_tokens", AKV_E_INPUT},
        {BASE ",\"gen\":{\"temperature\":-0.1}}", "gen: temperature", AKV_E_INPUT},
        {BASE ",\"gen\":{\"temperature\":true}}", "gen: temperature", AKV_E_INPUT},
        {BASE ",\"gen\":{\"top_p\":1.5}}", "gen: top_p", AKV_E_INPUT},
        {BASE ",\"gen\":{\"min_p\":2}}", "gen: min_p", AKV_E_INPUT},
        {BASE ",\"gen\":{\"top_k\":1.5}}", "gen: top_k", AKV_E_INPUT},
        {BASE ",\"gen\":{\"repeat_penalty\":0}}", "gen: repeat_penalty", AKV_E_INPUT},
        {BASE ",\"gen\":{\"seed\":-1}}", "gen: seed", AKV_E_INPUT},
        {BASE ",\"gen\":{\"stop\":\"\"}}", "gen: stop", AKV_E_INPUT},
        {BASE ",\"gen\":{\"stop\":[\"a\",1]}}", "gen: stop", AKV_E_INPUT},
        {BASE ",\"n\":3}", "not valid JSON", AKV_E_INPUT},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct akv_err err = {0};
        struct akv_record r;
        int rc = akv_record_parse(&r, rows[i].text, strlen(rows[i].text), 100, &err);
        if (rc != rows[i].code || !strstr(err.msg, rows[i].says) || r.json || r.ids)
            fail_msg("row %zu: rc %d, %s", i, rc, err.msg);
    }
}

/* Null settings are absent, one stop string need not be in an array. */
static void gen_forms(void **state)
{
    (void)state;
    struct akv_record r;
    parse_ok(&r,
             BASE ",\"gen\":{\"max_tokens\":null,\"seed\":9223372036854775807,\"stop\":\"end\",\"temperature\":0,\"unknown\":[]}}");
    assert_int_equal(r.gen.has, AKV_GEN_SEED | AKV_GEN_STOP | AKV_GEN_TEMPERATURE);
    assert_true(r.gen.seed == INT64_MAX);
    assert_string_equal(r.gen.stop[0], "end");
    akv_record_release(&r);
}

/* An added anchor goes to its place in the array and in the text; a name is given once. */
static void adds_anchors(void **state)
{
    (void)state;
    struct akv_record r;
    struct akv_err err = {0};
    parse_ok(&r, BASE "}");
    assert_ok(akv_record_add_anchor(&r, "b", 2, 2, &err), &err);
    assert_ok(akv_record_add_anchor(&r, "c", 3, 3, &err), &err);
    assert_ok(akv_record_add_anchor(&r, "a", 1, 1, &err), &err);
    assert_ok(akv_record_add_anchor(&r, "b2", 2, 2, &err), &err);
    assert_int_equal(akv_record_add_anchor(&r, "b", 3, 3, NULL), AKV_E_INPUT);
    assert_int_equal(akv_record_add_anchor(&r, "d", 4, 4, NULL), AKV_E_INPUT);
    assert_int_equal(r.n_anchors, 4);
    assert_string_equal(r.anchors[2].name, "b2");
    char *text = written(&r);
    assert_string_equal(
        text, BASE
        ",\"anchors\":[{\"name\":\"a\",\"at\":1},{\"name\":\"b\",\"at\":2},{\"name\":\"b2\",\"at\":2},{\"name\":\"c\",\"at\":3}]}");
    free(text);
    akv_record_release(&r);
}

/* A prefix is a record of its own: cut fields, nothing to generate, no field that spoke of the whole. */
static void cuts_prefixes(void **state)
{
    (void)state;
    struct akv_record r, p;
    struct akv_err err = {0};
    parse_ok(&r, whole);
    struct akv_split_place *places;
    size_t n;
    assert_ok(akv_split_places(&r, "turn-1", &places, &n, &err), &err);
    assert_int_equal(n, 1);
    assert_ok(akv_split_prefix(&p, &r, &places[0], "00ff", &err), &err);
    free(places);
    char *text = written(&p);
    assert_string_equal(text, "{\"akv\":\"tokens/1\",\"id\":\"turn-1:00ff\",\"tok\":\"" TOK "\",\"n\":4,\"tokens\":[1,2,3,49151],"
                              "\"spans\":[{\"kind\":\"system\",\"from\":0,\"to\":2},{\"kind\":\"user\",\"from\":2,\"to\":4}],"
                              "\"anchors\":[{\"name\":\"system\",\"at\":2},{\"name\":\"turn-1\",\"at\":4,\"moved_from\":5}],"
                              "\"gen\":{\"max_tokens\":0}}");
    free(text);
    akv_record_release(&p);
    akv_record_release(&r);
}

/* Names, "last" and "all" find positions; an unknown name is a no that lists what there is. */
static void finds_places(void **state)
{
    (void)state;
    struct akv_record r;
    struct akv_err err = {0};
    struct akv_split_place *places;
    size_t n;
    parse_ok(&r, BASE ",\"anchors\":[{\"name\":\"a\",\"at\":1},{\"name\":\"b\",\"at\":1},{\"name\":\"c\",\"at\":3}]}");
    assert_ok(akv_split_places(&r, "last", &places, &n, &err), &err);
    assert_true(n == 1 && places[0].at == 3 && !strcmp(places[0].name, "c"));
    free(places);
    assert_ok(akv_split_places(&r, "all", &places, &n, &err), &err);
    assert_true(n == 2 && places[0].at == 1 && !strcmp(places[0].name, "a") && places[1].at == 3);
    free(places);
    assert_int_equal(akv_split_places(&r, "system", &places, &n, &err), AKV_E_NO);
    assert_string_equal(err.msg, "record x: no anchor \"system\": it has a, b, c");
    akv_record_release(&r);
}

/* Two records part at the first differing id, in the spans that hold it; a prefix is told from a difference. */
static void compares(void **state)
{
    (void)state;
    struct akv_record a, b;
    struct akv_split_diff d;
    parse_ok(&a, HEAD
             "\"n\":3,\"tokens\":[1,2,3],\"spans\":[{\"kind\":\"s\",\"from\":0,\"to\":1},{\"kind\":\"u\",\"from\":2,\"to\":3}]}");
    parse_ok(&b, HEAD "\"n\":3,\"tokens\":[1,2,4]}");
    akv_split_compare(&a, &b, &d);
    assert_true(!d.equal && !d.is_prefix && d.at == 2 && d.a == &a.spans[1] && !d.b);
    akv_record_release(&b);
    parse_ok(&b, HEAD "\"n\":1,\"tokens\":[1]}");
    akv_split_compare(&a, &b, &d);
    assert_true(!d.equal && d.is_prefix && d.at == 1 && !d.a); /* position 1 is between the spans */
    akv_split_compare(&a, &a, &d);
    assert_true(d.equal && d.at == 3);
    akv_record_release(&a);
    akv_record_release(&b);
}

/* Volatile text is found with its kind and place; text that only looks like it is not. */
static void lints(void **state)
{
    (void)state;
    static const struct {
        const char *text, *want; /* kind@offset:length ... */
    } rows[] = {
        {"Today is 2026-01-15.", "date@9:10 "},
        {"at 2026-01-15T12:34:56Z", "date@3:10 clock@14:8 "},
        {"15 January 2026, January 15, 2026, Jan 15", "date@0:15 date@17:16 date@35:6 "},
        {"Thursday, January 15, 2026; Thu Jan 15 10:00:00; Thu, 15 Jan 2026", "date@0:26 date@28:10 clock@39:8 date@49:16 "},
        {"Jan 15th, 2026 or 1st of May or 3rd May 2026, Fri 2026-01-16", "date@0:14 date@18:10 date@32:12 date@46:14 "},
        {"on Monday, or Sunday 5, Thursday May, 1st place, 2nd of all, 15 of May", "date@61:9 "},
        {"at 3:45 PM, 10:30am, 3:45:01 pm, 11:59:59PM", "clock@3:7 clock@12:7 clock@21:10 clock@33:10 "},
        {"10:00:00.250Z, 10:00:00. So, 10:00.5", "clock@0:12 clock@15:8 clock@29:5 "},
        {"3:45, 16:9 pm, 3:45 pmx, 24:00 am, 3:61 pm, 1:2:3", ""},
        {"01/15/2026 or 1.2.2026", "date@0:10 date@14:8 "},
        {"It is 09:41 now", "clock@6:5 "},
        {"id 123e4567-e89b-12d3-a456-426614174000!", "uuid@3:36 "},
        {"nonce=9f86d081884c7d65", "hex@6:16 "},
        {"session 8fK2mQ9xZr4TnB7c x", "id@8:16 "},
        {"sess_9f86d081884c7d65", "hex@5:16 "},
        {"now 1768478400 or 1768478400123", "timestamp@4:10 timestamp@18:13 "},
        {"cwd: /home/ann/src/akv.", "path@5:17 "},
        {"in /tmp/s-1/x, /srv/run/a1b2c3d4", "path@3:10 path@15:17 "},
        {"version 1.2.3, ratio 16:9, 99:99, 2026-13-01, 12:60", ""},
        {"call 5551234567, page 12, May be, March on, 42 items", ""},
        {"The decade was deadbeef and cafebabe, /usr/bin/env a/b/c", ""},
        {"get_weather(city), iso8601, sha256, utf-8, x86_64", ""},
        {"", ""},
        {"\xff\xfe 2026-01-15", "date@3:10 "},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct akv_finding *f;
        struct akv_buf b;
        size_t n;
        akv_buf_init(&b, 0);
        assert_int_equal(akv_lint_text(rows[i].text, strlen(rows[i].text), &f, &n, NULL), 0);
        for (size_t k = 0; k < n; k++)
            akv_buf_printf(&b, "%s@%zu:%zu ", f[k].kind, f[k].at, f[k].len);
        if (strcmp(b.data, rows[i].want))
            fail_msg("row %zu: %s, expected %s", i, b.data, rows[i].want);
        akv_buf_release(&b);
        free(f);
    }
}

/* An excerpt is at most 40 bytes, of whole characters, on one line. */
static void lint_excerpts(void **state)
{
    (void)state;
    static const char text[] = "/home/"
                               "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"
                               "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9/xx\xc3\xa9";
    struct akv_finding *f;
    size_t n;
    assert_int_equal(akv_lint_text(text, strlen(text), &f, &n, NULL), 0);
    assert_int_equal(n, 1);
    assert_int_equal(strlen(f[0].excerpt), 40);
    assert_true(akv_utf8_valid(f[0].excerpt, 40, NULL));
    free(f);
}

/* Hostile texts take linear time: a megabyte of each near-miss in well under a second. */
static void lint_is_linear(void **state)
{
    (void)state;
    static const char *const units[] = {"/a", "a-", "0", "1:", "/tmp/", "-", "2026-01-1", "~", "Jan ", "a1"};
    enum { N = 1 << 20 };
    char *text = malloc(N);
    for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
        for (size_t i = 0; i < N; i++)
            text[i] = units[u][i % strlen(units[u])];
        struct akv_finding *f;
        size_t n;
        clock_t start = clock();
        assert_int_equal(akv_lint_text(text, N, &f, &n, NULL), 0);
        assert_true(clock() - start < 2 * CLOCKS_PER_SEC);
        free(f);
    }
    free(text);
}

/* A record of 100,000 ids goes through unharmed. */
static void long_record(void **state)
{
    (void)state;
    enum { N = 100000 };
    uint32_t *ids = malloc(N * sizeof *ids);
    for (uint32_t i = 0; i < N; i++)
        ids[i] = i * 2654435761u % 200000;
    json_t *fields = json_pack("{s:s,s:s}", "akv", "tokens/1", "id", "long");
    struct akv_record r, back;
    struct akv_err err = {0};
    assert_ok(akv_record_make(&r, fields, ids, N, &err), &err);
    json_decref(fields);
    char *text = written(&r);
    parse_ok(&back, text);
    assert_int_equal(back.n, N);
    assert_memory_equal(back.ids, r.ids, N * sizeof *ids);
    free(text);
    akv_record_release(&r);
    akv_record_release(&back);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_and_writes), cmocka_unit_test(orders_fields),  cmocka_unit_test(refuses),
        cmocka_unit_test(gen_forms),        cmocka_unit_test(adds_anchors),   cmocka_unit_test(cuts_prefixes),
        cmocka_unit_test(finds_places),     cmocka_unit_test(compares),       cmocka_unit_test(lints),
        cmocka_unit_test(lint_excerpts),    cmocka_unit_test(lint_is_linear), cmocka_unit_test(long_record),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
