/* Expressions to trees, with Jinja's precedences: if, or, and, not, comparisons, + -, ~, * / // %, **, unary, postfix and filters. */
#include "chat/jinja_node.h"

#include <string.h>

/* ---- tokens and nodes ---- */

const struct akv_jtok *akv_jtake(struct akv_jparser *p)
{
    const struct akv_jtok *t = &p->toks.v[p->at];
    if (t->type != AKV_JT_EOF)
        p->at++;
    p->fault.line = t->line;
    return t;
}

static bool tok_is_op(const struct akv_jtok *t, const char *op)
{
    return t->type == AKV_JT_OP && strcmp(t->op, op) == 0;
}

static bool tok_is_word(const struct akv_jparser *p, const struct akv_jtok *t, const char *word)
{
    return t->type == AKV_JT_NAME && t->len == strlen(word) && memcmp(p->toks.text + t->at, word, t->len) == 0;
}

bool akv_jis_op(const struct akv_jparser *p, const char *op)
{
    return tok_is_op(akv_jpeek(p), op);
}

bool akv_jis_word(const struct akv_jparser *p, const char *word)
{
    return tok_is_word(p, akv_jpeek(p), word);
}

bool akv_jtake_op(struct akv_jparser *p, const char *op)
{
    bool yes = akv_jis_op(p, op);
    if (yes)
        akv_jtake(p);
    return yes;
}

bool akv_jtake_word(struct akv_jparser *p, const char *word)
{
    bool yes = akv_jis_word(p, word);
    if (yes)
        akv_jtake(p);
    return yes;
}

void akv_junexpected(struct akv_jparser *p, const char *wanted)
{
    const struct akv_jtok *t = akv_jpeek(p);
    p->fault.line = t->line;
    if (t->type == AKV_JT_EOF)
        akv_jfail(&p->fault, "expected %s, found the end of the template", wanted);
    akv_jfail(&p->fault, "expected %s, found '%.*s'", wanted, (int)(t->len < 40 ? t->len : 40), p->toks.text + t->at);
}

void akv_jexpect_op(struct akv_jparser *p, const char *op)
{
    if (!akv_jtake_op(p, op))
        akv_junexpected(p, op);
}

const struct akv_jtok *akv_jexpect(struct akv_jparser *p, enum akv_jtok_type type, const char *what)
{
    if (akv_jpeek(p)->type != type)
        akv_junexpected(p, what);
    return akv_jtake(p);
}

struct akv_jnode *akv_jnode_new(struct akv_jparser *p, enum akv_jnode_type type)
{
    struct akv_jnode *n = akv_jalloc(&p->t->arena, sizeof *n);
    *n = (struct akv_jnode){.type = (uint8_t)type, .line = p->fault.line};
    return n;
}

void akv_jnode_append(struct akv_jlist_of *l, struct akv_jnode *n)
{
    if (l->last)
        l->last->next = n;
    else
        l->first = n;
    l->last = n;
}

void akv_jnest(struct akv_jparser *p)
{
    if (++p->nest > AKV_JNEST_MAX)
        akv_jfail(&p->fault, "nested too deeply");
}

static struct akv_jnode *unary_of(struct akv_jparser *p, enum akv_jnode_type type, struct akv_jnode *a)
{
    struct akv_jnode *n = akv_jnode_new(p, type);
    n->a = a;
    return n;
}

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

static struct akv_jval tok_str(struct akv_jparser *p, const struct akv_jtok *t)
{
    return akv_jstr_ref(&p->t->arena, p->toks.text + t->at, t->len);
}

/* ---- literals ---- */

static unsigned hex_value(int c)
{
    int lower = c | 0x20;
    if (c >= '0' && c <= '9')
        return (unsigned)(c - '0');
    return lower >= 'a' && lower <= 'f' ? (unsigned)(lower - 'a' + 10) : 16;
}

