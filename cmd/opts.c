#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd.h"

#define SALT_MAX 65536

/* An empty variable is none. */
static const char *setting(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

void cmd_opts_init(struct cmd_opts *o)
{
    *o = (struct cmd_opts){.model = setting("AKV_MODEL"), .store = setting("AKV_STORE")};
}

int cmd_getopt(int argc, char **argv, const char *shorts, const struct option *longs)
{
    opterr = 0;
    int c = getopt_long(argc, argv, shorts, longs, NULL);
    if (c != '?')
        return c;
    if (optopt > 0 && optopt < 256)
        cmd_die(2, "-%c: not an option, or its value is missing: see %s -h", optopt, cmd_name);
    cmd_die(2, "%.80s: not an option, or its value is missing: see %s -h", argv[optind - 1], cmd_name);
}

/* Flush standard output and leave. */
static void printed(void)
{
    if (fflush(stdout))
        cmd_die(5, "standard output: cannot write: %s", strerror(errno));
    exit(0);
}

uint64_t cmd_number(const char *text, uint64_t most, const char *what)
{
    char *end;
    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    if (errno || *end || end == text || text[0] < '0' || text[0] > '9' || v > most)
        cmd_die(2, "%s: %.40s: not a number from 0 to %llu", what, text, (unsigned long long)most);
    return v;
}

double cmd_real(const char *text, double least, double most, const char *what)
{
    char *end;
    double v = strtod(text, &end);
    if (*end || end == text || !(v >= least && v <= most))
        cmd_die(2, "%s: %.40s: not a number from %g to %g", what, text, least, most);
    return v;
}

bool cmd_opt(struct cmd_opts *o, int c, const char *usage, const char *help)
{
    switch (c) {
    case 'h':
        printf("usage: %s %s\n%s", cmd_name, usage, help);
        printed();
        break;
    case 'V':
        printf("%s %s\n", cmd_name, akv_version());
        printed();
        break;
    case 'q':
        cmd_quiet = 1;
        break;
    case 'v':
        cmd_verbose = 1;
        break;
    case 'm':
        o->model = optarg;
        break;
    case CMD_OPT_PRE:
        o->pre = optarg;
        break;
    case 'o':
        o->out = optarg;
        break;
    case 'c':
        o->n_ctx = (uint32_t)cmd_number(optarg, 1u << 24, "--ctx");
        if (!o->n_ctx)
            cmd_die(2, "--ctx: must be at least 1");
        break;
    case 's':
        o->store = optarg;
        break;
    case '@':
        o->threads = (unsigned)cmd_number(optarg, 256, "--threads");
        if (!o->threads)
            cmd_die(2, "--threads: must be at least 1");
        break;
    case CMD_OPT_STATS:
        o->stats = true;
        o->stats_path = optarg;
        break;
    case CMD_OPT_KV:
        if (strcmp(optarg, "f16") && strcmp(optarg, "f32"))
            cmd_die(2, "--kv: %.40s: must be f16 or f32", optarg);
        o->kv = optarg[1] == '3' ? AKV_KV_F32 : AKV_KV_F16;
        break;
    case CMD_OPT_SAVE:
        o->save = true;
        break;
    case CMD_OPT_NO_STORE:
        o->no_store = true;
        break;
    default:
        return false;
    }
    return true;
}

struct akv_model *cmd_model(const struct cmd_opts *o, unsigned flags)
{
    struct akv_err err = {0};
    struct akv_model *m;
    if (!o->model || !*o->model)
        cmd_die(2, "no model: give -m FILE or set AKV_MODEL");
    if (akv_model_open(&m, o->model, flags, o->pre, &err) < 0)
        cmd_die_err(&err);
    if (akv_model_notes(m))
        cmd_notes(cmd_strdup(akv_model_notes(m)));
    return m;
}

char *cmd_cache_path(const char *name)
{
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    bool has_xdg = xdg && xdg[0] == '/';
    if (!has_xdg && (!home || home[0] != '/'))
        return NULL;
    const char *base = has_xdg ? xdg : home;
    size_t n = strlen(base) + strlen(name) + sizeof "/.cache/akv/";
    char *path = cmd_alloc(n);
    snprintf(path, n, "%s%s/akv/%s", base, has_xdg ? "" : "/.cache", name);
    return path;
}

const char *cmd_default_store(void)
{
    static char *path;
    if (!path)
        path = cmd_cache_path("store");
    if (!path)
        cmd_die(2, "no store: give -s DIR or set AKV_STORE");
    return path;
}

unsigned cmd_threads(const struct cmd_opts *o)
{
    return o->threads ? o->threads : cmd_cores();
}

static void note(void *ctx, const char *msg)
{
    (void)ctx;
    cmd_note("%s", msg);
}

/* A file of statistics that cannot be written is said before any work. */
static void check_stats_file(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0)
        cmd_die(5, "%s: cannot write statistics: %s", path, strerror(errno));
    close(fd);
}

/* A secret: nobody else may read it, but a group that the administrator chose. */
static char *read_salt(const char *path, size_t *len)
{
    struct stat st;
    if (stat(path, &st) == 0 && ((st.st_uid != geteuid() && st.st_uid != 0) || st.st_mode & (S_IWGRP | S_IRWXO)))
        cmd_die(5, "%s: not a secret: it belongs to another user, or others can read or change it (mode %04o)", path,
                (unsigned)st.st_mode & 07777u);
    return cmd_slurp(path, SALT_MAX, len);
}

struct akv_session *cmd_session(const struct cmd_opts *o, const struct akv_model *m, struct akv_session_opts *so)
{
    if (o->stats_path)
        check_stats_file(o->stats_path);
    so->n_ctx = o->n_ctx;
    so->n_threads = cmd_threads(o);
    so->kv = o->kv;
    so->cpu = getenv("AKV_CPU");
    so->store_dir = o->no_store ? NULL : o->store;
    so->save = o->save;
    so->cancel = &cmd_cancel;
    so->progress = cmd_progress;
    so->note = note;
    if (so->cpu && !*so->cpu)
        so->cpu = NULL;
    if (so->save && !so->store_dir)
        cmd_die(2, "--save needs a store: give -s DIR or set AKV_STORE");
    char *cache = cmd_cache_path("weights");
    so->cache_dir = cache;
    const char *salt_file = getenv("AKV_SALT_FILE");
    char *salt = NULL;
    if (salt_file && *salt_file)
        so->salt = salt = read_salt(salt_file, &so->salt_bytes);
    struct akv_err err = {0};
    struct akv_session *s;
    if (akv_session_open(&s, m, so, &err) < 0)
        cmd_die_err(&err);
    free(cache);
    free(salt);
    return s;
}
