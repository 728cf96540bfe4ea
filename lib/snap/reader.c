/* Reading a stream: one record at a time, everything checked, one body in memory. */
#include "snap/format.h"
#include "snap/known.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK ((size_t)64 << 10)
#define HEADER_PROBE ((size_t)24) /* what akv_header_probe() wants to see */
#define PASSED_OVER 100           /* no event: an unknown optional record, or a page that came before */

struct akv_reader {
    struct akv_in *in;
    struct akv_buf payload; /* of the last record */
    struct akv_buf body;    /* of the last page; rec points here and to ids */
    struct akv_head head;
    struct akv_known known;
    struct akv_header header;
    struct akv_page_rec rec;
    uint32_t ids[AKV_PAGE_TOKENS];
    const struct akv_key *tips;
    char *request; /* in payload */
    size_t n_tips, request_len;
    uint64_t record, offset, section_pages;
    uint64_t body_left; /* bytes of the last record's body that are still on the way */
    uint64_t body_xxh;  /* what the last page's body must hash to */
    bool have_head, in_section, page_open, headers_only;
    int failed;
};

bool akv_is_stream(const uint8_t *p, size_t n)
{
    struct akv_header h;
    uint8_t start[24] = {0};
    if (n < 16)
        return false;
    memcpy(start, p, 16);
    memcpy(start + 20, p + 4, 4); /* the second copy of the size lies beyond */
    return akv_header_probe(&h, start, NULL) == 0 && h.type == 'H';
}

int akv_reader_open(struct akv_reader **out, struct akv_in *in, struct akv_err *err)
{
    struct akv_reader *r = *out = akv_alloc(1, sizeof *r, err);
    if (!r)
        return AKV_E_IO;
    r->in = in;
    akv_buf_init(&r->payload, AKV_REQUEST_MAX);
    akv_buf_init(&r->body, 0);
    return 0;
}

void akv_reader_headers_only(struct akv_reader *r)
{
    r->headers_only = true;
}

void akv_reader_body_read(struct akv_reader *r)
{
    r->body_left = 0;
}

uint64_t akv_reader_body_xxh(const struct akv_reader *r)
{
    return r->body_xxh;
}

void akv_reader_close(struct akv_reader *r)
{
    if (!r)
        return;
    akv_buf_release(&r->payload);
    akv_buf_release(&r->body);
    akv_head_release(&r->head);
    akv_known_release(&r->known);
    free(r);
}

/* Exactly n bytes; the end of the input is an error here. */
static int read_exact(struct akv_reader *r, void *p, size_t n, struct akv_err *err)
{
    struct akv_err why = {0};
    int rc = akv_in_read(r->in, p, n, &why);
    if (rc == 1)
        return 0;
    if (rc < 0 && why.code != AKV_E_INPUT)
        return akv_fail(err, why.code, "%s", why.msg);
    return akv_fail(err, AKV_E_INPUT, "truncated: the input ends at offset %llu", (unsigned long long)r->in->offset);
}

/* Append n bytes to b. Memory grows with what has arrived, never with what a header claims. */
static int read_into(struct akv_reader *r, struct akv_buf *b, uint64_t n, struct akv_err *err)
{
    while (n) {
        size_t step = b->len > CHUNK ? b->len : CHUNK;
        if (step > n)
            step = (size_t)n;
        char *p = akv_buf_reserve(b, step);
        int rc = p ? read_exact(r, p, step, err) : akv_buf_check(b, "record", err);
        if (rc < 0)
            return rc;
        b->len += step;
        b->data[b->len] = '\0';
        n -= step;
    }
    return 0;
}

static int skip_body(struct akv_reader *r, struct akv_err *err)
{
    uint8_t sink[4096];
    while (r->body_left) {
        size_t step = r->body_left < sizeof sink ? (size_t)r->body_left : sizeof sink;
        int rc = read_exact(r, sink, step, err);
        if (rc < 0)
            return rc;
        r->body_left -= step;
    }
    return 0;
}

