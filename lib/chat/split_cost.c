/* Lint of a record: which findings in its text matter, where they stand among its tokens, what they cost. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chat/split.h"

#define PAGE 64
#define CUE_BYTES 40 /* how far before a value a word still speaks of it */

struct work {
    const struct akv_record *r;
    const struct akv_tok *tok;
    struct akv_split_text text; /* up to the last anchor */
    uint32_t n;                 /* tokens of it */
};

static bool is_cut(const char *s, size_t i, size_t to)
{
    return s[i] == '\n' || ((s[i] == '.' || s[i] == ';') && i + 1 < to && s[i + 1] == ' ' && i && s[i - 1] != 'g');
}

/* ASCII only, and so the same in any locale. */
static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool is_letter(char c)
{
    return lower(c) >= 'a' && lower(c) <= 'z';
}

static bool begins(const char *s, const char *word, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (lower(s[i]) != word[i])
            return false;
    return true;
}

/* Whether a word in from..to begins so, whatever its case. */
static bool says(const char *s, size_t from, size_t to, const char *const *words, size_t n)
{
    for (size_t w = 0; w < n; w++) {
        size_t len = strlen(words[w]);
        for (size_t i = from; i + len <= to; i++)
            if ((i == from || !is_letter(s[i - 1])) && begins(s + i, words[w], len))
                return true;
    }
    return false;
}

/* The beginning of the sentence, as far as it may speak of what stands at `at`. */
static size_t sentence(const char *s, size_t at)
{
    size_t from = at > CUE_BYTES ? at - CUE_BYTES : 0;
    for (size_t i = from; i < at; i++)
        if (is_cut(s, i, at))
            from = i + 1;
    return from;
}

/* A date or time that is said to be an example, a version, or long past does not change. */
static bool is_fixed(const struct akv_finding *f, const char *s)
{
    static const char *const cues[] = {"e.g",    "example", "such as", "like ",   "format", "version", "knowledge",
                                       "cutoff", "cut-off", "since",   "rfc",     "iso ",   "iso-",    "copyright",
                                       "licen",  "release", "default", "between", "from "};
    static const char *const now[] = {"today", "current", "now"};
    size_t from = sentence(s, f->at);
    return says(s, from, f->at, cues, sizeof cues / sizeof *cues) && !says(s, from, f->at, now, sizeof now / sizeof *now);
}

static bool has_seconds(const struct akv_finding *f)
{
    return strchr(f->excerpt, ':') != strrchr(f->excerpt, ':');
}

/* Hours and minutes alone may be opening hours, a ratio or a verse: they count next to a date or a word of time. */
static bool is_time_of_day(const struct akv_finding *f, const struct akv_finding *before, const struct akv_finding *after,
                           const char *s)
{
    static const char *const words[] = {"time", "clock", "now", "today", "current"};
    bool dated = (before && !strcmp(before->kind, "date") && f->at - (before->at + before->len) <= 4) ||
                 (after && !strcmp(after->kind, "date") && after->at - (f->at + f->len) <= 6);
    return has_seconds(f) || dated || says(s, sentence(s, f->at), f->at, words, sizeof words / sizeof *words);
}

static const char *how_often(const struct akv_finding *f)
{
    return !strcmp(f->kind, "date")                       ? "day"
           : !strcmp(f->kind, "path")                     ? "session"
           : !strcmp(f->kind, "clock") && !has_seconds(f) ? "minute"
                                                          : "request";
}

/* Leave those that matter. */
static size_t choose(struct akv_finding *v, size_t n, const char *s)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        bool is_clock = !strcmp(v[i].kind, "clock");
        bool is_when = is_clock || !strcmp(v[i].kind, "date");
        if (is_when && is_fixed(&v[i], s))
            continue;
        if (is_clock && !is_time_of_day(&v[i], i ? &v[i - 1] : NULL, i + 1 < n ? &v[i + 1] : NULL, s))
            continue;
        v[kept++] = v[i];
    }
    return kept;
}

static void place(const struct work *w, struct akv_finding *f, uint32_t token)
{
    const struct akv_span *span = akv_split_span(w->r, token);
    f->pos = token;
    f->span = span ? span->kind : "";
}

static int add(struct akv_finding **v, size_t *n, const struct akv_finding *f, struct akv_err *err)
{
    struct akv_finding *grown = akv_realloc(*v, *n + 1, sizeof *grown, err);
    if (!grown)
        return AKV_E_IO;
    grown[(*n)++] = *f;
    *v = grown;
    return 0;
}

