/*
 * Matrix product with quantised weights: eight outputs in the lanes, K ascending.
 *
 * Eight weight rows make a panel (avx2_panel.h). Up to four activation rows share its loads, four bytes of each broadcast at a time: one
 * multiplication gives sums of pairs for all eight outputs. Four-bit weights let all eight products of a block be added in 16 bits
 * (8 * 2 * 15 * 127 = 30,480); eight-bit ones are multiplied as |w| * sign(w) q and widened at once (2 * 128 * 127 = 32,512).
 * Many rows go over a panel kept in scratch; four or fewer meet each block as it is packed, at the speed of memory.
 */
#include "kernels/avx2_panel.h"

#define GROUP 4u /* activation rows that share a panel's loads */
#define TILE 64u /* activation rows that share a panel's packing */
#define ROWS AKV_PANEL_ROWS

/* Of one block of GROUP activation rows: d, and the term of sum q: Q4_1: d * sum as f32; Q4_0: 8 * sum as the bits of an int32. */
struct act_block {
    float d[GROUP], s[GROUP];
};

/* What n activation rows (1..GROUP) meet. */
struct pass {
    const uint8_t *row[ROWS]; /* weights */
    struct akv_panel *panel;  /* the same, packed */
    size_t n_blocks;
    const struct act_block *act;
    const int8_t *q; /* the first activation row */
};

AKV_INLINE __m256i broadcast4(const int8_t *q)
{
    int32_t v;
    memcpy(&v, q, sizeof v);
    return _mm256_set1_epi32(v);
}

/* Integer products of one block. */
AKV_INLINE void block_isums(enum akv_dtype t, int n, __m256i isum[GROUP], const __m256i w[8], const int8_t *q, size_t k)
{
    const __m256i ones = _mm256_set1_epi16(1);
#pragma GCC unroll 8
    for (int g = 0; g < 8; g++) {
        __m256i v = w[g];
#pragma GCC unroll 4
        for (int r = 0; r < n; r++) {
            __m256i a = broadcast4(q + (size_t)r * k + 4 * g), x;
            if (t == AKV_Q8_0) {
                x = _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_abs_epi8(v), _mm256_sign_epi8(a, v)), ones);
                isum[r] = g ? _mm256_add_epi32(isum[r], x) : x;
            } else {
                x = _mm256_maddubs_epi16(v, a);
                isum[r] = g ? _mm256_add_epi16(isum[r], x) : x;
            }
        }
    }
    if (t != AKV_Q8_0) {
#pragma GCC unroll 4
        for (int r = 0; r < n; r++)
            isum[r] = _mm256_madd_epi16(isum[r], ones);
    }
}

/* Continue the chains over one block. */
AKV_INLINE void step(enum akv_dtype t, int n, __m256 acc[GROUP], const struct akv_panel *p, const struct act_block *a,
                     const int8_t *q, size_t k)
{
    __m256i isum[GROUP];
    block_isums(t, n, isum, p->w, q, k);
#pragma GCC unroll 4
    for (int r = 0; r < n; r++) {
        __m256 s = _mm256_broadcast_ss(&a->s[r]);
        if (t == AKV_Q4_0)
            isum[r] = _mm256_sub_epi32(isum[r], _mm256_castps_si256(s));
        acc[r] = _mm256_fmadd_ps(_mm256_mul_ps(p->d, _mm256_broadcast_ss(&a->d[r])), _mm256_cvtepi32_ps(isum[r]), acc[r]);
        if (t == AKV_Q4_1)
            acc[r] = _mm256_fmadd_ps(p->m, s, acc[r]);
    }
}

AKV_INLINE size_t block_bytes(enum akv_dtype t)
{
    return t == AKV_Q4_1 ? 20 : t == AKV_Q4_0 ? 18 : 34;
}

AKV_INLINE void pack(enum akv_dtype t, const struct pass *p)
{
    for (size_t b = 0; b < p->n_blocks; b++) {
        akv_prefetch(p->row[0], b * ROWS * block_bytes(t), ROWS * block_bytes(t));
        akv_panel_pack(t, p->panel + b, p->row, b * block_bytes(t));
    }
}

