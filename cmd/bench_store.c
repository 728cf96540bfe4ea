#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench.h"

/* ---- where stores are made ---- */

static char temp_dir[4096]; /* removed at the end */

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

void bench_remove(const char *dir)
{
    nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void remove_temp(void)
{
    if (temp_dir[0])
        bench_remove(temp_dir);
}

const char *bench_temp_dir(void)
{
    const char *tmp = getenv("TMPDIR");
    if (temp_dir[0])
        return temp_dir;
    snprintf(temp_dir, sizeof temp_dir, "%s/akv-bench-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(temp_dir)) {
        char name[sizeof temp_dir];
        snprintf(name, sizeof name, "%s", temp_dir);
        temp_dir[0] = 0;
        cmd_die(5, "%s: cannot create: %s", name, strerror(errno));
    }
    atexit(remove_temp);
    cmd_last = remove_temp;
    return temp_dir;
}

/* ---- the page cache ---- */

static size_t n_pages, n_resident; /* of the walk */
static bool unknown;

/* Objects are what restoring reads. */
static bool is_object(const char *path, const struct stat *st, int type)
{
    size_t n = strlen(path);
    return type == FTW_F && st->st_size > 0 && n > 4 && !strcmp(path + n - 4, ".akv");
}

/* The kernel tells residency only of files that the caller may write. */
static int count_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)ftw;
    if (!is_object(path, st, type))
        return 0;
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = (size_t)st->st_size, n = (bytes + page - 1) / page;
    unsigned char *resident = cmd_alloc(n);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    void *map = fd < 0 ? MAP_FAILED : mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED || access(path, W_OK) || mincore(map, bytes, resident))
        unknown = true;
    for (size_t i = 0; i < n; i++)
        n_resident += resident[i] & 1;
    n_pages += n;
    if (map != MAP_FAILED)
        munmap(map, bytes);
    if (fd >= 0)
        close(fd);
    free(resident);
    return 0;
}

enum bench_cache bench_cache_state(const char *dir)
{
    n_pages = n_resident = 0;
    unknown = false;
    nftw(dir, count_one, 16, FTW_PHYS);
    return unknown                                        ? BENCH_CACHE_UNKNOWN
           : !n_pages                                     ? BENCH_CACHE_NONE
           : n_resident == n_pages                        ? BENCH_CACHE_WARM
           : n_resident * 100 <= n_pages /* stray ones */ ? BENCH_CACHE_DROPPED
                                                          : BENCH_CACHE_PART;
}

const char *bench_cache_name(enum bench_cache c)
{
    static const char *const names[] = {"none", "warm", "dropped", "part", "unknown"};
    return names[c];
}

static int drop_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)ftw;
    int fd = is_object(path, st, type) ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
    if (fd < 0)
        return 0;
    if (fdatasync(fd) == 0) /* dirty pages stay */
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
    return 0;
}

void bench_cache_drop(const char *dir)
{
    nftw(dir, drop_one, 16, FTW_PHYS);
}
