/* When a stored page turns out wrong, everything that was built on it goes with it. */
#include "store/store_dir.h"

#include <stdlib.h>
#include <string.h>

#include "snap/known.h"

struct entry {
    struct akv_object_name name;
    struct akv_object_info seen;
    struct akv_key key, parent;
    uint32_t index;
    bool doomed;
};

struct later_pages {
    struct akv_store *store;
    const struct akv_key *root;
    uint32_t index;
    struct entry *list;
    size_t n, cap;
};

/* Note the objects of this root that stand behind the index. One that cannot be read is none of our business here. */
static int note_entry(void *ctx, const struct akv_object_name *name, struct akv_err *err)
{
    struct later_pages *l = ctx;
    struct akv_object *o = &l->store->object;
    if (akv_object_read(l->store, o, name, NULL, true, NULL) != 1)
        return 0;
    const struct akv_page_rec *p = akv_reader_page(o->reader);
    if (p->index <= l->index || !akv_key_eq(&akv_reader_head(o->reader)->root, l->root))
        return 0;
    if (l->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 64;
        struct entry *list = akv_realloc(l->list, cap, sizeof *list, err);
        if (!list)
            return AKV_E_IO;
        l->list = list;
        l->cap = cap;
    }
    l->list[l->n++] = (struct entry){.name = *name, .seen = o->info, .key = p->key, .parent = p->parent, .index = p->index};
    return 0;
}

static int by_index(const void *a, const void *b)
{
    uint32_t x = ((const struct entry *)a)->index, y = ((const struct entry *)b)->index;
    return x < y ? -1 : x > y;
}

/* Into quarantine, so that it is out of the store even when the power fails now. */
static int take_away(struct akv_store *s, const struct akv_object_name *name, const struct akv_object_info *seen,
                     const char *reason, struct akv_err *err)
{
    s->ops->set_aside(s, name, seen, reason);
    if (s->ops->has(s, name, NULL))
        return akv_fail(err, AKV_E_IO, AKV_OBJECT_FMT ": is wrong and cannot be moved to quarantine", s->dir, name->s);
    return s->ops->settle(s, name, err);
}

/* What was built on the page of this key, which ends in one of the later ones: doomed. */
static int doom(struct later_pages *later, const struct akv_key *key, struct akv_err *err)
{
    struct akv_known gone = {0};
    int rc = akv_known_add(&gone, key, NULL, false, err);
    if (later->n)
        qsort(later->list, later->n, sizeof *later->list, by_index);
    for (size_t i = 0; rc == 0 && i < later->n; i++) {
        struct entry *e = &later->list[i];
        if (!akv_known_find(&gone, &e->parent) || akv_known_find(&gone, &e->key))
            continue;
        e->doomed = true;
        rc = akv_known_add(&gone, &e->key, NULL, false, err);
    }
    akv_known_release(&gone);
    return rc;
}

/* Nobody publishes meanwhile: what stands behind the wrong page was built on it, and not on one that has replaced it. */
static int condemn_alone(struct akv_store *s, const struct akv_key *root, const struct akv_key *key, const uint8_t *raw_sha,
                         const char *reason, struct akv_err *err)
{
    struct later_pages later = {.store = s, .root = root};
    struct akv_object_name name;
    int rc = akv_object_name(&name, root, key, err);
    if (rc < 0 || akv_object_read(s, &s->object, &name, NULL, true, NULL) != 1 ||
        memcmp(akv_reader_page(s->object.reader)->raw_sha, raw_sha, AKV_SHA_BYTES))
        return rc;
    later.index = akv_reader_page(s->object.reader)->index;
    struct akv_object_info seen = s->object.info;
    rc = s->ops->list(s, note_entry, &later, err);
    if (rc == 0)
        rc = doom(&later, key, err);
    /* the page itself last: as long as it stands, it is found wrong again, whenever this ends */
    for (size_t i = later.n; rc == 0 && i-- > 0;)
        if (later.list[i].doomed)
            rc = take_away(s, &later.list[i].name, &later.list[i].seen, "built on a page that was wrong", err);
    if (rc == 0)
        rc = take_away(s, &name, &seen, reason, err);
    free(later.list);
    return rc < 0 ? rc : 1;
}

int akv_store_condemn(struct akv_store *s, const struct akv_key *root, const struct akv_key *key,
                      const uint8_t raw_sha[AKV_SHA_BYTES], const char *reason, struct akv_err *err)
{
    int rc = akv_store_alone_begin(s, err);
    if (rc < 0)
        return rc;
    rc = condemn_alone(s, root, key, raw_sha, reason, err);
    akv_object_forget(&s->object);
    int back = akv_store_alone_end(s, err);
    return back < 0 && rc >= 0 ? back : rc;
}
