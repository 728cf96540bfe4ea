/*
 * Attention (numerics R4), chunk by chunk; a template over vectors. Its including file, one a kernel table, defines before
 *   vec, LANES (8 or 16)       a vector of floats
 *   v_load() ... v_tree16()    what is done with it
 *   WIDE(n)                    vectors of keys or dimensions that n queries take at once, at most a page of them: so that enough chains
 *                              run beside each other and all stay in registers
 *
 * A call's queries are taken as blocks of six that share the loads of K and V (attn_loops.h).
 * Several blocks share more: a chunk's pages in f16 are widened once for all of them, into scratch. A block alone reads the pages as they
 * are and asks for what comes next, as it is memory that it waits for.
 *
 * Where the queries of a block see different keys, those that all of them see go through the shared loop and the ragged ends query by
 * query; the order of a query's own keys stays ascending.
 */
#ifndef AKV_KERNELS_ATTN_H
#define AKV_KERNELS_ATTN_H

#include "kernels/attn_loops.h"
#include "kernels/fp32.h"

#define PAGES (AKV_CHUNK / AKV_PAGE)
#define TILE (16 * BLOCK) /* queries that share the widening of pages */

/* What a tile of queries works with. */
struct work {
    const struct akv_attn *a;
    struct akv_attn_query *query;
    uint32_t n;                     /* up to TILE queries */
    uint32_t from, to;              /* keys that some query sees lie between them */
    uint32_t first_page, last_page; /* of the current chunk */
    bool widened;                   /* those pages are, to k and v */
    float *k, *v;                   /* [PAGES] of [dim_k][64], [64][dim_v] */
    float *q;                       /* [block][dim_k][BLOCK] */
    float *p;                       /* scores, then exponentials; [BLOCK][position in the chunk] */
    float *oc;                      /* weighted values of the current chunk; [BLOCK][dim_v] */
};

/* Up to BLOCK queries in the current chunk. */
struct block {
    struct akv_attn_query *query;
    uint32_t n;
    const float *q;                /* [dim_k][BLOCK] */
    uint32_t lo[BLOCK], hi[BLOCK]; /* visible keys, lo <= position < hi; none: lo == hi */
    uint32_t any[2], all[2];       /* ends of what some of them see, and of what all of them see; none: [0] >= [1] */
    float *o[BLOCK];               /* weighted values of the chunk */
};

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Visible ranges in the chunk that starts at `start`; whether any query sees any of it. */
static bool find_ranges(struct block *b, uint32_t start)
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
    return b->any[0] < b->any[1];
}

