/* The tokenizer on hostile and random text: nothing lost, nothing quadratic, shortcuts equal to the long way. */
#include "tok_rig.h"

#include <pthread.h>
#include <utf8proc.h>

#include "base/bytes.h"
#include "model/tok_merge.h"
#include "model/tok_nfc.h"
#include "model/tok_pre.h"
#include "model/tok_vocab.h"

/* decode(encode(s)) must be s without the bytes that have no token, and their number n_lost. */
static void check_round_trip(const struct rig *r, const struct akv_tokmerges *m, const char *s, size_t len)
{
    struct akv_ids ids = {0};
    struct akv_buf want, got;
    size_t n_lost;
    akv_buf_init(&want, 0);
    akv_buf_init(&got, 0);
    for (size_t i = 0; i < len; i++) {
        if (m->byte_id[(uint8_t)s[i]] != AKV_TOK_NONE)
            akv_buf_putc(&want, s[i]);
    }
    rig_encode(r, s, len, 0, &ids, &n_lost);
    rig_decode(r, &ids, false, &got);
    assert_int_equal(n_lost, len - want.len);
    assert_int_equal(got.len, want.len);
    assert_memory_equal(got.data, want.data, want.len);
    akv_buf_release(&want);
    akv_buf_release(&got);
    akv_ids_release(&ids);
}

struct loaded {
    struct rig r;
    struct akv_tokvocab vocab;
    struct akv_tokmerges merges;
};

static bool load(struct loaded *l, const char *name)
{
    struct akv_buf warn;
    if (!rig_open_golden(&l->r, name))
        return false;
    akv_buf_init(&warn, 0);
    assert_ok(akv_tokvocab_open(&l->vocab, &l->r.gguf, &warn, &l->r.err), &l->r.err);
    assert_ok(akv_tokvocab_index(&l->vocab, &l->r.gguf, &warn, &l->r.err), &l->r.err);
    assert_ok(akv_tokmerges_open(&l->merges, &l->vocab, &l->r.gguf, &warn, &l->r.err), &l->r.err);
    akv_buf_release(&warn);
    return true;
}

static void unload(struct loaded *l)
{
    akv_tokmerges_close(&l->merges);
    akv_tokvocab_close(&l->vocab);
    rig_close(&l->r);
}

/* Any bytes survive, for a vocabulary that has all bytes and for one that lacks 21. */
static void random_bytes(void **state)
{
    (void)state;
    static const char *const names[] = {"smollm2", "llama3"};
    uint64_t seed = 7;
    for (size_t k = 0; k < 2; k++) {
        struct loaded l;
        if (!load(&l, names[k]))
            skip();
        for (unsigned round = 0; round < 400; round++) {
            char s[300];
            size_t len = rig_random(&seed) % sizeof s;
            unsigned mask = round % 3 == 0 ? 0xff : round % 3 == 1 ? 0x7f : 0xef; /* all, ASCII, much broken UTF-8 */
            for (size_t i = 0; i < len; i++)
                s[i] = (char)(rig_random(&seed) & mask);
            check_round_trip(&l.r, &l.merges, s, len);
        }
        unload(&l);
    }
}

/* Runs of a megabyte that a quadratic step would never finish; each comes back whole. */
static void long_runs(void **state)
{
    (void)state;
    static const char *const units[] = {"a",         " ",    "7", "\n", "!", "Q", " x", "\n ", "<|im_start", "\xe4\xb8\x80",
                                        "e\xcc\x81", "\xff", "'s"};
    const size_t size = (size_t)1 << 20;
    struct loaded l;
    if (!load(&l, "smollm2"))
        skip();
    char *s = malloc(size + 1);
    assert_non_null(s);
    for (size_t k = 0; k < sizeof units / sizeof *units; k++) {
        size_t n = strlen(units[k]), len = size / n * n;
        for (size_t i = 0; i < len; i++)
            s[i] = units[k][i % n];
        s[len] = 'x';
        check_round_trip(&l.r, &l.merges, s, k % 2 ? len : len + 1);
    }
    free(s);
    unload(&l);
}

