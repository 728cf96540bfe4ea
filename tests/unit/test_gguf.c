/* The GGUF reader: typed values, lookup, tensor sizes, and files that lie. */
#include "tests/unit/gguf_files.h"

#include <sys/mman.h>

/* A small complete model: every structure of the format in few bytes. */
#define SMALL "--dtype q8_0 --layers 1 --width 32 --heads 2 --kv-heads 1 --ff 64"

static void put_scalars(struct akv_buf *b)
{
    put_key(b, "i.u8", AKV_GGUF_U8);
    akv_buf_putc(b, 200);
    put_key(b, "i.i8", AKV_GGUF_I8);
    akv_buf_putc(b, 0xff);
    put_key(b, "i.u16", AKV_GGUF_U16);
    akv_buf_put_u16(b, 40000);
    put_key(b, "i.i16", AKV_GGUF_I16);
    akv_buf_put_u16(b, 0x8000);
    put_key(b, "i.u32", AKV_GGUF_U32);
    akv_buf_put_u32(b, 4000000000u);
    put_key(b, "i.i32", AKV_GGUF_I32);
    akv_buf_put_u32(b, 7);
    put_key(b, "i.u64", AKV_GGUF_U64);
    akv_buf_put_u64(b, UINT32_MAX);
    put_key(b, "i.u64.large", AKV_GGUF_U64);
    akv_buf_put_u64(b, UINT64_MAX);
    put_key(b, "i.i64", AKV_GGUF_I64);
    akv_buf_put_u64(b, (uint64_t)-2);
    put_key(b, "f.32", AKV_GGUF_F32);
    akv_buf_put_u32(b, 0x3fc00000);
    put_key(b, "f.64", AKV_GGUF_F64);
    akv_buf_put_u64(b, 0x4004000000000000u);
    put_key(b, "b.yes", AKV_GGUF_BOOL);
    akv_buf_putc(b, 1);
    put_key(b, "b.odd", AKV_GGUF_BOOL);
    akv_buf_putc(b, 2);
    put_key(b, "s", AKV_GGUF_STRING);
    put_text(b, "text");
}
#define N_SCALARS 14

static void put_arrays(struct akv_buf *b)
{
    put_key(b, "a.i32", AKV_GGUF_ARRAY);
    akv_buf_put_u32(b, AKV_GGUF_I32);
    akv_buf_put_u64(b, 2);
    akv_buf_put_u32(b, 5);
    akv_buf_put_u32(b, 6);
    put_key(b, "a.u8", AKV_GGUF_ARRAY);
    akv_buf_put_u32(b, AKV_GGUF_U8);
    akv_buf_put_u64(b, 2);
    akv_buf_putc(b, 1);
    akv_buf_putc(b, 250);
    put_key(b, "a.f64", AKV_GGUF_ARRAY);
    akv_buf_put_u32(b, AKV_GGUF_F64);
    akv_buf_put_u64(b, 1);
    akv_buf_put_u64(b, 0x4004000000000000u);
    put_key(b, "a.s", AKV_GGUF_ARRAY);
    akv_buf_put_u32(b, AKV_GGUF_STRING);
    akv_buf_put_u64(b, 3);
    put_text(b, "one");
    put_text(b, "");
    put_text(b, "three");
    put_key(b, "a.none", AKV_GGUF_ARRAY);
    akv_buf_put_u32(b, AKV_GGUF_STRING);
    akv_buf_put_u64(b, 0);
}
#define N_ARRAYS 5

static void open_by_hand(struct akv_gguf *g, uint32_t version)
{
    struct akv_err err = {0};
    struct akv_buf b;
    akv_buf_init(&b, 0);
    put_header(&b, version, 0, N_SCALARS + N_ARRAYS);
    put_scalars(&b);
    put_arrays(&b);
    const char *path = temp_path("hand.gguf");
    write_whole(path, b.data, b.len);
    akv_buf_release(&b);
    assert_ok(akv_gguf_open(g, path, &err), &err);
}

