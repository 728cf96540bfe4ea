/* Filters on sequences and mappings. */
#include "chat/jinja_filter.h"

#include <string.h>

#include "chat/jinja_str.h"

static bool flag(struct akv_jrun *r, struct akv_jval v)
{
    return v.kind != AKV_J_MISSING && akv_jtruth(r, v);
}

/* ---- attributes by name: "a.b.0" ---- */

static struct akv_jval attribute_part(struct akv_jrun *r, struct akv_jval item, struct akv_jval path, size_t from, size_t to)
{
    const struct akv_jstr *s = akv_jpart(r, path, from, to).u.s;
    int64_t i = 0;
    bool digits = s->len > 0;
    for (size_t k = 0; k < s->len; k++)
        digits = digits && s->p[k] >= '0' && s->p[k] <= '9';
    if (digits && akv_jread_int(s->p, s->len, 10, &i) != AKV_JREAD_OK)
        akv_jdie(r, "integer does not fit 64 bits");
    return akv_jitem(r, item, digits ? akv_jint(i) : (struct akv_jval){.kind = AKV_J_STR, .u.s = s});
}

/* path: a string, an integer, or none for the item itself. fallback (may be MISSING) replaces what is undefined on the way. */
static struct akv_jval attribute_of(struct akv_jrun *r, struct akv_jval item, struct akv_jval path, struct akv_jval fallback)
{
    if (!akv_jgiven(path))
        return item;
    if (path.kind != AKV_J_STR)
        return akv_jitem(r, item, path);
    const struct akv_jstr *s = path.u.s;
    for (size_t at = 0; at <= s->len;) {
        const char *dot = s->len > at ? memchr(s->p + at, '.', s->len - at) : NULL;
        size_t end = dot ? (size_t)(dot - s->p) : s->len;
        item = attribute_part(r, item, path, at, end);
        if (item.kind == AKV_J_UNDEF && akv_jgiven(fallback))
            item = fallback;
        at = end + 1;
    }
    return item;
}

static struct akv_jval fold_case(struct akv_jrun *r, struct akv_jval v, bool case_sensitive)
{
    return v.kind == AKV_J_STR && !case_sensitive ? akv_jrecase(r, v, AKV_JC_LOWER) : v;
}

/* ---- one of many ---- */

static struct akv_jval length(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    (void)a;
    return akv_jint(self.kind == AKV_J_LOOP ? akv_jloop_length(r, self.u.loop) : akv_jlen(r, self));
}

static struct akv_jval first(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    (void)a;
    struct akv_jiter it = akv_jiterate(r, self);
    struct akv_jval v;
    return akv_jnext(r, &it, &v) ? v : akv_jundef(AKV_JU_NAME, NULL);
}

static struct akv_jval last(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    (void)a;
    if (self.kind == AKV_J_UNDEF)
        return akv_jundef(AKV_JU_NAME, NULL);
    if (self.kind == AKV_J_STR)
        return akv_jitem(r, self, akv_jint(-1));
    struct akv_jval l = akv_jto_list(r, self, AKV_JL_LIST);
    if (self.kind == AKV_J_LIST && self.u.l->type == AKV_JL_ITER)
        akv_jdie(r, "last: an iterator has no known end");
    return l.u.l->n ? l.u.l->v[l.u.l->n - 1] : akv_jundef(AKV_JU_NAME, NULL);
}

static struct akv_jval extreme(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a, bool largest)
{
    struct akv_jiter it = akv_jiterate(r, self);
    struct akv_jval best = akv_jundef(AKV_JU_NAME, NULL), best_key = AKV_JMISSING, v;
    while (akv_jnext(r, &it, &v)) {
        struct akv_jval key = fold_case(r, attribute_of(r, v, a[1], AKV_JMISSING), flag(r, a[0]));
        if (best_key.kind == AKV_J_MISSING || (largest ? akv_jless(r, best_key, key) : akv_jless(r, key, best_key))) {
            best = v;
            best_key = key;
        }
    }
    return best;
}

static struct akv_jval min(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    return extreme(r, self, a, false);
}

static struct akv_jval max(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    return extreme(r, self, a, true);
}

static struct akv_jval sum(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    struct akv_jiter it = akv_jiterate(r, self);
    struct akv_jval total = a[1].kind == AKV_J_MISSING ? akv_jint(0) : a[1], v;
    if (total.kind == AKV_J_STR)
        akv_jdie(r, "sum: strings are joined with join");
    while (akv_jnext(r, &it, &v))
        total = akv_jarith(r, AKV_JOP_ADD, total, attribute_of(r, v, a[0], AKV_JMISSING));
    return total;
}

