/* The operands of expressions: literals, variables, brackets. */
#include "chat/jinja_node.h"

#include <string.h>

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

struct akv_jnode *akv_jparse_number(struct akv_jparser *p)
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
        akv_jnode_append(&l, akv_jnode_of(p, AKV_JN_ARG, akv_jparse_expr(p)));
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
        struct akv_jnode *key = akv_jnode_of(p, AKV_JN_ITEM, akv_jparse_expr(p));
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
    bool yes = akv_jtok_is_word(p, t, "true") || akv_jtok_is_word(p, t, "True");
    bool no = akv_jtok_is_word(p, t, "false") || akv_jtok_is_word(p, t, "False");
    bool none = akv_jtok_is_word(p, t, "none") || akv_jtok_is_word(p, t, "None");
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

struct akv_jnode *akv_jparse_primary(struct akv_jparser *p)
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
        node = akv_jparse_number(p);
    else if (akv_jtok_is_op(t, "("))
        node = brackets(p);
    else if (akv_jtok_is_op(t, "["))
        node = list_literal(p);
    else if (akv_jtok_is_op(t, "{"))
        node = dict_literal(p);
    else
        akv_junexpected(p, "an expression");
    p->nest--;
    return node;
}
