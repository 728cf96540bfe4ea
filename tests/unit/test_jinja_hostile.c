/* Templates and contexts made to break the interpreter: each ends in a clear error, within the limits. */
#include "tests/check.h"

#include "chat/jinja.h"

static const struct akv_jinja_limits small = {.steps = 1000000, .depth = 200, .output_bytes = 1 << 20, .memory_bytes = 32 << 20};

/* Parse and, if that succeeds, render. The text is copied to its exact size, so that reading past its end is caught. */
static int run(const char *text, size_t len, const json_t *context, const struct akv_jinja_limits *limits, struct akv_buf *out,
               struct akv_err *err)
{
    struct akv_jinja *t;
    char *exact = malloc(len ? len : 1);
    assert_non_null(exact);
    memcpy(exact, text, len);
    *err = (struct akv_err){0};
    akv_buf_clear(out);
    int rc = akv_jinja_parse(&t, exact, len, err);
    free(exact);
    if (rc == 0)
        rc = akv_jinja_render(t, context, 0, limits, out, err);
    akv_jinja_free(t);
    return rc;
}

/* The result is text in valid form or an error about the input, never another kind of error. */
static void must_be_tame(int rc, const struct akv_err *err)
{
    if (rc != 0 && rc != AKV_E_INPUT)
        fail_msg("%d: %s", rc, err->msg);
    if (rc != 0 && strncmp(err->msg, "template", 8) != 0)
        fail_msg("%s", err->msg);
}

static const char everything[] =
    "{#- c -#}{% set ns = namespace(a=1, b=[1, 2.5e3, 'x\\n\\u00e9', none]) %}\n"
    "{%- macro f(a, b=2, *c) %}{% endmacro %}"
    "{% macro g(a, b=2) -%} {{ a ~ b }}{{ caller() if caller is defined else varargs|length }}{%- endmacro %}\n"
    "{% for k, v in {'a': 1, 'b': (2, 3)}.items() if v is not none recursive %}{{ loop.index0 % 2 == 0 and k or v }}\n"
    "  {% if loop.last and not v is string %}{% break %}{% elif k in ['a'] %}{% continue %}{% else %}{{ -1 ** 2 // 3 }}{% endif "
    "%}\n"
    "{% else %}none{% endfor %}{% call(x) g(1, b=3) %}{{ x }}{% endcall %}{% filter upper|replace('A', 'b') %}a{% endfilter %}\n"
    "{% raw %}{{ no }}{% endraw %}{% set b | trim %} t {% endset %}{% with z = b[::-1], y = s[1:-1] %}{{ z }}{{ y[0] }}{% endwith "
    "%}\n"
    "{% generation %}{{ m|selectattr('role', 'eq', 'user')|map(attribute='content')|list|tojson(indent=2) }}{% endgeneration %}\n"
    "{%+ if true +%}{{ '%s' % s }}{% endif %}{{ g(*[1], **{'b': 2}) }}{{ m[0]['role'] if m else zz }}{{ strftime_now('%Y') }}";

#define CONTEXT "{\"m\":[{\"role\":\"user\",\"content\":\"\u00e9\"}],\"s\":\"h\u00e9llo\"}"

/* Every truncation of a template that uses all of the syntax parses or fails cleanly, and so does every render of what parses. */
static void test_truncations(void **state)
{
    (void)state;
    struct akv_err err;
    struct akv_buf out;
    json_t *c = json_loads(CONTEXT, 0, NULL);
    akv_buf_init(&out, 0);
    for (size_t n = 0; n <= sizeof everything - 1; n++)
        must_be_tame(run(everything, n, c, &small, &out, &err), &err);
    static const char *const files[] = {"templates/google-gemma-2-2b-it.jinja", "templates/Qwen-Qwen2.5-7B-Instruct.jinja"};
    for (size_t i = 0; i < 2; i++) {
        char text[4096];
        const char *path = shared_file(files[i]);
        FILE *f = path ? fopen(path, "rb") : NULL;
        size_t len = f ? fread(text, 1, sizeof text, f) : 0;
        for (size_t n = 0; n <= len; n++)
            must_be_tame(run(text, n, c, &small, &out, &err), &err);
        if (f)
            fclose(f);
    }
    akv_buf_release(&out);
    json_decref(c);
}

