/*
 * Two streams compared for akv-inspect: their heads, the chains of ids, the requests, and the KV of the pages that both have.
 *
 * They are read side by side, so that streams of one order are compared in constant memory; a page that the other stream has not shown
 * yet is held.
 */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "run/describe.h"
#include "run/distance.h"
#include "run/input.h"

#define HELD_BYTES ((size_t)512 << 20) /* of bodies held at a time; what comes on top is known by its checksum alone */

/* A page, kept: everything of it is copied. */
struct held {
    struct held *next;
    struct akv_page_rec rec; /* coded NULL: its body was let go */
    uint32_t ids[AKV_PAGE_TOKENS];
};

struct side {
    struct akv_input *in;
    struct held **slots; /* by key, chained */
    size_t n_slots, n_held;
    uint64_t n_tokens;                  /* of the pages held */
    uint8_t (*requests)[AKV_SHA_BYTES]; /* SHA-256 of their text, in order */
    size_t n_requests, cap_requests;
    bool done;
};

struct comparison {
    struct side side[2];
    struct akv_coder coder;
    struct akv_buf body[2];
    size_t held_bytes;
    uint64_t n_common, n_differ, n_unread; /* unread: of those that differ, too far apart in the streams to have both bodies */
    bool same_shape;
    struct akv_distance distance;
};

/* ---- pages held ---- */

static size_t slot_of(const struct side *s, const struct akv_key *key)
{
    return (size_t)(akv_get_u64(key->b) & (s->n_slots - 1));
}

static int grow(struct side *s, struct akv_err *err)
{
    if (s->n_held < s->n_slots)
        return 0;
    struct side wider = *s;
    wider.n_slots = s->n_slots ? 2 * s->n_slots : 256;
    wider.slots = akv_alloc(wider.n_slots, sizeof(struct held *), err);
    if (!wider.slots)
        return AKV_E_IO;
    for (size_t i = 0; i < s->n_slots; i++) {
        for (struct held *h = s->slots[i], *next; h; h = next) {
            struct held **to = &wider.slots[slot_of(&wider, &h->rec.key)];
            next = h->next;
            h->next = *to;
            *to = h;
        }
    }
    free(s->slots);
    *s = wider;
    return 0;
}

static int hold(struct comparison *c, struct side *s, const struct akv_page_rec *rec, struct akv_err *err)
{
    int rc = grow(s, err);
    struct held *h = rc == 0 ? akv_alloc(1, sizeof *h, err) : NULL;
    if (!h)
        return AKV_E_IO;
    h->rec = *rec;
    h->rec.coded = NULL;
    h->rec.ids = h->ids;
    memcpy(h->ids, rec->ids, rec->n_tokens * sizeof *h->ids);
    if (rec->coded_bytes <= HELD_BYTES - c->held_bytes) {
        uint8_t *coded = akv_alloc(rec->coded_bytes, 1, err);
        if (!coded) {
            free(h);
            return AKV_E_IO;
        }
        h->rec.coded = memcpy(coded, rec->coded, rec->coded_bytes);
        c->held_bytes += rec->coded_bytes;
    }
    struct held **to = &s->slots[slot_of(s, &rec->key)];
    h->next = *to;
    *to = h;
    s->n_held++;
    s->n_tokens += rec->n_tokens;
    return 0;
}

static void let_go(struct comparison *c, struct held *h)
{
    if (h && h->rec.coded) {
        c->held_bytes -= h->rec.coded_bytes;
        free((void *)(uintptr_t)h->rec.coded);
    }
    free(h);
}

/* The page with this key, taken out; NULL: there is none. */
static struct held *take(struct side *s, const struct akv_key *key)
{
    if (!s->n_slots)
        return NULL;
    for (struct held **at = &s->slots[slot_of(s, key)]; *at; at = &(*at)->next) {
        struct held *h = *at;
        if (!akv_key_eq(&h->rec.key, key))
            continue;
        *at = h->next;
        s->n_held--;
        s->n_tokens -= h->rec.n_tokens;
        return h;
    }
    return NULL;
}

/* ---- events ---- */

static const struct akv_geom *geom(const struct comparison *c, int side)
{
    return &akv_reader_head(c->side[side].in->reader)->geom;
}

/* Both bodies decoded and measured; h came from the other side. */
static int measure(struct comparison *c, int side, const struct akv_page_rec *rec, const struct held *h, struct akv_err *err)
{
    const struct akv_page_rec *pair[2];
    pair[side] = rec;
    pair[!side] = &h->rec;
    int rc = 0;
    for (int i = 0; rc == 0 && i < 2; i++) {
        rc = akv_page_check(&c->coder, geom(c, i), pair[i], &c->body[i], err);
        akv_err_prefix(err, "%s: page %lu", c->side[i].in->in.name, (unsigned long)rec->index);
    }
    if (rc == 0)
        akv_distance_add(&c->distance, geom(c, 0), geom(c, 1), (const uint8_t *)c->body[0].data, (const uint8_t *)c->body[1].data,
                         rec->index, rec->n_tokens);
    return rc;
}