/* Integers of every type convert when they fit, and a misfit is an error that names the key. */
static void test_integers(void **state)
{
    static const struct {
        const char *key;
        int rc;
        uint32_t v;
    } cases[] = {{"i.u8", 1, 200},          {"i.u16", 1, 40000},       {"i.u32", 1, 4000000000u},
                 {"i.i32", 1, 7},           {"i.u64", 1, UINT32_MAX},  {"i.u64.large", AKV_E_INPUT, 0},
                 {"i.i8", AKV_E_INPUT, 0},  {"i.i16", AKV_E_INPUT, 0}, {"i.i64", AKV_E_INPUT, 0},
                 {"f.32", AKV_E_INPUT, 0},  {"b.yes", AKV_E_INPUT, 0}, {"s", AKV_E_INPUT, 0},
                 {"a.i32", AKV_E_INPUT, 0}, {"absent", 0, 0}};
    struct akv_gguf g;
    (void)state;
    open_by_hand(&g, 3);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct akv_err err = {0};
        uint32_t v = 0;
        assert_int_equal(akv_gguf_u32(&g, cases[i].key, &v, &err), cases[i].rc);
        assert_int_equal(v, cases[i].v);
        assert_true(cases[i].rc >= 0 || strstr(err.msg, cases[i].key));
    }
    akv_gguf_close(&g);
}

/* Floats, booleans and strings are taken from their own types only; version 2 reads as version 3. */
static void test_other_scalars(void **state)
{
    (void)state;
    for (uint32_t version = 2; version <= 3; version++) {
        struct akv_gguf g;
        float f = 0;
        bool b = false;
        struct akv_str s = {0};
        open_by_hand(&g, version);
        assert_int_equal(g.version, version);
        assert_int_equal(akv_gguf_f32(&g, "f.32", &f, NULL), 1);
        assert_true(f == 1.5F);
        assert_int_equal(akv_gguf_f32(&g, "f.64", &f, NULL), 1);
        assert_true(f == 2.5F);
        assert_int_equal(akv_gguf_f32(&g, "i.u32", &f, NULL), AKV_E_INPUT);
        assert_int_equal(akv_gguf_bool(&g, "b.yes", &b, NULL), 1);
        assert_true(b);
        assert_int_equal(akv_gguf_bool(&g, "b.odd", &b, NULL), AKV_E_INPUT);
        assert_int_equal(akv_gguf_bool(&g, "i.u8", &b, NULL), AKV_E_INPUT);
        assert_int_equal(akv_gguf_str(&g, "s", &s, NULL), 1);
        assert_true(akv_str_is(s, "text"));
        assert_int_equal(akv_gguf_str(&g, "a.s", &s, NULL), AKV_E_INPUT);
        assert_int_equal(akv_gguf_str(&g, "nothing", &s, NULL), 0);
        akv_gguf_close(&g);
    }
}

/* Array elements come out by index, strings by walking, also empty ones. */
static void test_arrays(void **state)
{
    static const char *const words[] = {"one", "", "three"};
    struct akv_gguf g;
    (void)state;
    open_by_hand(&g, 3);
    const struct akv_gguf_kv *kv = akv_gguf_find(&g, "a.i32");
    assert_non_null(kv);
    assert_int_equal(kv->n, 2);
    assert_int_equal(akv_gguf_array_u32(kv, 1), 6);
    assert_int_equal(akv_gguf_array_u32(akv_gguf_find(&g, "a.u8"), 1), 250);
    assert_true(akv_gguf_array_f32(akv_gguf_find(&g, "a.f64"), 0) == 2.5F);
    kv = akv_gguf_find(&g, "a.s");
    assert_int_equal(kv->n, 3);
    const uint8_t *at = NULL;
    for (size_t i = 0; i < 3; i++)
        assert_true(akv_str_is(akv_gguf_next_string(kv, &at), words[i]));
    assert_ptr_equal(at, kv->value + kv->bytes);
    assert_int_equal(akv_gguf_find(&g, "a.none")->n, 0);
    akv_gguf_close(&g);
}

