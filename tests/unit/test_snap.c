/* Streams: what is written is read back, on files and pipes; tails, sections, concatenation. */
#include "tests/unit/snap_rig.h"

#include <pthread.h>
#include <sys/wait.h>
#include <zstd.h>

static struct akv_head head;

static int setup(void **state)
{
    (void)state;
    rig_head(&head, "0123");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    akv_head_release(&head);
    return 0;
}

static void assert_page(const struct akv_page_rec *got, const struct page *want)
{
    struct akv_buf body;
    struct akv_coder coder = {0};
    struct akv_err err = {0};
    akv_buf_init(&body, 0);
    assert_memory_equal(&got->key, &want->rec.key, sizeof got->key);
    assert_memory_equal(&got->parent, &want->rec.parent, sizeof got->parent);
    assert_int_equal(got->index, want->rec.index);
    assert_int_equal(got->n_tokens, want->rec.n_tokens);
    assert_int_equal(got->codec, want->rec.codec);
    assert_memory_equal(got->ids, want->ids, got->n_tokens * sizeof *got->ids);
    assert_ok(akv_page_check(&coder, &head.geom, got, &body, &err), &err);
    assert_int_equal(body.len, want->rec.raw_bytes);
    assert_memory_equal(body.data, want->body, body.len);
    akv_buf_release(&body);
    akv_coder_release(&coder);
}

/* The events of a stream as letters: h p P(open) q e; the last error's code follows when there is one, as a digit. */
static void events_of(int fd, char *out, size_t size, struct akv_err *err)
{
    struct akv_in in;
    struct akv_reader *r;
    size_t n = 0;
    assert_ok(akv_in_open(&in, fd, "in", NULL), err);
    assert_ok(akv_reader_open(&r, &in, err), err);
    int ev;
    while ((ev = akv_reader_next(r, err)) > 0) {
        assert_true(n + 2 < size);
        out[n++] = ev == AKV_EV_PAGE && akv_reader_page_open(r) ? 'P' : "?hpqe"[ev];
    }
    if (ev < 0)
        out[n++] = (char)('0' - ev);
    out[n] = '\0';
    akv_reader_close(r);
    akv_in_release(&in);
}

static void assert_events(const struct akv_buf *b, const char *want, struct akv_err *err)
{
    char got[256];
    struct akv_err here = {0};
    int fd = rig_file(b->data, b->len);
    events_of(fd, got, sizeof got, err ? err : &here);
    assert_string_equal(got, want);
    close(fd);
}

static void check_round_trip(int fd, const struct chain *c, const char *request)
{
    struct akv_in in;
    struct akv_reader *r;
    struct akv_err err = {0};
    size_t len, n;
    assert_ok(akv_in_open(&in, fd, "in", &err), &err);
    assert_ok(akv_reader_open(&r, &in, &err), &err);
    assert_int_equal(akv_reader_next(r, &err), AKV_EV_HEAD);
    assert_int_equal(akv_head_match(akv_reader_head(r), &head, &err), 0);
    assert_int_equal(akv_reader_offset(r), 0);
    for (size_t i = 0; i < c->n; i++) {
        assert_int_equal(akv_reader_next(r, &err), AKV_EV_PAGE);
        assert_page(akv_reader_page(r), &c->pages[i]);
        assert_false(akv_reader_page_open(r));
        assert_int_equal(akv_reader_type(r), 'P');
        assert_int_equal(akv_reader_header_bytes(r), 160 + 4 * c->pages[i].rec.n_tokens);
        assert_int_equal(akv_reader_record(r), i + 2);
    }
    assert_int_equal(akv_reader_next(r, &err), AKV_EV_REQUEST);
    const char *q = akv_reader_request(r, &len);
    assert_int_equal(len, strlen(request));
    assert_string_equal(q, request);
    assert_int_equal(akv_reader_next(r, &err), AKV_EV_SECTION_END);
    const struct akv_key *tips = akv_reader_tips(r, &n);
    assert_int_equal(n, 1);
    assert_true(akv_key_eq(tips, &c->pages[c->n - 1].rec.key));
    assert_int_equal(akv_reader_next(r, &err), AKV_EV_END);
    akv_reader_close(r);
    akv_in_release(&in);
}

