/* Ids of replies that come back with the history: where they are used, where not, what they stand for. */
#include "tests/unit/chat_rig.h"

static size_t find_ids(const struct akv_record *r, const uint32_t *ids, size_t n)
{
    for (size_t i = 0; i + n <= r->n; i++)
        if (!memcmp(r->ids + i, ids, n * sizeof *ids))
            return i;
    return SIZE_MAX;
}

/* Ids of a reply, one token a letter, as no tokenizer would make them. */
static void spell(struct akv_buf *list, struct akv_ids *ids, const char *text)
{
    for (const char *p = text; *p; p++)
        akv_tok_encode(model->tok, p, 1, 0, ids, NULL, NULL);
    for (size_t i = 0; i < ids->n; i++)
        akv_buf_printf(list, "%s%u", i ? "," : "", ids->v[i]);
}

#define PLAIN                                                                                                                      \
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt "         \
    "%}<|im_start|>assistant\n{% endif %}"
#define TRIM "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content | trim }}<|im_end|>\n{% endfor %}"
#define UPPER "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content | upper }}<|im_end|>\n{% endfor %}"
#define TWICE "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}{{ m.content }}<|im_end|>\n{% endfor %}"

/* Given ids stand where their content is written as it is, and nowhere else; the rest of the prompt is as without them. */
static void given_ids(void **state)
{
    (void)state;
    if (!model)
        skip();
    static const struct {
        const char *tmpl, *content, *spelled;
        bool used;
    } rows[] = {
        {PLAIN, "Hello world", "Hello world", true},
        {PLAIN, "Hello", "Hello world", true}, /* the content was cut at a stop string */
        {PLAIN, " Hello\\n", " Hello\n", true},
        {PLAIN, "Hello world", "Hello", false},
        {PLAIN, "", "Hello", false}, /* no place to be found at */
        {TRIM, "Hello", "Hello", true},
        {TRIM, " Hello ", " Hello ", true},
        {TRIM, "\\nHello", "\nHello", false}, /* the newline before it may be the template's or the content's */
        {UPPER, "Hello", "Hello", false},
        {TWICE, "Hello", "Hello", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct akv_buf list, request;
        struct akv_ids ids = {0};
        struct akv_record r, plain;
        char *warnings = NULL;
        akv_buf_init(&list, 0);
        akv_buf_init(&request, 0);
        spell(&list, &ids, rows[i].spelled);
        akv_buf_printf(&request,
                       "{\"messages\":[{\"role\":\"user\",\"content\":\"Hello?\"},{\"role\":\"assistant\",\"content\":\"%s\",\"akv_"
                       "ids\":[%s]},"
                       "{\"role\":\"user\",\"content\":\"Hello world\"}]}",
                       rows[i].content, list.data);
        make_record(&r, request.data, rows[i].tmpl, &warnings);
        size_t at = find_ids(&r, ids.v, ids.n);
        if ((at != SIZE_MAX) != rows[i].used || (warnings == NULL) != rows[i].used)
            fail_msg("row %zu: at %zu, %s", i, at, warnings ? warnings : "no warning");
        akv_buf_clear(&request);
        akv_buf_printf(&request,
                       "{\"messages\":[{\"role\":\"user\",\"content\":\"Hello?\"},{\"role\":\"assistant\",\"content\":\"%s\"},"
                       "{\"role\":\"user\",\"content\":\"Hello world\"}]}",
                       rows[i].content);
        make_record(&plain, request.data, rows[i].tmpl, NULL);
        if (rows[i].used) {
            assert_memory_equal(r.ids, plain.ids, at * sizeof *r.ids);
            size_t rest = r.n - at - ids.n;
            assert_memory_equal(r.ids + at + ids.n, plain.ids + plain.n - rest, rest * sizeof *r.ids);
            assert_int_equal(r.n_anchors, plain.n_anchors);
        }
        akv_record_release(&r);
        akv_record_release(&plain);
        akv_ids_release(&ids);
        akv_buf_release(&list);
        akv_buf_release(&request);
        free(warnings);
    }
}

#define CALLS                                                                                                                      \
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.thinking %}<think>{{ m.thinking }}</think>{% endif %}"               \
    "{{ m.content }}{% for c in m.tool_calls %}<call>{\"name\": \"{{ c.function.name }}\", \"arguments\": "                        \
    "{{ (c.function.arguments or {}) | tojson }}}</call>{% endfor %}<|im_end|>\n{% endfor %}"                                      \
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
#define NO_CALLS                                                                                                                   \
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"                                     \
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
#define OPENS                                                                                                                      \
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}{% for c in m.tool_calls %}{{ c.function.name }}"             \
    "{{ c.function.arguments }}{% endfor %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n<think>"   \
    "{% endif %}"

/* Ids of a reply with calls stand for all of its message, whatever the client made of the JSON, as long as they tell the same. */
static void given_calls(void **state)
{
    (void)state;
    if (!model)
        skip();
    static const struct {
        const char *tmpl, *reply, *message, *why; /* why: NULL when the ids are used */
    } rows[] = {
        {CALLS, "<call>{\"arguments\":{\"b\":1,\"a\":\"x\"},\"name\":\"f\"}</call>",
         "\"content\":null,\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":{\"a\":\"x\",\"b\":1}}}]", NULL},
        {CALLS, "<call>{\"name\":\"f\",\"arguments\":{\"a\":\"x\"}}</call>",
         "\"content\":\"\",\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":\"{ \\\"a\\\" : \\\"x\\\" }\"}}]", NULL},
        {CALLS, "Let me see.\n<call>{\"name\":\"f\",\"arguments\":{\"q\":\"a\\u00e4\\n\\\"\\ud83d\\ude00\"}}</call>",
         "\"content\":\"Let me see.\",\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":{\"q\":\"aä\\n\\\"😀\"}}}]", NULL},
        {CALLS, "<call>{\"name\":\"f\",\"arguments\":\"{\\\"q\\\": \\\"a\\\\nb\\\"}\"}</call>",
         "\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":{\"q\":\"a\\nb\"}}}]", NULL},
        {CALLS, "<think>hm</think><call>{\"name\":\"f\"}</call><call>{\"name\":\"g\"}</call>",
         "\"thinking\":\"hm\",\"content\":\"\",\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":{}}},"
         "{\"function\":{\"name\":\"g\",\"arguments\":{}}}]",
         NULL},
        {CALLS, "<think>hm</think>Yes.", "\"reasoning_content\":\"hm\",\"content\":\"Yes.\"", "they do not spell the content"},
        {CALLS, "<call>{\"name\":\"f\",\"arguments\":{\"a\":\"x\"}}</call>",
         "\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":{\"a\":\"y\"}}}]", "the arguments of a call"},
        {CALLS, "<call>{\"name\":\"f\",\"arguments\":{\"a\":7}}</call>",
         "\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":{\"a\":8}}}]", "the arguments of a call"},
        {CALLS, "<call>{\"name\":\"f\",\"arguments\":{\"a\":7}}</call>",
         "\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":{\"b\":7}}}]", "the arguments of a call"},
        {CALLS, "<call>{\"name\":\"f\"}</call>", "\"tool_calls\":[{\"function\":{\"name\":\"g\",\"arguments\":{}}}]",
         "the name of a call"},
        {CALLS, "<call>{\"name\":\"f\"}</call>",
         "\"content\":\"Sure.\",\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":{}}}]", "the content is not"},
        {CALLS, "<call>{\"name\":\"f\"}</call>",
         "\"thinking\":\"hm\",\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":{}}}]", "the thinking is not"},
        {CALLS, "<call>{\"name\":\"f\"}</call>", "\"tool_calls\":[{\"function\":{}}]", "the name of a call"},
        {NO_CALLS, "<call>{\"name\":\"f\"}</call>",
         "\"content\":\"\",\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":{}}}]", "the name of a call"},
        {OPENS, "f{}", "\"content\":\"\",\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":{}}}]",
         "does not write the message"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int go_on = 0; go_on < 2; go_on++) {
            struct akv_buf list, request;
            struct akv_ids ids = {0};
            struct akv_record r, plain, before;
            char *warnings = NULL;
            akv_buf_init(&list, 0);
            akv_buf_init(&request, 0);
            spell(&list, &ids, rows[i].reply);
            make_record(&before, "{\"messages\":[{\"role\":\"user\",\"content\":\"Hello?\"}]}", rows[i].tmpl, NULL);
            static const char form[] =
                "{\"messages\":[{\"role\":\"user\",\"content\":\"Hello?\"},{\"role\":\"assistant\",%s%s%s%s},"
                "{\"role\":\"tool\",\"content\":\"Hello world\"}],\"add_generation_prompt\":%s}";
            const char *prompt = go_on ? "true" : "false";
            akv_buf_printf(&request, form, rows[i].message, ",\"akv_ids\":[", list.data, "]", prompt);
            make_record(&r, request.data, rows[i].tmpl, &warnings);
            size_t at = find_ids(&r, ids.v, ids.n);
            if ((at == SIZE_MAX) != (rows[i].why != NULL) || (warnings != NULL) != (rows[i].why != NULL) ||
                (warnings && !strstr(warnings, rows[i].why)))
                fail_msg("row %zu: at %zu, %s", i, at, warnings ? warnings : "no warning");
            akv_buf_clear(&request);
            akv_buf_printf(&request, form, rows[i].message, "", "", "", prompt);
            make_record(&plain, request.data, rows[i].tmpl, NULL);
            if (!rows[i].why) { /* the prompt that was answered, the reply, and what comes after it */
                assert_int_equal(at, before.n);
                assert_memory_equal(r.ids, before.ids, before.n * sizeof *r.ids);
                size_t rest = r.n - at - ids.n;
                assert_memory_equal(r.ids + at + ids.n, plain.ids + plain.n - rest, rest * sizeof *r.ids);
                assert_int_equal(r.n_anchors, plain.n_anchors);
            } else {
                assert_int_equal(r.n, plain.n);
                assert_memory_equal(r.ids, plain.ids, r.n * sizeof *r.ids);
            }
            akv_record_release(&r);
            akv_record_release(&plain);
            akv_record_release(&before);
            akv_ids_release(&ids);
            akv_buf_release(&list);
            akv_buf_release(&request);
            free(warnings);
        }
}

