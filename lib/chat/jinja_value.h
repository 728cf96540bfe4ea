/*
 * Inside the template interpreter: values, the state of one render, and what the parts offer each other.
 *
 * Memory: everything that a render makes lies in its arena, which has a cap and is freed as a whole; no value is ever freed alone.
 * Errors: akv_jfail() records the first error and jumps back to the render (or parse), the only place that holds resources. So no
 * function here returns an error, and none may keep a resource outside the arena across a call that can fail.
 * Values are immutable except namespaces, and lists that the template itself made.
 * Strings are UTF-8; lengths and positions that a template sees count code points.
 */
#ifndef AKV_CHAT_JINJA_VALUE_H
#define AKV_CHAT_JINJA_VALUE_H

#include <setjmp.h>

#include "base/json.h"
#include "chat/jinja.h"

/* ---- errors and memory ---- */

struct akv_jfault {
    jmp_buf env;
    struct akv_err *err;
    int rc;
    uint32_t line; /* of the template, where the work is now */
};

/* "template line N: ..." */
void akv_jfail(struct akv_jfault *f, const char *fmt, ...) __attribute__((noreturn, format(printf, 2, 3)));
/* The same with the whole message and code given by the caller. */
void akv_jfail_as(struct akv_jfault *f, int code, const char *fmt, ...) __attribute__((noreturn, format(printf, 3, 4)));

struct akv_jarena {
    struct akv_jchunk *chunks;
    char *at, *end; /* the free part of the newest small chunk */
    size_t used, max;
    struct akv_jfault *fault;
};

/* 16-byte aligned, not cleared; fails through the fault when the cap is reached. */
void *akv_jalloc(struct akv_jarena *a, size_t n);
/* A larger copy of the n_old bytes at p, in place where p was the last allocation. */
void *akv_jgrow(struct akv_jarena *a, void *p, size_t n_old, size_t n_new);
void akv_jarena_release(struct akv_jarena *a);

/* ---- values ---- */

enum akv_jkind {
    AKV_J_MISSING, /* an argument that was not given; never seen by a template */
    AKV_J_UNDEF,
    AKV_J_NONE,
    AKV_J_BOOL,
    AKV_J_INT,
    AKV_J_FLOAT,
    AKV_J_STR,
    AKV_J_LIST, /* and tuples, dict views, iterators: see akv_jlist.type */
    AKV_J_DICT,
    AKV_J_RANGE,
    AKV_J_SPACE, /* namespace(); u.d */
    AKV_J_MACRO,
    AKV_J_LOOP,
    AKV_J_BOUND, /* a method of a value */
    AKV_J_FUNC   /* a global function */
};

/* What an undefined value is called in messages: u.s is the name or NULL. */
enum akv_jundef { AKV_JU_NAME, AKV_JU_ATTR, AKV_JU_REFUSED, AKV_JU_OTHER };

struct akv_jval {
    uint8_t kind; /* enum akv_jkind */
    bool safe;    /* AKV_J_STR: marked by `safe` or `escape`; what is joined to it gets escaped */
    uint16_t why; /* AKV_J_UNDEF: enum akv_jundef */
    union {
        int64_t i; /* also AKV_J_BOOL: 0 or 1 */
        double f;
        const struct akv_jstr *s;
        struct akv_jlist *l;
        struct akv_jdict *d;
        const struct akv_jrange *r;
        struct akv_jmacro *m;
        struct akv_jloop *loop;
        const struct akv_jbound *b;
        const struct akv_jfunc *fn;
    } u;
};

/* Shared growing storage: who holds all of the used part may extend it in place, so that repeated joining is linear. */
struct akv_jroom {
    size_t cap, used; /* bytes of a string, elements of a list */
};

struct akv_jstr {
    const char *p;          /* never NULL */
    size_t len;             /* bytes */
    size_t n_chars;         /* code points */
    struct akv_jroom *room; /* p lies in it, or NULL */
};

enum akv_jlist_type { AKV_JL_LIST, AKV_JL_TUPLE, AKV_JL_KEYS, AKV_JL_VALUES, AKV_JL_ITEMS, AKV_JL_ITER };

struct akv_jlist {
    struct akv_jval *v;
    size_t n;
    size_t at;              /* AKV_JL_ITER: what has been consumed */
    struct akv_jroom *room; /* v lies in it, or NULL */
    const json_t *lazy;     /* not unpacked yet: akv_jlist_open() */
    uint8_t type;           /* enum akv_jlist_type */
    bool own;               /* made by the template: may be changed */
};

