/* "text %s" % values, and rounding to decimal digits. */
#include "chat/jinja_filter.h"

#include <stdio.h>
#include <string.h>

#include "chat/jinja_str.h"

#define WIDTH_MAX 4096
#define PRECISION_MAX 100

struct spec {
    bool left, plus, space, zero;
    int width, precision; /* precision -1: not given */
};

/* printf's %f, %e or %g with a point in every locale; out must hold 720 bytes. */
static void print_float(char *out, size_t bytes, double f, int precision, char conversion)
{
    switch (conversion) {
    case 'e':
        snprintf(out, bytes, "%.*e", precision, f);
        break;
    case 'E':
        snprintf(out, bytes, "%.*E", precision, f);
        break;
    case 'g':
        snprintf(out, bytes, "%.*g", precision, f);
        break;
    case 'G':
        snprintf(out, bytes, "%.*G", precision, f);
        break;
    default:
        snprintf(out, bytes, "%.*f", precision, f);
        break;
    }
    char *p = out;
    while (*p == '-' || (*p >= '0' && *p <= '9'))
        p++;
    size_t n = 0; /* bytes of the locale's point */
    while (p[n] && p[n] != 'e' && p[n] != 'E' && !(p[n] >= '0' && p[n] <= '9'))
        n++;
    if (n && f - f == 0) {
        *p = '.';
        memmove(p + 1, p + n, strlen(p + n) + 1);
    }
}

double akv_jround(struct akv_jrun *r, double f, int digits)
{
    char text[720];
    double out = f;
    if (f - f != 0)
        return f;
    print_float(text, sizeof text, f, digits, 'f');
    akv_jread_float(&r->arena, text, strlen(text), &out);
    return out;
}

/* Put text into the field: sign first, then zeros or spaces. */
static void put_field(struct akv_jrun *r, struct akv_jtext *t, const struct spec *s, const char *p, size_t n, int64_t n_chars,
                      bool number)
{
    int64_t pad = s->width - n_chars;
    bool zeros = s->zero && number && !s->left;
    size_t sign = zeros && n && (p[0] == '-' || p[0] == '+' || p[0] == ' ') ? 1 : 0;
    akv_jput(r, t, p, sign);
    for (; !s->left && pad > 0; pad--)
        akv_jputs(r, t, zeros ? "0" : " ");
    akv_jput(r, t, p + sign, n - sign);
    for (; pad > 0; pad--)
        akv_jputs(r, t, " ");
}

static void put_number(struct akv_jrun *r, struct akv_jtext *t, const struct spec *s, const char *digits)
{
    char text[740];
    bool minus = digits[0] == '-';
    snprintf(text, sizeof text, "%s%s", minus ? "" : s->plus ? "+" : s->space ? " " : "", digits);
    put_field(r, t, s, text, strlen(text), (int64_t)strlen(text), true);
}

static void put_integer(struct akv_jrun *r, struct akv_jtext *t, const struct spec *s, struct akv_jval v, char conversion)
{
    char text[PRECISION_MAX + 72], digits[68];
    size_t n = sizeof digits;
    if (v.kind == AKV_J_FLOAT && (conversion == 'd' || conversion == 'i' || conversion == 'u') && v.u.f > -AKV_JTWO_63 &&
        v.u.f < AKV_JTWO_63)
        v = akv_jint((int64_t)v.u.f);
    int64_t i = akv_jwant_int(r, v, "format");
    uint64_t u = i < 0 ? 0 - (uint64_t)i : (uint64_t)i, base = conversion == 'o' ? 8 : (conversion | 0x20) == 'x' ? 16 : 10;
    const char *set = conversion == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
    digits[--n] = '\0';
    do
        digits[--n] = set[u % base];
    while (u /= base);
    size_t at = 0, n_digits = sizeof digits - 1 - n;
    if (i < 0)
        text[at++] = '-';
    for (int zeros = s->precision - (int)n_digits; zeros > 0; zeros--)
        text[at++] = '0';
    memcpy(text + at, digits + n, n_digits + 1);
    put_number(r, t, s, text);
}

static void put_float(struct akv_jrun *r, struct akv_jtext *t, const struct spec *s, struct akv_jval v, char conversion)
{
    char text[720];
    if (v.kind == AKV_J_UNDEF)
        akv_jundef_fail(r, v);
    if (!akv_jis_num(v))
        akv_jdie(r, "format: needs a number, not %s", akv_jtype(v));
    print_float(text, sizeof text, v.kind == AKV_J_FLOAT ? v.u.f : (double)v.u.i, s->precision < 0 ? 6 : s->precision, conversion);
    put_number(r, t, s, text);
}

