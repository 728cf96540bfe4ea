/* Reading an object: a stream of one page. */
#include "store/store_dir.h"

#include <stdio.h>
#include <unistd.h>

#include "base/bytes.h"

void akv_object_init(struct akv_object *o)
{
    *o = (struct akv_object){.fd = -1, .in = {.fd = -1}};
    akv_buf_init(&o->bytes, 0);
}

void akv_object_forget(struct akv_object *o)
{
    akv_reader_close(o->reader);
    o->reader = NULL;
    akv_in_release(&o->in);
    if (o->fd >= 0)
        close(o->fd);
    o->fd = -1;
    akv_buf_clear(&o->bytes);
}

void akv_object_release(struct akv_object *o)
{
    akv_object_forget(o);
    akv_buf_release(&o->bytes);
}

struct akv_object_name akv_object_path(const struct akv_key *name)
{
    struct akv_object_name path;
    char hex[AKV_SHA_HEX];
    akv_hex(hex, name->b, sizeof name->b);
    snprintf(path.s, sizeof path.s, "%.2s/%s.akv", hex, hex + 2);
    return path;
}

bool akv_object_key(struct akv_key *name, const struct akv_object_name *path)
{
    return akv_unhex(name->b, 1, path->s, 2) && akv_unhex(name->b + 1, AKV_SHA_BYTES - 1, path->s + 3, 2 * AKV_SHA_BYTES - 2);
}

int akv_object_name(struct akv_object_name *out, const struct akv_key *root, const struct akv_key *key, struct akv_err *err)
{
    struct akv_key index;
    int rc = akv_index_key(&index, root->b, sizeof root->b, key, err);
    if (rc == 0)
        *out = akv_object_path(&index);
    return rc;
}

static int expect(struct akv_object *o, enum akv_event want, struct akv_err *err)
{
    int rc = akv_reader_next(o->reader, err);
    if (rc < 0 || rc == (int)want)
        return rc < 0 ? rc : 0;
    return akv_fail(err, AKV_E_INPUT, "%s: not one page between a head and an end", o->in.name);
}

static int read_head(struct akv_object *o, const struct akv_head *want, struct akv_err *err)
{
    struct akv_err why = {0};
    int rc = expect(o, AKV_EV_HEAD, err);
    if (rc < 0 || !want || akv_head_match(akv_reader_head(o->reader), want, &why) == 0)
        return rc;
    return akv_fail(err, AKV_E_INPUT, "%s: forged or renamed: %s", o->in.name, why.msg);
}

/* The head, and what comes of the page: all of it, or its header alone. */
static int read_start(struct akv_object *o, const struct akv_head *want, bool headers_only, struct akv_err *err)
{
    int rc = akv_reader_open(&o->reader, &o->in, err);
    if (rc == 0)
        rc = read_head(o, want, err);
    if (rc == 0 && headers_only)
        akv_reader_headers_only(o->reader);
    return rc == 0 ? expect(o, AKV_EV_PAGE, err) : rc;
}

/* The first `most` bytes and what they say. */
static int read_bytes(struct akv_store *s, struct akv_object *o, const struct akv_object_name *name, const struct akv_head *want,
                      size_t most, bool headers_only, struct akv_err *err)
{
    char path[4096];
    akv_object_forget(o);
    snprintf(path, sizeof path, AKV_OBJECT_FMT, s->dir, name->s);
    int rc = s->ops->get(s, name, 0, most, &o->bytes, &o->info, err);
    if (rc <= 0)
        return rc;
    rc = akv_in_memory(&o->in, o->bytes.data, o->bytes.len, path, err);
    if (rc == 0)
        rc = read_start(o, want, headers_only, err);
    if (rc == 0 && !headers_only)
        rc = expect(o, AKV_EV_SECTION_END, err);
    if (rc == 0 && !headers_only)
        rc = expect(o, AKV_EV_END, err);
    return rc < 0 ? rc : 1;
}

/* No object is larger: two headers of their largest size, a page that grew by being coded, an end. */
static size_t largest(const struct akv_head *head)
{
    size_t raw = head ? akv_geom_page_bytes(&head->geom) : AKV_PAGE_BYTES_MAX;
    return raw + raw / 64 + 3 * AKV_HEADER_MAX;
}

int akv_object_begin(struct akv_store *s, struct akv_object *o, const struct akv_object_name *name, const struct akv_head *want,
                     struct akv_err *err)
{
    char path[4096];
    akv_object_forget(o);
    snprintf(path, sizeof path, AKV_OBJECT_FMT, s->dir, name->s);
    int rc = s->ops->open(s, name, &o->fd, &o->info, err);
    if (rc <= 0)
        return rc;
    rc = akv_in_open_with(&o->in, o->fd, o->ahead, sizeof o->ahead, path, err);
    if (rc == 0)
        rc = read_start(o, want, true, err);
    return rc < 0 ? rc : 1;
}

int akv_object_end(struct akv_object *o, struct akv_err *err)
{
    akv_reader_body_read(o->reader);
    int rc = expect(o, AKV_EV_SECTION_END, err);
    return rc < 0 ? rc : expect(o, AKV_EV_END, err);
}

int akv_object_read(struct akv_store *s, struct akv_object *o, const struct akv_object_name *name, const struct akv_head *want,
                    bool headers_only, struct akv_err *err)
{
    struct akv_err why = {0};
    int rc = read_bytes(s, o, name, want, headers_only ? AKV_OBJECT_HEADERS : largest(want), headers_only, &why);
    if (rc == AKV_E_INPUT && headers_only && o->info.bytes > AKV_OBJECT_HEADERS) {
        akv_err_clear(&why);
        rc = read_bytes(s, o, name, want, largest(want), true, &why);
    }
    return rc < 0 ? akv_fail(err, rc, "%s", why.msg) : rc;
}
