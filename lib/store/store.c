/* The store: opening and making it, its lock, reading and publishing pages. */
#include "store/store_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

/* Between two attempts at the shared and at the exclusive lock. */
#define TRY_NS 20000000
#define TRY_ALONE_NS 1000000

static const char *const parts[] = {"objects", "refs", "tmp", "quarantine"};
#define N_PARTS (sizeof parts / sizeof parts[0])

static int *part_fd(struct akv_store *s, size_t i)
{
    int *fds[N_PARTS] = {&s->objects, &s->refs, &s->tmp, &s->quarantine};
    return fds[i];
}

void akv_store_close(struct akv_store *s)
{
    if (!s)
        return;
    akv_object_release(&s->object);
    for (size_t i = 0; i < N_PARTS; i++)
        if (*part_fd(s, i) >= 0)
            close(*part_fd(s, i));
    if (s->lock >= 0)
        close(s->lock);
    if (s->root >= 0)
        close(s->root);
    free(s->dir);
    free(s);
}

enum akv_codec akv_store_codec(const struct akv_store *s)
{
    return s->codec;
}

/* ---- its directory ---- */

int akv_store_trust(const struct stat *st, const char *path, const char *rel, struct akv_err *err)
{
    const char *slash = *rel ? "/" : "";
    if (st->st_uid != geteuid() && st->st_uid != 0)
        return akv_fail(err, AKV_E_IO, "%s%s%s: not trusted: it belongs to another user (uid %lu)", path, slash, rel,
                        (unsigned long)st->st_uid);
    if (st->st_mode & (S_IWGRP | S_IWOTH))
        return akv_fail(err, AKV_E_IO, "%s%s%s: not trusted: it is writable by others (mode %04o)", path, slash, rel,
                        (unsigned)st->st_mode & 07777u);
    return 0;
}

int akv_store_dir(int at, const char *name)
{
    struct stat st;
    int fd = akv_file_open(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
    if (fd >= 0 && (fstat(fd, &st) < 0 || akv_store_trust(&st, "", "", NULL) < 0)) {
        close(fd);
        errno = EPERM;
        return -1;
    }
    return fd;
}

DIR *akv_store_list(int at, const char *name)
{
    int fd = akv_store_dir(at, name);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d && fd >= 0) {
        int saved = errno;
        close(fd);
        errno = saved;
    }
    return d;
}

int akv_store_fail_dir(const struct akv_store *s, const char *rel, const char *name, struct akv_err *err)
{
    if (errno == EPERM)
        return akv_fail(err, AKV_E_IO, "%s/%s/%s: not trusted: it belongs to another user or is writable by others", s->dir, rel,
                        name);
    return akv_fail_errno(err, "%s/%s/%s: cannot use the directory", s->dir, rel, name);
}

int akv_store_temp(struct akv_store *s, char name[64], struct akv_err *err)
{
    for (;;) {
        snprintf(name, 64, "%ld.%u", (long)getpid(), s->n_temps++);
        int fd = akv_file_open(s->tmp, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd >= 0)
            return fd;
        if (errno != EEXIST) /* left by an earlier process of the same number */
            return akv_fail_errno(err, "%s/tmp: cannot create a file", s->dir);
    }
}

int akv_store_temp_of(struct akv_store *s, char name[64], const void *p, size_t n, struct akv_err *err)
{
    int fd = akv_store_temp(s, name, err);
    if (fd < 0)
        return fd;
    int rc = akv_write_all(fd, p, n, s->dir, err);
    if (rc == 0 && akv_file_sync(fd) < 0)
        rc = akv_fail_errno(err, "%s/tmp/%s: cannot sync", s->dir, name);
    if (akv_file_close(fd) < 0 && rc == 0)
        rc = akv_fail_errno(err, "%s/tmp/%s: cannot close", s->dir, name);
    if (rc < 0)
        unlinkat(s->tmp, name, 0);
    return rc;
}

/* ---- opening ---- */

/* Make the names in a directory durable. One that may be used but not read is left to the system. */
static int sync_dir(int at, const char *name)
{
    int fd = akv_file_open(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd < 0)
        return errno == EACCES ? 0 : -1;
    int rc = akv_file_sync(fd);
    int saved = errno;
    close(fd);
    errno = saved;
    return rc;
}

/* A directory and, durably, its name; path is changed and put back. */
static int make_dir(char *path, struct akv_err *err)
{
    if (mkdir(path, 0700) < 0)
        return errno == EEXIST ? 0 : akv_fail_errno(err, "%s: cannot create", path);
    char *slash = strrchr(path, '/');
    if (slash)
        *slash = '\0';
    int rc = sync_dir(AT_FDCWD, !slash ? "." : *path ? path : "/");
    if (slash)
        *slash = '/';
    return rc < 0 ? akv_fail_errno(err, "%s: cannot make the name durable", path) : 0;
}

