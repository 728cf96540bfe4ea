/* akv-tokenize: chat requests, prompts or plain text to token records; and back. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cmd.h"

static const char usage[] = "[options] [FILE ...]";
static const char help[] = "Turn chat requests (JSON, one or many) into token records, one JSON line each.\n\n"
                           "      --from FORMAT    requests of another kind: anthropic, responses, sharegpt, transcript\n"
                           "  -f, --filter FILE    a jq program that turns each foreign request into chat requests first\n"
                           "      --raw            the input is plain text: one record of all of it; with -f one string\n"
                           "      --no-special     with --raw: read control tokens in the text as plain text\n"
                           "      --decode         the other way: token records to text\n"
                           "      --skip-control   with --decode: leave control tokens out\n"
                           "      --render         stop at the rendered text\n"
                           "      --json           with --render or --decode: {\"id\",\"text\"} lines\n"
                           "      --template FILE  use this chat template instead of the model's\n"
                           "      --template-name NAME  a named template of the model (tool_use, rag)\n"
                           "      --now TIME       the clock that templates may read: 2026-01-15T12:00:00Z\n"
                           "      --ignore-unknown pass over unknown top-level fields of a request\n"
                           "      --raw-messages   give messages to the template exactly as written\n"
                           "      --sort-tools     put the tools in the order of their names\n"
                           "      --literal-content  control tokens spelled in a message are plain text\n" CMD_HELP;

enum mode { CHAT, RAW, DECODE, RENDER };

struct tool {
    struct cmd_opts o;
    struct akv_chat_opts chat;
    enum mode mode;
    bool raw, json, no_special, skip_control;
    const char *template_path, *now, *filter, *from;
    struct akv_model *model;
    struct cmd_out out;
    uint64_t n_done;
};

enum {
    OPT_FROM = CMD_OPT_OWN,
    OPT_RAW,
    OPT_NO_SPECIAL,
    OPT_DECODE,
    OPT_SKIP_CONTROL,
    OPT_RENDER,
    OPT_JSON,
    OPT_TEMPLATE,
    OPT_TEMPLATE_NAME,
    OPT_NOW,
    OPT_IGNORE_UNKNOWN,
    OPT_RAW_MESSAGES,
    OPT_SORT_TOOLS,
    OPT_LITERAL_CONTENT
};

static const struct option longs[] = {CMD_LONG,
                                      {"filter", required_argument, NULL, 'f'},
                                      {"from", required_argument, NULL, OPT_FROM},
                                      {"raw", no_argument, NULL, OPT_RAW},
                                      {"no-special", no_argument, NULL, OPT_NO_SPECIAL},
                                      {"decode", no_argument, NULL, OPT_DECODE},
                                      {"skip-control", no_argument, NULL, OPT_SKIP_CONTROL},
                                      {"render", no_argument, NULL, OPT_RENDER},
                                      {"json", no_argument, NULL, OPT_JSON},
                                      {"template", required_argument, NULL, OPT_TEMPLATE},
                                      {"template-name", required_argument, NULL, OPT_TEMPLATE_NAME},
                                      {"now", required_argument, NULL, OPT_NOW},
                                      {"ignore-unknown", no_argument, NULL, OPT_IGNORE_UNKNOWN},
                                      {"raw-messages", no_argument, NULL, OPT_RAW_MESSAGES},
                                      {"sort-tools", no_argument, NULL, OPT_SORT_TOOLS},
                                      {"literal-content", no_argument, NULL, OPT_LITERAL_CONTENT},
                                      {0}};

static void set_mode(struct tool *t, enum mode mode)
{
    if (t->mode != CHAT && t->mode != mode)
        cmd_die(2, "--raw, --decode and --render exclude each other");
    t->mode = mode;
}

static void options(struct tool *t, int argc, char **argv)
{
    cmd_opts_init(&t->o);
    for (int c; (c = cmd_getopt(argc, argv, CMD_SHORT "f:", longs)) != -1;) {
        if (cmd_opt(&t->o, c, usage, help))
            continue;
        switch (c) {
        case 'f':
            t->filter = optarg;
            break;
        case OPT_FROM:
            t->from = optarg;
            break;
        case OPT_RAW:
            t->raw = true;
            break;
        case OPT_DECODE:
            set_mode(t, DECODE);
            break;
        case OPT_RENDER:
            set_mode(t, RENDER);
            break;
        case OPT_NO_SPECIAL:
            t->no_special = true;
            break;
        case OPT_SKIP_CONTROL:
            t->skip_control = true;
            break;
        case OPT_JSON:
            t->json = true;
            break;
        case OPT_TEMPLATE:
            t->template_path = optarg;
            break;
        case OPT_TEMPLATE_NAME:
            t->chat.template_name = optarg;
            break;
        case OPT_NOW:
            t->now = optarg;
            break;
        case OPT_IGNORE_UNKNOWN:
            t->chat.flags |= AKV_CHAT_IGNORE_UNKNOWN;
            break;
        case OPT_RAW_MESSAGES:
            t->chat.flags |= AKV_CHAT_RAW_MESSAGES;
            break;
        case OPT_SORT_TOOLS:
            t->chat.flags |= AKV_CHAT_SORT_TOOLS;
            break;
        case OPT_LITERAL_CONTENT:
            t->chat.flags |= AKV_CHAT_LITERAL;
            break;
        }
    }
    if (t->raw && !t->filter)
        set_mode(t, RAW);
    if (t->raw && t->from)
        cmd_die(2, "--from and --raw exclude each other: the format says what the input is");
    if (t->from && t->filter)
        cmd_die(2, "--from and --filter exclude each other");
    if (t->json && t->mode != RENDER && t->mode != DECODE)
        cmd_die(2, "--json goes with --render or --decode: token records are JSON anyway");
    if ((t->filter || t->from) && t->mode == DECODE)
        cmd_die(2, "--%s is for requests: it excludes --decode", t->from ? "from" : "filter");
    if (t->no_special && t->mode != RAW)
        cmd_die(2, "--no-special goes with --raw");
    if (t->skip_control && t->mode != DECODE)
        cmd_die(2, "--skip-control goes with --decode");
    if ((t->mode == RAW || t->mode == DECODE) && (t->template_path || t->chat.template_name || t->now || t->chat.flags))
        cmd_die(2, "--%s takes no option for requests: it reads none and uses no template", t->mode == RAW ? "raw" : "decode");
    if (t->template_path && t->chat.template_name)
        cmd_die(2, "--template and --template-name exclude each other");
}

/* 2026-01-15T12:00:00Z as seconds since 1970, or die. */
static int64_t parse_time(const char *text)
{
    struct tm tm = {0};
    int n = 0;
    if (sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2dZ%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &tm.tm_hour, &tm.tm_min, &tm.tm_sec, &n) !=
            6 ||
        text[n] || n != 20)
        cmd_die(2, "--now: %.40s: must look like 2026-01-15T12:00:00Z", text);
    struct tm given = tm;
    tm.tm_year -= 1900;
    tm.tm_mon--;
    time_t t = timegm(&tm);
    if (tm.tm_mday != given.tm_mday || tm.tm_mon + 1 != given.tm_mon || tm.tm_hour != given.tm_hour || tm.tm_min != given.tm_min)
        cmd_die(2, "--now: %.40s: no such time", text);
    return t;
}

