/*
 * Exactness: the KV and logits of a row depend on nothing but the ids before it. Every comparison here is of bytes.
 * The models are made by mkmodel; one made elsewhere joins where it is present.
 */
#include "engine_rig.h"

#include <xmmintrin.h>

#include "base/bytes.h"

#define N 131 /* tokens: two full pages and a tail */

/* The last one, from elsewhere, comes ready. */
static const struct {
    const char *name, *mkmodel_options;
} models[] = {
    {"q4_1", "--dtype q4_1 --layers 2 --width 128 --heads 4 --kv-heads 2 --ff 192"},
    {"f16-tied", "--dtype f16 --layers 2 --width 64 --heads 4 --kv-heads 1 --ff 96 --tied"},
    {"f32-odd", "--dtype f32 --layers 2 --width 60 --heads 6 --kv-heads 3 --ff 52"}, /* no width is a multiple of a vector */
    {"yarn", "--rope yarn --dtype q8_0 --layers 2 --width 64 --heads 2 --kv-heads 1 --ff 96"},
    {"linear", "--rope linear --dtype f32 --layers 1 --width 32 --heads 2 --kv-heads 1 --ff 48"},
    {"factors", "--rope factors --dtype f32 --layers 1 --width 32 --heads 2 --kv-heads 1 --ff 48"},
    {"qwen2", "--arch qwen2 --dtype q8_0 --layers 2 --width 64 --heads 4 --kv-heads 2 --ff 96 --tied"},
    {"qwen3-odd", "--arch qwen3 --dtype f32 --layers 2 --width 60 --heads 6 --kv-heads 2 --head-dim 14 --ff 52"},
    {"gemma3", "--arch gemma3 --dtype q4_0 --layers 7 --width 64 --heads 4 --kv-heads 1 --head-dim 24 --ff 96"}, /* window 16 */
    {"gemma3-keys",
     "--arch gemma3 --dtype f32 --layers 4 --width 48 --heads 2 --head-dim 20 --ff 64 --window 24 --pattern 3 --softcap 6"},
    {"llama-tiny-q4_1", NULL},
};
#define N_MODELS (sizeof models / sizeof *models)

/* Known answers: a llama of every weight type, the other architectures with one type of each way to multiply (marked first). */
static const char *const types[] = {"bf16", "q5_0", "q4_k", "iq4_nl", "f32",  "f16",  "q8_0",   "q4_0",
                                    "q4_1", "q5_1", "q2_k", "q3_k",   "q5_k", "q6_k", "iq4_xs", "mxfp4"};
#define N_MARKED 4u
static const struct {
    const char *name, *options;
    size_t n_types;
} archs[] = {
    {"llama", "--layers 1", sizeof types / sizeof *types},
    {"qwen2", "--layers 1", N_MARKED},
    {"qwen3", "--layers 1", N_MARKED},
    {"gemma3", "--layers 2 --pattern 2", N_MARKED},
};

struct fixture {
    char dir[64], tool[1024]; /* tool: mkmodel, "" when it is not built */
    char path[N_MODELS][128]; /* "" when there is none */
    uint32_t ids[2 * N];
};

/* mkmodel lies beside this program. */
static void find_tool(struct fixture *f)
{
    char self[900];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(self, '/');
    if (slash)
        *slash = '\0';
    snprintf(f->tool, sizeof f->tool, "%s/mkmodel", self);
    if (access(f->tool, X_OK) != 0)
        f->tool[0] = '\0';
}

