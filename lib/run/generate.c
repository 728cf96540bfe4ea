#include <stdlib.h>
#include <string.h>

#include "run/session.h"

#define LOGPROBS_MAX 64u

void akv_gen_opts_init(struct akv_gen_opts *o)
{
    *o = (struct akv_gen_opts){
        .max_tokens = -1, .temperature = -1, .top_p = -1, .min_p = -1, .repeat_penalty = -1, .top_k = -1, .seed = -1};
}

void akv_reply_release(struct akv_reply *r)
{
    free(r->ids);
    free(r->text);
    free(r->logprobs);
    free(r->top);
    free(r->prompt_top);
    free(r->prompt_logprobs);
    *r = (struct akv_reply){0};
}

/* A generation in progress. */
struct run {
    struct akv_session *s;
    const struct akv_request *r;
    const struct akv_gen_opts *o;
    struct akv_reply *reply;
    struct akv_sampling how;
    uint32_t max_tokens; /* what fits, at most */
    bool fits_less;      /* max_tokens was cut to what fits */
    const char *const *stop;
    const size_t *stop_len;
    size_t n_stop;
    size_t *own_stop_len;
    struct akv_buf text;
    size_t scanned, emitted;
    uint32_t *history; /* prompt and reply ids: [n_ctx + 1] */
    size_t n_history;
};

static double pick(double from_options, bool has, double from_record, double fallback)
{
    return from_options >= 0 ? from_options : has ? from_record : fallback;
}

/* The command line beats the record, the record beats the default. */
static int settle(struct run *g, struct akv_err *err)
{
    const struct akv_gen *rec = &g->r->rec.gen;
    const struct akv_gen_opts *o = g->o;
    const struct akv_sampling *d = &akv_sampling_default;
    g->how.temperature = pick(o->temperature, rec->has & AKV_GEN_TEMPERATURE, rec->temperature, d->temperature);
    g->how.top_p = pick(o->top_p, rec->has & AKV_GEN_TOP_P, rec->top_p, d->top_p);
    g->how.min_p = pick(o->min_p, rec->has & AKV_GEN_MIN_P, rec->min_p, d->min_p);
    g->how.repeat_penalty = pick(o->repeat_penalty, rec->has & AKV_GEN_REPEAT, rec->repeat_penalty, d->repeat_penalty);
    g->how.top_k = o->top_k >= 0 ? (uint32_t)o->top_k : rec->has & AKV_GEN_TOP_K ? rec->top_k : d->top_k;
    g->how.seed = o->seed >= 0 ? (uint64_t)o->seed : rec->has & AKV_GEN_SEED ? rec->seed : d->seed;
    uint32_t fits = g->s->opts.n_ctx - (uint32_t)g->r->rec.n;
    uint64_t want = o->max_tokens >= 0 ? (uint64_t)o->max_tokens : rec->has & AKV_GEN_MAX_TOKENS ? rec->max_tokens : UINT64_MAX;
    g->fits_less = want > fits;
    g->max_tokens = g->fits_less ? fits : (uint32_t)want;
    g->stop = (const char *const *)rec->stop;
    g->stop_len = rec->stop_len;
    g->n_stop = rec->has & AKV_GEN_STOP ? rec->n_stop : 0;
    if (o->n_stop) {
        g->own_stop_len = akv_alloc(o->n_stop, sizeof *g->own_stop_len, err);
        if (!g->own_stop_len)
            return AKV_E_IO;
        for (size_t i = 0; i < o->n_stop; i++)
            g->own_stop_len[i] = strlen(o->stop[i]);
        g->stop = o->stop;
        g->stop_len = g->own_stop_len;
        g->n_stop = o->n_stop;
    }
    if (o->n_logprobs > LOGPROBS_MAX)
        return akv_fail(err, AKV_E_USAGE, "logprobs: %u: at most %u", o->n_logprobs, LOGPROBS_MAX);
    return akv_sampling_check(&g->how, err);
}