/* n hexadecimal digits at s (the literal ends with a quote, so reading stops in time). */
static uint32_t hex_escape(struct akv_jparser *p, const char *s, unsigned n)
{
    uint32_t v = 0;
    for (unsigned i = 0; i < n; i++) {
        unsigned d = hex_value((unsigned char)s[i]);
        if (d > 15)
            akv_jfail(&p->fault, "escape needs %u hexadecimal digits", n);
        v = v << 4 | d;
    }
    if (v > 0x10ffff || (v >= 0xd800 && v < 0xe000))
        akv_jfail(&p->fault, "escape is not a character");
    return v;
}

/* One escape sequence; s points behind the backslash. Returns how much of s it took; *len is the length of the result in out. */
static size_t escape(struct akv_jparser *p, const char *s, char out[5], size_t *len)
{
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    const char *simple = *s ? strchr(from, *s) : NULL;
    *len = 1;
    if (simple) {
        out[0] = to[simple - from];
        return 1;
    }
    if (*s == '\n') {
        *len = 0;
        return 1;
    }
    if (*s >= '0' && *s <= '7') {
        uint32_t v = 0;
        size_t n = 0;
        for (; n < 3 && s[n] >= '0' && s[n] <= '7'; n++)
            v = v << 3 | (uint32_t)(s[n] - '0');
        *len = akv_jchar_put(out, v);
        return n;
    }
    unsigned digits = *s == 'x' ? 2 : *s == 'u' ? 4 : *s == 'U' ? 8 : 0;
    if (digits) {
        *len = akv_jchar_put(out, hex_escape(p, s + 1, digits));
        return 1 + digits;
    }
    if (*s == 'N')
        akv_jfail(&p->fault, "escapes by character name are not supported");
    out[0] = '\\'; /* an unknown escape stands for itself */
    return 0;
}

/* Append the value of a string token to out. */
static size_t unescape(struct akv_jparser *p, const struct akv_jtok *t, char *out)
{
    const char *s = p->toks.text + t->at + 1, *end = s + t->len - 2;
    size_t n = 0;
    while (s < end) {
        if (*s != '\\') {
            out[n++] = *s++;
            continue;
        }
        char bytes[5];
        size_t len, used = escape(p, s + 1, bytes, &len);
        memcpy(out + n, bytes, len); /* never longer than the escape itself */
        n += len;
        s += 1 + used;
    }
    return n;
}

/* Adjacent strings are one. */
static struct akv_jnode *string_literal(struct akv_jparser *p)
{
    struct akv_jnode *node = akv_jnode_new(p, AKV_JN_CONST);
    size_t total = 0, n = 0;
    for (size_t i = p->at; p->toks.v[i].type == AKV_JT_STR; i++)
        total += p->toks.v[i].len;
    char *out = akv_jalloc(&p->t->arena, total);
    while (akv_jpeek(p)->type == AKV_JT_STR)
        n += unescape(p, akv_jtake(p), out + n);
    node->val = akv_jstr_ref(&p->t->arena, out, n);
    return node;
}

static struct akv_jnode *number_literal(struct akv_jparser *p)
{
    const struct akv_jtok *t = akv_jtake(p);
    struct akv_jnode *node = akv_jnode_new(p, AKV_JN_CONST);
    const char *s = p->toks.text + t->at;
    if (t->type == AKV_JT_FLOAT) {
        double f;
        if (!akv_jread_float(&p->t->arena, s, t->len, &f))
            akv_jfail(&p->fault, "invalid number");
        node->val = akv_jfloat(f);
        return node;
    }
    int64_t i;
    enum akv_jread got = akv_jread_int(s, t->len, 0, &i);
    if (got != AKV_JREAD_OK)
        akv_jfail(&p->fault, got == AKV_JREAD_RANGE ? "integer does not fit 64 bits" : "invalid number");
    node->val = akv_jint(i);
    return node;
}

static struct akv_jnode *list_literal(struct akv_jparser *p)
{
    struct akv_jnode *node = akv_jnode_new(p, AKV_JN_LIST);
    struct akv_jlist_of l = {0};
    akv_jexpect_op(p, "[");
    while (!akv_jtake_op(p, "]")) {
        if (l.first) {
            akv_jexpect_op(p, ",");
            if (akv_jtake_op(p, "]"))
                break;
        }
        akv_jnode_append(&l, unary_of(p, AKV_JN_ARG, akv_jparse_expr(p)));
    }
    node->a = l.first;
    return node;
}

