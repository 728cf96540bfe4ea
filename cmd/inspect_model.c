/* Models: what a GGUF file holds, and what can be done with it. */
#include <stdlib.h>
#include <string.h>

#include "inspect.h"

static void print_sizes(struct inspect *t, const json_t *o)
{
    static const char *const names[][2] = {
        {"layers", "layers"},     {"width", "width"},   {"ff", "ff"},         {"experts", "experts"}, {"heads", "heads"},
        {"kv_heads", "kv heads"}, {"k_dims", "K dims"}, {"v_dims", "V dims"}, {"window", "window"},   {"context", "context"},
    };
    const char *before = "  sizes          ";
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!json_object_get(o, names[i][0]))
            continue;
        inspect_print(t, "%s%s %lld", before, names[i][1], inspect_num(o, names[i][0]));
        before = ", ";
    }
    if (*before == ',')
        inspect_print(t, "\n");
}

static void print_weights(struct inspect *t, const json_t *mix)
{
    const char *dtype, *label = "weights";
    json_t *one;
    json_object_foreach ((json_t *)(uintptr_t)mix, dtype, one) {
        inspect_print(t, "  %-14s %-8s %5lld tensors %14lld bytes%s\n", label, dtype, inspect_num(one, "tensors"),
                      inspect_num(one, "bytes"), json_is_true(json_object_get(one, "supported")) ? "" : "  not supported");
        label = "";
    }
}

/* 2 "<|im_end|>" */
static void print_token(struct inspect *t, const char *before, const json_t *token)
{
    char *text = cmd_escaped(inspect_str(token, "text"));
    inspect_print(t, "%s%lld \"%s\"", before, inspect_num(token, "id"), text);
    free(text);
}

static void print_tokenizer(struct inspect *t, const json_t *tok)
{
    static const char *const special[] = {"bos", "eos", "unk"};
    const json_t *ends = json_object_get(tok, "ends");
    inspect_print(t, "  tokenizer      %s, pre-tokenizer %s, %lld tokens\n", inspect_str(tok, "model"), inspect_str(tok, "pre"),
                  inspect_num(tok, "tokens"));
    if (!ends)
        return;
    inspect_print(t, "                 sha256 %s\n                ", inspect_str(tok, "sha256"));
    for (size_t i = 0; i < sizeof special / sizeof *special; i++) {
        const json_t *token = json_object_get(tok, special[i]);
        inspect_print(t, " %s ", special[i]);
        if (token)
            print_token(t, "", token);
        else
            inspect_print(t, "none");
        if (i < 2 && json_is_true(json_object_get(tok, i ? "add_eos" : "add_bos")))
            inspect_print(t, " (added)");
        inspect_print(t, i < 2 ? "," : "\n");
    }
    for (size_t i = 0; i < json_array_size(ends); i++)
        print_token(t, i ? ", " : "                 ends generation: ", json_array_get(ends, i));
    if (json_array_size(ends))
        inspect_print(t, "\n");
}

static void print_templates(struct inspect *t, const json_t *list)
{
    const char *before = "  chat template  ";
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);
        const char *name = json_string_value(json_object_get(one, "name"));
        char *shown = cmd_escaped(name ? name : "the default");
        inspect_print(t, "%s%s (%lld bytes)", before, shown, inspect_num(one, "bytes"));
        free(shown);
        before = ", ";
    }
    inspect_print(t, *before == ',' ? "\n" : "%snone\n", before);
}

