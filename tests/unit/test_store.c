/* The store: making it, publishing, looking up, what is damaged or forged; several processes. */
#include "tests/unit/store_rig.h"

#include "store/store_dir.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

static void assert_hit(struct akv_store *s, const struct page *p)
{
    struct akv_page_rec rec;
    struct akv_err why = {0};
    struct akv_buf body;
    struct akv_coder coder = {0};
    akv_buf_init(&body, 0);
    if (get(s, p, &rec, &why) != 1)
        fail_msg("a miss: %s", why.msg);
    assert_int_equal(akv_page_check(&coder, &head.geom, &rec, &body, &why), 0);
    assert_memory_equal(body.data, p->body, p->rec.raw_bytes);
    akv_buf_release(&body);
    akv_coder_release(&coder);
}

/* A miss whose reason contains `reason`; NULL: plain absence. */
static void assert_miss(struct akv_store *s, const struct page *p, const char *reason)
{
    struct akv_page_rec rec;
    struct akv_err why = {0};
    assert_int_equal(get(s, p, &rec, &why), 0);
    if (!reason)
        assert_int_equal(why.code, 0);
    else if (!strstr(why.msg, reason))
        fail_msg("'%s' does not say '%s'", why.msg, reason);
}

/* ---- making and opening ---- */

static int check_mode(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)ftw;
    mode_t want = type == FTW_D ? 0700 : 0600;
    if ((st->st_mode & 07777) != want)
        fail_msg("%s: mode %04o", path, st->st_mode & 07777);
    return 0;
}

/* Directories are 0700 and files 0600, whatever the umask allows; making a store again changes nothing. */
static void modes(void **state)
{
    (void)state;
    mode_t old = umask(0);
    struct akv_store *s = open_new();
    struct akv_ref ref = {.name = (char *)"agent", .root = head.root, .tip = chain.pages[2].rec.key};
    struct akv_err err = {0};
    put_all(s, &chain);
    assert_ok(akv_store_ref_put(s, &ref, &err), &err);
    akv_store_close(s);
    s = open_new();
    assert_hit(s, &chain.pages[0]);
    akv_store_close(s);
    umask(old);
    assert_int_equal(nftw(dir, check_mode, 16, FTW_PHYS), 0);
    assert_int_equal(files_in("tmp"), 0);
}

/*
 * A path of several new parts is made; without CREATE a missing or half-made store is a no, and CREATE completes the half-made
 * one.
 */
static void missing_and_half_made(void **state)
{
    (void)state;
    struct akv_store *s;
    struct akv_err err = {0};
    assert_int_equal(akv_store_open(&s, path_of("a/b c/store"), 0, &err), AKV_E_NO);
    assert_non_null(strstr(err.msg, "no store"));
    akv_err_clear(&err);
    assert_int_equal(akv_store_open(&s, dir, 0, &err), AKV_E_NO);
    akv_err_clear(&err);
    assert_ok(akv_store_open(&s, path_of("a/b c/store"), AKV_STORE_CREATE, &err), &err);
    akv_store_close(s);

    assert_int_equal(mkdir(path_of("half"), 0700), 0);
    assert_int_equal(mkdir(path_of("half/objects"), 0700), 0);
    assert_ok(akv_store_open(&s, path_of("half"), AKV_STORE_CREATE, &err), &err);
    put_all(s, &chain);
    akv_store_close(s);
    /* copied without its empty directories */
    assert_int_equal(rmdir(path_of("half/tmp")), 0);
    assert_int_equal(rmdir(path_of("half/refs")), 0);
    assert_ok(akv_store_open(&s, path_of("half"), 0, &err), &err);
    assert_hit(s, &chain.pages[1]);
    assert_int_equal(akv_store_put(s, &head, &chain.pages[0].rec, true, NULL, NULL), AKV_E_USAGE);
    akv_store_close(s);
}

