/* Tensor infos: names, shapes, types, and places that lie inside the file and apart from each other. */
#include <stdlib.h>

#include "model/gguf_note.h"
#include "model/gguf_reader.h"

#define MIN_INFO_BYTES 33u /* a name of one byte, one dimension */

static int compare_tensor(const void *a, const void *b)
{
    const struct akv_tensor *const *x = a, *const *y = b;
    return akv_str_compare((*x)->name, (*y)->name);
}

static int compare_data(const void *a, const void *b)
{
    const struct akv_tensor *const *x = a, *const *y = b;
    return ((*x)->offset > (*y)->offset) - ((*x)->offset < (*y)->offset);
}

/* Bytes of a row and of the whole; every product is checked, the file's size later. */
static int size_tensor(struct akv_ggufin *r, struct akv_tensor *t, uint32_t type)
{
    const struct akv_dtype_info *info = &akv_dtypes[type];
    if (t->ne[0] % info->block)
        return akv_ggufin_bad(r, AKV_E_INPUT, "rows of %llu values are not whole %s blocks of %u", (unsigned long long)t->ne[0],
                              info->name, info->block);
    size_t bytes;
    bool over = __builtin_mul_overflow(t->ne[0] / info->block, (uint64_t)info->block_bytes, &t->row_bytes);
    bytes = t->row_bytes;
    for (unsigned d = 1; d < 4; d++)
        over = over || __builtin_mul_overflow(bytes, t->ne[d], &bytes);
    if (over)
        return akv_ggufin_bad(r, AKV_E_INPUT, "its size overflows");
    t->bytes = bytes;
    t->dtype = (enum akv_dtype)type;
    return 0;
}

static int read_dims(struct akv_ggufin *r, struct akv_tensor *t)
{
    int rc = akv_ggufin_u32(r, &t->n_dims);
    if (rc < 0)
        return rc;
    if (t->n_dims < 1 || t->n_dims > 4)
        return akv_ggufin_bad(r, AKV_E_INPUT, "%u dimensions, must be 1 to 4", t->n_dims);
    for (unsigned d = 0; d < 4; d++) {
        t->ne[d] = 1;
        if (d < t->n_dims && (rc = akv_ggufin_u64(r, &t->ne[d])) < 0)
            return rc;
        if (t->ne[d] < 1 || t->ne[d] > INT64_MAX)
            return akv_ggufin_bad(r, AKV_E_INPUT, "dimension %u is %lld", d, (long long)t->ne[d]);
    }
    return 0;
}

/* t->offset is relative to the data until place_tensors(). */
static int read_info(struct akv_ggufin *r, struct akv_tensor *t, uint64_t i)
{
    akv_ggufin_begin(r, "tensor", i + 1);
    int rc = akv_ggufin_name(r, AKV_GGUF_MAX_NAME, &t->name);
    if (rc < 0)
        return rc;
    if (!t->name.len)
        return akv_ggufin_bad(r, AKV_E_INPUT, "it has no name");
    r->name = t->name;
    uint32_t type;
    if ((rc = read_dims(r, t)) < 0 || (rc = akv_ggufin_u32(r, &type)) < 0 || (rc = akv_ggufin_u64(r, &t->offset)) < 0)
        return rc;
    if (type >= AKV_DTYPES || !akv_dtypes[type].name)
        return akv_ggufin_bad(r, AKV_E_INCOMPAT, "type %u is %s", type,
                              type < AKV_DTYPES ? "no longer part of the format: convert the model again"
                                                : "not known to this version");
    return size_tensor(r, t, type);
}

/* Alignment and the start of the data; r stands behind the infos. */
static int find_data(struct akv_ggufin *r)
{
    struct akv_gguf *g = r->g;
    g->alignment = 32;
    int rc = akv_gguf_u32(g, "general.alignment", &g->alignment, r->err);
    if (rc < 0)
        return rc;
    if (g->alignment < 8 || g->alignment & (g->alignment - 1))
        return akv_fail(r->err, AKV_E_INPUT, "%s: key general.alignment: %u, must be a power of two from 8", g->path, g->alignment);
    g->data_offset = ((uint64_t)r->at + g->alignment - 1) / g->alignment * g->alignment;
    if (g->n_tensors && g->data_offset > r->size)
        return akv_fail(r->err, AKV_E_INPUT,
                        "%s: the tensor data should begin at offset %llu, the file ends at %zu: truncated or damaged", g->path,
                        (unsigned long long)g->data_offset, r->size);
    return 0;
}