/* What can be done with it, and why not the rest. */
static void print_abilities(struct inspect *t, const json_t *o)
{
    const json_t *reasons = json_object_get(o, "reasons");
    bool runs = json_is_true(json_object_get(o, "runs"));
    if (runs)
        inspect_print(t, "  can be run\n");
    for (size_t i = 0; i < json_array_size(reasons); i++) {
        const json_t *r = json_array_get(reasons, i);
        const char *what = inspect_str(r, "what");
        char *why = cmd_escaped(inspect_str(r, "why"));
        if (!strcmp(what, "run"))
            inspect_print(t, "  cannot be run: %s\n", why);
        else
            inspect_print(t, "  %s cannot be used: %s\n", what, why);
        free(why);
    }
    if (!runs)
        inspect_print(t,
                      json_is_true(json_object_get(o, "tokenizes")) ? "  text can be tokenized\n" : "  text cannot be tokenized\n");
}

static void print_model(struct inspect *t, const json_t *o)
{
    const json_t *mix = json_object_get(o, "tensors"), *kv = json_object_get(o, "kv_bytes_per_token");
    inspect_print(t, "%s\n", inspect_str(o, "path"));
    inspect_print(t, "  model          %s, architecture %s", inspect_str(o, "name"), inspect_str(o, "architecture"));
    inspect_print(t, mix ? ", %lld parameters\n" : "\n", inspect_num(o, "parameters"));
    inspect_print(t, "  file           GGUF version %lld, %lld bytes", inspect_num(o, "gguf"), inspect_num(o, "file_bytes"));
    inspect_print(t, inspect_num(o, "parts") > 1 ? " in %lld parts\n" : "\n", inspect_num(o, "parts"));
    print_sizes(t, o);
    print_weights(t, mix);
    if (kv)
        inspect_print(t, "  KV             %lld bytes per token in f16, %lld in f32\n", inspect_num(kv, "f16"),
                      inspect_num(kv, "f32"));
    print_tokenizer(t, json_object_get(o, "tokenizer"));
    print_templates(t, json_object_get(o, "templates"));
    if (json_object_get(o, "root"))
        inspect_print(t, "  root           %s\n", inspect_str(o, "root"));
    else if (json_object_get(o, "fields"))
        inspect_print(t, "  root           not computed: --root hashes the weights\n");
    inspect_fields(t, json_object_get(o, "fields"));
    print_abilities(t, o);
}

/* The root and its ingredients, which need the weights' hashes, into the description. */
static void add_root(struct inspect *t, json_t *o, const char *path)
{
    struct akv_err err = {0};
    struct akv_session_opts so = {0};
    struct akv_model *m = NULL;
    char *json;
    if (akv_model_open(&m, path, 0, t->o.pre, &err) < 0)
        cmd_die_err(&err);
    struct akv_session *s = cmd_session(&t->o, m, &so);
    if (akv_session_root(s, &json, &err) < 0)
        cmd_die_err(&err);
    json_t *root = json_loads(json, 0, NULL);
    if (!root || json_object_update(o, root) < 0)
        cmd_die(5, "out of memory");
    json_decref(root);
    free(json);
    akv_session_close(s);
    akv_model_close(m);
}

/* Oddities on standard error, as from the tools that run the model; what it does not run for is part of the description. */
static void warn(const json_t *o, const char *path)
{
    const json_t *reasons = json_object_get(o, "reasons");
    if (json_object_get(o, "notes"))
        cmd_notes(cmd_strdup(inspect_str(o, "notes")));
    for (size_t i = 0; i < json_array_size(reasons); i++) {
        const json_t *r = json_array_get(reasons, i);
        if (strcmp(inspect_str(r, "what"), "run"))
            cmd_note("%s: %s cannot be used: %s", path, inspect_str(r, "what"), inspect_str(r, "why"));
    }
}

void inspect_model(struct inspect *t, const char *path)
{
    struct akv_err err = {0};
    char *json;
    if (akv_inspect_model(path, t->o.pre, &json, &err) < 0)
        cmd_die_err(&err);
    json_t *o = inspect_parse(json);
    free(json);
    warn(o, path);
    if (t->root)
        add_root(t, o, path);
    if (t->json) {
        inspect_json(t, o);
    } else {
        inspect_escape(o);
        print_model(t, o);
    }
    json_decref(o);
    t->n_done++;
}
