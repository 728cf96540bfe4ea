/* The page arena, its index, and sequences over it. */
#include "tests/check.h"

#include "kv/arena.h"

static const struct akv_geom geom = {.n_layers = 2, .n_kv_heads = 3, .dim_k = 4, .dim_v = 6, .dtype = AKV_KV_F16};

static struct akv_arena *open_arena(size_t n_pages)
{
    struct akv_err err = {0};
    struct akv_arena *a = NULL;
    assert_ok(akv_arena_open(&a, &geom, n_pages, &err), &err);
    return a;
}

/* Keys here need only differ: the arena compares them, it does not compute them. */
static struct akv_key key_of(uint32_t n)
{
    struct akv_key k = {{0}};
    memcpy(k.b, &n, sizeof n);
    return k;
}

static struct akv_page *take(struct akv_arena *a)
{
    struct akv_err err = {0};
    struct akv_page *p = akv_arena_take(a, &err);
    if (!p)
        fail_msg("%s", err.msg);
    return p;
}

/* A full page of ids first, first + 1, ... sealed under key_of(key). */
static struct akv_page *sealed_page(struct akv_arena *a, uint32_t key, uint32_t index, uint32_t first, uint32_t n)
{
    struct akv_page *p = take(a);
    p->index = index;
    p->n_tokens = n;
    for (uint32_t i = 0; i < n; i++)
        p->ids[i] = first + i;
    struct akv_key k = key_of(key);
    akv_arena_seal(a, p, &k, NULL);
    return p;
}

static void fill(struct akv_seq *s, uint32_t n)
{
    struct akv_err err = {0};
    assert_ok(akv_seq_reserve(s, n, &err), &err);
    for (uint32_t i = 0; i < n; i++) {
        struct akv_page *p = s->pages[s->n_tokens / 64];
        memset(p->kv + (s->n_tokens % 64) * 2, (int)(s->n_tokens % 251), 2);
        akv_seq_push(s, 1000 + s->n_tokens);
    }
}

/* sizes and offsets follow the layout of the page: per layer, per head, K then V, 64 tokens each */
static void test_geometry(void **unused)
{
    (void)unused;
    struct akv_geom f32 = geom;
    f32.dtype = AKV_KV_F32;
    assert_int_equal(akv_geom_elem(&geom), 2);
    assert_int_equal(akv_geom_elem(&f32), 4);
    assert_int_equal(akv_geom_token_bytes(&geom), 2 * 3 * (4 + 6) * 2);
    assert_int_equal(akv_geom_page_bytes(&f32), 64 * 2 * 3 * (4 + 6) * 4);
    assert_int_equal(akv_geom_k_offset(&geom, 1, 2), (3 + 2) * (4 + 6) * 64 * 2);
    assert_int_equal(akv_geom_v_offset(&geom, 1, 2), (3 + 2) * (4 + 6) * 64 * 2 + 4 * 64 * 2);
    assert_int_equal(akv_geom_v_offset(&geom, 1, 2) + 6 * 64 * 2, akv_geom_page_bytes(&geom));
}

