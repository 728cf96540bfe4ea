/*
 * The dtypes in blocks of 32: f16 scales first (MXFP4: one exponent byte), then the codes. Of 16 bytes of nibbles, byte i holds
 * element i in its low half and element i + 16 in its high half.
 */
#include "kernels/scalar_quant.h"

#include "kernels/fp32.h"

const int8_t akv_iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
const int8_t akv_mxfp4_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

const struct akv_quant akv_quants[AKV_DTYPES] = {
    [AKV_Q4_0] = {akv_unpack_q4_0, AKV_MIN_NONE},       [AKV_Q4_1] = {akv_unpack_q4_1, AKV_MIN_ADDED},
    [AKV_Q5_0] = {akv_unpack_q5_0, AKV_MIN_NONE},       [AKV_Q5_1] = {akv_unpack_q5_1, AKV_MIN_ADDED},
    [AKV_Q8_0] = {akv_unpack_q8_0, AKV_MIN_NONE},       [AKV_Q2_K] = {akv_unpack_q2_k, AKV_MIN_SUBTRACTED},
    [AKV_Q3_K] = {akv_unpack_q3_k, AKV_MIN_NONE},       [AKV_Q4_K] = {akv_unpack_q4_k, AKV_MIN_SUBTRACTED},
    [AKV_Q5_K] = {akv_unpack_q5_k, AKV_MIN_SUBTRACTED}, [AKV_Q6_K] = {akv_unpack_q6_k, AKV_MIN_NONE},
    [AKV_IQ4_NL] = {akv_unpack_iq4_nl, AKV_MIN_NONE},   [AKV_IQ4_XS] = {akv_unpack_iq4_xs, AKV_MIN_NONE},
    [AKV_MXFP4] = {akv_unpack_mxfp4, AKV_MIN_NONE},
};

static void begin(struct akv_weights *b, float d)
{
    b->d = d;
    b->scale[0] = b->scale[1] = 1;
}

/* Elements i and i + 16 from byte i. */
static void nibbles(struct akv_weights *restrict b, const uint8_t *restrict p, int offset)
{
    for (size_t i = 0; i < 16; i++) {
        b->w[i] = (int8_t)((p[i] & 15) + offset);
        b->w[i + 16] = (int8_t)((p[i] >> 4) + offset);
    }
}

/* The fifth bits, element i's in bit i of a little-endian word. */
static void fifth_bits(struct akv_weights *restrict b, const uint8_t *restrict p)
{
    for (size_t i = 0; i < AKV_QBLOCK; i++)
        b->w[i] = (int8_t)(b->w[i] + ((p[i / 8] >> i % 8) & 1) * 16);
}

static void from_codebook(struct akv_weights *restrict b, const uint8_t *restrict p, const int8_t values[16])
{
    for (size_t i = 0; i < 16; i++) {
        b->w[i] = values[p[i] & 15];
        b->w[i + 16] = values[p[i] >> 4];
    }
}

/* d, codes - 8 */
void akv_unpack_q4_0(struct akv_weights *restrict b, const uint8_t *restrict p, size_t i)
{
    (void)i;
    begin(b, akv_f32_from_f16(akv_load16(p)));
    nibbles(b, p + 2, -8);
}

/* d, m, codes */
void akv_unpack_q4_1(struct akv_weights *restrict b, const uint8_t *restrict p, size_t i)
{
    (void)i;
    begin(b, akv_f32_from_f16(akv_load16(p)));
    b->m = akv_f32_from_f16(akv_load16(p + 2));
    nibbles(b, p + 4, 0);
}

/* d, fifth bits, low nibbles; codes - 16 */
void akv_unpack_q5_0(struct akv_weights *restrict b, const uint8_t *restrict p, size_t i)
{
    (void)i;
    begin(b, akv_f32_from_f16(akv_load16(p)));
    nibbles(b, p + 6, -16);
    fifth_bits(b, p + 2);
}

/* d, m, fifth bits, low nibbles */
void akv_unpack_q5_1(struct akv_weights *restrict b, const uint8_t *restrict p, size_t i)
{
    (void)i;
    begin(b, akv_f32_from_f16(akv_load16(p)));
    b->m = akv_f32_from_f16(akv_load16(p + 2));
    nibbles(b, p + 8, 0);
    fifth_bits(b, p + 4);
}

/* d, 32 signed bytes */
void akv_unpack_q8_0(struct akv_weights *restrict b, const uint8_t *restrict p, size_t i)
{
    (void)i;
    begin(b, akv_f32_from_f16(akv_load16(p)));
    memcpy(b->w, p + 2, AKV_QBLOCK);
}

/* d, codes of the codebook */
void akv_unpack_iq4_nl(struct akv_weights *restrict b, const uint8_t *restrict p, size_t i)
{
    (void)i;
    begin(b, akv_f32_from_f16(akv_load16(p)));
    from_codebook(b, p + 2, akv_iq4_values);
}

/* exponent e (E8M0, 255 is NaN), codes of the codebook, whose values are doubled: d = 2^(e - 128), subnormal below e = 2 */
void akv_unpack_mxfp4(struct akv_weights *restrict b, const uint8_t *restrict p, size_t i)
{
    (void)i;
    const uint32_t e = p[0];
    begin(b, akv_float(e < 2 ? 0x00200000u << e : e < 255 ? (e - 1) << 23 : AKV_F32_NAN));
    from_codebook(b, p + 1, akv_mxfp4_values);
}
