/* The distinct prefixes of many requests, and how many requests share each. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "chat/split.h"
#include "kv/key.h"
#include "run/request.h"

#define NONE UINT32_MAX

/* A prefix; its parent is the longest one known that it begins with. */
struct node {
    struct akv_key key;
    char *name; /* of the anchor under which it was met first */
    uint32_t at, parent;
    uint64_t own;   /* requests whose longest prefix this is */
    uint64_t total; /* and those of all below it; counted at the end */
};

struct akv_tree {
    struct node *v;
    size_t n, cap;
    uint32_t *table; /* open addressing by key: index + 1, or 0; twice as many places as nodes */
    size_t mask;
    uint64_t requests, tokens;
};

int akv_tree_open(struct akv_tree **out, struct akv_err *err)
{
    *out = akv_alloc(1, sizeof **out, err);
    return *out ? 0 : AKV_E_IO;
}

void akv_tree_close(struct akv_tree *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->n; i++)
        free(t->v[i].name);
    free(t->v);
    free(t->table);
    free(t);
}

/* The place in the table where this key is, or would be. */
static size_t find_slot(const struct akv_tree *t, const struct akv_key *key)
{
    size_t i = (size_t)akv_get_u64(key->b) & t->mask;
    while (t->table[i] && !akv_key_eq(&t->v[t->table[i] - 1].key, key))
        i = (i + 1) & t->mask;
    return i;
}

static int grow(struct akv_tree *t, struct akv_err *err)
{
    size_t cap = t->cap ? t->cap * 2 : 64;
    if (cap > UINT32_MAX / 2)
        return akv_fail(err, AKV_E_INPUT, "more than %zu distinct prefixes", t->n);
    struct node *v = akv_realloc(t->v, cap, sizeof *v, err);
    if (v)
        t->v = v;
    uint32_t *table = akv_alloc(2 * cap, sizeof *table, err);
    if (!v || !table) {
        free(table);
        return AKV_E_IO;
    }
    free(t->table);
    t->table = table;
    t->cap = cap;
    t->mask = 2 * cap - 1;
    for (size_t i = 0; i < t->n; i++)
        t->table[find_slot(t, &t->v[i].key)] = (uint32_t)i + 1;
    return 0;
}

/* The node of a prefix; *is_new when it was not there. */
static int put_node(struct akv_tree *t, const struct akv_key *key, const struct akv_split_place *place, uint32_t parent,
                    uint32_t *index, bool *is_new, struct akv_err *err)
{
    int rc = t->n == t->cap ? grow(t, err) : 0;
    if (rc < 0)
        return rc;
    size_t slot = find_slot(t, key);
    *is_new = !t->table[slot];
    if (*is_new) {
        char *name = akv_strndup(place->name, strlen(place->name), err);
        if (!name)
            return AKV_E_IO;
        t->v[t->n] = (struct node){.key = *key, .name = name, .at = place->at, .parent = parent};
        t->table[slot] = (uint32_t)++t->n;
    }
    *index = t->table[slot] - 1;
    struct node *node = &t->v[*index];
    if (parent != NONE && (node->parent == NONE || t->v[node->parent].at < t->v[parent].at))
        node->parent = parent;
    return 0;
}

/* ---- the places of one request ---- */

static int by_place(const void *a, const void *b)
{
    const struct akv_split_place *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

/* All places that the names name, ascending, each position once; a prefix of no tokens is nothing to keep. */
static int find_places(const struct akv_record *rec, const char *const *names, size_t n_names, struct akv_split_place **out,
                       size_t *n, struct akv_err *err)
{
    static const char *const every[] = {"all"};
    struct akv_split_place *all = akv_alloc(rec->n_anchors * (n_names + 1), sizeof *all, err);
    size_t n_all = 0;
    int rc = all ? 0 : AKV_E_IO;
    for (size_t i = 0; rc == 0 && i < (n_names ? n_names : 1); i++) {
        struct akv_split_place *some = NULL;
        size_t n_some = 0;
        rc = akv_split_places(rec, n_names ? names[i] : every[0], &some, &n_some, err);
        for (size_t k = 0; rc == 0 && k < n_some; k++)
            if (some[k].at)
                all[n_all++] = some[k];
        free(some);
    }
    *n = 0;
    if (rc == 0 && n_all)
        qsort(all, n_all, sizeof *all, by_place);
    for (size_t i = 0; rc == 0 && i < n_all; i++)
        if (!*n || all[*n - 1].at != all[i].at)
            all[(*n)++] = all[i];
    if (rc < 0) {
        free(all);
        all = NULL;
    }
    *out = all;
    return rc;
}

/* The key of the first `at` tokens; full: keys of all full pages. */
static int key_at(struct akv_key *key, const struct akv_key *full, const uint32_t *ids, uint32_t at, struct akv_err *err)
{
    uint32_t page = at / AKV_PAGE_TOKENS, tail = at % AKV_PAGE_TOKENS;
    const struct akv_key *before = page ? &full[page - 1] : NULL;
    if (tail)
        return akv_page_key(key, before, ids + at - tail, tail, err);
    *key = *before;
    return 0;
}

static int give(const struct akv_record *rec, const struct akv_split_place *place, const struct akv_key *key, akv_prefix_fn *fn,
                void *ctx, struct akv_err *err)
{
    struct akv_record cut = {0};
    struct akv_request *r = NULL;
    char hex[AKV_SHA_HEX];
    akv_hex(hex, key, sizeof *key);
    int rc = akv_split_prefix(&cut, rec, place, hex, err);
    if (rc == 0)
        rc = akv_request_wrap(&r, &cut, err);
    if (rc == 0)
        rc = fn(ctx, r, err);
    akv_request_free(r);
    return rc;
}

int akv_tree_add(struct akv_tree *t, const struct akv_request *r, const char *const *names, size_t n_names, akv_prefix_fn *fn,
                 void *ctx, struct akv_err *err)
{
    const struct akv_record *rec = &r->rec;
    struct akv_split_place *places = NULL;
    struct akv_key *full = NULL, key;
    size_t n = 0;
    uint32_t node = NONE;
    int rc = find_places(rec, names, n_names, &places, &n, err);
    if (rc < 0)
        return rc;
    uint32_t last = n ? places[n - 1].at / AKV_PAGE_TOKENS * AKV_PAGE_TOKENS : 0;
    full = akv_alloc(last / AKV_PAGE_TOKENS, sizeof *full, err);
    rc = full ? akv_chain_keys(full, rec->ids, last, err) : AKV_E_IO;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        bool is_new;
        rc = key_at(&key, full, rec->ids, places[i].at, err);
        if (rc == 0)
            rc = put_node(t, &key, &places[i], node, &node, &is_new, err);
        if (rc == 0 && is_new && fn)
            rc = give(rec, &places[i], &key, fn, ctx, err);
    }
    if (rc == 0 && node != NONE)
        t->v[node].own++;
    t->requests += rc == 0;
    t->tokens += rc == 0 ? rec->n : 0;
    free(places);
    free(full);
    return rc;
}