/* A chain with tail and request comes back byte for byte in both codecs. */
static void round_trip_file(void **state)
{
    (void)state;
    for (int codec = AKV_CODEC_RAW; codec <= AKV_CODEC_PLANES; codec++) {
        struct chain c;
        struct akv_buf b;
        rig_chain(&c, &head, 1, 150, (enum akv_codec)codec);
        assert_int_equal(c.pages[0].rec.codec, codec);
        rig_stream(&b, &head, &c, "{\"akv\":\"tokens/1\"}");
        int fd = rig_file(b.data, b.len);
        check_round_trip(fd, &c, "{\"akv\":\"tokens/1\"}");
        close(fd);
        akv_buf_release(&b);
        rig_chain_free(&c);
    }
}

struct drip {
    int fd;
    const struct akv_buf *b;
};

static void *drip_bytes(void *arg)
{
    struct drip *d = arg;
    for (size_t i = 0; i < d->b->len; i++)
        if (write(d->fd, d->b->data + i, 1) != 1)
            break;
    close(d->fd);
    return NULL;
}

/* D11: the same through a pipe that delivers single bytes. */
static void round_trip_slow_pipe(void **state)
{
    (void)state;
    struct chain c;
    struct akv_buf b;
    int ends[2];
    pthread_t t;
    rig_chain(&c, &head, 2, 100, AKV_CODEC_PLANES);
    rig_stream(&b, &head, &c, "{}");
    assert_int_equal(pipe(ends), 0);
    struct drip d = {ends[1], &b};
    assert_int_equal(pthread_create(&t, NULL, drip_bytes, &d), 0);
    check_round_trip(ends[0], &c, "{}");
    pthread_join(t, NULL);
    close(ends[0]);
    akv_buf_release(&b);
    rig_chain_free(&c);
}

/* The same input gives the same bytes. */
static void same_bytes_again(void **state)
{
    (void)state;
    struct chain c, d;
    struct akv_buf x, y;
    rig_chain(&c, &head, 3, 150, AKV_CODEC_PLANES);
    rig_chain(&d, &head, 3, 150, AKV_CODEC_PLANES);
    rig_stream(&x, &head, &c, "{\"n\":150}");
    rig_stream(&y, &head, &d, "{\"n\":150}");
    assert_int_equal(x.len, y.len);
    assert_memory_equal(x.data, y.data, x.len);
    akv_buf_release(&x);
    akv_buf_release(&y);
    rig_chain_free(&c);
    rig_chain_free(&d);
}

/* The zstd tool, where there is one, accepts what we write, stored blocks included, and decodes a raw body to the KV bytes. */
static void zstd_tool_reads_it(void **state)
{
    (void)state;
    if (system("command -v zstd > /dev/null 2>&1") != 0)
        skip();
    for (int codec = AKV_CODEC_RAW; codec <= AKV_CODEC_PLANES; codec++) {
        struct chain c;
        struct akv_buf b;
        char path[] = "/tmp/akv-test-XXXXXX", cmd[256];
        rig_chain(&c, &head, 4, 64, (enum akv_codec)codec);
        rig_stream(&b, &head, &c, "{}");
        int fd = mkstemp(path);
        assert_int_equal(write(fd, b.data, b.len), b.len);
        close(fd);
        snprintf(cmd, sizeof cmd, "zstd -tq < %s", path);
        assert_int_equal(system(cmd), 0);
        snprintf(cmd, sizeof cmd, "zstd -dcq < %s > %s.out", path, path);
        assert_int_equal(system(cmd), 0);
        snprintf(cmd, sizeof cmd, "%s.out", path);
        fd = open(cmd, O_RDONLY);
        struct akv_buf out;
        rig_slurp(fd, &out);
        assert_int_equal(out.len, c.pages[0].rec.raw_bytes);
        if (codec == AKV_CODEC_RAW)
            assert_memory_equal(out.data, c.pages[0].body, out.len);
        close(fd);
        unlink(cmd);
        unlink(path);
        akv_buf_release(&out);
        akv_buf_release(&b);
        rig_chain_free(&c);
    }
}

