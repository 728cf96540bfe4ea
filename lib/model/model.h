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

enum akv_rope_kind { AKV_ROPE_PLAIN, AKV_ROPE_LINEAR, AKV_ROPE_YARN };

/* How RoPE is stretched over a longer context than it was trained for (akv-numerics(7)); a global layer's only. */
struct akv_rope_scaling {
    enum akv_rope_kind kind;
    float factor;        /* linear and YaRN: at least 1 */
    float attn_factor;   /* cos and sin are multiplied by it; 1: they are not */
    uint32_t n_ctx_orig; /* YaRN: positions that it was trained for */
    float ext_factor;    /* YaRN: 0..1, the share of the ramp */
    float beta_fast, beta_slow;
};

/* Hyperparameters; all counts are > 0 and consistent with the tensors once a model is open. */
struct akv_hparams {
    uint32_t n_layers, n_embd, n_ff, n_heads, n_kv_heads, dim_k, dim_v, n_rot, n_vocab, n_ctx_train;
    float rope_base, rms_eps;
    enum akv_rope_style rope_style;
    struct akv_rope_scaling scaling;
    uint32_t scale_dim;    /* attention scores are divided by its square root */
    uint32_t window;       /* positions that a local layer sees, its own included; 0: no layer is local */
    float rope_base_local; /* of local layers, when there are any */
    float softcap;         /* logits become softcap * tanh(logits / softcap); 0: they stay */
};

enum akv_activation { AKV_SILU, AKV_GELU_TANH };

/* What an architecture has beyond the common layer. */
enum akv_feature {
    AKV_HAS_QKV_BIAS = 1,      /* added to q, k, v after the product */
    AKV_HAS_QK_NORM = 2,       /* RMSNorm of every head of q and k before RoPE */
    AKV_HAS_POST_NORMS = 4,    /* RMSNorm of a block's output before it is added to the stream */
    AKV_HAS_EMBD_SCALE = 8,    /* embeddings times the square root of their width */
    AKV_HAS_WINDOWS = 16,      /* local layers, when the file gives a window */
    AKV_HAS_SOFTCAP = 32,      /* of the logits, when the file gives one */
    AKV_HAS_ROPE_FACTORS = 64, /* rope_freqs.weight, when the file has it */
};

/* One architecture: what differs is data here; a new one is a new row in arch.c. */
struct akv_arch {
    const char *name;
    enum akv_rope_style rope_style;
    enum akv_activation activation;
    unsigned features;           /* enum akv_feature */
    uint32_t width_scale_layers; /* a model this deep takes n_embd / n_heads for scale_dim instead of dim_k; 0: none does */
};

struct akv_layer {                         /* tensors of a layer; shapes as [rows x row length]; NULL: the architecture has none */
    const struct akv_tensor *attn_norm;    /* F32 [n_embd] */
    const struct akv_tensor *wq;           /* [n_heads*dim_k x n_embd] */
    const struct akv_tensor *wk, *wv;      /* [n_kv_heads*dim_k x n_embd], [n_kv_heads*dim_v x n_embd] */
    const struct akv_tensor *bq, *bk, *bv; /* F32, one value a row of wq, wk, wv */
    const struct akv_tensor *q_norm, *k_norm;  /* F32 [dim_k] */
    const struct akv_tensor *wo;               /* [n_embd x n_heads*dim_v] */
    const struct akv_tensor *post_attn;        /* F32 [n_embd] */
    const struct akv_tensor *ffn_norm;         /* F32 [n_embd] */
    const struct akv_tensor *gate, *up, *down; /* [n_ff x n_embd] twice, [n_embd x n_ff] */
    const struct akv_tensor *post_ffn;         /* F32 [n_embd] */
    bool local;                                /* sees hp.window positions, rotates by hp.rope_base_local */
};

struct akv_model {
    struct akv_gguf gguf;
    struct akv_tok *tok;
    const struct akv_arch *arch; /* NULL when opened for the vocabulary only */
    struct akv_hparams hp;
    struct akv_layer *layers;
    const struct akv_tensor *embd, *output_norm, *output; /* output == embd when tied */
    const struct akv_tensor *rope_factors;                /* F32 [n_rot/2], dividing a global layer's frequencies; NULL: none */
    char *warnings;                                       /* one a line, without the path; NULL if none */
};

/*
 * flags of akv.h: AKV_MODEL_VOCAB_ONLY: only the tokenizer.* keys are read; hp, layers and tensors stay zero. AKV_MODEL_DECODE_ONLY:
 * the tokenizer as by AKV_TOK_DECODE_ONLY.
 * AKV_E_INPUT: damaged or inconsistent, a norm weight that is not finite. AKV_E_INCOMPAT: an architecture, tensor type, RoPE
 * scaling or tensor that this version cannot compute with: anything that would change the answer is refused, never passed over.
 */
int akv_model_load(struct akv_model **out, const char *path, unsigned flags, struct akv_err *err);
/* The same; pre as in akv_tok_open(). */
int akv_model_load_pre(struct akv_model **out, const char *path, unsigned flags, const char *pre, struct akv_err *err);
/*
 * For descriptions: as much of the file as there is. An error only when not even its keys can be read; else whys tells for each part
 * that the model lacks why: no tensors (file), no arch, hp and layers (network), no or another model's tok (tokenizer).
 */
struct akv_model_whys {
    struct akv_err file, network, tokenizer; /* code 0: nothing is wrong */
};
int akv_model_load_parts(struct akv_model **out, const char *path, const char *pre, struct akv_model_whys *whys,
                         struct akv_err *err);
void akv_model_unload(struct akv_model *m); /* NULL-safe */

/*
 * What else than ids, tensors and counts determines KV bytes: RoPE of each kind of layer, windows and which layers have them. Tags
 * in ascending order, only those that take part; values are text, floats as the hexadecimal digits of their bits.
 * AKV_E_IO: the hash of the RoPE factors failed.
 */
#define AKV_FACTS_MAX 16
struct akv_model_facts {
    size_t n;
    struct {
        const char *tag, *value; /* values point into text: the object must not be moved */
    } fact[AKV_FACTS_MAX];
    char text[AKV_MAX_LAYERS + AKV_FACTS_MAX * 72];
};
int akv_model_facts(const struct akv_model *m, struct akv_model_facts *out, struct akv_err *err);

/* 0 while the file is as it was when it was mapped (size, mtime, ctime); else AKV_E_INPUT "changed while in use". */
int akv_model_restat(const struct akv_model *m, struct akv_err *err);
/* The same for what is mapped alone: a file that was renamed, or replaced by another of its name, is intact. */
int akv_model_intact(const struct akv_model *m, struct akv_err *err);

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
/* Hash the tensors whatever the cache says, and correct it: AKV_E_NO when it had others for this state of the file. */
int akv_model_recheck(const struct akv_model *m, struct akv_pool *pool, const char *cache_dir, struct akv_err *err);

#endif
