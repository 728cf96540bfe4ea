/*
 * The stream format (.akv): records H, P, Q, E (design.md 4.2; akv-stream(5)).
 * Reading and writing work on pipes: nothing seeks. Everything is checked before it is handed on.
 */
#ifndef AKV_SNAP_SNAP_H
#define AKV_SNAP_SNAP_H

#include "base/buf.h"
#include "base/io.h"
#include "kv/arena.h"
#include "kv/key.h"

#define AKV_STREAM_VERSION 1u
#define AKV_HEADER_MAX ((size_t)1 << 20)
#define AKV_REQUEST_MAX ((size_t)64 << 20)
#define AKV_PAGE_BYTES_MAX ((size_t)1 << 30) /* KV of 64 tokens; a geometry beyond is refused */

enum akv_codec { AKV_CODEC_RAW = 0, AKV_CODEC_PLANES = 1 };

/* The root of a section and what it is made of. Owns its strings. */
struct akv_head {
    struct akv_geom geom;
    struct akv_key root;
    struct akv_root_field *fields; /* sorted by tag; the salt appears as salted=1 only */
    size_t n_fields;
};
/* A deep copy, its fields sorted by tag whatever the order in src. */
int akv_head_copy(struct akv_head *dst, const struct akv_head *src, struct akv_err *err);
void akv_head_release(struct akv_head *h);
const char *akv_head_field(const struct akv_head *h, const char *tag); /* its value; "" when there is none */
/* 0 when equal; else AKV_E_INCOMPAT naming the first differing field and both values ("what: a's value is x, here it is y"). */
int akv_head_match(const struct akv_head *have, const struct akv_head *want, struct akv_err *err);

/* A page record. Pointers are borrowed: from a reader they live until its next call. */
struct akv_page_rec {
    struct akv_key key, parent; /* parent zeros for page 0 */
    bool has_parent;
    uint32_t index, n_tokens;
    const uint32_t *ids;
    enum akv_codec codec;
    uint64_t raw_bytes;
    uint8_t raw_sha[AKV_SHA_BYTES];
    const uint8_t *coded; /* the whole zstd frame of the body */
    size_t coded_bytes;
};

/*
 * What coding needs besides input and output, kept between pages: one for each thread that codes. Zeroed is empty; grown as needed.
 * No result depends on what it was used for before.
 */
struct akv_coder {
    void *compressor, *decompressor, *hash; /* contexts of zstd, of xxhash */
    struct akv_scratch {
        uint8_t *p;
        size_t bytes;
    } planes, body;
};
void akv_coder_release(struct akv_coder *c);

/*
 * Encode a body (raw_bytes = n_tokens * token_bytes) into a zstd frame appended to out; planes falls back to raw when the ratio
 * is under 1.1. *used says which. Deterministic.
 */
int akv_body_encode(struct akv_coder *c, const struct akv_geom *g, const uint8_t *body, size_t raw_bytes, enum akv_codec want,
                    enum akv_codec *used, struct akv_buf *out, struct akv_err *err);
/*
 * The first rec->n_tokens tokens of an in-memory page (akv_geom_page_bytes): appends the frame to out and fills in rec's sizes, codec,
 * SHA-256 and coded, which points into out.
 */
int akv_page_encode(struct akv_coder *c, const struct akv_geom *g, const uint8_t *page, enum akv_codec want,
                    struct akv_page_rec *rec, struct akv_buf *out, struct akv_err *err);
/* The same page in another codec: appends the frame to out, which rec->coded points into afterwards. */
int akv_page_recode(struct akv_coder *c, const struct akv_geom *g, enum akv_codec want, struct akv_page_rec *rec,
                    struct akv_buf *out, struct akv_err *err);
/* Decode into body[raw_bytes]; the frame's content checksum is verified. */
int akv_body_decode(struct akv_coder *c, const struct akv_geom *g, const struct akv_page_rec *rec, uint8_t *body,
                    struct akv_err *err);
/*
 * The same from an input that stands at the coded bytes, which must hash to xxh, in the least of steps: they are read to where the
 * page belongs, and that hash is the only one, for it covers more than the frame's. AKV_E_INPUT also for a frame that akv_body_decode()
 * understands and akv_body_encode() would not have written, such as one larger than its content. On failure body holds anything.
 */
int akv_body_read(struct akv_coder *c, const struct akv_geom *g, struct akv_in *in, const struct akv_page_rec *rec, uint64_t xxh,
                  uint8_t *body, struct akv_err *err);
/* The same into an in-memory page, as akv_page_decode() does. */
int akv_page_read(struct akv_coder *c, const struct akv_geom *g, struct akv_in *in, const struct akv_page_rec *rec, uint64_t xxh,
                  uint8_t *page, struct akv_err *err);
/* akv_body_decode() into an in-memory page (akv_geom_page_bytes); slots beyond its tokens stay as they are. A full page is decoded in place. */
int akv_page_decode(struct akv_coder *c, const struct akv_geom *g, const struct akv_page_rec *rec, uint8_t *page,
                    struct akv_err *err);

/*
 * Everything about a page that its record promises: decodes the body into `body` (body->len = raw_bytes) and compares its SHA-256.
 * For --verify and --raw; the reader has checked the rest.
 */
