#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "kv/arena.h"

#define PAGE AKV_PAGE_TOKENS

/* Pages that n tokens need. */
static uint32_t pages_of(uint64_t n)
{
    return (uint32_t)((n + PAGE - 1) / PAGE);
}

int akv_seq_open(struct akv_seq *s, struct akv_arena *a, uint32_t cap, struct akv_err *err)
{
    *s = (struct akv_seq){.arena = a, .cap = cap};
    s->pages = akv_alloc(pages_of(cap), sizeof(struct akv_page *), err);
    s->kv = akv_alloc(pages_of(cap), sizeof(const uint8_t *), err);
    s->ids = akv_alloc(cap, sizeof *s->ids, err);
    if (s->pages && s->kv && s->ids)
        return 0;
    akv_seq_close(s);
    return AKV_E_IO;
}

/* Keep n pages. The last page goes first, so that a chain is forgotten leaf by leaf. */
static void keep_pages(struct akv_seq *s, uint32_t n)
{
    while (s->n_pages > n)
        akv_arena_release(s->arena, s->pages[--s->n_pages]);
}

void akv_seq_close(struct akv_seq *s)
{
    keep_pages(s, 0);
    free(s->pages);
    free(s->kv);
    free(s->ids);
    *s = (struct akv_seq){0};
}

static void put_page(struct akv_seq *s, uint32_t at, struct akv_page *p)
{
    s->pages[at] = p;
    s->kv[at] = p->kv;
}

int akv_seq_attach(struct akv_seq *s, struct akv_page *p, struct akv_err *err)
{
    assert(p->sealed);
    if (s->n_tokens % PAGE || p->index != s->n_tokens / PAGE)
        return akv_fail(err, AKV_E_INPUT, "sequence: page %u cannot follow %u tokens", p->index, s->n_tokens);
    if (p->n_tokens > s->cap - s->n_tokens)
        return akv_fail(err, AKV_E_INPUT, "sequence: %u tokens and %u more: room for %u", s->n_tokens, p->n_tokens, s->cap);
    akv_arena_share(p);
    keep_pages(s, s->n_tokens / PAGE); /* pages reserved but not written */
    put_page(s, s->n_pages++, p);
    memcpy(s->ids + s->n_tokens, p->ids, p->n_tokens * sizeof *s->ids);
    s->n_tokens += p->n_tokens;
    return 0;
}

/* The page that the next token goes to, when it exists and may not be written. */
static struct akv_page *frozen_tail(const struct akv_seq *s)
{
    if (s->n_tokens % PAGE == 0)
        return NULL;
    struct akv_page *p = s->pages[s->n_tokens / PAGE];
    return p->sealed || p->n_owners > 1 ? p : NULL;
}

/* A copy of the leading n tokens of old, to be written on. */
static void copy_tail(struct akv_seq *s, struct akv_page *fresh, const struct akv_page *old, uint32_t n)
{
    memcpy(fresh->kv, old->kv, akv_geom_page_bytes(akv_arena_geom(s->arena)));
    memcpy(fresh->ids, old->ids, n * sizeof *old->ids);
    fresh->index = old->index;
    fresh->n_tokens = n;
}

int akv_seq_reserve(struct akv_seq *s, uint32_t n, struct akv_err *err)
{
    if (n > s->cap - s->n_tokens)
        return akv_fail(err, AKV_E_INPUT, "sequence: %u tokens and %u more: room for %u", s->n_tokens, n, s->cap);
    if (!n)
        return 0;
    struct akv_page *tail = frozen_tail(s);
    uint32_t want = pages_of((uint64_t)s->n_tokens + n);
    size_t need = (tail ? 1 : 0) + (want > s->n_pages ? want - s->n_pages : 0);
    if (need > akv_arena_free_pages(s->arena))
        return akv_fail(err, AKV_E_IO, "sequence: %u tokens and %u more: %zu pages needed, %zu free", s->n_tokens, n, need,
                        akv_arena_free_pages(s->arena));
    if (tail) {
        struct akv_page *fresh = akv_arena_take(s->arena, err);
        if (!fresh)
            return AKV_E_IO;
        copy_tail(s, fresh, tail, s->n_tokens % PAGE);
        put_page(s, tail->index, fresh);
        akv_arena_release(s->arena, tail);
    }
    while (s->n_pages < want) {
        struct akv_page *fresh = akv_arena_take(s->arena, err);
        if (!fresh)
            return AKV_E_IO;
        fresh->index = s->n_pages;
        put_page(s, s->n_pages++, fresh);
    }
    return 0;
}

void akv_seq_push(struct akv_seq *s, uint32_t id)
{
    assert(s->n_tokens < s->cap && s->n_tokens / PAGE < s->n_pages && !frozen_tail(s));
    struct akv_page *p = s->pages[s->n_tokens / PAGE];
    p->ids[s->n_tokens % PAGE] = id;
    p->n_tokens = s->n_tokens % PAGE + 1;
    s->ids[s->n_tokens++] = id;
}

void akv_seq_truncate(struct akv_seq *s, uint32_t n)
{
    assert(n <= s->n_tokens);
    s->n_tokens = n;
    keep_pages(s, pages_of(n));
    if (n % PAGE == 0)
        return;
    struct akv_page *p = s->pages[n / PAGE];
    if (!p->sealed && p->n_owners == 1)
        p->n_tokens = n % PAGE;
}
