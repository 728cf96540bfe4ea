/* SentencePiece vocabularies: reading, and merging by score. */
#include "model/tok_spm.h"

#include <math.h>
#include <string.h>

#include "base/bytes.h"
#include "base/err.h"
#include "model/tok_merge_loop.h"

#define KEY_SCORES "tokenizer.ggml.scores"
#define NONE AKV_TOKVOCAB_NONE

static bool is_mark(const char *s, size_t len)
{
    return len >= AKV_TOKSPM_MARK_BYTES && memcmp(s, AKV_TOKSPM_MARK, AKV_TOKSPM_MARK_BYTES) == 0;
}

size_t akv_tokspm_width(const char *s, size_t len)
{
    size_t n = len;
    for (size_t i = 0; i + AKV_TOKSPM_MARK_BYTES <= len; i++) {
        if (s[i] == AKV_TOKSPM_MARK[0] && is_mark(s + i, len - i))
            n -= AKV_TOKSPM_MARK_BYTES - 1;
    }
    return n;
}

bool akv_tokspm_is_run(struct akv_str text, size_t *n)
{
    *n = 0;
    for (size_t i = 0; i < text.len; ++*n) {
        if (text.s[i] == ' ')
            i++;
        else if (is_mark(text.s + i, text.len - i))
            i += AKV_TOKSPM_MARK_BYTES;
        else
            return false;
    }
    return *n > 0;
}

int akv_tokspm_byte(struct akv_str text)
{
    uint8_t byte;
    if (text.len != 6 || memcmp(text.s, "<0x", 3) != 0 || text.s[5] != '>' || !akv_unhex(&byte, 1, text.s + 3, 2))
        return -1;
    return byte;
}

static int read_scores(struct akv_tokspm *m, const struct akv_gguf *g, struct akv_err *err)
{
    const struct akv_gguf_kv *kv = akv_gguf_find(g, KEY_SCORES);
    if (!kv)
        return akv_fail(err, AKV_E_INPUT, "%s: " KEY_SCORES ": the key is missing", g->path);
    if (kv->type != AKV_GGUF_ARRAY || kv->elem_type != AKV_GGUF_F32)
        return akv_fail(err, AKV_E_INPUT, "%s: " KEY_SCORES " at byte %llu: not an array of f32", g->path,
                        (unsigned long long)kv->offset);
    if (kv->n != m->vocab->n)
        return akv_fail(err, AKV_E_INPUT, "%s: " KEY_SCORES " at byte %llu: %llu scores for %u tokens", g->path,
                        (unsigned long long)kv->offset, (unsigned long long)kv->n, m->vocab->n);
    m->scores = kv;
    return 0;
}

static int check_scores(const struct akv_tokspm *m, const struct akv_gguf *g, struct akv_err *err)
{
    for (uint64_t i = 0; i < m->scores->n; i++) {
        if (isnan(akv_gguf_array_f32(m->scores, i)))
            return akv_fail(err, AKV_E_INPUT, "%s: " KEY_SCORES " at byte %llu: the score of token %llu is not a number", g->path,
                            (unsigned long long)m->scores->offset, (unsigned long long)i);
    }
    return 0;
}

static void note_inner(struct akv_tokspm *m, struct akv_str text)
{
    unsigned before = 256;
    for (size_t i = 0; i < text.len;) {
        bool mark = text.s[i] == AKV_TOKSPM_MARK[0] && is_mark(text.s + i, text.len - i);
        unsigned b = mark ? ' ' : (uint8_t)text.s[i];
        if (before < 256)
            m->inner[before][b >> 5] |= 1u << (b & 31);
        before = b;
        i += mark ? AKV_TOKSPM_MARK_BYTES : 1;
    }
}

static void note_run(struct akv_tokspm *m, uint32_t id, struct akv_str text)
{
    size_t n;
    if (!akv_tokspm_is_run(text, &n) || n > AKV_TOKSPM_RUNS || m->run_id[n] != NONE)
        return;
    m->run_id[n] = id;
    if (n < m->shortest_run)
        m->shortest_run = (uint32_t)n;
    if (n > m->longest_run)
        m->longest_run = (uint32_t)n;
}

