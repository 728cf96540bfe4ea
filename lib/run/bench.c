/* Timings of the engine alone, for akv-bench. */
#include <time.h>

#include "run/session.h"

/* Ids that differ from one another and never end a text on purpose: nothing stops on them here. */
uint32_t akv_bench_id(const struct akv_session *s, uint32_t i)
{
    return (i * 7919u + 17u) % s->model->hp.n_vocab;
}

static int run_rows(struct akv_session *s, uint32_t n, uint32_t at_once, bool logits, struct akv_err *err)
{
    struct akv_row rows[AKV_STEP_ROWS];
    for (uint32_t done = 0; done < n;) {
        uint32_t k = n - done < at_once ? n - done : at_once, from = s->seq.n_tokens;
        for (uint32_t i = 0; i < k; i++)
            rows[i] = (struct akv_row){.seq = &s->seq, .id = akv_bench_id(s, from + i), .pos = from + i};
        done += k;
        if (logits && done == n)
            rows[k - 1].logits = s->logits;
        if (akv_session_cancelled(s))
            return akv_fail(err, AKV_E_CANCEL, "interrupted");
        int rc = akv_seq_reserve(&s->seq, k, err);
        if (rc == 0)
            rc = akv_engine_step(s->engine, rows, k, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* Decode: one row a step, logits each time, as generation does. */
static int run_gen(struct akv_session *s, uint32_t n, struct akv_err *err)
{
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < n; i++)
        rc = run_rows(s, 1, 1, true, err);
    return rc;
}

static double cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* n_prompt tokens of prefill and n_gen of decode after the first n_depth tokens that stand. */
static int run_once(struct akv_session *s, uint32_t n_prompt, uint32_t n_gen, uint32_t n_depth, struct akv_err *err)
{
    akv_seq_truncate(&s->seq, n_depth);
    int rc = run_rows(s, n_prompt, akv_engine_max_rows(s->engine), true, err);
    return rc < 0 ? rc : run_gen(s, n_gen, err);
}

/* Ids depend on their positions alone, so any first n tokens that stand are the right ones. */
static int reach_depth(struct akv_session *s, uint32_t n_depth, struct akv_err *err)
{
    uint32_t have = s->seq.n_tokens;
    return have >= n_depth ? 0 : run_rows(s, n_depth - have, akv_engine_max_rows(s->engine), false, err);
}

int akv_bench_engine(struct akv_session *s, uint32_t n_prompt, uint32_t n_gen, uint32_t n_depth, uint32_t reps,
                     struct akv_bench_run *runs, struct akv_err *err)
{
    uint64_t need = (uint64_t)n_prompt + n_gen + n_depth;
    if (!need || need > s->opts.n_ctx)
        return akv_fail(err, AKV_E_USAGE, "%llu tokens: the context holds %u", (unsigned long long)need, s->opts.n_ctx);
    if (!s->logits && !(s->logits = akv_alloc(s->model->hp.n_vocab, sizeof *s->logits, err)))
        return AKV_E_IO;
    int rc = akv_session_need_engine(s, err);
    if (rc == 0 && !s->seq_open)
        rc = akv_compute_begin(s, err);
    if (rc == 0)
        rc = reach_depth(s, n_depth, err);
    if (rc == 0) /* the warm-up: one step of each kind touches the weights and the memory that all others do */
        rc = run_once(s, n_prompt < AKV_STEP_ROWS ? n_prompt : AKV_STEP_ROWS, n_gen < 4 ? n_gen : 4, n_depth, err);
    for (uint32_t i = 0; rc == 0 && i < reps; i++) {
        double start = akv_now_ms(), cpu_start = cpu_ns();
        rc = run_once(s, n_prompt, n_gen, n_depth, err);
        runs[i] = (struct akv_bench_run){.ns = (akv_now_ms() - start) * 1e6, .cpu_ns = cpu_ns() - cpu_start};
    }
    return rc;
}

static double tensor_ops(const struct akv_tensor *t)
{
    return 2.0 * (double)t->ne[0] * (double)t->ne[1];
}

double akv_bench_token_ops(const struct akv_model *m, bool with_output)
{
    double ops = with_output ? tensor_ops(m->output) : 0;
    for (uint32_t i = 0; i < m->hp.n_layers; i++) {
        const struct akv_layer *l = &m->layers[i];
        ops += tensor_ops(l->wq) + tensor_ops(l->wk) + tensor_ops(l->wv) + tensor_ops(l->wo);
        ops += tensor_ops(l->gate) + tensor_ops(l->up) + tensor_ops(l->down);
    }
    return ops;
}

double akv_bench_token_bytes(const struct akv_model *m)
{
    double bytes = (double)m->output->bytes;
    for (uint32_t i = 0; i < m->hp.n_layers; i++) {
        const struct akv_layer *l = &m->layers[i];
        bytes += (double)(l->wq->bytes + l->wk->bytes + l->wv->bytes + l->wo->bytes);
        bytes += (double)(l->gate->bytes + l->up->bytes + l->down->bytes + l->attn_norm->bytes + l->ffn_norm->bytes);
    }
    return bytes;
}
