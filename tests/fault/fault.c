/*
 * fault.so: preloaded into a tool, it counts the calls that the tool makes on files of one directory and makes one of them go wrong.
 *
 *   AKV_FAULT_UNDER=DIR    calls on paths below DIR (absolute, no links) count: 1, 2, 3 ... whatever their kind
 *   AKV_FAULT_LOG=FILE     a line is appended for each: number, kind, path
 *   AKV_FAULT='N HOW'      what happens at call N; 'N+ HOW': at N and all later ones; '0 POWER', '0 ZERO': at exit
 *   AKV_FAULT_CUT='BYTES FILE'    the file that CUT shortens, and to what
 *
 *   EIO, ENOSPC, EINTR     the call fails with that errno and does nothing, but for close, which closes
 *   SHORT                  a read or write transfers half of what was asked
 *   KILL, INT, TERM        the process gets that signal before the call
 *   STOP                   the same, so that others can do something meanwhile; it goes on with SIGCONT
 *   POWER, ZERO            the power fails before the call: names whose directory was not synced since are as they were before, files
 *                          that were not synced are empty (ZERO: full of zeros)
 *   CUT                    the file of AKV_FAULT_CUT is shortened after the call
 *
 * With ENOSPC, calls that need no room are let through. Lost power is simulated for one process; what others did stays.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define PATH_BYTES 4200 /* a directory and a name */
#define LOST_MAX 4096   /* names and files that wait for a sync */

enum kind { OPEN, READ, WRITE, SYNC, LINK, RENAME, UNLINK, CLOSE, MKDIR, LOCK, MAP, UTIME };
static const char *const kinds[] = {"open",   "read",  "write", "sync", "link", "rename",
                                    "unlink", "close", "mkdir", "lock", "map",  "utime"};

enum how { NOTHING, FAIL, SHORT, SIGNAL, POWER, ZERO, CUT };
struct word {
    const char *text;
    enum how how;
    int number;
};
static const struct word words[] = {
    {"EIO", FAIL, EIO},      {"ENOSPC", FAIL, ENOSPC},  {"EINTR", FAIL, EINTR},    {"SHORT", SHORT, 0}, {"KILL", SIGNAL, SIGKILL},
    {"INT", SIGNAL, SIGINT}, {"TERM", SIGNAL, SIGTERM}, {"STOP", SIGNAL, SIGSTOP}, {"POWER", POWER, 0}, {"ZERO", ZERO, 0},
    {"CUT", CUT, 0}};

static const char *under, *log_file, *cut;
static struct word fault; /* text NULL: only count */
static unsigned long fault_at, n_calls;
static bool fault_stays;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* ---- what a loss of power would undo ---- */

struct name {
    enum kind kind;           /* OPEN, MKDIR, LINK: it is new; UNLINK: it is gone; RENAME: it was `from` */
    char *path, *from, *kept; /* kept: another name of the file that was there before, or NULL */
};
static struct name names[LOST_MAX];
static struct stat dirty[LOST_MAX];
static size_t n_names, n_dirty, n_kept;

static void broken(const char *what)
{
    fprintf(stderr, "fault.so: %s\n", what);
    _exit(99);
}

static bool tracks_power(void)
{
    return fault.how == POWER || fault.how == ZERO;
}

static char *copy(const char *s)
{
    char *p = strdup(s);
    if (!p)
        broken("no memory");
    return p;
}

