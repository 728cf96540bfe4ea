/*
 * Scalar specification of attention and of rounding K and V into pages (numerics R4).
 */
#include "kernels/fp32.h"
#include "kernels/scalar.h"

static int put_f16(uint8_t *to, size_t stride, const float *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint16_t h;
        if (!akv_f16_from_f32(&h, x[i]))
            return -1;
        memcpy(to + i * stride, &h, sizeof h);
    }
    return 0;
}

static int put_f32(uint8_t *to, size_t stride, const float *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if ((akv_bits(x[i]) & 0x7fffffffu) >= AKV_F32_INF)
            return -1;
        memcpy(to + i * stride, &x[i], sizeof x[i]);
    }
    return 0;
}

int akv_scalar_kv_put_f16(uint8_t *page, size_t k_offset, size_t v_offset, uint32_t slot, const float *k, uint32_t dim_k,
                          const float *v, uint32_t dim_v)
{
    if (put_f16(page + k_offset + 2 * slot, 2 * AKV_PAGE, k, dim_k) < 0)
        return -1;
    return put_f16(page + v_offset + (size_t)2 * slot * dim_v, 2, v, dim_v);
}

int akv_scalar_kv_put_f32(uint8_t *page, size_t k_offset, size_t v_offset, uint32_t slot, const float *k, uint32_t dim_k,
                          const float *v, uint32_t dim_v)
{
    if (put_f32(page + k_offset + 4 * slot, 4 * AKV_PAGE, k, dim_k) < 0)
        return -1;
    return put_f32(page + v_offset + (size_t)4 * slot * dim_v, 4, v, dim_v);
}

/* Element i of an array in the KV dtype. */
typedef float load_fn(const uint8_t *from, size_t i);

static float load_f16(const uint8_t *from, size_t i)
{
    return akv_f32_from_f16(akv_load16(from + 2 * i));
}

static float load_f32(const uint8_t *from, size_t i)
{
    float x;
    memcpy(&x, from + 4 * i, sizeof x);
    return x;
}

struct softmax { /* of a set of keys: the largest score, the sum of exponentials, and o in the query or scratch */
    float max, sum;
};

static float score(const struct akv_attn *a, load_fn *load, const float *q, uint32_t pos)
{
    const uint8_t *k = a->pages[pos / AKV_PAGE] + a->k_offset;
    float s = 0;
    for (uint32_t i = 0; i < a->dim_k; i++) {
        s = akv_fma(q[i], load(k, i * AKV_PAGE + pos % AKV_PAGE), s);
    }
    return s * a->scale;
}

/* The visible keys from <= pos < to of one chunk: p[pos % AKV_CHUNK] and o are scratch and result. */
static struct softmax chunk(const struct akv_attn *a, load_fn *load, const float *q, uint32_t from, uint32_t to, float *p, float *o)
{
    p -= from / AKV_CHUNK * AKV_CHUNK;
    struct softmax c = {.max = -akv_float(AKV_F32_INF)};
    for (uint32_t pos = from; pos < to; pos++) {
        p[pos] = score(a, load, q, pos);
        c.max = p[pos] > c.max ? p[pos] : c.max;
    }
    float lanes[16] = {0};
    memset(o, 0, a->dim_v * sizeof *o);
    for (uint32_t pos = from; pos < to; pos++) {
        float e = akv_scalar_softmax_exp(p[pos] - c.max);
        lanes[pos % 16] += e;
        const uint8_t *v = a->pages[pos / AKV_PAGE] + a->v_offset;
        for (uint32_t i = 0; i < a->dim_v; i++) {
            o[i] = akv_fma(e, load(v, pos % AKV_PAGE * a->dim_v + i), o[i]);
        }
    }
    c.sum = akv_scalar_tree16(lanes);
    return c;
}

static void merge(struct softmax *s, float *o, const struct softmax *c, const float *oc, uint32_t dim_v)
{
    float max = s->max > c->max ? s->max : c->max;
    float a = akv_scalar_softmax_exp(s->max - max), b = akv_scalar_softmax_exp(c->max - max);
    s->max = max;
    s->sum = akv_fma(s->sum, a, c->sum * b);
    for (uint32_t i = 0; i < dim_v; i++) {
        o[i] = akv_fma(o[i], a, oc[i] * b);
    }
}

static void finish(const struct softmax *s, float *o, uint32_t dim_v)
{
    float inverse = 1.0f / s->sum;
    for (uint32_t i = 0; i < dim_v; i++) {
        o[i] *= inverse;
    }
}

static void attend(const struct akv_attn *a, load_fn *load, struct akv_attn_query *query)
{
    float *p = a->scratch, *oc = p + AKV_CHUNK;
    struct softmax s = {0};
    for (uint32_t from = query->from, to; from < query->to; from = to) {
        to = (from / AKV_CHUNK + 1) * AKV_CHUNK;
        to = to < query->to ? to : query->to;
        if (from == query->from) {
            s = chunk(a, load, query->q, from, to, p, query->o);
        } else {
            struct softmax c = chunk(a, load, query->q, from, to, p, oc);
            merge(&s, query->o, &c, oc, a->dim_v);
        }
    }
    query->max = s.max;
    query->sum = s.sum;
    if (!a->part)
        finish(&s, query->o, a->dim_v);
}

void akv_scalar_attn_f16(const struct akv_attn *a)
{
    for (size_t i = 0; i < a->n_queries; i++)
        attend(a, load_f16, &a->queries[i]);
}

void akv_scalar_attn_f32(const struct akv_attn *a)
{
    for (size_t i = 0; i < a->n_queries; i++)
        attend(a, load_f32, &a->queries[i]);
}

void akv_scalar_attn_join(float *o, const struct akv_attn_query *parts, size_t n, uint32_t dim_v)
{
    struct softmax s = {.max = parts[0].max, .sum = parts[0].sum};
    if (o != parts[0].o)
        memcpy(o, parts[0].o, dim_v * sizeof *o);
    for (size_t i = 1; i < n; i++) {
        const struct softmax c = {.max = parts[i].max, .sum = parts[i].sum};
        merge(&s, o, &c, parts[i].o, dim_v);
    }
    finish(&s, o, dim_v);
}

size_t akv_scalar_attn_scratch_bytes(uint32_t dim_k, uint32_t dim_v)
{
    (void)dim_k;
    return (AKV_CHUNK + (size_t)dim_v) * sizeof(float);
}