/* Lowest rank first, leftmost of equals: by the definition, one merge at a time. */
static size_t merge_plainly(const struct akv_tokmerges *m, struct akv_toksym *sym, size_t n)
{
    for (;;) {
        const struct akv_tokpair *best = NULL;
        size_t at = 0;
        for (size_t i = 0; i + 1 < n; i++) {
            const struct akv_tokpair *pair = akv_tokmerges_probe(m, sym[i].id, sym[i + 1].id);
            if (pair && pair->left != AKV_TOKVOCAB_NONE && (!best || pair->rank < best->rank)) {
                best = pair;
                at = i;
            }
        }
        if (!best)
            return n;
        sym[at].id = best->id;
        memmove(sym + at + 1, sym + at + 2, (n - at - 2) * sizeof *sym);
        n--;
    }
}

/* The ways for short and for long pieces both do what the definition says, on either side of the border between them. */
static void merging(void **state)
{
    (void)state;
    struct loaded l;
    if (!load(&l, "smollm2"))
        skip();
    struct akv_tokscratch scratch = {0};
    uint64_t seed = 11;
    for (unsigned round = 0; round < 3000; round++) {
        char s[3 * AKV_TOKMERGES_SHORT];
        struct akv_toksym want[sizeof s], got[sizeof s];
        size_t len = 1 + rig_random(&seed) % sizeof s, n = 0, n_lost = 0;
        unsigned letters = 1 + rig_random(&seed) % 8; /* few letters: many merges */
        for (size_t i = 0; i < len; i++)
            s[i] = "etaoin\x06\xe2"[rig_random(&seed) % letters];
        for (size_t i = 0; i < len; i++) {
            uint32_t id = l.merges.byte_id[(uint8_t)s[i]];
            if (id != AKV_TOKVOCAB_NONE)
                want[n++] = (struct akv_toksym){id, (uint32_t)i};
        }
        assert_int_equal(len - n, (akv_tokmerges_apply(&l.merges, s, len, got, &n_lost, &scratch), n_lost));
        n = merge_plainly(&l.merges, want, n);
        assert_int_equal(akv_tokmerges_apply(&l.merges, s, len, got, &n_lost, &scratch), n);
        for (size_t i = 0; i < n; i++)
            assert_true(got[i].id == want[i].id && got[i].at == want[i].at);
    }
    akv_tokscratch_release(&scratch);
    unload(&l);
}

/* --- cutting --- */

struct cuts {
    const char *end;   /* of the last piece */
    struct akv_ids at; /* lengths of the pieces */
};

static int take_cut(void *ctx, const char *s, size_t len)
{
    struct cuts *c = ctx;
    assert_true(len > 0 && s == c->end);
    c->end = s + len;
    return akv_ids_push(&c->at, (uint32_t)len, NULL);
}

static void cut(const struct akv_tokpre *pre, const char *s, size_t len, bool no_shortcut, struct cuts *c)
{
    struct akv_tokpre_run run;
    struct akv_err err = {0};
    c->at.n = 0;
    c->end = s;
    assert_ok(akv_tokpre_run_open(&run, pre, &err), &err);
    run.no_shortcut = no_shortcut;
    run.piece = take_cut;
    run.ctx = c;
    assert_ok(akv_tokpre_split(&run, s, len, &err), &err);
    akv_tokpre_run_close(&run);
    assert_ptr_equal(c->end, s + len);
}

/* Words found without the pattern are those that the pattern finds, for every pre-tokenizer; pieces leave no gap. */
static void shortcut_equals_pattern(void **state)
{
    (void)state;
    static const char *const parts[] = {"a",        "B",
                                        "word",     "Word",
                                        "wORD",     "ABC",
                                        " ",        "  ",
                                        "'",        "'s",
                                        "'S",       "'ll",
                                        "7",        "123",
                                        "\n",       "\r",
                                        "\t",       ".",
                                        "-",        "_",
                                        "/",        "$",
                                        "\"",       "(",
                                        "\xc3\xa9", "\xcc\x81",
                                        "\xc5\xbf", "\xe4\xb8\x80",
                                        "\xc2\xa0", "\xe2\x80\x99",
                                        "\xc7\x85"};
    uint64_t seed = 3;
    struct cuts a = {0}, b = {0};
    for (const struct akv_tokpre_row *row = akv_tokpre_rows; row->name; row++) {
        struct akv_tokpre pre;
        struct akv_err err = {0};
        assert_ok(akv_tokpre_open(&pre, row, &err), &err);
        for (unsigned round = 0; round < 1500; round++) {
            char s[256];
            size_t len = 0, n = rig_random(&seed) % 20;
            for (size_t i = 0; i < n; i++) {
                const char *part = parts[rig_random(&seed) % (sizeof parts / sizeof *parts)];
                memcpy(s + len, part, strlen(part));
                len += strlen(part);
            }
            cut(&pre, s, len, false, &a);
            bool jit = pre.codes[pre.n - 1].jit;
            pre.codes[pre.n - 1].jit = jit && round % 4; /* sometimes as where machine code may not be made */
            cut(&pre, s, len, true, &b);
            pre.codes[pre.n - 1].jit = jit;
            assert_int_equal(a.at.n, b.at.n);
            if (a.at.n)
                assert_memory_equal(a.at.v, b.at.v, a.at.n * sizeof *a.at.v);
        }
        akv_tokpre_close(&pre);
    }
    akv_ids_release(&a.at);
    akv_ids_release(&b.at);
}