static int make_model(const struct fixture *f, const char *path, const char *options)
{
    char command[2048];
    snprintf(command, sizeof command, "'%s' -o '%s' %s", f->tool, path, options);
    return system(command);
}

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    snprintf(f->dir, sizeof f->dir, "/tmp/akv-engine-XXXXXX");
    if (!mkdtemp(f->dir))
        return -1;
    const char *shared = shared_file("golden/models/llama-tiny-q4_1.gguf");
    find_tool(f);
    for (size_t i = 0; i < N_MODELS; i++) {
        if (models[i].mkmodel_options && f->tool[0]) {
            snprintf(f->path[i], sizeof f->path[i], "%s/%s.gguf", f->dir, models[i].name);
            if (make_model(f, f->path[i], models[i].mkmodel_options) != 0)
                return -1;
        } else if (!models[i].mkmodel_options && shared) {
            snprintf(f->path[i], sizeof f->path[i], "%s", shared);
        }
    }
    uint32_t rnd = 7;
    for (int i = 0; i < 2 * N; i++) {
        rnd = rnd * 1664525u + 1013904223u;
        f->ids[i] = (rnd >> 8) % 380;
    }
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    for (size_t i = 0; i < N_MODELS; i++) {
        if (models[i].mkmodel_options && f->path[i][0])
            unlink(f->path[i]);
    }
    rmdir(f->dir);
    free(f);
    return 0;
}

/* What a run leaves: KV as bodies of pages, logits of every row. */
struct result {
    uint8_t *kv;
    size_t kv_bytes;
    float *logits;
    size_t logits_bytes;
};

static void release(struct result *r)
{
    free(r->kv);
    free(r->logits);
}

static void assert_same(const struct result *a, const struct result *b)
{
    assert_int_equal(a->kv_bytes, b->kv_bytes);
    assert_memory_equal(a->kv, b->kv, a->kv_bytes);
    assert_int_equal(a->logits_bytes, b->logits_bytes);
    assert_memory_equal(a->logits, b->logits, a->logits_bytes);
}

static struct result feed(struct rig *r, struct akv_seq *s, const uint32_t *ids, size_t n, size_t chunk)
{
    struct result out = {0};
    struct akv_err err = {0};
    out.logits_bytes = n * r->model->hp.n_vocab * sizeof(float);
    out.logits = malloc(out.logits_bytes);
    assert_ok(rig_feed(r, s, ids, n, chunk, out.logits, true, &err), &err);
    out.kv = rig_kv(r, s, &out.kv_bytes);
    return out;
}

static struct result cold(const char *path, const char *cpu, unsigned n_threads, enum akv_kv_dtype kv, const uint32_t *ids,
                          size_t n, size_t chunk)
{
    struct rig r;
    rig_open(&r, path, akv_ops_pick(cpu), n_threads, kv, N, 2 * N);
    struct result out = feed(&r, &r.seq, ids, n, chunk);
    rig_close(&r);
    return out;
}

/* Run fn on every model with both KV dtypes (samples: with one of them in turn); skip when there is no model at all. */
static void on_all(void **state, void (*fn)(const char *path, enum akv_kv_dtype kv, const uint32_t *ids))
{
    const struct fixture *f = *state;
    size_t n_run = 0;
    for (size_t i = 0; i < N_MODELS; i++) {
        if (!f->path[i][0])
            continue;
        if (!RIG_SAMPLES || i % 2 == 0)
            fn(f->path[i], AKV_KV_F16, f->ids);
        if (!RIG_SAMPLES || i % 2 == 1)
            fn(f->path[i], AKV_KV_F32, f->ids);
        n_run++;
    }
    if (!n_run)
        skip();
}

static void chunks(const char *path, enum akv_kv_dtype kv, const uint32_t *ids)
{
    struct result all = cold(path, NULL, 1, kv, ids, N, N);
    static const size_t sizes[] = {1, 3, 17, 64, 65};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct result part = cold(path, NULL, 1, kv, ids, N, sizes[i]);
        assert_same(&all, &part);
        release(&part);
    }
    release(&all);
}

/* the size of the chunks of a prefill, down to single tokens, changes no bit */
static void test_chunks(void **state)
{
    on_all(state, chunks);
}

