#include "chat/chat_request.h"

#include <stdio.h>
#include <string.h>

enum use {
    USED,
    CHAT,    /* used with messages; would have no effect with prompt, so it is refused there */
    PROMPT,  /* the other way round */
    IGNORED, /* harmless: says nothing about the prompt's text or the choice of tokens */
    NEUTRAL  /* cannot be honoured: accepted only with a value that asks for nothing */
};

static const struct field {
    const char *name;
    enum use use;
} fields[] = {
    /* what the request says */
    {"messages", USED},
    {"prompt", USED},
    {"id", USED},
    {"tools", CHAT},
    {"tool_choice", CHAT},
    {"add_generation_prompt", CHAT},
    {"documents", CHAT},
    {"chat_template_kwargs", CHAT},
    {"reasoning_effort", CHAT},
    {"bos_token", CHAT},
    {"eos_token", CHAT},
    {"parse_special", PROMPT},
    {"add_special", PROMPT},
    {"max_tokens", USED},
    {"max_completion_tokens", USED},
    {"temperature", USED},
    {"top_k", USED},
    {"top_p", USED},
    {"min_p", USED},
    {"repeat_penalty", USED},
    {"seed", USED},
    {"stop", USED},
    /* passed over in silence; akv-tokenize(1) lists these */
    {"model", IGNORED},
    {"stream", IGNORED},
    {"stream_options", IGNORED},
    {"user", IGNORED},
    {"metadata", IGNORED},
    {"store", IGNORED},
    {"service_tier", IGNORED},
    {"safety_identifier", IGNORED},
    {"prompt_cache_key", IGNORED},
    {"prompt_cache_retention", IGNORED},
    {"prediction", IGNORED},
    {"cache_prompt", IGNORED},
    /* what asks for nothing is passed over, anything else is refused: see is_neutral() */
    {"n", NEUTRAL},
    {"best_of", NEUTRAL},
    {"modalities", NEUTRAL},
    {"verbosity", NEUTRAL},
    {"parallel_tool_calls", NEUTRAL},
    {"frequency_penalty", NEUTRAL},
    {"presence_penalty", NEUTRAL},
    {"logit_bias", NEUTRAL},
    {"logprobs", NEUTRAL},
    {"top_logprobs", NEUTRAL},
    {"response_format", NEUTRAL},
    {"echo", NEUTRAL},
    {"suffix", NEUTRAL},
};

/* Content parts that hold something other than text. */
static const char *const media[] = {"image", "image_url", "input_image", "audio", "audio_url", "input_audio",
                                    "video", "video_url", "input_video", "file",  "input_file"};

/* The member, or NULL when absent or null. */
static const json_t *member(const json_t *obj, const char *key)
{
    const json_t *v = json_object_get(obj, key);
    return json_is_null(v) ? NULL : v;
}

static bool is_word(const json_t *v, const char *word)
{
    return json_is_string(v) && !strcmp(json_string_value(v), word);
}

/* Whether a setting is what happens anyway: 1 reply, as text, of the usual length, any number of calls; else 0, false, "", empty. */
static bool is_neutral(const char *name, const json_t *v)
{
    if (!strcmp(name, "n") || !strcmp(name, "best_of"))
        return json_is_integer(v) && json_integer_value(v) == 1;
    if (!strcmp(name, "response_format"))
        return is_word(json_object_get(v, "type"), "text");
    if (!strcmp(name, "modalities"))
        return json_array_size(v) == 1 && is_word(json_array_get(v, 0), "text");
    if (!strcmp(name, "verbosity"))
        return is_word(v, "medium");
    if (!strcmp(name, "parallel_tool_calls"))
        return json_is_true(v);
    switch (json_typeof(v)) {
    case JSON_OBJECT:
        return json_object_size(v) == 0;
    case JSON_ARRAY:
        return json_array_size(v) == 0;
    case JSON_STRING:
        return json_string_length(v) == 0;
    case JSON_INTEGER:
    case JSON_REAL:
        return !(json_number_value(v) < 0 || json_number_value(v) > 0);
    default:
        return !json_is_true(v);
    }
}

static int check_fields(const json_t *request, bool chat, unsigned flags, struct akv_err *err)
{
    json_t *obj = (json_t *)(uintptr_t)request; /* jansson's iterators lack const */
    for (void *it = json_object_iter(obj); it; it = json_object_iter_next(obj, it)) {
        const char *key = json_object_iter_key(it);
        const json_t *v = json_object_iter_value(it);
        const struct field *f = NULL;
        for (size_t i = 0; i < sizeof fields / sizeof *fields && !f; i++)
            if (!strcmp(fields[i].name, key))
                f = &fields[i];
        if (!f && !(flags & AKV_CHAT_IGNORE_UNKNOWN))
            return akv_fail(err, AKV_E_INPUT, "%.40s: unknown field", key);
        if (f && f->use == (chat ? PROMPT : CHAT) && !json_is_null(v))
            return akv_fail(err, AKV_E_INPUT, "%s: has no meaning with %s", key, chat ? "messages" : "prompt");
        if (f && f->use == NEUTRAL && !json_is_null(v) && !is_neutral(key, v))
            return akv_fail(err, AKV_E_INPUT, "%s: not supported with this value", key);
    }
    return 0;
}

