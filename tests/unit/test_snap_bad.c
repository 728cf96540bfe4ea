/* Streams that are damaged, hostile or from the future (D1, D2). */
#include "tests/unit/snap_rig.h"

#include <sys/resource.h>
#include <zstd.h>

#include "base/hash.h"

static struct akv_head head;
static struct chain chain;
static struct akv_buf stream; /* H P P Q E */

static int setup(void **state)
{
    (void)state;
    rig_head(&head, "0123");
    rig_chain(&chain, &head, 1, 67, AKV_CODEC_PLANES);
    rig_stream(&stream, &head, &chain, "{\"id\":\"r1\"}");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    akv_buf_release(&stream);
    rig_chain_free(&chain);
    akv_head_release(&head);
    return 0;
}

/* Read to the end: the last result. Every page handed out must be one of the chain's, whole and right. n_events counts. */
static int read_all(const void *p, size_t n, size_t *n_events, struct akv_err *err)
{
    struct akv_in in;
    struct akv_reader *r;
    struct akv_buf body;
    struct akv_coder coder = {0};
    int fd = rig_file(p, n), ev;
    akv_buf_init(&body, 0);
    assert_ok(akv_in_open(&in, fd, "in", err), err);
    assert_ok(akv_reader_open(&r, &in, err), err);
    *n_events = 0;
    while ((ev = akv_reader_next(r, err)) > 0) {
        ++*n_events;
        if (ev != AKV_EV_PAGE)
            continue;
        const struct akv_page_rec *rec = akv_reader_page(r);
        const struct page *want = &chain.pages[rec->index != 0];
        assert_true(akv_key_eq(&rec->key, &want->rec.key));
        assert_int_equal(akv_page_check(&coder, &head.geom, rec, &body, NULL), 0);
        assert_memory_equal(body.data, want->body, want->rec.raw_bytes);
    }
    if (ev < 0) /* an error stays one */
        assert_int_equal(akv_reader_next(r, NULL), ev);
    akv_reader_close(r);
    akv_in_release(&in);
    akv_buf_release(&body);
    akv_coder_release(&coder);
    close(fd);
    return ev;
}

static void assert_refused(const struct akv_buf *b, int code, const char *why)
{
    struct akv_err err = {0};
    size_t n;
    int rc = read_all(b->data, b->len, &n, &err);
    if (rc != code || !strstr(err.msg, why) || !strstr(err.msg, "record "))
        fail_msg("got %d '%s', expected %d '%s'", rc, err.msg, code, why);
}

/* ---- damage ---- */

/* D1: cut anywhere, the stream is refused with exit class 3 and the number of the record; what came before is right. */
static void d1_cut_everywhere(void **state)
{
    (void)state;
    for (size_t cut = 1; cut < stream.len; cut++) {
        struct akv_err err = {0};
        size_t n;
        int rc = read_all(stream.data, cut, &n, &err);
        assert_int_equal(rc, AKV_E_INPUT);
        assert_non_null(strstr(err.msg, "record "));
        assert_true(n < 5);
    }
}

/* D1: no single flipped bit gets through, nor is one taken for another version. */
static void d1_every_bit(void **state)
{
    (void)state;
    for (size_t i = 0; i < stream.len * 8; i++) {
        struct akv_err err = {0};
        size_t n;
        stream.data[i / 8] ^= (char)(1 << i % 8);
        int rc = read_all(stream.data, stream.len, &n, &err);
        stream.data[i / 8] ^= (char)(1 << i % 8);
        if (rc != AKV_E_INPUT || !strstr(err.msg, "record "))
            fail_msg("byte %zu bit %zu: %d '%s'", i / 8, i % 8, rc, err.msg);
    }
}

/* ---- forgery: a stream taken apart, changed, and sealed again ---- */

/* Offset of record k (from 0) in the stream; its body's length in *body. */
static size_t record_at(const struct akv_buf *b, size_t k, size_t *body)
{
    size_t at = 0;
    for (;; k--) {
        const uint8_t *p = (const uint8_t *)b->data + at;
        *body = (size_t)akv_get_u64(p + 8 + 16);
        if (k == 0)
            return at;
        at += 8 + akv_get_u32(p + 4) + *body;
    }
}

