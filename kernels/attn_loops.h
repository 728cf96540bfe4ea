/*
 * The inner loops of attention: up to six queries share every load of K and V. Scores: keys in lanes, dimensions ascending. Values:
 * dimensions in lanes, keys ascending. A part of the template attn.h, which alone includes this.
 */
#ifndef AKV_KERNELS_ATTN_LOOPS_H
#define AKV_KERNELS_ATTN_LOOPS_H

#define BLOCK 6u /* queries that share the loads */

/* LANES elements of an array in a float type of `width` bytes. */
AKV_INLINE vec load(size_t width, const uint8_t *from, size_t i)
{
    const void *p = from + width * i;
    return width == 2 ? v_load_f16(p) : v_load(p);
}

AKV_INLINE float load1(size_t width, const uint8_t *from, size_t i)
{
    float x;
    if (width == 2) {
        uint16_t h;
        memcpy(&h, from + 2 * i, sizeof h);
        return _cvtsh_ss(h);
    }
    memcpy(&x, from + 4 * i, sizeof x);
    return x;
}

AKV_INLINE float fma1(float a, float b, float c)
{
    return _mm_cvtss_f32(_mm_fmadd_ss(_mm_set_ss(a), _mm_set_ss(b), _mm_set_ss(c)));
}

/* What a loop works on: K or V of one kv head in a page, and what is read next, to be asked for at the same pace. */
struct rows {
    const uint8_t *at;
    uint32_t dim;
    const uint8_t *ahead;
};

AKV_INLINE const uint8_t *ask(const uint8_t *ahead, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 64)
        _mm_prefetch((const char *)(ahead + i), _MM_HINT_T1);
    return ahead + bytes;
}

/* One step of n chains of `wide` vectors: sums[i][j] += x[i] * row[j]. What there is less of is loaded first and held. */
AKV_INLINE void step(size_t width, uint32_t n, uint32_t wide, vec sums[BLOCK][8], const float *x, size_t stride, const uint8_t *row)
{
    vec held[8];
    if (n <= wide) {
        AKV_UNROLL(6)
        for (uint32_t i = 0; i < n; i++)
            held[i] = v_set1(x[i * stride]);
        AKV_UNROLL(8)
        for (uint32_t j = 0; j < wide; j++) {
            const vec v = load(width, row, LANES * j);
            AKV_UNROLL(6)
            for (uint32_t i = 0; i < n; i++) {
                sums[i][j] = v_fma(held[i], v, sums[i][j]);
                AKV_STAY(sums[i][j]);
            }
        }
    } else {
        AKV_UNROLL(8)
        for (uint32_t j = 0; j < wide; j++)
            held[j] = load(width, row, LANES * j);
        AKV_UNROLL(6)
        for (uint32_t i = 0; i < n; i++) {
            const vec v = v_set1(x[i * stride]);
            AKV_UNROLL(8)
            for (uint32_t j = 0; j < wide; j++) {
                sums[i][j] = v_fma(v, held[j], sums[i][j]);
                AKV_STAY(sums[i][j]);
            }
        }
    }
}

/* Scores of the LANES * wide keys at k, q[dim][BLOCK], to p[n][AKV_CHUNK]. */
AKV_INLINE void score_keys(size_t width, uint32_t n, uint32_t wide, struct rows k, const float *q, float scale, float *p)
{
    vec s[BLOCK][8];
    AKV_UNROLL(6)
    for (uint32_t i = 0; i < n; i++) {
        AKV_UNROLL(8)
        for (uint32_t j = 0; j < wide; j++)
            s[i][j] = v_set1(0);
    }
    for (uint32_t d = 0; d < k.dim; d++, q += BLOCK, k.at += width * AKV_PAGE) {
        if (width == 2)
            k.ahead = ask(k.ahead, LANES * wide * width);
        step(width, n, wide, s, q, 1, k.at);
    }
    AKV_UNROLL(6)
    for (uint32_t i = 0; i < n; i++) {
        AKV_UNROLL(8)
        for (uint32_t j = 0; j < wide; j++)
            v_store(p + i * AKV_CHUNK + LANES * j, v_mul(s[i][j], v_set1(scale)));
    }
}