static void threads(const char *path, enum akv_kv_dtype kv, const uint32_t *ids)
{
    struct result one = cold(path, NULL, 1, kv, ids, N, 50);
    for (unsigned n = 2; n <= 4; n++) {
        struct result more = cold(path, NULL, n, kv, ids, N, 50);
        assert_same(&one, &more);
        release(&more);
    }
    release(&one);
}

/* the number of threads changes no bit */
static void test_threads(void **state)
{
    on_all(state, threads);
}

/* The logits of single rows and of several, at the ends of the chunks and behind them. */
static struct result deep(const char *path, unsigned n_threads, enum akv_kv_dtype kv, const uint32_t *ids)
{
    static const size_t steps[] = {250, 5, 1, 1, 1, 250, 4, 2, 1, 3, 70};
    const size_t n_steps = sizeof steps / sizeof *steps;
    struct rig r;
    struct akv_err err = {0};
    struct result out = {0};
    uint32_t more[252];
    for (size_t i = 0; i < 252; i++)
        more[i] = ids[i % N];
    rig_open(&r, path, NULL, n_threads, kv, 256, 640);
    out.logits_bytes = n_steps * r.model->hp.n_vocab * sizeof(float);
    out.logits = malloc(out.logits_bytes);
    for (size_t i = 0; i < n_steps; i++)
        assert_ok(rig_feed(&r, &r.seq, more + i % 3, steps[i], steps[i], out.logits + i * r.model->hp.n_vocab, false, &err), &err);
    out.kv = rig_kv(&r, &r.seq, &out.kv_bytes);
    rig_close(&r);
    return out;
}

static void deep_threads(const char *path, enum akv_kv_dtype kv, const uint32_t *ids)
{
    struct result one = deep(path, 1, kv, ids);
    for (unsigned n = 2; n <= 5; n += 3) {
        struct result more = deep(path, n, kv, ids);
        assert_same(&one, &more);
        release(&more);
    }
    release(&one);
}

/* the same behind several chunks of keys, where threads share the attention of a row */
static void test_deep_threads(void **state)
{
    on_all(state, deep_threads);
}

static void tables(const char *path, enum akv_kv_dtype kv, const uint32_t *ids)
{
    struct result scalar = cold(path, "scalar", 1, kv, ids, N, N);
    for (size_t i = 0; akv_ops_nth(i) != &akv_ops_scalar; i++) {
        struct result other = cold(path, akv_ops_nth(i)->name, 2, kv, ids, N, 40);
        assert_same(&scalar, &other);
        release(&other);
    }
    release(&scalar);
}

/* every table of this machine gives the scalar table's bits */
static void test_tables(void **state)
{
    on_all(state, tables);
}

static void logits_wanted(const char *path, enum akv_kv_dtype kv, const uint32_t *ids)
{
    struct result all = cold(path, NULL, 1, kv, ids, N, N);
    struct rig r;
    rig_open(&r, path, NULL, 2, kv, N, N);
    size_t n_vocab = r.model->hp.n_vocab;
    float *some = malloc(3 * n_vocab * sizeof *some);
    static const uint32_t wanted[] = {5, 64, 100}; /* the rows in between go without */
    struct akv_row rows[N];
    struct akv_err err = {0};
    for (uint32_t i = 0; i < N; i++)
        rows[i] = (struct akv_row){.seq = &r.seq, .id = ids[i], .pos = i};
    for (size_t i = 0; i < 3; i++)
        rows[wanted[i]].logits = some + i * n_vocab;
    assert_ok(akv_seq_reserve(&r.seq, N, &err), &err);
    assert_ok(akv_engine_step(r.engine, rows, N, &err), &err);
    for (size_t i = 0; i < 3; i++)
        assert_memory_equal(some + i * n_vocab, all.logits + wanted[i] * n_vocab, n_vocab * sizeof *some);
    size_t bytes;
    uint8_t *bodies = rig_kv(&r, &r.seq, &bytes);
    assert_memory_equal(bodies, all.kv, bytes);
    free(bodies);
    free(some);
    rig_close(&r);
    release(&all);
}

