/* Statements: from tree to text. */
#include "chat/jinja_node.h"

#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 1000 /* so that the C stack is enough */

enum flow { FLOW_ON, FLOW_BREAK, FLOW_CONTINUE };

static enum flow run_block(struct akv_jrun *r, const struct akv_jnode *n);

static void emit(struct akv_jrun *r, const char *p, size_t n)
{
    if (r->sink) {
        akv_jput(r, r->sink, p, n);
        return;
    }
    if (n > r->out_max - (r->out->len - r->out_start))
        akv_jdie(r, "output larger than %zu bytes", r->out_max);
    akv_buf_add(r->out, p, n);
    if (r->out->failed)
        akv_jfail_as(&r->fault, AKV_E_IO, "template: out of memory for the output");
}

static void print(struct akv_jrun *r, struct akv_jval v)
{
    struct akv_jtext t = {0};
    if (v.kind == AKV_J_STR) {
        emit(r, v.u.s->p, v.u.s->len);
    } else if (v.kind != AKV_J_UNDEF) {
        akv_jput_str(r, &t, v);
        emit(r, t.p, t.len);
    }
}

/* ---- scopes ---- */

static struct akv_jscope *scope_new(struct akv_jrun *r, struct akv_jscope *up)
{
    struct akv_jscope *s = akv_jalloc(&r->arena, sizeof *s);
    *s = (struct akv_jscope){.up = up};
    return s;
}

/* Enter a scope (NULL: the globals): what it owns is undefined until it is assigned. */
static void own(struct akv_jrun *r, struct akv_jscope *s, const struct akv_jowned *o)
{
    for (uint32_t i = 0; o && i < o->n; i++)
        akv_jvar_set(r, s, o->names[i], akv_jundef(AKV_JU_NAME, r->t->names[o->names[i]].str.u.s));
}

static struct akv_jscope *scope_owning(struct akv_jrun *r, const struct akv_jowned *o)
{
    struct akv_jscope *s = scope_new(r, r->scope);
    own(r, s, o);
    return s;
}

static enum flow run_in_scope(struct akv_jrun *r, struct akv_jscope *s, const struct akv_jnode *body)
{
    struct akv_jscope *saved = r->scope;
    r->scope = s;
    enum flow f = run_block(r, body);
    r->scope = saved;
    return f;
}

/* Run the body and hand its text over as a string. */
static enum flow capture(struct akv_jrun *r, struct akv_jscope *s, const struct akv_jnode *body, struct akv_jval *out)
{
    struct akv_jtext t = {0}, *saved = r->sink;
    r->sink = &t;
    enum flow f = run_in_scope(r, s, body);
    r->sink = saved;
    *out = akv_jstr_of(r, &t);
    return f;
}

/* A macro defined here sees these scopes as long as it lives. */
static struct akv_jval macro_value(struct akv_jrun *r, const struct akv_jnode *n)
{
    struct akv_jmacro *m = akv_jalloc(&r->arena, sizeof *m);
    *m = (struct akv_jmacro){.node = n, .home = r->scope};
    for (struct akv_jscope *s = r->scope; s && !s->kept; s = s->up)
        s->kept = true;
    return (struct akv_jval){.kind = AKV_J_MACRO, .u.m = m};
}

/* ---- assignment ---- */

static void assign(struct akv_jrun *r, struct akv_jscope *s, const struct akv_jnode *target, struct akv_jval v);

static void unpack(struct akv_jrun *r, struct akv_jscope *s, const struct akv_jnode *target, struct akv_jval v)
{
    if (v.kind == AKV_J_UNDEF)
        akv_jdie(r, "not enough values to unpack");
    struct akv_jiter it = akv_jiterate(r, v);
    struct akv_jval x;
    const struct akv_jnode *t = target->a;
    for (; t && akv_jnext(r, &it, &x); t = t->next)
        assign(r, s, t->a, x);
    if (t || akv_jnext(r, &it, &x))
        akv_jdie(r, "%s values to unpack", t ? "not enough" : "too many");
}

