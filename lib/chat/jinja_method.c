/* Methods of strings. */
#include "chat/jinja_str.h"

#include <string.h>
#include <utf8proc.h>

/* ---- arguments ---- */

const struct akv_jstr *akv_jwant_str(struct akv_jrun *r, struct akv_jval v, const char *what)
{
    if (v.kind == AKV_J_UNDEF)
        akv_jundef_fail(r, v);
    if (v.kind != AKV_J_STR)
        akv_jdie(r, "%s: needs a string, not %s", what, akv_jtype(v));
    return v.u.s;
}

int64_t akv_jwant_int(struct akv_jrun *r, struct akv_jval v, const char *what)
{
    if (v.kind == AKV_J_UNDEF)
        akv_jundef_fail(r, v);
    if (!akv_jis_int(v))
        akv_jdie(r, "%s: needs an integer, not %s", what, akv_jtype(v));
    return v.u.i;
}

/* ---- cutting ---- */

struct akv_jval akv_jpart(struct akv_jrun *r, struct akv_jval v, size_t from, size_t to)
{
    akv_jtick_bytes(r, to - from);
    struct akv_jval out = akv_jstr_ref(&r->arena, v.u.s->p + from, to - from);
    out.safe = v.safe;
    return out;
}

static bool in_set(struct akv_jrun *r, uint32_t c, const struct akv_jstr *set)
{
    if (!set)
        return akv_jchar_space(c);
    char bytes[4];
    size_t n = akv_jchar_put(bytes, c);
    akv_jtick(r, set->len / 32);
    return memmem(set->p, set->len, bytes, n) != NULL; /* UTF-8 never matches in the middle of a character */
}

struct akv_jval akv_jstrip(struct akv_jrun *r, struct akv_jval v, struct akv_jval chars, unsigned sides)
{
    const struct akv_jstr *s = v.u.s, *set = akv_jgiven(chars) ? akv_jwant_str(r, chars, "strip") : NULL;
    size_t from = 0, to = s->len, used;
    while ((sides & AKV_JSTRIP_LEFT) && from < to && in_set(r, akv_jchar(s->p + from, to - from, &used), set))
        from += used;
    while ((sides & AKV_JSTRIP_RIGHT) && from < to) {
        size_t at = akv_jchar_before(s->p, to);
        if (!in_set(r, akv_jchar(s->p + at, to - at, &used), set))
            break;
        to = at;
    }
    return akv_jpart(r, v, from, to);
}

static struct akv_jval strip(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    return akv_jstrip(r, self, a[0], AKV_JSTRIP_LEFT | AKV_JSTRIP_RIGHT);
}

static struct akv_jval lstrip(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    return akv_jstrip(r, self, a[0], AKV_JSTRIP_LEFT);
}

static struct akv_jval rstrip(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    return akv_jstrip(r, self, a[0], AKV_JSTRIP_RIGHT);
}

/* ---- searching ---- */

struct window {
    size_t from, to; /* bytes */
    bool empty;      /* start lies behind the end: not even "" is found there */
};

/* Python's start and end arguments. */
static struct window window(struct akv_jrun *r, const struct akv_jstr *s, struct akv_jval start, struct akv_jval end,
                            const char *what)
{
    int64_t n = (int64_t)s->n_chars, a = akv_jgiven(start) ? akv_jwant_int(r, start, what) : 0;
    int64_t b = akv_jgiven(end) ? akv_jwant_int(r, end, what) : n;
    a = a < 0 ? (a + n < 0 ? 0 : a + n) : a;
    b = b < 0 ? (b + n < 0 ? 0 : b + n) : b > n ? n : b;
    struct window w = {.empty = a > b};
    if (!w.empty) {
        w.from = akv_jchar_offset(r, s, (size_t)a);
        w.to = akv_jchar_offset(r, s, (size_t)b);
    }
    return w;
}

static struct akv_jval find_any(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a, bool last, bool must,
                                const char *name)
{
    const struct akv_jstr *s = self.u.s, *what = akv_jwant_str(r, a[0], name);
    struct window w = window(r, s, a[1], a[2], name);
    const char *found = NULL;
    akv_jtick(r, s->len / 8 + (last ? s->len / 64 * (what->len / 64) : 0));
    if (!w.empty)
        found =
            last ? akv_jfind_last(s->p + w.from, w.to - w.from, what) : memmem(s->p + w.from, w.to - w.from, what->p, what->len);
    if (!found && must)
        akv_jdie(r, "%s: not found", name);
    return akv_jint(found ? (int64_t)akv_jpart(r, self, 0, (size_t)(found - s->p)).u.s->n_chars : -1);
}

