/* akv-pin: keep a computed prefix in the store under a name. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"

static const char usage[] = "[options] NAME < STREAM | --list | --remove NAME | --rename OLD NEW | --export NAME";
static const char help[] = "Publish the pages of an akv stream to the store and pin its tip as NAME; manage pins.\n\n"
                           "  -s, --store DIR      the store (default: $AKV_STORE, else ~/.cache/akv/store)\n"
                           "      --all            a stream of several chains: pin them as NAME-1, NAME-2 ...\n"
                           "      --list           the pins: name, tokens, bytes, root, made by\n"
                           "      --json           with --list: JSON Lines\n"
                           "      --remove         take the pin away; its pages stay until collected\n"
                           "      --rename         give it another name\n"
                           "      --export         write the pinned chain as a stream\n"
                           "      --root HEX       which root is meant when a name stands under several\n"
                           "  -o, --output FILE    write there, replaced as a whole at the end (default: standard output)\n"
                           "  -q, --quiet          no warnings\n"
                           "  -v, --verbose        more words\n"
                           "  -h, --help           this text\n"
                           "  -V, --version        the version\n";

enum verb { PIN, LIST, REMOVE, RENAME, EXPORT };
enum { OPT_ALL = CMD_OPT_OWN, OPT_LIST, OPT_JSON, OPT_REMOVE, OPT_RENAME, OPT_EXPORT, OPT_ROOT };

static const struct option longs[] = {{"help", no_argument, NULL, 'h'},
                                      {"version", no_argument, NULL, 'V'},
                                      {"quiet", no_argument, NULL, 'q'},
                                      {"verbose", no_argument, NULL, 'v'},
                                      {"output", required_argument, NULL, 'o'},
                                      {"store", required_argument, NULL, 's'},
                                      {"all", no_argument, NULL, OPT_ALL},
                                      {"list", no_argument, NULL, OPT_LIST},
                                      {"json", no_argument, NULL, OPT_JSON},
                                      {"remove", no_argument, NULL, OPT_REMOVE},
                                      {"rename", no_argument, NULL, OPT_RENAME},
                                      {"export", no_argument, NULL, OPT_EXPORT},
                                      {"root", required_argument, NULL, OPT_ROOT},
                                      {0}};

struct tool {
    struct cmd_opts o;
    enum verb verb;
    bool all, json;
    const char *root;
    struct cmd_inputs inputs; /* of a pin */
    struct cmd_out out;
};

static void set_verb(struct tool *t, enum verb verb)
{
    if (t->verb != PIN && t->verb != verb)
        cmd_die(2, "--list, --remove, --rename and --export exclude each other");
    t->verb = verb;
}

static void options(struct tool *t, int argc, char **argv)
{
    cmd_opts_init(&t->o);
    for (int c; (c = cmd_getopt(argc, argv, "hVqvo:s:", longs)) != -1;) {
        if (cmd_opt(&t->o, c, usage, help))
            continue;
        switch (c) {
        case OPT_ALL:
            t->all = true;
            break;
        case OPT_LIST:
            set_verb(t, LIST);
            break;
        case OPT_JSON:
            t->json = true;
            break;
        case OPT_REMOVE:
            set_verb(t, REMOVE);
            break;
        case OPT_RENAME:
            set_verb(t, RENAME);
            break;
        case OPT_EXPORT:
            set_verb(t, EXPORT);
            break;
        case OPT_ROOT:
            t->root = optarg;
            break;
        }
    }
    if (t->json && t->verb != LIST)
        cmd_die(2, "--json goes with --list");
    if (t->o.out && t->verb != LIST && t->verb != EXPORT)
        cmd_die(2, "-o goes with --list or --export");
    if (t->root && (t->verb == PIN || t->verb == LIST))
        cmd_die(2, "--root goes with --remove, --rename or --export");
    if (t->root && (!*t->root || strspn(t->root, "0123456789abcdef") != strlen(t->root)))
        cmd_die(2, "--root: %.70s: must be the first digits of a root, in lower-case hexadecimal", t->root);
    if (t->all && t->verb != PIN)
        cmd_die(2, "--all goes with pinning a stream");
    static const int operands[] = {[PIN] = 1, [LIST] = 0, [REMOVE] = 1, [RENAME] = 2, [EXPORT] = 1};
    if (argc - optind != operands[t->verb])
        cmd_die(2, "%d name%s expected: see %s -h", operands[t->verb], operands[t->verb] == 1 ? " is" : "s are", cmd_name);
}