static void seal(uint8_t *frame)
{
    uint8_t *payload = frame + 8;
    size_t n = akv_get_u32(frame + 4);
    akv_put_u64(payload + n - 8, akv_xxh64(payload, n - 8));
}

/* A copy of the stream in which `bytes` stand at offset `field` of record k's payload, under a right checksum. */
static void forge(struct akv_buf *out, size_t k, size_t field, const void *bytes, size_t n)
{
    size_t body;
    akv_buf_init(out, 0);
    akv_buf_add(out, stream.data, stream.len);
    size_t at = record_at(out, k, &body);
    memcpy(out->data + at + 8 + field, bytes, n);
    seal((uint8_t *)out->data + at);
}

static void refuse_forged(size_t k, size_t field, uint64_t value, size_t width, int code, const char *why)
{
    uint8_t le[8];
    struct akv_buf b;
    akv_put_u64(le, value);
    forge(&b, k, field, le, width);
    assert_refused(&b, code, why);
    akv_buf_release(&b);
}

/* D2: counts and sizes beyond all bounds are refused by name, with an address space that could not hold them. */
static void d2_huge_claims(void **state)
{
    (void)state;
    struct rlimit old, low;
    assert_int_equal(getrlimit(RLIMIT_AS, &old), 0);
    low = old;
#if !defined(__SANITIZE_ADDRESS__)
    low.rlim_cur = (rlim_t)1 << 30;
#endif
    assert_int_equal(setrlimit(RLIMIT_AS, &low), 0);
    refuse_forged(0, 60, UINT32_MAX, 4, AKV_E_INPUT, "layers");
    refuse_forged(0, 60, 0, 4, AKV_E_INPUT, "layers");
    refuse_forged(0, 64, 1025, 4, AKV_E_INPUT, "kv heads");
    refuse_forged(0, 68, 4097, 4, AKV_E_INPUT, "K dimensions");
    refuse_forged(0, 72, 1u << 31, 4, AKV_E_INPUT, "V dimensions");
    refuse_forged(0, 76, 2, 4, AKV_E_INCOMPAT, "dtype");
    refuse_forged(0, 80, 128, 4, AKV_E_INCOMPAT, "page size is 128, here it is 64");
    refuse_forged(0, 84, UINT32_MAX, 4, AKV_E_INPUT, "ingredients");
    refuse_forged(0, 84, 1000, 4, AKV_E_INPUT, "passes its end");
    refuse_forged(0, 88, UINT32_MAX, 4, AKV_E_INPUT, "passes its end");
    refuse_forged(0, 84, 2, 4, AKV_E_INPUT, "do not fit");
    refuse_forged(1, 12, 152 + 4 * 64, 4, AKV_E_INPUT, "two sizes differ");
    refuse_forged(1, 92, 1u << 25, 4, AKV_E_INPUT, "out of range");
    refuse_forged(1, 96, UINT32_MAX, 4, AKV_E_INPUT, "tokens");
    refuse_forged(1, 96, 0, 4, AKV_E_INPUT, "tokens");
    refuse_forged(1, 96, 63, 4, AKV_E_INPUT, "do not fit");
    refuse_forged(1, 100, 2, 4, AKV_E_INCOMPAT, "codec 2");
    refuse_forged(1, 104, UINT64_C(1) << 63, 8, AKV_E_INPUT, "raw size");
    refuse_forged(1, 16, UINT64_C(1) << 63, 8, AKV_E_INPUT, "body of");
    refuse_forged(1, 16, 0, 8, AKV_E_INPUT, "body of");
    refuse_forged(3, 16, 1, 8, AKV_E_INPUT, "with a body");
    refuse_forged(4, 28, UINT64_C(1) << 63, 8, AKV_E_INPUT, "its end says");
    refuse_forged(4, 36, UINT32_MAX, 4, AKV_E_INPUT, "do not fit");
    assert_int_equal(setrlimit(RLIMIT_AS, &old), 0);
}