int akv_page_check(struct akv_coder *c, const struct akv_geom *g, const struct akv_page_rec *rec, struct akv_buf *body,
                   struct akv_err *err);

/* ---- writing ---- */
struct akv_writer; /* H, then P and Q, then E; a new section of the same head begins by itself after 32000 pages */

/*
 * fd and name are for writing and messages; head is copied. Fields must be sorted by tag and, unless `salted` is among them, hash
 * to the root (AKV_E_INPUT otherwise). Nothing is written before the first page, request or close.
 */
int akv_writer_open(struct akv_writer **out, int fd, const char *name, const struct akv_head *head, struct akv_err *err);
/* Non-zero ends a wait for the stream's reader (AKV_E_CANCEL); it must outlive the writer. */
void akv_writer_set_cancel(struct akv_writer *w, const volatile int *cancel);
/*
 * Offer a page of the chain being written. Full pages are written at once unless their key was written or excluded before; a
 * partial one is held (copied) until the next Q or E and dropped when a longer page of the same index and parent, of which it is a
 * prefix, comes.
 * The record is checked as a reader would; its parent must have been written or excluded (AKV_E_USAGE). After an error the writer
 * writes nothing more.
 */
int akv_writer_page(struct akv_writer *w, const struct akv_page_rec *p, struct akv_err *err);
/* Leave this key out of the stream (--delta): it counts as written. */
int akv_writer_exclude(struct akv_writer *w, const struct akv_key *key, struct akv_err *err);
bool akv_writer_has(const struct akv_writer *w, const struct akv_key *key); /* written, held or excluded */
/*
 * The chain goes on with this page (parent NULL: page 0), which akv_writer_has() already, so that it is not offered: drops the held
 * tails that it outgrows, as akv_writer_page() does.
 */
void akv_writer_outgrow(struct akv_writer *w, uint32_t index, const struct akv_key *parent, const uint32_t *ids, uint32_t n);
int akv_writer_request(struct akv_writer *w, const char *json, size_t len, struct akv_err *err); /* Q */
/* Write E (held tail first) and finish; the writer is freed whatever the result. */
int akv_writer_close(struct akv_writer *w, uint64_t *bytes_written, struct akv_err *err);
void akv_writer_abort(struct akv_writer *w);

/* ---- reading ---- */
struct akv_reader;

enum akv_event { AKV_EV_END = 0, AKV_EV_HEAD = 1, AKV_EV_PAGE = 2, AKV_EV_REQUEST = 3, AKV_EV_SECTION_END = 4 };

/* in is borrowed and stands at the first byte of the stream. */
int akv_reader_open(struct akv_reader **out, struct akv_in *in, struct akv_err *err);
/* From now on page bodies are passed over unread and unchecked: rec->coded is NULL. */
void akv_reader_headers_only(struct akv_reader *r);
/* The caller has consumed the body of the last page, which was passed over, from the input by itself. */
void akv_reader_body_read(struct akv_reader *r);
uint64_t akv_reader_body_xxh(const struct akv_reader *r); /* what that body must hash to */
/*
 * The next event (> 0), 0 at the end after a last E, or an error naming record number and offset. What is checked: magics,
 * versions, caps, header XXH64, sizes against geometry, ids against the key, parent known or the chain open, coded XXH64, known
 * keys with equal SHA-256. A known page is skipped silently; a page superseding a tail is an ordinary event. Not checked: that the
 * body decodes to the raw SHA-256 (akv_page_check). After an error every further call fails.
 */
int akv_reader_next(struct akv_reader *r, struct akv_err *err);
const struct akv_head *akv_reader_head(const struct akv_reader *r);     /* of the current section */
const struct akv_page_rec *akv_reader_page(const struct akv_reader *r); /* of the last page; lives until the next page is read */
/* Take over the body of the last page of an input that is not in memory: the reader goes on with the memory of `body`. */
void akv_reader_take_body(struct akv_reader *r, struct akv_buf *body);
bool akv_reader_page_open(const struct akv_reader *r); /* after AKV_EV_PAGE: its parent, or an ancestor, is absent */
const char *akv_reader_request(const struct akv_reader *r, size_t *len); /* after AKV_EV_REQUEST: the JSON text, NUL-terminated */
uint64_t akv_reader_record(const struct akv_reader *r);                  /* number of the last record, from 1 */
uint64_t akv_reader_offset(const struct akv_reader *r);                  /* where it begins in the input */
char akv_reader_type(const struct akv_reader *r);                        /* its type letter */
size_t akv_reader_header_bytes(const struct akv_reader *r);              /* its header's size; the frame has 8 bytes before it */
/* Tip keys of the E just read (AKV_EV_SECTION_END). */
const struct akv_key *akv_reader_tips(const struct akv_reader *r, size_t *n);
/*
 * Tips over everything read so far: pages that are neither a parent nor a prefix of another with the same parent, in order of
 * arrival.
 * So the superseded tail of `cat anchor delta` is none. *out is malloc'd.
 */
int akv_reader_all_tips(const struct akv_reader *r, struct akv_key **out, size_t *n, struct akv_err *err);
void akv_reader_close(struct akv_reader *r);

/* Whether these first bytes begin an akv stream (n >= 16 suffices; fewer may answer false). */
bool akv_is_stream(const uint8_t *p, size_t n);

#endif
