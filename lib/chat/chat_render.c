#include "chat/chat_render.h"

#include <stdlib.h>
#include <string.h>

/*
 * A template is untrusted code, and the search for spans renders it many times. Most need a few thousand steps; what the request
 * itself needed bounds each probe.
 */
#define FEW_STEPS 200000u
#define MANY_STEPS 20000000u
#define PROBE_STEPS 200000000u
#define PROBE_LEAST 1000u /* what a probe costs besides its steps, and one for each message */
#define PROBE_BYTES ((size_t)1 << 30)

static int find_template(const struct akv_model *model, const struct akv_chat_opts *opts, struct akv_str *out, struct akv_err *err)
{
    if (opts->template_text) {
        *out = (struct akv_str){opts->template_text, opts->template_len};
        return 0;
    }
    if (!model)
        return akv_fail(err, AKV_E_USAGE, "neither a model nor a template is given");
    if (akv_model_template(model, opts->template_name, out) > 0)
        return 0;
    if (opts->template_name)
        return akv_fail(err, AKV_E_INPUT, "the model has no chat template named \"%.40s\"", opts->template_name);
    return akv_fail(err, AKV_E_INPUT, "the model has no chat template: give one, or send a prompt instead of messages");
}

/* bos_token or eos_token: the request's, else the text of the model's token, else not there at all. */
static int set_token(json_t *base, const char *name, const json_t *given, const struct akv_tok *tok, uint32_t id,
                     struct akv_err *err)
{
    if (given)
        return json_object_set(base, name, (json_t *)(uintptr_t)given) < 0 ? akv_fail(err, AKV_E_IO, "out of memory") : 0;
    if (!tok || id == AKV_TOK_NONE)
        return 0;
    struct akv_buf text;
    akv_buf_init(&text, 0);
    int rc = akv_tok_decode(tok, &id, 1, false, &text, err);
    if (rc == 0 && json_object_set_new(base, name, json_stringn(text.data, text.len)) < 0)
        rc = akv_fail(err, AKV_E_INPUT, "%s: the model's token %u is not valid UTF-8", name, id);
    akv_buf_release(&text);
    return rc;
}

void akv_chat_cache_release(struct akv_chat_cache *c)
{
    akv_jinja_free(c->jinja);
    free(c->text);
    *c = (struct akv_chat_cache){0};
}

/* Parsing takes longer than rendering a short chat. The text is compared: an address may have been used again for another one. */
static int parse(struct akv_chat_cache *c, const struct akv_str *text, struct akv_err *err)
{
    if (c->jinja && c->len == text->len && !memcmp(c->text, text->s, text->len))
        return 0;
    akv_chat_cache_release(c);
    int rc = akv_jinja_parse(&c->jinja, text->s, text->len, err);
    if (rc == 0 && !(c->text = akv_strndup(text->s, text->len, err))) {
        akv_chat_cache_release(c);
        return AKV_E_IO;
    }
    c->len = text->len;
    return rc;
}

int akv_chat_tmpl_open(struct akv_chat_tmpl *t, const struct akv_model *model, const struct akv_chat_request *r,
                       const struct akv_chat_opts *opts, struct akv_chat_cache *cache, struct akv_err *err)
{
    *t = (struct akv_chat_tmpl){.base = json_object(), .kwargs = r->kwargs, .now = opts->now};
    t->cache = cache ? cache : &t->own;
    const struct akv_tok *tok = model ? model->tok : NULL;
    struct akv_str text;
    int rc = find_template(model, opts, &text, err);
    if (rc == 0)
        rc = parse(t->cache, &text, err);
    json_t *documents = r->documents ? json_incref((json_t *)(uintptr_t)r->documents) : json_null();
    if (json_object_set_new(t->base, "documents", documents) < 0 && rc == 0)
        rc = akv_fail(err, AKV_E_IO, "out of memory");
    if (rc == 0)
        rc = set_token(t->base, "bos_token", r->bos, tok, tok ? akv_tok_bos(tok) : AKV_TOK_NONE, err);
    if (rc == 0)
        rc = set_token(t->base, "eos_token", r->eos, tok, tok ? akv_tok_eos(tok) : AKV_TOK_NONE, err);
    if (rc == 0 && r->effort)
        json_object_set(t->base, "reasoning_effort", (json_t *)(uintptr_t)r->effort);
    if (rc < 0)
        akv_chat_tmpl_release(t);
    return rc;
}

void akv_chat_tmpl_release(struct akv_chat_tmpl *t)
{
    akv_chat_cache_release(&t->own);
    json_decref(t->base);
    *t = (struct akv_chat_tmpl){0};
}

static int render(const struct akv_chat_tmpl *t, json_t *messages, const json_t *tools, bool add_generation_prompt,
                  struct akv_buf *out, uint64_t *used, struct akv_err *err)
{
    json_t *context = json_copy(t->base);
    akv_buf_clear(out);
    json_object_set(context, "messages", messages);
    json_object_set_new(context, "tools", tools ? json_incref((json_t *)(uintptr_t)tools) : json_null());
    json_object_set_new(context, "add_generation_prompt", json_boolean(add_generation_prompt));
    int rc = 0;
    if (t->kwargs)
        rc = json_object_update(context, (json_t *)(uintptr_t)t->kwargs);
    if (rc < 0 || !json_object_get(context, "add_generation_prompt"))
        rc = akv_fail(err, AKV_E_IO, "out of memory");
    struct akv_jinja_limits limits = {.steps = t->steps, .used = used};
    if (rc == 0)
        rc = akv_jinja_render(t->cache->jinja, context, t->now, &limits, out, err);
    if (rc == 0)
        rc = akv_buf_check(out, "rendered text", err);
    json_decref(context);
    return rc;
}

int akv_chat_tmpl_render(struct akv_chat_tmpl *t, const struct akv_chat_request *r, struct akv_buf *out, struct akv_err *err)
{
    uint64_t used = 0;
    t->steps = MANY_STEPS;
    int rc = render(t, r->messages, r->tools, r->add_generation_prompt, out, &used, err);
    t->steps = 2 * (used > FEW_STEPS ? used : FEW_STEPS); /* a probe may be a little longer than the request */
    t->probe_steps_left = PROBE_STEPS;
    t->probe_bytes_left = PROBE_BYTES;
    return rc;
}

bool akv_chat_tmpl_may_probe(const struct akv_chat_tmpl *t)
{
    return t->probe_steps_left && t->probe_bytes_left;
}

/* What is left after this much more. */
static uint64_t less(uint64_t left, uint64_t used)
{
    return left > used ? left - used : 0;
}

bool akv_chat_tmpl_probe(struct akv_chat_tmpl *t, json_t *messages, const json_t *tools, bool add_generation_prompt,
                         struct akv_buf *out)
{
    bool done = false;
    if (messages && akv_chat_tmpl_may_probe(t)) {
        uint64_t used = 0;
        done = render(t, messages, tools, add_generation_prompt, out, &used, NULL) == 0;
        t->probe_steps_left = less(t->probe_steps_left, used + json_array_size(messages) + PROBE_LEAST);
        t->probe_bytes_left = (size_t)less(t->probe_bytes_left, out->len);
    }
    json_decref(messages);
    return done;
}