/* a body of n rows re-strides into a page element by element and comes back the same, for every n and both dtypes */
static void test_body(void **unused)
{
    (void)unused;
    for (int dtype = AKV_KV_F16; dtype <= AKV_KV_F32; dtype++) {
        struct akv_geom g = geom;
        g.dtype = (enum akv_kv_dtype)dtype;
        size_t elem = akv_geom_elem(&g), page_bytes = akv_geom_page_bytes(&g);
        uint8_t *page = malloc(page_bytes), *body = malloc(page_bytes), *back = malloc(page_bytes);
        for (uint32_t n = 0; n <= 64; n++) {
            size_t bytes = n * akv_geom_token_bytes(&g);
            for (size_t i = 0; i < bytes; i++)
                body[i] = (uint8_t)(i * 31 + i / 256);
            memset(page, 0xee, page_bytes);
            memset(back, 0x55, page_bytes);
            akv_body_to_page(&g, page, body, n);
            akv_page_to_body(&g, back, page, n);
            assert_memory_equal(body, back, bytes);
            for (size_t i = bytes; i < page_bytes; i++)
                assert_int_equal(back[i], 0x55);
            if (!n)
                continue;
            /* the last token's K[3] and V[5] of layer 1, head 2, found in both by the documented formula */
            size_t head = (3 + 2) * n * (4 + 6) * elem;
            assert_memory_equal(body + head + (3 * n + n - 1) * elem, page + akv_geom_k_offset(&g, 1, 2) + (3 * 64 + n - 1) * elem,
                                elem);
            assert_memory_equal(body + head + (4 * n + (n - 1) * 6 + 5) * elem,
                                page + akv_geom_v_offset(&g, 1, 2) + ((n - 1) * 6 + 5) * elem, elem);
        }
        free(page);
        free(body);
        free(back);
    }
}

/* geometries and sizes out of range are refused; a huge reservation costs no memory until it is used */
static void test_open_bounds(void **unused)
{
    (void)unused;
    struct akv_arena *a = NULL;
    struct akv_geom bad[] = {geom, geom, geom, geom};
    bad[0].n_layers = 0;
    bad[1].n_kv_heads = 1025;
    bad[2].dim_k = 4097;
    bad[3].dim_v = 0;
    for (size_t i = 0; i < 4; i++) {
        struct akv_err err = {0};
        assert_int_equal(akv_arena_open(&a, &bad[i], 1, &err), AKV_E_INPUT);
        assert_true(err.msg[0]);
    }
    assert_int_equal(akv_arena_open(&a, &geom, 0, NULL), AKV_E_USAGE);
    assert_int_equal(akv_arena_open(&a, &geom, SIZE_MAX / 1000, NULL), AKV_E_USAGE);
    struct akv_geom large = {.n_layers = 30, .n_kv_heads = 3, .dim_k = 64, .dim_v = 64, .dtype = AKV_KV_F16};
    struct akv_err err = {0};
    assert_ok(akv_arena_open(&a, &large, 100000, &err), &err); /* 147 GB of addresses */
    akv_arena_close(a);
    akv_arena_close(NULL);
}

/* every page is 64-byte aligned and its own; the arena refuses, with the numbers, when all are owned */
static void test_take_all(void **unused)
{
    (void)unused;
    struct akv_arena *a = open_arena(3);
    struct akv_page *p[3];
    for (int i = 0; i < 3; i++) {
        p[i] = take(a);
        assert_int_equal((uintptr_t)p[i]->kv % 64, 0);
        memset(p[i]->kv, i, akv_geom_page_bytes(&geom));
        assert_int_equal(akv_arena_free_pages(a), 2 - i);
    }
    for (int i = 0; i < 3; i++)
        assert_int_equal(p[i]->kv[akv_geom_page_bytes(&geom) - 1], i);
    struct akv_err err = {0};
    assert_null(akv_arena_take(a, &err));
    assert_int_equal(err.code, AKV_E_IO);
    assert_non_null(strstr(err.msg, "3 pages"));
    akv_arena_release(a, p[1]);
    assert_ptr_equal(take(a), p[1]);
    akv_arena_close(a);
}

