/* Page bodies: the two codecs. */
#include "snap/format.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include <zstd.h>

#include "base/bytes.h"

#define BLOCK ((size_t)128 << 10) /* the largest block that zstd allows, and the window that we declare */
#define FRAME_HEAD ((size_t)10)
#define BLOCK_HEAD ((size_t)3)
#define STEP ((size_t)64)

/*
 * The frame of stored blocks that plain zstd reads and libzstd cannot be told to write (RFC 8878, 3.1.1): a head, for each block a head
 * and its bytes, a checksum.
 */
static void frame_head(uint8_t head[FRAME_HEAD], size_t n)
{
    akv_put_u32(head, ZSTD_MAGICNUMBER);
    head[4] = 0x84;           /* a content size of 4 bytes, a content checksum */
    head[5] = (17 - 10) << 3; /* window of 2^17 bytes: a single segment over 128 MiB would be refused by the zstd tool */
    akv_put_u32(head + 6, (uint32_t)n);
}

/* Returns the length of the block that begins at `at`. */
static size_t block_head(uint8_t head[BLOCK_HEAD], size_t at, size_t n)
{
    size_t len = n - at < BLOCK ? n - at : BLOCK;
    uint32_t v = (uint32_t)len << 3 | (at + len == n); /* type 0: raw */
    akv_put_u16(head, (uint16_t)v);
    head[2] = (uint8_t)(v >> 16);
    return len;
}

static void encode_raw(const uint8_t *body, size_t n, struct akv_buf *out)
{
    uint8_t head[FRAME_HEAD];
    frame_head(head, n);
    akv_buf_add(out, head, FRAME_HEAD);
    for (size_t at = 0; at < n; at += BLOCK) {
        size_t len = block_head(head, at, n);
        akv_buf_add(out, head, BLOCK_HEAD);
        akv_buf_add(out, body + at, len);
    }
    akv_buf_put_u32(out, (uint32_t)akv_xxh64(body, n));
}

/*
 * Byte j of every element, j = 0 … width-1. Steps of a constant length, and a width that is known where this is inlined, let the
 * compiler use vectors at -O2: restoring joins at several GB/s.
 */
static inline __attribute__((always_inline)) void split(uint8_t *restrict planes, const uint8_t *restrict body, size_t n,
                                                        size_t width)
{
    size_t i = 0;
    for (; i + STEP <= n; i += STEP)
        for (size_t j = 0; j < width; j++)
            for (size_t k = 0; k < STEP; k++)
                planes[j * n + i + k] = body[(i + k) * width + j];
    for (; i < n; i++)
        for (size_t j = 0; j < width; j++)
            planes[j * n + i] = body[i * width + j];
}

static inline __attribute__((always_inline)) void join(uint8_t *restrict body, const uint8_t *restrict planes, size_t n,
                                                       size_t width)
{
    size_t i = 0;
    for (; i + STEP <= n; i += STEP)
        for (size_t k = 0; k < STEP; k++)
            for (size_t j = 0; j < width; j++)
                body[(i + k) * width + j] = planes[j * n + i + k];
    for (; i < n; i++)
        for (size_t j = 0; j < width; j++)
            body[i * width + j] = planes[j * n + i];
}

static void split_planes(uint8_t *restrict planes, const uint8_t *restrict body, size_t n, enum akv_kv_dtype dtype)
{
    if (dtype == AKV_KV_F32)
        split(planes, body, n, 4);
    else
        split(planes, body, n, 2);
}

static void join_planes(uint8_t *restrict body, const uint8_t *restrict planes, size_t n, enum akv_kv_dtype dtype)
{
    if (dtype == AKV_KV_F32)
        join(body, planes, n, 4);
    else
        join(body, planes, n, 2);
}

void akv_coder_release(struct akv_coder *c)
{
    ZSTD_freeCCtx(c->compressor);
    ZSTD_freeDCtx(c->decompressor);
    XXH64_freeState(c->hash);
    free(c->planes.p);
    free(c->body.p);
    *c = (struct akv_coder){0};
}

/* n bytes of undefined content. */
static uint8_t *scratch(struct akv_scratch *s, size_t n, struct akv_err *err)
{
    if (n > s->bytes) {
        free(s->p);
        s->p = akv_alloc_huge(n, 1, err);
        s->bytes = s->p ? n : 0;
    }
    return s->p;
}

