/* A model described as JSON, for akv-inspect: all that its file says, whether or not it can be run. */
#include <string.h>

#include "chat/jinja.h"
#include "engine/engine.h"
#include "run/describe.h"
#include "run/root.h"

#define TEMPLATE_KEY "tokenizer.chat_template"

/* A text of the file: valid, printable, of bounded length. */
static json_t *shown(struct akv_str s)
{
    return json_string(akv_str_show(s).s);
}

static void set_text(json_t *o, const char *name, const struct akv_gguf *g, const char *key)
{
    struct akv_str s;
    if (akv_gguf_str(g, key, &s, NULL) == 1)
        json_object_set_new(o, name, shown(s));
}

static void set_count(json_t *o, const char *name, uint64_t v)
{
    json_object_set_new(o, name, json_integer((json_int_t)v));
}

/* Why something cannot be done; the path is known already. */
static void add_reason(json_t *o, const char *path, const char *what, const struct akv_err *why)
{
    json_t *reasons = json_object_get(o, "reasons");
    size_t n = strlen(path);
    const char *text = why->msg;
    if (why->code == 0)
        return;
    if (!strncmp(text, path, n) && !strncmp(text + n, ": ", 2))
        text += n + 2;
    if (!reasons) {
        reasons = json_array();
        json_object_set_new(o, "reasons", reasons);
    }
    json_array_append_new(reasons, json_pack("{s:s, s:s}", "what", what, "why", text));
}

/* ---- the file and its tensors ---- */

static uint64_t elements(const struct akv_tensor *t)
{
    return t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3]; /* no overflow: a block of them is at least a byte of the file */
}

static void count_tensor(json_t *mix, const struct akv_tensor *t)
{
    const struct akv_dtype_info *info = &akv_dtypes[t->dtype];
    json_t *one = json_object_get(mix, info->name);
    json_int_t n = json_integer_value(json_object_get(one, "tensors")), bytes = json_integer_value(json_object_get(one, "bytes"));
    json_object_set_new(
        mix, info->name,
        json_pack("{s:I, s:I, s:b}", "tensors", n + 1, "bytes", bytes + (json_int_t)t->bytes, "supported", (int)info->runs));
}

static void describe_file(json_t *o, const struct akv_gguf *g)
{
    uint64_t bytes = 0, parameters = 0;
    set_count(o, "gguf", g->version);
    set_count(o, "parts", g->n_parts + 1u);
    set_count(o, "file_bytes", g->stamp.size);
    if (!g->n_tensors)
        return;
    json_t *mix = json_object();
    for (uint64_t i = 0; i < g->n_tensors; i++) {
        count_tensor(mix, &g->tensors[i]);
        bytes += g->tensors[i].bytes;
        parameters += elements(&g->tensors[i]);
    }
    set_count(o, "tensor_bytes", bytes);
    set_count(o, "parameters", parameters);
    json_object_set_new(o, "tensors", mix);
}

/* ---- the network ---- */

static void describe_kv(json_t *o, const struct akv_model *m)
{
    struct akv_geom f16, f32;
    akv_engine_geom(m, AKV_KV_F16, &f16);
    akv_engine_geom(m, AKV_KV_F32, &f32);
    json_object_set_new(
        o, "kv_bytes_per_token",
        json_pack("{s:I, s:I}", "f16", (json_int_t)akv_geom_token_bytes(&f16), "f32", (json_int_t)akv_geom_token_bytes(&f32)));
}

/* As it is understood here, with defaults. */
static void describe_network(json_t *o, const struct akv_model *m)
{
    const struct akv_hparams *hp = &m->hp;
    const struct {
        const char *name;
        uint32_t value;
    } sizes[] = {
        {"layers", hp->n_layers}, {"width", hp->n_embd},        {"ff", hp->n_ff},
        {"heads", hp->n_heads},   {"kv_heads", hp->n_kv_heads}, {"k_dims", hp->dim_k},
        {"v_dims", hp->dim_v},    {"context", hp->n_ctx_train}, {"window", hp->window},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].value)
            set_count(o, sizes[i].name, sizes[i].value);
    json_object_set_new(o, "tied", json_boolean(m->output == m->embd));
    describe_kv(o, m);
}

/* What the keys of an architecture that is not built here say; one that differs from layer to layer is left out. */
static void describe_strange(json_t *o, const struct akv_gguf *g, const char *arch)
{
    static const char *const keys[][2] = {
        {"layers", "block_count"},
        {"width", "embedding_length"},
        {"ff", "feed_forward_length"},
        {"heads", "attention.head_count"},
        {"kv_heads", "attention.head_count_kv"},
        {"k_dims", "attention.key_length"},
        {"v_dims", "attention.value_length"},
        {"context", "context_length"},
        {"window", "attention.sliding_window"},
        {"experts", "expert_count"},
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        char key[160];
        uint32_t v;
        snprintf(key, sizeof key, "%s.%s", arch, keys[i][1]);
        if (akv_gguf_u32(g, key, &v, NULL) == 1)
            set_count(o, keys[i][0], v);
    }
}

/* ---- tokenizer and templates ---- */

static json_t *describe_token(const struct akv_tok *t, uint32_t id, struct akv_err *err)
{
    struct akv_buf text;
    akv_buf_init(&text, 0);
    json_t *o = NULL;
    if (akv_tok_decode(t, &id, 1, false, &text, err) == 0)
        o = json_pack("{s:I, s:o}", "id", (json_int_t)id, "text", shown((struct akv_str){text.len ? text.data : "", text.len}));
    akv_buf_release(&text);
    return o;
}

