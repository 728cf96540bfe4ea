/*
 * Which variables a scope owns from its start.
 *
 * A scope (the template, the body of a loop, macro, block …) that assigns a variable before it reads it owns that variable: until
 * the assignment, what lies inside the scope sees it as undefined, even if the context has a variable of that name. A variable that
 * an outer scope has, that is read first, or that is first assigned inside an `if`, is not owned. The names are listed in the
 * node whose scope it is, and are set to undefined when the scope is entered.
 */
#include "chat/jinja_node.h"

#include <string.h>

struct binding {
    uint32_t scope; /* innermost scope that knows the name; 0: none */
    bool own;       /* undefined until that scope assigns it */
};

struct change {
    uint32_t name;
    struct binding b;
};

struct changes {
    size_t n;
    struct change *v;
};

struct scan {
    struct akv_jparser *p;
    struct binding *of; /* by name number, as all the others */
    uint32_t *seen;     /* stamp of the changes that the name was put among last */
    struct change *log; /* what the bindings were, to be undone */
    size_t n_log, log_cap;
    uint32_t scope, n_scopes, n_stamps;
};

static void bind(struct scan *s, uint32_t name, struct binding b)
{
    if (s->n_log == s->log_cap) {
        size_t cap = s->log_cap ? 2 * s->log_cap : 256;
        s->log = akv_jgrow(&s->p->scratch, s->log, s->log_cap * sizeof *s->log, cap * sizeof *s->log);
        s->log_cap = cap;
    }
    s->log[s->n_log++] = (struct change){.name = name, .b = s->of[name]};
    s->of[name] = b;
}

static void undo(struct scan *s, size_t to)
{
    while (s->n_log > to) {
        s->n_log--;
        s->of[s->log[s->n_log].name] = s->log[s->n_log].b;
    }
}

/* The bindings that have changed since the log was that long, each name once. */
static struct changes changes_since(struct scan *s, size_t mark)
{
    struct changes c = {0};
    uint32_t stamp = ++s->n_stamps;
    c.v = akv_jalloc(&s->p->scratch, (s->n_log - mark) * sizeof *c.v);
    for (size_t i = mark; i < s->n_log; i++) {
        uint32_t name = s->log[i].name;
        if (s->seen[name] != stamp)
            c.v[c.n++] = (struct change){.name = name, .b = s->of[name]};
        s->seen[name] = stamp;
    }
    return c;
}

/* ---- what a scope reads and assigns ---- */

static void on_read(struct scan *s, uint32_t name)
{
    if (!s->of[name].scope)
        bind(s, name, (struct binding){.scope = s->scope});
}

static void on_store(struct scan *s, uint32_t name)
{
    if (s->of[name].scope != s->scope)
        bind(s, name, (struct binding){.scope = s->scope, .own = s->of[name].scope == 0});
}

static void on_param(struct scan *s, uint32_t name)
{
    bind(s, name, (struct binding){.scope = s->scope});
}

/* All that an expression, or a list of them, reads. */
static void reads(struct scan *s, const struct akv_jnode *n)
{
    for (; n; n = n->next) {
        if (n->type == AKV_JN_NAME)
            on_read(s, n->name);
        reads(s, n->a);
        reads(s, n->b);
        reads(s, n->c);
    }
}

static void target(struct scan *s, const struct akv_jnode *t, void (*on)(struct scan *s, uint32_t name))
{
    if (t->type == AKV_JN_NAME)
        on(s, t->name);
    else if (t->type == AKV_JN_SPACE_ATTR)
        on_read(s, t->name);
    for (const struct akv_jnode *x = t->type == AKV_JN_TUPLE ? t->a : NULL; x; x = x->next)
        target(s, x->a, on);
}

static void statements(struct scan *s, const struct akv_jnode *n);

/* Join what the branches made of the names: only what was owned before is owned afterwards. */
static void merge(struct scan *s, const struct changes *branches, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        for (size_t i = 0; i < branches[k].n; i++) {
            struct binding b = branches[k].v[i].b, before = s->of[branches[k].v[i].name];
            b.own = b.own && before.scope == s->scope && before.own;
            bind(s, branches[k].v[i].name, b);
        }
    }
}

static struct changes branch(struct scan *s, const struct akv_jnode *body)
{
    size_t mark = s->n_log;
    statements(s, body);
    struct changes c = changes_since(s, mark);
    undo(s, mark);
    return c;
}

static struct changes elif_branch(struct scan *s, const struct akv_jnode *b)
{
    size_t mark = s->n_log;
    for (; b && b->a; b = b->next) {
        reads(s, b->a);
        struct changes c = branch(s, b->b);
        merge(s, &c, 1);
    }
    struct changes all = changes_since(s, mark);
    undo(s, mark);
    return all;
}

