#include "run/input.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"

/* One byte tells JSON from the rest, so that a short request on an open pipe is not waited on. */
static int find_kind(struct akv_input *in, struct akv_err *err)
{
    const uint8_t *p;
    ssize_t n = akv_in_peek(&in->in, &p, 1, err);
    if (n <= 0) {
        in->kind = AKV_KIND_EMPTY;
        return (int)n;
    }
    in->kind = AKV_KIND_JSON;
    if (p[0] != 'Z' && p[0] != 'G')
        return 0;
    n = akv_in_peek(&in->in, &p, 16, err);
    if (n < 0)
        return (int)n;
    static const uint8_t frame[] = {0x5a, 0x2a, 0x4d, 0x18};
    bool cut = n < 16 && !memcmp(p, frame, n < 4 ? (size_t)n : sizeof frame); /* for the reader to refuse */
    if (cut || akv_is_stream(p, (size_t)n)) {
        in->kind = AKV_KIND_STREAM;
        akv_pipe_widen(in->in.fd);
    } else if (n >= 4 && !memcmp(p, "GGUF", 4)) {
        in->kind = AKV_KIND_GGUF;
    }
    return 0;
}

int akv_input_open(struct akv_input **out, int fd, const char *name, const volatile int *cancel, struct akv_err *err)
{
    struct akv_input *in = akv_alloc(1, sizeof *in, err);
    if (!in)
        return AKV_E_IO;
    int rc = akv_in_open(&in->in, fd, name, err);
    if (rc < 0) {
        free(in);
        return rc;
    }
    in->in.cancel = cancel;
    rc = find_kind(in, err);
    if (rc < 0) {
        akv_input_close(in);
        return rc;
    }
    *out = in;
    return 0;
}

int akv_input_next(struct akv_input *in, int fd, const char *name, struct akv_err *err)
{
    in->text_taken = false;
    int rc = akv_in_switch(&in->in, fd, name, err);
    return rc < 0 ? rc : find_kind(in, err);
}

void akv_input_close(struct akv_input *in)
{
    if (!in)
        return;
    akv_reader_close(in->reader);
    akv_chat_cache_release(&in->cache);
    akv_in_release(&in->in);
    free(in);
}

int akv_input_stream(struct akv_input *in, struct akv_err *err)
{
    if (in->kind != AKV_KIND_STREAM)
        return akv_fail(err, AKV_E_INPUT, "%s: not an akv stream", in->in.name);
    return in->reader ? 0 : akv_reader_open(&in->reader, &in->in, err);
}

enum akv_kind akv_input_kind(const struct akv_input *in)
{
    return in->kind;
}
