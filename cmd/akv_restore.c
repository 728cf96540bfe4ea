/* akv-restore: put the stored pages of each request in front of it. */
#include <stdlib.h>
#include <string.h>

#include "cmd.h"

static const char usage[] = "[options] [FILE ...]";
static const char help[] =
    "For each token record write the pages that the store holds of its prompt, then the record, as an akv stream.\n"
    "What is not stored is a miss, not an error. The store's default here is ~/.cache/akv/store.\n\n"
    "      --require        fail (exit 1) unless every prompt is stored whole\n" CMD_RUN_HELP;

enum { OPT_REQUIRE = CMD_OPT_OWN };

static const struct option longs[] = {CMD_RUN_LONG, {"require", no_argument, NULL, OPT_REQUIRE}, {0}};

struct tool {
    struct cmd_opts o;
    bool require;
};

static int restore(void *ctx, struct akv_session *s, const struct akv_request *r, struct akv_err *err)
{
    struct tool *t = ctx;
    struct akv_stats st;
    int rc = akv_session_restore(s, r, t->require, &st, err);
    if (rc == 0 || rc == AKV_E_NO)
        cmd_stats(&t->o, akv_request_id(r), &st);
    return rc;
}

int main(int argc, char **argv)
{
    cmd_begin("akv-restore");
    struct tool t = {0};
    cmd_opts_init(&t.o);
    for (int c; (c = cmd_getopt(argc, argv, CMD_RUN_SHORT, longs)) != -1;) {
        if (cmd_opt(&t.o, c, usage, help))
            continue;
        if (c == OPT_REQUIRE)
            t.require = true;
    }
    if (!t.o.store)
        t.o.store = cmd_default_store();
    struct cmd_out out;
    cmd_out_open(&out, t.o.out, true);
    struct cmd_inputs inputs = {0};
    cmd_first_input(&inputs, argc - optind, argv + optind);
    struct akv_model *m = cmd_model(&t.o, AKV_MODEL_DECODE_ONLY);
    struct akv_session_opts so = {0};
    struct akv_session *s = cmd_session(&t.o, m, &so);
    struct akv_err err = {0};
    if (akv_session_output(s, out.fd, out.name, false, &err) < 0)
        cmd_die_err(&err);
    cmd_each_request(&inputs, s, restore, &t);
    if (akv_session_finish(s, &err) < 0)
        cmd_die_err(&err);
    cmd_out_commit(&out);
    akv_session_close(s);
    akv_model_close(m);
    return cmd_exit();
}
