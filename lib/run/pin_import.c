/* A stream into the store, and its tips pinned. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/json.h"
#include "run/pins.h"
#include "run/session.h"

#define BEAT_MS 60000.0 /* so often pages of a stream that takes its time are marked as used: collections spare them then */

struct pinning {
    struct akv_store *store;
    const struct akv_pin_opts *opts;
    struct akv_head head;
    bool has_head;
    char *model;
    struct akv_sha sha; /* of the stream */
    uint8_t input[AKV_SHA_BYTES];
    struct akv_coder coder;
    struct akv_buf body;
    struct akv_key *done; /* pages that are in the store now */
    size_t n_done, cap_done;
    double beat;
};

static void note(const struct pinning *p, const char *msg)
{
    if (p->opts->note)
        p->opts->note(p->opts->ctx, msg);
}

/* The name of the model at hand, if the stream is of it. Without it the pin is as good. */
static int take_name(struct pinning *p, struct akv_err *err)
{
    struct akv_session *s = p->opts->session;
    struct akv_str name = {"", 0};
    struct akv_err why = {0};
    if (!s)
        return 0;
    if (akv_session_need_head(s, &why) < 0)
        note(p, why.msg);
    else if (strcmp(akv_head_field(&p->head, "weights"), akv_head_field(&s->head, "weights")))
        note(p, "the stream is of another model than the one at hand, whose name is not kept");
    else
        akv_gguf_str(&s->model->gguf, "general.name", &name, NULL);
    if (!name.len)
        return 0;
    p->model = akv_strndup(name.s, name.len, err);
    return p->model ? 0 : AKV_E_IO;
}

static int take_head(struct pinning *p, const struct akv_head *head, struct akv_err *err)
{
    if (p->has_head)
        return akv_head_match(head, &p->head, err);
    int rc = akv_head_copy(&p->head, head, err);
    p->has_head = rc == 0;
    return rc < 0 ? rc : take_name(p, err);
}

/* Lint findings of a request travel in its record's `lint` field; one that was not looked at is looked at now, when the model is there. */
static void tell_lint(const struct pinning *p, const char *json, size_t len)
{
    const struct akv_model *m = p->opts->session ? p->opts->session->model : NULL;
    struct akv_request *r = NULL;
    char *words = NULL;
    size_t i;
    json_t *finding;
    if (!p->opts->note)
        return;
    if (!m || akv_request_parse(&r, NULL, json, len, m, NULL) < 0) { /* of another model: what it says itself */
        m = NULL;
        if (akv_request_parse(&r, NULL, json, len, NULL, NULL) < 0)
            return;
    }
    if (m && !json_object_get(r->rec.json, "lint") && akv_request_lint(r, m, &words, NULL) == 0)
        free(words);
    json_array_foreach (json_object_get(r->rec.json, "lint"), i, finding)
        if (json_is_string(finding)) {
            char msg[AKV_ERR_BYTES];
            snprintf(msg, sizeof msg, "lint: %s", json_string_value(finding));
            note(p, msg);
        }
    akv_request_free(r);
}

static int remember(struct pinning *p, const struct akv_key *key, struct akv_err *err)
{
    if (p->n_done == p->cap_done) {
        size_t cap = p->cap_done ? 2 * p->cap_done : 64;
        struct akv_key *list = akv_realloc(p->done, cap, sizeof *list, err);
        if (!list)
            return AKV_E_IO;
        p->done = list;
        p->cap_done = cap;
    }
    p->done[p->n_done++] = *key;
    if (akv_now_ms() - p->beat < BEAT_MS)
        return 0;
    for (size_t i = 0; i < p->n_done; i++)
        akv_store_touch(p->store, &p->head, &p->done[i]);
    p->beat = akv_now_ms();
    return 0;
}