/* A second name, outside of the tree, for the file that is about to lose its own; NULL when there is none. */
static char *keep(const char *path)
{
    char to[PATH_BYTES];
    struct stat st;
    if (syscall(SYS_newfstatat, AT_FDCWD, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return NULL;
    snprintf(to, sizeof to, "%s.lost", under);
    syscall(SYS_mkdir, to, 0700);
    snprintf(to, sizeof to, "%s.lost/%ld.%zu", under, (long)getpid(), n_kept++);
    if (syscall(SYS_link, path, to) < 0)
        broken("cannot keep a file");
    return copy(to);
}

static void note_name(enum kind kind, const char *path, const char *from, char *kept)
{
    if (n_names == LOST_MAX)
        broken("too many names");
    names[n_names++] = (struct name){kind, copy(path), from ? copy(from) : NULL, kept};
}

static void forget_name(struct name *n)
{
    free(n->path);
    free(n->from);
    if (n->kept)
        syscall(SYS_unlink, n->kept);
    free(n->kept);
}

static bool is_in(const char *path, const char *dir)
{
    size_t n = strlen(dir);
    return !strncmp(path, dir, n) && path[n] == '/' && !strchr(path + n + 1, '/');
}

static size_t find_dirty(const struct stat *st)
{
    size_t i = 0;
    while (i < n_dirty && (dirty[i].st_ino != st->st_ino || dirty[i].st_dev != st->st_dev))
        i++;
    return i;
}

static void note_written(int fd)
{
    struct stat st;
    if (fstat(fd, &st) < 0 || find_dirty(&st) < n_dirty)
        return;
    if (n_dirty == LOST_MAX)
        broken("too many files");
    dirty[n_dirty++] = st;
}

/* A synced directory keeps its names, a synced file its bytes. */
static void note_synced(int fd, const char *path)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return;
    if (!S_ISDIR(st.st_mode)) {
        size_t i = find_dirty(&st);
        if (i < n_dirty)
            dirty[i] = dirty[--n_dirty];
        return;
    }
    size_t kept = 0;
    for (size_t i = 0; i < n_names; i++)
        if (is_in(names[i].path, path))
            forget_name(&names[i]);
        else
            names[kept++] = names[i];
    n_names = kept;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)ftw;
    syscall(SYS_unlinkat, AT_FDCWD, path, type == FTW_DP ? AT_REMOVEDIR : 0);
    return 0;
}

static int spoil_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)ftw;
    if (type != FTW_F || find_dirty(st) == n_dirty)
        return 0;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_TRUNC, 0);
    if (fd < 0 || (fault.how == ZERO && syscall(SYS_ftruncate, fd, st->st_size) < 0))
        broken("cannot spoil a file");
    syscall(SYS_close, fd);
    return 0;
}

static void lose(void)
{
    for (size_t i = n_names; i-- > 0;) {
        struct name *n = &names[i];
        if (n->kind == RENAME)
            syscall(SYS_rename, n->path, n->from);
        else if (n->kind != UNLINK)
            nftw(n->path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
        if (n->kept && syscall(SYS_link, n->kept, n->path) < 0)
            broken("cannot put a file back");
    }
    nftw(under, spoil_one, 16, FTW_PHYS);
    for (size_t i = 0; i < n_names; i++)
        forget_name(&names[i]);
    n_names = 0;
}

/* ---- which call this is and what it gets ---- */

__attribute__((constructor)) static void begin(void)
{
    const char *spec = getenv("AKV_FAULT");
    char *how;
    under = getenv("AKV_FAULT_UNDER");
    log_file = getenv("AKV_FAULT_LOG");
    cut = getenv("AKV_FAULT_CUT");
    if (!spec)
        return;
    fault_at = strtoul(spec, &how, 10);
    fault_stays = *how == '+';
    how += fault_stays;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (*how == ' ' && !strcmp(how + 1, words[i].text))
            fault = words[i];
    if (!fault.text || !under)
        broken("AKV_FAULT is 'N HOW', with AKV_FAULT_UNDER");
}

__attribute__((destructor)) static void end(void)
{
    if (tracks_power() && !fault_at)
        lose();
}

static void log_call(enum kind kind, const char *path)
{
    char line[PATH_BYTES + 64];
    int n = snprintf(line, sizeof line, "%lu %s %s\n", n_calls, kinds[kind], path);
    int fd = log_file ? (int)syscall(SYS_openat, AT_FDCWD, log_file, O_WRONLY | O_CREAT | O_APPEND, 0600) : -1;
    if (fd < 0)
        return;
    syscall(SYS_write, fd, line, (size_t)n);
    syscall(SYS_close, fd);
}

static void shorten(void)
{
    char *path;
    off_t size = cut ? strtol(cut, &path, 10) : 0;
    if (!cut || *path != ' ' || truncate(path + 1, size) < 0)
        broken("cannot shorten AKV_FAULT_CUT");
}

/* The absolute path of a name in a directory, or of a descriptor when name is NULL. */
static void locate(char path[PATH_BYTES], int fd, const char *name)
{
    char link[64];
    if (name && *name == '/') {
        snprintf(path, PATH_BYTES, "%s", name);
        return;
    }
    if (fd == AT_FDCWD)
        snprintf(link, sizeof link, "/proc/self/cwd");
    else
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, PATH_BYTES - 1);
    n = n < 0 ? 0 : n;
    if (name)
        snprintf(path + n, PATH_BYTES - (size_t)n, "/%s", name);
    else
        path[n] = '\0';
}

