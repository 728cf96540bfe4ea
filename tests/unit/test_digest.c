/* The weights digest and its cache; what mkmodel writes. */
#include "tests/unit/gguf_files.h"

#include "base/hash.h"
#include "model/digest_cache.h"
#include "model/model.h"

#include <time.h>

#define SMALL "--dtype q8_0 --layers 1 --width 32 --heads 2 --kv-heads 1 --ff 64"
#define FAR_FUTURE INT64_MAX

static void digest(const char *path, unsigned n_threads, const char *cache, char hex[AKV_SHA_HEX])
{
    struct akv_model *m = NULL;
    struct akv_pool *pool = NULL;
    struct akv_err err = {0};
    uint8_t d[AKV_SHA_BYTES];
    assert_ok(akv_model_load(&m, path, 0, &err), &err);
    assert_ok(akv_pool_open(&pool, n_threads, &err), &err);
    assert_ok(akv_model_digest(m, pool, cache, d, &err), &err);
    akv_hex(hex, d, sizeof d);
    akv_pool_close(pool);
    akv_model_unload(m);
}

/* The test model is the same bytes on every machine, for every weight type. */
static void test_mkmodel_bytes(void **state)
{
    static const char *const known[][2] = {
        {"f32", "a21c9573a9b2279b362ee6cd573e44c8e55b0658565ccebdf3f0187ab54c65ef"},
        {"f16", "7296b569933b6bd38f78915bcabe017cad9650727f6c17c56ce29874f07a73ae"},
        {"q8_0", "df85c293d6c5c4165ffbb1d5bc267237c64f38ec435d950fa7420acddd30b9ad"},
        {"q4_0", "693ede2e29ab23ac01455c0c21ccefe82e25a62fe7bdf0c8253407c4b4c69188"},
        {"q4_1", "884389558284b1b5bac6d1e388d1b75c4709e004ef774f6a15d1c712a11c70b7"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        char options[32], hex[AKV_SHA_HEX];
        uint8_t sha[AKV_SHA_BYTES];
        struct akv_buf file;
        snprintf(options, sizeof options, "--dtype %s", known[i][0]);
        read_whole(make_model("m.gguf", options), &file);
        assert_int_equal(akv_sha256(sha, file.data, file.len, NULL), 0);
        akv_hex(hex, sha, sizeof sha);
        assert_string_equal(hex, known[i][1]);
        akv_buf_release(&file);
    }
}

/* A known answer, computed by an independent program from the description in model_digest.c; threads do not change it. */
static void test_known_answer(void **state)
{
    char hex[AKV_SHA_HEX];
    (void)state;
    const char *path = make_model("m.gguf", "");
    for (unsigned n = 1; n <= 3; n++) {
        digest(path, n, NULL, hex);
        assert_string_equal(hex, "7bc91e34c80cc9893db1b9b334d0286bfb23d16a0267aa6de156589ac0d3fdb8");
    }
}

/* One bit of a weight or of a hyperparameter that determines KV makes another digest; text, context length and a default do not. */
static void test_what_counts(void **state)
{
    static const struct {
        const char *from, *to;
        bool same;
    } texts[] = {{"a random model for tests", "the very same, renamed  ", true},
                 {"llama.rope.freq_base", "llama.rope.freq_basX", true}, /* 10000 is the default */
                 {"You are a small model", "You are a large model", true}};
    char base[AKV_SHA_HEX], other[AKV_SHA_HEX];
    struct akv_buf file;
    (void)state;
    const char *path = make_model("m.gguf", SMALL);
    digest(path, 1, NULL, base);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        read_whole(path, &file);
        replace_text(&file, texts[i].from, texts[i].to);
        const char *changed = temp_path("changed.gguf");
        write_whole(changed, file.data, file.len);
        akv_buf_release(&file);
        digest(changed, 1, NULL, other);
        assert_int_equal(!strcmp(base, other), texts[i].same);
    }
    digest(make_model("ctx.gguf", SMALL " --ctx 99"), 1, NULL, other);
    assert_string_equal(base, other);
    digest(make_model("seed.gguf", SMALL " --seed 2"), 1, NULL, other);
    assert_string_not_equal(base, other);
    read_whole(path, &file);
    uint8_t *base_bits = behind_text(&file, "llama.rope.freq_base") + 4;
    *base_bits ^= 1;
    write_whole(temp_path("rope.gguf"), file.data, file.len);
    *base_bits ^= 1;
    file.data[file.len - 1] ^= 1;
    write_whole(temp_path("bit.gguf"), file.data, file.len);
    akv_buf_release(&file);
    digest(temp_path("rope.gguf"), 1, NULL, other);
    assert_string_not_equal(base, other);
    digest(temp_path("bit.gguf"), 1, NULL, other);
    assert_string_not_equal(base, other);
}

static const struct akv_stamp stamp = {.dev = 1, .ino = 2, .size = 3, .mtime_ns = 4, .ctime_ns = 5000000000};

