/* v.name, v[key], v[a:b:c]. */
#include "chat/jinja_value.h"

#include <string.h>

static struct akv_jval str_val(const struct akv_jstr *s)
{
    return (struct akv_jval){.kind = AKV_J_STR, .u.s = s};
}

/* An attribute in Python's sense: methods first, then what namespaces, loops and macros have. MISSING: none. */
static struct akv_jval attribute(struct akv_jrun *r, struct akv_jval v, const struct akv_jstr *name)
{
    const struct akv_jfunc *m = akv_jmethod_find(v, name);
    if (m && !m->fn && !m->raw)
        return akv_jundef(AKV_JU_REFUSED, name);
    if (m) {
        struct akv_jbound *b = akv_jalloc(&r->arena, sizeof *b);
        *b = (struct akv_jbound){.self = v, .method = m};
        return (struct akv_jval){.kind = AKV_J_BOUND, .u.b = b};
    }
    if (v.kind == AKV_J_SPACE) {
        struct akv_jval *found = akv_jdict_find(r, v.u.d, str_val(name));
        return found ? *found : AKV_JMISSING;
    }
    if (v.kind == AKV_J_LOOP)
        return akv_jloop_attr(r, v.u.loop, name);
    if (v.kind == AKV_J_MACRO)
        return akv_jmacro_attr(r, v.u.m, name);
    return AKV_JMISSING;
}

/* obj[key] in Python's sense; MISSING where that raises what Jinja turns into an undefined value. */
static struct akv_jval element(struct akv_jrun *r, struct akv_jval v, struct akv_jval key)
{
    if (v.kind == AKV_J_DICT) {
        if (!akv_jhashable(key))
            return AKV_JMISSING;
        struct akv_jval *found = akv_jdict_find(r, v.u.d, key);
        return found ? *found : AKV_JMISSING;
    }
    bool sequence = v.kind == AKV_J_STR || v.kind == AKV_J_RANGE || (v.kind == AKV_J_LIST && v.u.l->type <= AKV_JL_TUPLE);
    if (!sequence || !akv_jis_int(key))
        return AKV_JMISSING;
    int64_t n = akv_jlen(r, v), i = key.u.i < 0 ? key.u.i + n : key.u.i;
    if (i < 0 || i >= n)
        return AKV_JMISSING;
    if (v.kind == AKV_J_LIST)
        return v.u.l->v[i];
    if (v.kind == AKV_J_RANGE)
        return akv_jint(v.u.r->start + i * v.u.r->step);
    size_t at = akv_jchar_offset(r, v.u.s, (size_t)i), used;
    akv_jchar(v.u.s->p + at, v.u.s->len - at, &used);
    struct akv_jval c = akv_jstr_ref(&r->arena, v.u.s->p + at, used);
    c.safe = v.safe;
    return c;
}

struct akv_jval akv_jattr(struct akv_jrun *r, struct akv_jval v, const struct akv_jstr *name)
{
    if (v.kind == AKV_J_UNDEF)
        akv_jundef_fail(r, v);
    struct akv_jval found = attribute(r, v, name);
    if (found.kind == AKV_J_MISSING)
        found = element(r, v, str_val(name));
    return found.kind == AKV_J_MISSING ? akv_jundef(AKV_JU_ATTR, name) : found;
}

struct akv_jval akv_jitem(struct akv_jrun *r, struct akv_jval v, struct akv_jval key)
{
    if (v.kind == AKV_J_UNDEF)
        akv_jundef_fail(r, v);
    struct akv_jval found = element(r, v, key);
    if (found.kind == AKV_J_MISSING && key.kind == AKV_J_STR)
        found = attribute(r, v, key.u.s);
    if (found.kind != AKV_J_MISSING)
        return found;
    return key.kind == AKV_J_STR ? akv_jundef(AKV_JU_ATTR, key.u.s) : akv_jundef(AKV_JU_NAME, NULL);
}

/* ---- slices ---- */

static int64_t bound(struct akv_jrun *r, struct akv_jval v, int64_t n, int64_t lowest, int64_t highest, int64_t missing)
{
    if (v.kind == AKV_J_MISSING || v.kind == AKV_J_NONE)
        return missing;
    if (v.kind == AKV_J_UNDEF)
        akv_jundef_fail(r, v);
    if (!akv_jis_int(v))
        akv_jdie(r, "a slice's bounds must be integers");
    int64_t i = v.u.i < 0 ? v.u.i + n : v.u.i;
    return i < lowest ? lowest : i > highest ? highest : i;
}

