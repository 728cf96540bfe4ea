/* Strings, lists and dicts of the template interpreter, and JSON as values. */
#include "chat/jinja_value.h"

#include <string.h>

#define LINEAR_MAX 8 /* dicts up to this size are searched one by one */

/* ---- strings ---- */

/* All bytes but those that go on with a character, eight at a time: captured text is counted whenever it is handed on. */
static size_t count_chars(const char *p, size_t len)
{
    const uint64_t ones = 0x0101010101010101u;
    size_t n = len, i = 0;
    for (; len - i >= 8; i += 8) {
        uint64_t v;
        memcpy(&v, p + i, sizeof v);
        n -= (size_t)((v >> 7 & ~(v >> 6) & ones) * ones >> 56);
    }
    for (; i < len; i++)
        n -= ((uint8_t)p[i] & 0xc0) == 0x80;
    return n;
}

struct akv_jval akv_jstr_ref(struct akv_jarena *a, const char *p, size_t len)
{
    struct akv_jstr *s = akv_jalloc(a, sizeof *s);
    *s = (struct akv_jstr){.p = p ? p : "", .len = len, .n_chars = count_chars(p, len)};
    return (struct akv_jval){.kind = AKV_J_STR, .u.s = s};
}

struct akv_jval akv_jstr_of(struct akv_jrun *r, const struct akv_jtext *t)
{
    akv_jtick_bytes(r, t->len);
    return akv_jstr_ref(&r->arena, t->p, t->len);
}

bool akv_jstr_is(const struct akv_jstr *s, const char *text)
{
    return s->len == strlen(text) && memcmp(s->p, text, s->len) == 0;
}

/* ---- lists ---- */

struct akv_jval akv_jlist_new(struct akv_jrun *r, enum akv_jlist_type type)
{
    struct akv_jlist *l = akv_jalloc(&r->arena, sizeof *l);
    *l = (struct akv_jlist){.type = (uint8_t)type, .own = true};
    return (struct akv_jval){.kind = AKV_J_LIST, .u.l = l};
}

void akv_jlist_push(struct akv_jrun *r, struct akv_jlist *l, struct akv_jval v)
{
    if (!l->room || l->room->used != l->n || l->room->cap == l->n) {
        size_t cap = l->n < 4 ? 8 : 2 * l->n;
        struct akv_jroom *room = akv_jalloc(&r->arena, sizeof *room);
        struct akv_jval *items = akv_jalloc(&r->arena, cap * sizeof *items);
        akv_jtick(r, l->n / 8);
        if (l->n)
            memcpy(items, l->v, l->n * sizeof *items);
        *room = (struct akv_jroom){.cap = cap, .used = l->n};
        l->room = room;
        l->v = items;
    }
    l->v[l->n++] = v;
    l->room->used = l->n;
}

void akv_jlist_open(struct akv_jrun *r, struct akv_jlist *l)
{
    if (!l->lazy)
        return;
    size_t n = json_array_size(l->lazy);
    akv_jtick(r, n);
    l->v = akv_jalloc(&r->arena, n * sizeof *l->v);
    for (size_t i = 0; i < n; i++)
        l->v[i] = akv_jfrom_json(r, json_array_get(l->lazy, i));
    l->n = n;
    l->lazy = NULL;
}

/* ---- dicts ---- */

struct akv_jval akv_jdict_new(struct akv_jrun *r, enum akv_jkind kind)
{
    struct akv_jdict *d = akv_jalloc(&r->arena, sizeof *d);
    *d = (struct akv_jdict){0};
    return (struct akv_jval){.kind = (uint8_t)kind, .u.d = d};
}

/* Where key is, or d->n; *slot is its place in the index, if there is one. */
static size_t dict_at(struct akv_jrun *r, struct akv_jdict *d, struct akv_jval key, size_t *slot)
{
    uint64_t hash = akv_jhash(r, key);
    if (!d->slots) {
        for (size_t i = 0; i < d->n; i++) {
            if (akv_jequal(r, d->v[i].key, key))
                return i;
        }
        return d->n;
    }
    for (size_t s = (size_t)hash & (d->n_slots - 1);; s = (s + 1) & (d->n_slots - 1)) {
        *slot = s;
        if (!d->slots[s])
            return d->n;
        akv_jtick(r, 1); /* colliding keys must not make this cheap */
        if (akv_jequal(r, d->v[d->slots[s] - 1].key, key))
            return d->slots[s] - 1;
    }
}

