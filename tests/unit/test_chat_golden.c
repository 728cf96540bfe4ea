/*
 * Spans and anchors against published templates and reference renderings: boundaries are where the reference puts them, every cut is
 * safe, and what an anchor promises holds on the following turns.
 */
#include "tests/unit/chat_rig.h"

#include <dirent.h>
#include <zstd.h>

#include "chat/chat_layout.h"

/* A whole file, decompressed when its name ends in .zst; len 0 when it cannot be read. */
static void read_file(struct akv_buf *out, const char *path)
{
    akv_buf_init(out, 0);
    FILE *f = fopen(path, "rb");
    if (!f)
        return;
    static char in[1 << 16], plain[1 << 17];
    bool packed = strlen(path) > 4 && !strcmp(path + strlen(path) - 4, ".zst");
    ZSTD_DCtx *z = ZSTD_createDCtx();
    size_t n;
    while ((n = fread(in, 1, sizeof in, f)) > 0) {
        ZSTD_inBuffer src = {in, n, 0};
        if (!packed)
            akv_buf_add(out, in, n);
        while (packed && src.pos < src.size) {
            ZSTD_outBuffer dst = {plain, sizeof plain, 0};
            assert_false(ZSTD_isError(ZSTD_decompressStream(z, &dst, &src)));
            akv_buf_add(out, plain, dst.pos);
        }
    }
    ZSTD_freeDCtx(z);
    fclose(f);
}

/* The next line as JSON (new reference), NULL at the end. */
static json_t *next_line(const struct akv_buf *file, size_t *at)
{
    if (*at >= file->len)
        return NULL;
    const char *line = file->data + *at, *end = memchr(line, '\n', file->len - *at);
    size_t len = end ? (size_t)(end - line) : file->len - *at;
    *at += len + 1;
    json_t *v;
    struct akv_err err = {0};
    assert_ok(akv_json_parse(&v, line, len, "line", &err), &err);
    return v;
}

static const char *str(const json_t *obj, const char *key)
{
    return json_string_value(json_object_get(obj, key));
}

/* The request of a golden row: its fields are ours but for the names. */
static json_t *request_of(const json_t *row, json_t *messages)
{
    json_t *r = json_object();
    json_object_set_new(r, "messages", messages);
    json_object_set(r, "tools", json_object_get(row, "tools"));
    json_object_set(r, "add_generation_prompt", json_object_get(row, "add_generation_prompt"));
    json_object_set(r, "bos_token", json_object_get(row, "bos_token"));
    json_object_set(r, "eos_token", json_object_get(row, "eos_token"));
    json_object_set(r, "chat_template_kwargs", json_object_get(row, "extra"));
    return r;
}

struct chat {
    struct akv_buf tmpl;
    struct akv_chat_opts opts;
};

static bool chat_open(struct chat *c, const char *name)
{
    char rel[256];
    snprintf(rel, sizeof rel, "templates/%s.jinja", name);
    const char *path = shared_file(rel);
    if (!path)
        return false;
    read_file(&c->tmpl, path);
    c->opts = (struct akv_chat_opts){.template_text = c->tmpl.data, .template_len = c->tmpl.len, .now = 1768478400};
    return true;
}

static int layout_of(struct chat *c, const json_t *request, unsigned flags, struct akv_chat_layout *l, struct akv_err *err)
{
    struct akv_chat_request r;
    struct akv_chat_tmpl t = {0};
    *l = (struct akv_chat_layout){0};
    int rc = akv_chat_request_read(&r, request, flags, err);
    if (rc == 0)
        rc = akv_chat_tmpl_open(&t, NULL, &r, &c->opts, NULL, err);
    if (rc == 0)
        rc = akv_chat_layout_make(l, &t, &r, err);
    akv_chat_tmpl_release(&t);
    akv_chat_request_release(&r);
    return rc;
}

/*
 * The head ends where the reference says that all later prompts begin to differ, or before that by no more than what opens a message.
 */
