/* akv-inspect: its options, and what the answers to its questions share: one file a question. */
#ifndef AKV_CMD_INSPECT_H
#define AKV_CMD_INSPECT_H

#include <jansson.h>

#include "cmd.h"

struct inspect {
    struct cmd_opts o;
    bool json, verify, quick, raw, text, root, explain, diff;
    struct akv_model *model; /* for --text and --explain */
    struct cmd_out out;
    uint64_t n_done; /* files described */
    struct {
        json_int_t files, damaged, unreadable, pages, tokens, requests;
    } verified;
    char line[4096]; /* text to come out with its newline */
    size_t n_line;
};

/* ---- akv_inspect.c: a description, as the library writes it, taken apart and shown ---- */

void inspect_print(struct inspect *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void inspect_put(struct inspect *t, const char *text, size_t n); /* the same for text as it is */
void inspect_json(struct inspect *t, const json_t *o);           /* as a line */
json_t *inspect_parse(const char *json);
/* Make its strings fit for a line: names and ingredients come from elsewhere and may hold anything. */
void inspect_escape(json_t *o);
long long inspect_num(const json_t *o, const char *key);
const char *inspect_str(const json_t *o, const char *key); /* "-" when there is none */
void inspect_fields(struct inspect *t, const json_t *fields);

/* ---- inspect_stream.c ---- */

void inspect_stream(struct inspect *t, struct akv_input *in, const char *name);

/* ---- inspect_verify.c ---- */

void inspect_good(struct inspect *t, const char *name, long long pages, long long tokens, long long requests);
void inspect_bad(struct inspect *t, const char *name, const struct akv_err *why); /* reports it */
void inspect_verified(struct inspect *t);                                         /* after all files */

/* ---- inspect_explain.c ---- */

int inspect_explain(struct inspect *t, const char *a, const char *b); /* 1 when b parts from a, else 0 */

/* ---- inspect_diff.c ---- */

int inspect_diff(struct inspect *t, char **a, char **b); /* the operands; 1 when they differ, else 0 */

/* ---- inspect_model.c ---- */

void inspect_model(struct inspect *t, const char *path);

#endif