/* The end of what all conversations share: the anchor `system`, or the last one. */
static uint32_t head_end(const struct work *w)
{
    for (size_t i = 0; i < w->r->n_anchors; i++)
        if (!strcmp(w->r->anchors[i].name, "system"))
            return w->r->anchors[i].at;
    return w->n;
}

/*
 * Volatile text before stable text: what would be found again if the first volatile piece stood behind it. Said once, when it is a page or
 * more.
 */
static int add_order(const struct work *w, struct akv_finding **v, size_t *n, struct akv_err *err)
{
    uint32_t end = head_end(w), behind = end, from;
    bool tools = false;
    if (!*n || (*v)[0].pos >= end)
        return 0;
    struct akv_finding f = {.kind = "order", .at = (*v)[0].at, .per = (*v)[0].per};
    place(w, &f, (*v)[0].pos);
    for (size_t i = 0; i < *n && (*v)[i].pos < end; i++) { /* each piece of it is a few tokens long */
        size_t to = (*v)[i].at + (*v)[i].len;
        uint32_t last = (*v)[i].pos;
        while (last < w->n && w->text.ends[last] < to)
            last++;
        behind -= last + 1 - (*v)[i].pos < behind ? last + 1 - (*v)[i].pos : behind;
    }
    behind -= f.pos < behind ? f.pos : behind;
    from = f.pos / PAGE * PAGE;
    if (behind < PAGE)
        return 0;
    for (size_t i = 0; i < w->r->n_spans; i++)
        tools = tools || (!strcmp(w->r->spans[i].kind, "tools") && w->r->spans[i].from > f.pos);
    f.cost = behind < end - from ? behind : end - from;
    if (*n == AKV_FINDINGS_MAX) /* it says more than the last of so many */
        --*n;
    snprintf(f.excerpt, sizeof f.excerpt, "%s", tools ? "the tools stand behind it" : "stable text stands behind it");
    return add(v, n, &f, err);
}

/* Control tokens that the text of a message spells; akv-tokenize has noted them with the span. */
static int add_control(const struct work *w, struct akv_finding **v, size_t *n, struct akv_err *err)
{
    const json_t *spans = json_object_get(w->r->json, "spans");
    int rc = 0;
    for (size_t i = 0; i < json_array_size(spans); i++) {
        const json_t *list = json_object_get(json_array_get(spans, i), "control");
        for (size_t k = 0; rc == 0 && k < json_array_size(list) && *n < AKV_FINDINGS_MAX; k++) {
            json_int_t at = json_integer_value(json_array_get(list, k));
            if (at < 0 || at >= (json_int_t)w->n)
                continue;
            struct akv_finding f = {.kind = "control"};
            struct akv_buf text;
            place(w, &f, (uint32_t)at);
            akv_buf_init(&text, 0);
            rc = akv_tok_decode(w->tok, &w->r->ids[at], 1, false, &text, err);
            snprintf(f.excerpt, sizeof f.excerpt, "%.40s", text.data);
            akv_buf_release(&text);
            if (rc == 0)
                rc = add(v, n, &f, err);
        }
    }
    return rc;
}

int akv_split_lint(const struct akv_record *r, const struct akv_tok *tok, struct akv_finding **out, size_t *n, struct akv_err *err)
{
    struct work w = {.r = r, .tok = tok, .n = r->n_anchors ? r->anchors[r->n_anchors - 1].at : 0};
    *out = NULL;
    *n = 0;
    int rc = akv_split_text_read(&w.text, r, w.n, tok, err);
    if (rc == 0)
        rc = akv_lint_text(w.text.b.data, w.text.b.len, out, n, err);
    if (rc == 0)
        *n = choose(*out, *n, w.text.b.data);
    for (size_t f = 0, i = 0; rc == 0 && f < *n; f++) {
        while (w.text.ends[i] <= (*out)[f].at)
            i++;
        place(&w, &(*out)[f], (uint32_t)i);
        (*out)[f].cost = w.n - (uint32_t)i / PAGE * PAGE;
        (*out)[f].per = how_often(&(*out)[f]);
    }
    if (rc == 0)
        rc = add_order(&w, out, n, err);
    if (rc == 0)
        rc = add_control(&w, out, n, err);
    if (rc < 0) {
        free(*out);
        *out = NULL;
        *n = 0;
    }
    akv_split_text_release(&w.text);
    return rc;
}

void akv_finding_words(const struct akv_finding *f, struct akv_buf *out)
{
    akv_buf_printf(out, "%s at token %u (%s)", f->kind, f->pos, f->span && *f->span ? f->span : "no span");
    if (f->cost)
        akv_buf_printf(out, ", %u tokens a %s", f->cost, f->per);
    akv_buf_printf(out, ": %s", f->excerpt);
}
