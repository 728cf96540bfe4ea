/*
 * Matrix product with float weights: outputs in the lanes, K ascending by fma. Sixteen weight rows are packed into a panel, two vectors
 * a column, over which the activation rows pass, six at a time: twelve chains in registers. The panel holds as many columns as the
 * nearest cache; the chains of a tile of rows wait in scratch for the next ones. A single row meets the columns as they are packed, at
 * the speed of memory.
 */
#include "kernels/avx2.h"

#define ROWS 8u      /* weight rows in a vector */
#define PANEL 16u    /* weight rows in a panel */
#define DEPTH 256u   /* columns in a panel */
#define GROUP 6u     /* activation rows that share a panel's loads */
#define TILE 192u    /* activation rows that share a panel's packing */
#define AHEAD 16384u /* a single row's stream is asked for so much earlier than others: it is the fastest */

struct scratch {
    __m256 panel[DEPTH][2];
    __m256 acc[TILE][2];
};

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

AKV_INLINE size_t width(enum akv_dtype t)
{
    return t == AKV_F32 ? 4 : 2;
}

/* Columns from .. to of sixteen rows. */
AKV_INLINE void pack(enum akv_dtype t, __m256 panel[DEPTH][2], const uint8_t *const row[PANEL], size_t from, size_t to)
{
    size_t i = from;
    for (; i + 8 <= to; i += 8) {
        akv_prefetch(row[0], i * PANEL * width(t), 8 * PANEL * width(t));
        for (size_t h = 0; h < 2; h++) {
            __m256 columns[8];
            pack8(t, columns, row + ROWS * h, i * width(t));
#pragma GCC unroll 8
            for (size_t j = 0; j < 8; j++)
                panel[i - from + j][h] = columns[j];
        }
    }
    for (; i < to; i++) {
        panel[i - from][0] = pack1(t, row, i * width(t));
        panel[i - from][1] = pack1(t, row + ROWS, i * width(t));
    }
}

/* One activation row. Two chains of eight outputs, for one alone would wait for each of its sums. */
AKV_INLINE void stream(enum akv_dtype t, const uint8_t *const row[PANEL], const float *x, size_t k, __m256 acc[2])
{
    acc[0] = acc[1] = _mm256_setzero_ps();
    size_t i = 0;
    for (; i + 8 <= k; i += 8) {
        akv_prefetch(row[0], AHEAD + i * PANEL * width(t), 8 * PANEL * width(t));
#pragma GCC unroll 2
        for (size_t h = 0; h < 2; h++) {
            __m256 columns[8];
            pack8(t, columns, row + ROWS * h, i * width(t));
#pragma GCC unroll 8
            for (size_t j = 0; j < 8; j++)
                acc[h] = _mm256_fmadd_ps(columns[j], _mm256_broadcast_ss(x + i + j), acc[h]);
        }
    }
    for (; i < k; i++) {
#pragma GCC unroll 2
        for (size_t h = 0; h < 2; h++)
            acc[h] = _mm256_fmadd_ps(pack1(t, row + ROWS * h, i * width(t)), _mm256_broadcast_ss(x + i), acc[h]);
    }
}

/* Continue the chains of n activation rows over the columns of a panel. */
AKV_INLINE void multiply(int n, __m256 acc[][2], __m256 panel[DEPTH][2], size_t n_columns, const float *x, size_t k)
{
    __m256 a[GROUP][2];
#pragma GCC unroll 6
    for (int r = 0; r < n; r++)
        a[r][0] = acc[r][0], a[r][1] = acc[r][1];
    for (size_t i = 0; i < n_columns; i++) {
        const __m256 p0 = panel[i][0], p1 = panel[i][1];
#pragma GCC unroll 6
        for (int r = 0; r < n; r++) {
            const __m256 v = _mm256_broadcast_ss(x + (size_t)r * k + i);
            a[r][0] = _mm256_fmadd_ps(p0, v, a[r][0]);
            a[r][1] = _mm256_fmadd_ps(p1, v, a[r][1]);
        }
    }
#pragma GCC unroll 6
    for (int r = 0; r < n; r++)
        acc[r][0] = a[r][0], acc[r][1] = a[r][1];
}

static void multiply_rows(struct scratch *s, size_t n_columns, const float *x, size_t k, size_t n_rows)
{
    size_t r = 0;
    for (; r + 6 <= n_rows; r += 6)
        multiply(6, s->acc + r, s->panel, n_columns, x + r * k, k);
    for (; r + 2 <= n_rows; r += 2)
        multiply(2, s->acc + r, s->panel, n_columns, x + r * k, k);
    if (r < n_rows)
        multiply(1, s->acc + r, s->panel, n_columns, x + r * k, k);
}

/* The sixteen outputs of `row` for n_rows activation rows, to s->acc. */
AKV_INLINE void tile(enum akv_dtype t, struct scratch *s, const uint8_t *const row[PANEL], const float *x, size_t k, size_t n_rows)
{
    memset(s->acc, 0, n_rows * sizeof *s->acc);
    for (size_t from = 0; from < k; from += DEPTH) {
        const size_t to = from + DEPTH < k ? from + DEPTH : k;
        pack(t, s->panel, row, from, to);
        multiply_rows(s, to - from, x + from, k, n_rows);
    }
}

AKV_INLINE void mul(enum akv_dtype t, const struct akv_mul *m)
{
    const struct akv_act *act = m->act;
    struct scratch *s = m->scratch;
    for (size_t first = 0; first < act->n_rows; first += TILE) {
        const size_t n_rows = act->n_rows - first < TILE ? act->n_rows - first : TILE;
        for (size_t o = m->from; o < m->to; o += PANEL) {
            const size_t n_out = m->to - o < PANEL ? m->to - o : PANEL;
            const uint8_t *row[PANEL];
            for (size_t i = 0; i < PANEL; i++)
                row[i] = m->w + (o + (i < n_out ? i : n_out - 1)) * m->row_bytes;
            if (n_rows == 1)
                stream(t, row, act->x + first * act->k, act->k, s->acc[0]);
            else
                tile(t, s, row, act->x + first * act->k, act->k, n_rows);
            for (size_t r = 0; r < n_rows; r++)
                memcpy(m->y + (first + r) * m->y_stride + o, s->acc[r], n_out * sizeof *m->y);
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

size_t akv_avx2_mulf_scratch_bytes(void)
{
    return sizeof(struct scratch);
}