/* One zstd frame at level 1 appended to out. */
static int compress(struct akv_coder *c, const uint8_t *src, size_t n, struct akv_buf *out, struct akv_err *err)
{
    size_t bound = ZSTD_compressBound(n);
    char *dst = akv_buf_reserve(out, bound);
    if (!c->compressor)
        c->compressor = ZSTD_createCCtx();
    if (!dst || !c->compressor)
        return akv_fail(err, AKV_E_IO, "page body: out of memory");
    ZSTD_CCtx_reset(c->compressor, ZSTD_reset_session_and_parameters);
    ZSTD_CCtx_setParameter(c->compressor, ZSTD_c_compressionLevel, 1);
    ZSTD_CCtx_setParameter(c->compressor, ZSTD_c_checksumFlag, 1);
    ZSTD_CCtx_setParameter(c->compressor, ZSTD_c_contentSizeFlag, 1);
    size_t got = ZSTD_compress2(c->compressor, dst, bound, src, n);
    if (ZSTD_isError(got))
        return akv_fail(err, AKV_E_IO, "page body: zstd: %s", ZSTD_getErrorName(got));
    out->len += got;
    out->data[out->len] = '\0';
    return 0;
}

int akv_body_encode(struct akv_coder *c, const struct akv_geom *g, const uint8_t *body, size_t raw_bytes, enum akv_codec want,
                    enum akv_codec *used, struct akv_buf *out, struct akv_err *err)
{
    size_t width = akv_geom_elem(g), start = out->len;
    if (!raw_bytes || raw_bytes > AKV_PAGE_BYTES_MAX || raw_bytes % akv_geom_token_bytes(g))
        return akv_fail(err, AKV_E_USAGE, "page body: %zu bytes are not a number of tokens", raw_bytes);
    *used = want;
    if (want == AKV_CODEC_PLANES) {
        uint8_t *planes = scratch(&c->planes, raw_bytes, err);
        if (!planes)
            return AKV_E_IO;
        split_planes(planes, body, raw_bytes / width, g->dtype);
        int rc = compress(c, planes, raw_bytes, out, err);
        if (rc < 0)
            return rc;
        if (raw_bytes * 10 >= (out->len - start) * 11)
            return 0;
        out->len = start; /* gains less than a tenth: memory speed is worth more */
        *used = AKV_CODEC_RAW;
    }
    encode_raw(body, raw_bytes, out);
    return akv_buf_check(out, "page body", err);
}

int akv_page_encode(struct akv_coder *c, const struct akv_geom *g, const uint8_t *page, enum akv_codec want,
                    struct akv_page_rec *rec, struct akv_buf *out, struct akv_err *err)
{
    size_t raw = rec->n_tokens * akv_geom_token_bytes(g), start = out->len;
    const uint8_t *body = page;
    if (rec->n_tokens < AKV_PAGE_TOKENS) {
        uint8_t *packed = scratch(&c->body, raw, err);
        if (!packed)
            return AKV_E_IO;
        akv_page_to_body(g, packed, page, rec->n_tokens);
        body = packed;
    }
    int rc = akv_sha256(rec->raw_sha, body, raw, err);
    if (rc == 0)
        rc = akv_body_encode(c, g, body, raw, want, &rec->codec, out, err);
    rec->raw_bytes = raw;
    rec->coded = (const uint8_t *)out->data + start;
    rec->coded_bytes = out->len - start;
    return rc;
}

/* Exactly one frame, with the content size and checksum that the format asks for. */
static int check_frame(const struct akv_page_rec *rec, struct akv_err *err)
{
    const uint8_t *p = rec->coded;
    if (rec->coded_bytes < 5 || akv_get_u32(p) != ZSTD_MAGICNUMBER || !(p[4] & 4))
        return akv_fail(err, AKV_E_INPUT, "page %lu: the body is no zstd frame with a checksum", (unsigned long)rec->index);
    if (ZSTD_getFrameContentSize(p, rec->coded_bytes) != rec->raw_bytes ||
        ZSTD_findFrameCompressedSize(p, rec->coded_bytes) != rec->coded_bytes)
        return akv_fail(err, AKV_E_INPUT, "page %lu: the body's frame has another size than its header says",
                        (unsigned long)rec->index);
    return 0;
}

