#include "model/tok_special.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "model/tok_spm.h"

#define MARKS_5 AKV_TOKSPM_MARK AKV_TOKSPM_MARK AKV_TOKSPM_MARK AKV_TOKSPM_MARK AKV_TOKSPM_MARK

static int by_bytes(const void *pa, const void *pb)
{
    const struct akv_tokspecial_text *a = pa, *b = pb;
    int c = memcmp(a->s, b->s, a->len < b->len ? a->len : b->len);
    if (c == 0 && a->len != b->len)
        c = a->len < b->len ? -1 : 1;
    if (c == 0)
        c = a->id < b->id ? -1 : 1;
    return c;
}

static bool same_text(const struct akv_tokspecial_text *a, const struct akv_tokspecial_text *b)
{
    return a->len == b->len && memcmp(a->s, b->s, a->len) == 0;
}

static bool wanted(const struct akv_tokvocab *v, uint32_t id, bool control)
{
    return control ? akv_tokvocab_is_plain(v, id) : v->type[id] == AKV_TOKTYPE_USER;
}

static void build_index(struct akv_tokspecial *s)
{
    uint32_t n_firsts = 0, i = 0;
    s->only = -1;
    for (unsigned b = 0; b < 256; b++) {
        s->first[b] = i;
        while (i < s->n && (uint8_t)s->texts[i].s[0] == b)
            i++;
        if (i > s->first[b]) {
            s->only = n_firsts++ ? -1 : (int)b;
        }
    }
    s->first[256] = i;
}

/* The text as it is looked for. */
static struct akv_str wanted_text(const struct akv_tokvocab *v, uint32_t id, bool space_mark)
{
    static const char marks[] = MARKS_5 MARKS_5 MARKS_5 MARKS_5 MARKS_5 MARKS_5 MARKS_5 MARKS_5 MARKS_5 MARKS_5 MARKS_5 MARKS_5
        MARKS_5 MARKS_5 MARKS_5 MARKS_5 MARKS_5;
    struct akv_str text = akv_tokvocab_text(v, id);
    size_t n;
    if (space_mark && v->type[id] == AKV_TOKTYPE_USER && akv_tokspm_is_run(text, &n)) {
        text.s = marks;
        text.len = n > AKV_TOKSPM_RUNS ? 0 : n * AKV_TOKSPM_MARK_BYTES; /* none: too long */
    }
    return text;
}

int akv_tokspecial_open(struct akv_tokspecial *s, const struct akv_tokvocab *v, bool control, bool space_mark, struct akv_buf *warn,
                        struct akv_err *err)
{
    uint32_t n = 0, n_long = 0, n_same = 0;
    *s = (struct akv_tokspecial){.only = -1};
    for (uint32_t i = 0; i < v->n; i++)
        n += wanted(v, i, control);
    s->texts = akv_alloc(n, sizeof *s->texts, err);
    if (!s->texts)
        return AKV_E_IO;
    for (uint32_t i = 0; i < v->n; i++) {
        if (!wanted(v, i, control))
            continue;
        struct akv_str text = wanted_text(v, i, space_mark);
        if (text.len == 0 || text.len > AKV_TOKSPECIAL_MAX)
            n_long++;
        else
            s->texts[s->n++] = (struct akv_tokspecial_text){text.s, (uint32_t)text.len, i};
    }
    qsort(s->texts, s->n, sizeof *s->texts, by_bytes);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        if (kept && same_text(&s->texts[kept - 1], &s->texts[i]))
            n_same++;
        else
            s->texts[kept++] = s->texts[i];
    }
    s->n = kept;
    build_index(s);
    if (n_long && warn)
        akv_buf_printf(warn,
                       "tokenizer.ggml.tokens: %u added tokens are empty or longer than %u bytes and not recognised in text\n",
                       n_long, AKV_TOKSPECIAL_MAX);
    if (n_same && warn)
        akv_buf_printf(warn, "tokenizer.ggml.tokens: %u added tokens repeat the text of an earlier one, which is used\n", n_same);
    return 0;
}

void akv_tokspecial_close(struct akv_tokspecial *s)
{
    free(s->texts);
    *s = (struct akv_tokspecial){.only = -1};
}

/* First of [lo, hi) whose byte at depth is >= b; all of them agree before depth and are longer than it. */
static uint32_t lower_bound(const struct akv_tokspecial *s, uint32_t lo, uint32_t hi, uint32_t depth, unsigned b)
{
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if ((uint8_t)s->texts[mid].s[depth] < b)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* The longest text that s starts with: its index, or s->n. */
static uint32_t longest_at(const struct akv_tokspecial *s, const char *text, size_t len)
{
    uint32_t lo = s->first[(uint8_t)text[0]], hi = s->first[(uint8_t)text[0] + 1], best = s->n;
    for (uint32_t depth = 1; lo < hi; depth++) {
        if (s->texts[lo].len == depth) /* a prefix of all the others, so it sorts first */
            best = lo++;
        if (depth >= len)
            break;
        unsigned b = (uint8_t)text[depth];
        lo = lower_bound(s, lo, hi, depth, b);
        hi = lower_bound(s, lo, hi, depth, b + 1);
    }
    return best;
}

size_t akv_tokspecial_next(const struct akv_tokspecial *s, const char *text, size_t text_len, size_t from, size_t *len,
                           uint32_t *id)
{
    if (s->n == 0)
        return text_len;
    for (size_t i = from; i < text_len; i++) {
        if (s->only >= 0) {
            const char *p = memchr(text + i, s->only, text_len - i);
            if (!p)
                return text_len;
            i = (size_t)(p - text);
        }
        uint8_t b = (uint8_t)text[i];
        if (s->first[b] == s->first[b + 1])
            continue;
        uint32_t found = longest_at(s, text + i, text_len - i);
        if (found < s->n) {
            *len = s->texts[found].len;
            *id = s->texts[found].id;
            return i;
        }
    }
    return text_len;
}

uint32_t akv_tokspecial_find(const struct akv_tokspecial *s, const char *text, size_t len)
{
    if (s->n == 0 || len == 0)
        return AKV_TOKVOCAB_NONE;
    uint32_t found = longest_at(s, text, len);
    return found < s->n && s->texts[found].len == len ? s->texts[found].id : AKV_TOKVOCAB_NONE;
}
