#include "base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define IN_BUF ((size_t)1 << 16)
#define PIPE_BYTES (1 << 20) /* what everybody may ask for, unless the administrator says otherwise */

int akv_file_open(int dir, const char *name, int flags, mode_t mode)
{
    int fd;
    do
        fd = openat(dir, name, flags, mode);
    while (fd < 0 && errno == EINTR);
    return fd;
}

int akv_file_sync(int fd)
{
    int rc;
    do
        rc = fsync(fd);
    while (rc < 0 && errno == EINTR);
    return rc;
}

int akv_file_close(int fd)
{
    return close(fd) < 0 && errno != EINTR ? -1 : 0;
}

int akv_file_link(int from_dir, const char *from, int dir, const char *name)
{
    int rc;
    do
        rc = linkat(from_dir, from, dir, name, 0);
    while (rc < 0 && errno == EINTR);
    return rc;
}

int akv_file_rename(int from_dir, const char *from, int dir, const char *name, unsigned flags)
{
    int rc;
    do
        rc = renameat2(from_dir, from, dir, name, flags);
    while (rc < 0 && errno == EINTR);
    return rc;
}

void akv_pipe_widen(int fd)
{
    (void)fcntl(fd, F_SETPIPE_SZ, PIPE_BYTES);
}

#define LOOK_MS 100 /* how often a wait for a reader looks at cancel */

/* A pipe or a socket can be written to without waiting for its reader. */
static bool has_reader(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode));
}

/* For a while at most; EAGAIN: it does not read. What a FIFO has room for, if for anything, is PIPE_BUF bytes. */
static ssize_t write_fifo(int fd, const void *p, size_t n)
{
    int ready = poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, LOOK_MS);
    if (ready == 0)
        errno = EAGAIN;
    return ready > 0 ? write(fd, p, n < PIPE_BUF ? n : PIPE_BUF) : -1;
}

static ssize_t write_some(int fd, const void *p, size_t n, bool no_wait)
{
    struct iovec v = {.iov_base = (void *)(uintptr_t)p, .iov_len = n};
    ssize_t w = no_wait ? pwritev2(fd, &v, 1, -1, RWF_NOWAIT) : write(fd, p, n);
    return w < 0 && no_wait && (errno == EOPNOTSUPP || errno == ENOSYS) ? write_fifo(fd, p, n) : w;
}

int akv_write_out(int fd, const void *p, size_t n, const char *name, const volatile int *cancel, struct akv_err *err)
{
    const char *at = p;
    const bool no_wait = has_reader(fd);
    while (n) {
        ssize_t w = write_some(fd, at, n, no_wait);
        if (w < 0 && errno != EINTR && errno != EAGAIN)
            return akv_fail_errno(err, "%s: cannot write", name);
        if (w < 0 && cancel && *cancel)
            return akv_fail(err, AKV_E_CANCEL, "%s: interrupted", name);
        if (w < 0 && errno == EAGAIN)
            (void)poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, LOOK_MS);
        if (w > 0) {
            at += w;
            n -= (size_t)w;
        }
    }
    return 0;
}

int akv_write_all(int fd, const void *p, size_t n, const char *name, struct akv_err *err)
{
    return akv_write_out(fd, p, n, name, NULL, err);
}

/* One read(), again after a signal unless that one asks to stop. */
static ssize_t read_some(int fd, void *p, size_t n, const volatile int *cancel, const char *name, struct akv_err *err)
{
    for (;;) {
        ssize_t r = cancel && *cancel ? -1 : read(fd, p, n);
        if (r >= 0)
            return r;
        if (cancel && *cancel)
            return akv_fail(err, AKV_E_CANCEL, "%s: interrupted", name);
        if (errno != EINTR)
            return akv_fail_errno(err, "%s: cannot read", name);
    }
}

static ssize_t read_full(int fd, void *p, size_t n, const volatile int *cancel, const char *name, struct akv_err *err)
{
    char *at = p;
    size_t got = 0;
    while (got < n) {
        ssize_t r = read_some(fd, at + got, n - got, cancel, name, err);
        if (r < 0)
            return r;
        if (r == 0)
            break;
        got += (size_t)r;
    }
    return (ssize_t)got;
}

ssize_t akv_read_upto(int fd, void *p, size_t n, const char *name, struct akv_err *err)
{
    return read_full(fd, p, n, NULL, name, err);
}

int akv_in_open(struct akv_in *in, int fd, const char *name, struct akv_err *err)
{
    *in = (struct akv_in){.fd = fd, .cap = IN_BUF};
    in->name = akv_strndup(name, strlen(name), err);
    in->buf = akv_alloc(IN_BUF, 1, err);
    if (in->name && in->buf)
        return 0;
    akv_in_release(in);
    return AKV_E_IO;
}

int akv_in_open_with(struct akv_in *in, int fd, void *buf, size_t cap, const char *name, struct akv_err *err)
{
    *in = (struct akv_in){.fd = fd, .buf = buf, .cap = cap, .borrowed = true};
    in->name = akv_strndup(name, strlen(name), err);
    return in->name ? 0 : AKV_E_IO;
}