/* D5: what is no directory, writable by others, somebody's other directory or of a newer version is refused in words, untouched. */
static void d5_d13_refused(void **state)
{
    (void)state;
    struct akv_store *s;
    struct akv_err err = {0};
    write_file(path_of("file"), "x", 1);
    assert_int_equal(akv_store_open(&s, path_of("file"), AKV_STORE_CREATE, &err), AKV_E_IO);
    akv_err_clear(&err);
    assert_int_equal(akv_store_open(&s, dir, AKV_STORE_CREATE, &err), AKV_E_USAGE);
    assert_non_null(strstr(err.msg, "holds other things"));
    akv_err_clear(&err);
    unlink(path_of("file"));

    s = open_new();
    akv_store_close(s);
    write_file(path_of("VERSION"), "akv-store 2\n", 12);
    for (unsigned flags = 0; flags <= AKV_STORE_CREATE; flags++) {
        assert_int_equal(akv_store_open(&s, dir, flags, &err), AKV_E_INCOMPAT);
        assert_non_null(strstr(err.msg, "version 2"));
        assert_non_null(strstr(err.msg, "version 1"));
        akv_err_clear(&err);
    }
    write_file(path_of("VERSION"), "junk", 4);
    assert_int_equal(akv_store_open(&s, dir, 0, NULL), AKV_E_INPUT);
    write_file(path_of("VERSION"), "akv-store 1\n", 12);

    assert_int_equal(chmod(path_of("objects"), 0770), 0);
    assert_int_equal(akv_store_open(&s, dir, 0, &err), AKV_E_IO);
    assert_non_null(strstr(err.msg, "writable by others"));
    akv_err_clear(&err);
    assert_int_equal(chmod(path_of("objects"), 0700), 0);
    assert_int_equal(chmod(dir, 0702), 0);
    assert_int_equal(akv_store_open(&s, dir, AKV_STORE_CREATE, &err), AKV_E_IO);
    assert_int_equal(chmod(dir, 0700), 0);
}

/* A part that is a symbolic link is not followed. */
static void no_links_inside(void **state)
{
    (void)state;
    struct akv_store *s = open_new();
    put_all(s, &chain);
    akv_store_close(s);
    assert_int_equal(rename(path_of("objects"), path_of("elsewhere")), 0);
    assert_int_equal(symlink("elsewhere", path_of("objects")), 0);
    assert_int_equal(akv_store_open(&s, dir, 0, NULL), AKV_E_IO);
}

/* The config chooses the codec; what a later version adds is passed over; an unknown codec is refused. */
static void config(void **state)
{
    (void)state;
    struct akv_store *s = open_new();
    assert_int_equal(akv_store_codec(s), AKV_CODEC_PLANES);
    akv_store_close(s);
    write_file(path_of("config"), "quota=5\ncodec=raw\n", 18);
    s = open_new();
    assert_int_equal(akv_store_codec(s), AKV_CODEC_RAW);
    akv_store_close(s);
    write_file(path_of("config"), "codec=lzma\n", 11);
    assert_int_equal(akv_store_open(&s, dir, 0, NULL), AKV_E_INCOMPAT);
}

/* Several processes that make one store at once all succeed. */
static void made_by_many(void **state)
{
    (void)state;
    for (int round = 0; round < 10; round++) {
        char rel[16], path[128];
        snprintf(rel, sizeof rel, "s%d", round);
        snprintf(path, sizeof path, "%s", path_of(rel));
        for (int i = 0; i < 4; i++)
            if (fork() == 0) {
                struct akv_store *s;
                int rc = akv_store_open(&s, path, AKV_STORE_CREATE, NULL);
                _exit(rc == 0 ? 0 : 1);
            }
        for (int i = 0; i < 4; i++) {
            int status;
            assert_true(wait(&status) > 0);
            assert_int_equal(status, 0);
        }
    }
}

/* ---- pages ---- */

