/*
 * The bytes of a stream. All integers are little-endian; a key, root or SHA-256 is 32 raw bytes. This comment is the
 * definition; format.c is the only code that knows an offset.
 *
 * A record is a zstd skippable frame (u32 0x184D2A5A, u32 n, n payload bytes), then `body size` bytes of one ordinary zstd
 * frame when that is not 0. The payload is the record's header. The first 28 bytes and the last 8 are the same in every type
 * and in every future version:
 *
 *    0   8  magic: 'A' 'K' 'V' type 0x0d 0x0a 0x1a 0x0a
 *    8   2  format version of the writer (1)
 *   10   2  oldest reader version that understands the record (1)
 *   12   4  header size: n again
 *   16   8  body size in bytes; 0: no body
 *   24   4  flags: none is defined, all 0
 *   28      the type's own fields
 *  n-8   8  XXH64 (seed 0) of the n-8 bytes before
 *
 * A reader checks, in this order: frame magic, record magic, n against its cap (1 MiB; Q 64 MiB) and the header size, XXH64, then
 * versions and flags. So damage is never taken for a newer version. A record with a newer format version and an understood oldest
 * reader version may carry more fields behind the known ones; one of this version must end exactly where its fields end.
 * A record of unknown type is passed over, body included, when its letter is lower case.
 *
 * H: head of a section. No body.
 *   28  32  root
 *   60   4  layers, 1 to 1024
 *   64   4  kv heads, 1 to 1024
 *   68   4  K dimensions per head, 1 to 4096
 *   72   4  V dimensions per head, 1 to 4096
 *   76   4  dtype of KV: 0 f16, 1 f32
 *   80   4  tokens per page: 64
 *   84   4  number of ingredients, at most 1024
 *   88      the ingredients, sorted by tag, bytewise: each u32 length, then "tag=value" (UTF-8, no NUL; the tag ends at the first
 *   '=').
 *           The root is the SHA-256 of exactly these bytes, unless `salted=1` is among them, which stands for a secret.
 *
 * P: a page. The body is its KV bytes, coded.
 *   28  32  page key
 *   60  32  parent: key of the previous full page; zeros when the page index is 0
 *   92   4  page index: the first token's position / 64, below 2^25
 *   96   4  number of tokens t, 1 to 64
 *  100   4  codec: 0 raw, 1 planes
 *  104   8  raw size: t * layers * kv heads * (K dims + V dims) * element size
 *  112  32  SHA-256 of the raw bytes
 *  144   8  XXH64 (seed 0) of the body as it stands in the stream
 *  152  4t  token ids
 *
 * Q: a request. No body.
 *   28      a token record (JSON, UTF-8, one line without its newline), up to the checksum
 *
 * E: end of a section. No body.
 *   28   8  number of P records in the section
 *   36   4  number of tips k
 *   40 32k  keys of the tips: the section's pages that are no parent of another page of it, nor a prefix of another page of it
 *           with the same parent; in order of appearance
 */
#ifndef AKV_SNAP_FORMAT_H
#define AKV_SNAP_FORMAT_H

#include "snap/snap.h"

#define AKV_FRAME_HEAD ((size_t)8)     /* skippable frame: magic and size */
#define AKV_HEADER_COMMON ((size_t)28) /* where the type's own fields begin */
#define AKV_HEADER_MIN (AKV_HEADER_COMMON + 8)
#define AKV_FIELDS_MAX 1024u
#define AKV_TIPS_MAX 32000u
#define AKV_INDEX_END (UINT32_C(1) << 25)

/* The common part of a header. */
struct akv_header {
    char type;
    uint32_t size;
    uint16_t version, min_reader;
    uint64_t body_bytes;
};

/*
 * From the frame's first 24 bytes: magics, sizes and caps. Nothing but the type and size may be believed before the rest is read.
 */
int akv_header_probe(struct akv_header *h, const uint8_t start[24], struct akv_err *err);
/* The whole payload: XXH64, then versions and flags. */
int akv_header_check(struct akv_header *h, const uint8_t *payload, struct akv_err *err);

/*
 * The fields of each type from a checked payload; every value is checked against its limits.
 * The head owns its strings. rec->ids points to ids; rec->coded is left NULL. body_xxh: what the body must hash to.
 */
int akv_head_parse(struct akv_head *out, const struct akv_header *h, const uint8_t *payload, struct akv_err *err);
int akv_page_parse(struct akv_page_rec *rec, uint32_t ids[AKV_PAGE_TOKENS], uint64_t *body_xxh, const struct akv_geom *g,
                   const struct akv_header *h, const uint8_t *payload, struct akv_err *err);
int akv_end_parse(uint64_t *n_pages, const struct akv_key **tips, size_t *n_tips, const struct akv_header *h,
                  const uint8_t *payload, struct akv_err *err);

/* The frame with a header, ready to write (b is cleared first). */
int akv_head_put(struct akv_buf *b, const struct akv_head *head, struct akv_err *err);
int akv_page_put(struct akv_buf *b, const struct akv_page_rec *rec, struct akv_err *err);
int akv_request_put(struct akv_buf *b, const char *json, size_t len, struct akv_err *err);
int akv_end_put(struct akv_buf *b, uint64_t n_pages, const struct akv_key *tips, size_t n_tips, struct akv_err *err);

/* Rules that reader and writer share: geometry caps, sorted tags, the root is the hash of its ingredients. */
int akv_head_check(const struct akv_head *head, struct akv_err *err);
/* Token count, index and parent, sizes against the geometry, ids against the key. */
int akv_page_rec_check(const struct akv_geom *g, const struct akv_page_rec *rec, struct akv_err *err);

#endif