/* a sealed page is found by key and exactly its ids, owned or not; a second one of the same key adds nothing */
static void test_index(void **unused)
{
    (void)unused;
    struct akv_arena *a = open_arena(4);
    struct akv_page *p = sealed_page(a, 7, 0, 100, 64), *same = sealed_page(a, 7, 0, 100, 64);
    struct akv_key k7 = key_of(7), k8 = key_of(8);
    uint32_t ids[64];
    memcpy(ids, p->ids, sizeof ids);
    assert_ptr_equal(akv_arena_find(a, &k7, ids, 64), p);
    assert_null(akv_arena_find(a, &k8, ids, 64));
    assert_null(akv_arena_find(a, &k7, ids, 63));
    ids[63]++;
    assert_null(akv_arena_find(a, &k7, ids, 64)); /* identity is not trusted to the key alone */
    ids[63]--;
    akv_arena_release(a, same);
    akv_arena_release(a, p);
    assert_int_equal(akv_arena_free_pages(a), 4);
    assert_ptr_equal(akv_arena_find(a, &k7, ids, 64), p);
    akv_arena_share(p);
    assert_int_equal(akv_arena_free_pages(a), 3);
    akv_arena_release(a, p);
    /* the duplicate's slot and the two unused ones go before the findable page */
    for (int i = 0; i < 3; i++)
        assert_ptr_not_equal(take(a), p);
    assert_ptr_equal(akv_arena_find(a, &k7, ids, 64), p);
    assert_ptr_equal(take(a), p);
    assert_null(akv_arena_find(a, &k7, ids, 64));
    akv_arena_close(a);
}

/* the page that was used longest ago goes first, and a find counts as use */
static void test_lru(void **unused)
{
    (void)unused;
    struct akv_arena *a = open_arena(3);
    struct akv_page *p[3];
    uint32_t ids[3][64];
    for (uint32_t i = 0; i < 3; i++) {
        p[i] = sealed_page(a, i, 0, 100 * i, 64);
        memcpy(ids[i], p[i]->ids, sizeof ids[i]);
    }
    for (int i = 0; i < 3; i++)
        akv_arena_release(a, p[i]);
    struct akv_key k0 = key_of(0), k1 = key_of(1), k2 = key_of(2);
    assert_ptr_equal(akv_arena_find(a, &k0, ids[0], 64), p[0]);
    assert_ptr_equal(take(a), p[1]);
    assert_null(akv_arena_find(a, &k1, ids[1], 64));
    assert_ptr_equal(take(a), p[2]);
    assert_null(akv_arena_find(a, &k2, ids[2], 64));
    assert_ptr_equal(akv_arena_find(a, &k0, ids[0], 64), p[0]);
    akv_arena_close(a);
}

/* a closed sequence is forgotten from its end, so that what stays findable is a prefix */
static void test_leaf_first(void **unused)
{
    (void)unused;
    struct akv_arena *a = open_arena(3);
    struct akv_seq s;
    struct akv_err err = {0};
    assert_ok(akv_seq_open(&s, a, 192, &err), &err);
    uint32_t ids[3][64];
    for (uint32_t i = 0; i < 3; i++) {
        struct akv_page *p = sealed_page(a, i, i, 64 * i, 64);
        memcpy(ids[i], p->ids, sizeof ids[i]);
        assert_ok(akv_seq_attach(&s, p, &err), &err);
        akv_arena_release(a, p);
    }
    akv_seq_close(&s);
    take(a);
    for (uint32_t i = 0; i < 3; i++) {
        struct akv_key k = key_of(i);
        assert_int_equal(akv_arena_find(a, &k, ids[i], 64) != NULL, i < 2);
    }
    akv_arena_close(a);
}

/* pushes land in consecutive pages with their ids; the capacity and the arena are refused with nothing taken */
static void test_seq_grow(void **unused)
{
    (void)unused;
    struct akv_arena *a = open_arena(4);
    struct akv_seq s;
    struct akv_err err = {0};
    assert_ok(akv_seq_open(&s, a, 400, &err), &err);
    fill(&s, 1);
    fill(&s, 129);
    assert_int_equal(s.n_tokens, 130);
    assert_int_equal(s.n_pages, 3);
    for (uint32_t i = 0; i < 130; i++) {
        assert_int_equal(s.ids[i], 1000 + i);
        assert_int_equal(s.pages[i / 64]->ids[i % 64], 1000 + i);
        assert_ptr_equal(s.kv[i / 64], s.pages[i / 64]->kv);
    }
    assert_int_equal(s.pages[1]->n_tokens, 64);
    assert_int_equal(s.pages[2]->n_tokens, 2);
    assert_int_equal(s.pages[2]->index, 2);
    assert_int_equal(akv_seq_reserve(&s, 271, &err), AKV_E_INPUT);
    err = (struct akv_err){0};
    assert_int_equal(akv_seq_reserve(&s, 200, &err), AKV_E_IO); /* 6 pages of 4 */
    assert_int_equal(akv_arena_free_pages(a), 1);
    akv_seq_close(&s);
    assert_int_equal(akv_arena_free_pages(a), 4);
    akv_arena_close(a);
}

