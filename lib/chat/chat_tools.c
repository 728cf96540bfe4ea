/* Tools in an order that does not depend on who lists them. */
#include <stdlib.h>
#include <string.h>

#include "chat/chat_request.h"

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
