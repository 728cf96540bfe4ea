/* Templates to tokens: what is text, what is code, and which white space between them goes. */
#include "chat/jinja_node.h"

#include <string.h>

struct lexer {
    struct akv_jarena *arena;
    struct akv_jtoks *out;
    const char *s;
    size_t n, at;
    uint32_t line;
    bool line_start; /* what was matched last ended with a newline, or nothing was yet */
    char open[256];  /* brackets that wait for their partner */
    size_t n_open;
};

static struct akv_jtok *push(struct lexer *x, enum akv_jtok_type type, size_t at, size_t len)
{
    struct akv_jtoks *o = x->out;
    if (o->n == o->cap) {
        size_t cap = o->cap ? 2 * o->cap : 256;
        o->v = akv_jgrow(x->arena, o->v, o->cap * sizeof *o->v, cap * sizeof *o->v);
        o->cap = cap;
    }
    struct akv_jtok *t = &o->v[o->n++];
    *t = (struct akv_jtok){.type = (uint8_t)type, .at = (uint32_t)at, .len = (uint32_t)len, .line = x->line};
    return t;
}

/* Go on to `to`, counting lines. */
static void advance(struct lexer *x, size_t to)
{
    for (; x->at < to; x->at++) {
        if (x->s[x->at] == '\n')
            x->line++;
    }
    x->arena->fault->line = x->line;
}

static bool has(const struct lexer *x, size_t at, const char *what)
{
    size_t n = strlen(what);
    return x->n - at >= n && memcmp(x->s + at, what, n) == 0;
}

static size_t skip_space(const struct lexer *x, size_t at)
{
    while (at < x->n) {
        size_t used;
        if (!akv_jchar_space(akv_jchar(x->s + at, x->n - at, &used)))
            break;
        at += used;
    }
    return at;
}

static bool all_space(const struct lexer *x, size_t from, size_t to)
{
    return skip_space(x, from) >= to;
}

/*
 * Where a tag ends that starts its end mark (`%}`, `#}`, `}}`) at `at`, with trimming applied, or 0 if there is no end mark.
 * `-` eats all white space that follows; a bare block or comment end eats one newline, `+` keeps it.
 */
static size_t tag_end(const struct lexer *x, size_t at, const char *mark)
{
    bool var = mark[0] == '}';
    if (x->s[at] == '-' && has(x, at + 1, mark))
        return skip_space(x, at + 3);
    if (!var && x->s[at] == '+' && has(x, at + 1, mark))
        return at + 3;
    if (!has(x, at, mark))
        return 0;
    at += 2;
    return !var && at < x->n && x->s[at] == '\n' ? at + 1 : at;
}

/* The text before a tag: sign is what follows the tag's opening mark. Ends at the tag. */
static void data(struct lexer *x, size_t tag, char sign, bool var)
{
    size_t from = x->at, to = tag;
    if (sign == '-') {
        while (to > from) {
            size_t prev = akv_jchar_before(x->s, to), used;
            if (!akv_jchar_space(akv_jchar(x->s + prev, to - prev, &used)))
                break;
            to = prev;
        }
    } else if (sign != '+' && !var) {
        size_t bol = to;
        while (bol > from && x->s[bol - 1] != '\n')
            bol--;
        if ((bol > from || x->line_start) && bol < to && all_space(x, bol, to))
            to = bol;
    }
    if (to > from)
        push(x, AKV_JT_DATA, from, to - from);
    advance(x, tag);
}

static void comment(struct lexer *x)
{
    for (size_t at = x->at; at < x->n; at++) {
        if (x->s[at] != '-' && x->s[at] != '+' && x->s[at] != '#')
            continue;
        size_t end = tag_end(x, at, "#}");
        if (end) {
            advance(x, end);
            x->line_start = x->s[end - 1] == '\n';
            return;
        }
    }
    akv_jfail(x->arena->fault, "comment without an end");
}