/* What is put is got, tail included; a second put of the same page writes nothing; each object is a stream by itself. */
static void put_and_get(void **state)
{
    (void)state;
    struct akv_store *s = open_new();
    struct akv_err err = {0};
    uint64_t bytes = 0, sum = 0;
    assert_miss(s, &chain.pages[0], NULL);
    for (size_t i = 0; i < chain.n; i++) {
        struct stat st;
        assert_false(akv_store_has(s, &head, &chain.pages[i].rec.key));
        assert_int_equal(akv_store_put(s, &head, &chain.pages[i].rec, i != 1, &bytes, &err), 1);
        assert_true(akv_store_has(s, &head, &chain.pages[i].rec.key));
        assert_int_equal(stat(object_path(&chain.pages[i]), &st), 0);
        sum += (uint64_t)st.st_size;
        assert_int_equal(bytes, sum);
    }
    for (size_t i = 0; i < chain.n; i++) {
        assert_int_equal(akv_store_put(s, &head, &chain.pages[i].rec, true, &bytes, &err), 0);
        assert_hit(s, &chain.pages[i]);
    }
    assert_int_equal(bytes, sum);
    assert_int_equal(files_in("tmp"), 0);
    assert_int_equal(files_in("objects"), 3);
    akv_store_close(s);
}

static bool load(struct akv_store *s, const struct akv_page_rec *want, uint8_t *page)
{
    struct akv_object o;
    struct akv_coder coder = {0};
    struct akv_page_rec rec;
    akv_object_init(&o);
    bool loaded = akv_store_load(s, &o, &coder, &head, want, &rec, page);
    if (loaded) {
        assert_null(rec.coded);
        assert_true(akv_key_eq(&rec.key, &want->key));
        assert_memory_equal(rec.ids, want->ids, sizeof chain.pages[0].ids);
    }
    akv_object_release(&o);
    akv_coder_release(&coder);
    return loaded;
}

/* Pages go straight into their memory, in both codecs; neither another page, nor a part of one, nor a changed one does. */
static void loaded_in_place(void **state)
{
    (void)state;
    uint8_t page[64 * 32];
    for (int codec = AKV_CODEC_RAW; codec <= AKV_CODEC_PLANES; codec++) {
        struct akv_store *s = open_new();
        struct chain own;
        rig_chain(&own, &head, 20 + (uint32_t)codec, 128, (enum akv_codec)codec);
        const struct page *p = &own.pages[1];
        assert_false(load(s, &p->rec, page));
        put_all(s, &own);
        assert_true(load(s, &p->rec, page));
        assert_memory_equal(page, p->body, sizeof page);

        struct akv_page_rec other = p->rec;
        uint32_t ids[AKV_PAGE_TOKENS];
        other.index = 2;
        assert_false(load(s, &other, page));
        other = p->rec;
        memcpy(ids, p->ids, sizeof ids);
        ids[63] ^= 1;
        other.ids = ids;
        assert_false(load(s, &other, page));

        struct akv_buf whole;
        const char *path = object_path(p);
        int fd = open(path, O_RDONLY);
        rig_slurp(fd, &whole);
        close(fd);
        for (size_t n = 0; n < whole.len; n++) {
            write_file(path, whole.data, n);
            assert_false(load(s, &p->rec, page));
        }
        for (size_t i = 0; i < whole.len; i++) {
            whole.data[i] ^= 0x10;
            write_file(path, whole.data, whole.len);
            assert_false(load(s, &p->rec, page));
            whole.data[i] ^= 0x10;
        }
        const struct akv_page_rec *alien = &own.pages[0].rec; /* a sound frame, of another page */
        if (alien->coded_bytes == p->rec.coded_bytes) {
            char *at = memmem(whole.data, whole.len, p->rec.coded, p->rec.coded_bytes);
            assert_non_null(at);
            memcpy(at, alien->coded, alien->coded_bytes);
            write_file(path, whole.data, whole.len);
            assert_false(load(s, &p->rec, page));
            memcpy(at, p->rec.coded, p->rec.coded_bytes);
        } else {
            assert_int_equal(codec, AKV_CODEC_PLANES);
        }
        akv_buf_putc(&whole, 0);
        write_file(path, whole.data, whole.len);
        assert_false(load(s, &p->rec, page));
        akv_buf_release(&whole);
        rig_chain_free(&own);
        akv_store_close(s);
    }
}

