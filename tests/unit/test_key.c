/* Page keys, index keys, roots: the known answers, and the rules around them. */
#include "tests/check.h"

#include "base/bytes.h"
#include "kv/key.h"

static void assert_hex(const struct akv_key *k, const char *want)
{
    char hex[AKV_SHA_HEX];
    akv_hex(hex, k->b, sizeof k->b);
    assert_string_equal(hex, want);
}

/* A chain of short pages has the published keys; so has the empty page. */
static void known_page_keys(void **state)
{
    (void)state;
    const uint32_t ids[] = {11, 12, 13, 14, 15, 16, 17, 18};
    struct akv_key a, b, c, none;
    struct akv_err err = {0};
    assert_ok(akv_page_key(&a, NULL, ids, 3, &err), &err);
    assert_ok(akv_page_key(&b, &a, ids + 3, 3, &err), &err);
    assert_ok(akv_page_key(&c, &b, ids + 6, 2, &err), &err);
    assert_ok(akv_page_key(&none, NULL, NULL, 0, &err), &err);
    assert_hex(&a, "c5bd115d3e5564b9c3ac52b7d8770caaa176477034ecce5cb97334f699c1f99f");
    assert_hex(&b, "f40f62e18f8a0857cc1b9e86e45a80f97d3a172bb8714ac61851eec05f86b814");
    assert_hex(&c, "9dfc9e61d7e1f8736affb5d3f11e54e6e0456503b7faf391a43ac82ac55e5ba6");
    assert_hex(&none, "15ec7bf0b50732b49f8228e07d24365338f9e3ab994b00af08e5a3bffe55fd8b");
}

/* The index key of a page under a short root is the published one. */
static void known_index_key(void **state)
{
    (void)state;
    const uint32_t ids[] = {11, 12, 13};
    struct akv_key a, index;
    struct akv_err err = {0};
    assert_ok(akv_page_key(&a, NULL, ids, 3, &err), &err);
    assert_ok(akv_index_key(&index, "a root", 6, &a, &err), &err);
    assert_hex(&index, "b5a2c57990ee680426b322da77efc20e5fdb23552ea6e26679e4e26920b39ebf");
}

/* The root of a=1, b=2 is the published one, in whatever order they are given. */
static void known_root(void **state)
{
    (void)state;
    struct akv_root_field up[] = {{"a", "1"}, {"b", "2"}}, down[] = {{"b", "2"}, {"a", "1"}};
    struct akv_key x, y;
    struct akv_err err = {0};
    assert_ok(akv_root_hash(&x, up, 2, &err), &err);
    assert_ok(akv_root_hash(&y, down, 2, &err), &err);
    assert_hex(&x, "eb4ecc01e51906833984b83fadbb9c02315b94d99d31a9aa12f249a21ad79dae");
    assert_true(akv_key_eq(&x, &y));
}

/* Ingredient lists that could be read in two ways are refused. */
static void root_refuses_ambiguity(void **state)
{
    (void)state;
    struct akv_root_field twice[] = {{"a", "1"}, {"a", "2"}}, equals[] = {{"a=b", "1"}}, empty[] = {{"", "1"}};
    struct akv_key x;
    assert_int_equal(akv_root_hash(&x, twice, 2, NULL), AKV_E_USAGE);
    assert_int_equal(akv_root_hash(&x, equals, 1, NULL), AKV_E_USAGE);
    assert_int_equal(akv_root_hash(&x, empty, 1, NULL), AKV_E_USAGE);
}

/*
 * Chain keys are the page keys of 64 tokens each, chained through full pages, with the tail's last; more than a page in one key
 * is refused.
 */
static void chain_of_pages(void **state)
{
    (void)state;
    uint32_t ids[130];
    struct akv_key keys[3], want;
    struct akv_err err = {0};
    for (uint32_t i = 0; i < 130; i++)
        ids[i] = i * 7919;
    assert_ok(akv_chain_keys(keys, ids, 130, &err), &err);
    assert_ok(akv_page_key(&want, NULL, ids, 64, &err), &err);
    assert_true(akv_key_eq(&keys[0], &want));
    assert_ok(akv_page_key(&want, &keys[0], ids + 64, 64, &err), &err);
    assert_true(akv_key_eq(&keys[1], &want));
    assert_ok(akv_page_key(&want, &keys[1], ids + 128, 2, &err), &err);
    assert_true(akv_key_eq(&keys[2], &want));
    assert_ok(akv_chain_keys(keys, ids, 0, &err), &err);
    assert_int_equal(akv_page_key(&want, NULL, ids, 65, NULL), AKV_E_USAGE);
}

/* Every id, its place and the parent enter the key. */
static void keys_tell_apart(void **state)
{
    (void)state;
    const uint32_t ab[] = {1, 2}, ba[] = {2, 1}, wide[] = {1 << 24, 2};
    struct akv_key x, y, z, child;
    struct akv_err err = {0};
    assert_ok(akv_page_key(&x, NULL, ab, 2, &err), &err);
    assert_ok(akv_page_key(&y, NULL, ba, 2, &err), &err);
    assert_ok(akv_page_key(&z, NULL, wide, 2, &err), &err);
    assert_ok(akv_page_key(&child, &x, ab, 2, &err), &err);
    assert_false(akv_key_eq(&x, &y));
    assert_false(akv_key_eq(&x, &z));
    assert_false(akv_key_eq(&x, &child));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_page_keys),        cmocka_unit_test(known_index_key), cmocka_unit_test(known_root),
        cmocka_unit_test(root_refuses_ambiguity), cmocka_unit_test(chain_of_pages),  cmocka_unit_test(keys_tell_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