/* mkdir -p, each new one 0700. */
static int make_path(const char *dir, struct akv_err *err)
{
    size_t len = strlen(dir);
    char *path = akv_strndup(dir, len, err);
    int rc = path ? 0 : AKV_E_IO;
    for (size_t i = 1; rc == 0 && i <= len; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        path[i] = '\0';
        rc = make_dir(path, err);
        if (i < len)
            path[i] = '/';
    }
    free(path);
    return rc;
}

/* 1: a store of our version; 0: VERSION is not there yet. */
static int check_version(struct akv_store *s, struct akv_err *err)
{
    char text[64], *end;
    static const char word[] = "akv-store ";
    int rc = akv_store_read_text(s, "VERSION", text, sizeof text, err);
    if (rc <= 0)
        return rc;
    if (strncmp(text, word, sizeof word - 1) || text[sizeof word - 1] < '1' || text[sizeof word - 1] > '9')
        return akv_fail(err, AKV_E_INPUT, "%s/VERSION: not that of a store", s->dir);
    unsigned long version = strtoul(text + sizeof word - 1, &end, 10);
    if (*end != '\n')
        return akv_fail(err, AKV_E_INPUT, "%s/VERSION: not that of a store", s->dir);
    if (version > AKV_STORE_VERSION)
        return akv_fail(err, AKV_E_INCOMPAT, "%s: the store has version %lu, this akv knows version %u", s->dir, version,
                        AKV_STORE_VERSION);
    return 1;
}

/* Nothing but parts of a store: a directory that somebody uses for other things must not be taken for one. */
static int check_contents(struct akv_store *s, struct akv_err *err)
{
    static const char known[] = " . .. VERSION config lock usage objects refs tmp quarantine ";
    DIR *d = akv_store_list(s->root, ".");
    int rc = 0;
    if (!d)
        return akv_fail_errno(err, "%s: cannot list", s->dir);
    for (struct dirent *e; rc == 0 && (e = readdir(d));) {
        char word[sizeof e->d_name + 2];
        snprintf(word, sizeof word, " %s ", e->d_name);
        if (strchr(e->d_name, ' ') || !strstr(known, word))
            rc = akv_fail(err, AKV_E_USAGE, "%s: no store can be made here: it holds other things ('%.40s')", s->dir, e->d_name);
    }
    closedir(d);
    return rc;
}

