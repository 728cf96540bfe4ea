/* The records of a stream described as JSON, for akv-inspect. */
#include <string.h>

#include "base/bytes.h"
#include "base/json.h"
#include "run/describe.h"
#include "run/input.h"
#include "run/session.h"

json_t *akv_describe_hex(const void *p, size_t n)
{
    char hex[AKV_SHA_HEX];
    akv_hex(hex, p, n);
    return json_string(hex);
}

json_t *akv_describe_fields(const struct akv_head *h)
{
    json_t *fields = json_object();
    for (size_t i = 0; i < h->n_fields; i++)
        json_object_set_new(fields, h->fields[i].tag, json_string(h->fields[i].value));
    return fields;
}

json_t *akv_describe_text(const char *s)
{
    struct akv_buf b;
    akv_buf_init(&b, 0);
    akv_json_string(&b, s, strlen(s));
    json_t *text = b.len ? json_loadb(b.data, b.len, JSON_DECODE_ANY, NULL) : NULL;
    akv_buf_release(&b);
    return text;
}

json_t *akv_describe_geom(const struct akv_geom *g)
{
    return json_pack("{s:i, s:i, s:i, s:i, s:s, s:i, s:I}", "layers", (int)g->n_layers, "kv_heads", (int)g->n_kv_heads, "k_dims",
                     (int)g->dim_k, "v_dims", (int)g->dim_v, "dtype", g->dtype == AKV_KV_F16 ? "f16" : "f32", "page",
                     (int)AKV_PAGE_TOKENS, "bytes_per_token", (json_int_t)akv_geom_token_bytes(g));
}

static void describe_head(json_t *o, const struct akv_head *h)
{
    json_object_set_new(o, "root", akv_describe_hex(&h->root, sizeof h->root));
    json_object_set_new(o, "geometry", akv_describe_geom(&h->geom));
    json_object_set_new(o, "fields", akv_describe_fields(h));
}

static void describe_page(json_t *o, const struct akv_reader *r, const struct akv_page_rec *p)
{
    json_t *ids = json_array();
    for (uint32_t i = 0; i < p->n_tokens; i++)
        json_array_append_new(ids, json_integer((json_int_t)p->ids[i]));
    json_object_set_new(o, "key", akv_describe_hex(&p->key, sizeof p->key));
    json_object_set_new(o, "parent", p->has_parent ? akv_describe_hex(&p->parent, sizeof p->parent) : json_null());
    json_object_set_new(o, "open", json_boolean(akv_reader_page_open(r)));
    json_object_set_new(o, "index", json_integer((json_int_t)p->index));
    json_object_set_new(o, "n", json_integer((json_int_t)p->n_tokens));
    json_object_set_new(o, "codec", json_string(p->codec == AKV_CODEC_PLANES ? "planes" : "raw"));
    json_object_set_new(o, "raw_bytes", json_integer((json_int_t)p->raw_bytes));
    json_object_set_new(o, "coded_bytes", json_integer((json_int_t)p->coded_bytes));
    json_object_set_new(o, "sha256", akv_describe_hex(p->raw_sha, sizeof p->raw_sha));
    json_object_set_new(o, "tokens", ids);
}

static int describe_request(json_t *o, const struct akv_reader *r, struct akv_err *err)
{
    struct akv_record rec = {0};
    size_t len;
    const char *json = akv_reader_request(r, &len);
    int rc = akv_record_parse(&rec, json, len, 0, err);
    if (rc < 0)
        return rc;
    json_object_set_new(o, "id", json_string(rec.id));
    json_object_set_new(o, "n", json_integer((json_int_t)rec.n));
    json_object_set_new(o, "bytes", json_integer((json_int_t)len));
    akv_record_release(&rec);
    return 0;
}

static void describe_end(json_t *o, const struct akv_reader *r)
{
    size_t n;
    const struct akv_key *tips = akv_reader_tips(r, &n);
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, akv_describe_hex(&tips[i], sizeof tips[i]));
    json_object_set_new(o, "tips", list);
}

/* The page's body, verified or only decoded. */
static int page_body(const struct akv_reader *r, const struct akv_page_rec *p, uint8_t **body, size_t *body_bytes,
                     struct akv_err *err)
{
    struct akv_buf raw;
    struct akv_coder coder = {0};
    akv_buf_init(&raw, 0);
    int rc = akv_page_check(&coder, &akv_reader_head(r)->geom, p, &raw, err);
    if (rc == 0 && body) {
        *body_bytes = raw.len;
        *body = (uint8_t *)akv_buf_steal(&raw);
        if (!*body)
            rc = akv_fail(err, AKV_E_IO, "out of memory for a page");
    }
    akv_buf_release(&raw);
    akv_coder_release(&coder);
    return rc;
}

int akv_describe_done(json_t *o, char **json, struct akv_err *err)
{
    struct akv_buf b;
    akv_buf_init(&b, 0);
    akv_json_dump(&b, o);
    int rc = akv_buf_check(&b, "description", err);
    if (rc == 0 && !(*json = akv_buf_steal(&b)))
        rc = akv_fail(err, AKV_E_IO, "out of memory for a description");
    akv_buf_release(&b);
    return rc;
}

static int describe(json_t *o, struct akv_reader *r, int event, struct akv_err *err)
{
    const char type[2] = {akv_reader_type(r), '\0'};
    json_object_set_new(o, "record", json_integer((json_int_t)akv_reader_record(r)));
    json_object_set_new(o, "offset", json_integer((json_int_t)akv_reader_offset(r)));
    json_object_set_new(o, "type", json_string(type));
    json_object_set_new(o, "header_bytes", json_integer((json_int_t)akv_reader_header_bytes(r)));
    if (event == AKV_EV_HEAD)
        describe_head(o, akv_reader_head(r));
    else if (event == AKV_EV_PAGE)
        describe_page(o, r, akv_reader_page(r));
    else if (event == AKV_EV_REQUEST)
        return describe_request(o, r, err);
    else if (event == AKV_EV_SECTION_END)
        describe_end(o, r);
    return 0;
}

int akv_inspect_next(struct akv_input *in, unsigned flags, char **json, uint8_t **body, size_t *body_bytes, struct akv_err *err)
{
    int rc = akv_input_stream(in, err);
    if (rc < 0)
        return rc;
    if (flags & AKV_INSPECT_HEADERS)
        akv_reader_headers_only(in->reader);
    if (body)
        *body = NULL;
    int event = akv_reader_next(in->reader, err);
    if (event <= 0)
        return event;
    json_t *o = json_object();
    rc = describe(o, in->reader, event, err);
    if (rc >= 0 && event == AKV_EV_PAGE && (body || flags & AKV_INSPECT_VERIFY))
        rc = page_body(in->reader, akv_reader_page(in->reader), body, body_bytes, err);
    if (rc >= 0)
        rc = akv_describe_done(o, json, err);
    json_decref(o);
    if (rc < 0)
        akv_err_prefix(err, "%s: record %llu", in->in.name, (unsigned long long)akv_reader_record(in->reader));
    return rc < 0 ? rc : 1;
}

int akv_session_root(struct akv_session *s, char **json, struct akv_err *err)
{
    int rc = akv_session_need_head(s, err);
    if (rc < 0)
        return rc;
    json_t *o = json_pack("{s:o, s:o}", "root", akv_describe_hex(&s->head.root, sizeof s->head.root), "fields",
                          akv_describe_fields(&s->head));
    rc = akv_describe_done(o, json, err);
    json_decref(o);
    return rc;
}
