/* Private to the GGUF reader: taking values from the mapping, each compared with the bytes left, and saying where it went wrong. */
#ifndef AKV_MODEL_GGUF_READER_H
#define AKV_MODEL_GGUF_READER_H

#include "base/buf.h"
#include "model/gguf.h"

struct akv_ggufin {
    struct akv_gguf *g;
    const uint8_t *p;
    size_t size, at;
    /* what is being read, for messages: a kind, the name once known, else the number; where it begins */
    const char *kind;
    struct akv_str name;
    uint64_t number;
    size_t from;
    struct akv_buf notes;
    struct akv_err *err;
};

/* Bytes of a scalar; 0 for strings, arrays and numbers that are no type. */
size_t akv_gguf_type_bytes(uint32_t type);

/* Byte order of names, a prefix first; as strcmp. */
int akv_str_compare(struct akv_str a, struct akv_str b);

/* What begins here; number 0: there is only one. */
void akv_ggufin_begin(struct akv_ggufin *r, const char *kind, uint64_t number);
/* Fail: "path: kind name at offset N: why". */
int akv_ggufin_bad(struct akv_ggufin *r, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
int akv_ggufin_ends(struct akv_ggufin *r); /* fail: the file ends inside it */
size_t akv_ggufin_left(const struct akv_ggufin *r);
int akv_ggufin_u32(struct akv_ggufin *r, uint32_t *v);
int akv_ggufin_u64(struct akv_ggufin *r, uint64_t *v);
int akv_ggufin_name(struct akv_ggufin *r, uint64_t max, struct akv_str *s);
/* Before anything is allocated for n entries of at least min_bytes each. */
int akv_ggufin_count(struct akv_ggufin *r, uint64_t n, size_t min_bytes, const char *what);

/* The tensor infos and the places of their data; r stands at the first. */
int akv_ggufin_tensors(struct akv_ggufin *r);
/* tensors_by_name from tensors. AKV_E_INPUT: a name twice. */
int akv_gguf_index_tensors(struct akv_gguf *g, struct akv_err *err);

/* One file, whatever it says of being a part. */
int akv_gguf_open_one(struct akv_gguf *g, const char *path, bool keys_only, struct akv_err *err);
/* g, just opened, may be the first part of a split model: open the others and take in their tensors; the keys alone need none. */
int akv_gguf_join(struct akv_gguf *g, bool keys_only, struct akv_err *err);
/* The present state of all files of g. AKV_E_INPUT: a part has changed since it was opened. */
int akv_gguf_stat(const struct akv_gguf *g, struct akv_stamp *s, struct akv_err *err);

#endif
