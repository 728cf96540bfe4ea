/* bos, eos and the tokens that end generation. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "model/tok_priv.h"

#define PREFIX "tokenizer.ggml."

/* Texts that end a reply when a control token has them. */
static const char *const end_markers[] = {
    "<|im_end|>",    "<|eot_id|>",    "<|eom_id|>",      "<|end|>", "<|return|>",      "<|call|>",
    "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>", "<|eos|>", "<|end_of_turn|>", "<end_of_utterance>",
    "</s>",          "<eos>",         "<EOT>",           "[EOS]",   "[EOT]",           "<｜end▁of▁sentence｜>",
};

static void add_eog(struct akv_tok *t, uint32_t id)
{
    if (id != AKV_TOK_NONE && !akv_tok_is_eog(t, id) && t->n_eog < AKV_TOK_MAX_EOG)
        t->eog[t->n_eog++] = id;
}

/* A token id in the file: left alone when absent; AKV_TOK_NONE, with a warning, when it is no id of the vocabulary. */
static int read_id(const struct akv_tok *t, const struct akv_gguf *g, const char *name, uint32_t *id, struct akv_buf *warn,
                   struct akv_err *err)
{
    char key[64];
    snprintf(key, sizeof key, PREFIX "%s_token_id", name);
    const struct akv_gguf_kv *kv = akv_gguf_find(g, key);
    if (!kv)
        return 0;
    switch (kv->type) {
    case AKV_GGUF_U32:
    case AKV_GGUF_I32:
    case AKV_GGUF_U64:
    case AKV_GGUF_I64:
    case AKV_GGUF_U16:
    case AKV_GGUF_I16:
    case AKV_GGUF_U8:
    case AKV_GGUF_I8:
        break;
    default:
        return akv_fail(err, AKV_E_INPUT, "%s: %s at byte %llu: not an integer but %s", g->path, key,
                        (unsigned long long)kv->offset, akv_gguf_type_name(kv->type));
    }
    uint32_t value;
    if (akv_gguf_u32(g, key, &value, NULL) == 1 && value < t->vocab.n)
        *id = value;
    else {
        *id = AKV_TOK_NONE;
        akv_buf_printf(warn, "%s: not one of the %u tokens, taken as absent\n", key, t->vocab.n);
    }
    return 0;
}

static int read_flag(const struct akv_gguf *g, const char *key, bool *flag, struct akv_err *err)
{
    int rc = akv_gguf_bool(g, key, flag, err);
    return rc < 0 ? rc : 0;
}

static void add_markers(struct akv_tok *t)
{
    /* gpt-oss closes each message of a reply with <|end|>, and the reply itself with one of these */
    bool many_messages = akv_tok_find(t, "<|return|>", 10) != AKV_TOK_NONE && akv_tok_find(t, "<|call|>", 8) != AKV_TOK_NONE;
    for (size_t i = 0; i < sizeof end_markers / sizeof *end_markers; i++) {
        uint32_t id = akv_tok_find(t, end_markers[i], strlen(end_markers[i]));
        if (id == AKV_TOK_NONE || !akv_tok_is_control(t, id) || (many_messages && strcmp(end_markers[i], "<|end|>") == 0))
            continue;
        add_eog(t, id);
    }
}

int akv_tok_find_ends(struct akv_tok *t, const struct akv_gguf *g, struct akv_buf *warn, struct akv_err *err)
{
    uint32_t eot = AKV_TOK_NONE, eom = AKV_TOK_NONE;
    int rc = read_id(t, g, "bos", &t->bos, warn, err);
    if (rc == 0)
        rc = read_id(t, g, "eos", &t->eos, warn, err);
    if (rc == 0)
        rc = read_id(t, g, "unknown", &t->unk, warn, err);
    if (rc == 0)
        rc = read_id(t, g, "eot", &eot, warn, err);
    if (rc == 0)
        rc = read_id(t, g, "eom", &eom, warn, err);
    if (rc == 0)
        rc = read_flag(g, PREFIX "add_bos_token", &t->add_bos, err);
    if (rc == 0)
        rc = read_flag(g, PREFIX "add_eos_token", &t->add_eos, err);
    if (rc < 0)
        return rc;
    if (t->add_bos && t->bos == AKV_TOK_NONE)
        akv_buf_puts(warn, "tokenizer: bos is to be added to text, but there is no bos token\n");
    add_eog(t, t->eos);
    add_eog(t, eot);
    add_eog(t, eom);
    add_markers(t);
    return 0;
}
