/* Refs of a store: pinning, finding, walking a chain; names; changes while others read. */
#include "tests/unit/store_rig.h"

#include <sys/wait.h>

static struct akv_ref make_ref(const char *name, const struct akv_head *h, const struct page *tip)
{
    return (struct akv_ref){
        .name = (char *)(uintptr_t)name, .root = h->root, .tip = tip->rec.key, .made_by = (char *)(uintptr_t) "akv 0"};
}

static void pin(struct akv_store *s, const char *name, const struct page *tip)
{
    struct akv_ref ref = make_ref(name, &head, tip);
    struct akv_err err = {0};
    assert_ok(akv_store_ref_put(s, &ref, &err), &err);
}

/*
 * A ref records tokens, the bytes of its objects and the SHA-256 over the pages' own; it reads back as written, and from its text.
 */
static void put_and_get(void **state)
{
    (void)state;
    struct akv_store *s = open_new();
    struct akv_ref ref = make_ref("agent one", &head, &chain.pages[2]), got;
    struct akv_err err = {0};
    struct akv_sha sha;
    uint8_t content[32];
    uint64_t bytes = 0;
    akv_sha_begin(&sha);
    for (size_t i = 0; i < chain.n; i++) {
        assert_int_equal(akv_store_put(s, &head, &chain.pages[i].rec, true, &bytes, &err), 1);
        akv_sha_add(&sha, chain.pages[i].rec.raw_sha, 32);
    }
    assert_ok(akv_sha_end(&sha, content, &err), &err);
    assert_ok(akv_store_ref_put(s, &ref, &err), &err);
    assert_int_equal(akv_store_ref_get(s, "agent one", NULL, &got, &err), 1);
    assert_string_equal(got.name, "agent one");
    assert_string_equal(got.made_by, "akv 0");
    assert_int_equal(got.n_tokens, 150);
    assert_int_equal(got.bytes, bytes);
    assert_memory_equal(got.content, content, 32);
    assert_true(akv_key_eq(&got.tip, &chain.pages[2].rec.key) && akv_key_eq(&got.root, &head.root));
    akv_ref_release(&got);
    assert_int_equal(akv_store_ref_get(s, "agent", NULL, &got, &err), 0);
    assert_int_equal(akv_store_ref_get(s, "agent one", &chain.pages[0].rec.key, &got, &err), 0);
    assert_int_equal(err.code, 0);
    akv_store_close(s);
}

/* A chain with a page missing cannot be pinned, and the page is named. */
static void incomplete_chain(void **state)
{
    (void)state;
    struct akv_store *s = open_new();
    struct akv_ref ref = make_ref("x", &head, &chain.pages[2]), got;
    struct akv_err err = {0};
    put_all(s, &chain);
    assert_int_equal(unlink(object_path(&chain.pages[1])), 0);
    assert_int_equal(akv_store_ref_put(s, &ref, &err), AKV_E_NO);
    assert_non_null(strstr(err.msg, "not there"));
    assert_int_equal(akv_store_ref_get(s, "x", NULL, &got, NULL), 0);
    assert_int_equal(files_in("tmp"), 0);
    akv_store_close(s);
}