static void scan_if(struct scan *s, const struct akv_jnode *first)
{
    struct changes all[3]; /* the body, all elifs together, the else */
    const struct akv_jnode *last = first;
    while (last->next)
        last = last->next;
    reads(s, first->a);
    all[0] = branch(s, first->b);
    all[1] = elif_branch(s, first->next);
    all[2] = branch(s, last->a ? NULL : last->b);
    merge(s, all, 3);
}

static void statements(struct scan *s, const struct akv_jnode *n)
{
    for (; n; n = n->next) {
        switch (n->type) {
        case AKV_JN_PRINT:
            reads(s, n->a);
            break;
        case AKV_JN_IF:
            scan_if(s, n->a);
            break;
        case AKV_JN_FOR:
            reads(s, n->b);
            break;
        case AKV_JN_SET:
            reads(s, n->b);
            target(s, n->a, on_store);
            break;
        case AKV_JN_SET_BLOCK:
            target(s, n->a, on_store);
            break;
        case AKV_JN_MACRO:
            on_store(s, n->name);
            break;
        case AKV_JN_CALL_BLOCK:
        case AKV_JN_FILTER_BLOCK:
            reads(s, n->c);
            break;
        case AKV_JN_WITH:
            for (const struct akv_jnode *x = n->a; x; x = x->next)
                reads(s, x->b);
            break;
        default:
            break;
        }
    }
}

/* ---- scopes inside scopes ---- */

static const struct akv_jowned *scope(struct scan *s, const struct akv_jnode *declaring, struct akv_jnode *body);

/* Find the scopes that lie directly in this one. */
static void inner_scopes(struct scan *s, struct akv_jnode *n)
{
    for (; n; n = n->next) {
        switch (n->type) {
        case AKV_JN_IF:
            for (struct akv_jnode *b = n->a; b; b = b->next)
                inner_scopes(s, b->b);
            break;
        case AKV_JN_FOR:
            n->owned = scope(s, n, n->c);
            n->owned_else = scope(s, NULL, n->e);
            break;
        case AKV_JN_MACRO:
        case AKV_JN_CALL_BLOCK:
        case AKV_JN_WITH:
            n->owned = scope(s, n, n->b);
            break;
        case AKV_JN_SET_BLOCK:
        case AKV_JN_FILTER_BLOCK:
        case AKV_JN_GENERATION:
            n->owned = scope(s, NULL, n->b);
            break;
        default:
            break;
        }
    }
}

/* What a statement declares in the scope of its body. */
static void declare(struct scan *s, const struct akv_jnode *n)
{
    if (n->type == AKV_JN_FOR) {
        target(s, n->a, on_param);
        on_param(s, s->p->t->loop);
        return;
    }
    for (const struct akv_jnode *x = n->a; x; x = x->next) {
        if (n->type == AKV_JN_WITH)
            target(s, x->a, on_param);
        else
            on_param(s, x->name);
    }
    for (const struct akv_jnode *x = n->type == AKV_JN_WITH ? NULL : n->a; x; x = x->next)
        reads(s, x->a);
}

static const struct akv_jowned *scope(struct scan *s, const struct akv_jnode *declaring, struct akv_jnode *body)
{
    uint32_t outer = s->scope;
    size_t mark = s->n_log, n = 0;
    s->scope = ++s->n_scopes;
    if (declaring)
        declare(s, declaring);
    statements(s, body);
    struct changes c = changes_since(s, mark);
    for (size_t i = 0; i < c.n; i++)
        n += c.v[i].b.own;
    struct akv_jowned *o = NULL;
    if (n) {
        o = akv_jalloc(&s->p->t->arena, sizeof *o + n * sizeof *o->names);
        o->n = 0;
        for (size_t i = 0; i < c.n; i++) {
            if (c.v[i].b.own)
                o->names[o->n++] = c.v[i].name;
        }
    }
    inner_scopes(s, body);
    undo(s, mark);
    s->scope = outer;
    return o;
}

void akv_jfind_owned(struct akv_jparser *p, struct akv_jnode *body)
{
    size_t n = p->t->n_names;
    struct scan s = {.p = p};
    s.of = akv_jalloc(&p->scratch, n * sizeof *s.of);
    s.seen = akv_jalloc(&p->scratch, n * sizeof *s.seen);
    memset(s.of, 0, n * sizeof *s.of);
    memset(s.seen, 0, n * sizeof *s.seen);
    p->t->owned = scope(&s, NULL, body);
}