/* What the texts say by their types. */
static void read_texts(struct akv_tokspm *m, struct akv_buf *warn)
{
    uint32_t n_odd = 0;
    for (uint32_t i = 0; i < m->vocab->n; i++) {
        struct akv_str text = akv_tokvocab_text(m->vocab, i);
        int byte;
        switch (m->vocab->type[i]) {
        case AKV_TOKTYPE_NORMAL:
            note_inner(m, text);
            break;
        case AKV_TOKTYPE_USER:
            note_run(m, i, text);
            break;
        case AKV_TOKTYPE_BYTE:
            byte = akv_tokspm_byte(text);
            if (byte < 0)
                n_odd++;
            else if (m->byte_id[byte] == NONE)
                m->byte_id[byte] = i;
            break;
        }
    }
    if (n_odd)
        akv_buf_printf(warn, "tokenizer.ggml.tokens: %u tokens of type byte are not written <0xXX> and are never made\n", n_odd);
}

int akv_tokspm_open(struct akv_tokspm *m, const struct akv_tokvocab *v, const struct akv_gguf *g, bool decode_only,
                    struct akv_buf *warn, struct akv_err *err)
{
    *m = (struct akv_tokspm){.vocab = v, .prefix = true, .shortest_run = UINT32_MAX};
    memset(m->byte_id, 0xff, sizeof m->byte_id);
    memset(m->run_id, 0xff, sizeof m->run_id);
    if (!akv_gguf_find(g, "tokenizer.ggml.token_type"))
        return akv_fail(err, AKV_E_INPUT, "%s: tokenizer.ggml.token_type: the key is missing", g->path);
    int rc = read_scores(m, g, err);
    if (rc == 0)
        rc = akv_gguf_bool(g, "tokenizer.ggml.add_space_prefix", &m->prefix, err);
    if (rc < 0)
        return rc;
    if (decode_only)
        return 0;
    read_texts(m, warn);
    return check_scores(m, g, err);
}

/* --- merging --- */

/* The normal token of that text, or NONE. */
static uint32_t find_normal(const struct akv_tokvocab *v, const char *s, size_t len)
{
    uint32_t id = akv_tokvocab_find(v, s, len);
    return id != NONE && v->type[id] == AKV_TOKTYPE_NORMAL ? id : NONE;
}

/* Numbers that ascend as the score descends; equal scores, equal numbers. NONE would be that of a NaN. */
static uint32_t rank_of_score(float score)
{
    uint32_t bits;
    score += 0.0f; /* -0 is 0 */
    memcpy(&bits, &score, sizeof bits);
    return bits & 0x80000000u ? bits : ~bits & 0x7fffffffu;
}

struct piece {
    const struct akv_tokspm *m;
    const char *s;
};

static uint32_t rank_of(const void *ctx, const struct akv_toksym *left, const struct akv_toksym *right, uint32_t end,
                        uint32_t *made)
{
    const struct piece *p = ctx;
    (void)right;
    *made = find_normal(p->m->vocab, p->s + left->at, end - left->at);
    return *made == NONE ? NONE : rank_of_score(akv_gguf_array_f32(p->m->scores, *made));
}

size_t akv_tokspm_merge(const struct akv_tokspm *m, const char *s, uint32_t len, struct akv_toksym *sym,
                        struct akv_tokscratch *scratch)
{
    const struct piece p = {m, s};
    size_t n = 0;
    for (uint32_t i = 0; i < len; i++) {
        if (((uint8_t)s[i] & 0xc0) != 0x80)
            sym[n++] = (struct akv_toksym){NONE, i};
    }
    n = akv_tokmerge(rank_of, &p, sym, n, len, scratch);
    for (size_t i = 0; n != SIZE_MAX && i < n; i++) {
        if (sym[i].id == NONE)
            sym[i].id = find_normal(m->vocab, s + sym[i].at, (i + 1 < n ? sym[i + 1].at : len) - sym[i].at);
    }
    return n;
}
