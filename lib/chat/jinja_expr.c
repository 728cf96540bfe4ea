/* Expressions to trees. Precedence, lowest first: if, or, and, not, comparisons, + -, ~, * / // %, **, unary, postfix, filters. */
#include "chat/jinja_node.h"

#include <string.h>

/* Add a step to what has been parsed so far. */
static struct akv_jnode *step(struct akv_jparser *p, struct akv_jnode *base, struct akv_jnode *s, enum akv_jnode_type chain)
{
    if (!base || base->type != chain) {
        struct akv_jnode *c = akv_jnode_new(p, chain);
        c->a = base;
        base = c;
    }
    if (base->tail)
        base->tail->next = s;
    else
        base->b = s;
    base->tail = s;
    return base;
}

static struct akv_jnode *operate(struct akv_jparser *p, enum akv_jop op, struct akv_jnode *right)
{
    struct akv_jnode *n = akv_jnode_new(p, AKV_JN_OPERATE);
    n->op = (uint8_t)op;
    n->a = right;
    return n;
}

/* ---- calls, subscripts, filters, tests ---- */

static struct akv_jnode *argument(struct akv_jparser *p, unsigned *stage)
{
    struct akv_jnode *arg = akv_jnode_new(p, AKV_JN_ARG);
    unsigned now; /* arguments come in the order: plain, keywords, *more, **more */
    if (akv_jtake_op(p, "*")) {
        now = 3;
        arg->op = 1;
    } else if (akv_jtake_op(p, "**")) {
        now = 4;
        arg->op = 2;
    } else if (akv_jpeek(p)->type == AKV_JT_NAME && akv_jtok_is_op(akv_jpeek(p) + 1, "=")) {
        now = 2;
        arg->val = akv_jtok_str(p, akv_jtake(p));
        akv_jtake(p);
    } else {
        now = 1;
    }
    if (now < *stage && !(now == 2 && *stage == 3))
        akv_jfail(&p->fault, "arguments out of order");
    if (now == *stage && now > 2)
        akv_jfail(&p->fault, "more than one argument list");
    *stage = now > *stage ? now : *stage;
    arg->a = akv_jparse_expr(p);
    return arg;
}

static struct akv_jnode *arguments(struct akv_jparser *p)
{
    struct akv_jlist_of l = {0};
    unsigned stage = 0;
    akv_jexpect_op(p, "(");
    while (!akv_jtake_op(p, ")")) {
        if (l.first) {
            akv_jexpect_op(p, ",");
            if (akv_jtake_op(p, ")"))
                break;
        }
        akv_jnode_append(&l, argument(p, &stage));
    }
    return l.first;
}

/* What stands between [ and ]: one key, a slice, or several of them as a tuple. */
static struct akv_jnode *subscribed(struct akv_jparser *p)
{
    struct akv_jnode *first = NULL;
    if (!akv_jis_op(p, ":"))
        first = akv_jparse_expr(p);
    if (!akv_jis_op(p, ":"))
        return akv_jnode_of(p, AKV_JN_ITEM, first);
    struct akv_jnode *s = akv_jnode_of(p, AKV_JN_SLICE, first);
    akv_jtake(p);
    if (!akv_jis_op(p, ":") && !akv_jis_op(p, "]") && !akv_jis_op(p, ","))
        s->b = akv_jparse_expr(p);
    if (akv_jtake_op(p, ":") && !akv_jis_op(p, "]") && !akv_jis_op(p, ","))
        s->c = akv_jparse_expr(p);
    return s;
}

static struct akv_jnode *subscript(struct akv_jparser *p)
{
    struct akv_jlist_of l = {0};
    akv_jexpect_op(p, "[");
    struct akv_jnode *s = subscribed(p);
    while (akv_jis_op(p, ",")) {
        akv_jtake(p);
        akv_jnode_append(&l, s);
        s = subscribed(p);
    }
    akv_jexpect_op(p, "]");
    if (!l.first)
        return s;
    akv_jnode_append(&l, s);
    for (const struct akv_jnode *x = l.first; x; x = x->next) {
        if (x->type != AKV_JN_ITEM)
            akv_jfail(&p->fault, "slices cannot be combined");
    }
    return akv_jnode_of(p, AKV_JN_ITEM, akv_jnode_of(p, AKV_JN_TUPLE, l.first));
}

