/* Collection and quota: what goes, what stays, in which order; counting; adding while collecting. */
#include "tests/unit/store_rig.h"

#include <errno.h>
#include <sys/wait.h>
#include <time.h>

#define N_CHAINS 8u

static struct chain chains[N_CHAINS]; /* two full pages and a tail each */
static struct akv_collected done;
static char notes[2048];

static int setup_chains(void **state)
{
    group_setup(state);
    for (uint32_t i = 0; i < N_CHAINS; i++)
        rig_chain(&chains[i], &head, 50 + i, 140, AKV_CODEC_RAW);
    return 0;
}

static int teardown_chains(void **state)
{
    for (uint32_t i = 0; i < N_CHAINS; i++)
        rig_chain_free(&chains[i]);
    return group_teardown(state);
}

static void take_note(void *ctx, const char *msg)
{
    (void)ctx;
    strncat(notes, msg, sizeof notes - strlen(notes) - 1);
}

static int collect(struct akv_store *s, unsigned flags)
{
    const struct akv_store_work w = {.flags = flags, .note = take_note};
    struct akv_err err = {0};
    notes[0] = '\0';
    int rc = akv_store_collect(s, &w, &done, &err);
    if (rc < 0)
        take_note(NULL, err.msg);
    return rc;
}

static int quota(struct akv_store *s, uint64_t bytes, struct akv_err *err)
{
    const struct akv_store_work w = {.note = take_note};
    return akv_store_set_quota(s, bytes, &w, &done, err);
}

/* Last used so many seconds ago. */
static void age(const char *path, time_t seconds)
{
    const struct timespec t = {.tv_sec = time(NULL) - seconds};
    assert_int_equal(utimensat(AT_FDCWD, path, (struct timespec[]){t, t}, 0), 0);
}

static void age_chain(const struct chain *c, time_t seconds)
{
    for (size_t i = 0; i < c->n; i++)
        age(object_path(&c->pages[i]), seconds);
}

static size_t n_there(const struct chain *c)
{
    size_t n = 0;
    for (size_t i = 0; i < c->n; i++)
        n += access(object_path(&c->pages[i]), F_OK) == 0;
    return n;
}

static uint64_t bytes_of(const struct chain *c)
{
    uint64_t sum = 0;
    struct stat st;
    for (size_t i = 0; i < c->n; i++) {
        assert_int_equal(stat(object_path(&c->pages[i]), &st), 0);
        sum += (uint64_t)st.st_size;
    }
    return sum;
}

static void pin(struct akv_store *s, const char *name, const struct page *tip)
{
    struct akv_ref ref = {.name = (char *)(uintptr_t)name, .root = head.root, .tip = tip->rec.key};
    struct akv_err err = {0};
    assert_ok(akv_store_ref_put(s, &ref, &err), &err);
}

static void old_temp(const char *rel)
{
    write_file(path_of(rel), "x", 1);
    age(path_of(rel), 700);
}

/*
 * Collecting takes what no pin holds; what was used in the last ten minutes stays, with all that it is built on, unless forced. A dry
 * run says the same and does nothing. Old temps go.
 */
static void collects_unpinned(void **state)
{
    (void)state;
    struct akv_store *s = open_new();
    for (size_t i = 0; i < 3; i++) {
        put_all(s, &chains[i]);
        age_chain(&chains[i], 700);
    }
    pin(s, "agent", &chains[0].pages[1]);      /* its tail is not part of the pin */
    age(object_path(&chains[1].pages[1]), 60); /* in use */
    old_temp("tmp/1.0");
    write_file(path_of("tmp/2.0"), "x", 1);
    struct stat st;
    assert_int_equal(stat(object_path(&chains[0].pages[2]), &st), 0);
    uint64_t gone = bytes_of(&chains[2]) + (uint64_t)st.st_size;
    assert_int_equal(stat(object_path(&chains[1].pages[2]), &st), 0);
    gone += (uint64_t)st.st_size;
    for (unsigned pass = 0; pass < 2; pass++) {
        assert_int_equal(files_in("objects"), 9);
        assert_int_equal(files_in("tmp"), 2);
        assert_int_equal(collect(s, pass ? 0 : AKV_STORE_DRY_RUN), 0);
        assert_int_equal(done.gone, 5);
        assert_int_equal(done.gone_bytes, gone);
        assert_int_equal(done.objects, 4);
        assert_int_equal(done.temps, 1);
    }
    assert_int_equal(n_there(&chains[0]), 2);
    assert_int_equal(n_there(&chains[1]), 2);
    assert_int_equal(files_in("objects"), 4);
    assert_int_equal(files_in("tmp"), 1);
    assert_int_equal(collect(s, AKV_STORE_FORCE), 0);
    assert_int_equal(n_there(&chains[0]), 2);
    assert_int_equal(files_in("objects"), 2);
    assert_int_equal(files_in("tmp"), 0);
    assert_int_equal(done.bytes, done.pinned_bytes);
    akv_store_close(s);
}

