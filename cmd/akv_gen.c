/* akv-gen: answer requests. */
#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd.h"

static const char usage[] = "[options] [FILE ...]";
static const char help[] = "Answer token records or a stream's requests: text, or JSON Lines with --json.\n\n"
                           "  -n, --max-tokens N   tokens to generate at most (default: the request's, or what fits)\n"
                           "      --temp T         temperature; 0 takes the likeliest token (default: the request's, or 0)\n"
                           "      --top-k N        sample among the N likeliest; 0: all\n"
                           "      --top-p P        sample among the likeliest that sum to P\n"
                           "      --min-p P        leave out what is less likely than P times the likeliest\n"
                           "      --repeat-penalty R  divide the logits of tokens seen before by R\n"
                           "      --seed N         for sampling (default: the request's, or 0)\n"
                           "      --stop TEXT      end before TEXT; may be given again\n"
                           "      --json           one JSON line a request: id, text, tokens, finish_reason, usage, timings\n"
                           "      --logprobs N     with --json: log-probabilities, and the N likeliest tokens at each place\n"
                           "      --echo           the prompt's text first; with --logprobs score the prompt too\n"
                           "      --save           publish the pages of prompt and reply to the store\n"
                           "      --no-store       use no store even if AKV_STORE is set\n" CMD_RUN_HELP;

enum { OPT_TEMP = CMD_OPT_OWN, OPT_TOP_K, OPT_TOP_P, OPT_MIN_P, OPT_REPEAT, OPT_SEED, OPT_STOP, OPT_JSON, OPT_LOGPROBS, OPT_ECHO };

static const struct option longs[] = {CMD_RUN_LONG,
                                      {"max-tokens", required_argument, NULL, 'n'},
                                      {"temp", required_argument, NULL, OPT_TEMP},
                                      {"top-k", required_argument, NULL, OPT_TOP_K},
                                      {"top-p", required_argument, NULL, OPT_TOP_P},
                                      {"min-p", required_argument, NULL, OPT_MIN_P},
                                      {"repeat-penalty", required_argument, NULL, OPT_REPEAT},
                                      {"seed", required_argument, NULL, OPT_SEED},
                                      {"stop", required_argument, NULL, OPT_STOP},
                                      {"json", no_argument, NULL, OPT_JSON},
                                      {"logprobs", required_argument, NULL, OPT_LOGPROBS},
                                      {"echo", no_argument, NULL, OPT_ECHO},
                                      {"save", no_argument, NULL, CMD_OPT_SAVE},
                                      {"no-store", no_argument, NULL, CMD_OPT_NO_STORE},
                                      {0}};

struct tool {
    struct cmd_opts o;
    struct akv_gen_opts gen;
    bool json;
    const char **stop;
    struct akv_model *model;
    struct cmd_out out;
    int write_error; /* why text could not be written; 0: it could */
};

static void options(struct tool *t, int argc, char **argv)
{
    cmd_opts_init(&t->o);
    akv_gen_opts_init(&t->gen);
    t->stop = cmd_alloc((size_t)argc * sizeof *t->stop);
    t->gen.stop = t->stop;
    for (int c; (c = cmd_getopt(argc, argv, CMD_RUN_SHORT "n:", longs)) != -1;) {
        if (cmd_opt(&t->o, c, usage, help))
            continue;
        switch (c) {
        case 'n':
            t->gen.max_tokens = (int64_t)cmd_number(optarg, UINT32_MAX, "--max-tokens");
            break;
        case OPT_TEMP:
            t->gen.temperature = cmd_real(optarg, 0, 1000, "--temp");
            break;
        case OPT_TOP_K:
            t->gen.top_k = (int64_t)cmd_number(optarg, UINT32_MAX, "--top-k");
            break;
        case OPT_TOP_P:
            t->gen.top_p = cmd_real(optarg, 0, 1, "--top-p");
            break;
        case OPT_MIN_P:
            t->gen.min_p = cmd_real(optarg, 0, 1, "--min-p");
            break;
        case OPT_REPEAT:
            t->gen.repeat_penalty = cmd_real(optarg, 0.01, 100, "--repeat-penalty");
            break;
        case OPT_SEED:
            t->gen.seed = (int64_t)cmd_number(optarg, INT64_MAX, "--seed");
            break;
        case OPT_STOP:
            if (!*optarg)
                cmd_die(2, "--stop: empty");
            t->stop[t->gen.n_stop++] = optarg;
            break;
        case OPT_JSON:
            t->json = true;
            break;
        case OPT_LOGPROBS:
            t->gen.want_logprobs = true;
            t->gen.n_logprobs = (uint32_t)cmd_number(optarg, 64, "--logprobs");
            break;
        case OPT_ECHO:
            t->gen.echo = true;
            break;
        }
    }
    if (t->gen.want_logprobs && !t->json)
        cmd_die(2, "--logprobs goes with --json");
}