struct akv_jpair {
    struct akv_jval key, val;
};

struct akv_jdict {
    struct akv_jpair *v; /* in order of insertion */
    size_t n, cap;
    uint32_t *slots; /* hash index (0: empty, else position + 1) once there are more than a few; n_slots is a power of two */
    size_t n_slots;
    const json_t *lazy;
};

struct akv_jrange {
    int64_t start, stop, step, n;
};

struct akv_jbound {
    struct akv_jval self;
    const struct akv_jfunc *method;
};

/* Arguments of a call. */
struct akv_jkw {
    const struct akv_jstr *name;
    struct akv_jval val;
};

struct akv_jargs {
    const struct akv_jval *v;
    size_t n;
    const struct akv_jkw *kw;
    size_t n_kw;
};

struct akv_jrun;

/*
 * A method, filter, test or global function. sig names the parameters, "width,first,blank"; the first n_must are required; the
 * function receives one value for each, AKV_J_MISSING where not given. sig NULL: the function takes the arguments as they are.
 * Neither fn nor raw: a method that would change its value, which is refused.
 */
struct akv_jfunc {
    const char *name;
    const char *sig;
    unsigned n_must;
    struct akv_jval (*fn)(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a);
    struct akv_jval (*raw)(struct akv_jrun *r, struct akv_jval self, const struct akv_jargs *args);
};

struct akv_jvar {
    uint32_t name;
    struct akv_jval val;
};

struct akv_jscope {
    struct akv_jscope *up; /* NULL: the globals */
    struct akv_jvar *v;
    uint32_t n, cap;
    bool kept; /* a macro refers to it */
};

struct akv_jmacro {
    const struct akv_jnode *node;
    struct akv_jscope *home;
};

/* Iterating over any value. */
struct akv_jiter {
    struct akv_jval src;
    size_t at;
};

struct akv_jloop {
    const struct akv_jnode *node;
    struct akv_jscope *scope; /* around the loop */
    struct akv_jiter it;
    int64_t index0, depth0;
    int64_t length; /* -1: not known yet */
    struct akv_jval prev, cur, after, changed;
    bool has_after, at_end;
    bool listed; /* `it` goes over items that have passed the condition already */
};

/* Text being collected in the arena. */
struct akv_jtext {
    char *p;
    size_t len, cap;
};

/* ---- the state of one render ---- */

struct akv_jrun {
    struct akv_jfault fault;
    struct akv_jarena arena;
    const struct akv_jinja *t;
    struct akv_jval *globals; /* by name number */
    struct akv_jscope *scope;
    struct akv_jtext *sink; /* NULL: out */
    struct akv_buf *out;
    size_t out_start, out_max;
    uint64_t steps;         /* left */
    uint32_t calls, frames; /* nesting now */
    uint32_t max_calls, max_frames;
    int64_t now;
};

/* Count n steps of work. */
static inline void akv_jtick(struct akv_jrun *r, uint64_t n)
{
    if (n > r->steps)
        akv_jfail(&r->fault, "too many steps");
    r->steps -= n;
}

/* Count the work of passing over n bytes. */
static inline void akv_jtick_bytes(struct akv_jrun *r, size_t n)
{
    akv_jtick(r, n / 32);
}

/* One more level of recursion; the caller takes it off again by r->frames--. */
static inline void akv_jenter(struct akv_jrun *r)
{
    if (++r->frames > r->max_frames)
        akv_jfail(&r->fault, "nested too deeply");
}

#define akv_jdie(r, ...) akv_jfail(&(r)->fault, __VA_ARGS__)

/* ---- making values (jinja_value.c) ---- */

#define AKV_JTWO_52 4503599627370496.0    /* from here on every float is whole */
#define AKV_JTWO_63 9223372036854775808.0 /* the first float behind the integers */

#define AKV_JNONE ((struct akv_jval){.kind = AKV_J_NONE})
#define AKV_JMISSING ((struct akv_jval){.kind = AKV_J_MISSING})

static inline struct akv_jval akv_jbool(bool b)
{
    return (struct akv_jval){.kind = AKV_J_BOOL, .u.i = b};
}

static inline struct akv_jval akv_jint(int64_t i)
{
    return (struct akv_jval){.kind = AKV_J_INT, .u.i = i};
}

static inline struct akv_jval akv_jfloat(double f)
{
    return (struct akv_jval){.kind = AKV_J_FLOAT, .u.f = f};
}