static struct akv_jnode *dict_literal(struct akv_jparser *p)
{
    struct akv_jnode *node = akv_jnode_new(p, AKV_JN_DICT);
    struct akv_jlist_of l = {0};
    akv_jexpect_op(p, "{");
    while (!akv_jtake_op(p, "}")) {
        if (l.first) {
            akv_jexpect_op(p, ",");
            if (akv_jtake_op(p, "}"))
                break;
        }
        struct akv_jnode *key = unary_of(p, AKV_JN_ITEM, akv_jparse_expr(p));
        akv_jexpect_op(p, ":");
        key->b = akv_jparse_expr(p);
        akv_jnode_append(&l, key);
    }
    node->a = l.first;
    return node;
}

static struct akv_jnode *variable(struct akv_jparser *p, const struct akv_jtok *t)
{
    struct akv_jnode *node = akv_jnode_new(p, AKV_JN_NAME);
    node->name = akv_jname_number(p, p->toks.text + t->at, t->len);
    p->t->names[node->name].read = true;
    if (node->name == p->t->caller)
        p->uses |= AKV_JUSES_CALLER;
    if (node->name == p->t->varargs)
        p->uses |= AKV_JUSES_VARARGS;
    if (node->name == p->t->kwargs)
        p->uses |= AKV_JUSES_KWARGS;
    return node;
}

static struct akv_jnode *word(struct akv_jparser *p)
{
    const struct akv_jtok *t = akv_jtake(p);
    bool yes = tok_is_word(p, t, "true") || tok_is_word(p, t, "True");
    bool no = tok_is_word(p, t, "false") || tok_is_word(p, t, "False");
    bool none = tok_is_word(p, t, "none") || tok_is_word(p, t, "None");
    if (!yes && !no && !none)
        return variable(p, t);
    struct akv_jnode *node = akv_jnode_new(p, AKV_JN_CONST);
    node->val = none ? AKV_JNONE : akv_jbool(yes);
    return node;
}

/* `( ... )`: an expression or a tuple, which may be empty. */
static struct akv_jnode *brackets(struct akv_jparser *p)
{
    struct akv_jnode *node;
    akv_jtake(p);
    if (akv_jis_op(p, ")"))
        node = akv_jnode_new(p, AKV_JN_TUPLE);
    else
        node = akv_jparse_tuple(p, true);
    akv_jexpect_op(p, ")");
    return node;
}

static struct akv_jnode *primary(struct akv_jparser *p)
{
    struct akv_jnode *node;
    const struct akv_jtok *t = akv_jpeek(p);
    p->fault.line = t->line;
    akv_jnest(p);
    if (t->type == AKV_JT_NAME)
        node = word(p);
    else if (t->type == AKV_JT_STR)
        node = string_literal(p);
    else if (t->type == AKV_JT_INT || t->type == AKV_JT_FLOAT)
        node = number_literal(p);
    else if (tok_is_op(t, "("))
        node = brackets(p);
    else if (tok_is_op(t, "["))
        node = list_literal(p);
    else if (tok_is_op(t, "{"))
        node = dict_literal(p);
    else
        akv_junexpected(p, "an expression");
    p->nest--;
    return node;
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
    } else if (akv_jpeek(p)->type == AKV_JT_NAME && tok_is_op(akv_jpeek(p) + 1, "=")) {
        now = 2;
        arg->val = tok_str(p, akv_jtake(p));
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
        return unary_of(p, AKV_JN_ITEM, first);
    struct akv_jnode *s = unary_of(p, AKV_JN_SLICE, first);
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
    return unary_of(p, AKV_JN_ITEM, unary_of(p, AKV_JN_TUPLE, l.first));
}

