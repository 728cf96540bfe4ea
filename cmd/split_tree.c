/* akv-split --tree: which prefixes are worth keeping, and what that saves. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "split_tool.h"

#define MOST_INDENT 32u

struct table {
    struct cmd_out *out;
    bool json;
    uint64_t n_rows, saved;
};

static void put_json(struct cmd_out *out, json_t *o)
{
    char *line = o ? json_dumps(o, JSON_COMPACT) : NULL;
    if (!line)
        cmd_die(5, "out of memory");
    cmd_out_line(out, line);
    free(line);
    json_decref(o);
}

static void put_row(struct cmd_out *out, const struct akv_shared *s)
{
    char *name = cmd_escaped(s->name), line[512];
    snprintf(line, sizeof line, "%10llu %10u %14llu  %.16s  %*s%.200s", (unsigned long long)s->requests, s->tokens,
             (unsigned long long)s->saved, s->key, (int)(2 * (s->level < MOST_INDENT ? s->level : MOST_INDENT)), "", name);
    cmd_out_line(out, line);
    free(name);
}

static int put_shared(void *ctx, const struct akv_shared *s, struct akv_err *err)
{
    struct table *t = ctx;
    (void)err;
    if (!t->json && !t->n_rows++)
        cmd_out_line(t->out, "  requests     tokens          saves  key               anchor");
    if (t->json)
        put_json(t->out, json_pack("{s:s, s:s, s:s*, s:I, s:I, s:I}", "anchor", s->name, "key", s->key, "parent",
                                   *s->parent ? s->parent : NULL, "tokens", (json_int_t)s->tokens, "requests",
                                   (json_int_t)s->requests, "saves", (json_int_t)s->saved));
    else
        put_row(t->out, s);
    t->saved += s->saved;
    return 0;
}

void split_tree_write(struct cmd_out *out, struct akv_tree *tree, bool json)
{
    struct akv_err err = {0};
    struct table t = {.out = out, .json = json};
    uint64_t n_requests, n_tokens;
    char line[256];
    if (akv_tree_each(tree, 2, put_shared, &t, &err) < 0)
        cmd_die_err(&err);
    akv_tree_size(tree, &n_requests, &n_tokens);
    if (json) {
        put_json(out, json_pack("{s:I, s:I, s:I}", "requests", (json_int_t)n_requests, "tokens", (json_int_t)n_tokens, "saves",
                                (json_int_t)t.saved));
        return;
    }
    snprintf(line, sizeof line, "%llu requests of %llu tokens: a store that keeps these prefixes saves %llu (%.1f %%)",
             (unsigned long long)n_requests, (unsigned long long)n_tokens, (unsigned long long)t.saved,
             n_tokens ? 100.0 * (double)t.saved / (double)n_tokens : 0.0);
    cmd_out_line(out, line);
}

static int tell_one(void *ctx, const struct akv_shared *s, struct akv_err *err)
{
    (void)ctx;
    (void)err;
    cmd_detail("%.80s:%.16s: %u tokens, in %llu requests", s->name, s->key, s->tokens, (unsigned long long)s->requests);
    return 0;
}

void split_tree_tell(struct akv_tree *t)
{
    struct akv_err err = {0};
    if (cmd_verbose && akv_tree_each(t, 1, tell_one, NULL, &err) < 0)
        cmd_die_err(&err);
}