/* The next record's header into payload. 1, or 0 at the end of the input. */
static int read_header(struct akv_reader *r, struct akv_err *err)
{
    const uint8_t *p;
    r->offset = r->in->offset;
    ssize_t have = akv_in_peek(r->in, &p, HEADER_PROBE, err);
    if (have <= 0)
        return (int)have;
    r->record++;
    if (r->record == 1 && !akv_is_stream(p, (size_t)have))
        return akv_fail(err, AKV_E_INPUT, "not an akv stream");
    if (have < (ssize_t)HEADER_PROBE)
        return akv_fail(err, AKV_E_INPUT, "truncated: the input ends at offset %llu", (unsigned long long)r->offset + (size_t)have);
    int rc = akv_header_probe(&r->header, p, err);
    if (rc < 0)
        return rc;
    akv_buf_clear(&r->payload);
    rc = read_into(r, &r->payload, AKV_FRAME_HEAD + r->header.size, err);
    if (rc == 0)
        rc = akv_header_check(&r->header, (uint8_t *)r->payload.data + AKV_FRAME_HEAD, err);
    r->body_left = r->header.body_bytes;
    return rc < 0 ? rc : 1;
}

static int on_head(struct akv_reader *r, const uint8_t *payload, struct akv_err *err)
{
    struct akv_head head;
    if (r->in_section)
        return akv_fail(err, AKV_E_INPUT, "a section begins before the last one has ended");
    int rc = akv_head_parse(&head, &r->header, payload, err);
    if (rc < 0)
        return rc;
    if (r->have_head) {
        rc = akv_head_match(&r->head, &head, err);
        akv_err_prefix(err, "another root than the sections before");
        akv_head_release(&head);
        if (rc < 0)
            return rc;
    } else {
        r->head = head;
        r->have_head = true;
    }
    r->in_section = true;
    r->section_pages = 0;
    return AKV_EV_HEAD;
}

/* A page's place in its chain. Sets page_open. */
static int check_parent(struct akv_reader *r, struct akv_err *err)
{
    const struct akv_page_rec *p = &r->rec;
    r->page_open = false;
    if (!p->has_parent)
        return 0;
    const struct akv_known_page *parent = akv_known_find(&r->known, &p->parent);
    r->page_open = !parent || parent->open;
    if (parent && (parent->n_tokens != AKV_PAGE_TOKENS || parent->index + 1 != p->index))
        return akv_fail(err, AKV_E_INPUT, "page %lu: its parent is page %lu with %lu tokens", (unsigned long)p->index,
                        (unsigned long)parent->index, (unsigned long)parent->n_tokens);
    return 0;
}

static int read_body(struct akv_reader *r, struct akv_err *err)
{
    const uint8_t *body = akv_in_take(r->in, r->rec.coded_bytes);
    if (!body) {
        akv_buf_clear(&r->body);
        int rc = read_into(r, &r->body, r->body_left, err);
        if (rc < 0)
            return rc;
        body = (const uint8_t *)r->body.data;
    }
    r->body_left = 0;
    if (akv_xxh64(body, r->rec.coded_bytes) != r->body_xxh)
        return akv_fail(err, AKV_E_INPUT, "page %lu: the body is damaged (XXH64 differs)", (unsigned long)r->rec.index);
    r->rec.coded = body;
    return 0;
}

static int on_page(struct akv_reader *r, const uint8_t *payload, struct akv_err *err)
{
    int rc = akv_page_parse(&r->rec, r->ids, &r->body_xxh, &r->head.geom, &r->header, payload, err);
    if (rc == 0)
        rc = check_parent(r, err);
    if (rc == 0 && !r->headers_only)
        rc = read_body(r, err);
    if (rc < 0)
        return rc;
    r->section_pages++;
    rc = akv_known_same(&r->known, &r->rec, err);
    if (rc == 1)
        return PASSED_OVER;
    if (rc == 0)
        rc = akv_known_add(&r->known, &r->rec.key, &r->rec, r->page_open, err);
    return rc < 0 ? rc : AKV_EV_PAGE;
}

static int on_request(struct akv_reader *r)
{
    r->request_len = r->header.size - AKV_HEADER_MIN;
    r->request = r->payload.data + AKV_FRAME_HEAD + AKV_HEADER_COMMON;
    r->request[r->request_len] = '\0'; /* over the checksum, which has been used */
    return AKV_EV_REQUEST;
}

