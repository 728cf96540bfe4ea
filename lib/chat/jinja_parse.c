/* Statements to trees, and what a template is as an object. */
#include "chat/jinja_node.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

#define PARSE_MEMORY_MAX ((size_t)256 << 20)

/* ---- names ---- */

static uint32_t name_hash(const char *s, size_t len)
{
    uint32_t h = 2166136261u; /* FNV-1a */
    for (size_t i = 0; i < len; i++)
        h = (h ^ (uint8_t)s[i]) * 16777619u;
    return h;
}

/* Number of a known name, or UINT32_MAX; *slot is where it is or would go. */
static uint32_t name_find(const struct akv_jinja *t, const char *s, size_t len, uint32_t hash, uint32_t *slot)
{
    for (*slot = hash & (t->n_slots - 1);; *slot = (*slot + 1) & (t->n_slots - 1)) {
        uint32_t at = t->slots[*slot];
        if (!at)
            return UINT32_MAX;
        const struct akv_jname *n = &t->names[at - 1];
        if (n->hash == hash && n->str.u.s->len == len && memcmp(n->str.u.s->p, s, len) == 0)
            return at - 1;
    }
}

static void names_grow(struct akv_jparser *p)
{
    struct akv_jinja *t = p->t;
    uint32_t cap = t->names_cap ? 2 * t->names_cap : 64;
    t->names = akv_jgrow(&t->arena, t->names, t->names_cap * sizeof *t->names, cap * sizeof *t->names);
    t->names_cap = cap;
    t->n_slots = 2 * cap;
    t->slots = akv_jalloc(&t->arena, t->n_slots * sizeof *t->slots);
    memset(t->slots, 0, t->n_slots * sizeof *t->slots);
    for (uint32_t i = 0; i < t->n_names; i++) {
        uint32_t slot;
        const struct akv_jstr *s = t->names[i].str.u.s;
        name_find(t, s->p, s->len, t->names[i].hash, &slot);
        t->slots[slot] = i + 1;
    }
}

uint32_t akv_jname_number(struct akv_jparser *p, const char *s, size_t len)
{
    struct akv_jinja *t = p->t;
    if (t->n_names == t->names_cap)
        names_grow(p);
    uint32_t slot, hash = name_hash(s, len), known = name_find(t, s, len, hash, &slot);
    if (known != UINT32_MAX)
        return known;
    t->names[t->n_names] = (struct akv_jname){.str = akv_jstr_ref(&t->arena, s, len), .hash = hash};
    t->slots[slot] = ++t->n_names;
    return t->n_names - 1;
}

/* ---- statements ---- */

static struct akv_jnode *block(struct akv_jparser *p, const char *const *ends);

/* The body of a statement: from the end of its opening tag to one of the ends (NULL-terminated), whose tag stays open. */
static struct akv_jnode *body(struct akv_jparser *p, const char *const *ends)
{
    akv_jtake_op(p, ":");
    akv_jexpect(p, AKV_JT_BLOCK_END, "the end of the tag");
    return block(p, ends);
}

static struct akv_jnode *body_to(struct akv_jparser *p, const char *end)
{
    const char *const ends[] = {end, NULL};
    struct akv_jnode *b = body(p, ends);
    akv_jtake(p);
    return b;
}

static struct akv_jnode *parse_if(struct akv_jparser *p)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    struct akv_jnode *node = akv_jnode_new(p, AKV_JN_IF);
    struct akv_jlist_of l = {0};
    do {
        struct akv_jnode *b = akv_jnode_new(p, AKV_JN_BRANCH);
        b->a = akv_jparse_tuple(p, false);
        b->b = body(p, ends);
        akv_jnode_append(&l, b);
    } while (akv_jtake_word(p, "elif"));
    if (akv_jtake_word(p, "else")) {
        struct akv_jnode *b = akv_jnode_new(p, AKV_JN_BRANCH);
        b->b = body_to(p, "endif");
        akv_jnode_append(&l, b);
    } else {
        akv_jtake(p);
    }
    node->a = l.first;
    return node;
}

static struct akv_jnode *parse_for(struct akv_jparser *p)
{
    static const char *const ends[] = {"else", "endfor", NULL};
    struct akv_jnode *node = akv_jnode_new(p, AKV_JN_FOR);
    node->a = akv_jparse_target(p, false);
    if (!akv_jtake_word(p, "in"))
        akv_junexpected(p, "in");
    node->b = akv_jparse_tuple(p, false);
    if (akv_jtake_word(p, "if"))
        node->d = akv_jparse_expr(p);
    node->flag = akv_jtake_word(p, "recursive");
    p->loops++;
    node->c = body(p, ends);
    p->loops--;
    if (akv_jtake_word(p, "else"))
        node->e = body_to(p, "endfor");
    else
        akv_jtake(p);
    return node;
}

