/* Chat requests: what is accepted, how it is rendered, spans and anchors. */
#include "tests/unit/chat_rig.h"

#include <time.h>

/* Render a request through a template without a model: the text, or the error's text. Malloc'd. */
static char *rendered(const char *request, const char *tmpl, unsigned flags)
{
    struct akv_chat_opts opts = with_template(tmpl);
    struct akv_err err = {0};
    struct akv_buf text;
    json_t *v = json(request);
    opts.flags = flags;
    akv_buf_init(&text, 0);
    int rc = akv_chat_render(NULL, v, &opts, NULL, &text, NULL, &err);
    json_decref(v);
    if (rc < 0) {
        akv_buf_clear(&text);
        akv_buf_printf(&text, "%d %s", rc, err.msg);
    }
    char *s = akv_buf_steal(&text);
    akv_buf_release(&text);
    return s;
}

#define MSG "\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]"

/* Each request that akv cannot honour is refused with the name of the field. */
static void refuses(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"[]", "-3 the request is not a JSON object"},
        {"\"hi\"", "-3 the request is not a JSON object"},
        {"{}", "-3 neither messages nor prompt is given"},
        {"{\"messages\":null}", "-3 neither messages nor prompt is given"},
        {"{" MSG ",\"prompt\":\"x\"}", "-3 messages and prompt: give one of them, not both"},
        {"{\"messages\":{}}", "-3 messages: must be an array"},
        {"{\"messages\":[1]}", "-3 messages[0]: must be an object"},
        {"{\"messages\":[{\"content\":\"x\"}]}", "-3 messages[0].role: missing or not a string"},
        {"{\"messages\":[{\"role\":null}]}", "-3 messages[0].role: missing or not a string"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":7}]}",
         "-3 messages[0].content: must be a string, an array of parts or null"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":[7]}]}", "-3 messages[0].content[0]: must be an object or a string"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\"}]}]}",
         "-3 messages[0].content[0].text: missing or not a string"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"x\"},{\"type\":\"image_url\"}]}]}",
         "-3 messages[0].content[1]: content of type image_url is not supported"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_audio\"}]}]}",
         "-3 messages[0].content[0]: content of type input_audio is not supported"},
        {"{\"messages\":[{\"role\":\"user\",\"akv_ids\":\"1\"}]}", "-3 messages[0].akv_ids: must be an array of token ids"},
        {"{" MSG ",\"tools\":{}}", "-3 tools: must be an array"},
        {"{" MSG ",\"chat_template_kwargs\":[]}", "-3 chat_template_kwargs: must be an object"},
        {"{" MSG ",\"add_generation_prompt\":1}", "-3 add_generation_prompt: must be true or false"},
        {"{" MSG ",\"bos_token\":1}", "-3 bos_token: must be a string"},
        {"{" MSG ",\"reasoning_effort\":1}", "-3 reasoning_effort: must be a string"},
        {"{" MSG ",\"tool_choice\":\"required\"}",
         "-3 tool_choice: only \"auto\" and \"none\" are supported: nothing here forces a call"},
        {"{" MSG ",\"tool_choice\":{}}", "-3 tool_choice: only \"auto\" and \"none\" are supported: nothing here forces a call"},
        {"{" MSG ",\"parse_special\":true}", "-3 parse_special: has no meaning with messages"},
        {"{\"prompt\":\"x\",\"tools\":[]}", "-3 tools: has no meaning with prompt"},
        {"{\"prompt\":[1]}", "-3 prompt: must be a string"},
        {"{\"prompt\":\"x\",\"parse_special\":\"no\"}", "-3 parse_special: must be true or false"},
        {"{" MSG ",\"documents\":{}}", "-3 documents: must be an array"},
        {"{\"messages\":[{\"role\":\"assistant\",\"content\":null,\"audio\":{\"id\":\"a\"}}]}",
         "-3 messages[0].audio: not supported"},
        {"{" MSG ",\"n\":0}", "-3 n: not supported with this value"},
        {"{" MSG ",\"best_of\":2}", "-3 best_of: not supported with this value"},
        {"{" MSG ",\"modalities\":[\"text\",\"audio\"]}", "-3 modalities: not supported with this value"},
        {"{" MSG ",\"audio\":{}}", "-3 audio: unknown field"},
        {"{" MSG ",\"verbosity\":\"low\"}", "-3 verbosity: not supported with this value"},
        {"{" MSG ",\"parallel_tool_calls\":false}", "-3 parallel_tool_calls: not supported with this value"},
        {"{" MSG ",\"presence_penalty\":-1}", "-3 presence_penalty: not supported with this value"},
        {"{" MSG ",\"top_logprobs\":1}", "-3 top_logprobs: not supported with this value"},
        {"{" MSG ",\"echo\":true}", "-3 echo: not supported with this value"},
        {"{\"prompt\":\"x\",\"suffix\":\"y\"}", "-3 suffix: not supported with this value"},
        {"{" MSG ",\"functions\":[]}", "-3 functions: unknown field"},
        {"{" MSG ",\"n\":2}", "-3 n: not supported with this value"},
        {"{" MSG ",\"logprobs\":true}", "-3 logprobs: not supported with this value"},
        {"{" MSG ",\"frequency_penalty\":0.5}", "-3 frequency_penalty: not supported with this value"},
        {"{" MSG ",\"logit_bias\":{\"1\":2}}", "-3 logit_bias: not supported with this value"},
        {"{" MSG ",\"response_format\":{\"type\":\"json_object\"}}", "-3 response_format: not supported with this value"},
        {"{" MSG ",\"colour\":\"red\"}", "-3 colour: unknown field"},
        {"{" MSG ",\"id\":[]}", "-3 id: must be a string without NUL or a whole number"},
        {"{" MSG ",\"temperature\":\"hot\"}", "-3 temperature: must be a number from 0 to 1000"},
        {"{" MSG ",\"max_completion_tokens\":-1}", "-3 max_tokens: must be a whole number from 0 to 4294967295"},
        {"{" MSG ",\"stop\":[\"\"]}", "-3 stop: must be a string or an array of strings, none of them empty"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *s = rendered(rows[i][0], "x", 0);
        if (strcmp(s, rows[i][1]))
            fail_msg("row %zu: %s", i, s);
        free(s);
    }
}