/* A JSON string of reply bytes: an incomplete character at the end is left out, broken ones inside become U+FFFD. */
static json_t *json_text(const char *text, size_t len)
{
    char *clean = cmd_alloc(len * 3 + 1);
    size_t n = 0;
    for (size_t i = 0; i < len;) {
        unsigned char c = (unsigned char)text[i];
        size_t want = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
        json_t *one = i + want <= len ? json_stringn(text + i, want) : NULL;
        if (one) {
            memcpy(clean + n, text + i, want);
            n += want;
            i += want;
            json_decref(one);
            continue;
        }
        size_t have = 1;
        while (i + have < len && have < want && ((unsigned char)text[i + have] & 0xc0) == 0x80)
            have++;
        if (c >= 0xc2 && c <= 0xf4 && i + have == len && have < want)
            break;
        memcpy(clean + n, "\xef\xbf\xbd", 3);
        n += 3;
        i++;
    }
    json_t *s = json_stringn(clean, n);
    free(clean);
    return s;
}

static json_t *json_top(const struct akv_logprob *top, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_pack("{s:I, s:f}", "id", (json_int_t)top[i].id, "logprob", top[i].logprob));
    return list;
}

static json_t *json_logprobs(const struct akv_reply *r)
{
    json_t *list = json_array();
    for (size_t i = 0; i < r->n; i++)
        json_array_append_new(list, json_pack("{s:I, s:f, s:o}", "id", (json_int_t)r->ids[i], "logprob", r->logprobs[i], "top",
                                              json_top(r->top + i * r->n_top, r->n_top)));
    return list;
}

/* prompt_logprobs[i]: the distribution after prompt token i, and the log-probability of the token that stands there. */
static json_t *json_prompt_logprobs(const struct akv_reply *r, const uint32_t *ids)
{
    json_t *list = json_array();
    for (size_t i = 0; i < r->n_prompt; i++) {
        json_t *one = json_pack("{s:o}", "top", json_top(r->prompt_top + i * r->n_top, r->n_top));
        if (i + 1 < r->n_prompt) {
            json_object_set_new(one, "next", json_integer((json_int_t)ids[i + 1]));
            json_object_set_new(one, "logprob", json_real(r->prompt_logprobs[i]));
        }
        json_array_append_new(list, one);
    }
    return list;
}

/* The whole of the tokens with control tokens spelled out, where that is not the text: calls of tools may be marked by them. */
static void add_raw(struct tool *t, json_t *line, const struct akv_reply *reply)
{
    char *raw;
    size_t len;
    struct akv_err err = {0};
    if (akv_decode(t->model, reply->ids, reply->n, false, &raw, &len, &err) < 0)
        cmd_die_err(&err);
    if (len != reply->text_len || memcmp(raw, reply->text, len) != 0)
        json_object_set_new(line, "raw", json_text(raw, len));
    free(raw);
}

static double per_second(double n, double ms)
{
    return ms > 0 ? n * 1e3 / ms : 0;
}