static void describe_vocabulary(json_t *o, const struct akv_tok *t, struct akv_err *err)
{
    const struct {
        const char *name;
        uint32_t id;
    } special[] = {{"bos", akv_tok_bos(t)}, {"eos", akv_tok_eos(t)}, {"unk", akv_tok_unk(t)}};
    size_t n;
    const uint32_t *ends = akv_tok_ends(t, &n);
    json_t *list = json_array();
    set_count(o, "tokens", akv_tok_n_vocab(t));
    json_object_set_new(o, "sha256", akv_describe_hex(akv_tok_digest(t), AKV_SHA_BYTES));
    json_object_set_new(o, "add_bos", json_boolean(akv_tok_add_bos(t)));
    json_object_set_new(o, "add_eos", json_boolean(akv_tok_add_eos(t)));
    for (size_t i = 0; i < sizeof special / sizeof *special; i++)
        if (special[i].id != AKV_TOK_NONE)
            json_object_set_new(o, special[i].name, describe_token(t, special[i].id, err));
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, describe_token(t, ends[i], err));
    json_object_set_new(o, "ends", list);
}

static void describe_tokenizer(json_t *o, const struct akv_model *m, struct akv_err *err)
{
    const struct akv_gguf *g = &m->gguf;
    const struct akv_gguf_kv *tokens = akv_gguf_find(g, "tokenizer.ggml.tokens");
    json_t *t = json_object();
    set_text(t, "model", g, "tokenizer.ggml.model");
    if (m->tok)
        json_object_set_new(t, "pre", json_string(akv_tok_pre(m->tok)));
    else
        set_text(t, "pre", g, "tokenizer.ggml.pre");
    if (m->tok)
        describe_vocabulary(t, m->tok, err);
    else if (tokens && tokens->type == AKV_GGUF_ARRAY)
        set_count(t, "tokens", tokens->n);
    json_object_set_new(o, "tokenizer", t);
}

static void describe_template(json_t *o, const struct akv_gguf *g, const struct akv_gguf_kv *kv, struct akv_str name)
{
    const uint8_t *walk = NULL;
    struct akv_jinja *parsed = NULL;
    struct akv_err why = {0};
    char what[128] = "chat template";
    if (name.len)
        snprintf(what, sizeof what, "chat template %s", akv_str_show(name).s);
    json_t *t = json_pack("{s:o}", "name", name.len ? shown(name) : json_null());
    if (kv->type == AKV_GGUF_STRING) {
        struct akv_str text = akv_gguf_next_string(kv, &walk);
        set_count(t, "bytes", text.len);
        akv_jinja_parse(&parsed, text.s, text.len, &why);
        akv_jinja_free(parsed);
    } else {
        akv_fail(&why, AKV_E_INPUT, "not a string but %s", akv_gguf_type_name(kv->type));
    }
    add_reason(o, g->path, what, &why);
    json_array_append_new(json_object_get(o, "templates"), t);
}

/* tokenizer.chat_template, and tokenizer.chat_template.NAME for the named ones. */
static void describe_templates(json_t *o, const struct akv_gguf *g)
{
    const size_t n = sizeof TEMPLATE_KEY - 1;
    json_object_set_new(o, "templates", json_array());
    for (uint64_t i = 0; i < g->n_kv; i++) {
        struct akv_str key = g->kv_by_name[i]->key;
        if (key.len < n || memcmp(key.s, TEMPLATE_KEY, n))
            continue;
        struct akv_str name = key.len == n ? (struct akv_str){"", 0} : (struct akv_str){key.s + n + 1, key.len - n - 1};
        if (key.len == n || (key.s[n] == '.' && name.len))
            describe_template(o, g, g->kv_by_name[i], name);
    }
}

/* ---- all of it ---- */

/* The ingredients of its root, as far as they are known without reading the weights. */
static int describe_known(json_t *o, const struct akv_model *m, struct akv_err *err)
{
    struct akv_head head;
    int rc = akv_root_known(&head, m, AKV_KV_F16, err);
    if (rc < 0)
        return rc;
    json_object_set_new(o, "fields", akv_describe_fields(&head));
    akv_head_release(&head);
    return 0;
}

static int describe(json_t *o, const struct akv_model *m, const struct akv_model_whys *whys, struct akv_err *err)
{
    const struct akv_gguf *g = &m->gguf;
    struct akv_str arch = {"", 0};
    bool runs = m->arch && m->tok && !whys->tokenizer.code;
    akv_gguf_str(g, "general.architecture", &arch, NULL);
    json_object_set_new(o, "type", json_string("model"));
    json_object_set_new(o, "path", akv_describe_text(g->path));
    set_text(o, "name", g, "general.name");
    set_text(o, "architecture", g, "general.architecture");
    json_object_set_new(o, "runs", json_boolean(runs));
    json_object_set_new(o, "tokenizes", json_boolean(m->tok));
    add_reason(o, g->path, "run", &whys->file);
    add_reason(o, g->path, "run", &whys->network);
    add_reason(o, g->path, "run", &whys->tokenizer);
    describe_file(o, g);
    if (m->arch)
        describe_network(o, m);
    else
        describe_strange(o, g, akv_str_show(arch).s);
    describe_tokenizer(o, m, err);
    describe_templates(o, g);
    if (m->warnings)
        json_object_set_new(o, "notes", json_string(m->warnings));
    return runs ? describe_known(o, m, err) : 0;
}

int akv_inspect_model(const char *path, const char *pre, char **json, struct akv_err *err)
{
    struct akv_model *m;
    struct akv_model_whys whys;
    int rc = akv_model_load_parts(&m, path, pre, &whys, err);
    if (rc < 0)
        return rc;
    json_t *o = json_object();
    rc = describe(o, m, &whys, err);
    if (rc == 0)
        rc = akv_describe_done(o, json, err);
    json_decref(o);
    akv_model_unload(m);
    return rc;
}