static void assign(struct akv_jrun *r, struct akv_jscope *s, const struct akv_jnode *target, struct akv_jval v)
{
    if (target->type == AKV_JN_NAME) {
        akv_jvar_set(r, s, target->name, v);
    } else if (target->type == AKV_JN_TUPLE) {
        akv_jenter(r);
        unpack(r, s, target, v);
        r->frames--;
    } else {
        struct akv_jval space = akv_jvar_get(r, target->name);
        if (space.kind != AKV_J_SPACE)
            akv_jdie(r, "attributes can be set on namespaces only");
        akv_jdict_set(r, space.u.d, target->val, v);
    }
}

/* ---- loops ---- */

/* The next item for which the loop's condition holds. */
static bool loop_next(struct akv_jrun *r, struct akv_jloop *loop, struct akv_jval *out)
{
    const struct akv_jnode *n = loop->node;
    bool found = false;
    if (!n->d || loop->listed)
        return akv_jnext(r, &loop->it, out);
    struct akv_jscope *saved = r->scope;
    uint32_t line = r->fault.line;
    r->scope = scope_new(r, loop->scope);
    while (!found && akv_jnext(r, &loop->it, out)) {
        assign(r, r->scope, n->a, *out);
        found = akv_jtruth(r, akv_jeval(r, n->d));
    }
    r->scope = saved;
    r->fault.line = line;
    return found;
}

static bool loop_peek(struct akv_jrun *r, struct akv_jloop *loop)
{
    if (!loop->has_after && !loop->at_end) {
        loop->has_after = loop_next(r, loop, &loop->after);
        loop->at_end = !loop->has_after;
    }
    return loop->has_after;
}

int64_t akv_jloop_length(struct akv_jrun *r, struct akv_jloop *loop)
{
    if (loop->length < 0) {
        bool iter = loop->it.src.kind == AKV_J_LIST && loop->it.src.u.l->type == AKV_JL_ITER;
        if (!loop->node->d && !iter) {
            loop->length = akv_jlen(r, loop->it.src);
        } else {
            struct akv_jval rest = akv_jlist_new(r, AKV_JL_LIST), x;
            while (loop_next(r, loop, &x))
                akv_jlist_push(r, rest.u.l, x);
            loop->it = akv_jiterate(r, rest);
            loop->listed = true;
            loop->length = loop->index0 + 1 + (int64_t)rest.u.l->n + loop->has_after;
        }
    }
    return loop->length;
}

struct akv_jval akv_jloop_attr(struct akv_jrun *r, struct akv_jloop *loop, const struct akv_jstr *name)
{
    if (akv_jstr_is(name, "index0"))
        return akv_jint(loop->index0);
    if (akv_jstr_is(name, "index"))
        return akv_jint(loop->index0 + 1);
    if (akv_jstr_is(name, "first"))
        return akv_jbool(loop->index0 == 0);
    if (akv_jstr_is(name, "last"))
        return akv_jbool(!loop_peek(r, loop));
    if (akv_jstr_is(name, "previtem"))
        return loop->index0 > 0 ? loop->prev : akv_jundef(AKV_JU_NAME, NULL);
    if (akv_jstr_is(name, "nextitem"))
        return loop_peek(r, loop) ? loop->after : akv_jundef(AKV_JU_NAME, NULL);
    if (akv_jstr_is(name, "length"))
        return akv_jint(akv_jloop_length(r, loop));
    if (akv_jstr_is(name, "revindex"))
        return akv_jint(akv_jloop_length(r, loop) - loop->index0);
    if (akv_jstr_is(name, "revindex0"))
        return akv_jint(akv_jloop_length(r, loop) - loop->index0 - 1);
    if (akv_jstr_is(name, "depth0"))
        return akv_jint(loop->depth0);
    if (akv_jstr_is(name, "depth"))
        return akv_jint(loop->depth0 + 1);
    return AKV_JMISSING;
}

static bool loop_step(struct akv_jrun *r, struct akv_jloop *loop)
{
    struct akv_jval v;
    bool more = loop->has_after;
    if (more)
        v = loop->after;
    else if (!loop->at_end)
        more = loop_next(r, loop, &v);
    if (!more)
        return false;
    loop->has_after = false;
    loop->index0++;
    loop->prev = loop->cur;
    loop->cur = v;
    return true;
}

