/* lib/base/io: whole transfers, buffered input, mappings. */
#include "tests/check.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>

#include "base/io.h"

/* A thread that writes into a pipe, `step` bytes at a time, and closes it. */
struct feed {
    int fd;
    const uint8_t *data;
    size_t size, step;
    pthread_t thread;
    int rc;
};

static void *feed_main(void *arg)
{
    struct feed *f = arg;
    for (size_t at = 0; at < f->size && f->rc == 0; at += f->step)
        f->rc = akv_write_all(f->fd, f->data + at, f->size - at < f->step ? f->size - at : f->step, "pipe", NULL);
    close(f->fd);
    return NULL;
}

/* Start feeding; returns the end to read from. */
static int feed_start(struct feed *f, const uint8_t *data, size_t size, size_t step)
{
    int fd[2];
    assert_int_equal(pipe(fd), 0);
    *f = (struct feed){.fd = fd[1], .data = data, .size = size, .step = step};
    assert_int_equal(pthread_create(&f->thread, NULL, feed_main, f), 0);
    return fd[0];
}

static void feed_end(struct feed *f, int fd)
{
    pthread_join(f->thread, NULL);
    assert_int_equal(f->rc, 0);
    close(fd);
}

static uint8_t *some_bytes(size_t n)
{
    uint8_t *p = malloc(n);
    assert_non_null(p);
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)(i * 7 + i / 253);
    return p;
}