static struct akv_jval join(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    struct akv_jiter it = akv_jiterate(r, self);
    struct akv_jval between = a[0].kind == AKV_J_MISSING ? akv_jstr_ref(&r->arena, "", 0) : akv_jto_str(r, a[0]), v;
    struct akv_jtext t = {0};
    for (bool start = true; akv_jnext(r, &it, &v); start = false) {
        if (!start)
            akv_jput(r, &t, between.u.s->p, between.u.s->len);
        akv_jput_str(r, &t, attribute_of(r, v, a[1], AKV_JMISSING));
    }
    return akv_jstr_of(r, &t);
}

/* ---- many from many ---- */

static struct akv_jval list(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    (void)a;
    return akv_jto_list(r, self, AKV_JL_LIST);
}

static struct akv_jval items(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    (void)a;
    if (self.kind != AKV_J_UNDEF && self.kind != AKV_J_DICT)
        akv_jdie(r, "items: needs a mapping, not %s", akv_jtype(self));
    return self.kind == AKV_J_UNDEF ? akv_jlist_new(r, AKV_JL_ITER) : akv_jto_list(r, akv_jitems(r, self), AKV_JL_ITER);
}

static struct akv_jval reversed(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    const struct akv_jval all = AKV_JNONE;
    (void)a;
    if (self.kind == AKV_J_STR)
        return akv_jslice(r, self, all, all, akv_jint(-1));
    bool once = self.kind == AKV_J_LIST && self.u.l->type == AKV_JL_ITER;
    struct akv_jval v = akv_jto_list(r, self, once ? AKV_JL_LIST : AKV_JL_ITER);
    struct akv_jlist *l = v.u.l;
    for (size_t i = 0, j = l->n; i + 1 < j; i++) {
        struct akv_jval swap = l->v[i];
        l->v[i] = l->v[--j];
        l->v[j] = swap;
    }
    return v;
}

static struct akv_jval dictsort(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    const struct akv_jstr *by = a[1].kind == AKV_J_MISSING ? NULL : akv_jwant_str(r, a[1], "dictsort");
    bool by_value = by && akv_jstr_is(by, "value");
    if (self.kind != AKV_J_DICT)
        akv_jdie(r, "dictsort: needs a mapping, not %s", akv_jtype(self));
    if (by && !by_value && !akv_jstr_is(by, "key"))
        akv_jdie(r, "dictsort: sorts by key or value");
    struct akv_jval pairs = akv_jitems(r, self), out = akv_jlist_new(r, AKV_JL_LIST);
    size_t n = pairs.u.l->n;
    struct akv_jpair *v = akv_jalloc(&r->arena, n * sizeof *v);
    for (size_t i = 0; i < n; i++)
        v[i] = (struct akv_jpair){fold_case(r, pairs.u.l->v[i].u.l->v[by_value], flag(r, a[0])), pairs.u.l->v[i]};
    akv_jsort(r, v, n, flag(r, a[2]));
    for (size_t i = 0; i < n; i++)
        akv_jlist_push(r, out.u.l, v[i].val);
    return out;
}

/* The sort key of an item: one value for each attribute of "a,b". */
static struct akv_jval sort_key(struct akv_jrun *r, struct akv_jval item, struct akv_jval path, bool case_sensitive)
{
    struct akv_jval key = akv_jlist_new(r, AKV_JL_LIST);
    if (path.kind != AKV_J_STR) {
        akv_jlist_push(r, key.u.l, fold_case(r, attribute_of(r, item, path, AKV_JMISSING), case_sensitive));
        return key;
    }
    const struct akv_jstr *s = path.u.s;
    for (size_t at = 0; at <= s->len;) {
        const char *comma = s->len > at ? memchr(s->p + at, ',', s->len - at) : NULL;
        size_t end = comma ? (size_t)(comma - s->p) : s->len;
        akv_jlist_push(r, key.u.l, fold_case(r, attribute_of(r, item, akv_jpart(r, path, at, end), AKV_JMISSING), case_sensitive));
        at = end + 1;
    }
    return key;
}