AKV_INLINE void chains(enum akv_dtype t, int n, bool packed, const struct pass *p, __m256 out[GROUP])
{
    const size_t k = p->n_blocks * AKV_QBLOCK;
    __m256 acc[GROUP];
#pragma GCC unroll 4
    for (int r = 0; r < n; r++)
        acc[r] = _mm256_setzero_ps();
    for (size_t b = 0; b < p->n_blocks; b++) {
        if (packed) {
            step(t, n, acc, p->panel + b, p->act + b, p->q + b * AKV_QBLOCK, k);
        } else {
            struct akv_panel panel;
            akv_prefetch(p->row[0], b * ROWS * block_bytes(t), ROWS * block_bytes(t));
            akv_panel_pack(t, &panel, p->row, b * block_bytes(t));
            step(t, n, acc, &panel, p->act + b, p->q + b * AKV_QBLOCK, k);
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < n; r++)
        out[r] = acc[r];
}

AKV_INLINE void chains_n(enum akv_dtype t, size_t n, bool packed, const struct pass *p, __m256 out[GROUP])
{
    switch (n) {
    case 1:
        chains(t, 1, packed, p, out);
        break;
    case 2:
        chains(t, 2, packed, p, out);
        break;
    case 3:
        chains(t, 3, packed, p, out);
        break;
    default:
        chains(t, 4, packed, p, out);
    }
}

/* The scales of n activation rows from `first` on, interleaved by groups. */
static void gather_scales(enum akv_dtype t, struct act_block *a, const struct akv_act *act, size_t first, size_t n)
{
    const size_t n_blocks = act->k / AKV_QBLOCK;
    for (size_t r = 0; r < n; r++) {
        const float *d = act->d + (first + r) * n_blocks;
        const int32_t *sum = act->sum + (first + r) * 2 * n_blocks;
        struct act_block *to = a + r / GROUP * n_blocks;
        for (size_t b = 0; b < n_blocks; b++) {
            int32_t s = sum[2 * b] + sum[2 * b + 1], s8 = 8 * s;
            to[b].d[r % GROUP] = d[b];
            if (t == AKV_Q4_0)
                memcpy(&to[b].s[r % GROUP], &s8, sizeof s8);
            else
                to[b].s[r % GROUP] = d[b] * (float)s;
        }
    }
}

/* Eight outputs (the last ones may be fewer) from o on for activation rows first .. first + n_rows. */
AKV_INLINE void panel(enum akv_dtype t, const struct akv_mul *m, size_t o, size_t first, size_t n_rows, struct pass *p)
{
    const struct act_block *scales = p->act;
    const size_t n_out = m->to - o < ROWS ? m->to - o : ROWS;
    const bool packed = n_rows > GROUP;
    for (size_t i = 0; i < ROWS; i++)
        p->row[i] = m->w + (o + (i < n_out ? i : n_out - 1)) * m->row_bytes;
    if (packed)
        pack(t, p);
    for (size_t r = 0; r < n_rows; r += GROUP) {
        const size_t n = n_rows - r < GROUP ? n_rows - r : GROUP;
        __m256 out[GROUP];
        p->q = m->act->q + (first + r) * m->act->k;
        p->act = scales + r / GROUP * p->n_blocks;
        if (packed)
            chains_n(t, n, true, p, out);
        else
            chains_n(t, n, false, p, out);
        for (size_t i = 0; i < n; i++) {
            float *y = m->y + (first + r + i) * m->y_stride + o;
            if (n_out == ROWS)
                _mm256_storeu_ps(y, out[i]);
            else
                memcpy(y, &out[i], n_out * sizeof *y);
        }
    }
    p->act = scales;
}

AKV_INLINE void mul(enum akv_dtype t, const struct akv_mul *m)
{
    const size_t n_blocks = m->act->k / AKV_QBLOCK;
    struct pass p = {.panel = m->scratch, .n_blocks = n_blocks};
    struct act_block *scales = (void *)(p.panel + n_blocks);
    p.act = scales;
    for (size_t first = 0; first < m->act->n_rows; first += TILE) {
        const size_t n_rows = m->act->n_rows - first < TILE ? m->act->n_rows - first : TILE;
        gather_scales(t, scales, m->act, first, n_rows);
        for (size_t o = m->from; o < m->to; o += ROWS)
            panel(t, m, o, first, n_rows, &p);
    }
}

void akv_avx2_mulq(const struct akv_mul *m)
{
    switch (m->dtype) {
    case AKV_Q4_0:
        mul(AKV_Q4_0, m);
        break;
    case AKV_Q4_1:
        mul(AKV_Q4_1, m);
        break;
    default:
        mul(AKV_Q8_0, m);
    }
}

size_t akv_avx2_mulq_scratch_bytes(size_t k)
{
    return k / AKV_QBLOCK * (sizeof(struct akv_panel) + TILE / GROUP * sizeof(struct act_block));
}