/* A geometry within every single cap whose page would not fit any memory is refused. */
static void huge_geometry(void **state)
{
    (void)state;
    const uint8_t max[20] = {0, 4, 0, 0, 0, 4, 0, 0, 0, 16, 0, 0, 0, 16, 0, 0, 1, 0, 0, 0};
    struct akv_buf b;
    forge(&b, 0, 60, max, sizeof max);
    assert_refused(&b, AKV_E_INPUT, "a page of");
    akv_buf_release(&b);
}

/* A header's own size is held to its cap before it is read. */
static void huge_headers(void **state)
{
    (void)state;
    const struct {
        size_t record;
        uint32_t size;
    } cases[] = {{1, (1u << 20) + 1}, {3, (64u << 20) + 1}, {4, UINT32_MAX}, {1, 35}, {0, 1u << 31}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct akv_buf b;
        struct akv_err err = {0};
        size_t body, n;
        akv_buf_init(&b, 0);
        akv_buf_add(&b, stream.data, stream.len);
        uint8_t *frame = (uint8_t *)b.data + record_at(&b, cases[i].record, &body);
        akv_put_u32(frame + 4, cases[i].size);
        akv_put_u32(frame + 8 + 12, cases[i].size);
        assert_int_equal(read_all(b.data, b.len, &n, &err), AKV_E_INPUT);
        assert_int_equal(n, cases[i].record);
        assert_non_null(strstr(err.msg, cases[i].record ? "limit" : "not an akv stream"));
        akv_buf_release(&b);
    }
}

/* Ids, key, parent and root must agree with each other even under right checksums. */
static void identity_is_checked(void **state)
{
    (void)state;
    uint8_t junk[32];
    struct akv_buf b;
    memset(junk, 7, sizeof junk);
    refuse_forged(1, 152, 99, 4, AKV_E_INPUT, "do not hash to its key");
    refuse_forged(1, 28, 1, 1, AKV_E_INPUT, "do not hash to its key");
    refuse_forged(1, 92, 1, 4, AKV_E_INPUT, "do not hash to its key");
    refuse_forged(2, 92, 0, 4, AKV_E_INPUT, "only page 0 has no parent");
    refuse_forged(2, 92, 2, 4, AKV_E_INPUT, "its parent is page 0");
    forge(&b, 0, 28, junk, sizeof junk);
    assert_refused(&b, AKV_E_INPUT, "not the hash of its ingredients");
    akv_buf_release(&b);
    forge(&b, 4, 40, junk, sizeof junk);
    assert_refused(&b, AKV_E_INPUT, "a tip that did not come");
    akv_buf_release(&b);
}

/* D1: a valid body of another page of equal size does not pass: not as it is, and not deeply checked under a forged checksum. */
static void d1_spliced_body(void **state)
{
    (void)state;
    struct chain other;
    struct akv_buf b, s, body;
    struct akv_coder coder = {0};
    struct akv_in in;
    struct akv_reader *r;
    struct akv_err err = {0};
    size_t len, n;
    rig_chain(&other, &head, 2, 64, AKV_CODEC_RAW);
    struct chain own;
    rig_chain(&own, &head, 1, 64, AKV_CODEC_RAW);
    rig_stream(&s, &head, &own, NULL);
    akv_buf_init(&b, 0);
    akv_buf_add(&b, s.data, s.len);
    uint8_t *frame = (uint8_t *)b.data + record_at(&b, 1, &len);
    assert_int_equal(len, other.pages[0].rec.coded_bytes);
    memcpy(frame + 8 + akv_get_u32(frame + 4), other.pages[0].rec.coded, len);
    assert_int_equal(read_all(b.data, b.len, &n, &err), AKV_E_INPUT);
    assert_non_null(strstr(err.msg, "the body is damaged"));
    akv_err_clear(&err);

    akv_put_u64(frame + 8 + 144, akv_xxh64(other.pages[0].rec.coded, len));
    seal(frame);
    int fd = rig_file(b.data, b.len);
    akv_buf_init(&body, 0);
    assert_ok(akv_in_open(&in, fd, "in", &err), &err);
    assert_ok(akv_reader_open(&r, &in, &err), &err);
    assert_int_equal(akv_reader_next(r, &err), AKV_EV_HEAD);
    assert_int_equal(akv_reader_next(r, &err), AKV_EV_PAGE);
    assert_int_equal(akv_page_check(&coder, &head.geom, akv_reader_page(r), &body, &err), AKV_E_INPUT);
    assert_non_null(strstr(err.msg, "SHA-256"));
    akv_reader_close(r);
    akv_in_release(&in);
    close(fd);
    akv_buf_release(&body);
    akv_coder_release(&coder);
    akv_buf_release(&b);
    akv_buf_release(&s);
    rig_chain_free(&other);
    rig_chain_free(&own);
}