/* Keys from <= slot < to of a page, and those beside them that fill vectors; p is of slot 0. */
AKV_INLINE void scores_n(size_t width, uint32_t n, uint32_t wide, struct rows k, const float *q, float scale, float *p,
                         uint32_t from, uint32_t to)
{
    for (uint32_t at = from / (LANES * wide) * (LANES * wide); at < to; at += LANES * wide) {
        const struct rows here = {k.at + width * at, k.dim, k.ahead + width * at * k.dim};
        score_keys(width, n, wide, here, q, scale, p + at);
    }
}

/* Few queries take more vectors of keys (or dimensions), so that enough chains run beside each other. */
AKV_INLINE void scores(size_t width, uint32_t n, struct rows k, const float *q, float scale, float *p, uint32_t from, uint32_t to)
{
    switch (n) {
    case 1:
        scores_n(width, 1, WIDE(1), k, q, scale, p, from, to);
        break;
    case 2:
        scores_n(width, 2, WIDE(2), k, q, scale, p, from, to);
        break;
    case 3:
        scores_n(width, 3, WIDE(3), k, q, scale, p, from, to);
        break;
    case 4:
        scores_n(width, 4, WIDE(4), k, q, scale, p, from, to);
        break;
    case 5:
        scores_n(width, 5, WIDE(5), k, q, scale, p, from, to);
        break;
    default:
        scores_n(width, 6, WIDE(6), k, q, scale, p, from, to);
    }
}

/* Dimensions d .. d + LANES * wide of the weighted values of n queries over the next n_keys keys. */
AKV_INLINE void value_dims(size_t width, uint32_t n, uint32_t wide, struct rows v, const float *p, float *const o[], uint32_t d,
                           uint32_t n_keys)
{
    vec sums[BLOCK][8];
    AKV_UNROLL(6)
    for (uint32_t i = 0; i < n; i++) {
        AKV_UNROLL(8)
        for (uint32_t j = 0; j < wide; j++)
            sums[i][j] = v_load(o[i] + d + LANES * j);
    }
    v.at += width * d;
    for (uint32_t c = 0; c < n_keys; c++, p++, v.at += width * v.dim) {
        if (width == 2)
            v.ahead = ask(v.ahead, LANES * wide * width);
        step(width, n, wide, sums, p, AKV_CHUNK, v.at);
    }
    AKV_UNROLL(6)
    for (uint32_t i = 0; i < n; i++) {
        AKV_UNROLL(8)
        for (uint32_t j = 0; j < wide; j++)
            v_store(o[i] + d + LANES * j, sums[i][j]);
    }
}

/* One dimension: what is left of a head whose size is not a multiple of LANES. */
AKV_INLINE void value_dim(size_t width, struct rows v, const float *p, float *o, uint32_t d, uint32_t n_keys)
{
    for (uint32_t c = 0; c < n_keys; c++)
        o[d] = fma1(p[c], load1(width, v.at, (size_t)c * v.dim + d), o[d]);
}

AKV_INLINE void values_n(size_t width, uint32_t n, uint32_t wide, struct rows v, const float *p, float *const o[], uint32_t n_keys)
{
    uint32_t d = 0;
    for (; d + LANES * wide <= v.dim; d += LANES * wide, v.ahead += width * LANES * wide * n_keys)
        value_dims(width, n, wide, v, p, o, d, n_keys);
    for (; d + LANES <= v.dim; d += LANES)
        value_dims(width, n, 1, v, p, o, d, n_keys);
    for (; d < v.dim; d++) {
        for (uint32_t i = 0; i < n; i++)
            value_dim(width, v, p + i * AKV_CHUNK, o[i], d, n_keys);
    }
}

/* Continue the chains of n queries over the n_keys keys at v, which all of them see; p[n][AKV_CHUNK] is of the first one. */
AKV_INLINE void values(size_t width, uint32_t n, struct rows v, const float *p, float *const o[], uint32_t n_keys)
{
    switch (n) {
    case 1:
        values_n(width, 1, WIDE(1), v, p, o, n_keys);
        break;
    case 2:
        values_n(width, 2, WIDE(2), v, p, o, n_keys);
        break;
    case 3:
        values_n(width, 3, WIDE(3), v, p, o, n_keys);
        break;
    case 4:
        values_n(width, 4, WIDE(4), v, p, o, n_keys);
        break;
    case 5:
        values_n(width, 5, WIDE(5), v, p, o, n_keys);
        break;
    default:
        values_n(width, 6, WIDE(6), v, p, o, n_keys);
    }
}

#endif
