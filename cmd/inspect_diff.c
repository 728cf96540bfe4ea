/* Two streams compared. */
#include <stdlib.h>

#include "inspect.h"

/* What differs, in columns: a name, a's value, b's value; cut so that a line stays one. */
static void print_fields_apart(struct inspect *t, const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *f = json_array_get(list, i);
        inspect_escape(f);
        inspect_print(t, "  %-16s %s | %s\n", inspect_str(f, "tag"), inspect_str(f, "a"), inspect_str(f, "b"));
    }
}

static void print_shapes(struct inspect *t, const json_t *o)
{
    static const char *const names[] = {"layers", "kv_heads", "k_dims", "v_dims"};
    const json_t *a = json_object_get(json_object_get(o, "a"), "geometry"),
                 *b = json_object_get(json_object_get(o, "b"), "geometry");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (inspect_num(a, names[i]) != inspect_num(b, names[i]))
            inspect_print(t, "  %-16s %lld | %lld\n", names[i], inspect_num(a, names[i]), inspect_num(b, names[i]));
}

/* 4711, or "the end" of a chain. */
static void print_id(struct inspect *t, const json_t *ids, const char *side)
{
    if (json_is_null(json_object_get(ids, side)))
        inspect_print(t, "the end");
    else
        inspect_print(t, "%lld", inspect_num(ids, side));
}

static void print_pages(struct inspect *t, const json_t *o, const json_t *a, const json_t *b)
{
    const json_t *ids = json_object_get(o, "ids");
    inspect_print(t, "  %-16s %lld in both, %lld of them differ", "pages", inspect_num(o, "pages"), inspect_num(o, "pages_differ"));
    if (inspect_num(o, "pages_not_compared"))
        inspect_print(t, " (%lld not compared value by value)", inspect_num(o, "pages_not_compared"));
    inspect_print(t, "\n  %-16s %lld pages, %lld tokens | %lld pages, %lld tokens\n", "only in one", inspect_num(a, "only_pages"),
                  inspect_num(a, "only_tokens"), inspect_num(b, "only_pages"), inspect_num(b, "only_tokens"));
    if (ids) {
        inspect_print(t, "  %-16s part at token %lld: ", "ids", inspect_num(ids, "at"));
        print_id(t, ids, "a");
        inspect_print(t, " | ");
        print_id(t, ids, "b");
        inspect_print(t, "\n");
    }
}

static void print_layers(struct inspect *t, const json_t *o)
{
    const json_t *first = json_object_get(o, "first"), *layers = json_object_get(o, "layers");
    if (!first)
        return;
    inspect_print(t, "  %-16s differs first at token %lld, layer %lld\n", "KV", inspect_num(first, "token"),
                  inspect_num(first, "layer"));
    inspect_print(t, "  layer      K max     K mean      V max     V mean       values       differ         bits\n");
    for (size_t i = 0; i < json_array_size(layers); i++) {
        const json_t *l = json_array_get(layers, i);
        inspect_print(t, "  %5lld %10.3g %10.3g %10.3g %10.3g %12lld %12lld %12lld", inspect_num(l, "layer"),
                      json_real_value(json_object_get(l, "k_max")), json_real_value(json_object_get(l, "k_mean")),
                      json_real_value(json_object_get(l, "v_max")), json_real_value(json_object_get(l, "v_mean")),
                      inspect_num(l, "values"), inspect_num(l, "differ"), inspect_num(l, "bits"));
        if (inspect_num(l, "not_finite"))
            inspect_print(t, "  %lld not finite", inspect_num(l, "not_finite"));
        inspect_print(t, "\n");
    }
}

static void print_diff(struct inspect *t, const json_t *o)
{
    json_t *a = json_object_get(o, "a"), *b = json_object_get(o, "b");
    inspect_escape(a);
    inspect_escape(b);
    if (json_is_true(json_object_get(o, "equal"))) {
        inspect_print(t, "%s and %s are equal: %lld pages, %lld requests\n", inspect_str(a, "path"), inspect_str(b, "path"),
                      inspect_num(o, "pages"), inspect_num(a, "requests"));
        return;
    }
    inspect_print(t, "%s | %s\n", inspect_str(a, "path"), inspect_str(b, "path"));
    if (!json_is_true(json_object_get(o, "same_root")))
        inspect_print(t, "  %-16s %s | %s\n", "root", inspect_str(a, "root"), inspect_str(b, "root"));
    print_fields_apart(t, json_object_get(o, "fields"));
    print_shapes(t, o);
    print_pages(t, o, a, b);
    inspect_print(t, "  %-16s %lld | %lld, %lld differ\n", "requests", inspect_num(a, "requests"), inspect_num(b, "requests"),
                  inspect_num(o, "requests_differ"));
    print_layers(t, o);
}

int inspect_diff(struct inspect *t, char **a, char **b)
{
    struct cmd_inputs left = {.apart = true}, right = {.apart = true};
    struct akv_err err = {0};
    char *json;
    cmd_first_input(&left, 1, a);
    cmd_first_input(&right, 1, b);
    if (left.fd == right.fd)
        cmd_die(2, "--diff: both files are standard input");
    int rc = akv_inspect_diff(left.in, right.in, &json, &err);
    if (rc < 0)
        cmd_die_err(&err);
    if (t->json) {
        cmd_out_line(&t->out, json);
    } else {
        json_t *o = inspect_parse(json);
        print_diff(t, o);
        json_decref(o);
    }
    free(json);
    cmd_input_done(&left);
    cmd_input_done(&right);
    t->n_done++;
    return rc;
}
