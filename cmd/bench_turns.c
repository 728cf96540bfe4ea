/*
 * akv-bench turns: time to first token of a conversation's turns in three arms: without a store, with one that is empty (and is filled),
 * and with the one that the turns before have filled. Whoever cannot prove that he did what his name says is void, or fails.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "bench.h"

enum arm { NONE, COLD, WARM, ARMS };
static const char *const arm_names[] = {"none", "cold", "warm"};

struct turn {
    struct akv_request *request;
    struct akv_reply reply; /* of the first run: all others must give the same */
    bool replied;
    double *ms[ARMS];      /* [runs] to the first text */
    double *restore_ms;    /* [runs] of the warm arm */
    double *prefill_ms;    /* [runs] of the arm without a store */
    struct akv_stats warm; /* of the last run */
    uint32_t cold_cached;  /* the most that a cold run found: 0, or the row is void */
    enum bench_cache cache;
};

struct turns {
    struct bench *b;
    struct turn *v;
    size_t n;
    const char *dir;
    bool keep; /* it is the user's */
};

/* ---- running ---- */

/* When the first byte of the reply came. */
static int first_text(void *ctx, const char *text, size_t len)
{
    double *at = ctx;
    (void)text;
    (void)len;
    if (*at == 0)
        *at = bench_wall_ms();
    return 0;
}

static void compare(const struct turn *t, enum arm arm, const struct akv_reply *got)
{
    const struct akv_reply *first = &t->reply;
    size_t n = first->n < got->n ? first->n : got->n, i = 0;
    while (i < n && first->ids[i] == got->ids[i])
        i++;
    if (i < n || first->n != got->n)
        cmd_die(1, "%.40s: the replies differ at token %zu: %s %lld, %s %lld", akv_request_id(t->request), i, arm_names[NONE],
                i < first->n ? (long long)first->ids[i] : -1LL, arm_names[arm], i < got->n ? (long long)got->ids[i] : -1LL);
}

/* One turn in a session of its own, as a process of its own would run it. store: NULL without one. */
static void run_turn(struct turns *all, struct turn *t, enum arm arm, uint32_t run, const char *store)
{
    struct bench *b = all->b;
    struct akv_err err = {0}, save_err = {0};
    struct akv_session_opts so = {0};
    struct akv_gen_opts go;
    struct akv_reply reply;
    struct akv_stats st;
    double start = bench_wall_ms(), first = 0;
    b->o.store = store;
    b->o.threads = b->threads.v[0];
    b->o.no_store = !store;
    b->o.save = store != NULL;
    struct akv_session *s = cmd_session(&b->o, b->model, &so);
    akv_gen_opts_init(&go);
    go.text = first_text;
    go.ctx = &first;
    if (akv_session_generate(s, t->request, &go, &reply, &st, &save_err, &err) < 0)
        cmd_die_err(&err);
    if (save_err.code)
        cmd_die_err(&save_err);
    akv_session_close(s);
    t->ms[arm][run] = (first > 0 ? first : bench_wall_ms()) - start;
    if (arm == NONE)
        t->prefill_ms[run] = st.prefill_ms;
    if (arm == COLD && st.cached_tokens > t->cold_cached)
        t->cold_cached = st.cached_tokens;
    if (arm == WARM) {
        t->restore_ms[run] = st.restore_ms;
        t->warm = st;
    }
    if (t->replied) {
        compare(t, arm, &reply);
        akv_reply_release(&reply);
    } else {
        t->reply = reply;
        t->replied = true;
    }
}

static void run_all(struct turns *all, uint32_t run)
{
    char dir[4096 + 32], warm[sizeof dir + 32], cold[sizeof dir + 32];
    snprintf(dir, sizeof dir, "%s/run-%u", all->dir, run + 1);
    snprintf(warm, sizeof warm, "%s/warm", dir);
    mkdir(all->dir, 0700); /* what is wrong with them shows when a store is made there */
    mkdir(dir, 0700);
    for (size_t i = 0; i < all->n; i++) {
        struct turn *t = &all->v[i];
        run_turn(all, t, NONE, run, NULL);
        snprintf(cold, sizeof cold, "%s/cold-%zu", dir, i + 1);
        run_turn(all, t, COLD, run, cold);
        if (!all->keep)
            bench_remove(cold);
        if (all->b->drop_cache)
            bench_cache_drop(warm);
        t->cache = bench_cache_state(warm);
        run_turn(all, t, WARM, run, warm);
    }
    if (!all->keep)
        bench_remove(dir);
}