/* Names: what the rules allow works, what they forbid is a usage error in every call. */
static void names(void **state)
{
    (void)state;
    struct akv_store *s = open_new();
    char longest[202];
    put_all(s, &chain);
    memset(longest, 'n', 201);
    longest[201] = '\0';
    const char *bad[] = {"", ".x", "..", "a/b", "a\nb", "a\x7f", "\xff", longest, "a\xc0\xaf"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct akv_ref ref = make_ref(bad[i], &head, &chain.pages[0]), got;
        assert_int_equal(akv_store_ref_put(s, &ref, NULL), AKV_E_USAGE);
        assert_int_equal(akv_store_ref_get(s, bad[i], NULL, &got, NULL), AKV_E_USAGE);
        assert_int_equal(akv_store_ref_remove(s, bad[i], NULL, NULL), AKV_E_USAGE);
        assert_int_equal(akv_store_ref_rename(s, "a", bad[i], NULL, NULL), AKV_E_USAGE);
    }
    const char *not_made[] = {"\xc2\x80", "a\xc2\x9f"}; /* but looked for */
    for (size_t i = 0; i < sizeof not_made / sizeof not_made[0]; i++) {
        struct akv_ref ref = make_ref(not_made[i], &head, &chain.pages[0]), got;
        assert_int_equal(akv_store_ref_put(s, &ref, NULL), AKV_E_USAGE);
        assert_int_equal(akv_store_ref_rename(s, "a", not_made[i], NULL, NULL), AKV_E_USAGE);
        assert_int_equal(akv_store_ref_get(s, not_made[i], NULL, &got, NULL), 0);
    }
    longest[200] = '\0';
    const char *good[] = {"a", "-x", "a b", "\xc3\xa4\xe2\x82\xac", "\xc2\xa0", "a.b", longest};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        struct akv_ref got;
        pin(s, good[i], &chain.pages[0]);
        assert_int_equal(akv_store_ref_get(s, good[i], NULL, &got, NULL), 1);
        akv_ref_release(&got);
    }
    akv_store_close(s);
}

/* Listing is sorted; rename keeps what stands; remove takes only the ref; all of them tell absence. */
static void list_rename_remove(void **state)
{
    (void)state;
    struct akv_store *s = open_new();
    struct akv_ref *refs;
    struct akv_err err = {0};
    size_t n;
    put_all(s, &chain);
    pin(s, "b", &chain.pages[0]);
    pin(s, "c", &chain.pages[1]);
    pin(s, "a", &chain.pages[2]);
    assert_ok(akv_store_refs(s, &refs, &n, &err), &err);
    assert_int_equal(n, 3);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(refs[i].name[0], "abc"[i]);
        akv_ref_release(&refs[i]);
    }
    free(refs);
    assert_int_equal(akv_store_ref_rename(s, "a", "b", NULL, &err), AKV_E_USAGE);
    akv_err_clear(&err);
    assert_int_equal(akv_store_ref_rename(s, "a", "d", NULL, &err), 1);
    assert_int_equal(akv_store_ref_rename(s, "a", "e", NULL, &err), 0);
    assert_int_equal(akv_store_ref_remove(s, "d", &head.root, &err), 1);
    assert_int_equal(akv_store_ref_remove(s, "d", NULL, &err), 0);
    assert_ok(akv_store_refs(s, &refs, &n, &err), &err);
    assert_int_equal(n, 2);
    for (size_t i = 0; i < n; i++)
        akv_ref_release(&refs[i]);
    free(refs);
    assert_int_equal(files_in("objects"), 3);
    akv_store_close(s);
}

/* C8: one name under two roots is ambiguous until the root is given; both are listed. */
static void c8_two_roots(void **state)
{
    (void)state;
    struct akv_store *s = open_new();
    struct akv_head h2;
    struct chain other;
    struct akv_ref got, *refs;
    struct akv_err err = {0};
    size_t n;
    char hex[17];
    rig_head(&h2, "4567");
    rig_chain(&other, &h2, 1, 64, AKV_CODEC_RAW);
    put_all(s, &chain);
    assert_int_equal(akv_store_put(s, &h2, &other.pages[0].rec, true, NULL, &err), 1);
    struct akv_ref second = make_ref("agent", &h2, &other.pages[0]);
    pin(s, "agent", &chain.pages[2]);
    assert_ok(akv_store_ref_put(s, &second, &err), &err);
    assert_int_equal(akv_store_ref_get(s, "agent", NULL, &got, &err), AKV_E_USAGE);
    akv_hex(hex, head.root.b, 8);
    assert_non_null(strstr(err.msg, hex));
    akv_hex(hex, h2.root.b, 8);
    assert_non_null(strstr(err.msg, hex));
    assert_int_equal(akv_store_ref_remove(s, "agent", NULL, NULL), AKV_E_USAGE);
    assert_int_equal(akv_store_ref_get(s, "agent", &h2.root, &got, NULL), 1);
    assert_true(akv_key_eq(&got.tip, &other.pages[0].rec.key));
    akv_ref_release(&got);
    assert_int_equal(akv_store_refs(s, &refs, &n, NULL), 0);
    assert_int_equal(n, 2);
    for (size_t i = 0; i < n; i++)
        akv_ref_release(&refs[i]);
    free(refs);
    rig_chain_free(&other);
    akv_head_release(&h2);
    akv_store_close(s);
}

