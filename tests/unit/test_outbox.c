/* Pages on their way out: what arrives, in which order, and what remains when output or store fail. */
#include "tests/unit/model_rig.h"
#include "tests/unit/snap_rig.h"

#include <unistd.h>

#include "run/outbox.h"

#define N_PAGES 40u /* many times what may be under way */

static struct akv_model *model;
static struct akv_head head;

static int group_setup(void **state)
{
    if (temp_setup(state))
        return -1;
    model = load(make_model("m.gguf", SMALL), 0);
    rig_head(&head, "0123");
    return 0;
}

static int group_teardown(void **state)
{
    akv_model_unload(model);
    akv_head_release(&head);
    return temp_teardown(state);
}

/* A chain of full pages in an arena that has little more than the chain, and a last page of 22 tokens. */
struct rig {
    struct akv_arena *arena;
    struct akv_page *pages[N_PAGES];
    struct akv_parcel parcels[N_PAGES];
    struct akv_outbox *outbox;
};

static void rig_open(struct rig *r)
{
    struct akv_err err = {0};
    assert_ok(akv_arena_open(&r->arena, &head.geom, N_PAGES, &err), &err);
    assert_ok(akv_outbox_open(&r->outbox, model, &head, &err), &err);
    for (uint32_t i = 0; i < N_PAGES; i++) {
        struct akv_page *p = r->pages[i] = akv_arena_take(r->arena, &err);
        struct akv_parcel *parcel = &r->parcels[i];
        p->index = i;
        p->n_tokens = i + 1 < N_PAGES ? AKV_PAGE_TOKENS : 22;
        for (uint32_t k = 0; k < p->n_tokens; k++)
            p->ids[k] = rig_id(3, i * AKV_PAGE_TOKENS + k);
        for (size_t k = 0; k < akv_geom_page_bytes(&head.geom); k++)
            p->kv[k] = k % 2 ? 0x3c : (uint8_t)(i * 31 + k * k);
        *parcel = (struct akv_parcel){.page = p, .n = p->n_tokens, .has_parent = i > 0, .fresh = true, .computed = true};
        if (i)
            parcel->parent = r->parcels[i - 1].key;
        assert_ok(akv_page_key(&parcel->key, i ? &parcel->parent : NULL, p->ids, p->n_tokens, &err), &err);
    }
}

/* Every page must have been let go of: taking all of them again succeeds. */
static void rig_close(struct rig *r)
{
    struct akv_err err = {0};
    akv_outbox_close(r->outbox);
    for (uint32_t i = 0; i < N_PAGES; i++)
        akv_arena_release(r->arena, r->pages[i]);
    assert_int_equal(akv_arena_free_pages(r->arena), N_PAGES);
    for (uint32_t i = 0; i < N_PAGES; i++)
        assert_non_null(akv_arena_take(r->arena, &err));
    akv_arena_close(r->arena);
}

static struct akv_writer *writer_to(int fd)
{
    struct akv_writer *w;
    struct akv_err err = {0};
    assert_ok(akv_writer_open(&w, fd, "out", &head, &err), &err);
    return w;
}

