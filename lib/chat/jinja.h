/*
 * Chat-template interpreter: the Jinja subset that chat templates use, as transformers renders them (immutable sandbox,
 * trim_blocks, lstrip_blocks, loop controls, generation blocks, tojson without HTML escapes, raise_exception, strftime_now).
 * Templates are untrusted: steps, depth, output and memory are limited; nothing but the context can be reached.
 *
 * The language is Jinja's with Python's values: all statements but inheritance, inclusion and autoescape; all operators; the tests;
 * the methods of str, dict and list that change nothing; range, dict, namespace; and the filters abs attr batch capitalize center
 * count default dictsort escape first float format indent int items join last length list lower map max min reject rejectattr
 * replace reverse round safe select selectattr slice sort string sum title tojson trim truncate unique upper urlencode wordcount.
 * Different from the reference: integers have 64 bits (more is an error); append and pop work on lists that the template itself
 * made; map, select and their like work at once, not when their result is used; powers of floats are refused; an unknown filter or
 * test is an error only when it is reached. The result does not depend on the locale.
 */
#ifndef AKV_CHAT_JINJA_H
#define AKV_CHAT_JINJA_H

#include "base/json.h"

struct akv_jinja;

struct akv_jinja_limits { /* 0: the default */
    uint64_t steps;       /* evaluated nodes, and work on text and lists in proportion to its size; default 20 million */
    uint32_t depth;       /* nested macro calls, and a tenth of the nested nodes and values; default 200, at most 1000 */
    size_t output_bytes;  /* default 64 MiB */
    size_t memory_bytes;  /* all that a render allocates besides its output; default 512 MiB */
    uint64_t *used;       /* receives the steps that were done, also by a render that fails; may be NULL */
};

/* Parse at most 1 MiB of UTF-8. AKV_E_INPUT with "template line N: ..." for a syntax error. text need not outlive the call.
   The template is immutable: threads may render it at the same time. */
int akv_jinja_parse(struct akv_jinja **out, const char *text, size_t len, struct akv_err *err);
void akv_jinja_free(struct akv_jinja *t);

/*
 * Render with the members of `context` (a JSON object) as variables. now: the clock for strftime_now (UTC).
 * context is only read; out keeps what it held before, also when the render fails.
 * AKV_E_INPUT: "template: <text>" from raise_exception (up to 400 bytes of text), or "template line N: <kind>".
 */
int akv_jinja_render(const struct akv_jinja *t, const json_t *context, int64_t now, const struct akv_jinja_limits *limits,
                     struct akv_buf *out, struct akv_err *err);

#endif