/* A damaged ref is an error that names it; one of a newer version is told apart; both can be removed and replaced. */
static void damaged_ref(void **state)
{
    (void)state;
    struct akv_store *s = open_new();
    struct akv_ref got;
    struct akv_err err = {0};
    char hex[17], rel[64];
    put_all(s, &chain);
    pin(s, "agent", &chain.pages[2]);
    akv_hex(hex, head.root.b, 8);
    snprintf(rel, sizeof rel, "refs/%s/agent", hex);
    struct akv_buf text;
    int fd = open(path_of(rel), O_RDONLY);
    rig_slurp(fd, &text);
    close(fd);
    for (size_t size = 0; size < text.len; size++) {
        write_file(path_of(rel), text.data, size);
        int rc = akv_store_ref_get(s, "agent", NULL, &got, &err);
        assert_true(rc == AKV_E_INPUT && strstr(err.msg, "agent"));
        akv_err_clear(&err);
    }
    akv_buf_release(&text);
    write_file(path_of(rel), "akv-ref 2\n", 10);
    assert_int_equal(akv_store_ref_get(s, "agent", NULL, &got, &err), AKV_E_INCOMPAT);
    assert_int_equal(akv_store_ref_remove(s, "agent", NULL, NULL), 1);
    assert_int_equal(symlink("/etc/passwd", path_of(rel)), 0);
    assert_int_equal(akv_store_ref_get(s, "agent", NULL, &got, NULL), AKV_E_IO);
    assert_int_equal(akv_store_ref_remove(s, "agent", NULL, NULL), 1);
    akv_store_close(s);
}

/* D5: pins that others could have written are not believed, nor is one written beside them. */
static void untrusted_directory(void **state)
{
    (void)state;
    struct akv_store *s = open_new();
    struct akv_ref got, ref = {.name = strdup("agent"), .root = head.root, .tip = chain.pages[2].rec.key};
    struct akv_ref *list;
    size_t n;
    struct akv_err err = {0};
    char hex[17], rel[64];
    put_all(s, &chain);
    pin(s, "agent", &chain.pages[2]);
    akv_hex(hex, head.root.b, 8);
    snprintf(rel, sizeof rel, "refs/%s", hex);
    assert_int_equal(chmod(path_of(rel), 0777), 0);
    assert_int_equal(akv_store_ref_get(s, "agent", NULL, &got, &err), AKV_E_IO);
    assert_non_null(strstr(err.msg, "not trusted"));
    assert_int_equal(akv_store_ref_get(s, "agent", &head.root, &got, NULL), AKV_E_IO);
    assert_int_equal(akv_store_refs(s, &list, &n, NULL), AKV_E_IO);
    assert_int_equal(akv_store_ref_put(s, &ref, NULL), AKV_E_IO);
    assert_int_equal(akv_store_ref_remove(s, "agent", NULL, NULL), AKV_E_IO);
    assert_int_equal(akv_store_ref_rename(s, "agent", "b", NULL, NULL), AKV_E_IO);
    assert_int_equal(chmod(path_of(rel), 0700), 0);
    assert_int_equal(akv_store_ref_get(s, "agent", NULL, &got, NULL), 1);
    akv_ref_release(&got);
    akv_ref_release(&ref);
    akv_store_close(s);
}

struct walk {
    size_t n;
    int answer;
};

static int on_page(void *ctx, const struct akv_head *h, const struct akv_page_rec *rec, struct akv_err *err)
{
    struct walk *w = ctx;
    assert_int_equal(akv_head_match(h, &head, NULL), 0);
    assert_true(akv_key_eq(&rec->key, &chain.pages[w->n].rec.key));
    assert_int_equal(rec->coded_bytes, chain.pages[w->n].rec.coded_bytes);
    assert_memory_equal(rec->coded, chain.pages[w->n].rec.coded, rec->coded_bytes);
    w->n++;
    return w->answer < 0 ? akv_fail(err, w->answer, "enough") : 0;
}

