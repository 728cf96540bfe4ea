/*
 * Chat-template interpreter: the Jinja subset that chat templates use, as transformers renders them (immutable sandbox, trim_blocks,
 * lstrip_blocks, loop controls, generation blocks, tojson without HTML escapes, raise_exception, strftime_now).
 * Templates are untrusted: steps, depth, output and memory are limited; nothing but the context can be reached.
 */
#ifndef AKV_CHAT_JINJA_H
#define AKV_CHAT_JINJA_H

#include "base/json.h"

struct akv_jinja;

struct akv_jinja_limits { /* 0: the default */
    uint64_t steps;       /* evaluated nodes; default 20 million */
    uint32_t depth;       /* nesting of calls and expressions; default 200 */
    size_t output_bytes;  /* default 64 MiB */
    size_t memory_bytes;  /* values alive at once; default 512 MiB */
};

/* Parse. AKV_E_INPUT with "template line N: ..." for a syntax error. text need not outlive the call. */
int akv_jinja_parse(struct akv_jinja **out, const char *text, size_t len, struct akv_err *err);
void akv_jinja_free(struct akv_jinja *t);

/*
 * Render with the members of `context` (a JSON object) as variables. now: the clock for strftime_now (UTC).
 * AKV_E_INPUT: "template: <text>" from raise_exception (up to 400 bytes of text), or "template line N: <kind>".
 */
int akv_jinja_render(const struct akv_jinja *t, const json_t *context, int64_t now, const struct akv_jinja_limits *limits,
                     struct akv_buf *out, struct akv_err *err);

/* Whether the template mentions the variable anywhere (`tools`): a template that does not ignores it. */
bool akv_jinja_mentions(const struct akv_jinja *t, const char *name);

#endif
