#include "model/dtype.h"

#define ROW(id, name_, block_, bytes_, quantised_, runs_)                                                                          \
    [id] = {.name = (name_), .block = (block_), .block_bytes = (bytes_), .quantised = (quantised_), .runs = (runs_)}

const struct akv_dtype_info akv_dtypes[AKV_DTYPES] = {
    ROW(AKV_F32, "F32", 1, 4, false, true),
    ROW(AKV_F16, "F16", 1, 2, false, true),
    ROW(AKV_BF16, "BF16", 1, 2, false, true),
    ROW(AKV_Q4_0, "Q4_0", 32, 18, true, true),
    ROW(AKV_Q4_1, "Q4_1", 32, 20, true, true),
    ROW(AKV_Q5_0, "Q5_0", 32, 22, true, true),
    ROW(AKV_Q5_1, "Q5_1", 32, 24, true, true),
    ROW(AKV_Q8_0, "Q8_0", 32, 34, true, true),
    ROW(AKV_Q2_K, "Q2_K", 256, 84, true, true),
    ROW(AKV_Q3_K, "Q3_K", 256, 110, true, true),
    ROW(AKV_Q4_K, "Q4_K", 256, 144, true, true),
    ROW(AKV_Q5_K, "Q5_K", 256, 176, true, true),
    ROW(AKV_Q6_K, "Q6_K", 256, 210, true, true),
    ROW(AKV_IQ4_NL, "IQ4_NL", 32, 18, true, true),
    ROW(AKV_IQ4_XS, "IQ4_XS", 256, 136, true, true),
    ROW(AKV_MXFP4, "MXFP4", 32, 17, true, true),
    /* read and described, never computed with: no enumerator */
    ROW(9, "Q8_1", 32, 36, true, false),
    ROW(15, "Q8_K", 256, 292, true, false),
    ROW(16, "IQ2_XXS", 256, 66, true, false),
    ROW(17, "IQ2_XS", 256, 74, true, false),
    ROW(18, "IQ3_XXS", 256, 98, true, false),
    ROW(19, "IQ1_S", 256, 50, true, false),
    ROW(21, "IQ3_S", 256, 110, true, false),
    ROW(22, "IQ2_S", 256, 82, true, false),
    ROW(24, "I8", 1, 1, false, false),
    ROW(25, "I16", 1, 2, false, false),
    ROW(26, "I32", 1, 4, false, false),
    ROW(27, "I64", 1, 8, false, false),
    ROW(28, "F64", 1, 8, false, false),
    ROW(29, "IQ1_M", 256, 56, true, false),
    ROW(34, "TQ1_0", 256, 54, true, false),
    ROW(35, "TQ2_0", 256, 66, true, false),
};
