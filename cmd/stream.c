#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd.h"

static char *live_temp; /* the temporary to remove when the tool dies */

/* open(2), again after a signal unless that one asks to stop: a FIFO waits for its other end. */
static int open_file(const char *name, int flags)
{
    int fd;
    do
        fd = open(name, flags | O_CLOEXEC);
    while (fd < 0 && errno == EINTR && !cmd_cancel);
    return fd;
}

/* "name: what: why", or as the signal asks that ended a wait. */
__attribute__((noreturn)) static void die_errno(const char *name, const char *what)
{
    struct akv_err err = {.code = errno == EINTR ? AKV_E_CANCEL : AKV_E_IO};
    snprintf(err.msg, sizeof err.msg, "%.900s: %s: %s", name, what, strerror(errno));
    cmd_die_err(&err);
}

static void inputs_init(struct cmd_inputs *i, int argc, char **argv)
{
    static char dash[] = "-";
    static char *only_stdin[] = {dash};
    *i = (struct cmd_inputs){
        .names = argc ? argv : only_stdin, .n = argc ? argc : 1, .fd = -1, .apart = i->apart, .with_empty = i->with_empty};
}

const char *cmd_input_name(const struct cmd_inputs *i)
{
    return strcmp(i->names[i->at], "-") ? i->names[i->at] : "standard input";
}

/* Open the current operand; false: it was said why not. */
static bool open_input(struct cmd_inputs *i)
{
    const char *name = cmd_input_name(i);
    bool is_stdin = name != i->names[i->at];
    struct akv_err err = {0};
    struct stat st;
    i->fd = is_stdin ? STDIN_FILENO : open_file(name, O_RDONLY);
    if (i->fd < 0 || fstat(i->fd, &st) < 0) {
        err.code = errno == EINTR ? AKV_E_CANCEL : AKV_E_IO;
        snprintf(err.msg, sizeof err.msg, "%.900s: cannot open: %s", name, strerror(errno));
    } else if (S_ISDIR(st.st_mode)) {
        err.code = AKV_E_INPUT;
        snprintf(err.msg, sizeof err.msg, "%.900s: is a directory", name);
    } else if (i->in) {
        akv_input_next(i->in, i->fd, name, &err);
    } else {
        akv_input_open(&i->in, i->fd, name, &cmd_cancel, &err);
    }
    if (!err.code)
        return true;
    cmd_report(&err);
    return false;
}

struct akv_input *cmd_input(struct cmd_inputs *i)
{
    while (!i->reading && i->at < i->n) {
        i->reading = open_input(i);
        if (!i->reading) {
            i->any = true; /* its own error speaks, not "empty input" */
            cmd_input_done(i);
        } else if (akv_input_kind(i->in) == AKV_KIND_EMPTY && !i->with_empty) {
            cmd_input_done(i);
        }
    }
    i->any = i->any || i->reading;
    return i->reading ? i->in : NULL;
}

void cmd_input_done(struct cmd_inputs *i)
{
    if (i->fd > STDERR_FILENO)
        close(i->fd);
    i->fd = -1;
    i->reading = false;
    if (++i->at < i->n && !i->apart)
        return;
    akv_input_close(i->in);
    i->in = NULL;
}

void cmd_first_input(struct cmd_inputs *i, int argc, char **argv)
{
    inputs_init(i, argc, argv);
    if (cmd_input(i))
        return;
    cmd_leave_if_none(0); /* it was said why */
    cmd_die(3, "%s: empty input", i->n == 1 ? strcmp(i->names[0], "-") ? i->names[0] : "standard input" : "all files");
}

/* 1: go on with this input, 0: it is at its end. */
static int next_request(struct cmd_inputs *i, struct akv_session *s,
                        int (*fn)(void *ctx, struct akv_session *s, const struct akv_request *r, struct akv_err *err), void *ctx)
{
    struct akv_err err = {0};
    struct akv_request *r = NULL;
    int rc = akv_session_next(s, i->in, &r, &err);
    if (rc == 0)
        return 0;
    if (rc > 0)
        rc = fn(ctx, s, r, &err);
    akv_request_free(r);
    if (rc == 0 || rc == AKV_E_NO)
        i->n_done++;
    if (rc == 0)
        return 1;
    if (akv_exit_status(rc) == 5 || !akv_session_can_go_on(s))
        cmd_die_err(&err);
    cmd_report(&err);
    return 1;
}

void cmd_each_request(struct cmd_inputs *i, struct akv_session *s,
                      int (*fn)(void *ctx, struct akv_session *s, const struct akv_request *r, struct akv_err *err), void *ctx)
{
    for (; cmd_input(i); cmd_input_done(i))
        while (next_request(i, s, fn, ctx))
            ;
    cmd_leave_if_none(i->n_done);
}