/* A frame that was checked. */
static int decode_frame(struct akv_coder *c, const struct akv_geom *g, const struct akv_page_rec *rec, uint8_t *body,
                        struct akv_err *err)
{
    size_t n = (size_t)rec->raw_bytes;
    uint8_t *dst = rec->codec == AKV_CODEC_PLANES ? scratch(&c->planes, n, err) : body;
    if (!c->decompressor)
        c->decompressor = ZSTD_createDCtx();
    if (!dst || !c->decompressor)
        return akv_fail(err, AKV_E_IO, "page body: out of memory");
    size_t got = ZSTD_decompressDCtx(c->decompressor, dst, n, rec->coded, rec->coded_bytes);
    if (ZSTD_isError(got) || got != n)
        return akv_fail(err, AKV_E_INPUT, "page %lu: the body is damaged: %s", (unsigned long)rec->index,
                        ZSTD_isError(got) ? ZSTD_getErrorName(got) : "it is too short");
    if (rec->codec == AKV_CODEC_PLANES)
        join_planes(body, dst, n / akv_geom_elem(g), g->dtype);
    return 0;
}

int akv_body_decode(struct akv_coder *c, const struct akv_geom *g, const struct akv_page_rec *rec, uint8_t *body,
                    struct akv_err *err)
{
    int rc = check_frame(rec, err);
    return rc < 0 ? rc : decode_frame(c, g, rec, body, err);
}

static int read_exact(struct akv_in *in, void *p, size_t n, struct akv_err *err)
{
    int rc = akv_in_read(in, p, n, err);
    return rc == 0 ? akv_fail(err, AKV_E_INPUT, "%s: truncated", in->name) : rc < 0 ? rc : 0;
}

/* The next n bytes, hashed while they are in the cache. */
static int read_hashed(struct akv_coder *c, struct akv_in *in, void *p, size_t n, struct akv_err *err)
{
    int rc = read_exact(in, p, n, err);
    if (rc == 0)
        XXH64_update(c->hash, p, n);
    return rc;
}

/* Exactly these bytes must come. */
static int read_same(struct akv_coder *c, struct akv_in *in, const uint8_t *want, size_t n, struct akv_err *err)
{
    uint8_t got[FRAME_HEAD];
    int rc = read_hashed(c, in, got, n, err);
    return rc < 0 || !memcmp(got, want, n) ? rc : akv_fail(err, AKV_E_INPUT, "%s: not a frame of stored blocks", in->name);
}

static int read_raw(struct akv_coder *c, struct akv_in *in, const struct akv_page_rec *rec, uint8_t *body, struct akv_err *err)
{
    uint8_t head[FRAME_HEAD];
    size_t n = (size_t)rec->raw_bytes;
    if (rec->coded_bytes != FRAME_HEAD + (n + BLOCK - 1) / BLOCK * BLOCK_HEAD + n + 4)
        return akv_fail(err, AKV_E_INPUT, "%s: not a frame of stored blocks", in->name);
    frame_head(head, n);
    int rc = read_same(c, in, head, FRAME_HEAD, err);
    for (size_t at = 0, len; rc == 0 && at < n; at += len) {
        len = block_head(head, at, n);
        rc = read_same(c, in, head, BLOCK_HEAD, err);
        if (rc == 0)
            rc = read_hashed(c, in, body + at, len, err);
    }
    /* the frame's own checksum: what is hashed here is more than it is of */
    return rc < 0 ? rc : read_hashed(c, in, head, 4, err);
}

static int read_planes(struct akv_coder *c, struct akv_in *in, uint8_t *p, size_t n, struct akv_err *err)
{
    int rc = 0;
    for (size_t at = 0, len; rc == 0 && at < n; at += len) {
        len = n - at < BLOCK ? n - at : BLOCK;
        rc = read_hashed(c, in, p + at, len, err);
    }
    return rc;
}