/* The stream is the one that writing the pages one after another gives, and the store has them all. */
static void everything_arrives(void **state)
{
    (void)state;
    struct rig r;
    struct akv_store *store;
    struct akv_err err = {0}, save_err = {0};
    struct akv_buf got, want;
    struct akv_coder coder = {0};
    uint64_t written = 0;
    int out = rig_temp(), ref = rig_temp();
    rig_open(&r);
    assert_ok(akv_store_open(&store, temp_path("store"), AKV_STORE_CREATE, &err), &err);
    struct akv_writer *w = writer_to(out), *plain = writer_to(ref);
    for (uint32_t i = 0; i < N_PAGES; i++) {
        struct akv_page_rec rec = {.key = r.parcels[i].key,
                                   .parent = r.parcels[i].parent,
                                   .has_parent = i > 0,
                                   .index = i,
                                   .n_tokens = r.parcels[i].n,
                                   .ids = r.pages[i]->ids};
        akv_buf_init(&got, 0);
        assert_ok(akv_page_encode(&coder, &head.geom, r.pages[i]->kv, AKV_CODEC_PLANES, &rec, &got, &err), &err);
        assert_ok(akv_writer_page(plain, &rec, &err), &err);
        akv_buf_release(&got);
        r.parcels[i].writer = w;
        r.parcels[i].store = store;
        assert_ok(akv_outbox_put(r.outbox, &r.parcels[i], &err), &err);
        r.pages[i]->n_tokens = 0; /* the caller may go on with its page's fields, not with its bytes */
    }
    assert_ok(akv_outbox_drain(r.outbox, &written, &save_err, &err), &err);
    assert_int_equal(save_err.code, 0);
    assert_true(written > 0);
    assert_ok(akv_writer_close(w, NULL, &err), &err);
    assert_ok(akv_writer_close(plain, NULL, &err), &err);
    rig_slurp(out, &got);
    rig_slurp(ref, &want);
    assert_int_equal(got.len, want.len);
    assert_memory_equal(got.data, want.data, want.len);
    for (uint32_t i = 0; i < N_PAGES; i++)
        assert_true(akv_store_has(store, &head, &r.parcels[i].key));
    akv_buf_release(&got);
    akv_buf_release(&want);
    akv_coder_release(&coder);
    akv_store_close(store);
    rig_close(&r);
    close(out);
    close(ref);
}

/* A full disk under the output: the first page's error, later pages are let go of, and the next request begins afresh. */
static void output_fails(void **state)
{
    (void)state;
    struct rig r;
    struct akv_err err = {0}, save_err = {0};
    uint64_t written = 0;
    int full = open("/dev/full", O_WRONLY);
    rig_open(&r);
    struct akv_writer *w = writer_to(full);
    for (uint32_t i = 0; i < N_PAGES; i++) {
        r.parcels[i].writer = w;
        (void)akv_outbox_put(r.outbox, &r.parcels[i], NULL);
    }
    assert_int_equal(akv_outbox_drain(r.outbox, &written, &save_err, &err), AKV_E_IO);
    assert_non_null(strstr(err.msg, "out: cannot write"));
    assert_int_equal(written, 0);
    assert_int_equal(save_err.code, 0);
    assert_int_equal(akv_outbox_drain(r.outbox, &written, &save_err, NULL), 0);
    akv_writer_abort(w);
    rig_close(&r);
    close(full);
}

/* A store that lacks a parent refuses the child: what was before stays, nothing behind it is published, the output is whole. */
static void save_fails(void **state)
{
    (void)state;
    struct rig r;
    struct akv_store *store;
    struct akv_err err = {0}, save_err = {0};
    uint64_t written = 0;
    int out = rig_temp();
    rig_open(&r);
    assert_ok(akv_store_open(&store, temp_path("holes"), AKV_STORE_CREATE, &err), &err);
    struct akv_writer *w = writer_to(out);
    for (uint32_t i = 0; i < N_PAGES; i++) {
        r.parcels[i].writer = w;
        r.parcels[i].store = i == 5 ? NULL : store;
        assert_ok(akv_outbox_put(r.outbox, &r.parcels[i], &err), &err);
    }
    assert_ok(akv_outbox_drain(r.outbox, &written, &save_err, &err), &err);
    assert_int_equal(save_err.code, AKV_E_IO);
    assert_non_null(strstr(save_err.msg, "page 6"));
    for (uint32_t i = 0; i < N_PAGES; i++) {
        assert_int_equal(akv_store_has(store, &head, &r.parcels[i].key), i < 5);
        assert_true(akv_writer_has(w, &r.parcels[i].key));
    }
    assert_ok(akv_writer_close(w, NULL, &err), &err);
    akv_store_close(store);
    rig_close(&r);
    close(out);
}

