/* A store in a directory of its own for each test, and one small chain. */
#ifndef AKV_TESTS_STORE_RIG_H
#define AKV_TESTS_STORE_RIG_H

#include "tests/unit/snap_rig.h"

#include <ftw.h>

#include "store/store.h"

static struct akv_head head;
static struct chain chain; /* 150 tokens: pages of 64, 64, 22 */
static char dir[64];       /* the store of the running test; made by open_new() */

static inline int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static inline int group_setup(void **state)
{
    (void)state;
    rig_head(&head, "0123");
    rig_chain(&chain, &head, 1, 150, AKV_CODEC_PLANES);
    return 0;
}

static inline int group_teardown(void **state)
{
    (void)state;
    rig_chain_free(&chain);
    akv_head_release(&head);
    return 0;
}

static inline int setup(void **state)
{
    (void)state;
    strncpy(dir, "/tmp/akv-test-XXXXXX", sizeof dir - 1);
    return mkdtemp(dir) ? 0 : -1;
}

static inline int teardown(void **state)
{
    (void)state;
    return nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static inline struct akv_store *open_new(void)
{
    struct akv_store *s;
    struct akv_err err = {0};
    assert_ok(akv_store_open(&s, dir, AKV_STORE_CREATE, &err), &err);
    return s;
}

static inline const char *path_of(const char *rel)
{
    static char path[4][512];
    static unsigned turn;
    char *p = path[turn++ % 4];
    snprintf(p, sizeof path[0], "%s/%s", dir, rel);
    return p;
}

static inline const char *object_path(const struct page *p)
{
    struct akv_key index;
    char hex[AKV_SHA_HEX], rel[96];
    assert_int_equal(akv_index_key(&index, head.root.b, sizeof head.root.b, &p->rec.key, NULL), 0);
    akv_hex(hex, index.b, sizeof index.b);
    snprintf(rel, sizeof rel, "objects/%.2s/%s.akv", hex, hex + 2);
    return path_of(rel);
}

static inline int get(struct akv_store *s, const struct page *p, struct akv_page_rec *rec, struct akv_err *why)
{
    return akv_store_get(s, &head, &p->rec.key, p->rec.has_parent ? &p->rec.parent : NULL, p->rec.index, p->ids, p->rec.n_tokens,
                         rec, why);
}

static inline void put_all(struct akv_store *s, const struct chain *c)
{
    struct akv_err err = {0};
    for (size_t i = 0; i < c->n; i++)
        assert_ok(akv_store_put(s, &head, &c->pages[i].rec, true, NULL, &err), &err);
}

static size_t n_files;

static inline int count_file(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)path;
    (void)ftw;
    n_files += type == FTW_F && S_ISREG(st->st_mode);
    return 0;
}

static inline size_t files_in(const char *rel)
{
    n_files = 0;
    nftw(path_of(rel), count_file, 16, FTW_PHYS);
    return n_files;
}

static inline void write_file(const char *path, const void *p, size_t n)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, p, n), n);
    close(fd);
}

static inline void flip_byte(const char *path, off_t at)
{
    uint8_t c;
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &c, 1, at), 1);
    c ^= 0x10;
    assert_int_equal(pwrite(fd, &c, 1, at), 1);
    close(fd);
}

/* A chain like the rig's but for one bit of its first page, under the same keys. */
static inline void make_wrong(struct chain *wrong)
{
    struct akv_err err = {0};
    rig_chain(wrong, &head, 1, 150, AKV_CODEC_PLANES);
    struct page *p = &wrong->pages[0];
    p->body[5] ^= 1;
    akv_buf_clear(&p->coded);
    assert_ok(akv_sha256(p->rec.raw_sha, p->body, p->rec.raw_bytes, &err), &err);
    struct akv_coder coder = {0};
    assert_ok(akv_body_encode(&coder, &head.geom, p->body, p->rec.raw_bytes, AKV_CODEC_RAW, &p->rec.codec, &p->coded, &err), &err);
    akv_coder_release(&coder);
    p->rec.coded = (const uint8_t *)p->coded.data;
    p->rec.coded_bytes = p->coded.len;
}

#endif