/* safe: the format is marked as safe, so what goes into it is escaped. */
static void put_text(struct akv_jrun *r, struct akv_jtext *t, const struct spec *s, struct akv_jval v, char conversion, bool safe)
{
    struct akv_jtext own = {0};
    if (conversion == 'r')
        akv_jput_repr(r, &own, v);
    else if (conversion == 'c' && akv_jis_int(v))
        akv_jdie(r, "format: %%c with a number is not supported");
    else
        akv_jput_str(r, &own, v);
    struct akv_jval text = akv_jstr_of(r, &own);
    if (safe)
        text = akv_jescape(r, v.kind == AKV_J_STR ? v : text);
    if (conversion == 'c' && text.u.s->n_chars != 1)
        akv_jdie(r, "format: %%c needs one character");
    if (s->precision >= 0)
        text = akv_jpart(r, text, 0, akv_jchar_offset(r, text.u.s, (size_t)s->precision));
    put_field(r, t, s, text.u.s->p, text.u.s->len, (int64_t)text.u.s->n_chars, false);
}

static size_t read_count(struct akv_jrun *r, const struct akv_jstr *f, size_t at, int *out, int max)
{
    *out = 0;
    while (at < f->len && f->p[at] >= '0' && f->p[at] <= '9') {
        *out = *out * 10 + (f->p[at++] - '0');
        if (*out > max)
            akv_jdie(r, "format: width or precision too large");
    }
    return at;
}

/* Flags, width and precision; returns where the conversion's letter is. */
static size_t read_spec(struct akv_jrun *r, const struct akv_jstr *f, size_t at, struct spec *s)
{
    *s = (struct spec){.precision = -1};
    for (; at < f->len; at++) {
        if (f->p[at] == '-')
            s->left = true;
        else if (f->p[at] == '+')
            s->plus = true;
        else if (f->p[at] == ' ')
            s->space = true;
        else if (f->p[at] == '0')
            s->zero = true;
        else
            break;
    }
    at = read_count(r, f, at, &s->width, WIDTH_MAX);
    if (at < f->len && f->p[at] == '.')
        at = read_count(r, f, at + 1, &s->precision, PRECISION_MAX);
    return at;
}

struct source { /* where values come from */
    struct akv_jval args;
    size_t next;
};

static struct akv_jval take(struct akv_jrun *r, struct source *s)
{
    bool tuple = s->args.kind == AKV_J_LIST && s->args.u.l->type == AKV_JL_TUPLE;
    if (s->next >= (tuple ? s->args.u.l->n : 1))
        akv_jdie(r, "format: not enough values");
    s->next++;
    return tuple ? s->args.u.l->v[s->next - 1] : s->args;
}

/* `%(name)`: at points behind the bracket; returns where the name ends. */
static size_t take_named(struct akv_jrun *r, struct akv_jval fmt, size_t at, struct source *src, struct akv_jval *out)
{
    const struct akv_jstr *f = fmt.u.s;
    const char *close = at < f->len ? memchr(f->p + at, ')', f->len - at) : NULL;
    if (!close || src->args.kind != AKV_J_DICT)
        akv_jdie(r, "format: names need a mapping");
    const struct akv_jval *found = akv_jdict_find(r, src->args.u.d, akv_jpart(r, fmt, at, (size_t)(close - f->p)));
    if (!found)
        akv_jdie(r, "format: name missing in the mapping");
    *out = *found;
    return (size_t)(close - f->p) + 1;
}

struct akv_jval akv_jformat(struct akv_jrun *r, struct akv_jval fmt, struct akv_jval args)
{
    const struct akv_jstr *f = fmt.u.s;
    struct akv_jtext t = {0};
    struct source src = {.args = args};
    struct spec s;
    for (size_t at = 0; at < f->len;) {
        const char *sign = memchr(f->p + at, '%', f->len - at);
        size_t stop = sign ? (size_t)(sign - f->p) : f->len;
        struct akv_jval v = AKV_JMISSING;
        akv_jput(r, &t, f->p + at, stop - at);
        at = stop + 1;
        if (!sign)
            break;
        if (at < f->len && f->p[at] == '(')
            at = take_named(r, fmt, at + 1, &src, &v);
        at = read_spec(r, f, at, &s);
        char c = at < f->len ? f->p[at++] : '\0';
        if (c == '%') {
            akv_jputs(r, &t, "%");
            continue;
        }
        if (!c || !strchr("srcdiuxXofFeEgG", c))
            akv_jdie(r, "format: unknown conversion");
        if (v.kind == AKV_J_MISSING)
            v = take(r, &src);
        if (strchr("src", c))
            put_text(r, &t, &s, v, c, fmt.safe);
        else if (strchr("diuxXo", c))
            put_integer(r, &t, &s, v, c);
        else
            put_float(r, &t, &s, v, c);
    }
    bool tuple = args.kind == AKV_J_LIST && args.u.l->type == AKV_JL_TUPLE;
    bool indexed = args.kind == AKV_J_LIST || args.kind == AKV_J_DICT || args.kind == AKV_J_RANGE || args.kind == AKV_J_UNDEF;
    if (tuple ? src.next < args.u.l->n : !indexed && !src.next) /* what can be indexed may stay unused */
        akv_jdie(r, "format: too many values");
    struct akv_jval out = akv_jstr_of(r, &t);
    out.safe = fmt.safe;
    return out;
}
