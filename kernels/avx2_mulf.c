/*
 * Matrix product with float weights: eight outputs in the lanes, K ascending by fma. Eight weight rows are packed into a panel, one
 * vector a column, which every activation row then passes over, up to eight rows sharing its loads.
 */
#include "kernels/avx2.h"

#define ROWS 8u /* outputs in a panel */

AKV_INLINE __m256 load8(enum akv_dtype t, const uint8_t *w)
{
    if (t == AKV_F32)
        return _mm256_loadu_ps((const float *)(const void *)w);
    if (t == AKV_BF16)
        return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)w)), 16));
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)w));
}

static float load1(enum akv_dtype t, const uint8_t *w)
{
    float x;
    uint16_t h;
    if (t == AKV_F32) {
        memcpy(&x, w, sizeof x);
        return x;
    }
    memcpy(&h, w, sizeof h);
    if (t == AKV_BF16) {
        const uint32_t u = (uint32_t)h << 16;
        memcpy(&x, &u, sizeof x);
        return x;
    }
    return _cvtsh_ss(h);
}

/* Eight columns of eight rows: panel[i] lane r = w[r][i]. */
AKV_INLINE void pack8(enum akv_dtype t, __m256 panel[8], const uint8_t *const row[ROWS], size_t off)
{
    __m256 a[8], b[8];
#pragma GCC unroll 4
    for (int i = 0; i < 8; i += 2) {
        __m256 x = load8(t, row[i] + off), y = load8(t, row[i + 1] + off);
        a[i] = _mm256_unpacklo_ps(x, y);
        a[i + 1] = _mm256_unpackhi_ps(x, y);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 8; i += 4) {
        b[i] = _mm256_shuffle_ps(a[i], a[i + 2], 0x44);
        b[i + 1] = _mm256_shuffle_ps(a[i], a[i + 2], 0xee);
        b[i + 2] = _mm256_shuffle_ps(a[i + 1], a[i + 3], 0x44);
        b[i + 3] = _mm256_shuffle_ps(a[i + 1], a[i + 3], 0xee);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        panel[i] = _mm256_permute2f128_ps(b[i], b[i + 4], 0x20);
        panel[i + 4] = _mm256_permute2f128_ps(b[i], b[i + 4], 0x31);
    }
}

AKV_INLINE __m256 pack1(enum akv_dtype t, const uint8_t *const row[ROWS], size_t off)
{
    float column[ROWS];
    for (size_t r = 0; r < ROWS; r++)
        column[r] = load1(t, row[r] + off);
    return _mm256_loadu_ps(column);
}

AKV_INLINE void pack(enum akv_dtype t, __m256 *panel, size_t k, const uint8_t *const row[ROWS])
{
    const size_t bytes = t == AKV_F32 ? 4 : 2;
    size_t i = 0;
    for (; i + 8 <= k; i += 8) {
        akv_prefetch(row[0], i * ROWS * bytes, 8 * ROWS * bytes);
        pack8(t, panel + i, row, i * bytes);
    }
    for (; i < k; i++)
        panel[i] = pack1(t, row, i * bytes);
}

AKV_INLINE void put(float *y, __m256 out, size_t n_out)
{
    if (n_out == ROWS)
        _mm256_storeu_ps(y, out);
    else
        memcpy(y, &out, n_out * sizeof *y);
}

/* One activation row meets the columns as they are packed, at the speed of memory. */
AKV_INLINE void stream(enum akv_dtype t, const uint8_t *const row[ROWS], const float *x, size_t k, float *y, size_t n_out)
{
    const size_t bytes = t == AKV_F32 ? 4 : 2;
    __m256 acc = _mm256_setzero_ps();
    size_t i = 0;
    for (; i + 8 <= k; i += 8) {
        __m256 columns[8];
        akv_prefetch(row[0], i * ROWS * bytes, 8 * ROWS * bytes);
        pack8(t, columns, row, i * bytes);
#pragma GCC unroll 8
        for (size_t j = 0; j < 8; j++)
            acc = _mm256_fmadd_ps(columns[j], _mm256_broadcast_ss(x + i + j), acc);
    }
    for (; i < k; i++)
        acc = _mm256_fmadd_ps(pack1(t, row, i * bytes), _mm256_broadcast_ss(x + i), acc);
    put(y, acc, n_out);
}

/* n activation rows times the panel; the first n_out lanes go to y. */
AKV_INLINE void multiply(int n, const __m256 *panel, const float *x, size_t k, float *y, size_t y_stride, size_t n_out)
{
    __m256 acc[8];
#pragma GCC unroll 8
    for (int r = 0; r < n; r++)
        acc[r] = _mm256_setzero_ps();
    for (size_t i = 0; i < k; i++) {
#pragma GCC unroll 8
        for (int r = 0; r < n; r++)
            acc[r] = _mm256_fmadd_ps(panel[i], _mm256_broadcast_ss(x + (size_t)r * k + i), acc[r]);
    }
#pragma GCC unroll 8
    for (int r = 0; r < n; r++)
        put(y + (size_t)r * y_stride, acc[r], n_out);
}

static void multiply_rows(const __m256 *panel, const struct akv_act *act, float *y, size_t y_stride, size_t n_out)
{
    const size_t k = act->k;
    size_t r = 0;
    for (; r + 8 <= act->n_rows; r += 8)
        multiply(8, panel, act->x + r * k, k, y + r * y_stride, y_stride, n_out);
    for (; r + 4 <= act->n_rows; r += 4)
        multiply(4, panel, act->x + r * k, k, y + r * y_stride, y_stride, n_out);
    for (; r + 2 <= act->n_rows; r += 2)
        multiply(2, panel, act->x + r * k, k, y + r * y_stride, y_stride, n_out);
    for (; r < act->n_rows; r++)
        multiply(1, panel, act->x + r * k, k, y + r * y_stride, y_stride, n_out);
}

AKV_INLINE void mul(enum akv_dtype t, const struct akv_mul *m)
{
    for (size_t o = m->from; o < m->to; o += ROWS) {
        const size_t n_out = m->to - o < ROWS ? m->to - o : ROWS;
        const uint8_t *row[ROWS];
        for (size_t i = 0; i < ROWS; i++)
            row[i] = m->w + (o + (i < n_out ? i : n_out - 1)) * m->row_bytes;
        if (m->act->n_rows == 1) {
            stream(t, row, m->act->x, m->act->k, m->y + o, n_out);
        } else {
            pack(t, m->scratch, m->act->k, row);
            multiply_rows(m->scratch, m->act, m->y + o, m->y_stride, n_out);
        }
    }
}

void akv_avx2_mulf(const struct akv_mul *m)
{
    if (m->dtype == AKV_F32)
        mul(AKV_F32, m);
    else if (m->dtype == AKV_BF16)
        mul(AKV_BF16, m);
    else
        mul(AKV_F16, m);
}

size_t akv_avx2_mulf_scratch_bytes(size_t k)
{
    return k * sizeof(__m256);
}
