/* Filters on text and numbers, and the table of all filters. */
#include "chat/jinja_filter.h"

#include <string.h>

#include "chat/jinja_json.h"
#include "chat/jinja_str.h"

static bool flag(struct akv_jrun *r, struct akv_jval v)
{
    return v.kind != AKV_J_MISSING && akv_jtruth(r, v);
}

/* ---- text ---- */

struct akv_jval akv_jescape(struct akv_jrun *r, struct akv_jval v)
{
    static const char from[] = "&<>'\"";
    static const char *const to[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    struct akv_jtext t = {0};
    v = akv_jto_str(r, v);
    if (!v.safe) {
        const struct akv_jstr *s = v.u.s;
        akv_jtick(r, s->len / 8);
        for (size_t i = 0; i < s->len; i++) {
            const char *special = s->p[i] ? strchr(from, s->p[i]) : NULL;
            if (special)
                akv_jputs(r, &t, to[special - from]);
            else
                akv_jput(r, &t, s->p + i, 1);
        }
        v = akv_jstr_of(r, &t);
    }
    v.safe = true;
    return v;
}

static struct akv_jval escape(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    (void)a;
    return akv_jescape(r, self);
}

static struct akv_jval safe(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    (void)a;
    struct akv_jval v = akv_jto_str(r, self);
    v.safe = true;
    return v;
}

static struct akv_jval string(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    (void)a;
    return akv_jto_str(r, self);
}

static struct akv_jval upper(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    (void)a;
    return akv_jrecase(r, akv_jto_str(r, self), AKV_JC_UPPER);
}

static struct akv_jval lower(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    (void)a;
    return akv_jrecase(r, akv_jto_str(r, self), AKV_JC_LOWER);
}

static struct akv_jval capitalize(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    (void)a;
    return akv_jrecase(r, akv_jto_str(r, self), AKV_JC_CAPITALIZE);
}

/* Words start after white space, hyphens and opening brackets; other than in str.title(), an apostrophe starts none. */
static struct akv_jval title(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    (void)a;
    struct akv_jval v = akv_jrecase(r, akv_jto_str(r, self), AKV_JC_LOWER);
    const struct akv_jstr *s = v.u.s;
    struct akv_jtext t = {0};
    bool start = true;
    for (size_t at = 0, used; at < s->len; at += used) {
        uint32_t c = akv_jchar(s->p + at, s->len - at, &used);
        if (start)
            akv_jput_upper(r, &t, c);
        else
            akv_jput(r, &t, s->p + at, used);
        start = akv_jchar_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
    }
    struct akv_jval out = akv_jstr_of(r, &t);
    out.safe = v.safe;
    return out;
}

static struct akv_jval trim(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    return akv_jstrip(r, akv_jto_str(r, self), a[0], AKV_JSTRIP_LEFT | AKV_JSTRIP_RIGHT);
}

static struct akv_jval replace(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    struct akv_jval s = akv_jto_str(r, self);
    s.safe = false;
    return akv_jreplace(r, s, akv_jto_str(r, a[0]), akv_jto_str(r, a[1]),
                        akv_jgiven(a[2]) ? akv_jwant_int(r, a[2], "replace") : -1);
}

static struct akv_jval indent(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    struct akv_jval lines, pad = a[0];
    struct akv_jtext t = {0};
    if (pad.kind != AKV_J_STR)
        pad = akv_jarith(r, AKV_JOP_MUL, akv_jstr_ref(&r->arena, " ", 1), pad.kind == AKV_J_MISSING ? akv_jint(4) : pad);
    akv_jwant_str(r, self, "indent");
    lines = akv_jsplit_lines(r, akv_jconcat(r, self, akv_jstr_ref(&r->arena, "\n", 1)), false);
    for (size_t i = 0; i < lines.u.l->n; i++) {
        const struct akv_jstr *line = lines.u.l->v[i].u.s;
        bool wanted = i ? line->len || flag(r, a[2]) : flag(r, a[1]);
        if (i)
            akv_jputs(r, &t, "\n");
        if (wanted)
            akv_jput(r, &t, pad.u.s->p, pad.u.s->len);
        akv_jput(r, &t, line->p, line->len);
    }
    struct akv_jval out = akv_jstr_of(r, &t);
    out.safe = self.safe;
    return out;
}

static struct akv_jval center(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    static const struct akv_jstr space = {.p = " ", .len = 1, .n_chars = 1};
    struct akv_jval s = akv_jto_str(r, self);
    int64_t width = a[0].kind == AKV_J_MISSING ? 80 : akv_jwant_int(r, a[0], "center");
    int64_t pad = width > (int64_t)s.u.s->n_chars ? width - (int64_t)s.u.s->n_chars : 0, before = pad / 2 + (pad & width & 1);
    return akv_jpad(r, s, before, pad - before, &space);
}

static struct akv_jval truncate(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    int64_t length = a[0].kind == AKV_J_MISSING ? 255 : akv_jwant_int(r, a[0], "truncate");
    int64_t leeway = akv_jgiven(a[3]) ? akv_jwant_int(r, a[3], "truncate") : 5;
    struct akv_jval end = a[2].kind == AKV_J_MISSING ? akv_jstr_ref(&r->arena, "...", 3) : a[2];
    int64_t n = akv_jlen(r, self), tail = (int64_t)akv_jwant_str(r, end, "truncate")->n_chars;
    if (length < tail || leeway < 0)
        akv_jdie(r, "truncate: length or leeway too small");
    if (n - leeway <= length)
        return self;
    struct akv_jval cut = akv_jpart(r, self, 0, akv_jchar_offset(r, akv_jwant_str(r, self, "truncate"), (size_t)(length - tail)));
    if (!flag(r, a[1])) { /* whole words only */
        size_t at = cut.u.s->len;
        while (at && cut.u.s->p[at - 1] != ' ')
            at--;
        if (at)
            cut = akv_jpart(r, cut, 0, at - 1);
    }
    return akv_jconcat(r, cut, end);
}

static struct akv_jval wordcount(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    (void)a;
    const struct akv_jstr *s = akv_jto_str(r, self).u.s;
    int64_t n = 0;
    bool in_word = false;
    akv_jtick(r, s->len / 8);
    for (size_t at = 0, used; at < s->len; at += used) {
        bool word = akv_jchar_name(akv_jchar(s->p + at, s->len - at, &used), false);
        n += word && !in_word;
        in_word = word;
    }
    return akv_jint(n);
}

static struct akv_jval urlencode(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    static const char hex[] = "0123456789ABCDEF", keep[] = "_.-~/";
    (void)a;
    if (self.kind == AKV_J_DICT || self.kind == AKV_J_LIST)
        akv_jdie(r, "urlencode: needs a string, not %s", akv_jtype(self));
    const struct akv_jstr *s = akv_jto_str(r, self).u.s;
    struct akv_jtext t = {0};
    akv_jtick(r, s->len / 8);
    for (size_t i = 0; i < s->len; i++) {
        uint8_t c = (uint8_t)s->p[i];
        if ((c < 0x80 && c != '_' && akv_jchar_name(c, false)) || (c && strchr(keep, c))) {
            akv_jput(r, &t, s->p + i, 1);
        } else {
            char code[3] = {'%', hex[c >> 4], hex[c & 15]};
            akv_jput(r, &t, code, 3);
        }
    }
    return akv_jstr_of(r, &t);
}

static struct akv_jval tojson(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    struct akv_jdump how = {.ascii = flag(r, a[0]), .sort = flag(r, a[3])};
    struct akv_jtext t = {0};
    if (akv_jgiven(a[1])) {
        int64_t n = a[1].kind == AKV_J_STR ? 0 : akv_jwant_int(r, a[1], "tojson");
        how.indent =
            a[1].kind == AKV_J_STR ? a[1].u.s : akv_jarith(r, AKV_JOP_MUL, akv_jstr_ref(&r->arena, " ", 1), akv_jint(n)).u.s;
    }
    how.item = akv_jstr_ref(&r->arena, ", ", how.indent ? 1 : 2).u.s;
    how.key = akv_jstr_ref(&r->arena, ": ", 2).u.s;
    if (akv_jgiven(a[2])) {
        struct akv_jval pair = akv_jto_list(r, a[2], AKV_JL_LIST);
        if (pair.u.l->n != 2)
            akv_jdie(r, "tojson: needs two separators");
        how.item = akv_jwant_str(r, pair.u.l->v[0], "tojson");
        how.key = akv_jwant_str(r, pair.u.l->v[1], "tojson");
    }
    akv_jput_json(r, &t, self, &how, 0);
    return akv_jstr_of(r, &t);
}

static struct akv_jval format(struct akv_jrun *r, struct akv_jval self, const struct akv_jargs *args)
{
    struct akv_jval list = akv_jlist_new(r, AKV_JL_TUPLE), dict = akv_jdict_new(r, AKV_J_DICT);
    if (args->n && args->n_kw)
        akv_jdie(r, "format: positional and keyword arguments cannot be mixed");
    for (size_t i = 0; i < args->n; i++)
        akv_jlist_push(r, list.u.l, args->v[i]);
    for (size_t i = 0; i < args->n_kw; i++)
        akv_jdict_set(r, dict.u.d, (struct akv_jval){.kind = AKV_J_STR, .u.s = args->kw[i].name}, args->kw[i].val);
    return akv_jformat(r, akv_jto_str(r, self), args->n_kw ? dict : list);
}

/* ---- numbers ---- */

static struct akv_jval absolute(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    (void)a;
    if (!akv_jis_num(self))
        akv_jdie(r, "abs: needs a number, not %s", akv_jtype(self));
    bool minus = self.kind == AKV_J_FLOAT ? self.u.f < 0 : self.u.i < 0;
    return minus ? akv_jneg(r, self) : akv_jarith(r, AKV_JOP_ADD, akv_jint(0), self);
}

/* Trim white space, as Python's int() and float() do before they read. */
static const struct akv_jstr *trimmed(struct akv_jrun *r, struct akv_jval v)
{
    return akv_jstrip(r, v, AKV_JMISSING, AKV_JSTRIP_LEFT | AKV_JSTRIP_RIGHT).u.s;
}

static bool to_float(struct akv_jrun *r, struct akv_jval v, double *out)
{
    if (v.kind == AKV_J_UNDEF)
        akv_jundef_fail(r, v);
    if (v.kind == AKV_J_STR) {
        const struct akv_jstr *s = trimmed(r, v);
        return akv_jread_float(&r->arena, s->p, s->len, out);
    }
    *out = v.kind == AKV_J_FLOAT ? v.u.f : (double)v.u.i;
    return akv_jis_num(v);
}

static struct akv_jval to_int(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    struct akv_jval fallback = a[0].kind == AKV_J_MISSING ? akv_jint(0) : a[0];
    int64_t base = a[1].kind == AKV_J_MISSING ? 10 : akv_jwant_int(r, a[1], "int"), i;
    double f;
    if (base < 0 || base == 1 || base > 36)
        akv_jdie(r, "int: base must be 0 or 2 to 36");
    if (akv_jis_int(self))
        return akv_jint(self.u.i);
    if (self.kind == AKV_J_STR) {
        const struct akv_jstr *s = trimmed(r, self);
        enum akv_jread got = akv_jread_int(s->p, s->len, (unsigned)base, &i);
        if (got == AKV_JREAD_OK)
            return akv_jint(i);
        if (got == AKV_JREAD_RANGE)
            akv_jdie(r, "integer does not fit 64 bits");
    }
    if (!to_float(r, self, &f) || f != f || (self.kind == AKV_J_STR && f - f != 0))
        return fallback;
    if (!(f > -AKV_JTWO_63 && f < AKV_JTWO_63))
        akv_jdie(r, "integer does not fit 64 bits");
    return akv_jint((int64_t)f);
}

static struct akv_jval to_float_filter(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    double f;
    if (to_float(r, self, &f))
        return akv_jfloat(f);
    return a[0].kind == AKV_J_MISSING ? akv_jfloat(0) : a[0];
}

static struct akv_jval round_to(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    int64_t digits = a[0].kind == AKV_J_MISSING ? 0 : akv_jwant_int(r, a[0], "round");
    const struct akv_jstr *how = a[1].kind == AKV_J_MISSING ? NULL : akv_jwant_str(r, a[1], "round");
    if (!akv_jis_num(self))
        akv_jdie(r, "round: needs a number, not %s", akv_jtype(self));
    if (digits < 0 || digits > 300)
        akv_jdie(r, "round: precision must be 0 to 300");
    if (!how || akv_jstr_is(how, "common"))
        return self.kind == AKV_J_FLOAT ? akv_jfloat(akv_jround(r, self.u.f, (int)digits)) : akv_jint(self.u.i);
    bool up = akv_jstr_is(how, "ceil");
    if (!up && !akv_jstr_is(how, "floor"))
        akv_jdie(r, "round: method must be common, ceil or floor");
    struct akv_jval scale = akv_jarith(r, AKV_JOP_POW, akv_jint(10), akv_jint(digits)), x = akv_jarith(r, AKV_JOP_MUL, self, scale);
    x = up ? akv_jneg(r, x) : x; /* ceil(x) = -floor(-x) */
    x = akv_jarith(r, AKV_JOP_FLOORDIV, x, akv_jint(1));
    x = akv_jarith(r, AKV_JOP_ADD, up ? akv_jneg(r, x) : x, akv_jint(0)); /* a whole number in the reference: it has no -0 */
    return akv_jarith(r, AKV_JOP_DIV, x, scale);
}

static struct akv_jval default_value(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    if (self.kind == AKV_J_UNDEF || (flag(r, a[1]) && !akv_jtruth(r, self)))
        return a[0].kind == AKV_J_MISSING ? akv_jstr_ref(&r->arena, "", 0) : a[0];
    return self;
}

static const struct akv_jfunc filters[] = {
    {"abs", "", 0, absolute, NULL},
    {"capitalize", "", 0, capitalize, NULL},
    {"center", "width", 0, center, NULL},
    {"d", "default_value,boolean", 0, default_value, NULL},
    {"default", "default_value,boolean", 0, default_value, NULL},
    {"e", "", 0, escape, NULL},
    {"escape", "", 0, escape, NULL},
    {"float", "default", 0, to_float_filter, NULL},
    {"format", NULL, 0, NULL, format},
    {"indent", "width,first,blank", 0, indent, NULL},
    {"int", "default,base", 0, to_int, NULL},
    {"lower", "", 0, lower, NULL},
    {"replace", "old,new,count", 2, replace, NULL},
    {"round", "precision,method", 0, round_to, NULL},
    {"safe", "", 0, safe, NULL},
    {"string", "", 0, string, NULL},
    {"title", "", 0, title, NULL},
    {"tojson", "ensure_ascii,indent,separators,sort_keys", 0, tojson, NULL},
    {"trim", "chars", 0, trim, NULL},
    {"truncate", "length,killwords,end,leeway", 0, truncate, NULL},
    {"upper", "", 0, upper, NULL},
    {"urlencode", "", 0, urlencode, NULL},
    {"wordcount", "", 0, wordcount, NULL},
};

const struct akv_jfunc *akv_jfilter_find(const struct akv_jstr *name)
{
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++) {
        if (akv_jstr_is(name, filters[i].name))
            return &filters[i];
    }
    return akv_jseq_filter(name);
}
