/* akv-pin: keep a computed prefix in the store under a name, and the store in order. */
#include <stdio.h>
#include <string.h>

#include "pin.h"

static const char usage[] =
    "[options] NAME < STREAM | --list | --rename OLD NEW | --remove NAME | --export NAME | --manifest NAME | "
    "--verify | --quarantine | --gc | --quota SIZE";
static const char help[] =
    "Publish the pages of an akv stream to the store and pin its tip as NAME; manage pins; keep the store in order.\n\n"
    "  -s, --store DIR      the store (default: $AKV_STORE, else ~/.cache/akv/store)\n"
    "      --all            a stream of several chains: pin them as NAME-1, NAME-2 ...\n"
    "      --list           the pins: name, model, tokens, bytes, last use, root, made by\n"
    "      --rename         give a pin another name\n"
    "      --remove         take the pin away; its pages stay until collected\n"
    "      --export         write the pinned chain as a stream\n"
    "      --manifest       write the SHA-256 of the files it consists of, for sha256sum -c\n"
    "      --verify         check every object and pin; what is damaged goes to quarantine\n"
    "      --deep[=N]       with --verify: compute N pages again and compare (default: 16; or all)\n"
    "      --quarantine     list what was found damaged, and why\n"
    "      --gc             delete what no pin holds and nobody used in the last ten minutes\n"
    "      --force          with --gc: whoever used it\n"
    "      --quota SIZE     keep the store within SIZE bytes (4G, 512M ... or none)\n"
    "      --dry-run        with --gc and --quota: say what would be deleted\n"
    "      --json           JSON Lines\n"
    "      --root HEX       which root is meant when a name stands under several\n"
    "  -m, --model FILE     the model: its name is kept in the pin, --deep computes with it (default: $AKV_MODEL); this\n"
    "                       option alone: --verify checks its weights; with a verb that takes a name its root is meant\n"
    "      --kv TYPE        with that or --deep: f16 or f32 KV (default: f16)\n"
    "  -@, --threads N      threads of --verify, --gc and --quota (default: one for each processor that it may use)\n"
    "  -o, --output FILE    write there, replaced as a whole at the end (default: standard output)\n"
    "  -q, --quiet          no warnings\n"
    "  -v, --verbose        more words\n"
    "  -h, --help           this text\n"
    "  -V, --version        the version\n";

/* What may stand beside a verb; and that it changes a store that is there. */
enum {
    ALL = 1,
    ROOT = 2,
    JSON = 4,
    OUT = 8,
    DEEP = 16,
    DRY_RUN = 32,
    FORCE = 64,
    MODEL = 128,
    THREADS = 256,
    KV = 512,
    CHANGES = 1024
};

static const struct {
    const char *name;
    int n_operands;
    unsigned takes;
    int (*run)(struct pin *t, struct akv_err *err);
} verbs[] = {
    [PIN_ADD] = {"pinning a stream", 1, ALL | MODEL, pin_add},
    [PIN_LIST] = {"--list", 0, JSON | OUT, pin_list},
    [PIN_REMOVE] = {"--remove", 1, ROOT | MODEL | KV | CHANGES, pin_remove},
    [PIN_RENAME] = {"--rename", 2, ROOT | MODEL | KV | CHANGES, pin_rename},
    [PIN_EXPORT] = {"--export", 1, ROOT | MODEL | KV | OUT, pin_export},
    [PIN_MANIFEST] = {"--manifest", 1, ROOT | MODEL | KV | OUT, pin_manifest},
    [PIN_VERIFY] = {"--verify", 0, JSON | OUT | DEEP | MODEL | THREADS | KV, pin_verify},
    [PIN_QUARANTINE] = {"--quarantine", 0, JSON | OUT, pin_quarantine},
    [PIN_COLLECT] = {"--gc", 0, JSON | OUT | DRY_RUN | FORCE | THREADS | CHANGES, pin_collect},
    [PIN_QUOTA] = {"--quota", 0, JSON | OUT | DRY_RUN | THREADS, pin_set_quota},
};

enum {
    OPT_ALL = CMD_OPT_OWN,
    OPT_JSON,
    OPT_ROOT,
    OPT_DEEP,
    OPT_DRY_RUN,
    OPT_FORCE,
    OPT_VERB /* and then the verbs */
};

static const struct option longs[] = {{"help", no_argument, NULL, 'h'},
                                      {"version", no_argument, NULL, 'V'},
                                      {"quiet", no_argument, NULL, 'q'},
                                      {"verbose", no_argument, NULL, 'v'},
                                      {"model", required_argument, NULL, 'm'},
                                      {"kv", required_argument, NULL, CMD_OPT_KV},
                                      {"threads", required_argument, NULL, '@'},
                                      {"output", required_argument, NULL, 'o'},
                                      {"store", required_argument, NULL, 's'},
                                      {"all", no_argument, NULL, OPT_ALL},
                                      {"json", no_argument, NULL, OPT_JSON},
                                      {"root", required_argument, NULL, OPT_ROOT},
                                      {"deep", optional_argument, NULL, OPT_DEEP},
                                      {"dry-run", no_argument, NULL, OPT_DRY_RUN},
                                      {"force", no_argument, NULL, OPT_FORCE},
                                      {"list", no_argument, NULL, OPT_VERB + PIN_LIST},
                                      {"remove", no_argument, NULL, OPT_VERB + PIN_REMOVE},
                                      {"rename", no_argument, NULL, OPT_VERB + PIN_RENAME},
                                      {"export", no_argument, NULL, OPT_VERB + PIN_EXPORT},
                                      {"manifest", no_argument, NULL, OPT_VERB + PIN_MANIFEST},
                                      {"verify", no_argument, NULL, OPT_VERB + PIN_VERIFY},
                                      {"quarantine", no_argument, NULL, OPT_VERB + PIN_QUARANTINE},
                                      {"gc", no_argument, NULL, OPT_VERB + PIN_COLLECT},
                                      {"quota", required_argument, NULL, OPT_VERB + PIN_QUOTA},
                                      {0}};

