/* Pins behind the public interface: chains of a store by name. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/json.h"
#include "run/basis.h"
#include "run/input.h"
#include "store/store.h"

static void describe(struct akv_pin *pin, const struct akv_ref *ref)
{
    *pin = (struct akv_pin){.name = ref->name, .tokens = ref->n_tokens, .bytes = ref->bytes, .made_by = ref->made_by};
    akv_hex(pin->root, &ref->root, sizeof ref->root);
    akv_hex(pin->tip, &ref->tip, sizeof ref->tip);
    akv_hex(pin->content, ref->content, sizeof ref->content);
}

/* What is being pinned: where the stream goes and what was found. */
struct pinning {
    struct akv_store *store;
    struct akv_head head;
    bool has_head;
    const char *made_by;
    akv_pin_fn *fn;
    void (*note)(void *ctx, const char *msg);
    void *ctx;
    struct akv_buf body;
    struct akv_coder coder;
};

static int take_head(struct pinning *p, const struct akv_head *head, struct akv_err *err)
{
    if (p->has_head)
        return akv_head_match(head, &p->head, err);
    int rc = akv_head_copy(&p->head, head, err);
    p->has_head = rc == 0;
    return rc;
}

/* Lint findings of a request travel in its record's `lint` field. */
static void tell_lint(const struct pinning *p, const char *json, size_t len)
{
    json_t *rec = NULL;
    struct akv_err err = {0};
    size_t i;
    json_t *finding;
    if (!p->note || akv_json_parse(&rec, json, len, "request", &err) < 0)
        return;
    json_array_foreach (json_object_get(rec, "lint"), i, finding)
        if (json_is_string(finding))
            p->note(p->ctx, json_string_value(finding));
    json_decref(rec);
}

/* What comes from elsewhere is decoded and compared with its SHA-256 before others may rely on it. */
static int publish_page(struct pinning *p, const struct akv_page_rec *rec, struct akv_err *err)
{
    uint64_t written = 0;
    int rc = akv_page_check(&p->coder, &p->head.geom, rec, &p->body, err);
    if (rc == 0)
        rc = akv_store_put(p->store, &p->head, rec, false, &written, err);
    if (rc == AKV_E_NO && err) /* a parent that neither the stream nor the store has */
        err->code = AKV_E_INPUT;
    return rc == AKV_E_NO ? AKV_E_INPUT : rc;
}

/* All pages of the stream into the store, whose shared lock is held. */
static int publish_stream(struct pinning *p, struct akv_reader *reader, const char *name, struct akv_err *err)
{
    for (;;) {
        int rc = akv_reader_next(reader, err);
        if (rc <= 0)
            return rc;
        if (rc == AKV_EV_HEAD) {
            rc = take_head(p, akv_reader_head(reader), err);
        } else if (rc == AKV_EV_PAGE) {
            rc = publish_page(p, akv_reader_page(reader), err);
        } else if (rc == AKV_EV_REQUEST) {
            size_t len;
            const char *json = akv_reader_request(reader, &len);
            tell_lint(p, json, len);
            rc = 0;
        }
        if (rc < 0) {
            akv_err_prefix(err, "%s: record %llu", name, (unsigned long long)akv_reader_record(reader));
            return rc;
        }
    }
}

static int pin_tip(struct pinning *p, const char *name, const struct akv_key *tip, struct akv_err *err)
{
    struct akv_ref ref = {.root = p->head.root, .tip = *tip};
    ref.name = akv_strndup(name, strlen(name), err);
    ref.made_by = p->made_by ? akv_strndup(p->made_by, strlen(p->made_by), err) : NULL;
    int rc = ref.name ? akv_store_ref_put(p->store, &ref, err) : AKV_E_IO;
    if (rc >= 0 && p->fn) {
        struct akv_pin pin;
        describe(&pin, &ref);
        rc = p->fn(p->ctx, &pin, err);
    }
    akv_ref_release(&ref);
    return rc < 0 ? rc : 0;
}

static int too_many(const char *name, const struct akv_key *tips, size_t n, struct akv_err *err)
{
    char list[256] = "";
    for (size_t i = 0, at = 0; i < n && i < 8; i++) {
        char hex[AKV_SHA_HEX];
        akv_hex(hex, &tips[i], sizeof tips[i]);
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%.12s", i ? ", " : "", hex);
    }
    return akv_fail(err, AKV_E_USAGE, "%s: the stream has %zu tips (%s%s): pin one chain at a time, or all with --all", name, n,
                    list, n > 8 ? ", ..." : "");
}

