#include "model/tok_merge.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"

#define KEY_MERGES "tokenizer.ggml.merges"
#define NONE AKV_TOKVOCAB_NONE

static uint32_t home_of(const struct akv_tokmerges *m, uint32_t left, uint32_t right)
{
    uint64_t h = ((uint64_t)left << 32 | right) * 0x9e3779b97f4a7c15u;
    h ^= h >> 32;
    h *= 0xd1342543de82ef95u;
    return akv_tok_slot(h >> 32, m->n_slots);
}

struct akv_tokpair *akv_tokmerges_probe(const struct akv_tokmerges *m, uint32_t left, uint32_t right)
{
    uint32_t i = home_of(m, left, right);
    for (unsigned n = 0; n < AKV_TOK_PROBES; n++) {
        struct akv_tokpair *pair = &m->slots[i];
        if (pair->left == NONE || (pair->left == left && pair->right == right))
            return pair;
        if (++i == m->n_slots)
            i = 0;
    }
    return NULL;
}

/* What went wrong with entries of the merges array, and where first. */
enum oddity { NO_SPACE, EMPTY_SIDE, NO_TOKEN, REPEATED, ODDITIES };
struct oddities {
    uint64_t n[ODDITIES], first[ODDITIES];
};

static void note(struct oddities *o, enum oddity what, uint64_t i)
{
    if (o->n[what]++ == 0)
        o->first[what] = i;
}

static void report(const struct oddities *o, struct akv_buf *warn)
{
    static const char *const words[ODDITIES] = {
        "have no space",
        "have an empty side",
        "name or make a text that is no token",
        "repeat an earlier one",
    };
    for (int i = 0; i < ODDITIES; i++) {
        if (o->n[i])
            akv_buf_printf(warn, KEY_MERGES ": %llu entries %s and are ignored (first: number %llu)\n", (unsigned long long)o->n[i],
                           words[i], (unsigned long long)o->first[i]);
    }
}

/* memcmp() == 0 for texts that are mostly short. */
static inline bool same(const char *a, const char *b, size_t len)
{
    if (len >= 8)
        return akv_tok_load(a, 8) == akv_tok_load(b, 8) && akv_tok_load(a + len - 8, 8) == akv_tok_load(b + len - 8, 8) &&
               (len <= 16 || memcmp(a, b, len) == 0);
    if (len >= 4)
        return akv_tok_load(a, 4) == akv_tok_load(b, 4) && akv_tok_load(a + len - 4, 4) == akv_tok_load(b + len - 4, 4);
    return len == 0 || (a[0] == b[0] && a[len / 2] == b[len / 2] && a[len - 1] == b[len - 1]);
}

/* Whether token id is exactly left followed by right. */
static bool is_joined(const struct akv_tokvocab *v, uint32_t id, struct akv_str left, struct akv_str right)
{
    if (id >= v->n || akv_tokvocab_is_plain(v, id))
        return false;
    struct akv_str t = akv_tokvocab_text(v, id);
    return t.len == left.len + right.len && same(t.s, left.s, left.len) && same(t.s + left.len, right.s, right.len);
}

/*
 * The token of left followed by right. Vocabularies list tokens in the order of their merges, so the one after the last
 * result (or, with several ways to make a token, the same again) is nearly always right and spares the hash table.
 */
static uint32_t find_joined(const struct akv_tokvocab *v, uint32_t last, struct akv_str left, struct akv_str right, char *joined)
{
    if (v->n_duplicates == 0) {
        if (is_joined(v, last + 1, left, right))
            return last + 1;
        if (is_joined(v, last, left, right))
            return last;
    }
    if (left.len + right.len > v->max_len)
        return NONE;
    memcpy(joined, left.s, left.len);
    memcpy(joined + left.len, right.s, right.len);
    return akv_tokvocab_find(v, joined, left.len + right.len);
}

/*
 * Merges are taken in batches, each step for the whole batch before the next, so that the processor fetches what the next step
 * needs (slot, text, slot of the pair) while this one is still at work: the tables are much larger than its caches.
 */
#define BATCH 32u

struct merge {
    struct akv_str left, right;
    struct akv_tokname left_name, right_name;
    uint32_t l, r, id;
    uint32_t rank;
};

