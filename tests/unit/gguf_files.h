/* For the tests of GGUF reader and model loader: files made by mkmodel, or by hand, in a directory that is removed again. */
#ifndef AKV_TESTS_GGUF_FILES_H
#define AKV_TESTS_GGUF_FILES_H

#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/check.h"

#include "base/buf.h"
#include "base/bytes.h"
#include "base/io.h"
#include "model/gguf.h"

static char temp_dir[64];

static inline int temp_setup(void **state)
{
    (void)state;
    snprintf(temp_dir, sizeof temp_dir, "/tmp/akv-test-XXXXXX");
    return mkdtemp(temp_dir) ? 0 : -1;
}

static inline int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static inline int temp_teardown(void **state)
{
    (void)state;
    return nftw(temp_dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

/* A path in the directory, in one of a few static buffers. */
static inline const char *temp_path(const char *name)
{
    static char paths[16][256];
    static unsigned turn;
    char *p = paths[turn++ % 16];
    snprintf(p, sizeof paths[0], "%s/%s", temp_dir, name);
    return p;
}

static inline void write_whole(const char *path, const void *p, size_t n)
{
    struct akv_err err = {0};
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_ok(akv_write_all(fd, p, n, path, &err), &err);
    close(fd);
}

/* The file's bytes in an initialised buffer. */
static inline void read_whole(const char *path, struct akv_buf *b)
{
    struct akv_err err = {0};
    struct stat st;
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    akv_buf_init(b, 0);
    char *p = akv_buf_reserve(b, (size_t)st.st_size);
    assert_non_null(p);
    assert_int_equal(akv_read_upto(fd, p, (size_t)st.st_size, path, &err), st.st_size);
    b->len = (size_t)st.st_size;
    close(fd);
}

/* Run a program beside this one with these arguments. */
static inline void run_beside(const char *program, const char *arguments)
{
    char self[2048], command[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(n > 0);
    self[n] = '\0';
    *strrchr(self, '/') = '\0';
    assert_true(snprintf(command, sizeof command, "'%s/%s' %s", self, program, arguments) < (int)sizeof command);
    if (system(command) != 0)
        fail_msg("cannot run %s (make units builds it)", command);
}

/* Run mkmodel: options as one string. Returns the path of the file. */
static inline const char *make_model(const char *name, const char *options)
{
    char arguments[1024];
    const char *path = temp_path(name);
    assert_true(snprintf(arguments, sizeof arguments, "-o '%s' %s", path, options) < (int)sizeof arguments);
    run_beside("mkmodel", arguments);
    return path;
}

/* The path of part no (from 1) of n of a split model. */
static inline const char *part_path(const char *name, unsigned no, unsigned n)
{
    char file[128];
    snprintf(file, sizeof file, "%s-%05u-of-%05u.gguf", name, no, n);
    return temp_path(file);
}

/* Run splitmodel: the model at path in n parts called name. Returns the path of the first. */
static inline const char *split_model(const char *path, const char *name, unsigned n)
{
    char arguments[1024];
    assert_true(snprintf(arguments, sizeof arguments, "'%s' '%s' %u", path, temp_path(name), n) < (int)sizeof arguments);
    run_beside("splitmodel", arguments);
    return part_path(name, 1, n);
}

/* ---- GGUF by hand ---- */

static inline void put_text(struct akv_buf *b, const char *s)
{
    akv_buf_put_u64(b, strlen(s));
    akv_buf_puts(b, s);
}

static inline void put_key(struct akv_buf *b, const char *key, uint32_t type)
{
    put_text(b, key);
    akv_buf_put_u32(b, type);
}

static inline void put_header(struct akv_buf *b, uint32_t version, uint64_t n_tensors, uint64_t n_kv)
{
    akv_buf_puts(b, "GGUF");
    akv_buf_put_u32(b, version);
    akv_buf_put_u64(b, n_tensors);
    akv_buf_put_u64(b, n_kv);
}

/*
 * Insert keys (raw bytes, n of them) at the front of a GGUF file's bytes; a key of padding keeps the tensor data aligned.
 */
static inline void insert_keys(struct akv_buf *file, const struct akv_buf *keys, uint64_t n)
{
    struct akv_buf out;
    akv_buf_init(&out, 0);
    akv_buf_add(&out, file->data, 16);
    akv_buf_put_u64(&out, akv_get_u64((const uint8_t *)file->data + 16) + n + 1);
    akv_buf_add(&out, keys->data, keys->len);
    put_key(&out, "test.padding", AKV_GGUF_STRING);
    size_t pad = 32 - (out.len - 24 + 8) % 32;
    akv_buf_put_u64(&out, pad);
    for (size_t i = 0; i < pad; i++)
        akv_buf_putc(&out, ' ');
    akv_buf_add(&out, file->data + 24, file->len - 24);
    akv_buf_release(file);
    *file = out;
}

/* Where the bytes behind the last occurrence of a text begin. */
static inline uint8_t *behind_text(struct akv_buf *file, const char *text)
{
    size_t n = strlen(text), at = file->len;
    assert_true(n <= file->len);
    for (size_t i = 0; i + n <= file->len; i++)
        if (!memcmp(file->data + i, text, n))
            at = i + n;
    assert_true(at < file->len);
    return (uint8_t *)file->data + at;
}

/* Replace the last occurrence of a text by another of the same length. */
static inline void replace_text(struct akv_buf *file, const char *from, const char *to)
{
    assert_int_equal(strlen(from), strlen(to));
    memcpy(behind_text(file, from) - strlen(from), to, strlen(to));
}

#endif