static int read_bool(const json_t *request, const char *key, bool absent, struct akv_err *err)
{
    const json_t *v = member(request, key);
    if (!v)
        return absent;
    if (!json_is_boolean(v))
        return akv_fail(err, AKV_E_INPUT, "%s: must be true or false", key);
    return json_is_true(v);
}

static int check_part(const json_t *part, size_t message, size_t i, struct akv_err *err)
{
    const char *type = json_string_value(json_object_get(part, "type"));
    if (json_is_string(part))
        return 0;
    if (!json_is_object(part))
        return akv_fail(err, AKV_E_INPUT, "messages[%zu].content[%zu]: must be an object or a string", message, i);
    for (size_t k = 0; type && k < sizeof media / sizeof *media; k++)
        if (!strcmp(type, media[k]))
            return akv_fail(err, AKV_E_INPUT, "messages[%zu].content[%zu]: content of type %s is not supported", message, i, type);
    if (type && !strcmp(type, "text") && !json_is_string(json_object_get(part, "text")))
        return akv_fail(err, AKV_E_INPUT, "messages[%zu].content[%zu].text: missing or not a string", message, i);
    return 0;
}

static int check_message(const json_t *m, size_t i, struct akv_err *err)
{
    if (!json_is_object(m))
        return akv_fail(err, AKV_E_INPUT, "messages[%zu]: must be an object", i);
    if (!json_is_string(json_object_get(m, "role")))
        return akv_fail(err, AKV_E_INPUT, "messages[%zu].role: missing or not a string", i);
    const json_t *content = json_object_get(m, "content");
    if (content && !json_is_string(content) && !json_is_null(content) && !json_is_array(content))
        return akv_fail(err, AKV_E_INPUT, "messages[%zu].content: must be a string, an array of parts or null", i);
    int rc = 0;
    for (size_t k = 0; rc == 0 && k < json_array_size(content); k++)
        rc = check_part(json_array_get(content, k), i, k, err);
    const json_t *ids = json_object_get(m, "akv_ids"), *audio = json_object_get(m, "audio");
    if (rc == 0 && audio && !json_is_null(audio))
        rc = akv_fail(err, AKV_E_INPUT, "messages[%zu].audio: not supported", i);
    if (rc == 0 && ids && !json_is_array(ids) && !json_is_null(ids))
        rc = akv_fail(err, AKV_E_INPUT, "messages[%zu].akv_ids: must be an array of token ids", i);
    return rc;
}

/*
 * One message as the template sees it: without our own key and, unless raw, without keys whose value is null and with the model's
 * thinking under both names that templates know (the one that was missing comes first, as in the reference).
 */
static json_t *prepare_message(const json_t *m, bool raw)
{
    json_t *out = json_object(), *obj = (json_t *)(uintptr_t)m;
    const json_t *thought = member(m, "reasoning_content");
    const char *twin = "thinking";
    if (!thought) {
        thought = member(m, "thinking");
        twin = "reasoning_content";
    }
    if (!raw && thought)
        json_object_set(out, twin, (json_t *)(uintptr_t)thought);
    for (void *it = json_object_iter(obj); it; it = json_object_iter_next(obj, it)) {
        const char *key = json_object_iter_key(it);
        json_t *v = json_object_iter_value(it);
        if (strcmp(key, "akv_ids") && (raw || !json_is_null(v)) && json_object_set(out, key, v) < 0) {
            json_decref(out);
            return NULL;
        }
    }
    return out;
}

static int read_messages(struct akv_chat_request *r, const json_t *list, unsigned flags, struct akv_err *err)
{
    if (!json_is_array(list))
        return akv_fail(err, AKV_E_INPUT, "messages: must be an array");
    r->sent = list;
    r->messages = json_array();
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *m = json_array_get(list, i);
        int rc = check_message(m, i, err);
        if (rc < 0)
            return rc;
        if (json_array_append_new(r->messages, prepare_message(m, flags & AKV_CHAT_RAW_MESSAGES)) < 0)
            return akv_fail(err, AKV_E_IO, "out of memory for messages");
    }
    return 0;
}