/* which rows' logits are asked for changes neither them nor the KV */
static void test_logits_wanted(void **state)
{
    on_all(state, logits_wanted);
}

/* One step of rows from several sequences, dealt in turn: 3 of the first, 2 of the second, and so on. */
static void interleaved(const char *path, enum akv_kv_dtype kv, const uint32_t *ids)
{
    enum { N_B = 70 };
    const uint32_t *ids_b = ids + N;
    struct result a = cold(path, NULL, 1, kv, ids, N, N), b = cold(path, NULL, 1, kv, ids_b, N_B, N_B);
    struct rig r;
    rig_open(&r, path, NULL, 2, kv, 16, N);
    struct akv_seq seq_b;
    struct akv_err err = {0};
    assert_ok(akv_seq_open(&seq_b, r.arena, N, &err), &err);
    size_t n_vocab = r.model->hp.n_vocab;
    struct result got_a = {.logits = malloc(a.logits_bytes), .logits_bytes = a.logits_bytes};
    struct result got_b = {.logits = malloc(b.logits_bytes), .logits_bytes = b.logits_bytes};
    uint32_t at_a = 0, at_b = 0;
    while (at_a < N || at_b < N_B) {
        struct akv_row rows[16];
        size_t n = 0;
        for (size_t i = 0; i < 16; i++) {
            if (i % 5 < 3 && at_a < N)
                rows[n++] = (struct akv_row){.seq = &r.seq, .id = ids[at_a], .pos = at_a, .logits = got_a.logits + at_a * n_vocab},
                at_a++;
            else if (at_b < N_B)
                rows[n++] =
                    (struct akv_row){.seq = &seq_b, .id = ids_b[at_b], .pos = at_b, .logits = got_b.logits + at_b * n_vocab},
                at_b++;
        }
        assert_ok(akv_seq_reserve(&r.seq, at_a - r.seq.n_tokens, &err), &err);
        assert_ok(akv_seq_reserve(&seq_b, at_b - seq_b.n_tokens, &err), &err);
        assert_ok(akv_engine_step(r.engine, rows, n, &err), &err);
    }
    got_a.kv = rig_kv(&r, &r.seq, &got_a.kv_bytes);
    got_b.kv = rig_kv(&r, &seq_b, &got_b.kv_bytes);
    assert_same(&a, &got_a);
    assert_same(&b, &got_b);
    akv_seq_close(&seq_b);
    rig_close(&r);
    release(&a);
    release(&b);
    release(&got_a);
    release(&got_b);
}

/* a request in a batch gets the bits that it gets alone */
static void test_interleaved(void **state)
{
    on_all(state, interleaved);
}

/* Put the first n tokens of a run's bodies into s as sealed pages, as a reader of a snapshot does. */
static void restore(struct rig *r, struct akv_seq *s, const struct result *from, const uint32_t *ids, uint32_t n)
{
    const struct akv_geom *g = akv_arena_geom(r->arena);
    struct akv_err err = {0};
    for (uint32_t at = 0; at < n; at += 64) {
        struct akv_page *p = akv_arena_take(r->arena, &err);
        if (!p)
            fail_msg("%s", err.msg);
        uint32_t m = n - at < 64 ? n - at : 64, stored = N - at < 64 ? N - at : 64;
        uint8_t *page = malloc(akv_geom_page_bytes(g)), *body = malloc(akv_geom_page_bytes(g));
        akv_body_to_page(g, page, from->kv + at * akv_geom_token_bytes(g), stored);
        akv_page_to_body(g, body, page, m);          /* the cut is shorter than the page was */
        memset(p->kv, 0xff, akv_geom_page_bytes(g)); /* NaN wherever nothing is written */
        akv_body_to_page(g, p->kv, body, m);
        free(page);
        free(body);
        p->index = at / 64;
        p->n_tokens = m;
        memcpy(p->ids, ids + at, m * sizeof *ids);
        struct akv_key key;
        assert_ok(akv_page_key(&key, NULL, ids + at, m, &err), &err); /* any key that differs does */
        akv_arena_seal(r->arena, p, &key, NULL);
        assert_ok(akv_seq_attach(s, p, &err), &err);
        akv_arena_release(r->arena, p);
    }
}