/* Every pre-tokenizer cuts long runs without rescanning them: a quadratic one would take minutes. */
static void cutting_is_linear(void **state)
{
    (void)state;
    static const char *const units[] = {"a", "A", " ", "\n", "7", "!", "\xe4\xb8\x80", "\xcc\x81", " \t", "\r\n ", "aB", "\x01"};
    const size_t size = (size_t)128 << 10;
    struct cuts c = {0};
    char *s = malloc(size + 1);
    assert_non_null(s);
    for (const struct akv_tokpre_row *row = akv_tokpre_rows; row->name; row++) {
        struct akv_tokpre pre;
        struct akv_err err = {0};
        assert_ok(akv_tokpre_open(&pre, row, &err), &err);
        for (size_t k = 0; k < sizeof units / sizeof *units; k++) {
            size_t n = strlen(units[k]), len = size / n * n;
            for (size_t i = 0; i < len; i++)
                s[i] = units[k][i % n];
            s[len] = "x7"[k % 2];
            cut(&pre, s, len + 1, true, &c);
            s[len] = "x7"[(k + 1) % 2];
            cut(&pre, s, len + 1, true, &c);
            for (unsigned i = 0; i < pre.n; i++)
                pre.codes[i].jit = false; /* after the first run as where machine code may not be made */
        }
        akv_tokpre_close(&pre);
    }
    free(s);
    akv_ids_release(&c.at);
}

/* --- NFC --- */

static size_t put_char(char *s, uint32_t cp)
{
    return (size_t)utf8proc_encode_char((utf8proc_int32_t)cp, (utf8proc_uint8_t *)s);
}

/* NFC is that of utf8proc for random text of characters that compose, decompose and reorder; the way back ascends. */
static void nfc_equals_utf8proc(void **state)
{
    (void)state;
    static const struct {
        uint32_t from, n;
    } ranges[] = {{0x41, 58},      {0xc0, 64},     {0x300, 0x70},   {0x1100, 0x100}, {0xac00, 0x100}, {0x9c7, 20},
                  {0x1e00, 0x200}, {0xfb1d, 0x30}, {0x11099, 0x40}, {0x2126, 8},     {0x5d0, 30},     {0x591, 44},
                  {0xf71, 20},     {0x1d15e, 16},  {0x3042, 90},    {0x4e00, 50}};
    uint64_t seed = 5;
    struct akv_toknfc nfc = {0};
    struct akv_err err = {0};
    for (unsigned round = 0; round < 20000; round++) {
        char s[256];
        size_t len = 0, n = 1 + rig_random(&seed) % 30;
        for (size_t i = 0; i < n; i++) {
            size_t k = rig_random(&seed) % (2 + round % (sizeof ranges / sizeof *ranges - 1));
            len += put_char(s + len, ranges[k].from + rig_random(&seed) % ranges[k].n);
        }
        s[len] = '\0';
        utf8proc_uint8_t *want = utf8proc_NFC((utf8proc_uint8_t *)s);
        assert_ok(akv_toknfc_apply(&nfc, s, len, &err), &err);
        if (nfc.len != strlen((char *)want) || memcmp(nfc.text, want, nfc.len) != 0)
            fail_msg("round %u: NFC of '%s'", round, s);
        if (!akv_toknfc_needed(s, len))
            assert_true(nfc.len == len && memcmp(s, want, len) == 0);
        for (size_t i = 0; i < nfc.len; i++) {
            assert_true(nfc.from[i] < len && (i == 0 || nfc.from[i] >= nfc.from[i - 1]));
            if (nfc.len == len && memcmp(s, want, len) == 0)
                assert_int_equal(nfc.from[i], i);
        }
        free(want);
    }
    akv_toknfc_release(&nfc);
}

