/* akv-pin --list and --manifest: what pins there are, and what they are made of. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pin.h"

void pin_line(struct pin *t, json_t *line)
{
    char *dump = line ? json_dumps(line, JSON_COMPACT) : NULL;
    if (!dump)
        cmd_die(5, "out of memory");
    cmd_out_line(&t->out, dump);
    free(dump);
    json_decref(line);
}

void pin_note(void *ctx, const char *msg)
{
    (void)ctx;
    cmd_note("%s", msg);
}

void pin_utc(char text[32], int64_t seconds)
{
    time_t t = (time_t)seconds;
    struct tm tm;
    if (!seconds || !gmtime_r(&t, &tm) || !strftime(text, 32, "%Y-%m-%dT%H:%M:%SZ", &tm))
        snprintf(text, 32, "-");
}

static const char *or_null(const char *text)
{
    return text && *text ? text : NULL;
}

/* A ref may have been written by anybody. */
static json_t *text_or_null(const char *text)
{
    return text && *text ? cmd_text(text) : json_null();
}

static void list_json(struct pin *t, const struct akv_pin *pin, const char *used)
{
    pin_line(t, json_pack("{s:s, s:s, s:s, s:s?, s:s?, s:I, s:I, s:I, s:I, s:b, s:s, s:s?, s:o, s:s?, s:s?}", "name", pin->name,
                          "root", pin->root, "tip", pin->tip, "model", pin->model, "weights", or_null(pin->weights), "tokens",
                          (json_int_t)pin->tokens, "bytes", (json_int_t)pin->bytes, "own_bytes", (json_int_t)pin->own_bytes,
                          "shared_bytes", (json_int_t)pin->shared_bytes, "whole", pin->whole, "content", pin->content, "used",
                          *used == '-' ? NULL : used, "made_by", text_or_null(pin->made_by), "options", pin->options, "input",
                          or_null(pin->input)));
}

static int list_one(void *ctx, const struct akv_pin *pin, struct akv_err *err)
{
    struct pin *t = ctx;
    char used[32], line[2048], model[80];
    (void)err;
    pin_utc(used, pin->used);
    if (t->json) {
        list_json(t, pin, used);
        return 0;
    }
    if (pin->model)
        snprintf(model, sizeof model, "%.70s", pin->model);
    else
        snprintf(model, sizeof model, "weights %.12s", or_null(pin->weights) ? pin->weights : "unknown");
    snprintf(line, sizeof line, "%-24s %-24s %8llu tokens %12llu bytes own %12llu shared  used %s  root %.16s  %s%s", pin->name,
             model, (unsigned long long)pin->tokens, (unsigned long long)pin->own_bytes, (unsigned long long)pin->shared_bytes,
             used, pin->root, or_null(pin->made_by) ? pin->made_by : "-", pin->whole ? "" : "  BROKEN");
    char *shown = cmd_escaped(line); /* a ref may have been written by anybody */
    cmd_out_line(&t->out, shown);
    free(shown);
    return 0;
}

static void unreadable(void *ctx, const char *name, const struct akv_err *why)
{
    (void)ctx;
    (void)name;
    cmd_report(why);
}

int pin_list(struct pin *t, struct akv_err *err)
{
    return akv_pin_list(t->store, list_one, unreadable, t, err);
}

/* sha256sum's own form: a name with a backslash is written with two, and the line begins with one. */
static int manifest_line(void *ctx, const char *sha256, const char *path, struct akv_err *err)
{
    struct pin *t = ctx;
    char line[1024];
    bool odd = strchr(path, '\\') != NULL;
    size_t n = (size_t)snprintf(line, sizeof line, "%s%s  ", odd ? "\\" : "", sha256);
    (void)err;
    for (; *path && n + 3 < sizeof line; path++) {
        line[n++] = *path;
        if (*path == '\\')
            line[n++] = '\\';
    }
    line[n] = '\0';
    cmd_out_line(&t->out, line);
    return 0;
}

int pin_manifest(struct pin *t, struct akv_err *err)
{
    return akv_pin_manifest(t->store, t->names[0], t->root, manifest_line, t, err);
}
