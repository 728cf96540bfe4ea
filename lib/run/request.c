#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "chat/chat.h"
#include "chat/jq.h"
#include "run/input.h"
#include "run/request.h"

int akv_request_wrap(struct akv_request **out, struct akv_record *rec, struct akv_err *err)
{
    struct akv_request *r = akv_alloc(1, sizeof *r, err);
    if (!r) {
        akv_record_release(rec);
        return AKV_E_IO;
    }
    r->rec = *rec;
    *rec = (struct akv_record){0};
    *out = r;
    return 0;
}

int akv_model_check_tokenizer(const struct akv_model *m, const char *digest, struct akv_err *err)
{
    char want[AKV_SHA_HEX];
    akv_hex(want, akv_tok_digest(m->tok), AKV_SHA_BYTES);
    if (!strcmp(digest, want))
        return 0;
    return akv_fail(err, AKV_E_INCOMPAT, "made with another tokenizer: its digest is %.12s…, the model's is %.12s…", digest, want);
}

static int check_tokenizer(const struct akv_record *rec, const struct akv_model *m, struct akv_err *err)
{
    int rc = rec->tok ? akv_model_check_tokenizer(m, rec->tok, err) : 0;
    if (rc < 0)
        akv_err_prefix(err, "request %.40s", rec->id);
    return rc;
}

/* After the tokenizer's digest: ids of another vocabulary are a matter of the wrong model, not of bad input. */
static int check_ids(const struct akv_record *rec, uint32_t n_vocab, struct akv_err *err)
{
    for (size_t i = 0; i < rec->n; i++)
        if (rec->ids[i] >= n_vocab)
            return akv_fail(err, AKV_E_INPUT, "request %.40s: tokens[%zu]: id %u is outside the vocabulary of %u", rec->id, i,
                            rec->ids[i], n_vocab);
    return 0;
}

int akv_request_parse(struct akv_request **out, json_t *json, const char *text, size_t len, const struct akv_model *m,
                      struct akv_err *err)
{
    struct akv_record rec = {0};
    int rc = json ? akv_record_from_json(&rec, json, 0, err) : akv_record_parse(&rec, text, len, 0, err);
    if (rc == 0 && m)
        rc = check_tokenizer(&rec, m, err);
    if (rc == 0 && m)
        rc = check_ids(&rec, akv_tok_n_vocab(m->tok), err);
    if (rc == 0)
        rc = akv_request_check_keys(&rec, err);
    if (rc < 0) {
        akv_record_release(&rec);
        return rc;
    }
    return akv_request_wrap(out, &rec, err);
}

/*
 * The next value of an input, counted; what: "request" or "record". An input without any is an error: a pipeline must not succeed because
 * its head failed.
 */
static int next_value(json_t **json, struct akv_input *in, const char *what, struct akv_err *err)
{
    int rc = akv_json_next(json, &in->in, err);
    if (rc == 0 && !in->n_requests)
        rc = akv_fail(err, AKV_E_INPUT, "%s: empty input", in->in.name);
    else if (rc == AKV_E_INPUT)
        akv_err_prefix(err, "%s: %s %llu%s", in->in.name, what, (unsigned long long)in->n_requests + 1,
                       in->in.in_text ? ": text, not JSON" : "");
    if (rc != 0)
        in->n_requests++;
    return rc;
}

#define TEXT_MAX ((size_t)1 << 30)

/* All that is left of an input, one request; none is an error. */
static int read_text(struct akv_buf *b, struct akv_input *in, struct akv_err *err)
{
    const uint8_t *p;
    ssize_t n;
    akv_buf_init(b, TEXT_MAX);
    while ((n = akv_in_peek(&in->in, &p, 1 << 16, err)) > 0) {
        akv_buf_add(b, p, (size_t)n);
        akv_in_skip(&in->in, (size_t)n);
    }
    int rc = n < 0 ? (int)n : akv_buf_check(b, in->in.name, err);
    if (rc == 0 && !b->len)
        rc = akv_fail(err, AKV_E_INPUT, "%s: empty input", in->in.name);
    in->n_requests++;
    return rc;
}

/* What the normaliser is to turn into requests. 1, 0 at the end. */
static int next_foreign(json_t **json, struct akv_input *in, const struct akv_normaliser *n, struct akv_err *err)
{
    if (!akv_normaliser_of_text(n))
        return next_value(json, in, "request", err);
    if (in->text_taken)
        return 0;
    in->text_taken = true;
    struct akv_buf text;
    int rc = read_text(&text, in, err);
    if (rc == 0 && !(*json = json_stringn(text.data, text.len)))
        rc = akv_fail(err, AKV_E_INPUT, "%s: the text is not valid UTF-8", in->in.name);
    akv_buf_release(&text);
    return rc < 0 ? rc : 1;
}

/* The next chat request: a value of the input, or what the normaliser makes of one. */
static int next_chat(json_t **json, struct akv_input *in, const struct akv_chat_opts *opts, struct akv_err *err)
{
    struct akv_normaliser *n = opts->normaliser;
    if (!n)
        return next_value(json, in, "request", err);
    for (;;) {
        int rc = in->normalising ? akv_normaliser_next(n, json, err) : 0;
        if (rc < 0)
            akv_err_prefix(err, "%s: request %llu", in->in.name, (unsigned long long)in->n_requests);
        in->normalising = rc > 0;
        in->n_requests += rc > 0 && in->has_output;
        in->has_output = rc > 0;
        if (rc != 0)
            return rc;
        json_t *foreign = NULL;
        rc = next_foreign(&foreign, in, n, err);
        if (rc <= 0)
            return rc;
        rc = akv_normaliser_start(n, foreign, err);
        json_decref(foreign);
        if (rc < 0)
            return rc;
        in->normalising = true;
    }
}

