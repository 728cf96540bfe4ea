/* Models: what a GGUF file holds, and whether it can be run. */
#include <stdlib.h>

#include "inspect.h"

static void print_model(struct inspect *t, const json_t *o)
{
    inspect_print(t, "%s: %s, architecture %s, %lld bytes\n", inspect_str(o, "path"), inspect_str(o, "name"),
                  inspect_str(o, "architecture"), inspect_num(o, "file_bytes"));
    if (json_object_get(o, "layers"))
        inspect_print(
            t,
            "  %lld layers, width %lld, ff %lld, %lld heads, %lld kv heads of %lld, context %lld, KV %lld bytes per token (f16)\n",
            inspect_num(o, "layers"), inspect_num(o, "width"), inspect_num(o, "ff"), inspect_num(o, "heads"),
            inspect_num(o, "kv_heads"), inspect_num(o, "k_dims"), inspect_num(o, "context"), inspect_num(o, "kv_bytes_per_token"));
    const char *dtype;
    json_t *mix;
    json_object_foreach (json_object_get(o, "tensors"), dtype, mix)
        inspect_print(t, "  %-8s %4lld tensors %12lld bytes\n", dtype, inspect_num(mix, "tensors"), inspect_num(mix, "bytes"));
    inspect_print(t, "  vocabulary %lld, tokenizer %.16s, chat template: %s\n", inspect_num(o, "vocabulary"),
                  inspect_str(o, "tokenizer"),
                  !json_is_true(json_object_get(o, "chat_template")) ? "no"
                  : json_object_get(o, "chat_template_error")        ? "broken"
                                                                     : "yes");
}

static void print_root(struct inspect *t, const struct akv_model *m)
{
    struct akv_err err = {0};
    struct akv_session_opts so = {0};
    char *json;
    struct akv_session *s = cmd_session(&t->o, m, &so);
    if (akv_session_root(s, &json, &err) < 0)
        cmd_die_err(&err);
    json_t *o = json_loads(json, 0, NULL);
    if (t->json) {
        cmd_out_line(&t->out, json);
    } else {
        inspect_print(t, "  root %s\n", inspect_str(o, "root"));
        inspect_fields(t, json_object_get(o, "fields"));
    }
    json_decref(o);
    free(json);
    akv_session_close(s);
}

void inspect_model(struct inspect *t, const char *path)
{
    struct akv_err err = {0}, reason = {0};
    struct akv_model *m = NULL;
    char *json;
    /* an architecture that cannot be run can still be described */
    if (akv_model_open(&m, path, 0, t->o.pre, &reason) < 0 && akv_model_open(&m, path, AKV_MODEL_VOCAB_ONLY, t->o.pre, &err) < 0)
        cmd_die_err(&reason);
    if (akv_model_notes(m))
        cmd_notes(cmd_strdup(akv_model_notes(m)));
    if (akv_inspect_model(m, path, &json, &err) < 0)
        cmd_die_err(&err);
    json_t *o = inspect_load(json);
    if (json_object_get(o, "chat_template_error"))
        cmd_note("%s: chat template: %s", path, inspect_str(o, "chat_template_error"));
    if (t->json) {
        cmd_out_line(&t->out, json);
    } else {
        print_model(t, o);
        if (reason.code)
            inspect_print(t, "  cannot be run: %s\n", reason.msg);
    }
    json_decref(o);
    free(json);
    if (t->root && !reason.code)
        print_root(t, m);
    t->n_done++;
    akv_model_close(m);
}