/* Every key and every tensor of a file is found by its name, and no prefix or extension of one is. */
static void test_lookup(void **state)
{
    struct akv_gguf g;
    struct akv_err err = {0};
    char name[128];
    (void)state;
    assert_ok(akv_gguf_open(&g, make_model("small.gguf", SMALL), &err), &err);
    assert_null(g.warnings);
    for (uint64_t i = 0; i < g.n_kv; i++) {
        snprintf(name, sizeof name, "%.*s", (int)g.kv[i].key.len, g.kv[i].key.s);
        assert_ptr_equal(akv_gguf_find(&g, name), &g.kv[i]);
        snprintf(name, sizeof name, "%.*sx", (int)g.kv[i].key.len, g.kv[i].key.s);
        assert_null(akv_gguf_find(&g, name));
    }
    assert_int_equal(g.n_tensors, 12);
    for (uint64_t i = 0; i < g.n_tensors; i++) {
        snprintf(name, sizeof name, "%.*s", (int)g.tensors[i].name.len, g.tensors[i].name.s);
        assert_ptr_equal(akv_gguf_tensor(&g, name), &g.tensors[i]);
        name[strlen(name) - 1] = '\0';
        assert_null(akv_gguf_tensor(&g, name));
    }
    akv_gguf_close(&g);
}

/* A tensor of every type in the table has the size that its blocks give and ends where the next may begin. */
static void test_tensor_sizes(void **state)
{
    (void)state;
    for (uint32_t type = 0; type < AKV_DTYPES; type++) {
        const struct akv_dtype_info *info = &akv_dtypes[type];
        if (!info->name)
            continue;
        struct akv_gguf g;
        struct akv_err err = {0};
        struct akv_buf b;
        akv_buf_init(&b, 0);
        put_header(&b, 3, 1, 0);
        put_text(&b, "t");
        akv_buf_put_u32(&b, 2);
        akv_buf_put_u64(&b, 512);
        akv_buf_put_u64(&b, 3);
        akv_buf_put_u32(&b, type);
        akv_buf_put_u64(&b, 0);
        size_t bytes = (size_t)512 / info->block * info->block_bytes * 3;
        while (b.len % 32)
            akv_buf_putc(&b, 0);
        for (size_t i = 0; i < bytes; i++)
            akv_buf_putc(&b, (int)(i & 255));
        const char *path = temp_path("one.gguf");
        write_whole(path, b.data, b.len);
        assert_ok(akv_gguf_open(&g, path, &err), &err);
        assert_int_equal(g.tensors[0].bytes, bytes);
        assert_int_equal(g.tensors[0].row_bytes * 3, bytes);
        assert_string_equal(akv_tensor_dims(&g.tensors[0]).s, "512x3");
        assert_int_equal(g.tensors[0].data[1], 1);
        akv_gguf_close(&g);
        write_whole(path, b.data, b.len - 1);
        assert_int_equal(akv_gguf_open(&g, path, &err), AKV_E_INPUT);
        assert_non_null(strstr(err.msg, "tensor t"));
        akv_buf_release(&b);
    }
}

/* Files of another kind, version or byte order are told apart in words. */
static void test_versions(void **state)
{
    static const struct {
        const char *bytes;
        const char *word;
        int code;
    } cases[] = {{"tjgg\1\0\0\0", "before GGUF", AKV_E_INCOMPAT}, {"GGUX\3\0\0\0", "not a GGUF file", AKV_E_INPUT},
                 {"GGUF\1\0\0\0", "version 1,", AKV_E_INCOMPAT},  {"GGUF\143\0\0\0", "version 99", AKV_E_INCOMPAT},
                 {"GGUF\0\0\0\3", "big-endian", AKV_E_INCOMPAT},  {"GGUF\0\0\0\0", "version 0", AKV_E_INPUT},
                 {"GGUF\3\0\0\0", "the file ends", AKV_E_INPUT}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct akv_gguf g;
        struct akv_err err = {0};
        const char *path = temp_path("version.gguf");
        write_whole(path, cases[i].bytes, 8);
        assert_int_equal(akv_gguf_open(&g, path, &err), cases[i].code);
        if (!strstr(err.msg, cases[i].word))
            fail_msg("'%s' lacks '%s'", err.msg, cases[i].word);
    }
}