/*
 * An object stays the one that was opened: what is put under its name meanwhile does not come in, and when it becomes shorter it is
 * damaged.
 */
static void changed_while_read(void **state)
{
    (void)state;
    struct akv_store *s = open_new();
    struct akv_head large = head;
    large.geom.n_layers = 64;
    size_t n = akv_geom_page_bytes(&large.geom);
    struct akv_page_rec rec = chain.pages[0].rec;
    struct akv_coder coder = {0};
    struct akv_err err = {0};
    struct akv_buf coded;
    struct akv_object_name name;
    struct akv_object o;
    uint8_t *body = malloc(n), *page = malloc(n);
    char path[512];
    for (size_t i = 0; i < n; i++)
        body[i] = (uint8_t)(i * i >> 3);
    akv_buf_init(&coded, 0);
    akv_object_init(&o);
    snprintf(path, sizeof path, "%s", object_path(&chain.pages[0]));
    assert_ok(akv_page_encode(&coder, &large.geom, body, AKV_CODEC_RAW, &rec, &coded, &err), &err);
    assert_ok(akv_object_name(&name, &head.root, &rec.key, &err), &err);
    for (int cut = 0; cut < 2; cut++) {
        assert_int_equal(akv_store_put(s, &large, &rec, true, NULL, &err), 1);
        assert_int_equal(akv_object_begin(s, &o, &name, &large, &err), 1);
        if (cut) {
            assert_int_equal(truncate(path, (off_t)n), 0);
        } else {
            assert_int_equal(unlink(path), 0);
            write_file(path, body, n);
        }
        int rc = akv_body_read(&coder, &large.geom, &o.in, akv_reader_page(o.reader), akv_reader_body_xxh(o.reader), page, &err);
        if (!cut) {
            assert_ok(rc, &err);
            assert_memory_equal(page, body, n);
            assert_ok(akv_object_end(&o, &err), &err);
        } else {
            assert_int_equal(rc, AKV_E_INPUT);
        }
        akv_object_forget(&o);
        assert_int_equal(unlink(path), 0);
    }
    akv_object_release(&o);
    akv_coder_release(&coder);
    akv_buf_release(&coded);
    free(body);
    free(page);
    akv_store_close(s);
}

/* A page is published after its parent only, and is not found under another root. */
static void parents_and_roots(void **state)
{
    (void)state;
    struct akv_store *s = open_new();
    struct akv_head other;
    struct akv_page_rec rec;
    struct akv_err err = {0};
    const struct page *p = &chain.pages[0];
    assert_int_equal(akv_store_put(s, &head, &chain.pages[1].rec, true, NULL, &err), AKV_E_NO);
    assert_non_null(strstr(err.msg, "parent"));
    put_all(s, &chain);
    rig_head(&other, "4567");
    assert_false(akv_store_has(s, &other, &p->rec.key));
    assert_int_equal(akv_store_get(s, &other, &p->rec.key, NULL, 0, p->ids, 64, &rec, NULL), 0);
    assert_int_equal(akv_store_get(s, &head, &p->rec.key, NULL, 0, p->ids, 63, &rec, NULL), AKV_E_USAGE);
    assert_int_equal(akv_store_get(s, &head, &p->rec.key, &p->rec.key, 1, p->ids, 64, &rec, NULL), AKV_E_USAGE);
    assert_hit(s, p); /* it is not to blame for that */
    akv_head_release(&other);
    akv_store_close(s);
}

/* A page under another index than the one behind its parent's is refused, whether the parent was put here or found. */
static void wrong_index(void **state)
{
    (void)state;
    struct akv_page_rec rec = chain.pages[1].rec;
    rec.index = 5;
    for (int found = 0; found < 2; found++) {
        struct akv_store *s = open_new();
        struct akv_err err = {0};
        if (!found)
            assert_ok(akv_store_put(s, &head, &chain.pages[0].rec, true, NULL, &err), &err);
        assert_int_equal(akv_store_put(s, &head, &rec, true, NULL, &err), AKV_E_INPUT);
        assert_non_null(strstr(err.msg, "its parent is page 0"));
        assert_int_equal(files_in("objects"), 1);
        akv_store_close(s);
    }
}

