/*
 * The same things in another order: the JSON objects around the difference are parsed on both sides and compared without regard to the
 * order of their members; other text, word by word.
 */
#include <stdlib.h>
#include <string.h>

#include "chat/explain.h"

#define ITEMS_MAX 1024
#define GAP 64                     /* bytes between neighbours of one list */
#define SCAN_MAX ((size_t)4 << 20) /* bytes looked at in vain, in all */
#define LEVELS 32

struct item {
    size_t from, to;
    char *canon; /* keys sorted, no white space */
};

struct items {
    struct item v[ITEMS_MAX];
    size_t n;
};

/* The end of the braces that open at `from`, or 0; *at is how far was looked. Strings of JSON hold no line ends. */
static size_t match_braces(const char *s, size_t from, size_t to, size_t *at)
{
    size_t depth = 0, i;
    bool in_string = false;
    for (i = from; i < to; *at = ++i) {
        char c = s[i];
        if (in_string && c == '\\')
            i++;
        else if (c == '"')
            in_string = !in_string;
        else if (in_string && (unsigned char)c < 0x20)
            break;
        else if (!in_string && c == '{')
            depth++;
        else if (!in_string && c == '}' && !--depth)
            return i + 1;
    }
    return 0;
}

/* Replace strings that are JSON objects or arrays (arguments of calls) by what they say. */
static json_t *unfold(json_t *v, unsigned level)
{
    const char *key;
    json_t *member, *inner;
    size_t i;
    if (level > LEVELS)
        return v;
    if (json_is_string(v) && json_string_length(v) > 1 && strchr("{[", *json_string_value(v)) &&
        akv_json_parse(&inner, json_string_value(v), json_string_length(v), "string", NULL) == 0) {
        json_decref(v);
        return unfold(inner, level + 1);
    }
    if (json_is_object(v))
        json_object_foreach (v, key, member)
            json_object_set_new(v, key, unfold(json_incref(member), level + 1));
    if (json_is_array(v))
        json_array_foreach (v, i, member)
            json_array_set_new(v, i, unfold(json_incref(member), level + 1));
    return v;
}

static char *canonical(const char *s, size_t len)
{
    json_t *v;
    if (akv_json_parse(&v, s, len, "object", NULL) < 0)
        return NULL;
    v = unfold(v, 0);
    char *text = json_dumps(v, JSON_SORT_KEYS | JSON_COMPACT | JSON_ENCODE_ANY);
    json_decref(v);
    return text;
}

static void release_items(struct items *l)
{
    for (size_t i = 0; l && i < l->n; i++)
        free(l->v[i].canon);
    free(l);
}

/* The end of a JSON string whose quote stands at `from`, or 0. */
static size_t match_string(const char *s, size_t from, size_t to, size_t *at)
{
    for (size_t i = from + 1; i < to && (unsigned char)s[i] >= 0x20; *at = ++i) {
        if (s[i] == '\\')
            i++;
        else if (s[i] == '"')
            return i + 1;
    }
    return 0;
}

/* The object that opens here, or the string that holds one: arguments of a call are written so, too. */
static bool read_item(struct item *item, const struct akv_side *s, size_t brace, size_t *in_vain)
{
    bool in_string = brace > s->lo + 1 && s->s[brace - 1] == '"' && brace + 1 < s->hi && s->s[brace + 1] == '\\';
    item->from = brace - in_string;
    size_t at = brace;
    item->to = in_string ? match_string(s->s, item->from, s->hi, &at) : match_braces(s->s, brace, s->hi, &at);
    item->canon = item->to ? canonical(s->s + item->from, item->to - item->from) : NULL;
    *in_vain += item->canon ? 0 : at - brace + 64;
    return item->canon;
}

/*
 * JSON objects of the span that stand in one list, with no more than GAP bytes between them: the list that the difference lies in, or the
 * last one before it.
 */
static struct items *find_items(const struct akv_side *s, size_t at)
{
    struct items *l = calloc(1, sizeof *l);
    size_t in_vain = 0;
    for (size_t i = s->lo; l && i < s->hi && l->n < ITEMS_MAX && in_vain < SCAN_MAX;) {
        const char *open = memchr(s->s + i, '{', s->hi - i);
        if (!open)
            break;
        size_t brace = (size_t)(open - s->s);
        bool ends = l->n && brace > l->v[l->n - 1].to + GAP;
        if (ends && l->v[l->n - 1].to > at)
            break;
        struct item item;
        if (!read_item(&item, s, brace, &in_vain)) {
            i = brace + 1;
            continue;
        }
        for (; ends && l->n; l->n--) /* another list begins */
            free(l->v[l->n - 1].canon);
        l->v[l->n++] = item;
        i = item.to;
    }
    return l;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(((const struct item *)a)->canon, ((const struct item *)b)->canon);
}

static bool same_without_blanks(const char *a, size_t a_len, const char *b, size_t b_len)
{
    size_t i = 0, j = 0;
    for (;; i++, j++) {
        while (i < a_len && strchr(" \t\r\n", a[i]) && a[i])
            i++;
        while (j < b_len && strchr(" \t\r\n", b[j]) && b[j])
            j++;
        if (i == a_len || j == b_len)
            return i == a_len && j == b_len;
        if (a[i] != b[j])
            return false;
    }
}

