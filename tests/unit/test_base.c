/* lib/base: errors, buffers, bytes, hashes. */
#include "tests/check.h"

#include <errno.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/hash.h"

/* ---- err ---- */

/* The first error wins, in text and in code, and its code is what every later call returns. */
static void err_first_wins(void **state)
{
    (void)state;
    struct akv_err err = {0};
    assert_int_equal(akv_fail(&err, AKV_E_INPUT, "a.gguf: %s", "cut short"), AKV_E_INPUT);
    assert_int_equal(akv_fail(&err, AKV_E_IO, "later"), AKV_E_INPUT);
    errno = ENOENT;
    assert_int_equal(akv_fail_errno(&err, "later still"), AKV_E_INPUT);
    assert_int_equal(err.code, AKV_E_INPUT);
    assert_string_equal(err.msg, "a.gguf: cut short");
}

/* Without an err the code still comes back. */
static void err_may_be_null(void **state)
{
    (void)state;
    assert_int_equal(akv_fail(NULL, AKV_E_NO, "x"), AKV_E_NO);
    assert_int_equal(akv_fail_errno(NULL, "x"), AKV_E_IO);
    akv_err_prefix(NULL, "x");
    akv_err_clear(NULL);
}

/* Hostile text cannot break the line or move the terminal's cursor. */
static void err_escapes_control_bytes(void **state)
{
    (void)state;
    struct akv_err err = {0};
    akv_fail(&err, AKV_E_INPUT, "%s", "a\nb\x1b[2J\x7f\t\xc3\xa9");
    assert_string_equal(err.msg, "a\\x0ab\\x1b[2J\\x7f\\x09\xc3\xa9");
}

/* Text that does not fit is cut, terminated, and never in the middle of an escape. */
static void err_cuts_long_text(void **state)
{
    (void)state;
    char text[2 * AKV_ERR_BYTES];
    for (size_t lead = 0; lead < 4; lead++) {
        struct akv_err err = {0};
        memset(text, '\n', sizeof text - 1);
        memset(text, 'x', lead);
        text[sizeof text - 1] = '\0';
        akv_fail(&err, AKV_E_INPUT, "%s", text);
        size_t len = strlen(err.msg);
        assert_in_range(len, AKV_ERR_BYTES - 5, AKV_ERR_BYTES - 1);
        assert_int_equal((len - lead) % 4, 0);
        assert_string_equal(err.msg + len - 4, "\\x0a");
    }
}

/* errno's words come after the caller's. */
static void err_appends_errno(void **state)
{
    (void)state;
    struct akv_err err = {0};
    errno = ENOENT;
    assert_int_equal(akv_fail_errno(&err, "%s: cannot open", "m.gguf"), AKV_E_IO);
    assert_string_equal(err.msg, "m.gguf: cannot open: No such file or directory");
}

/* A prefix goes in front of an error, and is no error by itself; a cleared error is none. */
static void err_prefix_and_clear(void **state)
{
    (void)state;
    struct akv_err err = {0};
    akv_err_prefix(&err, "record %d", 3);
    assert_int_equal(err.code, 0);
    assert_string_equal(err.msg, "");
    akv_fail(&err, AKV_E_INPUT, "tokens: not a list");
    akv_err_prefix(&err, "record %d", 3);
    assert_string_equal(err.msg, "record 3: tokens: not a list");
    assert_int_equal(err.code, AKV_E_INPUT);
    akv_err_clear(&err);
    assert_int_equal(err.code, 0);
    assert_string_equal(err.msg, "");
}

/* A product that overflows is refused, not wrapped; the old memory survives a failed growth. */
static void alloc_checks_overflow(void **state)
{
    (void)state;
    struct akv_err err = {0};
    assert_null(akv_alloc(SIZE_MAX / 2 + 1, 2, &err));
    assert_int_equal(err.code, AKV_E_IO);
    akv_err_clear(&err);
    uint8_t *p = akv_alloc(4, 1, &err);
    assert_non_null(p);
    assert_memory_equal(p, "\0\0\0\0", 4);
    p[3] = 7;
    assert_null(akv_realloc(p, SIZE_MAX / 8 + 2, 8, &err));
    assert_int_equal(err.code, AKV_E_IO);
    assert_int_equal(p[3], 7);
    akv_err_clear(&err);
    p = akv_realloc(p, 100, 8, &err);
    assert_non_null(p);
    assert_int_equal(p[3], 7);
    free(p);
    void *none = akv_alloc(0, 8, &err);
    assert_non_null(none);
    free(none);
    char *s = akv_strndup("abcdef", 3, &err);
    assert_string_equal(s, "abc");
    free(s);
    assert_int_equal(err.code, 0);
}