static void dict_index(struct akv_jrun *r, struct akv_jdict *d)
{
    if (d->cap > UINT32_MAX / 4)
        akv_jdie(r, "dict too large");
    d->n_slots = 2 * d->cap;
    d->slots = akv_jalloc(&r->arena, d->n_slots * sizeof *d->slots);
    memset(d->slots, 0, d->n_slots * sizeof *d->slots);
    for (size_t i = 0; i < d->n; i++) {
        size_t s = (size_t)akv_jhash(r, d->v[i].key) & (d->n_slots - 1);
        for (; d->slots[s]; s = (s + 1) & (d->n_slots - 1))
            akv_jtick(r, 1);
        d->slots[s] = (uint32_t)(i + 1);
    }
}

static void dict_grow(struct akv_jrun *r, struct akv_jdict *d)
{
    size_t cap = d->cap ? 2 * d->cap : LINEAR_MAX;
    d->v = akv_jgrow(&r->arena, d->v, d->cap * sizeof *d->v, cap * sizeof *d->v);
    d->cap = cap;
    if (cap > LINEAR_MAX)
        dict_index(r, d);
}

struct akv_jval *akv_jdict_find(struct akv_jrun *r, struct akv_jdict *d, struct akv_jval key)
{
    size_t slot;
    akv_jdict_open(r, d);
    size_t at = dict_at(r, d, key, &slot);
    return at < d->n ? &d->v[at].val : NULL;
}

void akv_jdict_set(struct akv_jrun *r, struct akv_jdict *d, struct akv_jval key, struct akv_jval val)
{
    size_t slot = 0;
    akv_jdict_open(r, d);
    size_t at = dict_at(r, d, key, &slot);
    if (at < d->n) {
        d->v[at].val = val;
        return;
    }
    if (d->n == d->cap) {
        dict_grow(r, d);
        dict_at(r, d, key, &slot);
    }
    d->v[d->n++] = (struct akv_jpair){.key = key, .val = val};
    if (d->slots)
        d->slots[slot] = (uint32_t)d->n;
}

void akv_jdict_open(struct akv_jrun *r, struct akv_jdict *d)
{
    const json_t *j = d->lazy;
    if (!j)
        return;
    d->lazy = NULL;
    akv_jtick(r, json_object_size(j));
    json_t *object = (json_t *)j; /* only read */
    for (void *it = json_object_iter(object); it; it = json_object_iter_next(object, it)) {
        struct akv_jval key = akv_jstr_ref(&r->arena, json_object_iter_key(it), json_object_iter_key_len(it));
        akv_jdict_set(r, d, key, akv_jfrom_json(r, json_object_iter_value(it)));
    }
}

/* ---- JSON ---- */

struct akv_jval akv_jfrom_json(struct akv_jrun *r, const json_t *j)
{
    struct akv_jval v;
    switch (json_typeof(j)) {
    case JSON_OBJECT:
        v = akv_jdict_new(r, AKV_J_DICT);
        v.u.d->lazy = j;
        return v;
    case JSON_ARRAY:
        v = akv_jlist_new(r, AKV_JL_LIST);
        v.u.l->lazy = j;
        v.u.l->own = false;
        return v;
    case JSON_STRING:
        akv_jtick_bytes(r, json_string_length(j));
        return akv_jstr_ref(&r->arena, json_string_value(j), json_string_length(j));
    case JSON_INTEGER:
        return akv_jint(json_integer_value(j));
    case JSON_REAL:
        return akv_jfloat(json_real_value(j));
    case JSON_TRUE:
    case JSON_FALSE:
        return akv_jbool(json_is_true(j));
    default:
        return AKV_JNONE;
    }
}
