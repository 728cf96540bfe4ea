/* Pages in a store: each object is a stream of one page. */
#include "store/store_dir.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ATTEMPTS 4 /* each lost race needs another process that publishes and quarantines the same page in between */

/* ---- reading ---- */

/* Identity is never trusted alone: the page must be the one that was asked for, ids included. */
static bool is_page(const struct akv_object *o, const struct akv_page_rec *want)
{
    const struct akv_page_rec *p = akv_reader_page(o->reader);
    return akv_key_eq(&p->key, &want->key) && p->index == want->index && p->n_tokens == want->n_tokens &&
           p->has_parent == want->has_parent && akv_key_eq(&p->parent, &want->parent) &&
           !memcmp(p->ids, want->ids, p->n_tokens * sizeof *p->ids);
}

/* An object that holds another page than the one asked for, unless nothing could hold that. */
static int fail_identity(const struct akv_object *o, const struct akv_page_rec *want, struct akv_err *err)
{
    struct akv_key check;
    int rc = akv_page_key(&check, want->has_parent ? &want->parent : NULL, want->ids, want->n_tokens, err);
    if (rc == 0 && (!akv_key_eq(&check, &want->key) || (want->index > 0) != want->has_parent))
        rc = akv_fail(err, AKV_E_USAGE, "page %lu: the ids asked for do not hash to the key", (unsigned long)want->index);
    return rc < 0 ? rc : akv_fail(err, AKV_E_INPUT, "%s: forged or renamed: it holds another page", o->in.name);
}

int akv_store_read(struct akv_store *s, struct akv_object *o, const struct akv_head *head, const struct akv_key *key,
                   const struct akv_key *parent, uint32_t index, const uint32_t *ids, uint32_t n_ids, struct akv_page_rec *rec,
                   struct akv_err *why)
{
    struct akv_page_rec want = {.key = *key, .has_parent = parent != NULL, .index = index, .n_tokens = n_ids, .ids = ids};
    struct akv_object_name name;
    struct akv_err e = {0};
    if (parent)
        want.parent = *parent;
    int rc = akv_object_name(&name, &head->root, key, why);
    if (rc < 0)
        return rc;
    rc = akv_object_read(s, o, &name, head, false, &e);
    if (rc == 0)
        return 0;
    if (rc == 1 && is_page(o, &want)) { /* the reader has hashed its ids */
        *rec = *akv_reader_page(o->reader);
        return 1;
    }
    if (rc == 1)
        rc = fail_identity(o, &want, &e);
    akv_fail(why, rc, "%s", e.msg);
    if (rc == AKV_E_INPUT)
        s->ops->set_aside(s, &name, &o->info, e.msg);
    akv_object_forget(o);
    return rc == AKV_E_USAGE ? rc : 0;
}

bool akv_store_load(struct akv_store *s, struct akv_object *o, struct akv_coder *c, const struct akv_head *head,
                    const struct akv_page_rec *want, struct akv_page_rec *rec, uint8_t *page)
{
    struct akv_object_name name;
    int rc = akv_object_name(&name, &head->root, &want->key, NULL);
    if (rc == 0)
        rc = akv_object_begin(s, o, &name, head, NULL);
    bool good =
        rc == 1 && is_page(o, want) &&
        akv_page_read(c, &head->geom, &o->in, akv_reader_page(o->reader), akv_reader_body_xxh(o->reader), page, NULL) == 0 &&
        akv_object_end(o, NULL) == 0;
    if (good) {
        *rec = *akv_reader_page(o->reader);
        rec->ids = want->ids;
        s->ops->touch(s, &name);
    }
    akv_object_forget(o);
    return good;
}

int akv_store_get(struct akv_store *s, const struct akv_head *head, const struct akv_key *key, const struct akv_key *parent,
                  uint32_t index, const uint32_t *ids, uint32_t n_ids, struct akv_page_rec *rec, struct akv_err *why)
{
    return akv_store_read(s, &s->object, head, key, parent, index, ids, n_ids, rec, why);
}

void akv_store_reject(struct akv_store *s, struct akv_object *o, const struct akv_head *head, const struct akv_key *key,
                      struct akv_err *why)
{
    struct akv_object_name name;
    if (!o)
        o = &s->object;
    akv_err_prefix(why, "%s", o->in.name);
    if (why->code == AKV_E_INPUT && akv_object_name(&name, &head->root, key, NULL) == 0)
        s->ops->set_aside(s, &name, &o->info, why->msg);
}