/* A parent that is damaged is none: it goes to quarantine, and the chain is to be published from its start. */
static void damaged_parent(void **state)
{
    (void)state;
    struct akv_store *s = open_new();
    struct akv_err err = {0};
    assert_ok(akv_store_put(s, &head, &chain.pages[0].rec, true, NULL, &err), &err);
    akv_store_close(s);
    flip_byte(object_path(&chain.pages[0]), 12);
    s = open_new();
    assert_int_equal(akv_store_put(s, &head, &chain.pages[1].rec, true, NULL, &err), AKV_E_NO);
    assert_int_equal(files_in("quarantine"), 2);
    put_all(s, &chain);
    assert_hit(s, &chain.pages[2]);
    akv_store_close(s);
}

/* Touching marks use in the file's mtime. */
static void touch_marks_use(void **state)
{
    (void)state;
    struct akv_store *s = open_new();
    struct stat st;
    const struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    put_all(s, &chain);
    assert_int_equal(utimensat(AT_FDCWD, object_path(&chain.pages[0]), old, 0), 0);
    akv_store_touch(s, &head, &chain.pages[0].rec.key);
    assert_int_equal(stat(object_path(&chain.pages[0]), &st), 0);
    assert_true(st.st_mtime > 1000);
    akv_store_close(s);
}

/* ---- damage and forgery ---- */

/*
 * A byte changed anywhere in an object is a miss and the object goes to quarantine with the reason; putting the page again heals
 * it.
 */
static void damaged_object(void **state)
{
    (void)state;
    struct akv_store *s = open_new();
    struct stat st;
    put_all(s, &chain);
    assert_int_equal(stat(object_path(&chain.pages[1]), &st), 0);
    for (off_t at = 3; at < st.st_size; at += 97) {
        flip_byte(object_path(&chain.pages[1]), at);
        assert_miss(s, &chain.pages[1], "objects/");
        assert_miss(s, &chain.pages[1], NULL); /* it is gone */
        assert_hit(s, &chain.pages[0]);
        assert_int_equal(akv_store_put(s, &head, &chain.pages[1].rec, true, NULL, NULL), 1);
        assert_hit(s, &chain.pages[1]);
    }
    size_t n = (size_t)(st.st_size - 3 + 96) / 97;
    assert_int_equal(files_in("quarantine"), 2 * n);
    /* cut short, and empty */
    assert_int_equal(truncate(object_path(&chain.pages[1]), st.st_size - 1), 0);
    assert_miss(s, &chain.pages[1], "truncated");
    assert_int_equal(akv_store_put(s, &head, &chain.pages[1].rec, true, NULL, NULL), 1);
    assert_int_equal(truncate(object_path(&chain.pages[1]), 0), 0);
    assert_int_equal(akv_store_put(s, &head, &chain.pages[1].rec, true, NULL, NULL), 1); /* put meets the damage itself */
    assert_hit(s, &chain.pages[1]);
    akv_store_close(s);
}

static void copy_object(const char *from, const char *to)
{
    struct akv_buf b;
    int fd = open(from, O_RDONLY);
    assert_true(fd >= 0);
    rig_slurp(fd, &b);
    close(fd);
    write_file(to, b.data, b.len);
    akv_buf_release(&b);
}

/*
 * C5, C6: a valid object under another page's name (other ids, a renamed file) and one of another root are misses, and leave the
 * store.
 */