/* What was put comes back, for exactly that state of the file and that number of tensors; directory and entry are private. */
static void test_cache_entry(void **state)
{
    uint8_t in[3][AKV_SHA_BYTES], out[3][AKV_SHA_BYTES];
    struct stat st;
    char dir[128];
    (void)state;
    memset(in, 7, sizeof in);
    snprintf(dir, sizeof dir, "%s/deep/er/weights", temp_dir);
    assert_false(akv_digest_cache_get(dir, &stamp, out, 3));
    akv_digest_cache_put(dir, &stamp, (const uint8_t(*)[AKV_SHA_BYTES])in, 3, FAR_FUTURE);
    assert_true(akv_digest_cache_get(dir, &stamp, out, 3));
    assert_memory_equal(in, out, sizeof in);
    assert_false(akv_digest_cache_get(dir, &stamp, out, 2));
    assert_int_equal(stat(dir, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    for (int i = 0; i < 5; i++) {
        struct akv_stamp s = stamp;
        s.dev += i == 0;
        s.ino += i == 1;
        s.size += i == 2;
        s.mtime_ns += i == 3;
        s.ctime_ns += i == 4;
        assert_false(akv_digest_cache_get(dir, &s, out, 3));
    }
}

/* Whether a file of that name stands in the directory. */
static bool stands(const char *dir, const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return access(path, F_OK) == 0;
}

/* Who keeps an entry removes what writers that died have left there: temporary files that are older than ten minutes. */
static void test_cache_sweep(void **state)
{
    (void)state;
    char dir[128], path[512];
    const uint8_t sha[1][AKV_SHA_BYTES] = {{9}};
    static const struct {
        const char *name;
        time_t age;
        bool stays;
    } files[] = {
        {"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef.77.000000001.tmp", 700, false},
        {"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef.77.000000002.tmp", 500, true},
        {"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", 700, true},
        {"notes.tmp", 700, true},
    };
    snprintf(dir, sizeof dir, "%s/sweep", temp_dir);
    assert_int_equal(mkdir(dir, 0700), 0);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const struct timespec t[2] = {{.tv_sec = time(NULL) - files[i].age}, {.tv_sec = time(NULL) - files[i].age}};
        snprintf(path, sizeof path, "%s/%s", dir, files[i].name);
        int fd = open(path, O_WRONLY | O_CREAT, 0600);
        assert_true(fd >= 0);
        assert_int_equal(futimens(fd, t), 0);
        close(fd);
    }
    akv_digest_cache_put(dir, &stamp, sha, 1, FAR_FUTURE);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        assert_int_equal(stands(dir, files[i].name), files[i].stays);
}

/* A file that changed less than two seconds before hashing began is not kept, nor one from the future. */
static void test_cache_young(void **state)
{
    uint8_t sha[1][AKV_SHA_BYTES] = {{1}}, out[1][AKV_SHA_BYTES];
    const int64_t nows[] = {stamp.ctime_ns - 1, stamp.ctime_ns, stamp.ctime_ns + 1999999999};
    (void)state;
    const char *dir = temp_path("young");
    for (size_t i = 0; i < sizeof nows / sizeof *nows; i++) {
        akv_digest_cache_put(dir, &stamp, (const uint8_t(*)[AKV_SHA_BYTES])sha, 1, nows[i]);
        assert_false(akv_digest_cache_get(dir, &stamp, out, 1));
    }
    akv_digest_cache_put(dir, &stamp, (const uint8_t(*)[AKV_SHA_BYTES])sha, 1, stamp.ctime_ns + 2000000000);
    assert_true(akv_digest_cache_get(dir, &stamp, out, 1));
}

static char entry_path[512];

static int note_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)ftw;
    if (type == FTW_F && S_ISREG(st->st_mode))
        snprintf(entry_path, sizeof entry_path, "%s", path);
    return 0;
}

