/* Expressions: from tree to value. */
#include "chat/jinja_node.h"

#include <string.h>

/* ---- variables ---- */

struct akv_jval akv_jvar_get(struct akv_jrun *r, uint32_t name)
{
    const struct akv_jval *found = NULL;
    uint64_t work = 0;
    for (const struct akv_jscope *s = r->scope; s && !found; s = s->up) {
        work += 1 + s->n;
        for (uint32_t i = 0; i < s->n && !found; i++)
            found = s->v[i].name == name ? &s->v[i].val : NULL;
    }
    akv_jtick(r, work / 16);
    return found ? *found : r->globals[name];
}

void akv_jvar_set(struct akv_jrun *r, struct akv_jscope *s, uint32_t name, struct akv_jval v)
{
    if (!s) {
        r->globals[name] = v;
        return;
    }
    akv_jtick(r, s->n / 16);
    for (uint32_t i = 0; i < s->n; i++) {
        if (s->v[i].name == name) {
            s->v[i].val = v;
            return;
        }
    }
    if (s->n == s->cap) {
        uint32_t cap = s->cap ? 2 * s->cap : 4;
        s->v = akv_jgrow(&r->arena, s->v, s->cap * sizeof *s->v, cap * sizeof *s->v);
        s->cap = cap;
    }
    s->v[s->n++] = (struct akv_jvar){.name = name, .val = v};
}

/* ---- calls ---- */

struct arg_list {
    struct akv_jval list; /* positional ones, as a list value */
    struct akv_jkw *kw;
    size_t n_kw, cap_kw;
};

static void add_keyword(struct akv_jrun *r, struct arg_list *l, const struct akv_jstr *name, struct akv_jval v)
{
    akv_jtick(r, l->n_kw / 16 + 1);
    for (size_t i = 0; i < l->n_kw; i++) {
        if (l->kw[i].name->len == name->len && memcmp(l->kw[i].name->p, name->p, name->len) == 0)
            akv_jdie(r, "argument given twice");
    }
    if (l->n_kw == l->cap_kw) {
        size_t cap = l->cap_kw ? 2 * l->cap_kw : 4;
        l->kw = akv_jgrow(&r->arena, l->kw, l->cap_kw * sizeof *l->kw, cap * sizeof *l->kw);
        l->cap_kw = cap;
    }
    l->kw[l->n_kw++] = (struct akv_jkw){.name = name, .val = v};
}

static void add_unpacked(struct akv_jrun *r, struct arg_list *l, struct akv_jval v, bool keywords)
{
    struct akv_jiter it = akv_jiterate(r, v);
    struct akv_jval x;
    if (keywords && v.kind != AKV_J_DICT)
        akv_jdie(r, "** needs a dict");
    while (akv_jnext(r, &it, &x)) {
        if (!keywords)
            akv_jlist_push(r, l->list.u.l, x);
        else if (x.kind == AKV_J_STR)
            add_keyword(r, l, x.u.s, *akv_jdict_find(r, v.u.d, x));
        else
            akv_jdie(r, "keywords must be strings");
    }
}

/* caller: MISSING, or what a call block adds as a keyword. */
static struct akv_jargs eval_args(struct akv_jrun *r, const struct akv_jnode *arg, struct akv_jval caller)
{
    struct arg_list l = {0};
    if (!arg && caller.kind == AKV_J_MISSING)
        return (struct akv_jargs){0};
    l.list = akv_jlist_new(r, AKV_JL_TUPLE);
    for (; arg; arg = arg->next) {
        struct akv_jval v = akv_jeval(r, arg->a);
        if (arg->op)
            add_unpacked(r, &l, v, arg->op == 2);
        else if (arg->val.kind == AKV_J_STR)
            add_keyword(r, &l, arg->val.u.s, v);
        else
            akv_jlist_push(r, l.list.u.l, v);
    }
    if (caller.kind != AKV_J_MISSING)
        add_keyword(r, &l, r->t->names[r->t->caller].str.u.s, caller);
    return (struct akv_jargs){.v = l.list.u.l->v, .n = l.list.u.l->n, .kw = l.kw, .n_kw = l.n_kw};
}

#define SIG_MAX 8

/* Position of a keyword in a signature, or -1. */
static int sig_find(const char *sig, const struct akv_jstr *name)
{
    for (int i = 0;; i++) {
        size_t n = strcspn(sig, ",");
        if (n == name->len && n && memcmp(sig, name->p, n) == 0)
            return i;
        if (!sig[n])
            return -1;
        sig += n + 1;
    }
}