static struct akv_jnode *parse_set(struct akv_jparser *p)
{
    struct akv_jnode *node = akv_jnode_new(p, AKV_JN_SET);
    node->a = akv_jparse_target(p, true);
    if (akv_jtake_op(p, "=")) {
        node->b = akv_jparse_tuple(p, true);
        return node;
    }
    node->type = AKV_JN_SET_BLOCK;
    node->c = akv_jparse_filters(p, false);
    node->b = body_to(p, "endset");
    return node;
}

/* `(a, b=1)`. */
static struct akv_jnode *parameters(struct akv_jparser *p)
{
    struct akv_jlist_of l = {0};
    bool defaults = false;
    akv_jexpect_op(p, "(");
    while (!akv_jtake_op(p, ")")) {
        if (l.first) {
            akv_jexpect_op(p, ",");
            if (akv_jtake_op(p, ")"))
                break;
        }
        const struct akv_jtok *t = akv_jexpect(p, AKV_JT_NAME, "a parameter's name");
        struct akv_jnode *param = akv_jnode_new(p, AKV_JN_PARAM);
        param->name = akv_jname_number(p, p->toks.text + t->at, t->len);
        if (akv_jtake_op(p, "="))
            param->a = akv_jparse_expr(p);
        else if (defaults)
            akv_jfail(&p->fault, "parameter without default after one with a default");
        defaults = param->a != NULL;
        akv_jnode_append(&l, param);
    }
    return l.first;
}

/* The body of a macro or call block: loops outside cannot be left from it, and it is noted which special names it reads. */
static void macro_body(struct akv_jparser *p, struct akv_jnode *node, const char *end)
{
    uint32_t loops = p->loops;
    uint8_t uses = p->uses;
    p->loops = 0;
    p->uses = 0;
    node->b = body_to(p, end);
    node->uses = p->uses;
    p->loops = loops;
    p->uses = (uint8_t)(p->uses | uses);
}

static struct akv_jnode *parse_macro(struct akv_jparser *p)
{
    struct akv_jnode *node = akv_jnode_new(p, AKV_JN_MACRO);
    const struct akv_jtok *t = akv_jexpect(p, AKV_JT_NAME, "the macro's name");
    node->name = akv_jname_number(p, p->toks.text + t->at, t->len);
    node->a = parameters(p);
    macro_body(p, node, "endmacro");
    return node;
}

static struct akv_jnode *parse_call(struct akv_jparser *p)
{
    struct akv_jnode *node = akv_jnode_new(p, AKV_JN_CALL_BLOCK);
    node->name = p->t->caller;
    if (akv_jis_op(p, "("))
        node->a = parameters(p);
    node->c = akv_jparse_expr(p);
    if (node->c->type != AKV_JN_CHAIN || node->c->tail->type != AKV_JN_CALL)
        akv_jfail(&p->fault, "call needs a call");
    macro_body(p, node, "endcall");
    return node;
}

static struct akv_jnode *parse_generation(struct akv_jparser *p)
{
    struct akv_jnode *node = akv_jnode_new(p, AKV_JN_GENERATION);
    macro_body(p, node, "endgeneration");
    return node;
}

static struct akv_jnode *parse_filter(struct akv_jparser *p)
{
    struct akv_jnode *node = akv_jnode_new(p, AKV_JN_FILTER_BLOCK);
    node->c = akv_jparse_filters(p, true);
    node->b = body_to(p, "endfilter");
    return node;
}

static struct akv_jnode *parse_with(struct akv_jparser *p)
{
    struct akv_jnode *node = akv_jnode_new(p, AKV_JN_WITH);
    struct akv_jlist_of l = {0};
    while (akv_jpeek(p)->type != AKV_JT_BLOCK_END) {
        if (l.first)
            akv_jexpect_op(p, ",");
        struct akv_jnode *set = akv_jnode_new(p, AKV_JN_SET);
        set->a = akv_jparse_target(p, false);
        akv_jexpect_op(p, "=");
        set->b = akv_jparse_expr(p);
        akv_jnode_append(&l, set);
    }
    node->a = l.first;
    node->b = body_to(p, "endwith");
    return node;
}

static struct akv_jnode *leave(struct akv_jparser *p, enum akv_jnode_type type)
{
    if (!p->loops)
        akv_jfail(&p->fault, "%s outside a loop", type == AKV_JN_BREAK ? "break" : "continue");
    return akv_jnode_new(p, type);
}

static struct akv_jnode *parse_break(struct akv_jparser *p)
{
    return leave(p, AKV_JN_BREAK);
}

static struct akv_jnode *parse_continue(struct akv_jparser *p)
{
    return leave(p, AKV_JN_CONTINUE);
}

static struct akv_jnode *parse_print(struct akv_jparser *p)
{
    struct akv_jlist_of l = {0};
    while (akv_jpeek(p)->type != AKV_JT_BLOCK_END) {
        if (l.first)
            akv_jexpect_op(p, ",");
        struct akv_jnode *node = akv_jnode_new(p, AKV_JN_PRINT);
        node->a = akv_jparse_expr(p);
        akv_jnode_append(&l, node);
    }
    return l.first;
}