/* ---- codecs ---- */

/* A fresh coder writes the same bytes as the one that was used before. */
static void assert_coded_alike(const struct akv_geom *g, const uint8_t *body, size_t n, enum akv_codec want,
                               const struct akv_buf *have)
{
    struct akv_coder fresh = {0};
    struct akv_buf out;
    struct akv_err err = {0};
    enum akv_codec used;
    akv_buf_init(&out, 0);
    assert_ok(akv_body_encode(&fresh, g, body, n, want, &used, &out, &err), &err);
    assert_int_equal(out.len, have->len);
    assert_memory_equal(out.data, have->data, out.len);
    akv_buf_release(&out);
    akv_coder_release(&fresh);
}

/* From a file and from memory, with other bytes behind it: the body, and the input stands at those bytes. */
static void assert_read_alike(struct akv_coder *c, const struct akv_geom *g, const struct akv_page_rec *rec, const uint8_t *body)
{
    size_t n = (size_t)rec->raw_bytes;
    uint8_t *back = malloc(n), small[100], *file = malloc(rec->coded_bytes + 3), end[4];
    memcpy(file, rec->coded, rec->coded_bytes);
    memcpy(file + rec->coded_bytes, "end", 3);
    for (int in_memory = 0; in_memory < 2; in_memory++) {
        struct akv_in in;
        struct akv_err err = {0};
        int fd = rig_file(file, rec->coded_bytes + 3);
        if (in_memory)
            assert_ok(akv_in_memory(&in, file, rec->coded_bytes + 3, "memory", &err), &err);
        else
            assert_ok(akv_in_open_with(&in, fd, small, sizeof small, "file", &err), &err);
        memset(back, 0, n);
        assert_ok(akv_body_read(c, g, &in, rec, akv_xxh64(rec->coded, rec->coded_bytes), back, &err), &err);
        assert_memory_equal(back, body, n);
        assert_int_equal(akv_in_read(&in, end, 3, &err), 1);
        assert_memory_equal(end, "end", 3);
        assert_int_equal(akv_in_read(&in, end, 1, &err), 0);
        akv_in_release(&in);
        close(fd);
    }
    free(back);
    free(file);
}

/* Bodies over several blocks, in both widths: round trip, plain zstd reads the raw frame, noise falls back to raw. */
static void codecs_of_large_bodies(void **state)
{
    (void)state;
    const struct akv_geom geoms[] = {{.n_layers = 30, .n_kv_heads = 3, .dim_k = 64, .dim_v = 64, .dtype = AKV_KV_F16},
                                     {.n_layers = 7, .n_kv_heads = 3, .dim_k = 64, .dim_v = 32, .dtype = AKV_KV_F32}};
    for (size_t k = 0; k < 2; k++) {
        const struct akv_geom *g = &geoms[k];
        size_t n = 37 * akv_geom_token_bytes(g), width = akv_geom_elem(g);
        uint8_t *body = malloc(n), *back = malloc(n);
        struct akv_buf out;
        struct akv_coder used_before = {0};
        struct akv_err err = {0};
        uint32_t x = 1;
        for (size_t i = 0; i < n; i++) {
            x = x * 1664525u + 1013904223u;
            body[i] = i % width == width - 1 ? 0x3c : (uint8_t)(x >> 24);
        }
        for (int want = AKV_CODEC_RAW; want <= AKV_CODEC_PLANES; want++) {
            struct akv_page_rec rec = {.raw_bytes = n, .n_tokens = 37};
            akv_buf_init(&out, 0);
            assert_ok(akv_body_encode(&used_before, g, body, n, (enum akv_codec)want, &rec.codec, &out, &err), &err);
            assert_int_equal(rec.codec, want);
            assert_coded_alike(g, body, n, (enum akv_codec)want, &out);
            rec.coded = (const uint8_t *)out.data;
            rec.coded_bytes = out.len;
            assert_read_alike(&used_before, g, &rec, body);
            memset(back, 0, n);
            assert_ok(akv_body_decode(&used_before, g, &rec, back, &err), &err);
            assert_memory_equal(back, body, n);
            uint8_t *page = malloc(akv_geom_page_bytes(g));
            assert_ok(akv_page_decode(&used_before, g, &rec, page, &err), &err);
            memset(back, 0, n);
            akv_page_to_body(g, back, page, 37);
            assert_memory_equal(back, body, n);
            free(page);
            assert_int_equal(ZSTD_decompress(back, n, out.data, out.len), n);
            if (want == AKV_CODEC_RAW)
                assert_int_equal(out.len, n + 14 + 3 * ((n + 131071) / 131072));
            akv_buf_release(&out);
        }
        for (size_t i = 0; i < n; i++) {
            x = x * 1664525u + 1013904223u;
            body[i] = (uint8_t)(x >> 24);
        }
        enum akv_codec used;
        akv_buf_init(&out, 0);
        assert_ok(akv_body_encode(&used_before, g, body, n, AKV_CODEC_PLANES, &used, &out, &err), &err);
        assert_int_equal(used, AKV_CODEC_RAW);
        akv_buf_release(&out);
        akv_coder_release(&used_before);
        free(body);
        free(back);
    }
}

