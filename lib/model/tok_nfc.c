#include "model/tok_nfc.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#define MAX_DECOMPOSED 4     /* code points that one becomes at most */
#define FIRST_TO_MATTER 0xcc /* lead byte of U+0300: below, nothing combines with what is before it */

bool akv_toknfc_needed(const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if ((uint8_t)s[i] >= FIRST_TO_MATTER)
            return true;
    }
    return false;
}

static uint32_t class_of(int32_t cp)
{
    return (uint32_t)utf8proc_get_property(cp)->combining_class;
}

/* Take s[from, to) apart into b->chars; returns how many code points. */
static size_t decompose(struct akv_toknfc *b, const char *s, size_t from, size_t to)
{
    size_t n = 0;
    for (size_t i = from; i < to;) {
        utf8proc_int32_t cp, part[MAX_DECOMPOSED];
        utf8proc_ssize_t used = utf8proc_iterate((const utf8proc_uint8_t *)s + i, (utf8proc_ssize_t)(to - i), &cp);
        utf8proc_ssize_t n_parts = utf8proc_decompose_char(cp, part, MAX_DECOMPOSED, UTF8PROC_STABLE | UTF8PROC_DECOMPOSE, NULL);
        for (utf8proc_ssize_t k = 0; k < n_parts; k++)
            b->chars[n++] = (struct akv_toknfc_char){part[k], (uint32_t)i, class_of(part[k])};
        i += (size_t)used;
    }
    return n;
}

/* Put a run of combining marks in the order of their classes, equal ones as they were: by counting, since a run may be long. */
static void order_marks(struct akv_toknfc_char *run, size_t n, struct akv_toknfc_char *sorted)
{
    size_t at[257] = {0};
    for (size_t i = 0; i < n; i++)
        at[run[i].ccc + 1]++;
    for (size_t c = 0; c < 256; c++)
        at[c + 1] += at[c];
    for (size_t i = 0; i < n; i++)
        sorted[at[run[i].ccc]++] = run[i];
    memcpy(run, sorted, n * sizeof *run);
}

static void order(struct akv_toknfc *b, size_t n)
{
    for (size_t i = 0; i < n;) {
        size_t end = i + 1;
        bool ordered = true;
        if (b->chars[i].ccc) {
            for (; end < n && b->chars[end].ccc; end++)
                ordered = ordered && b->chars[end - 1].ccc <= b->chars[end].ccc;
            if (!ordered)
                order_marks(b->chars + i, end - i, b->sorted);
        }
        i = end;
    }
}

/* What starter and mark become together, or -1. */
static int32_t composed(int32_t starter, int32_t next)
{
    utf8proc_int32_t pair[2] = {starter, next};
    return utf8proc_normalize_utf32(pair, 2, UTF8PROC_STABLE | UTF8PROC_COMPOSE) == 1 ? pair[0] : -1;
}

/* Starters that never are the second of a composition: most text outside the Brahmic scripts and Hangul jamo. */
static bool never_second(const struct akv_toknfc_char *c)
{
    return c->ccc == 0 && (c->cp < 0x9be || (c->cp >= 0x1e00 && c->cp <= 0xffff));
}

static size_t compose(struct akv_toknfc *b, size_t n)
{
    struct akv_toknfc_char *c = b->chars;
    size_t kept = 0, starter = SIZE_MAX;
    for (size_t i = 0; i < n; i++) {
        bool adjacent = starter != SIZE_MAX && kept == starter + 1;
        /* blocked: something between has no lower class */
        bool open = starter != SIZE_MAX && (adjacent || (c[kept - 1].ccc < c[i].ccc && c[kept - 1].ccc != 0));
        int32_t one = open && !never_second(&c[i]) ? composed(c[starter].cp, c[i].cp) : -1;
        if (one >= 0) {
            c[starter].cp = one;
            continue;
        }
        if (c[i].ccc == 0)
            starter = kept;
        c[kept++] = c[i];
    }
    return kept;
}

/* Append n bytes that come from s + from (same: one by one; else all from there). */
static void append(struct akv_toknfc *b, const char *bytes, size_t n, size_t from, bool same)
{
    uint32_t last = b->len ? b->from[b->len - 1] : 0;
    memcpy(b->text + b->len, bytes, n);
    for (size_t k = 0; k < n; k++) {
        uint32_t at = (uint32_t)(from + (same ? k : 0));
        last = at > last ? at : last;
        b->from[b->len++] = last;
    }
}

static int reserve_text(struct akv_toknfc *b, size_t more, struct akv_err *err)
{
    size_t need = b->len + more;
    if (need <= b->cap)
        return 0;
    size_t cap = need + need / 2;
    char *text = akv_realloc(b->text, cap, 1, err);
    if (!text)
        return AKV_E_IO;
    b->text = text;
    uint32_t *from = akv_realloc(b->from, cap, sizeof *from, err);
    if (!from)
        return AKV_E_IO;
    b->from = from;
    b->cap = cap;
    return 0;
}

static int reserve_chars(struct akv_toknfc *b, size_t len, struct akv_err *err)
{
    size_t n = 2 * len + MAX_DECOMPOSED; /* at worst two bytes become three code points (U+0390) */
    if (n <= b->cap_chars)
        return 0;
    free(b->sorted);
    free(b->chars);
    b->cap_chars = 0;
    b->sorted = akv_alloc(n, sizeof *b->sorted, err);
    b->chars = akv_alloc(n, sizeof *b->chars, err);
    if (!b->chars || !b->sorted)
        return AKV_E_IO;
    b->cap_chars = n;
    return 0;
}

/* Normalise s[from, to), which neither depends on its surroundings nor they on it. */
static int normalise(struct akv_toknfc *b, const char *s, size_t from, size_t to, struct akv_err *err)
{
    int rc = reserve_chars(b, to - from, err);
    if (rc == 0)
        rc = reserve_text(b, 3 * (to - from), err); /* NFC makes UTF-8 at most three times as long */
    if (rc < 0)
        return rc;
    size_t n = decompose(b, s, from, to);
    order(b, n);
    n = compose(b, n);
    for (size_t i = 0; i < n; i++) {
        char out[4];
        size_t bytes = (size_t)utf8proc_encode_char(b->chars[i].cp, (utf8proc_uint8_t *)out), at = b->chars[i].from;
        append(b, out, bytes, at, to - at >= bytes && memcmp(out, s + at, bytes) == 0);
    }
    return 0;
}

static bool decides(char c)
{
    return (uint8_t)c >= FIRST_TO_MATTER;
}

static bool begins_char(char c)
{
    return ((uint8_t)c & 0xc0) != 0x80;
}

int akv_toknfc_apply(struct akv_toknfc *b, const char *s, size_t len, struct akv_err *err)
{
    b->len = 0;
    int rc = reserve_text(b, len, err);
    for (size_t i = 0; rc == 0 && i < len;) {
        size_t end = i;
        while (end < len && !decides(s[end]))
            end++;
        size_t plain = end; /* the last character before one that matters may combine with it */
        while (end < len && plain > i && !begins_char(s[--plain])) {
        }
        rc = reserve_text(b, plain - i, err);
        if (rc == 0)
            append(b, s + i, plain - i, i, true);
        for (i = plain; end < len && (decides(s[end]) || !begins_char(s[end]));)
            end++;
        if (rc == 0 && end > i)
            rc = normalise(b, s, i, end, err);
        i = end;
    }
    return rc;
}

void akv_toknfc_release(struct akv_toknfc *b)
{
    free(b->from);
    free(b->text);
    free(b->sorted);
    free(b->chars);
    *b = (struct akv_toknfc){0};
}
