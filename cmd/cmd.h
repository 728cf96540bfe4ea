/* What the tools share: messages, common options, input and output, progress, statistics. The tools see the library through akv.h only. */
#ifndef AKV_CMD_H
#define AKV_CMD_H

#include <getopt.h>

#include "akv.h"

/* ---- cmd.c: messages, exit status, signals ---- */

extern const char *cmd_name;     /* "akv-gen" */
extern volatile int cmd_cancel;  /* the signal that asks to stop (SIGINT, SIGTERM, SIGHUP), or 0 */
extern volatile int cmd_at_once; /* set while nothing heeds cmd_cancel: the first signal ends the tool, as the second always does */
extern int cmd_quiet, cmd_verbose;
extern void (*cmd_last)(void); /* called when a signal ends the tool; may be NULL */

/* First in every main(): the tool's name; closed standard descriptors keep their places, signals end reads and remove temporaries. */
void cmd_begin(const char *name);

/* "akv-gen: text" on stderr, then exit with this status; temporaries are removed first. */
void cmd_die(int status, const char *fmt, ...) __attribute__((noreturn, format(printf, 2, 3)));
/* The same for a library error. */
void cmd_die_err(const struct akv_err *err) __attribute__((noreturn));
/* Print a library error and remember its status for cmd_exit(). */
void cmd_report(const struct akv_err *err);
/* The same for a failed save, once: the session saves no more. No error is fine. */
void cmd_report_save(const struct akv_err *err);
/* A warning: not with -q. */
void cmd_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Print newline-separated warnings and free them. NULL is fine. */
void cmd_notes(char *notes);
/* More words: only with -v. */
void cmd_detail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Leave now when nothing was done and errors were reported: the output stays as it was. */
void cmd_leave_if_none(uint64_t n_done);
/* Leave with the highest status reported, or as the signal that was caught asks. */
int cmd_exit(void);
void *cmd_alloc(size_t n);
char *cmd_strdup(const char *s);
char *cmd_escaped(const char *text); /* on one line: control bytes as \xNN */

/* ---- opts.c: the common options ---- */

struct cmd_opts {
    const char *model, *pre, *out, *stats_path, *store;
    bool stats, save, no_store;
    unsigned threads;
    uint32_t n_ctx;
    enum akv_kv_dtype kv;
};

enum { CMD_OPT_STATS = 0x1000, CMD_OPT_KV, CMD_OPT_SAVE, CMD_OPT_NO_STORE, CMD_OPT_PRE, CMD_OPT_OWN };

#define CMD_SHORT "hVqvm:o:"
#define CMD_LONG                                                                                                                   \
    {"help", no_argument, NULL, 'h'}, {"version", no_argument, NULL, 'V'}, {"quiet", no_argument, NULL, 'q'},                      \
        {"verbose", no_argument, NULL, 'v'}, {"model", required_argument, NULL, 'm'},                                              \
        {"pre", required_argument, NULL, CMD_OPT_PRE},                                                                             \
    {                                                                                                                              \
        "output", required_argument, NULL, 'o'                                                                                     \
    }
/* of the tools that open a session */
#define CMD_RUN_SHORT CMD_SHORT "c:s:@:"
#define CMD_RUN_LONG                                                                                                               \
    CMD_LONG, {"ctx", required_argument, NULL, 'c'}, {"store", required_argument, NULL, 's'},                                      \
        {"threads", required_argument, NULL, '@'}, {"stats", optional_argument, NULL, CMD_OPT_STATS},                              \
    {                                                                                                                              \
        "kv", required_argument, NULL, CMD_OPT_KV                                                                                  \
    }

#define CMD_HELP                                                                                                                   \
    "  -m, --model FILE     the model, a GGUF file (default: $AKV_MODEL)\n"                                                        \
    "      --pre NAME       the model's pre-tokenizer, whatever its file says\n"                                                   \
    "  -o, --output FILE    write there, replaced as a whole at the end (default: standard output)\n"                              \
    "  -q, --quiet          no warnings and no progress\n"                                                                         \
    "  -v, --verbose        more words\n"                                                                                          \
    "  -h, --help           this text\n"                                                                                           \
    "  -V, --version        the version\n"
#define CMD_RUN_HELP                                                                                                               \
    "  -c, --ctx N          tokens of context (default: the model's)\n"                                                            \
    "      --kv TYPE        f16 or f32 KV (default: f16; each has its own keys)\n"                                                 \
    "  -s, --store DIR      the store (default: $AKV_STORE)\n"                                                                     \
    "  -@, --threads N      compute threads (default: one for each processor that it may use)\n"                                   \
    "      --stats[=FILE]   one JSON line a request on standard error, or appended to FILE\n" CMD_HELP