static int pin_tips(struct pinning *p, const char *name, const struct akv_key *tips, size_t n, bool all, struct akv_err *err)
{
    int rc = 0;
    if (n == 0)
        return akv_fail(err, AKV_E_INPUT, "the stream has no pages to pin");
    if (n > 1 && !all)
        return too_many(name, tips, n, err);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        char numbered[AKV_PIN_NAME_MAX + 32];
        snprintf(numbered, sizeof numbered, "%.*s-%zu", (int)AKV_PIN_NAME_MAX + 1, name, i + 1);
        rc = pin_tip(p, n > 1 ? numbered : name, &tips[i], err);
    }
    return rc;
}

int akv_pin_stream(struct akv_store *s, struct akv_input *in, const char *name, bool all, const char *made_by, akv_pin_fn *fn,
                   void (*note)(void *ctx, const char *msg), void *ctx, struct akv_err *err)
{
    struct pinning p = {.store = s, .made_by = made_by, .fn = fn, .note = note, .ctx = ctx};
    struct akv_key *tips = NULL;
    size_t n_tips = 0;
    if (in->kind != AKV_KIND_STREAM)
        return akv_fail(err, AKV_E_INPUT, "%s: not an akv stream", in->in.name);
    int rc = akv_reader_open(&in->reader, &in->in, err);
    if (rc < 0)
        return rc;
    rc = akv_store_batch_begin(s, err);
    if (rc < 0)
        return rc;
    akv_buf_init(&p.body, 0);
    rc = publish_stream(&p, in->reader, in->in.name, err);
    if (rc == 0)
        rc = akv_reader_all_tips(in->reader, &tips, &n_tips, err);
    if (rc == 0)
        rc = pin_tips(&p, name, tips, n_tips, all, err);
    akv_store_batch_end(s);
    akv_head_release(&p.head);
    akv_buf_release(&p.body);
    akv_coder_release(&p.coder);
    free(tips);
    return rc;
}

int akv_pin_list(struct akv_store *s, akv_pin_fn *fn, void *ctx, struct akv_err *err)
{
    struct akv_ref *refs = NULL;
    size_t n = 0;
    int rc = akv_store_refs(s, &refs, &n, err);
    for (size_t i = 0; i < n; i++) {
        struct akv_pin pin;
        describe(&pin, &refs[i]);
        if (rc >= 0)
            rc = fn(ctx, &pin, err);
        akv_ref_release(&refs[i]);
    }
    free(refs);
    return rc < 0 ? rc : 0;
}

int akv_pin_find(struct akv_store *s, const char *name, const char *root, struct akv_ref *out, struct akv_err *err)
{
    if (!root) {
        int rc = akv_store_ref_get(s, name, NULL, out, err);
        return rc == 0 ? akv_fail(err, AKV_E_NO, "%s: no such pin", name) : rc;
    }
    struct akv_ref *refs = NULL;
    size_t n = 0, found = 0;
    int rc = akv_store_refs(s, &refs, &n, err);
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
    return found ? akv_fail(err, AKV_E_USAGE, "%s: root %.16s: stands for more than one", name, root)
                 : akv_fail(err, AKV_E_NO, "%s: no such pin under root %.16s", name, root);
}

/* A pin that was found but that another process has removed or renamed before it was changed. */
static int gone_since(int rc, const char *name, struct akv_err *err)
{
    return rc == 0 ? akv_fail(err, AKV_E_NO, "%s: the pin is gone", name) : rc < 0 ? rc : 0;
}

int akv_pin_remove(struct akv_store *s, const char *name, const char *root, struct akv_err *err)
{
    struct akv_ref ref;
    int rc = akv_pin_find(s, name, root, &ref, err);
    if (rc < 0)
        return rc;
    rc = akv_store_ref_remove(s, name, &ref.root, err);
    akv_ref_release(&ref);
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
};

static int export_page(void *ctx, const struct akv_head *head, const struct akv_page_rec *rec, struct akv_err *err)
{
    struct export *e = ctx;
    if (!e->writer) {
        int rc = akv_writer_open(&e->writer, e->fd, e->name, head, err);
        if (rc < 0)
            return rc;
    }
    return akv_writer_page(e->writer, rec, err);
}

int akv_pin_export(struct akv_store *s, const char *name, const char *root, int fd, const char *fd_name, struct akv_err *err)
{
    struct akv_ref ref;
    struct export e = {.fd = fd, .name = fd_name};
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
