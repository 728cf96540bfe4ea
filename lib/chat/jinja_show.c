/* Values as text: str(), repr(), tojson. */
#include "chat/jinja_value.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "chat/jinja_json.h"
#include "chat/jinja_node.h"

void akv_jput(struct akv_jrun *r, struct akv_jtext *t, const char *p, size_t n)
{
    if (n > t->cap - t->len) {
        size_t cap = t->cap ? t->cap : 128;
        while (cap - t->len < n && cap <= r->arena.max)
            cap *= 2;
        t->p = akv_jgrow(&r->arena, t->p, t->cap, cap);
        t->cap = cap;
    }
    akv_jtick_bytes(r, n);
    if (n)
        memcpy(t->p + t->len, p, n);
    t->len += n;
}

void akv_jputs(struct akv_jrun *r, struct akv_jtext *t, const char *s)
{
    akv_jput(r, t, s, strlen(s));
}

void akv_jput_char(struct akv_jrun *r, struct akv_jtext *t, uint32_t c)
{
    char bytes[4];
    akv_jput(r, t, bytes, akv_jchar_put(bytes, c));
}

/* inf and nan as Python spells them, all else shortest. */
static void put_float(struct akv_jrun *r, struct akv_jtext *t, double f, bool json)
{
    char text[64];
    struct akv_buf b;
    if (f != f) {
        akv_jputs(r, t, json ? "NaN" : "nan");
    } else if (f - f != 0) {
        akv_jputs(r, t, json ? f > 0 ? "Infinity" : "-Infinity" : f > 0 ? "inf" : "-inf");
    } else {
        akv_buf_init(&b, 0);
        akv_json_real(&b, f);
        snprintf(text, sizeof text, "%s", b.data);
        akv_buf_release(&b);
        akv_jputs(r, t, text);
    }
}

static void put_int(struct akv_jrun *r, struct akv_jtext *t, int64_t i)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, i);
    akv_jputs(r, t, text);
}

