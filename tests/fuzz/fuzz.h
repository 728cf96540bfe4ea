/*
 * Fuzz targets: each file fuzz_NAME.c is one, linked with libFuzzer (make fuzz) or with replay.c, which runs it over files.
 * A target takes any bytes, must return, and aborts when something that must hold does not.
 */
#ifndef AKV_TESTS_FUZZ_H
#define AKV_TESTS_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Not assert(): it must hold in every build. */
#define must(what)                                                                                                                 \
    do {                                                                                                                           \
        if (!(what)) {                                                                                                             \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #what);                                              \
            abort();                                                                                                               \
        }                                                                                                                          \
    } while (0)

/* A file in memory with these bytes, standing at its start; the caller closes it. */
static inline int fuzz_file(const uint8_t *data, size_t size)
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    must(fd >= 0);
    for (size_t at = 0; at < size;) {
        ssize_t n = pwrite(fd, data + at, size - at, (off_t)at);
        must(n > 0);
        at += (size_t)n;
    }
    return fd;
}

/* The same for what opens a path. */
static inline const char *fuzz_path(int fd)
{
    static char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return path;
}

#endif