/* The decoder takes nothing but one frame of the right size with a checksum, and survives every flipped bit of it. */
static void decoder_is_strict(void **state)
{
    (void)state;
    struct akv_page_rec rec = chain.pages[0].rec;
    uint8_t body[64 * 32], *copy = malloc(rec.coded_bytes + 8);
    struct akv_coder coder = {0};
    memcpy(copy, rec.coded, rec.coded_bytes);
    memset(copy + rec.coded_bytes, 0, 8);
    rec.coded = copy;
    assert_int_equal(akv_body_decode(&coder, &head.geom, &rec, body, NULL), 0);
    rec.coded_bytes += 8;
    assert_int_equal(akv_body_decode(&coder, &head.geom, &rec, body, NULL), AKV_E_INPUT);
    rec.coded_bytes -= 9;
    assert_int_equal(akv_body_decode(&coder, &head.geom, &rec, body, NULL), AKV_E_INPUT);
    rec.coded_bytes++;
    rec.raw_bytes -= 32;
    assert_int_equal(akv_body_decode(&coder, &head.geom, &rec, body, NULL), AKV_E_INPUT);
    rec.raw_bytes += 32;
    for (size_t i = 0; i < rec.coded_bytes * 8; i++) {
        copy[i / 8] ^= (uint8_t)(1 << i % 8);
        if (akv_body_decode(&coder, &head.geom, &rec, body, NULL) == 0)
            assert_memory_equal(body, chain.pages[0].body, sizeof body); /* an unused bit of the frame */
        copy[i / 8] ^= (uint8_t)(1 << i % 8);
    }
    uint8_t bare[4096]; /* a sound frame, but without a checksum */
    rec.codec = AKV_CODEC_RAW;
    rec.coded = bare;
    rec.coded_bytes = ZSTD_compress(bare, sizeof bare, chain.pages[0].body, sizeof body, 1);
    assert_int_equal(akv_body_decode(&coder, &head.geom, &rec, body, NULL), AKV_E_INPUT);
    akv_coder_release(&coder);
    free(copy);
}

static int read_body(struct akv_coder *c, const struct akv_page_rec *rec, uint64_t xxh, size_t have, uint8_t *body)
{
    struct akv_in in;
    struct akv_err err = {0};
    assert_ok(akv_in_memory(&in, rec->coded, have, "body", &err), &err);
    int rc = akv_body_read(c, &head.geom, &in, rec, xxh, body, &err);
    akv_in_release(&in);
    return rc;
}