static unsigned sig_count(const char *sig)
{
    unsigned n = *sig ? 1 : 0;
    for (; *sig; sig++)
        n += *sig == ',';
    return n;
}

struct akv_jval akv_jinvoke(struct akv_jrun *r, const struct akv_jfunc *f, struct akv_jval self, const struct akv_jargs *args)
{
    struct akv_jval a[SIG_MAX];
    akv_jtick(r, 1);
    if (f->raw)
        return f->raw(r, self, args);
    unsigned n = sig_count(f->sig);
    if (args->n > n)
        akv_jdie(r, "%s: too many arguments", f->name);
    for (unsigned i = 0; i < n; i++)
        a[i] = i < args->n ? args->v[i] : AKV_JMISSING;
    for (size_t i = 0; i < args->n_kw; i++) {
        const struct akv_jstr *name = args->kw[i].name;
        int at = sig_find(f->sig, name);
        if (at < 0 || a[at].kind != AKV_J_MISSING)
            akv_jdie(r, "%s: unexpected argument '%.*s'", f->name, (int)(name->len < 40 ? name->len : 40), name->p);
        a[at] = args->kw[i].val;
    }
    for (unsigned i = 0; i < f->n_must; i++) {
        if (a[i].kind == AKV_J_MISSING)
            akv_jdie(r, "%s: argument missing", f->name);
    }
    return f->fn(r, self, a);
}

struct akv_jval akv_jcall(struct akv_jrun *r, struct akv_jval callee, const struct akv_jargs *args)
{
    switch (callee.kind) {
    case AKV_J_BOUND:
        return akv_jinvoke(r, callee.u.b->method, callee.u.b->self, args);
    case AKV_J_FUNC:
        return akv_jinvoke(r, callee.u.fn, AKV_JMISSING, args);
    case AKV_J_MACRO:
        return akv_jcall_macro(r, callee.u.m, args);
    case AKV_J_LOOP:
        if (args->n != 1 || args->n_kw)
            akv_jdie(r, "loop() takes one argument");
        return akv_jcall_loop(r, callee.u.loop, args->v[0]);
    case AKV_J_UNDEF:
        akv_jundef_fail(r, callee);
    default:
        akv_jdie(r, "%s cannot be called", akv_jtype(callee));
    }
}

/* ---- nodes ---- */

static struct akv_jval eval_list(struct akv_jrun *r, const struct akv_jnode *n)
{
    bool tuple = n->type == AKV_JN_TUPLE;
    struct akv_jval v = akv_jlist_new(r, tuple ? AKV_JL_TUPLE : AKV_JL_LIST);
    for (const struct akv_jnode *item = n->a; item; item = item->next)
        akv_jlist_push(r, v.u.l, akv_jeval(r, item->a));
    return v;
}

static struct akv_jval eval_dict(struct akv_jrun *r, const struct akv_jnode *n)
{
    struct akv_jval v = akv_jdict_new(r, AKV_J_DICT);
    for (const struct akv_jnode *item = n->a; item; item = item->next) {
        struct akv_jval key = akv_jeval(r, item->a);
        akv_jdict_set(r, v.u.d, key, akv_jeval(r, item->b));
    }
    return v;
}

/* `~` joins what the values print as; other than `+` it does not escape, nor is the result marked as safe. */
static struct akv_jval eval_concat(struct akv_jrun *r, const struct akv_jnode *n)
{
    struct akv_jval v = akv_jto_str(r, akv_jeval(r, n->a->a));
    v.safe = false;
    for (const struct akv_jnode *x = n->a->next; x; x = x->next) {
        struct akv_jval next = akv_jto_str(r, akv_jeval(r, x->a));
        next.safe = false;
        v = akv_jconcat(r, v, next);
    }
    return v;
}

static struct akv_jval eval_compare(struct akv_jrun *r, const struct akv_jnode *n)
{
    struct akv_jval left = akv_jeval(r, n->a);
    for (const struct akv_jnode *s = n->b; s; s = s->next) {
        struct akv_jval right = akv_jeval(r, s->a);
        r->fault.line = s->line;
        if (!akv_jcompare(r, s->op, left, right))
            return akv_jbool(false);
        left = right;
    }
    return akv_jbool(true);
}

static struct akv_jval eval_logic(struct akv_jrun *r, const struct akv_jnode *n)
{
    struct akv_jval v = AKV_JNONE;
    for (const struct akv_jnode *x = n->a; x; x = x->next) {
        v = akv_jeval(r, x->a);
        if (akv_jtruth(r, v) == (n->type == AKV_JN_OR))
            break;
    }
    return v;
}