static int read_template_inputs(struct akv_chat_request *r, const json_t *request, struct akv_err *err)
{
    r->tools = member(request, "tools");
    r->documents = member(request, "documents");
    r->kwargs = member(request, "chat_template_kwargs");
    r->bos = member(request, "bos_token");
    r->eos = member(request, "eos_token");
    r->effort = member(request, "reasoning_effort");
    const json_t *choice = member(request, "tool_choice");
    const char *word = json_string_value(choice);
    if (r->tools && !json_is_array(r->tools))
        return akv_fail(err, AKV_E_INPUT, "tools: must be an array");
    if (r->documents && !json_is_array(r->documents))
        return akv_fail(err, AKV_E_INPUT, "documents: must be an array");
    if (r->kwargs && !json_is_object(r->kwargs))
        return akv_fail(err, AKV_E_INPUT, "chat_template_kwargs: must be an object");
    if ((r->bos && !json_is_string(r->bos)) || (r->eos && !json_is_string(r->eos)))
        return akv_fail(err, AKV_E_INPUT, "%s: must be a string", r->bos && !json_is_string(r->bos) ? "bos_token" : "eos_token");
    if (r->effort && !json_is_string(r->effort))
        return akv_fail(err, AKV_E_INPUT, "reasoning_effort: must be a string");
    if (choice && (!word || (strcmp(word, "auto") && strcmp(word, "none"))))
        return akv_fail(err, AKV_E_INPUT, "tool_choice: only \"auto\" and \"none\" are supported: nothing here forces a call");
    if (word && !strcmp(word, "none"))
        r->tools = NULL; /* the one way to be sure that none is called */
    int rc = read_bool(request, "add_generation_prompt", true, err);
    r->add_generation_prompt = rc > 0;
    return rc < 0 ? rc : 0;
}

static int read_prompt(struct akv_chat_request *r, const json_t *request, struct akv_err *err)
{
    r->prompt = member(request, "prompt");
    if (!json_is_string(r->prompt))
        return akv_fail(err, AKV_E_INPUT, "prompt: must be a string");
    int special = read_bool(request, "parse_special", true, err);
    int add = read_bool(request, "add_special", true, err);
    r->parse_special = special > 0;
    r->add_special = add > 0;
    return special < 0 ? special : add < 0 ? add : 0;
}

/* The sampling fields, under the names of the record; checked here so that a bad one is named before anything is rendered. */
static int read_gen(struct akv_chat_request *r, const json_t *request, struct akv_err *err)
{
    static const char *const names[] = {"max_tokens", "temperature", "top_k", "top_p", "min_p", "repeat_penalty", "seed", "stop"};
    r->gen = json_object();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const json_t *v = member(request, names[i]);
        if (i == 0 && member(request, "max_completion_tokens"))
            v = member(request, "max_completion_tokens");
        if (v && json_object_set(r->gen, names[i], (json_t *)(uintptr_t)v) < 0)
            return akv_fail(err, AKV_E_IO, "out of memory");
    }
    struct akv_gen gen;
    int rc = akv_gen_from_json(&gen, r->gen, err);
    akv_gen_release(&gen);
    return rc;
}

static int read_id(struct akv_chat_request *r, const json_t *request, struct akv_err *err)
{
    const json_t *id = member(request, "id");
    r->id = json_string_value(id);
    if (json_is_integer(id)) {
        snprintf(r->id_text, sizeof r->id_text, "%lld", (long long)json_integer_value(id));
        r->id = r->id_text;
    }
    if (id && (!r->id || (json_is_string(id) && strlen(r->id) != json_string_length(id))))
        return akv_fail(err, AKV_E_INPUT, "id: must be a string without NUL or a whole number");
    return 0;
}

int akv_chat_request_read(struct akv_chat_request *r, const json_t *request, unsigned flags, struct akv_err *err)
{
    *r = (struct akv_chat_request){0};
    const json_t *messages = member(request, "messages");
    bool chat = messages != NULL;
    int rc = 0;
    if (!json_is_object(request))
        rc = akv_fail(err, AKV_E_INPUT, "the request is not a JSON object");
    else if (chat == (member(request, "prompt") != NULL))
        rc = akv_fail(err, AKV_E_INPUT,
                      chat ? "messages and prompt: give one of them, not both" : "neither messages nor prompt is given");
    if (rc == 0)
        rc = check_fields(request, chat, flags, err);
    if (rc == 0)
        rc = read_id(r, request, err);
    if (rc == 0)
        rc = chat ? read_messages(r, messages, flags, err) : read_prompt(r, request, err);
    if (rc == 0 && chat)
        rc = read_template_inputs(r, request, err);
    if (rc == 0 && chat && flags & AKV_CHAT_SORT_TOOLS)
        rc = akv_chat_sort_tools(r, err);
    if (rc == 0)
        rc = read_gen(r, request, err);
    if (rc < 0)
        akv_chat_request_release(r);
    return rc;
}

void akv_chat_request_release(struct akv_chat_request *r)
{
    json_decref(r->messages);
    json_decref(r->gen);
    json_decref(r->sorted_tools);
    *r = (struct akv_chat_request){0};
}
