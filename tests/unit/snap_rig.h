/* Small heads and pages for the tests of streams and stores: 2 layers, 1 kv head, 4 dimensions, f16, so 32 bytes a token. */
#ifndef AKV_TESTS_SNAP_RIG_H
#define AKV_TESTS_SNAP_RIG_H

#include "tests/check.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/bytes.h"
#include "snap/snap.h"

struct page {
    struct akv_page_rec rec;
    uint32_t ids[AKV_PAGE_TOKENS];
    uint8_t body[AKV_PAGE_TOKENS * 32];
    struct akv_buf coded;
};

#define CHAIN_PAGES 4
/* Tokens in pages as a prefill makes them: full ones, then a tail. */
struct chain {
    struct page pages[CHAIN_PAGES];
    size_t n;
};

/* seed: other content under the same shape. */
static inline void rig_head(struct akv_head *h, const char *weights)
{
    const struct akv_root_field fields[] = {{"kv", "f16"}, {"numerics", "1"}, {"weights", weights}};
    struct akv_head view = {.geom = {.n_layers = 2, .n_kv_heads = 1, .dim_k = 4, .dim_v = 4, .dtype = AKV_KV_F16},
                            .fields = (struct akv_root_field *)fields,
                            .n_fields = 3};
    struct akv_err err = {0};
    assert_ok(akv_root_hash(&view.root, fields, 3, &err), &err);
    assert_ok(akv_head_copy(h, &view, &err), &err);
}

/* Bytes that depend on the key only, like KV of real tokens: the low byte of each element noise, the high byte nearly constant. */
static inline void rig_page(struct page *p, const struct akv_head *h, const struct akv_key *parent, uint32_t index,
                            const uint32_t *ids, uint32_t n, enum akv_codec codec)
{
    struct akv_err err = {0};
    size_t raw = n * akv_geom_token_bytes(&h->geom);
    *p = (struct page){.rec = {.index = index, .n_tokens = n, .ids = p->ids, .has_parent = parent != NULL, .raw_bytes = raw}};
    memcpy(p->ids, ids, n * sizeof *ids);
    if (parent)
        p->rec.parent = *parent;
    assert_ok(akv_page_key(&p->rec.key, parent, ids, n, &err), &err);
    assert_true(raw <= sizeof p->body);
    for (size_t i = 0; i < raw; i++)
        p->body[i] = i % 2 ? 0x3c : (uint8_t)(p->rec.key.b[i % 32] * 31 + i * i);
    assert_ok(akv_sha256(p->rec.raw_sha, p->body, raw, &err), &err);
    akv_buf_init(&p->coded, 0);
    struct akv_coder coder = {0};
    assert_ok(akv_body_encode(&coder, &h->geom, p->body, raw, codec, &p->rec.codec, &p->coded, &err), &err);
    akv_coder_release(&coder);
    p->rec.coded = (const uint8_t *)p->coded.data;
    p->rec.coded_bytes = p->coded.len;
}

static inline uint32_t rig_id(uint32_t seed, uint32_t i)
{
    return (seed * 1000003u + i * 2654435761u) % 49152u;
}

/* n tokens from position 0; the ids are a function of seed and position. */
static inline void rig_chain(struct chain *c, const struct akv_head *h, uint32_t seed, uint32_t n, enum akv_codec codec)
{
    uint32_t ids[AKV_PAGE_TOKENS];
    c->n = 0;
    for (uint32_t at = 0; at < n; at += AKV_PAGE_TOKENS) {
        uint32_t len = n - at < AKV_PAGE_TOKENS ? n - at : AKV_PAGE_TOKENS;
        assert_true(c->n < CHAIN_PAGES);
        for (uint32_t i = 0; i < len; i++)
            ids[i] = rig_id(seed, at + i);
        rig_page(&c->pages[c->n], h, c->n ? &c->pages[c->n - 1].rec.key : NULL, (uint32_t)c->n, ids, len, codec);
        c->n++;
    }
}

static inline void rig_chain_free(struct chain *c)
{
    for (size_t i = 0; i < c->n; i++)
        akv_buf_release(&c->pages[i].coded);
}

/* An unlinked temporary file. */
static inline int rig_temp(void)
{
    char path[] = "/tmp/akv-test-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    unlink(path);
    return fd;
}

/* The whole of a file. */
static inline void rig_slurp(int fd, struct akv_buf *b)
{
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    akv_buf_init(b, 0);
    char *p = akv_buf_reserve(b, (size_t)st.st_size + 1);
    assert_non_null(p);
    assert_int_equal(pread(fd, p, (size_t)st.st_size, 0), st.st_size);
    b->len = (size_t)st.st_size;
}

/* A file with these bytes, at its start. */
static inline int rig_file(const void *p, size_t n)
{
    int fd = rig_temp();
    assert_int_equal(write(fd, p, n), n);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    return fd;
}

/* A complete stream of one chain with a request behind it. */
static inline void rig_stream(struct akv_buf *out, const struct akv_head *h, const struct chain *c, const char *request)
{
    struct akv_writer *w;
    struct akv_err err = {0};
    int fd = rig_temp();
    assert_ok(akv_writer_open(&w, fd, "test", h, &err), &err);
    for (size_t i = 0; i < c->n; i++)
        assert_ok(akv_writer_page(w, &c->pages[i].rec, &err), &err);
    if (request)
        assert_ok(akv_writer_request(w, request, strlen(request), &err), &err);
    assert_ok(akv_writer_close(w, NULL, &err), &err);
    rig_slurp(fd, out);
    close(fd);
}

#endif
