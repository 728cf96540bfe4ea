#include "chat/chat_ids.h"

#include <stdlib.h>
#include <string.h>

#include "chat/chat_control.h"

/* Tokens on either side that are encoded for a proof when no control token is nearer: no rule reaches so far. */
#define CUT_NEAR 128
#define CUT_WINDOW 512
#define CUT_TRIES 64   /* positions tried one by one before a cut goes back to the last control token */
#define HOLD_TOKENS 16 /* before a cut: as many of them may change as a rule is half of that */

/* A token may start anywhere in the text, in 32 bits: the text is at most 64 MiB. */
static int encode_as(struct akv_chat_ids *c, size_t from, size_t to, unsigned special, struct akv_err *err)
{
    size_t first = c->at.n;
    unsigned flags = special | (from ? AKV_TOK_CONTINUE : 0);
    int rc = akv_tok_encode_offsets(c->tok, c->text->data + from, to - from, flags, &c->ids, &c->at, &c->n_lost, err);
    for (size_t i = first; rc == 0 && i < c->at.n; i++)
        c->at.v[i] += (uint32_t)from;
    return rc;
}

/* Where token i ends, of those from..to. */
static size_t end_of(const struct akv_chat_ids *c, size_t i, size_t to)
{
    return i + 1 < c->at.n ? c->at.v[i + 1] : to;
}

/*
 * The control tokens that the template wrote cut the text; what stands between them is encoded again, as text, where it spells others.
 * From token `first` on.
 */
static int read_as_text(struct akv_chat_ids *c, size_t first, size_t to, struct akv_err *err)
{
    struct akv_ids ids = c->ids, at = c->at;
    struct akv_chat_ids seen = *c;
    int rc = 0;
    c->ids = c->at = (struct akv_ids){0};
    for (size_t i = 0; rc == 0 && i < first; i++) {
        rc = akv_ids_push(&c->ids, ids.v[i], err);
        rc = rc < 0 ? rc : akv_ids_push(&c->at, at.v[i], err);
    }
    for (size_t i = first, from = first; rc == 0 && i <= ids.n; i++) {
        bool ends = i == ids.n;
        if (!ends && (!akv_tok_is_control(c->tok, ids.v[i]) || akv_chat_in_content(c->literal, at.v[i], end_of(&seen, i, to))))
            continue;
        if (from < i)
            rc = encode_as(c, at.v[from], ends ? to : at.v[i], 0, err);
        if (rc == 0 && !ends)
            rc = akv_ids_push(&c->ids, ids.v[i], err);
        if (rc == 0 && !ends)
            rc = akv_ids_push(&c->at, at.v[i], err);
        from = i + 1;
    }
    akv_ids_release(&ids);
    akv_ids_release(&at);
    return rc;
}

static int encode_part(struct akv_chat_ids *c, size_t from, size_t to, struct akv_err *err)
{
    size_t first = c->ids.n;
    bool spelled = false;
    int rc = encode_as(c, from, to, AKV_TOK_SPECIAL, err);
    for (size_t i = first; rc == 0 && c->literal && i < c->ids.n && !spelled; i++)
        spelled = akv_tok_is_control(c->tok, c->ids.v[i]) && akv_chat_in_content(c->literal, c->at.v[i], end_of(c, i, to));
    return rc == 0 && spelled ? read_as_text(c, first, to, err) : rc;
}

static int put_given(struct akv_chat_ids *c, const struct akv_chat_given *g, struct akv_err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < g->ids.n; i++) {
        rc = akv_ids_push(&c->ids, g->ids.v[i], err);
        if (rc == 0)
            rc = akv_ids_push(&c->at, (uint32_t)g->from, err);
    }
    return rc;
}

/* Exactly one bos: templates write it themselves or leave it to the tokenizer. */
static int put_bos(struct akv_chat_ids *c, struct akv_err *err)
{
    uint32_t bos = akv_tok_bos(c->tok);
    if (!akv_tok_add_bos(c->tok) || bos == AKV_TOK_NONE || (c->ids.n && c->ids.v[0] == bos))
        return 0;
    int rc = akv_ids_push(&c->ids, bos, err);
    if (rc == 0)
        rc = akv_ids_push(&c->at, 0, err);
    if (rc < 0)
        return rc;
    memmove(c->ids.v + 1, c->ids.v, (c->ids.n - 1) * sizeof *c->ids.v);
    memmove(c->at.v + 1, c->at.v, (c->at.n - 1) * sizeof *c->at.v);
    c->ids.v[0] = bos;
    c->at.v[0] = 0;
    return 0;
}

