/* akv-bench restore: restoring pages from a store, beside zstd on the same bytes with the same threads. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

#define PAGE 64u

/* A store that keeps its pages in this codec. */
static char *store_of(const char *codec)
{
    const char *dir = bench_temp_dir();
    size_t n = strlen(dir) + strlen(codec) + sizeof "//config";
    char *path = cmd_alloc(n);
    struct akv_err err = {0};
    struct akv_store *s;
    snprintf(path, n, "%s/%s", dir, codec);
    if (akv_store_open(&s, path, AKV_STORE_CREATE, &err) < 0)
        cmd_die_err(&err);
    akv_store_close(s);
    snprintf(path, n, "%s/%s/config", dir, codec);
    FILE *config = fopen(path, "w");
    if (!config || fprintf(config, "codec=%s\n", codec) < 0 || fclose(config))
        cmd_die(5, "%s: cannot write: %s", path, strerror(errno));
    snprintf(path, n, "%s/%s", dir, codec);
    return path;
}

static void put_pages(struct bench *b, const char *codec, uint32_t pages, uint32_t threads, const struct akv_bench_pages *p,
                      const double *restore_ns, const double *plain_ns)
{
    double mine = bench_median(restore_ns, b->reps), plain = bench_median(plain_ns, b->reps), raw = (double)p->raw_bytes;
    if (b->format != BENCH_MD) {
        json_t *row = json_pack("{s:s, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f}", "codec", codec, "n_threads",
                                (json_int_t)threads, "n_tokens", (json_int_t)pages * PAGE, "raw_bytes", (json_int_t)p->raw_bytes,
                                "coded_bytes", (json_int_t)p->coded_bytes, "restore_ns", mine, "plain_ns", plain, "restore_gbs",
                                raw / mine, "plain_gbs", raw / plain, "share", plain / mine);
        bench_json(b, row);
        return;
    }
    bench_row(b,
              "| codec | threads | tokens | MB | coded MB | restore ms | GB/s | zstd alone GB/s | share |\n"
              "|---|--:|--:|--:|--:|--:|--:|--:|--:|\n",
              "| %s | %u | %u | %.1f | %.1f | %.1f | %.2f | %.2f | %.0f %% |\n", codec, threads, pages * PAGE, raw * 1e-6,
              (double)p->coded_bytes * 1e-6, mine * 1e-6, raw / mine, raw / plain, 100 * plain / mine);
}

static void run(struct bench *b, uint32_t pages, uint32_t reps, struct akv_bench_pages *p, double *restore_ns, double *plain_ns)
{
    struct akv_err err = {0};
    struct akv_session_opts so = {0};
    b->o.n_ctx = pages * PAGE;
    struct akv_session *s = cmd_session(&b->o, b->model, &so);
    if (akv_bench_restore(s, pages, reps, p, restore_ns, plain_ns, &err) < 0)
        cmd_die_err(&err);
    akv_session_close(s);
}

static void one(struct bench *b, const char *codec, const char *store, uint32_t pages, uint32_t threads)
{
    struct akv_bench_pages p;
    double *restore_ns = cmd_alloc(b->reps * sizeof *restore_ns), *plain_ns = cmd_alloc(b->reps * sizeof *plain_ns);
    b->o.threads = threads;
    b->o.store = store;
    b->o.save = true;
    run(b, pages, 0, &p, NULL, NULL); /* saves them: the threads of the session that is timed have not been held up by that */
    run(b, pages, b->reps, &p, restore_ns, plain_ns);
    put_pages(b, codec, pages, threads, &p, restore_ns, plain_ns);
    free(restore_ns);
    free(plain_ns);
}

void bench_restore(struct bench *b)
{
    static const char *const codecs[] = {"planes", "raw"};
    bench_need_model(b);
    for (size_t c = 0; c < 2; c++) {
        char *store = store_of(codecs[c]);
        for (size_t t = 0; t < b->threads.n; t++)
            for (size_t p = 0; p < b->prompt.n; p++)
                one(b, codecs[c], store, (b->prompt.v[p] + PAGE - 1) / PAGE, b->threads.v[t]);
        free(store);
    }
}
