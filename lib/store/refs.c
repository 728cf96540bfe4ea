/* Refs: small text files that name the tip of a chain, refs/<first 16 hex of root>/<name>. */
#include "store/store_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "store/chain.h"
#include "store/ref_text.h"

#define ROOT_DIR 16 /* hex digits of a root that name its directory */

struct names {
    char **list;
    size_t n, cap;
};

void akv_ref_release(struct akv_ref *r)
{
    free(r->name);
    free(r->made_by);
    free(r->model);
    free(r->options);
    *r = (struct akv_ref){0};
}

/* is_new: characters that can drive a terminal are not given to a pin; one that has them is kept, for it holds pages. */
static int check_name(const char *name, bool is_new, struct akv_err *err)
{
    size_t len = strlen(name);
    const char *why = NULL;
    if (len < 1 || len > AKV_PIN_NAME_MAX)
        why = "it must have 1 to 200 bytes";
    else if (name[0] == '.')
        why = "it begins with a dot";
    else if (strchr(name, '/'))
        why = "it holds a '/'";
    else if (!akv_utf8_valid(name, len, NULL))
        why = "it is not UTF-8";
    for (size_t i = 0; !why && i < len; i++)
        if ((unsigned char)name[i] < 0x20 || name[i] == 0x7f ||
            (is_new && (unsigned char)name[i] == 0xc2 && (unsigned char)name[i + 1] < 0xa0)) /* U+0080 to U+009F */
            why = "it holds a control character";
    return why ? akv_fail(err, AKV_E_USAGE, "pin name '%.40s': %s", name, why) : 0;
}

int akv_pin_name_check(const char *name, struct akv_err *err)
{
    return check_name(name, true, err);
}

/* ---- directories ---- */

static void free_names(struct names *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->list[i]);
    free(l->list);
    *l = (struct names){0};
}