int akv_body_read(struct akv_coder *c, const struct akv_geom *g, struct akv_in *in, const struct akv_page_rec *rec, uint64_t xxh,
                  uint8_t *body, struct akv_err *err)
{
    struct akv_page_rec coded = *rec;
    bool raw = rec->codec == AKV_CODEC_RAW;
    if (!raw && rec->coded_bytes > rec->raw_bytes)
        return akv_fail(err, AKV_E_INPUT, "%s: coded, the body is larger than it was", in->name);
    if (!c->hash)
        c->hash = XXH64_createState();
    if (!c->hash)
        return akv_fail(err, AKV_E_IO, "page body: out of memory");
    XXH64_reset(c->hash, 0);
    /* planes, too, are read to where the body belongs: they are decoded elsewhere, then joined over what they were decoded from */
    int rc = raw ? read_raw(c, in, rec, body, err) : read_planes(c, in, body, rec->coded_bytes, err);
    if (rc == 0 && XXH64_digest(c->hash) != xxh)
        rc = akv_fail(err, AKV_E_INPUT, "page %lu: the body is damaged (XXH64 differs)", (unsigned long)rec->index);
    coded.coded = body;
    if (rc == 0 && !raw)
        rc = check_frame(&coded, err);
    if (rc < 0 || raw)
        return rc;
    body[4] &= (uint8_t)~4; /* no more checksum in it: every byte of the frame has been hashed */
    coded.coded_bytes -= 4;
    return decode_frame(c, g, &coded, body, err);
}

int akv_page_read(struct akv_coder *c, const struct akv_geom *g, struct akv_in *in, const struct akv_page_rec *rec, uint64_t xxh,
                  uint8_t *page, struct akv_err *err)
{
    if (rec->n_tokens == AKV_PAGE_TOKENS)
        return akv_body_read(c, g, in, rec, xxh, page, err);
    uint8_t *body = scratch(&c->body, (size_t)rec->raw_bytes, err);
    int rc = body ? akv_body_read(c, g, in, rec, xxh, body, err) : AKV_E_IO;
    if (rc == 0)
        akv_body_to_page(g, page, body, rec->n_tokens);
    return rc;
}

int akv_page_decode(struct akv_coder *c, const struct akv_geom *g, const struct akv_page_rec *rec, uint8_t *page,
                    struct akv_err *err)
{
    if (rec->n_tokens == AKV_PAGE_TOKENS)
        return akv_body_decode(c, g, rec, page, err);
    uint8_t *body = scratch(&c->body, (size_t)rec->raw_bytes, err);
    int rc = body ? akv_body_decode(c, g, rec, body, err) : AKV_E_IO;
    if (rc == 0)
        akv_body_to_page(g, page, body, rec->n_tokens);
    return rc;
}

int akv_page_recode(struct akv_coder *c, const struct akv_geom *g, enum akv_codec want, struct akv_page_rec *rec,
                    struct akv_buf *out, struct akv_err *err)
{
    size_t start = out->len;
    uint8_t *body = scratch(&c->body, (size_t)rec->raw_bytes, err);
    int rc = body ? akv_body_decode(c, g, rec, body, err) : AKV_E_IO;
    if (rc == 0)
        rc = akv_body_encode(c, g, body, (size_t)rec->raw_bytes, want, &rec->codec, out, err);
    rec->coded = (const uint8_t *)out->data + start;
    rec->coded_bytes = out->len - start;
    return rc;
}

int akv_page_check(struct akv_coder *c, const struct akv_geom *g, const struct akv_page_rec *rec, struct akv_buf *body,
                   struct akv_err *err)
{
    akv_buf_clear(body);
    uint8_t *p = (uint8_t *)akv_buf_reserve(body, (size_t)rec->raw_bytes);
    if (!p)
        return akv_buf_check(body, "page body", err);
    int rc = akv_body_decode(c, g, rec, p, err);
    if (rc < 0)
        return rc;
    body->len = (size_t)rec->raw_bytes;
    body->data[body->len] = '\0';
    uint8_t sha[AKV_SHA_BYTES];
    rc = akv_sha256(sha, body->data, body->len, err);
    if (rc == 0 && memcmp(sha, rec->raw_sha, sizeof sha))
        rc = akv_fail(err, AKV_E_INPUT, "page %lu: the KV bytes do not have the SHA-256 of the header", (unsigned long)rec->index);
    return rc;
}
