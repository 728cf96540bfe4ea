/* What Python says about values: truth, equality, order, membership, iteration. */
#include "chat/jinja_value.h"

#include <string.h>

#include "base/hash.h"

const char *akv_jtype(struct akv_jval v)
{
    static const char *const lists[] = {"list", "tuple", "dict_keys", "dict_values", "dict_items", "iterator"};
    static const char *const kinds[] = {"missing", "undefined", "none",      "bool",  "int",  "float",  "str",     "list",
                                        "dict",    "range",     "namespace", "macro", "loop", "method", "function"};
    return v.kind == AKV_J_LIST ? lists[v.u.l->type] : kinds[v.kind];
}

void akv_jundef_fail(struct akv_jrun *r, struct akv_jval v)
{
    const struct akv_jstr *s = v.u.s;
    int n = s ? (int)(s->len < 40 ? s->len : 40) : 0;
    if (!s)
        akv_jdie(r, "undefined value");
    if (v.why == AKV_JU_ATTR)
        akv_jdie(r, "no attribute '%.*s'", n, s->p);
    if (v.why == AKV_JU_REFUSED)
        akv_jdie(r, "'%.*s' is not allowed here", n, s->p);
    if (v.why == AKV_JU_OTHER)
        akv_jdie(r, "%.*s", n, s->p);
    akv_jdie(r, "'%.*s' is undefined", n, s->p);
}

int64_t akv_jlen(struct akv_jrun *r, struct akv_jval v)
{
    switch (v.kind) {
    case AKV_J_UNDEF:
        return 0;
    case AKV_J_STR:
        return (int64_t)v.u.s->n_chars;
    case AKV_J_LIST:
        if (v.u.l->type == AKV_JL_ITER)
            break;
        akv_jlist_open(r, v.u.l);
        return (int64_t)v.u.l->n;
    case AKV_J_DICT:
        akv_jdict_open(r, v.u.d);
        return (int64_t)v.u.d->n;
    case AKV_J_RANGE:
        return v.u.r->n;
    default:
        break;
    }
    akv_jdie(r, "%s has no length", akv_jtype(v));
}

bool akv_jtruth(struct akv_jrun *r, struct akv_jval v)
{
    switch (v.kind) {
    case AKV_J_MISSING:
    case AKV_J_UNDEF:
    case AKV_J_NONE:
        return false;
    case AKV_J_BOOL:
    case AKV_J_INT:
        return v.u.i != 0;
    case AKV_J_FLOAT:
        return v.u.f != 0;
    case AKV_J_STR:
        return v.u.s->len != 0;
    case AKV_J_LIST:
        return v.u.l->type == AKV_JL_ITER || akv_jlen(r, v) != 0;
    case AKV_J_DICT:
    case AKV_J_RANGE:
        return akv_jlen(r, v) != 0;
    default:
        return true;
    }
}

bool akv_jsame(struct akv_jval a, struct akv_jval b)
{
    if (a.kind != b.kind)
        return false;
    if (a.kind == AKV_J_UNDEF || a.kind == AKV_J_NONE)
        return true;
    if (a.kind == AKV_J_STR)
        return a.u.s == b.u.s || (a.u.s->len == b.u.s->len && memcmp(a.u.s->p, b.u.s->p, a.u.s->len) == 0);
    if (a.kind == AKV_J_FLOAT)
        return a.u.f == b.u.f;
    return a.kind == AKV_J_INT || a.kind == AKV_J_BOOL ? a.u.i == b.u.i : (const void *)a.u.l == (const void *)b.u.l;
}

