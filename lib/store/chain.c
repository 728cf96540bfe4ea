#include "store/chain.h"

#include <stdlib.h>
#include <string.h>

#include "store/store_dir.h"

/* The page of this key by its header or whole, in s->object; it must be there. */
static int read_page(struct akv_store *s, const struct akv_key *root, const struct akv_key *key, bool headers_only, int absent,
                     struct akv_object_name *name, struct akv_err *err)
{
    int rc = akv_object_name(name, root, key, err);
    if (rc < 0)
        return rc;
    rc = akv_object_read(s, &s->object, name, NULL, headers_only, err);
    if (rc == 0)
        return akv_fail(err, absent, AKV_OBJECT_FMT ": a page of the chain is not there", s->dir, name->s);
    if (rc == 1 &&
        (!akv_key_eq(&akv_reader_page(s->object.reader)->key, key) || !akv_key_eq(&akv_reader_head(s->object.reader)->root, root)))
        return akv_fail(err, AKV_E_INPUT, AKV_OBJECT_FMT ": forged or renamed: it holds another page", s->dir, name->s);
    return rc < 0 ? rc : 0;
}

int akv_chain_trace(struct akv_store *s, const struct akv_key *root, const struct akv_key *tip, int absent, struct akv_link **links,
                    size_t *n, struct akv_err *err)
{
    struct akv_key key = *tip;
    struct akv_object_name name;
    *links = NULL;
    *n = 0;
    int rc = read_page(s, root, &key, true, absent, &name, err);
    if (rc == 0) {
        *n = akv_reader_page(s->object.reader)->index + (size_t)1;
        *links = akv_alloc(*n, sizeof **links, err);
        rc = *links ? 0 : AKV_E_IO;
    }
    for (size_t i = *n; rc == 0 && i-- > 0;) {
        const struct akv_page_rec *p = akv_reader_page(s->object.reader);
        if (p->index != i || (i + 1 < *n && p->n_tokens != AKV_PAGE_TOKENS)) {
            rc = akv_fail(err, AKV_E_INPUT, "%s: page %zu of the chain is not a full page of that index", s->object.in.name, i);
            break;
        }
        (*links)[i] = (struct akv_link){.key = key, .n_tokens = p->n_tokens, .bytes = s->object.info.bytes};
        memcpy((*links)[i].raw_sha, p->raw_sha, AKV_SHA_BYTES);
        key = p->parent;
        if (i)
            rc = read_page(s, root, &key, true, absent, &name, err);
    }
    akv_object_forget(&s->object);
    if (rc < 0) {
        free(*links);
        *links = NULL;
        *n = 0;
    }
    return rc;
}

int akv_chain_sum(struct akv_ref *ref, const struct akv_link *links, size_t n, struct akv_err *err)
{
    struct akv_sha sha;
    akv_sha_begin(&sha);
    ref->n_tokens = ref->bytes = 0;
    for (size_t i = 0; i < n; i++) {
        ref->n_tokens += links[i].n_tokens;
        ref->bytes += links[i].bytes;
        akv_sha_add(&sha, links[i].raw_sha, AKV_SHA_BYTES);
    }
    return akv_sha_end(&sha, ref->content, err);
}

int akv_chain_of(struct akv_store *s, const struct akv_ref *ref, struct akv_link **links, size_t *n, struct akv_err *err)
{
    struct akv_ref sum = {0};
    int rc = akv_chain_trace(s, &ref->root, &ref->tip, AKV_E_INPUT, links, n, err);
    if (rc == 0)
        rc = akv_chain_sum(&sum, *links, *n, err);
    if (rc == 0 && (sum.n_tokens != ref->n_tokens || memcmp(sum.content, ref->content, sizeof sum.content)))
        rc = akv_fail(err, AKV_E_INPUT, "%s: pin '%s': the pages are not those that were pinned", s->dir,
                      ref->name ? ref->name : "");
    return rc;
}

int akv_chain_read(struct akv_store *s, const struct akv_key *root, const struct akv_link *link, struct akv_object_name *name,
                   struct akv_err *err)
{
    int rc = read_page(s, root, &link->key, false, AKV_E_INPUT, name, err);
    if (rc == 0 && memcmp(akv_reader_page(s->object.reader)->raw_sha, link->raw_sha, AKV_SHA_BYTES))
        rc = akv_fail(err, AKV_E_INPUT, "%s: the page has changed", s->object.in.name);
    return rc;
}

/* Hand one page over. head: that of the first page, empty before it. */
static int give_page(struct akv_store *s, const struct akv_key *root, const struct akv_link *link, struct akv_head *head,
                     akv_store_page_fn *fn, void *ctx, struct akv_err *err)
{
    struct akv_object_name name;
    int rc = akv_chain_read(s, root, link, &name, err);
    if (rc < 0)
        return rc;
    const struct akv_head *own = akv_reader_head(s->object.reader);
    bool first = !head->n_fields && !head->geom.n_layers;
    rc = first ? akv_head_copy(head, own, err) : akv_head_match(own, head, err);
    return rc < 0 ? rc : fn(ctx, head, akv_reader_page(s->object.reader), err);
}

int akv_store_chain(struct akv_store *s, const struct akv_ref *ref, akv_store_page_fn *fn, void *ctx, struct akv_err *err)
{
    struct akv_link *links;
    struct akv_head head = {0};
    size_t n;
    /* the whole chain by its headers first: nothing is handed out of a chain that is not the ref's */
    int rc = akv_chain_of(s, ref, &links, &n, err);
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = give_page(s, &ref->root, &links[i], &head, fn, ctx, err);
    akv_object_forget(&s->object);
    akv_head_release(&head);
    free(links);
    return rc < 0 ? rc : 0;
}

int akv_store_ancestry(struct akv_store *s, const struct akv_key *root, const struct akv_key *tip, akv_store_page_fn *fn, void *ctx,
                       struct akv_err *err)
{
    struct akv_key key = *tip;
    struct akv_object_name name;
    int rc = 0;
    for (bool more = true; rc == 0 && more;) {
        rc = read_page(s, root, &key, true, AKV_E_INPUT, &name, err);
        if (rc < 0)
            break;
        const struct akv_page_rec *p = akv_reader_page(s->object.reader);
        rc = fn(ctx, akv_reader_head(s->object.reader), p, err);
        more = p->has_parent; /* keys are hashes of what is before them: no chain is a ring */
        key = p->parent;
    }
    akv_object_forget(&s->object);
    return rc;
}
