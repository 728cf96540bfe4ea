/* The headers of objects, for those who look for what is near a prompt: nothing here reads KV. */
#include <stdlib.h>

#include "store/store_dir.h"

struct used {
    int64_t when;
    struct akv_object_name name;
};

/* The most recently used objects so far: a heap with the oldest at v[0]. */
struct recent {
    struct akv_store *store;
    struct used *v;
    size_t n, most;
};

static bool older(const struct used *a, const struct used *b)
{
    return a->when < b->when;
}

static void swap(struct used *a, struct used *b)
{
    struct used t = *a;
    *a = *b;
    *b = t;
}

static void sift_down(struct recent *r)
{
    for (size_t i = 0, child; (child = 2 * i + 1) < r->n; i = child) {
        if (child + 1 < r->n && older(&r->v[child + 1], &r->v[child]))
            child++;
        if (!older(&r->v[child], &r->v[i]))
            return;
        swap(&r->v[child], &r->v[i]);
    }
}

static int take(void *ctx, const struct akv_object_name *name, struct akv_err *err)
{
    struct recent *r = ctx;
    struct akv_object_info info;
    (void)err;
    if (!r->store->ops->has(r->store, name, &info))
        return 0;
    struct used u = {info.used, *name};
    if (r->n < r->most) {
        size_t i = r->n++;
        for (r->v[i] = u; i && older(&r->v[i], &r->v[(i - 1) / 2]); i = (i - 1) / 2)
            swap(&r->v[i], &r->v[(i - 1) / 2]);
    } else if (older(&r->v[0], &u)) {
        r->v[0] = u;
        sift_down(r);
    }
    return 0;
}

int akv_store_recent(struct akv_store *s, size_t most, akv_store_page_fn *fn, void *ctx, struct akv_err *err)
{
    struct recent r = {.store = s, .most = most, .v = akv_alloc(most, sizeof *r.v, err)};
    struct akv_object o;
    akv_object_init(&o);
    int rc = r.v ? s->ops->list(s, take, &r, err) : AKV_E_IO;
    for (size_t i = 0; rc == 0 && i < r.n; i++)
        if (akv_object_read(s, &o, &r.v[i].name, NULL, true, NULL) == 1)
            rc = fn(ctx, akv_reader_head(o.reader), akv_reader_page(o.reader), err);
    akv_object_release(&o);
    free(r.v);
    return rc;
}
