#include "store/census.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "base/pool.h"

void akv_census_release(struct akv_census *c)
{
    free(c->list);
    free(c->slots);
    *c = (struct akv_census){0};
}

uint64_t akv_root_tag(const struct akv_key *root)
{
    return akv_get_u64(root->b);
}

/* ---- the table ---- */

static size_t slot_of(const struct akv_census *c, const struct akv_key *name)
{
    size_t i = (size_t)akv_get_u64(name->b) & (c->n_slots - 1); /* names are hashes */
    while (c->slots[i] && !akv_key_eq(&c->list[c->slots[i] - 1].name, name))
        i = (i + 1) & (c->n_slots - 1);
    return i;
}

uint32_t akv_census_find(const struct akv_census *c, const struct akv_key *name)
{
    uint32_t at = c->n_slots ? c->slots[slot_of(c, name)] : 0;
    return at ? at - 1 : AKV_CENSUS_NONE;
}

static int grow(struct akv_census *c, struct akv_err *err)
{
    size_t cap = c->cap ? 2 * c->cap : 256;
    if (cap > UINT32_MAX / 2)
        return akv_fail(err, AKV_E_IO, "%s: too many objects", c->store->dir);
    struct akv_census_entry *list = akv_realloc(c->list, cap, sizeof *list, err);
    if (!list)
        return AKV_E_IO;
    c->list = list;
    uint32_t *slots = akv_alloc(2 * cap, sizeof *slots, err);
    if (!slots)
        return AKV_E_IO;
    free(c->slots);
    c->slots = slots;
    c->n_slots = 2 * cap;
    c->cap = cap;
    for (size_t i = 0; i < c->n; i++)
        c->slots[slot_of(c, &c->list[i].name)] = (uint32_t)i + 1;
    return 0;
}

static int add(struct akv_census *c, const struct akv_census_entry *e, struct akv_err *err)
{
    if (c->n == c->cap) {
        int rc = grow(c, err);
        if (rc < 0)
            return rc;
    }
    c->list[c->n++] = *e;
    c->slots[slot_of(c, &e->name)] = (uint32_t)c->n;
    return 0;
}

/* ---- reading ---- */

bool akv_census_fill(struct akv_census_entry *e, const struct akv_object *o)
{
    struct akv_key name;
    const struct akv_page_rec *p = akv_reader_page(o->reader);
    const struct akv_key *root = &akv_reader_head(o->reader)->root;
    e->bytes = o->info.bytes;
    e->used = o->info.used;
    if (akv_index_key(&name, root->b, sizeof root->b, &p->key, NULL) < 0 || !akv_key_eq(&name, &e->name))
        return false;
    e->root = akv_root_tag(root);
    e->index = p->index;
    e->n_tokens = (uint8_t)p->n_tokens;
    e->has_parent = p->has_parent;
    return !p->has_parent || akv_index_key(&e->parent, root->b, sizeof root->b, &p->parent, NULL) == 0;
}

/* The header of an entry's object, by way of o. */
static void read_entry(struct akv_store *s, struct akv_object *o, struct akv_census_entry *e)
{
    struct akv_object_name path;
    struct akv_object_info info;
    path = akv_object_path(&e->name);
    if (akv_object_read(s, o, &path, NULL, true, NULL) == 1) {
        e->unread = !akv_census_fill(e, o);
    } else if (s->ops->has(s, &path, &info)) {
        e->bytes = info.bytes;
        e->used = info.used;
        e->unread = true;
    } else {
        e->gone = true;
    }
}

static int add_name(void *ctx, const struct akv_object_name *path, struct akv_err *err)
{
    struct akv_census_entry e = {.up = AKV_CENSUS_NONE};
    return akv_object_key(&e.name, path) ? add(ctx, &e, err) : 0;
}

int akv_census_names(struct akv_census *c, struct akv_store *s, struct akv_err *err)
{
    *c = (struct akv_census){.store = s};
    return s->ops->list(s, add_name, c, err);
}

