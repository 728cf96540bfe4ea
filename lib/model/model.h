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
#define AKV_MAX_WIDTH (1u << 20) /* of the residual stream and of the feed-forward layer */
#define AKV_MAX_VOCAB (1u << 24)

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

struct akv_layer {                             /* tensors of a layer; shapes as [rows x row length] */
    const struct akv_tensor *attn_norm;        /* F32 [n_embd] */
    const struct akv_tensor *wq;               /* [n_heads*dim_k x n_embd] */
    const struct akv_tensor *wk, *wv;          /* [n_kv_heads*dim_k x n_embd], [n_kv_heads*dim_v x n_embd] */
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
    char *warnings;                                       /* one a line, without the path; NULL if none */
};

/*
 * flags: AKV_MODEL_VOCAB_ONLY of akv.h: only the tokenizer.* keys are read; hp, layers and tensors stay zero.
 * AKV_E_INPUT: damaged or inconsistent, a norm weight that is not finite. AKV_E_INCOMPAT: an architecture, tensor type, RoPE
 * scaling or tensor that this version cannot compute with: anything that would change the answer is refused, never passed over.
 */
int akv_model_load(struct akv_model **out, const char *path, unsigned flags, struct akv_err *err);
void akv_model_unload(struct akv_model *m); /* NULL-safe */

/* 0 while the file is as it was when it was mapped (size, mtime, ctime); else AKV_E_INPUT "changed while in use". */
int akv_model_restat(const struct akv_model *m, struct akv_err *err);

/* The chat template: text in the mapping; returns 0 when the model has none. name: NULL or a named alternative ("tool_use"). */
int akv_model_template(const struct akv_model *m, const char *name, struct akv_str *out);

/*
 * Weights digest (design.md 5): H over tensors by name (name, dtype, dims, SHA-256 of data) and the listed hyperparameters; hashed
 * on all threads of pool. Its exact bytes: model_digest.c. cache_dir: where the hashes of tensors are kept by (host, device, inode,
 * size, mtime, ctime), created when missing; NULL: no cache. Trouble with the cache is never an error, only another computation.
 * AKV_E_INPUT when the file changed since it was opened; AKV_E_USAGE when it was opened for the vocabulary only.
 */
int akv_model_digest(const struct akv_model *m, struct akv_pool *pool, const char *cache_dir, uint8_t out[AKV_SHA_BYTES],
                     struct akv_err *err);

#endif