/* NFC is that of utf8proc for every character there is, after a letter and before a mark. */
static void nfc_of_every_character(void **state)
{
    (void)state;
    struct akv_toknfc nfc = {0};
    struct akv_err err = {0};
    for (uint32_t cp = 1; cp < 0x110000; cp++) {
        if (cp >= 0xd800 && cp < 0xe000)
            continue;
        char s[8] = "o";
        size_t len = 1 + put_char(s + 1, cp);
        len += put_char(s + len, 0x323);
        utf8proc_uint8_t *want = utf8proc_NFC((utf8proc_uint8_t *)s);
        assert_ok(akv_toknfc_apply(&nfc, s, len, &err), &err);
        if (nfc.len != strlen((char *)want) || memcmp(nfc.text, want, nfc.len) != 0)
            fail_msg("U+%04X", cp);
        free(want);
    }
    akv_toknfc_release(&nfc);
}

/* Half a million marks in the wrong order are put right in linear time. */
static void nfc_is_linear(void **state)
{
    (void)state;
    const size_t n = 250000;
    char *s = malloc(1 + 4 * n);
    struct akv_toknfc nfc = {0};
    struct akv_err err = {0};
    assert_non_null(s);
    s[0] = 'e';
    for (size_t i = 0; i < n; i++) {
        put_char(s + 1 + 4 * i, 0x305); /* class 230 */
        put_char(s + 3 + 4 * i, 0x332); /* class 220 */
    }
    assert_ok(akv_toknfc_apply(&nfc, s, 1 + 4 * n, &err), &err);
    assert_int_equal(nfc.len, 1 + 4 * n);
    assert_memory_equal(nfc.text + 1, s + 3, 2);
    assert_memory_equal(nfc.text + nfc.len - 2, s + 1, 2);
    akv_toknfc_release(&nfc);
    free(s);
}

/* --- threads --- */

struct job {
    const struct akv_tok *fresh; /* its digest has not been asked for */
    const uint8_t *digest;
    const struct rig *r;
    char *text;
    size_t len;
    struct akv_ids ids;
};

static void *encode_again(void *arg)
{
    struct job *j = arg;
    j->digest = akv_tok_digest(j->fresh);
    for (int i = 0; i < 8; i++) {
        struct akv_err err = {0};
        j->ids.n = 0;
        if (akv_tok_encode(j->r->tok, j->text, j->len, AKV_TOK_SPECIAL, &j->ids, NULL, &err) < 0)
            return j;
    }
    return NULL;
}

/* Two threads may use one tokenizer at once and get what one alone gets. */
static void threads(void **state)
{
    (void)state;
    struct rig r;
    const char *path = shared_file("golden/tokenizer/smollm2.jsonl");
    if (!path || !rig_open_golden(&r, "smollm2"))
        skip();
    struct akv_tok *fresh;
    assert_ok(akv_tok_open(&fresh, &r.gguf, NULL, AKV_TOK_DECODE_ONLY, NULL, &r.err), &r.err);
    struct job job[3] = {{.r = &r, .fresh = fresh}, {.r = &r, .fresh = fresh}, {.r = &r, .fresh = r.tok}};
    for (int i = 0; i < 3; i++)
        job[i].text = rig_read(path, &job[i].len);
    assert_null(encode_again(&job[2]));
    pthread_t thread[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, encode_again, &job[i]), 0);
    for (int i = 0; i < 2; i++) {
        void *failed;
        assert_int_equal(pthread_join(thread[i], &failed), 0);
        assert_null(failed);
        assert_int_equal(job[i].ids.n, job[2].ids.n);
        assert_memory_equal(job[i].ids.v, job[2].ids.v, job[2].ids.n * sizeof(uint32_t));
        assert_memory_equal(job[i].digest, job[2].digest, AKV_SHA_BYTES);
    }
    for (int i = 0; i < 3; i++) {
        free(job[i].text);
        akv_ids_release(&job[i].ids);
    }
    akv_tok_free(fresh);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_bytes),
        cmocka_unit_test(long_runs),
        cmocka_unit_test(merging),
        cmocka_unit_test(shortcut_equals_pattern),
        cmocka_unit_test(cutting_is_linear),
        cmocka_unit_test(nfc_equals_utf8proc),
        cmocka_unit_test(nfc_of_every_character),
        cmocka_unit_test(nfc_is_linear),
        cmocka_unit_test(threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
