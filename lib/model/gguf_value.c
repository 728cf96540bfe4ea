/* Values of GGUF keys: lookup by name, typed access, arrays. Sizes were checked when the file was read. */
#include "model/gguf.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "model/gguf_reader.h"

static const char *const type_names[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                         "bool", "string", "array", "u64", "i64", "f64"};

const char *akv_gguf_type_name(uint32_t type)
{
    return type <= AKV_GGUF_F64 ? type_names[type] : "?";
}

bool akv_str_is(struct akv_str s, const char *text)
{
    return s.len == strlen(text) && !memcmp(s.s, text, s.len);
}

struct akv_shown akv_str_show(struct akv_str s)
{
    struct akv_shown out = {{0}};
    const size_t max = 64;
    size_t n = 0, i = 0;
    while (i < s.len) {
        size_t len = akv_utf8_len(s.s + i, s.len - i);
        unsigned char c = (unsigned char)s.s[i];
        bool plain = len && c >= 0x20 && c != 0x7f && !(len == 2 && c == 0xc2 && (unsigned char)s.s[i + 1] < 0xa0);
        size_t take = plain ? len : 1;
        if (n + take > max)
            break;
        if (plain)
            memcpy(out.s + n, s.s + i, take);
        else
            out.s[n] = '?';
        n += take;
        i += take;
    }
    if (i < s.len)
        memcpy(out.s + n, "...", 3);
    return out;
}

struct akv_shown akv_tensor_dims(const struct akv_tensor *t)
{
    struct akv_shown out = {{0}};
    size_t n = 0;
    for (uint32_t d = 0; d < t->n_dims; d++)
        n += (size_t)snprintf(out.s + n, sizeof out.s - n, "%s%" PRIu64, d ? "x" : "", t->ne[d]);
    return out;
}

int akv_str_compare(struct akv_str a, struct akv_str b)
{
    int c = memcmp(a.s, b.s, a.len < b.len ? a.len : b.len);
    return c ? c : (a.len > b.len) - (a.len < b.len);
}

static int compare_kv(const void *key, const void *elem)
{
    const struct akv_gguf_kv *const *kv = elem;
    return akv_str_compare(*(const struct akv_str *)key, (*kv)->key);
}

static int compare_tensor(const void *key, const void *elem)
{
    const struct akv_tensor *const *t = elem;
    return akv_str_compare(*(const struct akv_str *)key, (*t)->name);
}

const struct akv_gguf_kv *akv_gguf_find(const struct akv_gguf *g, const char *key)
{
    struct akv_str k = {key, strlen(key)};
    const struct akv_gguf_kv **found = g->n_kv ? bsearch(&k, g->kv_by_name, g->n_kv, sizeof *g->kv_by_name, compare_kv) : NULL;
    return found ? *found : NULL;
}

const struct akv_tensor *akv_gguf_tensor(const struct akv_gguf *g, const char *name)
{
    struct akv_str k = {name, strlen(name)};
    const struct akv_tensor **found =
        g->n_tensors ? bsearch(&k, g->tensors_by_name, g->n_tensors, sizeof *g->tensors_by_name, compare_tensor) : NULL;
    return found ? *found : NULL;
}

static int wrong(const struct akv_gguf *g, const struct akv_gguf_kv *kv, const char *why, struct akv_err *err)
{
    return akv_fail(err, AKV_E_INPUT, "%s: key %s at offset %llu: %s", g->path, akv_str_show(kv->key).s,
                    (unsigned long long)kv->offset, why);
}

static int wrong_type(const struct akv_gguf *g, const struct akv_gguf_kv *kv, const char *want, struct akv_err *err)
{
    return akv_fail(err, AKV_E_INPUT, "%s: key %s at offset %llu: its type is %s, not %s", g->path, akv_str_show(kv->key).s,
                    (unsigned long long)kv->offset, akv_gguf_type_name(kv->type), want);
}

