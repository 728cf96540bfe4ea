/* A chat template, rendered for a short conversation under tight limits, twice: the answer must be the same. */
#include <string.h>

#include "chat/jinja.h"
#include "tests/fuzz/fuzz.h"

static const char context_text[] =
    "{\"messages\":[{\"role\":\"system\",\"content\":\"Be brief.\"},{\"role\":\"user\",\"content\":\"Hi "
    "<b>&\\u00e4\\ud83d\\ude00\"},"
    "{\"role\":\"assistant\",\"content\":\"\",\"reasoning_content\":\"hm\",\"tool_calls\":[{\"id\":\"c1\",\"type\":\"function\","
    "\"function\":{\"name\":\"f\",\"arguments\":{\"x\":1,\"y\":[1.5,null,true]}}}]},"
    "{\"role\":\"tool\",\"tool_call_id\":\"c1\",\"content\":\"42\"},{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":"
    "\"ok?\"}]}],"
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"description\":\"d\",\"parameters\":{\"type\":\"object\","
    "\"properties\":{\"x\":{\"type\":\"integer\"}},\"required\":[\"x\"]}}}],"
    "\"bos_token\":\"<s>\",\"eos_token\":\"</s>\",\"add_generation_prompt\":true,\"enable_thinking\":false,\"n\":-7,\"r\":2.5}";

static const struct akv_jinja_limits limits = {.steps = 100000, .depth = 100, .output_bytes = 1 << 20, .memory_bytes = 16 << 20};

static int render(const struct akv_jinja *t, const json_t *context, struct akv_buf *out)
{
    struct akv_err err = {0};
    akv_buf_init(out, 0);
    akv_buf_puts(out, "kept");
    int rc = akv_jinja_render(t, context, 1700000000, &limits, out, &err);
    must(rc == 0 || err.msg[0]);
    must(out->len >= 4 && !memcmp(out->data, "kept", 4) && (rc == 0 || out->len == 4));
    must(out->len <= 4 + limits.output_bytes);
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static json_t *context;
    struct akv_err err = {0};
    struct akv_jinja *t = NULL;
    if (!context)
        must(akv_json_parse(&context, context_text, strlen(context_text), "context", &err) == 0);
    if (akv_jinja_parse(&t, (const char *)data, size, &err) < 0) {
        must(err.msg[0] && !t);
        return 0;
    }
    struct akv_buf first, second;
    int rc = render(t, context, &first);
    must(render(t, context, &second) == rc);
    must(first.len == second.len && !memcmp(first.data, second.data, first.len));
    akv_buf_release(&first);
    akv_buf_release(&second);
    akv_jinja_free(t);
    return 0;
}
