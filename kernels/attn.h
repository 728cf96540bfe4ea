/*
 * Attention (numerics R4), chunk by chunk; a template over vectors. Its including file, one a kernel table, defines before
 *   vec, LANES (8 or 16)       a vector of floats
 *   v_load() ... v_tree16()    what is done with it
 *   WIDE(n)                    vectors of keys or dimensions that n queries take at once, at most a page of them: so that enough chains
 *                              run beside each other and all stay in registers
 *
 * A call's queries are taken as blocks of up to six that share the loads of K and V (attn_loops.h), and blocks take their turns at a page
 * while it is in the first cache.
 *
 * Where the queries of a block see different keys, those that all of them see go through the shared loop and the ragged ends query by
 * query; the order of a query's own keys stays ascending.
 */
#ifndef AKV_KERNELS_ATTN_H
#define AKV_KERNELS_ATTN_H

#include "kernels/attn_loops.h"
#include "kernels/fp32.h"

#define BLOCKS 16u /* that take turns at a page */
#define TILE (BLOCKS * BLOCK)

/* Up to BLOCK queries in the current chunk. */
struct block {
    struct akv_attn_query *query;
    uint32_t n;
    const float *q;                /* [dim_k][BLOCK] */
    float *p;                      /* scores, then exponentials; [BLOCK][position in the chunk] */
    float *oc;                     /* weighted values of a later chunk; [BLOCK][dim_v] */
    float *o[BLOCK];               /* those of the current chunk: there, or in the query */
    uint32_t lo[BLOCK], hi[BLOCK]; /* visible keys, lo <= position < hi; none: lo == hi */
    uint32_t any[2], all[2];       /* ends of what some of them see, and of what all of them see; none: [0] >= [1] */
    float max[BLOCK], sum[BLOCK];
};

/* A tile of queries, and the chunk and page that they are at. */
struct work {
    const struct akv_attn *a;
    struct block block[BLOCKS];
    uint32_t n_blocks;
    uint32_t from, to;              /* keys that some query sees lie between them */
    uint32_t first_page, last_page; /* of the current chunk */
};

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Visible ranges in the chunk that starts at `start`. */
static void find_ranges(struct block *b, uint32_t start)
{
    b->any[0] = b->all[1] = UINT32_MAX;
    b->any[1] = b->all[0] = 0;
    for (uint32_t i = 0; i < b->n; i++) {
        const struct akv_attn_query *q = &b->query[i];
        uint32_t lo = larger(q->from, start), hi = q->to - start < AKV_CHUNK ? q->to : start + AKV_CHUNK;
        if (q->to <= start || lo >= hi)
            lo = hi = start;
        b->lo[i] = lo;
        b->hi[i] = hi;
        b->all[0] = larger(b->all[0], lo);
        b->all[1] = smaller(b->all[1], hi);
        if (lo < hi) {
            b->any[0] = smaller(b->any[0], lo);
            b->any[1] = larger(b->any[1], hi);
        }
    }
}

/* Queries to [dim][BLOCK], so that those of a block are broadcast from beside each other. */
static void pack_queries(const struct block *b, float *to, uint32_t dim)
{
    for (uint32_t i = 0; i < b->n; i++) {
        for (uint32_t d = 0; d < dim; d++)
            to[d * BLOCK + i] = b->query[i].q[d];
    }
}

/* K or V of a page of the current chunk, and what is read after it: the next page, V after K, the next chunk. */
static struct rows page_rows(const struct work *w, uint32_t page, bool v)
{
    const struct akv_attn *a = w->a;
    const size_t offset = v ? a->v_offset : a->k_offset;
    struct rows r = {.at = a->pages[page] + offset, .dim = v ? a->dim_v : a->dim_k};
    if (page < w->last_page)
        r.ahead = a->pages[page + 1] + offset;
    else if (!v)
        r.ahead = a->pages[w->first_page] + a->v_offset;
    else
        r.ahead = (page + 1) * AKV_PAGE < w->to ? a->pages[page + 1] + a->k_offset : r.at;
    return r;
}

/* What is left of a range of keys in a page. */
static bool clip(uint32_t page, uint32_t *from, uint32_t *to)
{
    *from = larger(*from, page * AKV_PAGE);
    *to = smaller(*to, (page + 1) * AKV_PAGE);
    return *from < *to;
}

