#include "model/gguf_reader.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/bytes.h"

size_t akv_gguf_type_bytes(uint32_t type)
{
    static const uint8_t bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return type < sizeof bytes ? bytes[type] : 0;
}

int akv_ggufin_bad(struct akv_ggufin *r, int code, const char *fmt, ...)
{
    char why[256], number[32] = "";
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    if (r->number)
        snprintf(number, sizeof number, " %llu", (unsigned long long)r->number);
    return akv_fail(r->err, code, "%s: %s%s%s at offset %zu: %s", r->g->path, r->kind, r->name.len ? " " : number,
                    akv_str_show(r->name).s, r->from, why);
}

void akv_ggufin_begin(struct akv_ggufin *r, const char *kind, uint64_t number)
{
    r->kind = kind;
    r->name = (struct akv_str){"", 0};
    r->number = number;
    r->from = r->at;
}

int akv_ggufin_ends(struct akv_ggufin *r)
{
    return akv_ggufin_bad(r, AKV_E_INPUT, "the file ends inside it (%zu bytes: truncated or damaged)", r->size);
}

size_t akv_ggufin_left(const struct akv_ggufin *r)
{
    return r->size - r->at;
}

int akv_ggufin_u32(struct akv_ggufin *r, uint32_t *v)
{
    if (akv_ggufin_left(r) < 4)
        return akv_ggufin_ends(r);
    *v = akv_get_u32(r->p + r->at);
    r->at += 4;
    return 0;
}

int akv_ggufin_u64(struct akv_ggufin *r, uint64_t *v)
{
    if (akv_ggufin_left(r) < 8)
        return akv_ggufin_ends(r);
    *v = akv_get_u64(r->p + r->at);
    r->at += 8;
    return 0;
}

int akv_ggufin_name(struct akv_ggufin *r, uint64_t max, struct akv_str *s)
{
    uint64_t len = 0;
    int rc = akv_ggufin_u64(r, &len);
    if (rc < 0)
        return rc;
    if (len > max)
        return akv_ggufin_bad(r, AKV_E_INPUT, "a name of %llu bytes, the limit is %llu", (unsigned long long)len,
                              (unsigned long long)max);
    if (len > akv_ggufin_left(r))
        return akv_ggufin_ends(r);
    *s = (struct akv_str){(const char *)r->p + r->at, (size_t)len};
    r->at += (size_t)len;
    return 0;
}

int akv_ggufin_count(struct akv_ggufin *r, uint64_t n, size_t min_bytes, const char *what)
{
    if (n > akv_ggufin_left(r) / min_bytes)
        return akv_ggufin_bad(r, AKV_E_INPUT, "%llu %s, more than fit into the file (%zu bytes: truncated or damaged)",
                              (unsigned long long)n, what, r->size);
    if (n > AKV_GGUF_MAX_ENTRIES)
        return akv_ggufin_bad(r, AKV_E_INPUT, "%llu %s, the limit is %u", (unsigned long long)n, what, AKV_GGUF_MAX_ENTRIES);
    return 0;
}