/* Take up to BATCH entries apart, leaving out those that are none; returns how many are left. */
static unsigned parse_batch(struct merge *batch, const struct akv_tokvocab *v, const struct akv_gguf_kv *kv, uint64_t first,
                            const uint8_t **walk, struct oddities *odd)
{
    unsigned n = 0;
    for (uint64_t i = first; i < kv->n && i < first + BATCH; i++) {
        struct akv_str s = akv_gguf_next_string(kv, walk);
        const char *space = memchr(s.s, ' ', s.len);
        if (!space) {
            note(odd, NO_SPACE, i);
        } else if (space == s.s || space + 1 == s.s + s.len) {
            note(odd, EMPTY_SIDE, i);
        } else {
            struct merge *e = &batch[n++];
            e->left = (struct akv_str){s.s, (size_t)(space - s.s)};
            e->right = (struct akv_str){space + 1, s.len - e->left.len - 1};
            e->rank = (uint32_t)i;
            e->left_name = akv_tokname_of(e->left.s, e->left.len);
            e->right_name = akv_tokname_of(e->right.s, e->right.len);
            akv_tokvocab_fetch(v, &e->left_name);
            akv_tokvocab_fetch(v, &e->right_name);
        }
    }
    return n;
}

static int add_batch(struct akv_tokmerges *m, const struct akv_tokvocab *v, struct merge *batch, unsigned n, uint32_t *last,
                     struct oddities *odd, char *joined)
{
    for (struct merge *e = batch; e < batch + n; e++) {
        e->l = akv_tokvocab_find_name(v, e->left.s, &e->left_name);
        e->r = akv_tokvocab_find_name(v, e->right.s, &e->right_name);
        e->id = e->l == NONE || e->r == NONE ? NONE : find_joined(v, *last, e->left, e->right, joined);
        if (e->id != NONE) {
            *last = e->id;
            __builtin_prefetch(&m->slots[home_of(m, e->l, e->r)], 1);
        }
    }
    for (struct merge *e = batch; e < batch + n; e++) {
        struct akv_tokpair *pair = e->id == NONE ? NULL : akv_tokmerges_probe(m, e->l, e->r);
        if (e->id == NONE)
            note(odd, NO_TOKEN, e->rank);
        else if (!pair)
            return AKV_E_INPUT;
        else if (pair->left == NONE)
            *pair = (struct akv_tokpair){e->l, e->r, e->rank, e->id};
        else
            note(odd, REPEATED, e->rank);
    }
    return 0;
}

static int add_merges(struct akv_tokmerges *m, const struct akv_tokvocab *v, const struct akv_gguf_kv *kv, struct oddities *odd,
                      char *joined)
{
    struct merge batch[BATCH];
    const uint8_t *walk = NULL;
    uint32_t last = 0;
    int rc = 0;
    for (uint64_t i = 0; rc == 0 && i < kv->n; i += BATCH) {
        unsigned n = parse_batch(batch, v, kv, i, &walk, odd);
        rc = add_batch(m, v, batch, n, &last, odd, joined);
    }
    return rc;
}

int akv_tokmerges_check(const struct akv_gguf *g, struct akv_err *err)
{
    const struct akv_gguf_kv *kv = akv_gguf_find(g, KEY_MERGES);
    if (!kv)
        return akv_fail(err, AKV_E_INPUT, "%s: " KEY_MERGES ": the key is missing", g->path);
    if (kv->type != AKV_GGUF_ARRAY || kv->elem_type != AKV_GGUF_STRING)
        return akv_fail(err, AKV_E_INPUT, "%s: " KEY_MERGES " at byte %llu: not an array of strings", g->path,
                        (unsigned long long)kv->offset);
    if (kv->n >= UINT32_MAX / 2)
        return akv_fail(err, AKV_E_INPUT, "%s: " KEY_MERGES " at byte %llu: %llu merges", g->path, (unsigned long long)kv->offset,
                        (unsigned long long)kv->n);
    return 0;
}

int akv_tokmerges_open(struct akv_tokmerges *m, const struct akv_tokvocab *v, const struct akv_gguf *g, struct akv_buf *warn,
                       struct akv_err *err)
{
    *m = (struct akv_tokmerges){0};
    int rc = akv_tokmerges_check(g, err);
    if (rc < 0)
        return rc;
    const struct akv_gguf_kv *kv = akv_gguf_find(g, KEY_MERGES);
    m->n_slots = (uint32_t)(kv->n + kv->n / 2 + 16);
    m->slots = akv_tok_alloc_table(m->n_slots, sizeof *m->slots, err);
    char *joined = akv_alloc(v->max_len, 1, err);
    rc = AKV_E_IO;
    if (!m->slots || !joined)
        goto out;
    for (unsigned b = 0; b < 256; b++) {
        char text[2];
        m->byte_id[b] = akv_tokvocab_find(v, text, akv_tokbyte_put(text, (uint8_t)b));
    }
    struct oddities odd = {0};
    rc = add_merges(m, v, kv, &odd, joined);
    if (rc < 0)
        akv_fail(err, rc, "%s: " KEY_MERGES " at byte %llu: the pairs collide on purpose", g->path, (unsigned long long)kv->offset);
    report(&odd, warn);
out:
    free(joined);
    return rc;
}

void akv_tokmerges_close(struct akv_tokmerges *m)
{
    free(m->slots);
    m->slots = NULL;
}