static int add_name(struct names *l, const char *name, struct akv_err *err)
{
    if (l->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 16;
        char **list = akv_realloc(l->list, cap, sizeof *list, err);
        if (!list)
            return AKV_E_IO;
        l->list = list;
        l->cap = cap;
    }
    l->list[l->n] = akv_strndup(name, strlen(name), err);
    return l->list[l->n++] ? 0 : AKV_E_IO;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool is_root_dir(const char *name)
{
    return strlen(name) == ROOT_DIR && strspn(name, "0123456789abcdef") == ROOT_DIR;
}

static bool is_pin(const char *name)
{
    return check_name(name, false, NULL) == 0;
}

/* The names in refs/ or refs/<sub> that keep accepts, sorted; none when there is no such directory. */
static int list_names(struct akv_store *s, const char *sub, bool (*keep)(const char *name), struct names *l, struct akv_err *err)
{
    if (s->refs < 0)
        return 0;
    DIR *d = akv_store_list(s->refs, sub);
    int rc = 0;
    if (!d)
        return errno == ENOENT ? 0 : akv_store_fail_dir(s, "refs", sub, err);
    for (struct dirent *e; rc == 0 && (e = readdir(d));)
        if (keep(e->d_name))
            rc = add_name(l, e->d_name, err);
    closedir(d);
    if (l->n)
        qsort(l->list, l->n, sizeof *l->list, by_text);
    return rc;
}

/* The directories in which a ref of that name stands; with a root, only that root's. */
static int list_homes(struct akv_store *s, const char *name, const struct akv_key *root, struct names *l, struct akv_err *err)
{
    int rc = 0;
    if (root) {
        char hex[ROOT_DIR + 1];
        akv_hex(hex, root->b, ROOT_DIR / 2);
        rc = add_name(l, hex, err);
    } else {
        rc = list_names(s, ".", is_root_dir, l, err);
    }
    size_t kept = 0;
    for (size_t i = 0; i < l->n; i++) {
        struct stat st;
        int dir = rc < 0 || s->refs < 0 ? -1 : akv_store_dir(s->refs, l->list[i]);
        bool there = dir >= 0 && fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
        if (!there && rc == 0 && s->refs >= 0 && errno != ENOENT) /* not knowing is no answer */
            rc = akv_store_fail_dir(s, "refs", l->list[i], err);
        if (there)
            l->list[kept++] = l->list[i];
        else
            free(l->list[i]);
        if (dir >= 0)
            close(dir);
    }
    l->n = kept;
    return rc;
}

/*
 * The one directory of a name, opened: a descriptor in *dir, its name in home and 1; 0 absent; AKV_E_USAGE naming the roots when there
 * are several.
 */
static int open_home(struct akv_store *s, const char *name, const struct akv_key *root, int *dir, char home[ROOT_DIR + 1],
                     struct akv_err *err)
{
    struct names homes = {0};
    *dir = -1;
    int rc = check_name(name, false, err);
    if (rc == 0)
        rc = list_homes(s, name, root, &homes, err);
    if (rc == 0 && homes.n > 1) {
        struct akv_buf b;
        akv_buf_init(&b, 0);
        for (size_t i = 0; i < homes.n && i < 8; i++)
            akv_buf_printf(&b, "%s%s", i ? ", " : "", homes.list[i]);
        rc = akv_fail(err, AKV_E_USAGE, "%s: pin '%s' stands under %zu roots: %s%s", s->dir, name, homes.n, b.data,
                      homes.n > 8 ? ", …" : "");
        akv_buf_release(&b);
    }
    if (rc == 0 && homes.n == 1) {
        snprintf(home, ROOT_DIR + 1, "%s", homes.list[0]);
        *dir = akv_store_dir(s->refs, home);
        rc = *dir >= 0 ? 1 : akv_store_fail_dir(s, "refs", home, err);
    }
    free_names(&homes);
    return rc;
}

/* ---- reading ---- */

/* A ref of the directory `home`, which is open. A collection relies on that being its root's. */
static int read_ref(struct akv_store *s, int dir, const char *home, const char *name, struct akv_ref *out, struct akv_err *err)
{
    char text[AKV_REF_TEXT_MAX], hex[ROOT_DIR + 1];
    struct stat st;
    *out = (struct akv_ref){0};
    int fd = akv_file_open(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0);
    if (fd < 0)
        return errno == ENOENT ? 0 : akv_fail_errno(err, "%s: pin '%s': cannot open", s->dir, name);
    int rc = 0;
    ssize_t n = 0;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        rc = akv_fail(err, AKV_E_INPUT, "%s: pin '%s': not a regular file", s->dir, name);
    else
        rc = akv_store_trust(&st, s->dir, name, err);
    if (rc == 0)
        n = akv_read_upto(fd, text, sizeof text, name, err);
    close(fd);
    if (rc == 0 && n < 0)
        rc = (int)n;
    if (rc == 0) {
        rc = akv_ref_parse(out, text, (size_t)n, err);
        akv_hex(hex, out->root.b, ROOT_DIR / 2);
        if (rc == 0 && strcmp(hex, home))
            rc = akv_fail(err, AKV_E_INPUT, "its root is not that of its directory");
        akv_err_prefix(err, "%s: pin '%s'", s->dir, name);
    }
    if (rc == 0) {
        out->name = akv_strndup(name, strlen(name), err);
        rc = out->name ? 1 : AKV_E_IO;
    }
    if (rc < 0)
        akv_ref_release(out);
    return rc;
}

int akv_store_ref_get(struct akv_store *s, const char *name, const struct akv_key *root, struct akv_ref *out, struct akv_err *err)
{
    int dir;
    char home[ROOT_DIR + 1];
    *out = (struct akv_ref){0};
    int rc = open_home(s, name, root, &dir, home, err);
    if (rc == 1) {
        rc = read_ref(s, dir, home, name, out, err);
        close(dir);
    }
    if (rc == 1 && root && !akv_key_eq(root, &out->root)) { /* another root of the same 16 digits */
        akv_ref_release(out);
        rc = 0;
    }
    return rc;
}

/* Append the refs of one root's directory. */
static int add_refs(struct akv_store *s, const char *home, struct akv_ref **list, size_t *n, akv_bad_ref_fn *bad, void *ctx,
                    struct akv_err *err)
{
    struct names pins = {0};
    int dir = -1;
    int rc = list_names(s, home, is_pin, &pins, err);
    if (rc == 0 && pins.n) {
        struct akv_ref *more = akv_realloc(*list, *n + pins.n, sizeof **list, err);
        if (!more) {
            rc = AKV_E_IO;
            goto out;
        }
        *list = more;
        dir = akv_store_dir(s->refs, home);
        if (dir < 0)
            rc = akv_store_fail_dir(s, "refs", home, err);
    }
    for (size_t i = 0; rc >= 0 && i < pins.n; i++) {
        struct akv_err why = {0};
        rc = read_ref(s, dir, home, pins.list[i], &(*list)[*n], &why); /* 0: removed since */
        *n += rc == 1;
        if (rc < 0 && bad) {
            bad(ctx, pins.list[i], &why);
            rc = 0;
        } else if (rc < 0) {
            akv_fail(err, rc, "%s", why.msg);
        }
    }
out:
    if (dir >= 0)
        close(dir);
    free_names(&pins);
    return rc < 0 ? rc : 0;
}

static int by_name(const void *a, const void *b)
{
    const struct akv_ref *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : memcmp(x->root.b, y->root.b, sizeof x->root.b);
}

int akv_store_refs(struct akv_store *s, struct akv_ref **out, size_t *n, struct akv_err *err)
{
    return akv_store_refs_but(s, out, n, NULL, NULL, err);
}

int akv_store_refs_but(struct akv_store *s, struct akv_ref **out, size_t *n, akv_bad_ref_fn *bad, void *ctx, struct akv_err *err)
{
    struct names homes = {0};
    *n = 0;
    *out = akv_alloc(0, sizeof **out, err);
    int rc = *out ? list_names(s, ".", is_root_dir, &homes, err) : AKV_E_IO;
    for (size_t i = 0; rc == 0 && i < homes.n; i++)
        rc = add_refs(s, homes.list[i], out, n, bad, ctx, err);
    free_names(&homes);
    if (rc == 0) {
        qsort(*out, *n, sizeof **out, by_name);
        return 0;
    }
    for (size_t i = 0; i < *n; i++)
        akv_ref_release(&(*out)[i]);
    free(*out);
    *out = NULL;
    *n = 0;
    return rc;
}

/* ---- changing ---- */

/* The directory of a root, made when it is not there. */
static int make_home(struct akv_store *s, const struct akv_key *root, struct akv_err *err)
{
    char hex[ROOT_DIR + 1];
    akv_hex(hex, root->b, ROOT_DIR / 2);
    int made = mkdirat(s->refs, hex, 0700);
    int dir = made == 0 || errno == EEXIST ? akv_store_dir(s->refs, hex) : -1;
    if (dir < 0 || akv_file_sync(s->refs) < 0) { /* whoever made it */
        int rc = akv_store_fail_dir(s, "refs", hex, err);
        if (dir >= 0)
            close(dir);
        return rc;
    }
    return dir;
}

static int replace_ref(struct akv_store *s, const struct akv_ref *ref, struct akv_err *err)
{
    struct akv_buf text;
    char temp[64];
    akv_buf_init(&text, AKV_REF_TEXT_MAX);
    int dir = make_home(s, &ref->root, err);
    int rc = dir < 0 ? dir : akv_ref_format(ref, &text, err);
    if (rc == 0)
        rc = akv_store_temp_of(s, temp, text.data, text.len, err);
    if (rc == 0 && akv_file_rename(s->tmp, temp, dir, ref->name, 0) < 0) {
        rc = akv_fail_errno(err, "%s: pin '%s': cannot write", s->dir, ref->name);
        unlinkat(s->tmp, temp, 0);
    } else if (rc == 0 && akv_file_sync(dir) < 0) {
        rc = akv_fail_errno(err, "%s: pin '%s': cannot sync", s->dir, ref->name);
    }
    if (dir >= 0)
        close(dir);
    akv_buf_release(&text);
    return rc;
}

int akv_store_ref_put(struct akv_store *s, struct akv_ref *ref, struct akv_err *err)
{
    struct akv_link *links = NULL;
    struct akv_object_name tip;
    size_t n;
    int rc = akv_pin_name_check(ref->name, err);
    if (rc == 0)
        rc = akv_store_batch_begin(s, err); /* so that no page of the chain is collected before the ref stands */
    if (rc < 0)
        return rc;
    rc = akv_chain_trace(s, &ref->root, &ref->tip, AKV_E_NO, &links, &n, err);
    if (rc == 0)
        rc = akv_chain_sum(ref, links, n, err);
    if (rc == 0) /* a page is durable before its children are there, so that the tip stands for all */
        rc = akv_object_name(&tip, &ref->root, &ref->tip, err);
    if (rc == 0)
        rc = s->ops->settle(s, &tip, err);
    if (rc == 0)
        rc = replace_ref(s, ref, err);
    akv_store_batch_end(s);
    free(links);
    return rc;
}

int akv_store_ref_remove(struct akv_store *s, const char *name, const struct akv_key *root, struct akv_err *err)
{
    int dir;
    char home[ROOT_DIR + 1];
    int rc = open_home(s, name, root, &dir, home, err);
    if (rc != 1)
        return rc;
    rc = akv_store_batch_begin(s, err);
    if (rc == 0) {
        rc = 1;
        if (unlinkat(dir, name, 0) < 0)
            rc = errno == ENOENT ? 0 : akv_fail_errno(err, "%s: pin '%s': cannot remove", s->dir, name);
        else if (akv_file_sync(dir) < 0)
            rc = akv_fail_errno(err, "%s: pin '%s': cannot sync", s->dir, name);
        akv_store_batch_end(s);
    }
    close(dir);
    return rc;
}

int akv_store_ref_rename(struct akv_store *s, const char *from, const char *to, const struct akv_key *root, struct akv_err *err)
{
    int dir;
    char home[ROOT_DIR + 1];
    int rc = akv_pin_name_check(to, err);
    if (rc == 0)
        rc = open_home(s, from, root, &dir, home, err);
    if (rc != 1)
        return rc;
    rc = akv_store_batch_begin(s, err);
    if (rc == 0) {
        rc = 1;
        if (akv_file_rename(dir, from, dir, to, RENAME_NOREPLACE) < 0) {
            if (errno == EEXIST)
                rc = akv_fail(err, AKV_E_USAGE, "%s: pin '%s' exists already", s->dir, to);
            else
                rc = errno == ENOENT ? 0 : akv_fail_errno(err, "%s: pin '%s': cannot rename", s->dir, from);
        } else if (akv_file_sync(dir) < 0) {
            rc = akv_fail_errno(err, "%s: pin '%s': cannot sync", s->dir, to);
        }
        akv_store_batch_end(s);
    }
    close(dir);
    return rc;
}