static void check_anchor_row(struct chat *c, const json_t *row)
{
    const char *anchor = str(row, "anchor");
    if (!anchor)
        return;
    size_t len = json_string_length(json_object_get(row, "anchor"));
    for (size_t p = 0; p < 2; p++) {
        json_t *messages = json_deep_copy(json_object_get(row, "messages"));
        json_array_append_new(messages,
                              json_pack("{s:s,s:O}", "role", "user", "content", json_array_get(json_object_get(row, "probes"), p)));
        json_t *request = request_of(row, messages);
        struct akv_chat_layout l;
        struct akv_err err = {0};
        assert_ok(layout_of(c, request, 0, &l, &err), &err);
        size_t at = l.head.at, want = len < l.stable ? len : l.stable; /* one template moves the tools to the last user's message */
        if (at > want || memcmp(l.text.data, anchor, len) || want - at > 64)
            fail_msg("%s, row %lld: head at %zu of %zu", str(row, "template"), json_integer_value(json_object_get(row, "id")), at,
                     len);
        if (l.head.floor > at || l.stable < at)
            fail_msg("%s: floor %zu at %zu stable %zu", str(row, "template"), l.head.floor, at, l.stable);
        akv_chat_layout_release(&l);
        json_decref(request);
    }
}

/* Boundaries lie between the end of one message's content and the beginning of the next one's. */
static void check_messages_row(struct chat *c, const json_t *row, size_t *n_known, size_t *n_all)
{
    json_t *request = request_of(row, json_incref(json_object_get(row, "messages")));
    struct akv_chat_layout l;
    struct akv_err err = {0};
    assert_ok(layout_of(c, request, AKV_CHAT_RAW_MESSAGES, &l, &err), &err);
    assert_string_equal(l.text.data, str(row, "full"));
    size_t i;
    json_t *cut;
    json_array_foreach (json_object_get(row, "cuts"), i, cut) {
        size_t k = (size_t)json_integer_value(json_object_get(cut, "k"));
        if (!k || !json_is_true(json_object_get(cut, "prefix_of_full")))
            continue;
        size_t want = (size_t)json_integer_value(json_object_get(cut, "bytes")), at = l.ends[k - 1].at;
        if (l.marks[k - 1].has_from && l.marks[k - 1].from >= want) /* written behind the next message: it does not end before it */
            continue;
        ++*n_all;
        if (at == AKV_CHAT_NOWHERE)
            continue;
        ++*n_known;
        if (at > want || (l.marks[k - 1].has_to && at < l.marks[k - 1].to))
            fail_msg("%s, %s: message %zu ends at %zu, the next content begins at %zu", str(row, "template"), str(row, "chat"), k,
                     at, want);
    }
    akv_chat_layout_release(&l);
    json_decref(request);
}

/* The reference's boundaries, found by rendering too, over all its templates. */
static void reference_boundaries(void **state)
{
    (void)state;
    const char *path = shared_file("golden/templates/split.jsonl.zst");
    if (!path)
        skip();
    struct akv_buf file;
    read_file(&file, path);
    size_t at = 0, n_rows = 0, n_known = 0, n_all = 0;
    json_t *row;
    while ((row = next_line(&file, &at))) {
        struct chat c;
        assert_true(chat_open(&c, str(row, "template")));
        if (!strcmp(str(row, "kind"), "anchor"))
            check_anchor_row(&c, row);
        else
            check_messages_row(&c, row, &n_known, &n_all);
        n_rows++;
        akv_buf_release(&c.tmpl);
        json_decref(row);
    }
    print_message("%zu rows, %zu of %zu boundaries found\n", n_rows, n_known, n_all);
    assert_true(n_rows > 100 && n_all > 700 && n_known == n_all);
    akv_buf_release(&file);
}

static int record_of(struct chat *c, const json_t *request, struct akv_record *r, struct akv_err *err)
{
    return akv_chat_record(model, request, "r", &c->opts, NULL, r, NULL, err);
}

