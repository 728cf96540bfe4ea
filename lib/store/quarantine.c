/* What was found wrong and set aside, with the reasons. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/store_dir.h"

struct entries {
    char (*name)[NAME_MAX + 1];
    size_t n, cap;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* <64 hex>.<number> */
static bool is_entry(const char *name)
{
    size_t n = strspn(name, "0123456789abcdef");
    return n == 2 * AKV_SHA_BYTES && name[n] == '.' && name[n + 1] && !name[n + 1 + strspn(name + n + 1, "0123456789")];
}

static int list_names(DIR *d, struct entries *l, struct akv_err *err)
{
    for (struct dirent *e; (e = readdir(d));) {
        if (!is_entry(e->d_name))
            continue;
        if (l->n == l->cap) {
            size_t cap = l->cap ? 2 * l->cap : 64;
            void *list = akv_realloc(l->name, cap, sizeof *l->name, err);
            if (!list)
                return AKV_E_IO;
            l->name = list;
            l->cap = cap;
        }
        snprintf(l->name[l->n++], sizeof *l->name, "%s", e->d_name);
    }
    if (l->n)
        qsort(l->name, l->n, sizeof *l->name, by_name);
    return 0;
}

/* The reason beside an object; "" when there is none: the disk was full, or somebody took it. */
static void read_reason(struct akv_store *s, const char *name, char *reason, size_t size)
{
    char why[NAME_MAX + 8], text[4096];
    *reason = '\0';
    snprintf(why, sizeof why, "%s.why", name);
    int fd = akv_file_open(s->quarantine, why, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0);
    ssize_t n = fd < 0 ? -1 : akv_read_upto(fd, text, sizeof text - 1, why, NULL);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    const char *line = strstr(text, "\nreason ");
    if (line)
        snprintf(reason, size, "%.*s", (int)strcspn(line + 8, "\n"), line + 8);
}

int akv_store_quarantined(struct akv_store *s, akv_quarantined_fn *fn, void *ctx, struct akv_err *err)
{
    struct entries l = {0};
    if (s->quarantine < 0)
        return 0;
    DIR *d = akv_store_list(s->quarantine, ".");
    if (!d)
        return akv_store_fail_dir(s, "quarantine", "", err);
    int rc = list_names(d, &l, err);
    closedir(d);
    for (size_t i = 0; rc == 0 && i < l.n; i++) {
        char reason[AKV_ERR_BYTES];
        struct stat st;
        if (fstatat(s->quarantine, l.name[i], &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        read_reason(s, l.name[i], reason, sizeof reason);
        rc = fn(ctx,
                &(struct akv_quarantined){.name = l.name[i], .reason = reason, .bytes = (uint64_t)st.st_size, .since = st.st_ctime},
                err);
    }
    free(l.name);
    return rc;
}