bool akv_store_ahead(struct akv_store *s, const struct akv_head *head, const struct akv_key *key)
{
    struct akv_object_name name;
    return akv_object_name(&name, &head->root, key, NULL) == 0 && s->ops->ahead(s, &name);
}

bool akv_store_has(struct akv_store *s, const struct akv_head *head, const struct akv_key *key)
{
    struct akv_object_name name;
    return akv_object_name(&name, &head->root, key, NULL) == 0 && s->ops->has(s, &name, NULL);
}

void akv_store_touch(struct akv_store *s, const struct akv_head *head, const struct akv_key *key)
{
    struct akv_object_name name;
    if (akv_object_name(&name, &head->root, key, NULL) == 0)
        s->ops->touch(s, &name);
}

/* ---- publishing ---- */

static int no_parent(const struct akv_store *s, const struct akv_page_rec *rec, struct akv_err *err)
{
    return akv_fail(err, AKV_E_NO, "%s: page %lu: its parent is not in the store", s->dir, (unsigned long)rec->index);
}

/* The object's bytes into a synced temp. */
static int write_object(int fd, const char *path, const struct akv_head *head, const struct akv_page_rec *rec, uint64_t *bytes,
                        struct akv_err *err)
{
    struct akv_writer *w;
    int rc = akv_writer_open(&w, fd, path, head, err);
    if (rc < 0)
        return rc;
    if (rec->has_parent)
        rc = akv_writer_exclude(w, &rec->parent, err); /* it has its own object */
    if (rc == 0)
        rc = akv_writer_page(w, rec, err);
    if (rc < 0) {
        akv_writer_abort(w);
        return rc;
    }
    rc = akv_writer_close(w, bytes, err);
    if (rc == 0 && akv_file_sync(fd) < 0)
        rc = akv_fail_errno(err, "%s: cannot sync", path);
    return rc;
}

/* Room for a temp under the quota, and its name. */
static int give_name(struct akv_store *s, const char *temp, uint64_t size, const struct akv_object_name *name,
                     const struct akv_head *head, const struct akv_page_rec *rec, struct akv_err *err)
{
    const struct akv_key *parent = rec->has_parent ? &rec->parent : NULL;
    int rc = akv_store_reserve(s, &head->root, parent, size, err);
    if (rc < 0)
        return rc;
    if (parent && !akv_store_has(s, head, parent)) /* others came in between while room was made */
        rc = no_parent(s, rec, err);
    else
        rc = s->ops->put(s, temp, name, err);
    if (rc != 1 && s->quota)
        akv_usage_return(s, size);
    return rc;
}

/* 1: published; 0: another process was first. */
static int publish(struct akv_store *s, const struct akv_object_name *name, const struct akv_head *head,
                   const struct akv_page_rec *rec, uint64_t *bytes, struct akv_err *err)
{
    char temp[64], path[4096];
    uint64_t size = 0;
    int fd = akv_store_temp(s, temp, err);
    if (fd < 0)
        return fd;
    snprintf(path, sizeof path, "%s/tmp/%s", s->dir, temp);
    int rc = write_object(fd, path, head, rec, &size, err);
    if (akv_file_close(fd) < 0 && rc == 0)
        rc = akv_fail_errno(err, "%s: cannot close", path);
    if (rc == 0)
        rc = give_name(s, temp, size, name, head, rec, err);
    unlinkat(s->tmp, temp, 0);
    if (rc != 1)
        return rc;
    if (bytes)
        *bytes += size;
    s->last.root = head->root;
    s->last.key = rec->key;
    s->last.index = rec->index;
    s->last.any = true;
    return 1;
}

enum found { ABSENT, SAME, OTHER };

/* What stands under the page's name now; damaged objects have gone to quarantine. An enum found, or an error. */
static int look(struct akv_store *s, const struct akv_head *head, const struct akv_page_rec *rec, uint8_t sha[AKV_SHA_BYTES],
                struct akv_err *err)
{
    struct akv_page_rec there;
    struct akv_err why = {0};
    int rc =
        akv_store_get(s, head, &rec->key, rec->has_parent ? &rec->parent : NULL, rec->index, rec->ids, rec->n_tokens, &there, &why);
    if (rc == 1) {
        memcpy(sha, there.raw_sha, AKV_SHA_BYTES);
        return memcmp(sha, rec->raw_sha, AKV_SHA_BYTES) ? OTHER : SAME;
    }
    if (rc == 0 && (!why.code || why.code == AKV_E_INPUT))
        return ABSENT;
    return akv_fail(err, why.code, "%s", why.msg);
}