/* A pin that cannot be read stops the collection; one whose chain is broken keeps its root's pages, and is named. */
static void broken_pins(void **state)
{
    (void)state;
    struct akv_store *s = open_new();
    char hex[17], rel[64];
    put_all(s, &chains[0]);
    put_all(s, &chains[1]);
    pin(s, "agent", &chains[0].pages[2]);
    assert_int_equal(unlink(object_path(&chains[0].pages[1])), 0);
    assert_int_equal(collect(s, AKV_STORE_FORCE), 0);
    assert_non_null(strstr(notes, "'agent'"));
    assert_int_equal(files_in("objects"), 5);
    akv_hex(hex, head.root.b, 8);
    snprintf(rel, sizeof rel, "refs/%s/agent", hex);
    write_file(path_of(rel), "akv-ref 2\n", 10);
    assert_int_equal(collect(s, AKV_STORE_FORCE), AKV_E_INCOMPAT);
    write_file(path_of(rel), "akv-ref 1\n", 10);
    assert_int_equal(collect(s, AKV_STORE_FORCE), AKV_E_INPUT);
    assert_int_equal(files_in("objects"), 5);
    assert_int_equal(unlink(path_of(rel)), 0);
    assert_int_equal(collect(s, AKV_STORE_FORCE), 0);
    assert_int_equal(files_in("objects"), 0);
    akv_store_close(s);
}

/* An object that cannot be read, of a later version perhaps, stays. */
static void unreadable_stays(void **state)
{
    (void)state;
    struct akv_store *s = open_new();
    put_all(s, &chains[0]);
    flip_byte(object_path(&chains[0].pages[2]), 40);
    assert_int_equal(collect(s, AKV_STORE_FORCE), 0);
    assert_int_equal(n_there(&chains[0]), 1);
    akv_store_close(s);
}

/* A quota takes the leaf that was longest unused, then the next: never a page before those built on it. Setting it does so at once. */
static void least_recently_used(void **state)
{
    (void)state;
    struct akv_store *s = open_new();
    struct akv_err err = {0};
    uint64_t all = 0;
    for (size_t i = 0; i < 3; i++) {
        put_all(s, &chains[i]);
        age_chain(&chains[i], (time_t)(1000 + 100 * i)); /* chain 2 is the oldest */
        all += bytes_of(&chains[i]);
    }
    age(object_path(&chains[0].pages[0]), 5000); /* the oldest of all, but others stand on it */
    assert_ok(quota(s, all, &err), &err);
    assert_int_equal(done.gone, 0);
    for (size_t want = 8; want + 1; want--) { /* one object fewer each time */
        assert_ok(quota(s, done.bytes - 1, &err), &err);
        assert_int_equal(done.gone, 1);
        assert_int_equal(n_there(&chains[2]), want > 6 ? want - 6 : 0);
        assert_int_equal(n_there(&chains[1]), want > 6 ? 3 : want > 3 ? want - 3 : 0);
        assert_int_equal(n_there(&chains[0]), want > 3 ? 3 : want);
        if (!want)
            break;
    }
    akv_store_close(s);
}

/*
 * D6: saving under a quota makes room by the oldest leaves; pins and the chain that is being saved stay; where they leave no room the
 * save fails and nothing is lost. A quota under the pins is refused and nothing is written.
 */
