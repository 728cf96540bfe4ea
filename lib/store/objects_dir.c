/* Objects in the directory objects/ of a local store. No link inside the store is followed. */
#include "store/store_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The ab/ directory of an object, or -1 with errno. */
static int open_fan(struct akv_store *s, const struct akv_object_name *name)
{
    char ab[3] = {name->s[0], name->s[1], '\0'};
    return akv_store_dir(s->objects, ab);
}

/* The part of the name behind ab/. */
static const char *base(const struct akv_object_name *name)
{
    return name->s + 3;
}

/* ---- quarantine ---- */

/* quarantine/, made when a copy has left it out. */
static int open_quarantine(struct akv_store *s)
{
    if (s->quarantine >= 0)
        return dup(s->quarantine);
    (void)mkdirat(s->root, "quarantine", 0700);
    return akv_store_dir(s->root, "quarantine");
}

/*
 * Move to quarantine/ under a free name; to receives it. No look before a move is sure to see what is moved, so that what was moved is
 * looked at: another instance is a right page, which another process has put there since. It goes back, or, when yet another one stands
 * there by now, away.
 */
static bool move_away(struct akv_store *s, const struct akv_object_name *name, uint64_t instance, int dir, char to[96])
{
    struct stat st;
    unsigned i = 0;
    int rc;
    do {
        snprintf(to, 96, "%.2s%.62s.%u", name->s, base(name), i);
        rc = akv_file_rename(s->objects, name->s, dir, to, RENAME_NOREPLACE);
    } while (rc < 0 && errno == EEXIST && ++i < 10000);
    if (rc < 0 || fstatat(dir, to, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return false;
    if (st.st_ino == instance)
        return true;
    if (akv_file_rename(dir, to, s->objects, name->s, RENAME_NOREPLACE) < 0 && errno == EEXIST)
        unlinkat(dir, to, 0);
    return false;
}

static void write_reason(int dir, const struct akv_object_name *name, const char *to, const char *reason)
{
    char note[104];
    struct akv_buf b;
    snprintf(note, sizeof note, "%s.why", to);
    int out = akv_file_open(dir, note, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (out < 0)
        return;
    akv_buf_init(&b, 0);
    akv_buf_printf(&b, "object %s\nreason %s\n", name->s, reason);
    (void)akv_write_all(out, b.data, b.len, note, NULL);
    akv_buf_release(&b);
    close(out);
}

static void dir_set_aside(struct akv_store *s, const struct akv_object_name *name, const struct akv_object_info *seen,
                          const char *reason)
{
    struct stat st;
    char to[96];
    if (s->objects < 0 || fstatat(s->objects, name->s, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return;
    if (seen->instance != st.st_ino)
        return; /* a right one is not away for a moment when that can be known before */
    int dir = open_quarantine(s);
    if (dir < 0)
        return;
    if (move_away(s, name, seen->instance, dir, to))
        write_reason(dir, name, to, reason);
    close(dir);
}

/* ---- reading ---- */

static struct akv_object_info info_of(const struct stat *st)
{
    return (struct akv_object_info){.bytes = (uint64_t)st->st_size,
                                    .used = (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec,
                                    .instance = st->st_ino};
}

static bool dir_has(struct akv_store *s, const struct akv_object_name *name, struct akv_object_info *info)
{
    struct stat st;
    if (s->objects < 0 || fstatat(s->objects, name->s, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
        return false;
    if (info)
        *info = info_of(&st);
    return true;
}

static bool dir_ahead(struct akv_store *s, const struct akv_object_name *name)
{
    int fd = s->objects < 0 ? -1 : openat(s->objects, name->s, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return s->objects >= 0 && errno != ENOENT; /* what else is wrong with it, reading will tell */
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_WILLNEED);
    close(fd);
    return true;
}

/* Open for reading: a descriptor; or -1: not there, with err filled in when it was not plain absence. */
static int open_object(struct akv_store *s, const struct akv_object_name *name, struct stat *st, struct akv_err *err)
{
    char path[80];
    if (s->objects < 0)
        return -1;
    int fd = -1, fan = open_fan(s, name);
    if (fan >= 0)
        fd = akv_file_open(fan, base(name), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0);
    int saved = errno;
    if (fan >= 0)
        close(fan);
    errno = saved;
    if (fd < 0 && errno == ENOENT)
        return -1;
    if (fan < 0) {
        akv_store_fail_dir(s, "objects", (char[]){name->s[0], name->s[1], '\0'}, err);
        return -1;
    }
    if (fd < 0 && errno != ELOOP && errno != ENXIO) {
        akv_fail_errno(err, AKV_OBJECT_FMT ": cannot open", s->dir, name->s);
        return -1;
    }
    /* a link or a socket */
    if (fd < 0 && (fstatat(s->objects, name->s, st, AT_SYMLINK_NOFOLLOW) < 0 || S_ISREG(st->st_mode)))
        return -1; /* gone by now */
    snprintf(path, sizeof path, "objects/%s", name->s);
    if (fd < 0 || fstat(fd, st) < 0 || !S_ISREG(st->st_mode))
        akv_fail(err, AKV_E_INPUT, "%s/%s: not a regular file", s->dir, path);
    else if (akv_store_trust(st, s->dir, path, err) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

static int dir_open(struct akv_store *s, const struct akv_object_name *name, int *fd, struct akv_object_info *info,
                    struct akv_err *err)
{
    struct stat st = {0};
    struct akv_err why = {0};
    *fd = open_object(s, name, &st, &why);
    *info = info_of(&st);
    return *fd >= 0 ? 1 : why.code ? akv_fail(err, why.code, "%s", why.msg) : 0;
}

static int dir_get(struct akv_store *s, const struct akv_object_name *name, uint64_t from, size_t most, struct akv_buf *into,
                   struct akv_object_info *info, struct akv_err *err)
{
    struct stat st;
    /* a miss is the common answer (a lookup tries 63 tail lengths): one call for it */
    if (s->objects < 0 || (fstatat(s->objects, name->s, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT))
        return 0;
    int fd, rc = dir_open(s, name, &fd, info, err);
    if (rc != 1)
        return rc;
    uint64_t left = info->bytes > from ? info->bytes - from : 0;
    size_t n = left < most ? (size_t)left : most;
    char *p = akv_buf_reserve(into, n);
    if (!p || (from && lseek(fd, (off_t)from, SEEK_SET) < 0))
        rc = p ? akv_fail_errno(err, AKV_OBJECT_FMT ": cannot seek", s->dir, name->s) : akv_buf_check(into, "object", err);
    ssize_t got = rc < 0 ? rc : akv_read_upto(fd, p, n, name->s, err);
    close(fd);
    if (got < 0)
        return (int)got;
    into->len += (size_t)got;
    into->data[into->len] = '\0';
    return 1;
}

static void dir_touch(struct akv_store *s, const struct akv_object_name *name)
{
    if (s->objects >= 0)
        (void)utimensat(s->objects, name->s, NULL, AT_SYMLINK_NOFOLLOW);
}

/* ---- publishing ---- */

/* The directories in objects/ survive a loss of power, whoever made them. */
static int settle_fans(struct akv_store *s)
{
    bool there[256];
    for (unsigned i = 0; i < 256; i++) {
        char ab[3];
        struct stat st;
        snprintf(ab, sizeof ab, "%02x", i);
        there[i] = fstatat(s->objects, ab, &st, AT_SYMLINK_NOFOLLOW) == 0;
    }
    if (akv_file_sync(s->objects) < 0)
        return -1;
    memcpy(s->fan_durable, there, sizeof there);
    return 0;
}

/* Open the ab/ directory, making it when it is not there. */
static int make_fan(struct akv_store *s, const struct akv_object_name *name, struct akv_err *err)
{
    char ab[3] = {name->s[0], name->s[1], '\0'};
    int fd = open_fan(s, name);
    if (fd < 0 && errno == ENOENT && (mkdirat(s->objects, ab, 0700) == 0 || errno == EEXIST))
        fd = open_fan(s, name);
    if (fd >= 0 && (s->fan_durable[strtoul(ab, NULL, 16)] || settle_fans(s) == 0))
        return fd;
    int rc = akv_store_fail_dir(s, "objects", ab, err);
    if (fd >= 0)
        close(fd);
    return rc;
}

static int sync_fan(struct akv_store *s, int fan, const struct akv_object_name *name, struct akv_err *err)
{
    return akv_file_sync(fan) < 0 ? akv_fail_errno(err, AKV_OBJECT_FMT ": cannot make the name durable", s->dir, name->s) : 0;
}

static int dir_settle(struct akv_store *s, const struct akv_object_name *name, struct akv_err *err)
{
    int fan = make_fan(s, name, err);
    if (fan < 0)
        return fan;
    int rc = sync_fan(s, fan, name, err);
    close(fan);
    return rc;
}

static int dir_put(struct akv_store *s, const char *temp, const struct akv_object_name *name, struct akv_err *err)
{
    int fan = make_fan(s, name, err);
    if (fan < 0)
        return fan;
    int rc = 1;
    if (akv_file_link(s->tmp, temp, fan, base(name)) < 0)
        rc = errno == EEXIST ? 0 : akv_fail_errno(err, AKV_OBJECT_FMT ": cannot link", s->dir, name->s);
    /* also when another was first: what the caller builds on it must not outlive it */
    int synced = rc < 0 ? rc : sync_fan(s, fan, name, err);
    close(fan);
    return synced < 0 ? synced : rc;
}

static int dir_remove(struct akv_store *s, const struct akv_object_name *name, struct akv_err *err)
{
    if (unlinkat(s->objects, name->s, 0) == 0 || errno == ENOENT)
        return 0;
    return akv_fail_errno(err, AKV_OBJECT_FMT ": cannot remove", s->dir, name->s);
}

/* ---- listing ---- */

static bool is_hex(const char *s, size_t n)
{
    return strspn(s, "0123456789abcdef") >= n;
}

static int list_fan(struct akv_store *s, const char *ab, akv_object_fn *fn, void *ctx, struct akv_err *err)
{
    DIR *d = akv_store_list(s->objects, ab);
    int rc = 0;
    if (!d)
        return akv_store_fail_dir(s, "objects", ab, err);
    for (struct dirent *e; rc == 0 && (e = readdir(d));) {
        struct akv_object_name name;
        if (strlen(e->d_name) != 66 || !is_hex(e->d_name, 62) || strcmp(e->d_name + 62, ".akv"))
            continue;
        snprintf(name.s, sizeof name.s, "%.2s/%.66s", ab, e->d_name);
        rc = fn(ctx, &name, err);
    }
    closedir(d);
    return rc;
}

/* 1: there is a directory ab/; 0: nothing of that name; AKV_E_INPUT: something else. */
static int look_at_fan(struct akv_store *s, const char *ab, struct akv_err *err)
{
    struct stat st;
    if (s->objects < 0)
        return 0;
    if (fstatat(s->objects, ab, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : akv_store_fail_dir(s, "objects", ab, err);
    if (!S_ISDIR(st.st_mode))
        return akv_fail(err, AKV_E_INPUT, "%s/objects/%s: not a directory: no object can be kept there", s->dir, ab);
    return 1;
}

static int dir_list(struct akv_store *s, akv_object_fn *fn, void *ctx, struct akv_err *err)
{
    int rc = 0;
    for (unsigned i = 0; rc == 0 && i < 256; i++) {
        char ab[3];
        struct akv_err why = {0};
        snprintf(ab, sizeof ab, "%02x", i);
        int there = look_at_fan(s, ab, &why);
        if (there == 1)
            rc = list_fan(s, ab, fn, ctx, err);
        else if (there < 0 && there != AKV_E_INPUT) /* not knowing is no answer */
            rc = akv_fail(err, there, "%s", why.msg);
    }
    return rc;
}

static void dir_blocked(struct akv_store *s, akv_blocked_fn *fn, void *ctx)
{
    for (unsigned i = 0; i < 256; i++) {
        char ab[3];
        struct akv_err why = {0};
        snprintf(ab, sizeof ab, "%02x", i);
        if (look_at_fan(s, ab, &why) == AKV_E_INPUT)
            fn(ctx, ab, why.msg);
    }
}

const struct akv_object_ops akv_objects_dir = {
    .has = dir_has,
    .ahead = dir_ahead,
    .open = dir_open,
    .get = dir_get,
    .put = dir_put,
    .remove = dir_remove,
    .settle = dir_settle,
    .touch = dir_touch,
    .list = dir_list,
    .blocked = dir_blocked,
    .set_aside = dir_set_aside,
};
