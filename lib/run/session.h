/*
 * A session's insides: one model, one arena, at most one store, one input stream at a time and one output stream.
 *
 * Invariants: `seq` belongs to the request being run; its first n_sealed pages are sealed and, when asked for, delivered (written to
 * the output and published to the store), always in order, parents first.
 */
#ifndef AKV_RUN_SESSION_H
#define AKV_RUN_SESSION_H

#include "engine/engine.h"
#include "engine/sampler.h"
#include "run/input.h"
#include "run/outbox.h"
#include "run/request.h"
#include "run/root.h"
#include "store/store.h"

/* Rows of a prefill step: enough to pack a weight panel once for many rows, few enough to notice a cancel soon. */
#define AKV_STEP_ROWS 256u

/* akv_page.origin: where a page's content came from. */
enum akv_origin { AKV_FROM_COMPUTE, AKV_FROM_STREAM, AKV_FROM_STORE };

struct akv_session {
    const struct akv_model *model;
    struct akv_session_opts opts; /* strings copied into the session below */
    bool ctx_given;               /* opts.n_ctx is not the model's */
    char *store_dir, *cache_dir;
    uint8_t *salt;
    const struct akv_ops *ops;
    struct akv_pool *pool;
    struct akv_arena *arena;   /* opened with the engine, or at the first page that comes in */
    struct akv_engine *engine; /* opened at the first row to compute */
    struct akv_geom geom;
    struct akv_head head; /* valid when has_head: needs the weights digest, so it is made at first use */
    bool has_head;
    struct akv_store *store;
    bool no_store_yet; /* reading a store that does not exist: said once */
    struct akv_writer *writer;
    int out_fd; /* -1: no output stream */
    char *out_name;
    bool without_input;
    bool can_go_on;

    /* the request being run */
    struct akv_seq seq;
    bool seq_open;
    struct akv_key *keys; /* of the prompt's and then of seq's full pages: [pages of n_ctx], the first n_keys are known */
    uint32_t n_keys, n_sealed, n_restored;
    struct akv_sampler *sampler;
    float *logits; /* [n_vocab] */

    struct akv_coder *coders;  /* [threads of the pool] */
    struct akv_outbox *outbox; /* opened at the first page to deliver */
    struct akv_buf coded, scratch;
    struct akv_stats fed;    /* what reading the input's pages cost since the last request: restore_ms, bytes_read, bytes_written */
    struct akv_err save_err; /* the first failure to publish: saving stops, the run goes on */
};

double akv_now_ms(void); /* a monotonic clock, for stats only */

int akv_session_need_head(struct akv_session *s, struct akv_err *err);
int akv_session_need_arena(struct akv_session *s, struct akv_err *err);
int akv_session_need_engine(struct akv_session *s, struct akv_err *err);
int akv_session_need_writer(struct akv_session *s, struct akv_err *err);
/* The store, opened at first use; NULL in s->store afterwards when there is none to use. */
int akv_session_need_store(struct akv_session *s, struct akv_err *err);
void akv_session_note(struct akv_session *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bool akv_session_cancelled(const struct akv_session *s);

/* ---- pages.c: pages between arena, stream and store ---- */

/* A page that holds the decoded body of a checked record: seal it under its key. */
void akv_pages_settle(struct akv_session *s, struct akv_page *p, const struct akv_page_rec *rec, enum akv_origin origin);
/* Take a checked page record of the store into the arena, which is open: sealed, unowned. */
int akv_pages_admit(struct akv_session *s, const struct akv_page_rec *rec, struct akv_page **out, struct akv_err *err);
/* Write a restored page to the output, in the codec that a cold run would choose. */
int akv_pages_write(struct akv_session *s, const struct akv_page_rec *rec, struct akv_stats *st, struct akv_err *err);
/*
 * Pass a restored page on to the output as it stands, or note that it is to be left out (one that came with the input, when those are).
 * No effect without an output.
 */
int akv_pages_pass(struct akv_session *s, const struct akv_page_rec *rec, enum akv_origin origin, struct akv_stats *st,
                   struct akv_err *err);
/* Seal the pages of seq that filled since the last call and deliver them. */
int akv_pages_flush(struct akv_session *s, struct akv_err *err);
/*
 * Deliver the first n tokens of seq's page n/64 as a tail (nothing to do when n % 64 == 0): to the output when `write`, to the store
 * when saving. is_tip: seal the page, so that the next request may find it.
 */
int akv_pages_tail(struct akv_session *s, uint32_t n, bool write, bool is_tip, struct akv_err *err);
/* Wait until what was delivered is where it belongs. Before the output is written to directly, and before a request ends. */
int akv_pages_drain(struct akv_session *s, struct akv_stats *st, struct akv_err *err);

/* ---- lookup.c ---- */

/* A page that a prompt would have. */
struct akv_place {
    const struct akv_key *key, *parent; /* parent NULL: page 0 */
    uint32_t index;
    const uint32_t *ids;
    uint32_t n;
};

/* Note a page that was there but could not be used; the first one explains the miss. */
void akv_miss(struct akv_session *s, struct akv_stats *st, uint32_t index, const struct akv_err *why);
/* Fill st->miss when the hit is not full and nothing said why yet. */
void akv_explain_miss(const struct akv_session *s, struct akv_stats *st);
/* akv_load() and the time that it takes. */
int akv_lookup(struct akv_session *s, const uint32_t *ids, uint32_t n, struct akv_stats *st, struct akv_err *err);

/* ---- load.c ---- */

/*
 * Attach to the empty seq the longest chain of what arena and store hold of ids[n], read and decoded by all threads. A damaged or
 * unreadable object is a miss with words, never an error. Returns its tokens.
 */
int64_t akv_load(struct akv_session *s, const uint32_t *ids, uint32_t n, struct akv_stats *st, struct akv_err *err);

/* ---- compute.c ---- */

/* Whether the request has tokens and they fit into the context: AKV_E_INPUT with the numbers. */
int akv_check_size(const struct akv_session *s, const struct akv_record *rec, struct akv_err *err);
/* Begin a request: an empty sequence. */
int akv_compute_begin(struct akv_session *s, struct akv_err *err);
void akv_compute_end(struct akv_session *s); /* lets the pages go; the sealed ones stay findable while there is room */
/* Look up and compute the prompt; logits (may be NULL) receives those of the last token. per_token (may be NULL) gets each position's logits. */
int akv_compute_prompt(struct akv_session *s, const struct akv_request *r, float *logits,
                       int (*per_token)(void *ctx, uint32_t pos, const float *logits), void *ctx, struct akv_stats *st,
                       struct akv_err *err);
/* The request itself to the output (Q), after its pages. */
int akv_output_request(struct akv_session *s, const struct akv_request *r, struct akv_err *err);
/* Append one token and compute its logits. */
int akv_compute_token(struct akv_session *s, uint32_t id, float *logits, struct akv_err *err);

/* ---- bench.c ---- */

uint32_t akv_bench_id(const struct akv_session *s, uint32_t i); /* the i-th of the ids that benchmarks compute */

/* ---- stop.c: stop strings over a growing text ---- */

/*
 * Look for the first stop string in text[0..len), of which [0..scanned) was searched before. Returns its offset, or SIZE_MAX; *safe is
 * then how many leading bytes can no longer become part of one.
 */
size_t akv_stop_find(const char *text, size_t len, size_t scanned, const char *const *stop, const size_t *stop_len, size_t n_stop,
                     size_t *safe);

#endif
