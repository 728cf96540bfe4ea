/* Taking objects away, the least recently used leaf first: for room under a quota, or all that no pin holds. */
#include "store/census.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define YOUNG_SECONDS 600u /* what somebody may be working with */
#define SLACK 16u          /* a save that finds no room makes a sixteenth of the quota free, so that the next ones need no census */

/* ---- what stays ---- */

/* All pages of a root; held says which root that was done for last. */
static void hold_root(struct akv_census *c, uint64_t root, uint64_t *held)
{
    if (*held == root)
        return;
    for (size_t i = 0; i < c->n; i++)
        if (c->list[i].root == root)
            c->list[i].held = true;
    *held = root;
}

/* Hold the chain of a pin. Where it is broken nobody knows what else it had: then all pages of its root stay. */
static int hold_pin(struct akv_census *c, const struct akv_ref *ref, uint64_t *held_root, const struct akv_store_work *w,
                    struct akv_err *err)
{
    struct akv_key name;
    char msg[AKV_ERR_BYTES];
    int rc = akv_index_key(&name, ref->root.b, sizeof ref->root.b, &ref->tip, err);
    if (rc < 0)
        return rc;
    uint32_t tip = akv_census_find(c, &name);
    if (akv_census_whole(c, tip)) {
        akv_census_hold(c, tip);
        return 0;
    }
    hold_root(c, akv_root_tag(&ref->root), held_root);
    snprintf(msg, sizeof msg, "pin '%s' lacks pages or has damaged ones: pages of its root stay until it is removed or made again",
             ref->name);
    if (w->note)
        w->note(w->ctx, msg);
    return 0;
}

static uint64_t held_bytes(const struct akv_census *c)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < c->n; i++)
        sum += c->list[i].held ? c->list[i].bytes : 0;
    return sum;
}

/* What pins hold, of so many bytes; and what cannot be read: that may be of a later version. */
static int hold_pins(struct akv_census *c, const struct akv_store_work *w, uint64_t *bytes, struct akv_err *err)
{
    struct akv_ref *refs;
    uint64_t held_root = 0;
    size_t n;
    int rc = akv_store_refs(c->store, &refs, &n, err);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < n; i++) {
        if (rc == 0)
            rc = hold_pin(c, &refs[i], &held_root, w, err);
        akv_ref_release(&refs[i]);
    }
    free(refs);
    *bytes = held_bytes(c);
    for (size_t i = 0; i < c->n; i++)
        c->list[i].held = c->list[i].held || c->list[i].unread;
    return rc;
}

static void hold_young(struct akv_census *c, uint64_t now)
{
    int64_t since = ((int64_t)now - YOUNG_SECONDS) * 1000000000;
    for (uint32_t i = 0; i < c->n; i++)
        if (c->list[i].used > since)
            akv_census_hold(c, i);
}

/* ---- what goes: a heap of leaves, the one longest unused on top ---- */

struct leaves {
    const struct akv_census *census;
    uint32_t *heap;
    size_t n;
};

static bool older(const struct leaves *l, uint32_t a, uint32_t b)
{
    const struct akv_census_entry *x = &l->census->list[a], *y = &l->census->list[b];
    return x->used != y->used ? x->used < y->used : memcmp(x->name.b, y->name.b, sizeof x->name.b) < 0;
}

static void push(struct leaves *l, uint32_t entry)
{
    size_t i = l->n++;
    for (; i && older(l, entry, l->heap[(i - 1) / 2]); i = (i - 1) / 2)
        l->heap[i] = l->heap[(i - 1) / 2];
    l->heap[i] = entry;
}

static uint32_t pop(struct leaves *l)
{
    uint32_t top = l->heap[0], last = l->heap[--l->n];
    size_t i = 0, kid;
    for (; (kid = 2 * i + 1) < l->n; i = kid) {
        kid += kid + 1 < l->n && older(l, l->heap[kid + 1], l->heap[kid]);
        if (!older(l, l->heap[kid], last))
            break;
        l->heap[i] = l->heap[kid];
    }
    l->heap[i] = last;
    return top;
}

