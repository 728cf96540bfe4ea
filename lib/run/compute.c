#include <stdlib.h>
#include <string.h>

#include "run/session.h"

/* With per-token logits: rows a step, so that their logits stay a few megabytes. */
#define SCORE_ROWS 16u

int akv_compute_begin(struct akv_session *s, struct akv_err *err)
{
    int rc = akv_session_need_arena(s, err);
    if (rc < 0)
        return rc;
    rc = akv_seq_open(&s->seq, s->arena, s->opts.n_ctx, err);
    s->seq_open = rc == 0;
    s->n_keys = s->n_sealed = s->n_restored = 0;
    return rc;
}

void akv_compute_end(struct akv_session *s)
{
    if (!s->seq_open)
        return;
    akv_seq_close(&s->seq);
    s->seq_open = false;
}

static void progress(struct akv_session *s, const char *what, uint32_t done, uint32_t total)
{
    if (s->opts.progress)
        s->opts.progress(s->opts.ctx, what, done, total);
}

/* Tails of the anchors that later requests will begin with, as soon as their page holds them. */
static int save_anchor_tails(struct akv_session *s, const struct akv_record *rec, uint32_t from, struct akv_err *err)
{
    if (!s->opts.save || !s->store)
        return 0;
    for (size_t i = 0; i < rec->n_anchors; i++) {
        const struct akv_anchor *a = &rec->anchors[i];
        bool kept = !strcmp(a->name, "system") || !strcmp(a->name, "tools");
        if (!kept || a->at <= from || a->at > s->seq.n_tokens)
            continue;
        int rc = akv_pages_tail(s, a->at, false, false, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

struct scoring {
    float *logits; /* [rows][n_vocab] */
    int (*per_token)(void *ctx, uint32_t pos, const float *logits);
    void *ctx;
};

/* One step over prompt positions from..from+n. */
static int step(struct akv_session *s, const uint32_t *ids, uint32_t from, uint32_t n, float *last, const struct scoring *score,
                struct akv_err *err)
{
    struct akv_row rows[AKV_STEP_ROWS];
    for (uint32_t i = 0; i < n; i++)
        rows[i] = (struct akv_row){.seq = &s->seq, .id = ids[from + i], .pos = from + i};
    rows[n - 1].logits = last;
    if (score)
        for (uint32_t i = 0; i < n; i++)
            rows[i].logits = score->logits + (size_t)i * s->model->hp.n_vocab;
    int rc = akv_seq_reserve(&s->seq, n, err);
    if (rc == 0)
        rc = akv_engine_step(s->engine, rows, n, err);
    for (uint32_t i = 0; rc == 0 && score && i < n; i++)
        if (score->per_token(score->ctx, from + i, rows[i].logits))
            rc = akv_fail(err, AKV_E_CANCEL, "stopped");
    if (rc == 0 && score && last)
        memcpy(last, rows[n - 1].logits, s->model->hp.n_vocab * sizeof *last);
    return rc;
}

static int compute_rest(struct akv_session *s, const struct akv_record *rec, float *logits, const struct scoring *score,
                        struct akv_err *err)
{
    uint32_t n = (uint32_t)rec->n, start = s->seq.n_tokens;
    uint32_t most = akv_engine_max_rows(s->engine);
    if (score && most > SCORE_ROWS)
        most = SCORE_ROWS;
    while (s->seq.n_tokens < n) {
        if (akv_session_cancelled(s))
            return akv_fail(err, AKV_E_CANCEL, "interrupted");
        uint32_t from = s->seq.n_tokens, rows = n - from < most ? n - from : most;
        int rc = step(s, rec->ids, from, rows, from + rows == n ? logits : NULL, score, err);
        if (rc == 0)
            rc = akv_pages_flush(s, err);
        if (rc == 0)
            rc = save_anchor_tails(s, rec, from, err);
        if (rc < 0)
            return rc;
        progress(s, "prefill", s->seq.n_tokens - start, n - start);
    }
    return 0;
}

/* A full hit: the last token again, as a query over what is there. */
static int query_last(struct akv_session *s, const struct akv_record *rec, float *logits, struct akv_err *err)
{
    uint32_t pos = (uint32_t)rec->n - 1;
    struct akv_row row = {.seq = &s->seq, .id = rec->ids[pos], .pos = pos, .logits = logits, .query_only = true};
    return akv_engine_step(s->engine, &row, 1, err);
}

int akv_check_size(const struct akv_session *s, const struct akv_record *rec, struct akv_err *err)
{
    if (!rec->n)
        return akv_fail(err, AKV_E_INPUT, "request %.40s: has no tokens", rec->id);
    if (rec->n > s->opts.n_ctx)
        return akv_fail(err, AKV_E_INPUT, "request %.40s: %zu tokens: the context holds %u", rec->id, rec->n, s->opts.n_ctx);
    return 0;
}

/* Everything before the first row: an empty sequence, the store, the output, and what is there of the prompt already. */
static int prepare(struct akv_session *s, const struct akv_record *rec, bool reuse, struct akv_stats *st, struct akv_err *err)
{
    uint32_t n = (uint32_t)rec->n;
    *st = s->fed; /* what reading its pages cost belongs to the request that follows them */
    s->fed = (struct akv_stats){0};
    st->hit = st->source = "none";
    st->prompt_tokens = n;
    int rc = akv_check_size(s, rec, err);
    if (rc == 0)
        rc = akv_compute_begin(s, err);
    if (rc == 0)
        rc = akv_session_need_store(s, err);
    if (rc == 0)
        rc = akv_session_need_writer(s, err);
    if (rc == 0 && reuse)
        rc = akv_lookup(s, rec->ids, n, st, err);
    if (rc < 0)
        return rc;
    uint32_t cached = s->seq.n_tokens;
    st->cached_tokens = cached == n ? n - 1 : cached;
    st->prefilled_tokens = n - st->cached_tokens;
    st->hit = !cached ? "none" : st->cached_tokens == n - 1 ? "full" : "partial";
    akv_explain_miss(s, st);
    return rc;
}

int akv_compute_prompt(struct akv_session *s, const struct akv_request *r, float *logits,
                       int (*per_token)(void *ctx, uint32_t pos, const float *logits), void *ctx, struct akv_stats *st,
                       struct akv_err *err)
{
    const struct akv_record *rec = &r->rec;
    struct scoring score = {.per_token = per_token, .ctx = ctx};
    int rc = prepare(s, rec, !s->opts.no_reuse && !per_token, st, err);
    if (rc < 0)
        return rc;
    if (per_token && !(score.logits = akv_alloc((size_t)SCORE_ROWS * s->model->hp.n_vocab, sizeof(float), err)))
        return AKV_E_IO;
    double start = akv_now_ms();
    bool whole = s->seq.n_tokens == rec->n;
    if (!whole || logits)
        rc = akv_session_need_engine(s, err);
    if (rc == 0)
        rc = akv_pages_flush(s, err); /* restored pages go to the output and count as sealed */
    if (rc == 0)
        rc = save_anchor_tails(s, rec, 0, err);
    if (rc == 0 && !whole)
        rc = compute_rest(s, rec, logits, per_token ? &score : NULL, err);
    else if (rc == 0 && logits)
        rc = query_last(s, rec, logits, err);
    st->prefill_ms = akv_now_ms() - start;
    free(score.logits);
    return rc;
}

int akv_output_request(struct akv_session *s, const struct akv_request *r, struct akv_err *err)
{
    akv_buf_clear(&s->scratch);
    int rc = akv_record_write(&r->rec, &s->scratch, err);
    if (rc == 0)
        rc = akv_buf_check(&s->scratch, "token record", err);
    return rc < 0 ? rc : akv_writer_request(s->writer, s->scratch.data, s->scratch.len, err);
}

int akv_compute_token(struct akv_session *s, uint32_t id, float *logits, struct akv_err *err)
{
    struct akv_row row = {.seq = &s->seq, .id = id, .pos = s->seq.n_tokens, .logits = logits};
    int rc = akv_seq_reserve(&s->seq, 1, err);
    return rc < 0 ? rc : akv_engine_step(s->engine, &row, 1, err);
}

int akv_session_prefill(struct akv_session *s, const struct akv_request *r, struct akv_stats *st, struct akv_err *save_err,
                        struct akv_err *err)
{
    s->can_go_on = true;
    int rc = akv_compute_prompt(s, r, NULL, NULL, NULL, st, err);
    if (rc == 0)
        rc = akv_pages_tail(s, s->seq.n_tokens, true, true, err);
    int drained = akv_pages_drain(s, st, rc < 0 ? NULL : err); /* what was computed is kept, whatever happened */
    if (rc == 0)
        rc = drained;
    if (rc == 0) /* where a mapped file ends now, zeros may have been read instead of weights */
        rc = akv_model_intact(s->model, err);
    if (rc == 0 && s->writer)
        rc = akv_output_request(s, r, err);
    akv_compute_end(s);
    if (rc == 0 && s->save_err.code && save_err)
        *save_err = s->save_err;
    return rc;
}