static struct akv_jval find(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    return find_any(r, self, a, false, false, "find");
}

static struct akv_jval rfind(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    return find_any(r, self, a, true, false, "rfind");
}

static struct akv_jval index_of(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    return find_any(r, self, a, false, true, "index");
}

static struct akv_jval rindex_of(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    return find_any(r, self, a, true, true, "rindex");
}

static struct akv_jval count(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    const struct akv_jstr *s = self.u.s, *what = akv_jwant_str(r, a[0], "count");
    struct window w = window(r, s, a[1], a[2], "count");
    int64_t n = 0;
    akv_jtick(r, s->len / 8);
    if (w.empty)
        return akv_jint(0);
    if (!what->len)
        return akv_jint((int64_t)akv_jpart(r, self, w.from, w.to).u.s->n_chars + 1);
    for (const char *at = s->p + w.from; (at = memmem(at, (size_t)(s->p + w.to - at), what->p, what->len)); at += what->len)
        n++;
    return akv_jint(n);
}

static bool affix(const char *p, size_t n, const struct akv_jstr *what, bool end)
{
    return what->len <= n && memcmp(end ? p + n - what->len : p, what->p, what->len) == 0;
}

/* The argument is a string or a tuple of strings, any of which will do. */
static struct akv_jval has_affix(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a, bool end, const char *name)
{
    struct window w = window(r, self.u.s, a[1], a[2], name);
    bool many = a[0].kind == AKV_J_LIST && a[0].u.l->type == AKV_JL_TUPLE, yes = false;
    size_t n = many ? a[0].u.l->n : 1;
    for (size_t i = 0; i < n; i++) {
        const struct akv_jstr *what = akv_jwant_str(r, many ? a[0].u.l->v[i] : a[0], name);
        akv_jtick(r, 1 + what->len / 32);
        yes = yes || (!w.empty && affix(self.u.s->p + w.from, w.to - w.from, what, end));
    }
    return akv_jbool(yes);
}

static struct akv_jval startswith(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    return has_affix(r, self, a, false, "startswith");
}

static struct akv_jval endswith(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    return has_affix(r, self, a, true, "endswith");
}

static struct akv_jval removeprefix(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    const struct akv_jstr *s = self.u.s, *what = akv_jwant_str(r, a[0], "removeprefix");
    return affix(s->p, s->len, what, false) ? akv_jpart(r, self, what->len, s->len) : self;
}

static struct akv_jval removesuffix(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    const struct akv_jstr *s = self.u.s, *what = akv_jwant_str(r, a[0], "removesuffix");
    return affix(s->p, s->len, what, true) ? akv_jpart(r, self, 0, s->len - what->len) : self;
}

/* ---- making ---- */

/* Put `with` between (and around) the characters: what replacing the empty string means. */
static void interleave(struct akv_jrun *r, struct akv_jtext *t, const struct akv_jstr *s, const struct akv_jstr *with, int64_t max)
{
    size_t at = 0, used;
    for (; max != 0 && at < s->len; at += used, max--) {
        akv_jchar(s->p + at, s->len - at, &used);
        akv_jtick(r, 1);
        akv_jput(r, t, with->p, with->len);
        akv_jput(r, t, s->p + at, used);
    }
    if (max != 0)
        akv_jput(r, t, with->p, with->len);
    akv_jput(r, t, s->p + at, s->len - at);
}

struct akv_jval akv_jreplace(struct akv_jrun *r, struct akv_jval v, struct akv_jval old, struct akv_jval with, int64_t max)
{
    if (v.safe)
        with = akv_jescape(r, with);
    const struct akv_jstr *s = v.u.s, *from = akv_jwant_str(r, old, "replace"), *to = akv_jwant_str(r, with, "replace");
    struct akv_jtext t = {0};
    size_t at = 0;
    akv_jtick(r, s->len / 8);
    if (!from->len) {
        interleave(r, &t, s, to, max);
        at = s->len;
    }
    while (from->len && max-- != 0) {
        const char *found = memmem(s->p + at, s->len - at, from->p, from->len);
        if (!found)
            break;
        akv_jtick(r, 1);
        akv_jput(r, &t, s->p + at, (size_t)(found - s->p) - at);
        akv_jput(r, &t, to->p, to->len);
        at = (size_t)(found - s->p) + from->len;
    }
    if (at == 0 && from->len)
        return v;
    akv_jput(r, &t, s->p + at, s->len - at);
    struct akv_jval out = akv_jstr_of(r, &t);
    out.safe = v.safe;
    return out;
}

