/* lib/base/pool: every task once, whole batches, the float environment. Meant to run under the thread sanitizer too. */
#include "tests/check.h"

#include <fenv.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>
#include <xmmintrin.h>

#include "base/pool.h"

#define MAX_TASKS 1000
#define FTZ_DAZ 0x8040u

struct counts {
    unsigned n_threads;
    unsigned char done[MAX_TASKS]; /* plain on purpose: two threads on one task are a data race */
    atomic_uint wrong_thread;
};

static void count_task(void *ctx, size_t task, unsigned thread)
{
    struct counts *c = ctx;
    c->done[task]++;
    if (thread >= c->n_threads)
        atomic_fetch_add(&c->wrong_thread, 1);
}

static void run_and_check(struct akv_pool *p, size_t n_tasks)
{
    struct counts c = {.n_threads = akv_pool_threads(p)};
    akv_pool_run(p, count_task, &c, n_tasks);
    for (size_t i = 0; i < MAX_TASKS; i++)
        if (c.done[i] != (i < n_tasks))
            fail_msg("task %zu of %zu ran %d times", i, n_tasks, c.done[i]);
    assert_int_equal(c.wrong_thread, 0);
}

/* Every task runs exactly once and has ended when the call returns, for any number of threads and tasks. */
static void every_task_once(void **state)
{
    (void)state;
    static const unsigned threads[] = {1, 2, 3, 8};
    static const size_t tasks[] = {0, 1, 2, 3, 7, 64, MAX_TASKS};
    for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
        struct akv_pool *p = NULL;
        struct akv_err err = {0};
        assert_ok(akv_pool_open(&p, threads[t], &err), &err);
        assert_int_equal(akv_pool_threads(p), threads[t]);
        for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++)
            run_and_check(p, tasks[i]);
        akv_pool_close(p);
    }
}

