/* The template interpreter against renders of the reference implementation, and against hostile templates. */
#include "tests/check.h"

#include <dirent.h>
#include <locale.h>
#include <zstd.h>

#include "chat/jinja.h"

#define GOLDEN_NOW 1768478400 /* 2026-01-15 12:00:00 UTC, as the reference renders have it */

/* ---- helpers ---- */

static void read_file(const char *path, struct akv_buf *b)
{
    FILE *f = fopen(path, "rb");
    char block[65536];
    size_t n;
    akv_buf_init(b, 0);
    if (!f)
        fail_msg("%s: cannot open", path);
    while ((n = fread(block, 1, sizeof block, f)) > 0)
        akv_buf_add(b, block, n);
    fclose(f);
}

static void unzstd(struct akv_buf *b)
{
    struct akv_buf plain;
    char block[65536];
    ZSTD_DStream *z = ZSTD_createDStream();
    ZSTD_inBuffer in = {b->data, b->len, 0};
    akv_buf_init(&plain, 0);
    while (in.pos < in.size) {
        ZSTD_outBuffer out = {block, sizeof block, 0};
        if (ZSTD_isError(ZSTD_decompressStream(z, &out, &in)))
            fail_msg("damaged zstd file");
        akv_buf_add(&plain, block, out.pos);
    }
    ZSTD_freeDStream(z);
    akv_buf_release(b);
    *b = plain;
}

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

/* Parse and render text with a context in JSON. Returns the code; out has the text or err the message. */
static int render(const char *text, size_t len, const char *context, const struct akv_jinja_limits *limits, struct akv_buf *out,
                  struct akv_err *err)
{
    struct akv_jinja *t;
    json_t *c = json_loads(context, 0, NULL);
    assert_non_null(c);
    *err = (struct akv_err){0};
    akv_buf_init(out, 0);
    int rc = akv_jinja_parse(&t, text, len, err);
    if (rc == 0)
        rc = akv_jinja_render(t, c, GOLDEN_NOW, limits, out, err);
    akv_jinja_free(t);
    json_decref(c);
    return rc;
}

/* ---- the golden renders ---- */

struct tally {
    size_t cases, failed, templates;
    json_t *tools;
};

static json_t *context_of(const json_t *kase, const json_t *variant, const json_t *tools)
{
    static const char *const copied[] = {"messages", "add_generation_prompt"};
    json_t *c = json_object();
    for (size_t i = 0; i < 2; i++) {
        json_t *v = json_object_get(variant, copied[i]);
        json_object_set(c, copied[i], v ? v : json_object_get(kase, copied[i]));
    }
    json_object_set(c, "tools", (json_t *)tools);
    json_object_set_new(c, "documents", json_null());
    for (size_t i = 0; i < 2; i++) {
        const char *key = i ? "eos_token" : "bos_token";
        if (json_is_string(json_object_get(kase, key)))
            json_object_set(c, key, json_object_get(kase, key));
    }
    json_object_update(c, json_object_get(variant, "extra"));
    return c;
}

/* Where the texts part, with a few bytes of both. */
static void report_text(const char *name, const json_t *kase, const struct akv_buf *got, const char *want, size_t want_len)
{
    size_t at = 0, from;
    while (at < got->len && at < want_len && got->data[at] == want[at])
        at++;
    from = at > 20 ? at - 20 : 0;
    print_message("%s %s: differs at byte %zu\n  got  \"%.60s\"\n  want \"%.60s\"\n", name,
                  json_string_value(json_object_get(kase, "id")), at, got->data + from, want + from);
}

/* A render that the reference's sandbox refuses may also give the text that it would give without; that is known for the first variant. */
static bool check_error(const char *name, const json_t *kase, const json_t *variant, int rc, const struct akv_buf *got,
                        const struct akv_err *err)
{
    const char *kind = json_string_value(json_object_get(kase, "kind"));
    const char *id = json_string_value(json_object_get(kase, "id"));
    const json_t *unboxed = json_object_get(kase, "unsandboxed");
    if (rc == 0 && json_is_string(unboxed)) {
        bool same = got->len == json_string_length(unboxed) && memcmp(got->data, json_string_value(unboxed), got->len) == 0;
        if (!same && variant == kase)
            report_text(name, kase, got, json_string_value(unboxed), json_string_length(unboxed));
        return same || variant != kase;
    }
    if (rc == 0) {
        print_message("%s %s: expected an error (%s), got \"%.60s\"\n", name, id, kind, got->data);
        return false;
    }
    struct akv_err want = {0};
    akv_fail(&want, AKV_E_INPUT, "template: %.400s", json_string_value(json_object_get(kase, "message")));
    if (strcmp(kind, "raise_exception") == 0 && strcmp(err->msg, want.msg) != 0) {
        print_message("%s %s: got \"%s\", want \"%s\"\n", name, id, err->msg, want.msg);
        return false;
    }
    return rc == AKV_E_INPUT;
}