/* Text out: as it is, or as a {"id","text"} line. 1, or an error. */
static int put_text(struct tool *t, const char *id, const char *text, size_t len, struct akv_err *err)
{
    if (!t->json) {
        cmd_out_write(&t->out, text, len);
        return 1;
    }
    json_t *line = json_pack("{s:s, s:s%}", "id", id, "text", text, len);
    char *dump = line ? json_dumps(line, JSON_COMPACT) : NULL;
    json_decref(line);
    if (!dump) {
        err->code = AKV_E_INPUT;
        snprintf(err->msg, sizeof err->msg, "request %.40s: its text is not valid UTF-8: use --decode without --json", id);
        return err->code;
    }
    cmd_out_line(&t->out, dump);
    free(dump);
    return 1;
}

static int decode_next(struct tool *t, struct akv_input *in, struct akv_err *err)
{
    struct akv_request *r;
    int rc = akv_request_read(&r, in, t->model, err);
    if (rc <= 0)
        return rc;
    size_t n, len;
    char *text;
    const uint32_t *ids = akv_request_ids(r, &n);
    rc = akv_decode(t->model, ids, n, t->skip_control, &text, &len, err);
    if (rc == 0) {
        rc = put_text(t, akv_request_id(r), text, len, err);
        free(text);
    }
    akv_request_free(r);
    return rc;
}

