/* The store's config and its small text files. */
#include "store/store_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int akv_store_read_text(struct akv_store *s, const char *name, char *text, size_t size, struct akv_err *err)
{
    int fd = akv_file_open(s->root, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0);
    if (fd < 0)
        return errno == ENOENT ? 0 : akv_fail_errno(err, "%s/%s: cannot open", s->dir, name);
    ssize_t n = akv_read_upto(fd, text, size - 1, name, err);
    close(fd);
    if (n < 0)
        return akv_fail(err, AKV_E_IO, "%s/%s: cannot read", s->dir, name);
    text[n] = '\0';
    return 1;
}

int akv_store_write_text(struct akv_store *s, const char *name, const char *text, bool replace, struct akv_err *err)
{
    char temp[64];
    int rc = akv_store_temp_of(s, temp, text, strlen(text), err);
    if (rc < 0)
        return rc;
    if (replace && akv_file_rename(s->tmp, temp, s->root, name, 0) < 0)
        rc = akv_fail_errno(err, "%s/%s: cannot replace", s->dir, name);
    if (!replace && akv_file_link(s->tmp, temp, s->root, name) < 0 && errno != EEXIST)
        rc = akv_fail_errno(err, "%s/%s: cannot create", s->dir, name);
    unlinkat(s->tmp, temp, 0);
    if (rc == 0 && replace && akv_file_sync(s->root) < 0)
        rc = akv_fail_errno(err, "%s: cannot sync", s->dir);
    return rc;
}

/* ---- config: lines key=value ---- */

static int parse_quota(struct akv_store *s, const char *text, struct akv_err *err)
{
    uint64_t v = 0;
    size_t n = strspn(text, "0123456789");
    for (size_t i = 0; i < n; i++)
        v = v * 10 + (uint64_t)(text[i] - '0');
    bool good = n >= 1 && n <= 18 && !text[n];
    if (!good && !s->any_quota)
        return akv_fail(err, AKV_E_INPUT, "%s/config: quota '%.40s' is not a number of bytes", s->dir, text);
    s->quota = good ? v : 0;
    return 0;
}

/* What a later version adds is passed over. */
static int parse_line(struct akv_store *s, const char *line, struct akv_err *err)
{
    if (!strncmp(line, "quota=", 6))
        return parse_quota(s, line + 6, err);
    if (strncmp(line, "codec=", 6))
        return 0;
    if (strcmp(line + 6, "planes") && strcmp(line + 6, "raw"))
        return akv_fail(err, AKV_E_INCOMPAT, "%s/config: codec '%.40s' is unknown", s->dir, line + 6);
    s->codec = line[6] == 'r' ? AKV_CODEC_RAW : AKV_CODEC_PLANES;
    return 0;
}

int akv_store_read_config(struct akv_store *s, struct akv_err *err)
{
    char text[4096], *rest = NULL;
    struct stat st;
    if (fstatat(s->root, "config", &st, AT_SYMLINK_NOFOLLOW) < 0)
        st = (struct stat){0};
    if (st.st_ino == s->config.st_ino && st.st_ctim.tv_sec == s->config.st_ctim.tv_sec &&
        st.st_ctim.tv_nsec == s->config.st_ctim.tv_nsec)
        return 0;
    s->codec = AKV_CODEC_PLANES;
    s->quota = 0;
    int rc = akv_store_read_text(s, "config", text, sizeof text, err);
    for (char *line = rc == 1 ? text : NULL; rc >= 0 && line && *line; line = rest) {
        rest = strchr(line, '\n');
        if (rest)
            *rest++ = '\0';
        rc = parse_line(s, line, err);
    }
    if (rc >= 0)
        s->config = st;
    return rc < 0 ? rc : 0;
}

int akv_store_write_quota(struct akv_store *s, uint64_t quota, struct akv_err *err)
{
    char text[4096];
    struct akv_buf b;
    int rc = akv_store_read_text(s, "config", text, sizeof text, err);
    if (rc < 0)
        return rc;
    akv_buf_init(&b, sizeof text - 1);
    for (char *line = rc ? text : NULL, *rest; line && *line; line = rest) {
        size_t n = strcspn(line, "\n");
        rest = line + n + (line[n] == '\n');
        if (strncmp(line, "quota=", 6))
            akv_buf_add(&b, line, n), akv_buf_putc(&b, '\n');
    }
    if (quota)
        akv_buf_printf(&b, "quota=%llu\n", (unsigned long long)quota);
    rc = akv_buf_check(&b, "config", err);
    if (rc == 0)
        rc = akv_store_write_text(s, "config", b.data, true, err);
    akv_buf_release(&b);
    return rc < 0 ? rc : akv_store_read_config(s, err);
}