/* Put page i of the chain to the store alone; keys[N_PAGES] is filled in as far as that. */
static void save_page(struct rig *r, struct akv_store *store, struct akv_key *keys, uint32_t i)
{
    struct akv_err err = {0};
    r->parcels[i].store = store;
    r->parcels[i].chain = r->pages;
    r->parcels[i].keys = keys;
    keys[i] = r->parcels[i].key;
    assert_ok(akv_outbox_put(r->outbox, &r->parcels[i], &err), &err);
}

/* What the store has lost of the chain, here by a collection in the middle, is published again before what follows it. */
static void lost_parents(void **state)
{
    (void)state;
    struct rig r;
    struct akv_store *store, *other;
    struct akv_err err = {0}, save_err = {0};
    struct akv_collected done;
    struct akv_key keys[N_PAGES];
    uint64_t written = 0;
    rig_open(&r);
    assert_ok(akv_store_open(&store, temp_path("lost"), AKV_STORE_CREATE, &err), &err);
    assert_ok(akv_store_open(&other, temp_path("lost"), AKV_STORE_CREATE, &err), &err);
    for (uint32_t i = 0; i < N_PAGES; i++) {
        save_page(&r, store, keys, i);
        if (i == 20) {
            assert_ok(akv_outbox_drain(r.outbox, &written, &save_err, &err), &err);
            assert_ok(akv_store_collect(other, &(struct akv_store_work){.flags = AKV_STORE_FORCE}, &done, &err), &err);
            assert_int_equal(done.objects, 0);
        }
    }
    assert_ok(akv_outbox_drain(r.outbox, &written, &save_err, &err), &err);
    assert_int_equal(save_err.code, 0);
    for (uint32_t i = 0; i < N_PAGES; i++)
        assert_true(akv_store_has(store, &head, &keys[i]));
    akv_store_close(store);
    akv_store_close(other);
    rig_close(&r);
}

/* The object of a page in the store "damaged". */
static const char *object_of(const struct akv_key *key)
{
    struct akv_key index;
    char hex[AKV_SHA_HEX], rel[96];
    assert_int_equal(akv_index_key(&index, head.root.b, sizeof head.root.b, key, NULL), 0);
    akv_hex(hex, index.b, sizeof index.b);
    snprintf(rel, sizeof rel, "damaged/objects/%.2s/%s.akv", hex, hex + 2);
    return temp_path(rel);
}

/* So is what turns out damaged, page by page, each when its child is published again. */
static void damaged_parents(void **state)
{
    (void)state;
    struct rig r;
    struct akv_store *store;
    struct akv_err err = {0}, save_err = {0};
    struct akv_verified done;
    struct akv_key keys[N_PAGES];
    uint64_t written = 0;
    rig_open(&r);
    assert_ok(akv_store_open(&store, temp_path("damaged"), AKV_STORE_CREATE, &err), &err);
    for (uint32_t i = 0; i < N_PAGES; i++) {
        save_page(&r, store, keys, i);
        if (i != 20)
            continue;
        assert_ok(akv_outbox_drain(r.outbox, &written, &save_err, &err), &err);
        for (uint32_t k = 16; k < 20; k++)
            assert_int_equal(truncate(object_of(&keys[k]), 100), 0);
        assert_int_equal(unlink(object_of(&keys[20])), 0);
    }
    assert_ok(akv_outbox_drain(r.outbox, &written, &save_err, &err), &err);
    assert_int_equal(save_err.code, 0);
    assert_ok(akv_store_verify(store, &(struct akv_store_work){0}, &done, &err), &err);
    assert_int_equal(done.objects, N_PAGES);
    akv_store_close(store);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_arrives), cmocka_unit_test(output_fails),    cmocka_unit_test(save_fails),
        cmocka_unit_test(lost_parents),       cmocka_unit_test(damaged_parents),
    };
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