/*
 * A pinned chain is walked first to last, in its coded form; the callback can end it; a page that is missing or damaged is named.
 */
static void walk_chain(void **state)
{
    (void)state;
    struct akv_store *s = open_new();
    struct akv_ref ref;
    struct akv_err err = {0};
    struct walk w = {0};
    put_all(s, &chain);
    pin(s, "agent", &chain.pages[2]);
    assert_int_equal(akv_store_ref_get(s, "agent", NULL, &ref, &err), 1);
    assert_ok(akv_store_chain(s, &ref, on_page, &w, &err), &err);
    assert_int_equal(w.n, 3);

    w = (struct walk){.answer = AKV_E_CANCEL};
    assert_int_equal(akv_store_chain(s, &ref, on_page, &w, &err), AKV_E_CANCEL);
    assert_int_equal(w.n, 1);
    akv_err_clear(&err);

    ref.content[0] ^= 1;
    w = (struct walk){0};
    assert_int_equal(akv_store_chain(s, &ref, on_page, &w, &err), AKV_E_INPUT);
    assert_int_equal(w.n, 0);
    akv_err_clear(&err);
    ref.content[0] ^= 1;

    struct stat st;
    assert_int_equal(stat(object_path(&chain.pages[1]), &st), 0); /* E has 88 bytes; before it stands the body */
    flip_byte(object_path(&chain.pages[1]), st.st_size - 90);
    assert_int_equal(akv_store_chain(s, &ref, on_page, &w, &err), AKV_E_INPUT);
    assert_non_null(strstr(err.msg, strstr(object_path(&chain.pages[1]), "objects/")));
    assert_int_equal(w.n, 1);
    akv_err_clear(&err);
    assert_int_equal(unlink(object_path(&chain.pages[1])), 0);
    w = (struct walk){0};
    assert_int_equal(akv_store_chain(s, &ref, on_page, &w, &err), AKV_E_INPUT);
    assert_non_null(strstr(err.msg, "not there"));
    assert_int_equal(w.n, 0);
    akv_ref_release(&ref);
    akv_store_close(s);
}

/* D7: while two processes pin one name again and again, a reader always finds it, whole, with one of the two tips. */
static void d7_replaced_while_read(void **state)
{
    (void)state;
    struct akv_store *s = open_new();
    pid_t pids[2];
    put_all(s, &chain);
    pin(s, "agent", &chain.pages[0]);
    for (int i = 0; i < 2; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            struct akv_store *own;
            struct akv_ref ref = make_ref("agent", &head, &chain.pages[i]);
            if (akv_store_open(&own, dir, 0, NULL) < 0)
                _exit(1);
            for (int k = 0; k < 40; k++)
                if (akv_store_ref_put(own, &ref, NULL) < 0)
                    _exit(2);
            _exit(0);
        }
    }
    for (int n_left = 2; n_left;) {
        struct akv_ref got;
        struct akv_err err = {0};
        int status;
        if (akv_store_ref_get(s, "agent", NULL, &got, &err) != 1)
            fail_msg("the ref is gone: %s", err.msg);
        assert_int_equal(got.n_tokens, akv_key_eq(&got.tip, &chain.pages[0].rec.key) ? 64 : 128);
        akv_ref_release(&got);
        if (waitpid(-1, &status, WNOHANG) > 0) {
            assert_int_equal(status, 0);
            n_left--;
        }
    }
    assert_int_equal(files_in("tmp"), 0);
    akv_store_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(put_and_get, setup, teardown),
        cmocka_unit_test_setup_teardown(incomplete_chain, setup, teardown),
        cmocka_unit_test_setup_teardown(names, setup, teardown),
        cmocka_unit_test_setup_teardown(list_rename_remove, setup, teardown),
        cmocka_unit_test_setup_teardown(c8_two_roots, setup, teardown),
        cmocka_unit_test_setup_teardown(damaged_ref, setup, teardown),
        cmocka_unit_test_setup_teardown(untrusted_directory, setup, teardown),
        cmocka_unit_test_setup_teardown(walk_chain, setup, teardown),
        cmocka_unit_test_setup_teardown(d7_replaced_while_read, setup, teardown),
    };
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