static struct akv_jval sort(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    struct akv_jval in = akv_jto_list(r, self, AKV_JL_LIST), out = akv_jlist_new(r, AKV_JL_LIST);
    size_t n = in.u.l->n;
    struct akv_jpair *v = akv_jalloc(&r->arena, n * sizeof *v);
    for (size_t i = 0; i < n; i++)
        v[i] = (struct akv_jpair){sort_key(r, in.u.l->v[i], a[2], flag(r, a[1])), in.u.l->v[i]};
    akv_jsort(r, v, n, flag(r, a[0]));
    for (size_t i = 0; i < n; i++)
        akv_jlist_push(r, out.u.l, v[i].val);
    return out;
}

static struct akv_jval unique(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    struct akv_jiter it = akv_jiterate(r, self);
    struct akv_jval out = akv_jlist_new(r, AKV_JL_ITER), seen = akv_jdict_new(r, AKV_J_DICT), v;
    while (akv_jnext(r, &it, &v)) {
        struct akv_jval key = fold_case(r, attribute_of(r, v, a[1], AKV_JMISSING), flag(r, a[0]));
        if (akv_jdict_find(r, seen.u.d, key))
            continue;
        akv_jdict_set(r, seen.u.d, key, AKV_JNONE);
        akv_jlist_push(r, out.u.l, v);
    }
    return out;
}

static struct akv_jval batch(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    struct akv_jiter it = akv_jiterate(r, self);
    struct akv_jval out = akv_jlist_new(r, AKV_JL_ITER), row = AKV_JMISSING, v;
    int64_t n = akv_jwant_int(r, a[0], "batch");
    if (n < 1)
        akv_jdie(r, "batch: needs at least 1");
    while (akv_jnext(r, &it, &v)) {
        if (row.kind == AKV_J_MISSING || (int64_t)row.u.l->n == n) {
            row = akv_jlist_new(r, AKV_JL_LIST);
            akv_jlist_push(r, out.u.l, row);
        }
        akv_jlist_push(r, row.u.l, v);
    }
    while (akv_jgiven(a[1]) && row.kind != AKV_J_MISSING && (int64_t)row.u.l->n < n) {
        akv_jtick(r, 1);
        akv_jlist_push(r, row.u.l, a[1]);
    }
    return out;
}

/* n columns as equal as possible, the first ones longer; fill_with evens out the others. */
static struct akv_jval slice(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    struct akv_jval in = akv_jto_list(r, self, AKV_JL_LIST), out = akv_jlist_new(r, AKV_JL_ITER);
    int64_t n = akv_jwant_int(r, a[0], "slice");
    if (n < 1)
        akv_jdie(r, "slice: needs at least 1");
    size_t per = in.u.l->n / (size_t)n, longer = in.u.l->n % (size_t)n, at = 0;
    for (int64_t i = 0; i < n; i++) {
        struct akv_jval column = akv_jlist_new(r, AKV_JL_LIST);
        size_t here = per + ((size_t)i < longer);
        akv_jtick(r, 1 + here);
        for (size_t k = 0; k < here; k++)
            akv_jlist_push(r, column.u.l, in.u.l->v[at++]);
        if (akv_jgiven(a[1]) && (size_t)i >= longer)
            akv_jlist_push(r, column.u.l, a[1]);
        akv_jlist_push(r, out.u.l, column);
    }
    return out;
}

static struct akv_jval attr(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    struct akv_jval name = akv_jto_str(r, a[0]);
    if (self.kind == AKV_J_DICT && !akv_jmethod_find(self, name.u.s)) /* attributes only, no keys */
        return akv_jundef(AKV_JU_ATTR, name.u.s);
    return akv_jattr(r, self, name.u.s);
}

/* ---- filters and tests applied to each ---- */

static struct akv_jargs rest_of(const struct akv_jargs *args, size_t n)
{
    return (struct akv_jargs){
        .v = args->n > n ? args->v + n : NULL, .n = args->n > n ? args->n - n : 0, .kw = args->kw, .n_kw = args->n_kw};
}

static struct akv_jval keyword(const struct akv_jargs *args, const char *name)
{
    for (size_t i = 0; i < args->n_kw; i++) {
        if (akv_jstr_is(args->kw[i].name, name))
            return args->kw[i].val;
    }
    return AKV_JMISSING;
}

