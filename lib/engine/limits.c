/* What the machine can do at most, for akv-bench. */
#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/err.h"
#include "kernels/kernels.h"
#include "kernels/peak.h"

/* On the thread's own clock: what others do meanwhile is not in it. */
static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

#define READ_BYTES ((size_t)256 << 20)

/* Units a second of the best of five runs, each of at least 20 ms. */
static double best_rate(uint64_t (*loop)(uint64_t rounds))
{
    double best = 0;
    uint64_t rounds = 100000;
    for (int run = 0; run < 5;) {
        double start = now_ms();
        uint64_t done = loop(rounds);
        double ms = now_ms() - start;
        if (ms < 20) {
            rounds *= 2;
            continue;
        }
        double rate = (double)done / ms * 1e-6; /* 10^9 a second */
        if (rate > best)
            best = rate;
        run++;
    }
    return best;
}

static double best_read(const uint8_t *p)
{
    double best = 0;
    for (int run = 0; run < 5; run++) {
        double start = now_ms();
        volatile uint64_t keep = akv_peak_read(p, READ_BYTES);
        (void)keep;
        double rate = (double)READ_BYTES / (now_ms() - start) * 1e-6;
        if (rate > best)
            best = rate;
    }
    return best;
}

/* What stays in the nearest cache, read again and again. */
static uint64_t read_cached(uint64_t rounds)
{
    static uint8_t near[16384];
    volatile uint64_t keep = 0;
    for (uint64_t i = 0; i < rounds; i += 64)
        keep = akv_peak_read(near, sizeof near);
    (void)keep;
    return (rounds + 63) / 64 * sizeof near;
}

int akv_bench_machine(struct akv_machine *out, const char *cpu, struct akv_err *err)
{
    const struct akv_ops *table = akv_ops_pick(cpu);
    *out = (struct akv_machine){0};
    if (!table || table == &akv_ops_scalar)
        return 0;
    uint8_t *p = mmap(NULL, READ_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return akv_fail_errno(err, "cannot get %zu bytes to read", READ_BYTES);
    (void)madvise(p, READ_BYTES, MADV_HUGEPAGE); /* as weights lie in memory at best */
    memset(p, 1, READ_BYTES);
    out->read_gbs = best_read(p);
    munmap(p, READ_BYTES);
    out->cache_gbs = best_rate(read_cached);
    out->int8_gops = best_rate(akv_peak_int8);
    out->int8_i16_gops = best_rate(akv_peak_int8_i16);
    out->fma_gflops = best_rate(akv_peak_fma);
    if (table == &akv_ops_avx512) {
        out->int8_vnni_gops = best_rate(akv_peak_int8_vnni);
        out->fma_gflops = fmax(out->fma_gflops, best_rate(akv_peak_fma_512));
    }
    out->int8_best_gops = fmax(out->int8_vnni_gops, fmax(out->int8_gops, out->int8_i16_gops));
    return 0;
}
