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
    uint64_t offset;  /* of the data in its file */
    const char *path; /* of that file: a part of a split model is one of several */
};

/* What tells one state of a file from another. */
struct akv_stamp {
    uint64_t dev, ino, size;
    int64_t mtime_ns, ctime_ns;
};

struct akv_gguf {
    char *path;
    struct akv_map map;
    struct akv_stamp stamp; /* when it was mapped; of a split model: of all parts together */
    uint32_t version, alignment;
    uint64_t n_kv, n_tensors;
    uint64_t data_offset; /* of the tensor data in the file */
    struct akv_gguf_kv *kv;
    struct akv_tensor *tensors; /* in file order */
    const struct akv_gguf_kv **kv_by_name;
    const struct akv_tensor **tensors_by_name; /* ascending byte order */
    /* Oddities without consequence, one a line (no path, no newline at the end), NULL if none: an empty key, gaps in the data */
    char *warnings;
    struct akv_gguf *parts; /* of a split model: the files behind the first; their tensors are in `tensors` above */
    uint32_t n_parts;       /* 0: there are none */
};

/* Caps: keys and tensors of a file; bytes of a key's and a tensor's name; parts of a split model. */
#define AKV_GGUF_MAX_ENTRIES 65536u
#define AKV_GGUF_MAX_KEY 65535u
#define AKV_GGUF_MAX_NAME 64u
#define AKV_GGUF_MAX_PARTS 1000u

/*
 * A damaged file, a key or tensor given twice: AKV_E_INPUT. Another version of the format, or a tensor type that is not known:
 * AKV_E_INCOMPAT.
 * The first part of a split model (NAME-00001-of-0000N.gguf, split.count above 1) opens the others, which lie beside it: the keys
 * are the first's, the tensors those of all. A part that is missing, or that says it is another, is named.
 */
int akv_gguf_open(struct akv_gguf *g, const char *path, struct akv_err *err);
/* Only the keys: n_tensors is 0, and nothing after the keys is looked at or need be there, other parts included. */
int akv_gguf_open_keys(struct akv_gguf *g, const char *path, struct akv_err *err);
void akv_gguf_close(struct akv_gguf *g); /* safe on a zeroed or failed object */

/* 0 while the open files have the size and times that they had when they were mapped; else AKV_E_INPUT. */
int akv_gguf_restat(const struct akv_gguf *g, struct akv_err *err);
/* The same for what is mapped alone: sizes and times of writing. A file that got another name or was replaced by another is intact. */
int akv_gguf_intact(const struct akv_gguf *g, struct akv_err *err);

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

/* A name out of the file, fit for a message: cut at 64 bytes, anything but valid printable UTF-8 as '?'. */
struct akv_shown {
    char s[96];
};
struct akv_shown akv_str_show(struct akv_str s);
struct akv_shown akv_tensor_dims(const struct akv_tensor *t); /* "576x49152": as many as the file gives, row length first */
bool akv_str_is(struct akv_str s, const char *text);          /* equal */
const char *akv_gguf_type_name(uint32_t type);                /* "u32", "string" ... ; "?" for a number that is none */

/* Element access of arrays; i < kv->n. Strings are found by walking: iterate with akv_gguf_strings. */
uint32_t akv_gguf_array_u32(const struct akv_gguf_kv *kv, uint64_t i); /* of u32/i32/u8/bool ... arrays; wider ones modulo 2^32 */
float akv_gguf_array_f32(const struct akv_gguf_kv *kv, uint64_t i);    /* of f32 and f64 arrays */
/* Walk an array of strings: *at starts NULL; returns the next string. Call exactly kv->n times. */
struct akv_str akv_gguf_next_string(const struct akv_gguf_kv *kv, const uint8_t **at);

#endif