/* So does the one that reads: in either codec, cut anywhere, with any bit flipped, or when it is a sound frame but not this one. */
static void read_body_is_strict(void **state)
{
    (void)state;
    struct akv_coder coder = {0};
    for (int codec = AKV_CODEC_RAW; codec <= AKV_CODEC_PLANES; codec++) {
        struct chain own;
        uint8_t body[64 * 32];
        rig_chain(&own, &head, 3, 64, (enum akv_codec)codec);
        struct akv_page_rec rec = own.pages[0].rec;
        assert_int_equal(rec.codec, codec);
        uint8_t *copy = malloc(rec.coded_bytes);
        memcpy(copy, rec.coded, rec.coded_bytes);
        rec.coded = copy;
        uint64_t xxh = akv_xxh64(copy, rec.coded_bytes);
        for (size_t have = 0; have < rec.coded_bytes; have++)
            assert_int_equal(read_body(&coder, &rec, xxh, have, body), AKV_E_INPUT);
        for (size_t i = 0; i < rec.coded_bytes * 8; i++) {
            copy[i / 8] ^= (uint8_t)(1 << i % 8);
            assert_int_equal(read_body(&coder, &rec, xxh, rec.coded_bytes, body), AKV_E_INPUT);
            copy[i / 8] ^= (uint8_t)(1 << i % 8);
        }
        assert_int_equal(read_body(&coder, &rec, xxh ^ 1, rec.coded_bytes, body), AKV_E_INPUT);
        assert_int_equal(read_body(&coder, &rec, xxh, rec.coded_bytes, body), 0);
        assert_memory_equal(body, own.pages[0].body, sizeof body);
        rec.coded_bytes--; /* a header that claims less or more */
        assert_int_equal(read_body(&coder, &rec, akv_xxh64(copy, rec.coded_bytes), rec.coded_bytes, body), AKV_E_INPUT);
        rec.coded_bytes += 2;
        assert_int_equal(read_body(&coder, &rec, xxh, rec.coded_bytes - 1, body), AKV_E_INPUT);
        free(copy);
        rig_chain_free(&own);
    }
    uint8_t noise[64 * 32], large[64 * 32 + 64], body[64 * 32 + 1]; /* a sound frame that coding made larger */
    for (size_t i = 0, x = 1; i < sizeof noise; i++) {
        x = x * 1664525u + 1013904223u;
        noise[i] = (uint8_t)(x >> 24);
    }
    ZSTD_CCtx *z = ZSTD_createCCtx();
    assert_int_equal(ZSTD_isError(ZSTD_CCtx_setParameter(z, ZSTD_c_checksumFlag, 1)), 0);
    struct akv_page_rec rec = chain.pages[0].rec;
    rec.codec = AKV_CODEC_PLANES;
    rec.coded = large;
    rec.coded_bytes = ZSTD_compress2(z, large, sizeof large, noise, sizeof noise);
    assert_true(rec.coded_bytes > rec.raw_bytes && rec.raw_bytes == sizeof noise);
    assert_int_equal(akv_body_decode(&coder, &head.geom, &rec, body, NULL), 0);
    body[sizeof noise] = 0x5a;
    assert_int_equal(read_body(&coder, &rec, akv_xxh64(large, rec.coded_bytes), rec.coded_bytes, body), AKV_E_INPUT);
    assert_int_equal(body[sizeof noise], 0x5a);
    ZSTD_freeCCtx(z);
    akv_coder_release(&coder);
}

/* The same ids with other KV bytes: the reader says that exactness is broken. */
static void broken_exactness(void **state)
{
    (void)state;
    struct akv_buf b;
    size_t body;
    akv_buf_init(&b, 0);
    akv_buf_add(&b, stream.data, stream.len);
    akv_buf_add(&b, stream.data, stream.len);
    uint8_t *frame = (uint8_t *)b.data + record_at(&b, 6, &body);
    frame[8 + 112] ^= 1;
    seal(frame);
    assert_refused(&b, AKV_E_INPUT, "record 7 ");
    assert_refused(&b, AKV_E_INPUT, "exactness is broken");
    akv_buf_release(&b);
}

/* ---- grammar ---- */

/* The stream's records in another order: letters as in "HPE", of the first of each type. */
static void assert_grammar(const char *order, int code, const char *why)
{
    static const char types[] = "HPpQE";
    struct akv_buf b;
    akv_buf_init(&b, 0);
    for (const char *t = order; *t; t++) {
        size_t body, k = (size_t)(strchr(types, *t) - types);
        size_t at = record_at(&stream, k, &body);
        akv_buf_add(&b, stream.data + at, 8 + akv_get_u32((uint8_t *)stream.data + at + 4) + body);
    }
    assert_refused(&b, code, why);
    akv_buf_release(&b);
}