/* A file of the test's own; the name is unlinked by remove_temp. */
static void make_temp(char path[64], const void *data, size_t size)
{
    snprintf(path, 64, "/tmp/akv-test-io.XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(akv_write_all(fd, data, size, path, NULL), 0);
    close(fd);
}

/* One-byte writes at the other end do not shorten a read; only the end of input does. */
static void read_upto_is_whole(void **state)
{
    (void)state;
    struct feed f;
    struct akv_err err = {0};
    uint8_t got[600], *data = some_bytes(500);
    int fd = feed_start(&f, data, 500, 1);
    assert_int_equal(akv_read_upto(fd, got, 300, "pipe", &err), 300);
    assert_int_equal(akv_read_upto(fd, got + 300, 300, "pipe", &err), 200);
    assert_int_equal(akv_read_upto(fd, got, 1, "pipe", &err), 0);
    assert_memory_equal(got, data, 500);
    feed_end(&f, fd);
    free(data);
}

static void on_alarm(int sig)
{
    (void)sig;
}

/* The other end of a pipe, slow enough that this end waits while signals arrive. */
struct slow_end {
    int fd;
    uint8_t *data;
    size_t size;
    bool writes;
};

static void *slow_main(void *arg)
{
    struct slow_end *e = arg;
    for (size_t at = 0; at < e->size;) {
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
        size_t n = e->size - at < 20000 ? e->size - at : 20000;
        ssize_t done = e->writes ? write(e->fd, e->data + at, n) : read(e->fd, e->data + at, n);
        if (done <= 0)
            break;
        at += (size_t)done;
    }
    close(e->fd);
    return NULL;
}

/* A transfer that waits for its other end arrives whole although signals interrupt it all the time. */
static void interrupted_transfer(bool other_writes)
{
    size_t size = 200000;
    int fd[2];
    struct sigaction act = {.sa_handler = on_alarm}, old;
    struct itimerval every = {.it_interval = {0, 300}, .it_value = {0, 300}}, never = {0};
    sigset_t alarm_only;
    pthread_t thread;
    struct akv_err err = {0};
    uint8_t *data = some_bytes(size), *got = calloc(size, 1);
    assert_non_null(got);
    assert_int_equal(pipe(fd), 0);
    struct slow_end other = {.fd = fd[other_writes], .data = other_writes ? data : got, .size = size, .writes = other_writes};
    sigemptyset(&alarm_only);
    sigaddset(&alarm_only, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarm_only, NULL); /* the other thread inherits this: every signal is for this one */
    pthread_create(&thread, NULL, slow_main, &other);
    sigaction(SIGALRM, &act, &old);
    pthread_sigmask(SIG_UNBLOCK, &alarm_only, NULL);
    setitimer(ITIMER_REAL, &every, NULL);
    ssize_t n = other_writes ? akv_read_upto(fd[0], got, size, "pipe", &err) : akv_write_all(fd[1], data, size, "pipe", &err);
    setitimer(ITIMER_REAL, &never, NULL);
    sigaction(SIGALRM, &old, NULL);
    close(fd[!other_writes]);
    pthread_join(thread, NULL);
    assert_ok(n, &err);
    assert_memory_equal(got, data, size);
    free(data);
    free(got);
}

/* Reading is not cut short by signals. */
static void reading_survives_signals(void **state)
{
    (void)state;
    interrupted_transfer(true);
}

/* Nor is writing. */
static void writing_survives_signals(void **state)
{
    (void)state;
    interrupted_transfer(false);
}

/* Errors name the file and say why. */
static void errors_name_the_file(void **state)
{
    (void)state;
    int fd[2];
    char c;
    struct akv_err err = {0};
    assert_int_equal(akv_write_all(-1, "x", 1, "out.akv", &err), AKV_E_IO);
    assert_string_equal(err.msg, "out.akv: cannot write: Bad file descriptor");
    err.code = 0;
    assert_int_equal(akv_read_upto(-1, &c, 1, "in.akv", &err), AKV_E_IO);
    assert_string_equal(err.msg, "in.akv: cannot read: Bad file descriptor");
    err.code = 0;
    signal(SIGPIPE, SIG_IGN);
    assert_int_equal(pipe(fd), 0);
    close(fd[0]);
    assert_int_equal(akv_write_all(fd[1], "x", 1, "stdout", &err), AKV_E_IO);
    assert_string_equal(err.msg, "stdout: cannot write: Broken pipe");
    close(fd[1]);
    signal(SIGPIPE, SIG_DFL);
}

/* A full disk is an error at once. */
static void full_device_is_an_error(void **state)
{
    (void)state;
    struct akv_err err = {0};
    int fd = open("/dev/full", O_WRONLY);
    if (fd < 0)
        skip();
    assert_int_equal(akv_write_all(fd, "x", 1, "/dev/full", &err), AKV_E_IO);
    assert_string_equal(err.msg, "/dev/full: cannot write: No space left on device");
    close(fd);
}

/* Looking ahead consumes nothing, up to 64 KiB, and is short only at the end. */
static void peek_consumes_nothing(void **state)
{
    (void)state;
    size_t size = 70000;
    struct feed f;
    struct akv_in in;
    struct akv_err err = {0};
    const uint8_t *p;
    uint8_t *data = some_bytes(size), *got = malloc(size);
    assert_non_null(got);
    int fd = feed_start(&f, data, size, 999);
    assert_ok(akv_in_open(&in, fd, "pipe", &err), &err);
    for (size_t n = 0; n <= 65536; n = n * 2 + 1) {
        assert_int_equal(akv_in_peek(&in, &p, n, &err), n);
        assert_memory_equal(p, data, n);
    }
    assert_int_equal(in.offset, 0);
    assert_int_equal(akv_in_read(&in, got, size - 10, &err), 1);
    assert_memory_equal(got, data, size - 10);
    assert_int_equal(in.offset, size - 10);
    assert_int_equal(akv_in_peek(&in, &p, 65536, &err), 10);
    assert_memory_equal(p, data + size - 10, 10);
    assert_int_equal(akv_in_read(&in, got, 10, &err), 1);
    assert_int_equal(akv_in_peek(&in, &p, 1, &err), 0);
    assert_int_equal(akv_in_read(&in, got, 1, &err), 0);
    akv_in_release(&in);
    feed_end(&f, fd);
    free(data);
    free(got);
}

/* Any sequence of reads and looks gives the bytes in order, whatever the pieces they arrive in. */
static void input_is_in_order(void **state)
{
    (void)state;
    static const size_t steps[] = {1, 3, 4096, 65536, 200000};
    size_t size = 200000;
    uint8_t *data = some_bytes(size), *got = malloc(size);
    assert_non_null(got);
    for (size_t s = 0; s < sizeof steps / sizeof *steps; s++) {
        struct feed f;
        struct akv_in in;
        struct akv_err err = {0};
        const uint8_t *p;
        uint64_t random = 1;
        int fd = feed_start(&f, data, s ? size : 5000, steps[s]);
        assert_ok(akv_in_open(&in, fd, "pipe", &err), &err);
        size_t at = 0;
        while (at < f.size) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            size_t left = f.size - at, n = (random >> 40) % (random >> 60 ? 300 : 100000) + 1;
            if (random >> 39 & 1) {
                size_t want = n > 65536 ? 65536 : n;
                assert_int_equal(akv_in_peek(&in, &p, want, &err), want < left ? want : left);
                assert_memory_equal(p, data + at, want < left ? want : left);
                continue;
            }
            n = n < left ? n : left;
            assert_int_equal(akv_in_read(&in, got + at, n, &err), 1);
            at += n;
            assert_int_equal(in.offset, at);
        }
        assert_int_equal(akv_in_read(&in, got, 1, &err), 0);
        assert_memory_equal(got, data, f.size);
        akv_in_release(&in);
        feed_end(&f, fd);
    }
    free(data);
    free(got);
}

/* An end inside a record is damaged input, with the offset; one between records is a clean end. */
static void end_inside_a_record(void **state)
{
    (void)state;
    struct feed f;
    struct akv_in in;
    struct akv_err err = {0};
    char got[16];
    int fd = feed_start(&f, (const uint8_t *)"0123456789", 10, 4);
    assert_ok(akv_in_open(&in, fd, "x.akv", &err), &err);
    assert_int_equal(akv_in_read(&in, got, 7, &err), 1);
    assert_int_equal(akv_in_read(&in, got, 4, &err), AKV_E_INPUT);
    assert_string_equal(err.msg, "x.akv: offset 10: input ends in the middle of a record");
    akv_in_release(&in);
    feed_end(&f, fd);
}

