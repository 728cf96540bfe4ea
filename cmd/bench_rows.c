#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench.h"

static void put(struct bench *b, const char *text)
{
    cmd_out_write(&b->out, text, strlen(text));
}

static void put_args(struct bench *b, const char *fmt, va_list args)
{
    char line[1024];
    vsnprintf(line, sizeof line, fmt, args);
    put(b, line);
}

void bench_text(struct bench *b, const char *fmt, ...)
{
    va_list args;
    if (b->format != BENCH_MD)
        return;
    va_start(args, fmt);
    put_args(b, fmt, args);
    va_end(args);
}

void bench_row(struct bench *b, const char *heading, const char *fmt, ...)
{
    va_list args;
    if (b->first)
        put(b, heading);
    b->first = false;
    va_start(args, fmt);
    put_args(b, fmt, args);
    va_end(args);
}

void bench_json(struct bench *b, json_t *row)
{
    char *dump = row ? json_dumps(row, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    if (!dump)
        cmd_die(5, "out of memory");
    if (b->format == BENCH_JSON)
        put(b, b->first ? "[\n" : ",\n");
    put(b, dump);
    if (b->format == BENCH_JSONL)
        put(b, "\n");
    b->first = false;
    free(dump);
    json_decref(row);
}

void bench_end(struct bench *b)
{
    if (b->format == BENCH_JSON)
        put(b, b->first ? "[]\n" : "\n]\n");
}

double bench_wall_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(const double *v, size_t n)
{
    double *sorted = cmd_alloc(n * sizeof *sorted);
    memcpy(sorted, v, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, ascending);
    double middle = n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
    free(sorted);
    return middle;
}

/* Square root by Newton's iteration, so that the tools need no libm. */
static double root(double x)
{
    double r = x > 1 ? x : 1;
    for (int i = 0; i < 60 && x > 0; i++)
        r = (r + x / r) / 2;
    return x > 0 ? r : 0;
}

void bench_mean(const double *v, size_t n, double *mean, double *deviation)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++)
        sum += v[i];
    *mean = sum / (double)n;
    for (size_t i = 0; i < n; i++)
        squares += (v[i] - *mean) * (v[i] - *mean);
    *deviation = n > 1 ? root(squares / (double)(n - 1)) : 0;
}