AKV_INLINE void page_scores(size_t width, const struct work *w, const struct block *b, uint32_t page)
{
    uint32_t from = b->any[0], to = b->any[1];
    if (clip(page, &from, &to))
        scores(width, b->n, page_rows(w, page, false), b->q, w->a->scale, b->p + page * AKV_PAGE % AKV_CHUNK, from % AKV_PAGE,
               (to - 1) % AKV_PAGE + 1);
}

/* Continue the chains of queries first .. first + n over those keys from <= key < to of the page; all of the queries see them. */
AKV_INLINE void add_values(size_t width, const struct work *w, const struct block *b, uint32_t first, uint32_t n, uint32_t page,
                           uint32_t from, uint32_t to)
{
    if (!clip(page, &from, &to))
        return;
    struct rows v = page_rows(w, page, true);
    v.at += width * (from % AKV_PAGE) * v.dim;
    v.ahead += width * (from % AKV_PAGE) * v.dim;
    values(width, n, v, b->p + (size_t)first * AKV_CHUNK + from % AKV_CHUNK, b->o + first, to - from);
}

AKV_INLINE void page_values(size_t width, const struct work *w, const struct block *b, uint32_t page)
{
    const bool shared = b->all[0] < b->all[1];
    const bool ragged = b->all[0] > page * AKV_PAGE || b->all[1] < (page + 1) * AKV_PAGE;
    for (uint32_t i = 0; ragged && i < b->n; i++)
        add_values(width, w, b, i, 1, page, b->lo[i], shared ? b->all[0] : b->hi[i]);
    if (!shared)
        return;
    add_values(width, w, b, 0, b->n, page, b->all[0], b->all[1]);
    for (uint32_t i = 0; ragged && i < b->n; i++)
        add_values(width, w, b, i, 1, page, b->all[1], b->hi[i]);
}

static void fill(float *p, uint32_t from, uint32_t to, float x)
{
    for (; from < to; from++)
        p[from] = x;
}

/* Vectors that are worked on side by side, and their keys. */
#define SIDE 4u
#define STEP (SIDE * LANES)
#define EACH AKV_UNROLL(4) for (uint32_t j = 0; j < SIDE; j++)

static float largest(const float *p, uint32_t n)
{
    vec m[SIDE];
    EACH m[j] = v_set1(-akv_float(AKV_F32_INF));
    for (uint32_t i = 0; i < n; i += STEP)
        EACH m[j] = v_max(v_load(p + i + LANES * j), m[j]);
    return v_largest(v_max(v_max(m[0], m[1]), v_max(m[2], m[3])));
}

/*
 * Softmax terms, of differences to a maximum: not above 0, or NaN. +0 below -87. The operations of akv_exp8_clamped(), each on all vectors
 * before the next one, as each waits for the one before.
 */
AKV_INLINE void exponentials(vec x[SIDE])
{
    const vec min = v_set1(AKV_EXP_MIN), magic = v_set1(0x1.8p23f);
    vec c[SIDE], sum[SIDE], n[SIDE], r[SIDE], p[SIDE];
    EACH c[j] = v_max(x[j], min);
    EACH sum[j] = v_add(v_mul(c[j], v_set1(AKV_EXP_LOG2E)), magic);
    EACH n[j] = v_sub(sum[j], magic);
    EACH r[j] = v_fnma(n[j], v_set1(AKV_EXP_LN2_HI), c[j]);
    EACH r[j] = v_fnma(n[j], v_set1(AKV_EXP_LN2_LO), r[j]);
    EACH p[j] = v_fma(v_set1(AKV_EXP_C6), r[j], v_set1(AKV_EXP_C5));
    EACH p[j] = v_fma(p[j], r[j], v_set1(AKV_EXP_C4));
    EACH p[j] = v_fma(p[j], r[j], v_set1(AKV_EXP_C3));
    EACH p[j] = v_fma(p[j], r[j], v_set1(AKV_EXP_C2));
    EACH p[j] = v_fma(p[j], r[j], v_set1(1.0f));
    EACH p[j] = v_fma(p[j], r[j], v_set1(1.0f));
    EACH x[j] = v_unless_less(x[j], min, v_mul(p[j], v_power(sum[j])));
}