int akv_in_memory(struct akv_in *in, const void *p, size_t n, const char *name, struct akv_err *err)
{
    int rc = akv_in_open_with(in, -1, (void *)(uintptr_t)p, n, name, err);
    in->end = n;
    in->eof = in->in_memory = true;
    return rc;
}

int akv_in_switch(struct akv_in *in, int fd, const char *name, struct akv_err *err)
{
    char *copy = akv_strndup(name, strlen(name), err);
    if (!copy)
        return AKV_E_IO;
    free(in->name);
    in->name = copy;
    in->fd = fd;
    in->at = in->end = 0;
    in->offset = 0;
    in->eof = in->in_text = false;
    return 0;
}

void akv_in_release(struct akv_in *in)
{
    free(in->name);
    if (!in->borrowed)
        free(in->buf);
    *in = (struct akv_in){.fd = -1};
}

/* One read() into the free end of the buffer, after moving what is left to its start. */
static int fill(struct akv_in *in, struct akv_err *err)
{
    if (in->at) {
        memmove(in->buf, in->buf + in->at, in->end - in->at);
        in->end -= in->at;
        in->at = 0;
    }
    if (in->eof)
        return 0;
    ssize_t r = read_some(in->fd, in->buf + in->end, in->cap - in->end, in->cancel, in->name, err);
    if (r < 0)
        return (int)r;
    in->eof = r == 0;
    in->end += (size_t)r;
    return 0;
}

ssize_t akv_in_peek(struct akv_in *in, const uint8_t **p, size_t n, struct akv_err *err)
{
    while (in->end - in->at < n && !in->eof) {
        int rc = fill(in, err);
        if (rc < 0)
            return rc;
    }
    *p = in->buf + in->at;
    size_t have = in->end - in->at;
    return (ssize_t)(have < n ? have : n);
}

int akv_in_read(struct akv_in *in, void *p, size_t n, struct akv_err *err)
{
    size_t have = in->end - in->at;
    size_t take = have < n ? have : n;
    memcpy(p, in->buf + in->at, take);
    in->at += take;
    ssize_t more = 0;
    if (take < n && !in->eof) {
        more = read_full(in->fd, (char *)p + take, n - take, in->cancel, in->name, err);
        if (more < 0)
            return (int)more;
        in->eof = (size_t)more < n - take;
    }
    size_t got = take + (size_t)more;
    in->offset += got;
    if (in->digest)
        akv_sha_add(in->digest, p, got);
    if (got == n)
        return 1;
    if (got == 0)
        return 0;
    return akv_fail(err, AKV_E_INPUT, "%s: offset %llu: input ends in the middle of a record", in->name,
                    (unsigned long long)in->offset);
}

const uint8_t *akv_in_take(struct akv_in *in, size_t n)
{
    if (!in->in_memory || in->end - in->at < n)
        return NULL;
    const uint8_t *p = in->buf + in->at;
    akv_in_skip(in, n);
    return p;
}

void akv_in_skip(struct akv_in *in, size_t n)
{
    if (in->digest)
        akv_sha_add(in->digest, in->buf + in->at, n);
    in->at += n;
    in->offset += n;
}

int akv_map_open(struct akv_map *m, const char *path, struct akv_err *err)
{
    *m = (struct akv_map){.fd = -1};
    int fd = akv_file_open(AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0); /* a FIFO is refused, not waited on */
    if (fd < 0)
        return akv_fail_errno(err, "%s: cannot open", path);
    struct stat st;
    int rc = 0;
    if (fstat(fd, &st) < 0)
        rc = akv_fail_errno(err, "%s: cannot stat", path);
    else if (S_ISDIR(st.st_mode))
        rc = akv_fail(err, AKV_E_INPUT, "%s: is a directory", path);
    else if (!S_ISREG(st.st_mode))
        rc = akv_fail(err, AKV_E_INPUT, "%s: not a regular file", path);
    else if (st.st_size == 0)
        rc = akv_fail(err, AKV_E_INPUT, "%s: empty file", path);
    if (rc < 0) {
        close(fd);
        return rc;
    }
    void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) {
        rc = akv_fail_errno(err, "%s: cannot map", path);
        close(fd);
        return rc;
    }
    /* A wish: what of it the system has not in memory yet is read in huge pages, and they serve those who map it later. */
    (void)madvise(p, (size_t)st.st_size, MADV_HUGEPAGE);
    *m = (struct akv_map){.data = p, .size = (size_t)st.st_size, .fd = fd};
    return 0;
}

void akv_map_want(const void *p, size_t n)
{
#ifdef MADV_POPULATE_READ /* Linux 5.14 */
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)p & ~(page - 1);
    (void)madvise((void *)from, (uintptr_t)p + n - from, MADV_POPULATE_READ);
#else
    (void)p, (void)n;
#endif
}

void akv_map_close(struct akv_map *m)
{
    if (m->fd < 0)
        return;
    munmap((void *)(uintptr_t)m->data, m->size);
    close(m->fd);
    *m = (struct akv_map){.fd = -1};
}
