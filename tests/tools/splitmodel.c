/* splitmodel: writes a GGUF model again as several files, NAME-00001-of-0000N.gguf: the keys in the first, tensors in all. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/io.h"
#include "model/gguf.h"

#define ALIGN 32u

static void put_string(struct akv_buf *b, const char *s, size_t len)
{
    akv_buf_put_u64(b, len);
    akv_buf_add(b, s, len);
}

static void put_u16_key(struct akv_buf *b, const char *name, unsigned v)
{
    put_string(b, name, strlen(name));
    akv_buf_put_u32(b, AKV_GGUF_U16);
    akv_buf_put_u16(b, (uint16_t)v);
}

static void pad(struct akv_buf *b)
{
    while (b->len % ALIGN)
        akv_buf_putc(b, 0);
}

static void put_keys(struct akv_buf *b, const struct akv_gguf *g, unsigned no, unsigned n_parts, uint64_t n_tensors)
{
    akv_buf_puts(b, "GGUF");
    akv_buf_put_u32(b, 3);
    akv_buf_put_u64(b, n_tensors);
    akv_buf_put_u64(b, 3 + (no ? 0 : g->n_kv));
    if (!no && g->n_kv) {
        const struct akv_gguf_kv *last = &g->kv[g->n_kv - 1];
        akv_buf_add(b, g->map.data + 24, (size_t)(last->value + last->bytes - (g->map.data + 24)));
    }
    put_u16_key(b, "split.no", no);
    put_u16_key(b, "split.count", n_parts);
    put_string(b, "split.tensors.count", strlen("split.tensors.count"));
    akv_buf_put_u32(b, AKV_GGUF_I32);
    akv_buf_put_u32(b, (uint32_t)g->n_tensors);
}

/* Tensors [from, to) of g. */
static void put_tensors(struct akv_buf *b, const struct akv_gguf *g, uint64_t from, uint64_t to)
{
    uint64_t at = 0;
    for (uint64_t i = from; i < to; i++) {
        const struct akv_tensor *t = &g->tensors[i];
        put_string(b, t->name.s, t->name.len);
        akv_buf_put_u32(b, t->n_dims);
        for (uint32_t d = 0; d < t->n_dims; d++)
            akv_buf_put_u64(b, t->ne[d]);
        akv_buf_put_u32(b, t->dtype);
        akv_buf_put_u64(b, at);
        at += (t->bytes + ALIGN - 1) / ALIGN * ALIGN;
    }
    for (uint64_t i = from; i < to; i++) {
        pad(b);
        akv_buf_add(b, g->tensors[i].data, g->tensors[i].bytes);
    }
    pad(b);
}

static int write_part(const struct akv_gguf *g, const char *name, unsigned no, unsigned n_parts, struct akv_err *err)
{
    char path[4096];
    struct akv_buf b;
    if (snprintf(path, sizeof path, "%s-%05u-of-%05u.gguf", name, no + 1, n_parts) >= (int)sizeof path)
        return akv_fail(err, AKV_E_USAGE, "%s: the name is too long", name);
    uint64_t from = g->n_tensors * no / n_parts, to = g->n_tensors * (no + 1) / n_parts;
    akv_buf_init(&b, 0);
    put_keys(&b, g, no, n_parts, to - from);
    put_tensors(&b, g, from, to);
    int rc = akv_buf_check(&b, path, err), fd = -1;
    if (rc == 0 && (fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)) < 0)
        rc = akv_fail_errno(err, "%s: cannot create", path);
    if (rc == 0)
        rc = akv_write_all(fd, b.data, b.len, path, err);
    if (fd >= 0 && close(fd) && rc == 0)
        rc = akv_fail_errno(err, "%s: cannot write", path);
    akv_buf_release(&b);
    return rc;
}

int main(int argc, char **argv)
{
    struct akv_gguf g;
    struct akv_err err = {0};
    unsigned long n_parts = argc == 4 ? strtoul(argv[3], NULL, 10) : 0;
    if (n_parts < 1 || n_parts > 999) {
        fputs("usage: splitmodel FILE NAME PARTS\n", stderr);
        return 2;
    }
    int rc = akv_gguf_open(&g, argv[1], &err);
    for (unsigned no = 0; rc == 0 && no < n_parts; no++)
        rc = write_part(&g, argv[2], no, (unsigned)n_parts, &err);
    if (rc < 0)
        fprintf(stderr, "splitmodel: %s\n", err.msg);
    akv_gguf_close(&g);
    return rc < 0;
}
