#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "cmd.h"

static bool shown;

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* done == total or a new, smaller count begins another run of the clock. */
void cmd_progress(void *ctx, const char *what, uint32_t done, uint32_t total)
{
    static double start;
    static uint32_t start_done, last_done;
    (void)ctx;
    if (cmd_quiet || !isatty(STDERR_FILENO))
        return;
    double now = seconds();
    if (!shown && (start == 0 || done <= last_done)) {
        start = now;
        start_done = done;
    }
    last_done = done;
    if (done >= total) {
        cmd_progress_end();
        start = 0;
        return;
    }
    double rate = now > start ? (double)(done - start_done) / (now - start) : 0;
    if (rate <= 0)
        return;
    fprintf(stderr, "\r%s: %s %u/%u tokens, %.0f tokens/s, %.0f s left \033[K", cmd_name, what, done, total, rate,
            (double)(total - done) / rate);
    shown = true;
}

void cmd_progress_end(void)
{
    if (shown)
        fputs("\r\033[K", stderr);
    shown = false;
}
