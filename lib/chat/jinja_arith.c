/* Arithmetic as Python does it: 64-bit integers (an overflow is an error), floats, and joining and repeating of sequences. */
#include "chat/jinja_value.h"

#include <string.h>

/* ---- reading numbers ---- */

enum akv_jread akv_jread_int(const char *p, size_t n, unsigned base, int64_t *out)
{
    bool minus = n && *p == '-', range = false;
    if (n && (*p == '-' || *p == '+'))
        p++, n--;
    int mark = n > 2 && *p == '0' ? p[1] | 0x20 : 0;
    unsigned marked = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
    if (marked && (base == 0 || base == marked)) {
        base = marked;
        p += 2;
        n -= 2;
        if (*p == '_')
            p++, n--;
    }
    base = base ? base : 10;
    if (!n || p[n - 1] == '_')
        return AKV_JREAD_BAD;
    int64_t v = 0;
    for (size_t i = 0; i < n; i++) {
        int c = p[i], lower = c | 0x20;
        if (c == '_' && i && p[i - 1] != '_')
            continue;
        unsigned d = c >= '0' && c <= '9' ? (unsigned)(c - '0') : lower >= 'a' && lower <= 'z' ? (unsigned)(lower - 'a' + 10) : 99;
        if (d >= base)
            return AKV_JREAD_BAD;
        range = range || __builtin_mul_overflow(v, (int64_t)base, &v) || __builtin_sub_overflow(v, (int64_t)d, &v);
    }
    if (range || (!minus && v == INT64_MIN))
        return AKV_JREAD_RANGE;
    *out = minus ? v : -v; /* counted downwards: the range is larger there */
    return AKV_JREAD_OK;
}

static bool digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool word_is(const char *p, size_t n, const char *lower)
{
    if (n != strlen(lower))
        return false;
    for (size_t i = 0; i < n; i++) {
        if ((p[i] | 0x20) != lower[i])
            return false;
    }
    return true;
}

/* Copy a run of digits (single underscores between them) to q; returns the bytes read. */
static size_t copy_digits(const char *p, size_t n, char **q)
{
    size_t i = 0;
    for (; i < n; i++) {
        if (digit(p[i]))
            *(*q)++ = p[i];
        else if (p[i] != '_' || i == 0 || !digit(p[i - 1]) || i + 1 >= n || !digit(p[i + 1]))
            break;
    }
    return i;
}

bool akv_jread_float(struct akv_jarena *a, const char *p, size_t n, double *out)
{
    double sign = n && *p == '-' ? -1 : 1;
    if (n && (*p == '-' || *p == '+'))
        p++, n--;
    if (word_is(p, n, "inf") || word_is(p, n, "infinity") || word_is(p, n, "nan")) {
        *out = (p[0] | 0x20) == 'n' ? __builtin_nan("") : sign * __builtin_inf();
        return true;
    }
    /* spelled as JSON spells it, so that jansson reads it whatever the locale is */
    char *text = akv_jalloc(a, n + 8), *q = text + 1, *from;
    text[0] = '0';
    size_t i = copy_digits(p, n, &q), whole = i, part = 0;
    for (from = text + (whole ? 1 : 0); from + 1 < q && *from == '0';)
        from++;
    *q++ = '.';
    if (i < n && p[i] == '.') {
        part = copy_digits(p + i + 1, n - i - 1, &q);
        i += 1 + part;
    }
    if (!part)
        *q++ = '0';
    if (!whole && !part)
        return false;
    if (i < n && (p[i] | 0x20) == 'e') {
        *q++ = 'e';
        i++;
        if (i < n && (p[i] == '-' || p[i] == '+'))
            *q++ = p[i++];
        size_t e = copy_digits(p + i, n - i, &q);
        if (!e)
            return false;
        i += e;
    }
    if (i != n)
        return false;
    json_error_t why;
    json_t *j = json_loadb(from, (size_t)(q - from), JSON_DECODE_ANY, &why);
    *out = sign * (j ? json_real_value(j) : __builtin_inf()); /* all else is right, so it can only be too large */
    json_decref(j);
    return true;
}

/* ---- numbers ---- */

static double to_float(struct akv_jval v)
{
    return v.kind == AKV_J_FLOAT ? v.u.f : (double)v.u.i;
}

/* The remainder of a / b with a's sign, exact: b doubled below a, then taken off while halving. a >= 0, b > 0, both finite. */
static double remainder_of(double a, double b)
{
    double t = b;
    while (t <= a / 2)
        t *= 2;
    for (; t >= b; t /= 2) {
        if (a >= t)
            a -= t;
    }
    return a;
}