/* ---- buf ---- */

/* Whatever is appended, data is the concatenation and a C string. */
static void buf_appends(void **state)
{
    (void)state;
    struct akv_buf b;
    struct akv_err err = {0};
    akv_buf_init(&b, 0);
    assert_string_equal(b.data, "");
    akv_buf_puts(&b, "ab");
    akv_buf_putc(&b, 'c');
    akv_buf_add(&b, NULL, 0);
    akv_buf_printf(&b, "%s-%d", "d", 42);
    assert_string_equal(b.data, "abcd-42");
    akv_buf_put_u16(&b, 0x0102);
    akv_buf_put_u32(&b, 0x03040506);
    akv_buf_put_u64(&b, 0x0708090a0b0c0d0e);
    assert_int_equal(b.len, 7 + 14);
    assert_memory_equal(b.data + 7, "\x02\x01\x06\x05\x04\x03\x0e\x0d\x0c\x0b\x0a\x09\x08\x07", 15);
    assert_int_equal(akv_buf_check(&b, "b", &err), 0);
    akv_buf_clear(&b);
    assert_int_equal(b.len, 0);
    assert_string_equal(b.data, "");
    akv_buf_release(&b);
}

/* Growth keeps the content and the terminator at every length. */
static void buf_grows(void **state)
{
    (void)state;
    struct akv_buf b;
    akv_buf_init(&b, 0);
    for (size_t i = 0; i < 3000; i++) {
        akv_buf_putc(&b, (int)(i % 251 + 1));
        assert_int_equal(b.len, i + 1);
        assert_true(b.len < b.cap);
        assert_int_equal(b.data[b.len], 0);
    }
    for (size_t i = 0; i < 3000; i++)
        assert_int_equal((uint8_t)b.data[i], i % 251 + 1);
    akv_buf_release(&b);
}

/* The limit is exact; an append past it leaves the content, later appends do nothing, and one check at the end sees it. */
static void buf_keeps_its_limit(void **state)
{
    (void)state;
    struct akv_buf b;
    struct akv_err err = {0};
    akv_buf_init(&b, 5);
    akv_buf_puts(&b, "abcde");
    assert_int_equal(akv_buf_check(&b, "list", &err), 0);
    akv_buf_putc(&b, 'f');
    assert_true(b.failed);
    assert_string_equal(b.data, "abcde");
    assert_int_equal(akv_buf_check(&b, "list", &err), AKV_E_IO);
    assert_non_null(strstr(err.msg, "list"));
    akv_buf_clear(&b);
    akv_buf_puts(&b, "abc");
    akv_buf_printf(&b, "%d", 123);
    akv_buf_puts(&b, "d");
    assert_string_equal(b.data, "abc");
    assert_true(b.failed);
    akv_buf_clear(&b);
    assert_null(akv_buf_reserve(&b, SIZE_MAX));
    assert_true(b.failed);
    akv_buf_release(&b);
}

/* Reserved room may be filled by hand. */
static void buf_reserve_gives_room(void **state)
{
    (void)state;
    struct akv_buf b;
    akv_buf_init(&b, 0);
    akv_buf_puts(&b, "ab");
    char *at = akv_buf_reserve(&b, 1000);
    assert_ptr_equal(at, b.data + 2);
    memset(at, 'x', 1000);
    b.len += 1000;
    akv_buf_puts(&b, "c");
    assert_int_equal(b.len, 1003);
    assert_string_equal(b.data + 1000, "xxc");
    akv_buf_release(&b);
}

/* Stolen memory is the caller's, also from an empty buffer; the buffer can be used again under the same limit. */
static void buf_steal_hands_over(void **state)
{
    (void)state;
    struct akv_buf b;
    akv_buf_init(&b, 3);
    char *empty = akv_buf_steal(&b);
    assert_string_equal(empty, "");
    free(empty);
    akv_buf_puts(&b, "abc");
    char *abc = akv_buf_steal(&b);
    assert_int_equal(b.len, 0);
    akv_buf_puts(&b, "de");
    assert_string_equal(abc, "abc");
    assert_string_equal(b.data, "de");
    akv_buf_puts(&b, "fg");
    assert_true(b.failed);
    free(abc);
    akv_buf_release(&b);
}

/* ---- bytes ---- */