static enum flow run_for(struct akv_jrun *r, const struct akv_jnode *n, struct akv_jval items, int64_t depth0)
{
    struct akv_jloop *loop = akv_jalloc(&r->arena, sizeof *loop);
    *loop = (struct akv_jloop){.node = n, .scope = r->scope, .index0 = -1, .depth0 = depth0, .length = -1};
    loop->it = akv_jiterate(r, items);
    struct akv_jscope *s = scope_new(r, r->scope);
    struct akv_jval loop_val = {.kind = AKV_J_LOOP, .u.loop = loop};
    while (loop_step(r, loop)) {
        if (s->kept)
            s = scope_new(r, r->scope);
        s->n = 0;
        own(r, s, n->owned);
        akv_jvar_set(r, s, r->t->loop, loop_val);
        assign(r, s, n->a, loop->cur);
        if (run_in_scope(r, s, n->c) == FLOW_BREAK)
            return FLOW_ON;
    }
    return loop->index0 < 0 && n->e ? run_in_scope(r, scope_owning(r, n->owned_else), n->e) : FLOW_ON;
}

struct akv_jval akv_jcall_loop(struct akv_jrun *r, struct akv_jloop *loop, struct akv_jval items)
{
    struct akv_jtext t = {0}, *sink = r->sink;
    struct akv_jscope *scope = r->scope;
    if (!loop->node->flag)
        akv_jdie(r, "only a recursive loop can be called");
    if (++r->calls > r->max_calls)
        akv_jdie(r, "calls nested too deeply");
    r->sink = &t;
    r->scope = loop->scope;
    run_for(r, loop->node, items, loop->depth0 + 1);
    r->sink = sink;
    r->scope = scope;
    r->calls--;
    return akv_jstr_of(r, &t);
}

/* ---- macros ---- */

/* Take the keyword `name` out of what is left of the keywords; MISSING if it is not there. */
static struct akv_jval take_keyword(struct akv_jkw *kw, size_t *n, const struct akv_jstr *name)
{
    for (size_t i = 0; i < *n; i++) {
        if (kw[i].name->len == name->len && memcmp(kw[i].name->p, name->p, name->len) == 0) {
            struct akv_jval v = kw[i].val;
            memmove(kw + i, kw + i + 1, (--*n - i) * sizeof *kw);
            return v;
        }
    }
    return AKV_JMISSING;
}

/* What the body may read besides its parameters: caller, kwargs, varargs. extra: the positional arguments left over. */
static void bind_special(struct akv_jrun *r, struct akv_jscope *s, const struct akv_jnode *n, const struct akv_jval *extra,
                         size_t n_extra, struct akv_jkw *kw, size_t n_kw, bool own_caller)
{
    const struct akv_jinja *t = r->t;
    if ((n->uses & AKV_JUSES_CALLER) && !own_caller) {
        struct akv_jval v = take_keyword(kw, &n_kw, t->names[t->caller].str.u.s);
        akv_jvar_set(r, s, t->caller, v.kind == AKV_J_MISSING ? akv_jundef(AKV_JU_NAME, t->names[t->caller].str.u.s) : v);
    }
    if (n->uses & AKV_JUSES_KWARGS) {
        struct akv_jval d = akv_jdict_new(r, AKV_J_DICT);
        for (size_t i = 0; i < n_kw; i++)
            akv_jdict_set(r, d.u.d, (struct akv_jval){.kind = AKV_J_STR, .u.s = kw[i].name}, kw[i].val);
        akv_jvar_set(r, s, t->kwargs, d);
    } else if (n_kw) {
        akv_jdie(r, "macro: unexpected argument '%.*s'", (int)(kw->name->len < 40 ? kw->name->len : 40), kw->name->p);
    }
    if (n->uses & AKV_JUSES_VARARGS) {
        struct akv_jval l = akv_jlist_new(r, AKV_JL_TUPLE);
        for (size_t i = 0; i < n_extra; i++)
            akv_jlist_push(r, l.u.l, extra[i]);
        akv_jvar_set(r, s, t->varargs, l);
    } else if (n_extra) {
        akv_jdie(r, "macro: too many arguments");
    }
}