static void c5_c6_forged_and_renamed(void **state)
{
    (void)state;
    struct akv_store *s = open_new();
    struct chain other;
    struct akv_head h2;
    struct akv_buf b;
    rig_chain(&other, &head, 2, 64, AKV_CODEC_PLANES);
    put_all(s, &chain);
    put_all(s, &other);
    char forged[512];
    snprintf(forged, sizeof forged, "%s", object_path(&chain.pages[0]));
    copy_object(object_path(&other.pages[0]), forged);
    assert_miss(s, &chain.pages[0], "forged or renamed");
    assert_int_equal(access(forged, F_OK), -1);
    assert_int_equal(files_in("quarantine"), 2);

    assert_int_equal(rename(object_path(&chain.pages[1]), forged), 0);
    assert_miss(s, &chain.pages[0], "forged or renamed");
    assert_miss(s, &chain.pages[1], NULL);
    assert_hit(s, &other.pages[0]);

    struct chain same;
    rig_head(&h2, "4567");
    rig_chain(&same, &h2, 1, 64, AKV_CODEC_PLANES);
    rig_stream(&b, &h2, &same, NULL);
    rig_chain_free(&same);
    write_file(forged, b.data, b.len);
    assert_miss(s, &chain.pages[0], "weights is 4567, here it is 0123");
    akv_buf_release(&b);
    /* a section more, and a whole stream of several pages, are no objects */
    rig_chain(&same, &head, 1, 64, AKV_CODEC_PLANES);
    struct akv_buf twice;
    rig_stream(&b, &head, &same, NULL);
    akv_buf_init(&twice, 0);
    akv_buf_add(&twice, b.data, b.len);
    akv_buf_add(&twice, b.data, b.len);
    write_file(forged, twice.data, twice.len);
    akv_buf_release(&twice);
    assert_miss(s, &chain.pages[0], "not one page");
    akv_buf_release(&b);
    rig_stream(&b, &head, &chain, NULL);
    write_file(forged, b.data, b.len);
    assert_miss(s, &chain.pages[0], "not one page");
    akv_buf_release(&b);
    rig_chain_free(&same);
    rig_chain_free(&other);
    akv_head_release(&h2);
    akv_store_close(s);
}

/* D13: an object of an unknown version is a miss that names the versions and stays; so does one that cannot be reached. */
static void d13_unknown_version_stays(void **state)
{
    (void)state;
    struct akv_store *s = open_new();
    struct akv_err err = {0};
    struct akv_buf b;
    put_all(s, &chain);
    int fd = open(object_path(&chain.pages[0]), O_RDONLY);
    rig_slurp(fd, &b);
    close(fd);
    uint8_t *payload = (uint8_t *)b.data + 8;
    size_t n = akv_get_u32((uint8_t *)b.data + 4);
    payload[8] = payload[10] = 9;
    akv_put_u64(payload + n - 8, akv_xxh64(payload, n - 8));
    write_file(object_path(&chain.pages[0]), b.data, b.len);
    assert_miss(s, &chain.pages[0], "version 9");
    assert_miss(s, &chain.pages[0], "version 1");
    assert_int_equal(akv_store_put(s, &head, &chain.pages[0].rec, true, NULL, &err), AKV_E_INCOMPAT);
    assert_int_equal(files_in("quarantine"), 0);
    akv_buf_release(&b);

    char fan[512];
    snprintf(fan, sizeof fan, "%s", object_path(&chain.pages[1]));
    *strrchr(fan, '/') = '\0';
    assert_int_equal(chmod(fan, 0777), 0);
    assert_miss(s, &chain.pages[1], "not trusted");
    assert_int_equal(chmod(fan, 0700), 0);
    assert_hit(s, &chain.pages[1]);
    assert_int_equal(chmod(object_path(&chain.pages[1]), 0666), 0);
    assert_miss(s, &chain.pages[1], "writable by others");
    assert_int_equal(files_in("quarantine"), 0);
    akv_store_close(s);
}