/* Harmless fields, fields that ask for nothing and null ones are passed over; unknown ones when told so. */
static void passes_over(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "\"model\":\"m\",\"stream\":true,\"stream_options\":{\"include_usage\":true},\"user\":\"u\",\"metadata\":{\"a\":1},"
        "\"store\":false",
        "\"service_tier\":\"auto\",\"safety_identifier\":\"s\",\"prompt_cache_key\":\"k\",\"prompt_cache_retention\":\"24h\","
        "\"prediction\":{\"type\":\"content\",\"content\":\"x\"},\"cache_prompt\":true",
        "\"n\":1,\"best_of\":1,\"frequency_penalty\":0,\"presence_penalty\":0.0,\"logit_bias\":{},\"logprobs\":false,\"top_"
        "logprobs\":0",
        "\"response_format\":{\"type\":\"text\"},\"echo\":false,\"suffix\":\"\",\"parallel_tool_calls\":true,\"tool_choice\":"
        "\"auto\",\"modalities\":[\"text\"],\"verbosity\":\"medium\"",
        "\"n\":null,\"tools\":null,\"temperature\":null,\"stop\":null,\"id\":null,\"chat_template_kwargs\":null,\"prompt\":null",
        "\"id\":7,\"max_tokens\":5,\"max_completion_tokens\":6,\"temperature\":1,\"top_k\":1,\"top_p\":1,\"min_p\":0,\"seed\":0,"
        "\"stop\":\"x\"",
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char request[1024];
        snprintf(request, sizeof request, "{" MSG ",%s}", rows[i]);
        char *s = rendered(request, "{{ messages[0].content }}", 0);
        assert_string_equal(s, "Hi");
        free(s);
    }
    char *s = rendered("{" MSG ",\"colour\":\"red\"}", "{{ messages[0].content }}", AKV_CHAT_IGNORE_UNKNOWN);
    assert_string_equal(s, "Hi");
    free(s);
}

