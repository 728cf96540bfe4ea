/* Token records (design.md 4.1; akv-tokens(5)): one JSON line, a request as token ids. */
#ifndef AKV_CHAT_RECORD_H
#define AKV_CHAT_RECORD_H

#include "base/json.h"
#include "model/tok.h"

struct akv_span {
    const char *kind; /* "tools", "system", "user", "assistant", "tool", "generation", "prompt", ... (owned by the record) */
    uint32_t from, to;
};

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
    json_t *json; /* the whole record as read or built, unknown fields included: what is written again */
    const char *id;
    const char *tok; /* hex digest or NULL */
    uint32_t *ids;
    size_t n;
    struct akv_anchor *anchors;
    size_t n_anchors;
    struct akv_gen gen;
};

/* Check and take apart a record; steals nothing: holds a reference to json. AKV_E_INPUT names the field. Ids are checked against n_vocab when it is not 0. */
int akv_record_from_json(struct akv_record *r, json_t *json, uint32_t n_vocab, struct akv_err *err);
int akv_record_parse(struct akv_record *r, const char *text, size_t len, uint32_t n_vocab, struct akv_err *err);
void akv_record_release(struct akv_record *r);
/* One line, without the newline. */
int akv_record_write(const struct akv_record *r, struct akv_buf *out, struct akv_err *err);

/* Read "gen" fields (max_tokens, temperature, top_k, top_p, min_p, repeat_penalty, seed, stop) from a JSON object; unknown fields ignored, wrong kinds are AKV_E_INPUT. */
int akv_gen_from_json(struct akv_gen *g, const json_t *obj, struct akv_err *err);
void akv_gen_release(struct akv_gen *g);

#endif
