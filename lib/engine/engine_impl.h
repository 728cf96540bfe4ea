/* The engine's own: its memory and the stages of a step, one story a file. */
#ifndef AKV_ENGINE_ENGINE_IMPL_H
#define AKV_ENGINE_ENGINE_IMPL_H

#include <stdatomic.h>

#include "engine/engine.h"

/* Rows of the output matrix that one task turns into logits: the tile lives in the thread's scratch. */
#define AKV_LOGITS_TILE 128u
/* Most consecutive rows whose queries share one attention call. */
#define AKV_ATTN_TILE 16u

struct akv_attn_tile { /* rows [from, to) of the step, all of one sequence */
    size_t from, to;
};

struct akv_thread_scratch { /* private to one thread */
    void *mul, *attn;
    struct akv_attn_query *queries; /* [AKV_ATTN_TILE * heads in a group] */
    float *logits;                  /* [max_rows][AKV_LOGITS_TILE] */
#ifdef AKV_DEBUG
    uint8_t *page; /* one kv head's part of a page, to compare with */
#endif
};

struct akv_engine {
    const struct akv_model *model;
    const struct akv_ops *ops;
    struct akv_pool *pool;
    struct akv_hparams hp;
    struct akv_geom geom;
    uint32_t max_rows;
    float attn_scale;
    void *memory; /* one block; everything below points into it */
    double *freq; /* [n_rot / 2] */
    float *norms; /* [2 * n_layers + 1][norm_stride]: attn, ffn of each layer, output; aligned copies */
    size_t norm_stride;
    struct akv_thread_scratch *thread; /* [threads] */

    /* the step under way: rows still being computed, in the caller's order */
    const struct akv_row **row;
    size_t n_rows;
    struct akv_attn_tile *tiles;
    size_t n_tiles;
    atomic_uint bad_row; /* the first row with a value that is not finite; UINT_MAX: none */
    float *x;            /* [rows][n_embd] residual stream */
    float *h;            /* [rows][n_embd] normed input, then output of the last projection */
    float *q, *k, *v;    /* [rows][heads * dim] */
    float *att;          /* [rows][n_heads * dim_v] */
    float *gate, *up;    /* [rows][n_ff] */
    float *cs;           /* [rows][n_rot] (cos, sin) pairs */
    int8_t *act_q;       /* the quantised form of the input in hand */
    float *act_d;
    int32_t *act_sum;
};

/* A stage over the rows: fn for each row of [0, n_rows), in tasks of a few rows. ctx starts with struct akv_engine *. */
struct akv_stage {
    struct akv_engine *e;
    void (*fn)(const struct akv_stage *s, size_t row, unsigned thread);
    uint32_t layer;
    const float *norm;
    bool add;       /* norm stages: add h to x first */
    bool quantised; /* quantise the result: a weight wants it */
};
void akv_stage_run(const struct akv_stage *s);

/* Note that a row holds a value that is not finite; from any thread. */
void akv_engine_flag(struct akv_engine *e, size_t row);

/* Quantise row r of an input [rows][k]; flags it when not finite. */
void akv_engine_quantise(struct akv_engine *e, const float *x, size_t k, size_t r);

/* matmul.c: y[rows][n_out] = W x for n matrices of the same input [rows][k], which is quantised by now if a weight wants that. */
struct akv_matmul {
    const struct akv_tensor *w;
    float *y;
};
void akv_engine_matmul(struct akv_engine *e, const float *x, size_t k, const struct akv_matmul *m, size_t n);
/* Logits of the rows from the normed h, to where each row wants them. */
void akv_engine_logits(struct akv_engine *e);

/* attend.c */
void akv_engine_rope_put(const struct akv_stage *s, size_t row,
                         unsigned thread);   /* stage: RoPE on q and k, K and V into the page */
void akv_engine_tiles(struct akv_engine *e); /* group the step's rows; again when they change */
void akv_engine_attend(struct akv_engine *e, uint32_t layer);

static inline bool akv_is_quantised(const struct akv_tensor *w)
{
    return akv_dtypes[w->dtype].quantised;
}

#endif