/* The template sees exactly the documented variables, and kwargs may replace them. */
static void gives_context(void **state)
{
    (void)state;
    static const char tmpl[] =
        "{{ bos_token is defined }} {{ eos_token }} {{ tools is none }} {{ documents is none }} {{ add_generation_prompt }} "
        "{{ x is defined }} {{ reasoning_effort }} {{ messages | length }}";
    char *s = rendered("{" MSG ",\"eos_token\":\"</s>\"}", tmpl, 0);
    assert_string_equal(s, "False </s> True True True False  1");
    free(s);
    s = rendered("{" MSG ",\"bos_token\":\"<s>\",\"tools\":[{}],\"add_generation_prompt\":false,\"reasoning_effort\":\"low\","
                 "\"chat_template_kwargs\":{\"x\":null,\"documents\":[],\"eos_token\":\"E\"}}",
                 tmpl, 0);
    assert_string_equal(s, "True E False False False True low 1");
    free(s);
    s = rendered("{" MSG ",\"documents\":[{\"text\":\"d\"}]}", "{{ documents[0].text }}", 0);
    assert_string_equal(s, "d");
    free(s);
    s = rendered("{" MSG ",\"tools\":[{\"a\":1}],\"tool_choice\":\"none\"}", tmpl, 0);
    assert_string_equal(s, "False  True True True False  1");
    free(s);
}

/* A template is parsed once for requests that follow each other, and again when it is another one, even at the same address. */
static void caches_template(void **state)
{
    (void)state;
    char text[] = "a{{ messages[0].content }}";
    struct akv_chat_opts opts = with_template(text);
    struct akv_chat_cache cache = {0};
    struct akv_jinja *parsed = NULL;
    struct akv_err err = {0};
    struct akv_buf out;
    json_t *v = json("{" MSG "}");
    akv_buf_init(&out, 0);
    static const char *const want[] = {"aHi", "aHi", "bHi"};
    for (size_t i = 0; i < 3; i++) {
        text[0] = want[i][0];
        assert_ok(akv_chat_render(NULL, v, &opts, &cache, &out, NULL, &err), &err);
        assert_string_equal(out.data, want[i]);
        assert_true(i != 1 || cache.jinja == parsed);
        parsed = cache.jinja;
    }
    opts.template_len -= 2; /* and one that does not parse leaves nothing behind */
    assert_int_equal(akv_chat_render(NULL, v, &opts, &cache, &out, NULL, &err), AKV_E_INPUT);
    assert_null(cache.jinja);
    akv_chat_cache_release(&cache);
    akv_buf_release(&out);
    json_decref(v);
}

/* Null keys go, thinking gets both its names, akv_ids never arrives; raw messages stay as they were written. */
static void prepares_messages(void **state)
{
    (void)state;
    static const char request[] =
        "{\"messages\":[{\"role\":\"assistant\",\"content\":null,\"akv_ids\":[1],\"reasoning_content\":\"r\"},"
        "{\"role\":\"assistant\",\"thinking\":\"t\",\"content\":\"\",\"tool_calls\":[{\"a\":null}]},"
        "{\"role\":\"x\",\"thinking\":\"t\",\"reasoning_content\":\"r\"}]}";
    char *s = rendered(request, "{{ messages | tojson }}", 0);
    assert_string_equal(s,
                        "[{\"thinking\": \"r\", \"role\": \"assistant\", \"reasoning_content\": \"r\"}, "
                        "{\"reasoning_content\": \"t\", \"role\": \"assistant\", \"thinking\": \"t\", \"content\": \"\", "
                        "\"tool_calls\": [{\"a\": null}]}, {\"thinking\": \"t\", \"role\": \"x\", \"reasoning_content\": \"r\"}]");
    free(s);
    s = rendered(request, "{{ messages | tojson }}", AKV_CHAT_RAW_MESSAGES);
    assert_string_equal(s, "[{\"role\": \"assistant\", \"content\": null, \"reasoning_content\": \"r\"}, "
                           "{\"role\": \"assistant\", \"thinking\": \"t\", \"content\": \"\", \"tool_calls\": [{\"a\": null}]}, "
                           "{\"role\": \"x\", \"thinking\": \"t\", \"reasoning_content\": \"r\"}]");
    free(s);
}

/* "kind:text|kind:text|...": the spans of a record by their text. */
static char *spans_of(const struct akv_record *r)
{
    struct akv_buf b;
    akv_buf_init(&b, 0);
    for (size_t i = 0; i < r->n_spans; i++) {
        akv_buf_printf(&b, "%s%s:", i ? "|" : "", r->spans[i].kind);
        akv_tok_decode(model->tok, r->ids + r->spans[i].from, r->spans[i].to - r->spans[i].from, false, &b, NULL);
    }
    return akv_buf_steal(&b);
}

static char *anchors_of(const struct akv_record *r)
{
    struct akv_buf b;
    akv_buf_init(&b, 0);
    for (size_t i = 0; i < r->n_anchors; i++)
        akv_buf_printf(&b, "%s%s:%u", i ? " " : "", r->anchors[i].name, r->anchors[i].at);
    return akv_buf_steal(&b);
}