static bool check_variant(const char *name, const struct akv_jinja *t, const json_t *kase, const json_t *variant,
                          const json_t *tools)
{
    struct akv_buf got;
    struct akv_err err = {0};
    json_t *c = context_of(kase, variant, tools);
    const json_t *want = json_object_get(kase, "expected");
    akv_buf_init(&got, 0);
    int rc = akv_jinja_render(t, c, GOLDEN_NOW, NULL, &got, &err);
    bool ok;
    if (!json_is_string(want)) {
        ok = check_error(name, kase, variant, rc, &got, &err);
    } else {
        ok = rc == 0 && got.len == json_string_length(want) && memcmp(got.data, json_string_value(want), got.len) == 0;
        if (rc < 0)
            print_message("%s %s: %s\n", name, json_string_value(json_object_get(kase, "id")), err.msg);
        else if (!ok)
            report_text(name, kase, &got, json_string_value(want), json_string_length(want));
    }
    akv_buf_release(&got);
    json_decref(c);
    return ok;
}

static void check_case(struct tally *y, const char *name, const struct akv_jinja *t, const json_t *kase)
{
    size_t i;
    json_t *v;
    y->cases++;
    y->failed += !check_variant(name, t, kase, kase, json_object_get(kase, "tools"));
    json_array_foreach (json_object_get(kase, "also"), i, v) {
        const char *set = json_string_value(json_object_get(v, "tools"));
        y->cases++;
        y->failed += !check_variant(name, t, kase, v, set ? json_object_get(y->tools, set) : json_null());
    }
}

static void check_template(struct tally *y, const char *name, const char *cases_path)
{
    char rel[512];
    struct akv_buf text, cases;
    struct akv_err err = {0};
    struct akv_jinja *t;
    snprintf(rel, sizeof rel, "templates/%s.jinja", name);
    const char *path = shared_file(rel);
    assert_non_null(path);
    read_file(path, &text);
    assert_ok(akv_jinja_parse(&t, text.data, text.len, &err), &err);
    read_file(cases_path, &cases);
    if (ends_with(cases_path, ".zst"))
        unzstd(&cases);
    for (char *line = cases.data, *end; *line; line = end + 1) {
        end = strchr(line, '\n');
        assert_non_null(end);
        json_t *kase = json_loadb(line, (size_t)(end - line), JSON_ALLOW_NUL, NULL);
        assert_non_null(kase);
        check_case(y, name, t, kase);
        json_decref(kase);
    }
    y->templates++;
    akv_jinja_free(t);
    akv_buf_release(&cases);
    akv_buf_release(&text);
}

/* Every recorded render of every public template comes out byte for byte, and every recorded failure fails. */
static void test_golden(void **state)
{
    (void)state;
    struct tally y = {0};
    const char *dir = shared_file("golden/templates");
    const char *tools = shared_file("golden/templates/tools.json");
    if (!dir || !tools)
        skip();
    y.tools = json_load_file(tools, 0, NULL);
    assert_non_null(y.tools);
    char base[4096];
    snprintf(base, sizeof base, "%s", dir);
    DIR *d = opendir(base);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        char name[300], path[4400];
        if (!(ends_with(e->d_name, ".jsonl") || ends_with(e->d_name, ".jsonl.zst")) || strncmp(e->d_name, "split.", 6) == 0)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)(strstr(e->d_name, ".jsonl") - e->d_name), e->d_name);
        snprintf(path, sizeof path, "%s/%s", base, e->d_name);
        check_template(&y, name, path);
    }
    closedir(d);
    json_decref(y.tools);
    print_message("%zu cases of %zu templates\n", y.cases, y.templates);
    assert_true(y.cases > 0);
    assert_int_equal(y.failed, 0);
}

/* ---- the language ---- */

#define MSGS                                                                                                                       \
    "\"m\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"B\"},{\"role\":\"user\",\"content\":"      \
    "\"c\"}]"