/* The entry of a name that is there, or NONE. */
static uint32_t find_present(const struct akv_census *c, const struct akv_key *name)
{
    uint32_t entry = akv_census_find(c, name);
    return entry == AKV_CENSUS_NONE || c->list[entry].gone ? AKV_CENSUS_NONE : entry;
}

void akv_census_link(struct akv_census *c)
{
    for (size_t i = 0; i < c->n; i++) {
        struct akv_census_entry *e = &c->list[i];
        if (!e->has_parent || e->gone)
            continue;
        e->up = find_present(c, &e->parent);
        if (e->up != AKV_CENSUS_NONE)
            c->list[e->up].n_kids++;
    }
}

struct reading {
    struct akv_census *census;
    struct akv_object *objects; /* one a thread */
    const volatile int *cancel;
};

static void read_task(void *ctx, size_t task, unsigned thread)
{
    struct reading *r = ctx;
    if (!r->cancel || !*r->cancel)
        read_entry(r->census->store, &r->objects[thread], &r->census->list[task]);
}

/* All headers: a million of them is half a minute of one processor. */
static int read_entries(struct akv_census *c, unsigned n_threads, const volatile int *cancel, struct akv_err *err)
{
    struct reading r = {.census = c, .cancel = cancel};
    struct akv_pool *pool;
    int rc = akv_pool_open(&pool, n_threads, err);
    if (rc < 0)
        return rc;
    r.objects = akv_alloc(n_threads, sizeof *r.objects, err);
    if (!r.objects) {
        akv_pool_close(pool);
        return AKV_E_IO;
    }
    for (unsigned i = 0; i < n_threads; i++)
        akv_object_init(&r.objects[i]);
    akv_pool_run(pool, read_task, &r, c->n);
    for (unsigned i = 0; i < n_threads; i++)
        akv_object_release(&r.objects[i]);
    free(r.objects);
    akv_pool_close(pool);
    return cancel && *cancel ? akv_fail(err, AKV_E_CANCEL, "interrupted") : 0;
}

int akv_census_take(struct akv_census *c, struct akv_store *s, unsigned n_threads, const volatile int *cancel, struct akv_err *err)
{
    int rc = akv_census_names(c, s, err);
    if (rc == 0)
        rc = read_entries(c, n_threads ? n_threads : 1, cancel, err);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < c->n; i++)
        c->bytes += c->list[i].bytes;
    akv_census_link(c);
    return 0;
}

/* ---- chains ---- */

/* The entry of a name, read at its first use; NONE when it is not there. */
static int need(struct akv_census *c, const struct akv_key *name, uint32_t *entry, struct akv_err *err)
{
    int rc = 0;
    if (akv_census_find(c, name) == AKV_CENSUS_NONE) {
        rc = add(c, &(struct akv_census_entry){.name = *name, .up = AKV_CENSUS_NONE}, err);
        if (rc == 0)
            read_entry(c->store, &c->store->object, &c->list[c->n - 1]);
    }
    *entry = find_present(c, name);
    return rc;
}

int akv_census_chain(struct akv_census *c, const struct akv_key *root, const struct akv_key *key, uint32_t *tip,
                     struct akv_err *err)
{
    struct akv_key name;
    int rc = akv_index_key(&name, root->b, sizeof root->b, key, err);
    if (rc == 0)
        rc = need(c, &name, tip, err);
    for (uint32_t at = *tip, up; rc == 0 && at != AKV_CENSUS_NONE; at = up) {
        up = c->list[at].up;
        if (up != AKV_CENSUS_NONE || !c->list[at].has_parent)
            break; /* the rest was read before */
        name = c->list[at].parent;
        rc = need(c, &name, &up, err);
        c->list[at].up = up;
    }
    return rc;
}

void akv_census_hold(struct akv_census *c, uint32_t entry)
{
    for (; entry != AKV_CENSUS_NONE && !c->list[entry].held; entry = c->list[entry].up)
        c->list[entry].held = true;
}

bool akv_census_whole(const struct akv_census *c, uint32_t entry)
{
    while (entry != AKV_CENSUS_NONE && !c->list[entry].unread) {
        if (!c->list[entry].has_parent)
            return true;
        entry = c->list[entry].up;
    }
    return false;
}
