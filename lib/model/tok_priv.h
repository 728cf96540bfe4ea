/*
 * Inside of the tokenizer. What all kinds share (texts, types, added tokens, bos and eos) is in struct akv_tok; a kind (byte-level
 * BPE and others) turns text without added tokens into ids, and ids into bytes.
 */
#ifndef AKV_MODEL_TOK_PRIV_H
#define AKV_MODEL_TOK_PRIV_H

#include "model/tok.h"
#include "model/tok_special.h"
#include "model/tok_vocab.h"

/* Where an encode call puts what it finds. Positions are offsets in the caller's text. */
struct akv_tokout {
    struct akv_ids *ids, *offsets; /* offsets may be NULL */
    size_t n_lost;
};

struct akv_tokkind {
    const char *model; /* tokenizer.ggml.model */
    bool space_mark;   /* U+2581 stands for a space in token texts */
    /*
     * Fill t->kind_data; pre as in akv_tok_open(). Sets t->pre_name, and what holds where the file says nothing: t->add_bos, and
     * t->bos, t->eos and t->unk, which are AKV_TOK_NONE before. With t->decode_only it checks the keys and fills what decode reads.
     */
    int (*open)(struct akv_tok *t, const struct akv_gguf *g, const char *pre, struct akv_buf *warn, struct akv_err *err);
    void (*close)(struct akv_tok *t); /* safe after a failed open */
    /* One encode call: text_len is that of the whole text. The run is freed by run_close, also after a failure. */
    int (*run_open)(void **run, const struct akv_tok *t, size_t text_len, struct akv_tokout *out, struct akv_err *err);
    void (*run_close)(void *run);
    /*
     * Encode a stretch without added tokens that stands at offset `at` of the text. begins: nothing or an added token is before it,
     * not other text.
     */
    int (*encode)(void *run, const char *s, size_t len, size_t at, bool begins, struct akv_err *err);
    /* Append the bytes of a token that is neither control nor unknown. */
    void (*decode)(const struct akv_tok *t, uint32_t id, struct akv_buf *out);
};

extern const struct akv_tokkind akv_tokkind_bpe, akv_tokkind_spm;

#define AKV_TOK_MAX_EOG 64

struct akv_tok {
    const struct akv_tokkind *kind;
    void *kind_data;
    bool decode_only;
    struct akv_tokvocab vocab;
    struct akv_tokspecial user, all; /* recognised always; recognised with AKV_TOK_SPECIAL */
    const char *pre_name;
    uint32_t bos, eos, unk;
    bool add_bos, add_eos;
    uint32_t eog[AKV_TOK_MAX_EOG];
    unsigned n_eog;
    struct akv_tokdigest *digest;
};

/* Length of the valid UTF-8 that s begins with. */
size_t akv_tok_valid_run(const char *s, size_t len);

/* Append a token; 0 or AKV_E_IO. */
int akv_tokout_push(struct akv_tokout *out, uint32_t id, size_t at, struct akv_err *err);

/* The digest of tok.h; g and pre_name must outlive it. From any thread. */
int akv_tokdigest_open(struct akv_tokdigest **out, const struct akv_gguf *g, const char *pre_name, struct akv_err *err);
void akv_tokdigest_close(struct akv_tokdigest *d); /* NULL-safe */
const uint8_t *akv_tokdigest_get(struct akv_tokdigest *d);

/* Find bos, eos, the unknown token and the ids that end generation. */
int akv_tok_find_ends(struct akv_tok *t, const struct akv_gguf *g, struct akv_buf *warn, struct akv_err *err);

#endif