static double floor_of(double f)
{
    if (!(f > -AKV_JTWO_52 && f < AKV_JTWO_52))
        return f; /* whole already, infinite or not a number */
    double whole = (double)(int64_t)f;
    return whole > f ? whole - 1 : whole;
}

/* Python's divmod of floats; b is not 0. */
static void float_divmod(double a, double b, double *quotient, double *mod)
{
    double x = a < 0 ? -a : a, y = b < 0 ? -b : b, m;
    if (a != a || b != b || x == __builtin_inf())
        m = __builtin_nan("");
    else
        m = y == __builtin_inf() ? x : remainder_of(x, y);
    m = a < 0 ? -m : m;
    double q = (a - m) / b;
    if (m != 0 && (m < 0) != (b < 0)) {
        m += b;
        q -= 1;
    }
    double whole = floor_of(q);
    *quotient = q - whole > 0.5 ? whole + 1 : whole;
    *mod = m;
}

__attribute__((noreturn)) static void overflow(struct akv_jrun *r)
{
    akv_jdie(r, "integer does not fit 64 bits");
}

static struct akv_jval int_power(struct akv_jrun *r, int64_t a, int64_t n)
{
    int64_t v = 1;
    if (n < 0)
        akv_jdie(r, "negative powers are not supported");
    while (n) {
        if ((n & 1) && __builtin_mul_overflow(v, a, &v))
            overflow(r);
        n >>= 1;
        if (n && __builtin_mul_overflow(a, a, &a))
            overflow(r);
    }
    return akv_jint(v);
}

static struct akv_jval int_arith(struct akv_jrun *r, enum akv_jop op, int64_t a, int64_t b)
{
    int64_t v = 0;
    bool over = false;
    if ((op == AKV_JOP_DIV || op == AKV_JOP_FLOORDIV || op == AKV_JOP_MOD) && b == 0)
        akv_jdie(r, "division by zero");
    switch (op) {
    case AKV_JOP_ADD:
        over = __builtin_add_overflow(a, b, &v);
        break;
    case AKV_JOP_SUB:
        over = __builtin_sub_overflow(a, b, &v);
        break;
    case AKV_JOP_MUL:
        over = __builtin_mul_overflow(a, b, &v);
        break;
    case AKV_JOP_DIV:
        return akv_jfloat((double)((long double)a / (long double)b));
    case AKV_JOP_FLOORDIV:
        over = a == INT64_MIN && b == -1;
        v = over ? 0 : a / b - (a % b != 0 && (a % b < 0) != (b < 0));
        break;
    case AKV_JOP_MOD:
        v = b == -1 ? 0 : a % b;
        v += v != 0 && (v < 0) != (b < 0) ? b : 0;
        break;
    default:
        return int_power(r, a, b);
    }
    if (over)
        overflow(r);
    return akv_jint(v);
}

static struct akv_jval float_arith(struct akv_jrun *r, enum akv_jop op, double a, double b)
{
    double q = 0, m = 0;
    if ((op == AKV_JOP_DIV || op == AKV_JOP_FLOORDIV || op == AKV_JOP_MOD) && b == 0)
        akv_jdie(r, "division by zero");
    switch (op) {
    case AKV_JOP_ADD:
        return akv_jfloat(a + b);
    case AKV_JOP_SUB:
        return akv_jfloat(a - b);
    case AKV_JOP_MUL:
        return akv_jfloat(a * b);
    case AKV_JOP_DIV:
        return akv_jfloat(a / b);
    case AKV_JOP_FLOORDIV:
        float_divmod(a, b, &q, &m);
        return akv_jfloat(q);
    case AKV_JOP_MOD:
        float_divmod(a, b, &q, &m);
        return akv_jfloat(m);
    default:
        akv_jdie(r, "powers of floats are not supported");
    }
}

/* ---- sequences ---- */

/* Two byte strings joined; in place where a's storage ends with a. */
static struct akv_jval join_strings(struct akv_jrun *r, const struct akv_jstr *a, const struct akv_jstr *b)
{
    struct akv_jstr *s = akv_jalloc(&r->arena, sizeof *s);
    *s = (struct akv_jstr){.p = a->p, .len = a->len + b->len, .n_chars = a->n_chars + b->n_chars, .room = a->room};
    if (!s->room || s->room->used != (size_t)(a->p + a->len - (char *)(s->room + 1)) || s->room->cap - s->room->used < b->len) {
        size_t cap = a->room || a->len > 256 ? 2 * s->len : s->len;
        struct akv_jroom *room = akv_jalloc(&r->arena, sizeof *room + cap);
        char *p = (char *)(room + 1);
        akv_jtick_bytes(r, a->len);
        if (a->len)
            memcpy(p, a->p, a->len);
        *room = (struct akv_jroom){.cap = cap, .used = a->len};
        s->p = p;
        s->room = room;
    }
    akv_jtick_bytes(r, b->len);
    if (b->len)
        memcpy((char *)(s->room + 1) + s->room->used, b->p, b->len);
    s->room->used += b->len;
    return (struct akv_jval){.kind = AKV_J_STR, .u.s = s};
}

