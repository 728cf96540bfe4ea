/*
 * A stream of pages. Checksums and keys would stop nearly every mutation at the first record, so the input is read as it is and
 * once more with them put right.
 */
#include <string.h>

#include "base/bytes.h"
#include "snap/format.h"
#include "tests/fuzz/fuzz.h"

#define BODY_MAX (4u << 20) /* larger bodies are only read, not decoded */

/* The page's key, from its ids and its parent as they stand. */
static void mend_page(uint8_t *header, size_t n, const uint8_t *body, size_t body_bytes)
{
    uint32_t ids[AKV_PAGE_TOKENS], n_ids = akv_get_u32(header + 96);
    if (n_ids > AKV_PAGE_TOKENS || 152 + 4 * (size_t)n_ids + 8 > n)
        return;
    for (uint32_t i = 0; i < n_ids; i++)
        ids[i] = akv_get_u32(header + 152 + 4 * i);
    struct akv_key key, parent;
    memcpy(parent.b, header + 60, sizeof parent.b);
    if (akv_page_key(&key, akv_get_u32(header + 92) ? &parent : NULL, ids, n_ids, NULL) == 0)
        memcpy(header + 28, key.b, sizeof key.b);
    akv_put_u64(header + 144, akv_xxh64(body, body_bytes));
}

static void mend(uint8_t *p, size_t size)
{
    while (size >= AKV_FRAME_HEAD + AKV_HEADER_MIN) {
        size_t n = akv_get_u32(p + 4);
        uint8_t *header = p + AKV_FRAME_HEAD;
        if (n < AKV_HEADER_MIN || n > size - AKV_FRAME_HEAD)
            return;
        size_t left = size - AKV_FRAME_HEAD - n;
        uint64_t body = akv_get_u64(header + 16);
        if (body > left)
            return;
        akv_put_u32(header + 12, (uint32_t)n);
        if (header[3] == 'H' && n >= 96 && akv_sha256(header + 28, header + 88, n - 96, NULL) < 0)
            return;
        if (header[3] == 'P' && n >= 160)
            mend_page(header, n, header + n, (size_t)body);
        akv_put_u64(header + n - 8, akv_xxh64(header, n - 8));
        p = header + n + body;
        size = left - (size_t)body;
    }
}

static void check_page(struct akv_reader *r, struct akv_buf *body, struct akv_coder *coder)
{
    const struct akv_page_rec *rec = akv_reader_page(r);
    const struct akv_geom *g = &akv_reader_head(r)->geom;
    struct akv_err err = {0};
    must(rec->n_tokens >= 1 && rec->n_tokens <= AKV_PAGE_TOKENS && rec->raw_bytes == rec->n_tokens * akv_geom_token_bytes(g));
    (void)akv_reader_page_open(r);
    if (!rec->coded || rec->raw_bytes > BODY_MAX)
        return;
    if (akv_page_check(coder, g, rec, body, &err) == 0)
        must(body->len == rec->raw_bytes);
    else
        must(err.msg[0]);
}

static void read_stream(const uint8_t *data, size_t size, bool headers_only)
{
    struct akv_in in;
    struct akv_reader *r = NULL;
    struct akv_err err = {0};
    struct akv_buf body;
    struct akv_coder coder = {0};
    struct akv_key *tips = NULL;
    size_t n;
    int fd = fuzz_file(data, size), ev = AKV_E_INPUT;
    akv_buf_init(&body, 0);
    must(akv_in_open(&in, fd, "fuzz", &err) == 0);
    if (akv_reader_open(&r, &in, &err) == 0) {
        if (headers_only)
            akv_reader_headers_only(r);
        while ((ev = akv_reader_next(r, &err)) > 0) {
            if (ev == AKV_EV_PAGE)
                check_page(r, &body, &coder);
            else if (ev == AKV_EV_REQUEST)
                must(!akv_reader_request(r, &n)[n]);
            else if (ev == AKV_EV_SECTION_END)
                (void)akv_reader_tips(r, &n);
        }
        must(akv_reader_next(r, &err) == ev || ev == 0); /* an error stays */
        if (akv_reader_all_tips(r, &tips, &n, NULL) == 0)
            free(tips);
    }
    must(ev == 0 || err.msg[0]);
    akv_reader_close(r);
    akv_in_release(&in);
    akv_buf_release(&body);
    akv_coder_release(&coder);
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    (void)akv_is_stream(data, size);
    read_stream(data, size, false);
    uint8_t *copy = malloc(size ? size : 1);
    must(copy);
    memcpy(copy, data, size);
    mend(copy, size);
    read_stream(copy, size, false);
    read_stream(copy, size, true);
    free(copy);
    return 0;
}