/* The weights are hashed once for the first use of any store: before the turns, so that it is none of theirs. */
static void hash_weights(struct bench *b)
{
    struct akv_err err = {0};
    struct akv_session_opts so = {0};
    char *json;
    double start = bench_wall_ms();
    b->o.threads = b->threads.v[0];
    b->o.no_store = true;
    struct akv_session *s = cmd_session(&b->o, b->model, &so);
    if (akv_session_root(s, &json, &err) < 0)
        cmd_die_err(&err);
    cmd_detail("the weights' digest: %.1f ms", bench_wall_ms() - start);
    free(json);
    akv_session_close(s);
}

/* ---- when restoring pays ---- */

struct model {               /* milliseconds */
    double fixed, per_token; /* of restoring: a line through what the turns found and what that took */
    double prefill;          /* of a token, over all prompts without a store */
};

/* Least squares over the turns that found something, or over all. False: they found equally much, and there is no line. */
static bool fit_restore(const struct turns *all, bool hits_only, struct model *m)
{
    double n = 0, x_sum = 0, y_sum = 0, xx = 0, xy = 0;
    for (size_t i = 0; i < all->n; i++) {
        double x = all->v[i].warm.cached_tokens, y = bench_median(all->v[i].restore_ms, all->b->reps);
        if (hits_only && x <= 0)
            continue;
        n++;
        x_sum += x;
        y_sum += y;
        xx += x * x;
        xy += x * y;
    }
    double spread = n * xx - x_sum * x_sum;
    if (spread <= 0)
        return false;
    m->per_token = (n * xy - x_sum * y_sum) / spread;
    m->per_token = m->per_token > 0 ? m->per_token : 0;
    m->fixed = (y_sum - m->per_token * x_sum) / n;
    m->fixed = m->fixed > 0 ? m->fixed : 0;
    return true;
}

static struct model fit(const struct turns *all)
{
    struct model m = {0};
    double prefill_ms = 0, prompt = 0, restore_ms = 0, cached = 0;
    for (size_t i = 0; i < all->n; i++) {
        const struct turn *t = &all->v[i];
        restore_ms += bench_median(t->restore_ms, all->b->reps);
        cached += t->warm.cached_tokens;
        prefill_ms += bench_median(t->prefill_ms, all->b->reps);
        prompt += t->warm.prompt_tokens;
    }
    m.prefill = prompt > 0 ? prefill_ms / prompt : 0;
    if (!fit_restore(all, true, &m) && !fit_restore(all, false, &m))
        m.per_token = cached > 0 ? restore_ms / cached : 0;
    return m;
}

/* Restoring fewer tokens than this takes longer than computing them; 0: restoring never pays. */
static double break_even(const struct model *m)
{
    double gain = m->prefill - m->per_token, n = gain > 0 ? m->fixed / gain : 0;
    return gain > 0 ? (n < 1 ? 1 : (double)(uint64_t)(n + 0.999999)) : 0;
}

/* ---- rows ---- */

/* What a hit restored, and what computing those tokens takes at the rate of these prompts. */
static bool is_slower(const struct turn *t, const struct model *m, uint32_t runs)
{
    return t->warm.cached_tokens && bench_median(t->restore_ms, runs) > m->prefill * t->warm.cached_tokens;
}

static void put_turn_json(struct turns *all, const struct turn *t, const struct model *m)
{
    uint32_t runs = all->b->reps;
    double none = bench_median(t->ms[NONE], runs), warm = bench_median(t->ms[WARM], runs), even = break_even(m);
    bool is_void = t->cold_cached != 0;
    bench_json(all->b,
               json_pack("{s:s, s:I, s:I, s:I, s:f, s:o, s:f, s:f, s:f, s:f, s:s, s:b, s:f, s:f, s:f, s:o, s:b}", "turn",
                         akv_request_id(t->request), "prompt_tokens", (json_int_t)t->warm.prompt_tokens, "cached_tokens",
                         (json_int_t)t->warm.cached_tokens, "prefilled_tokens", (json_int_t)t->warm.prefilled_tokens, "none_ms",
                         none, "cold_ms", is_void ? json_null() : json_real(bench_median(t->ms[COLD], runs)), "warm_ms", warm,
                         "speedup", none / warm, "restore_ms", bench_median(t->restore_ms, runs), "bytes_read",
                         (double)t->warm.bytes_read, "page_cache", bench_cache_name(t->cache), "slower", is_slower(t, m, runs),
                         "restore_fixed_ms", m->fixed, "restore_token_ms", m->per_token, "prefill_token_ms", m->prefill,
                         "break_even_tokens", even > 0 ? json_integer((json_int_t)even) : json_null(), "void", is_void));
}

