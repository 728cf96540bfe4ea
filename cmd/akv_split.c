/* akv-split: cut prompts at anchors, name their pages, say where they part from others. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "split_tool.h"

static const char usage[] = "[options] [FILE ...]";
static const char help[] =
    "Pass token records through, adding to them; or emit the prefixes that are worth keeping.\n\n"
    "      --at N|NAME      add an anchor at token N, or want the anchor NAME; may be given again\n"
    "      --prefix[=NAME]  emit each distinct prefix that ends at the anchor NAME (all anchors) once,\n"
    "                       as a record of its own that is only to be computed\n"
    "      --keys           add the page keys of the prompt\n"
    "      --lint           look for text that changes from day to day or request to request (needs -m):\n"
    "                       findings go to standard error and into the record\n"
    "      --tree           instead: which prefixes several records share, and what a store that keeps them saves\n"
    "      --against X      instead: say where each record parts from what is nearest to it in X, why and at\n"
    "                       what cost; exit 1 when any does. X: a store's directory, pin:NAME, a file\n"
    "                       of records, a stream (with -m the text is looked at)\n"
    "      --json           with --against and --tree: JSON Lines\n" CMD_HELP;

enum { OPT_AT = CMD_OPT_OWN, OPT_PREFIX, OPT_TREE, OPT_KEYS, OPT_LINT, OPT_AGAINST, OPT_JSON };

static const struct option longs[] = {CMD_LONG,
                                      {"at", required_argument, NULL, OPT_AT},
                                      {"prefix", optional_argument, NULL, OPT_PREFIX},
                                      {"tree", no_argument, NULL, OPT_TREE},
                                      {"keys", no_argument, NULL, OPT_KEYS},
                                      {"lint", no_argument, NULL, OPT_LINT},
                                      {"against", required_argument, NULL, OPT_AGAINST},
                                      {"json", no_argument, NULL, OPT_JSON},
                                      {0}};

struct tool {
    struct cmd_opts o;
    uint32_t *at; /* of --at N */
    size_t n_at;
    const char **names; /* of the anchors that were asked for, at-N among them; none: all */
    size_t n_names;
    bool prefix, tree, keys, lint, json;
    const char *against;
    struct akv_model *model; /* for --lint, and for the text with --against */
    struct akv_basis *basis; /* of --against */
    struct cmd_out out;
    struct akv_tree *prefixes; /* met so far */
    bool parts;
    uint64_t n_done;
};

/* A place to cut: a position, or an anchor's name. */
static void take_at(struct tool *t, const char *what)
{
    char *name = NULL;
    if (!what[strspn(what, "0123456789")] || *what == '-') { /* no name, and no number either, is said as a bad number */
        uint32_t at = (uint32_t)cmd_number(what, UINT32_MAX, "--at");
        name = cmd_alloc(24);
        snprintf(name, 24, "at-%u", at);
        t->at[t->n_at++] = at;
    }
    t->names[t->n_names++] = name ? name : cmd_strdup(what);
}

static void options(struct tool *t, int argc, char **argv)
{
    cmd_opts_init(&t->o);
    t->at = cmd_alloc((size_t)argc * sizeof *t->at);
    t->names = cmd_alloc((size_t)argc * sizeof *t->names);
    for (int c; (c = cmd_getopt(argc, argv, CMD_SHORT, longs)) != -1;) {
        if (cmd_opt(&t->o, c, usage, help))
            continue;
        switch (c) {
        case OPT_AT:
            take_at(t, optarg);
            break;
        case OPT_PREFIX:
            t->prefix = true;
            if (optarg)
                t->names[t->n_names++] = cmd_strdup(optarg);
            break;
        case OPT_TREE:
            t->tree = true;
            break;
        case OPT_KEYS:
            t->keys = true;
            break;
        case OPT_LINT:
            t->lint = true;
            break;
        case OPT_AGAINST:
            t->against = optarg;
            break;
        case OPT_JSON:
            t->json = true;
            break;
        }
    }
    if (t->against && (t->n_names || t->prefix || t->tree || t->keys || t->lint))
        cmd_die(2, "--against goes with --json only: it changes no record");
    if (t->tree && (t->prefix || t->keys || t->lint))
        cmd_die(2, "--tree goes with --at and --json only: it emits no record");
    if (t->json && !t->against && !t->tree)
        cmd_die(2, "--json goes with --against or --tree: token records are JSON anyway");
}