/* ---- the tree ---- */

/* Children of one parent stand together, the most shared first. */
static int by_parent(const void *a, const void *b)
{
    const struct node *x = *(const struct node *const *)a, *y = *(const struct node *const *)b;
    if (x->parent != y->parent)
        return x->parent < y->parent ? -1 : 1;
    if (x->total != y->total)
        return x->total > y->total ? -1 : 1;
    return x->at != y->at ? (x->at > y->at ? -1 : 1) : memcmp(&x->key, &y->key, sizeof x->key);
}

static int by_length(const void *a, const void *b)
{
    const struct node *x = *(const struct node *const *)a, *y = *(const struct node *const *)b;
    return (x->at < y->at) - (x->at > y->at);
}

/* Every request counts for all that its longest prefix begins with: from the longest prefixes to the shortest. */
static void add_up(struct akv_tree *t, struct node **order)
{
    for (size_t i = 0; i < t->n; i++) {
        t->v[i].total = t->v[i].own;
        order[i] = &t->v[i];
    }
    if (t->n)
        qsort(order, t->n, sizeof *order, by_length);
    for (size_t i = 0; i < t->n; i++)
        if (order[i]->parent != NONE)
            t->v[order[i]->parent].total += order[i]->total;
}

/* The first child of a parent in an order by parent; n when there is none. */
static size_t first_child(struct node **order, size_t n, uint32_t parent)
{
    size_t lo = 0, hi = n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (order[mid]->parent < parent)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < n && order[lo]->parent == parent ? lo : n;
}

static uint64_t saved_by(const struct akv_tree *t, const struct node *node)
{
    uint32_t before = node->parent == NONE ? 0 : t->v[node->parent].at;
    return node->total ? (node->total - 1) * (node->at - before) : 0;
}

static int give_shared(const struct akv_tree *t, const struct node *node, uint32_t level, akv_shared_fn *fn, void *ctx,
                       struct akv_err *err)
{
    struct akv_shared s = {
        .name = node->name, .level = level, .tokens = node->at, .requests = node->total, .saved = saved_by(t, node)};
    akv_hex(s.key, &node->key, sizeof node->key);
    if (node->parent != NONE)
        akv_hex(s.parent, &t->v[node->parent].key, sizeof node->key);
    return fn(ctx, &s, err);
}

void akv_tree_size(const struct akv_tree *t, uint64_t *n_requests, uint64_t *n_tokens)
{
    *n_requests = t->requests;
    *n_tokens = t->tokens;
}

/* What comes next on a level of the walk, and whose children they are. */
struct step {
    size_t next;
    uint32_t parent;
};

int akv_tree_each(struct akv_tree *t, uint64_t least, akv_shared_fn *fn, void *ctx, struct akv_err *err)
{
    struct node **order = akv_alloc(t->n, sizeof *order, err);
    struct step *path = akv_alloc(t->n + 1, sizeof *path, err);
    int rc = order && path ? 0 : AKV_E_IO;
    if (rc == 0)
        add_up(t, order);
    if (rc == 0 && t->n)
        qsort(order, t->n, sizeof *order, by_parent);
    if (rc == 0)
        path[0] = (struct step){first_child(order, t->n, NONE), NONE};
    for (uint32_t level = 0; rc == 0;) {
        struct step *s = &path[level];
        if (s->next < t->n && order[s->next]->parent == s->parent && order[s->next]->total >= least) {
            const struct node *node = order[s->next++];
            uint32_t index = (uint32_t)(node - t->v);
            rc = give_shared(t, node, level, fn, ctx, err);
            path[++level] = (struct step){first_child(order, t->n, index), index};
        } else if (level) {
            level--;
        } else {
            break;
        }
    }
    free(order);
    free(path);
    return rc;
}