/* ---- tails ---- */

/* A run restored at any cut writes the bytes of a cold run: the tail it started from is dropped when the longer page comes. */
static void restored_at_every_cut(void **state)
{
    (void)state;
    struct chain cold, part;
    struct akv_buf want, got;
    struct akv_err err = {0};
    rig_chain(&cold, &head, 5, 150, AKV_CODEC_PLANES);
    rig_stream(&want, &head, &cold, "{}");
    for (uint32_t cut = 1; cut <= 150; cut++) {
        struct akv_writer *w;
        int fd = rig_temp();
        rig_chain(&part, &head, 5, cut, AKV_CODEC_PLANES);
        assert_ok(akv_writer_open(&w, fd, "test", &head, &err), &err);
        for (size_t i = 0; i < part.n; i++)
            assert_ok(akv_writer_page(w, &part.pages[i].rec, &err), &err);
        for (size_t i = cut / 64; i < cold.n; i++)
            assert_ok(akv_writer_page(w, &cold.pages[i].rec, &err), &err);
        assert_ok(akv_writer_request(w, "{}", 2, &err), &err);
        assert_ok(akv_writer_close(w, NULL, &err), &err);
        rig_slurp(fd, &got);
        assert_int_equal(got.len, want.len);
        assert_memory_equal(got.data, want.data, want.len);
        akv_buf_release(&got);
        rig_chain_free(&part);
        close(fd);
    }
    akv_buf_release(&want);
    rig_chain_free(&cold);
}

/* A held tail is written before the request that needs it; pages already written are not written again; has() knows both. */
static void tails_and_requests(void **state)
{
    (void)state;
    struct chain a, b;
    struct akv_writer *w;
    struct akv_buf out;
    struct akv_err err = {0};
    uint64_t bytes;
    int fd = rig_temp();
    rig_chain(&a, &head, 6, 100, AKV_CODEC_RAW);
    rig_chain(&b, &head, 6, 120, AKV_CODEC_RAW);
    assert_ok(akv_writer_open(&w, fd, "test", &head, &err), &err);
    assert_false(akv_writer_has(w, &a.pages[1].rec.key));
    for (size_t i = 0; i < a.n; i++)
        assert_ok(akv_writer_page(w, &a.pages[i].rec, &err), &err);
    assert_true(akv_writer_has(w, &a.pages[0].rec.key));
    assert_true(akv_writer_has(w, &a.pages[1].rec.key));
    assert_ok(akv_writer_request(w, "1", 1, &err), &err);
    for (size_t i = 0; i < b.n; i++)
        assert_ok(akv_writer_page(w, &b.pages[i].rec, &err), &err);
    assert_ok(akv_writer_page(w, &a.pages[1].rec, &err), &err); /* written before */
    assert_ok(akv_writer_request(w, "2", 1, &err), &err);
    assert_ok(akv_writer_close(w, &bytes, &err), &err);
    rig_slurp(fd, &out);
    assert_int_equal(out.len, bytes);
    assert_events(&out, "hppqpqe", NULL);
    akv_buf_release(&out);
    close(fd);
    rig_chain_free(&a);
    rig_chain_free(&b);
}

