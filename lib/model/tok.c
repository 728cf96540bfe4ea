#include "model/tok.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "model/tok_priv.h"

static const struct akv_tokkind *const kinds[] = {&akv_tokkind_bpe, &akv_tokkind_spm};

static int find_kind(struct akv_tok *t, const struct akv_gguf *g, struct akv_err *err)
{
    struct akv_str name;
    int rc = akv_gguf_str(g, "tokenizer.ggml.model", &name, err);
    if (rc < 0)
        return rc;
    if (rc == 0)
        return akv_fail(err, AKV_E_INPUT, "%s: tokenizer.ggml.model: the key is missing", g->path);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (akv_str_is(name, kinds[i]->model))
            t->kind = kinds[i];
    }
    if (t->kind)
        return 0;
    return akv_fail(err, AKV_E_INCOMPAT, "%s: tokenizer.ggml.model: unknown tokenizer '%s' (known: gpt2, llama)", g->path,
                    akv_str_show(name).s);
}

static int open_parts(struct akv_tok *t, const struct akv_gguf *g, const char *pre, struct akv_buf *warn, struct akv_err *err)
{
    t->bos = t->eos = t->unk = AKV_TOK_NONE;
    int rc = find_kind(t, g, err);
    if (rc == 0)
        rc = akv_tokvocab_open(&t->vocab, g, warn, err);
    if (rc == 0 && !t->decode_only)
        rc = akv_tokvocab_index(&t->vocab, g, warn, err);
    if (rc == 0 && !t->decode_only)
        rc = akv_tokspecial_open(&t->user, &t->vocab, false, t->kind->space_mark, NULL, err);
    if (rc == 0)
        rc = akv_tokspecial_open(&t->all, &t->vocab, true, t->kind->space_mark, warn, err);
    if (rc == 0)
        rc = t->kind->open(t, g, pre, warn, err);
    if (rc == 0)
        rc = akv_tok_find_ends(t, g, warn, err);
    if (rc == 0)
        rc = akv_tokdigest_open(&t->digest, g, t->pre_name, err);
    return rc;
}

int akv_tok_open(struct akv_tok **out, const struct akv_gguf *g, const char *pre, unsigned flags, char **warnings,
                 struct akv_err *err)
{
    struct akv_buf warn;
    akv_buf_init(&warn, 0);
    *out = NULL;
    if (warnings)
        *warnings = NULL;
    struct akv_tok *t = akv_alloc(1, sizeof *t, err);
    if (t)
        t->decode_only = flags & AKV_TOK_DECODE_ONLY;
    int rc = t ? open_parts(t, g, pre, &warn, err) : AKV_E_IO;
    if (rc == 0)
        rc = akv_buf_check(&warn, "tokenizer warnings", err);
    if (rc < 0) {
        akv_tok_free(t);
        akv_buf_release(&warn);
        return rc;
    }
    if (warnings && warn.len) {
        warn.data[warn.len - 1] = '\0'; /* the last newline */
        *warnings = akv_buf_steal(&warn);
    }
    akv_buf_release(&warn);
    *out = t;
    return 0;
}

void akv_tok_free(struct akv_tok *t)
{
    if (!t)
        return;
    if (t->kind)
        t->kind->close(t);
    akv_tokdigest_close(t->digest);
    akv_tokspecial_close(&t->all);
    akv_tokspecial_close(&t->user);
    akv_tokvocab_close(&t->vocab);
    free(t);
}

uint32_t akv_tok_n_vocab(const struct akv_tok *t)
{
    return t->vocab.n;
}

uint32_t akv_tok_bos(const struct akv_tok *t)
{
    return t->bos;
}

uint32_t akv_tok_eos(const struct akv_tok *t)
{
    return t->eos;
}

uint32_t akv_tok_unk(const struct akv_tok *t)
{
    return t->unk;
}

bool akv_tok_is_eog(const struct akv_tok *t, uint32_t id)
{
    for (unsigned i = 0; i < t->n_eog; i++) {
        if (t->eog[i] == id)
            return true;
    }
    return false;
}

const uint32_t *akv_tok_ends(const struct akv_tok *t, size_t *n)
{
    *n = t->n_eog;
    return t->eog;
}

bool akv_tok_is_control(const struct akv_tok *t, uint32_t id)
{
    return id < t->vocab.n && t->vocab.type[id] == AKV_TOKTYPE_CONTROL;
}

bool akv_tok_add_bos(const struct akv_tok *t)
{
    return t->add_bos && t->bos != AKV_TOK_NONE;
}

bool akv_tok_add_eos(const struct akv_tok *t)
{
    return t->add_eos && t->eos != AKV_TOK_NONE;
}

const uint8_t *akv_tok_digest(const struct akv_tok *t)
{
    return akv_tokdigest_get(t->digest);
}

const char *akv_tok_pre(const struct akv_tok *t)
{
    return t->pre_name;
}

int akv_tok_decode(const struct akv_tok *t, const uint32_t *ids, size_t n, bool skip_control, struct akv_buf *out,
                   struct akv_err *err)
{
    size_t len = out->len;
    for (size_t i = 0; i < n; i++) {
        if (ids[i] >= t->vocab.n) {
            out->len = len;
            if (out->cap)
                out->data[len] = '\0';
            return akv_fail(err, AKV_E_INPUT, "token %zu: id %u is not one of the %u of the vocabulary", i, ids[i], t->vocab.n);
        }
        struct akv_str text = akv_tokvocab_text(&t->vocab, ids[i]);
        uint8_t type = t->vocab.type[ids[i]];
        if (type == AKV_TOKTYPE_CONTROL && skip_control)
            continue;
        if (type == AKV_TOKTYPE_CONTROL || type == AKV_TOKTYPE_UNKNOWN)
            akv_buf_add(out, text.s, text.len);
        else
            t->kind->decode(t, ids[i], out);
    }
    return akv_buf_check(out, "decoded text", err);
}

uint32_t akv_tok_find(const struct akv_tok *t, const char *text, size_t len)
{
    return akv_tokspecial_find(&t->all, text, len);
}
