#include "base/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <xmmintrin.h>

/* All exceptions masked, round to nearest even, no FTZ, no DAZ. */
#define MXCSR_STANDARD 0x1f80u

/* How long a thread looks for what it waits for before it sleeps: longer than the gap between two matrix products. */
#define SPIN_NS 30000u
/* How often it looks between two looks at the clock. */
#define SPINS 16u

/*
 * A worker that is put off its processor in the middle of a task holds up the batch for as long. Time so lost, compared with doing
 * the whole batch alone, is summed up, time won taken off, of which at most WON_NS are remembered; at LOSS_NS the caller goes on alone
 * for PAUSE times what was lost, and each time for twice as long where the others do no better for as long after that. So threads cost
 * a few percent at most on processors that are busy with other things, and single batches of few unequal tasks decide nothing.
 */
#define WON_NS 4000000
#define LOSS_NS 100000
#define PAUSE 10u
#define LONGEST_PAUSE_NS 2000000000u

struct akv_pool {
    unsigned n_threads;
    pthread_t *threads; /* n_threads - 1 */
    unsigned n_started;
    pthread_mutex_t lock;
    pthread_cond_t wake, done;
    atomic_bool quit;
    atomic_uint n_sleeping;
    atomic_bool caller_sleeps;
    int64_t lost_ns;                /* the caller's own: lost to workers that were held up, less what they won */
    uint64_t alone_until, pause_ns; /* when the last pause ends or ended; its length */
    /*
     * The batch's number in the high half, its tasks not yet claimed in the low half. A task is claimed by counting down with both
     * halves compared, so a worker that comes late finds nothing of a batch that is over; fn, ctx and n_tasks are read only after a
     * claim, and a batch is not over before its claimed tasks are done.
     */
    _Alignas(64) atomic_ullong state;
    _Alignas(64) atomic_size_t n_done;
    void (*fn)(void *, size_t, unsigned);
    void *ctx;
    size_t n_tasks;
};

struct worker {
    struct akv_pool *pool;
    unsigned thread;
};

void akv_fenv_enter(struct akv_fenv *saved)
{
    saved->mxcsr = _mm_getcsr();
    _mm_setcsr(MXCSR_STANDARD);
}

void akv_fenv_leave(const struct akv_fenv *saved)
{
    _mm_setcsr(saved->mxcsr);
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static unsigned batch_of(unsigned long long state)
{
    return (unsigned)(state >> 32);
}

/* A task is done: the last one may be what the caller sleeps for. */
static void count_done(struct akv_pool *p)
{
    const size_t n_tasks = p->n_tasks; /* the batch may be over, and the next one begun, as soon as it is counted */
    if (atomic_fetch_add(&p->n_done, 1) + 1 < n_tasks || !atomic_load(&p->caller_sleeps))
        return;
    pthread_mutex_lock(&p->lock);
    pthread_cond_signal(&p->done);
    pthread_mutex_unlock(&p->lock);
}

/* Run tasks of the current batch until none is left; returns its number, and in *own how many were run. */
static unsigned work(struct akv_pool *p, unsigned thread, size_t *own)
{
    unsigned long long state = atomic_load_explicit(&p->state, memory_order_acquire);
    for (*own = 0;; ++*own) {
        uint32_t left = (uint32_t)state;
        while (left &&
               !atomic_compare_exchange_weak_explicit(&p->state, &state, state - 1, memory_order_acq_rel, memory_order_acquire))
            left = (uint32_t)state;
        if (!left)
            return batch_of(state);
        p->fn(p->ctx, p->n_tasks - left, thread);
        count_done(p);
        state = atomic_load_explicit(&p->state, memory_order_acquire);
    }
}

/* Look for a while; whether it came. */
static bool spin(struct akv_pool *p, bool (*is_there)(struct akv_pool *p, unsigned arg), unsigned arg)
{
    const uint64_t start = now_ns();
    do {
        for (unsigned i = 0; i < SPINS; i++) {
            if (is_there(p, arg))
                return true;
            _mm_pause();
        }
    } while (now_ns() - start < SPIN_NS);
    return false;
}

/* Whether there is a batch after the one seen, or none will come: a worker may have seen the last one's number as another's. */
static bool is_woken(struct akv_pool *p, unsigned seen)
{
    return batch_of(atomic_load(&p->state)) != seen || atomic_load(&p->quit);
}

static bool is_done(struct akv_pool *p, unsigned unused)
{
    (void)unused;
    return atomic_load(&p->n_done) == p->n_tasks;
}

static void wait_for_batch(struct akv_pool *p, unsigned seen)
{
    if (spin(p, is_woken, seen))
        return;
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add(&p->n_sleeping, 1);
    while (!is_woken(p, seen))
        pthread_cond_wait(&p->wake, &p->lock);
    atomic_fetch_sub(&p->n_sleeping, 1);
    pthread_mutex_unlock(&p->lock);
}

/* The last tasks run elsewhere: a short wait, unless their thread was put off its processor, which may be the caller's. */
static void wait_for_tasks(struct akv_pool *p)
{
    if (spin(p, is_done, 0))
        return;
    pthread_mutex_lock(&p->lock);
    atomic_store(&p->caller_sleeps, true);
    while (!is_done(p, 0))
        pthread_cond_wait(&p->done, &p->lock);
    atomic_store(&p->caller_sleeps, false);
    pthread_mutex_unlock(&p->lock);
}

static void *worker_main(void *arg)
{
    struct worker w = *(struct worker *)arg;
    free(arg);
    struct akv_fenv saved;
    akv_fenv_enter(&saved);
    size_t own;
    for (unsigned seen = 0;;) {
        wait_for_batch(w.pool, seen);
        if (atomic_load(&w.pool->quit))
            return NULL;
        seen = work(w.pool, w.thread, &own);
    }
}

static void start_batch(struct akv_pool *p, size_t n_tasks)
{
    unsigned batch = batch_of(atomic_load(&p->state)) + 1;
    atomic_store(&p->state, (unsigned long long)batch << 32 | n_tasks);
    if (atomic_load(&p->n_sleeping)) {
        pthread_mutex_lock(&p->lock);
        pthread_cond_broadcast(&p->wake);
        pthread_mutex_unlock(&p->lock);
    }
}

int akv_pool_open(struct akv_pool **out, unsigned n_threads, struct akv_err *err)
{
    if (n_threads < 1 || n_threads > 256)
        return akv_fail(err, AKV_E_USAGE, "threads: %u: must be 1 to 256", n_threads);
    struct akv_pool *p = NULL;
    if (posix_memalign((void **)&p, 64, sizeof *p))
        return akv_fail(err, AKV_E_IO, "out of memory for the worker pool");
    *p = (struct akv_pool){.n_threads = n_threads};
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, NULL);
    pthread_cond_init(&p->done, NULL);
    p->threads = akv_alloc(n_threads, sizeof *p->threads, err);
    if (!p->threads)
        goto fail;
    for (unsigned i = 1; i < n_threads; i++) {
        struct worker *w = akv_alloc(1, sizeof *w, err);
        if (!w)
            goto fail;
        *w = (struct worker){.pool = p, .thread = i};
        if (pthread_create(&p->threads[p->n_started], NULL, worker_main, w)) {
            free(w);
            akv_fail(err, AKV_E_IO, "cannot start worker thread %u", i);
            goto fail;
        }
        p->n_started++;
    }
    *out = p;
    return 0;
fail:
    akv_pool_close(p);
    return AKV_E_IO;
}