static struct akv_jval replace(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    int64_t max = a[2].kind == AKV_J_MISSING ? -1 : akv_jwant_int(r, a[2], "replace");
    return akv_jreplace(r, self, a[0], a[1], max);
}

static struct akv_jval join(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    struct akv_jiter it = akv_jiterate(r, a[0]);
    struct akv_jtext t = {0};
    struct akv_jval x;
    for (bool first = true; akv_jnext(r, &it, &x); first = false) {
        if (!first)
            akv_jput(r, &t, self.u.s->p, self.u.s->len);
        if (self.safe)
            x = akv_jescape(r, x);
        const struct akv_jstr *s = akv_jwant_str(r, x, "join");
        akv_jput(r, &t, s->p, s->len);
    }
    struct akv_jval out = akv_jstr_of(r, &t);
    out.safe = self.safe;
    return out;
}

struct akv_jval akv_jpad(struct akv_jrun *r, struct akv_jval v, int64_t before, int64_t after, const struct akv_jstr *fill)
{
    struct akv_jtext t = {0};
    int64_t room = (int64_t)(r->arena.max / fill->len);
    if (before > room || after > room)
        akv_jdie(r, "string too large");
    akv_jtick(r, (uint64_t)(before > 0 ? before : 0) / 8 + (uint64_t)(after > 0 ? after : 0) / 8);
    for (int64_t i = 0; i < before; i++)
        akv_jput(r, &t, fill->p, fill->len);
    akv_jput(r, &t, v.u.s->p, v.u.s->len);
    for (int64_t i = 0; i < after; i++)
        akv_jput(r, &t, fill->p, fill->len);
    struct akv_jval out = akv_jstr_of(r, &t);
    out.safe = v.safe;
    return out;
}

/* left: how much of the padding goes before the text: all, none or half. */
static struct akv_jval justify(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a, int left, const char *name)
{
    static const struct akv_jstr space = {.p = " ", .len = 1, .n_chars = 1};
    const struct akv_jstr *fill = a[1].kind == AKV_J_MISSING ? &space : akv_jwant_str(r, a[1], name);
    int64_t width = akv_jwant_int(r, a[0], name), n = (int64_t)self.u.s->n_chars, pad = width > n ? width - n : 0;
    if (fill->n_chars != 1)
        akv_jdie(r, "%s: needs one character to fill with", name);
    int64_t before = left == 2 ? pad / 2 + (pad & width & 1) : left ? pad : 0; /* Python's choice when the padding is odd */
    return akv_jpad(r, self, before, pad - before, fill);
}

static struct akv_jval ljust(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    return justify(r, self, a, 0, "ljust");
}

static struct akv_jval rjust(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    return justify(r, self, a, 1, "rjust");
}

static struct akv_jval center(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    return justify(r, self, a, 2, "center");
}

static struct akv_jval zfill(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    static const struct akv_jstr zero = {.p = "0", .len = 1, .n_chars = 1};
    const struct akv_jstr *s = self.u.s;
    int64_t pad = akv_jwant_int(r, a[0], "zfill") - (int64_t)s->n_chars;
    size_t sign = s->len && (s->p[0] == '-' || s->p[0] == '+') ? 1 : 0;
    if (pad <= 0)
        return self;
    struct akv_jval rest = akv_jpad(r, akv_jpart(r, self, sign, s->len), pad, 0, &zero);
    return sign ? akv_jconcat(r, akv_jpart(r, self, 0, 1), rest) : rest;
}

static struct akv_jval upper(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    (void)a;
    return akv_jrecase(r, self, AKV_JC_UPPER);
}

static struct akv_jval lower(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    (void)a;
    return akv_jrecase(r, self, AKV_JC_LOWER);
}

static struct akv_jval title(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    (void)a;
    return akv_jrecase(r, self, AKV_JC_TITLE);
}

static struct akv_jval capitalize(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    (void)a;
    return akv_jrecase(r, self, AKV_JC_CAPITALIZE);
}