static int reserve(struct run *g, struct akv_err *err)
{
    struct akv_session *s = g->s;
    uint32_t n_vocab = s->model->hp.n_vocab;
    size_t n = g->max_tokens, top = g->o->n_logprobs;
    struct akv_reply *reply = g->reply;
    if (!s->sampler && akv_sampler_open(&s->sampler, n_vocab, err) < 0)
        return AKV_E_IO;
    if (!s->logits && !(s->logits = akv_alloc(n_vocab, sizeof *s->logits, err)))
        return AKV_E_IO;
    reply->n_top = top < n_vocab ? top : n_vocab;
    if (!(reply->ids = akv_alloc(n, sizeof *reply->ids, err)) ||
        !(g->history = akv_alloc(g->r->rec.n + n, sizeof *g->history, err)))
        return AKV_E_IO;
    memcpy(g->history, g->r->rec.ids, g->r->rec.n * sizeof *g->history);
    g->n_history = g->r->rec.n;
    if (!g->o->want_logprobs)
        return 0;
    if (!(reply->logprobs = akv_alloc(n, sizeof *reply->logprobs, err)) ||
        !(reply->top = akv_alloc(n * reply->n_top, sizeof *reply->top, err)))
        return AKV_E_IO;
    if (!g->o->echo)
        return 0;
    reply->n_prompt = g->r->rec.n;
    if (!(reply->prompt_logprobs = akv_alloc(reply->n_prompt, sizeof *reply->prompt_logprobs, err)) ||
        !(reply->prompt_top = akv_alloc(reply->n_prompt * reply->n_top, sizeof *reply->prompt_top, err)))
        return AKV_E_IO;
    return 0;
}

/* Scores a prompt position: the distribution after token pos, and the log-probability of the one that follows. */
static int score(void *ctx, uint32_t pos, const float *logits)
{
    struct run *g = ctx;
    struct akv_reply *reply = g->reply;
    bool last = pos + 1 == reply->n_prompt;
    double logprob = 0;
    akv_logprobs(g->s->sampler, logits, last ? g->r->rec.ids[pos] : g->r->rec.ids[pos + 1], &logprob,
                 reply->prompt_top + (size_t)pos * reply->n_top, reply->n_top);
    reply->prompt_logprobs[pos] = last ? 0 : logprob;
    return 0;
}

/* Hand on the text that is certain by now. */
static int emit(struct run *g, size_t upto, struct akv_err *err)
{
    if (g->o->text && upto > g->emitted && g->o->text(g->o->ctx, g->text.data + g->emitted, upto - g->emitted))
        return akv_fail(err, AKV_E_CANCEL, "stopped by the reader");
    if (upto > g->emitted)
        g->emitted = upto;
    return 0;
}

static int echo_prompt(struct run *g, struct akv_err *err)
{
    char *text = NULL;
    size_t len;
    if (!g->o->echo || !g->o->text)
        return 0;
    int rc = akv_decode(g->s->model, g->r->rec.ids, g->r->rec.n, false, &text, &len, err);
    if (rc == 0 && g->o->text(g->o->ctx, text, len))
        rc = akv_fail(err, AKV_E_CANCEL, "stopped by the reader");
    free(text);
    return rc;
}

/* Take a sampled id into the reply. 1: a stop string was met and the text is cut there; 0: go on. */
static int take(struct run *g, uint32_t id, struct akv_err *err)
{
    struct akv_reply *reply = g->reply;
    if (g->o->want_logprobs)
        akv_logprobs(g->s->sampler, g->s->logits, id, &reply->logprobs[reply->n], reply->top + reply->n * reply->n_top,
                     reply->n_top);
    reply->ids[reply->n++] = id;
    g->history[g->n_history++] = id;
    int rc = akv_tok_decode(g->s->model->tok, &id, 1, true, &g->text, err);
    if (rc == 0)
        rc = akv_buf_check(&g->text, "reply", err);
    if (rc < 0)
        return rc;
    size_t safe, found = akv_stop_find(g->text.data, g->text.len, g->scanned, g->stop, g->stop_len, g->n_stop, &safe);
    g->scanned = g->text.len;
    if (found != SIZE_MAX) {
        g->text.len = found;
        g->text.data[found] = '\0';
        rc = emit(g, found, err);
        return rc < 0 ? rc : 1;
    }
    return emit(g, safe, err);
}

