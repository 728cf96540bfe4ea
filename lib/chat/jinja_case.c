/* Upper, lower and title case as Python maps them: the full Unicode mappings, independent of the locale. */
#include "chat/jinja_str.h"

#include <utf8proc.h>

static bool is_cased(uint32_t c)
{
    utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)c);
    return k == UTF8PROC_CATEGORY_LU || k == UTF8PROC_CATEGORY_LL || k == UTF8PROC_CATEGORY_LT;
}

/* What may stand between the letters of a word without ending it, for the final sigma. */
static bool is_ignorable(uint32_t c)
{
    utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)c);
    return k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_ME || k == UTF8PROC_CATEGORY_CF || k == UTF8PROC_CATEGORY_LM ||
           k == UTF8PROC_CATEGORY_SK || c == '\'' || c == '.' || c == ':' || c == 0xb7 || c == 0x2018 || c == 0x2019 ||
           c == 0x2024 || c == 0x2027;
}

/* The full case folding of c; returns how many characters. */
static int fold(uint32_t c, utf8proc_int32_t out[8])
{
    int boundary = 0;
    utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)c, out, 8, UTF8PROC_CASEFOLD, &boundary);
    return n > 0 && n <= 8 ? (int)n : 0;
}

/*
 * A character whose upper case is several characters (ß, ligatures, some accented letters): that upper case is the upper case of
 * each character of its full folding.
 */
static int expanding(uint32_t c, utf8proc_int32_t out[8])
{
    if (c < 0x80 || utf8proc_category((utf8proc_int32_t)c) == UTF8PROC_CATEGORY_LU)
        return 0;
    int n = fold(c, out);
    return n > 1 ? n : 0;
}

void akv_jput_upper(struct akv_jrun *r, struct akv_jtext *t, uint32_t c)
{
    utf8proc_int32_t many[8];
    int n = expanding(c, many);
    for (int i = 0; i < n; i++)
        akv_jput_char(r, t, (uint32_t)utf8proc_toupper(many[i]));
    if (!n)
        akv_jput_char(r, t, (uint32_t)utf8proc_toupper((utf8proc_int32_t)c));
}

static void put_title(struct akv_jrun *r, struct akv_jtext *t, uint32_t c)
{
    utf8proc_int32_t many[8];
    uint32_t simple = (uint32_t)utf8proc_totitle((utf8proc_int32_t)c);
    int n = c == 0xdf || simple == c ? expanding(c, many) : 0;
    if (n && utf8proc_category((utf8proc_int32_t)c) != UTF8PROC_CATEGORY_LT) {
        akv_jput_char(r, t, (uint32_t)utf8proc_totitle(many[0]));
        for (int i = 1; i < n; i++)
            akv_jput_char(r, t, (uint32_t)many[i]);
    } else {
        akv_jput_char(r, t, simple);
    }
}

/* Whether the capital sigma at `at` ends a word: a letter before it and none after it. */
static bool final_sigma(const struct akv_jstr *s, size_t at)
{
    size_t used, before = at, after = at + 2;
    uint32_t c = 0;
    do {
        if (!before)
            return false;
        before = akv_jchar_before(s->p, before);
        c = akv_jchar(s->p + before, s->len - before, &used);
    } while (is_ignorable(c));
    if (!is_cased(c))
        return false;
    while (after < s->len) {
        c = akv_jchar(s->p + after, s->len - after, &used);
        if (!is_ignorable(c))
            return !is_cased(c);
        after += used;
    }
    return true;
}

static void put_lower(struct akv_jrun *r, struct akv_jtext *t, const struct akv_jstr *s, size_t at, uint32_t c)
{
    if (c == 0x130) { /* the dotted capital I */
        akv_jput_char(r, t, 'i');
        akv_jput_char(r, t, 0x307);
    } else if (c == 0x3a3) {
        akv_jtick(r, 8);
        akv_jput_char(r, t, final_sigma(s, at) ? 0x3c2 : 0x3c3);
    } else {
        akv_jput_char(r, t, (uint32_t)utf8proc_tolower((utf8proc_int32_t)c));
    }
}

static void put_folded(struct akv_jrun *r, struct akv_jtext *t, uint32_t c)
{
    utf8proc_int32_t many[8];
    int n = fold(c, many);
    for (int i = 0; i < n; i++)
        akv_jput_char(r, t, (uint32_t)many[i]);
    if (!n)
        akv_jput_char(r, t, c);
}

struct akv_jval akv_jrecase(struct akv_jrun *r, struct akv_jval v, enum akv_jcase how)
{
    const struct akv_jstr *s = v.u.s;
    struct akv_jtext t = {0};
    bool in_word = false;
    akv_jtick(r, s->len / 8);
    for (size_t at = 0, used; at < s->len; at += used) {
        uint32_t c = akv_jchar(s->p + at, s->len - at, &used);
        bool first = how == AKV_JC_TITLE ? !in_word : at == 0;
        if (how == AKV_JC_FOLD)
            put_folded(r, &t, c);
        else if (how == AKV_JC_UPPER || (how == AKV_JC_SWAP && utf8proc_category((utf8proc_int32_t)c) == UTF8PROC_CATEGORY_LL))
            akv_jput_upper(r, &t, c);
        else if ((how == AKV_JC_TITLE || how == AKV_JC_CAPITALIZE) && first)
            put_title(r, &t, c);
        else if (how == AKV_JC_SWAP && utf8proc_category((utf8proc_int32_t)c) != UTF8PROC_CATEGORY_LU)
            akv_jput_char(r, &t, c);
        else
            put_lower(r, &t, s, at, c);
        in_word = is_cased(c);
    }
    struct akv_jval out = akv_jstr_of(r, &t);
    out.safe = v.safe;
    return out;
}

bool akv_jcased_as(const struct akv_jstr *s, bool upper)
{
    bool any = false;
    for (size_t at = 0, used; at < s->len; at += used) {
        utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)akv_jchar(s->p + at, s->len - at, &used));
        if (k == UTF8PROC_CATEGORY_LT || k == (upper ? UTF8PROC_CATEGORY_LL : UTF8PROC_CATEGORY_LU))
            return false;
        any = any || k == (upper ? UTF8PROC_CATEGORY_LU : UTF8PROC_CATEGORY_LL);
    }
    return any;
}
