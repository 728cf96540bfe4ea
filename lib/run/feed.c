/* Feeding a session: requests from records or a stream, pages into the arena. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/session.h"

static int feed_head(struct akv_session *s, const struct akv_head *theirs, struct akv_err *err)
{
    int rc = akv_session_need_head(s, err);
    return rc < 0 ? rc : akv_head_match(theirs, &s->head, err);
}

static int feed_page(struct akv_session *s, struct akv_reader *reader, struct akv_err *err)
{
    const struct akv_page_rec *rec = akv_reader_page(reader);
    if (akv_reader_page_open(reader))
        return akv_fail(err, AKV_E_INPUT, "page %u: its parent is not in the stream: put the stream that it continues before it",
                        rec->index);
    double start = akv_now_ms();
    int rc = akv_pages_admit(s, rec, AKV_FROM_STREAM, NULL, err);
    if (rc == 0)
        rc = akv_session_need_writer(s, err);
    if (rc == 0)
        rc = akv_pages_pass(s, rec, AKV_FROM_STREAM, &s->fed, err);
    s->fed.bytes_read += rec->coded_bytes;
    s->fed.restore_ms += akv_now_ms() - start;
    return rc;
}

/* Events until the next request. 1: one is in *out; 0: the end. */
static int next_of_stream(struct akv_session *s, struct akv_input *in, struct akv_request **out, struct akv_err *err)
{
    if (!in->reader) {
        int rc = akv_reader_open(&in->reader, &in->in, err);
        if (rc < 0)
            return rc;
    }
    for (;;) {
        s->can_go_on = false;
        if (akv_session_cancelled(s))
            return akv_fail(err, AKV_E_CANCEL, "interrupted");
        int rc = akv_reader_next(in->reader, err);
        if (rc <= 0)
            return rc;
        if (rc == AKV_EV_HEAD)
            rc = feed_head(s, akv_reader_head(in->reader), err);
        else if (rc == AKV_EV_PAGE)
            rc = feed_page(s, in->reader, err);
        else if (rc == AKV_EV_REQUEST) {
            s->can_go_on = true;
            size_t len;
            const char *json = akv_reader_request(in->reader, &len);
            rc = akv_request_parse(out, NULL, json, len, s->model, err);
            if (rc == 0)
                return 1;
        }
        if (rc < 0) { /* the reader's own errors say so already */
            akv_err_prefix(err, "%s: record %llu", in->in.name, (unsigned long long)akv_reader_record(in->reader));
            return rc;
        }
    }
}

int akv_session_next(struct akv_session *s, struct akv_input *in, struct akv_request **out, struct akv_err *err)
{
    switch (in->kind) {
    case AKV_KIND_STREAM:
        return next_of_stream(s, in, out, err);
    case AKV_KIND_JSON:
        s->can_go_on = true;
        return akv_request_read(out, in, s->model, err);
    case AKV_KIND_GGUF:
        return akv_fail(err, AKV_E_INPUT, "%s: is a model; token records or an akv stream are needed", in->in.name);
    case AKV_KIND_EMPTY:
        break;
    }
    return 0;
}

bool akv_session_can_go_on(const struct akv_session *s)
{
    return s->can_go_on;
}

int akv_session_base(struct akv_session *s, int fd, const char *name, struct akv_err *err)
{
    struct akv_input *in = NULL;
    if (s->out_fd < 0)
        return akv_fail(err, AKV_E_USAGE, "a base stream needs an output that leaves its pages out");
    int rc = akv_input_open(&in, fd, name, s->opts.cancel, err);
    if (rc < 0)
        return rc;
    if (in->kind != AKV_KIND_STREAM) {
        akv_input_close(in);
        return akv_fail(err, AKV_E_INPUT, "%s: not an akv stream", name);
    }
    bool without = s->without_input;
    s->without_input = true;
    struct akv_request *r = NULL;
    while ((rc = akv_session_next(s, in, &r, err)) > 0) /* its requests were answered elsewhere */
        akv_request_free(r);
    s->without_input = without;
    akv_input_close(in);
    return rc;
}