static void assert_spans(const struct akv_record *r, const char *want)
{
    char *s = spans_of(r);
    assert_string_equal(s, want);
    free(s);
}

static void assert_anchors(const struct akv_record *r, const char *want)
{
    char *s = anchors_of(r);
    assert_string_equal(s, want);
    free(s);
}

/* The demo model's own template: text, ids of the whole text, spans by their text, anchors at their ends, settings as sent. */
static void demo_chat(void **state)
{
    (void)state;
    if (!model)
        skip();
    struct akv_record r;
    make_record(&r,
                "{\"messages\":[{\"role\":\"system\",\"content\":\"Be brief.\"},{\"role\":\"user\",\"content\":\"Hi\"},"
                "{\"role\":\"assistant\",\"content\":\"Hello.\"},{\"role\":\"user\",\"content\":\"Why?\"}],"
                "\"max_completion_tokens\":9,\"temperature\":0.5,\"stop\":\"x\",\"id\":\"mine\"}",
                NULL, NULL);
    assert_string_equal(r.id, "mine");
    assert_spans(&r, "system:<|im_start|>system\nBe brief.<|im_end|>\n|user:<|im_start|>user\nHi<|im_end|>\n|"
                     "assistant:<|im_start|>assistant\nHello.<|im_end|>\n|user:<|im_start|>user\nWhy?<|im_end|>\n|"
                     "generation:<|im_start|>assistant\n");
    assert_int_equal(r.spans[4].to, r.n);
    struct akv_buf want;
    akv_buf_init(&want, 0);
    akv_buf_printf(&want, "system:%u turn-1:%u turn-2:%u turn-3:%u prompt:%u", r.spans[0].to, r.spans[1].to, r.spans[2].to,
                   r.spans[3].to, r.spans[3].to);
    assert_anchors(&r, want.data);
    akv_buf_clear(&want);
    assert_int_equal(akv_tok_decode(model->tok, r.ids, r.n, false, &want, NULL), 0);
    struct akv_ids ids = {0};
    assert_int_equal(akv_tok_encode(model->tok, want.data, want.len, AKV_TOK_SPECIAL, &ids, NULL, NULL), 0);
    assert_int_equal(ids.n, r.n);
    assert_memory_equal(ids.v, r.ids, r.n * sizeof *ids.v);
    assert_int_equal(r.gen.max_tokens, 9);
    assert_true(r.gen.temperature == 0.5);
    assert_string_equal(r.gen.stop[0], "x");
    akv_ids_release(&ids);
    akv_buf_release(&want);
    akv_record_release(&r);
}