/* Sixteen lanes of sums. */
#define SUMS (16 / LANES)

AKV_INLINE void start_sums(vec sum[SUMS])
{
    AKV_UNROLL(2)
    for (uint32_t j = 0; j < SUMS; j++)
        sum[j] = v_set1(0);
}

/* Scores to exponentials, in place, of a multiple of STEP keys; returns their sum. */
static float to_exponentials(float *p, uint32_t n, float max)
{
    vec sum[SUMS];
    start_sums(sum);
    for (uint32_t i = 0; i < n; i += STEP) {
        vec x[SIDE];
        EACH x[j] = v_sub(v_load(p + i + LANES * j), v_set1(max));
        exponentials(x);
        EACH v_store(p + i + LANES * j, x[j]);
        EACH sum[j % SUMS] = v_add(sum[j % SUMS], x[j]);
    }
    return v_tree16(sum);
}

/* No visible score is above -inf, so that dead lanes would count as much as they do: they are +0 in the sum. */
static float sum_of_visible(float *p, uint32_t from, uint32_t lo, uint32_t hi, uint32_t to)
{
    vec sum[SUMS];
    start_sums(sum);
    fill(p, from, lo, 0);
    fill(p, hi, to, 0);
    for (uint32_t i = from; i < to; i += STEP)
        EACH sum[j % SUMS] = v_add(sum[j % SUMS], v_load(p + i + LANES * j));
    return v_tree16(sum);
}

/* o = fma(o, x, oc * y) */
static void merge_values(float *o, float x, const float *oc, float y, uint32_t dim)
{
    uint32_t d = 0;
    for (; d + LANES <= dim; d += LANES) {
        const vec other = v_mul(v_load(oc + d), v_set1(y));
        v_store(o + d, v_fma(v_load(o + d), v_set1(x), other));
    }
    for (; d < dim; d++)
        o[d] = fma1(o[d], x, oc[d] * y);
}

/* A later chunk, to what q has so far. */
static void merge(struct akv_attn_query *q, const float *oc, float max, float sum, uint32_t dim)
{
    const float m = q->max > max ? q->max : max;
    vec x[SIDE] = {v_set1(q->max - m), v_set1(max - m), v_set1(0), v_set1(0)};
    exponentials(x);
    const float a = v_first(x[0]), b = v_first(x[1]);
    q->max = m;
    q->sum = fma1(q->sum, a, sum * b);
    merge_values(q->o, a, oc, b, dim);
}

static void finish(struct akv_attn_query *q, uint32_t dim)
{
    const float inverse = 1.0f / q->sum;
    uint32_t d = 0;
    for (; d + LANES <= dim; d += LANES)
        v_store(q->o + d, v_mul(v_load(q->o + d), v_set1(inverse)));
    for (; d < dim; d++)
        q->o[d] *= inverse;
}

/* Dead lanes are -inf before the maximum, and so +0 behind it. */
static void block_softmax(struct block *b, uint32_t start, uint32_t dim)
{
    const float inf = akv_float(AKV_F32_INF);
    uint32_t from[BLOCK], to[BLOCK];
    for (uint32_t i = 0; i < b->n; i++) {
        float *p = b->p + (size_t)i * AKV_CHUNK;
        from[i] = (b->lo[i] - start) / STEP * STEP;
        to[i] = (b->hi[i] - start + STEP - 1) / STEP * STEP;
        fill(p, from[i], b->lo[i] - start, -inf);
        fill(p, b->hi[i] - start, to[i], -inf);
        b->max[i] = largest(p + from[i], to[i] - from[i]);
    }
    for (uint32_t i = 0; i < b->n; i++) {
        float *p = b->p + (size_t)i * AKV_CHUNK;
        b->sum[i] = to_exponentials(p + from[i], to[i] - from[i], b->max[i]);
        if (!(b->max[i] > -inf))
            b->sum[i] = sum_of_visible(p, from[i], b->lo[i] - start, b->hi[i] - start, to[i]);
        b->o[i] = b->query[i].from >= start ? b->query[i].o : b->oc + (size_t)i * dim;
        if (b->lo[i] < b->hi[i])
            memset(b->o[i], 0, dim * sizeof *b->o[i]);
    }
}