static void every_cut(const char *path, enum akv_kv_dtype kv, const uint32_t *ids)
{
    struct result whole = cold(path, NULL, 1, kv, ids, N, N);
    struct rig r;
    rig_open(&r, path, NULL, 1, kv, N, N);
    size_t n_vocab = r.model->hp.n_vocab;
    uint32_t step = !RIG_SAMPLES && akv_ops_pick("avx2") ? 1 : 13; /* the scalar table would take minutes */
    for (uint32_t cut = 1; cut < N; cut += step) {
        akv_seq_truncate(&r.seq, 0);
        restore(&r, &r.seq, &whole, ids, cut);
        assert_int_equal(r.seq.n_tokens, cut);
        struct result rest = feed(&r, &r.seq, ids + cut, N - cut, 50);
        assert_memory_equal(rest.kv, whole.kv, whole.kv_bytes);
        assert_memory_equal(rest.logits, whole.logits + cut * n_vocab, rest.logits_bytes);
        release(&rest);
    }
    rig_close(&r);
    release(&whole);
}

/* a run that starts from pages restored at any cut ends with the bits of a cold one */
static void test_every_cut(void **state)
{
    on_all(state, every_cut);
}

static void full_hit(const char *path, enum akv_kv_dtype kv, const uint32_t *ids)
{
    struct result whole = cold(path, NULL, 1, kv, ids, N, N);
    struct rig r;
    rig_open(&r, path, NULL, 1, kv, N, N);
    restore(&r, &r.seq, &whole, ids, N);
    size_t n_vocab = r.model->hp.n_vocab;
    float *logits = malloc(n_vocab * sizeof *logits);
    static const uint32_t positions[] = {N - 1, 0, 63, 64, 127, 128};
    for (size_t i = 0; i < sizeof positions / sizeof *positions; i++) {
        uint32_t pos = positions[i];
        struct akv_row row = {.seq = &r.seq, .id = ids[pos], .pos = pos, .logits = logits, .query_only = true};
        struct akv_err err = {0};
        assert_ok(akv_engine_step(r.engine, &row, 1, &err), &err);
        assert_memory_equal(logits, whole.logits + pos * n_vocab, n_vocab * sizeof *logits);
    }
    assert_int_equal(r.seq.n_tokens, N);
    size_t bytes;
    uint8_t *bodies = rig_kv(&r, &r.seq, &bytes);
    assert_memory_equal(bodies, whole.kv, whole.kv_bytes);
    free(bodies);
    free(logits);
    rig_close(&r);
    release(&whole);
}

/* after a full hit the last token, as a query only, gives the cold logits and writes nothing */
static void test_full_hit(void **state)
{
    on_all(state, full_hit);
}

static void regrow(const char *path, enum akv_kv_dtype kv, const uint32_t *ids)
{
    struct result whole = cold(path, NULL, 1, kv, ids, N, N);
    struct rig r;
    rig_open(&r, path, NULL, 1, kv, N, 2 * N);
    size_t n_vocab = r.model->hp.n_vocab;
    static const uint32_t cuts[] = {130, 128, 100, 64, 1, 0};
    struct result other = feed(&r, &r.seq, ids, N, N);
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        release(&other);
        akv_seq_truncate(&r.seq, cuts[i]);
        other = feed(&r, &r.seq, ids + N, 90, 45); /* another continuation, forgotten again */
        akv_seq_truncate(&r.seq, cuts[i]);
        struct result again = feed(&r, &r.seq, ids + cuts[i], N - cuts[i], 20);
        assert_memory_equal(again.kv, whole.kv, whole.kv_bytes);
        assert_memory_equal(again.logits, whole.logits + cuts[i] * n_vocab, again.logits_bytes);
        release(&again);
    }
    release(&other);
    rig_close(&r);
    release(&whole);
}

