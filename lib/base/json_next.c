/*
 * Framing of a sequence of JSON values: a small automaton over the grammar finds the end of one value without reading a byte past
 * it, so that values can be taken from a pipe as they arrive, and finds a broken one where it breaks, so that the values after it
 * are not swallowed. What is inside strings, numbers and literals is left to the parser.
 */
#include "base/json.h"

#include <string.h>

#define MAX_DEPTH 2048

enum state { VALUE, FIRST_VALUE, FIRST_KEY, KEY, COLON, COMMA, DONE }; /* what may come next; FIRST_*: or the closing bracket */

struct frame {
    enum state state;
    unsigned depth;
    bool in_string, escaped, in_word; /* in_word: inside a number or literal */
    bool fresh_line;                  /* since the value's last newline only white space was seen */
    uint8_t is_object[MAX_DEPTH / 8]; /* one bit a level */
};

static bool is_space(uint8_t c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_word(uint8_t c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '+' || c == '.' ||
           c == '_' || c >= 0x80;
}

static bool in_object(const struct frame *f)
{
    return f->depth && (f->is_object[(f->depth - 1) / 8] >> (f->depth - 1) % 8 & 1);
}

static void value_done(struct frame *f)
{
    f->state = f->depth ? COMMA : DONE;
}

static const char *open_bracket(struct frame *f, bool object)
{
    if (f->state != VALUE && f->state != FIRST_VALUE)
        return "unexpected bracket";
    if (f->depth == MAX_DEPTH)
        return "nested too deeply";
    uint8_t bit = (uint8_t)(1u << f->depth % 8), *cell = &f->is_object[f->depth / 8];
    *cell = object ? *cell | bit : *cell & (uint8_t)~bit;
    f->depth++;
    f->state = object ? FIRST_KEY : FIRST_VALUE;
    return NULL;
}

static const char *close_bracket(struct frame *f, bool object)
{
    bool fits = f->depth && in_object(f) == object && (f->state == COMMA || f->state == (object ? FIRST_KEY : FIRST_VALUE));
    if (!fits)
        return "unexpected closing bracket";
    f->depth--;
    value_done(f);
    return NULL;
}

static const char *open_scalar(struct frame *f, bool string)
{
    bool key = f->state == KEY || f->state == FIRST_KEY;
    if (key ? !string : f->state != VALUE && f->state != FIRST_VALUE)
        return key ? "expected a key in quotes" : f->state == COLON ? "expected ':'" : "expected ',' or a closing bracket";
    f->in_string = string;
    f->in_word = !string;
    return NULL;
}

/* One byte outside strings and words. NULL, or why it cannot stand here. */
static const char *punctuation(struct frame *f, uint8_t c)
{
    switch (c) {
    case '{':
    case '[':
        return open_bracket(f, c == '{');
    case '}':
    case ']':
        return close_bracket(f, c == '}');
    case ',':
        if (f->state != COMMA)
            return "unexpected ','";
        f->state = in_object(f) ? KEY : VALUE;
        return NULL;
    case ':':
        if (f->state != COLON)
            return "unexpected ':'";
        f->state = VALUE;
        return NULL;
    case '"':
        return open_scalar(f, true);
    default:
        return is_word(c) ? open_scalar(f, false) : "unexpected byte";
    }
}

static void string_done(struct frame *f)
{
    f->in_string = false;
    if (f->state == KEY || f->state == FIRST_KEY)
        f->state = COLON;
    else
        value_done(f);
}

/* Step over one byte. *why is set when the byte is an error; false: the value ended before this byte. */
static bool step(struct frame *f, uint8_t c, const char **why)
{
    if (f->in_string) {
        if (c == '\n')
            *why = "line ends inside a string";
        else if (f->escaped)
            f->escaped = false;
        else if (c == '\\')
            f->escaped = true;
        else if (c == '"')
            string_done(f);
        return true;
    }
    if (f->in_word) {
        if (is_word(c))
            return true;
        f->in_word = false;
        value_done(f);
        if (f->state == DONE)
            return false;
    }
    if (!is_space(c))
        *why = punctuation(f, c);
    return true;
}

/* Bytes ready in the buffer without waiting for more than one; 0 at the end. */
static ssize_t ready(struct akv_in *in, const uint8_t **p, struct akv_err *err)
{
    ssize_t n = akv_in_peek(in, p, 1, err);
    return n <= 0 ? n : (ssize_t)(in->end - in->at);
}

static int skip_line(struct akv_in *in, struct akv_err *err)
{
    const uint8_t *p;
    ssize_t n;
    while ((n = ready(in, &p, err)) > 0) {
        const uint8_t *nl = memchr(p, '\n', (size_t)n);
        akv_in_skip(in, nl ? (size_t)(nl - p) + 1 : (size_t)n);
        if (nl)
            break;
    }
    return n < 0 ? (int)n : 0;
}

static int skip_space(struct akv_in *in, struct akv_err *err)
{
    const uint8_t *p;
    ssize_t n;
    while ((n = ready(in, &p, err)) > 0) {
        size_t i = 0;
        while (i < (size_t)n && is_space(p[i]))
            i++;
        akv_in_skip(in, i);
        if (i < (size_t)n)
            return 1;
    }
    return (int)n;
}

static bool opens_json(uint8_t c)
{
    return c == '{' || c == '[';
}

/* To the next value; in text, to the next line that can hold one. */
static int find_value(struct akv_in *in, struct akv_err *err)
{
    const uint8_t *p;
    for (;;) {
        int rc = skip_space(in, err);
        if (rc <= 0 || !in->in_text)
            return rc;
        if (ready(in, &p, err) <= 0 || opens_json(*p)) {
            in->in_text = false;
            return 1;
        }
        rc = skip_line(in, err);
        if (rc < 0)
            return rc;
    }
}

/* The value broke at the reader's position. What is left of the line cannot be trusted, unless the line only begins here. */
static int broken(struct akv_in *in, const struct frame *f, uint64_t start, const char *why, struct akv_err *err)
{
    uint64_t at = in->offset;
    if (!f->fresh_line && skip_line(in, err) < 0)
        return AKV_E_IO;
    return akv_fail(err, AKV_E_INPUT, "offset %llu: not valid JSON: %s (value begins at offset %llu)", (unsigned long long)at, why,
                    (unsigned long long)start);
}

/* Step over as much of a chunk as belongs to the value; returns the count. */
static size_t scan_chunk(struct frame *f, const uint8_t *p, size_t n, bool *end, const char **why)
{
    for (size_t i = 0; i < n; i++) {
        *end = !step(f, p[i], why);
        if (*end || *why)
            return i;
        if (p[i] == '\n')
            f->fresh_line = true;
        else if (!is_space(p[i]))
            f->fresh_line = false;
        if (f->state == DONE) {
            *end = true;
            return i + 1;
        }
    }
    return n;
}

int akv_json_next_text(struct akv_buf *text, struct akv_in *in, struct akv_err *err)
{
    akv_buf_clear(text);
    int rc = find_value(in, err);
    if (rc <= 0)
        return rc;
    struct frame f = {.state = VALUE};
    uint64_t start = in->offset;
    bool end = false;
    while (!end) {
        const uint8_t *p;
        const char *why = NULL;
        ssize_t n = ready(in, &p, err);
        if (n < 0)
            return (int)n;
        if (n == 0) {
            if (f.in_word && !f.depth)
                break;
            return broken(in, &f, start, "input ends inside a value", err);
        }
        size_t took = scan_chunk(&f, p, (size_t)n, &end, &why);
        if (text->len + took > AKV_JSON_MAX)
            return broken(in, &f, start, "over the limit of 64 MiB", err);
        akv_buf_add(text, p, took);
        akv_in_skip(in, took);
        if (why)
            return broken(in, &f, start, why, err);
        rc = akv_buf_check(text, in->name, err);
        if (rc < 0)
            return rc;
    }
    return 1;
}

int akv_json_next(json_t **out, struct akv_in *in, struct akv_err *err)
{
    struct akv_buf text;
    *out = NULL;
    akv_buf_init(&text, 0);
    int rc = akv_json_next_text(&text, in, err);
    if (rc == 1) {
        uint64_t start = in->offset - text.len;
        rc = akv_json_parse_at(out, text.data, text.len, start, err);
        if (rc == AKV_E_INPUT)
            skip_line(in, NULL);
        else if (rc == 0)
            rc = 1;
    }
    in->in_text = rc == AKV_E_INPUT && !(text.len && opens_json((uint8_t)text.data[0]));
    akv_buf_release(&text);
    return rc;
}
