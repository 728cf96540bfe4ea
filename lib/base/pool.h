/*
 * Worker pool: run n tasks on n_threads threads, the caller's included. Which thread runs which task never
 * influences a result (numerics.md): tasks write disjoint outputs.
 * Every worker, and the caller for the duration of akv_pool_run(), computes in the standard float environment:
 * round to nearest even, denormals kept (numerics R5).
 */
#ifndef AKV_BASE_POOL_H
#define AKV_BASE_POOL_H

#include "base/err.h"

struct akv_pool;

int akv_pool_open(struct akv_pool **out, unsigned n_threads, struct akv_err *err); /* n_threads 1..256; 1 starts none */
void akv_pool_close(struct akv_pool *p);                                           /* NULL-safe */
unsigned akv_pool_threads(const struct akv_pool *p);

/* Call fn(ctx, task, thread) for task 0..n_tasks-1, thread in 0..n_threads-1; returns when all are done. n_tasks < 2^32. Not re-entrant. */
void akv_pool_run(struct akv_pool *p, void (*fn)(void *ctx, size_t task, unsigned thread), void *ctx, size_t n_tasks);

/* Save the caller's float environment and set the standard one / put it back. */
struct akv_fenv {
    unsigned mxcsr;
};
void akv_fenv_enter(struct akv_fenv *saved);
void akv_fenv_leave(const struct akv_fenv *saved);

#endif
