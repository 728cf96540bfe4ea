/* What the modes of akv-bench share: options, rows, clocks. Each mode is a file, cmd/bench_MODE.c, and a row of `modes` in akv_bench.c. */
#ifndef AKV_CMD_BENCH_H
#define AKV_CMD_BENCH_H

#include <jansson.h>

#include "cmd.h"

#define BENCH_LIST_MAX 32
struct bench_list {
    uint32_t v[BENCH_LIST_MAX];
    size_t n;
};

enum bench_format { BENCH_MD, BENCH_JSON, BENCH_JSONL };

struct bench {
    struct cmd_opts o;
    struct bench_list prompt, gen, depth, threads;
    uint32_t reps;
    enum bench_format format;
    const char *store; /* -s, or NULL */
    bool drop_cache;
    char **operands; /* what stands after the mode */
    int n_operands;
    struct akv_model *model; /* after bench_need_model(), and so is `about` */
    json_t *about;           /* the model described */
    struct cmd_out out;
    bool first; /* no row printed yet */
};

/* ---- the modes: each prints its rows and returns, or dies ---- */

void bench_engine(struct bench *b);
void bench_kernels(struct bench *b);
void bench_restore(struct bench *b);
void bench_turns(struct bench *b);

/* Open the model: after what can be said without it. */
void bench_need_model(struct bench *b);

/* ---- bench_rows.c ---- */

/* Text of a table; nothing in the other formats. */
void bench_text(struct bench *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A row of a table, after the heading if it is the first. */
void bench_row(struct bench *b, const char *heading, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* A row as JSON; takes the reference. */
void bench_json(struct bench *b, json_t *row);
void bench_end(struct bench *b); /* after the last row */

double bench_wall_ms(void);
double bench_median(const double *v, size_t n);
void bench_mean(const double *v, size_t n, double *mean, double *deviation);

/* ---- bench_store.c ---- */

/* A new directory in TMPDIR, removed with all in it at the end, however that comes. The same at each call. */
const char *bench_temp_dir(void);
void bench_remove(const char *dir); /* with all in it */

/* How much of a store's objects the page cache holds. */
enum bench_cache {
    BENCH_CACHE_NONE, /* there are none */
    BENCH_CACHE_WARM,
    BENCH_CACHE_DROPPED,
    BENCH_CACHE_PART,
    BENCH_CACHE_UNKNOWN
};
enum bench_cache bench_cache_state(const char *dir);
const char *bench_cache_name(enum bench_cache c);
void bench_cache_drop(const char *dir); /* as far as the file system does: ask for the state afterwards */

#endif