static inline struct akv_jval akv_jundef(enum akv_jundef why, const struct akv_jstr *name)
{
    return (struct akv_jval){.kind = AKV_J_UNDEF, .why = (uint16_t)why, .u.s = name};
}

static inline bool akv_jis_int(struct akv_jval v) /* bool is an int, as in Python */
{
    return v.kind == AKV_J_INT || v.kind == AKV_J_BOOL;
}

static inline bool akv_jis_num(struct akv_jval v)
{
    return akv_jis_int(v) || v.kind == AKV_J_FLOAT;
}

struct akv_jval akv_jstr_ref(struct akv_jarena *a, const char *p, size_t len); /* p must outlive the render */
struct akv_jval akv_jstr_of(struct akv_jrun *r, const struct akv_jtext *t); /* the collected text; t may not be used afterwards */
bool akv_jstr_is(const struct akv_jstr *s, const char *text);
struct akv_jval akv_jlist_new(struct akv_jrun *r, enum akv_jlist_type type);
void akv_jlist_push(struct akv_jrun *r, struct akv_jlist *l, struct akv_jval v);
void akv_jlist_open(struct akv_jrun *r, struct akv_jlist *l);
struct akv_jval akv_jdict_new(struct akv_jrun *r, enum akv_jkind kind);
void akv_jdict_open(struct akv_jrun *r, struct akv_jdict *d);
struct akv_jval *akv_jdict_find(struct akv_jrun *r, struct akv_jdict *d,
                                struct akv_jval key); /* NULL: absent; an unhashable key fails */
void akv_jdict_set(struct akv_jrun *r, struct akv_jdict *d, struct akv_jval key, struct akv_jval val);
struct akv_jval akv_jfrom_json(struct akv_jrun *r, const json_t *j); /* borrows j for the whole render */

/* ---- what Python says about values (jinja_compare.c) ---- */

const char *akv_jtype(struct akv_jval v); /* for messages */
bool akv_jtruth(struct akv_jrun *r, struct akv_jval v);
bool akv_jequal(struct akv_jrun *r, struct akv_jval a, struct akv_jval b);
bool akv_jless(struct akv_jrun *r, struct akv_jval a, struct akv_jval b); /* fails for unordered types */
bool akv_jcontains(struct akv_jrun *r, struct akv_jval box, struct akv_jval v);
bool akv_jsame(struct akv_jval a, struct akv_jval b); /* `is` */
bool akv_jhashable(struct akv_jval v);
uint64_t akv_jhash(struct akv_jrun *r, struct akv_jval v); /* fails when unhashable */
int64_t akv_jlen(struct akv_jrun *r, struct akv_jval v);
void akv_jundef_fail(struct akv_jrun *r, struct akv_jval v) __attribute__((noreturn));

struct akv_jiter akv_jiterate(struct akv_jrun *r, struct akv_jval v);
bool akv_jnext(struct akv_jrun *r, struct akv_jiter *it, struct akv_jval *out);
struct akv_jval akv_jto_list(struct akv_jrun *r, struct akv_jval v, enum akv_jlist_type type);
void akv_jsort(struct akv_jrun *r, struct akv_jpair *v, size_t n, bool reverse); /* stable, by key */

/* ---- text (jinja_show.c, jinja_text.c) ---- */

void akv_jput(struct akv_jrun *r, struct akv_jtext *t, const char *p, size_t n);
void akv_jputs(struct akv_jrun *r, struct akv_jtext *t, const char *s);
void akv_jput_char(struct akv_jrun *r, struct akv_jtext *t, uint32_t c);
void akv_jput_str(struct akv_jrun *r, struct akv_jtext *t, struct akv_jval v);  /* str(v) */
void akv_jput_repr(struct akv_jrun *r, struct akv_jtext *t, struct akv_jval v); /* repr(v) */
struct akv_jval akv_jto_str(struct akv_jrun *r, struct akv_jval v);             /* keeps the mark of a safe string */

uint32_t akv_jchar(const char *p, size_t len, size_t *used); /* decode at p, len > 0 */
size_t akv_jchar_before(const char *p, size_t at);           /* where the character before at starts, at > 0 */
size_t akv_jchar_put(char out[4], uint32_t c);
bool akv_jchar_space(uint32_t c);            /* str.isspace */
bool akv_jchar_name(uint32_t c, bool first); /* in identifiers */
bool akv_jchar_printable(uint32_t c);
size_t akv_jchar_offset(struct akv_jrun *r, const struct akv_jstr *s, size_t index); /* byte offset of a code point */

