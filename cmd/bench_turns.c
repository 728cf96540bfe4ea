/* akv-bench turns: time to first token of a conversation's turns, without a store and with one. */
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

static char store_dir[4096]; /* of the warm arm; removed at the end */

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static void remove_store(void)
{
    if (store_dir[0])
        nftw(store_dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

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

/* One turn in a session of its own, as a process of its own would run it. */
static double run_turn(struct bench *b, const struct akv_request *r, bool warm, struct akv_reply *reply, struct akv_stats *st)
{
    struct akv_err err = {0}, save_err = {0};
    struct akv_session_opts so = {0};
    struct akv_gen_opts go;
    double start = bench_wall_ms(), first = 0;
    b->o.store = store_dir;
    b->o.threads = b->threads.v[0];
    b->o.no_store = !warm;
    b->o.save = warm;
    struct akv_session *s = cmd_session(&b->o, b->model, &so);
    akv_gen_opts_init(&go);
    go.text = first_text;
    go.ctx = &first;
    if (akv_session_generate(s, r, &go, reply, st, &save_err, &err) < 0)
        cmd_die_err(&err);
    if (save_err.code)
        cmd_die_err(&save_err);
    akv_session_close(s);
    return (first > 0 ? first : bench_wall_ms()) - start;
}

static void compare(const struct akv_request *r, const struct akv_reply *cold, const struct akv_reply *warm)
{
    size_t n = cold->n < warm->n ? cold->n : warm->n, i = 0;
    while (i < n && cold->ids[i] == warm->ids[i])
        i++;
    if (i < n || cold->n != warm->n)
        cmd_die(1, "%.40s: the arms differ at reply token %zu: cold %lld, warm %lld", akv_request_id(r), i,
                i < cold->n ? (long long)cold->ids[i] : -1LL, i < warm->n ? (long long)warm->ids[i] : -1LL);
}

static void put_turn(struct bench *b, const struct akv_request *r, const struct akv_stats *cold, const struct akv_stats *warm,
                     double cold_ms, double warm_ms)
{
    if (b->format != BENCH_MD) {
        bench_json(b, json_pack("{s:s, s:I, s:I, s:I, s:f, s:f, s:f, s:b}", "turn", akv_request_id(r), "prompt_tokens",
                                (json_int_t)warm->prompt_tokens, "cached_tokens", (json_int_t)warm->cached_tokens,
                                "prefilled_tokens", (json_int_t)warm->prefilled_tokens, "cold_ms", cold_ms, "warm_ms", warm_ms,
                                "speedup", cold_ms / warm_ms, "void", cold->cached_tokens != 0));
        return;
    }
    bench_row(
        b, "| turn | prompt | cached | prefilled | first token cold ms | warm ms | speed-up |\n|---|--:|--:|--:|--:|--:|--:|\n",
        "| %.60s | %u | %u | %u | %.0f | %.0f | %.1fx |%s\n", akv_request_id(r), warm->prompt_tokens, warm->cached_tokens,
        warm->prefilled_tokens, cold_ms, warm_ms, cold_ms / warm_ms, cold->cached_tokens ? " void: the cold arm was not cold" : "");
}

void bench_turns(struct bench *b)
{
    if (b->threads.n > 1)
        cmd_die(2, "--threads: one number for turns, please");
    const char *tmp = getenv("TMPDIR");
    snprintf(store_dir, sizeof store_dir, "%s/akv-bench-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(store_dir))
        cmd_die(5, "%s: cannot create: %s", store_dir, strerror(errno));
    atexit(remove_store);
    cmd_last = remove_store;
    struct cmd_inputs inputs = {0};
    cmd_first_input(&inputs, b->n_operands, b->operands);
    bench_need_model(b);
    struct akv_err err = {0};
    uint64_t hits = 0, void_rows = 0;
    for (struct akv_input *in; (in = cmd_input(&inputs)); cmd_input_done(&inputs)) {
        struct akv_request *r;
        int rc;
        while ((rc = akv_request_read(&r, in, b->model, &err)) > 0) {
            struct akv_reply cold, warm;
            struct akv_stats cold_st, warm_st;
            double cold_ms = run_turn(b, r, false, &cold, &cold_st), warm_ms = run_turn(b, r, true, &warm, &warm_st);
            compare(r, &cold, &warm);
            put_turn(b, r, &cold_st, &warm_st, cold_ms, warm_ms);
            hits += warm_st.cached_tokens;
            void_rows += cold_st.cached_tokens != 0;
            akv_reply_release(&cold);
            akv_reply_release(&warm);
            akv_request_free(r);
        }
        if (rc < 0)
            cmd_die_err(&err);
    }
    if (!hits)
        cmd_die(1, "the warm arm never hit");
    if (void_rows)
        cmd_die(1, "a cold arm was not cold");
}
