/* Splitting strings. */
#include "chat/jinja_str.h"

#include <string.h>

/* Where the next white space (or, with space false, other text) starts at or after at. */
static size_t run_end(const struct akv_jstr *s, size_t at, bool space)
{
    size_t used;
    while (at < s->len && akv_jchar_space(akv_jchar(s->p + at, s->len - at, &used)) == space)
        at += used;
    return at;
}

static size_t run_start(const struct akv_jstr *s, size_t at, bool space)
{
    size_t used;
    while (at) {
        size_t before = akv_jchar_before(s->p, at);
        if (akv_jchar_space(akv_jchar(s->p + before, at - before, &used)) != space)
            break;
        at = before;
    }
    return at;
}

static void split_space(struct akv_jrun *r, struct akv_jval self, struct akv_jlist *l, int64_t max)
{
    const struct akv_jstr *s = self.u.s;
    akv_jtick(r, s->len / 8);
    for (size_t at = run_end(s, 0, true); at < s->len; at = run_end(s, at, true)) {
        size_t end = max-- == 0 ? s->len : run_end(s, at, false);
        akv_jlist_push(r, l, akv_jpart(r, self, at, end));
        at = end;
    }
}

static void rsplit_space(struct akv_jrun *r, struct akv_jval self, struct akv_jlist *l, int64_t max)
{
    const struct akv_jstr *s = self.u.s;
    akv_jtick(r, s->len / 8);
    for (size_t end = run_start(s, s->len, true); end > 0; end = run_start(s, end, true)) {
        size_t at = max-- == 0 ? 0 : run_start(s, end, false);
        akv_jlist_push(r, l, akv_jpart(r, self, at, end));
        end = at;
    }
}

const char *akv_jfind_last(const char *p, size_t n, const struct akv_jstr *what)
{
    for (size_t at = n >= what->len ? n - what->len + 1 : 0; at-- > 0;) {
        if (memcmp(p + at, what->p, what->len) == 0)
            return p + at;
    }
    return NULL;
}

static void split_at(struct akv_jrun *r, struct akv_jval self, struct akv_jlist *l, const struct akv_jstr *sep, int64_t max)
{
    const struct akv_jstr *s = self.u.s;
    size_t at = 0;
    akv_jtick(r, s->len / 8);
    while (max-- != 0) {
        const char *found = memmem(s->p + at, s->len - at, sep->p, sep->len);
        if (!found)
            break;
        akv_jlist_push(r, l, akv_jpart(r, self, at, (size_t)(found - s->p)));
        at = (size_t)(found - s->p) + sep->len;
    }
    akv_jlist_push(r, l, akv_jpart(r, self, at, s->len));
}

static void rsplit_at(struct akv_jrun *r, struct akv_jval self, struct akv_jlist *l, const struct akv_jstr *sep, int64_t max)
{
    const struct akv_jstr *s = self.u.s;
    size_t end = s->len;
    akv_jtick(r, s->len / 8 + s->len / 64 * (sep->len / 64));
    while (max-- != 0) {
        const char *found = akv_jfind_last(s->p, end, sep);
        if (!found)
            break;
        akv_jlist_push(r, l, akv_jpart(r, self, (size_t)(found - s->p) + sep->len, end));
        end = (size_t)(found - s->p);
    }
    akv_jlist_push(r, l, akv_jpart(r, self, 0, end));
}

static void reverse(struct akv_jlist *l)
{
    for (size_t i = 0, j = l->n; i + 1 < j; i++) {
        struct akv_jval swap = l->v[i];
        l->v[i] = l->v[--j];
        l->v[j] = swap;
    }
}

static struct akv_jval split_any(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a, bool right)
{
    struct akv_jval out = akv_jlist_new(r, AKV_JL_LIST);
    const struct akv_jstr *sep = akv_jgiven(a[0]) ? akv_jwant_str(r, a[0], "split") : NULL;
    int64_t max = a[1].kind == AKV_J_MISSING ? -1 : akv_jwant_int(r, a[1], "split");
    max = max < 0 ? -1 : max;
    if (sep && !sep->len)
        akv_jdie(r, "split: empty separator");
    if (sep)
        (right ? rsplit_at : split_at)(r, self, out.u.l, sep, max);
    else
        (right ? rsplit_space : split_space)(r, self, out.u.l, max);
    if (right)
        reverse(out.u.l);
    return out;
}

struct akv_jval akv_jstr_split(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    return split_any(r, self, a, false);
}

struct akv_jval akv_jstr_rsplit(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    return split_any(r, self, a, true);
}

static bool ends_line(uint32_t c)
{
    return (c >= '\n' && c <= '\r') || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

struct akv_jval akv_jsplit_lines(struct akv_jrun *r, struct akv_jval v, bool keep)
{
    const struct akv_jstr *s = v.u.s;
    struct akv_jval out = akv_jlist_new(r, AKV_JL_LIST);
    akv_jtick(r, s->len / 8);
    for (size_t at = 0, from = 0, used; at < s->len; at += used) {
        uint32_t c = akv_jchar(s->p + at, s->len - at, &used);
        if (c == '\r' && at + 1 < s->len && s->p[at + 1] == '\n')
            used = 2;
        bool end = ends_line(c), last = at + used >= s->len;
        if (end || last)
            akv_jlist_push(r, out.u.l, akv_jpart(r, v, from, end && !keep ? at : at + used));
        if (end)
            from = at + used;
    }
    return out;
}

struct akv_jval akv_jstr_splitlines(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    return akv_jsplit_lines(r, self, a[0].kind != AKV_J_MISSING && akv_jtruth(r, a[0]));
}

static struct akv_jval three(struct akv_jrun *r, struct akv_jval self, size_t a, size_t b)
{
    struct akv_jval out = akv_jlist_new(r, AKV_JL_TUPLE);
    akv_jlist_push(r, out.u.l, akv_jpart(r, self, 0, a));
    akv_jlist_push(r, out.u.l, akv_jpart(r, self, a, b));
    akv_jlist_push(r, out.u.l, akv_jpart(r, self, b, self.u.s->len));
    return out;
}

struct akv_jval akv_jstr_partition(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    const struct akv_jstr *s = self.u.s, *sep = akv_jwant_str(r, a[0], "partition");
    if (!sep->len)
        akv_jdie(r, "partition: empty separator");
    akv_jtick_bytes(r, s->len);
    const char *found = memmem(s->p, s->len, sep->p, sep->len);
    size_t at = found ? (size_t)(found - s->p) : s->len;
    return three(r, self, at, found ? at + sep->len : at);
}

struct akv_jval akv_jstr_rpartition(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    const struct akv_jstr *s = self.u.s, *sep = akv_jwant_str(r, a[0], "rpartition");
    if (!sep->len)
        akv_jdie(r, "rpartition: empty separator");
    akv_jtick(r, s->len / 8 + s->len / 64 * (sep->len / 64));
    const char *found = akv_jfind_last(s->p, s->len, sep);
    size_t at = found ? (size_t)(found - s->p) : 0;
    return three(r, self, at, found ? at + sep->len : at);
}