/* Where the tag `{% word %}` that starts at `at` ends, or 0 if it is another tag. trim: a bare `%}` eats a newline. */
static size_t word_tag(const struct lexer *x, size_t at, const char *word, bool trim)
{
    at += 2;
    if (at < x->n && (x->s[at] == '-' || x->s[at] == '+'))
        at++;
    at = skip_space(x, at);
    if (!has(x, at, word))
        return 0;
    at = skip_space(x, at + strlen(word));
    if (at >= x->n || (!trim && x->s[at] == '+'))
        return 0;
    size_t end = tag_end(x, at, "%}");
    return end && !trim && x->s[at] == '%' ? at + 2 : end;
}

/* After `{% raw %}`: all up to `{% endraw %}` is text. */
static void raw(struct lexer *x)
{
    for (size_t at = x->at; at + 1 < x->n; at++) {
        if (x->s[at] != '{' || x->s[at + 1] != '%')
            continue;
        size_t end = word_tag(x, at, "endraw", true);
        if (end) {
            data(x, at, x->s[at + 2], false);
            advance(x, end);
            x->line_start = x->s[end - 1] == '\n';
            return;
        }
    }
    akv_jfail(x->arena->fault, "raw without endraw");
}

static bool digit(int c)
{
    return c >= '0' && c <= '9';
}

/* Digits with single underscores between them, from at; base 2, 8, 10 or 16. Returns where they end. */
static size_t digits(const struct lexer *x, size_t at, unsigned base)
{
    size_t end = at;
    for (size_t i = at; i < x->n; i++) {
        int c = x->s[i], lower = c | 0x20;
        unsigned v = digit(c) ? (unsigned)(c - '0') : lower >= 'a' && lower <= 'f' ? (unsigned)(lower - 'a' + 10) : 99;
        if (v < base)
            end = i + 1;
        else if (c != '_' || end != i || i == at)
            break;
    }
    return end;
}

static bool number(struct lexer *x)
{
    size_t from = x->at;
    if (!digit(x->s[from]))
        return false;
    enum akv_jtok_type type = AKV_JT_INT;
    size_t end = 0;
    int mark = from + 1 < x->n ? x->s[from + 1] | 0x20 : 0;
    if (x->s[from] == '0' && (mark == 'x' || mark == 'o' || mark == 'b')) {
        end = digits(x, from + 2, mark == 'x' ? 16 : mark == 'o' ? 8 : 2);
        if (end == from + 2)
            end = from + 1;
    } else {
        end = digits(x, from, 10);
        size_t point = end < x->n && x->s[end] == '.' ? digits(x, end + 1, 10) : 0;
        bool after_dot = from > 0 && x->s[from - 1] == '.'; /* a.0.1 is two subscripts */
        size_t mantissa = point > end + 1 ? point : end;
        size_t e = mantissa;
        if (e < x->n && (x->s[e] | 0x20) == 'e') {
            e++;
            if (e < x->n && (x->s[e] == '+' || x->s[e] == '-'))
                e++;
            size_t stop = digits(x, e, 10);
            e = stop > e ? stop : mantissa;
        }
        if (e > end && !after_dot) {
            type = AKV_JT_FLOAT;
            end = e;
        }
    }
    push(x, type, from, end - from);
    advance(x, end);
    return true;
}

static bool name(struct lexer *x)
{
    size_t at = x->at;
    while (at < x->n) {
        size_t used;
        if (!akv_jchar_name(akv_jchar(x->s + at, x->n - at, &used), at == x->at))
            break;
        at += used;
    }
    if (at == x->at)
        return false;
    push(x, AKV_JT_NAME, x->at, at - x->at);
    advance(x, at);
    return true;
}

static bool string(struct lexer *x)
{
    char quote = x->s[x->at];
    if (quote != '\'' && quote != '"')
        return false;
    size_t at = x->at + 1;
    while (at < x->n && x->s[at] != quote)
        at += x->s[at] == '\\' ? 2 : 1;
    if (at >= x->n)
        akv_jfail(x->arena->fault, "string without an end");
    push(x, AKV_JT_STR, x->at, at + 1 - x->at);
    advance(x, at + 1);
    return true;
}

