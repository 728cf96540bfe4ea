#include "model/digest_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/io.h"

#define MAGIC "akvsha1\n"
#define MAGIC_BYTES 8
#define YOUNG_NS 2000000000
#define TEMP_SECONDS 600 /* a temporary file that old belongs to nobody */

/* Entry: magic, n hashes in ascending order of the tensors' names, XXH64 of all that. */
static size_t entry_bytes(size_t n)
{
    return MAGIC_BYTES + n * AKV_SHA_BYTES + 8;
}

/* A cache directory may be shared between machines (a home on NFS), whose device and inode numbers mean nothing to each other. */
static void add_host(struct akv_sha *s)
{
    char id[256];
    ssize_t n = -1;
    int fd = open("/etc/machine-id", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0) {
        n = akv_read_upto(fd, id, sizeof id, "machine-id", NULL);
        close(fd);
    }
    if (n <= 0) {
        if (gethostname(id, sizeof id))
            id[0] = '\0';
        id[sizeof id - 1] = '\0';
        n = (ssize_t)strlen(id);
    }
    akv_sha_field(s, id, (size_t)n);
}

static bool entry_name(char name[AKV_SHA_HEX], const struct akv_stamp *st)
{
    const uint64_t parts[] = {st->dev, st->ino, st->size, (uint64_t)st->mtime_ns, (uint64_t)st->ctime_ns};
    struct akv_sha s;
    uint8_t digest[AKV_SHA_BYTES], le[8];
    akv_sha_begin(&s);
    add_host(&s);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        akv_put_u64(le, parts[i]);
        akv_sha_field(&s, le, sizeof le);
    }
    int rc = akv_sha_end(&s, digest, NULL);
    akv_hex(name, digest, sizeof digest);
    return rc == 0;
}

/* Ours or root's, and nobody else may write to it. */
static bool trusted(const struct stat *st)
{
    return (st->st_uid == geteuid() || st->st_uid == 0) && !(st->st_mode & (S_IWGRP | S_IWOTH));
}

static int open_dir(const char *dir)
{
    struct stat st;
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && !fstat(fd, &st) && trusted(&st))
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* mkdir -p; what is missing is made private. */
static void make_dirs(const char *dir)
{
    char path[4096];
    if (snprintf(path, sizeof path, "%s", dir) >= (int)sizeof path)
        return;
    for (char *p = path; *p; p++) {
        if (*p != '/' || p == path)
            continue;
        *p = '\0';
        mkdir(path, 0700);
        *p = '/';
    }
    mkdir(path, 0700);
}

/* The whole entry in buf[bytes], when it is a file of exactly that size that we may trust. */
static bool read_entry(int dir, const char *name, uint8_t *buf, size_t bytes)
{
    struct stat st;
    int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool ok = !fstat(fd, &st) && S_ISREG(st.st_mode) && trusted(&st) && st.st_size == (off_t)bytes &&
              akv_read_upto(fd, buf, bytes, name, NULL) == (ssize_t)bytes;
    close(fd);
    return ok;
}

bool akv_digest_cache_get(const char *dir, const struct akv_stamp *stamp, uint8_t (*sha)[AKV_SHA_BYTES], size_t n)
{
    char name[AKV_SHA_HEX];
    size_t bytes = entry_bytes(n);
    int fd = open_dir(dir);
    uint8_t *buf = fd < 0 ? NULL : malloc(bytes);
    bool ok = buf && entry_name(name, stamp) && read_entry(fd, name, buf, bytes) && !memcmp(buf, MAGIC, MAGIC_BYTES) &&
              akv_get_u64(buf + bytes - 8) == akv_xxh64(buf, bytes - 8);
    if (ok)
        memcpy(sha, buf + MAGIC_BYTES, n * AKV_SHA_BYTES);
    free(buf);
    if (fd >= 0)
        close(fd);
    return ok;
}

/* <64 hex>.<pid>.<ns>.tmp */
static bool is_temp(const char *name)
{
    size_t n = strlen(name), n_hex = strspn(name, "0123456789abcdef");
    return n_hex == 2 * AKV_SHA_BYTES && name[n_hex] == '.' && !strcmp(name + n - 4, ".tmp");
}

/* Remove what writers that died have left, by the clock of the file system. */
static void sweep(int dir, time_t now)
{
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) {
        if (fd >= 0)
            close(fd);
        return;
    }
    for (struct dirent *e; (e = readdir(d));) {
        struct stat st;
        if (is_temp(e->d_name) && !fstatat(dir, e->d_name, &st, AT_SYMLINK_NOFOLLOW) && st.st_mtime < now - TEMP_SECONDS)
            unlinkat(dir, e->d_name, 0);
    }
    closedir(d);
}

/* Write under a name of our own, then rename: a reader sees a whole entry or none. */
static void write_entry(int dir, const char *name, const struct akv_buf *entry)
{
    char temp[AKV_SHA_HEX + 64];
    struct timespec t = {0};
    clock_gettime(CLOCK_MONOTONIC, &t);
    snprintf(temp, sizeof temp, "%s.%ld.%09ld.tmp", name, (long)getpid(), t.tv_nsec);
    int fd = openat(dir, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    bool ok = akv_write_all(fd, entry->data, entry->len, temp, NULL) == 0;
    struct stat st;
    if (ok && !fstat(fd, &st))
        sweep(dir, st.st_mtime);
    ok = close(fd) == 0 && ok;
    if (!ok || renameat(dir, temp, dir, name))
        unlinkat(dir, temp, 0);
}

void akv_digest_cache_put(const char *dir, const struct akv_stamp *stamp, const uint8_t (*sha)[AKV_SHA_BYTES], size_t n,
                          int64_t now_ns)
{
    if (stamp->ctime_ns > now_ns - YOUNG_NS)
        return;
    char name[AKV_SHA_HEX];
    struct akv_buf entry;
    akv_buf_init(&entry, 0);
    make_dirs(dir);
    int fd = open_dir(dir);
    akv_buf_add(&entry, MAGIC, MAGIC_BYTES);
    akv_buf_add(&entry, sha, n * AKV_SHA_BYTES);
    akv_buf_put_u64(&entry, akv_xxh64(entry.data, entry.len));
    if (fd >= 0 && akv_buf_check(&entry, "weights cache", NULL) == 0 && entry_name(name, stamp))
        write_entry(fd, name, &entry);
    akv_buf_release(&entry);
    if (fd >= 0)
        close(fd);
}