/* getopt_long(), dying with one line and status 2 where that would print. */
int cmd_getopt(int argc, char **argv, const char *shorts, const struct option *longs);
void cmd_opts_init(struct cmd_opts *o);
/* Handle a common option; false: not one of them. -h and -V print and exit. */
bool cmd_opt(struct cmd_opts *o, int c, const char *usage, const char *help);
unsigned cmd_cores(void); /* processors that the process may use, by its affinity and its cgroup: 1 to 256 */
uint64_t cmd_number(const char *text, uint64_t most, const char *what); /* or die with status 2 */
double cmd_real(const char *text, double least, double most, const char *what);
unsigned cmd_threads(const struct cmd_opts *o); /* -@, or all that it may use: cmd_cores() */
/* The model named by -m or $AKV_MODEL, or die. */
struct akv_model *cmd_model(const struct cmd_opts *o, unsigned flags);
/* A session with these options; store use as design says: only when -s or AKV_STORE, not with --no-store. */
struct akv_session *cmd_session(const struct cmd_opts *o, const struct akv_model *m, struct akv_session_opts *extra);
/* Where the store is when nothing says so: of akv-pin and akv-restore. Dies when there is no home. */
const char *cmd_default_store(void);
/* $XDG_CACHE_HOME/akv/NAME or ~/.cache/akv/NAME, malloc'd; NULL when neither is set. */
char *cmd_cache_path(const char *name);

/* ---- stream.c: input operands and output ---- */

/* Input operands: the files named, or standard input when there is none; "-" is standard input. */
struct cmd_inputs {
    char **names;
    int n, at, fd;
    struct akv_input *in; /* one for all operands: they read as if joined by cat, unless `apart` is set before the first */
    bool apart;
    bool with_empty; /* an empty one is not passed over */
    bool reading;    /* the current operand is open */
    bool any;        /* something was read */
    uint64_t n_done; /* requests that were done */
};
const char *cmd_input_name(const struct cmd_inputs *i); /* of the current one, for messages */
/* The current input, opened at need; NULL past the last. A file that cannot be opened is reported and passed over. */
struct akv_input *cmd_input(struct cmd_inputs *i);
void cmd_input_done(struct cmd_inputs *i); /* go to the next */
/*
 * Read the first input now (before a model is loaded: an empty pipe fails at once), then every request of all inputs in order through fn,
 * which returns 0 or an error. A bad request is reported and the others go on; I/O errors and a damaged stream end the tool, and so does
 * an input of which not one request was done. After cmd_first_input() there is an input.
 */
void cmd_first_input(struct cmd_inputs *i, int argc, char **argv);
void cmd_each_request(struct cmd_inputs *i, struct akv_session *s,
                      int (*fn)(void *ctx, struct akv_session *s, const struct akv_request *r, struct akv_err *err), void *ctx);
/* Whole content of a file (or "-"), at most `most` bytes; malloc'd, NUL-terminated; dies on failure. */
char *cmd_slurp(const char *path, size_t most, size_t *len);

struct cmd_out {
    int fd;
    const char *name; /* for messages */
    char *temp;       /* the file being written beside its final name, or NULL when in place */
};
/* -o FILE, or standard output. binary: refuse a terminal. */
void cmd_out_open(struct cmd_out *o, const char *path, bool binary);
/* false: not all could be written, errno says why. With SIGPIPE ignored a reader that has gone is EPIPE. */
bool cmd_out_try(struct cmd_out *o, const void *p, size_t n);
/* Die as a write that failed with this errno does: with status 5, by SIGPIPE when the reader has gone and `pipe_kills`. */
_Noreturn void cmd_out_fail(struct cmd_out *o, int error, bool pipe_kills);
void cmd_out_write(struct cmd_out *o, const void *p, size_t n); /* or die with status 5 */
void cmd_out_line(struct cmd_out *o, const char *text);         /* the text and a newline */
/* Flush, sync and move into place; dies on failure. */
void cmd_out_commit(struct cmd_out *o);
void cmd_out_remove_temps(void);
void cmd_out_unlink(void); /* the same, from a signal handler */

/* ---- against.c ---- */

/* What prompts are compared with: a store's directory, pin:NAME (in `store`, NULL: the default one), a file of records or a stream; or die. */
struct akv_basis *cmd_basis(const char *what, const char *store, const struct akv_model *m);
/* Write the line that says where r parts from them: 1; 0: it does not. */
int cmd_explain(struct cmd_out *out, struct akv_basis *b, const struct akv_request *r, const struct akv_model *m, bool json,
                struct akv_err *err);

/* ---- progress.c ---- */

/* A line on stderr with tokens/s and time left when it is a terminal, for work over a second. */
void cmd_progress(void *ctx, const char *what, uint32_t done, uint32_t total);
void cmd_progress_end(void);

/* ---- stats.c: what several tools write as JSON ---- */

/* Text from elsewhere as a string: bytes that are no UTF-8 become U+FFFD. */
struct json_t *cmd_text(const char *text);
/* What --verify has found: {"finding","what","why"}. */
struct json_t *cmd_finding(const char *kind, const char *what, const char *why);

/* {"id":...,"hit":...} to stderr or appended to the file of --stats=FILE with one write; nothing without --stats. */
void cmd_stats(const struct cmd_opts *o, const char *id, const struct akv_stats *st);

#endif
