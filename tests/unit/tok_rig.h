/* For the tokenizer's tests: vocabularies from reference files and made on the spot. */
#ifndef AKV_TESTS_TOK_RIG_H
#define AKV_TESTS_TOK_RIG_H

#include <jansson.h>
#include <zstd.h>

#include "tests/check.h"

#include "base/buf.h"
#include "model/tok.h"

struct rig {
    struct akv_gguf gguf;
    struct akv_tok *tok;
    char *warnings;
    struct akv_err err;
};

static inline void rig_close(struct rig *r)
{
    akv_tok_free(r->tok);
    free(r->warnings);
    akv_gguf_close(&r->gguf);
    memset(r, 0, sizeof *r);
}

/* The same but for encoding, which is refused. */
static inline void rig_same_decoding(const struct akv_tok *a, const struct akv_tok *b)
{
    struct akv_buf texts[2];
    struct akv_ids none = {0};
    size_t n_ends[2];
    akv_buf_init(&texts[0], 0);
    akv_buf_init(&texts[1], 0);
    assert_int_equal(akv_tok_n_vocab(a), akv_tok_n_vocab(b));
    for (uint32_t id = 0; id < akv_tok_n_vocab(a); id++) {
        assert_int_equal(akv_tok_decode(a, &id, 1, false, &texts[0], NULL), 0);
        assert_int_equal(akv_tok_decode(b, &id, 1, false, &texts[1], NULL), 0);
        assert_int_equal(texts[0].len, texts[1].len);
    }
    assert_memory_equal(texts[0].data, texts[1].data, texts[0].len);
    assert_memory_equal(akv_tok_digest(a), akv_tok_digest(b), AKV_SHA_BYTES);
    const uint32_t *ends[] = {akv_tok_ends(a, &n_ends[0]), akv_tok_ends(b, &n_ends[1])};
    assert_int_equal(n_ends[0], n_ends[1]);
    assert_memory_equal(ends[0], ends[1], n_ends[0] * sizeof **ends);
    assert_int_equal(akv_tok_encode(b, "", 0, 0, &none, NULL, NULL), AKV_E_USAGE);
    akv_buf_release(&texts[0]);
    akv_buf_release(&texts[1]);
}

/* What opens, opens for decoding only; what does not, is refused there too, in the same words, unless single entries are at fault. */
static inline void rig_decode_only(const struct rig *r, const char *pre, int rc)
{
    struct akv_tok *t;
    struct akv_err err = {0};
    int got = akv_tok_open(&t, &r->gguf, pre, AKV_TOK_DECODE_ONLY, NULL, &err);
    if (got != rc && (got || (!strstr(r->err.msg, "collide on purpose") && !strstr(r->err.msg, "not a number"))))
        fail_msg("'%s' for decoding only instead of '%s'", err.msg, r->err.msg);
    if (got)
        assert_string_equal(err.msg, r->err.msg);
    else if (rc == 0)
        rig_same_decoding(r->tok, t);
    akv_tok_free(t);
}

/* Open a vocabulary; returns what akv_tok_open() returned (a file that is no GGUF fails the test). */
static inline int rig_open(struct rig *r, const char *path, const char *pre)
{
    memset(r, 0, sizeof *r);
    assert_ok(akv_gguf_open_keys(&r->gguf, path, &r->err), &r->err);
    int rc = akv_tok_open(&r->tok, &r->gguf, pre, 0, &r->warnings, &r->err);
    rig_decode_only(r, pre, rc);
    return rc;
}

/* The same for bytes in memory. */
static inline int rig_open_bytes(struct rig *r, const void *bytes, size_t n, const char *pre)
{
    char path[] = "/tmp/akv-test-tok-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    struct akv_err err = {0};
    assert_ok(akv_write_all(fd, bytes, n, path, &err), &err);
    close(fd);
    int rc = rig_open(r, path, pre);
    unlink(path);
    return rc;
}