#define CONTEXT                                                                                                                    \
    "{" MSGS                                                                                                                       \
    ",\"s\":\"h\u00e9llo w\u00f6rld\",\"l\":[3,1,2],\"d\":{\"b\":1,\"a\":\"x\",\"items\":5,\"n\":null},\"x\":\"X\",\"n\":null}"

/* What the reference implementation (Jinja2 3.1.6 with transformers' settings) prints for each. */
static const struct {
    const char *text, *want;
} language[] = {
    /* arithmetic and comparison */
    {"{{ 1 + 2 * 3 - 4 // 3 }} {{ 7 / 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 2 ** 3 ** 2 }} {{ -2 ** 2 }}",
     "6 3.5 -4 2 -2 64 4"},
    {"{{ -7.5 // 2 }} {{ -7.5 % 2 }} {{ 7.5 % -2 }} {{ 0.1 + 0.2 }} {{ 1e16 }} {{ 1.5e-7 }} {{ 100000.0 }} {{ -0.0 }}",
     "-4.0 0.5 -0.5 0.30000000000000004 1e+16 1.5e-07 100000.0 -0.0"},
    {"{{ true + true }} {{ 1 == 1.0 }} {{ 1 == true }} {{ '1' == 1 }} {{ [1,[2]] == [1,[2]] }} {{ (1,2) == [1,2] }}",
     "2 True True False True False"},
    {"{{ 9007199254740993 == 9007199254740992.0 }} {{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ [1,2] < [1,3] }} {{ 'Z' < 'a' }}",
     "False True False True True"},
    {"{{ {'a': 1, 'b': 2} == {'b': 2, 'a': 1.0} }} {{ 2 in l }} {{ 'b' in d }} {{ 'llo' in s }} {{ 5 not in l }} {{ 'a' in zz }}",
     "True True True True True False"},
    {"{{ 0 or '' or 'z' }} {{ 1 and 0 }} {{ not zz }} {{ 'y' if x else 'n' }} {{ 'y' if n else 'n' }}[{{ 'y' if n }}]",
     "z 0 True y n[]"},
    {"{{ 'a' ~ 1 ~ none ~ true ~ 1.0 ~ [1] ~ zz }} {{ 'ab' * 3 }} {{ [1] * 2 + [3] }} {{ (1,) + (2, 3) }}",
     "a1NoneTrue1.0[1] ababab [1, 1, 3] (1, 2, 3)"},
    {"{{ -5|abs }} {{ 1 + l|first }} {{ 'a' ~ 'b'|upper }} {{ not l is string }} {{ 1 ~ 2 + 3 if false else '-' }}",
     "5 4 aB True -"},
    /* printing */
    {"{{ none }} {{ true }} {{ [1.0, none, 'it\\'s', 'a\"b', '\\n\\x00\\u200b\\u00e9'] }} {{ (1,) }} {{ () }} {{ {} }} {{ {1: zz} "
     "}}",
     "None True [1.0, None, \"it's\", 'a\"b', '\\n\\x00\\u200b\u00e9'] (1,) () {} {1: Undefined}"},
    {"{{ range(3) }} {{ range(5, 1, -2)|list }} {{ d.keys() }} {{ d.items() }} {{ namespace(a=1) }}",
     "range(0, 3) [5, 3] dict_keys(['b', 'a', 'items', 'n']) dict_items([('b', 1), ('a', 'x'), ('items', 5), ('n', None)]) "
     "<Namespace {'a': 1}>"},
    {"{{ d|tojson }} {{ [1.0, 1e100, true, none, '\u00e9\"\\n']|tojson }} {{ 'h\u00e9\U0001f600'|tojson(ensure_ascii=true) }}",
     "{\"b\": 1, \"a\": \"x\", \"items\": 5, \"n\": null} [1.0, 1e+100, true, null, \"\u00e9\\\"\\n\"] \"h\\u00e9\\ud83d\\ude00\""},
    {"{{ {'b': [1, {}], 'a': []}|tojson(indent=2) }} {{ {'b': 1, 'a': 2}|tojson(sort_keys=true, separators=(',', ':')) }}",
     "{\n  \"b\": [\n    1,\n    {}\n  ],\n  \"a\": []\n} {\"a\":2,\"b\":1}"},
    {"{{ {1: 2, none: 3, true: 4, 1.5: 6}|tojson }}", "{\"1\": 4, \"null\": 3, \"1.5\": 6}"},
    /* subscripts */
    {"{{ s[0] }}{{ s[-1] }} {{ s[1:3] }} {{ s[::-1] }} {{ s[5:1:-2] }} {{ s[100] }} {{ l[::-1] }} {{ l[-2:] }} {{ l[5] }} {{ (1, "
     "2)[0] }}",
     "hd \u00e9l dlr\u00f6w oll\u00e9h  l  [2, 1, 3] [1, 2]  1"},
    {"{{ d.b }} {{ d['items'] }} {{ d.get('zz') }} {{ d.get('zz', 3) }} {{ d.zz is defined }} {{ m.0.role }} {{ m[-1]['role'] }} "
     "{{ n.x }}",
     "1 5 None 3 False user user "},
    /* undefined */
    {"[{{ zz }}] {{ zz == yy }} {{ zz == none }} {{ zz|length }} {{ zz|list }} {{ zz is sequence }} {{ zz is mapping }}{% for i in "
     "zz %}x{% else %} e{% endfor %}",
     "[] True False 0 [] True False e"},
    /* string methods */
    {"{{ 'a,b,,c'.split(',') }} {{ ' a  b c '.split() }} {{ 'a,b,c'.split(',', 1) }} {{ ' a  b c '.rsplit(none, 1) }} {{ "
     "'aXbXc'.rpartition('X') }}",
     "['a', 'b', '', 'c'] ['a', 'b', 'c'] ['a', 'b,c'] [' a  b', 'c'] ('aXb', 'X', 'c')"},
    {"{{ 'xxaxx'.strip('x') }} {{ '\u00a0a '.strip() }} {{ 'abcba'.lstrip('ab') }} {{ 'aaa'.replace('a', 'b', 2) }} {{ "
     "'ab'.replace('', '-') }} {{ 'h\u00e9\u00e9'.find('\u00e9', 2) }} {{ 'aaaa'.count('aa') }}",
     "a a cba bba -a-b- 2 2"},
    {"{{ 'abc'.startswith(('x', 'a')) }} {{ 'abc'.endswith('b', 0, 2) }} {{ ', '.join(['a', 'b']) }} {{ "
     "'a\\nb\\r\\nc'.splitlines() }} {{ '-42'.zfill(5) }} {{ 'abcd'.center(9, '*') }}",
     "True True a, b ['a', 'b', 'c'] -0042 ***abcd**"},
    {"{{ '\u00df \ufb01 \u0391\u03a3. \u0130'|upper }} {{ '\u0391\u03a3 \u0130'|lower }} {{ '\u00df\u01c6 don\\'t'.title() }} {{ "
     "'o\\'neil mac-donald'|title }} {{ 'hELLO'|capitalize }}",
     "SS FI \u0391\u03a3. \u0130 \u03b1\u03c2 i\u0307 Ss\u01c6 Don'T O'neil Mac-Donald Hello"},
    {"{{ '%s %05d %.2f %x %r' % ('a', 42, 1.005, 255, \"q'\") }} {{ '%(a)s' % {'a': 1} }} {{ '%s|%s'|format(1, none) }}",
     "a 00042 1.00 ff \"q'\" 1 1|None"},
    /* filters */
    {"{{ m|selectattr('role', 'equalto', 'user')|map(attribute='content')|join(', ') }} {{ m|rejectattr('role', 'eq', "
     "'user')|list|length }}",
     "a, c 1"},
    {"{{ l|sort }} {{ ['b', 'A', 'c']|sort(reverse=true) }} {{ {'b': 1, 'A': 2}|dictsort }} {{ [1, 1, 'a', 'A']|unique|list }} {{ "
     "l|min }}{{ l|max }}{{ l|sum }}",
     "[1, 2, 3] ['c', 'b', 'A'] [('A', 2), ('b', 1)] [1, 'a'] 136"},
    {"{{ zz|default('D') }}{{ none|default('D') }}{{ ''|default('D', true) }} {{ '42.7'|int }} {{ 'x'|int(5) }} {{ "
     "'0x1A'|int(base=16) }} {{ '1_000'|int }} {{ ' 1.25 '|float }}",
     "DNoneD 42 5 26 1000 1.25"},
    {"{{ 2.5|round }} {{ 2.675|round(2) }} {{ 1234.5678|round(1, 'ceil') }} {{ -0.5|round(0, 'ceil') }} {{ "
     "'a\\nb\\n\\nc'|indent(2, true) }}|{{ 'foo bar baz "
     "qux'|truncate(9) }}",
     "2.0 2.67 1234.6 0.0   a\n  b\n\n  c|foo..."},
    {"{{ ('<a>'|safe) + '<b>' }} {{ '<b>' ~ ('<a>'|safe) }} {{ '<&>'|e }}", "<a>&lt;b&gt; <b><a> &lt;&amp;&gt;"},
    {"{% set g = l|map('string') %}{{ g|first }}{{ g|list }}{{ g|list }} {% if []|select %}always{% endif %}",
     "3['1', '2'][] always"},
    /* loops */
    {"{% for i in l %}{{ loop.index }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.previtem }}-{{ loop.nextitem }}{{ "
     "loop.cycle('a', 'b') }};{% endfor %}",
     "12TrueFalse-1a;21FalseFalse3-2b;30FalseTrue1-a;"},
    {"{% for i in l if i > 1 %}{{ i }}{{ loop.length }}{{ loop.last }};{% else %}none{% endfor %}{% for k, v in d.items() %}{{ k "
     "}}={{ v }},{% endfor %}",
     "32False;22True;b=1,a=x,items=5,n=None,"},
    {"{% for x in m %}{{ loop.changed(x.role) }}{% endfor %}{% for i in [1,2,3] %}{% if i == 2 %}{% continue %}{% endif %}{{ i "
     "}}{% if i == 3 %}{% break %}{% endif %}{% endfor %}",
     "TrueTrueTrue13"},
    {"{% for t in [{'n': 1, 'c': [{'n': 2, 'c': []}]}] recursive %}{{ t.n }}{{ loop.depth }}{% if t.c %}({{ loop(t.c) }}){% endif "
     "%}{% endfor %}",
     "11(22)"},
    {"{% set ns = namespace(f=false) %}{% for t in m if not ns.f %}{{ t.content }}{% set ns.f = t.content == 'B' %}{% endfor %}",
     "aB"},
    /* scopes */
    {"{% set y = 1 %}{% for i in l %}{% set y = y + i %}{{ y }};{% endfor %}{{ y }}", "4;2;3;1"},
    {"{% for i in [1] %}{{ x }}{% endfor %}{% set x = 2 %}{{ x }}", "2"},
    {"{% for i in [1] %}{{ x }}{% endfor %}{% if true %}{% set x = 2 %}{% endif %}{{ x }}", "X2"},
    {"{% macro f() %}{{ x }}{{ y }}{% endmacro %}{% set y = 4 %}{{ f() }}{% set a %}{% set x = 9 %}{{ x }}{% endset %}{{ a }}{{ x "
     "}}",
     "X49X"},
    {"{% with a = 1, b = x %}{{ a }}{{ b }}{% set x = 5 %}{{ x }}{% endwith %}{{ a }}{{ x }}", "1X5X"},
    {"{% set ns = namespace(a=[0]) %}{% set b = ns.a + [1] %}{% set c = ns.a + [2] %}{% set e = b + [3] %}{% set f = b + [4] %}{{ "
     "b }}{{ c }}{{ e }}{{ f }}",
     "[0, 1][0, 2][0, 1, 3][0, 1, 4]"},
    {"{% set a = 'x' %}{% set b = a + '1' %}{% set c = b + '2' %}{% set e = b + '3' %}{% set f = c + '4' %}{{ b }}{{ c }}{{ e }}{{ "
     "f }}",
     "x1x12x13x124"},
    /* macros, call, filter, generation */
    {"{% macro f(a, b=2) %}{{ a }}-{{ b }};{% endmacro %}{{ f(1) }}{{ f(b=1, a=2) }}{{ f() }}{{ f(*[7], **{'b': 8}) }}",
     "1-2;2-1;-2;7-8;"},
    {"{% macro f(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, 2, 3, q=4) }}", "1(2, 3){'q': 4}"},
    {"{% macro f() %}[{{ caller(1) }}]{% endmacro %}{% call(a) f() %}{{ a }}{{ x }}{% endcall %}{% filter upper %}q{{ x }}{% "
     "endfilter %}",
     "[1X]QX"},
    {"{% generation %}a{% set x = 2 %}{{ x }}{% endgeneration %}{{ x }}", "a2X"},
    {"{% macro r(n) %}{{ n }}{% if n > 0 %}{{ r(n - 1) }}{% endif %}{% endmacro %}{{ r(3)|upper }}", "3210"},
    {"{% set q = [] %}{% set _ = q.append(1) %}{% set p = q.pop() %}{{ q }}{{ p }}", "[]1"},
    /* white space */
    {"  {% if true %}\nx\n  {% endif %}\ny\n", "x\ny"},
    {"a\n  {%+ if true %}x{% endif %}\n\n", "a\n  x"},
    {"{% if true +%}\n\nx\n{% endif %}\n", "\n\nx\n"},
    {"a  {#- c -#}\n b {{- 1 -}} \n c\n  {#  d #}\n  z", "ab1c\n  z"},
    {"{% raw %}\n a {{ x }}\n{% endraw %}\nb{%- raw -%}  {% if  {%- endraw -%}  c", "\n a {{ x }}\nb{% ifc"},
    {"a\r\n{% if true %}\r\nb\r\n{% endif %}\rc\r\n", "a\nb\nc"},
    {"{{ {'a': {'b': 1}}}}{{ '}}' }}{{ 'a' \"b\" 'c\\\nd' }}", "{'a': {'b': 1}}}}abcd"},
    /* clock */
    {"{{ strftime_now('%Y-%m-%d %H:%M:%S %B %b %A %a %j %I%p %y %% %-d %e %U %W %u %w %D %Z %q') }}",
     "2026-01-15 12:00:00 January Jan Thursday Thu 015 12PM 26 % 15 15 02 02 4 4 01/15/26 UTC %q"},
};