static int told(void *ctx, const struct akv_pin *pin, struct akv_err *err)
{
    (void)ctx;
    (void)err;
    cmd_note("pinned %s: %llu tokens, %llu bytes, root %.16s", pin->name, (unsigned long long)pin->tokens,
             (unsigned long long)pin->bytes, pin->root);
    return 0;
}

static void lint(void *ctx, const char *msg)
{
    (void)ctx;
    cmd_note("lint: %s", msg);
}

static int list_one(void *ctx, const struct akv_pin *pin, struct akv_err *err)
{
    struct tool *t = ctx;
    (void)err;
    char line[1024];
    if (t->json) {
        json_t *o =
            json_pack("{s:s, s:s, s:s, s:I, s:I, s:s, s:s*}", "name", pin->name, "root", pin->root, "tip", pin->tip, "tokens",
                      (json_int_t)pin->tokens, "bytes", (json_int_t)pin->bytes, "content", pin->content, "made_by", pin->made_by);
        char *dump = o ? json_dumps(o, JSON_COMPACT) : NULL;
        if (!dump)
            cmd_die(5, "out of memory");
        cmd_out_line(&t->out, dump);
        free(dump);
        json_decref(o);
        return 0;
    }
    int n = snprintf(line, sizeof line, "%-24s %8llu tokens %12llu bytes  root %.16s  %s\n", pin->name,
                     (unsigned long long)pin->tokens, (unsigned long long)pin->bytes, pin->root, pin->made_by ? pin->made_by : "-");
    cmd_out_write(&t->out, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
    return 0;
}

static int pin(struct tool *t, struct akv_store *store, const char *name, struct akv_err *err)
{
    char made_by[64];
    snprintf(made_by, sizeof made_by, "akv-pin %s", akv_version());
    int rc = akv_pin_stream(store, t->inputs.in, name, t->all, made_by, told, lint, NULL, err);
    cmd_input_done(&t->inputs);
    return rc;
}

int main(int argc, char **argv)
{
    cmd_begin("akv-pin");
    struct tool t = {0};
    options(&t, argc, argv);
    if (!t.o.store)
        t.o.store = cmd_default_store();
    struct akv_err err = {0};
    struct akv_store *store;
    char **names = argv + optind;
    if (t.verb == PIN) { /* no store is made for what is none */
        if (akv_pin_name_check(names[0], &err) < 0)
            cmd_die_err(&err);
        cmd_first_input(&t.inputs, 0, NULL);
        if (akv_input_kind(t.inputs.in) != AKV_KIND_STREAM)
            cmd_die(3, "%s: not an akv stream", cmd_input_name(&t.inputs));
    }
    if (akv_store_open(&store, t.o.store, t.verb == PIN ? AKV_STORE_CREATE : 0, &err) < 0)
        cmd_die_err(&err);
    cmd_detail("store %s", t.o.store);
    bool writes = t.verb == LIST || t.verb == EXPORT;
    if (writes)
        cmd_out_open(&t.out, t.o.out, t.verb == EXPORT);
    int rc = 0;
    switch (t.verb) {
    case PIN:
        rc = pin(&t, store, names[0], &err);
        break;
    case LIST:
        rc = akv_pin_list(store, list_one, &t, &err);
        break;
    case REMOVE:
        rc = akv_pin_remove(store, names[0], t.root, &err);
        break;
    case RENAME:
        rc = akv_pin_rename(store, names[0], names[1], t.root, &err);
        break;
    case EXPORT:
        rc = akv_pin_export(store, names[0], t.root, t.out.fd, t.out.name, &err);
        break;
    }
    if (rc < 0)
        cmd_die_err(&err);
    if (writes)
        cmd_out_commit(&t.out);
    akv_store_close(store);
    return cmd_exit();
}