/* a sequence that was cut and grown another way leaves no trace */
static void test_regrow(void **state)
{
    on_all(state, regrow);
}

static void float_environment(const char *path, enum akv_kv_dtype kv, const uint32_t *ids)
{
    struct result standard = cold(path, NULL, 2, kv, ids, N, 40);
    unsigned saved = _mm_getcsr(), hostile = saved | 0x8040u | 0x6000u; /* flush, denormals are zero, round to zero */
    _mm_setcsr(hostile);
    struct result odd = cold(path, NULL, 2, kv, ids, N, 40);
    unsigned after = _mm_getcsr();
    _mm_setcsr(saved);
    assert_int_equal(after & 0xffc0u, hostile & 0xffc0u);
    assert_same(&standard, &odd);
    release(&standard);
    release(&odd);
}

/* a host process's float environment neither leaks in nor is lost */
static void test_float_environment(void **state)
{
    on_all(state, float_environment);
}

/* rows that the contract excludes are refused with nothing computed or pushed, and the engine goes on */
static void test_refused_rows(void **state)
{
    const struct fixture *f = *state;
    if (!f->path[0][0])
        skip();
    struct rig r;
    rig_open(&r, f->path[0], NULL, 1, AKV_KV_F16, 8, N);
    assert_int_equal(akv_engine_max_rows(r.engine), 8);
    struct akv_err err = {0};
    assert_ok(rig_feed(&r, &r.seq, f->ids, 5, 5, NULL, false, &err), &err);
    assert_ok(akv_seq_reserve(&r.seq, 8, &err), &err);
    struct akv_row good[9];
    for (uint32_t i = 0; i < 9; i++)
        good[i] = (struct akv_row){.seq = &r.seq, .id = f->ids[5 + i], .pos = 5 + i};
    static const struct {
        struct akv_row row; /* takes the place of row 2 */
        size_t n;
        int code;
        const char *words;
    } bad[] = {
        {{.id = 384, .pos = 7}, 3, AKV_E_INPUT, "position 7: token id 384: the vocabulary has 384"},
        {{.id = UINT32_MAX, .pos = 7}, 3, AKV_E_INPUT, "token id 4294967295"},
        {{.id = 1, .pos = 8}, 3, AKV_E_USAGE, "position 8"},
        {{.id = 1, .pos = 6}, 3, AKV_E_USAGE, "position 6"},
        {{.id = 1, .pos = 7, .query_only = true}, 3, AKV_E_USAGE, "position 7"}, /* not there yet */
        {{.id = 1, .pos = 7}, 9, AKV_E_USAGE, "9 rows"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct akv_row rows[9];
        memcpy(rows, good, sizeof rows);
        rows[2] = bad[i].row;
        rows[2].seq = &r.seq;
        err = (struct akv_err){0};
        assert_int_equal(akv_engine_step(r.engine, rows, bad[i].n, &err), bad[i].code);
        assert_non_null(strstr(err.msg, bad[i].words));
        assert_int_equal(r.seq.n_tokens, 5);
        assert_int_equal(r.seq.n_pending, 0);
    }
    err = (struct akv_err){0};
    assert_ok(akv_engine_step(r.engine, good, 8, &err), &err);
    assert_int_equal(r.seq.n_tokens, 13);
    struct akv_engine *e = NULL;
    assert_int_equal(akv_engine_open(&e, r.model, r.ops, r.pool, AKV_KV_F16, 0, NULL), AKV_E_USAGE);
    rig_close(&r);
}

/* A copy of a model with one f32 of a tensor replaced. */
static void poison(const char *from, const char *to, const char *tensor, size_t element, float value)
{
    struct akv_gguf g;
    struct akv_err err = {0};
    assert_ok(akv_gguf_open(&g, from, &err), &err);
    const struct akv_tensor *t = akv_gguf_tensor(&g, tensor);
    assert_non_null(t);
    assert_int_equal(t->dtype, AKV_F32);
    size_t at = (size_t)(t->data - g.map.data) + element * sizeof value;
    FILE *f = fopen(to, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(g.map.data, 1, g.map.size, f), g.map.size);
    assert_int_equal(fseek(f, (long)at, SEEK_SET), 0);
    assert_int_equal(fwrite(&value, sizeof value, 1, f), 1);
    assert_int_equal(fclose(f), 0);
    akv_gguf_close(&g);
}

/* One step of five rows on a file: 0, or the error that begins with these words, nothing pushed. */
static void expect_step(const char *path, enum akv_kv_dtype kv, const char *words)
{
    struct rig r;
    rig_open(&r, path, NULL, 1, kv, 8, N);
    static const uint32_t ids[] = {1, 2, 3, 9, 5};
    float *logits = malloc(r.model->hp.n_vocab * sizeof *logits);
    struct akv_row rows[5];
    for (uint32_t j = 0; j < 5; j++)
        rows[j] = (struct akv_row){.seq = &r.seq, .id = ids[j], .pos = j};
    rows[2].logits = rows[4].logits = logits;
    struct akv_err err = {0};
    assert_ok(akv_seq_reserve(&r.seq, 5, &err), &err);
    int rc = akv_engine_step(r.engine, rows, 5, &err);
    if (!words) {
        assert_ok(rc, &err);
    } else {
        assert_int_equal(rc, AKV_E_INPUT);
        if (strncmp(err.msg, words, strlen(words)) != 0)
            fail_msg("%s, expected %s", err.msg, words);
        assert_int_equal(r.seq.n_tokens, 0);
    }
    free(logits);
    rig_close(&r);
}

static size_t model_index(const char *name)
{
    size_t i = 0;
    while (strcmp(models[i].name, name) != 0)
        i++;
    return i;
}

/* a value that is not finite, or a key beyond f16, is an error that names layer and position, and nothing is pushed */
static void test_not_finite(void **state)
{
    const struct fixture *f = *state;
    if (!f->tool[0])
        skip();
    const float inf = 2 * 3e38f;
    const struct {
        const char *model, *tensor;
        size_t element;
        float value;
        const char *words;
        bool f16_only;
    } cases[] = {
        {"f32-odd", "token_embd.weight", 60 * 9, inf, "layer 0, position 3: ", false}, /* id 9 is at position 3 */
        {"f32-odd", "blk.1.attn_q.weight", 0, inf, "layer 1, position 0: ", false},
        {"f32-odd", "blk.1.attn_k.weight", 7, 1e9f, "layer 1, position 0: ", true},
        {"f32-odd", "blk.0.ffn_down.weight", 5, inf, "layer 1, position 0: ", false},
        {"f32-odd", "output.weight", 5, inf, "output layer, position 2: ", false}, /* the first row whose logits are wanted */
        {"qwen3-odd", "blk.1.attn_q.weight", 60 * 14, inf, "layer 1, position 0: ", false}, /* a norm between it and the check */
        {"gemma3-keys", "blk.2.attn_output.weight", 3, inf, "layer 3, position 0: ", false},
        {"gemma3-keys", "token_embd.weight", 48 * 7, inf, "output layer, position 2: ", false}, /* the cap would hide it */
    };
    char path[128];
    snprintf(path, sizeof path, "%s/poisoned.gguf", f->dir);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        poison(f->path[model_index(cases[i].model)], path, cases[i].tensor, cases[i].element, cases[i].value);
        expect_step(path, AKV_KV_F16, cases[i].words);
        expect_step(path, AKV_KV_F32, cases[i].f16_only ? NULL : cases[i].words);
    }
    unlink(path);
}