static struct akv_jval slice_string(struct akv_jrun *r, struct akv_jval v, int64_t from, int64_t step, int64_t n)
{
    const struct akv_jstr *s = v.u.s;
    struct akv_jval out;
    if (n <= 0) {
        out = akv_jstr_ref(&r->arena, "", 0);
    } else if (step == 1) {
        size_t at = akv_jchar_offset(r, s, (size_t)from), end = akv_jchar_offset(r, s, (size_t)(from + n));
        akv_jtick_bytes(r, end - at);
        out = akv_jstr_ref(&r->arena, s->p + at, end - at);
    } else { /* walk from the first taken character in the step's direction */
        struct akv_jtext t = {0};
        size_t at = akv_jchar_offset(r, s, (size_t)from), used;
        for (int64_t k = 0; k < n; k++) {
            akv_jchar(s->p + at, s->len - at, &used);
            akv_jput(r, &t, s->p + at, used);
            akv_jtick(r, (uint64_t)(step < 0 ? -step : step) / 8 + 1);
            for (int64_t i = 0; k + 1 < n && i < step; i++) {
                akv_jchar(s->p + at, s->len - at, &used);
                at += used;
            }
            for (int64_t i = 0; k + 1 < n && i > step; i--)
                at = akv_jchar_before(s->p, at);
        }
        out = akv_jstr_of(r, &t);
    }
    out.safe = v.safe;
    return out;
}

static struct akv_jval slice_range(struct akv_jrun *r, const struct akv_jrange *g, int64_t from, int64_t to, int64_t step,
                                   int64_t n)
{
    struct akv_jrange *out = akv_jalloc(&r->arena, sizeof *out);
    *out = (struct akv_jrange){.n = n};
    if (__builtin_mul_overflow(from, g->step, &out->start) || __builtin_add_overflow(g->start, out->start, &out->start) ||
        __builtin_mul_overflow(to, g->step, &out->stop) || __builtin_add_overflow(g->start, out->stop, &out->stop) ||
        __builtin_mul_overflow(g->step, step, &out->step))
        akv_jdie(r, "integer does not fit 64 bits");
    return (struct akv_jval){.kind = AKV_J_RANGE, .u.r = out};
}

struct akv_jval akv_jslice(struct akv_jrun *r, struct akv_jval v, struct akv_jval lo, struct akv_jval hi, struct akv_jval by)
{
    int64_t step = by.kind == AKV_J_MISSING || by.kind == AKV_J_NONE ? 1 : akv_jis_int(by) ? by.u.i : 0;
    if (v.kind == AKV_J_UNDEF)
        akv_jundef_fail(r, v);
    if (v.kind != AKV_J_STR && v.kind != AKV_J_RANGE && !(v.kind == AKV_J_LIST && v.u.l->type <= AKV_JL_TUPLE))
        akv_jdie(r, "%s cannot be sliced", akv_jtype(v));
    if (step == 0 || step == INT64_MIN)
        akv_jdie(r, "a slice's step must be an integer other than 0");
    int64_t n = akv_jlen(r, v), from, to, count;
    if (step > 0) {
        from = bound(r, lo, n, 0, n, 0);
        to = bound(r, hi, n, 0, n, n);
        count = to > from ? (to - from - 1) / step + 1 : 0;
    } else {
        from = bound(r, lo, n, -1, n - 1, n - 1);
        to = bound(r, hi, n, -1, n - 1, -1);
        count = from > to ? (from - to - 1) / -step + 1 : 0;
    }
    if (v.kind == AKV_J_STR)
        return slice_string(r, v, from, step, count);
    if (v.kind == AKV_J_RANGE)
        return slice_range(r, v.u.r, from, to, step, count);
    struct akv_jval out = akv_jlist_new(r, v.u.l->type);
    akv_jtick(r, (uint64_t)count);
    for (int64_t k = 0; k < count; k++)
        akv_jlist_push(r, out.u.l, v.u.l->v[from + k * step]);
    return out;
}