static const struct {
    const char *word;
    struct akv_jnode *(*parse)(struct akv_jparser *p);
} statements[] = {
    {"if", parse_if},
    {"for", parse_for},
    {"set", parse_set},
    {"macro", parse_macro},
    {"call", parse_call},
    {"filter", parse_filter},
    {"with", parse_with},
    {"break", parse_break},
    {"continue", parse_continue},
    {"print", parse_print},
    {"generation", parse_generation},
};

static struct akv_jnode *statement(struct akv_jparser *p)
{
    const struct akv_jtok *t = akv_jpeek(p);
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) {
        if (akv_jtake_word(p, statements[i].word)) {
            akv_jnest(p);
            struct akv_jnode *node = statements[i].parse(p);
            p->nest--;
            return node;
        }
    }
    p->fault.line = t->line;
    if (t->type != AKV_JT_NAME)
        akv_junexpected(p, "a tag's name");
    akv_jfail(&p->fault, "unknown tag '%.*s'", (int)(t->len < 40 ? t->len : 40), p->toks.text + t->at);
}

static bool at_end(const struct akv_jparser *p, const char *const *ends)
{
    for (; ends && *ends; ends++) {
        if (akv_jis_word(p, *ends))
            return true;
    }
    return false;
}

/* Text, prints and statements up to a tag that starts with one of the ends (taken up to there), or to the end of the template. */
static struct akv_jnode *block(struct akv_jparser *p, const char *const *ends)
{
    struct akv_jlist_of l = {0};
    for (;;) {
        const struct akv_jtok *t = akv_jpeek(p);
        struct akv_jnode *node;
        if (t->type == AKV_JT_EOF) {
            if (ends)
                akv_junexpected(p, ends[1] ? ends[2] ? ends[2] : ends[1] : ends[0]);
            return l.first;
        }
        akv_jtake(p);
        if (t->type == AKV_JT_DATA) {
            node = akv_jnode_new(p, AKV_JN_TEXT);
            node->val = akv_jstr_ref(&p->t->arena, p->toks.text + t->at, t->len);
        } else if (t->type == AKV_JT_VAR_BEGIN) {
            node = akv_jnode_new(p, AKV_JN_PRINT);
            node->a = akv_jparse_tuple(p, true);
            akv_jexpect(p, AKV_JT_VAR_END, "}}");
        } else {
            if (at_end(p, ends))
                return l.first;
            node = statement(p);
            akv_jexpect(p, AKV_JT_BLOCK_END, "the end of the tag");
        }
        for (struct akv_jnode *next; node; node = next) { /* `print` may make none or several */
            next = node->next;
            akv_jnode_append(&l, node);
        }
    }
}

/* ---- templates ---- */

static int parse(struct akv_jparser *p, const char *text, size_t len)
{
    struct akv_jinja *t = p->t;
    size_t bad;
    if (setjmp(p->fault.env))
        return p->fault.rc;
    if (len > AKV_JTEMPLATE_MAX)
        akv_jfail_as(&p->fault, AKV_E_INPUT, "template: larger than %zu KiB", AKV_JTEMPLATE_MAX >> 10);
    if (!akv_utf8_valid(text, len, &bad))
        akv_jfail_as(&p->fault, AKV_E_INPUT, "template: byte %zu: not valid UTF-8", bad);
    akv_jlex(&p->toks, &t->arena, &p->scratch, text, len);
    t->loop = akv_jname_number(p, "loop", 4);
    t->caller = akv_jname_number(p, "caller", 6);
    t->varargs = akv_jname_number(p, "varargs", 7);
    t->kwargs = akv_jname_number(p, "kwargs", 6);
    struct akv_jnode *body_node = block(p, NULL);
    t->body = body_node;
    akv_jfind_owned(p, body_node);
    return 0;
}

int akv_jinja_parse(struct akv_jinja **out, const char *text, size_t len, struct akv_err *err)
{
    struct akv_jparser *p = akv_alloc(1, sizeof *p, err);
    struct akv_jinja *t = akv_alloc(1, sizeof *t, err);
    int rc = AKV_E_IO;
    *out = NULL;
    if (p && t) {
        p->t = t;
        p->fault.err = err;
        p->fault.line = 1;
        t->arena.max = PARSE_MEMORY_MAX;
        t->arena.fault = &p->fault;
        p->scratch.max = PARSE_MEMORY_MAX;
        p->scratch.fault = &p->fault;
        rc = parse(p, text, len);
        akv_jarena_release(&p->scratch);
    }
    if (rc == 0) {
        t->arena.fault = NULL; /* nothing is allocated from here on */
        *out = t;
        t = NULL;
    }
    akv_jinja_free(t);
    free(p);
    return rc;
}

void akv_jinja_free(struct akv_jinja *t)
{
    if (t)
        akv_jarena_release(&t->arena);
    free(t);
}
