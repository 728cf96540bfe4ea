#include <stdlib.h>

#include "base/bytes.h"
#include "base/err.h"
#include "model/tok_priv.h"

int akv_ids_push(struct akv_ids *ids, uint32_t id, struct akv_err *err)
{
    if (ids->n == ids->cap) {
        size_t cap = ids->cap + ids->cap / 2 + 64;
        uint32_t *v = akv_realloc(ids->v, cap, sizeof *v, err);
        if (!v)
            return AKV_E_IO;
        ids->v = v;
        ids->cap = cap;
    }
    ids->v[ids->n++] = id;
    return 0;
}

void akv_ids_release(struct akv_ids *ids)
{
    free(ids->v);
    *ids = (struct akv_ids){0};
}

int akv_tokout_push(struct akv_tokout *out, uint32_t id, size_t at, struct akv_err *err)
{
    int rc = akv_ids_push(out->ids, id, err);
    if (rc == 0 && out->offsets)
        rc = akv_ids_push(out->offsets, (uint32_t)at, err);
    return rc;
}

size_t akv_tok_valid_run(const char *s, size_t len)
{
    size_t i = 0, n;
    while (i < len) {
        if ((uint8_t)s[i] < 0x80)
            i++;
        else if ((n = akv_utf8_len(s + i, len - i)) != 0)
            i += n;
        else
            break;
    }
    return i;
}

/* Added tokens, and between them the kind's work. */
static int encode_text(const struct akv_tok *t, void *run, const char *text, size_t len, unsigned flags, struct akv_tokout *out,
                       struct akv_err *err)
{
    const struct akv_tokspecial *set = flags & AKV_TOK_SPECIAL ? &t->all : &t->user;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < len;) {
        size_t n = 0;
        uint32_t id = 0;
        size_t next = akv_tokspecial_next(set, text, len, i, &n, &id);
        if (next > i)
            rc = t->kind->encode(run, text + i, next - i, i, i > 0 || !(flags & AKV_TOK_CONTINUE), err);
        if (rc == 0 && next < len)
            rc = akv_tokout_push(out, id, next, err);
        i = next + n;
    }
    return rc;
}

int akv_tok_encode_offsets(const struct akv_tok *t, const char *text, size_t len, unsigned flags, struct akv_ids *ids,
                           struct akv_ids *offsets, size_t *n_lost, struct akv_err *err)
{
    struct akv_tokout out = {.ids = ids, .offsets = offsets};
    size_t n_ids = ids->n, n_offsets = offsets ? offsets->n : 0;
    void *run = NULL;
    int rc = 0;
    if (t->decode_only)
        return akv_fail(err, AKV_E_USAGE, "tokenizer: opened for decoding only");
    if (len >= UINT32_MAX)
        return akv_fail(err, AKV_E_INPUT, "text: %zu bytes are more than a tokenizer takes at once (%u)", len, UINT32_MAX - 1);
    bool special = flags & AKV_TOK_ADD_SPECIAL;
    if (special && t->add_bos && t->bos != AKV_TOK_NONE)
        rc = akv_tokout_push(&out, t->bos, 0, err);
    if (rc == 0 && len)
        rc = t->kind->run_open(&run, t, len, &out, err);
    if (rc == 0)
        rc = encode_text(t, run, text, len, flags, &out, err);
    if (rc == 0 && special && t->add_eos && t->eos != AKV_TOK_NONE)
        rc = akv_tokout_push(&out, t->eos, len, err);
    t->kind->run_close(run);
    if (rc < 0) {
        ids->n = n_ids;
        if (offsets)
            offsets->n = n_offsets;
        return rc;
    }
    if (n_lost)
        *n_lost += out.n_lost;
    return 0;
}

int akv_tok_encode(const struct akv_tok *t, const char *text, size_t len, unsigned flags, struct akv_ids *ids, size_t *n_lost,
                   struct akv_err *err)
{
    return akv_tok_encode_offsets(t, text, len, flags, ids, NULL, n_lost, err);
}