static int on_page(struct comparison *c, int side, struct akv_err *err)
{
    const struct akv_page_rec *rec = akv_reader_page(c->side[side].in->reader);
    struct held *h = take(&c->side[!side], &rec->key);
    int rc = 0;
    if (!h)
        return hold(c, &c->side[side], rec, err);
    c->n_common++;
    if (!memcmp(h->rec.raw_sha, rec->raw_sha, sizeof rec->raw_sha)) {
        if (c->same_shape)
            akv_distance_same(&c->distance, geom(c, side), rec->n_tokens);
    } else {
        c->n_differ++;
        if (c->same_shape && h->rec.coded)
            rc = measure(c, side, rec, h, err);
        else
            c->n_unread++;
    }
    let_go(c, h);
    return rc;
}

static int on_request(struct side *s, struct akv_err *err)
{
    size_t len;
    const char *json = akv_reader_request(s->in->reader, &len);
    if (s->n_requests == s->cap_requests) {
        size_t cap = s->cap_requests ? 2 * s->cap_requests : 16;
        uint8_t(*grown)[AKV_SHA_BYTES] = akv_realloc(s->requests, cap, sizeof *grown, err);
        if (!grown)
            return AKV_E_IO;
        s->requests = grown;
        s->cap_requests = cap;
    }
    return akv_sha256(s->requests[s->n_requests++], json, len, err);
}

/* One record of a side. */
static int step(struct comparison *c, int side, struct akv_err *err)
{
    struct side *s = &c->side[side];
    int event = akv_reader_next(s->in->reader, err);
    if (event == AKV_EV_END)
        s->done = true;
    else if (event == AKV_EV_PAGE)
        return on_page(c, side, err);
    else if (event == AKV_EV_REQUEST)
        return on_request(s, err);
    return event < 0 ? event : 0;
}

static int open_side(struct side *s, struct akv_err *err)
{
    int rc = akv_input_stream(s->in, err);
    if (rc == 0 && (rc = akv_reader_next(s->in->reader, err)) > 0)
        rc = 0; /* a stream begins with its head */
    return rc;
}

/* ---- the answer ---- */

static json_t *or_null(const char *text)
{
    return text ? json_string(text) : json_null();
}

/* Ingredients that one has not, or has otherwise: {"tag","a","b"}. Both are sorted by tag. */
static json_t *fields_apart(const struct akv_head *a, const struct akv_head *b)
{
    json_t *list = json_array();
    for (size_t i = 0, j = 0; i < a->n_fields || j < b->n_fields;) {
        int order = i == a->n_fields ? 1 : j == b->n_fields ? -1 : strcmp(a->fields[i].tag, b->fields[j].tag);
        const char *tag = order <= 0 ? a->fields[i].tag : b->fields[j].tag;
        const char *x = order <= 0 ? a->fields[i++].value : NULL, *y = order >= 0 ? b->fields[j++].value : NULL;
        if (!x || !y || strcmp(x, y))
            json_array_append_new(list, json_pack("{s:s, s:o, s:o}", "tag", tag, "a", or_null(x), "b", or_null(y)));
    }
    return list;
}

/* By place: index, then what stands before. */
static int by_place(const void *a, const void *b)
{
    const struct akv_page_rec *x = &(*(const struct held *const *)a)->rec, *y = &(*(const struct held *const *)b)->rec;
    if (x->index != y->index)
        return x->index < y->index ? -1 : 1;
    return memcmp(x->parent.b, y->parent.b, sizeof x->parent.b);
}

static int sorted(const struct side *s, struct held ***out, struct akv_err *err)
{
    size_t n = 0;
    *out = akv_alloc(s->n_held + 1, sizeof **out, err);
    if (!*out)
        return AKV_E_IO;
    for (size_t i = 0; i < s->n_slots; i++)
        for (struct held *h = s->slots[i]; h; h = h->next)
            (*out)[n++] = h;
    qsort(*out, n, sizeof **out, by_place);
    return 0;
}

static json_t *id_or_null(const struct held *h, uint32_t i)
{
    return i < h->rec.n_tokens ? json_integer((json_int_t)h->ids[i]) : json_null();
}

/* Where the ids part: the first two pages of one place that only one side each has. NULL: nowhere, or nothing is in common. */
static json_t *ids_apart(struct held *const *a, size_t n_a, struct held *const *b, size_t n_b)
{
    for (size_t i = 0, j = 0; i < n_a && j < n_b;) {
        int order = by_place(&a[i], &b[j]);
        uint32_t n = 0, least = a[i]->rec.n_tokens < b[j]->rec.n_tokens ? a[i]->rec.n_tokens : b[j]->rec.n_tokens;
        if (order) {
            *(order < 0 ? &i : &j) += 1;
            continue;
        }
        while (n < least && a[i]->ids[n] == b[j]->ids[n])
            n++;
        return json_pack("{s:I, s:o, s:o}", "at", (json_int_t)a[i]->rec.index * AKV_PAGE_TOKENS + n, "a", id_or_null(a[i], n), "b",
                         id_or_null(b[j], n));
    }
    return NULL;
}