/* Any byte replaced by one that means something else, or removed, parses or fails cleanly, and so does the render. */
static void test_mutations(void **state)
{
    (void)state;
    static const char with[] = "{}%#'\"()[]|.,:-+*~=\\\n 0a\xff";
    struct akv_err err;
    struct akv_buf out;
    char text[sizeof everything];
    json_t *c = json_loads(CONTEXT, 0, NULL);
    akv_buf_init(&out, 0);
    for (size_t at = 0; at < sizeof everything - 1; at++) {
        for (size_t k = 0; k < sizeof with; k++) {
            memcpy(text, everything, sizeof text);
            text[at] = with[k]; /* the last one is NUL */
            must_be_tame(run(text, sizeof text - 1, c, &small, &out, &err), &err);
        }
        memcpy(text, everything, at);
        memcpy(text + at, everything + at + 1, sizeof text - at - 1);
        must_be_tame(run(text, sizeof text - 2, c, &small, &out, &err), &err);
    }
    akv_buf_release(&out);
    json_decref(c);
}

/* head, then n times unit, then tail. */
static void repeated(struct akv_buf *b, const char *head, const char *unit, size_t n, const char *tail)
{
    akv_buf_clear(b);
    akv_buf_puts(b, head);
    for (size_t i = 0; i < n; i++)
        akv_buf_puts(b, unit);
    akv_buf_puts(b, tail);
}

/* Nesting in the text is limited, whatever is nested; long chains that do not nest are fine. */
static void test_deep_syntax(void **state)
{
    (void)state;
    static const struct {
        const char *head, *unit, *tail;
        bool fine;
    } rows[] = {
        {"{{ ", "(", "", false},
        {"{{ ", "[", "", false},
        {"{{ ", "{1:", "", false},
        {"{{ ", "-", "1 }}", false},
        {"{{ ", "not ", "1 }}", false},
        {"{{ 1", " if 1", " }}", false},
        {"{{ ", "1 if 1 else ", "1 }}", false},
        {"{{ x", "[x", "", false},
        {"{{ x", "(x", "", false},
        {"", "{% if 1 %}", "", false},
        {"", "{% for i in x %}", "", false},
        {"", "{% macro m() %}", "", false},
        {"{% set ", "(", "", false},
        {"{{ x|f", "(x|f", "", false},
        {"{{ 1", " is in (1", "", false},
        {"{{ 1", " + 1", " }}", true},
        {"{{ 1", " ~ 1", " }}", true},
        {"{{ 1", " and 1", " }}", true},
        {"{{ 1", " < 2", " }}", true},
        {"{{ 'a'", "|upper", " }}", true},
        {"{{ [1]", "[0:]", " }}", true},
        {"{% if 0 %}", "{% elif 0 %}", "{% endif %}", true},
        {"", "{% if 1 %}{% endif %}", "", true},
        {"{{ ''", " ''", " }}", true},
    };
    struct akv_err err;
    struct akv_buf text, out;
    json_t *c = json_object();
    akv_buf_init(&text, 0);
    akv_buf_init(&out, 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        repeated(&text, rows[i].head, rows[i].unit, 20000, rows[i].tail);
        int rc = run(text.data, text.len, c, NULL, &out, &err);
        if (rc != (rows[i].fine ? 0 : AKV_E_INPUT))
            fail_msg("%s%s: %d %s", rows[i].head, rows[i].unit, rc, err.msg);
        if (!rows[i].fine && !strstr(err.msg, "nested too deeply"))
            fail_msg("%s%s: %s", rows[i].head, rows[i].unit, err.msg);
    }
    akv_buf_release(&text);
    akv_buf_release(&out);
    json_decref(c);
}

