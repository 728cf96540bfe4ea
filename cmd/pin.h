/* What the verbs of akv-pin share. Each story is a file cmd/pin_*.c; the table of verbs is in akv_pin.c. */
#ifndef AKV_CMD_PIN_H
#define AKV_CMD_PIN_H

#include <jansson.h>

#include "cmd.h"

enum pin_verb {
    PIN_ADD,
    PIN_LIST,
    PIN_REMOVE,
    PIN_RENAME,
    PIN_EXPORT,
    PIN_MANIFEST,
    PIN_VERIFY,
    PIN_QUARANTINE,
    PIN_COLLECT,
    PIN_QUOTA
};

struct pin {
    struct cmd_opts o;
    enum pin_verb verb;
    bool all, json, dry_run, force, deep;
    bool model_given;    /* by -m, not by the environment alone */
    const char *root;    /* the first digits of the one meant; NULL: any */
    char model_root[65]; /* of -m, whole */
    uint64_t quota;      /* bytes; 0: none */
    uint64_t sample;     /* pages to compute again */
    char **names;
    struct cmd_inputs inputs;
    struct cmd_out out;
    struct akv_store *store;
};

void pin_line(struct pin *t, json_t *line); /* a line of JSON to the output; takes the object */
void pin_note(void *ctx, const char *msg);
struct akv_store_work pin_work(struct pin *t); /* on the whole store, as the options have it */
void pin_utc(char text[32], int64_t seconds);  /* 2026-01-15T12:00:00Z; "-": not known */

void pin_root_of_model(struct pin *t); /* the root meant is that of -m */
void pin_check_stream(struct pin *t);  /* before the store is opened, or die */

/* 0 or an error, as the library has it. */
int pin_add(struct pin *t, struct akv_err *err);
int pin_rename(struct pin *t, struct akv_err *err);
int pin_remove(struct pin *t, struct akv_err *err);
int pin_export(struct pin *t, struct akv_err *err);
int pin_list(struct pin *t, struct akv_err *err);
int pin_manifest(struct pin *t, struct akv_err *err);
int pin_verify(struct pin *t, struct akv_err *err);
int pin_quarantine(struct pin *t, struct akv_err *err);
int pin_collect(struct pin *t, struct akv_err *err);
int pin_set_quota(struct pin *t, struct akv_err *err);

/* "4G", "512M", "100000", "none" in bytes, or die with status 2. */
uint64_t pin_size(const char *text);

#endif
