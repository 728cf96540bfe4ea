/* SentencePiece-style BPE: tokenizer.ggml.model "llama". */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "model/tok_priv.h"
#include "model/tok_spm.h"
#include "model/tok_words.h"

#define NONE AKV_TOKVOCAB_NONE
#define MARK AKV_TOKSPM_MARK
#define MARK_BYTES AKV_TOKSPM_MARK_BYTES

struct spm_run {
    const struct akv_tok *tok;
    const struct akv_tokspm *spm;
    struct akv_tokout *out;
    struct akv_err *err;
    struct akv_tokwords words;
    struct akv_tokscratch scratch;
    /* the stretch at hand in space form, where it stands, and where its bytes come from (NULL: one by one) */
    const char *text;
    size_t at;
    const uint32_t *from;
    char *flat; /* room for text and from, where they differ from what was given */
    uint32_t *flat_from;
    size_t cap_flat;
    char *marked; /* a piece, marked, and its symbols */
    struct akv_toksym *sym;
    size_t cap_piece;
    bool after_unknown; /* the last token is the unknown one: another would say the same again */
};

static int check_pre(const struct akv_gguf *g, const char *pre, struct akv_err *err)
{
    struct akv_str name = {pre, pre ? strlen(pre) : 0};
    int rc = pre ? 1 : akv_gguf_str(g, "tokenizer.ggml.pre", &name, err);
    if (rc <= 0 || akv_str_is(name, "default"))
        return rc < 0 ? rc : 0;
    return akv_fail(
        err, AKV_E_INCOMPAT,
        "%s: tokenizer.ggml.pre: '%s' is no pre-tokenizer of a SentencePiece vocabulary (known: default; --pre NAME overrides)",
        g->path, akv_str_show(name).s);
}

/* SentencePiece's own numbers for unknown, bos and eos hold where the file gives none. */
static void set_default_ends(struct akv_tok *t)
{
    const struct akv_tokvocab *v = &t->vocab;
    if (v->type[0] == AKV_TOKTYPE_UNKNOWN)
        t->unk = 0;
    if (v->n > 1 && v->type[1] == AKV_TOKTYPE_CONTROL)
        t->bos = 1;
    if (v->n > 2 && v->type[2] == AKV_TOKTYPE_CONTROL)
        t->eos = 2;
}

static int open_spm(struct akv_tok *t, const struct akv_gguf *g, const char *pre, struct akv_buf *warn, struct akv_err *err)
{
    int rc = check_pre(g, pre, err);
    if (rc < 0)
        return rc;
    struct akv_tokspm *spm = akv_alloc(1, sizeof *spm, err);
    if (!spm)
        return AKV_E_IO;
    t->kind_data = spm;
    t->pre_name = "default";
    t->add_bos = true;
    set_default_ends(t);
    return akv_tokspm_open(spm, &t->vocab, g, t->decode_only, warn, err);
}

static void close_spm(struct akv_tok *t)
{
    free(t->kind_data);
    t->kind_data = NULL;
}

/* --- one encode call --- */

static int open_run(void **out_run, const struct akv_tok *t, size_t text_len, struct akv_tokout *out, struct akv_err *err)
{
    struct spm_run *r = akv_alloc(1, sizeof *r, err);
    if (!r)
        return AKV_E_IO;
    *out_run = r;
    r->tok = t;
    r->spm = t->kind_data;
    r->out = out;
    return akv_tokwords_open(&r->words, text_len, err);
}

static void close_run(void *run)
{
    struct spm_run *r = run;
    if (!r)
        return;
    akv_tokscratch_release(&r->scratch);
    free(r->words.slots);
    free(r->flat);
    free(r->flat_from);
    free(r->marked);
    free(r->sym);
    free(r);
}

static int push(struct spm_run *r, uint32_t id, size_t pos)
{
    r->after_unknown = false;
    return akv_tokout_push(r->out, id, r->at + (r->from ? r->from[pos] : pos), r->err);
}