/* Values, operators, filters, scopes and white space behave as in the reference implementation. */
static void test_language(void **state)
{
    (void)state;
    size_t failed = 0;
    for (size_t i = 0; i < sizeof language / sizeof *language; i++) {
        struct akv_buf out;
        struct akv_err err;
        int rc = render(language[i].text, strlen(language[i].text), CONTEXT, NULL, &out, &err);
        if (rc < 0 || strcmp(out.data, language[i].want) != 0) {
            print_message("%s\n  got  %s%s\n  want %s\n", language[i].text, out.data, rc < 0 ? err.msg : "", language[i].want);
            failed++;
        }
        akv_buf_release(&out);
    }
    assert_int_equal(failed, 0);
}

static const struct {
    const char *text, *message;
} errors[] = {
    {"{{ raise_exception('no ' + x) }}", "template: no X"},
    {"a\n{{ zz.y }}", "template line 2: 'zz' is undefined"},
    {"{{ d.zz.y }}", "template line 1: no attribute 'zz'"},
    {"{{ n.x.y }}", "template line 1: no attribute 'x'"},
    {"\n\n{{ 'a' + 1 }}", "template line 3: str + int is not possible"},
    {"{{ 'a' < 1 }}", "template line 1: str and int have no order"},
    {"{{ zz + 1 }}", "template line 1: 'zz' is undefined"},
    {"{{ zz() }}", "template line 1: 'zz' is undefined"},
    {"{% for i in none %}{% endfor %}", "template line 1: none is not iterable"},
    {"{% for a, b in [[1]] %}{% endfor %}", "template line 1: not enough values to unpack"},
    {"{% set d.q = 1 %}", "template line 1: attributes can be set on namespaces only"},
    {"{{ l.append(1) }}", "template line 1: append: only lists that the template made can be changed"},
    {"{{ d.update({}) }}", "template line 1: 'update' is not allowed here"},
    {"{{ {[1]: 2} }}", "template line 1: list cannot be a key"},
    {"{{ zz|tojson }}", "template line 1: tojson: undefined is not JSON"},
    {"{{ 'a'|from_json }}", "template line 1: unknown filter 'from_json'"},
    {"{{ 5 // 0 }}", "template line 1: division by zero"},
    {"{{ 9223372036854775807 + 1 }}", "template line 1: integer does not fit 64 bits"},
    {"{{ 9223372036854775808 }}", "template line 1: integer does not fit 64 bits"},
    {"{{ range(100001) }}", "template line 1: range: more than 100000 items"},
    {"{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}", "template line 1: macro: too many arguments"},
    {"{% if x %}\n{% endfor %}", "template line 2: unknown tag 'endfor'"},
    {"{% if x %}", "template line 1: expected endif, found the end of the template"},
    {"{% break %}", "template line 1: break outside a loop"},
    {"{{ x ! }}", "template line 1: unexpected character U+0021"},
    {"{{ (1 }}", "template line 1: unexpected '}'"},
    {"{{ 'abc }}", "template line 1: string without an end"},
    {"{{ '\\ud800' }}", "template line 1: escape is not a character"},
    {"{% include 'a' %}", "template line 1: unknown tag 'include'"},
};