/* The delta of a longer chain over an anchor: excluded pages stay out, and anchor + delta is the cold chain plus the old tail. */
static void delta_over_an_anchor(void **state)
{
    (void)state;
    struct chain anchor, whole;
    struct akv_buf a, d;
    struct akv_writer *w;
    struct akv_err err = {0};
    struct akv_key *tips;
    size_t n;
    int fd = rig_temp();
    rig_chain(&anchor, &head, 7, 100, AKV_CODEC_PLANES);
    rig_chain(&whole, &head, 7, 180, AKV_CODEC_PLANES);
    rig_stream(&a, &head, &anchor, NULL);
    assert_ok(akv_writer_open(&w, fd, "test", &head, &err), &err);
    for (size_t i = 0; i < anchor.n; i++)
        assert_ok(akv_writer_exclude(w, &anchor.pages[i].rec.key, &err), &err);
    for (size_t i = 0; i < whole.n; i++)
        assert_ok(akv_writer_page(w, &whole.pages[i].rec, &err), &err);
    assert_ok(akv_writer_request(w, "{}", 2, &err), &err);
    assert_ok(akv_writer_close(w, NULL, &err), &err);
    rig_slurp(fd, &d);
    assert_events(&d, "hPPqe", NULL);
    akv_buf_add(&a, d.data, d.len);
    assert_events(&a, "hppehppqe", NULL);

    struct akv_in in;
    struct akv_reader *r;
    int cat = rig_file(a.data, a.len);
    assert_ok(akv_in_open(&in, cat, "in", &err), &err);
    assert_ok(akv_reader_open(&r, &in, &err), &err);
    while (akv_reader_next(r, &err) > 0)
        continue;
    assert_int_equal(err.code, 0);
    assert_ok(akv_reader_all_tips(r, &tips, &n, &err), &err);
    assert_int_equal(n, 1); /* the anchor's tail was outgrown */
    assert_true(akv_key_eq(&tips[0], &whole.pages[2].rec.key));
    free(tips);
    akv_reader_close(r);
    akv_in_release(&in);
    close(cat);
    close(fd);
    akv_buf_release(&a);
    akv_buf_release(&d);
    rig_chain_free(&anchor);
    rig_chain_free(&whole);
}

/* A tail from which a run started is dropped also when the page that outgrows it is left out as known elsewhere. */
static void excluded_page_outgrows(void **state)
{
    (void)state;
    struct chain cut, whole;
    struct akv_writer *w;
    struct akv_buf out;
    struct akv_err err = {0};
    int fd = rig_temp();
    rig_chain(&cut, &head, 12, 30, AKV_CODEC_RAW);
    rig_chain(&whole, &head, 12, 50, AKV_CODEC_RAW);
    assert_ok(akv_writer_open(&w, fd, "test", &head, &err), &err);
    assert_ok(akv_writer_exclude(w, &whole.pages[0].rec.key, &err), &err);
    assert_ok(akv_writer_page(w, &cut.pages[0].rec, &err), &err);
    assert_ok(akv_writer_page(w, &whole.pages[0].rec, &err), &err);
    assert_ok(akv_writer_request(w, "{}", 2, &err), &err);
    assert_ok(akv_writer_page(w, &cut.pages[0].rec, &err), &err);
    akv_writer_outgrow(w, 0, NULL, whole.pages[0].ids, 50); /* the same without offering it */
    assert_false(akv_writer_has(w, &cut.pages[0].rec.key));
    assert_ok(akv_writer_request(w, "{}", 2, &err), &err);
    assert_ok(akv_writer_close(w, NULL, &err), &err);
    rig_slurp(fd, &out);
    assert_events(&out, "hqqe", NULL);
    akv_buf_release(&out);
    close(fd);
    rig_chain_free(&cut);
    rig_chain_free(&whole);
}

