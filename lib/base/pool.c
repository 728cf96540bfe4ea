#include "base/pool.h"

#include <pthread.h>
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
    atomic_uint batch; /* counts akv_pool_run() calls; a worker waits for it to change */
    atomic_bool quit;
    atomic_uint n_sleeping;
    void (*fn)(void *, size_t, unsigned);
    void *ctx;
    size_t n_tasks;
    _Alignas(64) atomic_size_t next;
    _Alignas(64) atomic_uint n_running; /* workers that have not finished this batch */
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

static void work(struct akv_pool *p, unsigned thread)
{
    for (;;) {
        size_t task = atomic_fetch_add_explicit(&p->next, 1, memory_order_relaxed);
        if (task >= p->n_tasks)
            return;
        p->fn(p->ctx, task, thread);
    }
}

static unsigned wait_for_batch(struct akv_pool *p, unsigned seen)
{
    for (unsigned i = 0; i < SPINS; i++) {
        unsigned now = atomic_load_explicit(&p->batch, memory_order_acquire);
        if (now != seen)
            return now;
        _mm_pause();
    }
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add(&p->n_sleeping, 1);
    while (atomic_load(&p->batch) == seen)
        pthread_cond_wait(&p->wake, &p->lock);
    atomic_fetch_sub(&p->n_sleeping, 1);
    pthread_mutex_unlock(&p->lock);
    return atomic_load(&p->batch);
}

static void *worker_main(void *arg)
{
    struct worker w = *(struct worker *)arg;
    free(arg);
    struct akv_fenv saved;
    akv_fenv_enter(&saved);
    unsigned seen = 0;
    for (;;) {
        seen = wait_for_batch(w.pool, seen);
        if (atomic_load(&w.pool->quit))
            return NULL;
        work(w.pool, w.thread);
        atomic_fetch_sub_explicit(&w.pool->n_running, 1, memory_order_release);
    }
}

static void start_batch(struct akv_pool *p)
{
    atomic_fetch_add(&p->batch, 1);
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
    start_batch(p);
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

void akv_pool_run(struct akv_pool *p, void (*fn)(void *ctx, size_t task, unsigned thread), void *ctx, size_t n_tasks)
{
    if (!n_tasks)
        return;
    struct akv_fenv saved;
    akv_fenv_enter(&saved);
    p->fn = fn;
    p->ctx = ctx;
    p->n_tasks = n_tasks;
    atomic_store(&p->next, 0);
    if (n_tasks > 1 && p->n_started) {
        atomic_store(&p->n_running, p->n_started);
        start_batch(p);
        work(p, 0);
        while (atomic_load_explicit(&p->n_running, memory_order_acquire))
            _mm_pause();
    } else {
        work(p, 0);
    }
    akv_fenv_leave(&saved);
}
