/* Token records (design.md 4.1; akv-tokens(5)): one JSON line, a request as token ids. */
#ifndef AKV_CHAT_RECORD_H
#define AKV_CHAT_RECORD_H

#include "base/json.h"
#include "model/tok.h"

struct akv_span {
    const char *kind; /* "tools", "system", "user", "assistant", "tool", "generation", "prompt", ... (owned by the record) */
    uint32_t from, to;
};

/* In the record an anchor that could not be cut where it was wanted also has "moved_from", the wanted position. */
struct akv_anchor {
    char *name;
    uint32_t at;
};

/* Sampling settings as given; a field is used only when its bit is set in `has`. */
#define AKV_GEN_MAX_TOKENS 1u
#define AKV_GEN_TEMPERATURE 2u
#define AKV_GEN_TOP_K 4u
#define AKV_GEN_TOP_P 8u
#define AKV_GEN_MIN_P 16u
#define AKV_GEN_REPEAT 32u
#define AKV_GEN_SEED 64u
#define AKV_GEN_STOP 128u
struct akv_gen {
    unsigned has;
    uint32_t max_tokens, top_k;
    double temperature, top_p, min_p, repeat_penalty;
    uint64_t seed;
    char **stop; /* n_stop strings, owned; stop_len their byte lengths (they may hold NUL) */
    size_t *stop_len;
    size_t n_stop;
};

struct akv_record {
    json_t *json; /* all fields as read or built, unknown ones included: what is written again, n and tokens aside */
    const char *id;
    const char *tok; /* hex digest or NULL */
    uint32_t *ids;
    size_t n;
    struct akv_span *spans; /* ascending, not overlapping */
    size_t n_spans;
    struct akv_anchor *anchors; /* ascending */
    size_t n_anchors;
    struct akv_gen gen;
};

/*
 * Check and take apart a record; steals nothing: holds a reference to json. Ids are checked against n_vocab when it is not 0.
 * AKV_E_INPUT names the field ("id r1: tokens[7]: ..."); another version of the format is AKV_E_INCOMPAT. On failure r is empty.
 */
int akv_record_from_json(struct akv_record *r, json_t *json, uint32_t n_vocab, struct akv_err *err);
/*
 * Build a record from its fields (an object with "akv", "id" ... but without "n" and "tokens"; a reference is taken) and its ids (malloc'd;
 * taken over, also on failure).
 */
int akv_record_make(struct akv_record *r, json_t *fields, uint32_t *ids, size_t n, struct akv_err *err);
int akv_record_parse(struct akv_record *r, const char *text, size_t len, uint32_t n_vocab, struct akv_err *err);
void akv_record_release(struct akv_record *r);
/*
 * Add an anchor, to the fields and to the array, in order of position; wanted: where it should have been. A name that is there already:
 * AKV_E_INPUT.
 */
int akv_record_add_anchor(struct akv_record *r, const char *name, uint32_t at, uint32_t wanted, struct akv_err *err);
/* One line, without the newline: akv, id, tok, n, tokens, spans, anchors, gen, then the other fields in their order. */
int akv_record_write(const struct akv_record *r, struct akv_buf *out, struct akv_err *err);

/*
 * Read "gen" fields (max_tokens, temperature, top_k, top_p, min_p, repeat_penalty, seed, stop: a string or an array of them) from a JSON
 * object; null is absent, unknown fields are ignored, wrong kinds and ranges are AKV_E_INPUT. On failure g is empty.
 */
int akv_gen_from_json(struct akv_gen *g, const json_t *obj, struct akv_err *err);
void akv_gen_release(struct akv_gen *g);

#endif
