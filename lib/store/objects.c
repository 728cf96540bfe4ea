/* Objects as named blobs in a directory: open, publish, quarantine, list. No link inside the store is followed. */
#include "store/store_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"

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
    return openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

int akv_store_temp(struct akv_store *s, char name[64], struct akv_err *err)
{
    for (;;) {
        snprintf(name, 64, "%ld.%u", (long)getpid(), s->n_temps++);
        int fd = openat(s->tmp, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd >= 0)
            return fd;
        if (errno != EEXIST) /* left by an earlier process of the same number */
            return akv_fail_errno(err, "%s/tmp: cannot create a file", s->dir);
    }
}

int akv_object_name(struct akv_object_name *out, const struct akv_key *root, const struct akv_key *key, struct akv_err *err)
{
    struct akv_key index;
    char hex[AKV_SHA_HEX];
    int rc = akv_index_key(&index, root->b, sizeof root->b, key, err);
    if (rc < 0)
        return rc;
    akv_hex(hex, index.b, sizeof index.b);
    snprintf(out->s, sizeof out->s, "%.2s/%s.akv", hex, hex + 2);
    return 0;
}

/* The ab/ directory of an object, or -1 with errno. An untrusted one gives EPERM. */
static int open_fan(struct akv_store *s, const struct akv_object_name *name)
{
    char ab[3] = {name->s[0], name->s[1], '\0'};
    struct stat st;
    int fd = akv_store_dir(s->objects, ab);
    if (fd >= 0 && (fstat(fd, &st) < 0 || akv_store_trust(&st, "", "", NULL) < 0)) {
        close(fd);
        errno = EPERM;
        return -1;
    }
    return fd;
}

/* The part of the name behind ab/. */
static const char *base(const struct akv_object_name *name)
{
    return name->s + 3;
}

int akv_object_open(struct akv_store *s, const struct akv_object_name *name, struct akv_err *why)
{
    struct stat st;
    /* a miss is the common answer (a lookup tries 63 tail lengths): one call for it */
    if (s->objects < 0 || (fstatat(s->objects, name->s, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT))
        return -1;
    int fd = -1, fan = open_fan(s, name);
    if (fan >= 0)
        fd = openat(fan, base(name), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    int saved = errno;
    if (fan >= 0)
        close(fan);
    errno = saved;
    if (fd < 0 && errno == ENOENT)
        return -1;
    if (fd < 0 && errno != ELOOP) {
        akv_fail_errno(why, AKV_OBJECT_FMT ": cannot open", s->dir, name->s);
        return -1;
    }
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        akv_fail(why, AKV_E_INPUT, AKV_OBJECT_FMT ": not a regular file", s->dir, name->s);
        akv_object_quarantine(s, name, fd, "not a regular file");
    } else if (akv_store_trust(&st, s->dir, name->s, why) == 0) {
        return fd;
    }
    if (fd >= 0)
        close(fd);
    return -1;
}

bool akv_object_has(struct akv_store *s, const struct akv_object_name *name)
{
    struct stat st;
    return s->objects >= 0 && fstatat(s->objects, name->s, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode);
}

/* Open the ab/ directory, making it when it is not there. */
static int make_fan(struct akv_store *s, const struct akv_object_name *name, struct akv_err *err)
{
    char ab[3] = {name->s[0], name->s[1], '\0'};
    int fd = open_fan(s, name);
    if (fd < 0 && errno == ENOENT && (mkdirat(s->objects, ab, 0700) == 0 || errno == EEXIST)) {
        fd = open_fan(s, name);
        if (fd >= 0 && fsync(s->objects) < 0) {
            close(fd);
            fd = -1;
        }
    }
    return fd >= 0 ? fd : akv_fail_errno(err, "%s/objects/%s: cannot use the directory", s->dir, ab);
}

int akv_object_link(struct akv_store *s, const char *temp, const struct akv_object_name *name, struct akv_err *err)
{
    int fan = make_fan(s, name, err);
    if (fan < 0)
        return fan;
    int rc = 1;
    if (linkat(s->tmp, temp, fan, base(name), 0) < 0)
        rc = errno == EEXIST ? 0 : akv_fail_errno(err, AKV_OBJECT_FMT ": cannot link", s->dir, name->s);
    /* also when another was first: what the caller builds on it must not outlive it */
    if (rc >= 0 && fsync(fan) < 0)
        rc = akv_fail_errno(err, AKV_OBJECT_FMT ": cannot make the name durable", s->dir, name->s);
    close(fan);
    return rc;
}

/* Move to quarantine/ under a free name; to receives it. */
static bool move_away(struct akv_store *s, const struct akv_object_name *name, char to[96])
{
    for (unsigned i = 0; i < 10000; i++) {
        snprintf(to, 96, "%.2s%.62s.%u", name->s, base(name), i);
        if (renameat2(s->objects, name->s, s->quarantine, to, RENAME_NOREPLACE) == 0)
            return true;
        if (errno != EEXIST)
            return false;
    }
    return false;
}

void akv_object_quarantine(struct akv_store *s, const struct akv_object_name *name, int fd, const char *reason)
{
    struct stat is, was;
    char to[96], note[104];
    if (s->quarantine < 0 || fstatat(s->objects, name->s, &is, AT_SYMLINK_NOFOLLOW) < 0)
        return;
    if (fd >= 0 && (fstat(fd, &was) < 0 || was.st_dev != is.st_dev || was.st_ino != is.st_ino))
        return; /* another process has put a good one there since */
    if (!move_away(s, name, to))
        return;
    snprintf(note, sizeof note, "%s.why", to);
    int out = openat(s->quarantine, note, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (out < 0)
        return;
    struct akv_buf b;
    akv_buf_init(&b, 0);
    akv_buf_printf(&b, "object %s\nreason %s\n", name->s, reason);
    (void)akv_write_all(out, b.data, b.len, note, NULL);
    akv_buf_release(&b);
    close(out);
}

/* ---- listing ---- */

static bool is_hex(const char *s, size_t n)
{
    return strspn(s, "0123456789abcdef") >= n;
}

static int list_fan(struct akv_store *s, const char *ab,
                    int (*fn)(void *ctx, const struct akv_object_name *name, struct akv_err *err), void *ctx, struct akv_err *err)
{
    int fd = akv_store_dir(s->objects, ab);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) {
        int rc = akv_fail_errno(err, "%s/objects/%s: cannot list", s->dir, ab);
        if (fd >= 0)
            close(fd);
        return rc;
    }
    int rc = 0;
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

int akv_object_list(struct akv_store *s, int (*fn)(void *ctx, const struct akv_object_name *name, struct akv_err *err), void *ctx,
                    struct akv_err *err)
{
    int rc = 0;
    for (unsigned i = 0; rc == 0 && i < 256; i++) {
        char ab[3];
        struct stat st;
        snprintf(ab, sizeof ab, "%02x", i);
        if (fstatat(s->objects, ab, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode))
            rc = list_fan(s, ab, fn, ctx, err);
    }
    return rc;
}
