#include "run/distance.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

bool akv_distance_can(const struct akv_geom *a, const struct akv_geom *b)
{
    return a->n_layers == b->n_layers && a->n_kv_heads == b->n_kv_heads && a->dim_k == b->dim_k && a->dim_v == b->dim_v;
}

int akv_distance_open(struct akv_distance *d, uint32_t n_layers, struct akv_err *err)
{
    *d = (struct akv_distance){.n_layers = n_layers, .layers = akv_alloc(n_layers, sizeof *d->layers, err)};
    return d->layers ? 0 : AKV_E_IO;
}

void akv_distance_release(struct akv_distance *d)
{
    free(d->layers);
    *d = (struct akv_distance){0};
}

/* The bits of an IEEE half widened to a float's, exactly. */
static uint32_t widen(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exp = (h >> 10) & 31, mantissa = h & 1023, bits;
    if (exp == 31)
        return sign | 0x7f800000 | mantissa << 13;
    if (exp)
        return sign | (exp + 112) << 23 | mantissa << 13;
    float f = (float)mantissa * 0x1p-24F;
    memcpy(&bits, &f, sizeof bits);
    return sign | bits;
}

/* Value i of an array of this dtype: its bits as they are, and as a float's. */
static uint32_t load(const uint8_t *p, size_t i, enum akv_kv_dtype dtype, uint32_t *own)
{
    *own = dtype == AKV_KV_F32 ? akv_get_u32(p + 4 * i) : akv_get_u16(p + 2 * i);
    return dtype == AKV_KV_F32 ? *own : widen((uint16_t)*own);
}

static double value(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return (double)f;
}

/* One value of each side. Returns whether they differ. */
static bool compare(struct akv_layer_distance *l, struct akv_part_distance *part, uint32_t a, uint32_t b, uint32_t bits)
{
    if (a == b)
        return false;
    double x = value(a), y = value(b), apart = fabs(x - y);
    l->n_differ++;
    l->n_bits += (uint64_t)__builtin_popcount(bits);
    if (!isfinite(apart)) {
        l->n_not_finite++;
        return true;
    }
    part->sum += apart;
    part->max = apart > part->max ? apart : part->max;
    return true;
}

static void note_first(struct akv_distance *d, uint64_t pos, uint32_t layer)
{
    if (d->any && (pos > d->first_pos || (pos == d->first_pos && layer >= d->first_layer)))
        return;
    d->any = true;
    d->first_pos = pos;
    d->first_layer = layer;
}

/* rows x columns values from `from` on; token of value i: i % n in K, i / dims in V. Returns where they end. */
static size_t add_part(struct akv_distance *d, uint32_t layer, bool is_k, const struct akv_geom *ga, const struct akv_geom *gb,
                       const uint8_t *a, const uint8_t *b, size_t from, uint32_t index, uint32_t n)
{
    struct akv_layer_distance *l = &d->layers[layer];
    struct akv_part_distance *part = is_k ? &l->k : &l->v;
    const uint32_t dims = is_k ? ga->dim_k : ga->dim_v;
    const size_t n_values = (size_t)dims * n;
    for (size_t i = 0; i < n_values; i++) {
        uint32_t own_a, own_b, wide_a = load(a, from + i, ga->dtype, &own_a), wide_b = load(b, from + i, gb->dtype, &own_b);
        if (compare(l, part, wide_a, wide_b, ga->dtype == gb->dtype ? own_a ^ own_b : wide_a ^ wide_b))
            note_first(d, (uint64_t)index * AKV_PAGE_TOKENS + (is_k ? i % n : i / dims), layer);
    }
    part->n += n_values;
    return from + n_values;
}

void akv_distance_add(struct akv_distance *d, const struct akv_geom *ga, const struct akv_geom *gb, const uint8_t *a,
                      const uint8_t *b, uint32_t index, uint32_t n)
{
    size_t at = 0;
    for (uint32_t layer = 0; layer < ga->n_layers; layer++) {
        for (uint32_t head = 0; head < ga->n_kv_heads; head++) {
            at = add_part(d, layer, true, ga, gb, a, b, at, index, n);
            at = add_part(d, layer, false, ga, gb, a, b, at, index, n);
        }
    }
}

void akv_distance_same(struct akv_distance *d, const struct akv_geom *g, uint32_t n)
{
    for (uint32_t layer = 0; layer < d->n_layers; layer++) {
        d->layers[layer].k.n += (uint64_t)g->n_kv_heads * g->dim_k * n;
        d->layers[layer].v.n += (uint64_t)g->n_kv_heads * g->dim_v * n;
    }
}

static double mean(const struct akv_part_distance *p)
{
    return p->n ? p->sum / (double)p->n : 0;
}

void akv_distance_describe(const struct akv_distance *d, json_t *o)
{
    if (!d->any)
        return;
    json_t *list = json_array();
    for (uint32_t i = 0; i < d->n_layers; i++) {
        const struct akv_layer_distance *l = &d->layers[i];
        json_array_append_new(list, json_pack("{s:I, s:f, s:f, s:f, s:f, s:I, s:I, s:I, s:I}", "layer", (json_int_t)i, "k_max",
                                              l->k.max, "k_mean", mean(&l->k), "v_max", l->v.max, "v_mean", mean(&l->v), "values",
                                              (json_int_t)(l->k.n + l->v.n), "differ", (json_int_t)l->n_differ, "bits",
                                              (json_int_t)l->n_bits, "not_finite", (json_int_t)l->n_not_finite));
    }
    json_object_set_new(o, "first",
                        json_pack("{s:I, s:I}", "token", (json_int_t)d->first_pos, "layer", (json_int_t)d->first_layer));
    json_object_set_new(o, "layers", list);
}
