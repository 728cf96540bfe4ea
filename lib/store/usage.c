/*
 * How much the store holds, so that a save under a quota need not look. The directory is the truth; the file `usage` is a copy that
 * errs to the safe side: it is raised before an object gets its name and lowered after one has lost it, so that a process that dies
 * leaves it too high. What is too high is found out before anything is evicted, for that takes a census; what is too low (somebody
 * copied objects in, the machine lost power) is found out within the hour after which the copy is taken anew.
 */
#include "store/store_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

#define USAGE_FMT "akv-usage 1\nobjects %020" PRIu64 "\nbytes %020" PRIu64 "\ncounted %020" PRIu64 "\n"
#define FRESH_SECONDS 3600u

struct usage {
    uint64_t objects, bytes, counted; /* counted: when the directory was, in seconds since 1970 */
};

uint64_t akv_store_now(struct akv_store *s)
{
    struct stat st;
    if (s->lock < 0 || futimens(s->lock, NULL) < 0 || fstat(s->lock, &st) < 0 || st.st_mtime < 0)
        return 0;
    return (uint64_t)st.st_mtime;
}

/* Open and locked against other changes of it; close() lets go. */
static int open_usage(struct akv_store *s, struct akv_err *err)
{
    int fd = akv_file_open(s->root, "usage", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600), rc;
    if (fd < 0)
        return akv_fail_errno(err, "%s/usage: cannot open", s->dir);
    while (flock(fd, LOCK_EX) < 0)
        if (errno != EINTR) {
            rc = akv_fail_errno(err, "%s/usage: cannot lock", s->dir);
            close(fd);
            return rc;
        }
    return fd;
}

static bool read_usage(int fd, struct usage *u)
{
    char text[256];
    ssize_t n = akv_read_upto(fd, text, sizeof text - 1, "usage", NULL);
    if (n < 0)
        return false;
    text[n] = '\0';
    return sscanf(text, "akv-usage 1\nobjects %" SCNu64 "\nbytes %" SCNu64 "\ncounted %" SCNu64 "\n", &u->objects, &u->bytes,
                  &u->counted) == 3;
}

/* One write of a size that never changes. */
static int write_usage(struct akv_store *s, int fd, const struct usage *u, struct akv_err *err)
{
    char text[256];
    int n = snprintf(text, sizeof text, USAGE_FMT, u->objects, u->bytes, u->counted);
    if (lseek(fd, 0, SEEK_SET) < 0)
        return akv_fail_errno(err, "%s/usage: cannot seek", s->dir);
    return akv_write_all(fd, text, (size_t)n, s->dir, err);
}

int akv_usage_reserve(struct akv_store *s, uint64_t bytes, struct akv_err *err)
{
    struct usage u;
    uint64_t now = akv_store_now(s);
    int fd = open_usage(s, err), rc = 0;
    if (fd < 0)
        return fd;
    if (read_usage(fd, &u) && u.counted <= now && now - u.counted < FRESH_SECONDS && u.bytes < s->quota &&
        bytes <= s->quota - u.bytes) {
        u.objects++;
        u.bytes += bytes;
        rc = write_usage(s, fd, &u, err);
        rc = rc < 0 ? rc : 1;
    }
    close(fd);
    return rc;
}

void akv_usage_return(struct akv_store *s, uint64_t bytes)
{
    struct usage u;
    int fd = open_usage(s, NULL);
    if (fd < 0)
        return;
    if (read_usage(fd, &u) && u.objects && u.bytes >= bytes) {
        u.objects--;
        u.bytes -= bytes;
        (void)write_usage(s, fd, &u, NULL);
    }
    close(fd);
}

int akv_usage_set(struct akv_store *s, uint64_t objects, uint64_t bytes, struct akv_err *err)
{
    struct usage u = {.objects = objects, .bytes = bytes, .counted = akv_store_now(s)};
    int fd = open_usage(s, err);
    if (fd < 0)
        return fd;
    int rc = write_usage(s, fd, &u, err);
    close(fd);
    return rc;
}