struct akv_jval akv_jconcat(struct akv_jrun *r, struct akv_jval a, struct akv_jval b)
{
    if (a.safe != b.safe) {
        if (a.safe)
            b = akv_jescape(r, b);
        else
            a = akv_jescape(r, a);
    }
    struct akv_jval v = join_strings(r, a.u.s, b.u.s);
    v.safe = a.safe;
    return v;
}

static struct akv_jval join_lists(struct akv_jrun *r, struct akv_jlist *a, struct akv_jlist *b)
{
    akv_jlist_open(r, a);
    akv_jlist_open(r, b);
    struct akv_jval v = akv_jlist_new(r, a->type);
    size_t n = b->n;
    v.u.l->v = a->v;
    v.u.l->n = a->n;
    v.u.l->room = a->room; /* the first push copies unless a ends where its storage does */
    for (size_t i = 0; i < n; i++)
        akv_jlist_push(r, v.u.l, b->v[i]);
    akv_jtick(r, n / 8);
    return v;
}

static struct akv_jval repeat(struct akv_jrun *r, struct akv_jval v, int64_t times)
{
    size_t n = times > 0 ? (size_t)times : 0, len = v.kind == AKV_J_STR ? v.u.s->len : 0;
    if (v.kind == AKV_J_STR) {
        if (len && n > r->arena.max / len)
            akv_jdie(r, "string too large");
        char *p = akv_jalloc(&r->arena, n * len);
        akv_jtick_bytes(r, n * len);
        for (size_t i = 0; len && i < n; i++)
            memcpy(p + i * len, v.u.s->p, len);
        struct akv_jval out = akv_jstr_ref(&r->arena, p, n * len);
        out.safe = v.safe;
        return out;
    }
    akv_jlist_open(r, v.u.l);
    struct akv_jval out = akv_jlist_new(r, v.u.l->type);
    for (size_t i = 0; v.u.l->n && i < n; i++) {
        akv_jtick(r, v.u.l->n);
        for (size_t k = 0; k < v.u.l->n; k++)
            akv_jlist_push(r, out.u.l, v.u.l->v[k]);
    }
    return out;
}

static bool is_sequence(struct akv_jval v)
{
    return v.kind == AKV_J_STR || (v.kind == AKV_J_LIST && v.u.l->type <= AKV_JL_TUPLE);
}

struct akv_jval akv_jarith(struct akv_jrun *r, enum akv_jop op, struct akv_jval a, struct akv_jval b)
{
    static const char *const text[] = {"+", "-", "*", "/", "//", "%", "**"};
    if (akv_jis_int(a) && akv_jis_int(b))
        return int_arith(r, op, a.u.i, b.u.i);
    if (akv_jis_num(a) && akv_jis_num(b))
        return float_arith(r, op, to_float(a), to_float(b));
    if (op == AKV_JOP_MOD && a.kind == AKV_J_STR)
        return akv_jformat(r, a, b);
    if (a.kind == AKV_J_UNDEF)
        akv_jundef_fail(r, a);
    if (b.kind == AKV_J_UNDEF)
        akv_jundef_fail(r, b);
    if (op == AKV_JOP_ADD && a.kind == AKV_J_STR && b.kind == AKV_J_STR)
        return akv_jconcat(r, a, b);
    if (op == AKV_JOP_ADD && a.kind == AKV_J_LIST && b.kind == AKV_J_LIST && a.u.l->type == b.u.l->type && is_sequence(a))
        return join_lists(r, a.u.l, b.u.l);
    if (op == AKV_JOP_MUL && is_sequence(a) && akv_jis_int(b))
        return repeat(r, a, b.u.i);
    if (op == AKV_JOP_MUL && akv_jis_int(a) && is_sequence(b))
        return repeat(r, b, a.u.i);
    akv_jdie(r, "%s %s %s is not possible", akv_jtype(a), text[op], akv_jtype(b));
}

struct akv_jval akv_jneg(struct akv_jrun *r, struct akv_jval v)
{
    if (v.kind == AKV_J_FLOAT)
        return akv_jfloat(-v.u.f);
    if (akv_jis_int(v))
        return int_arith(r, AKV_JOP_SUB, 0, v.u.i);
    if (v.kind == AKV_J_UNDEF)
        akv_jundef_fail(r, v);
    akv_jdie(r, "-%s is not possible", akv_jtype(v));
}
