/* akv-pin NAME, --rename, --remove, --export: pins as names. */
#include <stdio.h>
#include <stdlib.h>

#include "pin.h"

void pin_check_stream(struct pin *t)
{
    struct akv_err err = {0};
    if (akv_pin_name_check(t->names[0], &err) < 0)
        cmd_die_err(&err);
    cmd_first_input(&t->inputs, 0, NULL);
    if (akv_input_kind(t->inputs.in) != AKV_KIND_STREAM)
        cmd_die(3, "%s: not an akv stream", cmd_input_name(&t->inputs));
}

static int told(void *ctx, const struct akv_pin *pin, struct akv_err *err)
{
    (void)ctx;
    (void)err;
    cmd_note("pinned %s: %llu tokens, %llu bytes, root %.16s", pin->name, (unsigned long long)pin->tokens,
             (unsigned long long)pin->bytes, pin->root);
    return 0;
}

/* The model whose name the pin will keep. One that only the environment names may be absent. */
static struct akv_model *find_model(struct pin *t)
{
    struct akv_model *m = NULL;
    struct akv_err err = {0};
    if (t->model_given)
        return cmd_model(&t->o, AKV_MODEL_DECODE_ONLY);
    if (t->o.model && *t->o.model && akv_model_open(&m, t->o.model, AKV_MODEL_DECODE_ONLY, NULL, &err) < 0)
        cmd_detail("%s", err.msg);
    return m;
}

int pin_add(struct pin *t, struct akv_err *err)
{
    char made_by[64];
    struct akv_session_opts so = {0};
    struct akv_model *m = find_model(t);
    struct akv_session *s = m ? cmd_session(&t->o, m, &so) : NULL;
    struct akv_pin_opts o = {
        .all = t->all, .made_by = made_by, .options = t->all ? "--all" : NULL, .session = s, .pinned = told, .note = pin_note};
    snprintf(made_by, sizeof made_by, "akv-pin %s", akv_version());
    int rc = akv_pin_stream(t->store, t->inputs.in, t->names[0], &o, err);
    akv_session_close(s);
    akv_model_close(m);
    cmd_input_done(&t->inputs);
    return rc;
}

void pin_root_of_model(struct pin *t)
{
    struct akv_session_opts so = {0};
    struct akv_err err = {0};
    struct akv_model *m = cmd_model(&t->o, AKV_MODEL_DECODE_ONLY);
    struct akv_session *s = cmd_session(&t->o, m, &so);
    char *text;
    if (akv_session_root(s, &text, &err) < 0)
        cmd_die_err(&err);
    json_t *json = json_loads(text, 0, NULL);
    snprintf(t->model_root, sizeof t->model_root, "%s", json_string_value(json_object_get(json, "root")));
    t->root = t->model_root;
    json_decref(json);
    free(text);
    akv_session_close(s);
    akv_model_close(m);
}

int pin_rename(struct pin *t, struct akv_err *err)
{
    return akv_pin_rename(t->store, t->names[0], t->names[1], t->root, err);
}

int pin_remove(struct pin *t, struct akv_err *err)
{
    return akv_pin_remove(t->store, t->names[0], t->root, err);
}

int pin_export(struct pin *t, struct akv_err *err)
{
    return akv_pin_export(t->store, t->names[0], t->root, t->out.fd, t->out.name, err);
}
