/* Timings for akv-bench: the machine's limits and the engine alone. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "kernels/peak.h"
#include "run/session.h"

#define READ_BYTES ((size_t)256 << 20)

/* Units a second of the best of five runs, each of at least 20 ms. */
static double best_rate(uint64_t (*loop)(uint64_t rounds))
{
    double best = 0;
    uint64_t rounds = 100000;
    for (int run = 0; run < 5;) {
        double start = akv_now_ms();
        uint64_t done = loop(rounds);
        double ms = akv_now_ms() - start;
        if (ms < 20) {
            rounds *= 2;
            continue;
        }
        double rate = (double)done / ms * 1e-6; /* 10^9 a second */
        if (rate > best)
            best = rate;
        run++;
    }
    return best;
}

static double best_read(const uint8_t *p)
{
    double best = 0;
    for (int run = 0; run < 5; run++) {
        double start = akv_now_ms();
        volatile uint64_t keep = akv_peak_read(p, READ_BYTES);
        (void)keep;
        double rate = (double)READ_BYTES / (akv_now_ms() - start) * 1e-6;
        if (rate > best)
            best = rate;
    }
    return best;
}

int akv_bench_machine(struct akv_machine *out, struct akv_err *err)
{
    *out = (struct akv_machine){0};
    if (!akv_ops_pick("avx2"))
        return 0;
    uint8_t *p = mmap(NULL, READ_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return akv_fail_errno(err, "cannot get %zu bytes to read", READ_BYTES);
    memset(p, 1, READ_BYTES);
    out->read_gbs = best_read(p);
    munmap(p, READ_BYTES);
    out->int8_gops = best_rate(akv_peak_int8);
    out->int8_i16_gops = best_rate(akv_peak_int8_i16);
    out->fma_gflops = best_rate(akv_peak_fma);
    return 0;
}

/* Ids that differ from one another and never end a text on purpose: nothing stops on them here. */
static uint32_t nth_id(const struct akv_session *s, uint32_t i)
{
    return (i * 7919u + 17u) % s->model->hp.n_vocab;
}

static int run_rows(struct akv_session *s, uint32_t n, uint32_t at_once, bool logits, struct akv_err *err)
{
    struct akv_row rows[AKV_STEP_ROWS];
    for (uint32_t done = 0; done < n;) {
        uint32_t k = n - done < at_once ? n - done : at_once, from = s->seq.n_tokens;
        for (uint32_t i = 0; i < k; i++)
            rows[i] = (struct akv_row){.seq = &s->seq, .id = nth_id(s, from + i), .pos = from + i};
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

int akv_bench_engine(struct akv_session *s, uint32_t n_prompt, uint32_t n_gen, uint32_t n_depth, uint32_t reps, double *ns,
                     struct akv_err *err)
{
    uint64_t need = (uint64_t)n_prompt + n_gen + n_depth;
    if (!need || need > s->opts.n_ctx)
        return akv_fail(err, AKV_E_USAGE, "%llu tokens: the context holds %u", (unsigned long long)need, s->opts.n_ctx);
    if (!s->logits && !(s->logits = akv_alloc(s->model->hp.n_vocab, sizeof *s->logits, err)))
        return AKV_E_IO;
    int rc = akv_session_need_engine(s, err);
    if (rc == 0)
        rc = akv_compute_begin(s, err);
    uint32_t most = rc == 0 ? akv_engine_max_rows(s->engine) : 1;
    if (rc == 0)
        rc = run_rows(s, n_depth, most, false, err);
    for (uint32_t i = 0; rc == 0 && i <= reps; i++) {
        double start = akv_now_ms();
        rc = run_rows(s, n_prompt, most, true, err);
        if (rc == 0)
            rc = run_gen(s, n_gen, err);
        if (i) /* the first warms caches and memory up */
            ns[i - 1] = (akv_now_ms() - start) * 1e6;
        akv_seq_truncate(&s->seq, n_depth);
    }
    akv_compute_end(s);
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
