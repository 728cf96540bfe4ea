/* The template interpreter against renders of the reference implementation, and against hostile templates. */
#include "tests/check.h"

#include <dirent.h>
#include <time.h>
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
    print_message("%s %s: differs at byte %zu\n  got  \"%.60s\"\n  want \"%.60s\"\n", name, json_string_value(json_object_get(kase, "id")),
                  at, got->data + from, want + from);
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

static bool check_variant(const char *name, const struct akv_jinja *t, const json_t *kase, const json_t *variant, const json_t *tools)
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
    json_array_foreach(json_object_get(kase, "also"), i, v)
    {
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),
    };
    (void)render;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
