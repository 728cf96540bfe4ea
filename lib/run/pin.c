/* Pins behind the public interface: chains of a store by name. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "run/pins.h"
#include "store/store_dir.h"

void akv_pin_describe(struct akv_pin *pin, const struct akv_ref *ref)
{
    *pin = (struct akv_pin){.name = ref->name,
                            .tokens = ref->n_tokens,
                            .bytes = ref->bytes,
                            .made_by = ref->made_by,
                            .options = ref->options,
                            .model = ref->model};
    akv_hex(pin->root, &ref->root, sizeof ref->root);
    akv_hex(pin->tip, &ref->tip, sizeof ref->tip);
    akv_hex(pin->content, ref->content, sizeof ref->content);
    if (ref->has_input)
        akv_hex(pin->input, ref->input, sizeof ref->input);
}

/* A pin of a name that cannot be read. */
struct unread {
    const char *name;
    struct akv_err why;
};

static void note_unread(void *ctx, const char *name, const struct akv_err *why)
{
    struct unread *u = ctx;
    if (!u->why.code && !strcmp(name, u->name))
        u->why = *why;
}

int akv_pin_find(struct akv_store *s, const char *name, const char *root, struct akv_ref *out, struct akv_err *err)
{
    if (!root) {
        int rc = akv_store_ref_get(s, name, NULL, out, err);
        return rc == 0 ? akv_fail(err, AKV_E_NO, "%s: no such pin", name) : rc;
    }
    struct akv_ref *refs = NULL;
    size_t n = 0, found = 0;
    struct unread unread = {.name = name};
    int rc = akv_store_refs_but(s, &refs, &n, note_unread, &unread, err);
    for (size_t i = 0; i < n; i++) {
        char hex[AKV_SHA_HEX];
        akv_hex(hex, &refs[i].root, sizeof refs[i].root);
        bool match = rc >= 0 && !strcmp(refs[i].name, name) && !strncmp(hex, root, strlen(root));
        if (match && !found++)
            *out = refs[i];
        else
            akv_ref_release(&refs[i]);
    }
    free(refs);
    if (rc >= 0 && found == 1)
        return 1;
    if (found)
        akv_ref_release(out);
    if (rc < 0)
        return rc;
    if (!found && unread.why.code)
        return akv_fail(err, unread.why.code, "%s", unread.why.msg);
    return found ? akv_fail(err, AKV_E_USAGE, "%s: root %.16s: stands for more than one", name, root)
                 : akv_fail(err, AKV_E_NO, "%s: no such pin under root %.16s", name, root);
}

/* A pin that was found but that another process has removed or renamed before it was changed. */
static int gone_since(int rc, const char *name, struct akv_err *err)
{
    return rc == 0 ? akv_fail(err, AKV_E_NO, "%s: the pin is gone", name) : rc < 0 ? rc : 0;
}

/* Also one that cannot be read: by the name alone, or with as much of the root as its directory has. */
int akv_pin_remove(struct akv_store *s, const char *name, const char *root, struct akv_err *err)
{
    struct akv_ref ref = {0};
    struct akv_err why = {0};
    int rc = 1;
    if (root) {
        rc = akv_pin_find(s, name, root, &ref, &why);
        if ((rc == AKV_E_INPUT || rc == AKV_E_INCOMPAT) && akv_unhex(ref.root.b, 8, root, strnlen(root, 16)))
            rc = 1;
    }
    if (rc < 0)
        return akv_fail(err, rc, "%s", why.msg);
    rc = akv_store_ref_remove(s, name, root ? &ref.root : NULL, err);
    akv_ref_release(&ref);
    if (rc == 0 && !root)
        return akv_fail(err, AKV_E_NO, "%s: no such pin", name);
    return gone_since(rc, name, err);
}

int akv_pin_rename(struct akv_store *s, const char *from, const char *to, const char *root, struct akv_err *err)
{
    struct akv_ref ref;
    int rc = akv_pin_find(s, from, root, &ref, err);
    if (rc < 0)
        return rc;
    rc = akv_store_ref_rename(s, from, to, &ref.root, err);
    akv_ref_release(&ref);
    return gone_since(rc, from, err);
}

struct export
{
    struct akv_writer *writer;
    int fd;
    const char *name;
    const volatile int *cancel;
};

static int export_page(void *ctx, const struct akv_head *head, const struct akv_page_rec *rec, struct akv_err *err)
{
    struct export *e = ctx;
    if (!e->writer) {
        int rc = akv_writer_open(&e->writer, e->fd, e->name, head, err);
        if (rc < 0)
            return rc;
        akv_writer_set_cancel(e->writer, e->cancel);
    }
    return akv_writer_page(e->writer, rec, err);
}

int akv_pin_export(struct akv_store *s, const char *name, const char *root, int fd, const char *fd_name, struct akv_err *err)
{
    struct akv_ref ref;
    struct export e = {.fd = fd, .name = fd_name, .cancel = s->cancel};
    int rc = akv_pin_find(s, name, root, &ref, err);
    if (rc < 0)
        return rc;
    rc = akv_store_chain(s, &ref, export_page, &e, err);
    akv_ref_release(&ref);
    if (rc < 0) {
        akv_writer_abort(e.writer);
        return rc;
    }
    return akv_writer_close(e.writer, NULL, err);
}

int akv_pin_manifest(struct akv_store *s, const char *name, const char *root, akv_manifest_fn *fn, void *ctx, struct akv_err *err)
{
    struct akv_ref ref;
    int rc = akv_pin_find(s, name, root, &ref, err);
    if (rc < 0)
        return rc;
    rc = akv_store_manifest(s, &ref, fn, ctx, err);
    akv_ref_release(&ref);
    return rc;
}