static void bind_params(struct akv_jrun *r, struct akv_jscope *s, const struct akv_jnode *n, const struct akv_jargs *args)
{
    size_t at = 0, n_kw = args->n_kw;
    bool own_caller = false;
    struct akv_jkw *kw = akv_jalloc(&r->arena, n_kw * sizeof *kw);
    if (n_kw)
        memcpy(kw, args->kw, n_kw * sizeof *kw);
    for (const struct akv_jnode *p = n->a; p; p = p->next) {
        struct akv_jval v = at < args->n ? args->v[at++] : take_keyword(kw, &n_kw, r->t->names[p->name].str.u.s);
        own_caller = own_caller || p->name == r->t->caller;
        akv_jtick(r, 1 + n_kw / 16);
        if (v.kind != AKV_J_MISSING)
            akv_jvar_set(r, s, p->name, v);
    }
    bind_special(r, s, n, args->v ? args->v + at : NULL, args->n - at, kw, n_kw, own_caller);
}

/* Defaults see the parameters before them. */
static void bind_defaults(struct akv_jrun *r, struct akv_jscope *s, const struct akv_jnode *n, size_t n_given)
{
    for (const struct akv_jnode *p = n->a; p; p = p->next, n_given -= n_given > 0) {
        bool given = n_given > 0;
        for (uint32_t i = 0; !given && i < s->n; i++)
            given = s->v[i].name == p->name;
        if (!given)
            akv_jvar_set(r, s, p->name, p->a ? akv_jeval(r, p->a) : akv_jundef(AKV_JU_NAME, r->t->names[p->name].str.u.s));
    }
}

struct akv_jval akv_jcall_macro(struct akv_jrun *r, struct akv_jmacro *m, const struct akv_jargs *args)
{
    struct akv_jscope *saved = r->scope, *s = scope_new(r, m->home);
    struct akv_jval out;
    if (++r->calls > r->max_calls)
        akv_jdie(r, "calls nested too deeply");
    akv_jenter(r);
    own(r, s, m->node->owned);
    bind_params(r, s, m->node, args);
    r->scope = s;
    bind_defaults(r, s, m->node, args->n);
    capture(r, s, m->node->b, &out);
    r->scope = saved;
    r->frames--;
    r->calls--;
    return out;
}

struct akv_jval akv_jmacro_attr(struct akv_jrun *r, struct akv_jmacro *m, const struct akv_jstr *name)
{
    if (akv_jstr_is(name, "name"))
        return r->t->names[m->node->name].str;
    if (akv_jstr_is(name, "arguments")) {
        struct akv_jval l = akv_jlist_new(r, AKV_JL_TUPLE);
        for (const struct akv_jnode *p = m->node->a; p; p = p->next)
            akv_jlist_push(r, l.u.l, r->t->names[p->name].str);
        return l;
    }
    return AKV_JMISSING;
}

/* ---- statements ---- */

static enum flow run_if(struct akv_jrun *r, const struct akv_jnode *n)
{
    for (const struct akv_jnode *b = n->a; b; b = b->next) {
        if (!b->a || akv_jtruth(r, akv_jeval(r, b->a)))
            return run_block(r, b->b);
    }
    return FLOW_ON;
}

static enum flow run_set_block(struct akv_jrun *r, const struct akv_jnode *n)
{
    struct akv_jval v;
    enum flow f = capture(r, scope_owning(r, n->owned), n->b, &v);
    if (f == FLOW_ON) {
        if (n->c)
            v = akv_japply(r, n->c->b, v);
        assign(r, r->scope, n->a, v);
    }
    return f;
}

static enum flow run_filter_block(struct akv_jrun *r, const struct akv_jnode *n)
{
    struct akv_jval v;
    enum flow f = capture(r, scope_owning(r, n->owned), n->b, &v);
    if (f == FLOW_ON)
        print(r, akv_japply(r, n->c->b, v));
    return f;
}

static enum flow run_with(struct akv_jrun *r, const struct akv_jnode *n)
{
    struct akv_jscope *s = scope_owning(r, n->owned);
    for (const struct akv_jnode *set = n->a; set; set = set->next)
        assign(r, s, set->a, akv_jeval(r, set->b));
    return run_in_scope(r, s, n->b);
}