/* Errors say where and what, and leave the output as it was. */
static void test_errors(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        struct akv_buf out;
        struct akv_err err;
        assert_int_equal(render(errors[i].text, strlen(errors[i].text), CONTEXT, NULL, &out, &err), AKV_E_INPUT);
        assert_string_equal(err.msg, errors[i].message);
        assert_int_equal(out.len, 0);
        akv_buf_release(&out);
    }
}

/* raise_exception passes on 400 bytes at most, cut between characters. */
static void test_raised_text_is_cut(void **state)
{
    (void)state;
    struct akv_buf out;
    struct akv_err err;
    const char *text = "{{ raise_exception('a' ~ '\u00e9' * 1000) }}";
    assert_int_equal(render(text, strlen(text), "{}", NULL, &out, &err), AKV_E_INPUT);
    assert_int_equal(strlen(err.msg), strlen("template: ") + 399);
    akv_buf_release(&out);
}

/* A failed render keeps what stood in the buffer before, and the same template renders again, the same way. */
static void test_render_twice(void **state)
{
    (void)state;
    struct akv_jinja *t;
    struct akv_err err = {0};
    struct akv_buf out;
    const char *text = "{% set l = l + [1] %}<{{ l }}>{% if fail %}{{ raise_exception('no') }}{% endif %}";
    json_t *good = json_loads("{\"l\":[0]}", 0, NULL), *bad = json_loads("{\"l\":[0],\"fail\":true}", 0, NULL);
    akv_buf_init(&out, 0);
    akv_buf_puts(&out, "kept");
    assert_ok(akv_jinja_parse(&t, text, strlen(text), &err), &err);
    assert_int_equal(akv_jinja_render(t, bad, 0, NULL, &out, &err), AKV_E_INPUT);
    assert_string_equal(out.data, "kept");
    err = (struct akv_err){0};
    assert_ok(akv_jinja_render(t, good, 0, NULL, &out, &err), &err);
    assert_ok(akv_jinja_render(t, good, 0, NULL, &out, &err), &err);
    assert_string_equal(out.data, "kept<[0, 1]><[0, 1]>");
    akv_jinja_free(t);
    akv_buf_release(&out);
    json_decref(good);
    json_decref(bad);
}