/*
 * The writer refuses a page before its parent, other bytes under a known key, and a page that lies about itself; then it writes
 * no more.
 */
static void writer_refuses(void **state)
{
    (void)state;
    for (int what = 0; what < 5; what++) {
        struct chain c;
        struct akv_writer *w;
        struct akv_err err = {0};
        int fd = rig_temp();
        rig_chain(&c, &head, 8, 100, AKV_CODEC_RAW);
        struct akv_page_rec other = c.pages[what == 2 ? 1 : 0].rec;
        assert_ok(akv_writer_open(&w, fd, "test", &head, &err), &err);
        if (what == 0) {
            assert_int_equal(akv_writer_page(w, &c.pages[1].rec, &err), AKV_E_USAGE);
        } else {
            assert_ok(akv_writer_page(w, &c.pages[0].rec, &err), &err);
            assert_ok(akv_writer_page(w, &c.pages[1].rec, &err), &err);
            if (what <= 2)
                other.raw_sha[0] ^= 1;
            else if (what == 3)
                other.raw_bytes--;
            else
                other.key.b[3] ^= 1;
            assert_int_equal(akv_writer_page(w, &other, &err), AKV_E_INPUT);
            if (what <= 2)
                assert_non_null(strstr(err.msg, "exactness"));
        }
        assert_true(akv_writer_request(w, "{}", 2, NULL) < 0);
        assert_true(akv_writer_close(w, NULL, NULL) < 0);
        close(fd);
        rig_chain_free(&c);
    }
}

/* A head whose root is not the hash of its ingredients is refused before anything is written, unless a salt is among them. */
static void writer_checks_the_head(void **state)
{
    (void)state;
    struct akv_head h;
    struct akv_writer *w;
    rig_head(&h, "0123");
    h.root.b[0] ^= 1;
    assert_int_equal(akv_writer_open(&w, 1, "test", &h, NULL), AKV_E_INPUT);
    assert_null(w);
    free((void *)(uintptr_t)h.fields[1].tag);
    h.fields[1].tag = strdup("salted");
    assert_int_equal(akv_writer_open(&w, 1, "test", &h, NULL), 0);
    akv_writer_abort(w);
    h.geom.n_layers = 1025;
    assert_int_equal(akv_writer_open(&w, 1, "test", &h, NULL), AKV_E_INPUT);
    akv_head_release(&h);
}

/* The order in which the ingredients are given does not show in the stream. */
static void order_of_ingredients(void **state)
{
    (void)state;
    struct akv_root_field mixed[3] = {head.fields[2], head.fields[0], head.fields[1]};
    struct akv_head other = {.geom = head.geom, .root = head.root, .fields = mixed, .n_fields = 3};
    struct chain none = {.n = 0};
    struct akv_buf x, y;
    rig_stream(&x, &head, &none, NULL);
    rig_stream(&y, &other, &none, NULL);
    assert_int_equal(x.len, y.len);
    assert_memory_equal(x.data, y.data, x.len);
    akv_buf_release(&x);
    akv_buf_release(&y);
}

/* A full device is an error of the write that meets it. */
static void writer_on_full_device(void **state)
{
    (void)state;
    struct akv_writer *w;
    struct akv_err err = {0};
    int fd = open("/dev/full", O_WRONLY);
    if (fd < 0)
        skip();
    assert_ok(akv_writer_open(&w, fd, "out.akv", &head, &err), &err);
    assert_int_equal(akv_writer_close(w, NULL, &err), AKV_E_IO);
    assert_non_null(strstr(err.msg, "out.akv"));
    close(fd);
}

/*
 * A writer of very many pages ends the section before its tips outgrow their record, and the reader sees one table over all
 * sections.
 */
