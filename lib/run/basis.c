#include "run/basis.h"
#include "run/pins.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "chat/explain.h"
#include "model/model.h"
#include "run/input.h"
#include "store/store.h"

#define RECENT_PAGES 16384
#define CHAIN_TOKENS_MAX ((size_t)1 << 26) /* of the chains of one basis */

struct akv_basis {
    struct akv_request **requests; /* in the order in which they came */
    const struct akv_request **sorted;
    size_t n, cap;
    bool is_sorted;
    size_t chain_tokens;
    struct akv_base_pages pages; /* of a store, sorted */
};

int akv_basis_open(struct akv_basis **out, struct akv_err *err)
{
    *out = akv_alloc(1, sizeof **out, err);
    return *out ? 0 : AKV_E_IO;
}

void akv_basis_close(struct akv_basis *b)
{
    if (!b)
        return;
    for (size_t i = 0; i < b->n; i++)
        akv_request_free(b->requests[i]);
    free(b->requests);
    free(b->sorted);
    akv_base_pages_release(&b->pages);
    free(b);
}

const struct akv_request *akv_basis_request(const struct akv_basis *b, size_t i)
{
    return i < b->n ? b->requests[i] : NULL;
}

/* r is taken over, also on failure. */
static int add_request(struct akv_basis *b, struct akv_request *r, struct akv_err *err)
{
    if (b->n == b->cap) {
        size_t cap = b->cap * 2 + 16;
        struct akv_request **grown = akv_realloc(b->requests, cap, sizeof *grown, err);
        if (!grown) {
            akv_request_free(r);
            return AKV_E_IO;
        }
        b->requests = grown;
        b->cap = cap;
    }
    b->requests[b->n++] = r;
    b->is_sorted = false;
    return 0;
}

static int add_chain(struct akv_basis *b, const struct akv_base_pages *pages, const struct akv_key *tip, const char *id,
                     struct akv_err *err)
{
    struct akv_record rec = {0};
    struct akv_request *r;
    int rc = akv_base_pages_chain(pages, tip, id, CHAIN_TOKENS_MAX - b->chain_tokens, &rec, err);
    if (rc < 0)
        return rc;
    b->chain_tokens += rec.n;
    rc = akv_request_wrap(&r, &rec, err);
    return rc < 0 ? rc : add_request(b, r, err);
}

/* ---- reading ---- */

static int read_records(struct akv_basis *b, struct akv_input *in, const struct akv_model *m, struct akv_err *err)
{
    struct akv_request *r;
    int rc;
    while ((rc = akv_request_read(&r, in, m, err)) > 0)
        if ((rc = add_request(b, r, err)) < 0)
            break;
    return rc;
}

/* The chains of a stream whose pages were read. */
static int add_tips(struct akv_basis *b, struct akv_base_pages *pages, const struct akv_reader *reader, struct akv_err *err)
{
    struct akv_key *tips = NULL;
    size_t n = 0;
    int rc = akv_reader_all_tips(reader, &tips, &n, err);
    if (rc == 0)
        rc = akv_base_pages_index(pages, err);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        char hex[AKV_SHA_HEX], id[32];
        akv_hex(hex, &tips[i], sizeof tips[i]);
        snprintf(id, sizeof id, "chain %.16s", hex);
        rc = add_chain(b, pages, &tips[i], id, err);
    }
    free(tips);
    return rc;
}

static int read_stream(struct akv_basis *b, struct akv_input *in, const struct akv_model *m, struct akv_err *err)
{
    struct akv_base_pages pages = {0};
    size_t before = b->n;
    int rc = akv_input_stream(in, err);
    if (rc < 0)
        return rc;
    akv_reader_headers_only(in->reader);
    while ((rc = akv_reader_next(in->reader, err)) > 0) {
        if (rc == AKV_EV_PAGE) {
            rc = akv_base_pages_add(&pages, &akv_reader_head(in->reader)->root, akv_reader_page(in->reader), err);
        } else if (rc == AKV_EV_REQUEST) {
            struct akv_request *r;
            size_t len;
            const char *text = akv_reader_request(in->reader, &len);
            rc = akv_request_parse(&r, NULL, text, len, m, err);
            rc = rc < 0 ? rc : add_request(b, r, err);
        }
        if (rc < 0)
            break;
    }
    if (rc < 0)
        akv_err_prefix(err, "%s: record %llu", in->in.name, (unsigned long long)akv_reader_record(in->reader));
    if (rc == 0 && b->n == before)
        rc = add_tips(b, &pages, in->reader, err);
    akv_base_pages_release(&pages);
    return rc;
}

int akv_basis_read(struct akv_basis *b, struct akv_input *in, const struct akv_model *m, struct akv_err *err)
{
    if (in->kind == AKV_KIND_STREAM)
        return read_stream(b, in, m, err);
    if (in->kind == AKV_KIND_GGUF)
        return akv_fail(err, AKV_E_INPUT, "%s: a model: records or a stream are needed", in->in.name);
    return read_records(b, in, m, err);
}

static int take_page(void *ctx, const struct akv_head *head, const struct akv_page_rec *rec, struct akv_err *err)
{
    return akv_base_pages_add(ctx, &head->root, rec, err);
}

