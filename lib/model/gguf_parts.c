/*
 * Split models: NAME-00001-of-0000N.gguf holds the keys, it and the others hold tensors. Each part is a GGUF file with a mapping of
 * its own, read and checked as any other; here they become one list of tensors and one state of files.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "model/gguf_note.h"
#include "model/gguf_reader.h"

/* ---- the state of the files ---- */

static int stat_map(const struct akv_gguf *g, struct akv_stamp *s, struct akv_err *err)
{
    struct stat st;
    if (fstat(g->map.fd, &st) < 0)
        return akv_fail_errno(err, "%s: cannot stat", g->path);
    *s = (struct akv_stamp){.dev = st.st_dev,
                            .ino = st.st_ino,
                            .size = (uint64_t)st.st_size,
                            .mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec,
                            .ctime_ns = (int64_t)st.st_ctim.tv_sec * 1000000000 + st.st_ctim.tv_nsec};
    return 0;
}

static bool same_stamp(const struct akv_stamp *a, const struct akv_stamp *b)
{
    return a->dev == b->dev && a->ino == b->ino && a->size == b->size && a->mtime_ns == b->mtime_ns && a->ctime_ns == b->ctime_ns;
}

/* The identity takes in all that tells a part's states apart; size and times are those of the whole. */
static void fold(struct akv_stamp *all, const struct akv_stamp *part)
{
    const uint64_t fields[] = {all->ino, part->dev, part->ino, part->size, (uint64_t)part->mtime_ns, (uint64_t)part->ctime_ns};
    uint8_t le[sizeof fields];
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        akv_put_u64(le + 8 * i, fields[i]);
    all->ino = akv_xxh64(le, sizeof le);
    all->size += part->size;
    all->mtime_ns = part->mtime_ns > all->mtime_ns ? part->mtime_ns : all->mtime_ns;
    all->ctime_ns = part->ctime_ns > all->ctime_ns ? part->ctime_ns : all->ctime_ns;
}

int akv_gguf_stat(const struct akv_gguf *g, struct akv_stamp *s, struct akv_err *err)
{
    int rc = stat_map(g, s, err);
    for (uint32_t i = 0; rc == 0 && i < g->n_parts; i++) {
        rc = akv_gguf_restat(&g->parts[i], err);
        if (rc == 0)
            fold(s, &g->parts[i].stamp);
    }
    return rc;
}

int akv_gguf_restat(const struct akv_gguf *g, struct akv_err *err)
{
    struct akv_stamp now;
    int rc = akv_gguf_stat(g, &now, err);
    if (rc < 0)
        return rc;
    return same_stamp(&now, &g->stamp) ? 0 : akv_fail(err, AKV_E_INPUT, "%s: changed while in use", g->path);
}

int akv_gguf_intact(const struct akv_gguf *g, struct akv_err *err)
{
    struct akv_stamp all, part;
    int rc = stat_map(g, &all, err);
    for (uint32_t i = 0; rc == 0 && i < g->n_parts; i++) {
        rc = stat_map(&g->parts[i], &part, err);
        if (rc == 0)
            fold(&all, &part);
    }
    if (rc == 0 && (all.size != g->stamp.size || all.mtime_ns != g->stamp.mtime_ns))
        rc = akv_fail(err, AKV_E_INPUT, "%s: changed while in use", g->path);
    return rc;
}

/* ---- the parts ---- */

/* The end of a part's name, "-00001-of-00003.gguf". */
#define TAIL_BYTES 20u
#define TAIL_NO 1u
#define TAIL_COUNT 10u
#define DIGITS 5u

static uint32_t get_digits(const char *s)
{
    uint32_t v = 0;
    for (unsigned i = 0; i < DIGITS; i++) {
        if (s[i] < '0' || s[i] > '9')
            return 0;
        v = v * 10 + (uint32_t)(s[i] - '0');
    }
    return v;
}

static void put_digits(char *s, uint32_t v)
{
    for (unsigned i = DIGITS; i-- > 0; v /= 10)
        s[i] = (char)('0' + v % 10);
}

/* Whether a path is named as part no (from 1) of count. */
static bool is_named(const char *path, uint32_t no, uint32_t count)
{
    size_t n = strlen(path);
    if (n <= TAIL_BYTES)
        return false;
    const char *tail = path + n - TAIL_BYTES;
    return tail[0] == '-' && get_digits(tail + TAIL_NO) == no && !memcmp(tail + TAIL_NO + DIGITS, "-of-", 4) &&
           get_digits(tail + TAIL_COUNT) == count && !memcmp(tail + TAIL_COUNT + DIGITS, ".gguf", 5);
}

/* split.no and split.count; count 1 when the file is whole. */
static int read_place(const struct akv_gguf *g, uint32_t *no, uint32_t *count, struct akv_err *err)
{
    *no = 0;
    *count = 1;
    int rc = akv_gguf_u32(g, "split.count", count, err);
    if (rc >= 0 && *count <= 1) {
        *count = 1;
        return 0;
    }
    return rc < 0 || (rc = akv_gguf_u32(g, "split.no", no, err)) < 0 ? rc : 0;
}

