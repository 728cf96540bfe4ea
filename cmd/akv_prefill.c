/* akv-prefill: compute the KV of requests and write it as a stream. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd.h"

static const char usage[] = "[options] [FILE ...]";
static const char help[] = "Compute the KV pages of token records or of a stream's requests and write them as an akv stream.\n\n"
                           "      --delta[=BASE]   leave out the pages that the stream BASE (or standard input) holds\n"
                           "      --save           publish the pages to the store as they fill\n"
                           "      --no-store       use no store even if AKV_STORE is set\n" CMD_RUN_HELP;

enum { OPT_DELTA = CMD_OPT_OWN };

static const struct option longs[] = {CMD_RUN_LONG,
                                      {"save", no_argument, NULL, CMD_OPT_SAVE},
                                      {"no-store", no_argument, NULL, CMD_OPT_NO_STORE},
                                      {"delta", optional_argument, NULL, OPT_DELTA},
                                      {0}};

static void take_base(struct akv_session *s, const char *path)
{
    struct akv_err err = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        cmd_die(5, "%s: cannot open: %s", path, strerror(errno));
    if (akv_session_base(s, fd, path, &err) < 0)
        cmd_die_err(&err);
    close(fd);
}

static int prefill(void *ctx, struct akv_session *s, const struct akv_request *r, struct akv_err *err)
{
    struct akv_stats st;
    struct akv_err save_err = {0};
    int rc = akv_session_prefill(s, r, &st, &save_err, err);
    if (rc == 0)
        cmd_stats(ctx, akv_request_id(r), &st);
    cmd_report_save(&save_err);
    return rc;
}

int main(int argc, char **argv)
{
    cmd_begin("akv-prefill");
    struct cmd_opts o;
    const char *base = NULL;
    bool delta = false;
    cmd_opts_init(&o);
    for (int c; (c = cmd_getopt(argc, argv, CMD_RUN_SHORT, longs)) != -1;) {
        if (cmd_opt(&o, c, usage, help))
            continue;
        if (c == OPT_DELTA) {
            delta = true;
            base = optarg;
        }
    }
    struct cmd_out out;
    cmd_out_open(&out, o.out, true);
    struct cmd_inputs inputs = {0};
    cmd_first_input(&inputs, argc - optind, argv + optind);
    struct akv_model *m = cmd_model(&o, AKV_MODEL_DECODE_ONLY);
    struct akv_session_opts so = {0};
    struct akv_session *s = cmd_session(&o, m, &so);
    struct akv_err err = {0};
    if (akv_session_output(s, out.fd, out.name, delta && !base, &err) < 0)
        cmd_die_err(&err);
    if (base)
        take_base(s, base);
    cmd_each_request(&inputs, s, prefill, &o);
    if (akv_session_finish(s, &err) < 0)
        cmd_die_err(&err);
    cmd_out_commit(&out);
    akv_session_close(s);
    akv_model_close(m);
    return cmd_exit();
}
