/* Inside the template interpreter: tokens and the tree. A template is immutable once parsed. */
#ifndef AKV_CHAT_JINJA_NODE_H
#define AKV_CHAT_JINJA_NODE_H

#include "chat/jinja_value.h"

#define AKV_JTEMPLATE_MAX ((size_t)1 << 20) /* bytes of template text */
#define AKV_JNEST_MAX 200                   /* nesting of statements, brackets and unary operators in the text */

/* ---- tokens ---- */

enum akv_jtok_type {
    AKV_JT_EOF,
    AKV_JT_DATA,
    AKV_JT_VAR_BEGIN,
    AKV_JT_VAR_END,
    AKV_JT_BLOCK_BEGIN,
    AKV_JT_BLOCK_END,
    AKV_JT_NAME,
    AKV_JT_STR, /* with its quotes */
    AKV_JT_INT,
    AKV_JT_FLOAT,
    AKV_JT_OP
};

struct akv_jtok {
    uint32_t at, len; /* in akv_jtoks.text */
    uint32_t line;
    uint8_t type; /* enum akv_jtok_type */
    char op[3];   /* AKV_JT_OP: the operator, padded with zeros */
};

struct akv_jtoks {
    const char *text; /* with newlines normalised, in the arena */
    struct akv_jtok *v;
    size_t n, cap;
};

/* Cut a whole template (valid UTF-8) into tokens (in scratch), white space control applied. The last one is AKV_JT_EOF. */
void akv_jlex(struct akv_jtoks *out, struct akv_jarena *a, struct akv_jarena *scratch, const char *text, size_t len);

/* ---- the tree ---- */

enum akv_jnode_type {
    /* statements */
    AKV_JN_TEXT,         /* val */
    AKV_JN_PRINT,        /* a */
    AKV_JN_IF,           /* a: branches */
    AKV_JN_BRANCH,       /* a: test or NULL for else; b: body */
    AKV_JN_FOR,          /* a: target, b: items, c: body, d: test or NULL, e: else body; flag: recursive */
    AKV_JN_SET,          /* a: target, b: value */
    AKV_JN_SET_BLOCK,    /* a: target, b: body, c: chain of filters whose base is NULL, or NULL */
    AKV_JN_MACRO,        /* name; a: parameters, b: body; uses */
    AKV_JN_PARAM,        /* name; a: default or NULL */
    AKV_JN_CALL_BLOCK,   /* a: parameters, b: body, c: the call (a chain that ends in one); uses */
    AKV_JN_FILTER_BLOCK, /* b: body, c: chain of filters whose base is NULL */
    AKV_JN_WITH,         /* a: AKV_JN_SET with values evaluated outside; b: body */
    AKV_JN_GENERATION,   /* b: body */
    AKV_JN_BREAK,
    AKV_JN_CONTINUE,
    /* targets of assignments, besides AKV_JN_NAME and AKV_JN_TUPLE */
    AKV_JN_SPACE_ATTR, /* name; val: the attribute */
    /* expressions */
    AKV_JN_CONST,   /* val */
    AKV_JN_NAME,    /* name */
    AKV_JN_LIST,    /* a: items */
    AKV_JN_TUPLE,   /* a: items */
    AKV_JN_DICT,    /* a: keys, each with b: its value */
    AKV_JN_CHAIN,   /* a: where to start, b: steps, applied from left to right */
    AKV_JN_CONCAT,  /* a: operands */
    AKV_JN_COMPARE, /* a: first operand, b: AKV_JN_OPERATE steps */
    AKV_JN_AND,     /* a: operands */
    AKV_JN_OR,      /* a: operands */
    AKV_JN_NOT,     /* a */
    AKV_JN_NEG,     /* a */
    AKV_JN_POS,     /* a */
    AKV_JN_COND,    /* a: test, b: then, c: else or NULL */
    /* steps of a chain */
    AKV_JN_ATTR,    /* val: the name */
    AKV_JN_ITEM,    /* a: the key */
    AKV_JN_SLICE,   /* a, b, c: start, stop, step, each may be NULL */
    AKV_JN_CALL,    /* a: arguments */
    AKV_JN_FILTER,  /* val: the name; func (NULL: unknown); a: arguments */
    AKV_JN_TEST,    /* the same; flag: negated */
    AKV_JN_OPERATE, /* op, a: the right operand */
    AKV_JN_ARG      /* of a call; a; val: keyword or AKV_J_MISSING; op: 1 for *a, 2 for **a */
};

