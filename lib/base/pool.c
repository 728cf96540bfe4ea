#include "base/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <xmmintrin.h>

/* All exceptions masked, round to nearest even, no FTZ, no DAZ. */
#define MXCSR_STANDARD 0x1f80u

/* How long a worker looks for the next batch before it sleeps: about 20 µs, longer than the gap between two matmuls. */
#define SPINS 4000

struct akv_pool {
    unsigned n_threads;
    pthread_t *threads; /* n_threads - 1 */
    unsigned n_started;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    atomic_bool quit;
    atomic_uint n_sleeping;
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

static unsigned batch_of(unsigned long long state)
{
    return (unsigned)(state >> 32);
}

/* Run tasks of the current batch until none is left; returns its number. */
static unsigned work(struct akv_pool *p, unsigned thread)
{
    unsigned long long state = atomic_load_explicit(&p->state, memory_order_acquire);
    for (;;) {
        uint32_t left = (uint32_t)state;
        if (!left)
            return batch_of(state);
        if (!atomic_compare_exchange_weak_explicit(&p->state, &state, state - 1, memory_order_acq_rel, memory_order_acquire))
            continue;
        p->fn(p->ctx, p->n_tasks - left, thread);
        atomic_fetch_add_explicit(&p->n_done, 1, memory_order_release);
        state = atomic_load_explicit(&p->state, memory_order_acquire);
    }
}

/* Whether there is a batch after the one seen, or none will come: a worker may have seen the last one's number as another's. */
static bool is_woken(struct akv_pool *p, unsigned seen)
{
    return batch_of(atomic_load(&p->state)) != seen || atomic_load(&p->quit);
}

static void wait_for_batch(struct akv_pool *p, unsigned seen)
{
    for (unsigned i = 0; i < SPINS; i++) {
        if (is_woken(p, seen))
            return;
        _mm_pause();
    }
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add(&p->n_sleeping, 1);
    while (!is_woken(p, seen))
        pthread_cond_wait(&p->wake, &p->lock);
    atomic_fetch_sub(&p->n_sleeping, 1);
    pthread_mutex_unlock(&p->lock);
}

static void *worker_main(void *arg)
{
    struct worker w = *(struct worker *)arg;
    free(arg);
    struct akv_fenv saved;
    akv_fenv_enter(&saved);
    for (unsigned seen = 0;;) {
        wait_for_batch(w.pool, seen);
        if (atomic_load(&w.pool->quit))
            return NULL;
        seen = work(w.pool, w.thread);
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
    free(p->threads);
    free(p);
}

unsigned akv_pool_threads(const struct akv_pool *p)
{
    return p->n_threads;
}

/* The last tasks run elsewhere: a short wait, unless their thread was put off the processor, which it then needs. */
static void wait_for_tasks(struct akv_pool *p)
{
    for (unsigned i = 0; atomic_load_explicit(&p->n_done, memory_order_acquire) < p->n_tasks; i++) {
        if (i < SPINS)
            _mm_pause();
        else
            sched_yield();
    }
}

void akv_pool_run(struct akv_pool *p, void (*fn)(void *ctx, size_t task, unsigned thread), void *ctx, size_t n_tasks)
{
    struct akv_fenv saved;
    akv_fenv_enter(&saved);
    if (n_tasks > 1 && p->n_started) {
        p->fn = fn;
        p->ctx = ctx;
        p->n_tasks = n_tasks;
        atomic_store(&p->n_done, 0);
        start_batch(p, n_tasks);
        work(p, 0);
        wait_for_tasks(p);
    } else {
        for (size_t task = 0; task < n_tasks; task++)
            fn(ctx, task, 0);
    }
    akv_fenv_leave(&saved);
}