/* Bytes at pos that no token has: their byte tokens if there are all of them, else the unknown token for any number of them. */
static int push_bytes(struct spm_run *r, size_t pos, size_t n)
{
    const uint8_t *s = (const uint8_t *)r->text + pos;
    bool all = true;
    int rc = 0;
    for (size_t i = 0; i < n; i++)
        all = all && r->spm->byte_id[s[i]] != NONE;
    for (size_t i = 0; all && rc == 0 && i < n; i++)
        rc = push(r, r->spm->byte_id[s[i]], pos + i);
    if (all)
        return rc;
    r->out->n_lost += n;
    if (r->tok->unk == NONE || r->after_unknown)
        return 0;
    rc = push(r, r->tok->unk, pos);
    r->after_unknown = true;
    return rc;
}

static int reserve_piece(struct spm_run *r, size_t len)
{
    if (len <= r->cap_piece)
        return 0;
    if (len >= UINT32_MAX / MARK_BYTES)
        return akv_fail(r->err, AKV_E_INPUT, "text: %zu bytes without a place to cut are more than a tokenizer takes", len);
    size_t cap = len + len / 2;
    char *marked = akv_realloc(r->marked, cap, MARK_BYTES, r->err);
    r->marked = marked ? marked : r->marked;
    struct akv_toksym *sym = akv_realloc(r->sym, cap, sizeof *sym, r->err);
    r->sym = sym ? sym : r->sym;
    if (!marked || !sym)
        return AKV_E_IO;
    r->cap_piece = cap;
    return 0;
}

/* Encode a piece by merging; *w, when given, remembers it. */
static int encode_piece(struct spm_run *r, size_t pos, size_t len, struct akv_tokword *w)
{
    uint32_t n_marked = 0;
    bool all = true;
    int rc = reserve_piece(r, len);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < len; i++) {
        char c = r->text[pos + i];
        memcpy(r->marked + n_marked, c == ' ' ? MARK : &c, c == ' ' ? MARK_BYTES : 1);
        n_marked += c == ' ' ? MARK_BYTES : 1;
    }
    size_t n = akv_tokspm_merge(r->spm, r->marked, n_marked, r->sym, &r->scratch);
    if (n == SIZE_MAX)
        return akv_fail(r->err, AKV_E_IO, "tokenizer: out of memory for a piece of %zu bytes", len);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        uint32_t end = i + 1 < n ? r->sym[i + 1].at : n_marked;
        size_t width = akv_tokspm_width(r->marked + r->sym[i].at, end - r->sym[i].at);
        all = all && r->sym[i].id != NONE;
        rc = r->sym[i].id == NONE ? push_bytes(r, pos, width) : push(r, r->sym[i].id, pos);
        pos += width;
    }
    if (rc == 0 && w && all)
        akv_tokword_keep(w, len, r->sym, n);
    return rc;
}

static int push_word(struct spm_run *r, const struct akv_tokword *w, size_t pos)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < w->n; i++) {
        rc = push(r, w->ids[i], pos);
        if (r->out->offsets && i + 1u < w->n) {
            struct akv_str text = akv_tokvocab_text(r->spm->vocab, w->ids[i]);
            pos += akv_tokspm_width(text.s, text.len);
        }
    }
    return rc;
}

static int take_piece(struct spm_run *r, size_t pos, size_t len)
{
    if (len > AKV_TOKWORD_BYTES)
        return encode_piece(r, pos, len, NULL);
    bool known;
    struct akv_tokword *w = akv_tokwords_at(&r->words, r->text + pos, len, &known);
    return known ? push_word(r, w, pos) : encode_piece(r, pos, len, w);
}

/* How many of the spaces at s the longest user-defined token of spaces takes there; 0: none. */
static size_t run_at(const struct akv_tokspm *spm, const char *s, size_t len)
{
    size_t n = 0;
    while (n < len && n < spm->longest_run && s[n] == ' ')
        n++;
    while (n > 0 && spm->run_id[n] == NONE)
        n--;
    return n;
}

/* Whether a piece ends before byte i > 0 of the text: nothing merges over that border. */
static bool ends_at(const struct akv_tokspm *spm, const char *s, size_t len, size_t i)
{
    if (((uint8_t)s[i] & 0xc0) == 0x80)
        return false;
    return akv_tokspm_parts(spm, s[i - 1], s[i]) || (s[i] == ' ' && spm->longest_run && run_at(spm, s + i, len - i));
}

