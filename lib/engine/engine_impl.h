/* The engine's own: its memory and the stages of a step, one story a file. */
#ifndef AKV_ENGINE_ENGINE_IMPL_H
#define AKV_ENGINE_ENGINE_IMPL_H

#include <stdatomic.h>

#include "engine/engine.h"

/* Rows of the output matrix that one task turns into logits: the tile lives in the thread's scratch. */
#define AKV_LOGITS_TILE 128u
/* Most consecutive rows whose queries share one attention call. */
#define AKV_ATTN_TILE 32u

/* Few rows are attended to in parts of their keys, so that all threads have work: up to this many rows and parts of a row. */
#define AKV_PARTED_ROWS 4u
#define AKV_PARTS 256u

struct akv_attn_tile { /* rows [from, to) of the step, all of one sequence */
    size_t from, to;
};

/* A layer's vectors, as aligned copies; NULL: the architecture has none. */
struct akv_layer_vectors {
    const float *attn_norm, *post_attn, *ffn_norm, *post_ffn; /* [n_embd] */
    const float *bq, *bk, *bv;                                /* [heads * dim] */
    const float *q_norm, *k_norm;                             /* [dim_k] */
};

/* The rotation of one kind of layer. */
struct akv_rope_table {
    double *freq; /* [n_rot / 2] */
    double scale; /* of cos and sin */
    float *cs;    /* [rows][n_rot] (cos, sin) pairs of the step's rows */
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
    float attn_scale, embd_scale;                               /* embd_scale 0: embeddings stay as they are */
    void (*gated_unit)(float *gate, const float *up, size_t n); /* the architecture's, of ops */
    unsigned n_ropes;                                           /* 1, or 2 when some layers are local */
    struct akv_rope_table rope[2];                              /* of global layers, of local ones */
    void *memory;                                               /* one block; everything below points into it */
    struct akv_layer_vectors *vec;                              /* [n_layers] */
    const float *output_norm;
    struct akv_thread_scratch *thread; /* [threads] */

    /* the step under way: rows still being computed, in the caller's order */
    const struct akv_row **row;
    size_t n_rows;
    struct akv_attn_tile *tiles;
    size_t n_tiles;
    struct akv_attn_query *parts; /* [AKV_PARTED_ROWS][n_heads][AKV_PARTS] */
    float *part_o;                /* [AKV_PARTED_ROWS][n_heads][AKV_PARTS][dim_v] */
    atomic_uint bad_row;          /* the first row with a value that is not finite; UINT_MAX: none */
    float *x;                     /* [rows][n_embd] residual stream */
    float *h;                     /* [rows][n_embd] normed input, then output of the last projection */
    float *q, *k, *v;             /* [rows][heads * dim] */
    float *att;                   /* [rows][n_heads * dim_v] */
    float *gate, *up;             /* [rows][n_ff]; over q, k, v and att */
    int8_t *act_q;                /* the quantised form of the input in hand */
    float *act_d;
    int32_t *act_sum;
};

/* A stage over the rows: fn for each row of [0, n_rows), in tasks of a few rows. ctx starts with struct akv_engine *. */
struct akv_stage {
    struct akv_engine *e;
    void (*fn)(const struct akv_stage *s, size_t row, unsigned thread);
    uint32_t layer;
    const float *norm;
    bool add;          /* norm stages: add h to x first */
    const float *post; /* and before that norm h by these weights, unless NULL */
    bool quantised;    /* quantise the result: a weight wants it */
    size_t task_rows;  /* set by akv_stage_run() */
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
/* Stage: what follows the projection (bias, norm and rotation of each head), then K and V into the page. */
void akv_engine_put_heads(const struct akv_stage *s, size_t row, unsigned thread);
void akv_engine_tiles(struct akv_engine *e); /* group the step's rows; again when they change */
void akv_engine_attend(struct akv_engine *e, uint32_t layer);

static inline bool akv_is_quantised(const struct akv_tensor *w)
{
    return akv_dtypes[w->dtype].quantised;
}

#endif
