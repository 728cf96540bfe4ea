/* Byte-level BPE: tokenizer.ggml.model "gpt2". */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/err.h"
#include "model/tok_merge.h"
#include "model/tok_nfc.h"
#include "model/tok_pre.h"
#include "model/tok_priv.h"

#define NONE AKV_TOKVOCAB_NONE

struct bpe {
    const struct akv_tok *tok;
    struct akv_tokmerges merges;
    struct akv_tokpre pre;
};

/*
 * Words met before in this call, so that a repeated one costs a look-up. One cache line each, replaced on collision; longer
 * words, longer results and those that lose bytes are not kept.
 */
#define WORD_BYTES 16u
#define WORD_IDS 11u
#define MAX_WORDS 16384u

struct word {
    uint64_t key[WORD_BYTES / 8]; /* the bytes, zero-filled */
    uint8_t len;                  /* 0: free */
    uint8_t n;
    uint32_t ids[WORD_IDS];
};

struct bpe_run {
    const struct bpe *bpe;
    struct akv_tokout *out;
    struct akv_err *err;
    struct akv_tokpre_run pre;
    struct akv_toknfc nfc;
    struct word *words;
    uint32_t n_words; /* a power of two */
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
    rc = akv_tokmerges_open(&b->merges, &t->vocab, g, warn, err);
    if (rc < 0)
        return rc;
    t->pre_name = row->name;
    t->add_bos = row->flags & AKV_TOKPRE_ADD_BOS;
    return akv_tokpre_open(&b->pre, row, err);
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

/* Encode a piece by merging; *w, when given and the result fits, remembers it. */
static int encode_piece(struct bpe_run *r, const char *s, size_t len, struct word *w)
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
    if (rc == 0 && w && n <= WORD_IDS && lost == 0) {
        w->len = (uint8_t)len;
        w->n = (uint8_t)n;
        for (size_t i = 0; i < n; i++)
            w->ids[i] = r->sym[i].id;
    }
    return rc;
}

static int take_piece(void *ctx, const char *s, size_t len)
{
    struct bpe_run *r = ctx;
    if (len > WORD_BYTES)
        return encode_piece(r, s, len, NULL);
    uint64_t key[2] = {0, 0};
    memcpy(key, s, len);
    uint64_t h = (key[0] ^ key[1] * 0x9e3779b97f4a7c15u) * 0xd1342543de82ef95u;
    struct word *w = &r->words[(h ^ h >> 29) >> 32 & (r->n_words - 1)];
    if (w->len == len && w->key[0] == key[0] && w->key[1] == key[1])
        return push_word(r, w->ids, w->n, (size_t)(s - r->text));
    w->len = 0;
    w->key[0] = key[0];
    w->key[1] = key[1];
    return encode_piece(r, s, len, w);
}

static int open_run(void **out_run, const struct akv_tok *t, size_t text_len, struct akv_tokout *out, struct akv_err *err)
{
    struct bpe_run *r = akv_alloc(1, sizeof *r, err);
    if (!r)
        return AKV_E_IO;
    *out_run = r;
    r->bpe = t->kind_data;
    r->out = out;
    for (r->n_words = 16; r->n_words < MAX_WORDS && r->n_words < text_len / 16;)
        r->n_words *= 2;
    r->words = akv_alloc(r->n_words, sizeof *r->words, err);
    r->whole = akv_alloc(t->vocab.max_len + 2u, 1, err);
    if (!r->words || !r->whole)
        return AKV_E_IO;
    int rc = akv_tokpre_run_open(&r->pre, &r->bpe->pre, err);
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
    free(r->words);
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

/* Length of the valid UTF-8 that s begins with. */
static size_t valid_run(const char *s, size_t len)
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

/* A byte that is no UTF-8 is a piece of its own; what is between two of them is cut as text of its own. */
static int encode_run(void *run, const char *s, size_t len, size_t at, struct akv_err *err)
{
    struct bpe_run *r = run;
    int rc = 0;
    r->err = err;
    for (size_t i = 0; rc == 0 && i < len;) {
        size_t n = valid_run(s + i, len - i);
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
    akv_tokbyte_decode(out, akv_tokvocab_text(&t->vocab, id));
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