char *cmd_slurp(const char *path, size_t most, size_t *len)
{
    int fd = strcmp(path, "-") ? open_file(path, O_RDONLY) : STDIN_FILENO;
    if (fd < 0)
        die_errno(path, "cannot open");
    size_t cap = 4096, n = 0;
    char *buf = cmd_alloc(cap);
    for (;;) {
        ssize_t r = read(fd, buf + n, cap - n - 1);
        if (r < 0 && errno == EINTR && !cmd_cancel)
            continue;
        if (r < 0)
            die_errno(path, "cannot read");
        if (r == 0)
            break;
        n += (size_t)r;
        if (n > most)
            cmd_die(3, "%s: larger than %zu bytes", path, most);
        if (cap - n < 2) {
            char *grown = realloc(buf, cap *= 2);
            if (!grown)
                cmd_die(5, "out of memory");
            buf = grown;
        }
    }
    if (fd != STDIN_FILENO)
        close(fd);
    buf[n] = '\0';
    *len = n;
    return buf;
}

void cmd_out_unlink(void)
{
    if (live_temp)
        unlink(live_temp);
}

void cmd_out_remove_temps(void)
{
    cmd_out_unlink();
    live_temp = NULL;
}

/* A new file beside the one of that name, to be removed unless it is committed. */
static void open_beside(struct cmd_out *o, const char *path)
{
    size_t n = strlen(path) + 16;
    o->temp = cmd_alloc(n);
    const char *slash = strrchr(path, '/');
    int dir = slash ? (int)(slash - path + 1) : 0;
    do {
        snprintf(o->temp, n, "%.*s.akv-XXXXXX", dir, path);
        o->fd = mkostemp(o->temp, O_CLOEXEC);
    } while (o->fd < 0 && errno == EINTR && !cmd_cancel);
    if (o->fd < 0)
        return;
    live_temp = o->temp;
    mode_t mask = umask(0);
    umask(mask);
    if (fchmod(o->fd, 0666 & ~mask))
        die_errno(path, "cannot set its mode");
}

/* A regular file is written beside its name and moved there when complete; devices and FIFOs are written in place. */
static void open_path(struct cmd_out *o, const char *path)
{
    struct stat st;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        o->fd = open_file(path, O_WRONLY);
    else
        open_beside(o, path);
    if (o->fd < 0)
        die_errno(path, "cannot write");
}

void cmd_out_open(struct cmd_out *o, const char *path, bool binary)
{
    *o = (struct cmd_out){.fd = STDOUT_FILENO, .name = "standard output"};
    if (path && !*path)
        cmd_die(2, "--output: an empty file name");
    if (path && strcmp(path, "-")) {
        o->name = path;
        struct stat st;
        if (lstat(path, &st) == 0 && S_ISLNK(st.st_mode)) { /* what it points to is replaced, not the link */
            char *target = realpath(path, NULL);
            o->name = target ? target : path;
        }
        open_path(o, o->name);
    } else if ((fcntl(STDOUT_FILENO, F_GETFL) & O_ACCMODE) == O_RDONLY) {
        cmd_die(5, "standard output: cannot write: it is closed");
    }
    if (binary && isatty(o->fd))
        cmd_die(2, "will not write a binary stream to a terminal: redirect it or use -o FILE");
}

bool cmd_out_try(struct cmd_out *o, const void *p, size_t n)
{
    const char *at = p;
    while (n) {
        ssize_t w = write(o->fd, at, n);
        if (w < 0 && errno == EINTR && !cmd_cancel)
            continue;
        if (w < 0)
            return false;
        at += w;
        n -= (size_t)w;
        if (n && cmd_cancel) { /* a signal ended the wait for the reader in the middle */
            errno = EINTR;
            return false;
        }
    }
    return true;
}

void cmd_out_fail(struct cmd_out *o, int error, bool pipe_kills)
{
    if (error == EPIPE && pipe_kills) {
        cmd_progress_end();
        cmd_out_remove_temps();
        signal(SIGPIPE, SIG_DFL);
        raise(SIGPIPE);
    }
    errno = error;
    die_errno(o->name, "cannot write");
}

void cmd_out_write(struct cmd_out *o, const void *p, size_t n)
{
    if (!cmd_out_try(o, p, n))
        cmd_out_fail(o, errno, false);
}

void cmd_out_line(struct cmd_out *o, const char *text)
{
    cmd_out_write(o, text, strlen(text));
    cmd_out_write(o, "\n", 1);
}

/* Sync, close and move into place, whatever signals come: only a complete file gets its name. An interrupted close has closed. */
static bool finish(const struct cmd_out *o)
{
    int rc = 0;
    while (o->temp && (rc = fsync(o->fd)) < 0 && errno == EINTR)
        ;
    if (rc < 0 || (close(o->fd) < 0 && errno != EINTR))
        return false;
    while (o->temp && (rc = rename(o->temp, o->name)) < 0 && errno == EINTR)
        ;
    return rc == 0;
}

void cmd_out_commit(struct cmd_out *o)
{
    if (!finish(o))
        die_errno(o->name, "cannot write");
    live_temp = NULL;
    free(o->temp);
    o->fd = -1;
    o->temp = NULL;
}
