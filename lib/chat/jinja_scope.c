/*
 * Which variables a scope owns from its start.
 *
 * A scope (the template, the body of a loop, macro, block …) that assigns a variable before it reads it owns that variable: until
 * the assignment, what lies inside the scope sees it as undefined, even if the context has a variable of that name. A variable that
 * an outer scope has, that is read first, or that only some branches of an `if` assign, is not owned. The names are listed in the
 * node whose scope it is, and are set to undefined when the scope is entered.
 */
#include "chat/jinja_node.h"

#include <string.h>

enum origin { ORIGIN_NONE, ORIGIN_OUTSIDE, ORIGIN_OWN };

struct binding {
    uint32_t scope;  /* innermost scope that knows the name; 0: none */
    uint32_t stamp;  /* of the `if` that counts branches now */
    uint8_t origin;  /* enum origin */
    uint8_t stored;  /* assigned in that scope */
    uint8_t n_branches; /* of that `if` that assign it */
};

struct change { /* to be undone */
    uint32_t name;
    struct binding was;
};

struct scan {
    struct akv_jparser *p;
    struct binding *of; /* by name number */
    struct change *log;
    size_t n_log, log_cap;
    uint32_t scope, n_scopes, n_stamps;
};

static void set(struct scan *s, uint32_t name, struct binding b)
{
    if (s->n_log == s->log_cap) {
        size_t cap = s->log_cap ? 2 * s->log_cap : 256;
        s->log = akv_jgrow(&s->p->t->arena, s->log, s->log_cap * sizeof *s->log, cap * sizeof *s->log);
        s->log_cap = cap;
    }
    s->log[s->n_log++] = (struct change){.name = name, .was = s->of[name]};
    s->of[name] = b;
}

static void undo(struct scan *s, size_t to)
{
    while (s->n_log > to) {
        s->n_log--;
        s->of[s->log[s->n_log].name] = s->log[s->n_log].was;
    }
}

static void on_read(struct scan *s, uint32_t name)
{
    if (!s->of[name].scope)
        set(s, name, (struct binding){.scope = s->scope, .origin = ORIGIN_OUTSIDE});
}

static void on_store(struct scan *s, uint32_t name)
{
    struct binding b = s->of[name];
    if (b.scope != s->scope)
        b = (struct binding){.scope = s->scope, .origin = b.scope ? ORIGIN_OUTSIDE : ORIGIN_OWN};
    b.stored = true;
    set(s, name, b);
}

static void on_param(struct scan *s, uint32_t name)
{
    set(s, name, (struct binding){.scope = s->scope, .origin = ORIGIN_OUTSIDE});
}

/* All that an expression (or a list of them) reads. */
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

static void target(struct scan *s, const struct akv_jnode *t, void (*on)(struct scan *, uint32_t))
{
    if (t->type == AKV_JN_NAME) {
        on(s, t->name);
    } else if (t->type == AKV_JN_TUPLE) {
        for (const struct akv_jnode *x = t->a; x; x = x->next)
            target(s, x->a, on);
    } else {
        on_read(s, t->name);
    }
}

/* ---- branches ---- */

struct branch {
    size_t n;
    struct change *v; /* what it made of the names it touched (in `was`) */
};

static void statements(struct scan *s, const struct akv_jnode *n);

/* Elifs count as one branch, in which each `if` has its own branches again: from the second on they nest. */
static void scan_if(struct scan *s, const struct akv_jnode *branch);

static struct branch scan_branch(struct scan *s, const struct akv_jnode *body, const struct akv_jnode *elifs)
{
    struct branch b = {0};
    size_t mark = s->n_log;
    statements(s, body);
    for (; elifs && elifs->a; elifs = elifs->next) {
        reads(s, elifs->a);
        size_t inner = s->n_log;
        struct branch only = scan_branch(s, elifs->b, NULL);
        (void)inner;
        for (size_t i = 0; i < only.n; i++) {
            struct binding m = only.v[i].was;
            m.origin = s->of[only.v[i].name].stored || !m.stored ? m.origin : ORIGIN_OUTSIDE;
            set(s, only.v[i].name, m);
        }
    }
    b.v = akv_jalloc(&s->p->t->arena, (s->n_log - mark) * sizeof *b.v);
    for (size_t i = mark; i < s->n_log; i++)
        b.v[b.n++] = (struct change){.name = s->log[i].name, .was = s->of[s->log[i].name]};
    undo(s, mark);
    return b;
}