/* Queries to [dim][BLOCK], so that those of a block are broadcast from beside each other. */
static void pack_queries(const struct work *w)
{
    for (uint32_t i = 0; i < w->n; i++) {
        float *to = w->q + (size_t)(i / BLOCK) * BLOCK * w->a->dim_k + i % BLOCK;
        for (uint32_t d = 0; d < w->a->dim_k; d++, to += BLOCK)
            *to = w->query[i].q[d];
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

static void widen(float *to, struct rows r)
{
    for (size_t i = 0; i < (size_t)r.dim * AKV_PAGE; i += 32, r.at += 64) {
        r.ahead = ask(r.ahead, 64);
#pragma GCC unroll 4
        for (size_t j = 0; j < 32; j += LANES)
            v_store(to + i + j, load(2, r.at, j));
    }
}

static void widen_chunk(const struct work *w)
{
    for (uint32_t page = w->first_page; page <= w->last_page; page++) {
        widen(w->k + (size_t)(page % PAGES) * AKV_PAGE * w->a->dim_k, page_rows(w, page, false));
        widen(w->v + (size_t)(page % PAGES) * AKV_PAGE * w->a->dim_v, page_rows(w, page, true));
    }
}

AKV_INLINE struct rows rows_of(const struct work *w, uint32_t page, bool v)
{
    struct rows r = page_rows(w, page, v);
    if (w->widened)
        r.at = (const uint8_t *)((v ? w->v : w->k) + (size_t)(page % PAGES) * AKV_PAGE * r.dim);
    return r;
}

AKV_INLINE void block_scores(size_t width, const struct work *w, const struct block *b)
{
    for (uint32_t at = b->any[0], end; at < b->any[1]; at = end) {
        const uint32_t start = at / AKV_PAGE * AKV_PAGE;
        end = smaller(start + AKV_PAGE, b->any[1]);
        scores(width, b->n, rows_of(w, at / AKV_PAGE, false), b->q, w->a->scale, w->p + start % AKV_CHUNK, at - start, end - start);
    }
}

/* Continue the chains of queries first .. first + n over keys that all of them see. */
AKV_INLINE void add_values(size_t width, const struct work *w, const struct block *b, uint32_t first, uint32_t n, uint32_t from,
                           uint32_t to)
{
    for (uint32_t at = from, end; at < to; at = end) {
        struct rows v = rows_of(w, at / AKV_PAGE, true);
        end = smaller((at / AKV_PAGE + 1) * AKV_PAGE, to);
        v.at += width * (at % AKV_PAGE) * v.dim;
        v.ahead += width * (at % AKV_PAGE) * v.dim;
        values(width, n, v, w->p + (size_t)first * AKV_CHUNK + at % AKV_CHUNK, b->o + first, end - at);
    }
}

AKV_INLINE void block_values(size_t width, const struct work *w, const struct block *b)
{
    const bool shared = b->all[0] < b->all[1];
    for (uint32_t i = 0; i < b->n; i++)
        add_values(width, w, b, i, 1, b->lo[i], shared ? b->all[0] : b->hi[i]);
    if (!shared)
        return;
    add_values(width, w, b, 0, b->n, b->all[0], b->all[1]);
    for (uint32_t i = 0; i < b->n; i++)
        add_values(width, w, b, i, 1, b->all[1], b->hi[i]);
}

static void fill(float *p, uint32_t from, uint32_t to, float x)
{
    for (; from < to; from++)
        p[from] = x;
}

static float largest(const float *p, uint32_t n)
{
    vec m[4];
    uint32_t i = 0;
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++)
        m[j] = v_set1(-akv_float(AKV_F32_INF));
    for (; i + 4 * LANES <= n; i += 4 * LANES) {
#pragma GCC unroll 4
        for (uint32_t j = 0; j < 4; j++)
            m[j] = v_max(v_load(p + i + LANES * j), m[j]);
    }
    for (; i < n; i += LANES)
        m[0] = v_max(v_load(p + i), m[0]);
    return v_largest(v_max(v_max(m[0], m[1]), v_max(m[2], m[3])));
}

/* Sixteen lanes of sums. */
#define SUMS (16 / LANES)

AKV_INLINE void start_sums(vec sum[SUMS])
{
#pragma GCC unroll 2
    for (uint32_t j = 0; j < SUMS; j++)
        sum[j] = v_set1(0);
}

/* Scores to exponentials, in place, of a multiple of 16 keys; returns their sum. */
static float exponentials(float *p, uint32_t n, float max)
{
    const vec m = v_set1(max);
    vec sum[SUMS];
    start_sums(sum);
    for (uint32_t i = 0; i < n; i += 16) {
#pragma GCC unroll 2
        for (uint32_t j = 0; j < SUMS; j++) {
            const vec e = v_exp(v_sub(v_load(p + i + LANES * j), m));
            v_store(p + i + LANES * j, e);
            sum[j] = v_add(sum[j], e);
        }
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
    for (uint32_t i = from; i < to; i += 16) {
#pragma GCC unroll 2
        for (uint32_t j = 0; j < SUMS; j++)
            sum[j] = v_add(sum[j], v_load(p + i + LANES * j));
    }
    return v_tree16(sum);
}

/* One query's scores lo <= position in the chunk < hi; returns their sum. Dead lanes are -inf before the maximum, and so +0 behind it. */
static float softmax(float *p, uint32_t lo, uint32_t hi, float *max)
{
    const uint32_t from = lo / 16 * 16, to = (hi + 15) / 16 * 16;
    const float inf = akv_float(AKV_F32_INF);
    fill(p, from, lo, -inf);
    fill(p, hi, to, -inf);
    *max = largest(p + from, to - from);
    const float sum = exponentials(p + from, to - from, *max);
    return *max > -inf ? sum : sum_of_visible(p, from, lo, hi, to);
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
    const float x = _mm256_cvtss_f32(akv_softmax_exp8(_mm256_set1_ps(q->max - m)));
    const float y = _mm256_cvtss_f32(akv_softmax_exp8(_mm256_set1_ps(max - m)));
    q->max = m;
    q->sum = fma1(q->sum, x, sum * y);
    merge_values(q->o, x, oc, y, dim);
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

/* One block in the chunk that starts at `start`. */
AKV_INLINE void block_chunk(size_t width, const struct work *w, struct block *b, uint32_t start)
{
    const uint32_t dim = w->a->dim_v;
    float max[BLOCK], sum[BLOCK];
    if (!find_ranges(b, start))
        return;
    block_scores(width, w, b);
    for (uint32_t i = 0; i < b->n; i++) {
        b->o[i] = b->query[i].from >= start ? b->query[i].o : w->oc + (size_t)i * dim;
        if (b->lo[i] == b->hi[i])
            continue;
        sum[i] = softmax(w->p + (size_t)i * AKV_CHUNK, b->lo[i] - start, b->hi[i] - start, &max[i]);
        memset(b->o[i], 0, dim * sizeof *b->o[i]);
    }
    block_values(width, w, b);
    for (uint32_t i = 0; i < b->n; i++) {
        if (b->lo[i] == b->hi[i])
            continue;
        if (b->o[i] != b->query[i].o) {
            merge(&b->query[i], b->o[i], max[i], sum[i], dim);
        } else { /* the first visible chunk is taken as it is */
            b->query[i].max = max[i];
            b->query[i].sum = sum[i];
        }
    }
}

AKV_INLINE void chunk(size_t width, struct work *w, uint32_t start)
{
    w->first_page = larger(w->from, start) / AKV_PAGE;
    w->last_page = (smaller(w->to, start + AKV_CHUNK) - 1) / AKV_PAGE;
    if (w->widened)
        widen_chunk(w);
    for (uint32_t i = 0; i < w->n; i += BLOCK) {
        struct block b = {.query = w->query + i, .n = smaller(w->n - i, BLOCK), .q = w->q + (size_t)i * w->a->dim_k};
        if (width == 2 && !w->widened)
            block_chunk(2, w, &b, start);
        else
            block_chunk(4, w, &b, start);
    }
}

AKV_INLINE void tile(size_t width, struct work *w)
{
    w->from = UINT32_MAX;
    w->to = 0;
    for (uint32_t i = 0; i < w->n; i++) {
        w->from = smaller(w->from, w->query[i].from);
        w->to = larger(w->to, w->query[i].to);
    }
    w->widened = width == 2 && w->n > BLOCK;
    pack_queries(w);
    for (uint32_t c = w->from / AKV_CHUNK; c <= (w->to - 1) / AKV_CHUNK; c++)
        chunk(width, w, c * AKV_CHUNK);
    for (uint32_t i = 0; !w->a->part && i < w->n; i++)
        finish(&w->query[i], w->a->dim_v);
}

AKV_INLINE void attn(size_t width, const struct akv_attn *a)
{
    struct work w = {.a = a, .k = a->scratch};
    w.v = w.k + (size_t)AKV_CHUNK * a->dim_k;
    w.p = w.v + (size_t)AKV_CHUNK * a->dim_v;
    w.q = w.p + BLOCK * AKV_CHUNK;
    w.oc = w.q + (size_t)TILE * a->dim_k;
    for (size_t i = 0; i < a->n_queries; i += TILE) {
        w.query = a->queries + i;
        w.n = a->n_queries - i < TILE ? (uint32_t)(a->n_queries - i) : TILE;
        tile(width, &w);
    }
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
    return (AKV_CHUNK * ((size_t)dim_k + dim_v) + BLOCK * AKV_CHUNK + (size_t)TILE * dim_k + (size_t)BLOCK * dim_v) * sizeof(float);
}

#endif