int akv_basis_pin(struct akv_basis *b, struct akv_store *s, const char *name, const char *root, struct akv_err *err)
{
    struct akv_base_pages pages = {0};
    struct akv_ref ref;
    int rc = akv_pin_find(s, name, root, &ref, err);
    if (rc < 0)
        return rc;
    rc = akv_store_ancestry(s, &ref.root, &ref.tip, take_page, &pages, err);
    if (rc == 0)
        rc = akv_base_pages_index(&pages, err);
    char id[AKV_PIN_NAME_MAX + 8];
    snprintf(id, sizeof id, "pin %s", ref.name);
    if (rc == 0)
        rc = add_chain(b, &pages, &ref.tip, id, err);
    akv_base_pages_release(&pages);
    akv_ref_release(&ref);
    return rc;
}

/* Pins that are damaged are passed over: they cannot have been hit either. */
int akv_basis_store(struct akv_basis *b, struct akv_store *s, struct akv_err *err)
{
    struct akv_ref *refs = NULL;
    size_t n = 0;
    int rc = akv_store_refs(s, &refs, &n, err);
    for (size_t i = 0; i < n; i++) {
        if (rc >= 0 && akv_store_ancestry(s, &refs[i].root, &refs[i].tip, take_page, &b->pages, NULL) == AKV_E_IO)
            rc = akv_fail(err, AKV_E_IO, "out of memory for the store's pages");
        akv_ref_release(&refs[i]);
    }
    free(refs);
    if (rc >= 0)
        rc = akv_store_recent(s, RECENT_PAGES, take_page, &b->pages, err);
    akv_base_pages_sort(&b->pages);
    return rc < 0 ? rc : 0;
}

/* ---- comparing ---- */

static size_t common_ids(const struct akv_record *a, const struct akv_record *b)
{
    return akv_common_ids(a->ids, a->n, b->ids, b->n);
}

static int by_ids(const struct akv_record *a, const struct akv_record *b)
{
    return akv_compare_ids(a->ids, a->n, b->ids, b->n);
}

static int by_ids_of(const void *a, const void *b)
{
    const struct akv_request *x = *(const struct akv_request *const *)a, *y = *(const struct akv_request *const *)b;
    return by_ids(&x->rec, &y->rec);
}

static int sort_requests(struct akv_basis *b, struct akv_err *err)
{
    if (b->is_sorted)
        return 0;
    free(b->sorted);
    b->sorted = akv_alloc(b->n, sizeof *b->sorted, err);
    if (!b->sorted)
        return AKV_E_IO;
    for (size_t i = 0; i < b->n; i++)
        b->sorted[i] = b->requests[i];
    if (b->n)
        qsort(b->sorted, b->n, sizeof *b->sorted, by_ids_of);
    b->is_sorted = true;
    return 0;
}

/* In the order of their ids, what is most like a record stands next to where it would stand. NULL: not even the first token is equal. */
static const struct akv_record *nearest_request(const struct akv_basis *b, const struct akv_record *r, size_t *common)
{
    size_t lo = 0, hi = b->n, best = b->n;
    *common = 0;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (by_ids(&b->sorted[mid]->rec, r) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    for (size_t i = lo ? lo - 1 : 0; i <= lo && i < b->n; i++) {
        size_t c = common_ids(&b->sorted[i]->rec, r);
        if (c > *common) {
            best = i;
            *common = c;
        }
    }
    if (best == b->n)
        return NULL;
    if (b->sorted[best]->rec.n == *common && *common < r->n && best + 1 < b->n &&
        common_ids(&b->sorted[best + 1]->rec, r) == *common)
        best++; /* one that ends here is no news if another goes on */
    return &b->sorted[best]->rec;
}

static int write_line(const struct akv_explain *e, const struct akv_record *a, const struct akv_record *b, bool json, char **line,
                      struct akv_err *err)
{
    struct akv_buf out;
    akv_buf_init(&out, 0);
    if (json) {
        json_t *o = akv_explain_json(e, a, b);
        akv_json_dump(&out, o);
        json_decref(o);
    } else {
        akv_explain_words(e, a, b, &out);
    }
    int rc = akv_buf_check(&out, "explanation", err);
    if (rc == 0 && !(*line = akv_buf_steal(&out)))
        rc = akv_fail(err, AKV_E_IO, "out of memory for an explanation");
    akv_buf_release(&out);
    return rc < 0 ? rc : 1;
}

int akv_basis_explain(struct akv_basis *b, const struct akv_request *r, const struct akv_model *m, bool json, char **line,
                      struct akv_err *err)
{
    struct akv_explain e = {0};
    struct akv_record chain = {0};
    size_t common, in_pages = 0;
    *line = NULL;
    int rc = sort_requests(b, err);
    if (rc < 0)
        return rc;
    const struct akv_record *base = nearest_request(b, &r->rec, &common);
    if (b->pages.n)
        rc = akv_base_pages_nearest(&b->pages, r->rec.ids, r->rec.n, &chain, &in_pages, err);
    if (rc > 0 && (!base || in_pages > common))
        base = &chain;
    if (rc >= 0 && !base)
        rc = akv_fail(err, AKV_E_NO, "%.200s: nothing there begins like it: not one token is the same", r->rec.id);
    if (rc >= 0)
        rc = akv_explain(&e, base, &r->rec, m ? m->tok : NULL, err);
    if (rc == 0 && e.parts)
        rc = write_line(&e, base, &r->rec, json, line, err);
    akv_explain_release(&e);
    akv_record_release(&chain);
    return rc;
}
