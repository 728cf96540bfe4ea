/* All pins of a store, with what they share. */
#include <stdlib.h>
#include <string.h>

#include "run/pins.h"
#include "store/census.h"

/* Count the pin on every page of its chain. */
static int add_chain(struct akv_census *c, const struct akv_ref *ref, uint32_t *tip, struct akv_err *err)
{
    int rc = akv_census_chain(c, &ref->root, &ref->tip, tip, err);
    for (uint32_t at = *tip; rc == 0 && at != AKV_CENSUS_NONE; at = c->list[at].up)
        c->list[at].n_pins++;
    return rc;
}

/* What its chain says of a pin. */
static void weigh(struct akv_pin *pin, const struct akv_census *c, uint32_t tip)
{
    int64_t used = 0;
    for (uint32_t at = tip; at != AKV_CENSUS_NONE; at = c->list[at].up) {
        const struct akv_census_entry *e = &c->list[at];
        *(e->n_pins > 1 ? &pin->shared_bytes : &pin->own_bytes) += e->bytes;
        used = e->used > used ? e->used : used;
    }
    pin->used = used / 1000000000;
    pin->whole = akv_census_whole(c, tip);
}

/* The weights digest of a pin's root, from the head of its last page. */
static void find_weights(struct akv_pin *pin, struct akv_store *s, const struct akv_ref *ref)
{
    struct akv_object_name name;
    if (akv_object_name(&name, &ref->root, &ref->tip, NULL) < 0 || akv_object_read(s, &s->object, &name, NULL, true, NULL) != 1)
        return;
    const char *weights = akv_head_field(akv_reader_head(s->object.reader), "weights");
    if (strlen(weights) < sizeof pin->weights)
        strncpy(pin->weights, weights, sizeof pin->weights - 1);
}

int akv_pin_list(struct akv_store *s, akv_pin_fn *fn, void (*bad)(void *ctx, const char *name, const struct akv_err *why),
                 void *ctx, struct akv_err *err)
{
    struct akv_census census = {.store = s};
    struct akv_ref *refs = NULL;
    uint32_t *tips = NULL;
    size_t n = 0;
    int rc = akv_store_refs_but(s, &refs, &n, bad, ctx, err);
    if (rc == 0 && !(tips = akv_alloc(n, sizeof *tips, err)))
        rc = AKV_E_IO;
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = add_chain(&census, &refs[i], &tips[i], err);
    for (size_t i = 0; rc >= 0 && i < n; i++) {
        struct akv_pin pin;
        akv_pin_describe(&pin, &refs[i]);
        weigh(&pin, &census, tips[i]);
        find_weights(&pin, s, &refs[i]);
        rc = fn(ctx, &pin, err);
    }
    akv_object_forget(&s->object);
    for (size_t i = 0; i < n; i++)
        akv_ref_release(&refs[i]);
    free(refs);
    free(tips);
    akv_census_release(&census);
    return rc < 0 ? rc : 0;
}