/* a sealed tail is copied before it grows, its own bytes and ids stay */
static void test_copy_tail(void **unused)
{
    (void)unused;
    struct akv_arena *a = open_arena(4);
    struct akv_seq s, t;
    struct akv_err err = {0};
    assert_ok(akv_seq_open(&s, a, 128, &err), &err);
    assert_ok(akv_seq_open(&t, a, 128, &err), &err);
    fill(&s, 10);
    struct akv_page *tail = s.pages[0];
    struct akv_key k = key_of(1);
    akv_arena_seal(a, tail, &k, NULL);
    assert_ok(akv_seq_attach(&t, tail, &err), &err);
    assert_int_equal(t.n_tokens, 10);
    uint8_t before[20];
    memcpy(before, tail->kv, sizeof before);
    fill(&t, 5);
    fill(&s, 3);
    assert_ptr_not_equal(t.pages[0], tail);
    assert_ptr_not_equal(s.pages[0], tail);
    assert_ptr_not_equal(s.pages[0], t.pages[0]);
    assert_memory_equal(t.pages[0]->kv, before, sizeof before);
    assert_int_equal(t.pages[0]->n_tokens, 15);
    assert_int_equal(s.pages[0]->n_tokens, 13);
    assert_int_equal(t.pages[0]->ids[9], 1009);
    assert_false(t.pages[0]->sealed);
    assert_int_equal(tail->n_tokens, 10);
    assert_int_equal(tail->n_owners, 0);
    assert_memory_equal(tail->kv, before, sizeof before);
    assert_ptr_equal(akv_arena_find(a, &k, tail->ids, 10), tail);
    akv_seq_close(&s);
    akv_seq_close(&t);
    akv_arena_close(a);
}

/* truncation drops whole pages, reopens the cut page, and copies it only if it is sealed */
static void test_truncate(void **unused)
{
    (void)unused;
    struct akv_arena *a = open_arena(6);
    struct akv_seq s;
    struct akv_err err = {0};
    assert_ok(akv_seq_open(&s, a, 384, &err), &err);
    fill(&s, 200);
    struct akv_page *p1 = s.pages[1];
    akv_seq_truncate(&s, 100);
    assert_int_equal(s.n_pages, 2);
    assert_int_equal(p1->n_tokens, 36);
    fill(&s, 28);
    assert_ptr_equal(s.pages[1], p1);
    struct akv_key k = key_of(1);
    akv_arena_seal(a, p1, &k, NULL);
    akv_seq_truncate(&s, 70);
    assert_int_equal(p1->n_tokens, 64); /* it is others' too now */
    fill(&s, 1);
    assert_ptr_not_equal(s.pages[1], p1);
    assert_int_equal(s.pages[1]->n_tokens, 7);
    akv_seq_truncate(&s, 64);
    assert_int_equal(s.n_pages, 1);
    akv_seq_truncate(&s, 0);
    assert_int_equal(s.n_pages, 0);
    assert_int_equal(akv_arena_free_pages(a), 6);
    akv_seq_close(&s);
    akv_arena_close(a);
}

