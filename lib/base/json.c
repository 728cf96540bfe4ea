#include "base/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

#define PARSE_FLAGS (JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL)
#define MAX_DEPTH 2048 /* jansson's own limit for parsing */

/* jansson's text quotes at most 20 bytes of the input; what is said about a place is its byte offset, which we know better. */
int akv_json_parse_at(json_t **out, const char *text, size_t len, uint64_t base, struct akv_err *err)
{
    *out = NULL;
    if (len > AKV_JSON_MAX)
        return akv_fail(err, AKV_E_INPUT, "%zu bytes of JSON, over the limit of %zu", len, AKV_JSON_MAX);
    size_t blank = 0;
    while (blank < len && akv_is_blank(text[blank]))
        blank++;
    if (blank == len)
        return akv_fail(err, AKV_E_INPUT, "empty, expected a JSON value");
    json_error_t e;
    *out = json_loadb(text, len, PARSE_FLAGS, &e);
    if (*out)
        return 0;
    uint64_t at = base + (e.position > 0 ? (uint64_t)e.position : 0);
    if (json_error_code(&e) == json_error_out_of_memory)
        return akv_fail(err, AKV_E_IO, "out of memory");
    return akv_fail(err, AKV_E_INPUT, "offset %llu: not valid JSON: %s", (unsigned long long)at, e.text);
}

int akv_json_parse(json_t **out, const char *text, size_t len, const char *what, struct akv_err *err)
{
    int rc = akv_json_parse_at(out, text, len, 0, err);
    if (rc < 0)
        akv_err_prefix(err, "%s", what);
    return rc;
}

static void dump_value(struct akv_buf *b, const json_t *v, unsigned depth);

static void dump_object(struct akv_buf *b, const json_t *v, unsigned depth)
{
    json_t *obj = (json_t *)(uintptr_t)v; /* jansson's iterators lack const */
    bool first = true;
    akv_buf_putc(b, '{');
    for (void *it = json_object_iter(obj); it; it = json_object_iter_next(obj, it)) {
        if (!first)
            akv_buf_putc(b, ',');
        first = false;
        akv_json_string(b, json_object_iter_key(it), json_object_iter_key_len(it));
        akv_buf_putc(b, ':');
        dump_value(b, json_object_iter_value(it), depth + 1);
    }
    akv_buf_putc(b, '}');
}

static void dump_array(struct akv_buf *b, const json_t *v, unsigned depth)
{
    akv_buf_putc(b, '[');
    for (size_t i = 0; i < json_array_size(v); i++) {
        if (i)
            akv_buf_putc(b, ',');
        dump_value(b, json_array_get(v, i), depth + 1);
    }
    akv_buf_putc(b, ']');
}

static void dump_value(struct akv_buf *b, const json_t *v, unsigned depth)
{
    if (depth > MAX_DEPTH) { /* only a value built by hand can be deeper than what parses */
        b->failed = true;
        return;
    }
    switch (json_typeof(v)) {
    case JSON_OBJECT:
        dump_object(b, v, depth);
        break;
    case JSON_ARRAY:
        dump_array(b, v, depth);
        break;
    case JSON_STRING:
        akv_json_string(b, json_string_value(v), json_string_length(v));
        break;
    case JSON_INTEGER:
        akv_buf_printf(b, "%lld", (long long)json_integer_value(v));
        break;
    case JSON_REAL:
        akv_json_real(b, json_real_value(v));
        break;
    case JSON_TRUE:
        akv_buf_puts(b, "true");
        break;
    case JSON_FALSE:
        akv_buf_puts(b, "false");
        break;
    case JSON_NULL:
        akv_buf_puts(b, "null");
        break;
    }
}

void akv_json_dump(struct akv_buf *b, const json_t *v)
{
    dump_value(b, v, 0);
}

/*
 * The significant digits (no trailing zeros) and decimal exponent of a finite v > 0: v = d.ddd * 10^*exp10. snprintf and strtod are used
 * in the same locale, so its decimal point cancels out; only digits are taken from the text.
 */
static size_t shortest_digits(double v, char digits[18], int *exp10)
{
    char text[64];
    int mant_exp;
    bool power_of_two = frexp(v, &mant_exp) == 0.5; /* exact: exponent arithmetic only */
    for (int p = 0; p < 17; p++) {
        snprintf(text, sizeof text, "%.*e", p, v);
        bool found = strtod(text, NULL) == v;
        if (!found && power_of_two) {
            /* below a power of two the spacing halves, so the closest decimal may fall out of the interval while the next one up fits */
            char *last = strchr(text, 'e');
            while (*--last < '0' || *last > '9')
                ;
            if (*last != '9') {
                ++*last;
                found = strtod(text, NULL) == v;
            }
        }
        if (found)
            break;
    }
    size_t n = 0;
    const char *s = text;
    for (; *s != 'e'; s++)
        if (*s >= '0' && *s <= '9')
            digits[n++] = *s;
    *exp10 = (int)strtol(s + 1, NULL, 10);
    while (n > 1 && digits[n - 1] == '0')
        n--;
    return n;
}

void akv_json_real(struct akv_buf *b, double v)
{
    if (!isfinite(v)) {
        akv_buf_puts(b, "null");
        return;
    }
    if (signbit(v)) {
        akv_buf_putc(b, '-');
        v = -v;
    }
    char digits[18] = "0";
    int exp10 = 0;
    size_t n = v > 0 ? shortest_digits(v, digits, &exp10) : 1;
    if (exp10 < -4 || exp10 >= 16) {
        akv_buf_putc(b, digits[0]);
        if (n > 1) {
            akv_buf_putc(b, '.');
            akv_buf_add(b, digits + 1, n - 1);
        }
        akv_buf_printf(b, "e%c%02d", exp10 < 0 ? '-' : '+', abs(exp10));
        return;
    }
    if (exp10 < 0) {
        akv_buf_add(b, "0.000", (size_t)(1 - exp10));
        akv_buf_add(b, digits, n);
        return;
    }
    size_t whole = (size_t)exp10 + 1;
    for (size_t i = 0; i < whole; i++)
        akv_buf_putc(b, i < n ? digits[i] : '0');
    akv_buf_putc(b, '.');
    if (n > whole)
        akv_buf_add(b, digits + whole, n - whole);
    else
        akv_buf_putc(b, '0');
}

static void escape_byte(struct akv_buf *b, unsigned char c)
{
    static const char names[] = "\bb\tt\nn\ff\rr\"\"\\\\";
    for (const char *p = names; *p; p += 2)
        if ((unsigned char)*p == c) {
            akv_buf_putc(b, '\\');
            akv_buf_putc(b, p[1]);
            return;
        }
    akv_buf_printf(b, "\\u%04x", c);
}

void akv_json_string(struct akv_buf *b, const char *s, size_t len)
{
    akv_buf_putc(b, '"');
    size_t from = 0, i = 0;
    while (i < len) {
        unsigned char c = (unsigned char)s[i];
        size_t n = c < 0x80 ? 1 : akv_utf8_len(s + i, len - i);
        if (n && c >= 0x20 && c != '"' && c != '\\') {
            i += n;
            continue;
        }
        akv_buf_add(b, s + from, i - from);
        if (n)
            escape_byte(b, c);
        else
            akv_buf_puts(b, "\xef\xbf\xbd");
        from = ++i;
    }
    akv_buf_add(b, s + from, len - from);
    akv_buf_putc(b, '"');
}
