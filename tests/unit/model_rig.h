/* For the tests of the model loader: small models, changed in one place, that must load or must be refused. */
#ifndef AKV_TESTS_MODEL_RIG_H
#define AKV_TESTS_MODEL_RIG_H

#include "tests/unit/gguf_files.h"

#include "model/model.h"

#define SMALL "--dtype q8_0 --layers 1 --width 32 --heads 2 --kv-heads 1 --ff 64"

/* A file that must load. */
static inline struct akv_model *load(const char *path, unsigned flags)
{
    struct akv_model *m = NULL;
    struct akv_err err = {0};
    assert_ok(akv_model_load(&m, path, flags, &err), &err);
    return m;
}

/* A file that must not, with a message that holds both words. */
static inline void refuse(const char *path, int code, const char *word, const char *other)
{
    struct akv_model *m = NULL;
    struct akv_err err = {0};
    int rc = akv_model_load(&m, path, 0, &err);
    if (rc != code)
        fail_msg("%s: %d, not %d: %s (%s %s)", path, rc, code, err.msg, word, other);
    if (!strstr(err.msg, word) || !strstr(err.msg, other))
        fail_msg("'%s' lacks '%s' or '%s'", err.msg, word, other);
    assert_null(m);
}

/* A model with keys inserted: n of them, as raw bytes, which are released. */
static inline const char *model_with_keys(const char *options, struct akv_buf *keys, uint64_t n)
{
    struct akv_buf file;
    read_whole(make_model("base.gguf", options), &file);
    insert_keys(&file, keys, n);
    const char *path = temp_path("keyed.gguf");
    write_whole(path, file.data, file.len);
    akv_buf_release(keys);
    akv_buf_release(&file);
    return path;
}

/* The small model with one key inserted: its value as raw bytes. */
static inline const char *model_with_key(const char *key, uint32_t type, const void *value, size_t n)
{
    struct akv_buf keys;
    akv_buf_init(&keys, 0);
    put_key(&keys, key, type);
    akv_buf_add(&keys, value, n);
    return model_with_keys(SMALL, &keys, 1);
}

/* A model with one text replaced by another of its length. */
static inline const char *model_with_text(const char *options, const char *from, const char *to)
{
    struct akv_buf file;
    read_whole(make_model("base.gguf", options), &file);
    replace_text(&file, from, to);
    const char *path = temp_path("text.gguf");
    write_whole(path, file.data, file.len);
    akv_buf_release(&file);
    return path;
}

#endif
