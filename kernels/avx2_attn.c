/*
 * Attention (numerics R4): up to six queries share every load of K and V. Scores: keys in lanes, dimensions ascending. Values:
 * dimensions in lanes, keys ascending. Where the queries of a block see different keys, those that all of them see go through the
 * shared loop and the ragged ends query by query; the order of a query's own keys stays ascending.
 */
#include "kernels/avx2_math.h"
#include "kernels/fp32.h"

#define BLOCK 6u /* queries that share the loads */

/* Eight elements, or one, of an array in the KV dtype of `width` bytes. */
AKV_INLINE __m256 load8(size_t width, const uint8_t *from, size_t i)
{
    const void *p = from + width * i;
    return width == 2 ? _mm256_cvtph_ps(_mm_loadu_si128(p)) : _mm256_loadu_ps(p);
}

AKV_INLINE float load1(size_t width, const uint8_t *from, size_t i)
{
    float x;
    if (width == 2)
        return _cvtsh_ss(akv_load16(from + 2 * i));
    memcpy(&x, from + 4 * i, sizeof x);
    return x;
}

AKV_INLINE float fma1(float a, float b, float c)
{
    return _mm_cvtss_f32(_mm_fmadd_ss(_mm_set_ss(a), _mm_set_ss(b), _mm_set_ss(c)));
}

struct block {
    const struct akv_attn *a;
    struct akv_attn_query *query;
    uint32_t n;
    float (*p)[AKV_CHUNK];         /* of the current chunk: scores, then exponentials; [n][position in the chunk] */
    float *o[BLOCK];               /* of the current chunk: weighted values [dim_v] */
    uint32_t lo[BLOCK], hi[BLOCK]; /* of the current chunk: visible keys, lo <= position < hi; none: lo == hi */
    float max[BLOCK], sum[BLOCK];  /* of the chunks so far */
};

/* Scores of the 8 * wide keys from position `at` on, all in one page. */
AKV_INLINE void score_keys(size_t width, uint32_t n, uint32_t wide, const struct block *b, uint32_t at)
{
    const struct akv_attn *a = b->a;
    const uint8_t *k = a->pages[at / AKV_PAGE] + a->k_offset + width * (at % AKV_PAGE);
    const float *q[BLOCK];
    __m256 s[BLOCK][8];
#pragma GCC unroll 6
    for (uint32_t i = 0; i < n; i++) {
        q[i] = b->query[i].q;
#pragma GCC unroll 8
        for (uint32_t j = 0; j < wide; j++)
            s[i][j] = _mm256_setzero_ps();
    }
    for (uint32_t d = 0; d < a->dim_k; d++, k += width * AKV_PAGE) {
#pragma GCC unroll 8
        for (uint32_t j = 0; j < wide; j++) {
            __m256 keys = load8(width, k, 8 * j);
#pragma GCC unroll 6
            for (uint32_t i = 0; i < n; i++)
                s[i][j] = _mm256_fmadd_ps(_mm256_broadcast_ss(q[i] + d), keys, s[i][j]);
        }
    }
#pragma GCC unroll 6
    for (uint32_t i = 0; i < n; i++) {
#pragma GCC unroll 8
        for (uint32_t j = 0; j < wide; j++)
            _mm256_storeu_ps(b->p[i] + at % AKV_CHUNK + 8 * j, _mm256_mul_ps(s[i][j], _mm256_set1_ps(a->scale)));
    }
}

AKV_INLINE void scores_n(size_t width, uint32_t n, uint32_t wide, const struct block *b, uint32_t from, uint32_t to)
{
    for (uint32_t at = from / (8 * wide) * (8 * wide); at < to; at += 8 * wide)
        score_keys(width, n, wide, b, at);
}

/* Few queries take more vectors of keys (or dimensions), so that enough chains run beside each other. */
AKV_INLINE void scores(size_t width, const struct block *b, uint32_t from, uint32_t to)
{
    switch (b->n) {
    case 1:
        scores_n(width, 1, 8, b, from, to);
        break;
    case 2:
        scores_n(width, 2, 4, b, from, to);
        break;
    case 3:
        scores_n(width, 3, 4, b, from, to);
        break;
    case 4:
        scores_n(width, 4, 2, b, from, to);
        break;
    case 5:
        scores_n(width, 5, 2, b, from, to);
        break;
    default:
        scores_n(width, 6, 2, b, from, to);
    }
}