/* ids(prefix) + ids(rest) == ids(whole), by encoding both. */
static void check_safe(const struct akv_record *r, const char *text, size_t len, const char *name)
{
    for (size_t i = 0; i < r->n_anchors; i++) {
        struct akv_buf prefix;
        struct akv_ids ids = {0};
        size_t at = r->anchors[i].at;
        akv_buf_init(&prefix, 0);
        assert_int_equal(akv_tok_decode(model->tok, r->ids, at, false, &prefix, NULL), 0);
        assert_true(prefix.len <= len && !memcmp(prefix.data, text, prefix.len));
        assert_int_equal(akv_tok_encode(model->tok, text, prefix.len, AKV_TOK_SPECIAL, &ids, NULL, NULL), 0);
        size_t n = ids.n;
        assert_int_equal(akv_tok_encode(model->tok, text + prefix.len, len - prefix.len, AKV_TOK_SPECIAL, &ids, NULL, NULL), 0);
        if (n != at || ids.n != r->n || memcmp(ids.v, r->ids, r->n * sizeof *ids.v))
            fail_msg("%s: anchor %s at %zu is not safe", name, r->anchors[i].name, at);
        akv_ids_release(&ids);
        akv_buf_release(&prefix);
    }
}

static void check_shape(const struct akv_record *r, const char *name)
{
    uint32_t end = 0;
    for (size_t i = 0; i < r->n_spans; i++) {
        if (r->spans[i].from != end)
            fail_msg("%s: spans leave a gap at %u", name, end);
        end = r->spans[i].to;
    }
    assert_int_equal(end, r->n);
    for (size_t i = 0; r->n_spans && i < r->n_anchors; i++) {
        const struct akv_span *gen = &r->spans[r->n_spans - 1];
        if (!strcmp(gen->kind, "generation") && r->anchors[i].at > gen->from)
            fail_msg("%s: anchor %s lies in the generation prompt", name, r->anchors[i].name);
    }
}

/* Whether a client would ask for a reply after the first k messages; not between the results of parallel calls. */
static bool is_request(const json_t *messages, size_t k)
{
    const char *role = str(json_array_get(messages, k - 1), "role"), *next = str(json_array_get(messages, k), "role");
    return !strcmp(role, "user") || (!strcmp(role, "tool") && !(next && !strcmp(next, "tool")));
}

/* Some templates gather system messages at the top: another one in mid-conversation changes the beginning. */
static bool has_late_system(const json_t *messages)
{
    bool started = false, late = false;
    for (size_t i = 0; i < json_array_size(messages); i++) {
        const char *role = str(json_array_get(messages, i), "role");
        bool head = !strcmp(role, "system") || !strcmp(role, "developer");
        late = late || (started && head);
        started = started || !head;
    }
    return late;
}

static json_t *first_messages(const json_t *messages, size_t k)
{
    json_t *list = json_array();
    for (size_t i = 0; i < k; i++)
        json_array_append(list, json_array_get(messages, i));
    return list;
}

struct count {
    size_t records, anchors, broken;
};

/* The anchors of every turn of a conversation: safe, out of the generation prompt, and the beginning of every later user's turn. */
static void check_turns(struct chat *c, const json_t *row, const char *name, struct count *count)
{
    const json_t *messages = json_object_get(row, "messages");
    size_t n = json_array_size(messages);
    struct akv_record turns[16];
    size_t n_turns = 0;
    for (size_t k = 1; k <= n && n_turns < 16; k++) {
        json_t *request = request_of(row, first_messages(messages, k));
        struct akv_record r;
        struct akv_err err = {0};
        if (is_request(messages, k) && record_of(c, request, &r, &err) == 0) {
            struct akv_buf text;
            akv_buf_init(&text, 0);
            assert_ok(akv_chat_render(model, request, &c->opts, NULL, &text, NULL, &err), &err);
            check_safe(&r, text.data, text.len, name);
            akv_buf_release(&text);
            check_shape(&r, name);
            for (size_t t = 0; t < n_turns && !has_late_system(messages); t++)
                for (size_t a = 0; a < turns[t].n_anchors; a++) {
                    size_t at = turns[t].anchors[a].at;
                    count->anchors++;
                    if (r.n < at || memcmp(r.ids, turns[t].ids, at * sizeof *r.ids)) {
                        count->broken++;
                        print_message("%s: turn %zu, anchor %s does not hold with %zu messages\n", name, t,
                                      turns[t].anchors[a].name, k);
                    }
                }
            turns[n_turns++] = r;
            count->records++;
        }
        json_decref(request);
    }
    for (size_t t = 0; t < n_turns; t++)
        akv_record_release(&turns[t]);
}

