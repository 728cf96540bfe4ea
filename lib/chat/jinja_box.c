/* Methods of dicts, lists, tuples and loops; which value has which methods. */
#include "chat/jinja_filter.h"
#include "chat/jinja_str.h"

#include <string.h>

/* ---- dicts ---- */

static struct akv_jval get(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    const struct akv_jval *found = akv_jdict_find(r, self.u.d, a[0]);
    return found ? *found : a[1].kind == AKV_J_MISSING ? AKV_JNONE : a[1];
}

static struct akv_jval pair_value(struct akv_jrun *r, const struct akv_jpair *p)
{
    struct akv_jval t = akv_jlist_new(r, AKV_JL_TUPLE);
    akv_jlist_push(r, t.u.l, p->key);
    akv_jlist_push(r, t.u.l, p->val);
    return t;
}

static struct akv_jval view(struct akv_jrun *r, struct akv_jval self, enum akv_jlist_type type)
{
    struct akv_jval out = akv_jlist_new(r, type);
    struct akv_jdict *d = self.u.d;
    akv_jdict_open(r, d);
    akv_jtick(r, d->n);
    for (size_t i = 0; i < d->n; i++)
        akv_jlist_push(r, out.u.l,
                       type == AKV_JL_KEYS     ? d->v[i].key
                       : type == AKV_JL_VALUES ? d->v[i].val
                                               : pair_value(r, &d->v[i]));
    return out;
}

static struct akv_jval keys(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    (void)a;
    return view(r, self, AKV_JL_KEYS);
}

static struct akv_jval values(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    (void)a;
    return view(r, self, AKV_JL_VALUES);
}

struct akv_jval akv_jitems(struct akv_jrun *r, struct akv_jval self)
{
    return view(r, self, AKV_JL_ITEMS);
}

static struct akv_jval items(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    (void)a;
    return akv_jitems(r, self);
}

static struct akv_jval copy_dict(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    (void)a;
    struct akv_jval out = akv_jdict_new(r, AKV_J_DICT);
    akv_jdict_open(r, self.u.d);
    akv_jtick(r, self.u.d->n);
    for (size_t i = 0; i < self.u.d->n; i++)
        akv_jdict_set(r, out.u.d, self.u.d->v[i].key, self.u.d->v[i].val);
    return out;
}

/* ---- lists and tuples ---- */

static void must_own(struct akv_jrun *r, struct akv_jval self, const char *name)
{
    akv_jlist_open(r, self.u.l);
    if (!self.u.l->own)
        akv_jdie(r, "%s: only lists that the template made can be changed", name);
}

static struct akv_jval append(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    must_own(r, self, "append");
    akv_jlist_push(r, self.u.l, a[0]);
    return AKV_JNONE;
}

/* The storage may be shared with other lists, so it is left as it is: this list moves away from it. */
static struct akv_jval pop(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    must_own(r, self, "pop");
    struct akv_jlist *l = self.u.l;
    int64_t n = (int64_t)l->n, i = a[0].kind == AKV_J_MISSING ? -1 : akv_jwant_int(r, a[0], "pop");
    i = i < 0 ? i + n : i;
    if (i < 0 || i >= n)
        akv_jdie(r, "pop: no such element");
    struct akv_jval out = l->v[i];
    if (i == 0) {
        l->v++;
        l->room = NULL;
    } else if (i < n - 1) {
        akv_jtick(r, l->n / 8);
        struct akv_jval *v = akv_jalloc(&r->arena, l->n * sizeof *v);
        memcpy(v, l->v, (size_t)i * sizeof *v);
        memcpy(v + i, l->v + i + 1, (size_t)(n - i - 1) * sizeof *v);
        l->v = v;
        l->room = NULL;
    }
    l->n--;
    return out;
}

static struct akv_jval index_in(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    akv_jlist_open(r, self.u.l);
    for (size_t i = 0; i < self.u.l->n; i++) {
        if (akv_jequal(r, self.u.l->v[i], a[0]))
            return akv_jint((int64_t)i);
    }
    akv_jdie(r, "index: not found");
}