/* The token that ends a reply is there once, whether the ids have it too or not; another one stays. */
static void given_closer(void **state)
{
    (void)state;
    if (!model)
        skip();
    static const struct {
        const char *tmpl, *reply, *message;
        bool stays;
    } rows[] = {
        {PLAIN, "Hello world", "\"content\":\"Hello world\"", false},
        {PLAIN, "Hello world", "\"content\":\"Hello\"", false},
        {PLAIN, "Hello world", "\"content\":\"Hello world<|im_end|>\"", true},
        {CALLS, "<call>{\"name\":\"f\"}</call>", "\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":{}}}]", false},
        {"{% for m in messages %}<|im_start|>{{ m.content }}\n{% endfor %}", "Hello world", "\"content\":\"Hello world\"", true},
    };
    static const char form[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"Hello?\"},{\"role\":\"assistant\",%s,"
                               "\"akv_ids\":[%s%s]},{\"role\":\"user\",\"content\":\"Hello world\"}]}";
    struct akv_ids end = {0};
    char closer[16];
    assert_int_equal(akv_tok_encode(model->tok, "<|im_end|>", 10, AKV_TOK_SPECIAL, &end, NULL, NULL), 0);
    assert_int_equal(end.n, 1);
    snprintf(closer, sizeof closer, ",%u", end.v[0]);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct akv_buf list, request;
        struct akv_ids ids = {0};
        struct akv_record with, without;
        char *warnings = NULL;
        akv_buf_init(&list, 0);
        akv_buf_init(&request, 0);
        spell(&list, &ids, rows[i].reply);
        akv_buf_printf(&request, form, rows[i].message, list.data, "");
        make_record(&without, request.data, rows[i].tmpl, NULL);
        akv_buf_clear(&request);
        akv_buf_printf(&request, form, rows[i].message, list.data, closer);
        make_record(&with, request.data, rows[i].tmpl, &warnings);
        assert_null(warnings);
        size_t at = find_ids(&with, ids.v, ids.n);
        assert_true(at != SIZE_MAX);
        if (rows[i].stays) {
            assert_int_equal(with.ids[at + ids.n], end.v[0]);
            assert_int_equal(with.ids[at + ids.n + 1] == end.v[0], i == 2);
        } else {
            assert_int_equal(with.n, without.n);
            assert_memory_equal(with.ids, without.ids, with.n * sizeof *with.ids);
        }
        akv_record_release(&with);
        akv_record_release(&without);
        akv_ids_release(&ids);
        akv_buf_release(&list);
        akv_buf_release(&request);
    }
    akv_ids_release(&end);
}