/* Only (H (P | Q)* E)+ is a stream, and E tells the number of its pages. */
static void grammar(void **state)
{
    (void)state;
    assert_grammar("PE", AKV_E_INPUT, "not an akv stream");
    assert_grammar("HPpH", AKV_E_INPUT, "before the last one has ended");
    assert_grammar("HPpEP", AKV_E_INPUT, "outside of a section");
    assert_grammar("HPpEQ", AKV_E_INPUT, "outside of a section");
    assert_grammar("HPpEE", AKV_E_INPUT, "outside of a section");
    assert_grammar("HPE", AKV_E_INPUT, "its end says 2");
    assert_grammar("HPp", AKV_E_INPUT, "truncated");
}

/* Nothing, and things that are no stream, are refused in words. */
static void not_a_stream(void **state)
{
    (void)state;
    struct akv_err err = {0};
    size_t n;
    assert_int_equal(read_all("", 0, &n, &err), AKV_E_INPUT);
    assert_non_null(strstr(err.msg, "empty"));
    akv_err_clear(&err);
    assert_int_equal(read_all("{\"messages\":[{\"role\":\"user\"}]}\n", 31, &n, &err), AKV_E_INPUT);
    assert_non_null(strstr(err.msg, "not an akv stream"));
}

/* ---- other versions ---- */

/*
 * A newer version that we can read is read, one that we cannot is refused with both versions, and so is a flag that we do not
 * know.
 */
static void versions(void **state)
{
    (void)state;
    struct akv_buf b;
    struct akv_err err = {0};
    size_t n;
    uint8_t newer[2] = {2, 0};
    refuse_forged(1, 10, 2, 2, AKV_E_INCOMPAT, "needs a reader of version 2, this one is version 1");
    refuse_forged(1, 24, 4, 4, AKV_E_INCOMPAT, "unknown flags 0x4");
    forge(&b, 1, 8, newer, 2);
    assert_int_equal(read_all(b.data, b.len, &n, &err), AKV_EV_END);
    assert_int_equal(n, 5);
    akv_buf_release(&b);
}

/* Put a record with this type letter and a body of its own behind the head. */
static void with_extra(struct akv_buf *out, char type)
{
    uint8_t frame[8 + 40] = {0x5a, 0x2a, 0x4d, 0x18, 40, 0, 0, 0, 'A', 'K', 'V', 0, 0x0d, 0x0a, 0x1a, 0x0a, 2, 0, 1, 0, 40};
    size_t body, at = record_at(&stream, 1, &body);
    frame[11] = (uint8_t)type;
    akv_put_u64(frame + 8 + 16, 5000);
    seal(frame);
    akv_buf_init(out, 0);
    akv_buf_add(out, stream.data, at);
    akv_buf_add(out, frame, sizeof frame);
    for (int i = 0; i < 5000; i++)
        akv_buf_putc(out, i);
    akv_buf_add(out, stream.data + at, stream.len - at);
}

/* An unknown record is passed over with its body when its letter is lower case, and refused otherwise. */
static void unknown_types(void **state)
{
    (void)state;
    struct akv_buf b;
    struct akv_err err = {0};
    size_t n;
    with_extra(&b, 'x');
    assert_int_equal(read_all(b.data, b.len, &n, &err), AKV_EV_END);
    assert_int_equal(n, 5);
    akv_buf_release(&b);
    with_extra(&b, 'X');
    assert_refused(&b, AKV_E_INCOMPAT, "unknown record type 'X'");
    akv_buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(d1_cut_everywhere), cmocka_unit_test(d1_every_bit),      cmocka_unit_test(d2_huge_claims),
        cmocka_unit_test(huge_geometry),     cmocka_unit_test(huge_headers),      cmocka_unit_test(identity_is_checked),
        cmocka_unit_test(d1_spliced_body),   cmocka_unit_test(decoder_is_strict), cmocka_unit_test(read_body_is_strict),
        cmocka_unit_test(broken_exactness),  cmocka_unit_test(grammar),           cmocka_unit_test(not_a_stream),
        cmocka_unit_test(versions),          cmocka_unit_test(unknown_types),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