/* Little-endian whatever the machine, at any alignment. */
static void bytes_are_little_endian(void **state)
{
    (void)state;
    uint8_t at[9] = {0};
    akv_put_u16(at + 1, 0xfedc);
    assert_memory_equal(at, "\0\xdc\xfe\0", 4);
    assert_int_equal(akv_get_u16(at + 1), 0xfedc);
    akv_put_u32(at + 1, 0xfedcba98);
    assert_memory_equal(at, "\0\x98\xba\xdc\xfe\0", 6);
    assert_true(akv_get_u32(at + 1) == 0xfedcba98);
    akv_put_u64(at + 1, 0xfedcba9876543210);
    assert_memory_equal(at, "\0\x10\x32\x54\x76\x98\xba\xdc\xfe", 9);
    assert_true(akv_get_u64(at + 1) == 0xfedcba9876543210);
}

/* Hexadecimal both ways; wrong digits and wrong lengths are refused. */
static void hex_round_trips(void **state)
{
    (void)state;
    uint8_t all[256], back[256];
    char hex[513];
    for (size_t i = 0; i < sizeof all; i++)
        all[i] = (uint8_t)i;
    akv_hex(hex, all, sizeof all);
    assert_int_equal(strlen(hex), 512);
    assert_memory_equal(hex, "000102", 6);
    assert_string_equal(hex + 506, "fdfeff");
    assert_true(akv_unhex(back, sizeof back, hex, 512));
    assert_memory_equal(all, back, sizeof all);
    assert_true(akv_unhex(back, 2, "aBCd", 4));
    assert_memory_equal(back, "\xab\xcd", 2);
    assert_false(akv_unhex(back, 2, "abc", 3));
    assert_false(akv_unhex(back, 2, "abcde", 5));
    for (const char *bad = "/:@G`g \n"; *bad; bad++) {
        char two[2][2] = {{*bad, '0'}, {'0', *bad}};
        assert_false(akv_unhex(back, 1, two[0], 2));
        assert_false(akv_unhex(back, 1, two[1], 2));
    }
    akv_hex(hex, all, 0);
    assert_string_equal(hex, "");
    assert_true(akv_unhex(back, 0, "", 0));
}

static size_t encode(char *s, uint32_t cp)
{
    if (cp < 0x80) {
        s[0] = (char)cp;
        return 1;
    }
    size_t n = cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
    for (size_t i = n; --i > 0; cp >>= 6)
        s[i] = (char)(0x80 | (cp & 0x3f));
    s[0] = (char)((n == 2 ? 0xc0 : n == 3 ? 0xe0 : 0xf0) | cp);
    return n;
}

/* Every code point but the surrogates is valid in its shortest form, and in nothing shorter. */
static void utf8_takes_every_code_point(void **state)
{
    (void)state;
    for (uint32_t cp = 0; cp < 0x110800; cp++) {
        char s[5];
        size_t n = encode(s, cp);
        bool valid = (cp < 0xd800 || cp > 0xdfff) && cp < 0x110000;
        s[n] = 'a';
        if (akv_utf8_len(s, n + 1) != (valid ? n : 0) || akv_utf8_len(s, n - 1) != 0)
            fail_msg("U+%04X", cp);
    }
}

/* Nothing else is: as many valid sequences of 2 and 3 bytes as there are code points, none of 4 at the edges. */
static void utf8_takes_nothing_else(void **state)
{
    (void)state;
    static const uint8_t edge[] = {0x00, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xff};
    size_t n2 = 0, n3 = 0;
    for (uint32_t v = 0; v < 1u << 24; v++) {
        char s[3] = {(char)(v >> 16), (char)(v >> 8), (char)v};
        size_t n = akv_utf8_len(s, 3);
        n2 += n == 2 && (v & 0xff) == 0;
        n3 += n == 3;
    }
    assert_int_equal(n2, 0x800 - 0x80);
    assert_int_equal(n3, 0x10000 - 0x800 - 0x800);
    for (uint32_t lead = 0x80; lead < 0x100; lead++)
        for (size_t i = 0; i < sizeof edge * sizeof edge * sizeof edge; i++) {
            uint8_t b1 = edge[i % 10], b2 = edge[i / 10 % 10], b3 = edge[i / 100];
            char s[4] = {(char)lead, (char)b1, (char)b2, (char)b3};
            uint32_t cp = (lead & 7) << 18 | (b1 & 0x3fu) << 12 | (b2 & 0x3fu) << 6 | (b3 & 0x3fu);
            bool tails = (b1 & 0xc0) == 0x80 && (b2 & 0xc0) == 0x80 && (b3 & 0xc0) == 0x80;
            bool valid = (lead & 0xf8) == 0xf0 && tails && cp >= 0x10000 && cp < 0x110000;
            if ((akv_utf8_len(s, 4) == 4) != valid)
                fail_msg("%02x %02x %02x %02x", lead, b1, b2, b3);
        }
}

