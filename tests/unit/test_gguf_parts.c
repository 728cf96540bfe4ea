/* Split models: they are what the whole file is, and a part that is missing or wrong is named. */
#include "tests/unit/model_rig.h"

#include "base/hash.h"

#define TWO_LAYERS "--dtype q4_0 --layers 2 --width 32 --heads 2 --kv-heads 1 --ff 64"

static void digest(const char *path, uint8_t out[AKV_SHA_BYTES])
{
    struct akv_model *m = load(path, 0);
    struct akv_pool *pool = NULL;
    struct akv_err err = {0};
    assert_ok(akv_pool_open(&pool, 1, &err), &err);
    assert_ok(akv_model_digest(m, pool, NULL, out, &err), &err);
    akv_pool_close(pool);
    akv_model_unload(m);
}

/* In any number of parts, also more than tensors, a model has the tensors, keys, facts and digest of the whole file. */
static void test_same_model(void **state)
{
    static const unsigned counts[] = {1, 2, 3, 5, 40};
    uint8_t want[AKV_SHA_BYTES], got[AKV_SHA_BYTES];
    (void)state;
    const char *whole = make_model("whole.gguf", TWO_LAYERS);
    digest(whole, want);
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        struct akv_gguf a, b;
        struct akv_err err = {0};
        const char *path = split_model(whole, "same", counts[c]);
        assert_ok(akv_gguf_open(&a, whole, &err), &err);
        assert_ok(akv_gguf_open(&b, path, &err), &err);
        assert_int_equal(b.n_parts, counts[c] - 1);
        assert_int_equal(b.n_kv, a.n_kv + 3);
        assert_int_equal(b.n_tensors, a.n_tensors);
        assert_null(b.warnings);
        for (uint64_t i = 0; i < a.n_tensors; i++) {
            const struct akv_tensor *t = a.tensors_by_name[i], *u = b.tensors_by_name[i];
            assert_int_equal(t->name.len, u->name.len);
            assert_memory_equal(t->name.s, u->name.s, t->name.len);
            assert_int_equal(t->bytes, u->bytes);
            assert_memory_equal(t->data, u->data, t->bytes);
        }
        akv_gguf_close(&a);
        akv_gguf_close(&b);
        digest(path, got);
        assert_memory_equal(got, want, sizeof want);
    }
}

/* The keys alone need the first part alone; another part says which it is. */
static void test_first_only(void **state)
{
    (void)state;
    split_model(make_model("whole.gguf", TWO_LAYERS), "first", 3);
    assert_int_equal(unlink(part_path("first", 3, 3)), 0);
    akv_model_unload(load(part_path("first", 1, 3), AKV_MODEL_VOCAB_ONLY));
    for (int keys_only = 0; keys_only < 2; keys_only++) {
        struct akv_gguf g;
        struct akv_err err = {0};
        const char *second = part_path("first", 2, 3);
        assert_int_equal(keys_only ? akv_gguf_open_keys(&g, second, &err) : akv_gguf_open(&g, second, &err), AKV_E_INPUT);
        assert_non_null(strstr(err.msg, "part 2 of 3 of a split model: give the first"));
    }
}

/* A part that is missing, is another model's or another part, or whose tensors are listed before, is refused by its name. */
static void test_wrong_parts(void **state)
{
    struct akv_gguf g;
    struct akv_err err = {0};
    struct akv_buf file;
    char third[256];
    (void)state;
    const char *whole = make_model("whole.gguf", TWO_LAYERS);
    split_model(whole, "bad", 3);
    snprintf(third, sizeof third, "%s", part_path("bad", 3, 3));
    assert_int_equal(unlink(third), 0);
    assert_int_equal(akv_gguf_open(&g, part_path("bad", 1, 3), &err), AKV_E_IO);
    assert_non_null(strstr(err.msg, "bad-00003-of-00003.gguf: cannot open"));

    read_whole(part_path("bad", 2, 3), &file);
    write_whole(third, file.data, file.len);
    refuse(part_path("bad", 1, 3), AKV_E_INPUT, "bad-00003-of-00003.gguf", "it is part 2 of 3");
    behind_text(&file, "split.no")[4] = 2; /* behind the type: as if it were the third */
    write_whole(third, file.data, file.len);
    refuse(part_path("bad", 1, 3), AKV_E_INPUT, "bad-00003-of-00003.gguf: tensor blk.0.", "listed twice");
    akv_buf_release(&file);

    read_whole(whole, &file);
    write_whole(third, file.data, file.len);
    refuse(part_path("bad", 1, 3), AKV_E_INPUT, "bad-00003-of-00003.gguf", "not a part of a split model");
    write_whole(third, file.data, file.len / 2);
    refuse(part_path("bad", 1, 3), AKV_E_INPUT, "bad-00003-of-00003.gguf", "truncated");
    akv_buf_release(&file);
}

