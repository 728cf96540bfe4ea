#include "model/tok_pre.h"

#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/buf.h"

const struct akv_tokpre_row *akv_tokpre_find(const char *name, size_t len)
{
    for (const struct akv_tokpre_row *row = akv_tokpre_rows; row->name; row++) {
        if (strlen(row->name) == len && memcmp(row->name, name, len) == 0)
            return row;
    }
    return NULL;
}

void akv_tokpre_names(struct akv_buf *out)
{
    for (const struct akv_tokpre_row *row = akv_tokpre_rows; row->name; row++)
        akv_buf_printf(out, "%s%s", row == akv_tokpre_rows ? "" : ", ", row->name);
}

int akv_tokpre_open(struct akv_tokpre *p, const struct akv_tokpre_row *row, struct akv_err *err)
{
    *p = (struct akv_tokpre){.row = row};
    for (; row->patterns[p->n]; p->n++) {
        int why;
        PCRE2_SIZE at;
        pcre2_code *code =
            pcre2_compile((PCRE2_SPTR)row->patterns[p->n], PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP, &why, &at, NULL);
        if (!code) {
            char text[128] = "";
            pcre2_get_error_message(why, (PCRE2_UCHAR *)text, sizeof text);
            return akv_fail(err, AKV_E_IO, "pre-tokenizer %s: pattern %u at %zu: %s", row->name, p->n, (size_t)at, text);
        }
        /* without a JIT (no writable and executable memory) the interpreter serves */
        p->codes[p->n] = (struct akv_tokpre_code){code, pcre2_jit_compile(code, PCRE2_JIT_COMPLETE) == 0};
    }
    return 0;
}

void akv_tokpre_close(struct akv_tokpre *p)
{
    for (unsigned i = 0; i < p->n; i++)
        pcre2_code_free(p->codes[i].code);
    *p = (struct akv_tokpre){0};
}

int akv_tokpre_run_open(struct akv_tokpre_run *run, const struct akv_tokpre *pre, struct akv_err *err)
{
    *run = (struct akv_tokpre_run){.pre = pre};
    bool ok = (run->context = pcre2_match_context_create(NULL)) != NULL;
    for (unsigned i = 0; ok && i < pre->n; i++)
        ok = (run->match[i] = pcre2_match_data_create(1, NULL)) != NULL;
    if (!ok)
        return akv_fail(err, AKV_E_IO, "pre-tokenizer %s: out of memory", pre->row->name);
    /* the patterns repeat single characters only: matching needs a number of steps, but no memory, that grows with the text */
    pcre2_set_match_limit(run->context, UINT32_MAX);
    pcre2_set_depth_limit(run->context, UINT32_MAX);
    pcre2_set_heap_limit(run->context, UINT32_MAX);
    return 0;
}

void akv_tokpre_run_close(struct akv_tokpre_run *run)
{
    for (unsigned i = 0; i < AKV_TOKPRE_PATTERNS; i++)
        pcre2_match_data_free(run->match[i]);
    pcre2_match_context_free(run->context);
    *run = (struct akv_tokpre_run){0};
}

/* Next match of pattern `level` at or after from: 1 and its bounds, 0 when there is none, or a negative code. */
static int next_match(struct akv_tokpre_run *run, unsigned level, const char *s, size_t len, size_t from, size_t *start,
                      size_t *end, struct akv_err *err)
{
    const struct akv_tokpre_code *c = &run->pre->codes[level];
    pcre2_match_data *md = run->match[level];
    PCRE2_SPTR text = (PCRE2_SPTR)s;
    int n = c->jit ? pcre2_jit_match(c->code, text, len, from, 0, md, run->context)
                   : pcre2_match(c->code, text, len, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, md, run->context);
    if (n == PCRE2_ERROR_NOMATCH)
        return 0;
    if (n < 0)
        return akv_fail(err, AKV_E_IO, "pre-tokenizer %s: pattern %u failed at byte %zu (PCRE2 error %d)", run->pre->row->name,
                        level, from, n);
    const PCRE2_SIZE *v = pcre2_get_ovector_pointer(md);
    *start = v[0];
    *end = v[1];
    return 1;
}

static bool is_lower(unsigned c)
{
    return c - 'a' < 26;
}

static bool is_letter(unsigned c)
{
    return (c | 0x20) - 'a' < 26;
}

/* End of the piece at `at` that a row with AKV_TOKPRE_WORDS or _CASED takes without its pattern, or `at` when that must decide. */
static size_t plain_word(const char *s, size_t len, size_t at, bool cased)
{
    size_t i = at;
    if (s[i] == ' ' && ++i == len)
        return at;
    if (!is_letter((uint8_t)s[i]))
        return at;
    i++;
    if (cased) {
        if (i == len || !is_lower((uint8_t)s[i]))
            return at;
        while (i < len && is_lower((uint8_t)s[i]))
            i++;
    } else {
        while (i < len && is_letter((uint8_t)s[i]))
            i++;
    }
    if (i < len && ((uint8_t)s[i] >= 0x80 || is_letter((uint8_t)s[i]) || (cased && s[i] == '\'')))
        return at;
    return i;
}

static int split(struct akv_tokpre_run *run, unsigned level, const char *s, size_t len, struct akv_err *err)
{
    if (len == 0)
        return 0;
    if (level == run->pre->n)
        return run->piece(run->ctx, s, len);
    unsigned flags = level + 1 == run->pre->n && !run->no_shortcut ? run->pre->row->flags : 0;
    bool words = flags & (AKV_TOKPRE_WORDS | AKV_TOKPRE_CASED), cased = flags & AKV_TOKPRE_CASED;
    size_t done = 0; /* everything before it has been handed on */
    int rc = 0;
    while (rc == 0 && done < len) {
        size_t start = done, end = words ? plain_word(s, len, done, cased) : done;
        if (end == done) {
            rc = next_match(run, level, s, len, done, &start, &end, err);
            if (rc <= 0)
                break;
        }
        rc = split(run, level + 1, s + done, start - done, err);
        if (rc == 0)
            rc = split(run, level + 1, s + start, end - start, err);
        done = end;
    }
    return rc < 0 ? rc : split(run, level + 1, s + done, len - done, err);
}

int akv_tokpre_split(struct akv_tokpre_run *run, const char *s, size_t len, struct akv_err *err)
{
    return split(run, 0, s, len, err);
}