static void balance(struct lexer *x, char c)
{
    if (c == '(' || c == '[' || c == '{') {
        if (x->n_open == sizeof x->open)
            akv_jfail(x->arena->fault, "nested too deeply");
        x->open[x->n_open++] = c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (c == ')' || c == ']' || c == '}') {
        if (!x->n_open || x->open[--x->n_open] != c)
            akv_jfail(x->arena->fault, "unexpected '%c'", c);
    }
}

static void operator_or_fail(struct lexer *x)
{
    static const char *const two[] = {"//", "**", "==", "!=", ">=", "<="};
    size_t n = 0;
    for (size_t i = 0; i < sizeof two / sizeof *two; i++) {
        if (has(x, x->at, two[i]))
            n = 2;
    }
    char c = x->s[x->at];
    if (!n && c && strchr("+-/*%~[](){}><=.:|,;", c))
        n = 1;
    if (!n) {
        size_t used;
        uint32_t cp = akv_jchar(x->s + x->at, x->n - x->at, &used);
        akv_jfail(x->arena->fault, "unexpected character U+%04X", (unsigned)cp);
    }
    balance(x, c);
    struct akv_jtok *t = push(x, AKV_JT_OP, x->at, n);
    memcpy(t->op, x->s + x->at, n);
    advance(x, x->at + n);
}

/* The inside of a tag, up to and including its end mark. */
static void code(struct lexer *x, bool var)
{
    x->n_open = 0;
    for (;;) {
        advance(x, skip_space(x, x->at));
        if (x->at >= x->n)
            return; /* the parser says what is missing */
        size_t end = x->n_open ? 0 : tag_end(x, x->at, var ? "}}" : "%}");
        if (end) {
            push(x, var ? AKV_JT_VAR_END : AKV_JT_BLOCK_END, x->at, 2);
            x->line_start = x->s[end - 1] == '\n';
            advance(x, end);
            return;
        }
        if (!number(x) && !name(x) && !string(x))
            operator_or_fail(x);
    }
}

/* Copy with every line end as one \n and without the newline at the very end. */
static size_t normalise(char *to, const char *s, size_t len)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        if (s[i] == '\r') {
            to[n++] = '\n';
            if (i + 1 < len && s[i + 1] == '\n')
                i++;
        } else {
            to[n++] = s[i];
        }
    }
    return n && to[n - 1] == '\n' ? n - 1 : n;
}

/* The next opening mark at or after x->at, or the end. */
static size_t next_tag(const struct lexer *x)
{
    for (size_t at = x->at; at + 1 < x->n; at++) {
        if (x->s[at] == '{' && (x->s[at + 1] == '%' || x->s[at + 1] == '{' || x->s[at + 1] == '#'))
            return at;
    }
    return x->n;
}

void akv_jlex(struct akv_jtoks *out, struct akv_jarena *a, struct akv_jarena *scratch, const char *text, size_t len)
{
    char *s = akv_jalloc(a, len + 1);
    size_t n = normalise(s, text, len);
    s[n] = '\0'; /* so that looking one byte ahead is always allowed */
    struct lexer x = {.arena = scratch, .out = out, .s = s, .n = n, .line = 1, .line_start = true};
    *out = (struct akv_jtoks){.text = s};
    while (x.at < x.n) {
        size_t tag = next_tag(&x);
        if (tag == x.n) {
            data(&x, tag, '+', false);
            break;
        }
        char kind = s[tag + 1], sign = s[tag + 2];
        size_t raw_end = kind == '%' ? word_tag(&x, tag, "raw", false) : 0;
        data(&x, tag, sign, kind == '{');
        if (raw_end) {
            x.line_start = s[raw_end - 1] == '\n';
            advance(&x, raw_end);
            raw(&x);
            continue;
        }
        if (kind != '#')
            push(&x, kind == '%' ? AKV_JT_BLOCK_BEGIN : AKV_JT_VAR_BEGIN, tag, 2);
        advance(&x, tag + 2 + (sign == '-' || sign == '+' ? 1 : 0));
        if (kind == '#')
            comment(&x);
        else
            code(&x, kind == '{');
    }
    push(&x, AKV_JT_EOF, x.n, 0);
}
