/* File descriptors and mappings. EINTR and short transfers are handled here, nowhere else. */
#ifndef AKV_BASE_IO_H
#define AKV_BASE_IO_H

#include <sys/types.h>

#include "base/hash.h"

/*
 * The system's calls with the system's results, made again when a signal came in between (some file systems let that happen), whatever
 * the reason of the signal. An interrupted close has closed. link and rename do not follow links.
 */
int akv_file_open(int dir, const char *name, int flags, mode_t mode);
int akv_file_sync(int fd);
int akv_file_close(int fd);
int akv_file_link(int from_dir, const char *from, int dir, const char *name);
int akv_file_rename(int from_dir, const char *from, int dir, const char *name, unsigned flags);

/*
 * A pipe that pages will go through holds most of one: else its two processes take turns on every 64 KiB. A wish, and nothing for what is
 * no pipe.
 */
void akv_pipe_widen(int fd);

/* Write all n bytes; `name` is for the message. */
int akv_write_all(int fd, const void *p, size_t n, const char *name, struct akv_err *err);
/* The same to where a reader may be waited for; *cancel (unless NULL) ends that wait with AKV_E_CANCEL, whichever thread met the signal. */
int akv_write_out(int fd, const void *p, size_t n, const char *name, const volatile int *cancel, struct akv_err *err);

/* Read up to n bytes; fewer only at end of input. Returns the count or AKV_E_IO. */
ssize_t akv_read_upto(int fd, void *p, size_t n, const char *name, struct akv_err *err);

/*
 * Buffered input over a descriptor (file, pipe, terminal) that can look ahead and read lines.
 * The descriptor is borrowed, and so is memory. `name` (copied) goes into messages. offset counts the bytes consumed.
 */
struct akv_in {
    int fd;
    char *name;
    uint8_t *buf;
    size_t at, end, cap;
    uint64_t offset;
    bool eof, in_memory, borrowed; /* borrowed: buf is */
    bool in_text;                  /* for akv_json_next(): the last value was no JSON at all */
    struct akv_sha *digest;        /* given what is consumed; may be NULL */
    const volatile int *cancel;    /* set by a signal: a read that it interrupts ends with AKV_E_CANCEL; may be NULL */
};

int akv_in_open(struct akv_in *in, int fd, const char *name, struct akv_err *err);
/* The same with a buffer of the caller's, of at least as many bytes as are peeked at. */
int akv_in_open_with(struct akv_in *in, int fd, void *buf, size_t cap, const char *name, struct akv_err *err);
/* All of the input lies there. */
int akv_in_memory(struct akv_in *in, const void *p, size_t n, const char *name, struct akv_err *err);
void akv_in_release(struct akv_in *in);
/* Go on with another descriptor from its first byte; what was left of the old one is dropped. */
int akv_in_switch(struct akv_in *in, int fd, const char *name, struct akv_err *err);
/* Have n bytes (n <= 64 KiB) at *p without consuming them; returns how many there are (fewer at the end) or AKV_E_IO. */
ssize_t akv_in_peek(struct akv_in *in, const uint8_t **p, size_t n, struct akv_err *err);
/* Consume exactly n bytes into p; returns 1, 0 at a clean end (no byte left), or AKV_E_INPUT "ends in the middle". */
int akv_in_read(struct akv_in *in, void *p, size_t n, struct akv_err *err);
/* Consume n bytes and say where they lie, until the input is released; NULL, with nothing done, unless so many are in memory to stay. */
const uint8_t *akv_in_take(struct akv_in *in, size_t n);
/* Consume n bytes that a peek has shown. */
void akv_in_skip(struct akv_in *in, size_t n);

/* A file mapped for reading, shared, whole. Directories and special files are refused (AKV_E_INPUT). */
struct akv_map {
    const uint8_t *data;
    size_t size;
    int fd; /* open as long as the mapping; -1 when closed */
};

int akv_map_open(struct akv_map *m, const char *path, struct akv_err *err);
void akv_map_close(struct akv_map *m);
/* These bytes of a mapping are wanted now: their pages are mapped by one call, at half the cost of a fault for each few. A hint. */
void akv_map_want(const void *p, size_t n);

#endif