static bool needs_room(enum kind kind)
{
    return kind == WRITE || kind == SYNC || kind == LINK || kind == RENAME || kind == MKDIR || kind == OPEN;
}

/* Count this call. What it must do: NOTHING, FAIL with errno set, SHORT or CUT; signals and lost power happen here. */
static enum how turn(enum kind kind, const char *path)
{
    size_t n = under ? strlen(under) : 0;
    if (!n || strncmp(path, under, n) || (path[n] && path[n] != '/'))
        return NOTHING;
    n_calls++;
    log_call(kind, path);
    if (!fault.text || !fault_at || (fault_stays ? n_calls < fault_at : n_calls != fault_at))
        return NOTHING;
    if (fault.how == FAIL && fault.number == ENOSPC && !needs_room(kind))
        return NOTHING;
    if (tracks_power())
        lose();
    if (fault.how == SIGNAL || tracks_power())
        kill(getpid(), fault.how == SIGNAL ? fault.number : SIGKILL);
    errno = fault.number;
    return fault.how == SIGNAL ? NOTHING : fault.how;
}

/* Before and after each call: counting, failing and noting are one step, whatever other threads do. */
#define BEGIN(kind, fd, name)                                                                                                      \
    char path[PATH_BYTES];                                                                                                         \
    locate(path, fd, name);                                                                                                        \
    pthread_mutex_lock(&mutex);                                                                                                    \
    enum how how = turn(kind, path);                                                                                               \
    long rc = -1

#define END()                                                                                                                      \
    int saved = errno;                                                                                                             \
    if (how == CUT)                                                                                                                \
        shorten();                                                                                                                 \
    pthread_mutex_unlock(&mutex);                                                                                                  \
    errno = saved

static bool counts(const char *path)
{
    return tracks_power() && !strncmp(path, under, strlen(under));
}

/* ---- the calls ---- */

static int open_at(int dir, const char *name, int flags, mode_t mode)
{
    struct stat st;
    BEGIN(OPEN, dir, name);
    if (how != FAIL) {
        bool fresh = (flags & O_CREAT) && counts(path) && fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0;
        rc = syscall(SYS_openat, dir, name, flags, mode);
        if (rc >= 0 && fresh)
            note_name(OPEN, path, NULL, NULL);
        if (rc >= 0 && counts(path) && (flags & O_TRUNC))
            note_written((int)rc);
    }
    END();
    return (int)rc;
}

static mode_t mode_of(int flags, va_list ap)
{
    return (flags & (O_CREAT | O_TMPFILE)) ? (mode_t)va_arg(ap, int) : 0;
}

EXPORT int open(const char *name, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    mode_t mode = mode_of(flags, ap);
    va_end(ap);
    return open_at(AT_FDCWD, name, flags, mode);
}

EXPORT int openat(int dir, const char *name, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    mode_t mode = mode_of(flags, ap);
    va_end(ap);
    return open_at(dir, name, flags, mode);
}

