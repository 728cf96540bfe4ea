/*
 * Weight and KV element types: one row each in akv_dtypes[]. The numbers are GGUF's tensor type ids.
 * The only header of lib/ that kernels/ may include.
 */
#ifndef AKV_MODEL_DTYPE_H
#define AKV_MODEL_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum akv_dtype {
    AKV_F32 = 0,
    AKV_F16 = 1,
    AKV_Q4_0 = 2,
    AKV_Q4_1 = 3,
    AKV_Q5_0 = 6,
    AKV_Q5_1 = 7,
    AKV_Q8_0 = 8,
    AKV_Q2_K = 10,
    AKV_Q3_K = 11,
    AKV_Q4_K = 12,
    AKV_Q5_K = 13,
    AKV_Q6_K = 14,
    AKV_IQ4_NL = 20,
    AKV_IQ4_XS = 23,
    AKV_BF16 = 30,
    AKV_MXFP4 = 39,
    AKV_DTYPES = 40
};

struct akv_dtype_info {
    const char *name;     /* as GGUF users write it: "Q4_1"; NULL: no such type */
    uint32_t block;       /* elements in a block */
    uint32_t block_bytes; /* bytes of a block */
    bool quantised;       /* products take int8 activations (numerics R2); else f32 activations */
    bool runs;            /* kernels exist: a model with weights of this type can be computed */
};

/* Also holds rows for GGUF types without an enumerator above, so that a file with them can be read and described. */
extern const struct akv_dtype_info akv_dtypes[AKV_DTYPES];

#endif