/* Check one tensor's place and make its offset absolute. */
static int place_tensor(const struct akv_gguf *g, struct akv_tensor *t, struct akv_err *err)
{
    uint64_t room = g->map.size - g->data_offset;
    if (t->offset % g->alignment)
        return akv_fail(err, AKV_E_INPUT, "%s: tensor %s: its offset %llu in the data is not a multiple of %u", g->path,
                        akv_str_show(t->name).s, (unsigned long long)t->offset, g->alignment);
    if (t->offset > room || t->bytes > room - t->offset)
        return akv_fail(err, AKV_E_INPUT,
                        "%s: tensor %s: %zu bytes at offset %llu of the data, which has %llu: truncated or damaged", g->path,
                        akv_str_show(t->name).s, t->bytes, (unsigned long long)t->offset, (unsigned long long)room);
    t->offset += g->data_offset;
    t->data = g->map.data + t->offset;
    t->path = g->path;
    return 0;
}

/* No two tensors share a byte. Unclaimed bytes are noted: a shifted data section shows so. by_place is scratch. */
static int check_overlap(struct akv_ggufin *r, const struct akv_tensor **by_place)
{
    struct akv_gguf *g = r->g;
    for (uint64_t i = 0; i < g->n_tensors; i++)
        by_place[i] = &g->tensors[i];
    qsort(by_place, g->n_tensors, sizeof *by_place, compare_data);
    uint64_t end = g->data_offset, unclaimed = 0;
    for (uint64_t i = 0; i < g->n_tensors; i++) {
        const struct akv_tensor *t = by_place[i];
        if (t->offset < end)
            return akv_fail(r->err, AKV_E_INPUT, "%s: tensor %s: shares bytes with %s", g->path, akv_str_show(t->name).s,
                            akv_str_show(by_place[i - 1]->name).s);
        uint64_t gap = t->offset - end;
        unclaimed += gap < g->alignment ? 0 : gap;
        end = t->offset + t->bytes;
    }
    unclaimed += g->map.size - end < g->alignment ? 0 : g->map.size - end;
    if (unclaimed)
        akv_note(&r->notes, "%llu bytes of the tensor data belong to no tensor", (unsigned long long)unclaimed);
    return 0;
}

int akv_gguf_index_tensors(struct akv_gguf *g, struct akv_err *err)
{
    for (uint64_t i = 0; i < g->n_tensors; i++)
        g->tensors_by_name[i] = &g->tensors[i];
    qsort(g->tensors_by_name, g->n_tensors, sizeof *g->tensors_by_name, compare_tensor);
    for (uint64_t i = 1; i < g->n_tensors; i++) {
        const struct akv_tensor *t = g->tensors_by_name[i], *before = g->tensors_by_name[i - 1];
        if (!compare_tensor(&before, &t)) /* the file to blame is the later one of a split model */
            return akv_fail(err, AKV_E_INPUT, "%s: tensor %s: listed twice", (t > before ? t : before)->path,
                            akv_str_show(t->name).s);
    }
    return 0;
}

int akv_ggufin_tensors(struct akv_ggufin *r)
{
    struct akv_gguf *g = r->g;
    int rc;
    akv_ggufin_begin(r, "tensor list", 0);
    if ((rc = akv_ggufin_count(r, g->n_tensors, MIN_INFO_BYTES, "tensors")) < 0)
        return rc;
    g->tensors = akv_alloc(g->n_tensors, sizeof *g->tensors, r->err);
    g->tensors_by_name = akv_alloc(g->n_tensors, sizeof *g->tensors_by_name, r->err);
    if (!g->tensors || !g->tensors_by_name)
        return AKV_E_IO;
    for (uint64_t i = 0; rc == 0 && i < g->n_tensors; i++)
        rc = read_info(r, &g->tensors[i], i);
    if (rc == 0)
        rc = find_data(r);
    for (uint64_t i = 0; rc == 0 && i < g->n_tensors; i++)
        rc = place_tensor(g, &g->tensors[i], r->err);
    if (rc < 0 || !g->n_tensors || (rc = check_overlap(r, g->tensors_by_name)) < 0)
        return rc;
    return akv_gguf_index_tensors(g, r->err);
}