static struct akv_jnode *member(struct akv_jparser *p)
{
    struct akv_jnode *s;
    akv_jtake(p);
    if (akv_jpeek(p)->type == AKV_JT_INT)
        return unary_of(p, AKV_JN_ITEM, number_literal(p));
    s = akv_jnode_new(p, AKV_JN_ATTR);
    s->val = tok_str(p, akv_jexpect(p, AKV_JT_NAME, "a name after '.'"));
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
        return !tok_is_word(p, t, "else") && !tok_is_word(p, t, "or") && !tok_is_word(p, t, "and") && !tok_is_word(p, t, "if");
    return t->type == AKV_JT_STR || t->type == AKV_JT_INT || t->type == AKV_JT_FLOAT || tok_is_op(t, "[") || tok_is_op(t, "{");
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
        s->a->a = postfix(p, primary(p));
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
        node = unary_of(p, AKV_JN_NEG, unary(p, false));
    else if (akv_jtake_op(p, "+"))
        node = unary_of(p, AKV_JN_POS, unary(p, false));
    else
        node = primary(p);
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
    akv_jnode_append(&l, unary_of(p, AKV_JN_ARG, first));
    while (akv_jtake_op(p, "~"))
        akv_jnode_append(&l, unary_of(p, AKV_JN_ARG, product(p)));
    return unary_of(p, AKV_JN_CONCAT, l.first);
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
    bool negated = akv_jis_word(p, "not") && tok_is_word(p, akv_jpeek(p) + 1, "in");
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
            node = unary_of(p, AKV_JN_COMPARE, first);
        node = step(p, node, operate(p, op, sum(p)), AKV_JN_COMPARE);
    }
    return node ? node : first;
}

static struct akv_jnode *negation(struct akv_jparser *p)
{
    if (!akv_jtake_word(p, "not"))
        return compare(p);
    akv_jnest(p);
    struct akv_jnode *node = unary_of(p, AKV_JN_NOT, negation(p));
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
    akv_jnode_append(&l, unary_of(p, AKV_JN_ARG, first));
    while (akv_jtake_word(p, op))
        akv_jnode_append(&l, unary_of(p, AKV_JN_ARG, is_or ? logic(p, false) : negation(p)));
    return unary_of(p, is_or ? AKV_JN_OR : AKV_JN_AND, l.first);
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
        bool end = t->type == AKV_JT_VAR_END || t->type == AKV_JT_BLOCK_END || tok_is_op(t, ")") ||
                   (!cond && tok_is_word(p, t, "recursive"));
        if (end && many)
            break;
        struct akv_jnode *e = cond ? akv_jparse_expr(p) : logic(p, true);
        if (!many && !akv_jis_op(p, ","))
            return e;
        many = true;
        akv_jnode_append(&l, unary_of(p, AKV_JN_ARG, e));
    } while (akv_jtake_op(p, ","));
    return unary_of(p, AKV_JN_TUPLE, l.first);
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
        if (tok_is_word(p, t, fixed[i]))
            akv_jfail(&p->fault, "cannot assign to '%s'", fixed[i]);
    }
    bool attr = space && akv_jtake_op(p, ".");
    struct akv_jnode *node = akv_jnode_new(p, attr ? AKV_JN_SPACE_ATTR : AKV_JN_NAME);
    node->name = akv_jname_number(p, p->toks.text + t->at, t->len);
    if (attr)
        node->val = tok_str(p, akv_jexpect(p, AKV_JT_NAME, "an attribute's name"));
    return node;
}

struct akv_jnode *akv_jparse_target(struct akv_jparser *p, bool space)
{
    struct akv_jnode *first = target_one(p, space);
    if (!akv_jis_op(p, ","))
        return first;
    struct akv_jlist_of l = {0};
    akv_jnode_append(&l, unary_of(p, AKV_JN_ARG, first));
    while (akv_jtake_op(p, ",") && (akv_jpeek(p)->type == AKV_JT_NAME || akv_jis_op(p, "(")) && !akv_jis_word(p, "in"))
        akv_jnode_append(&l, unary_of(p, AKV_JN_ARG, target_one(p, space)));
    return unary_of(p, AKV_JN_TUPLE, l.first);
}