static void put_request(struct tool *t, const struct akv_request *r)
{
    struct akv_err err = {0};
    char *json;
    size_t len;
    if (akv_request_json(r, &json, &len, &err) < 0)
        cmd_die_err(&err);
    cmd_out_line(&t->out, json);
    free(json);
}

/* What the options add to a record, then the record. */
static int finish(struct tool *t, struct akv_request *r, struct akv_err *err)
{
    char *words = NULL;
    int rc = t->lint ? akv_request_lint(r, t->model, &words, err) : 0;
    if (rc == 0)
        cmd_notes(words);
    if (rc == 0 && t->keys)
        rc = akv_request_add_keys(r, err);
    if (rc == 0) {
        size_t n;
        akv_request_ids(r, &n);
        cmd_detail("%.80s: %zu tokens", akv_request_id(r), n);
        put_request(t, r);
    }
    return rc;
}

static int put_prefix(void *ctx, struct akv_request *prefix, struct akv_err *err)
{
    return finish(ctx, prefix, err);
}

static int edit(struct tool *t, struct akv_request *r, struct akv_err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < t->n_at; i++)
        rc = akv_request_add_anchor(r, t->at[i], t->model, err);
    if (rc == 0 && t->prefixes)
        return akv_tree_add(t->prefixes, r, t->names, t->n_names, t->prefix ? put_prefix : NULL, t, err);
    for (size_t i = 0; rc == 0 && i < t->n_names; i++)
        rc = akv_request_need_anchor(r, t->names[i], err);
    return rc < 0 ? rc : finish(t, r, err);
}

static int compare(struct tool *t, const struct akv_request *r, struct akv_err *err)
{
    int rc = cmd_explain(&t->out, t->basis, r, t->model, t->json, err);
    t->parts = t->parts || rc > 0;
    return rc;
}

/* All records of one input; a bad one is reported and the others go on. */
static void run(struct tool *t, struct akv_input *in)
{
    for (;;) {
        struct akv_err err = {0};
        struct akv_request *r = NULL;
        int rc = akv_request_read(&r, in, t->model, &err);
        if (rc == 0)
            return;
        if (rc > 0)
            rc = t->basis ? compare(t, r, &err) : edit(t, r, &err);
        akv_request_free(r);
        if (rc < 0)
            cmd_report(&err);
        else
            t->n_done++;
        if (akv_exit_status(rc) == 5)
            return;
    }
}

int main(int argc, char **argv)
{
    cmd_begin("akv-split");
    struct tool t = {0};
    options(&t, argc, argv);
    cmd_out_open(&t.out, t.o.out, false);
    struct cmd_inputs inputs = {0};
    cmd_first_input(&inputs, argc - optind, argv + optind);
    if (t.lint || t.o.model)
        t.model = cmd_model(&t.o, AKV_MODEL_VOCAB_ONLY);
    struct akv_err err = {0};
    if ((t.prefix || t.tree) && akv_tree_open(&t.prefixes, &err) < 0)
        cmd_die_err(&err);
    if (t.against)
        t.basis = cmd_basis(t.against, t.o.store, t.model);
    for (struct akv_input *in; (in = cmd_input(&inputs)); cmd_input_done(&inputs)) {
        if (akv_input_kind(in) != AKV_KIND_JSON)
            cmd_die(3, "%s: not token records", cmd_input_name(&inputs));
        run(&t, in);
    }
    cmd_leave_if_none(t.n_done);
    if (t.tree)
        split_tree_write(&t.out, t.prefixes, t.json);
    else if (t.prefix)
        split_tree_tell(t.prefixes);
    cmd_out_commit(&t.out);
    for (size_t i = 0; i < t.n_names; i++)
        free((char *)(uintptr_t)t.names[i]);
    free(t.names);
    free(t.at);
    akv_tree_close(t.prefixes);
    akv_basis_close(t.basis);
    akv_model_close(t.model);
    int status = cmd_exit();
    return status ? status : t.parts;
}