/* The first token that starts at byte b or after it. */
static size_t token_at(const struct akv_chat_ids *c, size_t b)
{
    size_t lo = 0, hi = c->at.n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (c->at.v[mid] < b)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

int akv_chat_encode(struct akv_chat_ids *c, const struct akv_tok *tok, const struct akv_buf *text,
                    const struct akv_chat_given *given, size_t n_given, const struct akv_chat_layout *literal, struct akv_err *err)
{
    *c = (struct akv_chat_ids){.tok = tok, .text = text, .literal = literal};
    int rc = text->len < UINT32_MAX ? 0 : akv_fail(err, AKV_E_INPUT, "the rendered text is too long: %zu bytes", text->len);
    size_t from = 0;
    for (size_t i = 0; rc == 0 && i < n_given; i++) {
        rc = encode_part(c, from, given[i].from, err);
        if (rc == 0)
            rc = put_given(c, &given[i], err);
        from = given[i].to;
    }
    if (rc == 0)
        rc = encode_part(c, from, text->len, err);
    if (rc == 0)
        rc = put_bos(c, err);
    c->given = akv_alloc(c->ids.n, sizeof *c->given, err);
    if (rc == 0 && !c->given)
        rc = AKV_E_IO;
    for (size_t g = 0; rc == 0 && g < n_given; g++) {
        size_t first = token_at(c, given[g].from);
        for (size_t i = 0; i < given[g].ids.n; i++)
            c->given[first + i] = true;
    }
    c->work_left = 32 * c->ids.n + 65536;
    if (rc < 0)
        akv_chat_ids_release(c);
    return rc;
}

int akv_chat_ids_of(struct akv_chat_ids *c, const struct akv_tok *tok, const uint32_t *ids, size_t n, struct akv_buf *text,
                    struct akv_err *err)
{
    *c = (struct akv_chat_ids){.tok = tok, .text = text, .work_left = 32 * n + 65536};
    c->given = akv_alloc(n, sizeof *c->given, err);
    int rc = c->given ? 0 : AKV_E_IO;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        rc = akv_ids_push(&c->ids, ids[i], err);
        if (rc == 0)
            rc = akv_ids_push(&c->at, (uint32_t)text->len, err);
        if (rc == 0)
            rc = akv_tok_decode(tok, &ids[i], 1, false, text, err);
    }
    if (rc == 0 && text->len >= UINT32_MAX)
        rc = akv_fail(err, AKV_E_INPUT, "the text is too long: %zu bytes", text->len);
    return rc < 0 ? rc : akv_buf_check(text, "decoded text", err);
}

void akv_chat_ids_release(struct akv_chat_ids *c)
{
    akv_ids_release(&c->ids);
    akv_ids_release(&c->at);
    free(c->given);
    *c = (struct akv_chat_ids){0};
}

static size_t start_of(const struct akv_chat_ids *c, size_t i)
{
    return i < c->at.n ? c->at.v[i] : c->text->len;
}

static bool beside_control(const struct akv_chat_ids *c, size_t i)
{
    return i == 0 || i == c->ids.n || akv_tok_is_control(c->tok, c->ids.v[i - 1]) || akv_tok_is_control(c->tok, c->ids.v[i]);
}

/* Control tokens are cut out of the text before anything else looks at it, and given ids are never looked at: nothing merges across. */
static bool is_clean(const struct akv_chat_ids *c, size_t i)
{
    return beside_control(c, i) || c->given[i - 1] || c->given[i];
}

size_t akv_chat_position(const struct akv_chat_ids *c, const struct akv_chat_place *place)
{
    size_t pos = token_at(c, place->at);
    for (size_t i = pos; start_of(c, i) >= place->floor; i--) {
        size_t start = start_of(c, i);
        bool blind = place->before_content && start == place->at && i < c->ids.n && i;
        if (start <= place->at && (blind ? akv_tok_is_control(c->tok, c->ids.v[i - 1]) : beside_control(c, i)))
            return i;
        if (i == 0)
            break;
    }
    return pos;
}

