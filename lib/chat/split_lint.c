/*
 * Text that is likely to differ the next time: dates, clock times, ids. Each rule looks at one word boundary and a bounded number of bytes
 * after it, or at a run of bytes that is then passed over whole, so a text is read in linear time.
 */
#include "chat/split.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

struct cursor {
    const char *s;
    size_t len; /* bytes left from s */
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_hex(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static bool is_alpha(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_word(char c)
{
    return is_digit(c) || is_alpha(c) || (unsigned char)c >= 0x80;
}

static bool is_path_char(char c)
{
    return is_word(c) || (c && strchr("/~._-+@%", c));
}

static char at(const struct cursor *c, size_t i)
{
    return i < c->len ? c->s[i] : '\0';
}

/*
 * Match a shape: 'd' a digit, 'D' a digit or nothing, 'h' a hexadecimal digit, '-' one of "-/.", others themselves.
 * Returns its length, or 0; the byte after it must not go on with a digit or letter.
 */
static size_t match_shape(const struct cursor *c, const char *shape)
{
    size_t i = 0;
    for (; *shape; shape++) {
        char x = at(c, i);
        bool ok = *shape == 'd' || *shape == 'D' ? is_digit(x)
                  : *shape == 'h'                ? is_hex(x)
                  : *shape == '-'                ? x == '-' || x == '/' || x == '.'
                                                 : x == *shape;
        if (!ok && *shape != 'D')
            return 0;
        i += ok;
    }
    return is_digit(at(c, i)) || is_alpha(at(c, i)) ? 0 : i;
}

static unsigned two_digits(const struct cursor *c, size_t i)
{
    return (unsigned)(at(c, i) - '0') * 10 + (unsigned)(at(c, i + 1) - '0');
}

/* A word of `words` (three letters each), alone or with the rest of the name; returns the length of what stands there, or 0. */
static size_t match_name(const struct cursor *c, const char *const *words, size_t n)
{
    size_t len = 0;
    while (len < 10 && is_alpha(at(c, len)))
        len++;
    for (size_t i = 0; i < n; i++) {
        size_t full = strlen(words[i]);
        if ((len == full && !strncmp(c->s, words[i], full)) || (len == 3 && !strncmp(c->s, words[i], 3)))
            return len;
    }
    return 0;
}

static size_t match_month(const struct cursor *c)
{
    static const char *const months[] = {"January", "February", "March",     "April",   "May",      "June",
                                         "July",    "August",   "September", "October", "November", "December"};
    return match_name(c, months, sizeof months / sizeof *months);
}

static struct cursor after(const struct cursor *c, size_t n)
{
    return (struct cursor){c->s + n, c->len - n};
}

static bool starts_with(const struct cursor *c, const char *word)
{
    size_t n = strlen(word);
    return n <= c->len && !memcmp(c->s, word, n);
}

/* "5", "15", "15th"; a number that goes on is none. */
static size_t match_day(const struct cursor *c)
{
    size_t d = is_digit(at(c, 0)) ? 1u + is_digit(at(c, 1)) : 0;
    struct cursor end = after(c, d);
    if (d && (starts_with(&end, "st") || starts_with(&end, "nd") || starts_with(&end, "rd") || starts_with(&end, "th")))
        d += 2;
    return is_word(at(c, d)) ? 0 : d;
}

/* "January 15, 2026", "Jan 15th", "January 2026", "15 January 2026", "15th of January". */
static size_t match_written_date(const struct cursor *c)
{
    size_t n = match_month(c);
    if (n && at(c, n) == ' ') {
        struct cursor day = after(c, n + 1);
        size_t d = match_day(&day);
        struct cursor rest = after(&day, d);
        size_t y = !d                    ? match_shape(&day, "dddd")
                   : at(&rest, 0) == ',' ? match_shape(&rest, ", dddd")
                                         : match_shape(&rest, " dddd");
        return d || y ? n + 1 + d + y : 0;
    }
    size_t d = match_day(c);
    if (!d || at(c, d) != ' ')
        return 0;
    struct cursor rest = after(c, d);
    d += starts_with(&rest, " of ") ? 4 : 1;
    struct cursor month = after(c, d);
    n = match_month(&month);
    if (!n)
        return 0;
    rest = after(&month, n);
    return d + n + match_shape(&rest, " dddd");
}

static size_t match_bare_date(const struct cursor *c)
{
    size_t n = 0;
    struct cursor iso = {c->s, c->len < 10 ? c->len : 10}; /* a time may follow after 'T' */
    if ((n = match_shape(&iso, "dddd-dd-dd")) && !is_digit(at(c, n)) && two_digits(c, 5) >= 1 && two_digits(c, 5) <= 12 &&
        two_digits(c, 8) >= 1 && two_digits(c, 8) <= 31)
        return n;
    if ((n = match_shape(c, "dD-dD-dddd")))
        return n;
    return match_written_date(c);
}

/* A day of the week before a date is the first that changes: "Thursday, January 15", "Thu Jan 15". */
static size_t match_date(const struct cursor *c)
{
    static const char *const days[] = {"Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"};
    size_t n = match_name(c, days, sizeof days / sizeof *days);
    if (n) {
        n += at(c, n) == ',';
        if (at(c, n++) != ' ')
            return 0;
    }
    struct cursor date = after(c, n);
    size_t len = match_bare_date(&date);
    return len ? n + len : 0;
}

/* " PM", "am" */
static size_t match_half(const struct cursor *c)
{
    size_t n = at(c, 0) == ' ';
    char half = at(c, n), m = at(c, n + 1);
    return half && strchr("AaPp", half) && (m == 'M' || m == 'm') && !is_word(at(c, n + 2)) ? n + 2 : 0;
}

/* "09:41", "10:00:00.250", "3:45 PM": an hour of one digit needs the half of the day. */
static size_t match_clock(const struct cursor *c)
{
    size_t h = is_digit(at(c, 0)) ? 1u + is_digit(at(c, 1)) : 0;
    struct cursor ms = after(c, h);
    size_t n = 0;
    for (size_t i = 0; h && i < 2 && at(&ms, n) == ':' && is_digit(at(&ms, n + 1)) && is_digit(at(&ms, n + 2)); i++)
        n += 3;
    if (!n || is_digit(at(&ms, n)) || at(&ms, n) == ':' || at(&ms, 1) >= '6' || (h == 2 && two_digits(c, 0) >= 24))
        return 0;
    while (n >= 6 && (is_digit(at(&ms, n)) || (n == 6 && at(&ms, n) == '.' && is_digit(at(&ms, n + 1)))))
        n++;
    struct cursor rest = after(c, h + n);
    size_t half = match_half(&rest);
    return half || h == 2 ? h + n + half : 0;
}

static size_t match_uuid(const struct cursor *c)
{
    return match_shape(c, "hhhhhhhh-hhhh-hhhh-hhhh-hhhhhhhhhhhh");
}

/* Seconds or milliseconds since 1970 within living memory. */
static size_t match_timestamp(const struct cursor *c)
{
    size_t n = match_shape(c, "dddddddddd");
    n = n ? n : match_shape(c, "ddddddddddddd");
    return n && c->s[0] == '1' && c->s[1] >= '4' ? n : 0;
}

/* A long word that no one typed: hexadecimal digits, or letters with digits all over them. */
static size_t match_random(const struct cursor *c, bool *hex)
{
    size_t n = 0, digits = 0, letters = 0, turns = 0;
    *hex = true;
    for (; is_digit(at(c, n)) || is_alpha(at(c, n)); n++) {
        char x = at(c, n);
        *hex = *hex && is_hex(x);
        digits += is_digit(x);
        letters += is_alpha(x);
        turns += n && is_digit(x) != is_digit(c->s[n - 1]);
    }
    if (*hex)
        return n >= 12 && digits && letters && turns >= 2 ? n : 0;
    return n >= 16 && digits >= 3 && turns >= 4 ? n : 0;
}

static bool has_session_name(const char *s, size_t len)
{
    /* a component with a run of six or more letters and digits that changes between the two more than once, or a long number */
    size_t run = 0, turns = 0, digits = 0;
    for (size_t i = 0; i <= len; i++) {
        char x = i < len ? s[i] : '/';
        if (!is_digit(x) && !is_alpha(x)) {
            if (run >= 6 && digits && (turns >= 2 || digits >= 6))
                return true;
            run = turns = digits = 0;
            continue;
        }
        turns += run && is_digit(x) != is_digit(s[i - 1]);
        digits += is_digit(x);
        run++;
    }
    return false;
}

/* An absolute path that belongs to one machine, user or session. */
static size_t match_path(const struct cursor *c)
{
    static const char *const places[] = {"/tmp/",  "/var/tmp/", "/var/folders/", "/run/",     "/proc/",
                                         "/home/", "/Users/",   "/root/",        "/workspace"};
    size_t n = 0, parts = 0;
    if (c->s[0] != '/' && c->s[0] != '~')
        return 0;
    for (; n < c->len && is_path_char(c->s[n]); n++)
        parts += c->s[n] == '/';
    while (n && c->s[n - 1] == '.')
        n--;
    if (parts < 2)
        return 0;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (n > strlen(places[i]) && !strncmp(c->s, places[i], strlen(places[i])))
            return n;
    return has_session_name(c->s, n) ? n : 0;
}

/* inside: the byte before is part of a path, so that no other begins here */
static size_t match(const struct cursor *c, bool inside, const char **kind)
{
    static const struct {
        const char *kind;
        size_t (*match)(const struct cursor *c);
    } rules[] = {
        {"uuid", match_uuid}, {"date", match_date}, {"clock", match_clock}, {"timestamp", match_timestamp}, {"path", match_path}};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        size_t n = inside && rules[i].match == match_path ? 0 : rules[i].match(c);
        *kind = rules[i].kind;
        if (n)
            return n;
    }
    bool hex;
    size_t n = match_random(c, &hex);
    *kind = hex ? "hex" : "id";
    return n;
}

static void take_excerpt(struct akv_finding *f, const char *s)
{
    size_t n = 0, step;
    while (n < f->len && (step = akv_utf8_len(s + n, f->len - n)) && n + step <= AKV_EXCERPT)
        n += step;
    for (size_t i = 0; i < n; i++)
        f->excerpt[i] = (unsigned char)s[i] < 0x20 || s[i] == 0x7f ? ' ' : s[i];
    f->excerpt[n] = '\0';
}

/* The next place after i where something may begin: no digit or letter before it, or the time after a date's 'T'. */
static size_t next_start(const char *text, size_t len, size_t i, bool in_date)
{
    if (in_date && i < len && text[i] == 'T')
        return i + 1;
    if (!in_date && !is_word(text[i]))
        return i + 1;
    while (i < len && is_word(text[i]))
        i++;
    return i;
}

int akv_lint_text(const char *text, size_t len, struct akv_finding **out, size_t *n, struct akv_err *err)
{
    struct akv_finding *v = akv_alloc(AKV_FINDINGS_MAX, sizeof *v, err);
    *out = v;
    *n = 0;
    if (!v)
        return AKV_E_IO;
    for (size_t i = 0; i < len && *n < AKV_FINDINGS_MAX;) {
        struct cursor c = {text + i, len - i};
        const char *kind;
        size_t got = match(&c, i && is_path_char(text[i - 1]), &kind);
        if (!got) {
            i = next_start(text, len, i, false);
            continue;
        }
        struct akv_finding *f = &v[(*n)++];
        *f = (struct akv_finding){.kind = kind, .at = i, .len = got, .span = ""};
        take_excerpt(f, text + i);
        i = next_start(text, len, i + got, true);
    }
    return 0;
}