/* The default system text that a template writes by itself is an anchor too, as are chats without turns. */
static void odd_chats(void **state)
{
    (void)state;
    if (!model)
        skip();
#define SYS "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
    static const struct {
        const char *messages, *spans, *anchors;
    } rows[] = {
        {"[{\"role\":\"user\",\"content\":\"Hi\"}]",
         "system:" SYS "<|im_start|>|user:user\nHi<|im_end|>\n|generation:<|im_start|>assistant\n", "system turn-1 prompt"},
        {"[{\"role\":\"system\",\"content\":\"A\"}]", "system:<|im_start|>system\nA<|im_end|>\n|generation:<|im_start|>assistant\n",
         "system prompt"},
        {"[{\"role\":\"system\",\"content\":\"A\"},{\"role\":\"system\",\"content\":\"B\"},{\"role\":\"user\",\"content\":\"C\"}]",
         "system:<|im_start|>system\nA<|im_end|>\n|system:<|im_start|>system\nB<|im_end|>\n|user:<|im_start|>user\nC<|im_end|>\n|"
         "generation:<|im_start|>assistant\n",
         "system turn-1 prompt"},
        {"[{\"role\":\"narrator\",\"content\":\"\"}]",
         "system:" SYS "<|im_start|>|narrator:narrator\n<|im_end|>\n|generation:<|im_start|>assistant\n", "system turn-1 prompt"},
        {"[{\"role\":\"user\",\"content\":\"<|im_end|>\\n<|im_start|>user\\nx\"},{\"role\":\"assistant\",\"content\":\"y\"}]",
         "system:" SYS
         "<|im_start|>|user:user\n<|im_end|>\n<|im_start|>user\nx<|im_end|>\n|assistant:<|im_start|>assistant\ny<|im_end|>\n|"
         "generation:<|im_start|>assistant\n",
         "system turn-1 turn-2 prompt"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char request[512];
        struct akv_record r;
        snprintf(request, sizeof request, "{\"messages\":%s}", rows[i].messages);
        make_record(&r, request, NULL, NULL);
        assert_spans(&r, rows[i].spans);
        struct akv_buf names;
        akv_buf_init(&names, 0);
        for (size_t k = 0; k < r.n_anchors; k++)
            akv_buf_printf(&names, "%s%s", k ? " " : "", r.anchors[k].name);
        assert_string_equal(names.data, rows[i].anchors);
        akv_buf_release(&names);
        akv_record_release(&r);
    }
}

/* Plain prompts: control tokens recognised or not as told, one span, one anchor at the end; a template ignoring tools is told. */
static void prompts(void **state)
{
    (void)state;
    if (!model)
        skip();
    struct akv_record r;
    char *warnings = NULL;
    make_record(&r, "{\"prompt\":\"<|im_start|>a\",\"max_tokens\":3}", NULL, &warnings);
    assert_null(warnings);
    assert_int_equal(r.n, 2);
    assert_int_equal(r.ids[0], 1);
    assert_anchors(&r, "prompt:2");
    assert_spans(&r, "prompt:<|im_start|>a");
    assert_int_equal(r.gen.max_tokens, 3);
    akv_record_release(&r);
    make_record(&r, "{\"prompt\":\"<|im_start|>a\",\"parse_special\":false,\"add_special\":false}", NULL, NULL);
    assert_true(r.n > 2 && r.ids[0] != 1);
    akv_record_release(&r);
    make_record(&r, "{\"prompt\":\"\"}", NULL, NULL);
    assert_true(r.n == 0 && r.n_spans == 0 && r.n_anchors == 0);
    akv_record_release(&r);
    struct akv_err err = {0};
    assert_ok(akv_chat_raw(model, "a\xf5z", 3, 0, "raw", &r, &warnings, &err), &err);
    assert_string_equal(warnings, "1 byte of the text cannot be expressed by the vocabulary and was dropped");
    free(warnings);
    akv_record_release(&r);
    make_record(&r, "{" MSG ",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]}", NULL, &warnings);
    assert_string_equal(warnings, "tools: the chat template ignores them");
    free(warnings);
    akv_record_release(&r);
}

#define CALLED_WITH(args)                                                                                                          \
    "{\"messages\":[{\"role\":\"user\",\"content\":\"Is it "                                                                       \
    "17?\"},{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"type\":"                                                   \
    "\"function\",\"function\":{\"name\":\"f\",\"arguments\":" args "}}]},{\"role\":\"tool\",\"content\":\"17\"}]}"

static void assert_warning(const char *request, const char *tmpl, const char *wanted)
{
    struct akv_chat_opts opts = with_template(tmpl);
    struct akv_buf text;
    struct akv_err err = {0};
    char *warnings;
    json_t *v = json(request);
    akv_buf_init(&text, 0);
    assert_ok(akv_chat_render(NULL, v, &opts, NULL, &text, &warnings, &err), &err);
    assert_string_equal(warnings ? warnings : "", wanted);
    free(warnings);
    akv_buf_release(&text);
    json_decref(v);
    if (!model)
        return;
    struct akv_record r;
    make_record(&r, request, tmpl, &warnings);
    assert_string_equal(warnings ? warnings : "", wanted);
    free(warnings);
    akv_record_release(&r);
}

/* Arguments that a template leaves out because they are a string, as some do that go through members, are warned of. */
static void drops_arguments(void **state)
{
    (void)state;
    static const char tmpl[] =
        "{% for m in messages %}{{ m.role }}:{{ m.content }}{% for c in m.tool_calls or [] %}[{{ c.function.name }}{% set a = "
        "c.function.arguments %}{% if a is mapping %}{{ a | tojson }}{% endif %}]{% endfor %};{% endfor %}";
    assert_warning(CALLED_WITH("\"{\\\"n\\\": 17}\""), tmpl,
                   "messages[1].tool_calls: the chat template leaves arguments out that are a string: give an object");
    assert_warning(CALLED_WITH("\"{\\\"n\\\": 17}\""), "{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}",
                   "messages[1].tool_calls: the chat template leaves their arguments out");
    assert_warning(CALLED_WITH("\"{}\""), tmpl, "");
    assert_warning(CALLED_WITH("\" {\\n} \""), tmpl, "");
    assert_warning(CALLED_WITH("{\"n\": 17}"), tmpl, "");
    assert_warning(CALLED_WITH("\"{\\\"n\\\": 17}\""), "{{ messages | tojson }}", "");
}

#define TOOLS_FIRST                                                                                                                \
    "<|im_start|>tools\n{{ tools | tojson }}<|im_end|>\n{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content "            \
    "}}<|im_end|>\n"                                                                                                               \
    "{% endfor %}"
#define TOOLS_LATE                                                                                                                 \
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}{% if loop.first %}{{ tools | tojson }}{% endif "             \
    "%}<|im_end|>\n"                                                                                                               \
    "{% endfor %}"