/* A whole file; free() it. Files that end in .zst are decompressed. */
static inline char *rig_read(const char *path, size_t *n)
{
    struct akv_map map;
    struct akv_err err = {0};
    assert_ok(akv_map_open(&map, path, &err), &err);
    char *out;
    size_t len = strlen(path);
    if (len > 4 && strcmp(path + len - 4, ".zst") == 0) {
        unsigned long long size = ZSTD_getFrameContentSize(map.data, map.size);
        assert_true(size < 1u << 30);
        out = malloc((size_t)size + 1);
        assert_non_null(out);
        *n = ZSTD_decompress(out, (size_t)size, map.data, map.size);
        assert_int_equal(*n, size);
    } else {
        *n = map.size;
        out = malloc(*n + 1);
        assert_non_null(out);
        memcpy(out, map.data, *n);
    }
    out[*n] = '\0';
    akv_map_close(&map);
    return out;
}

/* The reference vocabulary of that name, or false when it is absent. */
static inline bool rig_open_golden(struct rig *r, const char *name)
{
    char rel[256];
    snprintf(rel, sizeof rel, "golden/tokenizer/%s.vocab.gguf.zst", name);
    const char *path = shared_file(rel);
    if (!path)
        return false;
    size_t n;
    char *bytes = rig_read(path, &n);
    int rc = rig_open_bytes(r, bytes, n, NULL);
    free(bytes);
    assert_ok(rc, &r->err);
    return true;
}

/* --- a GGUF of keys only, written by hand --- */

struct rig_file {
    struct akv_buf b;
    uint64_t n_kv;
};

static inline void rig_file_begin(struct rig_file *f)
{
    akv_buf_init(&f->b, 0);
    akv_buf_add(&f->b, "GGUF", 4);
    akv_buf_put_u32(&f->b, 3);
    akv_buf_put_u64(&f->b, 0);
    akv_buf_put_u64(&f->b, 0); /* the count of keys: set at the end */
    f->n_kv = 0;
}

static inline void rig_put_str(struct rig_file *f, const char *s, size_t n)
{
    akv_buf_put_u64(&f->b, n);
    akv_buf_add(&f->b, s, n);
}

static inline void rig_key(struct rig_file *f, const char *key, uint32_t type)
{
    rig_put_str(f, key, strlen(key));
    akv_buf_put_u32(&f->b, type);
    f->n_kv++;
}

static inline void rig_str(struct rig_file *f, const char *key, const char *value)
{
    rig_key(f, key, AKV_GGUF_STRING);
    rig_put_str(f, value, strlen(value));
}

static inline void rig_u32(struct rig_file *f, const char *key, uint32_t value)
{
    rig_key(f, key, AKV_GGUF_U32);
    akv_buf_put_u32(&f->b, value);
}

/* Begin an array; the elements follow. */
static inline void rig_array(struct rig_file *f, const char *key, uint32_t elem_type, uint64_t n)
{
    rig_key(f, key, AKV_GGUF_ARRAY);
    akv_buf_put_u32(&f->b, elem_type);
    akv_buf_put_u64(&f->b, n);
}

static inline void rig_strs(struct rig_file *f, const char *key, const char *const *values, size_t n)
{
    rig_array(f, key, AKV_GGUF_STRING, n);
    for (size_t i = 0; i < n; i++)
        rig_put_str(f, values[i], strlen(values[i]));
}

static inline int rig_file_open(struct rig *r, struct rig_file *f, const char *pre)
{
    struct akv_err err = {0};
    assert_ok(akv_buf_check(&f->b, "test file", &err), &err);
    for (int i = 0; i < 8; i++)
        f->b.data[16 + i] = (char)(f->n_kv >> 8 * i);
    int rc = rig_open_bytes(r, f->b.data, f->b.len, pre);
    akv_buf_release(&f->b);
    return rc;
}

/* --- ids --- */

static inline void rig_encode(const struct rig *r, const char *s, size_t n, unsigned flags, struct akv_ids *ids, size_t *n_lost)
{
    struct akv_err err = {0};
    ids->n = 0;
    *n_lost = 0;
    assert_ok(akv_tok_encode(r->tok, s, n, flags, ids, n_lost, &err), &err);
}

static inline void rig_decode(const struct rig *r, const struct akv_ids *ids, bool skip_control, struct akv_buf *out)
{
    struct akv_err err = {0};
    akv_buf_clear(out);
    assert_ok(akv_tok_decode(r->tok, ids->v, ids->n, skip_control, out, &err), &err);
}

/* Numbers without a clock, for texts and bytes. */
static inline uint32_t rig_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

#endif
