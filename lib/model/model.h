/*
 * A model: hyperparameters, weights and tokenizer of one GGUF. Immutable after opening; weights stay in the mapping.
 */
#ifndef AKV_MODEL_MODEL_H
#define AKV_MODEL_MODEL_H

#include "base/hash.h"
#include "base/pool.h"
#include "model/gguf.h"
#include "model/tok.h"

#define AKV_MAX_LAYERS 1024u
#define AKV_MAX_HEADS 1024u
#define AKV_MAX_HEAD_DIM 4096u

enum akv_rope_style { AKV_ROPE_PAIRS, AKV_ROPE_HALVES }; /* (2i, 2i+1) | (i, i + dim/2) */

/* Hyperparameters; all counts are > 0 and consistent with the tensors once a model is open. */
struct akv_hparams {
    uint32_t n_layers, n_embd, n_ff, n_heads, n_kv_heads, dim_k, dim_v, n_rot, n_vocab, n_ctx_train;
    float rope_base, rms_eps;
    enum akv_rope_style rope_style;
};

/* One architecture: what differs is data here; a new one is a new row in arch.c. */
struct akv_arch {
    const char *name;
    enum akv_rope_style rope_style;
};

struct akv_layer { /* tensors of a layer; shapes as [rows x row length] */
    const struct akv_tensor *attn_norm;        /* F32 [n_embd] */
    const struct akv_tensor *wq, *wk, *wv;     /* [n_heads*dim_k x n_embd], [n_kv_heads*dim_k x n_embd], [n_kv_heads*dim_v x n_embd] */
    const struct akv_tensor *wo;               /* [n_embd x n_heads*dim_v] */
    const struct akv_tensor *ffn_norm;         /* F32 [n_embd] */
    const struct akv_tensor *gate, *up, *down; /* [n_ff x n_embd] twice, [n_embd x n_ff] */
};

struct akv_model {
    struct akv_gguf gguf;
    struct akv_tok *tok;
    const struct akv_arch *arch; /* NULL when opened for the vocabulary only */
    struct akv_hparams hp;
    struct akv_layer *layers;
    const struct akv_tensor *embd, *output_norm, *output; /* output == embd when tied */
    char *warnings;                                       /* for the user, newline-separated; NULL if none */
};

#define AKV_MODEL_VOCAB_ONLY 1u /* only tokenizer.* keys: any architecture, tensors not needed */

int akv_model_load(struct akv_model **out, const char *path, unsigned flags, struct akv_err *err);
void akv_model_unload(struct akv_model *m); /* NULL-safe */

/* The chat template: text in the mapping; returns 0 when the model has none. name: NULL or a named alternative ("tool_use"). */
int akv_model_template(const struct akv_model *m, const char *name, struct akv_str *out);

/*
 * Weights digest (design.md 5): H over tensors by name (name, dtype, dims, SHA-256 of data) and the listed hyperparameters; hashed
 * on all threads of pool. cache_dir: where digests are kept by (host, device, inode, size, mtime, ctime), or NULL for no cache.
 */
int akv_model_digest(const struct akv_model *m, struct akv_pool *pool, const char *cache_dir, uint8_t out[AKV_SHA_BYTES], struct akv_err *err);

#endif
