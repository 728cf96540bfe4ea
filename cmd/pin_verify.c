/* akv-pin --verify and --quarantine: does the store hold what it says? */
#include <stdio.h>

#include "pin.h"

static void found(void *ctx, const struct akv_flaw *f)
{
    struct pin *t = ctx;
    char line[AKV_ERR_BYTES + 640];
    if (t->json) {
        pin_line(t, cmd_finding(f->kind, f->what, f->why));
        return;
    }
    snprintf(line, sizeof line, "%s %.600s: %s", f->kind, f->what, f->why);
    char *shown = cmd_escaped(line);
    cmd_out_line(&t->out, shown);
    free(shown);
}

static void tell(struct pin *t, const struct akv_verified *v)
{
    char line[512];
    if (t->json) {
        pin_line(t, json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "objects", (json_int_t)v->objects, "bytes",
                              (json_int_t)v->bytes, "damaged", (json_int_t)v->damaged, "unreadable", (json_int_t)v->unreadable,
                              "depends", (json_int_t)v->depends, "open", (json_int_t)v->open, "pins", (json_int_t)v->pins,
                              "broken_pins", (json_int_t)v->broken_pins));
        return;
    }
    snprintf(line, sizeof line,
             "%llu objects of %llu bytes: %llu damaged, %llu unreadable, %llu built on those, %llu without a "
             "predecessor; %llu pins, %llu broken",
             (unsigned long long)v->objects, (unsigned long long)v->bytes, (unsigned long long)v->damaged,
             (unsigned long long)v->unreadable, (unsigned long long)v->depends, (unsigned long long)v->open,
             (unsigned long long)v->pins, (unsigned long long)v->broken_pins);
    cmd_out_line(&t->out, line);
}

static void tell_deep(struct pin *t, const struct akv_recomputed *r)
{
    char line[256], lost[96] = "";
    if (!r->pages)
        cmd_note("the store has no page under the root of this model, KV type and salt: nothing was computed again");
    if (t->json) {
        pin_line(t, json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "pages", (json_int_t)r->pages, "recomputed", (json_int_t)r->checked,
                              "wrong", (json_int_t)r->wrong, "too_long", (json_int_t)r->too_long, "depends", (json_int_t)r->depends,
                              "broken_pins", (json_int_t)r->broken_pins));
        return;
    }
    if (r->wrong)
        snprintf(lost, sizeof lost, ", %llu built on those; %llu pins broken", (unsigned long long)r->depends,
                 (unsigned long long)r->broken_pins);
    snprintf(line, sizeof line, "%llu of %llu pages of this model computed again: %llu wrong%s%s", (unsigned long long)r->checked,
             (unsigned long long)r->pages, (unsigned long long)r->wrong, lost,
             r->too_long ? "; some lie beyond the context and were passed over" : "");
    cmd_out_line(&t->out, line);
}

/* What only the model can tell: that its weights are still those of the digest that is kept, and that pages are what it computes. */
static int with_model(struct pin *t, const struct akv_store_work *w, struct akv_err *err)
{
    struct akv_session_opts so = {0};
    struct akv_recomputed done = {0};
    struct akv_model *m = cmd_model(&t->o, AKV_MODEL_DECODE_ONLY);
    struct akv_session *s = cmd_session(&t->o, m, &so);
    int rc = akv_session_check_weights(s, err);
    if (rc == AKV_E_NO)
        found(t, &(struct akv_flaw){.kind = "weights", .what = t->o.model, .why = err->msg});
    if (rc == 0 && t->deep) {
        rc = akv_session_recompute(s, t->sample, w, &done, err);
        if (rc == 0 || rc == AKV_E_NO)
            tell_deep(t, &done);
    }
    akv_session_close(s);
    akv_model_close(m);
    return rc;
}

int pin_verify(struct pin *t, struct akv_err *err)
{
    struct akv_verified done;
    struct akv_store_work w = pin_work(t);
    w.flaw = found;
    int rc = akv_store_verify(t->store, &w, &done, err);
    if (rc < 0 && rc != AKV_E_NO)
        return rc;
    tell(t, &done);
    if (t->deep || t->model_given) {
        struct akv_err more = {0};
        int deep_rc = with_model(t, &w, &more);
        if (deep_rc < 0 && rc < 0)
            cmd_report(err);
        if (deep_rc < 0) {
            *err = more;
            rc = deep_rc;
        }
    }
    return rc;
}

static int one_in_quarantine(void *ctx, const struct akv_quarantined *q, struct akv_err *err)
{
    struct pin *t = ctx;
    char line[AKV_ERR_BYTES + 512], since[32];
    (void)err;
    pin_utc(since, q->since);
    if (t->json) {
        pin_line(t, json_pack("{s:s, s:I, s:s, s:o}", "name", q->name, "bytes", (json_int_t)q->bytes, "since", since, "reason",
                              cmd_text(q->reason)));
        return 0;
    }
    snprintf(line, sizeof line, "%s %10llu bytes  since %s  %s", q->name, (unsigned long long)q->bytes, since, q->reason);
    cmd_out_line(&t->out, line);
    return 0;
}

int pin_quarantine(struct pin *t, struct akv_err *err)
{
    return akv_store_quarantined(t->store, one_in_quarantine, t, err);
}