static bool is_text(const struct akv_chat_ids *c, size_t i)
{
    return !akv_tok_is_control(c->tok, c->ids.v[i]);
}

/* How text that begins at token `from` is encoded: a vocabulary that puts a space before a text does so here only after a control token. */
static unsigned flags_at(const struct akv_chat_ids *c, size_t from)
{
    unsigned special = c->literal && from < c->ids.n && is_text(c, from) ? 0 : AKV_TOK_SPECIAL;
    return special | (from && is_text(c, from - 1) ? AKV_TOK_CONTINUE : 0);
}

/* Whether tokens from..to are what the bytes from..to give alone. */
static int stands_alone(struct akv_chat_ids *c, size_t from, size_t to, bool *yes, struct akv_err *err)
{
    struct akv_ids ids = {0};
    c->work_left -= to - from < c->work_left ? to - from : c->work_left;
    int rc = 0;
    for (size_t i = from, end; rc == 0 && i < to;
         i = end) { /* in literal text a control token is one only where it is one already */
        for (end = c->literal ? i + 1 : to; end < to && is_text(c, i) && is_text(c, end); end++)
            ;
        size_t a = start_of(c, i);
        rc = akv_tok_encode(c->tok, c->text->data + a, start_of(c, end) - a, flags_at(c, i), &ids, NULL, err);
    }
    *yes = rc == 0 && ids.n == to - from && !memcmp(ids.v, c->ids.v + from, ids.n * sizeof *ids.v);
    akv_ids_release(&ids);
    return rc;
}

static size_t common_ids(const struct akv_ids *a, const struct akv_ids *b)
{
    size_t n = a->n < b->n ? a->n : b->n, i = 0;
    while (i < n && a->v[i] == b->v[i])
        i++;
    return i;
}

struct trial {
    const struct akv_chat_ids *c;
    size_t from, pos;                 /* the tokens whose text is tried */
    struct akv_ids alone, at, longer; /* its ids, where they start, and its ids with something behind */
    size_t n_held;                    /* of `alone`: those that were the same with everything so far */
    struct akv_buf text;
};

static int encode_with(struct trial *t, const char *behind, size_t len, struct akv_ids *ids, struct akv_ids *at,
                       struct akv_err *err)
{
    size_t a = start_of(t->c, t->from);
    akv_buf_clear(&t->text);
    akv_buf_add(&t->text, t->c->text->data + a, start_of(t->c, t->pos) - a);
    akv_buf_add(&t->text, behind, len);
    int rc = akv_buf_check(&t->text, "text", err);
    ids->n = 0;
    return rc < 0 ? rc : akv_tok_encode_offsets(t->c->tok, t->text.data, t->text.len, flags_at(t->c, t->from), ids, at, NULL, err);
}

/* Note which of the ids stay when this stands behind them. */
static int try_behind(struct trial *t, const char *behind, size_t len, struct akv_err *err)
{
    int rc = encode_with(t, behind, len, &t->longer, NULL, err);
    size_t same = common_ids(&t->alone, &t->longer);
    t->n_held = same < t->n_held ? same : t->n_held;
    return rc;
}

/* What any text may begin with. */
static int try_any(struct trial *t, struct akv_err *err)
{
    static const char *const texts[] = {"a", "A",  " a", "\n", "\na", "1",  ".", ",",  ":",    "/",
                                        "|", "-",  "*",  "#",  "_",   "[",  "]", "(",  ")",    "{",
                                        "}", "'s", "=",  "\"", "<",   "</", ">", "\t", "\r\n", "\xc3\xa9"};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sizeof texts / sizeof *texts; i++)
        rc = try_behind(t, texts[i], strlen(texts[i]), err);
    return rc;
}

/* n tokens up to pos, or fewer where a control token is among them that literal text must not reach across. */
static size_t window(const struct akv_chat_ids *c, size_t pos, size_t n)
{
    size_t from = pos > n ? pos - n : 0;
    for (size_t i = from; c->literal && i < pos; i++)
        from = is_text(c, i) ? from : i + 1;
    return from;
}

/*
 * The last position up to pos where a token begins that is the same whatever stands behind pos, so far as trying can tell: any text, if
 * nothing is known of it, and what is known of l. A few tokens are enough unless most of them may change.
 */