static void put_hex(struct akv_jrun *r, struct akv_jtext *t, uint32_t c)
{
    char text[12];
    snprintf(text, sizeof text, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", (unsigned)c);
    akv_jputs(r, t, text);
}

static void repr_string(struct akv_jrun *r, struct akv_jtext *t, const struct akv_jstr *s)
{
    bool single = s->len && memchr(s->p, '\'', s->len), dbl = s->len && memchr(s->p, '"', s->len);
    char quote = single && !dbl ? '"' : '\'';
    akv_jput(r, t, &quote, 1);
    for (size_t at = 0, used; at < s->len; at += used) {
        uint32_t c = akv_jchar(s->p + at, s->len - at, &used);
        if (c == '\\' || c == (uint8_t)quote) {
            akv_jputs(r, t, "\\");
            akv_jput_char(r, t, c);
        } else if (c == '\n' || c == '\r' || c == '\t') {
            akv_jputs(r, t, c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t");
        } else if (akv_jchar_printable(c)) {
            akv_jput(r, t, s->p + at, used);
        } else {
            put_hex(r, t, c);
        }
    }
    akv_jput(r, t, &quote, 1);
}

static void repr_list(struct akv_jrun *r, struct akv_jtext *t, struct akv_jlist *l)
{
    static const char *const open[] = {"[", "(", "dict_keys([", "dict_values([", "dict_items(["};
    static const char *const close[] = {"]", ")", "])", "])", "])"};
    if (l->type == AKV_JL_ITER) {
        akv_jputs(r, t, "<iterator>");
        return;
    }
    akv_jlist_open(r, l);
    akv_jputs(r, t, open[l->type]);
    for (size_t i = 0; i < l->n; i++) {
        if (i)
            akv_jputs(r, t, ", ");
        akv_jput_repr(r, t, l->v[i]);
    }
    akv_jputs(r, t, l->type == AKV_JL_TUPLE && l->n == 1 ? ",)" : close[l->type]);
}

static void repr_dict(struct akv_jrun *r, struct akv_jtext *t, struct akv_jdict *d)
{
    akv_jdict_open(r, d);
    akv_jputs(r, t, "{");
    for (size_t i = 0; i < d->n; i++) {
        if (i)
            akv_jputs(r, t, ", ");
        akv_jput_repr(r, t, d->v[i].key);
        akv_jputs(r, t, ": ");
        akv_jput_repr(r, t, d->v[i].val);
    }
    akv_jputs(r, t, "}");
}

static void repr_range(struct akv_jrun *r, struct akv_jtext *t, const struct akv_jrange *g)
{
    akv_jputs(r, t, "range(");
    put_int(r, t, g->start);
    akv_jputs(r, t, ", ");
    put_int(r, t, g->stop);
    if (g->step != 1) {
        akv_jputs(r, t, ", ");
        put_int(r, t, g->step);
    }
    akv_jputs(r, t, ")");
}

static void repr_loop(struct akv_jrun *r, struct akv_jtext *t, struct akv_jloop *loop)
{
    akv_jputs(r, t, "<LoopContext ");
    put_int(r, t, loop->index0 + 1);
    akv_jputs(r, t, "/");
    put_int(r, t, akv_jloop_length(r, loop));
    akv_jputs(r, t, ">");
}

/* Things that have no text of their own get a name without an address, so that equal renders stay equal. */
static void repr_callable(struct akv_jrun *r, struct akv_jtext *t, struct akv_jval v)
{
    if (v.kind == AKV_J_MACRO) {
        akv_jputs(r, t, "<Macro ");
        repr_string(r, t, r->t->names[v.u.m->node->name].str.u.s);
    } else if (v.kind == AKV_J_BOUND) {
        akv_jputs(r, t, "<built-in method ");
        akv_jputs(r, t, v.u.b->method->name);
        akv_jputs(r, t, " of ");
        akv_jputs(r, t, akv_jtype(v.u.b->self));
    } else {
        akv_jputs(r, t, "<function ");
        akv_jputs(r, t, v.u.fn->name);
    }
    akv_jputs(r, t, ">");
}

void akv_jput_repr(struct akv_jrun *r, struct akv_jtext *t, struct akv_jval v)
{
    akv_jtick(r, 1);
    akv_jenter(r);
    switch (v.kind) {
    case AKV_J_UNDEF:
        akv_jputs(r, t, "Undefined");
        break;
    case AKV_J_BOOL:
        akv_jputs(r, t, v.u.i ? "True" : "False");
        break;
    case AKV_J_INT:
        put_int(r, t, v.u.i);
        break;
    case AKV_J_FLOAT:
        put_float(r, t, v.u.f, false);
        break;
    case AKV_J_STR:
        akv_jputs(r, t, v.safe ? "Markup(" : "");
        repr_string(r, t, v.u.s);
        akv_jputs(r, t, v.safe ? ")" : "");
        break;
    case AKV_J_LIST:
        repr_list(r, t, v.u.l);
        break;
    case AKV_J_DICT:
        repr_dict(r, t, v.u.d);
        break;
    case AKV_J_SPACE:
        akv_jputs(r, t, "<Namespace ");
        repr_dict(r, t, v.u.d);
        akv_jputs(r, t, ">");
        break;
    case AKV_J_RANGE:
        repr_range(r, t, v.u.r);
        break;
    case AKV_J_LOOP:
        repr_loop(r, t, v.u.loop);
        break;
    case AKV_J_MACRO:
    case AKV_J_BOUND:
    case AKV_J_FUNC:
        repr_callable(r, t, v);
        break;
    default:
        akv_jputs(r, t, "None");
        break;
    }
    r->frames--;
}

void akv_jput_str(struct akv_jrun *r, struct akv_jtext *t, struct akv_jval v)
{
    if (v.kind == AKV_J_STR)
        akv_jput(r, t, v.u.s->p, v.u.s->len);
    else if (v.kind != AKV_J_UNDEF)
        akv_jput_repr(r, t, v);
}

struct akv_jval akv_jto_str(struct akv_jrun *r, struct akv_jval v)
{
    struct akv_jtext t = {0};
    if (v.kind == AKV_J_STR)
        return v;
    akv_jput_str(r, &t, v);
    return akv_jstr_of(r, &t);
}

/* ---- tojson ---- */

static void json_string_out(struct akv_jrun *r, struct akv_jtext *t, const struct akv_jstr *s, bool ascii)
{
    static const char plain[] = "\"\\\n\r\t\b\f", letter[] = "\"\\nrtbf";
    char text[16];
    size_t from = 0, used;
    akv_jputs(r, t, "\"");
    for (size_t at = 0; at < s->len; at += used) {
        uint32_t c = akv_jchar(s->p + at, s->len - at, &used);
        const char *simple = c && c < 0x80 ? strchr(plain, (int)c) : NULL;
        if (!simple && c >= 0x20 && (!ascii || c < 0x7f))
            continue;
        akv_jput(r, t, s->p + from, at - from);
        from = at + used;
        if (simple)
            snprintf(text, sizeof text, "\\%c", letter[simple - plain]);
        else if (c < 0x10000)
            snprintf(text, sizeof text, "\\u%04x", (unsigned)c);
        else
            snprintf(text, sizeof text, "\\u%04x\\u%04x", (unsigned)(0xd7c0 + (c >> 10)), (unsigned)(0xdc00 + (c & 0x3ff)));
        akv_jputs(r, t, text);
    }
    akv_jput(r, t, s->p + from, s->len - from);
    akv_jputs(r, t, "\"");
}

static void json_break(struct akv_jrun *r, struct akv_jtext *t, const struct akv_jdump *how, uint32_t level)
{
    if (!how->indent)
        return;
    akv_jputs(r, t, "\n");
    for (uint32_t i = 0; i < level; i++)
        akv_jput(r, t, how->indent->p, how->indent->len);
}

static void json_list(struct akv_jrun *r, struct akv_jtext *t, struct akv_jlist *l, const struct akv_jdump *how, uint32_t level)
{
    akv_jlist_open(r, l);
    akv_jputs(r, t, "[");
    for (size_t i = 0; i < l->n; i++) {
        if (i)
            akv_jput(r, t, how->item->p, how->item->len);
        json_break(r, t, how, level + 1);
        akv_jput_json(r, t, l->v[i], how, level + 1);
    }
    if (l->n)
        json_break(r, t, how, level);
    akv_jputs(r, t, "]");
}

/* Keys become strings as json.dumps makes them. */
static void json_key(struct akv_jrun *r, struct akv_jtext *t, struct akv_jval key, const struct akv_jdump *how)
{
    struct akv_jtext text = {0};
    if (key.kind != AKV_J_STR) {
        if (!akv_jis_num(key) && key.kind != AKV_J_NONE)
            akv_jdie(r, "tojson: %s cannot be a key", akv_jtype(key));
        akv_jput_json(r, &text, key, how, 0);
        key = akv_jstr_of(r, &text);
    }
    json_string_out(r, t, key.u.s, how->ascii);
}

static void json_dict(struct akv_jrun *r, struct akv_jtext *t, struct akv_jdict *d, const struct akv_jdump *how, uint32_t level)
{
    akv_jdict_open(r, d);
    struct akv_jpair *v = d->v;
    if (how->sort && d->n) {
        v = akv_jalloc(&r->arena, d->n * sizeof *v);
        memcpy(v, d->v, d->n * sizeof *v);
        akv_jsort(r, v, d->n, false);
    }
    akv_jputs(r, t, "{");
    for (size_t i = 0; i < d->n; i++) {
        if (i)
            akv_jput(r, t, how->item->p, how->item->len);
        json_break(r, t, how, level + 1);
        json_key(r, t, v[i].key, how);
        akv_jput(r, t, how->key->p, how->key->len);
        akv_jput_json(r, t, v[i].val, how, level + 1);
    }
    if (d->n)
        json_break(r, t, how, level);
    akv_jputs(r, t, "}");
}

void akv_jput_json(struct akv_jrun *r, struct akv_jtext *t, struct akv_jval v, const struct akv_jdump *how, uint32_t level)
{
    akv_jtick(r, 1);
    akv_jenter(r);
    if (v.kind == AKV_J_NONE)
        akv_jputs(r, t, "null");
    else if (v.kind == AKV_J_BOOL)
        akv_jputs(r, t, v.u.i ? "true" : "false");
    else if (v.kind == AKV_J_INT)
        put_int(r, t, v.u.i);
    else if (v.kind == AKV_J_FLOAT)
        put_float(r, t, v.u.f, true);
    else if (v.kind == AKV_J_STR)
        json_string_out(r, t, v.u.s, how->ascii);
    else if (v.kind == AKV_J_LIST && v.u.l->type <= AKV_JL_TUPLE)
        json_list(r, t, v.u.l, how, level);
    else if (v.kind == AKV_J_DICT)
        json_dict(r, t, v.u.d, how, level);
    else
        akv_jdie(r, "tojson: %s is not JSON", akv_jtype(v));
    r->frames--;
}