/* The offset of the first bad byte is told, also when it is a cut at the end. */
static void utf8_names_the_bad_byte(void **state)
{
    (void)state;
    size_t bad = 99;
    assert_true(akv_utf8_valid("", 0, &bad));
    assert_true(akv_utf8_valid("a\xc3\xa9\xf0\x9f\x98\x80\0z", 9, NULL));
    assert_int_equal(bad, 99);
    assert_false(akv_utf8_valid("a\xc3\xa9\xff", 4, &bad));
    assert_int_equal(bad, 3);
    assert_false(akv_utf8_valid("ab\xf0\x9f\x98", 5, &bad));
    assert_int_equal(bad, 2);
    assert_false(akv_utf8_valid("\xc0\x80", 2, NULL));
}

/* ---- hash ---- */

static void assert_hex(const uint8_t *got, const char *want)
{
    char hex[AKV_SHA_HEX];
    akv_hex(hex, got, AKV_SHA_BYTES);
    assert_string_equal(hex, want);
}

/* SHA-256 of the standard's own examples, at once and in pieces; an object can be started again. */
static void sha_known_answers(void **state)
{
    (void)state;
    static const char two_blocks[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    struct akv_err err = {0};
    struct akv_sha s;
    uint8_t out[AKV_SHA_BYTES];
    assert_int_equal(akv_sha256(out, "", 0, &err), 0);
    assert_hex(out, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    for (size_t cut = 0; cut <= 56; cut++) {
        akv_sha_begin(&s);
        akv_sha_add(&s, two_blocks, cut);
        akv_sha_add(&s, two_blocks + cut, 56 - cut);
        assert_int_equal(akv_sha_end(&s, out, &err), 0);
        assert_hex(out, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    }
}

/* Fields carry their length, so that no two lists of fields hash alike: a page key of the format's text. */
static void sha_fields(void **state)
{
    (void)state;
    static const uint8_t ids[12] = {11, 0, 0, 0, 12, 0, 0, 0, 13, 0, 0, 0};
    struct akv_err err = {0};
    struct akv_sha s;
    uint8_t out[AKV_SHA_BYTES];
    akv_sha_begin(&s);
    akv_sha_field(&s, "", 0);
    akv_sha_field(&s, ids, sizeof ids);
    akv_sha_field(&s, "", 0);
    assert_int_equal(akv_sha_end(&s, out, &err), 0);
    assert_hex(out, "c5bd115d3e5564b9c3ac52b7d8770caaa176477034ecce5cb97334f699c1f99f");
}

/* A field too long for its length is a failure that sticks until the end, not another digest. */
static void sha_failure_sticks(void **state)
{
    (void)state;
    struct akv_err err = {0};
    struct akv_sha s;
    uint8_t out[AKV_SHA_BYTES];
    akv_sha_begin(&s);
    akv_sha_field(&s, "x", (size_t)UINT32_MAX + 1);
    akv_sha_add(&s, "y", 1);
    assert_int_equal(akv_sha_end(&s, out, &err), AKV_E_IO);
    assert_int_equal(err.code, AKV_E_IO);
    akv_sha_begin(&s);
    assert_int_equal(akv_sha_end(&s, out, NULL), 0);
}

/* XXH64 with seed 0. */
static void xxh_known_answers(void **state)
{
    (void)state;
    assert_true(akv_xxh64("", 0) == 0xef46db3751d8e999);
    assert_true(akv_xxh64("abc", 3) == 0x44bc2cf5ad770999);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(err_first_wins),
        cmocka_unit_test(err_may_be_null),
        cmocka_unit_test(err_escapes_control_bytes),
        cmocka_unit_test(err_cuts_long_text),
        cmocka_unit_test(err_appends_errno),
        cmocka_unit_test(err_prefix_and_clear),
        cmocka_unit_test(alloc_checks_overflow),
        cmocka_unit_test(buf_appends),
        cmocka_unit_test(buf_grows),
        cmocka_unit_test(buf_keeps_its_limit),
        cmocka_unit_test(buf_reserve_gives_room),
        cmocka_unit_test(buf_steal_hands_over),
        cmocka_unit_test(bytes_are_little_endian),
        cmocka_unit_test(hex_round_trips),
        cmocka_unit_test(utf8_takes_every_code_point),
        cmocka_unit_test(utf8_takes_nothing_else),
        cmocka_unit_test(utf8_names_the_bad_byte),
        cmocka_unit_test(sha_known_answers),
        cmocka_unit_test(sha_fields),
        cmocka_unit_test(sha_failure_sticks),
        cmocka_unit_test(xxh_known_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
