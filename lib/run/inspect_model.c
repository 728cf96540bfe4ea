/* A model described as JSON, for akv-inspect. */
#include "chat/jinja.h"
#include "engine/engine.h"
#include "run/describe.h"
#include "run/session.h"

static json_int_t tensor_bytes(const struct akv_gguf *g)
{
    size_t sum = 0;
    for (uint64_t i = 0; i < g->n_tensors; i++)
        sum += g->tensors[i].bytes;
    return (json_int_t)sum;
}

/* Tensors and bytes by type: {"Q4_1":{"tensors":210,"bytes":...}}. */
static json_t *quant_mix(const struct akv_gguf *g)
{
    json_t *mix = json_object();
    for (uint64_t i = 0; i < g->n_tensors; i++) {
        const struct akv_tensor *t = &g->tensors[i];
        const char *name = akv_dtypes[t->dtype].name;
        json_t *one = json_object_get(mix, name);
        json_int_t n = json_integer_value(json_object_get(one, "tensors")),
                   bytes = json_integer_value(json_object_get(one, "bytes"));
        json_object_set_new(mix, name, json_pack("{s:I, s:I}", "tensors", n + 1, "bytes", bytes + (json_int_t)t->bytes));
    }
    return mix;
}

static void describe_weights(json_t *o, const struct akv_model *m)
{
    const struct akv_hparams *hp = &m->hp;
    struct akv_geom g;
    akv_engine_geom(m, AKV_KV_F16, &g);
    json_object_update_new(o,
                           json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:I}", "layers", (json_int_t)hp->n_layers,
                                     "width", (json_int_t)hp->n_embd, "ff", (json_int_t)hp->n_ff, "heads", (json_int_t)hp->n_heads,
                                     "kv_heads", (json_int_t)hp->n_kv_heads, "k_dims", (json_int_t)hp->dim_k, "v_dims",
                                     (json_int_t)hp->dim_v, "context", (json_int_t)hp->n_ctx_train, "rope_base",
                                     (double)hp->rope_base, "kv_bytes_per_token", (json_int_t)akv_geom_token_bytes(&g)));
}

/* Whether there is a chat template, and why it cannot be used. */
static void describe_template(json_t *o, const struct akv_model *m)
{
    struct akv_str text;
    struct akv_jinja *parsed = NULL;
    struct akv_err why = {0};
    bool has = akv_model_template(m, NULL, &text) > 0;
    json_object_set_new(o, "chat_template", json_boolean(has));
    if (has && akv_jinja_parse(&parsed, text.s, text.len, &why) < 0)
        json_object_set_new(o, "chat_template_error", json_string(why.msg));
    akv_jinja_free(parsed);
}

int akv_inspect_model(const struct akv_model *m, const char *path, char **json, struct akv_err *err)
{
    struct akv_str arch = {"", 0}, name = {"", 0};
    json_t *o = json_object();
    akv_gguf_str(&m->gguf, "general.architecture", &arch, NULL);
    akv_gguf_str(&m->gguf, "general.name", &name, NULL);
    json_object_set_new(o, "type", json_string("model"));
    json_object_set_new(o, "path", json_string(path));
    json_object_set_new(o, "architecture", json_stringn(arch.s, arch.len));
    json_object_set_new(o, "name", json_stringn(name.s, name.len));
    json_object_set_new(o, "file_bytes", json_integer((json_int_t)m->gguf.stamp.size));
    json_object_set_new(o, "tensor_bytes", json_integer(tensor_bytes(&m->gguf)));
    json_object_set_new(o, "tensors", quant_mix(&m->gguf));
    if (m->arch)
        describe_weights(o, m);
    json_object_set_new(o, "vocabulary", json_integer((json_int_t)akv_tok_n_vocab(m->tok)));
    json_object_set_new(o, "tokenizer", akv_describe_hex(akv_tok_digest(m->tok), AKV_SHA_BYTES));
    describe_template(o, m);
    int rc = akv_describe_done(o, json, err);
    json_decref(o);
    return rc;
}