static int hold_back(const struct akv_chat_ids *c, size_t *pos, bool unknown, const struct akv_chat_layout *l, struct akv_err *err)
{
    struct trial t = {.c = c, .from = *pos, .pos = *pos};
    int rc = 0;
    akv_buf_init(&t.text, 0);
    for (size_t n = HOLD_TOKENS; rc == 0 && n <= CUT_TRIES && t.from && t.n_held <= t.alone.n / 2; n *= 2) {
        t.from = window(c, *pos, n);
        t.at.n = 0;
        rc = encode_with(&t, "", 0, &t.alone, &t.at, err);
        t.n_held = t.alone.n;
        if (rc == 0 && unknown)
            rc = try_any(&t, err);
        for (size_t i = 0; rc == 0 && l && i < l->n_behind; i++)
            rc = try_behind(&t, l->behind[i].text, l->behind[i].len, err);
    }
    if (rc == 0 && t.n_held < t.alone.n) { /* back to the first byte that may become part of another token */
        size_t held = start_of(c, t.from) + t.at.v[t.n_held], at = token_at(c, held);
        *pos = at > t.from && start_of(c, at) > held ? at - 1 : at;
    }
    akv_ids_release(&t.alone);
    akv_ids_release(&t.at);
    akv_ids_release(&t.longer);
    akv_buf_release(&t.text);
    return rc;
}

/* Whether some conversations go on from the last message with something else than the control token at pos. */
static bool parts_behind(const struct akv_chat_ids *c, size_t pos, const struct akv_chat_layout *l)
{
    size_t len = start_of(c, pos + 1) - start_of(c, pos);
    for (size_t i = 0; l && i < l->n_behind; i++)
        if (l->behind[i].len < len || memcmp(l->behind[i].text, c->text->data + start_of(c, pos), len))
            return true;
    return false;
}

/* The last position up to pos, of CUT_TRIES, that is safe, as far as n tokens on either side tell; 0 if none is found. */
static int try_cuts(struct akv_chat_ids *c, size_t pos, size_t n, size_t *out, struct akv_err *err)
{
    size_t lo = pos, hi = pos;
    while (!is_clean(c, lo) && pos - lo < n)
        lo--;
    while (!is_clean(c, hi) && hi - pos < n)
        hi++;
    *out = is_clean(c, lo) ? lo : 0;
    for (size_t i = pos, tries = 0; i > lo && tries < CUT_TRIES && c->work_left; i--, tries++) {
        bool before, after = false;
        int rc = stands_alone(c, lo, i, &before, err);
        if (rc == 0 && before)
            rc = stands_alone(c, i, hi, &after, err);
        if (rc < 0)
            return rc;
        if (before && after) {
            *out = i;
            break;
        }
    }
    return 0;
}

/* A text of few control tokens may begin inside a word at one distance and between two at another. */
static int safe_cut(struct akv_chat_ids *c, size_t pos, size_t *out, struct akv_err *err)
{
    int rc = try_cuts(c, pos, CUT_NEAR, out, err);
    return rc < 0 || *out ? rc : try_cuts(c, pos, CUT_WINDOW, out, err);
}

int akv_chat_cut_at(struct akv_chat_ids *c, size_t pos, size_t *safe, struct akv_err *err)
{
    *safe = pos;
    return pos == c->ids.n ? 0 : safe_cut(c, pos, safe, err); /* at the end there is no rest */
}

int akv_chat_cut(struct akv_chat_ids *c, const struct akv_chat_place *place, const struct akv_chat_layout *last, size_t *wanted,
                 size_t *safe, struct akv_err *err)
{
    *wanted = akv_chat_position(c, place);
    *safe = 0;
    if (!c->work_left)
        return 0;
    size_t pos = *wanted;
    if (pos && start_of(c, pos) > place->at) /* the boundary lies inside a token, which then belongs to what follows */
        pos--;
    if (pos && !akv_tok_is_control(c->tok, c->ids.v[pos - 1]) && !c->given[pos - 1]) {
        bool unknown = place->before_content || pos == c->ids.n || !beside_control(c, pos);
        int rc = unknown || parts_behind(c, pos, last) ? hold_back(c, &pos, unknown, last, err) : 0;
        if (rc < 0)
            return rc;
    }
    return safe_cut(c, pos, safe, err);
}