/* The loop: sample, take, evaluate. Ends with reply->finish_reason set. */
static int loop(struct run *g, struct akv_err *err)
{
    struct akv_session *s = g->s;
    g->reply->finish_reason = g->fits_less ? "context" : "length";
    while (g->reply->n < g->max_tokens) {
        if (akv_session_cancelled(s))
            return akv_fail(err, AKV_E_CANCEL, "interrupted");
        uint32_t id = akv_sample(s->sampler, &g->how, s->logits, g->history, g->n_history, g->reply->n);
        if (akv_tok_is_eog(s->model->tok, id)) {
            g->reply->finish_reason = "stop";
            break;
        }
        int rc = take(g, id, err);
        if (rc < 0)
            return rc;
        if (rc == 1) {
            g->reply->finish_reason = "stop";
            return 0;
        }
        if (g->reply->n == g->max_tokens)
            break;
        rc = akv_compute_token(s, id, s->logits, err);
        if (rc == 0) /* before a token is shown */
            rc = akv_model_intact(s->model, err);
        if (rc == 0)
            rc = akv_pages_flush(s, err);
        if (rc < 0)
            return rc;
    }
    return emit(g, g->text.len, err);
}

static int generate(struct run *g, struct akv_stats *st, struct akv_err *err)
{
    struct akv_session *s = g->s;
    double start = akv_now_ms();
    int rc = settle(g, err);
    if (rc == 0)
        rc = reserve(g, err);
    if (rc < 0)
        return rc;
    bool scoring = g->o->echo && g->o->want_logprobs;
    rc = akv_compute_prompt(s, g->r, s->logits, scoring ? score : NULL, g, st, err);
    if (rc == 0)
        rc = akv_model_intact(s->model, err);
    if (rc == 0)
        rc = echo_prompt(g, err);
    st->ttft_ms = akv_now_ms() - start;
    double decode = akv_now_ms();
    if (rc == 0)
        rc = loop(g, err);
    st->decode_ms = akv_now_ms() - decode;
    st->completion_tokens = (uint32_t)g->reply->n;
    /* what was evaluated is kept even when the reader has gone */
    if ((rc == 0 || rc == AKV_E_CANCEL) && s->seq_open) {
        struct akv_err tail_err = {0};
        if (akv_pages_tail(s, s->seq.n_tokens, false, true, &tail_err) < 0 && !s->save_err.code)
            s->save_err = tail_err;
    }
    return rc;
}

int akv_session_generate(struct akv_session *s, const struct akv_request *r, const struct akv_gen_opts *o, struct akv_reply *reply,
                         struct akv_stats *st, struct akv_err *save_err, struct akv_err *err)
{
    struct run g = {.s = s, .r = r, .o = o, .reply = reply};
    *reply = (struct akv_reply){0};
    *st = (struct akv_stats){.hit = "none", .source = "none", .prompt_tokens = (uint32_t)r->rec.n};
    s->can_go_on = true;
    if (s->out_fd >= 0)
        return akv_fail(err, AKV_E_USAGE, "a session that writes a stream does not generate");
    akv_buf_init(&g.text, 0);
    int rc = r->rec.n > s->opts.n_ctx || !r->rec.n ? akv_compute_prompt(s, r, NULL, NULL, NULL, st, err) : generate(&g, st, err);
    (void)akv_pages_drain(s, st, NULL); /* without an output, what fails is the save */
    akv_compute_end(s);
    reply->text_len = g.text.len;
    reply->text = akv_buf_steal(&g.text);
    akv_buf_release(&g.text);
    free(g.history);
    free(g.own_stop_len);
    if (rc == 0 && s->save_err.code && save_err)
        *save_err = s->save_err;
    if (rc < 0 && rc != AKV_E_CANCEL)
        akv_reply_release(reply);
    return rc;
}