static int encode_pieces(struct spm_run *r, size_t len)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < len;) {
        size_t n = r->text[i] == ' ' ? run_at(r->spm, r->text + i, len - i) : 0;
        if (n) {
            rc = push(r, r->spm->run_id[n], i);
        } else {
            for (n = 1; i + n < len && !ends_at(r->spm, r->text, len, i + n);)
                n++;
            rc = take_piece(r, i, n);
        }
        i += n;
    }
    return rc;
}

static int reserve_flat(struct spm_run *r, size_t len)
{
    if (len <= r->cap_flat)
        return 0;
    char *flat = akv_realloc(r->flat, len, 1, r->err);
    r->flat = flat ? flat : r->flat;
    uint32_t *from = akv_realloc(r->flat_from, len, sizeof *from, r->err);
    r->flat_from = from ? from : r->flat_from;
    if (!flat || !from)
        return AKV_E_IO;
    r->cap_flat = len;
    return 0;
}

/* Valid UTF-8, after a space of its own when prefix. U+2581 in it is a space like any other from here on. */
static int encode_valid(struct spm_run *r, const char *s, size_t len, size_t at, bool prefix)
{
    r->text = s;
    r->at = at;
    r->from = NULL;
    if (prefix || memmem(s, len, MARK, MARK_BYTES)) {
        size_t n = 0;
        int rc = reserve_flat(r, len + 1);
        if (rc < 0)
            return rc;
        if (prefix) {
            r->flat[n] = ' ';
            r->flat_from[n++] = 0;
        }
        for (size_t i = 0; i < len; n++) {
            bool mark = len - i >= MARK_BYTES && memcmp(s + i, MARK, MARK_BYTES) == 0;
            r->flat[n] = mark ? ' ' : s[i];
            r->flat_from[n] = (uint32_t)i;
            i += mark ? MARK_BYTES : 1;
        }
        r->text = r->flat;
        r->from = r->flat_from;
        len = n;
    }
    return encode_pieces(r, len);
}

/* A byte that is no UTF-8 is a piece of its own; what is between two of them is cut as text of its own. */
static int encode_run(void *run, const char *s, size_t len, size_t at, bool begins, struct akv_err *err)
{
    struct spm_run *r = run;
    bool prefix = begins && r->spm->prefix;
    int rc = 0;
    r->err = err;
    r->after_unknown = false;
    for (size_t i = 0; rc == 0 && i < len;) {
        size_t n = akv_tok_valid_run(s + i, len - i);
        if (n > 0 || prefix)
            rc = encode_valid(r, s + i, n, at + i, prefix);
        i += n;
        prefix = false;
        if (rc == 0 && i < len) {
            r->text = s + i;
            r->at = at + i;
            r->from = NULL;
            rc = push_bytes(r, 0, 1);
            i++;
        }
    }
    return rc;
}

static void decode_token(const struct akv_tok *t, uint32_t id, struct akv_buf *out)
{
    struct akv_str text = akv_tokvocab_text(&t->vocab, id);
    int byte = t->vocab.type[id] == AKV_TOKTYPE_BYTE ? akv_tokspm_byte(text) : -1;
    if (byte >= 0) {
        akv_buf_putc(out, byte);
        return;
    }
    for (size_t i = 0; i < text.len;) {
        const char *mark = memmem(text.s + i, text.len - i, MARK, MARK_BYTES);
        size_t n = mark ? (size_t)(mark - text.s) - i : text.len - i;
        akv_buf_add(out, text.s + i, n);
        if (mark)
            akv_buf_putc(out, ' ');
        i += n + (mark ? MARK_BYTES : 0);
    }
}

const struct akv_tokkind akv_tokkind_spm = {
    .model = "llama",
    .space_mark = true,
    .open = open_spm,
    .close = close_spm,
    .run_open = open_run,
    .run_close = close_run,
    .encode = encode_run,
    .decode = decode_token,
};
