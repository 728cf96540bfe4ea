/* Reading a GGUF file: header and keys. Nothing is believed before it has been compared with the bytes that are left. */
#include "model/gguf.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "model/gguf_note.h"
#include "model/gguf_reader.h"

#define MAX_NESTING 4 /* arrays of arrays: allowed by the format, used by nobody */

#define MIN_KEY_BYTES 13u /* no name, one byte of value */

static int skip_strings(struct akv_ggufin *r, uint64_t n)
{
    const uint8_t *p = r->p + r->at, *end = r->p + r->size;
    for (uint64_t i = 0; i < n; i++) {
        if (end - p < 8)
            return akv_ggufin_ends(r);
        uint64_t len = akv_get_u64(p);
        p += 8;
        if (len > (uint64_t)(end - p))
            return akv_ggufin_ends(r);
        p += len;
    }
    r->at = (size_t)(p - r->p);
    return 0;
}

/* Step over an array's elements; its type and count have been read. depth is bounded because the file chooses it. */
static int skip_elements(struct akv_ggufin *r, uint32_t type, uint64_t n, unsigned depth)
{
    size_t bytes = akv_gguf_type_bytes(type);
    if (bytes) {
        if (n > akv_ggufin_left(r) / bytes)
            return akv_ggufin_ends(r);
        r->at += (size_t)n * bytes;
        return 0;
    }
    if (type == AKV_GGUF_STRING)
        return skip_strings(r, n);
    if (type != AKV_GGUF_ARRAY)
        return akv_ggufin_bad(r, AKV_E_INPUT, "an array of type %u, which does not exist", type);
    if (depth == MAX_NESTING)
        return akv_ggufin_bad(r, AKV_E_INPUT, "arrays nested deeper than %d", MAX_NESTING);
    for (uint64_t i = 0; i < n; i++) {
        uint32_t inner;
        uint64_t count;
        int rc = akv_ggufin_u32(r, &inner);
        if (rc == 0)
            rc = akv_ggufin_u64(r, &count);
        if (rc == 0)
            rc = skip_elements(r, inner, count, depth + 1);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int read_value(struct akv_ggufin *r, struct akv_gguf_kv *kv)
{
    int rc = akv_ggufin_u32(r, &kv->type);
    if (rc < 0)
        return rc;
    kv->n = 1;
    if (kv->type == AKV_GGUF_ARRAY) {
        if ((rc = akv_ggufin_u32(r, &kv->elem_type)) < 0 || (rc = akv_ggufin_u64(r, &kv->n)) < 0)
            return rc;
        kv->value = r->p + r->at;
        rc = skip_elements(r, kv->elem_type, kv->n, 0);
    } else if (kv->type > AKV_GGUF_F64) {
        return akv_ggufin_bad(r, AKV_E_INPUT, "value type %u does not exist", kv->type);
    } else {
        kv->value = r->p + r->at;
        rc = skip_elements(r, kv->type, 1, 0);
    }
    kv->bytes = (size_t)(r->p + r->at - kv->value);
    return rc;
}

static int read_key(struct akv_ggufin *r, struct akv_gguf_kv *kv, uint64_t i)
{
    akv_ggufin_begin(r, "key", i + 1);
    kv->offset = r->at;
    int rc = akv_ggufin_name(r, AKV_GGUF_MAX_KEY, &kv->key);
    if (rc < 0)
        return rc;
    r->name = kv->key;
    if (!kv->key.len)
        akv_note(&r->notes, "key %llu at offset %zu has no name and is ignored", (unsigned long long)i + 1, r->from);
    rc = read_value(r, kv);
    if (rc == 0 && kv->type == AKV_GGUF_ARRAY && kv->elem_type == AKV_GGUF_ARRAY)
        akv_note(&r->notes, "key %s at offset %zu is an array of arrays and is ignored", akv_str_show(kv->key).s, r->from);
    return rc;
}

static int compare_kv(const void *a, const void *b)
{
    const struct akv_gguf_kv *const *x = a, *const *y = b;
    return akv_str_compare((*x)->key, (*y)->key);
}

static int read_keys(struct akv_ggufin *r)
{
    struct akv_gguf *g = r->g;
    int rc;
    if ((rc = akv_ggufin_count(r, g->n_kv, MIN_KEY_BYTES, "keys")) < 0)
        return rc;
    g->kv = akv_alloc(g->n_kv, sizeof *g->kv, r->err);
    g->kv_by_name = akv_alloc(g->n_kv, sizeof *g->kv_by_name, r->err);
    if (!g->kv || !g->kv_by_name)
        return AKV_E_IO;
    for (uint64_t i = 0; i < g->n_kv; i++) {
        if ((rc = read_key(r, &g->kv[i], i)) < 0)
            return rc;
        g->kv_by_name[i] = &g->kv[i];
    }
    /* A sorted table, not a hash: no file can make it slow, and duplicates are neighbours. */
    qsort(g->kv_by_name, g->n_kv, sizeof *g->kv_by_name, compare_kv);
    for (uint64_t i = 1; i < g->n_kv; i++)
        if (!compare_kv(&g->kv_by_name[i - 1], &g->kv_by_name[i]))
            return akv_fail(r->err, AKV_E_INPUT, "%s: key %s at offset %llu: given twice", g->path,
                            akv_str_show(g->kv_by_name[i]->key).s, (unsigned long long)g->kv_by_name[i]->offset);
    return 0;
}

static int check_magic(struct akv_ggufin *r)
{
    if (r->size >= 4 && !memcmp(r->p, "GGUF", 4)) {
        r->at = 4;
        return 0;
    }
    static const char *const older[] = {"tjgg", "fmgg", "lmgg"}; /* ggjt, ggmf, ggml: little-endian words */
    for (size_t i = 0; i < sizeof older / sizeof *older; i++)
        if (r->size >= 4 && !memcmp(r->p, older[i], 4))
            return akv_fail(r->err, AKV_E_INCOMPAT, "%s: a model of the format that came before GGUF: convert it", r->g->path);
    return akv_fail(r->err, AKV_E_INPUT, "%s: not a GGUF file", r->g->path);
}

static int check_version(struct akv_ggufin *r)
{
    struct akv_gguf *g = r->g;
    int rc = akv_ggufin_u32(r, &g->version);
    if (rc < 0)
        return rc;
    if (g->version == 2 || g->version == 3)
        return 0;
    if (g->version && !(g->version & 0xffff))
        return akv_fail(r->err, AKV_E_INCOMPAT, "%s: a big-endian GGUF file: not supported", g->path);
    if (g->version == 1)
        return akv_fail(r->err, AKV_E_INCOMPAT, "%s: GGUF version 1, with 32-bit counts: not supported, convert it again", g->path);
    return akv_fail(r->err, g->version ? AKV_E_INCOMPAT : AKV_E_INPUT, "%s: GGUF version %u: not known (2 and 3 are)", g->path,
                    g->version);
}

static int read_file(struct akv_ggufin *r, bool keys_only)
{
    struct akv_gguf *g = r->g;
    int rc = check_magic(r);
    if (rc < 0 || (rc = check_version(r)) < 0)
        return rc;
    if ((rc = akv_ggufin_u64(r, &g->n_tensors)) < 0 || (rc = akv_ggufin_u64(r, &g->n_kv)) < 0 || (rc = read_keys(r)) < 0)
        return rc;
    if (!keys_only)
        return akv_ggufin_tensors(r);
    g->n_tensors = 0;
    return 0;
}

int akv_gguf_open_one(struct akv_gguf *g, const char *path, bool keys_only, struct akv_err *err)
{
    *g = (struct akv_gguf){.map.fd = -1};
    struct akv_ggufin r = {.g = g, .err = err};
    akv_ggufin_begin(&r, "header", 0);
    akv_buf_init(&r.notes, AKV_NOTES_MAX);
    int rc = AKV_E_IO;
    if (!(g->path = akv_strndup(path, strlen(path), err)))
        goto out;
    if ((rc = akv_map_open(&g->map, path, err)) < 0)
        goto out;
    r.p = g->map.data;
    r.size = g->map.size;
    if ((rc = akv_gguf_stat(g, &g->stamp, err)) < 0)
        goto out;
    if (g->stamp.size != g->map.size) {
        rc = akv_fail(err, AKV_E_INPUT, "%s: changed while it was opened", path);
        goto out;
    }
    rc = read_file(&r, keys_only);
out:
    g->warnings = akv_notes_take(&r.notes);
    if (rc < 0)
        akv_gguf_close(g);
    return rc;
}

static int open_all(struct akv_gguf *g, const char *path, bool keys_only, struct akv_err *err)
{
    int rc = akv_gguf_open_one(g, path, keys_only, err);
    if (rc == 0 && (rc = akv_gguf_join(g, keys_only, err)) < 0)
        akv_gguf_close(g);
    return rc;
}

int akv_gguf_open(struct akv_gguf *g, const char *path, struct akv_err *err)
{
    return open_all(g, path, false, err);
}

int akv_gguf_open_keys(struct akv_gguf *g, const char *path, struct akv_err *err)
{
    return open_all(g, path, true, err);
}

void akv_gguf_close(struct akv_gguf *g)
{
    if (g->map.data)
        akv_map_close(&g->map);
    for (uint32_t i = 0; i < g->n_parts; i++)
        akv_gguf_close(&g->parts[i]);
    free(g->parts);
    free(g->path);
    free(g->kv);
    free((void *)g->kv_by_name);
    free(g->tensors);
    free((void *)g->tensors_by_name);
    free(g->warnings);
    *g = (struct akv_gguf){.map.fd = -1};
}