static int render_next(struct tool *t, struct akv_input *in, char **notes, struct akv_err *err)
{
    char *text, *id;
    size_t len;
    int rc = akv_chat_text(&text, &len, &id, in, t->model, &t->chat, notes, err);
    if (rc > 0) {
        rc = put_text(t, id, text, len, err);
        free(text);
        free(id);
    }
    return rc;
}

static int record_next(struct tool *t, struct akv_input *in, char **notes, struct akv_err *err)
{
    struct akv_request *r;
    int rc = t->mode == RAW ? akv_request_from_text(&r, in, t->model, !t->no_special, true, notes, err)
                            : akv_request_from_chat(&r, in, t->model, &t->chat, notes, err);
    if (rc <= 0)
        return rc;
    char *json;
    size_t len;
    int bad = akv_request_json(r, &json, &len, err);
    size_t n;
    akv_request_ids(r, &n);
    cmd_detail("%.80s: %zu tokens", akv_request_id(r), n);
    akv_request_free(r);
    if (bad < 0)
        return bad;
    cmd_out_line(&t->out, json);
    free(json);
    return 1;
}

/* All requests of one input; a bad one is reported and the others go on. */
static void run(struct tool *t, struct akv_input *in)
{
    for (;;) {
        struct akv_err err = {0};
        char *notes = NULL;
        int rc = t->mode == DECODE   ? decode_next(t, in, &err)
                 : t->mode == RENDER ? render_next(t, in, &notes, &err)
                                     : record_next(t, in, &notes, &err);
        cmd_notes(notes);
        if (rc < 0)
            cmd_report(&err);
        else if (rc > 0)
            t->n_done++;
        if (rc == 0 || t->mode == RAW || akv_exit_status(rc) == 5)
            return;
    }
}

static void open_normaliser(struct tool *t)
{
    size_t len;
    struct akv_err err = {0};
    if (t->from && akv_normaliser_named(&t->chat.normaliser, t->from, &err) < 0)
        cmd_die(akv_exit_status(err.code), "--from: %s", err.msg);
    if (!t->filter)
        return;
    char *program = cmd_slurp(t->filter, (size_t)1 << 20, &len);
    int rc = akv_normaliser_open(&t->chat.normaliser, program, t->raw, &err);
    free(program);
    if (rc < 0)
        cmd_die(akv_exit_status(rc), "%s: %s", t->filter, err.msg);
}

int main(int argc, char **argv)
{
    cmd_begin("akv-tokenize");
    struct tool t = {0};
    options(&t, argc, argv);
    t.chat.now = t.now ? parse_time(t.now) : (int64_t)time(NULL);
    char *template_text = NULL;
    if (t.template_path)
        t.chat.template_text = template_text = cmd_slurp(t.template_path, (size_t)16 << 20, &t.chat.template_len);
    open_normaliser(&t);
    bool needs_model = t.mode != RENDER || !t.template_path;
    if (needs_model)
        t.model = cmd_model(&t.o, AKV_MODEL_VOCAB_ONLY | (t.mode == DECODE ? AKV_MODEL_DECODE_ONLY : 0));
    cmd_out_open(&t.out, t.o.out, false);
    cmd_at_once = t.chat.normaliser != NULL; /* jq stops for nobody */
    struct cmd_inputs inputs = {0};
    cmd_first_input(&inputs, argc - optind, argv + optind);
    for (struct akv_input *in; (in = cmd_input(&inputs)); cmd_input_done(&inputs)) {
        if (t.mode != RAW && akv_input_kind(in) != AKV_KIND_JSON)
            cmd_die(3, "%s: is binary: JSON or text is needed", cmd_input_name(&inputs));
        run(&t, in);
    }
    cmd_at_once = 0;
    akv_normaliser_close(t.chat.normaliser); /* also when nothing was done: jq's memory looks lost to those who search for leaks */
    cmd_leave_if_none(t.n_done);
    cmd_out_commit(&t.out);
    akv_model_close(t.model);
    free(template_text);
    return cmd_exit();
}
