/*
 * chatbench: processor time of turning chats into token records, on one thread.
 *
 *   chatbench MODEL [TEMPLATE [REPS]]     a GGUF file with a tokenizer; a template to use instead of the model's
 *
 * Three loads: one chat of 64,000 tokens, 10,000 small chats, and an agent's chat with 60 tool calls. A line each: the load, tokens,
 * the least time of REPS (5) runs, and what that makes. The texts are made up of a fixed sequence of words.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/io.h"
#include "chat/chat.h"

static uint32_t state;

/* One of a few words, now and then a number or a name that was never there before. */
static void word(struct akv_buf *b)
{
    static const char *const words[] = {
        "the",     "store",  "keeps",  "pages",  "of",       "every",     "prefix",   "that",  "was",
        "written", "before", "and",    "a",      "reader",   "compares",  "them",     "first", "request",
        "chain",   "token",  "result", "(page)", "don't",    "src/io.c:", "x_bytes",  "1024",  "7,",
        "is",      "not",    "so",     "where",  "Überlauf", "else",      "computed", "once",  "again."};
    state = state * 1664525u + 1013904223u;
    uint32_t pick = state >> 16;
    if (pick % 16 == 0)
        akv_buf_printf(b, "%u", pick % 9973);
    else if (pick % 16 == 1)
        akv_buf_printf(b, "node_%x", pick);
    else
        akv_buf_puts(b, words[pick % (sizeof words / sizeof *words)]);
}

static json_t *text(size_t n_words)
{
    struct akv_buf b;
    akv_buf_init(&b, 0);
    for (size_t i = 0; i < n_words; i++) {
        akv_buf_puts(&b, i ? i % 12 ? " " : "\n" : "");
        word(&b);
    }
    json_t *s = json_stringn(b.data, b.len);
    akv_buf_release(&b);
    return s;
}

static void say(json_t *list, const char *role, size_t n_words)
{
    json_array_append_new(list, json_pack("{s:s, s:o}", "role", role, "content", text(n_words)));
}

static json_t *request(json_t *messages, json_t *tools)
{
    return json_pack("{s:o, s:o*, s:i}", "messages", messages, "tools", tools, "max_tokens", 64);
}

static json_t *long_chat(void)
{
    json_t *list = json_array();
    say(list, "system", 300);
    for (unsigned i = 0; i < 100; i++) {
        say(list, "user", 70);
        say(list, "assistant", 340);
    }
    say(list, "user", 50);
    return request(list, NULL);
}

static json_t *small_chat(void)
{
    json_t *list = json_array();
    say(list, "system", 20);
    say(list, "user", 12);
    return request(list, NULL);
}

static json_t *tool(unsigned i)
{
    char name[32];
    snprintf(name, sizeof name, "tool_%u", i);
    json_t *params =
        json_pack("{s:s, s:{s:{s:s, s:o}, s:{s:s, s:o}}, s:[s]}", "type", "object", "properties", "path", "type", "string",
                  "description", text(12), "count", "type", "integer", "description", text(9), "required", "path");
    return json_pack("{s:s, s:{s:s, s:o, s:o}}", "type", "function", "function", "name", name, "description", text(40),
                     "parameters", params);
}

static json_t *agent_chat(void)
{
    json_t *list = json_array(), *tools = json_array();
    for (unsigned i = 0; i < 12; i++)
        json_array_append_new(tools, tool(i));
    say(list, "system", 600);
    say(list, "user", 80);
    for (unsigned i = 0; i < 60; i++) {
        char id[16], name[16];
        snprintf(id, sizeof id, "call%05u", i);
        snprintf(name, sizeof name, "tool_%u", i % 12);
        json_t *call = json_pack("{s:s, s:s, s:{s:s, s:{s:o, s:i}}}", "id", id, "type", "function", "function", "name", name,
                                 "arguments", "path", text(4), "count", (int)i);
        json_array_append_new(list, json_pack("{s:s, s:o, s:[o]}", "role", "assistant", "content",
                                              i % 3 ? json_string("") : text(25), "tool_calls", call));
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:s, s:o}", "role", "tool", "tool_call_id", id, "name", name, "content", text(500)));
    }
    return request(list, tools);
}

static double cpu_ms(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return ((double)u.ru_utime.tv_sec + (double)u.ru_stime.tv_sec) * 1e3 +
           ((double)u.ru_utime.tv_usec + (double)u.ru_stime.tv_usec) / 1e3;
}

/* n times from JSON text to a record's line; the tokens of one, or 0. */
static size_t run(const struct akv_model *model, const struct akv_chat_opts *opts, const struct akv_buf *json, unsigned n)
{
    size_t n_tokens = 0;
    struct akv_chat_cache cache = {0};
    for (unsigned i = 0; i < n; i++) {
        struct akv_err err = {0};
        struct akv_record r = {0};
        struct akv_buf line;
        json_t *v = NULL;
        akv_buf_init(&line, 0);
        int rc = akv_json_parse(&v, json->data, json->len, "chat", &err);
        if (rc == 0)
            rc = akv_chat_record(model, v, "r", opts, &cache, &r, NULL, &err);
        if (rc == 0)
            rc = akv_record_write(&r, &line, &err);
        n_tokens = rc == 0 ? r.n : 0;
        akv_buf_release(&line);
        akv_record_release(&r);
        json_decref(v);
        if (rc < 0) {
            fprintf(stderr, "chatbench: %s\n", err.msg);
            n_tokens = 0;
            break;
        }
    }
    akv_chat_cache_release(&cache);
    return n_tokens;
}

static int bench(const struct akv_model *model, const struct akv_chat_opts *opts, const char *name, json_t *chat, unsigned n,
                 unsigned reps)
{
    struct akv_buf json;
    akv_buf_init(&json, 0);
    akv_json_dump(&json, chat);
    json_decref(chat);
    double least = 0;
    size_t n_tokens = 0;
    for (unsigned i = 0; i < reps; i++) {
        double start = cpu_ms();
        n_tokens = run(model, opts, &json, n);
        double ms = cpu_ms() - start;
        least = !i || ms < least ? ms : least;
    }
    akv_buf_release(&json);
    if (!n_tokens)
        return 1;
    printf("%-6s %6zu tokens, %5u chats: %8.1f ms, %9.0f chats/s, %6.2f M tokens/s\n", name, n_tokens, n, least, n * 1e3 / least,
           (double)n_tokens * n / least / 1e3);
    return 0;
}

int main(int argc, char **argv)
{
    struct akv_err err = {0};
    struct akv_model *model;
    struct akv_chat_opts opts = {0};
    static char tmpl[1 << 20];
    if (argc < 2) {
        fputs("usage: chatbench MODEL [TEMPLATE [REPS]]\n", stderr);
        return 2;
    }
    if (akv_model_load(&model, argv[1], AKV_MODEL_VOCAB_ONLY, &err) < 0) {
        fprintf(stderr, "chatbench: %s\n", err.msg);
        return 1;
    }
    if (argc > 2 && *argv[2]) {
        FILE *f = fopen(argv[2], "rb");
        opts.template_len = f ? fread(tmpl, 1, sizeof tmpl, f) : 0;
        opts.template_text = tmpl;
        if (f)
            fclose(f);
    }
    unsigned reps = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 5;
    int bad = bench(model, &opts, "long", long_chat(), 1, reps);
    bad |= bench(model, &opts, "small", small_chat(), 10000, reps);
    bad |= bench(model, &opts, "agent", agent_chat(), 1, reps);
    akv_model_unload(model);
    return bad;
}