/* What comes from elsewhere is decoded and compared with its SHA-256 before others may rely on it. open: its parent did not come. */
static int publish_page(struct pinning *p, const struct akv_page_rec *rec, bool open, struct akv_err *err)
{
    uint64_t written = 0;
    struct akv_err why = {0};
    int rc = akv_page_check(&p->coder, &p->head.geom, rec, &p->body, err);
    if (rc < 0)
        return rc;
    rc = akv_store_put(p->store, &p->head, rec, false, &written, &why);
    if (rc == AKV_E_NO && open)
        return akv_fail(err, AKV_E_INPUT, "%s", why.msg);
    if (rc == AKV_E_NO)
        return akv_fail(err, AKV_E_IO, "%s any more: the quota has no room for all that is being saved", why.msg);
    return rc < 0 ? akv_fail(err, rc, "%s", why.msg) : remember(p, &rec->key, err);
}

/* All pages of the stream into the store. */
static int publish_stream(struct pinning *p, struct akv_reader *reader, const char *name, struct akv_err *err)
{
    for (;;) {
        int rc = akv_reader_next(reader, err);
        if (rc <= 0)
            return rc;
        if (rc == AKV_EV_HEAD) {
            rc = take_head(p, akv_reader_head(reader), err);
        } else if (rc == AKV_EV_PAGE) {
            rc = publish_page(p, akv_reader_page(reader), akv_reader_page_open(reader), err);
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
    const struct akv_pin_opts *o = p->opts;
    struct akv_ref ref = {.root = p->head.root, .tip = *tip, .has_input = true};
    memcpy(ref.input, p->input, sizeof ref.input);
    ref.name = akv_strndup(name, strlen(name), err);
    ref.made_by = o->made_by ? akv_strndup(o->made_by, strlen(o->made_by), err) : NULL;
    ref.options = o->options ? akv_strndup(o->options, strlen(o->options), err) : NULL;
    ref.model = p->model ? akv_strndup(p->model, strlen(p->model), err) : NULL;
    struct akv_err why = {0};
    int rc = ref.name ? akv_store_ref_put(p->store, &ref, &why) : AKV_E_IO;
    if (rc == AKV_E_NO) /* all were there when they were published: only a forced collection takes such young ones */
        rc = akv_fail(err, AKV_E_IO, "%s: a collection has taken it meanwhile, run this again", why.msg);
    else if (rc < 0 && why.code)
        rc = akv_fail(err, rc, "%s", why.msg);
    if (rc >= 0 && o->pinned) {
        struct akv_pin pin;
        akv_pin_describe(&pin, &ref);
        rc = o->pinned(o->ctx, &pin, err);
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

static int pin_tips(struct pinning *p, const char *name, const struct akv_key *tips, size_t n, struct akv_err *err)
{
    int rc = 0;
    if (n == 0)
        return akv_fail(err, AKV_E_INPUT, "the stream has no pages to pin");
    if (n > 1 && !p->opts->all)
        return too_many(name, tips, n, err);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        char numbered[AKV_PIN_NAME_MAX + 32];
        snprintf(numbered, sizeof numbered, "%.*s-%zu", (int)AKV_PIN_NAME_MAX + 1, name, i + 1);
        rc = pin_tip(p, n > 1 ? numbered : name, &tips[i], err);
    }
    return rc;
}

int akv_pin_stream(struct akv_store *s, struct akv_input *in, const char *name, const struct akv_pin_opts *o, struct akv_err *err)
{
    struct pinning p = {.store = s, .opts = o, .beat = akv_now_ms()};
    struct akv_key *tips = NULL;
    size_t n_tips = 0;
    int rc = akv_input_stream(in, err);
    if (rc < 0)
        return rc;
    akv_buf_init(&p.body, 0);
    akv_sha_begin(&p.sha);
    in->in.digest = &p.sha;
    rc = publish_stream(&p, in->reader, in->in.name, err);
    in->in.digest = NULL;
    if (rc == 0)
        rc = akv_sha_end(&p.sha, p.input, err);
    if (rc == 0)
        rc = akv_reader_all_tips(in->reader, &tips, &n_tips, err);
    if (rc == 0)
        rc = pin_tips(&p, name, tips, n_tips, err);
    akv_head_release(&p.head);
    akv_coder_release(&p.coder);
    akv_buf_release(&p.body);
    free(p.done);
    free(p.model);
    free(tips);
    return rc;
}