/* Batches back to back, and with pauses in which the workers fall asleep: none is lost, none runs twice. */
static void many_batches(void **state)
{
    (void)state;
    struct akv_pool *p = NULL;
    struct akv_err err = {0};
    assert_ok(akv_pool_open(&p, 3, &err), &err);
    for (unsigned i = 0; i < 2000; i++) {
        run_and_check(p, i % 17);
        if (i % 50 == 0)
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    akv_pool_close(p);
}

static void swap_task(void *ctx, size_t task, unsigned thread)
{
    (void)thread;
    uint32_t(*v)[64] = ctx;
    v[1][task] = v[0][63 - task] + 1;
}

static void copy_task(void *ctx, size_t task, unsigned thread)
{
    (void)thread;
    uint32_t(*v)[64] = ctx;
    v[0][task] = v[1][(task * 5) % 64];
}

/* What one batch wrote, the next reads on whatever thread: the same numbers as without threads. */
static void batches_are_ordered(void **state)
{
    (void)state;
    uint32_t got[2][64] = {{0}}, want[2][64] = {{0}};
    struct akv_pool *p = NULL;
    struct akv_err err = {0};
    assert_ok(akv_pool_open(&p, 4, &err), &err);
    for (unsigned i = 0; i < 500; i++) {
        akv_pool_run(p, swap_task, got, 64);
        akv_pool_run(p, copy_task, got, 64);
        for (size_t t = 0; t < 64; t++)
            swap_task(want, t, 0);
        for (size_t t = 0; t < 64; t++)
            copy_task(want, t, 0);
    }
    assert_memory_equal(got, want, sizeof got);
    akv_pool_close(p);
}

struct meeting {
    atomic_uint here, done;
};

/* Two of these can only end on two threads; the one that is not the caller's is late. */
static void meet_task(void *ctx, size_t task, unsigned thread)
{
    (void)task;
    struct meeting *m = ctx;
    atomic_fetch_add(&m->here, 1);
    while (atomic_load(&m->here) < 2)
        _mm_pause();
    if (thread)
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    atomic_fetch_add(&m->done, 1);
}

/* Tasks run at the same time, and the call returns only when the last thread has done its own. */
static void tasks_run_at_once(void **state)
{
    (void)state;
    struct akv_pool *p = NULL;
    struct akv_err err = {0};
    struct meeting m = {0};
    assert_ok(akv_pool_open(&p, 2, &err), &err);
    akv_pool_run(p, meet_task, &m, 2);
    unsigned done = m.done;
    assert_int_equal(done, 2);
    akv_pool_close(p);
}

static void note_task(void *ctx, size_t task, unsigned thread)
{
    atomic_uint *used = ctx;
    (void)task;
    atomic_fetch_or(used, 1u << thread);
}

/* A worker that held up a batch is left out for a while: ten times as long at least. */
static void held_up_worker_is_left_out(void **state)
{
    (void)state;
    struct akv_pool *p = NULL;
    struct akv_err err = {0};
    struct meeting m = {0};
    atomic_uint used = 0;
    assert_ok(akv_pool_open(&p, 2, &err), &err);
    akv_pool_run(p, meet_task, &m, 2);
    for (unsigned i = 0; i < 100; i++)
        akv_pool_run(p, note_task, &used, 64);
    unsigned threads = used;
    assert_int_equal(threads, 1);
    nanosleep(&(struct timespec){.tv_nsec = 600000000}, NULL);
    run_and_check(p, MAX_TASKS); /* whoever takes part again */
    akv_pool_close(p);
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void burn_task(void *ctx, size_t task, unsigned thread)
{
    (void)ctx;
    (void)task;
    (void)thread;
    for (volatile unsigned i = 0; i < 3000; i++)
        ;
}

/* Batches of a step's kind, with something serial between them, for 100 ms. */
static size_t batches_of(struct akv_pool *p)
{
    size_t n = 0;
    for (uint64_t start = now_ns(); now_ns() - start < 100000000u; n++) {
        akv_pool_run(p, burn_task, NULL, 8);
        burn_task(NULL, 0, 0);
    }
    return n;
}

static void *burn(void *arg)
{
    const atomic_bool *stop = arg;
    while (!atomic_load(stop))
        ;
    return NULL;
}

/* A figure, not a proof: what a second thread gives, and what it gives where two others want every processor. */
static void busy_machine(void **state)
{
    (void)state;
    struct akv_err err = {0};
    struct akv_pool *p[2] = {0};
    pthread_t other[32];
    atomic_bool stop = false;
    const long n_cores = sysconf(_SC_NPROCESSORS_ONLN);
    const size_t n_others = n_cores < 16 ? 2 * (size_t)n_cores : 32;
    double ratio[2];
    for (unsigned i = 0; i < 2; i++)
        assert_ok(akv_pool_open(&p[i], i + 1, &err), &err);
    for (int busy = 0; busy < 2; busy++) {
        size_t n[2] = {0};
        for (size_t i = 0; busy && i < n_others; i++)
            assert_int_equal(pthread_create(&other[i], NULL, burn, &stop), 0);
        for (unsigned turn = 0; turn < 8; turn++)
            n[turn % 2] += batches_of(p[turn % 2]);
        assert_true(n[0] > 0 && n[1] > 0);
        ratio[busy] = (double)n[1] / (double)n[0];
    }
    atomic_store(&stop, true);
    for (size_t i = 0; i < n_others; i++)
        pthread_join(other[i], NULL);
    printf("  two threads for one: %.2f times the batches, %.2f with %zu others\n", ratio[0], ratio[1], n_others);
    akv_pool_close(p[0]);
    akv_pool_close(p[1]);
}

static void fenv_task(void *ctx, size_t task, unsigned thread)
{
    (void)thread;
    unsigned *seen = ctx;
    seen[task] = _mm_getcsr() & ~0x3fu; /* without the sticky flags */
}

/* A host that rounds up and flushes denormals gets standard arithmetic on every thread, and its own mode back. */
static void float_environment_is_standard(void **state)
{
    (void)state;
    for (unsigned n = 1; n <= 3; n += 2) {
        struct akv_pool *p = NULL;
        struct akv_err err = {0};
        unsigned seen[64];
        unsigned before = _mm_getcsr();
        unsigned odd = (before | FTZ_DAZ | _MM_ROUND_UP) & ~0x3fu;
        _mm_setcsr(odd);
        int rc = akv_pool_open(&p, n, &err); /* workers inherit the odd mode */
        if (rc == 0)
            akv_pool_run(p, fenv_task, seen, 64);
        unsigned after = _mm_getcsr() & ~0x3fu;
        _mm_setcsr(before);
        assert_ok(rc, &err);
        assert_int_equal(after, odd);
        for (size_t i = 0; i < 64; i++)
            assert_int_equal(seen[i], 0x1f80);
        akv_pool_close(p);
    }
}

/* The same for code that computes outside a pool. */
static void fenv_enter_and_leave(void **state)
{
    (void)state;
    unsigned before = _mm_getcsr();
    struct akv_fenv saved;
    _mm_setcsr((before | FTZ_DAZ) & ~0x3fu);
    akv_fenv_enter(&saved);
    volatile float tiny = 1e-38f;
    volatile float denormal = tiny / 16;
    unsigned inside = _mm_getcsr() & ~0x3fu;
    akv_fenv_leave(&saved);
    unsigned after = _mm_getcsr() & ~0x3fu;
    _mm_setcsr(before);
    assert_true(denormal > 0);
    assert_int_equal(inside, 0x1f80);
    assert_int_equal(after, (before | FTZ_DAZ) & ~0x3fu);
}

/* Counts of threads outside 1..256 are refused; a pool that never ran closes; NULL closes. */
static void open_and_close(void **state)
{
    (void)state;
    struct akv_pool *p = NULL;
    struct akv_err err = {0};
    assert_int_equal(akv_pool_open(&p, 0, &err), AKV_E_USAGE);
    assert_non_null(strstr(err.msg, "1 to 256"));
    assert_int_equal(akv_pool_open(&p, 257, NULL), AKV_E_USAGE);
    assert_null(p);
    for (unsigned i = 0; i < 50; i++) {
        err = (struct akv_err){0};
        assert_ok(akv_pool_open(&p, 1 + i % 5, &err), &err);
        akv_pool_close(p);
    }
    akv_pool_close(NULL);
}

static void no_work(void *ctx, size_t task, unsigned thread)
{
    (void)ctx;
    (void)task;
    (void)thread;
}

/* Closing right behind a batch ends, however late a worker comes to it. */
static void close_behind_a_batch(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3000; i++) {
        struct akv_pool *p = NULL;
        struct akv_err err = {0};
        assert_ok(akv_pool_open(&p, 4, &err), &err);
        for (unsigned k = 0; k < 1 + i % 3; k++)
            akv_pool_run(p, no_work, NULL, 8);
        akv_pool_close(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_task_once),
        cmocka_unit_test(many_batches),
        cmocka_unit_test(batches_are_ordered),
        cmocka_unit_test(tasks_run_at_once),
        cmocka_unit_test(held_up_worker_is_left_out),
        cmocka_unit_test(busy_machine),
        cmocka_unit_test(float_environment_is_standard),
        cmocka_unit_test(fenv_enter_and_leave),
        cmocka_unit_test(open_and_close),
        cmocka_unit_test(close_behind_a_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
