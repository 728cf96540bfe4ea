/* Byte-level BPE: tokenizer.ggml.model "gpt2". */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "model/tok_merge.h"
#include "model/tok_nfc.h"
#include "model/tok_pre.h"
#include "model/tok_priv.h"
#include "model/tok_words.h"

#define NONE AKV_TOKVOCAB_NONE

struct bpe {
    const struct akv_tok *tok;
    struct akv_tokmerges merges;
    struct akv_tokpre pre;
};

struct bpe_run {
    const struct bpe *bpe;
    struct akv_tokout *out;
    struct akv_err *err;
    struct akv_tokpre_run pre;
    struct akv_toknfc nfc;
    struct akv_tokwords words;
    struct akv_toksym *sym;
    size_t cap_sym;
    struct akv_tokscratch scratch;
    char *whole; /* a piece in the byte alphabet, up to the longest token */
    /* the stretch being cut: its text (normalised or not), where it stands, and where its bytes come from (NULL: one by one) */
    const char *text;
    size_t at;
    const uint32_t *from;
};

static int find_row(const struct akv_tokpre_row **row, const struct akv_gguf *g, const char *pre, struct akv_buf *warn,
                    struct akv_err *err)
{
    struct akv_str name = {pre, pre ? strlen(pre) : 0};
    if (!pre) {
        int rc = akv_gguf_str(g, "tokenizer.ggml.pre", &name, err);
        if (rc < 0)
            return rc;
        if (rc == 0) {
            name = (struct akv_str){"default", 7};
            akv_buf_puts(warn, "tokenizer.ggml.pre: the key is missing, 'default' is assumed (--pre NAME overrides)\n");
        }
    }
    *row = akv_tokpre_find(name.s, name.len);
    if (*row)
        return 0;
    struct akv_buf known;
    akv_buf_init(&known, 0);
    akv_tokpre_names(&known);
    int rc = akv_fail(err, AKV_E_INCOMPAT, "%s: tokenizer.ggml.pre: unknown pre-tokenizer '%s' (known: %s; --pre NAME overrides)",
                      g->path, akv_str_show(name).s, known.data);
    akv_buf_release(&known);
    return rc;
}

static int open_bpe(struct akv_tok *t, const struct akv_gguf *g, const char *pre, struct akv_buf *warn, struct akv_err *err)
{
    const struct akv_tokpre_row *row;
    struct bpe *b = akv_alloc(1, sizeof *b, err);
    if (!b)
        return AKV_E_IO;
    t->kind_data = b;
    b->tok = t;
    int rc = find_row(&row, g, pre, warn, err);
    if (rc < 0)
        return rc;
    t->pre_name = row->name;
    t->add_bos = row->flags & AKV_TOKPRE_ADD_BOS;
    if (t->decode_only)
        return akv_tokmerges_check(g, err);
    rc = akv_tokmerges_open(&b->merges, &t->vocab, g, warn, err);
    return rc < 0 ? rc : akv_tokpre_open(&b->pre, row, err);
}

static void close_bpe(struct akv_tok *t)
{
    struct bpe *b = t->kind_data;
    if (!b)
        return;
    akv_tokpre_close(&b->pre);
    akv_tokmerges_close(&b->merges);
    free(b);
    t->kind_data = NULL;
}

/* --- one encode call --- */

static int push(struct bpe_run *r, uint32_t id, size_t pos)
{
    return akv_tokout_push(r->out, id, r->at + (r->from ? r->from[pos] : pos), r->err);
}

/* Tokens of a piece that stand for all of its bytes, in order. */
static int push_word(struct bpe_run *r, const uint32_t *ids, size_t n, size_t pos)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        rc = push(r, ids[i], pos);
        if (r->out->offsets && i + 1 < n)
            pos += akv_tokbyte_count(akv_tokvocab_text(&r->bpe->tok->vocab, ids[i]));
    }
    return rc;
}

/* The token that is the whole piece, or NONE. */
static uint32_t whole_piece(struct bpe_run *r, const char *s, size_t len)
{
    const struct akv_tokvocab *v = &r->bpe->tok->vocab;
    size_t n = 0;
    for (size_t i = 0; i < len && n <= v->max_len; i++)
        n += akv_tokbyte_put(r->whole + n, (uint8_t)s[i]);
    return akv_tokvocab_find(v, r->whole, n);
}

static int reserve_sym(struct bpe_run *r, size_t len)
{
    if (len <= r->cap_sym)
        return 0;
    size_t cap = len + len / 2;
    struct akv_toksym *sym = akv_realloc(r->sym, cap, sizeof *sym, r->err);
    if (!sym)
        return AKV_E_IO;
    r->sym = sym;
    r->cap_sym = cap;
    return 0;
}

