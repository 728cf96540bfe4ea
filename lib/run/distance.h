/* How far two KV bodies of the same tokens are apart, layer by layer. */
#ifndef AKV_RUN_DISTANCE_H
#define AKV_RUN_DISTANCE_H

#include "base/json.h"
#include "kv/arena.h"

struct akv_distance {
    uint32_t n_layers;
    struct akv_layer_distance {
        struct akv_part_distance { /* over all values, the equal ones included */
            double max, sum;       /* of absolute differences between finite values */
            uint64_t n;
        } k, v;
        uint64_t n_differ, n_bits; /* values that differ; bits in which they do */
        uint64_t n_not_finite;     /* of those that differ: infinities and NaN, left out of max and sum */
    } * layers;
    bool any;             /* something differs: */
    uint64_t first_pos;   /* the first token */
    uint32_t first_layer; /* and the first layer of it */
};

/* Whether bodies of these geometries can be compared: all but the dtype is equal. */
bool akv_distance_can(const struct akv_geom *a, const struct akv_geom *b);
int akv_distance_open(struct akv_distance *d, uint32_t n_layers, struct akv_err *err);
void akv_distance_release(struct akv_distance *d);
/* Add a page of n tokens as two bodies. Of two dtypes, values are compared, and their bits, as 32-bit floats. */
void akv_distance_add(struct akv_distance *d, const struct akv_geom *ga, const struct akv_geom *gb, const uint8_t *a,
                      const uint8_t *b, uint32_t index, uint32_t n);
/* Add a page that is equal in both. */
void akv_distance_same(struct akv_distance *d, const struct akv_geom *g, uint32_t n);
/* Into the members `first` and `layers` of o, when something differs. */
void akv_distance_describe(const struct akv_distance *d, json_t *o);

#endif
