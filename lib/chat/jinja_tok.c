/* What the parser does with tokens and nodes. */
#include "chat/jinja_node.h"

#include <string.h>

const struct akv_jtok *akv_jtake(struct akv_jparser *p)
{
    const struct akv_jtok *t = &p->toks.v[p->at];
    if (t->type != AKV_JT_EOF)
        p->at++;
    p->fault.line = t->line;
    return t;
}

bool akv_jtok_is_op(const struct akv_jtok *t, const char *op)
{
    return t->type == AKV_JT_OP && strcmp(t->op, op) == 0;
}

bool akv_jtok_is_word(const struct akv_jparser *p, const struct akv_jtok *t, const char *word)
{
    return t->type == AKV_JT_NAME && t->len == strlen(word) && memcmp(p->toks.text + t->at, word, t->len) == 0;
}

bool akv_jis_op(const struct akv_jparser *p, const char *op)
{
    return akv_jtok_is_op(akv_jpeek(p), op);
}

bool akv_jis_word(const struct akv_jparser *p, const char *word)
{
    return akv_jtok_is_word(p, akv_jpeek(p), word);
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

struct akv_jnode *akv_jnode_of(struct akv_jparser *p, enum akv_jnode_type type, struct akv_jnode *a)
{
    struct akv_jnode *n = akv_jnode_new(p, type);
    n->a = a;
    return n;
}

struct akv_jval akv_jtok_str(struct akv_jparser *p, const struct akv_jtok *t)
{
    return akv_jstr_ref(&p->t->arena, p->toks.text + t->at, t->len);
}