static void d6_saving(void **state)
{
    (void)state;
    struct akv_store *s = open_new();
    struct akv_err err = {0};
    uint64_t one, bytes = 0;
    struct stat before, after;
    put_all(s, &chains[0]);
    pin(s, "agent", &chains[0].pages[2]);
    one = bytes_of(&chains[0]);
    assert_int_equal(stat(path_of("config"), &before), 0);
    assert_int_equal(quota(s, one - 1, &err), AKV_E_USAGE);
    assert_non_null(strstr(err.msg, "pins hold"));
    assert_int_equal(stat(path_of("config"), &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    akv_err_clear(&err);

    assert_ok(quota(s, 3 * one + one / 2, &err), &err);
    age_chain(&chains[0], 90000); /* old, but pinned */
    for (size_t i = 1; i < N_CHAINS; i++) {
        put_all(s, &chains[i]);
        age_chain(&chains[i], (time_t)(10000 - 100 * i));
        assert_int_equal(n_there(&chains[0]), 3);
        assert_int_equal(n_there(&chains[i]), 3);
        assert_int_equal(collect(s, AKV_STORE_DRY_RUN), 0);
        assert_true(done.bytes + done.gone_bytes <= 3 * one + one / 2);
    }
    assert_int_equal(n_there(&chains[1]), 0);
    assert_int_equal(n_there(&chains[N_CHAINS - 2]), 3);

    /* only the pin and one page more: the second page finds nothing to evict but its own parent */
    assert_int_equal(stat(object_path(&chains[7].pages[0]), &before), 0);
    assert_ok(quota(s, one + (uint64_t)before.st_size * 3 / 2, &err), &err);
    assert_int_equal(collect(s, AKV_STORE_FORCE), 0);
    assert_int_equal(akv_store_put(s, &head, &chains[7].pages[0].rec, true, &bytes, &err), 1);
    assert_int_equal(akv_store_put(s, &head, &chains[7].pages[1].rec, true, &bytes, &err), AKV_E_IO);
    assert_non_null(strstr(err.msg, "no room"));
    assert_int_equal(n_there(&chains[7]), 1);
    assert_int_equal(n_there(&chains[0]), 3);
    assert_int_equal(files_in("tmp"), 0);
    akv_err_clear(&err);

    assert_ok(quota(s, 0, &err), &err);
    put_all(s, &chains[7]);
    assert_int_equal(done.quota, 0);
    akv_store_close(s);
}

/* The count survives restarts; lost, wrong or unreadable it is found again from the directory before anything depends on it. */
static void counts(void **state)
{
    (void)state;
    struct akv_store *s = open_new();
    struct akv_err err = {0};
    uint64_t one = 0;
    char text[256];
    const char *const wrong[] = {"", "akv-usage 1\nobjects 99\nbytes 999999999999999999\ncounted 0\n", "nonsense", NULL};
    put_all(s, &chains[0]);
    one = bytes_of(&chains[0]);
    assert_ok(quota(s, 3 * one, &err), &err);
    akv_store_close(s);
    for (size_t i = 0; i < 4; i++) {
        s = open_new();
        if (i && wrong[i - 1])
            write_file(path_of("usage"), wrong[i - 1], strlen(wrong[i - 1]));
        else if (i)
            unlink(path_of("usage"));
        assert_int_equal(akv_store_put(s, &head, &chains[1 + i / 3].pages[i % 3].rec, true, NULL, &err), 1);
        akv_store_close(s);
        unsigned long long objects, bytes;
        FILE *f = fopen(path_of("usage"), "r");
        assert_non_null(f);
        text[fread(text, 1, sizeof text - 1, f)] = '\0';
        fclose(f);
        assert_int_equal(sscanf(text, "akv-usage 1\nobjects %llu\nbytes %llu\n", &objects, &bytes), 2);
        assert_int_equal(objects, 4 + i);
        assert_int_equal(files_in("objects"), 4 + i);
        s = open_new();
        assert_int_equal(collect(s, AKV_STORE_DRY_RUN), 0);
        assert_int_equal(bytes, done.bytes + done.gone_bytes);
        akv_store_close(s);
    }
}

/* Publish a chain and pin it in one batch: what one process of the test below does again and again. */
static int add_and_pin(struct akv_store *s, const struct chain *c, const char *name)
{
    struct akv_err err = {0};
    struct akv_ref ref = {.name = (char *)(uintptr_t)name, .root = head.root, .tip = c->pages[c->n - 1].rec.key};
    int rc = akv_store_batch_begin(s, &err);
    for (size_t k = 0; rc >= 0 && k < c->n; k++)
        rc = akv_store_put(s, &head, &c->pages[k].rec, true, NULL, &err);
    nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL); /* a collection that did not wait would get them now */
    if (rc >= 0)
        rc = akv_store_ref_put(s, &ref, &err);
    akv_store_batch_end(s);
    if (rc < 0)
        fprintf(stderr, "%s: %s\n", name, err.msg);
    return rc;
}

/* D8: while others collect by force, what is published and pinned in one batch is whole, and so it stays until unpinned. */
static void d8_adding_while_collecting(void **state)
{
    (void)state;
    struct akv_store *s = open_new();
    pid_t pids[6];
    akv_store_close(s);
    for (unsigned i = 0; i < 6; i++) {
        pids[i] = fork();
        if (pids[i])
            continue;
        char name[16];
        snprintf(name, sizeof name, "pin-%u", i);
        s = open_new();
        for (int k = 0; k < (i < 2 ? 200 : 40); k++) { /* two collect, four add */
            const struct akv_store_work w = {.flags = AKV_STORE_FORCE};
            if (i < 2 && akv_store_collect(s, &w, &done, NULL) < 0)
                _exit(1);
            if (i >= 2 && add_and_pin(s, &chains[i], name) < 0)
                _exit(2);
            if (i >= 2 && n_there(&chains[i]) != 3)
                _exit(3);
            if (i >= 2 && k < 39 && akv_store_ref_remove(s, name, NULL, NULL) != 1)
                _exit(4);
        }
        _exit(0);
    }
    for (int i = 0; i < 6; i++) {
        int status;
        assert_true(waitpid(pids[i], &status, 0) > 0);
        assert_int_equal(status, 0);
    }
    s = open_new();
    assert_int_equal(collect(s, AKV_STORE_FORCE), 0);
    assert_string_equal(notes, "");
    for (unsigned i = 2; i < 6; i++)
        assert_int_equal(n_there(&chains[i]), 3);
    assert_int_equal(files_in("objects"), 12);
    akv_store_close(s);
}

/*
 * D6, D8: four processes save under a quota that holds half of what they save; the quota holds after each, pins stay, a chain is never
 * left without its first pages.
 */
static void saving_by_many(void **state)
{
    (void)state;
    struct akv_store *s = open_new();
    struct akv_err err = {0};
    pid_t pids[4];
    put_all(s, &chains[0]);
    pin(s, "agent", &chains[0].pages[2]);
    uint64_t most = 4 * bytes_of(&chains[0]);
    assert_ok(quota(s, most, &err), &err);
    akv_store_close(s);
    for (unsigned i = 0; i < 4; i++) {
        pids[i] = fork();
        if (pids[i])
            continue;
        s = open_new();
        for (unsigned k = 0; k < 60; k++) {
            const struct chain *c = &chains[1 + (k + i) % 7];
            for (size_t at = 0; at < c->n;) {
                struct akv_err e = {0};
                int rc = akv_store_put(s, &head, &c->pages[at].rec, true, NULL, &e);
                if (rc < 0 && rc != AKV_E_NO)
                    _exit(1);
                at = rc < 0 ? 0 : at + 1; /* collected since: from its start */
            }
        }
        _exit(0);
    }
    for (int i = 0; i < 4; i++) {
        int status;
        assert_true(waitpid(pids[i], &status, 0) > 0);
        assert_int_equal(status, 0);
    }
    s = open_new();
    assert_int_equal(collect(s, AKV_STORE_DRY_RUN), 0);
    assert_true(done.bytes + done.gone_bytes <= most);
    assert_int_equal(n_there(&chains[0]), 3);
    for (unsigned i = 1; i < N_CHAINS; i++)
        for (size_t k = 1; k < 3; k++)
            assert_true(access(object_path(&chains[i].pages[k]), F_OK) < 0 ||
                        access(object_path(&chains[i].pages[k - 1]), F_OK) == 0);
    assert_int_equal(files_in("tmp"), 0);
    akv_store_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(collects_unpinned, setup, teardown),
        cmocka_unit_test_setup_teardown(broken_pins, setup, teardown),
        cmocka_unit_test_setup_teardown(unreadable_stays, setup, teardown),
        cmocka_unit_test_setup_teardown(least_recently_used, setup, teardown),
        cmocka_unit_test_setup_teardown(d6_saving, setup, teardown),
        cmocka_unit_test_setup_teardown(counts, setup, teardown),
        cmocka_unit_test_setup_teardown(d8_adding_while_collecting, setup, teardown),
        cmocka_unit_test_setup_teardown(saving_by_many, setup, teardown),
    };
    return cmocka_run_group_tests(tests, setup_chains, teardown_chains);
}