/* Cut at any byte of the metadata, a file is refused; with the keys alone it opens as soon as they are whole. */
static void test_truncated(void **state)
{
    struct akv_gguf g;
    struct akv_err err = {0};
    (void)state;
    const char *path = make_model("cut.gguf", SMALL);
    assert_ok(akv_gguf_open(&g, path, &err), &err);
    size_t keys_end = (size_t)(g.kv[g.n_kv - 1].value + g.kv[g.n_kv - 1].bytes - g.map.data), end = (size_t)g.data_offset;
    akv_gguf_close(&g);
    for (size_t n = end; n > 0; n--) {
        assert_int_equal(truncate(path, (off_t)n), 0);
        err = (struct akv_err){0};
        int rc = akv_gguf_open(&g, path, &err);
        if (rc != AKV_E_INPUT)
            fail_msg("cut at %zu: %d", n, rc);
        assert_true(strlen(err.msg) > strlen(path) + 2);
        rc = akv_gguf_open_keys(&g, path, NULL);
        assert_int_equal(rc, n >= keys_end ? 0 : AKV_E_INPUT);
        if (rc == 0)
            akv_gguf_close(&g);
    }
}

/* A bit of every byte of the metadata flipped in turn: refused or read, and all of what was read lies inside the file. */
static void test_flipped(void **state)
{
    struct akv_gguf g;
    struct akv_err err = {0};
    (void)state;
    const char *path = make_model("flip.gguf", SMALL);
    assert_ok(akv_gguf_open(&g, path, &err), &err);
    size_t end = (size_t)g.data_offset, size = g.map.size;
    akv_gguf_close(&g);
    int fd = open(path, O_RDWR);
    uint8_t *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(fd >= 0 && p != MAP_FAILED);
    for (size_t i = 0; i < end; i++) {
        uint8_t bit = (uint8_t)(1u << i % 8); /* neighbouring bytes get all eight */
        p[i] ^= bit;
        if (akv_gguf_open(&g, path, NULL) == 0) {
            for (uint64_t t = 0; t < g.n_tensors; t++)
                assert_true(g.tensors[t].offset + g.tensors[t].bytes <= size);
            for (uint64_t k = 0; k < g.n_kv; k++)
                assert_true(g.kv[k].value + g.kv[k].bytes <= g.map.data + size);
            akv_gguf_close(&g);
        }
        p[i] ^= bit;
    }
    munmap(p, size);
    close(fd);
}

/* A tensor whose data is not aligned, lies outside the file, wraps around or shares bytes with another is refused by name. */
static void test_places(void **state)
{
    static const struct {
        const char *word;
        uint64_t offset;
    } cases[] = {{"not a multiple of 32", 33},
                 {"truncated or damaged", 1u << 20},
                 {"truncated or damaged", UINT64_MAX - 31},
                 {"shares bytes with", 0}};
    struct akv_buf file;
    (void)state;
    const char *path = make_model("places.gguf", SMALL);
    read_whole(path, &file);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct akv_gguf g;
        struct akv_err err = {0};
        akv_put_u64(behind_text(&file, "blk.0.ffn_up.weight") + 4 + 2 * 8 + 4, cases[i].offset); /* behind dimensions and type */
        write_whole(path, file.data, file.len);
        assert_int_equal(akv_gguf_open(&g, path, &err), AKV_E_INPUT);
        if (!strstr(err.msg, cases[i].word) || !strstr(err.msg, "blk.0.ffn_up.weight"))
            fail_msg("'%s' lacks '%s'", err.msg, cases[i].word);
    }
    akv_buf_release(&file);
}