/* -1, 0, 1, or 2 when one is not a number. Exact also where a float cannot hold the integer. */
static int order_numbers(struct akv_jval a, struct akv_jval b)
{
    if (akv_jis_int(a) && akv_jis_int(b))
        return (a.u.i > b.u.i) - (a.u.i < b.u.i);
    if (a.kind == AKV_J_FLOAT && b.kind == AKV_J_FLOAT)
        return a.u.f != a.u.f || b.u.f != b.u.f ? 2 : (a.u.f > b.u.f) - (a.u.f < b.u.f);
    if (b.kind != AKV_J_FLOAT) {
        int o = order_numbers(b, a);
        return o == 2 ? 2 : -o;
    }
    double f = b.u.f;
    if (f != f)
        return 2;
    if (f >= AKV_JTWO_63)
        return -1;
    if (f < -AKV_JTWO_63)
        return 1;
    int64_t whole = (int64_t)f; /* towards zero */
    if (a.u.i != whole)
        return a.u.i < whole ? -1 : 1;
    double rest = f - (double)whole;
    return (rest < 0) - (rest > 0);
}

static bool equal_lists(struct akv_jrun *r, struct akv_jlist *a, struct akv_jlist *b)
{
    akv_jlist_open(r, a);
    akv_jlist_open(r, b);
    if (a->type != b->type || a->type == AKV_JL_ITER || a->type == AKV_JL_VALUES || a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n && i < b->n; i++) {
        if (!akv_jequal(r, a->v[i], b->v[i]))
            return false;
    }
    return true;
}

static bool equal_dicts(struct akv_jrun *r, struct akv_jdict *a, struct akv_jdict *b)
{
    akv_jdict_open(r, a);
    akv_jdict_open(r, b);
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++) {
        const struct akv_jval *other = akv_jdict_find(r, b, a->v[i].key);
        if (!other || !akv_jequal(r, a->v[i].val, *other))
            return false;
    }
    return true;
}

static bool equal_ranges(const struct akv_jrange *a, const struct akv_jrange *b)
{
    return a->n == b->n && (a->n == 0 || a->start == b->start) && (a->n <= 1 || a->step == b->step);
}

bool akv_jequal(struct akv_jrun *r, struct akv_jval a, struct akv_jval b)
{
    bool yes = false;
    akv_jtick(r, 1);
    if (akv_jis_num(a) && akv_jis_num(b))
        return order_numbers(a, b) == 0;
    if (a.kind != b.kind)
        return false;
    if (a.kind == AKV_J_STR)
        akv_jtick_bytes(r, a.u.s->len == b.u.s->len ? a.u.s->len : 0);
    if (akv_jsame(a, b))
        return true;
    akv_jenter(r);
    if (a.kind == AKV_J_LIST) {
        yes = equal_lists(r, a.u.l, b.u.l);
    } else if (a.kind == AKV_J_DICT) {
        yes = equal_dicts(r, a.u.d, b.u.d);
    } else if (a.kind == AKV_J_RANGE) {
        yes = equal_ranges(a.u.r, b.u.r);
    }
    r->frames--;
    return yes;
}

/* -1, 0, 1, 2 like order_numbers(); fails for what has no order. */
static int order(struct akv_jrun *r, struct akv_jval a, struct akv_jval b)
{
    akv_jtick(r, 1);
    if (akv_jis_num(a) && akv_jis_num(b))
        return order_numbers(a, b);
    if (a.kind == AKV_J_UNDEF)
        akv_jundef_fail(r, a);
    if (b.kind == AKV_J_UNDEF)
        akv_jundef_fail(r, b);
    if (a.kind == AKV_J_STR && b.kind == AKV_J_STR) {
        size_t n = a.u.s->len < b.u.s->len ? a.u.s->len : b.u.s->len;
        akv_jtick_bytes(r, n);
        int o = memcmp(a.u.s->p, b.u.s->p, n); /* UTF-8 sorts as code points do */
        return o ? (o > 0) - (o < 0) : (a.u.s->len > b.u.s->len) - (a.u.s->len < b.u.s->len);
    }
    if (a.kind != AKV_J_LIST || b.kind != AKV_J_LIST || a.u.l->type != b.u.l->type || a.u.l->type > AKV_JL_TUPLE)
        akv_jdie(r, "%s and %s have no order", akv_jtype(a), akv_jtype(b));
    akv_jenter(r);
    struct akv_jlist *x = a.u.l, *y = b.u.l;
    akv_jlist_open(r, x);
    akv_jlist_open(r, y);
    size_t n = x->n < y->n ? x->n : y->n, i = 0;
    while (i < n && akv_jequal(r, x->v[i], y->v[i]))
        i++;
    int o = i < n ? order(r, x->v[i], y->v[i]) : (x->n > y->n) - (x->n < y->n);
    r->frames--;
    return o;
}