/* Dimensions d .. d + 8 * wide of the weighted values of n queries over keys from <= position < to. */
AKV_INLINE void value_dims(size_t width, uint32_t n, uint32_t wide, const struct block *b, uint32_t first, uint32_t d,
                           uint32_t from, uint32_t to)
{
    const struct akv_attn *a = b->a;
    const float *p[BLOCK];
    __m256 o[BLOCK][8];
#pragma GCC unroll 6
    for (uint32_t i = 0; i < n; i++) {
        p[i] = b->p[first + i];
#pragma GCC unroll 8
        for (uint32_t j = 0; j < wide; j++)
            o[i][j] = _mm256_loadu_ps(b->o[first + i] + d + 8 * j);
    }
    for (uint32_t at = from, end; at < to; at = end) {
        const uint8_t *v = a->pages[at / AKV_PAGE] + a->v_offset + width * ((size_t)(at % AKV_PAGE) * a->dim_v + d);
        end = (at / AKV_PAGE + 1) * AKV_PAGE;
        end = end < to ? end : to;
        for (uint32_t c = at % AKV_CHUNK, stop = c + (end - at); c < stop; c++, v += width * a->dim_v) {
#pragma GCC unroll 8
            for (uint32_t j = 0; j < wide; j++) {
                __m256 x = load8(width, v, 8 * j);
#pragma GCC unroll 6
                for (uint32_t i = 0; i < n; i++)
                    o[i][j] = _mm256_fmadd_ps(_mm256_broadcast_ss(p[i] + c), x, o[i][j]);
            }
        }
    }
#pragma GCC unroll 6
    for (uint32_t i = 0; i < n; i++) {
#pragma GCC unroll 8
        for (uint32_t j = 0; j < wide; j++)
            _mm256_storeu_ps(b->o[first + i] + d + 8 * j, o[i][j]);
    }
}

/* One dimension: what is left of a head whose size is not a multiple of eight. */
static void value_dim(size_t width, const struct block *b, uint32_t query, uint32_t d, uint32_t from, uint32_t to)
{
    float *o = b->o[query] + d;
    for (uint32_t at = from; at < to; at++) {
        const uint8_t *v = b->a->pages[at / AKV_PAGE] + b->a->v_offset;
        *o = fma1(b->p[query][at % AKV_CHUNK], load1(width, v, (size_t)(at % AKV_PAGE) * b->a->dim_v + d), *o);
    }
}

AKV_INLINE void values_n(size_t width, uint32_t n, uint32_t wide, const struct block *b, uint32_t first, uint32_t from, uint32_t to)
{
    uint32_t d = 0;
    for (; d + 8 * wide <= b->a->dim_v; d += 8 * wide)
        value_dims(width, n, wide, b, first, d, from, to);
    for (; d + 8 <= b->a->dim_v; d += 8)
        value_dims(width, n, 1, b, first, d, from, to);
    for (; d < b->a->dim_v; d++) {
        for (uint32_t i = 0; i < n; i++)
            value_dim(width, b, first + i, d, from, to);
    }
}

/* Continue the chains of queries first .. first + n over keys that all of them see. */
AKV_INLINE void values(size_t width, const struct block *b, uint32_t first, uint32_t n, uint32_t from, uint32_t to)
{
    if (from >= to)
        return;
    switch (n) {
    case 1:
        values_n(width, 1, 8, b, first, from, to);
        break;
    case 2:
        values_n(width, 2, 4, b, first, from, to);
        break;
    case 3:
        values_n(width, 3, 4, b, first, from, to);
        break;
    case 4:
        values_n(width, 4, 2, b, first, from, to);
        break;
    case 5:
        values_n(width, 5, 2, b, first, from, to);
        break;
    default:
        values_n(width, 6, 2, b, first, from, to);
    }
}

static void fill(float *p, uint32_t from, uint32_t to, float x)
{
    for (; from < to; from++)
        p[from] = x;
}

/* Scores of one query to exponentials in place; returns their sum. Dead lanes are -inf before the maximum and +0 in the sum. */
static float exponentials(float *p, uint32_t lo, uint32_t hi, float *max)
{
    const uint32_t from = lo / 16 * 16, to = (hi + 15) / 16 * 16;
    const float inf = akv_float(AKV_F32_INF);
    fill(p, from, lo, -inf);
    fill(p, hi, to, -inf);
    __m256 m = _mm256_set1_ps(-inf);
    for (uint32_t i = from; i < to; i += 8)
        m = _mm256_max_ps(_mm256_loadu_ps(p + i), m);
    m = _mm256_max_ps(m, _mm256_permute2f128_ps(m, m, 1));
    m = _mm256_max_ps(m, _mm256_permute_ps(m, 0x4e));
    m = _mm256_max_ps(m, _mm256_permute_ps(m, 0xb1));
    *max = _mm256_cvtss_f32(m);
    for (uint32_t i = from; i < to; i += 8)
        _mm256_storeu_ps(p + i, akv_softmax_exp8(_mm256_sub_ps(_mm256_loadu_ps(p + i), m)));
    fill(p, from, lo, 0);
    fill(p, hi, to, 0);
    __m256 lanes0 = _mm256_setzero_ps(), lanes8 = lanes0;
    for (uint32_t i = from; i < to; i += 16) {
        lanes0 = _mm256_add_ps(lanes0, _mm256_loadu_ps(p + i));
        lanes8 = _mm256_add_ps(lanes8, _mm256_loadu_ps(p + i + 8));
    }
    return akv_tree16(lanes0, lanes8);
}