/* The objects that hold the difference are the same but for how they are written. */
static const char *one_object(const struct akv_sides *s, const struct items *a, const struct items *b)
{
    for (size_t i = 0; i < a->n && i < b->n && a->v[i].from == b->v[i].from; i++) {
        const struct item *x = &a->v[i], *y = &b->v[i];
        if (x->from > s->at || (x->to <= s->at && y->to <= s->at) || strcmp(x->canon, y->canon))
            continue;
        return same_without_blanks(s->a.s + x->from, x->to - x->from, s->b.s + y->from, y->to - y->from) ? "whitespace"
                                                                                                         : "reordered keys";
    }
    return NULL;
}

static bool same_set(struct items *a, struct items *b)
{
    if (a->n != b->n || a->n < 2)
        return false;
    qsort(a->v, a->n, sizeof *a->v, by_text);
    qsort(b->v, b->n, sizeof *b->v, by_text);
    for (size_t i = 0; i < a->n; i++)
        if (strcmp(a->v[i].canon, b->v[i].canon))
            return false;
    return true;
}

/* ---- words ---- */

struct word {
    const char *s;
    size_t len;
};

static int by_word(const void *a, const void *b)
{
    const struct word *x = a, *y = b;
    size_t n = x->len < y->len ? x->len : y->len;
    int c = memcmp(x->s, y->s, n);
    return c ? c : (x->len > y->len) - (x->len < y->len);
}

static bool in_word(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (unsigned char)c >= 0x80;
}

/* The next word of the span from *i on; false at its end. */
static bool next_word(const struct akv_side *s, size_t *i, struct word *w)
{
    while (*i < s->hi && !in_word(s->s[*i]))
        ++*i;
    size_t from = *i;
    while (*i < s->hi && in_word(s->s[*i]))
        ++*i;
    *w = (struct word){s->s + from, *i - from};
    return w->len;
}

static struct word *sorted_words(const struct akv_side *s, size_t *n)
{
    struct word w, *v;
    size_t count = 0;
    for (size_t i = s->lo; next_word(s, &i, &w);)
        count++;
    v = calloc(count + 1, sizeof *v);
    *n = v ? count : 0;
    for (size_t i = s->lo, k = 0; k < *n && next_word(s, &i, &v[k]);)
        k++;
    if (v)
        qsort(v, *n, sizeof *v, by_word);
    return v;
}

/* Whether only what stands between the words differs. */
static bool same_sequence(const struct akv_sides *s)
{
    struct word a, b;
    for (size_t i = s->a.lo, j = s->b.lo;;) {
        bool more_a = next_word(&s->a, &i, &a), more_b = next_word(&s->b, &j, &b);
        if (!more_a || !more_b)
            return more_a == more_b;
        if (by_word(&a, &b))
            return false;
    }
}

static bool same_words(const struct akv_sides *s)
{
    size_t n = 0, m = 0;
    if (same_sequence(s))
        return false;
    struct word *a = sorted_words(&s->a, &n), *b = sorted_words(&s->b, &m);
    bool same = n == m && n > 1;
    for (size_t i = 0; same && i < n; i++)
        same = by_word(&a[i], &b[i]) == 0;
    free(a);
    free(b);
    return same;
}

/* The name of the next tool as templates write it, from *i on. */
static bool next_name(const struct akv_side *s, size_t *i, struct word *w)
{
    static const char *const before[] = {"\"name\": \"", "'name': '", "<function>\n<name>", "declaration:", "def ", "type "};
    for (; *i < s->hi; ++*i)
        for (size_t k = 0; k < sizeof before / sizeof *before; k++) {
            size_t len = strlen(before[k]);
            if (s->hi - *i <= len || memcmp(s->s + *i, before[k], len) || !in_word(s->s[*i + len]))
                continue;
            *i += len;
            return next_word(s, i, w);
        }
    return false;
}

/* "reordered keys" when the tools are named in the same order, NULL when none is named. */
static const char *tools_or_keys(const struct akv_sides *s)
{
    struct word a, b;
    const char *kind = NULL;
    for (size_t i = s->a.lo, j = s->b.lo;;) {
        bool more_a = next_name(&s->a, &i, &a), more_b = next_name(&s->b, &j, &b);
        if (!more_a && !more_b)
            return kind;
        if (more_a != more_b || by_word(&a, &b))
            return "reordered tools";
        kind = "reordered keys";
    }
}

static bool has_role(const struct akv_sides *s, const char *role)
{
    return !strcmp(s->a.role, role) || !strcmp(s->b.role, role);
}

/* Whether an object holds the difference. */
static bool holds(const struct items *l, size_t at)
{
    for (size_t i = 0; i < l->n; i++)
        if (l->v[i].from <= at && at < l->v[i].to)
            return true;
    return false;
}

const char *akv_explain_order(const struct akv_sides *s)
{
    struct items *a = find_items(&s->a, s->at), *b = find_items(&s->b, s->at);
    bool in_objects = a && b && holds(a, s->at) && holds(b, s->at); /* they were compared as such */
    const char *kind = a && b ? one_object(s, a, b) : NULL;
    if (!kind && a && b && same_set(a, b))
        kind = has_role(s, "assistant") ? "reordered calls" : "reordered tools";
    if (!kind && !in_objects && !has_role(s, "user") && same_words(s))
        kind = has_role(s, "assistant") ? "reordered keys" : tools_or_keys(s);
    release_items(a);
    release_items(b);
    return kind;
}