static int set_ids(json_t *o, const struct comparison *c, struct akv_err *err)
{
    struct held **a = NULL, **b = NULL;
    int rc = sorted(&c->side[0], &a, err);
    if (rc == 0)
        rc = sorted(&c->side[1], &b, err);
    json_t *apart = rc == 0 ? ids_apart(a, c->side[0].n_held, b, c->side[1].n_held) : NULL;
    if (apart)
        json_object_set_new(o, "ids", apart);
    free(a);
    free(b);
    return rc;
}

static uint64_t requests_apart(const struct side *a, const struct side *b)
{
    size_t most = a->n_requests > b->n_requests ? a->n_requests : b->n_requests, n = 0;
    for (size_t i = 0; i < most; i++)
        n += i >= a->n_requests || i >= b->n_requests || memcmp(a->requests[i], b->requests[i], AKV_SHA_BYTES);
    return n;
}

static json_t *describe_side(const struct side *s)
{
    const struct akv_head *head = akv_reader_head(s->in->reader);
    return json_pack("{s:o, s:o, s:o, s:I, s:I, s:I}", "path", akv_describe_text(s->in->in.name), "root",
                     akv_describe_hex(&head->root, sizeof head->root), "geometry", akv_describe_geom(&head->geom), "only_pages",
                     (json_int_t)s->n_held, "only_tokens", (json_int_t)s->n_tokens, "requests", (json_int_t)s->n_requests);
}

/* 1: they differ. */
static int conclude(json_t *o, const struct comparison *c, struct akv_err *err)
{
    const struct side *a = &c->side[0], *b = &c->side[1];
    json_t *fields = fields_apart(akv_reader_head(a->in->reader), akv_reader_head(b->in->reader));
    uint64_t n_requests = requests_apart(a, b);
    bool same_root = akv_key_eq(&akv_reader_head(a->in->reader)->root, &akv_reader_head(b->in->reader)->root);
    bool equal = same_root && c->same_shape && !json_array_size(fields) && !c->n_differ && !a->n_held && !b->n_held && !n_requests;
    json_object_set_new(o, "type", json_string("diff"));
    json_object_set_new(o, "equal", json_boolean(equal));
    json_object_set_new(o, "a", describe_side(a));
    json_object_set_new(o, "b", describe_side(b));
    json_object_set_new(o, "same_root", json_boolean(same_root));
    json_object_set_new(o, "same_shape", json_boolean(c->same_shape));
    json_object_set_new(o, "fields", fields);
    json_object_set_new(o, "requests_differ", json_integer((json_int_t)n_requests));
    json_object_set_new(o, "pages", json_integer((json_int_t)c->n_common));
    json_object_set_new(o, "pages_differ", json_integer((json_int_t)c->n_differ));
    json_object_set_new(o, "pages_not_compared", json_integer((json_int_t)c->n_unread));
    int rc = set_ids(o, c, err);
    akv_distance_describe(&c->distance, o);
    return rc < 0 ? rc : !equal;
}

static void release(struct comparison *c)
{
    for (int i = 0; i < 2; i++) {
        struct side *s = &c->side[i];
        for (size_t k = 0; k < s->n_slots; k++)
            for (struct held *h = s->slots[k], *next; h; h = next) {
                next = h->next;
                let_go(c, h);
            }
        free(s->slots);
        free(s->requests);
        akv_buf_release(&c->body[i]);
    }
    akv_distance_release(&c->distance);
    akv_coder_release(&c->coder);
}

int akv_inspect_diff(struct akv_input *a, struct akv_input *b, char **json, struct akv_err *err)
{
    struct comparison c = {.side = {{.in = a}, {.in = b}}};
    akv_buf_init(&c.body[0], 0);
    akv_buf_init(&c.body[1], 0);
    int rc = open_side(&c.side[0], err);
    if (rc == 0)
        rc = open_side(&c.side[1], err);
    if (rc == 0) {
        c.same_shape = akv_distance_can(geom(&c, 0), geom(&c, 1));
        rc = akv_distance_open(&c.distance, geom(&c, 0)->n_layers, err);
    }
    while (rc == 0 && !(c.side[0].done && c.side[1].done))
        for (int i = 0; rc == 0 && i < 2; i++)
            if (!c.side[i].done)
                rc = step(&c, i, err);
    json_t *o = json_object();
    if (rc == 0)
        rc = conclude(o, &c, err);
    int written = rc < 0 ? rc : akv_describe_done(o, json, err);
    json_decref(o);
    release(&c);
    return written < 0 ? written : rc;
}
