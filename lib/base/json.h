/*
 * JSON through jansson: parsing without loss (key order, 64-bit integers, strict UTF-8; larger integers refused; reals
 * printed as their shortest round-trip form) and one-line serialising.
 */
#ifndef AKV_BASE_JSON_H
#define AKV_BASE_JSON_H

#include <jansson.h>

#include "base/buf.h"
#include "base/io.h"

#define AKV_JSON_MAX ((size_t)64 << 20) /* the largest single value, bytes */

/*
 * Parse exactly one value that fills text (white space around it allowed). what: for messages, e.g. "record 3". New reference.
 * Refused (AKV_E_INPUT with the offset): duplicate keys, integers over 64 bits, invalid UTF-8, lone surrogates, nesting over 2048.
 */
int akv_json_parse(json_t **out, const char *text, size_t len, const char *what, struct akv_err *err);

/* The same for a value that stands at byte `base` of a longer input: offsets count from its start, and messages name nothing. */
int akv_json_parse_at(json_t **out, const char *text, size_t len, uint64_t base, struct akv_err *err);

/*
 * The next value of a sequence of JSON values (white space between, newlines or not) on `in`. Never waits for a byte after the
 * value's last one (a bare number or literal ends at the byte that follows it).
 * Returns 1 with *out set (new reference), 0 at a clean end, or an error that gives the byte offset (AKV_E_INPUT without the
 * input's name). After AKV_E_INPUT the rest of the line has been skipped, so that the caller may report it and go on; when a value
 * breaks off at a line's end, the next line is still to come. When it did not even begin with a bracket, it is text: one error
 * stands for all lines up to the next that begins with { or [. A value over AKV_JSON_MAX is AKV_E_INPUT too.
 */
int akv_json_next(json_t **out, struct akv_in *in, struct akv_err *err);

/* The same, but the value's text is put into `text` (cleared first) unparsed: its brackets match, its literals are unchecked. */
int akv_json_next_text(struct akv_buf *text, struct akv_in *in, struct akv_err *err);

/* Append v in one line: separators "," and ":" without spaces, key order kept, UTF-8 as is, reals by akv_json_real(). */
void akv_json_dump(struct akv_buf *b, const json_t *v);

/* Append a double as its shortest decimal form that reads back equal, spelled as Python's repr does (1e-05, 0.1, 3.0); null if not finite. */
void akv_json_real(struct akv_buf *b, double v);

/* Append s as a JSON string with quotes; invalid UTF-8 bytes become U+FFFD. */
void akv_json_string(struct akv_buf *b, const char *s, size_t len);

#endif