static void print_json(struct tool *t, const struct akv_request *r, const struct akv_reply *reply, const struct akv_stats *st)
{
    json_t *tokens = json_array();
    for (size_t i = 0; i < reply->n; i++)
        json_array_append_new(tokens, json_integer((json_int_t)reply->ids[i]));
    json_t *line =
        json_pack("{s:s, s:o, s:o, s:s, s:{s:I, s:I, s:I, s:{s:I}}, s:{s:f, s:f, s:f, s:f, s:f, s:f}}", "id", akv_request_id(r),
                  "text", json_text(reply->text, reply->text_len), "tokens", tokens, "finish_reason", reply->finish_reason, "usage",
                  "prompt_tokens", (json_int_t)st->prompt_tokens, "completion_tokens", (json_int_t)st->completion_tokens,
                  "total_tokens", (json_int_t)st->prompt_tokens + st->completion_tokens, "prompt_tokens_details", "cached_tokens",
                  (json_int_t)st->cached_tokens, "timings", "restore_ms", st->restore_ms, "prefill_ms", st->prefill_ms, "ttft_ms",
                  st->ttft_ms, "decode_ms", st->decode_ms, "prefill_per_second", per_second(st->prefilled_tokens, st->prefill_ms),
                  "decode_per_second", per_second(st->completion_tokens > 1 ? st->completion_tokens - 1 : 0, st->decode_ms));
    size_t n;
    const uint32_t *ids = akv_request_ids(r, &n);
    add_raw(t, line, reply);
    if (reply->logprobs)
        json_object_set_new(line, "logprobs", json_logprobs(reply));
    if (reply->prompt_logprobs)
        json_object_set_new(line, "prompt_logprobs", json_prompt_logprobs(reply, ids));
    if (t->gen.echo) {
        char *text;
        size_t len;
        struct akv_err err = {0};
        if (akv_decode(t->model, ids, n, false, &text, &len, &err) < 0)
            cmd_die_err(&err);
        json_object_set_new(line, "prompt", json_text(text, len));
        free(text);
    }
    char *dump = line ? json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    if (!dump)
        cmd_die(5, "out of memory for the reply");
    cmd_out_line(&t->out, dump);
    free(dump);
    json_decref(line);
}

static int put_text(void *ctx, const char *text, size_t len)
{
    struct tool *t = ctx;
    cmd_progress_end();
    if (cmd_out_try(&t->out, text, len))
        return 0;
    t->write_error = errno;
    return 1;
}

/* One request. Returns the library's code; *err says why. */
static int answer(void *ctx, struct akv_session *s, const struct akv_request *r, struct akv_err *err)
{
    struct tool *t = ctx;
    bool nothing = t->gen.max_tokens == 0 || akv_request_max_tokens(r) == 0;
    if (nothing && !t->gen.echo) /* a prefix that was only to be computed, whatever -n says for the others */
        return 0;
    struct akv_reply reply;
    struct akv_stats st;
    struct akv_err save_err = {0};
    t->gen.text = t->json ? NULL : put_text;
    t->gen.ctx = t;
    void (*on_pipe)(int) = signal(SIGPIPE, SIG_IGN); /* what was computed is saved before we go */
    int rc = akv_session_generate(s, r, &t->gen, &reply, &st, &save_err, err);
    signal(SIGPIPE, on_pipe);
    if (t->write_error)
        cmd_out_fail(&t->out, t->write_error, on_pipe == SIG_DFL);
    if (rc == 0) {
        if (t->json)
            print_json(t, r, &reply, &st);
        else
            cmd_out_write(&t->out, "\n", 1);
        cmd_stats(&t->o, akv_request_id(r), &st);
    }
    akv_reply_release(&reply);
    cmd_report_save(&save_err);
    return rc;
}

int main(int argc, char **argv)
{
    cmd_begin("akv-gen");
    struct tool t = {0};
    options(&t, argc, argv);
    cmd_out_open(&t.out, t.o.out, false);
    struct cmd_inputs inputs = {0};
    cmd_first_input(&inputs, argc - optind, argv + optind);
    t.model = cmd_model(&t.o, AKV_MODEL_DECODE_ONLY);
    struct akv_session_opts so = {0};
    struct akv_session *s = cmd_session(&t.o, t.model, &so);
    cmd_each_request(&inputs, s, answer, &t);
    cmd_out_commit(&t.out);
    akv_session_close(s);
    akv_model_close(t.model);
    free(t.stop);
    return cmd_exit();
}