static struct akv_jnode *member(struct akv_jparser *p)
{
    struct akv_jnode *s;
    akv_jtake(p);
    if (akv_jpeek(p)->type == AKV_JT_INT)
        return akv_jnode_of(p, AKV_JN_ITEM, akv_jparse_number(p));
    s = akv_jnode_new(p, AKV_JN_ATTR);
    s->val = akv_jtok_str(p, akv_jexpect(p, AKV_JT_NAME, "a name after '.'"));
    return s;
}

static struct akv_jnode *call(struct akv_jparser *p)
{
    struct akv_jnode *s = akv_jnode_new(p, AKV_JN_CALL);
    s->a = arguments(p);
    return s;
}

static struct akv_jnode *postfix(struct akv_jparser *p, struct akv_jnode *node)
{
    for (;;) {
        if (akv_jis_op(p, "."))
            node = step(p, node, member(p), AKV_JN_CHAIN);
        else if (akv_jis_op(p, "["))
            node = step(p, node, subscript(p), AKV_JN_CHAIN);
        else if (akv_jis_op(p, "("))
            node = step(p, node, call(p), AKV_JN_CHAIN);
        else
            return node;
    }
}

/* The name of a filter or test; one with dots is known to nobody, but only an error when it is reached. */
static struct akv_jval dotted_name(struct akv_jparser *p, const char *what)
{
    const struct akv_jtok *t = akv_jexpect(p, AKV_JT_NAME, what), *last = t;
    while (akv_jtake_op(p, "."))
        last = akv_jexpect(p, AKV_JT_NAME, what);
    return akv_jstr_ref(&p->t->arena, p->toks.text + t->at, last->at + last->len - t->at);
}

/* A filter's name and arguments, behind the bar. */
static struct akv_jnode *filter(struct akv_jparser *p)
{
    struct akv_jnode *s = akv_jnode_new(p, AKV_JN_FILTER);
    s->val = dotted_name(p, "a filter's name");
    s->func = akv_jfilter_find(s->val.u.s);
    if (akv_jis_op(p, "("))
        s->a = arguments(p);
    return s;
}

static bool starts_operand(const struct akv_jparser *p)
{
    const struct akv_jtok *t = akv_jpeek(p);
    if (t->type == AKV_JT_NAME)
        return !akv_jtok_is_word(p, t, "else") && !akv_jtok_is_word(p, t, "or") && !akv_jtok_is_word(p, t, "and") &&
               !akv_jtok_is_word(p, t, "if");
    return t->type == AKV_JT_STR || t->type == AKV_JT_INT || t->type == AKV_JT_FLOAT || akv_jtok_is_op(t, "[") ||
           akv_jtok_is_op(t, "{");
}

/* A test, behind `is`. A single operand needs no brackets: `is divisibleby 3`. */
static struct akv_jnode *test(struct akv_jparser *p)
{
    struct akv_jnode *s = akv_jnode_new(p, AKV_JN_TEST);
    s->flag = akv_jtake_word(p, "not");
    s->val = dotted_name(p, "a test's name");
    s->func = akv_jtest_find(s->val.u.s);
    if (akv_jis_op(p, "(")) {
        s->a = arguments(p);
    } else if (starts_operand(p)) {
        if (akv_jis_word(p, "is"))
            akv_jfail(&p->fault, "tests cannot be chained");
        s->a = akv_jnode_new(p, AKV_JN_ARG);
        s->a->a = postfix(p, akv_jparse_primary(p));
    }
    return s;
}

static struct akv_jnode *filters_and_tests(struct akv_jparser *p, struct akv_jnode *node)
{
    for (;;) {
        if (akv_jtake_op(p, "|"))
            node = step(p, node, filter(p), AKV_JN_CHAIN);
        else if (akv_jtake_word(p, "is"))
            node = step(p, node, test(p), AKV_JN_CHAIN);
        else if (akv_jis_op(p, "("))
            node = step(p, node, call(p), AKV_JN_CHAIN);
        else
            return node;
    }
}