static struct akv_jval eval_cond(struct akv_jrun *r, const struct akv_jnode *n)
{
    if (akv_jtruth(r, akv_jeval(r, n->a)))
        return akv_jeval(r, n->b);
    return n->c ? akv_jeval(r, n->c) : akv_jundef(AKV_JU_NAME, NULL);
}

static struct akv_jval eval_or_missing(struct akv_jrun *r, const struct akv_jnode *n)
{
    return n ? akv_jeval(r, n) : AKV_JMISSING;
}

static struct akv_jval apply(struct akv_jrun *r, const struct akv_jnode *s, struct akv_jval v)
{
    struct akv_jargs args;
    struct akv_jval a, b, c;
    switch (s->type) {
    case AKV_JN_ATTR:
        return akv_jattr(r, v, s->val.u.s);
    case AKV_JN_ITEM:
        a = akv_jeval(r, s->a);
        r->fault.line = s->line;
        return akv_jitem(r, v, a);
    case AKV_JN_SLICE:
        a = eval_or_missing(r, s->a);
        b = eval_or_missing(r, s->b);
        c = eval_or_missing(r, s->c);
        r->fault.line = s->line;
        return akv_jslice(r, v, a, b, c);
    case AKV_JN_OPERATE:
        a = akv_jeval(r, s->a);
        r->fault.line = s->line;
        return akv_jarith(r, s->op, v, a);
    case AKV_JN_CALL:
        args = eval_args(r, s->a, AKV_JMISSING);
        r->fault.line = s->line;
        return akv_jcall(r, v, &args);
    default: /* AKV_JN_FILTER, AKV_JN_TEST */
        if (!s->func)
            akv_jdie(r, "unknown %s '%.*s'", s->type == AKV_JN_TEST ? "test" : "filter",
                     (int)(s->val.u.s->len < 40 ? s->val.u.s->len : 40), s->val.u.s->p);
        args = eval_args(r, s->a, AKV_JMISSING);
        r->fault.line = s->line;
        a = akv_jinvoke(r, s->func, v, &args);
        return s->flag ? akv_jbool(!akv_jtruth(r, a)) : a;
    }
}

struct akv_jval akv_japply(struct akv_jrun *r, const struct akv_jnode *steps, struct akv_jval v)
{
    for (; steps; steps = steps->next) {
        akv_jtick(r, 1);
        r->fault.line = steps->line;
        v = apply(r, steps, v);
    }
    return v;
}

struct akv_jval akv_jcall_block(struct akv_jrun *r, const struct akv_jnode *chain, struct akv_jval caller)
{
    struct akv_jval v = akv_jeval(r, chain->a);
    for (const struct akv_jnode *s = chain->b; s != chain->tail; s = s->next)
        v = apply(r, s, v);
    struct akv_jargs args = eval_args(r, chain->tail->a, caller);
    return akv_jcall(r, v, &args);
}

static struct akv_jval eval_name(struct akv_jrun *r, uint32_t name)
{
    struct akv_jval v = akv_jvar_get(r, name);
    return v.kind == AKV_J_MISSING ? akv_jundef(AKV_JU_NAME, r->t->names[name].str.u.s) : v;
}

static struct akv_jval eval_node(struct akv_jrun *r, const struct akv_jnode *n)
{
    switch (n->type) {
    case AKV_JN_CONST:
        return n->val;
    case AKV_JN_NAME:
        return eval_name(r, n->name);
    case AKV_JN_CHAIN:
        return akv_japply(r, n->b, akv_jeval(r, n->a));
    case AKV_JN_LIST:
    case AKV_JN_TUPLE:
        return eval_list(r, n);
    case AKV_JN_DICT:
        return eval_dict(r, n);
    case AKV_JN_CONCAT:
        return eval_concat(r, n);
    case AKV_JN_COMPARE:
        return eval_compare(r, n);
    case AKV_JN_AND:
    case AKV_JN_OR:
        return eval_logic(r, n);
    case AKV_JN_NOT:
        return akv_jbool(!akv_jtruth(r, akv_jeval(r, n->a)));
    case AKV_JN_NEG:
        return akv_jneg(r, akv_jeval(r, n->a));
    case AKV_JN_POS:
        return akv_jarith(r, AKV_JOP_ADD, akv_jint(0), akv_jeval(r, n->a));
    default: /* AKV_JN_COND */
        return eval_cond(r, n);
    }
}

struct akv_jval akv_jeval(struct akv_jrun *r, const struct akv_jnode *n)
{
    akv_jtick(r, 1);
    akv_jenter(r);
    r->fault.line = n->line;
    struct akv_jval v = eval_node(r, n);
    r->frames--;
    return v;
}
