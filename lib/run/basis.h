/* The prompts that others are compared with: requests, chains of streams and pins, the pages of a store. */
#ifndef AKV_RUN_BASIS_H
#define AKV_RUN_BASIS_H

#include "kv/key.h"
#include "run/request.h"
#include "store/store.h"

/* A page by its header. */
struct akv_base_page {
    struct akv_key root, parent, key; /* parent: zeros for page 0 */
    uint32_t n, ids[AKV_PAGE_TOKENS];
};

size_t akv_common_ids(const uint32_t *a, size_t n_a, const uint32_t *b, size_t n_b); /* how many both begin with */
int akv_compare_ids(const uint32_t *a, size_t n_a, const uint32_t *b, size_t n_b);   /* a beginning before what goes on from it */

/* Pages sorted so that the children of one page stand together, in the order of their ids. */
struct akv_base_pages {
    struct akv_base_page *v;
    size_t n, cap;
    const struct akv_base_page **index; /* by key; NULL before akv_base_pages_index() */
};

int akv_base_pages_add(struct akv_base_pages *p, const struct akv_key *root, const struct akv_page_rec *rec, struct akv_err *err);
void akv_base_pages_sort(struct akv_base_pages *p); /* and each only once */
/*
 * The stored chain that begins most like ids, as a record (id "chain KEY"); *common: tokens that are equal. 1, or 0: not one token is. Of
 * chains that are equally near, one that goes on otherwise comes before one that ends there.
 */
int akv_base_pages_nearest(const struct akv_base_pages *p, const uint32_t *ids, size_t n, struct akv_record *out, size_t *common,
                           struct akv_err *err);
int akv_base_pages_index(struct akv_base_pages *p, struct akv_err *err); /* after the last page of one root was added */
/* The chain that ends with this page, as a record of this id. AKV_E_INPUT: an ancestor is absent, or it has more than `most` tokens. */
int akv_base_pages_chain(const struct akv_base_pages *p, const struct akv_key *tip, const char *id, size_t most,
                         struct akv_record *out, struct akv_err *err);
void akv_base_pages_release(struct akv_base_pages *p);

#endif