/* All conversations of the reference cases, turn by turn. */
static void every_template(void **state)
{
    (void)state;
    const char *dir = shared_file("golden/templates");
    if (!dir || !model)
        skip();
    char names[64][128];
    size_t n_names = 0;
    DIR *d = opendir(dir);
    struct dirent *e;
    while ((e = readdir(d)) && n_names < 64)
        if (strstr(e->d_name, ".jsonl") && strncmp(e->d_name, "split", 5))
            snprintf(names[n_names++], sizeof names[0], "%.120s", e->d_name);
    closedir(d);
    struct count count = {0};
    for (size_t i = 0; i < n_names; i++) {
        struct chat c;
        struct akv_buf file;
        char rel[256];
        snprintf(rel, sizeof rel, "golden/templates/%.120s", names[i]);
        read_file(&file, shared_file(rel));
        *strstr(names[i], ".jsonl") = '\0';
        assert_true(chat_open(&c, names[i]));
        json_t *row, *seen = json_object();
        size_t at = 0;
        while ((row = next_line(&file, &at))) {
            char key[256];
            snprintf(key, sizeof key, "%.120s/%s/%s", names[i], str(row, "chat"), str(row, "toolset") ? str(row, "toolset") : "");
            if (json_is_true(json_object_get(row, "add_generation_prompt")) && !json_object_get(seen, key)) {
                json_object_set_new(seen, key, json_true());
                check_turns(&c, row, key, &count);
            }
            json_decref(row);
        }
        json_decref(seen);
        akv_buf_release(&file);
        akv_buf_release(&c.tmpl);
    }
    print_message("%zu templates, %zu records, %zu anchors of earlier turns, %zu broken\n", n_names, count.records, count.anchors,
                  count.broken);
    assert_true(n_names > 40 && count.records > 500);
    assert_int_equal(count.broken, 0);
}

/* A tokenizer that adds bos by itself: one and only one, whether the template writes it, the prompt does, or neither. */
static void one_bos(void **state)
{
    (void)state;
    const char *packed = shared_file("golden/tokenizer/llama3.vocab.gguf.zst");
    if (!packed)
        skip();
    char path[] = "/tmp/akv-test-XXXXXX";
    int fd = mkstemp(path);
    struct akv_buf file;
    struct akv_err err = {0};
    struct akv_model *m;
    read_file(&file, packed);
    assert_ok(akv_write_all(fd, file.data, file.len, path, &err), &err);
    close(fd);
    akv_buf_release(&file);
    assert_ok(akv_model_load(&m, path, AKV_MODEL_VOCAB_ONLY, &err), &err);
    unlink(path);
    assert_true(akv_tok_add_bos(m->tok));
    static const char *const rows[][2] = {
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}", "{{ bos_token }}{{ messages[0].content }}"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}", "{{ messages[0].content }}"},
        {"{\"prompt\":\"Hi\"}", ""},
        {"{\"prompt\":\"<|begin_of_text|>Hi\"}", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct akv_chat_opts opts = {.template_text = rows[i][1], .template_len = strlen(rows[i][1])};
        struct akv_record r;
        json_t *v;
        assert_ok(akv_json_parse(&v, rows[i][0], strlen(rows[i][0]), "request", &err), &err);
        assert_ok(akv_chat_record(m, v, "r", &opts, NULL, &r, NULL, &err), &err);
        if (r.n != 2 || r.ids[0] != akv_tok_bos(m->tok) || r.ids[1] == r.ids[0])
            fail_msg("row %zu: %zu ids", i, r.n);
        akv_record_release(&r);
        json_decref(v);
    }
    akv_model_unload(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reference_boundaries),
        cmocka_unit_test(every_template),
        cmocka_unit_test(one_bos),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