/* A link, a pipe, a directory or a socket in an object's place: a miss with words, out of the way, and the page can be put again. */
static void not_a_regular_file(void **state)
{
    (void)state;
    uint8_t page[64 * 32];
    struct akv_store *s = open_new();
    for (int kind = 0; kind < 4; kind++) {
        put_all(s, &chain);
        const char *path = object_path(&chain.pages[2]);
        assert_int_equal(rename(path, path_of("moved")), 0);
        if (kind == 0)
            assert_int_equal(symlink(path_of("moved"), path), 0);
        else
            assert_int_equal(kind == 1 ? mkfifo(path, 0600) : kind == 2 ? mkdir(path, 0700) : mknod(path, S_IFSOCK | 0600, 0), 0);
        assert_false(load(s, &chain.pages[2].rec, page)); /* it leaves it to the other way of reading to tell */
        assert_false(akv_store_has(s, &head, &chain.pages[2].rec.key));
        assert_miss(s, &chain.pages[2], "not a regular file");
        assert_int_equal(akv_store_put(s, &head, &chain.pages[2].rec, true, NULL, NULL), 1);
        assert_hit(s, &chain.pages[2]);
    }
    akv_store_close(s);
}

/*
 * Other KV bytes under a known key: an imported page is refused; a computed one wins, the stored page and what was built on it go
 * to quarantine, other chains stay.
 */
static void broken_exactness(void **state)
{
    (void)state;
    struct akv_store *s = open_new();
    struct akv_err err = {0};
    struct chain wrong, other;
    make_wrong(&wrong);
    rig_chain(&other, &head, 3, 130, AKV_CODEC_PLANES);
    struct page *p = &wrong.pages[0];
    put_all(s, &wrong);
    put_all(s, &other);

    assert_int_equal(akv_store_put(s, &head, &chain.pages[0].rec, false, NULL, &err), AKV_E_INPUT);
    assert_non_null(strstr(err.msg, "exactness"));
    assert_hit(s, p);
    assert_hit(s, &wrong.pages[2]);
    akv_err_clear(&err);

    assert_int_equal(akv_store_put(s, &head, &chain.pages[0].rec, true, NULL, &err), AKV_E_INPUT);
    assert_non_null(strstr(err.msg, "exactness"));
    assert_hit(s, &chain.pages[0]);
    assert_miss(s, &chain.pages[1], NULL);
    assert_miss(s, &chain.pages[2], NULL);
    for (size_t i = 0; i < other.n; i++)
        assert_hit(s, &other.pages[i]);
    assert_int_equal(files_in("quarantine"), 6);
    rig_chain_free(&wrong);
    rig_chain_free(&other);
    akv_store_close(s);
}

static int n_moves; /* how often an object can still be moved to quarantine */

static void move_some(struct akv_store *s, const struct akv_object_name *name, const struct akv_object_info *seen,
                      const char *reason)
{
    if (n_moves-- > 0)
        akv_objects_dir.set_aside(s, name, seen, reason);
}

/* Wherever that ends early, what was built on the wrong page is not left without it: it would seem to fit the right one. */
static void broken_exactness_interrupted(void **state)
{
    (void)state;
    struct chain wrong;
    struct akv_object_ops ops = akv_objects_dir;
    make_wrong(&wrong);
    ops.set_aside = move_some;
    const int codes[] = {AKV_E_IO, AKV_E_IO, AKV_E_INPUT}; /* the last page goes, then the one before it, then the wrong one */
    for (int i = 0; i < 3; i++) {
        struct akv_store *s = open_new();
        struct akv_err err = {0};
        if (!i)
            put_all(s, &wrong);
        s->ops = &ops;
        n_moves = 1;
        assert_int_equal(akv_store_put(s, &head, &chain.pages[0].rec, true, NULL, &err), codes[i]);
        akv_store_close(s);
        s = open_new();
        if (akv_store_has(s, &head, &chain.pages[1].rec.key) || akv_store_has(s, &head, &chain.pages[2].rec.key))
            assert_hit(s, &wrong.pages[0]);
        akv_store_close(s);
    }
    struct akv_store *s = open_new();
    assert_hit(s, &chain.pages[0]);
    assert_miss(s, &chain.pages[1], NULL);
    assert_miss(s, &chain.pages[2], NULL);
    akv_store_close(s);
    rig_chain_free(&wrong);
}