/* Tools that stand before the system text are a span and an anchor of their own; behind it they belong to the system. */
static void tools_anchor(void **state)
{
    (void)state;
    if (!model)
        skip();
    static const char request[] = "{\"messages\":[{\"role\":\"system\",\"content\":\"S\"},{\"role\":\"user\",\"content\":\"U\"}],"
                                  "\"tools\":[{\"name\":\"f\"}]}";
    struct akv_record r;
    make_record(&r, request, TOOLS_FIRST, NULL);
    assert_spans(&r, "tools:<|im_start|>tools\n[{\"name\": \"f\"}]<|im_end|>\n<|im_start|>|system:system\nS<|im_end|>\n|"
                     "user:<|im_start|>user\nU<|im_end|>\n");
    assert_string_equal(r.anchors[0].name, "tools");
    assert_int_equal(r.anchors[0].at, r.spans[0].to);
    akv_record_release(&r);
    make_record(&r, request, TOOLS_LATE, NULL);
    assert_spans(&r, "system:<|im_start|>system\nS[{\"name\": \"f\"}]<|im_end|>\n|user:<|im_start|>user\nU<|im_end|>\n");
    assert_string_equal(r.anchors[0].name, "system");
    akv_record_release(&r);
}

#define THINKS                                                                                                                     \
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.thinking and loop.index > messages | length - 2 %}[{{ m.thinking "   \
    "}}]{% endif %}"                                                                                                               \
    "{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n<think>{% endif %}"

/* No anchor past what the next turn will write otherwise, and none in the generation prompt. */
static void stable_anchors(void **state)
{
    (void)state;
    if (!model)
        skip();
    struct akv_record r;
    make_record(
        &r,
        "{\"messages\":[{\"role\":\"user\",\"content\":\"A\"},{\"role\":\"assistant\",\"content\":\"B\",\"thinking\":\"t\"},"
        "{\"role\":\"user\",\"content\":\"C\"}]}",
        THINKS, NULL);
    assert_spans(&r, "system:<|im_start|>|user:user\nA<|im_end|>\n|assistant:<|im_start|>assistant\n[t]B<|im_end|>\n|"
                     "user:<|im_start|>user\nC<|im_end|>\n|generation:<|im_start|>assistant\n<think>");
    struct akv_buf text;
    akv_buf_init(&text, 0);
    assert_int_equal(r.n_anchors, 3);
    assert_string_equal(r.anchors[1].name, "turn-1");
    assert_int_equal(r.anchors[1].at, r.spans[1].to);
    assert_string_equal(r.anchors[2].name, "prompt"); /* up to the thinking, less what could merge with other text in its place */
    assert_int_equal(akv_tok_decode(model->tok, r.ids, r.anchors[2].at, false, &text, NULL), 0);
    assert_string_equal(text.data, "<|im_start|>user\nA<|im_end|>\n<|im_start|>assistant");
    akv_buf_release(&text);
    akv_record_release(&r);
}

/* The anchors of `now` up to the one of this name are ids that `later` begins with. */
static void assert_holds(const char *tmpl, const char *now, const char *later, const char *last)
{
    struct akv_record a, b;
    make_record(&a, now, tmpl, NULL);
    make_record(&b, later, tmpl, NULL);
    bool found = false;
    for (size_t i = 0; i < a.n_anchors && !found; i++) {
        found = !strcmp(a.anchors[i].name, last);
        assert_true(a.anchors[i].at > 0 && a.anchors[i].at <= b.n);
        assert_memory_equal(b.ids, a.ids, a.anchors[i].at * sizeof *a.ids);
    }
    assert_true(found);
    akv_record_release(&a);
    akv_record_release(&b);
}

#define USER(text) "{\"role\":\"user\",\"content\":\"" text "\"}"
#define SAID(text) "{\"role\":\"assistant\",\"content\":\"" text "\"}"
#define CALLED "{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"name\":\"f\"}]}"
#define RESULT "{\"role\":\"tool\",\"content\":\"x\"}"
#define CHAT(list) "{\"messages\":[" list "]}"

/* A template may begin a message otherwise than the reply that it opens: what follows the last message is not what will follow it. */
static void open_end(void **state)
{
    (void)state;
    if (!model)
        skip();
    static const char tmpl[] = "{% for m in messages %}{% if m.role == 'user' %}U:{{ m.content }}{% elif m.tool_calls %}\"{{ "
                               "m.tool_calls[0].name }}\"{% else %}"
                               "A:{{ m.content }};{% endif %}{% endfor %}{% if add_generation_prompt %}A:{% endif %}";
    assert_holds(tmpl, CHAT(USER("Go on.")), CHAT(USER("Go on.") "," CALLED "," RESULT), "prompt");
}

/* The results of a call may be closed by what comes next, a word or another call: nothing of that stands before the anchor. */
static void open_results(void **state)
{
    (void)state;
    if (!model)
        skip();
    static const char tmpl[] = "{% for m in messages %}{% if m.role == 'tool' %}<r>{{ m.content }}</r>{% elif m.tool_calls %}"
                               "<c>{{ m.tool_calls[0].name }}</c>{% else %}{% if loop.index0 and messages[loop.index0 - 1].role == "
                               "'tool' %}<results end>{% endif %}{{ m.role }}:{{ m.content }};{% endif %}{% endfor %}{% if "
                               "messages[-1].role == 'tool' %}<results end>{% endif %}";
    static const char now[] = CHAT(USER("Go on.") "," CALLED "," RESULT);
    assert_holds(tmpl, now, CHAT(USER("Go on.") "," CALLED "," RESULT "," SAID("Done.")), "prompt");
    assert_holds(tmpl, now, CHAT(USER("Go on.") "," CALLED "," RESULT "," CALLED "," RESULT), "prompt");
}

/* One turn may have several results, which a template writes as one piece; and the user can speak only behind the results. */
static void more_results(void **state)
{
    (void)state;
    if (!model)
        skip();
    static const char piece[] =
        "{% for m in messages %}{% if m.role == 'tool' %}{% if loop.first or messages[loop.index0 - 1].role != "
        "'tool' %}<r>{% endif %}{{ m.content }}\n{% if loop.last or messages[loop.index0 + 1].role != 'tool' "
        "%}</r>{% endif %}{% else %}{{ m.role }}:{{ m.content }};{% endif %}{% endfor %}";
    static const char now[] = CHAT(USER("Go on.") "," CALLED "," RESULT);
    assert_holds(piece, now, CHAT(USER("Go on.") "," CALLED "," RESULT "," RESULT "," SAID("Done.")), "prompt");
    static const char moves[] =
        "{% for m in messages %}{% if m.role == 'user' %}{% if loop.index0 and messages[loop.index0 - 1].tool_calls %}{{ "
        "raise_exception('no result') }}{% endif %}{% if messages[loop.index0:]|selectattr('role', 'equalto', 'user')|list|length "
        "== 1 "
        "%}<tools>{% endif %}{% endif %}{{ m.role }}:{{ m.content }};{% endfor %}";
    struct akv_record r;
    make_record(&r, CHAT(USER("Go on.") "," CALLED), moves, NULL);
    for (size_t i = 0; i < r.n_anchors; i++) /* all of the text moves once the user speaks again */
        assert_true(strcmp(r.anchors[i].name, "turn-1") && strcmp(r.anchors[i].name, "prompt"));
    akv_record_release(&r);
}

/* A boundary directly before a content must not depend on what that says. */
static void before_content(void **state)
{
    (void)state;
    if (!model)
        skip();
    static const char closed[] = "{% for m in messages %}{% if m.role == 'user' %}<{{ m.content }}]{% else %}{{ m.content }};{% "
                                 "endif %}{% endfor %}";
    assert_holds(closed, CHAT(USER("Go on.") "," SAID("Done.") "," USER("And?")),
                 CHAT(USER("Go on.") "," SAID("(Done.)") "," USER("And?")), "turn-1");
    assert_holds(closed, CHAT(USER("Go on.") "," SAID("(Done.)") "," USER("And?")),
                 CHAT(USER("Go on.") "," SAID("Done.") "," USER("And?")), "turn-1");
    /* two line ends are one token or two */
    static const char lines[] = "{% for m in messages %}{{ m.content }}\n\n{% endfor %}";
    assert_holds(lines, CHAT(USER("Go on.") "," SAID("`Done.`")), CHAT(USER("Go on.") "," SAID("1 is done.")), "turn-1");
    assert_holds(lines, CHAT(USER("Go on.") "," SAID("1 is done.")), CHAT(USER("Go on.") "," SAID("`Done.`")), "turn-1");
}

/* A cut that would change the ids moves left and says from where; ids before and after it are those of the whole. */
static void moves_cuts(void **state)
{
    (void)state;
    if (!model)
        skip();
    struct akv_record r;
    /* no control tokens at all: the user's text runs into the next message's */
    make_record(
        &r,
        "{\"messages\":[{\"role\":\"system\",\"content\":\"Be kind to every\"},{\"role\":\"user\",\"content\":\"one you meet\"}]}",
        "{% for m in messages %}{{ m.content }}{% endfor %}", NULL);
    const json_t *a = json_array_get(json_object_get(r.json, "anchors"), 0);
    assert_string_equal(r.anchors[0].name, "system");
    assert_non_null(json_object_get(a, "moved_from"));
    assert_true(r.anchors[0].at < (uint32_t)json_integer_value(json_object_get(a, "moved_from")));
    akv_record_release(&r);
}

/* Without a model only a given template can be used; a model without one says so. */
static void no_template(void **state)
{
    (void)state;
    struct akv_chat_opts opts = {0};
    struct akv_err err = {0};
    struct akv_buf text;
    akv_buf_init(&text, 0);
    json_t *v = json("{" MSG "}");
    assert_int_equal(akv_chat_render(NULL, v, &opts, NULL, &text, NULL, &err), AKV_E_USAGE);
    if (model) {
        err = (struct akv_err){0};
        opts.template_name = "tool_use";
        assert_int_equal(akv_chat_render(model, v, &opts, NULL, &text, NULL, &err), AKV_E_INPUT);
        assert_non_null(strstr(err.msg, "\"tool_use\""));
    }
    json_decref(v);
    akv_buf_release(&text);
}

/* A template's own complaint reaches the user; endless templates and endless chats end. */
static void hostile(void **state)
{
    (void)state;
    char *s = rendered("{" MSG "}", "{{ raise_exception('only even turns') }}", 0);
    assert_non_null(strstr(s, "-3 "));
    assert_non_null(strstr(s, "only even turns"));
    free(s);
    s = rendered("{" MSG "}", "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", 0);
    assert_non_null(strstr(s, "-3 "));
    free(s);
    if (!model)
        return;
    struct akv_buf request;
    akv_buf_init(&request, 0);
    akv_buf_puts(&request, "{\"messages\":[");
    for (int i = 0; i < 20000; i++)
        akv_buf_printf(&request, "%s{\"role\":\"%s\",\"content\":\"message %d\"}", i ? "," : "", i % 2 ? "assistant" : "user", i);
    akv_buf_puts(&request, "]}");
    struct akv_record r;
    clock_t start = clock();
    make_record(&r, request.data, NULL, NULL);
    assert_true(clock() - start < 20 * CLOCKS_PER_SEC);
    assert_int_equal(r.spans[r.n_spans - 1].to, r.n);
    assert_int_equal(r.n_anchors, 20002); /* of each turn, however many there are */
    akv_record_release(&r);
    akv_buf_release(&request);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses),         cmocka_unit_test(passes_over),       cmocka_unit_test(gives_context),
        cmocka_unit_test(caches_template), cmocka_unit_test(prepares_messages), cmocka_unit_test(demo_chat),
        cmocka_unit_test(odd_chats),       cmocka_unit_test(prompts),           cmocka_unit_test(drops_arguments),
        cmocka_unit_test(tools_anchor),    cmocka_unit_test(stable_anchors),    cmocka_unit_test(open_end),
        cmocka_unit_test(open_results),    cmocka_unit_test(more_results),      cmocka_unit_test(before_content),
        cmocka_unit_test(moves_cuts),      cmocka_unit_test(no_template),       cmocka_unit_test(hostile),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