bool akv_jless(struct akv_jrun *r, struct akv_jval a, struct akv_jval b)
{
    return order(r, a, b) == -1;
}

bool akv_jcompare(struct akv_jrun *r, enum akv_jop op, struct akv_jval a, struct akv_jval b)
{
    int o;
    switch (op) {
    case AKV_JOP_EQ:
        return akv_jequal(r, a, b);
    case AKV_JOP_NE:
        return !akv_jequal(r, a, b);
    case AKV_JOP_IN:
        return akv_jcontains(r, b, a);
    case AKV_JOP_NOTIN:
        return !akv_jcontains(r, b, a);
    default:
        o = order(r, a, b);
        return op == AKV_JOP_LT ? o == -1 : op == AKV_JOP_LE ? o == -1 || o == 0 : op == AKV_JOP_GT ? o == 1 : o == 0 || o == 1;
    }
}

bool akv_jcontains(struct akv_jrun *r, struct akv_jval box, struct akv_jval v)
{
    if (box.kind == AKV_J_DICT)
        return akv_jdict_find(r, box.u.d, v) != NULL;
    if (box.kind == AKV_J_STR) {
        if (v.kind != AKV_J_STR)
            akv_jdie(r, "a string cannot contain %s", akv_jtype(v));
        akv_jtick_bytes(r, box.u.s->len);
        return memmem(box.u.s->p, box.u.s->len, v.u.s->p, v.u.s->len) != NULL;
    }
    struct akv_jiter it = akv_jiterate(r, box);
    struct akv_jval x;
    while (akv_jnext(r, &it, &x)) {
        if (akv_jequal(r, x, v))
            return true;
    }
    return false;
}

bool akv_jhashable(struct akv_jval v)
{
    if (v.kind == AKV_J_DICT)
        return false;
    if (v.kind != AKV_J_LIST)
        return true;
    if (v.u.l->type == AKV_JL_ITER || v.u.l->type == AKV_JL_VALUES)
        return true;
    bool yes = v.u.l->type == AKV_JL_TUPLE;
    for (size_t i = 0; yes && i < v.u.l->n; i++)
        yes = v.u.l->v[i].kind != AKV_J_DICT && (v.u.l->v[i].kind != AKV_J_LIST || akv_jhashable(v.u.l->v[i]));
    return yes;
}

uint64_t akv_jhash(struct akv_jrun *r, struct akv_jval v)
{
    uint64_t h;
    switch (v.kind) {
    case AKV_J_FLOAT: /* as the integer if it is one: they are equal */
        if (!(v.u.f >= -AKV_JTWO_63 && v.u.f < AKV_JTWO_63 && v.u.f == (double)(int64_t)v.u.f))
            return akv_xxh64(&v.u.f, sizeof v.u.f);
        v = akv_jint((int64_t)v.u.f);
        return akv_xxh64(&v.u.i, sizeof v.u.i);
    case AKV_J_BOOL:
    case AKV_J_INT:
        return akv_xxh64(&v.u.i, sizeof v.u.i);
    case AKV_J_STR:
        akv_jtick_bytes(r, v.u.s->len);
        return akv_xxh64(v.u.s->p, v.u.s->len);
    case AKV_J_UNDEF:
    case AKV_J_NONE:
        return v.kind;
    case AKV_J_LIST:
        if (v.u.l->type == AKV_JL_ITER || v.u.l->type == AKV_JL_VALUES)
            return akv_xxh64(&v.u.l, sizeof v.u.l);
        if (v.u.l->type != AKV_JL_TUPLE)
            break;
        akv_jenter(r);
        h = v.u.l->n;
        for (size_t i = 0; i < v.u.l->n; i++)
            h = h * 0x9e3779b97f4a7c15u ^ akv_jhash(r, v.u.l->v[i]);
        akv_jtick(r, v.u.l->n);
        r->frames--;
        return h;
    case AKV_J_DICT:
        break;
    default:
        return akv_xxh64(&v.u, sizeof v.u);
    }
    akv_jdie(r, "%s cannot be a key", akv_jtype(v));
}