int akv_request_read(struct akv_request **out, struct akv_input *in, const struct akv_model *m, struct akv_err *err)
{
    json_t *json = NULL;
    int rc = next_value(&json, in, "record", err);
    if (rc <= 0)
        return rc;
    rc = akv_request_parse(out, json, NULL, 0, m, err);
    json_decref(json);
    if (rc < 0) {
        akv_err_prefix(err, "%s: record %llu", in->in.name, (unsigned long long)in->n_requests);
        return rc;
    }
    return 1;
}

/* Ids of requests that bring none: r1, r2 ... in input order. */
static void default_id(char id[24], const struct akv_input *in)
{
    snprintf(id, 24, "r%llu", (unsigned long long)in->n_requests);
}

int akv_request_from_chat(struct akv_request **out, struct akv_input *in, const struct akv_model *m,
                          const struct akv_chat_opts *opts, char **notes, struct akv_err *err)
{
    json_t *json = NULL;
    int rc = next_chat(&json, in, opts, err);
    if (rc <= 0)
        return rc;
    char id[24];
    default_id(id, in);
    struct akv_record rec = {0};
    rc = akv_chat_record(m, json, id, opts, &in->cache, &rec, notes, err);
    json_decref(json);
    if (rc < 0) {
        akv_record_release(&rec);
        akv_err_prefix(err, "%s: request %llu", in->in.name, (unsigned long long)in->n_requests);
        return rc;
    }
    rc = akv_request_wrap(out, &rec, err);
    return rc < 0 ? rc : 1;
}

int akv_chat_text(char **text, size_t *len, char **id, struct akv_input *in, const struct akv_model *m,
                  const struct akv_chat_opts *opts, char **notes, struct akv_err *err)
{
    json_t *json = NULL;
    int rc = next_chat(&json, in, opts, err);
    if (rc <= 0)
        return rc;
    char fallback[24];
    default_id(fallback, in);
    struct akv_buf b;
    akv_buf_init(&b, 0);
    rc = akv_chat_render(m, json, opts, &in->cache, &b, notes, err);
    if (rc == 0)
        rc = akv_buf_check(&b, "rendered text", err);
    if (rc == 0) {
        const json_t *given = json_object_get(json, "id");
        if (json_is_integer(given)) /* as in token records */
            snprintf(fallback, sizeof fallback, "%lld", (long long)json_integer_value(given));
        const char *name = json_is_string(given) ? json_string_value(given) : fallback;
        *id = akv_strndup(name, strlen(name), err);
        *len = b.len;
        *text = akv_buf_steal(&b);
        rc = *id && *text ? 1 : AKV_E_IO;
    } else {
        akv_err_prefix(err, "%s: request %llu", in->in.name, (unsigned long long)in->n_requests);
    }
    akv_buf_release(&b);
    json_decref(json);
    return rc;
}

int akv_request_from_text(struct akv_request **out, struct akv_input *in, const struct akv_model *m, bool special, bool add_special,
                          char **notes, struct akv_err *err)
{
    struct akv_buf b;
    int rc = read_text(&b, in, err);
    struct akv_record rec = {0};
    char id[24];
    default_id(id, in);
    if (rc == 0)
        rc = akv_chat_raw(m, b.data, b.len, (special ? AKV_TOK_SPECIAL : 0) | (add_special ? AKV_TOK_ADD_SPECIAL : 0), id, &rec,
                          notes, err);
    akv_buf_release(&b);
    if (rc < 0) {
        akv_record_release(&rec);
        return rc;
    }
    rc = akv_request_wrap(out, &rec, err);
    return rc < 0 ? rc : 1;
}

void akv_request_free(struct akv_request *r)
{
    if (!r)
        return;
    akv_record_release(&r->rec);
    free(r);
}

const char *akv_request_id(const struct akv_request *r)
{
    return r->rec.id;
}

int64_t akv_request_max_tokens(const struct akv_request *r)
{
    return r->rec.gen.has & AKV_GEN_MAX_TOKENS ? (int64_t)r->rec.gen.max_tokens : -1;
}

const uint32_t *akv_request_ids(const struct akv_request *r, size_t *n)
{
    *n = r->rec.n;
    return r->rec.ids;
}

int akv_request_json(const struct akv_request *r, char **json, size_t *len, struct akv_err *err)
{
    struct akv_buf b;
    akv_buf_init(&b, 0);
    int rc = akv_record_write(&r->rec, &b, err);
    if (rc == 0)
        rc = akv_buf_check(&b, "token record", err);
    if (rc == 0) {
        *len = b.len;
        *json = akv_buf_steal(&b);
        if (!*json)
            rc = akv_fail(err, AKV_E_IO, "out of memory for a token record");
    }
    akv_buf_release(&b);
    return rc;
}

int akv_clean_text(const char *text, size_t len, char **clean, size_t *clean_len, struct akv_err *err)
{
    *clean = akv_alloc(len * 3 + 1, 1, err);
    if (!*clean)
        return AKV_E_IO;
    *clean_len = akv_utf8_clean(*clean, text, len);
    return 0;
}

int akv_decode(const struct akv_model *m, const uint32_t *ids, size_t n, bool skip_control, char **text, size_t *len,
               struct akv_err *err)
{
    struct akv_buf b;
    akv_buf_init(&b, 0);
    int rc = akv_tok_decode(m->tok, ids, n, skip_control, &b, err);
    if (rc == 0)
        rc = akv_buf_check(&b, "decoded text", err);
    if (rc == 0) {
        *len = b.len;
        *text = akv_buf_steal(&b);
        if (!*text)
            rc = akv_fail(err, AKV_E_IO, "out of memory for decoded text");
    }
    akv_buf_release(&b);
    return rc;
}