/* Encode a piece by merging; *w, when given, remembers it. */
static int encode_piece(struct bpe_run *r, const char *s, size_t len, struct akv_tokword *w)
{
    size_t pos = (size_t)(s - r->text), lost = 0, n;
    int rc = reserve_sym(r, len);
    if (rc < 0)
        return rc;
    uint32_t whole = r->bpe->pre.row->flags & AKV_TOKPRE_IGNORE_MERGES ? whole_piece(r, s, len) : NONE;
    if (whole != NONE) {
        r->sym[0] = (struct akv_toksym){whole, 0};
        n = 1;
    } else {
        n = akv_tokmerges_apply(&r->bpe->merges, s, len, r->sym, &lost, &r->scratch);
    }
    if (n == SIZE_MAX)
        return akv_fail(r->err, AKV_E_IO, "tokenizer: out of memory for a piece of %zu bytes", len);
    r->out->n_lost += lost;
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = push(r, r->sym[i].id, pos + r->sym[i].at);
    if (rc == 0 && w && lost == 0)
        akv_tokword_keep(w, len, r->sym, n);
    return rc;
}

static int take_piece(void *ctx, const char *s, size_t len)
{
    struct bpe_run *r = ctx;
    if (len > AKV_TOKWORD_BYTES)
        return encode_piece(r, s, len, NULL);
    bool known;
    struct akv_tokword *w = akv_tokwords_at(&r->words, s, len, &known);
    return known ? push_word(r, w->ids, w->n, (size_t)(s - r->text)) : encode_piece(r, s, len, w);
}

static int open_run(void **out_run, const struct akv_tok *t, size_t text_len, struct akv_tokout *out, struct akv_err *err)
{
    struct bpe_run *r = akv_alloc(1, sizeof *r, err);
    if (!r)
        return AKV_E_IO;
    *out_run = r;
    r->bpe = t->kind_data;
    r->out = out;
    int rc = akv_tokwords_open(&r->words, text_len, err);
    r->whole = akv_alloc(t->vocab.max_len + 2u, 1, err);
    if (rc < 0 || !r->whole)
        return AKV_E_IO;
    rc = akv_tokpre_run_open(&r->pre, &r->bpe->pre, err);
    r->pre.piece = take_piece;
    r->pre.ctx = r;
    return rc;
}

static void close_run(void *run)
{
    struct bpe_run *r = run;
    if (!r)
        return;
    akv_tokpre_run_close(&r->pre);
    akv_toknfc_release(&r->nfc);
    akv_tokscratch_release(&r->scratch);
    free(r->whole);
    free(r->sym);
    free(r->words.slots);
    free(r);
}

static int encode_valid(struct bpe_run *r, const char *s, size_t len, size_t at)
{
    r->text = s;
    r->at = at;
    r->from = NULL;
    if ((r->bpe->pre.row->flags & AKV_TOKPRE_NFC) && akv_toknfc_needed(s, len)) {
        int rc = akv_toknfc_apply(&r->nfc, s, len, r->err);
        if (rc < 0)
            return rc;
        r->text = r->nfc.text;
        r->from = r->nfc.from;
        len = r->nfc.len;
    }
    return akv_tokpre_split(&r->pre, r->text, len, r->err);
}

/* A byte that is no UTF-8 is a piece of its own; what is between two of them is cut as text of its own. */
static int encode_run(void *run, const char *s, size_t len, size_t at, bool begins, struct akv_err *err)
{
    struct bpe_run *r = run;
    (void)begins;
    int rc = 0;
    r->err = err;
    for (size_t i = 0; rc == 0 && i < len;) {
        size_t n = akv_tok_valid_run(s + i, len - i);
        if (n > 0) {
            rc = encode_valid(r, s + i, n, at + i);
            i += n;
            continue;
        }
        uint32_t id = r->bpe->merges.byte_id[(uint8_t)s[i]];
        if (id == NONE)
            r->out->n_lost++;
        else
            rc = akv_tokout_push(r->out, id, at + i, err);
        i++;
    }
    return rc;
}

static void decode_token(const struct akv_tok *t, uint32_t id, struct akv_buf *out)
{
    struct akv_str text = akv_tokvocab_text(&t->vocab, id);
    if (t->vocab.type[id] == AKV_TOKTYPE_USER) /* written in plain characters */
        akv_buf_add(out, text.s, text.len);
    else
        akv_tokbyte_decode(out, text);
}

const struct akv_tokkind akv_tokkind_bpe = {
    .model = "gpt2",
    .open = open_bpe,
    .close = close_bpe,
    .run_open = open_run,
    .run_close = close_run,
    .encode = encode_run,
    .decode = decode_token,
};