static void put_turn(struct turns *all, const struct turn *t, const struct model *m)
{
    uint32_t runs = all->b->reps;
    double none = bench_median(t->ms[NONE], runs), warm = bench_median(t->ms[WARM], runs);
    char cold[64], words[128] = "";
    if (all->b->format != BENCH_MD) {
        put_turn_json(all, t, m);
        return;
    }
    snprintf(cold, sizeof cold, t->cold_cached ? "void" : "%.1f", bench_median(t->ms[COLD], runs));
    if (t->cold_cached)
        snprintf(words, sizeof words, " void: the cold arm found %u tokens", t->cold_cached);
    else if (is_slower(t, m, runs))
        snprintf(words, sizeof words, " slower: restoring took longer than computing");
    bench_row(all->b,
              "| turn | prompt | cached | prefilled | none ms | cold ms | warm ms | speed-up | page cache |\n"
              "|---|--:|--:|--:|--:|--:|--:|--:|---|\n",
              "| %.60s | %u | %u | %u | %.1f | %s | %.1f | %.1fx | %s |%s\n", akv_request_id(t->request), t->warm.prompt_tokens,
              t->warm.cached_tokens, t->warm.prefilled_tokens, none, cold, warm, none / warm, bench_cache_name(t->cache), words);
}

static void put_model(struct turns *all, const struct model *m)
{
    double even = break_even(m);
    bench_text(all->b,
               "\nMilliseconds to the first text, medians of %u runs. Restoring: %.2f ms and %.4f ms a token; computing: %.4f ms a "
               "token.\n",
               all->b->reps, m->fixed, m->per_token, m->prefill);
    if (even > 0)
        bench_text(all->b, "Restoring is faster from %.0f tokens on.\n", even);
    else
        bench_text(all->b, "Restoring is slower at any length.\n");
}

/* ---- the mode ---- */

static void add_turn(struct turns *all, struct akv_request *r)
{
    struct turn *v = realloc(all->v, (all->n + 1) * sizeof *v);
    if (!v)
        cmd_die(5, "out of memory");
    all->v = v;
    struct turn *t = &v[all->n++];
    *t = (struct turn){.request = r};
    size_t bytes = all->b->reps * sizeof(double);
    for (size_t i = 0; i < ARMS; i++)
        t->ms[i] = cmd_alloc(bytes);
    t->restore_ms = cmd_alloc(bytes);
    t->prefill_ms = cmd_alloc(bytes);
}

static void read_turns(struct turns *all)
{
    struct bench *b = all->b;
    struct cmd_inputs inputs = {0};
    struct akv_err err = {0};
    cmd_first_input(&inputs, b->n_operands, b->operands);
    bench_need_model(b);
    for (struct akv_input *in; (in = cmd_input(&inputs)); cmd_input_done(&inputs)) {
        struct akv_request *r;
        int rc;
        while ((rc = akv_request_read(&r, in, b->model, &err)) > 0)
            add_turn(all, r);
        if (rc < 0)
            cmd_die_err(&err);
    }
    cmd_leave_if_none(all->n);
}

static void release(struct turns *all)
{
    for (size_t i = 0; i < all->n; i++) {
        struct turn *t = &all->v[i];
        akv_request_free(t->request);
        akv_reply_release(&t->reply);
        for (size_t a = 0; a < ARMS; a++)
            free(t->ms[a]);
        free(t->restore_ms);
        free(t->prefill_ms);
    }
    free(all->v);
}

void bench_turns(struct bench *b)
{
    struct turns all = {.b = b, .dir = b->store, .keep = b->store != NULL};
    uint64_t hits = 0, n_void = 0;
    if (b->threads.n > 1)
        cmd_die(2, "--threads: one number for turns, please");
    read_turns(&all);
    if (!all.dir)
        all.dir = bench_temp_dir();
    hash_weights(b);
    for (uint32_t run = 0; run < b->reps; run++)
        run_all(&all, run);
    struct model m = fit(&all);
    for (size_t i = 0; i < all.n; i++) {
        put_turn(&all, &all.v[i], &m);
        hits += all.v[i].warm.cached_tokens;
        n_void += all.v[i].cold_cached != 0;
    }
    put_model(&all, &m);
    release(&all);
    if (n_void)
        cmd_die(1, "%llu rows are void: their cold arm met a store that was not empty", (unsigned long long)n_void);
    if (!hits)
        cmd_die(1, "the warm arm never hit");
}