static struct akv_jval map(struct akv_jrun *r, struct akv_jval self, const struct akv_jargs *args)
{
    struct akv_jval out = akv_jlist_new(r, AKV_JL_ITER), path = keyword(args, "attribute"), fallback = keyword(args, "default"), v;
    const struct akv_jfunc *f = NULL;
    struct akv_jargs rest = rest_of(args, 1);
    if (args->n || path.kind == AKV_J_MISSING) {
        if (!args->n)
            akv_jdie(r, "map: needs a filter or an attribute");
        const struct akv_jstr *name = akv_jwant_str(r, args->v[0], "map");
        f = akv_jfilter_find(name);
        if (!f)
            akv_jdie(r, "unknown filter '%.*s'", (int)(name->len < 40 ? name->len : 40), name->p);
    } else if (args->n_kw > 1 + (fallback.kind != AKV_J_MISSING)) {
        akv_jdie(r, "map: unexpected argument");
    }
    if (!akv_jtruth(r, self))
        return out;
    struct akv_jiter it = akv_jiterate(r, self);
    while (akv_jnext(r, &it, &v))
        akv_jlist_push(r, out.u.l, f ? akv_jinvoke(r, f, v, &rest) : attribute_of(r, v, path, fallback));
    return out;
}

static struct akv_jval choose(struct akv_jrun *r, struct akv_jval self, const struct akv_jargs *args, bool by_attribute, bool keep)
{
    struct akv_jval out = akv_jlist_new(r, AKV_JL_ITER), v;
    size_t off = by_attribute;
    const struct akv_jfunc *test = NULL;
    struct akv_jargs rest = rest_of(args, off + 1);
    if (args->n < off)
        akv_jdie(r, "selectattr, rejectattr: need an attribute");
    if (args->n > off) {
        const struct akv_jstr *name = akv_jwant_str(r, args->v[off], "test");
        test = akv_jtest_find(name);
        if (!test)
            akv_jdie(r, "unknown test '%.*s'", (int)(name->len < 40 ? name->len : 40), name->p);
    }
    if (!akv_jtruth(r, self))
        return out;
    struct akv_jiter it = akv_jiterate(r, self);
    while (akv_jnext(r, &it, &v)) {
        struct akv_jval x = by_attribute ? attribute_of(r, v, args->v[0], AKV_JMISSING) : v;
        x = test ? akv_jinvoke(r, test, x, &rest) : x;
        if (akv_jtruth(r, x) == keep)
            akv_jlist_push(r, out.u.l, v);
    }
    return out;
}

static struct akv_jval selected(struct akv_jrun *r, struct akv_jval self, const struct akv_jargs *args)
{
    return choose(r, self, args, false, true);
}

static struct akv_jval rejected(struct akv_jrun *r, struct akv_jval self, const struct akv_jargs *args)
{
    return choose(r, self, args, false, false);
}

static struct akv_jval selectattr(struct akv_jrun *r, struct akv_jval self, const struct akv_jargs *args)
{
    return choose(r, self, args, true, true);
}

static struct akv_jval rejectattr(struct akv_jrun *r, struct akv_jval self, const struct akv_jargs *args)
{
    return choose(r, self, args, true, false);
}

static const struct akv_jfunc filters[] = {
    {"attr", "name", 1, attr, NULL},
    {"batch", "linecount,fill_with", 1, batch, NULL},
    {"count", "", 0, length, NULL},
    {"dictsort", "case_sensitive,by,reverse", 0, dictsort, NULL},
    {"first", "", 0, first, NULL},
    {"items", "", 0, items, NULL},
    {"join", "d,attribute", 0, join, NULL},
    {"last", "", 0, last, NULL},
    {"length", "", 0, length, NULL},
    {"list", "", 0, list, NULL},
    {"map", NULL, 0, NULL, map},
    {"max", "case_sensitive,attribute", 0, max, NULL},
    {"min", "case_sensitive,attribute", 0, min, NULL},
    {"reject", NULL, 0, NULL, rejected},
    {"rejectattr", NULL, 0, NULL, rejectattr},
    {"reverse", "", 0, reversed, NULL},
    {"select", NULL, 0, NULL, selected},
    {"selectattr", NULL, 0, NULL, selectattr},
    {"slice", "slices,fill_with", 1, slice, NULL},
    {"sort", "reverse,case_sensitive,attribute", 0, sort, NULL},
    {"sum", "attribute,start", 0, sum, NULL},
    {"unique", "case_sensitive,attribute", 0, unique, NULL},
};

const struct akv_jfunc *akv_jseq_filter(const struct akv_jstr *name)
{
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++) {
        if (akv_jstr_is(name, filters[i].name))
            return &filters[i];
    }
    return NULL;
}