/* a page attaches only where its index continues the sequence, within the capacity; reserved pages give way */
static void test_attach(void **unused)
{
    (void)unused;
    struct akv_arena *a = open_arena(6);
    struct akv_seq s;
    struct akv_err err = {0};
    assert_ok(akv_seq_open(&s, a, 100, &err), &err);
    struct akv_page *p0 = sealed_page(a, 0, 0, 0, 64), *p1 = sealed_page(a, 1, 1, 64, 64), *tail = sealed_page(a, 2, 1, 64, 20);
    assert_ok(akv_seq_reserve(&s, 100, &err), &err);
    assert_int_equal(akv_seq_attach(&s, p1, NULL), AKV_E_INPUT);
    assert_ok(akv_seq_attach(&s, p0, &err), &err);
    assert_int_equal(s.n_pages, 1);
    assert_int_equal(akv_arena_free_pages(a), 3);
    assert_int_equal(akv_seq_attach(&s, p0, NULL), AKV_E_INPUT);
    assert_int_equal(akv_seq_attach(&s, p1, NULL), AKV_E_INPUT); /* 128 tokens, room for 100 */
    assert_ok(akv_seq_attach(&s, tail, &err), &err);
    assert_int_equal(s.n_tokens, 84);
    assert_int_equal(s.ids[83], 83);
    assert_int_equal(akv_seq_attach(&s, p1, NULL), AKV_E_INPUT);
    akv_seq_close(&s);
    akv_arena_close(a);
}

/* a random walk of all operations keeps the count of free pages equal to what the owners say */
static void test_random_walk(void **unused)
{
    (void)unused;
    enum { PAGES = 12, SEQS = 3 };
    struct akv_arena *a = open_arena(PAGES);
    struct akv_seq s[SEQS];
    uint32_t rnd = 1, next_key = 1;
    for (int i = 0; i < SEQS; i++)
        assert_int_equal(akv_seq_open(&s[i], a, 320, NULL), 0);
    for (int step = 0; step < 20000; step++) {
        rnd = rnd * 1664525u + 1013904223u;
        struct akv_seq *t = &s[(rnd >> 8) % SEQS];
        uint32_t what = (rnd >> 16) % 4, n = (rnd >> 20) % 90;
        if (what == 0 && akv_seq_reserve(t, n, NULL) == 0) {
            fill(t, n);
        } else if (what == 1) {
            akv_seq_truncate(t, t->n_tokens - (n < t->n_tokens ? n : t->n_tokens));
        } else if (what == 2 && t->n_tokens && !t->pages[(t->n_tokens - 1) / 64]->sealed) {
            struct akv_key k = key_of(next_key++);
            akv_arena_seal(a, t->pages[(t->n_tokens - 1) / 64], &k, NULL);
        } else if (what == 3 && t->n_tokens >= 64) { /* another sequence starts with this one's first page */
            struct akv_seq *u = &s[((rnd >> 8) + 1) % SEQS];
            if (u->n_tokens == 0 && t->pages[0]->sealed && t->pages[0]->n_tokens == 64)
                assert_int_equal(akv_seq_attach(u, t->pages[0], NULL), 0);
        }
        struct akv_page *owned[PAGES];
        size_t n_owned = 0;
        for (int i = 0; i < SEQS; i++) {
            for (uint32_t j = 0; j < s[i].n_pages; j++) {
                size_t at = 0;
                while (at < n_owned && owned[at] != s[i].pages[j])
                    at++;
                if (at == n_owned)
                    owned[n_owned++] = s[i].pages[j];
            }
        }
        assert_int_equal(akv_arena_free_pages(a), PAGES - n_owned);
    }
    for (int i = 0; i < SEQS; i++)
        akv_seq_close(&s[i]);
    assert_int_equal(akv_arena_free_pages(a), PAGES);
    akv_arena_close(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_geometry),   cmocka_unit_test(test_body),     cmocka_unit_test(test_open_bounds),
        cmocka_unit_test(test_take_all),   cmocka_unit_test(test_index),    cmocka_unit_test(test_lru),
        cmocka_unit_test(test_leaf_first), cmocka_unit_test(test_seq_grow), cmocka_unit_test(test_copy_tail),
        cmocka_unit_test(test_truncate),   cmocka_unit_test(test_attach),   cmocka_unit_test(test_random_walk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
