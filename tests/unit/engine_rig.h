/* A model with everything that a forward pass needs, for the engine's tests. Failures end the test. */
#ifndef AKV_TESTS_ENGINE_RIG_H
#define AKV_TESTS_ENGINE_RIG_H

#include "tests/check.h"

#include <jansson.h>

#include "engine/engine.h"

/* Where everything takes ten times as long, the longest loops take samples. */
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define RIG_SAMPLES true
#else
#define RIG_SAMPLES false
#endif

struct rig {
    struct akv_model *model;
    struct akv_pool *pool;
    struct akv_engine *engine;
    struct akv_arena *arena;
    struct akv_seq seq;
    const struct akv_ops *ops;
};

static inline void rig_open(struct rig *r, const char *path, const struct akv_ops *ops, unsigned n_threads, enum akv_kv_dtype kv,
                            uint32_t max_rows, uint32_t n_ctx)
{
    struct akv_err err = {0};
    *r = (struct rig){.ops = ops ? ops : akv_ops_pick(NULL)};
    assert_ok(akv_model_load(&r->model, path, 0, &err), &err);
    assert_ok(akv_pool_open(&r->pool, n_threads, &err), &err);
    assert_ok(akv_engine_open(&r->engine, r->model, r->ops, r->pool, kv, max_rows, &err), &err);
    struct akv_geom g;
    akv_engine_geom(r->model, kv, &g);
    assert_ok(akv_arena_open(&r->arena, &g, 3 * ((n_ctx + 63) / 64), &err), &err);
    assert_ok(akv_seq_open(&r->seq, r->arena, n_ctx, &err), &err);
}

static inline void rig_close(struct rig *r)
{
    akv_seq_close(&r->seq);
    akv_arena_close(r->arena);
    akv_engine_close(r->engine);
    akv_pool_close(r->pool);
    akv_model_unload(r->model);
}

/*
 * Feed ids[0..n) to s from its end on, chunk rows a step. logits: NULL; [n_vocab] of the last; with all: [n][n_vocab] of every row.
 */
static inline int rig_feed(struct rig *r, struct akv_seq *s, const uint32_t *ids, size_t n, size_t chunk, float *logits, bool all,
                           struct akv_err *err)
{
    size_t n_vocab = r->model->hp.n_vocab;
    struct akv_row *rows = calloc(chunk, sizeof *rows);
    int rc = 0;
    for (size_t at = 0; rc == 0 && at < n; at += chunk) {
        size_t m = n - at < chunk ? n - at : chunk;
        for (size_t i = 0; i < m; i++) {
            rows[i] = (struct akv_row){.seq = s, .id = ids[at + i], .pos = s->n_tokens + (uint32_t)i};
            if (logits && all)
                rows[i].logits = logits + (at + i) * n_vocab;
            else if (at + i + 1 == n)
                rows[i].logits = logits;
        }
        rc = akv_seq_reserve(s, (uint32_t)m, err);
        if (rc == 0)
            rc = akv_engine_step(r->engine, rows, m, err);
    }
    free(rows);
    return rc;
}

/* The KV of s as bodies of its pages, one after the other: what a snapshot would hold. *bytes receives the size. */
static inline uint8_t *rig_kv(const struct rig *r, const struct akv_seq *s, size_t *bytes)
{
    const struct akv_geom *g = akv_arena_geom(r->arena);
    *bytes = s->n_tokens * akv_geom_token_bytes(g);
    uint8_t *kv = malloc(*bytes + 1), *at = kv;
    for (uint32_t i = 0; i * 64 < s->n_tokens; i++) {
        uint32_t n = s->n_tokens - i * 64 < 64 ? s->n_tokens - i * 64 : 64;
        akv_page_to_body(g, at, s->kv[i], n);
        at += n * akv_geom_token_bytes(g);
    }
    return kv;
}

/* The index of the largest of n. */
static inline uint32_t rig_argmax(const float *x, size_t n)
{
    size_t best = 0;
    for (size_t i = 1; i < n; i++) {
        if (x[i] > x[best])
            best = i;
    }
    return (uint32_t)best;
}

/* The next line of a JSON Lines file, or NULL at its end. */
static inline json_t *rig_json_line(FILE *f)
{
    char *line = NULL;
    size_t cap = 0;
    ssize_t n = getline(&line, &cap, f);
    json_t *v = n > 0 ? json_loadb(line, (size_t)n, 0, NULL) : NULL;
    free(line);
    return v;
}

/* An array of integers; *n receives the length. */
static inline uint32_t *rig_ids(const json_t *array, size_t *n)
{
    *n = json_array_size(array);
    uint32_t *ids = calloc(*n + 1, sizeof *ids);
    for (size_t i = 0; i < *n; i++)
        ids[i] = (uint32_t)json_integer_value(json_array_get(array, i));
    return ids;
}

#endif
