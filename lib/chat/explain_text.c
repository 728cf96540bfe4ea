/* Kinds of difference that the text around it shows. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "chat/explain.h"

#define WINDOW 256                /* bytes on either side that are looked at */
#define AHEAD ((size_t)256 << 10) /* how long a piece may be that one side leaves out */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_alnum(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* The finding of one side that holds the difference, in a window that begins at a blank. */
static bool find_value(const struct akv_side *s, size_t at, struct akv_finding *out)
{
    size_t from = at > WINDOW ? at - WINDOW : 0, to = s->len - at > WINDOW ? at + WINDOW : s->len, n = 0;
    struct akv_finding *v = NULL;
    while (from && from < at && !akv_is_blank(s->s[from - 1]))
        from++;
    bool found = false;
    if (akv_lint_text(s->s + from, to - from, &v, &n, NULL) == 0)
        for (size_t i = 0; i < n && !found; i++) {
            found = from + v[i].at <= at && at <= from + v[i].at + v[i].len;
            if (found) {
                *out = v[i];
                out->at += from;
            }
        }
    free(v);
    return found;
}

/* A run of digits and of points between them, on one side. */
static void number_around(const struct akv_side *s, size_t at, size_t *from, size_t *to)
{
    *from = *to = at;
    while (*from && (is_digit(s->s[*from - 1]) || (*from > 1 && strchr(".,", s->s[*from - 1]) && is_digit(s->s[*from - 2]))))
        --*from;
    while (*to < s->len &&
           (is_digit(s->s[*to]) || (*to + 1 < s->len && *to > *from && strchr(".,", s->s[*to]) && is_digit(s->s[*to + 1]))))
        ++*to;
}

static void word_around(const struct akv_side *s, size_t at, size_t *from, size_t *to)
{
    *from = *to = at;
    while (*from && is_alnum(s->s[*from - 1]))
        --*from;
    while (*to < s->len && is_alnum(s->s[*to]))
        ++*to;
}

static bool all_hex(const char *s, size_t len)
{
    return strspn(s, "0123456789abcdefABCDEF") >= len;
}

/* Two words of one length, long and with digits in them: no one typed these. Hexadecimal ones may be as short as those of commits. */
static const char *random_words(const struct akv_sides *s, struct akv_piece *p)
{
    size_t from, a_to, b_to, digits = 0;
    word_around(&s->a, s->at, &from, &a_to);
    word_around(&s->b, s->at, &from, &b_to);
    bool hex = all_hex(s->a.s + from, a_to - from) && all_hex(s->b.s + from, b_to - from);
    if (a_to != b_to || b_to - from < (hex ? 6 : 8))
        return NULL;
    for (size_t i = from; i < b_to; i++)
        digits += is_digit(s->b.s[i]);
    if (digits < 2)
        return NULL;
    *p = (struct akv_piece){from, a_to, b_to};
    return hex ? "hex" : "id";
}

const char *akv_explain_value(const struct akv_sides *s, struct akv_piece *p)
{
    struct akv_finding a, b;
    if (find_value(&s->a, s->at, &a) && find_value(&s->b, s->at, &b) && a.at == b.at) {
        bool random = (!strcmp(a.kind, "hex") || !strcmp(a.kind, "id")) && (!strcmp(b.kind, "hex") || !strcmp(b.kind, "id"));
        *p = (struct akv_piece){a.at, a.at + a.len, b.at + b.len};
        if (!strcmp(a.kind, b.kind))
            return a.kind;
        if (random)
            return "id";
    }
    size_t from, a_to, b_to;
    number_around(&s->a, s->at, &from, &a_to);
    number_around(&s->b, s->at, &from, &b_to);
    bool inside = from && is_alnum(s->a.s[from - 1]); /* digits of a word */
    bool goes_on = (a_to < s->a.len && is_alnum(s->a.s[a_to])) || (b_to < s->b.len && is_alnum(s->b.s[b_to]));
    if (!inside && !goes_on && a_to > from && b_to > from) {
        *p = (struct akv_piece){from, a_to, b_to};
        return "number";
    }
    return random_words(s, p);
}

bool akv_explain_is_blank(const struct akv_sides *s)
{
    size_t i = s->at, j = s->at, same = 0;
    /* a blank that only one side has may have a common one before it */
    while (same < 64) {
        while (i < s->a.len && akv_is_blank(s->a.s[i]))
            i++;
        while (j < s->b.len && akv_is_blank(s->b.s[j]))
            j++;
        if (i == s->a.len || j == s->b.len)
            return same > 0 || (i == s->a.len && j == s->b.len);
        if (s->a.s[i] != s->b.s[j])
            return false;
        i++, j++, same++;
    }
    return true;
}

/* Whether a word that opens or closes thinking stands within a tag in from..to and ends past `at`. */
static bool marks_thinking(const struct akv_side *s, size_t from, size_t to, size_t at)
{
    static const char *const words[] = {"think", "THINK", "thought", "analysis", "reasoning"};
    for (size_t w = 0; w < sizeof words / sizeof *words; w++) {
        size_t len = strlen(words[w]);
        for (const char *p = s->s + from; (p = memmem(p, (size_t)(s->s + to - p), words[w], len)); p++) {
            const char *tag = p;
            while (tag > s->s && p - tag < 12 && (!*tag || !strchr("<[|", *tag)))
                tag--;
            if (p + len > s->s + at && *tag && strchr("<[|", *tag))
                return true;
        }
    }
    return false;
}

static bool marks_near(const struct akv_side *s, size_t at)
{
    return marks_thinking(s, at > 16 ? at - 16 : 0, s->len - at > 64 ? at + 64 : s->len, at);
}

/* Whether `shorter` goes on with what `longer` has only after a piece of thinking. */
static bool leaves_out_thinking(const struct akv_side *longer, const struct akv_side *shorter, size_t at)
{
    size_t key = shorter->len - at < 24 ? shorter->len - at : 24;
    size_t far = longer->len - at < AHEAD ? longer->len - at : AHEAD;
    const char *hit = key < 8 ? NULL : memmem(longer->s + at, far, shorter->s + at, key);
    if (!hit)
        return false;
    size_t to = (size_t)(hit - longer->s) + 16;
    return marks_thinking(longer, at > 16 ? at - 16 : 0, to < longer->len ? to : longer->len, at);
}

static bool is_reply(const char *role)
{
    return !*role || !strcmp(role, "assistant") || !strcmp(role, "generation") || !strcmp(role, "model") ||
           !strcmp(role, "messages");
}

bool akv_explain_is_thinking(const struct akv_sides *s)
{
    if (!is_reply(s->a.role) && !is_reply(s->b.role))
        return false;
    return marks_near(&s->a, s->at) != marks_near(&s->b, s->at) || leaves_out_thinking(&s->a, &s->b, s->at) ||
           leaves_out_thinking(&s->b, &s->a, s->at);
}