/* D4: a write that fails in the middle leaves no temp and no object, and what was there stays. */
static void d4_disk_full(void **state)
{
    (void)state;
    struct akv_store *s = open_new();
    struct akv_err err = {0};
    struct rlimit old, low;
    assert_int_equal(akv_store_put(s, &head, &chain.pages[0].rec, true, NULL, &err), 1);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    low = old;
    low.rlim_cur = 700;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
    int rc = akv_store_put(s, &head, &chain.pages[1].rec, true, NULL, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, SIG_DFL);
    assert_int_equal(rc, AKV_E_IO);
    assert_int_equal(files_in("tmp"), 0);
    assert_int_equal(files_in("objects"), 1);
    assert_hit(s, &chain.pages[0]);
    assert_miss(s, &chain.pages[1], NULL);
    akv_store_close(s);
}

/* ---- processes ---- */

/*
 * Four processes that publish the same chain at once: each page is written by exactly one of them, all succeed, nothing is left
 * in tmp.
 */
static void four_writers(void **state)
{
    (void)state;
    struct akv_store *s = open_new();
    akv_store_close(s);
    for (uint32_t round = 0; round < 8; round++) {
        struct chain c;
        int written = 0;
        rig_chain(&c, &head, 100 + round, 150, AKV_CODEC_RAW);
        for (int i = 0; i < 4; i++)
            if (fork() == 0) {
                int n = 0;
                if (akv_store_open(&s, dir, AKV_STORE_CREATE, NULL) < 0 || akv_store_batch_begin(s, NULL) < 0)
                    _exit(100);
                for (size_t k = 0; k < c.n; k++) {
                    int rc = akv_store_put(s, &head, &c.pages[k].rec, true, NULL, NULL);
                    if (rc < 0)
                        _exit(101);
                    n += rc;
                }
                akv_store_batch_end(s);
                _exit(n);
            }
        for (int i = 0; i < 4; i++) {
            int status;
            assert_true(wait(&status) > 0);
            assert_true(WIFEXITED(status) && WEXITSTATUS(status) < 100);
            written += WEXITSTATUS(status);
        }
        assert_int_equal(written, 3);
        rig_chain_free(&c);
    }
    assert_int_equal(files_in("tmp"), 0);
    assert_int_equal(files_in("quarantine"), 0);
    assert_int_equal(files_in("objects"), 3 * 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(modes, setup, teardown),
        cmocka_unit_test_setup_teardown(missing_and_half_made, setup, teardown),
        cmocka_unit_test_setup_teardown(d5_d13_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(no_links_inside, setup, teardown),
        cmocka_unit_test_setup_teardown(config, setup, teardown),
        cmocka_unit_test_setup_teardown(made_by_many, setup, teardown),
        cmocka_unit_test_setup_teardown(put_and_get, setup, teardown),
        cmocka_unit_test_setup_teardown(loaded_in_place, setup, teardown),
        cmocka_unit_test_setup_teardown(changed_while_read, setup, teardown),
        cmocka_unit_test_setup_teardown(parents_and_roots, setup, teardown),
        cmocka_unit_test_setup_teardown(wrong_index, setup, teardown),
        cmocka_unit_test_setup_teardown(damaged_parent, setup, teardown),
        cmocka_unit_test_setup_teardown(touch_marks_use, setup, teardown),
        cmocka_unit_test_setup_teardown(damaged_object, setup, teardown),
        cmocka_unit_test_setup_teardown(c5_c6_forged_and_renamed, setup, teardown),
        cmocka_unit_test_setup_teardown(d13_unknown_version_stays, setup, teardown),
        cmocka_unit_test_setup_teardown(not_a_regular_file, setup, teardown),
        cmocka_unit_test_setup_teardown(broken_exactness, setup, teardown),
        cmocka_unit_test_setup_teardown(broken_exactness_interrupted, setup, teardown),
        cmocka_unit_test_setup_teardown(d4_disk_full, setup, teardown),
        cmocka_unit_test_setup_teardown(four_writers, setup, teardown),
    };
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
