/* A whole model file: opened with its weights' places and its tokenizer, and everything that was found read once. */
#include "model/model.h"
#include "tests/fuzz/fuzz.h"

static volatile unsigned seen; /* so that the reads are not optimised away */

/* Reading what a tensor or a key claims to have finds out whether it lies in the file. */
static unsigned touch(const uint8_t *p, size_t n)
{
    return n ? (unsigned)p[0] + p[n - 1] : 0;
}

static unsigned read_all(const struct akv_gguf *g)
{
    unsigned sum = 0;
    for (uint64_t i = 0; i < g->n_tensors; i++)
        sum += touch(g->tensors[i].data, g->tensors[i].bytes);
    for (uint64_t i = 0; i < g->n_kv; i++) {
        const struct akv_gguf_kv *kv = &g->kv[i];
        const uint8_t *at = NULL;
        sum += touch(kv->value, kv->bytes);
        for (uint64_t k = 0; kv->type == AKV_GGUF_ARRAY && kv->elem_type == AKV_GGUF_STRING && k < kv->n; k++) {
            struct akv_str s = akv_gguf_next_string(kv, &at);
            sum += touch((const uint8_t *)s.s, s.len);
        }
        must(akv_str_show(kv->key).s[0] || !kv->key.len);
    }
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct akv_gguf g;
    struct akv_model *m = NULL;
    struct akv_err err = {0};
    struct akv_str text;
    int fd = fuzz_file(data, size);
    if (akv_gguf_open(&g, fuzz_path(fd), &err) == 0) {
        seen = seen + read_all(&g);
        akv_gguf_close(&g);
    } else {
        must(err.msg[0]);
    }
    err = (struct akv_err){0};
    if (akv_model_load(&m, fuzz_path(fd), 0, &err) == 0) {
        struct akv_model_facts facts;
        must(m->hp.n_layers && m->hp.n_vocab == akv_tok_n_vocab(m->tok));
        if (akv_model_facts(m, &facts, &err) == 0)
            must(facts.n <= AKV_FACTS_MAX);
        if (akv_model_template(m, NULL, &text))
            seen = seen + touch((const uint8_t *)text.s, text.len);
        akv_model_unload(m);
    } else {
        must(err.msg[0]);
    }
    close(fd);
    return 0;
}