static void sections_split(void **state)
{
    (void)state;
    struct akv_head h;
    struct akv_writer *w;
    struct akv_reader *r;
    struct akv_in in;
    struct akv_err err = {0};
    struct page p;
    size_t counts[5] = {0};
    int fd = rig_temp(), ev;
    rig_head(&h, "many");
    h.geom = (struct akv_geom){.n_layers = 1, .n_kv_heads = 1, .dim_k = 1, .dim_v = 1, .dtype = AKV_KV_F16};
    assert_ok(akv_writer_open(&w, fd, "test", &h, &err), &err);
    for (uint32_t i = 0; i < 32001; i++) {
        rig_page(&p, &h, NULL, 0, (uint32_t[]){i, 1}, 2, AKV_CODEC_RAW);
        assert_ok(akv_writer_page(w, &p.rec, &err), &err);
        assert_ok(akv_writer_request(w, "{}", 2, &err), &err);
        akv_buf_release(&p.coded);
    }
    assert_ok(akv_writer_close(w, NULL, &err), &err);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    assert_ok(akv_in_open(&in, fd, "in", &err), &err);
    assert_ok(akv_reader_open(&r, &in, &err), &err);
    while ((ev = akv_reader_next(r, &err)) > 0)
        counts[ev]++;
    assert_ok(ev, &err);
    assert_int_equal(counts[AKV_EV_HEAD], 2);
    assert_int_equal(counts[AKV_EV_SECTION_END], 2);
    assert_int_equal(counts[AKV_EV_PAGE], 32001);
    assert_int_equal(counts[AKV_EV_REQUEST], 32001);
    akv_reader_close(r);
    akv_in_release(&in);
    close(fd);
    akv_head_release(&h);
}

/* ---- concatenation (D10) ---- */

static void cat(struct akv_buf *out, const struct akv_buf *a, const struct akv_buf *b)
{
    akv_buf_init(out, 0);
    akv_buf_add(out, a->data, a->len);
    akv_buf_add(out, b->data, b->len);
}

/*
 * D10: two chains, and one file twice, are accepted, known pages passed over; b before a leaves b open; two models: the field is
 * named.
 */
static void d10_cat(void **state)
{
    (void)state;
    struct chain a, b, other;
    struct akv_buf sa, sb, so, x, delta;
    struct akv_head h2;
    struct akv_err err = {0};
    struct akv_writer *w;
    rig_head(&h2, "4567");
    rig_chain(&a, &head, 9, 100, AKV_CODEC_PLANES);
    rig_chain(&b, &head, 10, 70, AKV_CODEC_RAW);
    rig_chain(&other, &h2, 9, 100, AKV_CODEC_PLANES);
    rig_stream(&sa, &head, &a, "{}");
    rig_stream(&sb, &head, &b, NULL);
    rig_stream(&so, &h2, &other, NULL);

    cat(&x, &sa, &sb);
    assert_events(&x, "hppqehppe", NULL);
    akv_buf_release(&x);

    cat(&x, &sa, &sa);
    assert_events(&x, "hppqehqe", NULL);
    akv_buf_release(&x);

    cat(&x, &sa, &so);
    assert_events(&x, "hppqe4", &err);
    assert_non_null(strstr(err.msg, "record 6"));
    assert_non_null(strstr(err.msg, "weights is 0123, here it is 4567"));
    akv_err_clear(&err);
    akv_buf_release(&x);

    /* b: only the second page of a's chain */
    int fd = rig_temp();
    assert_ok(akv_writer_open(&w, fd, "test", &head, &err), &err);
    assert_ok(akv_writer_exclude(w, &a.pages[0].rec.key, &err), &err);
    assert_ok(akv_writer_page(w, &a.pages[1].rec, &err), &err);
    assert_ok(akv_writer_close(w, NULL, &err), &err);
    rig_slurp(fd, &delta);
    close(fd);
    cat(&x, &delta, &sa);
    assert_events(&x, "hPehpqe", NULL);
    akv_buf_release(&x);

    akv_buf_release(&delta);
    akv_buf_release(&sa);
    akv_buf_release(&sb);
    akv_buf_release(&so);
    rig_chain_free(&a);
    rig_chain_free(&b);
    rig_chain_free(&other);
    akv_head_release(&h2);
}