static void block_merge(const struct block *b, uint32_t dim)
{
    for (uint32_t i = 0; i < b->n; i++) {
        if (b->lo[i] == b->hi[i])
            continue;
        if (b->o[i] != b->query[i].o) {
            merge(&b->query[i], b->o[i], b->max[i], b->sum[i], dim);
        } else { /* the first visible chunk is taken as it is */
            b->query[i].max = b->max[i];
            b->query[i].sum = b->sum[i];
        }
    }
}

AKV_INLINE void chunk(size_t width, struct work *w, uint32_t start)
{
    w->first_page = larger(w->from, start) / AKV_PAGE;
    w->last_page = (smaller(w->to, start + AKV_CHUNK) - 1) / AKV_PAGE;
    for (uint32_t i = 0; i < w->n_blocks; i++)
        find_ranges(&w->block[i], start);
    for (uint32_t page = w->first_page; page <= w->last_page; page++) {
        for (uint32_t i = 0; i < w->n_blocks; i++)
            page_scores(width, w, &w->block[i], page);
    }
    for (uint32_t i = 0; i < w->n_blocks; i++)
        block_softmax(&w->block[i], start, w->a->dim_v);
    for (uint32_t page = w->first_page; page <= w->last_page; page++) {
        for (uint32_t i = 0; i < w->n_blocks; i++)
            page_values(width, w, &w->block[i], page);
    }
    for (uint32_t i = 0; i < w->n_blocks; i++)
        block_merge(&w->block[i], w->a->dim_v);
}

/* n queries as blocks of equal size, and their scratch */
static void make_blocks(struct work *w, struct akv_attn_query *query, uint32_t n)
{
    const uint32_t dim_k = w->a->dim_k, dim_v = w->a->dim_v;
    float *scratch = w->a->scratch;
    w->n_blocks = (n + BLOCK - 1) / BLOCK;
    for (uint32_t i = 0, at = 0; i < w->n_blocks; at += w->block[i++].n) {
        struct block *b = &w->block[i];
        b->query = query + at;
        b->n = (n - at) / (w->n_blocks - i);
        b->p = scratch;
        b->oc = b->p + BLOCK * AKV_CHUNK;
        b->q = b->oc + (size_t)BLOCK * dim_v;
        scratch += BLOCK * (AKV_CHUNK + (size_t)dim_v + dim_k);
        pack_queries(b, scratch - (size_t)BLOCK * dim_k, dim_k);
    }
}

AKV_INLINE void tile(size_t width, struct work *w, struct akv_attn_query *query, uint32_t n)
{
    w->from = UINT32_MAX;
    w->to = 0;
    for (uint32_t i = 0; i < n; i++) {
        w->from = smaller(w->from, query[i].from);
        w->to = larger(w->to, query[i].to);
    }
    make_blocks(w, query, n);
    for (uint32_t c = w->from / AKV_CHUNK; c <= (w->to - 1) / AKV_CHUNK; c++)
        chunk(width, w, c * AKV_CHUNK);
    for (uint32_t i = 0; !w->a->part && i < n; i++)
        finish(&query[i], w->a->dim_v);
}

AKV_INLINE void attn(size_t width, const struct akv_attn *a)
{
    struct work w;
    w.a = a;
    for (size_t i = 0; i < a->n_queries; i += TILE)
        tile(width, &w, a->queries + i, a->n_queries - i < TILE ? (uint32_t)(a->n_queries - i) : TILE);
}

AKV_INLINE void join(float *o, const struct akv_attn_query *parts, size_t n, uint32_t dim_v)
{
    struct akv_attn_query q = parts[0];
    q.o = o;
    if (o != parts[0].o)
        memcpy(o, parts[0].o, dim_v * sizeof *o);
    for (size_t i = 1; i < n; i++)
        merge(&q, parts[i].o, parts[i].max, parts[i].sum, dim_v);
    finish(&q, dim_v);
}

AKV_INLINE size_t scratch_bytes(uint32_t dim_k, uint32_t dim_v)
{
    return TILE * (AKV_CHUNK + (size_t)dim_v + dim_k) * sizeof(float);
}

#endif