static enum flow run_statement(struct akv_jrun *r, const struct akv_jnode *n)
{
    switch (n->type) {
    case AKV_JN_TEXT:
        emit(r, n->val.u.s->p, n->val.u.s->len);
        return FLOW_ON;
    case AKV_JN_PRINT:
        print(r, akv_jeval(r, n->a));
        return FLOW_ON;
    case AKV_JN_IF:
        return run_if(r, n);
    case AKV_JN_FOR:
        return run_for(r, n, akv_jeval(r, n->b), 0);
    case AKV_JN_SET:
        assign(r, r->scope, n->a, akv_jeval(r, n->b));
        return FLOW_ON;
    case AKV_JN_SET_BLOCK:
        return run_set_block(r, n);
    case AKV_JN_MACRO:
        akv_jvar_set(r, r->scope, n->name, macro_value(r, n));
        return FLOW_ON;
    case AKV_JN_CALL_BLOCK:
        print(r, akv_jcall_block(r, n->c, macro_value(r, n)));
        return FLOW_ON;
    case AKV_JN_FILTER_BLOCK:
        return run_filter_block(r, n);
    case AKV_JN_WITH:
        return run_with(r, n);
    case AKV_JN_GENERATION:
        return run_in_scope(r, scope_owning(r, n->owned), n->b);
    case AKV_JN_BREAK:
        return FLOW_BREAK;
    default: /* AKV_JN_CONTINUE */
        return FLOW_CONTINUE;
    }
}

static enum flow run_block(struct akv_jrun *r, const struct akv_jnode *n)
{
    enum flow f = FLOW_ON;
    akv_jenter(r);
    for (; n && f == FLOW_ON; n = n->next) {
        akv_jtick(r, 1);
        r->fault.line = n->line;
        f = run_statement(r, n);
    }
    r->frames--;
    return f;
}

/* ---- renders ---- */

static void load_globals(struct akv_jrun *r, const json_t *context)
{
    uint32_t n = r->t->n_names;
    r->globals = akv_jalloc(&r->arena, n * sizeof *r->globals);
    for (uint32_t i = 0; i < n; i++) {
        const struct akv_jstr *name = r->t->names[i].str.u.s;
        const json_t *j = json_object_getn(context, name->p, name->len);
        const struct akv_jfunc *f = j ? NULL : akv_jglobal_find(name);
        r->globals[i] = j ? akv_jfrom_json(r, j) : f ? (struct akv_jval){.kind = AKV_J_FUNC, .u.fn = f} : AKV_JMISSING;
    }
}

static int run(struct akv_jrun *r, const json_t *context)
{
    if (setjmp(r->fault.env))
        return r->fault.rc;
    load_globals(r, context);
    own(r, NULL, r->t->owned);
    run_block(r, r->t->body);
    return 0;
}

int akv_jinja_render(const struct akv_jinja *t, const json_t *context, int64_t now, const struct akv_jinja_limits *limits,
                     struct akv_buf *out, struct akv_err *err)
{
    static const struct akv_jinja_limits defaults = {20000000, 200, (size_t)64 << 20, (size_t)512 << 20, NULL};
    const struct akv_jinja_limits *l = limits ? limits : &defaults;
    struct akv_jrun *r = akv_alloc(1, sizeof *r, err);
    if (!r)
        return AKV_E_IO;
    r->fault.err = err;
    r->fault.line = 1;
    r->arena.fault = &r->fault;
    r->arena.max = l->memory_bytes ? l->memory_bytes : defaults.memory_bytes;
    r->t = t;
    r->out = out;
    r->out_start = out->len;
    r->out_max = l->output_bytes ? l->output_bytes : defaults.output_bytes;
    uint64_t steps = r->steps = l->steps ? l->steps : defaults.steps;
    r->max_calls = !l->depth ? defaults.depth : l->depth < DEPTH_MAX ? l->depth : DEPTH_MAX;
    r->max_frames = 10 * r->max_calls;
    r->now = now;
    int rc = run(r, context);
    if (l->used)
        *l->used = steps - r->steps;
    if (rc < 0 && out->len > r->out_start) {
        out->len = r->out_start;
        out->data[out->len] = '\0';
    }
    akv_jarena_release(&r->arena);
    free(r);
    return rc;
}