/* What was given beside the verb, as option letters and names. */
static const struct {
    int c;
    unsigned need;
    const char *name;
} beside[] = {{OPT_ALL, ALL, "--all"},       {OPT_JSON, JSON, "--json"}, {OPT_ROOT, ROOT, "--root"},
              {OPT_DEEP, DEEP, "--deep"},    {'o', OUT, "-o"},           {OPT_DRY_RUN, DRY_RUN, "--dry-run"},
              {OPT_FORCE, FORCE, "--force"}, {'m', MODEL, "-m"},         {'@', THREADS, "-@"},
              {CMD_OPT_KV, KV, "--kv"}};

static void take_verb(struct pin *t, enum pin_verb verb)
{
    if (t->verb != PIN_ADD && t->verb != verb)
        cmd_die(2, "%s and %s exclude each other", verbs[t->verb].name, verbs[verb].name);
    t->verb = verb;
    if (verb == PIN_QUOTA)
        t->quota = pin_size(optarg);
}

static void take_option(struct pin *t, int c)
{
    if (c > OPT_VERB)
        take_verb(t, (enum pin_verb)(c - OPT_VERB));
    else if (c == OPT_ALL)
        t->all = true;
    else if (c == OPT_JSON)
        t->json = true;
    else if (c == OPT_ROOT)
        t->root = optarg;
    else if (c == OPT_DRY_RUN)
        t->dry_run = true;
    else if (c == OPT_FORCE)
        t->force = true;
    else if (c == OPT_DEEP) {
        t->deep = true;
        if (optarg)
            t->sample = !strcmp(optarg, "all") ? UINT64_MAX : cmd_number(optarg, UINT32_MAX, "--deep");
    }
}

static void options(struct pin *t, int argc, char **argv)
{
    unsigned given = 0;
    cmd_opts_init(&t->o);
    t->sample = 16;
    for (int c; (c = cmd_getopt(argc, argv, "hVqvo:s:m:@:", longs)) != -1;) {
        if (!cmd_opt(&t->o, c, usage, help))
            take_option(t, c);
        for (size_t i = 0; i < sizeof beside / sizeof beside[0]; i++)
            given |= beside[i].c == c ? beside[i].need : 0;
    }
    for (size_t i = 0; i < sizeof beside / sizeof beside[0]; i++)
        if (given & beside[i].need & ~verbs[t->verb].takes)
            cmd_die(2, "%s does not go with %s", beside[i].name, verbs[t->verb].name);
    t->model_given = given & MODEL;
    if (given & KV && !(given & (MODEL | DEEP)))
        cmd_die(2, "--kv goes with -m or --deep");
    if (given & ROOT && given & MODEL)
        cmd_die(2, "--root and -m exclude each other");
    if (t->root && (!*t->root || strspn(t->root, "0123456789abcdef") != strlen(t->root)))
        cmd_die(2, "--root: %.70s: must be the first digits of a root, in lower-case hexadecimal", t->root);
    int n = verbs[t->verb].n_operands;
    if (argc - optind != n)
        cmd_die(2, "%d name%s expected: see %s -h", n, n == 1 ? " is" : "s are", cmd_name);
    t->names = argv + optind;
    if (!t->o.store)
        t->o.store = cmd_default_store();
}

/* Only what adds makes a store; what changes one makes the parts of it that a copy has left out; a dry run only reads. */
static void open_store(struct pin *t)
{
    struct akv_err err = {0};
    bool adds = (t->verb == PIN_ADD || t->verb == PIN_QUOTA) && !t->dry_run;
    unsigned flags = (adds ? AKV_STORE_CREATE : 0) | (t->verb == PIN_QUOTA ? AKV_STORE_ANY_QUOTA : 0);
    int rc = akv_store_open(&t->store, t->o.store, flags, &err);
    if (rc == 0 && verbs[t->verb].takes & CHANGES && !t->dry_run) {
        akv_store_close(t->store);
        rc = akv_store_open(&t->store, t->o.store, AKV_STORE_CREATE, &err);
    }
    if (rc < 0)
        cmd_die_err(&err);
    akv_store_set_cancel(t->store, &cmd_cancel);
    cmd_detail("store %s", t->o.store);
}

int main(int argc, char **argv)
{
    cmd_begin("akv-pin");
    struct pin t = {0};
    struct akv_err err = {0};
    options(&t, argc, argv);
    if (t.verb == PIN_ADD)
        pin_check_stream(&t); /* no store is made for what is none */
    open_store(&t);
    bool writes = verbs[t.verb].takes & OUT;
    if (writes)
        cmd_out_open(&t.out, t.o.out, t.verb == PIN_EXPORT);
    if (verbs[t.verb].takes & ROOT && t.model_given)
        pin_root_of_model(&t);
    int rc = verbs[t.verb].run(&t, &err);
    if (rc < 0 && !(rc == AKV_E_NO && t.verb == PIN_VERIFY))
        cmd_die_err(&err);
    if (writes)
        cmd_out_commit(&t.out);
    if (rc < 0)
        cmd_report(&err); /* what was found is written all the same */
    akv_store_close(t.store);
    return cmd_exit();
}
