/* akv-pin --gc and --quota: what the store may hold. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pin.h"

#define QUOTA_MAX ((uint64_t)524288 << 40)

uint64_t pin_size(const char *text)
{
    static const char units[] = "KMGT";
    size_t n = strspn(text, "0123456789");
    const char *unit = text[n] ? strchr(units, text[n]) : NULL;
    if (!strcmp(text, "none"))
        return 0;
    if (n < 1 || (text[n] && (!unit || text[n + 1])))
        cmd_die(2, "--quota: %.40s: must be bytes, optionally with K, M, G or T (of 1024), or none", text);
    unsigned shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;
    uint64_t size = strtoull(text, NULL, 10); /* the largest one if that is too small for it */
    if (size > QUOTA_MAX >> shift)
        cmd_die(2, "--quota: %.40s: must be at most 524288T", text);
    if (!size)
        cmd_die(2, "--quota: must be at least 1, or none");
    return size << shift;
}

struct akv_store_work pin_work(struct pin *t)
{
    return (struct akv_store_work){.flags = (t->dry_run ? AKV_STORE_DRY_RUN : 0) | (t->force ? AKV_STORE_FORCE : 0),
                                   .cancel = &cmd_cancel,
                                   .note = pin_note,
                                   .n_threads = cmd_threads(&t->o),
                                   .ctx = t};
}

static void tell(struct pin *t, const struct akv_collected *c)
{
    char line[512], quota[64] = "";
    if (t->json) {
        pin_line(t, json_pack("{s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "dry_run", t->dry_run, "deleted", (json_int_t)c->gone,
                              "deleted_bytes", (json_int_t)c->gone_bytes, "temps", (json_int_t)c->temps, "objects",
                              (json_int_t)c->objects, "bytes", (json_int_t)c->bytes, "pinned_bytes", (json_int_t)c->pinned_bytes,
                              "quota", c->quota ? json_integer((json_int_t)c->quota) : json_null()));
        return;
    }
    if (c->quota)
        snprintf(quota, sizeof quota, " of a quota of %llu", (unsigned long long)c->quota);
    snprintf(line, sizeof line,
             "%s %llu objects of %llu bytes and %llu temporary files; %llu objects of %llu bytes%s stay, %llu bytes pinned",
             t->dry_run ? "would delete" : "deleted", (unsigned long long)c->gone, (unsigned long long)c->gone_bytes,
             (unsigned long long)c->temps, (unsigned long long)c->objects, (unsigned long long)c->bytes, quota,
             (unsigned long long)c->pinned_bytes);
    cmd_out_line(&t->out, line);
}

int pin_collect(struct pin *t, struct akv_err *err)
{
    struct akv_collected done;
    const struct akv_store_work w = pin_work(t);
    int rc = akv_store_collect(t->store, &w, &done, err);
    if (rc == 0)
        tell(t, &done);
    return rc;
}

int pin_set_quota(struct pin *t, struct akv_err *err)
{
    struct akv_collected done;
    const struct akv_store_work w = pin_work(t);
    int rc = akv_store_set_quota(t->store, t->quota, &w, &done, err);
    if (rc == 0)
        tell(t, &done);
    return rc;
}