static int delete_entry(struct akv_census *c, uint32_t entry, const struct akv_store_work *w, struct akv_err *err)
{
    struct akv_object_name path;
    if (w->flags & AKV_STORE_DRY_RUN)
        return 0;
    if (w->cancel && *w->cancel)
        return akv_fail(err, AKV_E_CANCEL, "interrupted");
    path = akv_object_path(&c->list[entry].name);
    return c->store->ops->remove(c->store, &path, err);
}

/* Delete leaves that are not held until no more than `until` bytes are left. */
static int evict(struct akv_census *c, uint64_t until, const struct akv_store_work *w, struct akv_collected *done,
                 struct akv_err *err)
{
    struct leaves l = {.census = c};
    int rc = 0;
    l.heap = akv_alloc(c->n, sizeof *l.heap, err);
    if (!l.heap)
        return AKV_E_IO;
    for (uint32_t i = 0; i < c->n; i++)
        if (!c->list[i].n_kids && !c->list[i].held && !c->list[i].gone)
            push(&l, i);
    while (rc == 0 && c->bytes > until && l.n) {
        uint32_t i = pop(&l);
        struct akv_census_entry *e = &c->list[i];
        rc = delete_entry(c, i, w, err);
        if (rc < 0)
            break;
        e->gone = true;
        c->bytes -= e->bytes;
        done->gone++;
        done->gone_bytes += e->bytes;
        if (e->up != AKV_CENSUS_NONE && --c->list[e->up].n_kids == 0 && !c->list[e->up].held)
            push(&l, e->up);
    }
    free(l.heap);
    for (size_t i = 0; i < c->n; i++)
        done->objects += !c->list[i].gone;
    done->bytes = c->bytes;
    return rc;
}

/* ---- temps ---- */