/* A reply that is hostile to those who look for its arguments costs little. */
static void too_many_arguments(void **state)
{
    (void)state;
    if (!model)
        skip();
    struct akv_buf request;
    struct akv_ids ids = {0};
    struct akv_record r;
    char *warnings = NULL;
    akv_buf_init(&request, 0);
    for (size_t i = 0; i < 8000; i++)
        akv_buf_puts(&request, "x y z 1 ");
    akv_buf_puts(&request, "f");
    akv_tok_encode(model->tok, request.data, request.len, 0, &ids, NULL, NULL);
    akv_buf_clear(&request);
    akv_buf_puts(&request, "{\"messages\":[{\"role\":\"user\",\"content\":\"Hello?\"},{\"role\":\"assistant\",\"akv_ids\":[");
    for (size_t i = 0; i < ids.n; i++)
        akv_buf_printf(&request, "%s%u", i ? "," : "", ids.v[i]);
    akv_buf_puts(&request, "],\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":[");
    for (size_t i = 0; i < 20000; i++)
        akv_buf_puts(&request, "\"f\",");
    akv_buf_puts(&request, "1]}}]},{\"role\":\"tool\",\"content\":\"Hello world\"}]}");
    make_record(&r, request.data, CALLS, &warnings);
    assert_non_null(strstr(warnings, "too much to compare"));
    free(warnings);
    akv_record_release(&r);
    akv_ids_release(&ids);
    akv_buf_release(&request);
}

/* An id that the vocabulary does not have is bad input, whatever the text says. */
static void bad_given_ids(void **state)
{
    (void)state;
    if (!model)
        skip();
    static const char *const lists[] = {"[49152]", "[-1]", "[1.0]", "[\"1\"]", "[4294967297]"};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        char request[256];
        struct akv_chat_opts opts = {0};
        struct akv_err err = {0};
        struct akv_record r;
        snprintf(request, sizeof request, "{\"messages\":[{\"role\":\"assistant\",\"content\":\"x\",\"akv_ids\":%s}]}", lists[i]);
        json_t *v = json(request);
        assert_int_equal(akv_chat_record(model, v, "r", &opts, NULL, &r, NULL, &err), AKV_E_INPUT);
        assert_non_null(strstr(err.msg, "messages[0].akv_ids[0]"));
        json_decref(v);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(given_ids),          cmocka_unit_test(given_calls),   cmocka_unit_test(given_closer),
        cmocka_unit_test(too_many_arguments), cmocka_unit_test(bad_given_ids),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