/* The index of a page in the store, by its header, after making its name durable: AKV_E_NO when there is no sound one. */
static int settle_parent(struct akv_store *s, const struct akv_head *head, const struct akv_key *key,
                         const struct akv_object_name *name, uint32_t *index, struct akv_err *err)
{
    struct akv_err why = {0};
    int rc = akv_object_read(s, &s->object, name, head, true, &why);
    const struct akv_page_rec *p = rc == 1 ? akv_reader_page(s->object.reader) : NULL;
    if (p && (!akv_key_eq(&p->key, key) || p->n_tokens != AKV_PAGE_TOKENS))
        rc = akv_fail(&why, AKV_E_INPUT, "%s: forged or renamed: it holds another page", s->object.in.name);
    if (rc == AKV_E_INPUT)
        s->ops->set_aside(s, name, &s->object.info, why.msg);
    if (rc == 1)
        *index = p->index;
    akv_object_forget(&s->object);
    if (rc == 1)
        return s->ops->settle(s, name, err);
    if (rc == 0)
        akv_fail(&why, AKV_E_NO, "%s: its parent is gone", s->dir);
    return rc == 0 || rc == AKV_E_INPUT ? akv_fail(err, AKV_E_NO, "%s", why.msg) : akv_fail(err, rc, "%s", why.msg);
}

/*
 * The parent is there, survives a loss of power, and is the page before this one: the key does not hold the index, and a page with
 * another one would be taken for damaged when it is looked up.
 */
static int check_parent(struct akv_store *s, const struct akv_head *head, const struct akv_page_rec *rec, struct akv_err *err)
{
    struct akv_object_name name;
    uint32_t index = s->last.index;
    if (!rec->has_parent)
        return 0;
    int rc = akv_object_name(&name, &head->root, &rec->parent, err);
    if (rc == 0 && !s->ops->has(s, &name, NULL))
        rc = no_parent(s, rec, err);
    bool known = s->last.any && akv_key_eq(&s->last.key, &rec->parent) && akv_key_eq(&s->last.root, &head->root);
    if (rc == 0 && !known)
        rc = settle_parent(s, head, &rec->parent, &name, &index, err);
    if (rc == 0 && index + 1 != rec->index)
        rc = akv_fail(err, AKV_E_INPUT, "page %lu: its parent is page %lu", (unsigned long)rec->index, (unsigned long)index);
    return rc;
}

static int put_locked(struct akv_store *s, const struct akv_head *head, const struct akv_page_rec *rec, bool computed,
                      uint64_t *bytes, struct akv_err *err)
{
    struct akv_object_name name;
    bool broken = false;
    unsigned long index = rec->index;
    int rc = akv_object_name(&name, &head->root, &rec->key, err);
    if (rc == 0)
        rc = akv_store_read_config(s, err);
    if (rc == 0)
        rc = check_parent(s, head, rec, err);
    for (int i = 0; rc == 0 && i < ATTEMPTS; i++) {
        uint8_t sha[AKV_SHA_BYTES];
        rc = look(s, head, rec, sha, err);
        if (rc == SAME) {
            akv_store_touch(s, head, &rec->key);
            return 0;
        }
        if (rc == OTHER && !computed)
            return akv_fail(err, AKV_E_INPUT,
                            "%s: page %lu: exactness is broken: the store holds other KV bytes for these ids; refused", s->dir,
                            index);
        if (rc == OTHER) {
            rc = akv_store_condemn(s, &head->root, &rec->key, sha, "exactness was broken: computing the page gave other KV bytes",
                                   err);
            broken = broken || rc == 1;
        }
        if (rc >= 0)
            rc = publish(s, &name, head, rec, bytes, err);
    }
    if (rc == 0)
        rc = akv_fail(err, AKV_E_IO, AKV_OBJECT_FMT ": cannot be replaced", s->dir, name.s);
    if (rc == 1 && broken)
        rc = akv_fail(
            err, AKV_E_INPUT,
            "%s: page %lu: exactness was broken: the store held other KV bytes for these ids; they and what was built on them are "
            "in quarantine, the page computed here is stored",
            s->dir, index);
    return rc;
}

int akv_store_put(struct akv_store *s, const struct akv_head *head, const struct akv_page_rec *rec, bool computed, uint64_t *bytes,
                  struct akv_err *err)
{
    int rc = akv_store_batch_begin(s, err);
    if (rc < 0)
        return rc;
    rc = put_locked(s, head, rec, computed, bytes, err);
    akv_store_batch_end(s);
    return rc;
}