/* Entries and directories that others could have written, links, and damaged bytes are not believed. */
static void test_cache_trust(void **state)
{
    uint8_t sha[2][AKV_SHA_BYTES] = {{1}, {2}}, out[2][AKV_SHA_BYTES];
    struct akv_buf file;
    char dir[128], link[128];
    (void)state;
    snprintf(dir, sizeof dir, "%s/trust", temp_dir);
    snprintf(link, sizeof link, "%s/link", temp_dir);
    akv_digest_cache_put(dir, &stamp, (const uint8_t(*)[AKV_SHA_BYTES])sha, 2, FAR_FUTURE);
    assert_int_equal(nftw(dir, note_entry, 4, FTW_PHYS), 0);
    struct stat st;
    assert_int_equal(stat(entry_path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);

    assert_int_equal(chmod(dir, 0770), 0);
    assert_false(akv_digest_cache_get(dir, &stamp, out, 2));
    assert_int_equal(chmod(dir, 0755), 0);
    assert_true(akv_digest_cache_get(dir, &stamp, out, 2));
    assert_int_equal(symlink(dir, link), 0);
    assert_false(akv_digest_cache_get(link, &stamp, out, 2));
    assert_int_equal(chmod(entry_path, 0602), 0);
    assert_false(akv_digest_cache_get(dir, &stamp, out, 2));
    assert_int_equal(chmod(entry_path, 0644), 0);
    assert_true(akv_digest_cache_get(dir, &stamp, out, 2));
    if (geteuid() == 0) {
        assert_int_equal(chown(entry_path, 12345, (gid_t)-1), 0);
        assert_false(akv_digest_cache_get(dir, &stamp, out, 2));
        assert_int_equal(chown(entry_path, 0, (gid_t)-1), 0);
    }

    read_whole(entry_path, &file);
    for (size_t i = 0; i < file.len; i++) {
        file.data[i] ^= 4;
        write_whole(entry_path, file.data, file.len);
        assert_false(akv_digest_cache_get(dir, &stamp, out, 2));
        file.data[i] ^= 4;
    }
    write_whole(entry_path, file.data, file.len - 1);
    assert_false(akv_digest_cache_get(dir, &stamp, out, 2));
    write_whole(entry_path, file.data, file.len);
    assert_true(akv_digest_cache_get(dir, &stamp, out, 2));
    const char *moved = temp_path("moved");
    assert_int_equal(rename(entry_path, moved), 0);
    assert_int_equal(symlink(moved, entry_path), 0);
    assert_false(akv_digest_cache_get(dir, &stamp, out, 2));
    akv_buf_release(&file);
}

/* A digest takes a trusted entry as it is, so a forged one shows; without a cache the data are hashed. */
static void test_cache_used(void **state)
{
    char plain[AKV_SHA_HEX], cached[AKV_SHA_HEX], dir[128];
    struct akv_model *m = NULL;
    (void)state;
    const char *path = make_model("used.gguf", SMALL);
    snprintf(dir, sizeof dir, "%s/used", temp_dir);
    digest(path, 1, NULL, plain);
    assert_int_equal(akv_model_load(&m, path, 0, NULL), 0);
    uint8_t(*sha)[AKV_SHA_BYTES] = calloc(m->gguf.n_tensors, sizeof *sha);
    assert_non_null(sha);
    for (uint64_t i = 0; i < m->gguf.n_tensors; i++) {
        const struct akv_tensor *t = m->gguf.tensors_by_name[i];
        assert_int_equal(akv_sha256(sha[i], t->data, t->bytes, NULL), 0);
    }
    akv_digest_cache_put(dir, &m->gguf.stamp, (const uint8_t(*)[AKV_SHA_BYTES])sha, m->gguf.n_tensors, FAR_FUTURE);
    digest(path, 1, dir, cached);
    assert_string_equal(plain, cached);
    sha[0][0] ^= 1;
    akv_digest_cache_put(dir, &m->gguf.stamp, (const uint8_t(*)[AKV_SHA_BYTES])sha, m->gguf.n_tensors, FAR_FUTURE);
    digest(path, 1, dir, cached);
    assert_string_not_equal(plain, cached);
    digest(path, 1, NULL, cached);
    assert_string_equal(plain, cached);
    free(sha);
    akv_model_unload(m);
}

/* A cache that cannot be made or written changes nothing. */
static void test_cache_trouble(void **state)
{
    char plain[AKV_SHA_HEX], cached[AKV_SHA_HEX], dir[4200];
    (void)state;
    const char *path = make_model("t.gguf", SMALL);
    digest(path, 1, NULL, plain);
    digest(path, 1, path, cached); /* a file, not a directory */
    assert_string_equal(plain, cached);
    digest(path, 1, "/proc/nowhere/weights", cached);
    assert_string_equal(plain, cached);
    memset(dir, 'x', sizeof dir - 1);
    dir[sizeof dir - 1] = '\0';
    digest(path, 1, dir, cached);
    assert_string_equal(plain, cached);
    digest(path, 1, "", cached);
    assert_string_equal(plain, cached);
}

/* A file that changes while it is in use has no digest. */
static void test_changed(void **state)
{
    struct akv_model *m = NULL;
    struct akv_pool *pool = NULL;
    struct akv_err err = {0};
    uint8_t d[AKV_SHA_BYTES];
    (void)state;
    const char *path = make_model("changed.gguf", SMALL);
    assert_ok(akv_model_load(&m, path, 0, &err), &err);
    assert_ok(akv_pool_open(&pool, 1, &err), &err);
    assert_ok(akv_model_restat(m, &err), &err);
    assert_int_equal(truncate(path, (off_t)m->gguf.map.size + 1), 0);
    assert_int_equal(akv_model_digest(m, pool, NULL, d, &err), AKV_E_INPUT);
    assert_non_null(strstr(err.msg, "changed while in use"));
    akv_pool_close(pool);
    akv_model_unload(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mkmodel_bytes), cmocka_unit_test(test_known_answer), cmocka_unit_test(test_what_counts),
        cmocka_unit_test(test_cache_entry),   cmocka_unit_test(test_cache_young),  cmocka_unit_test(test_cache_sweep),
        cmocka_unit_test(test_cache_trust),   cmocka_unit_test(test_cache_used),   cmocka_unit_test(test_cache_trouble),
        cmocka_unit_test(test_changed),
    };
    return cmocka_run_group_tests_name("digest", tests, temp_setup, temp_teardown);
}