/* A mapping shows the file's bytes; closing twice is harmless. */
static void map_shows_the_file(void **state)
{
    (void)state;
    char path[64];
    struct akv_map m;
    struct akv_err err = {0};
    uint8_t *data = some_bytes(10000);
    make_temp(path, data, 10000);
    assert_ok(akv_map_open(&m, path, &err), &err);
    assert_int_equal(m.size, 10000);
    assert_memory_equal(m.data, data, 10000);
    akv_map_close(&m);
    akv_map_close(&m);
    assert_int_equal(m.fd, -1);
    unlink(path);
    free(data);
}

/* The kB that are mapped of the file at path. */
static unsigned long mapped_kb(const char *path)
{
    char line[512];
    unsigned long kb = 0, n;
    bool on = false;
    FILE *f = fopen("/proc/self/smaps", "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        if (strstr(line, path))
            on = true;
        else if (on && sscanf(line, "Rss: %lu kB", &n) == 1) {
            kb += n;
            on = false;
        }
    }
    fclose(f);
    return kb;
}

struct want {
    const struct akv_map *map;
    size_t at;
    pthread_barrier_t *both;
};

static void *want_main(void *arg)
{
    const struct want *w = arg;
    pthread_barrier_wait(w->both);
    akv_map_want(w->map->data + w->at, w->map->size / 2);
    return NULL;
}

/* What several threads want of a mapping is mapped, from an odd byte on too, and is what it was. */
static void map_is_wanted_by_several(void **state)
{
    (void)state;
    enum { SIZE = 4000000 };
    char path[64];
    struct akv_map m;
    struct akv_err err = {0};
    uint8_t *data = some_bytes(SIZE);
    pthread_t threads[2];
    pthread_barrier_t both;
    make_temp(path, data, SIZE);
    assert_ok(akv_map_open(&m, path, &err), &err);
    assert_int_equal(pthread_barrier_init(&both, NULL, 2), 0);
    struct want wants[] = {{&m, 0, &both}, {&m, SIZE / 2, &both}};
    bool can = false;
#ifdef MADV_POPULATE_READ
    can = madvise((void *)(uintptr_t)m.data, 1, MADV_POPULATE_READ) == 0;
#endif
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, want_main, &wants[i]), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    if (can)
        assert_true(mapped_kb(path) >= SIZE / 1024);
    assert_memory_equal(m.data, data, SIZE);
    pthread_barrier_destroy(&both);
    akv_map_close(&m);
    unlink(path);
    free(data);
}

static void refuses(const char *path, int code, const char *why)
{
    struct akv_map m;
    struct akv_err err = {0};
    assert_int_equal(akv_map_open(&m, path, &err), code);
    if (strncmp(err.msg, path, strlen(path)) != 0 || !strstr(err.msg, why))
        fail_msg("%s: said \"%s\"", path, err.msg);
    akv_map_close(&m);
}

/* What cannot be mapped is refused with its name and the reason. */
static void map_refuses_other_things(void **state)
{
    (void)state;
    char path[64];
    make_temp(path, "", 0);
    refuses(path, AKV_E_INPUT, "empty");
    unlink(path);
    refuses(path, AKV_E_IO, "No such file");
    refuses("/tmp", AKV_E_INPUT, "directory");
    refuses("/dev/null", AKV_E_INPUT, "regular");
    assert_int_equal(mkfifo(path, 0600), 0);
    int writer = open(path, O_RDWR | O_CLOEXEC);
    refuses(path, AKV_E_INPUT, "regular");
    close(writer);
    unlink(path);
}

/* A pipe holds more afterwards and keeps what is in it; a file stays as it is. */
static void widened_pipe(void **state)
{
    (void)state;
    int fd[2];
    char got[4];
    assert_int_equal(pipe(fd), 0);
    int before = fcntl(fd[0], F_GETPIPE_SZ);
    assert_int_equal(write(fd[1], "abcd", 4), 4);
    akv_pipe_widen(fd[1]);
    if (fcntl(fd[0], F_GETPIPE_SZ) == before)
        skip(); /* no more is allowed here */
    assert_true(fcntl(fd[0], F_GETPIPE_SZ) > before);
    assert_int_equal(read(fd[0], got, 4), 4);
    assert_memory_equal(got, "abcd", 4);
    close(fd[0]);
    close(fd[1]);
    char path[64];
    make_temp(path, "abcd", 4);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    akv_pipe_widen(file);
    assert_int_equal(read(file, got, 4), 4);
    close(file);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(read_upto_is_whole),       cmocka_unit_test(reading_survives_signals),
        cmocka_unit_test(writing_survives_signals), cmocka_unit_test(errors_name_the_file),
        cmocka_unit_test(full_device_is_an_error),  cmocka_unit_test(peek_consumes_nothing),
        cmocka_unit_test(input_is_in_order),        cmocka_unit_test(end_inside_a_record),
        cmocka_unit_test(map_shows_the_file),       cmocka_unit_test(map_is_wanted_by_several),
        cmocka_unit_test(map_refuses_other_things), cmocka_unit_test(widened_pipe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