/* Dates are right across leap years, centuries and the epoch. */
static void test_dates(void **state)
{
    (void)state;
    static const struct {
        int64_t now;
        const char *want;
    } rows[] = {
        {0, "1970-01-01 00:00:00 Thu 001 AM"},          {-1, "1969-12-31 23:59:59 Wed 365 PM"},
        {951827696, "2000-02-29 12:34:56 Tue 060 PM"},  {4107542400, "2100-03-01 00:00:00 Mon 060 AM"},
        {1735689599, "2024-12-31 23:59:59 Tue 366 PM"}, {-2208988800, "1900-01-01 00:00:00 Mon 001 AM"},
    };
    struct akv_jinja *t;
    struct akv_err err = {0};
    const char *text = "{{ strftime_now('%F %T %a %j %p') }}";
    json_t *c = json_object();
    assert_ok(akv_jinja_parse(&t, text, strlen(text), &err), &err);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct akv_buf out;
        akv_buf_init(&out, 0);
        assert_ok(akv_jinja_render(t, c, rows[i].now, NULL, &out, &err), &err);
        assert_string_equal(out.data, rows[i].want);
        akv_buf_release(&out);
    }
    akv_jinja_free(t);
    json_decref(c);
}

/* Case, numbers and dates do not follow the process's locale. */
static void test_locales(void **state)
{
    static const char *const names[] = {"de_DE.UTF-8", "tr_TR.UTF-8"};
    size_t found = 0;
    for (size_t i = 0; i < 2; i++) {
        if (!setlocale(LC_ALL, names[i]))
            continue;
        found++;
        test_language(state);
    }
    setlocale(LC_ALL, "C");
    if (!found)
        skip();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),       cmocka_unit_test(test_language),
        cmocka_unit_test(test_errors),       cmocka_unit_test(test_raised_text_is_cut),
        cmocka_unit_test(test_render_twice), cmocka_unit_test(test_dates),
        cmocka_unit_test(test_locales),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
