/* Several processes that find the same page wrong: it goes to quarantine once, and the right one that takes its place stays. */
#include "tests/unit/store_rig.h"

#include "store/store_dir.h"

#include <sys/wait.h>

#define FINDERS 4
#define ROUNDS 12

static struct akv_object_ops ops; /* as akv_objects_dir, but for what a test puts in between */
static int pipes[2 * FINDERS][2]; /* from each process, and to it */
static int me;                    /* which process this is */
static bool met;

/* All processes have read the wrong page before any of them does something about it. */
static int get_and_meet(struct akv_store *s, const struct akv_object_name *name, uint64_t from, size_t most, struct akv_buf *into,
                        struct akv_object_info *info, struct akv_err *err)
{
    char c;
    int rc = akv_objects_dir.get(s, name, from, most, into, info, err);
    if (met)
        return rc;
    met = true;
    if (write(pipes[me][1], "x", 1) != 1 || read(pipes[FINDERS + me][0], &c, 1) != 1)
        _exit(99);
    return rc;
}

/* Run `find` in FINDERS processes that meet at their first look at an object; the sum of what they return, each below 90. */
static int together(int (*find)(struct akv_store *s, const struct chain *c), const struct chain *c)
{
    int sum = 0;
    char b;
    for (int i = 0; i < 2 * FINDERS; i++)
        assert_int_equal(pipe(pipes[i]), 0);
    for (me = 0; me < FINDERS; me++)
        if (fork() == 0) {
            struct akv_store *s;
            if (akv_store_open(&s, dir, AKV_STORE_CREATE, NULL) < 0)
                _exit(98);
            s->ops = &ops;
            _exit(find(s, c));
        }
    for (int i = 0; i < FINDERS; i++)
        assert_int_equal(read(pipes[i][0], &b, 1), 1);
    for (int i = 0; i < FINDERS; i++)
        assert_int_equal(write(pipes[FINDERS + i][1], "x", 1), 1);
    for (int i = 0; i < FINDERS; i++) {
        int status;
        assert_true(wait(&status) > 0);
        if (!WIFEXITED(status) || WEXITSTATUS(status) >= 90)
            fail_msg("a process ended with %d", status);
        sum += WEXITSTATUS(status);
    }
    for (int i = 0; i < 2 * FINDERS; i++) {
        close(pipes[i][0]);
        close(pipes[i][1]);
    }
    return sum;
}

static void assert_all_there(const struct chain *c)
{
    struct akv_page_rec rec;
    struct akv_err why = {0};
    struct akv_store *s = open_new();
    for (size_t i = 0; i < c->n; i++) {
        if (get(s, &c->pages[i], &rec, &why) != 1)
            fail_msg("page %zu is a miss: %s", i, why.msg);
        assert_memory_equal(rec.raw_sha, c->pages[i].rec.raw_sha, sizeof rec.raw_sha);
    }
    akv_store_close(s);
}

/* Publish a chain that was computed; how often exactness was found broken. */
static int publish(struct akv_store *s, const struct chain *c)
{
    int n = 0;
    for (size_t i = 0; i < c->n; i++) {
        int rc = akv_store_put(s, &head, &c->pages[i].rec, true, NULL, NULL);
        if (rc < 0 && rc != AKV_E_INPUT)
            return 97;
        n += rc < 0;
    }
    return n;
}

/* Who finds other KV bytes than it computed replaces them and what was built on them; who comes second finds that done. */
static void broken_exactness(void **state)
{
    (void)state;
    struct chain wrong;
    make_wrong(&wrong);
    for (int i = 0; i < ROUNDS; i++) {
        struct akv_store *s = open_new();
        put_all(s, &wrong);
        akv_store_close(s);
        assert_int_equal(together(publish, &chain), 1);
        assert_all_there(&chain);
        assert_int_equal(files_in("quarantine"), 2 * wrong.n);
        assert_int_equal(files_in("tmp"), 0);
        teardown(NULL);
        assert_int_equal(mkdir(dir, 0700), 0);
    }
    rig_chain_free(&wrong);
}

/* Look a page up and publish it when it is not there, three times; how often it was found damaged. */
static int heal(struct akv_store *s, const struct chain *c)
{
    int n = 0;
    for (int i = 0; i < 3; i++) {
        struct akv_page_rec rec;
        struct akv_err why = {0};
        int rc = get(s, &c->pages[1], &rec, &why);
        n += why.code == AKV_E_INPUT;
        if (rc == 0 && akv_store_put(s, &head, &c->pages[1].rec, false, NULL, NULL) < 0)
            return 97;
    }
    return n;
}

/* Who finds a page damaged takes it away and puts it there again, and takes away nothing that another has put there. */
static void damage(void **state)
{
    (void)state;
    struct akv_store *s = open_new();
    put_all(s, &chain);
    for (size_t i = 1; i <= 4 * ROUNDS; i++) {
        flip_byte(object_path(&chain.pages[1]), 200);
        assert_int_equal(together(heal, &chain), FINDERS);
        assert_all_there(&chain);
        assert_int_equal(files_in("quarantine"), 2 * i);
    }
    akv_store_close(s);
}

int main(void)
{
    ops = akv_objects_dir;
    ops.get = get_and_meet;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(broken_exactness, setup, teardown),
        cmocka_unit_test_setup_teardown(damage, setup, teardown),
    };
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
