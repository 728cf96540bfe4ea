/* JSON: what is accepted, what is refused and where, sequences on pipes, shortest reals. */
#include "tests/check.h"

#include <locale.h>
#include <math.h>
#include <pthread.h>

#include "base/json.h"

static void parse_ok(const char *text, size_t len, const char *dumped)
{
    struct akv_err err = {0};
    json_t *v = NULL;
    assert_ok(akv_json_parse(&v, text, len, "test", &err), &err);
    struct akv_buf b;
    akv_buf_init(&b, 0);
    akv_json_dump(&b, v);
    assert_string_equal(b.data, dumped);
    akv_buf_release(&b);
    json_decref(v);
}

/* Values come back in one line as they were: key order, digits, escapes, NUL, UTF-8. */
static void accepts(void **state)
{
    (void)state;
    static const struct {
        const char *text, *dumped;
    } rows[] = {
        {" {\"b\" : 1 ,\n\"a\":[true,false,null]} \n", "{\"b\":1,\"a\":[true,false,null]}"},
        {"9223372036854775807", "9223372036854775807"},
        {"-9223372036854775808", "-9223372036854775808"},
        {"9007199254740993", "9007199254740993"},
        {"1.0", "1.0"},
        {"1e5", "100000.0"},
        {"1e22", "1e+22"},
        {"0.00001", "1e-05"},
        {"-0.0", "-0.0"},
        {"\"\\u00e9\\ud83d\\ude00\\n\\u0001\\/\"", "\"\xc3\xa9\xf0\x9f\x98\x80\\n\\u0001/\""},
        {"\"a\\u0000b\"", "\"a\\u0000b\""},
        {"\"\xe2\x80\xa8\x7f\"", "\"\xe2\x80\xa8\x7f\""},
        {"[[],{},\"\"]", "[[],{},\"\"]"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        parse_ok(rows[i].text, strlen(rows[i].text), rows[i].dumped);
}

/* Everything that loses or guesses is refused as bad input, naming the byte where it went wrong. */
static void refuses(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t len; /* 0: strlen */
        const char *says;
    } rows[] = {
        {"", 0, "empty"},
        {" \n\t", 0, "empty"},
        {"{\"a\":1,\"a\":2}", 0, "offset 10"}, /* the second key, just read */
        {"9223372036854775808", 0, "too big"},
        {"-9223372036854775809", 0, "too big"},
        {"1e400", 0, "overflow"},
        {"\"\\ud800\"", 0, "offset"},
        {"\"\\udc00x\"", 0, "offset"},
        {"\"\xff\"", 0, "offset 1"},
        {"\"\xed\xa0\x80\"", 0, "offset 1"},
        {"\"\xc0\xaf\"", 0, "offset 1"},
        {"\"a\nb\"", 0, "offset"},
        {"\"a\0b\"", 5, "offset"},
        {"{\"a\\u0000b\":1}", 0, "NUL"},
        {"[1,]", 0, "offset 4"},
        {"{,}", 0, "offset"},
        {"[1 2]", 0, "offset"},
        {"01", 0, "offset"},
        {"+1", 0, "offset"},
        {".5", 0, "offset"},
        {"NaN", 0, "offset"},
        {"Infinity", 0, "offset"},
        {"'a'", 0, "offset"},
        {"{\"a\":1", 0, "offset"},
        {"1 2", 0, "offset"},
        {"[]]", 0, "offset"},
        {"\xef\xbb\xbf{}", 0, "offset"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct akv_err err = {0};
        json_t *v = NULL;
        size_t len = rows[i].len ? rows[i].len : strlen(rows[i].text);
        int rc = akv_json_parse(&v, rows[i].text, len, "test", &err);
        if (rc != AKV_E_INPUT || v || !strstr(err.msg, rows[i].says))
            fail_msg("row %zu: rc %d, %s", i, rc, err.msg);
    }
}

/* Nesting ends at a limit with an error, not with the stack. */
static void deep(void **state)
{
    (void)state;
    enum { N = 200000 };
    char *text = malloc(N);
    memset(text, '[', N);
    struct akv_err err = {0};
    json_t *v = NULL;
    assert_int_equal(akv_json_parse(&v, text, N, "test", &err), AKV_E_INPUT);
    memset(text, ']', N);
    memset(text, '[', 2000);
    err = (struct akv_err){0};
    assert_ok(akv_json_parse(&v, text, 4000, "test", &err), &err);
    json_decref(v);
    free(text);
}

struct feed {
    int fd;
    const char *text;
    size_t len, chunk;
};

static void *feed(void *arg)
{
    const struct feed *f = arg;
    for (size_t i = 0; i < f->len; i += f->chunk) {
        size_t n = f->len - i < f->chunk ? f->len - i : f->chunk;
        if (write(f->fd, f->text + i, n) != (ssize_t)n)
            break;
    }
    close(f->fd);
    return NULL;
}

/* Read a whole sequence through a pipe written in chunks; the values and errors as text. */
static void read_all(const char *text, size_t len, size_t chunk, struct akv_buf *out)
{
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    struct feed f = {fds[1], text, len, chunk};
    pthread_t writer;
    assert_int_equal(pthread_create(&writer, NULL, feed, &f), 0);
    struct akv_in in;
    assert_int_equal(akv_in_open(&in, fds[0], "pipe", NULL), 0);
    for (;;) {
        struct akv_err err = {0};
        json_t *v;
        int rc = akv_json_next(&v, &in, &err);
        if (rc == 0)
            break;
        if (rc == 1)
            akv_json_dump(out, v);
        else
            akv_buf_printf(out, "E%d@%d", rc, (int)strtol(strstr(err.msg, "offset ") + 7, NULL, 10));
        akv_buf_putc(out, ' ');
        json_decref(v);
        if (rc == AKV_E_IO)
            break;
    }
    akv_in_release(&in);
    close(fds[0]);
    pthread_join(writer, NULL);
}

/* Sequences in every layout give the same values whatever the sizes of the reads, and go on after a broken one. */
static void sequences(void **state)
{
    (void)state;
    static const struct {
        const char *text, *want;
    } rows[] = {
        {"{\"a\":1}\n{\"b\":2}\n", "{\"a\":1} {\"b\":2} "},
        {"{\n \"a\": [\n  1,\n  {}\n ]\n}\n\n[2]", "{\"a\":[1,{}]} [2] "},
        {"{}{}[]\"x\"1 2 true{}null", "{} {} [] \"x\" 1 2 true {} null "},
        {"\"\\\"}\\\\\" {\"}\":\"{\"}", "\"\\\"}\\\\\" {\"}\":\"{\"} "},
        {"", ""},
        {" \r\n\t", ""},
        {"12", "12 "},
        {"{bad}\n{\"ok\":1}\n", "E-3@1 {\"ok\":1} "},
        {"{\"a\":01}\n{\"ok\":1}\n", "E-3@6 {\"ok\":1} "}, /* where the parser saw it, as an offset of the stream */
        {"[] {\"a\":1,\"a\":1} x\n2", "[] E-3@13 2 "},
        {"{\"cut\":[1,2\n{\"ok\":1}\n", "E-3@12 {\"ok\":1} "}, /* the next line is whole */
        {"{\"cut\":\"abc\n{\"ok\":1}\n", "E-3@11 {\"ok\":1} "},
        {"{}}\n{]\n1", "{} E-3@2 E-3@5 1 "},
        {"[1,2}\n3", "E-3@4 3 "},
        {"{\"a\":[1", "E-3@7 "},
        {"{\"a\" 1}\n{1:2}\n{\"a\":1 \"b\":2}\n[,1]\n5", "E-3@5 E-3@9 E-3@21 E-3@29 5 "},
        {"\x01\n[5]", "E-3@0 [5] "},
        {"nul\n[5] 6", "E-3@3 [5] 6 "},
        {"once upon\na time\n\n5\n \"there\n]\n  {\"ok\":1}\nno\nmore",
         "E-3@4 {\"ok\":1} E-3@43 "}, /* one error for a run of text */
        {"Dear all,\n\nno braces {here}\n", "E-3@4 "},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t chunk = 1; chunk <= 64; chunk = chunk < 3 ? chunk + 1 : chunk + 61) {
            struct akv_buf out;
            akv_buf_init(&out, 0);
            read_all(rows[i].text, strlen(rows[i].text), chunk, &out);
            if (strcmp(out.data, rows[i].want))
                fail_msg("row %zu, chunk %zu: %s, expected %s", i, chunk, out.data, rows[i].want);
            akv_buf_release(&out);
        }
}

/* A complete value is returned while the writer still holds the pipe open. */
static void does_not_wait(void **state)
{
    (void)state;
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    struct akv_in in;
    assert_int_equal(akv_in_open(&in, fds[0], "pipe", NULL), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(write(fds[1], "{\"a\":\"]\"}", 9), 9);
        json_t *v;
        assert_int_equal(akv_json_next(&v, &in, NULL), 1);
        assert_true(json_is_object(v));
        json_decref(v);
    }
    close(fds[1]);
    json_t *v;
    assert_int_equal(akv_json_next(&v, &in, NULL), 0);
    akv_in_release(&in);
    close(fds[0]);
}

/* Brackets without end are refused by depth, a value without end by size, both before the machine suffers. */
static void bounded(void **state)
{
    (void)state;
    struct akv_buf text, out;
    akv_buf_init(&text, 0);
    akv_buf_init(&out, 0);
    for (int i = 0; i < 5000; i++)
        akv_buf_puts(&text, "{\"a\":[");
    akv_buf_puts(&text, "\n7");
    read_all(text.data, text.len, 4096, &out);
    assert_string_equal(out.data, "E-3@6144 7 ");
    akv_buf_clear(&out);
    akv_buf_clear(&text);
    char *s = malloc(AKV_JSON_MAX + 8);
    memset(s, 'x', AKV_JSON_MAX + 8);
    s[0] = '"';
    memcpy(s + AKV_JSON_MAX + 4, "\"\n[]", 4);
    read_all(s, AKV_JSON_MAX + 8, 1 << 16, &out);
    assert_non_null(strstr(out.data, "E-3@"));
    assert_non_null(strstr(out.data, " [] "));
    free(s);
    akv_buf_release(&text);
    akv_buf_release(&out);
}

/* Doubles print as the shortest text that reads back, as Python writes them, powers of two and the ends of the range included. */
static void reals(void **state)
{
    (void)state;
    static const struct {
        double v;
        const char *text;
    } rows[] = {
        {0.0, "0.0"},
        {-0.0, "-0.0"},
        {1.0, "1.0"},
        {3.0, "3.0"},
        {0.1, "0.1"},
        {-0.25, "-0.25"},
        {1e-4, "0.0001"},
        {1e-5, "1e-05"},
        {1.5e-7, "1.5e-07"},
        {123456.789, "123456.789"},
        {1e15, "1000000000000000.0"},
        {1e16, "1e+16"},
        {1e22, "1e+22"},
        {1.25e22, "1.25e+22"},
        {9007199254740993.0, "9007199254740992.0"},
        {0x1p-44, "5.684341886080802e-14"}, /* closest 16 digits do not read back, the next do */
        {5e-324, "5e-324"},
        {2.2250738585072014e-308, "2.2250738585072014e-308"},
        {1.7976931348623157e308, "1.7976931348623157e+308"},
        {1e100, "1e+100"},
        {(double)NAN, "null"},
        {(double)INFINITY, "null"},
    };
    static const char *const locales[] = {"C", "de_DE.UTF-8", "tr_TR.UTF-8"};
    for (size_t l = 0; l < sizeof locales / sizeof *locales; l++) {
        if (!setlocale(LC_ALL, locales[l]))
            continue;
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            struct akv_buf b;
            akv_buf_init(&b, 0);
            akv_json_real(&b, rows[i].v);
            assert_string_equal(b.data, rows[i].text);
            akv_buf_release(&b);
        }
    }
    setlocale(LC_ALL, "C");
}

/* Any bytes become a valid JSON string. */
static void strings(void **state)
{
    (void)state;
    struct akv_buf b;
    akv_buf_init(&b, 0);
    akv_json_string(&b, "a\"\\\b\f\n\r\t\x1f\xff\xe2\x82z\0\xc3\xa9", 16);
    assert_string_equal(b.data, "\"a\\\"\\\\\\b\\f\\n\\r\\t\\u001f\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdz\\u0000\xc3\xa9\"");
    akv_buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accepts),       cmocka_unit_test(refuses), cmocka_unit_test(deep),  cmocka_unit_test(sequences),
        cmocka_unit_test(does_not_wait), cmocka_unit_test(bounded), cmocka_unit_test(reals), cmocka_unit_test(strings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