/* ---- iteration ---- */

struct akv_jiter akv_jiterate(struct akv_jrun *r, struct akv_jval v)
{
    if (v.kind == AKV_J_LIST)
        akv_jlist_open(r, v.u.l);
    else if (v.kind == AKV_J_DICT)
        akv_jdict_open(r, v.u.d);
    else if (v.kind != AKV_J_STR && v.kind != AKV_J_RANGE && v.kind != AKV_J_UNDEF)
        akv_jdie(r, "%s is not iterable", akv_jtype(v));
    return (struct akv_jiter){.src = v};
}

static bool next_char(struct akv_jrun *r, struct akv_jiter *it, struct akv_jval *out)
{
    const struct akv_jstr *s = it->src.u.s;
    if (it->at >= s->len)
        return false;
    size_t used;
    akv_jchar(s->p + it->at, s->len - it->at, &used);
    *out = akv_jstr_ref(&r->arena, s->p + it->at, used);
    it->at += used;
    return true;
}

bool akv_jnext(struct akv_jrun *r, struct akv_jiter *it, struct akv_jval *out)
{
    struct akv_jlist *l = it->src.u.l;
    akv_jtick(r, 1);
    switch (it->src.kind) {
    case AKV_J_STR:
        return next_char(r, it, out);
    case AKV_J_LIST: /* an iterator is used up for everybody */
        if (l->type == AKV_JL_ITER) {
            if (l->at < l->n)
                *out = l->v[l->at++];
            else
                return false;
        } else if (it->at < l->n) {
            *out = l->v[it->at++];
        } else {
            return false;
        }
        return true;
    case AKV_J_DICT:
        if (it->at >= it->src.u.d->n)
            return false;
        *out = it->src.u.d->v[it->at++].key;
        return true;
    case AKV_J_RANGE:
        if ((int64_t)it->at >= it->src.u.r->n)
            return false;
        *out = akv_jint(it->src.u.r->start + (int64_t)it->at++ * it->src.u.r->step);
        return true;
    default:
        return false;
    }
}

struct akv_jval akv_jto_list(struct akv_jrun *r, struct akv_jval v, enum akv_jlist_type type)
{
    struct akv_jval out = akv_jlist_new(r, type), x;
    struct akv_jiter it = akv_jiterate(r, v);
    while (akv_jnext(r, &it, &x))
        akv_jlist_push(r, out.u.l, x);
    return out;
}

/* ---- sorting ---- */

static void merge(struct akv_jrun *r, const struct akv_jpair *from, struct akv_jpair *to, size_t n, size_t half, bool reverse)
{
    size_t i = 0, j = half;
    for (size_t k = 0; k < n; k++) {
        bool right =
            i >= half || (j < n && (reverse ? akv_jless(r, from[i].key, from[j].key) : akv_jless(r, from[j].key, from[i].key)));
        to[k] = right ? from[j++] : from[i++];
    }
}

void akv_jsort(struct akv_jrun *r, struct akv_jpair *v, size_t n, bool reverse)
{
    struct akv_jpair *from = v, *to = akv_jalloc(&r->arena, n * sizeof *v);
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t at = 0; at < n; at += 2 * width) {
            size_t here = n - at < 2 * width ? n - at : 2 * width;
            merge(r, from + at, to + at, here, here < width ? here : width, reverse);
        }
        struct akv_jpair *swap = from;
        from = to;
        to = swap;
    }
    if (from != v && n)
        memcpy(v, from, n * sizeof *v);
}
