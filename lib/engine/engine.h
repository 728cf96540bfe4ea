/*
 * The forward pass: one call computes a batch of rows over any number of sequences (design.md 7). Chunked prefill, decode and many
 * requests are all this call, and the bits of a row depend on nothing but the ids before it (numerics.md).
 */
#ifndef AKV_ENGINE_ENGINE_H
#define AKV_ENGINE_ENGINE_H

#include "base/pool.h"
#include "kernels/kernels.h"
#include "kv/arena.h"
#include "model/model.h"

struct akv_engine;

struct akv_row {
    struct akv_seq *seq;
    uint32_t id;
    uint32_t pos;    /* rows of one sequence come in ascending, consecutive positions starting at seq->n_tokens */
    float *logits;   /* [n_vocab] to fill, or NULL */
    bool query_only; /* pos < seq->n_tokens: KV is there already; compute the logits and write nothing (a full hit) */
};

/* All memory is taken here: the step never allocates. max_rows: the largest batch. The model, ops, and pool are borrowed. */
int akv_engine_open(struct akv_engine **out, const struct akv_model *m, const struct akv_ops *ops, struct akv_pool *pool,
                    enum akv_kv_dtype kv, uint32_t max_rows, struct akv_err *err);
void akv_engine_close(struct akv_engine *e);
uint32_t akv_engine_max_rows(const struct akv_engine *e);
void akv_engine_geom(const struct akv_model *m, enum akv_kv_dtype kv, struct akv_geom *out);

/*
 * Compute rows[0..n), n <= max_rows. akv_seq_reserve() has been called for them; on success each sequence's tokens are pushed (not
 * for query_only). Rows of several sequences may alternate; attention is fastest when those of one stand together.
 * AKV_E_INPUT: an id outside the vocabulary, a position of 2^20 or more, a non-finite activation (names layer and position).
 * AKV_E_USAGE: rows that break the rules above. On error no token is pushed and logits are undefined.
 */
int akv_engine_step(struct akv_engine *e, const struct akv_row *rows, size_t n, struct akv_err *err);

#endif