static struct akv_jval swapcase(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    (void)a;
    return akv_jrecase(r, self, AKV_JC_SWAP);
}

static struct akv_jval casefold(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    (void)a;
    return akv_jrecase(r, self, AKV_JC_FOLD);
}

/* ---- kinds of characters ---- */

static bool is_alpha(uint32_t c)
{
    utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)c);
    return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}

static bool is_decimal(uint32_t c)
{
    return utf8proc_category((utf8proc_int32_t)c) == UTF8PROC_CATEGORY_ND;
}

static bool is_alnum(uint32_t c)
{
    return is_alpha(c) || is_decimal(c);
}

static struct akv_jval all_are(struct akv_jrun *r, struct akv_jval self, bool (*is)(uint32_t c))
{
    const struct akv_jstr *s = self.u.s;
    bool yes = s->len > 0;
    akv_jtick(r, s->len / 8);
    for (size_t at = 0, used; yes && at < s->len; at += used)
        yes = is(akv_jchar(s->p + at, s->len - at, &used));
    return akv_jbool(yes);
}

static struct akv_jval isalpha_(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    (void)a;
    return all_are(r, self, is_alpha);
}

static struct akv_jval isdigit_(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    (void)a;
    return all_are(r, self, is_decimal);
}

static struct akv_jval isalnum_(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    (void)a;
    return all_are(r, self, is_alnum);
}

static struct akv_jval isspace_(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    (void)a;
    return all_are(r, self, akv_jchar_space);
}

static struct akv_jval isupper_(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    (void)a;
    akv_jtick(r, self.u.s->len / 8);
    return akv_jbool(akv_jcased_as(self.u.s, true));
}

static struct akv_jval islower_(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    (void)a;
    akv_jtick(r, self.u.s->len / 8);
    return akv_jbool(akv_jcased_as(self.u.s, false));
}

static const struct akv_jfunc str_methods[] = {
    {"strip", "chars", 0, strip, NULL},
    {"lstrip", "chars", 0, lstrip, NULL},
    {"rstrip", "chars", 0, rstrip, NULL},
    {"split", "sep,maxsplit", 0, akv_jstr_split, NULL},
    {"rsplit", "sep,maxsplit", 0, akv_jstr_rsplit, NULL},
    {"splitlines", "keepends", 0, akv_jstr_splitlines, NULL},
    {"partition", "sep", 1, akv_jstr_partition, NULL},
    {"rpartition", "sep", 1, akv_jstr_rpartition, NULL},
    {"startswith", "prefix,start,end", 1, startswith, NULL},
    {"endswith", "suffix,start,end", 1, endswith, NULL},
    {"removeprefix", "prefix", 1, removeprefix, NULL},
    {"removesuffix", "suffix", 1, removesuffix, NULL},
    {"find", "sub,start,end", 1, find, NULL},
    {"rfind", "sub,start,end", 1, rfind, NULL},
    {"index", "sub,start,end", 1, index_of, NULL},
    {"rindex", "sub,start,end", 1, rindex_of, NULL},
    {"count", "sub,start,end", 1, count, NULL},
    {"replace", "old,new,count", 2, replace, NULL},
    {"join", "iterable", 1, join, NULL},
    {"ljust", "width,fillchar", 1, ljust, NULL},
    {"rjust", "width,fillchar", 1, rjust, NULL},
    {"center", "width,fillchar", 1, center, NULL},
    {"zfill", "width", 1, zfill, NULL},
    {"upper", "", 0, upper, NULL},
    {"lower", "", 0, lower, NULL},
    {"title", "", 0, title, NULL},
    {"capitalize", "", 0, capitalize, NULL},
    {"swapcase", "", 0, swapcase, NULL},
    {"casefold", "", 0, casefold, NULL},
    {"isalpha", "", 0, isalpha_, NULL},
    {"isdigit", "", 0, isdigit_, NULL},
    {"isdecimal", "", 0, isdigit_, NULL},
    {"isalnum", "", 0, isalnum_, NULL},
    {"isspace", "", 0, isspace_, NULL},
    {"isupper", "", 0, isupper_, NULL},
    {"islower", "", 0, islower_, NULL},
};

const struct akv_jfunc *akv_jstr_method(const struct akv_jstr *name)
{
    for (size_t i = 0; i < sizeof str_methods / sizeof *str_methods; i++) {
        if (akv_jstr_is(name, str_methods[i].name))
            return &str_methods[i];
    }
    return NULL;
}