static void hex_sha(char *hex, const void *p, size_t n)
{
    uint8_t sha[AKV_SHA_BYTES];
    assert_int_equal(akv_sha256(sha, p, n, NULL), 0);
    akv_hex(hex, sha, sizeof sha);
}

/* "model <tab> KV dtype <tab> SHA-256 of the model's file, the KV, the logits" */
static void answer_line(char *line, size_t cap, const char *name, const char *path, enum akv_kv_dtype kv, const uint32_t *ids)
{
    char sha[3][AKV_SHA_HEX];
    struct akv_map map;
    assert_int_equal(akv_map_open(&map, path, NULL), 0);
    hex_sha(sha[0], map.data, map.size);
    akv_map_close(&map);
    struct result r = cold(path, NULL, 2, kv, ids, N, 64);
    hex_sha(sha[1], r.kv, r.kv_bytes);
    hex_sha(sha[2], r.logits, r.logits_bytes);
    release(&r);
    snprintf(line, cap, "%s\t%s\t%s\t%s\t%s\n", name, kv == AKV_KV_F16 ? "f16" : "f32", sha[0], sha[1], sha[2]);
}

/* Compares with the line of the same model and KV dtype; prints the one that would be right. */
static bool known_answer(FILE *f, const char *actual)
{
    char line[512];
    const char *kv = strchr(actual, '\t'), *sha = strchr(kv + 1, '\t');
    rewind(f);
    while (fgets(line, sizeof line, f)) {
        if (strcmp(line, actual) == 0)
            return true;
        if (strncmp(line, actual, (size_t)(sha - actual)) == 0)
            break;
    }
    printf("%s", actual);
    return false;
}