#define AKV_JUSES_CALLER 1u
#define AKV_JUSES_VARARGS 2u
#define AKV_JUSES_KWARGS 4u

struct akv_jowned { /* variables that a scope starts with as undefined: jinja_scope.c */
    uint32_t n;
    uint32_t names[];
};

struct akv_jnode {
    uint8_t type; /* enum akv_jnode_type */
    uint8_t op;   /* enum akv_jop */
    uint8_t uses; /* AKV_JUSES_* */
    bool flag;
    uint32_t line;
    uint32_t name;          /* number of a variable's name */
    struct akv_jnode *next; /* in a list */
    struct akv_jnode *a, *b, *c, *d, *e;
    struct akv_jnode *tail; /* AKV_JN_CHAIN, AKV_JN_COMPARE: the last step */
    const struct akv_jfunc *func;
    const struct akv_jowned *owned, *owned_else; /* of the scopes that the statement opens; NULL: none */
    struct akv_jval val;
};

struct akv_jname {
    struct akv_jval str;
    uint32_t hash;
};

struct akv_jinja {
    struct akv_jarena arena;
    const struct akv_jnode *body;
    const struct akv_jowned *owned;
    struct akv_jname *names;
    uint32_t n_names, names_cap;
    uint32_t *slots; /* hash index of names: 0 empty, else number + 1 */
    uint32_t n_slots;
    uint32_t loop, caller, varargs, kwargs; /* numbers of these names */
};

/* ---- parser state, shared by jinja_tok.c, jinja_literal.c, jinja_expr.c and jinja_parse.c (statements) ---- */

struct akv_jparser {
    struct akv_jfault fault;
    struct akv_jinja *t;
    struct akv_jarena scratch; /* what is not needed after parsing */
    struct akv_jtoks toks;
    size_t at;
    uint32_t nest, loops;
    uint8_t uses; /* special names read since the enclosing macro began */
};

struct akv_jlist_of { /* a list of nodes being built */
    struct akv_jnode *first, *last;
};

/* Fill in what the scopes of the template own. */
void akv_jfind_owned(struct akv_jparser *p, struct akv_jnode *body);

struct akv_jnode *akv_jnode_new(struct akv_jparser *p, enum akv_jnode_type type);
struct akv_jnode *akv_jnode_of(struct akv_jparser *p, enum akv_jnode_type type, struct akv_jnode *a);
void akv_jnode_append(struct akv_jlist_of *l, struct akv_jnode *n);
uint32_t akv_jname_number(struct akv_jparser *p, const char *s, size_t len);
void akv_jnest(struct akv_jparser *p); /* one level deeper; p->nest-- takes it off */

static inline const struct akv_jtok *akv_jpeek(const struct akv_jparser *p)
{
    return &p->toks.v[p->at];
}
const struct akv_jtok *akv_jtake(struct akv_jparser *p);
bool akv_jtok_is_op(const struct akv_jtok *t, const char *op);
bool akv_jtok_is_word(const struct akv_jparser *p, const struct akv_jtok *t, const char *word);
struct akv_jval akv_jtok_str(struct akv_jparser *p, const struct akv_jtok *t);
bool akv_jis_op(const struct akv_jparser *p, const char *op); /* the next token */
bool akv_jis_word(const struct akv_jparser *p, const char *word);
bool akv_jtake_op(struct akv_jparser *p, const char *op);
bool akv_jtake_word(struct akv_jparser *p, const char *word);
void akv_jexpect_op(struct akv_jparser *p, const char *op);
const struct akv_jtok *akv_jexpect(struct akv_jparser *p, enum akv_jtok_type type, const char *what);
void akv_junexpected(struct akv_jparser *p, const char *wanted) __attribute__((noreturn));

/* cond: whether `a if b else c` may stand there without brackets (not in the head of a for or if). */
struct akv_jnode *akv_jparse_number(struct akv_jparser *p);
struct akv_jnode *akv_jparse_primary(struct akv_jparser *p);
struct akv_jnode *akv_jparse_expr(struct akv_jparser *p);
struct akv_jnode *akv_jparse_tuple(struct akv_jparser *p, bool cond);
struct akv_jnode *akv_jparse_target(struct akv_jparser *p, bool space);
struct akv_jnode *akv_jparse_filters(struct akv_jparser *p, bool inline_start); /* NULL if there is none */

#endif