static const struct {
    const char *text, *message; /* part of it */
} bombs[] = {
    {"{% for i in range(10**9) %}x{% endfor %}", "range"},
    {"{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}", "steps"},
    {"{% for i in range(100000) %}{% set x = 'a' * 1000 %}{% for j in range(100000) %}{{ x }}{% endfor %}{% endfor %}", "output"},
    {"{{ 'a' * 10**9 }}", "too large"},
    {"{{ 'a' * 10**18 }}", "too large"},
    {"{{ [1] * 10**9 }}", ""},
    {"{{ ('a' * 100000).replace('a', 'a' * 100000) }}", ""},
    {"{{ ('a' * 10000).replace('', 'a' * 100000) }}", ""},
    {"{{ (['a' * 100000] * 100000)|join }}", ""},
    {"{{ 'a'.center(10**12) }}", "too large"},
    {"{{ 'a'.zfill(10**12) }}", "too large"},
    {"{{ '%2000000000d' % 1 }}", "too large"},
    {"{{ 'a\n'|indent(10**12) }}", "too large"},
    {"{{ [1]|tojson(indent=10**12) }}", "too large"},
    {"{{ [1]|batch(10**12, 0)|list }}", ""},
    {"{{ [1]|slice(10**12)|list }}", ""},
    {"{{ 10 ** 19 }}", "64 bits"},
    {"{{ 9223372036854775807 * 2 }}", "64 bits"},
    {"{{ -(-9223372036854775807 - 1) }}", "64 bits"},
    {"{{ (-9223372036854775807 - 1) // -1 }}", "64 bits"},
    {"{{ '99999999999999999999'|int }}", "64 bits"},
    {"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "nested too deeply"},
    {"{% macro f(x) %}{{ g([x]) }}{% endmacro %}{% macro g(x) %}{{ f([x]) }}{% endmacro %}{{ f(1) }}", "nested too deeply"},
    {"{% macro f(x=f()) %}{% endmacro %}{{ f() }}", ""},
    {"{% macro f() %}{{ ((((((((((((((((((((((((((((((f())))))))))))))))))))))))))))))) }}{% endmacro %}{{ f() }}",
     "nested too deeply"},
    {"{% macro f() %}{% call f() %}{{ caller() }}{% endcall %}{% endmacro %}{{ f() }}", ""},
    {"{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}", "nested too deeply"},
    {"{% set ns = namespace(x=1) %}{% for i in range(100000) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}", "nested too deeply"},
    {"{% set ns = namespace(x=1) %}{% for i in range(100000) %}{% set ns.x = {'a': ns.x} %}{% endfor %}{{ ns.x|tojson }}",
     "nested too deeply"},
    {"{% set a = namespace(x=1, y=1) %}{% for i in range(50000) %}{% set a.x = [a.x] %}{% set a.y = [a.y] %}{% endfor %}{{ a.x == "
     "a.y }}",
     "nested too deeply"},
    {"{% set a = namespace(x=1, y=1) %}{% for i in range(50000) %}{% set a.x = [a.x] %}{% set a.y = [a.y] %}{% endfor %}{{ a.x < "
     "a.y }}",
     "nested too deeply"},
    {"{% set a = namespace(x=1) %}{% for i in range(50000) %}{% set a.x = (a.x,) %}{% endfor %}{{ {a.x: 1} }}",
     "nested too deeply"},
    {"{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}", "nested too deeply"},
    {"{% set l = [] %}{% set _ = l.append(l) %}{{ l }}", "nested too deeply"},
    {"{% set l = [] %}{% set _ = l.append(l) %}{{ l|tojson }}", "nested too deeply"},
    {"{% set l = [1] %}{% for i in l %}{% set _ = l.append(i) %}{% endfor %}", ""},
    {"{% set ns = namespace(x='ab') %}{% for i in range(99) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x|tojson }}", ""},
    {"{% set a = namespace(x=1, y=1) %}{% for i in range(99) %}{% set a.x = [a.x, a.x] %}{% set a.y = [a.y, a.y] %}{% endfor %}{{ "
     "a.x == a.y }}",
     "steps"},
    {"{% set ns = namespace(x='ab') %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}", ""},
    {"{% set ns = namespace(x='ab') %}{% for i in range(99) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}", ""},
    {"{% set s = 'ab' * 500000 %}{% for i in range(100000) %}{{ 'ba' * 5 in s }}{% endfor %}", "steps"},
    {"{% set s = '\u00e9' * 500000 %}{% for i in range(100000) %}{% set _ = s[i * 4] %}{% endfor %}", "steps"},
    {"{% set s = 'ab' * 500000 %}{% set _ = s.strip(('c' * 500000) ~ 'ab') %}", "steps"},
    {"{% set s = 'a' * 1000000 %}{% for i in range(100000) %}{% set _ = s.rfind('b' ~ 'a' * 500000) %}{% endfor %}", "steps"},
    {"{% set s = 'a' * 1000000 %}{% for i in range(100000) %}{% set _ = s == 'a' * 1000000 %}{% endfor %}", ""},
    {"{% set s = '\u03a3\u0301' * 5000 %}{% for i in range(100000) %}{% set _ = s|lower %}{% endfor %}", ""},
    {"{% set ns = namespace(s='') %}{% for i in range(100000) %}{% set ns.s = ns.s[1:] + 'xx' %}{% endfor %}", ""},
    {"{% for i in range(100000) %}{% set _ = range(100000)|list %}{% endfor %}", ""},
    {"{% for i in range(100000) %}{% set _ = range(1000)|sort %}{% endfor %}", ""},
    {"{% for i in range(100000) %}{% macro m() %}{{ i }}{% endmacro %}{% for j in range(1000) %}{{ m() }}{% endfor %}{% endfor %}",
     ""},
    {"{{ raise_exception('x' * 10**7) }}", "xxxx"},
};

/* Bombs of every kind end in an error about the input, within small limits. */
static void test_bombs(void **state)
{
    (void)state;
    struct akv_err err;
    struct akv_buf out;
    size_t failed = 0;
    json_t *c = json_object();
    akv_buf_init(&out, 0);
    for (size_t i = 0; i < sizeof bombs / sizeof *bombs; i++) {
        int rc = run(bombs[i].text, strlen(bombs[i].text), c, &small, &out, &err);
        if (rc != AKV_E_INPUT || !strstr(err.msg, bombs[i].message)) {
            print_message("%s: %d %s\n", bombs[i].text, rc, err.msg);
            failed++;
        }
    }
    assert_int_equal(failed, 0);
    akv_buf_release(&out);
    json_decref(c);
}

/* Contexts as deep as the JSON parser allows neither crash nor pass unnoticed. */
static void test_deep_context(void **state)
{
    (void)state;
    static const char *const texts[] = {"{{ v }}", "{{ v|tojson }}", "{{ v == w }}", "{{ [v] < [w] }}", "{{ v|string|length }}"};
    struct akv_err err;
    struct akv_buf text, out;
    akv_buf_init(&text, 0);
    akv_buf_init(&out, 0);
    repeated(&text, "", "[", 2040, "1");
    for (size_t i = 0; i < 2040; i++)
        akv_buf_putc(&text, ']');
    json_t *c = json_object();
    json_object_set_new(c, "v", json_loads(text.data, 0, NULL));
    json_object_set_new(c, "w", json_loads(text.data, 0, NULL));
    assert_non_null(json_object_get(c, "v"));
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_int_equal(run(texts[i], strlen(texts[i]), c, NULL, &out, &err), AKV_E_INPUT);
    json_decref(c);
    akv_buf_release(&text);
    akv_buf_release(&out);
}

/* Each limit is kept: what needs more fails, what needs less passes. */
static void test_limits(void **state)
{
    (void)state;
    static const char loop[] = "{% for i in range(100) %}x{% endfor %}",
                      nest[] = "{% macro f(n) %}{{ f(n - 1) if n }}{% endmacro %}{{ f(9) }}";
    static const char grow[] = "{% set s = 'a' * 300000 %}";
    const struct {
        const char *text;
        struct akv_jinja_limits limits;
        int rc;
    } rows[] = {
        {loop, {.steps = 500}, 0},
        {loop, {.steps = 100}, AKV_E_INPUT},
        {loop, {.output_bytes = 100}, 0},
        {loop, {.output_bytes = 99}, AKV_E_INPUT},
        {nest, {.depth = 10}, 0},
        {nest, {.depth = 9}, AKV_E_INPUT},
        {grow, {.memory_bytes = 1 << 20}, 0},
        {grow, {.memory_bytes = 200000}, AKV_E_INPUT},
    };
    struct akv_err err;
    struct akv_buf out;
    json_t *c = json_object();
    akv_buf_init(&out, 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int rc = run(rows[i].text, strlen(rows[i].text), c, &rows[i].limits, &out, &err);
        if (rc != rows[i].rc)
            fail_msg("row %zu: %d %s", i, rc, err.msg);
    }
    akv_buf_release(&out);
    json_decref(c);
}

/* Accumulating a long text or list piece by piece takes memory in proportion to its length, not to its square. */
static void test_accumulation_is_linear(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{% set ns = namespace(s='') %}{% for i in range(50000) %}{% set ns.s = ns.s + 'twenty bytes of text' %}{% endfor %}{{ "
        "ns.s|length }}",
        "{% set ns = namespace(s='') %}{% for i in range(50000) %}{% set ns.s = ns.s ~ 'twenty bytes of text' %}{% endfor %}{{ "
        "ns.s|length }}",
        "{% set ns = namespace(s=[]) %}{% for i in range(50000) %}{% set ns.s = ns.s + [i] %}{% endfor %}{{ ns.s|length }}",
    };
    static const char *const want[] = {"1000000", "1000000", "50000"};
    struct akv_err err;
    struct akv_buf out;
    json_t *c = json_object();
    akv_buf_init(&out, 0);
    for (size_t i = 0; i < 3; i++) {
        assert_ok(run(texts[i], strlen(texts[i]), c, &small, &out, &err), &err);
        assert_string_equal(out.data, want[i]);
    }
    akv_buf_release(&out);
    json_decref(c);
}

/* Text that is not UTF-8 or larger than a template may be is refused. */
static void test_bad_text(void **state)
{
    (void)state;
    struct akv_err err;
    struct akv_buf text, out;
    json_t *c = json_object();
    akv_buf_init(&text, 0);
    akv_buf_init(&out, 0);
    assert_int_equal(run("ab\xff", 3, c, NULL, &out, &err), AKV_E_INPUT);
    assert_string_equal(err.msg, "template: byte 2: not valid UTF-8");
    assert_int_equal(run("ab\xc3", 3, c, NULL, &out, &err), AKV_E_INPUT);
    repeated(&text, "", "0123456789abcdef", 65537, "");
    assert_int_equal(run(text.data, text.len, c, NULL, &out, &err), AKV_E_INPUT);
    assert_string_equal(err.msg, "template: larger than 1024 KiB");
    json_decref(c);
    akv_buf_release(&text);
    akv_buf_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_truncations),
        cmocka_unit_test(test_mutations),
        cmocka_unit_test(test_deep_syntax),
        cmocka_unit_test(test_bombs),
        cmocka_unit_test(test_deep_context),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_accumulation_is_linear),
        cmocka_unit_test(test_bad_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