/* The random name is part of the path that is logged, so that it is chosen first. */
EXPORT int mkostemp(char *name, int flags)
{
    static unsigned n;
    char *x = name + strlen(name) - 6;
    for (;;) {
        snprintf(x, 7, "%06lu", ((unsigned long)getpid() * 64 + n++) % 1000000);
        int fd = open_at(AT_FDCWD, name, flags | O_RDWR | O_CREAT | O_EXCL, 0600);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
}

EXPORT ssize_t read(int fd, void *p, size_t n)
{
    BEGIN(READ, fd, NULL);
    if (how != FAIL)
        rc = syscall(SYS_read, fd, p, how == SHORT && n > 1 ? n / 2 : n);
    END();
    return rc;
}

EXPORT ssize_t pread(int fd, void *p, size_t n, off_t at)
{
    BEGIN(READ, fd, NULL);
    if (how != FAIL)
        rc = syscall(SYS_pread64, fd, p, how == SHORT && n > 1 ? n / 2 : n, at);
    END();
    return rc;
}

EXPORT ssize_t write(int fd, const void *p, size_t n)
{
    BEGIN(WRITE, fd, NULL);
    if (how != FAIL)
        rc = syscall(SYS_write, fd, p, how == SHORT && n > 1 ? n / 2 : n);
    if (rc > 0 && counts(path))
        note_written(fd);
    END();
    return rc;
}

EXPORT ssize_t pwrite(int fd, const void *p, size_t n, off_t at)
{
    BEGIN(WRITE, fd, NULL);
    if (how != FAIL)
        rc = syscall(SYS_pwrite64, fd, p, how == SHORT && n > 1 ? n / 2 : n, at);
    if (rc > 0 && counts(path))
        note_written(fd);
    END();
    return rc;
}

EXPORT int fsync(int fd)
{
    BEGIN(SYNC, fd, NULL);
    if (how != FAIL)
        rc = syscall(SYS_fsync, fd);
    if (rc == 0 && counts(path))
        note_synced(fd, path);
    END();
    return (int)rc;
}

EXPORT int close(int fd)
{
    BEGIN(CLOSE, fd, NULL);
    rc = syscall(SYS_close, fd);
    if (how == FAIL) {
        errno = fault.number;
        rc = -1;
    }
    END();
    return (int)rc;
}

EXPORT int linkat(int from_dir, const char *from, int dir, const char *name, int flags)
{
    BEGIN(LINK, dir, name);
    if (how != FAIL)
        rc = syscall(SYS_linkat, from_dir, from, dir, name, flags);
    if (rc == 0 && counts(path))
        note_name(LINK, path, NULL, NULL);
    END();
    return (int)rc;
}

EXPORT int renameat2(int from_dir, const char *from, int dir, const char *name, unsigned flags)
{
    char was[PATH_BYTES];
    locate(was, from_dir, from);
    BEGIN(RENAME, dir, name);
    if (how != FAIL) {
        char *kept = counts(path) ? keep(path) : NULL;
        rc = syscall(SYS_renameat2, from_dir, from, dir, name, flags);
        if (rc == 0 && counts(path))
            note_name(RENAME, path, was, kept);
        else
            free(kept);
    }
    END();
    return (int)rc;
}

EXPORT int renameat(int from_dir, const char *from, int dir, const char *name)
{
    return renameat2(from_dir, from, dir, name, 0);
}

EXPORT int rename(const char *from, const char *name)
{
    return renameat2(AT_FDCWD, from, AT_FDCWD, name, 0);
}

EXPORT int unlinkat(int dir, const char *name, int flags)
{
    BEGIN(UNLINK, dir, name);
    if (how != FAIL) {
        char *kept = counts(path) && !(flags & AT_REMOVEDIR) ? keep(path) : NULL;
        rc = syscall(SYS_unlinkat, dir, name, flags);
        if (rc == 0 && kept)
            note_name(UNLINK, path, NULL, kept);
        else
            free(kept);
    }
    END();
    return (int)rc;
}

EXPORT int unlink(const char *name)
{
    return unlinkat(AT_FDCWD, name, 0);
}

EXPORT int mkdirat(int dir, const char *name, mode_t mode)
{
    BEGIN(MKDIR, dir, name);
    if (how != FAIL)
        rc = syscall(SYS_mkdirat, dir, name, mode);
    if (rc == 0 && counts(path))
        note_name(MKDIR, path, NULL, NULL);
    END();
    return (int)rc;
}

EXPORT int mkdir(const char *name, mode_t mode)
{
    return mkdirat(AT_FDCWD, name, mode);
}

/* Waiting for a lock must not hold up the calls of other threads. */
EXPORT int flock(int fd, int op)
{
    BEGIN(LOCK, fd, NULL);
    END();
    if (how != FAIL)
        rc = syscall(SYS_flock, fd, op);
    return (int)rc;
}

EXPORT void *mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    if (fd < 0)
        return (void *)syscall(SYS_mmap, at, n, prot, flags, fd, offset); // NOLINT
    BEGIN(MAP, fd, NULL);
    if (how != FAIL)
        rc = syscall(SYS_mmap, at, n, prot, flags, fd, offset);
    END();
    return (void *)rc; // NOLINT
}

EXPORT int utimensat(int dir, const char *name, const struct timespec t[2], int flags)
{
    BEGIN(UTIME, dir, name);
    if (how != FAIL)
        rc = syscall(SYS_utimensat, dir, name, t, flags);
    END();
    return (int)rc;
}