/* A key or a tensor that is given twice is refused, whichever of the two is meant. */
static void test_twice(void **state)
{
    (void)state;
    struct akv_buf file, keys;
    struct akv_gguf g;
    struct akv_err err = {0};
    const char *path = make_model("twice.gguf", SMALL);
    read_whole(path, &file);
    akv_buf_init(&keys, 0);
    put_key(&keys, "llama.block_count", AKV_GGUF_U32);
    akv_buf_put_u32(&keys, 1);
    insert_keys(&file, &keys, 1);
    write_whole(path, file.data, file.len);
    assert_int_equal(akv_gguf_open(&g, path, &err), AKV_E_INPUT);
    assert_non_null(strstr(err.msg, "llama.block_count"));
    replace_text(&file, "llama.block_count", "llama.block_tally");
    replace_text(&file, "blk.0.attn_k.weight", "blk.0.attn_q.weight");
    write_whole(path, file.data, file.len);
    err = (struct akv_err){0};
    assert_int_equal(akv_gguf_open(&g, path, &err), AKV_E_INPUT);
    assert_non_null(strstr(err.msg, "blk.0.attn_q.weight: listed twice"));
    akv_buf_release(&keys);
    akv_buf_release(&file);
}

/* Arrays nested without end, and counts that no file could hold, are refused. */
static void test_counts(void **state)
{
    struct akv_gguf g;
    struct akv_err err = {0};
    struct akv_buf b;
    (void)state;
    const char *path = temp_path("counts.gguf");
    akv_buf_init(&b, 0);
    put_header(&b, 3, 0, 1);
    put_key(&b, "a", AKV_GGUF_ARRAY);
    for (int i = 0; i < 100000; i++) {
        akv_buf_put_u32(&b, AKV_GGUF_ARRAY);
        akv_buf_put_u64(&b, 1);
    }
    write_whole(path, b.data, b.len);
    assert_int_equal(akv_gguf_open(&g, path, &err), AKV_E_INPUT);
    assert_non_null(strstr(err.msg, "nested"));
    akv_buf_clear(&b);
    put_header(&b, 3, 0, AKV_GGUF_MAX_ENTRIES + 1);
    for (uint64_t i = 0; i <= AKV_GGUF_MAX_ENTRIES; i++) {
        put_key(&b, "", AKV_GGUF_U8);
        akv_buf_putc(&b, 0);
    }
    err = (struct akv_err){0};
    write_whole(path, b.data, b.len);
    assert_int_equal(akv_gguf_open(&g, path, &err), AKV_E_INPUT);
    assert_non_null(strstr(err.msg, "the limit is"));
    akv_buf_release(&b);
}

/* Names out of a file are shown without control bytes or broken UTF-8, and cut. */
static void test_shown(void **state)
{
    static const char name[] = "a\n\x1b[2J\xff\xc3\xa9\xc2\x85";
    char line[200];
    (void)state;
    assert_string_equal(akv_str_show((struct akv_str){name, sizeof name - 1}).s, "a??[2J?\xc3\xa9??");
    memset(line, 'x', sizeof line);
    assert_int_equal(strlen(akv_str_show((struct akv_str){line, sizeof line}).s), 67);
}

/* A file that is written to after it was opened is noticed. */
static void test_restat(void **state)
{
    struct akv_gguf g;
    struct akv_err err = {0};
    (void)state;
    const char *path = make_model("restat.gguf", SMALL);
    assert_ok(akv_gguf_open(&g, path, &err), &err);
    assert_ok(akv_gguf_restat(&g, &err), &err);
    assert_int_equal(truncate(path, (off_t)g.map.size - 1), 0);
    assert_int_equal(akv_gguf_restat(&g, &err), AKV_E_INPUT);
    assert_non_null(strstr(err.msg, "changed while in use"));
    akv_gguf_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_integers),  cmocka_unit_test(test_other_scalars), cmocka_unit_test(test_arrays),
        cmocka_unit_test(test_lookup),    cmocka_unit_test(test_tensor_sizes),  cmocka_unit_test(test_versions),
        cmocka_unit_test(test_truncated), cmocka_unit_test(test_flipped),       cmocka_unit_test(test_counts),
        cmocka_unit_test(test_places),    cmocka_unit_test(test_twice),         cmocka_unit_test(test_shown),
        cmocka_unit_test(test_restat),
    };
    return cmocka_run_group_tests_name("gguf", tests, temp_setup, temp_teardown);
}