/* o = fma(o, x, oc * y) */
static void merge_values(float *o, float x, const float *oc, float y, uint32_t dim)
{
    uint32_t d = 0;
    for (; d + 8 <= dim; d += 8) {
        __m256 other = _mm256_mul_ps(_mm256_loadu_ps(oc + d), _mm256_set1_ps(y));
        _mm256_storeu_ps(o + d, _mm256_fmadd_ps(_mm256_loadu_ps(o + d), _mm256_set1_ps(x), other));
    }
    for (; d < dim; d++)
        o[d] = fma1(o[d], x, oc[d] * y);
}

static void merge(struct block *b, uint32_t i, float max, float sum)
{
    if (b->o[i] == b->query[i].o) { /* the first visible chunk is taken as it is */
        b->max[i] = max;
        b->sum[i] = sum;
        return;
    }
    float m = b->max[i] > max ? b->max[i] : max;
    float x = _mm256_cvtss_f32(akv_softmax_exp8(_mm256_set1_ps(b->max[i] - m)));
    float y = _mm256_cvtss_f32(akv_softmax_exp8(_mm256_set1_ps(max - m)));
    b->max[i] = m;
    b->sum[i] = fma1(b->sum[i], x, sum * y);
    merge_values(b->query[i].o, x, b->o[i], y, b->a->dim_v);
}

/* Visible ranges of a chunk that starts at `start`; the keys that any query sees, and those that all of them see (maybe none). */
static void ranges(struct block *b, uint32_t start, uint32_t any[2], uint32_t all[2])
{
    any[0] = UINT32_MAX;
    any[1] = all[0] = 0;
    all[1] = UINT32_MAX;
    for (uint32_t i = 0; i < b->n; i++) {
        const struct akv_attn_query *q = &b->query[i];
        uint32_t lo = q->from > start ? q->from : start, hi = q->to - start < AKV_CHUNK ? q->to : start + AKV_CHUNK;
        if (q->to <= start || lo >= hi)
            lo = hi = start;
        b->lo[i] = lo;
        b->hi[i] = hi;
        all[0] = lo > all[0] ? lo : all[0];
        all[1] = hi < all[1] ? hi : all[1];
        if (lo < hi) {
            any[0] = lo < any[0] ? lo : any[0];
            any[1] = hi > any[1] ? hi : any[1];
        }
    }
}

AKV_INLINE void chunk(size_t width, struct block *b, float *oc, uint32_t start)
{
    uint32_t any[2], all[2];
    ranges(b, start, any, all);
    if (any[0] >= any[1])
        return;
    scores(width, b, any[0], any[1]);
    float max[BLOCK] = {0}, sum[BLOCK] = {0};
    for (uint32_t i = 0; i < b->n; i++) {
        if (b->lo[i] == b->hi[i])
            continue;
        b->o[i] = b->query[i].from >= start ? b->query[i].o : oc + (size_t)i * b->a->dim_v;
        memset(b->o[i], 0, b->a->dim_v * sizeof *oc);
        sum[i] = exponentials(b->p[i], b->lo[i] - start, b->hi[i] - start, &max[i]);
        values(width, b, i, 1, b->lo[i], all[0] < all[1] ? all[0] : b->hi[i]);
    }
    values(width, b, 0, b->n, all[0], all[1]);
    for (uint32_t i = 0; i < b->n; i++) {
        if (b->lo[i] == b->hi[i])
            continue;
        if (all[0] < all[1])
            values(width, b, i, 1, all[1], b->hi[i]);
        merge(b, i, max[i], sum[i]);
    }
}

AKV_INLINE void attend(size_t width, struct block *b, float *oc)
{
    uint32_t from = UINT32_MAX, to = 0;
    for (uint32_t i = 0; i < b->n; i++) {
        from = b->query[i].from < from ? b->query[i].from : from;
        to = b->query[i].to > to ? b->query[i].to : to;
    }
    for (uint32_t c = from / AKV_CHUNK; c <= (to - 1) / AKV_CHUNK; c++)
        chunk(width, b, oc, c * AKV_CHUNK);
    for (uint32_t i = 0; i < b->n; i++) {
        float inverse = 1.0f / b->sum[i];
        for (uint32_t d = 0; d < b->a->dim_v; d++)
            b->query[i].o[d] *= inverse;
    }
}

AKV_INLINE void attn(size_t width, const struct akv_attn *a)
{
    struct block b = {.a = a, .p = a->scratch};
    float *oc = b.p[BLOCK];
    for (size_t i = 0; i < a->n_queries; i += b.n) {
        b.query = a->queries + i;
        b.n = a->n_queries - i < BLOCK ? (uint32_t)(a->n_queries - i) : BLOCK;
        attend(width, &b, oc);
    }
}

void akv_avx2_attn_f16(const struct akv_attn *a)
{
    attn(2, a);
}

void akv_avx2_attn_f32(const struct akv_attn *a)
{
    attn(4, a);
}

size_t akv_avx2_attn_scratch_bytes(uint32_t dim_k, uint32_t dim_v)
{
    (void)dim_k;
    return BLOCK * (AKV_CHUNK + (size_t)dim_v) * sizeof(float);
}