/* Heads: a differing, a missing and an added ingredient, another geometry and another salt are each named. */
static void heads_name_the_difference(void **state)
{
    (void)state;
    struct akv_root_field base[] = {{"a", "1"}, {"b", "2"}}, other[] = {{"a", "1"}, {"c", "3"}},
                          more[] = {{"a", "1"}, {"b", "2"}, {"d", "4"}};
    struct akv_head x = {.fields = base, .n_fields = 2}, y = {.fields = other, .n_fields = 2}, z = {.fields = more, .n_fields = 3};
    struct akv_err err = {0};
    assert_int_equal(akv_head_match(&x, &x, &err), 0);
    assert_int_equal(akv_head_match(&x, &y, &err), AKV_E_INCOMPAT);
    assert_string_equal(err.msg, "b is 2, here it is absent");
    akv_err_clear(&err);
    assert_int_equal(akv_head_match(&x, &z, &err), AKV_E_INCOMPAT);
    assert_string_equal(err.msg, "d is absent, here it is 4");
    akv_err_clear(&err);
    struct akv_head g = x;
    g.geom.dim_v = 8;
    assert_int_equal(akv_head_match(&x, &g, &err), AKV_E_INCOMPAT);
    assert_string_equal(err.msg, "V dimensions per head is 0, here it is 8");
    akv_err_clear(&err);
    g = x;
    g.root.b[0] = 1;
    assert_int_equal(akv_head_match(&x, &g, &err), AKV_E_INCOMPAT);
    assert_non_null(strstr(err.msg, "salt"));
}

/* Headers alone: the same events, bodies passed over. */
static void headers_only(void **state)
{
    (void)state;
    struct chain c;
    struct akv_buf b;
    struct akv_in in;
    struct akv_reader *r;
    struct akv_err err = {0};
    int ev, n = 0;
    rig_chain(&c, &head, 11, 150, AKV_CODEC_RAW);
    rig_stream(&b, &head, &c, "{}");
    int fd = rig_file(b.data, b.len);
    assert_ok(akv_in_open(&in, fd, "in", &err), &err);
    assert_ok(akv_reader_open(&r, &in, &err), &err);
    akv_reader_headers_only(r);
    while ((ev = akv_reader_next(r, &err)) > 0)
        if (ev == AKV_EV_PAGE) {
            assert_null(akv_reader_page(r)->coded);
            assert_true(akv_key_eq(&akv_reader_page(r)->key, &c.pages[n++].rec.key));
        }
    assert_ok(ev, &err);
    assert_int_equal(n, 3);
    akv_reader_close(r);
    akv_in_release(&in);
    close(fd);
    akv_buf_release(&b);
    rig_chain_free(&c);
}

/* The first 16 bytes tell a stream from other things. */
static void knows_a_stream(void **state)
{
    (void)state;
    struct chain c = {.n = 0};
    struct akv_buf b;
    rig_stream(&b, &head, &c, NULL);
    assert_true(akv_is_stream((const uint8_t *)b.data, 16));
    assert_false(akv_is_stream((const uint8_t *)b.data, 15));
    assert_false(akv_is_stream((const uint8_t *)"{\"akv\":\"tokens/1\",", 18));
    assert_false(akv_is_stream((const uint8_t *)"GGUF\3\0\0\0\0\0\0\0\0\0\0\0", 16));
    akv_buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip_file),
        cmocka_unit_test(round_trip_slow_pipe),
        cmocka_unit_test(same_bytes_again),
        cmocka_unit_test(zstd_tool_reads_it),
        cmocka_unit_test(codecs_of_large_bodies),
        cmocka_unit_test(restored_at_every_cut),
        cmocka_unit_test(tails_and_requests),
        cmocka_unit_test(delta_over_an_anchor),
        cmocka_unit_test(excluded_page_outgrows),
        cmocka_unit_test(writer_refuses),
        cmocka_unit_test(writer_checks_the_head),
        cmocka_unit_test(order_of_ingredients),
        cmocka_unit_test(writer_on_full_device),
        cmocka_unit_test(sections_split),
        cmocka_unit_test(d10_cat),
        cmocka_unit_test(heads_name_the_difference),
        cmocka_unit_test(headers_only),
        cmocka_unit_test(knows_a_stream),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
