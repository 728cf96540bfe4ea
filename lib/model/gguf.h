/*
 * GGUF v2/v3 reader over a mapping. Everything returned points into the mapping and lives until akv_gguf_close().
 * Every count, offset and type is checked before use; no allocation is larger than the file justifies.
 * Errors name the file, the key or tensor and the byte offset.
 */
#ifndef AKV_MODEL_GGUF_H
#define AKV_MODEL_GGUF_H

#include "base/io.h"
#include "model/dtype.h"

enum akv_gguf_type {
    AKV_GGUF_U8,
    AKV_GGUF_I8,
    AKV_GGUF_U16,
    AKV_GGUF_I16,
    AKV_GGUF_U32,
    AKV_GGUF_I32,
    AKV_GGUF_F32,
    AKV_GGUF_BOOL,
    AKV_GGUF_STRING,
    AKV_GGUF_ARRAY,
    AKV_GGUF_U64,
    AKV_GGUF_I64,
    AKV_GGUF_F64
};

struct akv_str { /* bytes in the mapping, not NUL-terminated */
    const char *s;
    size_t len;
};

struct akv_gguf_kv {
    struct akv_str key;
    uint32_t type;        /* enum akv_gguf_type */
    uint32_t elem_type;   /* of an array */
    uint64_t n;           /* elements of an array, else 1 */
    const uint8_t *value; /* first byte of the value (an array: of its first element; a string: of its length) */
    size_t bytes;         /* of the value */
    uint64_t offset;      /* of the key in the file */
};

struct akv_tensor {
    struct akv_str name;
    enum akv_dtype dtype;
    uint32_t n_dims;
    uint64_t ne[4]; /* ne[0] is the row length; missing dimensions are 1 */
    size_t row_bytes, bytes;
    const uint8_t *data;
    uint64_t offset; /* of the data in its file */
};

struct akv_gguf {
    char *path;
    struct akv_map map;
    uint32_t version;
    uint64_t n_kv, n_tensors;
    struct akv_gguf_kv *kv;
    struct akv_tensor *tensors; /* in file order */
    /* warnings found while reading (joined by newlines), NULL if none: duplicates of no consequence, nested arrays ... */
    char *warnings;
};

int akv_gguf_open(struct akv_gguf *g, const char *path, struct akv_err *err);
void akv_gguf_close(struct akv_gguf *g); /* safe on a zeroed or failed object */

const struct akv_gguf_kv *akv_gguf_find(const struct akv_gguf *g, const char *key);
const struct akv_tensor *akv_gguf_tensor(const struct akv_gguf *g, const char *name);

/*
 * Typed access. Return 1 and set *out when present, 0 when absent (out untouched), or AKV_E_INPUT when the type is wrong or the
 * value does not fit (names key and offset). u32 takes any unsigned or non-negative signed integer type; f32 any float type.
 */
int akv_gguf_u32(const struct akv_gguf *g, const char *key, uint32_t *out, struct akv_err *err);
int akv_gguf_f32(const struct akv_gguf *g, const char *key, float *out, struct akv_err *err);
int akv_gguf_bool(const struct akv_gguf *g, const char *key, bool *out, struct akv_err *err);
int akv_gguf_str(const struct akv_gguf *g, const char *key, struct akv_str *out, struct akv_err *err);

/* Element access of arrays; i < kv->n. Strings are found by walking: iterate with akv_gguf_strings. */
uint32_t akv_gguf_array_u32(const struct akv_gguf_kv *kv, uint64_t i); /* of u32/i32/u8/bool ... arrays */
float akv_gguf_array_f32(const struct akv_gguf_kv *kv, uint64_t i);
/* Walk an array of strings: *at starts NULL; returns the next string. Call exactly kv->n times. */
struct akv_str akv_gguf_next_string(const struct akv_gguf_kv *kv, const uint8_t **at);

#endif
