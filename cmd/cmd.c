#include "cmd.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

const char *cmd_name = "akv";
volatile int cmd_cancel, cmd_at_once;
int cmd_quiet, cmd_verbose;
void (*cmd_last)(void);

static int worst_status;

#define MESSAGE_BYTES 4096

/*
 * A descriptor that the caller closed must not become that of a file: what is printed would land there, what is read would come from it.
 * Its place is taken by one that fails: standard input for writing, the others for reading.
 */
static void hold_standard_fds(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
            _exit(5);
}

/* The bytes of control characters as \xNN; U+0080 to U+009F have two. line has four bytes for each of text, and one. */
static void escape(char *line, const char *text)
{
    for (unsigned char before = 0; *text; before = (unsigned char)*text++) {
        unsigned char c = (unsigned char)*text, next = (unsigned char)text[1];
        if (c < 0x20 || c == 0x7f || (c == 0xc2 && next >= 0x80 && next < 0xa0) || (before == 0xc2 && c >= 0x80 && c < 0xa0))
            line += snprintf(line, 5, "\\x%02x", c);
        else
            *line++ = (char)c;
    }
    *line = '\0';
}

char *cmd_escaped(const char *text)
{
    char *line = cmd_alloc(strlen(text) * 4 + 1);
    escape(line, text);
    return line;
}

/* "akv-gen: text", one line whatever names are in it. text is at most MESSAGE_BYTES. */
static void print_line(const char *text)
{
    static char line[MESSAGE_BYTES * 4 + 1];
    escape(line, text);
    cmd_progress_end();
    fprintf(stderr, "%s: %s\n", cmd_name, line);
}

static void say(const char *fmt, va_list ap)
{
    char text[MESSAGE_BYTES];
    vsnprintf(text, sizeof text, fmt, ap);
    print_line(text);
}

void cmd_die(int status, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say(fmt, ap);
    va_end(ap);
    cmd_out_remove_temps();
    exit(status);
}

void cmd_note(const char *fmt, ...)
{
    if (cmd_quiet)
        return;
    va_list ap;
    va_start(ap, fmt);
    say(fmt, ap);
    va_end(ap);
}

void cmd_detail(const char *fmt, ...)
{
    if (!cmd_verbose)
        return;
    va_list ap;
    va_start(ap, fmt);
    say(fmt, ap);
    va_end(ap);
}

void cmd_notes(char *notes)
{
    for (char *line = notes; line && *line;) {
        size_t n = strcspn(line, "\n");
        cmd_note("%.*s", (int)n, line);
        line += n + (line[n] == '\n');
    }
    free(notes);
}

/* A signal ends the process as itself, once everything is tidy. */
static void leave_by_signal(void)
{
    cmd_progress_end();
    cmd_out_remove_temps();
    if (cmd_last)
        cmd_last();
    signal(cmd_cancel, SIG_DFL);
    raise(cmd_cancel);
    exit(5);
}

void cmd_report(const struct akv_err *err)
{
    if (err->code == AKV_E_CANCEL && cmd_cancel)
        leave_by_signal();
    int status = akv_exit_status(err->code);
    if (status > worst_status)
        worst_status = status;
    print_line(err->msg);
}

void cmd_report_save(const struct akv_err *err)
{
    static bool said;
    if (err->code && !said)
        cmd_report(err);
    said = said || err->code;
}

void cmd_die_err(const struct akv_err *err)
{
    cmd_report(err);
    cmd_out_remove_temps();
    exit(worst_status);
}

/* Two signals so soon after each other ask once: timeout(1), for one, sends its signal to the process and to its group. On a
 * busy machine a while may pass between the two. */
#define ONE_REQUEST_MS 1000

static void on_signal(int sig)
{
    static struct timespec first;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const long ms = (long)(now.tv_sec - first.tv_sec) * 1000 + (now.tv_nsec - first.tv_nsec) / 1000000;
    if (cmd_at_once || (cmd_cancel && ms >= ONE_REQUEST_MS)) { /* the second request does not wait */
        cmd_out_unlink();
        signal(sig, SIG_DFL);
        raise(sig); /* ends the process as soon as this returns */
    }
    if (cmd_cancel)
        return;
    first = now;
    cmd_cancel = sig;
}

/* A mapped file (model or object) became shorter under the mapping. What was computed from it is worth nothing. */
static void on_bus_error(int sig)
{
    static const char text[] = ": a file became shorter while it was in use\n";
    static atomic_flag said = ATOMIC_FLAG_INIT;
    (void)sig;
    while (atomic_flag_test_and_set(&said)) /* another thread met it too, and is about to end the process */
        pause();
    cmd_out_unlink();
    if (write(STDERR_FILENO, cmd_name, strlen(cmd_name)) < 0 || write(STDERR_FILENO, text, sizeof text - 1) < 0)
        _exit(5);
    _exit(3);
}

/* Reads and waits end on these, unless the caller wants them ignored (nohup). */
static void catch_signals(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction sa = {.sa_handler = on_signal}, old;
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(signals[i], &sa, NULL);
    sa.sa_handler = on_bus_error;
    sigaction(SIGBUS, &sa, NULL);
}

void cmd_begin(const char *name)
{
    cmd_name = name;
    hold_standard_fds();
    signal(SIGXFSZ, SIG_IGN); /* a write over the limit is an error like a full disk */
    catch_signals();
}

void cmd_leave_if_none(uint64_t n_done)
{
    if (n_done || !worst_status)
        return;
    if (cmd_cancel)
        leave_by_signal();
    cmd_out_remove_temps();
    exit(worst_status);
}

int cmd_exit(void)
{
    if (cmd_cancel)
        leave_by_signal();
    return worst_status;
}

void *cmd_alloc(size_t n)
{
    void *p = calloc(1, n ? n : 1);
    if (!p)
        cmd_die(5, "out of memory");
    return p;
}

char *cmd_strdup(const char *s)
{
    size_t n = strlen(s) + 1;
    return memcpy(cmd_alloc(n), s, n);
}
