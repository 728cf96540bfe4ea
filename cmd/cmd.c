#include "cmd.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *cmd_name = "akv";
volatile int cmd_cancel;
int cmd_quiet, cmd_verbose;

static int worst_status;

static void say(const char *fmt, va_list ap)
{
    cmd_progress_end();
    fprintf(stderr, "%s: ", cmd_name);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
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
    cmd_progress_end();
    fprintf(stderr, "%s: %s\n", cmd_name, err->msg);
}

void cmd_die_err(const struct akv_err *err)
{
    cmd_report(err);
    cmd_out_remove_temps();
    exit(worst_status);
}

static void on_signal(int sig)
{
    if (cmd_cancel) /* the second one does not wait */
        _exit(128 + sig);
    cmd_cancel = sig;
}

void cmd_catch_signals(void)
{
    struct sigaction sa = {.sa_handler = on_signal};
    sigaction(SIGINT, &sa, NULL);
    sigaction(SIGTERM, &sa, NULL);
    sigaction(SIGHUP, &sa, NULL);
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