/* ---- numbers (jinja_arith.c) ---- */

enum akv_jread { AKV_JREAD_OK, AKV_JREAD_BAD, AKV_JREAD_RANGE };

/* Integers as Python's int() reads them: sign, single underscores; base 0 means 10 or what a prefix 0x, 0o, 0b says. */
enum akv_jread akv_jread_int(const char *p, size_t n, unsigned base, int64_t *out);
/* Floats as Python's float() reads them, in any locale; what is too large is infinite. */
bool akv_jread_float(struct akv_jarena *a, const char *p, size_t n, double *out);

/* ---- evaluating ---- */

enum akv_jop {
    AKV_JOP_ADD,
    AKV_JOP_SUB,
    AKV_JOP_MUL,
    AKV_JOP_DIV,
    AKV_JOP_FLOORDIV,
    AKV_JOP_MOD,
    AKV_JOP_POW,
    AKV_JOP_EQ,
    AKV_JOP_NE,
    AKV_JOP_LT,
    AKV_JOP_LE,
    AKV_JOP_GT,
    AKV_JOP_GE,
    AKV_JOP_IN,
    AKV_JOP_NOTIN
};

struct akv_jval akv_jarith(struct akv_jrun *r, enum akv_jop op, struct akv_jval a, struct akv_jval b); /* jinja_arith.c */
struct akv_jval akv_jneg(struct akv_jrun *r, struct akv_jval v);
struct akv_jval akv_jconcat(struct akv_jrun *r, struct akv_jval a, struct akv_jval b); /* two strings, joined */
struct akv_jval akv_jescape(struct akv_jrun *r, struct akv_jval v); /* str(v) with HTML escapes unless it is safe; safe */
bool akv_jcompare(struct akv_jrun *r, enum akv_jop op, struct akv_jval a, struct akv_jval b);
struct akv_jval akv_jformat(struct akv_jrun *r, struct akv_jval fmt, struct akv_jval args); /* "..." % args */

struct akv_jval akv_jattr(struct akv_jrun *r, struct akv_jval v, const struct akv_jstr *name); /* v.name (jinja_access.c) */
struct akv_jval akv_jitem(struct akv_jrun *r, struct akv_jval v, struct akv_jval key);         /* v[key] */
struct akv_jval akv_jslice(struct akv_jrun *r, struct akv_jval v, struct akv_jval lo, struct akv_jval hi, struct akv_jval step);

struct akv_jval akv_jinvoke(struct akv_jrun *r, const struct akv_jfunc *f, struct akv_jval self, const struct akv_jargs *args);
struct akv_jval akv_jcall(struct akv_jrun *r, struct akv_jval callee, const struct akv_jargs *args);
struct akv_jval akv_jcall_block(struct akv_jrun *r, const struct akv_jnode *chain, struct akv_jval caller);
struct akv_jval akv_jcall_macro(struct akv_jrun *r, struct akv_jmacro *m, const struct akv_jargs *args);
struct akv_jval akv_jcall_loop(struct akv_jrun *r, struct akv_jloop *loop, struct akv_jval items);
struct akv_jval akv_jeval(struct akv_jrun *r, const struct akv_jnode *n);
struct akv_jval akv_japply(struct akv_jrun *r, const struct akv_jnode *steps, struct akv_jval v); /* run a chain's steps */
int64_t akv_jloop_length(struct akv_jrun *r, struct akv_jloop *loop);
/* MISSING: no such attribute. */
struct akv_jval akv_jloop_attr(struct akv_jrun *r, struct akv_jloop *loop, const struct akv_jstr *name);
struct akv_jval akv_jvar_get(struct akv_jrun *r, uint32_t name);
struct akv_jval akv_jmacro_attr(struct akv_jrun *r, struct akv_jmacro *m, const struct akv_jstr *name);
void akv_jvar_set(struct akv_jrun *r, struct akv_jscope *s, uint32_t name, struct akv_jval v); /* s NULL: global */

const struct akv_jfunc *akv_jmethod_find(struct akv_jval v, const struct akv_jstr *name);
const struct akv_jfunc *akv_jfilter_find(const struct akv_jstr *name);
const struct akv_jfunc *akv_jtest_find(const struct akv_jstr *name);
const struct akv_jfunc *akv_jglobal_find(const struct akv_jstr *name);

#endif