struct akv_jnode *akv_jparse_filters(struct akv_jparser *p, bool inline_start)
{
    struct akv_jnode *node = NULL;
    while (inline_start || akv_jtake_op(p, "|")) {
        node = step(p, node, filter(p), AKV_JN_CHAIN);
        inline_start = false;
    }
    return node;
}

/* ---- operators ---- */

static struct akv_jnode *unary(struct akv_jparser *p, bool with_filters)
{
    struct akv_jnode *node;
    akv_jnest(p);
    if (akv_jtake_op(p, "-"))
        node = akv_jnode_of(p, AKV_JN_NEG, unary(p, false));
    else if (akv_jtake_op(p, "+"))
        node = akv_jnode_of(p, AKV_JN_POS, unary(p, false));
    else
        node = akv_jparse_primary(p);
    node = postfix(p, node);
    if (with_filters)
        node = filters_and_tests(p, node);
    p->nest--;
    return node;
}

static struct akv_jnode *power(struct akv_jparser *p)
{
    struct akv_jnode *node = unary(p, true);
    while (akv_jtake_op(p, "**"))
        node = step(p, node, operate(p, AKV_JOP_POW, unary(p, true)), AKV_JN_CHAIN);
    return node;
}

static struct akv_jnode *product(struct akv_jparser *p)
{
    static const char *const text[] = {"*", "/", "//", "%"};
    static const enum akv_jop ops[] = {AKV_JOP_MUL, AKV_JOP_DIV, AKV_JOP_FLOORDIV, AKV_JOP_MOD};
    struct akv_jnode *node = power(p);
    for (size_t i = 0; i < 4;) {
        if (akv_jtake_op(p, text[i])) {
            node = step(p, node, operate(p, ops[i], power(p)), AKV_JN_CHAIN);
            i = 0;
        } else {
            i++;
        }
    }
    return node;
}

static struct akv_jnode *concat(struct akv_jparser *p)
{
    struct akv_jnode *first = product(p);
    if (!akv_jis_op(p, "~"))
        return first;
    struct akv_jlist_of l = {0};
    akv_jnode_append(&l, akv_jnode_of(p, AKV_JN_ARG, first));
    while (akv_jtake_op(p, "~"))
        akv_jnode_append(&l, akv_jnode_of(p, AKV_JN_ARG, product(p)));
    return akv_jnode_of(p, AKV_JN_CONCAT, l.first);
}

static struct akv_jnode *sum(struct akv_jparser *p)
{
    struct akv_jnode *node = concat(p);
    for (;;) {
        if (akv_jtake_op(p, "+"))
            node = step(p, node, operate(p, AKV_JOP_ADD, concat(p)), AKV_JN_CHAIN);
        else if (akv_jtake_op(p, "-"))
            node = step(p, node, operate(p, AKV_JOP_SUB, concat(p)), AKV_JN_CHAIN);
        else
            return node;
    }
}

/* Take a comparison operator if one is next. */
static bool comparison(struct akv_jparser *p, enum akv_jop *op)
{
    static const char *const text[] = {"==", "!=", "<=", ">=", "<", ">"};
    static const enum akv_jop ops[] = {AKV_JOP_EQ, AKV_JOP_NE, AKV_JOP_LE, AKV_JOP_GE, AKV_JOP_LT, AKV_JOP_GT};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        if (akv_jtake_op(p, text[i])) {
            *op = ops[i];
            return true;
        }
    }
    bool negated = akv_jis_word(p, "not") && akv_jtok_is_word(p, akv_jpeek(p) + 1, "in");
    if (negated)
        akv_jtake(p);
    *op = negated ? AKV_JOP_NOTIN : AKV_JOP_IN;
    return akv_jtake_word(p, "in");
}

static struct akv_jnode *compare(struct akv_jparser *p)
{
    struct akv_jnode *first = sum(p), *node = NULL;
    enum akv_jop op;
    while (comparison(p, &op)) {
        if (!node)
            node = akv_jnode_of(p, AKV_JN_COMPARE, first);
        node = step(p, node, operate(p, op, sum(p)), AKV_JN_COMPARE);
    }
    return node ? node : first;
}

static struct akv_jnode *negation(struct akv_jparser *p)
{
    if (!akv_jtake_word(p, "not"))
        return compare(p);
    akv_jnest(p);
    struct akv_jnode *node = akv_jnode_of(p, AKV_JN_NOT, negation(p));
    p->nest--;
    return node;
}