/* An integer or boolean at p, sign-extended. false: another type. */
static bool get_int(const uint8_t *p, uint32_t type, int64_t *out)
{
    switch (type) {
    case AKV_GGUF_U8:
    case AKV_GGUF_BOOL:
        *out = p[0];
        return true;
    case AKV_GGUF_I8:
        *out = (int8_t)p[0];
        return true;
    case AKV_GGUF_U16:
        *out = akv_get_u16(p);
        return true;
    case AKV_GGUF_I16:
        *out = (int16_t)akv_get_u16(p);
        return true;
    case AKV_GGUF_U32:
        *out = akv_get_u32(p);
        return true;
    case AKV_GGUF_I32:
        *out = (int32_t)akv_get_u32(p);
        return true;
    case AKV_GGUF_U64: /* saturates: nothing here takes a value that large */
        *out = akv_get_u64(p) > INT64_MAX ? INT64_MAX : (int64_t)akv_get_u64(p);
        return true;
    case AKV_GGUF_I64:
        *out = (int64_t)akv_get_u64(p);
        return true;
    default:
        return false;
    }
}

static bool get_float(const uint8_t *p, uint32_t type, float *out)
{
    if (type == AKV_GGUF_F32) {
        uint32_t bits = akv_get_u32(p);
        memcpy(out, &bits, sizeof *out);
        return true;
    }
    if (type == AKV_GGUF_F64) {
        uint64_t bits = akv_get_u64(p);
        double d;
        memcpy(&d, &bits, sizeof d);
        *out = (float)d;
        return true;
    }
    return false;
}

int akv_gguf_u32(const struct akv_gguf *g, const char *key, uint32_t *out, struct akv_err *err)
{
    const struct akv_gguf_kv *kv = akv_gguf_find(g, key);
    int64_t v;
    if (!kv)
        return 0;
    if (kv->type == AKV_GGUF_BOOL || !get_int(kv->value, kv->type, &v))
        return wrong_type(g, kv, "an integer", err);
    if (v < 0)
        return wrong(g, kv, "negative", err);
    if (v > UINT32_MAX)
        return wrong(g, kv, "larger than 32 bits", err);
    *out = (uint32_t)v;
    return 1;
}

int akv_gguf_f32(const struct akv_gguf *g, const char *key, float *out, struct akv_err *err)
{
    const struct akv_gguf_kv *kv = akv_gguf_find(g, key);
    if (!kv)
        return 0;
    return get_float(kv->value, kv->type, out) ? 1 : wrong_type(g, kv, "a float", err);
}

int akv_gguf_bool(const struct akv_gguf *g, const char *key, bool *out, struct akv_err *err)
{
    const struct akv_gguf_kv *kv = akv_gguf_find(g, key);
    if (!kv)
        return 0;
    if (kv->type != AKV_GGUF_BOOL)
        return wrong_type(g, kv, "a bool", err);
    if (kv->value[0] > 1)
        return wrong(g, kv, "a bool that is neither 0 nor 1", err);
    *out = kv->value[0];
    return 1;
}

int akv_gguf_str(const struct akv_gguf *g, const char *key, struct akv_str *out, struct akv_err *err)
{
    const struct akv_gguf_kv *kv = akv_gguf_find(g, key);
    if (!kv)
        return 0;
    if (kv->type != AKV_GGUF_STRING)
        return wrong_type(g, kv, "a string", err);
    *out = (struct akv_str){(const char *)kv->value + 8, (size_t)akv_get_u64(kv->value)};
    return 1;
}

uint32_t akv_gguf_array_u32(const struct akv_gguf_kv *kv, uint64_t i)
{
    int64_t v = 0;
    get_int(kv->value + i * akv_gguf_type_bytes(kv->elem_type), kv->elem_type, &v);
    return (uint32_t)v;
}

float akv_gguf_array_f32(const struct akv_gguf_kv *kv, uint64_t i)
{
    float v = 0;
    get_float(kv->value + i * akv_gguf_type_bytes(kv->elem_type), kv->elem_type, &v);
    return v;
}

struct akv_str akv_gguf_next_string(const struct akv_gguf_kv *kv, const uint8_t **at)
{
    const uint8_t *p = *at ? *at : kv->value;
    struct akv_str s = {(const char *)p + 8, (size_t)akv_get_u64(p)};
    *at = p + 8 + s.len;
    return s;
}
