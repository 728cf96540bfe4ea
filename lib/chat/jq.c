#include "chat/jq.h"

#include <jq.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MARK "\xee\x80\x80" /* U+E000: private use, so no text means it */
#define EXACT_MAX INT64_C(9007199254740992)
#define DEPTH_MAX 1000
#define WORDS_MAX 120

struct akv_normaliser {
    jq_state *jq;
    char name[24];
    bool of_text;
    char words[256]; /* the last message of the compiler */
};

/* The compiler's messages; the first is the one to show. */
static void on_message(void *ctx, jv msg)
{
    struct akv_normaliser *q = ctx;
    jv text = jq_format_error(msg);
    if (!q->words[0] && jv_get_kind(text) == JV_KIND_STRING)
        snprintf(q->words, sizeof q->words, "%.*s", (int)sizeof q->words - 1, jv_string_value(text));
    jv_free(text);
}

int akv_normaliser_make(struct akv_normaliser **out, const char *program, const char *name, bool of_text, struct akv_err *err)
{
    struct akv_normaliser *q = akv_alloc(1, sizeof *q, err);
    if (!q)
        return AKV_E_IO;
    snprintf(q->name, sizeof q->name, "%s", name);
    q->of_text = of_text;
    q->jq = jq_init();
    if (!q->jq) {
        free(q);
        return akv_fail(err, AKV_E_IO, "jq: cannot start");
    }
    jq_set_error_cb(q->jq, on_message, q);
    if (!jq_compile(q->jq, program)) {
        int rc = akv_fail(err, AKV_E_INPUT, "%s: %.200s", q->name, q->words[0] ? q->words : "does not compile");
        akv_normaliser_close(q);
        return rc;
    }
    *out = q;
    return 0;
}

int akv_normaliser_open(struct akv_normaliser **out, const char *program, bool of_text, struct akv_err *err)
{
    return akv_normaliser_make(out, program, "jq program", of_text, err);
}

bool akv_normaliser_of_text(const struct akv_normaliser *q)
{
    return q->of_text;
}

void akv_normaliser_close(struct akv_normaliser *q)
{
    if (!q)
        return;
    jq_teardown(&q->jq);
    free(q);
}

/* A number that jq would change, as a marked string. */
static jv marked(const char *text)
{
    char s[64];
    snprintf(s, sizeof s, MARK "%s", text);
    return jv_string(s);
}

static jv number_to_jv(const json_t *v)
{
    char text[40];
    if (json_is_integer(v)) {
        json_int_t n = json_integer_value(v);
        if (n >= -EXACT_MAX && n <= EXACT_MAX)
            return jv_number((double)n);
        snprintf(text, sizeof text, "%lld", (long long)n);
        return marked(text);
    }
    double d = json_real_value(v);
    if (d != (double)(int64_t)d || d >= 9e15 || d <= -9e15)
        return jv_number(d);
    snprintf(text, sizeof text, "%lld.0", (long long)d);
    return marked(d == 0 && signbit(d) ? "-0.0" : text);
}

static jv to_jv(const json_t *v)
{
    switch (json_typeof(v)) {
    case JSON_OBJECT: {
        jv o = jv_object();
        const char *key;
        json_t *member;
        json_object_foreach ((json_t *)(uintptr_t)v, key, member)
            o = jv_object_set(o, jv_string(key), to_jv(member));
        return o;
    }
    case JSON_ARRAY: {
        jv a = jv_array();
        for (size_t i = 0; i < json_array_size(v); i++)
            a = jv_array_append(a, to_jv(json_array_get(v, i)));
        return a;
    }
    case JSON_STRING:
        return jv_string_sized(json_string_value(v), (int)json_string_length(v));
    case JSON_TRUE:
        return jv_true();
    case JSON_FALSE:
        return jv_false();
    case JSON_NULL:
        return jv_null();
    default:
        return number_to_jv(v);
    }
}

/* A marked string: a number as JSON spells it. NULL for anything else. */
static json_t *marked_to_json(const char *text, size_t len)
{
    json_t *v = NULL;
    if (akv_json_parse(&v, text, len, "number", NULL) == 0 && json_is_number(v))
        return v;
    json_decref(v);
    return NULL;
}

