#include "snap/format.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

#define FRAME_MAGIC UINT32_C(0x184D2A5A)

static const uint8_t magic_tail[4] = {0x0d, 0x0a, 0x1a, 0x0a};

/* ---- reading ---- */

static bool is_letter(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

int akv_header_probe(struct akv_header *h, const uint8_t start[24], struct akv_err *err)
{
    const uint8_t *payload = start + AKV_FRAME_HEAD;
    if (akv_get_u32(start) != FRAME_MAGIC || memcmp(payload, "AKV", 3) || memcmp(payload + 4, magic_tail, sizeof magic_tail) ||
        !is_letter((char)payload[3]))
        return akv_fail(err, AKV_E_INPUT, "no record begins here (wrong magic)");
    *h = (struct akv_header){.type = (char)payload[3], .size = akv_get_u32(start + 4)};
    size_t cap = h->type == 'Q' ? AKV_REQUEST_MAX : AKV_HEADER_MAX;
    if (h->size < AKV_HEADER_MIN || h->size > cap)
        return akv_fail(err, AKV_E_INPUT, "%c header of %lu bytes (limit %zu)", h->type, (unsigned long)h->size, cap);
    if (akv_get_u32(payload + 12) != h->size)
        return akv_fail(err, AKV_E_INPUT, "%c header: its two sizes differ", h->type);
    return 0;
}

int akv_header_check(struct akv_header *h, const uint8_t *payload, struct akv_err *err)
{
    size_t n = h->size - 8u;
    if (akv_xxh64(payload, n) != akv_get_u64(payload + n))
        return akv_fail(err, AKV_E_INPUT, "%c header is damaged (XXH64 differs)", h->type);
    h->version = akv_get_u16(payload + 8);
    h->min_reader = akv_get_u16(payload + 10);
    h->body_bytes = akv_get_u64(payload + 16);
    if (h->min_reader > AKV_STREAM_VERSION)
        return akv_fail(err, AKV_E_INCOMPAT, "%c record of format version %u needs a reader of version %u, this one is version %u",
                        h->type, h->version, h->min_reader, AKV_STREAM_VERSION);
    uint32_t flags = akv_get_u32(payload + 24);
    if (flags)
        return akv_fail(err, AKV_E_INCOMPAT, "%c record has unknown flags 0x%lx", h->type, (unsigned long)flags);
    if (h->body_bytes && (h->type == 'H' || h->type == 'Q' || h->type == 'E'))
        return akv_fail(err, AKV_E_INPUT, "%c record with a body", h->type);
    return 0;
}

/* Whether fields that end at `at` fill the header; a newer writer may have added more. */
static int check_end(const struct akv_header *h, uint64_t at, struct akv_err *err)
{
    uint64_t end = h->size - 8u;
    if (at == end || (at < end && h->version > AKV_STREAM_VERSION))
        return 0;
    return akv_fail(err, AKV_E_INPUT, "%c header: %lu bytes do not fit its fields", h->type, (unsigned long)h->size);
}

/* One ingredient of len bytes at p. */
static int parse_field(struct akv_root_field *f, const char *p, size_t len, struct akv_err *err)
{
    const char *eq = memchr(p, '=', len);
    if (!eq || eq == p || memchr(p, '\0', len) || !akv_utf8_valid(p, len, NULL))
        return akv_fail(err, AKV_E_INPUT, "H header: an ingredient is not tag=value");
    f->tag = akv_strndup(p, (size_t)(eq - p), err);
    f->value = akv_strndup(eq + 1, len - (size_t)(eq - p) - 1, err);
    return f->tag && f->value ? 0 : AKV_E_IO;
}

static int parse_fields(struct akv_head *head, const struct akv_header *h, const uint8_t *payload, struct akv_err *err)
{
    size_t end = h->size - 8u, at = 88;
    uint32_t n = akv_get_u32(payload + 84);
    if (n > AKV_FIELDS_MAX)
        return akv_fail(err, AKV_E_INPUT, "H header: %lu ingredients (limit %u)", (unsigned long)n, AKV_FIELDS_MAX);
    head->fields = akv_alloc(n, sizeof *head->fields, err);
    if (!head->fields)
        return AKV_E_IO;
    for (uint32_t i = 0; i < n; i++) {
        size_t len = end - at < 4 ? SIZE_MAX : akv_get_u32(payload + at);
        at += 4;
        if (len == SIZE_MAX || len > end - at)
            return akv_fail(err, AKV_E_INPUT, "H header: ingredient %lu passes its end", (unsigned long)i);
        head->n_fields = i + 1u;
        int rc = parse_field(&head->fields[i], (const char *)payload + at, len, err);
        if (rc < 0)
            return rc;
        at += len;
    }
    return check_end(h, at, err);
}

int akv_head_parse(struct akv_head *out, const struct akv_header *h, const uint8_t *payload, struct akv_err *err)
{
    *out = (struct akv_head){0};
    if (h->size < 88 + 8)
        return akv_fail(err, AKV_E_INPUT, "H header of %lu bytes is too short", (unsigned long)h->size);
    memcpy(out->root.b, payload + 28, AKV_SHA_BYTES);
    uint32_t dtype = akv_get_u32(payload + 76), page = akv_get_u32(payload + 80);
    if (dtype > AKV_KV_F32)
        return akv_fail(err, AKV_E_INCOMPAT, "KV dtype %lu is unknown", (unsigned long)dtype);
    if (page != AKV_PAGE_TOKENS)
        return akv_fail(err, AKV_E_INCOMPAT, "page size is %lu, here it is %u", (unsigned long)page, AKV_PAGE_TOKENS);
    out->geom = (struct akv_geom){.n_layers = akv_get_u32(payload + 60),
                                  .n_kv_heads = akv_get_u32(payload + 64),
                                  .dim_k = akv_get_u32(payload + 68),
                                  .dim_v = akv_get_u32(payload + 72),
                                  .dtype = (enum akv_kv_dtype)dtype};
    int rc = parse_fields(out, h, payload, err);
    if (rc == 0)
        rc = akv_head_check(out, err);
    if (rc < 0)
        akv_head_release(out);
    return rc;
}

int akv_page_parse(struct akv_page_rec *rec, uint32_t ids[AKV_PAGE_TOKENS], uint64_t *body_xxh, const struct akv_geom *g,
                   const struct akv_header *h, const uint8_t *payload, struct akv_err *err)
{
    if (h->size < 152 + 8)
        return akv_fail(err, AKV_E_INPUT, "P header of %lu bytes is too short", (unsigned long)h->size);
    uint32_t n = akv_get_u32(payload + 96), codec = akv_get_u32(payload + 100);
    if (n < 1 || n > AKV_PAGE_TOKENS)
        return akv_fail(err, AKV_E_INPUT, "page of %lu tokens (1 to %u)", (unsigned long)n, AKV_PAGE_TOKENS);
    int rc = check_end(h, 152u + 4u * (uint64_t)n, err);
    if (rc < 0)
        return rc;
    if (codec > AKV_CODEC_PLANES)
        return akv_fail(err, AKV_E_INCOMPAT, "codec %lu is unknown", (unsigned long)codec);
    *rec = (struct akv_page_rec){.index = akv_get_u32(payload + 92),
                                 .n_tokens = n,
                                 .ids = ids,
                                 .codec = (enum akv_codec)codec,
                                 .raw_bytes = akv_get_u64(payload + 104)};
    rec->has_parent = rec->index > 0;
    memcpy(rec->key.b, payload + 28, AKV_SHA_BYTES);
    memcpy(rec->parent.b, payload + 60, AKV_SHA_BYTES);
    memcpy(rec->raw_sha, payload + 112, AKV_SHA_BYTES);
    *body_xxh = akv_get_u64(payload + 144);
    for (uint32_t i = 0; i < n; i++)
        ids[i] = akv_get_u32(payload + 152 + 4 * (size_t)i);
    rc = akv_page_rec_check(g, rec, err);
    if (rc < 0)
        return rc;
    /* a coded body is never longer than a stored one: 3 bytes a block of 128 KiB and 14 around it; zstd's own bound is wider */
    if (h->body_bytes < 1 || h->body_bytes > rec->raw_bytes + rec->raw_bytes / 128 + 1024)
        return akv_fail(err, AKV_E_INPUT, "page %lu: body of %llu bytes for %llu bytes of KV", (unsigned long)rec->index,
                        (unsigned long long)h->body_bytes, (unsigned long long)rec->raw_bytes);
    rec->coded_bytes = (size_t)h->body_bytes;
    return 0;
}

int akv_end_parse(uint64_t *n_pages, const struct akv_key **tips, size_t *n_tips, const struct akv_header *h,
                  const uint8_t *payload, struct akv_err *err)
{
    if (h->size < 40 + 8)
        return akv_fail(err, AKV_E_INPUT, "E header of %lu bytes is too short", (unsigned long)h->size);
    *n_pages = akv_get_u64(payload + 28);
    *n_tips = akv_get_u32(payload + 36);
    *tips = (const struct akv_key *)(payload + 40); /* an array of bytes: no alignment to mind */
    return check_end(h, 40u + (uint64_t)AKV_SHA_BYTES * *n_tips, err);
}

/* ---- writing ---- */

static void begin(struct akv_buf *b, char type, uint64_t body_bytes)
{
    akv_buf_clear(b);
    akv_buf_put_u32(b, FRAME_MAGIC);
    akv_buf_put_u32(b, 0); /* sizes: filled in by end() */
    akv_buf_puts(b, "AKV");
    akv_buf_putc(b, type);
    akv_buf_add(b, magic_tail, sizeof magic_tail);
    akv_buf_put_u16(b, AKV_STREAM_VERSION);
    akv_buf_put_u16(b, AKV_STREAM_VERSION);
    akv_buf_put_u32(b, 0);
    akv_buf_put_u64(b, body_bytes);
    akv_buf_put_u32(b, 0);
}

static int end(struct akv_buf *b, size_t cap, const char *what, struct akv_err *err)
{
    int rc = akv_buf_check(b, what, err);
    if (rc < 0)
        return rc;
    size_t size = b->len - AKV_FRAME_HEAD + 8;
    if (size > cap)
        return akv_fail(err, AKV_E_INPUT, "%s: header of %zu bytes (limit %zu)", what, size, cap);
    uint8_t *p = (uint8_t *)b->data;
    akv_put_u32(p + 4, (uint32_t)size);
    akv_put_u32(p + AKV_FRAME_HEAD + 12, (uint32_t)size);
    akv_buf_put_u64(b, akv_xxh64(p + AKV_FRAME_HEAD, size - 8));
    return akv_buf_check(b, what, err);
}

int akv_head_put(struct akv_buf *b, const struct akv_head *head, struct akv_err *err)
{
    const struct akv_geom *g = &head->geom;
    begin(b, 'H', 0);
    akv_buf_add(b, head->root.b, sizeof head->root.b);
    akv_buf_put_u32(b, g->n_layers);
    akv_buf_put_u32(b, g->n_kv_heads);
    akv_buf_put_u32(b, g->dim_k);
    akv_buf_put_u32(b, g->dim_v);
    akv_buf_put_u32(b, (uint32_t)g->dtype);
    akv_buf_put_u32(b, AKV_PAGE_TOKENS);
    akv_buf_put_u32(b, (uint32_t)head->n_fields);
    for (size_t i = 0; i < head->n_fields; i++) {
        const struct akv_root_field *f = &head->fields[i];
        akv_buf_put_u32(b, (uint32_t)(strlen(f->tag) + 1 + strlen(f->value)));
        akv_buf_puts(b, f->tag);
        akv_buf_putc(b, '=');
        akv_buf_puts(b, f->value);
    }
    return end(b, AKV_HEADER_MAX, "H record", err);
}

int akv_page_put(struct akv_buf *b, const struct akv_page_rec *rec, struct akv_err *err)
{
    static const struct akv_key none;
    begin(b, 'P', rec->coded_bytes);
    akv_buf_add(b, rec->key.b, AKV_SHA_BYTES);
    akv_buf_add(b, rec->has_parent ? rec->parent.b : none.b, AKV_SHA_BYTES);
    akv_buf_put_u32(b, rec->index);
    akv_buf_put_u32(b, rec->n_tokens);
    akv_buf_put_u32(b, (uint32_t)rec->codec);
    akv_buf_put_u64(b, rec->raw_bytes);
    akv_buf_add(b, rec->raw_sha, AKV_SHA_BYTES);
    akv_buf_put_u64(b, akv_xxh64(rec->coded, rec->coded_bytes));
    for (uint32_t i = 0; i < rec->n_tokens; i++)
        akv_buf_put_u32(b, rec->ids[i]);
    return end(b, AKV_HEADER_MAX, "P record", err);
}

int akv_request_put(struct akv_buf *b, const char *json, size_t len, struct akv_err *err)
{
    if (len > AKV_REQUEST_MAX - AKV_HEADER_MIN)
        return akv_fail(err, AKV_E_INPUT, "Q record: a request of %zu bytes (limit %zu)", len, AKV_REQUEST_MAX - AKV_HEADER_MIN);
    begin(b, 'Q', 0);
    akv_buf_add(b, json, len);
    return end(b, AKV_REQUEST_MAX, "Q record", err);
}

int akv_end_put(struct akv_buf *b, uint64_t n_pages, const struct akv_key *tips, size_t n_tips, struct akv_err *err)
{
    begin(b, 'E', 0);
    akv_buf_put_u64(b, n_pages);
    akv_buf_put_u32(b, (uint32_t)n_tips);
    for (size_t i = 0; i < n_tips; i++)
        akv_buf_add(b, tips[i].b, AKV_SHA_BYTES);
    return end(b, AKV_HEADER_MAX, "E record", err);
}

/* ---- shared rules ---- */

int akv_page_rec_check(const struct akv_geom *g, const struct akv_page_rec *rec, struct akv_err *err)
{
    static const struct akv_key none;
    unsigned long index = rec->index;
    if (rec->n_tokens < 1 || rec->n_tokens > AKV_PAGE_TOKENS)
        return akv_fail(err, AKV_E_INPUT, "page %lu: %lu tokens (1 to %u)", index, (unsigned long)rec->n_tokens, AKV_PAGE_TOKENS);
    if (rec->index >= AKV_INDEX_END)
        return akv_fail(err, AKV_E_INPUT, "page %lu: the index is out of range", index);
    if (rec->has_parent != (rec->index > 0) || (!rec->has_parent && !akv_key_eq(&rec->parent, &none)))
        return akv_fail(err, AKV_E_INPUT, "page %lu: only page 0 has no parent", index);
    if (rec->raw_bytes != rec->n_tokens * (uint64_t)akv_geom_token_bytes(g))
        return akv_fail(err, AKV_E_INPUT, "page %lu: raw size %llu, but %lu tokens have %llu bytes", index,
                        (unsigned long long)rec->raw_bytes, (unsigned long)rec->n_tokens,
                        (unsigned long long)(rec->n_tokens * (uint64_t)akv_geom_token_bytes(g)));
    struct akv_key key;
    int rc = akv_page_key(&key, rec->has_parent ? &rec->parent : NULL, rec->ids, rec->n_tokens, err);
    if (rc < 0)
        return rc;
    if (!akv_key_eq(&key, &rec->key))
        return akv_fail(err, AKV_E_INPUT, "page %lu: its token ids do not hash to its key", index);
    return 0;
}
