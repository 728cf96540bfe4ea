/* Feeding a session: requests from records or a stream, pages into the arena. */
#include <stdlib.h>
#include <string.h>

#include "run/session.h"

static int feed_head(struct akv_session *s, const struct akv_head *theirs, struct akv_err *err)
{
    int rc = akv_session_need_head(s, err);
    return rc < 0 ? rc : akv_head_match(theirs, &s->head, err);
}

/* Most pages of a stream in hand: no more than the arena's spare pages. */
#define ARRIVALS 8u

/* Pages that have arrived and are decoded together, by all threads. */
struct arrivals {
    struct akv_session *s;
    size_t n, most;
    struct arrival {
        struct akv_page_rec rec; /* points into the next two */
        uint32_t ids[AKV_PAGE_TOKENS];
        struct akv_buf body;
        uint64_t record;
        struct akv_page *page; /* owned once; decoded into unless it was found in the arena */
        bool found;
        int rc;
        struct akv_err err;
    } list[ARRIVALS];
};

static struct arrivals *arrivals_open(struct akv_session *s, struct akv_err *err)
{
    struct arrivals *a = akv_alloc(1, sizeof *a, err);
    if (!a)
        return NULL;
    unsigned threads = akv_pool_threads(s->pool);
    a->s = s;
    a->most = threads == 1 ? 1 : 2 * threads < ARRIVALS ? 2 * threads : ARRIVALS;
    for (size_t i = 0; i < ARRIVALS; i++)
        akv_buf_init(&a->list[i].body, 0);
    return a;
}

static void arrivals_close(struct arrivals *a)
{
    for (size_t i = 0; a && i < a->n; i++)
        akv_arena_release(a->s->arena, a->list[i].page);
    for (size_t i = 0; a && i < ARRIVALS; i++)
        akv_buf_release(&a->list[i].body);
    free(a);
}

static void decode_one(void *ctx, size_t task, unsigned thread)
{
    struct arrivals *a = ctx;
    struct arrival *one = &a->list[task];
    if (!one->found)
        one->rc = akv_page_decode(&a->s->coders[thread], &a->s->geom, &one->rec, one->page->kv, &one->err);
}

static int use(struct akv_session *s, struct arrival *one, struct akv_err *err)
{
    if (one->rc < 0)
        return akv_fail(err, one->rc, "%s", one->err.msg);
    if (!one->found)
        akv_pages_settle(s, one->page, &one->rec, AKV_FROM_STREAM);
    s->fed.bytes_read += one->rec.coded_bytes;
    return akv_pages_pass(s, &one->rec, AKV_FROM_STREAM, &s->fed, err);
}

/* All of them to where they belong, in order, up to the first that is wrong. */
static int arrivals_use(struct arrivals *a, const struct akv_input *in, struct akv_err *err)
{
    struct akv_session *s = a->s;
    if (!a->n)
        return 0;
    double start = akv_now_ms();
    int rc = akv_session_need_writer(s, err);
    akv_pool_run(s->pool, decode_one, a, a->n);
    for (size_t i = 0; i < a->n; i++) {
        if (rc == 0) {
            rc = use(s, &a->list[i], err);
            if (rc < 0)
                akv_err_prefix(err, "%s: record %llu", in->in.name, (unsigned long long)a->list[i].record);
        }
        akv_arena_release(s->arena, a->list[i].page);
    }
    a->n = 0;
    s->fed.restore_ms += akv_now_ms() - start;
    return rc;
}

/* The page just read joins them. */
static int arrive(struct arrivals *a, struct akv_reader *reader, struct akv_err *err)
{
    struct akv_session *s = a->s;
    struct arrival *one = &a->list[a->n];
    const struct akv_page_rec *rec = akv_reader_page(reader);
    if (akv_reader_page_open(reader))
        return akv_fail(err, AKV_E_INPUT, "page %u: its parent is not in the stream: put the stream that it continues before it",
                        rec->index);
    int rc = akv_session_need_arena(s, err);
    if (rc < 0)
        return rc;
    struct akv_page *page = akv_arena_find(s->arena, &rec->key, rec->ids, rec->n_tokens);
    one->found = page != NULL;
    if (page)
        akv_arena_share(page);
    else if (!(page = akv_arena_take(s->arena, err)))
        return AKV_E_IO;
    one->page = page;
    one->rec = *rec;
    one->rc = 0;
    one->record = akv_reader_record(reader);
    memcpy(one->ids, rec->ids, rec->n_tokens * sizeof *one->ids);
    akv_reader_take_body(reader, &one->body);
    one->rec.ids = one->ids;
    one->rec.coded = (const uint8_t *)one->body.data;
    a->n++;
    return 0;
}

/* One event. 1: a request is in *out; 0: go on, or at_end. */
static int on_event(struct arrivals *a, struct akv_input *in, bool *at_end, struct akv_request **out, struct akv_err *err)
{
    struct akv_session *s = a->s;
    struct akv_err why = {0};
    int ev = akv_reader_next(in->reader, &why), rc = 0;
    if (ev != AKV_EV_PAGE || a->n == a->most) {
        rc = arrivals_use(a, in, err); /* what was read before is told before */
        if (rc < 0)
            return rc;
    }
    if (ev < 0) /* the reader's own errors name the record */
        return akv_fail(err, ev, "%s", why.msg);
    *at_end = ev == AKV_EV_END;
    s->can_go_on = ev == AKV_EV_REQUEST;
    if (ev == AKV_EV_HEAD) {
        rc = feed_head(s, akv_reader_head(in->reader), err);
    } else if (ev == AKV_EV_PAGE) {
        rc = arrive(a, in->reader, err);
    } else if (ev == AKV_EV_REQUEST) {
        size_t len;
        const char *json = akv_reader_request(in->reader, &len);
        rc = akv_request_parse(out, NULL, json, len, s->model, err);
        if (rc == 0)
            return 1;
    }
    if (rc < 0)
        akv_err_prefix(err, "%s: record %llu", in->in.name, (unsigned long long)akv_reader_record(in->reader));
    return rc;
}

/* Events until the next request. 1: one is in *out; 0: the end. */
static int next_of_stream(struct akv_session *s, struct akv_input *in, struct akv_request **out, struct akv_err *err)
{
    int rc = akv_input_stream(in, err);
    bool at_end = false;
    s->can_go_on = false;
    if (rc < 0)
        return rc;
    struct arrivals *a = arrivals_open(s, err);
    if (!a)
        return AKV_E_IO;
    while (rc == 0 && !at_end)
        rc = akv_session_cancelled(s) ? akv_fail(err, AKV_E_CANCEL, "interrupted") : on_event(a, in, &at_end, out, err);
    arrivals_close(a);
    return rc;
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
    rc = akv_input_stream(in, err);
    if (rc < 0) {
        akv_input_close(in);
        return rc;
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