/* What is wrong with a tensor is said of the file that has it. */
static void test_blame(void **state)
{
    struct akv_buf file;
    char third[256];
    (void)state;
    const char *first = split_model(make_model("whole.gguf", TWO_LAYERS), "blame", 3);
    snprintf(third, sizeof third, "%s", part_path("blame", 3, 3));
    read_whole(third, &file);
    behind_text(&file, "blk.1.ffn_norm.weight")[12] = AKV_F16; /* behind the number of dimensions, and one */
    write_whole(third, file.data, file.len);
    refuse(first, AKV_E_INCOMPAT, "blame-00003-of-00003.gguf: tensor blk.1.ffn_norm.weight", "a vector of type F16");
    akv_put_u64(behind_text(&file, "blk.1.ffn_norm.weight") + 4, 31);
    write_whole(third, file.data, file.len);
    refuse(first, AKV_E_INPUT, "blame-00003-of-00003.gguf: tensor blk.1.ffn_norm.weight", "its shape 31 does not fit");
    akv_put_u64(behind_text(&file, "blk.1.ffn_up.weight") + 4, 33);
    write_whole(third, file.data, file.len);
    refuse(first, AKV_E_INPUT, "blame-00003-of-00003.gguf: tensor blk.1.ffn_up.weight", "not whole Q4_0 blocks");
    akv_buf_release(&file);
}

/* The number of tensors that the first part promises must be that of all parts. */
static void test_tensor_count(void **state)
{
    struct akv_buf file;
    (void)state;
    const char *first = split_model(make_model("whole.gguf", TWO_LAYERS), "count", 2);
    read_whole(first, &file);
    behind_text(&file, "split.tensors.count")[4]++; /* behind the type */
    write_whole(first, file.data, file.len);
    refuse(first, AKV_E_INPUT, "key split.tensors.count: 22 tensors", "the 2 parts have 21");
    akv_buf_release(&file);
}

/* Without the pattern of names the others cannot be found: said so. Counts beyond any model are refused at once. */
static void test_names(void **state)
{
    static const char *const names[] = {"x.gguf", "x-00001-of-00002.gguf", "x-00002-of-00003.gguf", "x-0001-of-00003.gguf",
                                        "-00001-of-00003.ggu"};
    struct akv_buf file;
    (void)state;
    read_whole(split_model(make_model("whole.gguf", TWO_LAYERS), "names", 3), &file);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        write_whole(temp_path(names[i]), file.data, file.len);
        refuse(temp_path(names[i]), AKV_E_INPUT, names[i], "must be named like NAME-00001-of-00003.gguf");
    }
    akv_put_u16(behind_text(&file, "split.count") + 4, 60000);
    write_whole(temp_path("x.gguf"), file.data, file.len);
    refuse(temp_path("x.gguf"), AKV_E_INPUT, "60000 parts", "the limit");
    akv_buf_release(&file);
}

/* A change of any part is a change of the model, and its state takes in all parts. */
static void test_restat(void **state)
{
    (void)state;
    for (unsigned no = 1; no <= 3; no++) {
        const char *whole = make_model("whole.gguf", TWO_LAYERS);
        struct akv_gguf g;
        struct akv_err err = {0};
        struct stat st;
        uint64_t sum = 0;
        assert_ok(akv_gguf_open(&g, split_model(whole, "state", 3), &err), &err);
        for (unsigned i = 1; i <= 3; i++) {
            assert_int_equal(stat(part_path("state", i, 3), &st), 0);
            sum += (uint64_t)st.st_size;
        }
        assert_int_equal(g.stamp.size, sum);
        assert_ok(akv_gguf_restat(&g, &err), &err);
        assert_int_equal(stat(part_path("state", no, 3), &st), 0);
        assert_int_equal(truncate(part_path("state", no, 3), st.st_size + 1), 0);
        assert_int_equal(akv_gguf_restat(&g, &err), AKV_E_INPUT);
        if (!strstr(err.msg, part_path("state", no, 3)) || !strstr(err.msg, "changed while in use"))
            fail_msg("%s", err.msg);
        akv_gguf_close(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_model), cmocka_unit_test(test_first_only),   cmocka_unit_test(test_wrong_parts),
        cmocka_unit_test(test_blame),      cmocka_unit_test(test_tensor_count), cmocka_unit_test(test_names),
        cmocka_unit_test(test_restat),
    };
    return cmocka_run_group_tests_name("gguf parts", tests, temp_setup, temp_teardown);
}