/* the bits are the known ones, on every machine: they change only together with the numerics id and tests/golden/engine.tsv */
static void test_known_answers(void **state)
{
    const struct fixture *f = *state;
    FILE *answers = fopen("tests/golden/engine.tsv", "r");
    assert_non_null(answers);
    bool all = true;
    for (size_t i = 0; i < N_MODELS; i++) {
        for (int kv = AKV_KV_F16; f->path[i][0] && kv <= AKV_KV_F32; kv++) {
            char line[512];
            answer_line(line, sizeof line, models[i].name, f->path[i], (enum akv_kv_dtype)kv, f->ids);
            all &= known_answer(answers, line);
        }
    }
    fclose(answers);
    assert_true(all);
}

static bool known_family(const struct fixture *f, FILE *answers, size_t arch, const char *type)
{
    char name[64], options[256], path[128], line[512];
    snprintf(name, sizeof name, "%s-%s", archs[arch].name, type);
    snprintf(options, sizeof options, "--arch %s --dtype %s --width 256 --heads 8 --kv-heads 2 --head-dim 32 --ff 256 %s",
             archs[arch].name, type, archs[arch].options);
    snprintf(path, sizeof path, "%s/family.gguf", f->dir);
    assert_int_equal(make_model(f, path, options), 0);
    answer_line(line, sizeof line, name, path, AKV_KV_F16, f->ids);
    unlink(path);
    return known_answer(answers, line);
}

/* the same for each weight type, and for each architecture with a type of every family; f16 KV */
static void test_known_families(void **state)
{
    const struct fixture *f = *state;
    if (!f->tool[0])
        skip();
    FILE *answers = fopen("tests/golden/engine.tsv", "r");
    assert_non_null(answers);
    bool all = true;
    for (size_t a = 0; a < sizeof archs / sizeof *archs; a++)
        for (size_t t = 0; t < archs[a].n_types; t++)
            all &= known_family(f, answers, a, types[t]);
    fclose(answers);
    assert_true(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chunks),        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_deep_threads),  cmocka_unit_test(test_tables),
        cmocka_unit_test(test_logits_wanted), cmocka_unit_test(test_interleaved),
        cmocka_unit_test(test_every_cut),     cmocka_unit_test(test_full_hit),
        cmocka_unit_test(test_regrow),        cmocka_unit_test(test_float_environment),
        cmocka_unit_test(test_refused_rows),  cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_known_answers), cmocka_unit_test(test_known_families),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