void akv_pool_close(struct akv_pool *p)
{
    if (!p)
        return;
    atomic_store(&p->quit, true);
    start_batch(p, 0);
    for (unsigned i = 0; i < p->n_started; i++)
        pthread_join(p->threads[i], NULL);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->wake);
    pthread_cond_destroy(&p->done);
    free(p->threads);
    free(p);
}

unsigned akv_pool_threads(const struct akv_pool *p)
{
    return p->n_threads;
}

/* The batch as a whole took `all`, of which the caller spent `working` on `own` of the tasks: what did the others save or cost? */
static void settle(struct akv_pool *p, uint64_t now, uint64_t all, uint64_t working, size_t own)
{
    if (own == 0) /* nothing to compare with */
        return;
    p->lost_ns += (int64_t)all - (int64_t)(working * p->n_tasks / own);
    if (p->lost_ns < -WON_NS)
        p->lost_ns = -WON_NS;
    if (p->lost_ns < LOSS_NS)
        return;
    const uint64_t again = now < p->alone_until + p->pause_ns ? 2 * p->pause_ns : 0;
    p->pause_ns = PAUSE * (uint64_t)p->lost_ns > again ? PAUSE * (uint64_t)p->lost_ns : again;
    if (p->pause_ns > LONGEST_PAUSE_NS)
        p->pause_ns = LONGEST_PAUSE_NS;
    p->alone_until = now + p->pause_ns;
    p->lost_ns = 0;
}

static void run_shared(struct akv_pool *p, size_t n_tasks, uint64_t start)
{
    size_t own;
    p->n_tasks = n_tasks;
    atomic_store(&p->n_done, 0);
    start_batch(p, n_tasks);
    work(p, 0, &own);
    const uint64_t worked = now_ns();
    if (own == n_tasks)
        return;
    wait_for_tasks(p);
    const uint64_t end = now_ns();
    settle(p, end, end - start, worked - start, own);
}

void akv_pool_run(struct akv_pool *p, void (*fn)(void *ctx, size_t task, unsigned thread), void *ctx, size_t n_tasks)
{
    struct akv_fenv saved;
    akv_fenv_enter(&saved);
    const uint64_t start = n_tasks > 1 && p->n_started ? now_ns() : 0;
    if (start > p->alone_until) {
        p->fn = fn;
        p->ctx = ctx;
        run_shared(p, n_tasks, start);
    } else {
        for (size_t task = 0; task < n_tasks; task++)
            fn(ctx, task, 0);
    }
    akv_fenv_leave(&saved);
}