static int on_end(struct akv_reader *r, const uint8_t *payload, struct akv_err *err)
{
    uint64_t n_pages;
    int rc = akv_end_parse(&n_pages, &r->tips, &r->n_tips, &r->header, payload, err);
    if (rc < 0)
        return rc;
    if (n_pages != r->section_pages)
        return akv_fail(err, AKV_E_INPUT, "the section has %llu pages, its end says %llu", (unsigned long long)r->section_pages,
                        (unsigned long long)n_pages);
    for (size_t i = 0; i < r->n_tips; i++)
        if (!akv_known_find(&r->known, &r->tips[i]))
            return akv_fail(err, AKV_E_INPUT, "the section's end names a tip that did not come");
    r->in_section = false;
    return AKV_EV_SECTION_END;
}

static int on_record(struct akv_reader *r, struct akv_err *err)
{
    const uint8_t *payload = (const uint8_t *)r->payload.data + AKV_FRAME_HEAD;
    char type = r->header.type;
    if (type == 'H')
        return on_head(r, payload, err);
    if (type >= 'a' && type <= 'z')
        return PASSED_OVER;
    if (type != 'P' && type != 'Q' && type != 'E')
        return akv_fail(err, AKV_E_INCOMPAT, "unknown record type '%c' (format version %u, this reader is version %u)", type,
                        r->header.version, AKV_STREAM_VERSION);
    if (!r->in_section)
        return akv_fail(err, AKV_E_INPUT, "%c record outside of a section", type);
    if (type == 'P')
        return on_page(r, payload, err);
    return type == 'Q' ? on_request(r) : on_end(r, payload, err);
}

/* Records until there is something to tell. */
static int next_event(struct akv_reader *r, struct akv_err *err)
{
    for (;;) {
        int rc = skip_body(r, err);
        if (rc == 0)
            rc = read_header(r, err);
        if (rc < 0)
            return rc;
        if (rc == 0 && r->record == 0)
            return akv_fail(err, AKV_E_INPUT, "the input is empty");
        if (rc == 0 && r->in_section)
            return akv_fail(err, AKV_E_INPUT, "truncated: the input ends before the section's end record");
        if (rc == 0)
            return AKV_EV_END;
        rc = on_record(r, err);
        if (rc != PASSED_OVER)
            return rc;
    }
}

int akv_reader_next(struct akv_reader *r, struct akv_err *err)
{
    struct akv_err why = {0};
    if (r->failed)
        return akv_fail(err, r->failed, "%s: nothing can be read behind the error", r->in->name);
    int rc = next_event(r, &why);
    if (rc >= 0)
        return rc;
    r->failed = rc;
    if (rc == AKV_E_IO)
        return akv_fail(err, rc, "%s", why.msg);
    if (r->record == 0)
        return akv_fail(err, rc, "%s: %s", r->in->name, why.msg);
    return akv_fail(err, rc, "%s: record %llu at offset %llu: %s", r->in->name, (unsigned long long)r->record,
                    (unsigned long long)r->offset, why.msg);
}

/* ---- what the last record said ---- */

const struct akv_head *akv_reader_head(const struct akv_reader *r)
{
    return &r->head;
}

const struct akv_page_rec *akv_reader_page(const struct akv_reader *r)
{
    return &r->rec;
}

void akv_reader_take_body(struct akv_reader *r, struct akv_buf *body)
{
    struct akv_buf old = *body;
    assert(r->rec.coded == (const uint8_t *)r->body.data);
    *body = r->body;
    r->body = old;
    r->rec.coded = NULL;
}

bool akv_reader_page_open(const struct akv_reader *r)
{
    return r->page_open;
}

const char *akv_reader_request(const struct akv_reader *r, size_t *len)
{
    *len = r->request_len;
    return r->request;
}

const struct akv_key *akv_reader_tips(const struct akv_reader *r, size_t *n)
{
    *n = r->n_tips;
    return r->tips;
}

int akv_reader_all_tips(const struct akv_reader *r, struct akv_key **out, size_t *n, struct akv_err *err)
{
    return akv_known_tips(&r->known, 0, out, n, err);
}

uint64_t akv_reader_record(const struct akv_reader *r)
{
    return r->record;
}

uint64_t akv_reader_offset(const struct akv_reader *r)
{
    return r->offset;
}

char akv_reader_type(const struct akv_reader *r)
{
    return r->header.type;
}

size_t akv_reader_header_bytes(const struct akv_reader *r)
{
    return r->header.size;
}