/* `a and b and …`, or `or`: operands of the next higher level, in AKV_JN_ARG nodes. */
static struct akv_jnode *logic(struct akv_jparser *p, bool is_or)
{
    const char *op = is_or ? "or" : "and";
    struct akv_jnode *first = is_or ? logic(p, false) : negation(p);
    if (!akv_jis_word(p, op))
        return first;
    struct akv_jlist_of l = {0};
    akv_jnode_append(&l, akv_jnode_of(p, AKV_JN_ARG, first));
    while (akv_jtake_word(p, op))
        akv_jnode_append(&l, akv_jnode_of(p, AKV_JN_ARG, is_or ? logic(p, false) : negation(p)));
    return akv_jnode_of(p, is_or ? AKV_JN_OR : AKV_JN_AND, l.first);
}

struct akv_jnode *akv_jparse_expr(struct akv_jparser *p)
{
    uint32_t nest = p->nest;
    akv_jnest(p);
    struct akv_jnode *node = logic(p, true);
    while (akv_jtake_word(p, "if")) {
        akv_jnest(p); /* `a if b if c` nests to the left */
        struct akv_jnode *c = akv_jnode_new(p, AKV_JN_COND);
        c->a = logic(p, true);
        c->b = node;
        if (akv_jtake_word(p, "else"))
            c->c = akv_jparse_expr(p);
        node = c;
    }
    p->nest = nest;
    return node;
}

struct akv_jnode *akv_jparse_tuple(struct akv_jparser *p, bool cond)
{
    struct akv_jlist_of l = {0};
    bool many = false;
    do {
        const struct akv_jtok *t = akv_jpeek(p);
        bool end = t->type == AKV_JT_VAR_END || t->type == AKV_JT_BLOCK_END || akv_jtok_is_op(t, ")") ||
                   (!cond && akv_jtok_is_word(p, t, "recursive"));
        if (end && many)
            break;
        struct akv_jnode *e = cond ? akv_jparse_expr(p) : logic(p, true);
        if (!many && !akv_jis_op(p, ","))
            return e;
        many = true;
        akv_jnode_append(&l, akv_jnode_of(p, AKV_JN_ARG, e));
    } while (akv_jtake_op(p, ","));
    return akv_jnode_of(p, AKV_JN_TUPLE, l.first);
}

/* ---- targets of assignments ---- */

static struct akv_jnode *target_one(struct akv_jparser *p, bool space)
{
    if (akv_jtake_op(p, "(")) {
        akv_jnest(p);
        struct akv_jnode *inner = akv_jparse_target(p, space);
        p->nest--;
        akv_jexpect_op(p, ")");
        return inner;
    }
    const struct akv_jtok *t = akv_jexpect(p, AKV_JT_NAME, "a variable's name");
    static const char *const fixed[] = {"true", "false", "none", "True", "False", "None"};
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
        if (akv_jtok_is_word(p, t, fixed[i]))
            akv_jfail(&p->fault, "cannot assign to '%s'", fixed[i]);
    }
    bool attr = space && akv_jtake_op(p, ".");
    struct akv_jnode *node = akv_jnode_new(p, attr ? AKV_JN_SPACE_ATTR : AKV_JN_NAME);
    node->name = akv_jname_number(p, p->toks.text + t->at, t->len);
    if (attr)
        node->val = akv_jtok_str(p, akv_jexpect(p, AKV_JT_NAME, "an attribute's name"));
    return node;
}

struct akv_jnode *akv_jparse_target(struct akv_jparser *p, bool space)
{
    struct akv_jnode *first = target_one(p, space);
    if (!akv_jis_op(p, ","))
        return first;
    struct akv_jlist_of l = {0};
    akv_jnode_append(&l, akv_jnode_of(p, AKV_JN_ARG, first));
    while (akv_jtake_op(p, ",") && (akv_jpeek(p)->type == AKV_JT_NAME || akv_jis_op(p, "(")) && !akv_jis_word(p, "in"))
        akv_jnode_append(&l, akv_jnode_of(p, AKV_JN_ARG, target_one(p, space)));
    return akv_jnode_of(p, AKV_JN_TUPLE, l.first);
}