static int open_parts(struct akv_store *s, struct akv_err *err)
{
    for (size_t i = 0; i < N_PARTS; i++) {
        struct stat st;
        int fd = *part_fd(s, i);
        if (fd < 0)
            fd = *part_fd(s, i) = akv_file_open(s->root, parts[i], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
        if (fd < 0 && errno == ENOENT)
            continue;
        if (fd < 0 || fstat(fd, &st) < 0)
            return akv_fail_errno(err, "%s/%s: cannot open", s->dir, parts[i]);
        int rc = akv_store_trust(&st, s->dir, parts[i], err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* VERSION comes last: a directory with it is a whole store. */
static int complete(struct akv_store *s, bool is_store, struct akv_err *err)
{
    int rc = is_store ? 0 : check_contents(s, err);
    for (size_t i = 0; rc == 0 && i < N_PARTS; i++)
        if (*part_fd(s, i) < 0 && mkdirat(s->root, parts[i], 0700) < 0 && errno != EEXIST)
            rc = akv_fail_errno(err, "%s/%s: cannot create", s->dir, parts[i]);
    if (rc == 0)
        rc = open_parts(s, err);
    if (rc == 0 && !is_store) {
        rc = akv_store_write_text(s, "config", "codec=planes\n", false, err);
        if (rc == 0)
            rc = akv_store_write_text(s, "VERSION", "akv-store 1\n", false, err);
    }
    /* also when another process made it a moment ago: what is published here must not outlive it */
    if (rc == 0 && (akv_file_sync(s->root) < 0 || sync_dir(s->root, "..") < 0))
        rc = akv_fail_errno(err, "%s: cannot sync", s->dir);
    return rc;
}

static int open_store(struct akv_store *s, unsigned flags, struct akv_err *err)
{
    struct stat st;
    int rc = 0;
    s->root = akv_file_open(AT_FDCWD, s->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (s->root < 0 && errno == ENOENT && (flags & AKV_STORE_CREATE)) {
        rc = make_path(s->dir, err);
        if (rc < 0)
            return rc;
        s->root = akv_file_open(AT_FDCWD, s->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    }
    if (s->root < 0 && errno == ENOENT)
        return akv_fail(err, AKV_E_NO, "%s: there is no store", s->dir);
    if (s->root < 0 || fstat(s->root, &st) < 0)
        return akv_fail_errno(err, "%s: cannot open the store", s->dir);
    rc = akv_store_trust(&st, s->dir, "", err);
    if (rc < 0)
        return rc;
    int is_store = check_version(s, err);
    if (is_store < 0)
        return is_store;
    if (!is_store && !(flags & AKV_STORE_CREATE))
        return akv_fail(err, AKV_E_NO, "%s: not a store, or a half-made one (no VERSION)", s->dir);
    rc = open_parts(s, err);
    if (rc == 0 && (flags & AKV_STORE_CREATE))
        rc = complete(s, is_store, err);
    return rc < 0 ? rc : akv_store_read_config(s, err);
}

int akv_store_open(struct akv_store **out, const char *dir, unsigned flags, struct akv_err *err)
{
    *out = NULL;
    if (!*dir)
        return akv_fail(err, AKV_E_USAGE, "store: an empty path");
    struct akv_store *s = akv_alloc(1, sizeof *s, err);
    if (!s)
        return AKV_E_IO;
    s->root = s->lock = -1;
    s->ops = &akv_objects_dir;
    akv_object_init(&s->object);
    for (size_t i = 0; i < N_PARTS; i++)
        *part_fd(s, i) = -1;
    s->codec = AKV_CODEC_PLANES;
    s->any_quota = flags & AKV_STORE_ANY_QUOTA;
    s->dir = akv_strndup(dir, strlen(dir), err);
    int rc = s->dir ? open_store(s, flags, err) : AKV_E_IO;
    if (rc < 0)
        akv_store_close(s);
    else
        *out = s;
    return rc;
}

/* ---- the lock ---- */

void akv_store_set_cancel(struct akv_store *s, const volatile int *cancel)
{
    s->cancel = cancel;
}

/*
 * A collection holds others up for as long as a minute, so that a wait for it must end when that is asked for; and the signal may come to
 * another thread than this one. So the lock is tried again and again, the exclusive one more often: who publishes lets go for moments.
 */
static int wait_lock(struct akv_store *s, int how, struct akv_err *err)
{
    long pause = how == LOCK_EX ? TRY_ALONE_NS : TRY_NS;
    while (flock(s->lock, s->cancel ? how | LOCK_NB : how) < 0) {
        if (errno != EINTR && errno != EWOULDBLOCK)
            return akv_fail_errno(err, "%s/lock: cannot lock", s->dir);
        if (s->cancel && *s->cancel)
            return akv_fail(err, AKV_E_CANCEL, "interrupted");
        if (errno == EWOULDBLOCK)
            nanosleep(&(struct timespec){.tv_nsec = pause}, NULL);
    }
    return 0;
}

static int take_lock(struct akv_store *s, int how, struct akv_err *err)
{
    if (s->tmp < 0 || s->objects < 0 || s->refs < 0)
        return akv_fail(err, AKV_E_USAGE, "%s: the store was opened for reading", s->dir);
    if (s->lock < 0)
        s->lock = akv_file_open(s->root, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (s->lock < 0)
        return akv_fail_errno(err, "%s/lock: cannot open", s->dir);
    int rc = wait_lock(s, how, err);
    s->n_batches += rc == 0;
    return rc;
}

int akv_store_batch_begin(struct akv_store *s, struct akv_err *err)
{
    if (!s->n_batches)
        return take_lock(s, LOCK_SH, err);
    s->n_batches++;
    return 0;
}

void akv_store_batch_end(struct akv_store *s)
{
    if (s->n_batches && --s->n_batches == 0)
        flock(s->lock, LOCK_UN);
}

int akv_store_alone_begin(struct akv_store *s, struct akv_err *err)
{
    return take_lock(s, LOCK_EX, err);
}

int akv_store_alone_end(struct akv_store *s, struct akv_err *err)
{
    if (--s->n_batches)
        return wait_lock(s, LOCK_SH, err);
    flock(s->lock, LOCK_UN);
    return 0;
}

int akv_store_look_begin(struct akv_store *s, struct akv_err *err)
{
    if (s->lock < 0)
        s->lock = akv_file_open(s->root, "lock", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0);
    if (s->lock < 0)
        return 0;
    int rc = s->n_batches ? 0 : wait_lock(s, LOCK_SH, err);
    s->n_batches++;
    if (rc < 0)
        akv_store_look_end(s);
    return rc;
}

void akv_store_look_end(struct akv_store *s)
{
    if (!s->n_batches || --s->n_batches)
        return;
    close(s->lock); /* opened for reading it would not do for every lock on every file system */
    s->lock = -1;
}
