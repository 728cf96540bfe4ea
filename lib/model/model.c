/* Opening a model: GGUF, architecture, hyperparameters, tensors, tokenizer: the order in which a wrong file is best explained. */
#include "model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/arch.h"
#include "model/gguf_note.h"

#define TEMPLATE_KEY "tokenizer.chat_template"

/* Everything that is needed to compute, except the tokenizer. */
static int load_network(struct akv_model *m, struct akv_buf *notes, struct akv_err *err)
{
    int rc = akv_arch_pick(&m->arch, &m->gguf, err);
    if (rc == 0)
        rc = akv_arch_check_keys(m->arch, &m->gguf, err);
    if (rc == 0)
        rc = akv_arch_read_hparams(m, err);
    if (rc == 0)
        rc = akv_arch_bind(m, notes, err);
    if (rc < 0)
        return rc;
    if (m->embd->ne[1] > AKV_MAX_VOCAB)
        return akv_fail(err, AKV_E_INPUT, "%s: tensor token_embd.weight: %llu tokens, the limit is %u", m->gguf.path,
                        (unsigned long long)m->embd->ne[1], AKV_MAX_VOCAB);
    m->hp.n_vocab = (uint32_t)m->embd->ne[1];
    return 0;
}

static int load_tokenizer(struct akv_model *m, const char *pre, unsigned flags, struct akv_buf *notes, struct akv_err *err)
{
    char *warnings = NULL;
    int rc = akv_tok_open(&m->tok, &m->gguf, pre, flags & AKV_MODEL_DECODE_ONLY ? AKV_TOK_DECODE_ONLY : 0, &warnings, err);
    if (warnings)
        akv_note(notes, "%s", warnings);
    free(warnings);
    if (rc < 0)
        return rc;
    if (m->arch && akv_tok_n_vocab(m->tok) != m->hp.n_vocab)
        return akv_fail(err, AKV_E_INPUT, "%s: the tokenizer has %u tokens, token_embd.weight has rows for %u", m->gguf.path,
                        akv_tok_n_vocab(m->tok), m->hp.n_vocab);
    const struct akv_gguf_kv *t = akv_gguf_find(&m->gguf, TEMPLATE_KEY);
    if (t && t->type != AKV_GGUF_STRING)
        akv_note(notes, "key %s at offset %llu is not a string and is ignored", TEMPLATE_KEY, (unsigned long long)t->offset);
    return 0;
}

int akv_model_load(struct akv_model **out, const char *path, unsigned flags, struct akv_err *err)
{
    return akv_model_load_pre(out, path, flags, NULL, err);
}

int akv_model_load_pre(struct akv_model **out, const char *path, unsigned flags, const char *pre, struct akv_err *err)
{
    bool vocab_only = flags & AKV_MODEL_VOCAB_ONLY;
    struct akv_buf notes;
    akv_buf_init(&notes, 3 * AKV_NOTES_MAX); /* the reader's, the loader's, the tokenizer's */
    int rc = AKV_E_IO;
    struct akv_model *m = akv_alloc(1, sizeof *m, err);
    if (!m)
        goto out;
    rc = vocab_only ? akv_gguf_open_keys(&m->gguf, path, err) : akv_gguf_open(&m->gguf, path, err);
    if (rc == 0 && m->gguf.warnings)
        akv_note(&notes, "%s", m->gguf.warnings);
    if (rc == 0 && !vocab_only)
        rc = load_network(m, &notes, err);
    if (rc == 0)
        rc = load_tokenizer(m, pre, flags, &notes, err);
    if (rc < 0)
        goto out;
    m->warnings = akv_notes_take(&notes);
    *out = m;
    m = NULL;
out:
    akv_buf_release(&notes);
    akv_model_unload(m);
    return rc;
}

/* The network is there as a whole or not at all. */
static void try_network(struct akv_model *m, struct akv_buf *notes, struct akv_err *why)
{
    if (load_network(m, notes, why) == 0)
        return;
    free(m->layers);
    m->layers = NULL;
    m->arch = NULL;
    m->hp = (struct akv_hparams){0};
}

int akv_model_load_parts(struct akv_model **out, const char *path, const char *pre, struct akv_model_whys *whys,
                         struct akv_err *err)
{
    struct akv_buf notes;
    akv_buf_init(&notes, 3 * AKV_NOTES_MAX);
    *whys = (struct akv_model_whys){0};
    int rc = AKV_E_IO;
    struct akv_model *m = akv_alloc(1, sizeof *m, err);
    if (m)
        rc = akv_gguf_open(&m->gguf, path, &whys->file) == 0 ? 0 : akv_gguf_open_keys(&m->gguf, path, err);
    if (rc < 0)
        goto out;
    if (m->gguf.warnings)
        akv_note(&notes, "%s", m->gguf.warnings);
    if (!whys->file.code)
        try_network(m, &notes, &whys->network);
    load_tokenizer(m, pre, 0, &notes, &whys->tokenizer);
    m->warnings = akv_notes_take(&notes);
    *out = m;
    m = NULL;
out:
    akv_buf_release(&notes);
    akv_model_unload(m);
    return rc;
}

void akv_model_unload(struct akv_model *m)
{
    if (!m)
        return;
    if (m->tok)
        akv_tok_free(m->tok);
    free(m->layers);
    free(m->warnings);
    akv_gguf_close(&m->gguf);
    free(m);
}

int akv_model_intact(const struct akv_model *m, struct akv_err *err)
{
    return akv_gguf_intact(&m->gguf, err);
}

int akv_model_restat(const struct akv_model *m, struct akv_err *err)
{
    return akv_gguf_restat(&m->gguf, err);
}

int akv_model_template(const struct akv_model *m, const char *name, struct akv_str *out)
{
    char key[160] = TEMPLATE_KEY;
    if (name && snprintf(key, sizeof key, "%s.%s", TEMPLATE_KEY, name) >= (int)sizeof key)
        return 0;
    return akv_gguf_str(&m->gguf, key, out, NULL) == 1;
}