/* The first part has what says how to go on. */
static int check_first(const struct akv_gguf *g, uint32_t no, uint32_t count, struct akv_err *err)
{
    if (count > AKV_GGUF_MAX_PARTS)
        return akv_fail(err, AKV_E_INPUT, "%s: key split.count: %u parts, the limit is %u", g->path, count, AKV_GGUF_MAX_PARTS);
    if (no)
        return akv_fail(err, AKV_E_INPUT, "%s: part %u of %u of a split model: give the first", g->path, no + 1, count);
    return 0;
}

/* Open part no (from 1) beside the first, whose path it is given to overwrite. */
static int open_part(struct akv_gguf *part, char *path, uint32_t no, uint32_t count, struct akv_err *err)
{
    uint32_t said_no, said_count;
    put_digits(path + strlen(path) - TAIL_BYTES + TAIL_NO, no);
    int rc = akv_gguf_open_one(part, path, false, err);
    if (rc < 0 || (rc = read_place(part, &said_no, &said_count, err)) < 0)
        return rc;
    if (said_count == 1)
        return akv_fail(err, AKV_E_INPUT, "%s: key split.count: not a part of a split model", path);
    if (said_no + 1 != no || said_count != count)
        return akv_fail(err, AKV_E_INPUT, "%s: its keys say that it is part %llu of %u: the name says part %u of %u", path,
                        (unsigned long long)said_no + 1, said_count, no, count);
    return 0;
}

/* One list in place of many: first the first file's. */
static int join_tensors(struct akv_gguf *g, struct akv_err *err)
{
    uint64_t n = g->n_tensors, at = 0;
    uint32_t said = 0;
    for (uint32_t i = 0; i < g->n_parts; i++)
        n += g->parts[i].n_tensors;
    int rc = akv_gguf_u32(g, "split.tensors.count", &said, err);
    if (rc < 0)
        return rc;
    if (rc && said != n)
        return akv_fail(err, AKV_E_INPUT, "%s: key split.tensors.count: %u tensors, the %u parts have %llu", g->path, said,
                        g->n_parts + 1, (unsigned long long)n);
    if (n > AKV_GGUF_MAX_ENTRIES)
        return akv_fail(err, AKV_E_INPUT, "%s: %llu tensors in all parts, the limit is %u", g->path, (unsigned long long)n,
                        AKV_GGUF_MAX_ENTRIES);
    struct akv_tensor *all = akv_alloc(n, sizeof *all, err);
    const struct akv_tensor **by_name = akv_alloc(n, sizeof *by_name, err);
    if (!all || !by_name) {
        free(all);
        free((void *)by_name);
        return AKV_E_IO;
    }
    for (uint32_t i = 0; i <= g->n_parts; i++) {
        struct akv_gguf *from = i ? &g->parts[i - 1] : g;
        if (from->n_tensors)
            memcpy(all + at, from->tensors, from->n_tensors * sizeof *all);
        at += from->n_tensors;
        free(from->tensors);
        free((void *)from->tensors_by_name);
        from->tensors = NULL;
        from->tensors_by_name = NULL;
        from->n_tensors = 0;
    }
    g->tensors = all;
    g->tensors_by_name = by_name;
    g->n_tensors = n;
    return akv_gguf_index_tensors(g, err);
}

/* Put the parts' warnings behind the first file's. */
static void join_warnings(struct akv_gguf *g)
{
    struct akv_buf notes;
    akv_buf_init(&notes, AKV_NOTES_MAX);
    if (g->warnings)
        akv_note(&notes, "%s", g->warnings);
    for (uint32_t i = 0; i < g->n_parts; i++)
        if (g->parts[i].warnings)
            akv_note(&notes, "part %u: %s", i + 2, g->parts[i].warnings);
    free(g->warnings);
    g->warnings = akv_notes_take(&notes);
}

int akv_gguf_join(struct akv_gguf *g, bool keys_only, struct akv_err *err)
{
    uint32_t no, count;
    int rc = read_place(g, &no, &count, err);
    if (rc < 0 || count == 1 || (rc = check_first(g, no, count, err)) < 0 || keys_only)
        return rc;
    if (!is_named(g->path, 1, count))
        return akv_fail(
            err, AKV_E_INPUT,
            "%s: the first of %u parts of a split model: must be named like NAME-00001-of-%05u.gguf, or the others cannot "
            "be found",
            g->path, count, count);
    char *path = akv_strndup(g->path, strlen(g->path), err);
    g->parts = path ? akv_alloc(count - 1, sizeof *g->parts, err) : NULL;
    rc = g->parts ? 0 : AKV_E_IO;
    while (rc == 0 && g->n_parts < count - 1) {
        rc = open_part(&g->parts[g->n_parts], path, g->n_parts + 2, count, err);
        g->n_parts++;
    }
    free(path);
    if (rc < 0 || (rc = join_tensors(g, err)) < 0)
        return rc;
    join_warnings(g);
    for (uint32_t i = 0; i < g->n_parts; i++)
        fold(&g->stamp, &g->parts[i].stamp);
    return 0;
}