static struct akv_jval count_in(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    int64_t n = 0;
    akv_jlist_open(r, self.u.l);
    for (size_t i = 0; i < self.u.l->n; i++)
        n += akv_jequal(r, self.u.l->v[i], a[0]);
    return akv_jint(n);
}

static struct akv_jval copy_list(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    (void)a;
    return akv_jto_list(r, self, AKV_JL_LIST);
}

/* ---- loops ---- */

static struct akv_jval cycle(struct akv_jrun *r, struct akv_jval self, const struct akv_jargs *args)
{
    if (!args->n || args->n_kw)
        akv_jdie(r, "cycle: needs values");
    return args->v[(size_t)self.u.loop->index0 % args->n];
}

static struct akv_jval changed(struct akv_jrun *r, struct akv_jval self, const struct akv_jargs *args)
{
    struct akv_jloop *loop = self.u.loop;
    struct akv_jval now = akv_jlist_new(r, AKV_JL_TUPLE);
    for (size_t i = 0; i < args->n; i++)
        akv_jlist_push(r, now.u.l, args->v[i]);
    bool yes = loop->changed.kind == AKV_J_MISSING || !akv_jequal(r, loop->changed, now);
    if (yes)
        loop->changed = now;
    return akv_jbool(yes);
}

/* ---- tables ---- */

static const struct akv_jfunc dict_methods[] = {
    {"get", "key,default", 1, get, NULL}, {"items", "", 0, items, NULL},     {"keys", "", 0, keys, NULL},
    {"values", "", 0, values, NULL},      {"copy", "", 0, copy_dict, NULL},  {"pop", NULL, 0, NULL, NULL},
    {"popitem", NULL, 0, NULL, NULL},     {"update", NULL, 0, NULL, NULL},   {"setdefault", NULL, 0, NULL, NULL},
    {"clear", NULL, 0, NULL, NULL},       {"fromkeys", NULL, 0, NULL, NULL}, {NULL, NULL, 0, NULL, NULL},
};

static const struct akv_jfunc list_methods[] = {
    {"append", "object", 1, append, NULL}, {"pop", "index", 0, pop, NULL},   {"index", "value", 1, index_in, NULL},
    {"count", "value", 1, count_in, NULL}, {"copy", "", 0, copy_list, NULL}, {"extend", NULL, 0, NULL, NULL},
    {"insert", NULL, 0, NULL, NULL},       {"remove", NULL, 0, NULL, NULL},  {"reverse", NULL, 0, NULL, NULL},
    {"sort", NULL, 0, NULL, NULL},         {"clear", NULL, 0, NULL, NULL},   {NULL, NULL, 0, NULL, NULL},
};

static const struct akv_jfunc tuple_methods[] = {
    {"index", "value", 1, index_in, NULL},
    {"count", "value", 1, count_in, NULL},
    {NULL, NULL, 0, NULL, NULL},
};

static const struct akv_jfunc loop_methods[] = {
    {"cycle", NULL, 0, NULL, cycle},
    {"changed", NULL, 0, NULL, changed},
    {NULL, NULL, 0, NULL, NULL},
};

const struct akv_jfunc *akv_jmethod_find(struct akv_jval v, const struct akv_jstr *name)
{
    const struct akv_jfunc *m = NULL;
    if (v.kind == AKV_J_STR)
        return akv_jstr_method(name);
    if (v.kind == AKV_J_DICT)
        m = dict_methods;
    else if (v.kind == AKV_J_LIST && v.u.l->type <= AKV_JL_TUPLE)
        m = v.u.l->type == AKV_JL_LIST ? list_methods : tuple_methods;
    else if (v.kind == AKV_J_LOOP)
        m = loop_methods;
    while (m && m->name && !akv_jstr_is(name, m->name))
        m++;
    return m && m->name ? m : NULL;
}