static int sweep(struct akv_store *s, const struct akv_store_work *w, uint64_t now, uint64_t *n, struct akv_err *err)
{
    if (s->tmp < 0)
        return 0;
    DIR *d = akv_store_list(s->tmp, ".");
    int rc = 0;
    if (!d)
        return akv_fail_errno(err, "%s/tmp: cannot list", s->dir);
    for (struct dirent *e; rc == 0 && (e = readdir(d));) {
        struct stat st;
        if (fstatat(s->tmp, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || S_ISDIR(st.st_mode))
            continue;
        if (!(w->flags & AKV_STORE_FORCE) && st.st_mtime > (int64_t)now - (int64_t)YOUNG_SECONDS)
            continue;
        if (!(w->flags & AKV_STORE_DRY_RUN) && unlinkat(s->tmp, e->d_name, 0) < 0 && errno != ENOENT)
            rc = akv_fail_errno(err, "%s/tmp/%s: cannot remove", s->dir, e->d_name);
        *n += rc == 0;
    }
    closedir(d);
    return rc;
}

/* ---- the three occasions ---- */

/* Alone with the store; a dry run only reads, and keeps others from collecting where it can. */
static int begin(struct akv_store *s, const struct akv_store_work *w, struct akv_err *err)
{
    return w->flags & AKV_STORE_DRY_RUN ? akv_store_look_begin(s, err) : akv_store_alone_begin(s, err);
}

static void end(struct akv_store *s, const struct akv_store_work *w)
{
    if (w->flags & AKV_STORE_DRY_RUN)
        akv_store_look_end(s);
    else
        (void)akv_store_alone_end(s, NULL); /* no batch goes on behind it */
}

static int keep_count(struct akv_store *s, const struct akv_store_work *w, const struct akv_collected *done, struct akv_err *err)
{
    return w->flags & AKV_STORE_DRY_RUN || !s->quota ? 0 : akv_usage_set(s, done->objects, done->bytes, err);
}

int akv_store_collect(struct akv_store *s, const struct akv_store_work *w, struct akv_collected *done, struct akv_err *err)
{
    struct akv_census c = {0};
    *done = (struct akv_collected){0};
    int rc = begin(s, w, err);
    if (rc < 0)
        return rc;
    uint64_t now = akv_store_now(s);
    if (!now && w->flags & AKV_STORE_DRY_RUN)
        now = (uint64_t)time(NULL);
    rc = akv_store_read_config(s, err);
    if (rc == 0)
        rc = akv_census_take(&c, s, w->n_threads, w->cancel, err);
    if (rc == 0)
        rc = hold_pins(&c, w, &done->pinned_bytes, err);
    if (rc == 0 && !(w->flags & AKV_STORE_FORCE))
        hold_young(&c, now);
    if (rc == 0)
        rc = evict(&c, 0, w, done, err);
    if (rc == 0)
        rc = keep_count(s, w, done, err);
    if (rc == 0)
        rc = sweep(s, w, now, &done->temps, err);
    done->quota = s->quota;
    end(s, w);
    akv_census_release(&c);
    return rc;
}

int akv_store_set_quota(struct akv_store *s, uint64_t quota, const struct akv_store_work *w, struct akv_collected *done,
                        struct akv_err *err)
{
    struct akv_census c = {0};
    *done = (struct akv_collected){.quota = quota};
    int rc = begin(s, w, err);
    if (rc < 0)
        return rc;
    rc = akv_census_take(&c, s, w->n_threads, w->cancel, err);
    if (rc == 0)
        rc = hold_pins(&c, w, &done->pinned_bytes, err);
    if (rc == 0 && quota && quota < done->pinned_bytes)
        rc = akv_fail(err, AKV_E_USAGE, "%s: a quota of %llu bytes is less than the %llu that pins hold", s->dir,
                      (unsigned long long)quota, (unsigned long long)done->pinned_bytes);
    if (rc == 0 && !(w->flags & AKV_STORE_DRY_RUN))
        rc = akv_store_write_quota(s, quota, err);
    if (rc == 0)
        rc = evict(&c, quota ? quota : UINT64_MAX, w, done, err);
    if (rc == 0)
        rc = keep_count(s, w, done, err);
    end(s, w);
    akv_census_release(&c);
    return rc;
}

static int no_room(const struct akv_store *s, uint64_t bytes, uint64_t pinned, uint64_t unread, uint64_t chain, struct akv_err *err)
{
    char other[64] = "";
    if (unread)
        snprintf(other, sizeof other, "what cannot be read %llu, ", (unsigned long long)unread);
    return akv_fail(err, AKV_E_IO, "%s: no room for %llu bytes under the quota of %llu: pins hold %llu, %sthis chain %llu more",
                    s->dir, (unsigned long long)bytes, (unsigned long long)s->quota, (unsigned long long)pinned, other,
                    (unsigned long long)chain);
}

/* With the store to ourselves: count anew, and evict what is needed. own: the page that the new one follows; its chain stays. */
static int make_room(struct akv_store *s, const struct akv_key *root, const struct akv_key *own, uint64_t bytes,
                     struct akv_err *err)
{
    struct akv_census c = {0};
    struct akv_collected done = {0};
    const struct akv_store_work w = {0};
    struct akv_key name;
    uint64_t pinned = 0, low;
    int rc = akv_census_take(&c, s, 1, NULL, err);
    if (rc == 0)
        rc = hold_pins(&c, &w, &pinned, err);
    if (rc == 0 && own)
        rc = akv_index_key(&name, root->b, sizeof root->b, own, err);
    if (rc < 0)
        goto out;
    uint64_t kept = held_bytes(&c);
    if (own)
        akv_census_hold(&c, akv_census_find(&c, &name));
    uint64_t held = held_bytes(&c);
    if (bytes > s->quota || held > s->quota - bytes) {
        rc = no_room(s, bytes, pinned, kept - pinned, held - kept, err);
        goto out;
    }
    low = s->quota - bytes;
    if (c.bytes > low)
        low -= low > s->quota / SLACK ? s->quota / SLACK : low;
    rc = evict(&c, low, &w, &done, err);
    if (rc == 0)
        rc = akv_usage_set(s, done.objects + 1, done.bytes + bytes, err);
out:
    akv_census_release(&c);
    return rc;
}

int akv_store_reserve(struct akv_store *s, const struct akv_key *root, const struct akv_key *own, uint64_t bytes,
                      struct akv_err *err)
{
    if (!s->quota)
        return 0;
    int rc = akv_usage_reserve(s, bytes, err);
    if (rc != 0)
        return rc < 0 ? rc : 0;
    rc = akv_store_alone_begin(s, err);
    if (rc < 0)
        return rc;
    rc = make_room(s, root, own, bytes, err);
    int back = akv_store_alone_end(s, err);
    return rc < 0 ? rc : back;
}
