/*
 * A model file opened for its vocabulary only. The bytes behind the keys mean nothing to the reader, so the end of the input serves
 * as one more text to encode.
 */
#include <string.h>

#include "model/model.h"
#include "tests/fuzz/fuzz.h"

static const char *const texts[] = {
    "Hello, world! It's 12345 o'clock.",
    "  <|im_start|>user\n\tna\xc3\xafve caf\x65\xcc\x81 \xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e \xf0\x9f\x98\x80<|im_end|>\n",
    "\xff\xfe\x80"
    "a\xe2\x96\x81"
    "b\xed\xa0\x80",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa          \n\n\n\n",
};

/* Offsets ascend and end within the text; every id is one of the vocabulary and decodes. */
static void encode(const struct akv_tok *t, const char *text, size_t len, unsigned flags)
{
    struct akv_ids ids = {0}, at = {0};
    struct akv_buf out;
    struct akv_err err = {0};
    size_t lost = 0;
    akv_buf_init(&out, 0);
    if (akv_tok_encode_offsets(t, text, len, flags, &ids, &at, &lost, &err) == 0) {
        must(at.n == ids.n);
        for (size_t i = 0; i < ids.n; i++)
            must(ids.v[i] < akv_tok_n_vocab(t) && at.v[i] <= len && (!i || at.v[i - 1] <= at.v[i]));
        must(akv_tok_decode(t, ids.v, ids.n, false, &out, &err) == 0);
    } else {
        must(err.msg[0] && !ids.n);
    }
    akv_buf_release(&out);
    akv_ids_release(&ids);
    akv_ids_release(&at);
}

static void decode_all(const struct akv_tok *t)
{
    struct akv_buf out;
    struct akv_err err = {0};
    akv_buf_init(&out, 0);
    for (uint32_t id = 0; id < akv_tok_n_vocab(t) && id < 4096; id++) {
        akv_buf_clear(&out);
        must(akv_tok_decode(t, &id, 1, id & 1, &out, &err) == 0);
        must(!akv_tok_is_eog(t, id) || id < akv_tok_n_vocab(t));
        if (akv_tok_is_control(t, id))
            (void)akv_tok_find(t, out.data, out.len);
    }
    uint32_t beyond = akv_tok_n_vocab(t);
    must(akv_tok_decode(t, &beyond, 1, false, &out, &err) < 0);
    akv_buf_release(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct akv_model *m = NULL;
    struct akv_err err = {0};
    int fd = fuzz_file(data, size);
    if (akv_model_load(&m, fuzz_path(fd), AKV_MODEL_VOCAB_ONLY, &err) == 0) {
        size_t tail = size < 256 ? size : 256;
        for (unsigned flags = 0; flags < 8; flags++) {
            for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
                encode(m->tok, texts[i], strlen(texts[i]), flags);
            encode(m->tok, (const char *)data + size - tail, tail, flags);
        }
        decode_all(m->tok);
        akv_model_unload(m);
    } else {
        must(err.msg[0]);
    }
    close(fd);
    return 0;
}
