/* Tools in an order that does not depend on who lists them; what a template leaves out of tools and calls. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "chat/chat_render.h"

struct tool {
    const char *name;
    size_t at;
};

static const char *name_of(const json_t *tool)
{
    const char *name = json_string_value(json_object_get(akv_chat_function(tool), "name"));
    return name ? name : "";
}

/* By the bytes of their names; those of one name as they came. */
static int by_name(const void *a, const void *b)
{
    const struct tool *x = a, *y = b;
    int c = strcmp(x->name, y->name);
    return c ? c : (x->at > y->at) - (x->at < y->at);
}

int akv_chat_sort_tools(struct akv_chat_request *r, struct akv_err *err)
{
    size_t n = json_array_size(r->tools);
    struct tool *v = akv_alloc(n, sizeof *v, err);
    if (!v)
        return AKV_E_IO;
    for (size_t i = 0; i < n; i++)
        v[i] = (struct tool){name_of(json_array_get(r->tools, i)), i};
    if (n)
        qsort(v, n, sizeof *v, by_name);
    r->sorted_tools = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append(r->sorted_tools, json_array_get(r->tools, v[i].at));
    free(v);
    if (json_array_size(r->sorted_tools) != n)
        return akv_fail(err, AKV_E_IO, "out of memory for tools");
    if (r->tools)
        r->tools = r->sorted_tools;
    return 0;
}

/* ---- what is left out ---- */

static bool same_text(struct akv_chat_tmpl *t, json_t *messages, const json_t *tools, bool add_generation_prompt,
                      const struct akv_buf *text)
{
    struct akv_buf other;
    akv_buf_init(&other, 0);
    bool same = akv_chat_tmpl_probe(t, messages, tools, add_generation_prompt, &other) && other.len == text->len &&
                !memcmp(other.data, text->data, text->len);
    akv_buf_release(&other);
    return same;
}

bool akv_chat_ignores_tools(struct akv_chat_tmpl *t, const struct akv_chat_request *r, const struct akv_buf *text)
{
    return json_array_size(r->tools) && same_text(t, json_incref(r->messages), NULL, r->add_generation_prompt, text);
}

/* Whether arguments are a string that says more than that there are none. */
static bool says_something(const json_t *arguments)
{
    const char *s = json_string_value(arguments);
    while (s && (akv_is_blank(*s) || *s == '{' || *s == '}'))
        s++;
    return s && *s;
}

/* The message with all such arguments replaced by text or an object, or NULL when it has none (new reference). */
static json_t *other_arguments(const json_t *message, bool object)
{
    json_t *calls = json_object_get(message, "tool_calls"), *copy = NULL, *call;
    size_t i;
    json_array_foreach (calls, i, call) {
        if (!says_something(json_object_get(akv_chat_function(call), "arguments")))
            continue;
        if (!copy)
            copy = json_deep_copy(message);
        json_t *other = akv_chat_function(json_array_get(json_object_get(copy, "tool_calls"), i));
        json_object_set_new(other, "arguments",
                            object ? json_pack("{s:s}", "quite", "other words") : json_string("{\"quite\": \"other words\"}"));
    }
    return copy;
}

/* Whether the text is the same with the arguments of message k replaced. */
static bool same_without(struct akv_chat_tmpl *t, const struct akv_chat_request *r, const struct akv_buf *text, size_t k,
                         bool object)
{
    json_t *messages = json_copy(r->messages);
    json_array_set_new(messages, k, other_arguments(json_array_get(messages, k), object));
    return same_text(t, messages, r->tools, r->add_generation_prompt, text);
}

enum akv_chat_drops akv_chat_drops_arguments(struct akv_chat_tmpl *t, const struct akv_chat_request *r, const struct akv_buf *text,
                                             size_t *k)
{
    json_t *other = NULL;
    for (*k = 0; *k < json_array_size(r->messages) && !other; ++*k)
        other = other_arguments(json_array_get(r->messages, *k), false);
    json_decref(other);
    if (!other || !same_without(t, r, text, --*k, false))
        return AKV_CHAT_DROPS_NONE;
    return same_without(t, r, text, *k, true) ? AKV_CHAT_DROPS_ALL : AKV_CHAT_DROPS_STRINGS;
}