static json_t *string_to_json(jv v)
{
    const char *s = jv_string_value(v);
    size_t len = (size_t)jv_string_length_bytes(jv_copy(v));
    size_t mark = sizeof MARK - 1;
    if (len > mark && !memcmp(s, MARK, mark))
        return marked_to_json(s + mark, len - mark);
    return json_stringn(s, len);
}

static json_t *from_jv(jv v, int depth);

static json_t *object_to_json(jv v, int depth)
{
    json_t *o = json_object();
    for (int i = jv_object_iter(v); o && jv_object_iter_valid(v, i); i = jv_object_iter_next(v, i)) {
        jv key = jv_object_iter_key(v, i), member = jv_object_iter_value(v, i);
        if (json_object_set_new(o, jv_string_value(key), from_jv(member, depth + 1))) {
            json_decref(o);
            o = NULL;
        }
        jv_free(member);
        jv_free(key);
    }
    return o;
}

static json_t *array_to_json(jv v, int depth)
{
    json_t *a = json_array();
    int n = jv_array_length(jv_copy(v));
    for (int i = 0; a && i < n; i++) {
        jv member = jv_array_get(jv_copy(v), i);
        if (json_array_append_new(a, from_jv(member, depth + 1))) {
            json_decref(a);
            a = NULL;
        }
        jv_free(member);
    }
    return a;
}

/* NULL: out of memory, too deep, or text that JSON cannot hold. v is borrowed. */
static json_t *from_jv(jv v, int depth)
{
    if (depth > DEPTH_MAX)
        return NULL;
    switch (jv_get_kind(v)) {
    case JV_KIND_OBJECT:
        return object_to_json(v, depth);
    case JV_KIND_ARRAY:
        return array_to_json(v, depth);
    case JV_KIND_STRING:
        return string_to_json(v);
    case JV_KIND_NUMBER: {
        double d = jv_number_value(v);
        if (d == (double)(int64_t)d && d <= (double)EXACT_MAX && d >= -(double)EXACT_MAX)
            return json_integer((json_int_t)d);
        return json_real(d);
    }
    case JV_KIND_TRUE:
        return json_true();
    case JV_KIND_FALSE:
        return json_false();
    case JV_KIND_NULL:
        return json_null();
    default:
        return NULL;
    }
}

static int depth_of(const json_t *v, int depth)
{
    int deepest = depth;
    const char *key;
    json_t *member;
    size_t i;
    if (depth > DEPTH_MAX)
        return depth;
    json_object_foreach ((json_t *)(uintptr_t)v, key, member) {
        int d = depth_of(member, depth + 1);
        deepest = d > deepest ? d : deepest;
    }
    json_array_foreach (v, i, member) {
        int d = depth_of(member, depth + 1);
        deepest = d > deepest ? d : deepest;
    }
    return deepest;
}

int akv_normaliser_start(struct akv_normaliser *q, const json_t *input, struct akv_err *err)
{
    if (depth_of(input, 0) > DEPTH_MAX)
        return akv_fail(err, AKV_E_INPUT, "%s: the request is nested deeper than %d", q->name, DEPTH_MAX);
    jq_start(q->jq, to_jv(input), 0);
    return 0;
}

int akv_normaliser_next(struct akv_normaliser *q, json_t **out, struct akv_err *err)
{
    jv v = jq_next(q->jq);
    if (jv_is_valid(v)) {
        *out = from_jv(v, 0);
        jv_free(v);
        return *out ? 1 : akv_fail(err, AKV_E_INPUT, "%s: an output cannot be represented", q->name);
    }
    jv msg = jv_invalid_get_msg(v);
    int rc = 0;
    if (jv_get_kind(msg) == JV_KIND_STRING)
        rc = akv_fail(err, AKV_E_INPUT, "%s: %.*s", q->name, WORDS_MAX, jv_string_value(msg));
    else if (jv_get_kind(msg) != JV_KIND_NULL)
        rc = akv_fail(err, AKV_E_INPUT, "%s: failed with a value that is no text", q->name);
    jv_free(msg);
    return rc;
}
