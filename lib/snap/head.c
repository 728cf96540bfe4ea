/* The head of a section: copies, limits, and naming what differs between two. */
#include "snap/format.h"

#include <stdlib.h>
#include <string.h>

static void free_text(const char *s)
{
    free((void *)(uintptr_t)s);
}

void akv_head_release(struct akv_head *h)
{
    for (size_t i = 0; i < h->n_fields; i++) {
        free_text(h->fields[i].tag);
        free_text(h->fields[i].value);
    }
    free(h->fields);
    *h = (struct akv_head){0};
}

static int by_tag(const void *a, const void *b)
{
    return strcmp(((const struct akv_root_field *)a)->tag, ((const struct akv_root_field *)b)->tag);
}

int akv_head_copy(struct akv_head *dst, const struct akv_head *src, struct akv_err *err)
{
    *dst = (struct akv_head){.geom = src->geom, .root = src->root};
    dst->fields = akv_alloc(src->n_fields, sizeof *dst->fields, err);
    if (!dst->fields)
        return AKV_E_IO;
    for (size_t i = 0; i < src->n_fields; i++) {
        const struct akv_root_field *f = &src->fields[i];
        dst->n_fields = i + 1;
        dst->fields[i].tag = akv_strndup(f->tag, strlen(f->tag), err);
        dst->fields[i].value = akv_strndup(f->value, strlen(f->value), err);
        if (!dst->fields[i].tag || !dst->fields[i].value) {
            akv_head_release(dst);
            return AKV_E_IO;
        }
    }
    qsort(dst->fields, dst->n_fields, sizeof *dst->fields, by_tag);
    return 0;
}

static int check_geom(const struct akv_geom *g, struct akv_err *err)
{
    const struct {
        const char *what;
        uint32_t value, max;
    } limits[] = {
        {"layers", g->n_layers, 1024},
        {"kv heads", g->n_kv_heads, 1024},
        {"K dimensions", g->dim_k, 4096},
        {"V dimensions", g->dim_v, 4096},
    };
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++)
        if (limits[i].value < 1 || limits[i].value > limits[i].max)
            return akv_fail(err, AKV_E_INPUT, "geometry: %lu %s (1 to %lu)", (unsigned long)limits[i].value, limits[i].what,
                            (unsigned long)limits[i].max);
    if (akv_geom_page_bytes(g) > AKV_PAGE_BYTES_MAX)
        return akv_fail(err, AKV_E_INPUT, "geometry: a page of %zu bytes (limit %zu)", akv_geom_page_bytes(g), AKV_PAGE_BYTES_MAX);
    return 0;
}

int akv_head_check(const struct akv_head *head, struct akv_err *err)
{
    int rc = check_geom(&head->geom, err);
    if (rc < 0)
        return rc;
    bool salted = false;
    for (size_t i = 0; i < head->n_fields; i++) {
        if (i && strcmp(head->fields[i - 1].tag, head->fields[i].tag) >= 0)
            return akv_fail(err, AKV_E_INPUT, "root: ingredients are not in order at '%s'", head->fields[i].tag);
        salted = salted || !strcmp(head->fields[i].tag, "salted");
    }
    if (salted)
        return 0;
    struct akv_key root;
    rc = akv_root_hash(&root, head->fields, head->n_fields, err);
    if (rc == 0 && !akv_key_eq(&root, &head->root))
        rc = akv_fail(err, AKV_E_INPUT, "root: it is not the hash of its ingredients");
    return rc;
}

static int differ(const char *tag, const char *have, const char *want, struct akv_err *err)
{
    return akv_fail(err, AKV_E_INCOMPAT, "%s is %s, here it is %s", tag, have ? have : "absent", want ? want : "absent");
}

static int match_geom(const struct akv_geom *a, const struct akv_geom *b, struct akv_err *err)
{
    const struct {
        const char *what;
        uint32_t have, want;
    } parts[] = {
        {"number of layers", a->n_layers, b->n_layers},
        {"number of kv heads", a->n_kv_heads, b->n_kv_heads},
        {"K dimensions per head", a->dim_k, b->dim_k},
        {"V dimensions per head", a->dim_v, b->dim_v},
        {"bytes of a KV element", a->dtype ? 4u : 2u, b->dtype ? 4u : 2u},
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (parts[i].have != parts[i].want)
            return akv_fail(err, AKV_E_INCOMPAT, "%s is %lu, here it is %lu", parts[i].what, (unsigned long)parts[i].have,
                            (unsigned long)parts[i].want);
    return 0;
}

const char *akv_head_field(const struct akv_head *h, const char *tag)
{
    for (size_t i = 0; i < h->n_fields; i++)
        if (!strcmp(h->fields[i].tag, tag))
            return h->fields[i].value;
    return "";
}

int akv_head_match(const struct akv_head *have, const struct akv_head *want, struct akv_err *err)
{
    size_t i = 0, k = 0;
    while (i < have->n_fields || k < want->n_fields) {
        const struct akv_root_field *a = i < have->n_fields ? &have->fields[i] : NULL;
        const struct akv_root_field *b = k < want->n_fields ? &want->fields[k] : NULL;
        int order = !a ? 1 : !b ? -1 : strcmp(a->tag, b->tag);
        if (order < 0)
            return differ(a->tag, a->value, NULL, err);
        if (order > 0)
            return differ(b->tag, NULL, b->value, err);
        if (strcmp(a->value, b->value))
            return differ(a->tag, a->value, b->value, err);
        i++;
        k++;
    }
    int rc = match_geom(&have->geom, &want->geom, err);
    if (rc == 0 && !akv_key_eq(&have->root, &want->root))
        rc = akv_fail(err, AKV_E_INCOMPAT, "the salt is another one");
    return rc;
}
