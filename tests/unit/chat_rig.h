/* The demo model's tokenizer, and records of requests through its template or another. */
#ifndef AKV_TESTS_CHAT_RIG_H
#define AKV_TESTS_CHAT_RIG_H

#include "tests/check.h"

#include "chat/chat.h"

static struct akv_model *model; /* the demo model's tokenizer, NULL when it is absent */

static inline int open_model(void **state)
{
    (void)state;
    struct akv_err err = {0};
    if (demo_model() && akv_model_load(&model, demo_model(), AKV_MODEL_VOCAB_ONLY, &err) < 0)
        fail_msg("%s", err.msg);
    return 0;
}

static inline int close_model(void **state)
{
    (void)state;
    akv_model_unload(model);
    return 0;
}

static inline json_t *json(const char *text)
{
    struct akv_err err = {0};
    json_t *v;
    assert_ok(akv_json_parse(&v, text, strlen(text), "request", &err), &err);
    return v;
}

static inline struct akv_chat_opts with_template(const char *text)
{
    return (struct akv_chat_opts){.template_text = text, .template_len = strlen(text), .now = 1768478400};
}

/* A record of a request through the model's own or another template. */
static inline void make_record(struct akv_record *r, const char *request, const char *tmpl, char **warnings)
{
    struct akv_chat_opts opts = {.now = 1768478400};
    struct akv_err err = {0};
    json_t *v = json(request);
    if (tmpl)
        opts = with_template(tmpl);
    assert_ok(akv_chat_record(model, v, "r1", &opts, NULL, r, warnings, &err), &err);
    json_decref(v);
}

#endif
