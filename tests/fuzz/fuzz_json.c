/* JSON values one after another, each also as a token record and as a chat request. What is written reads back the same. */
#include <string.h>

#include "chat/chat_request.h"
#include "chat/record.h"
#include "tests/fuzz/fuzz.h"

static void same_again(const json_t *v)
{
    struct akv_buf text, again;
    struct akv_err err = {0};
    json_t *back = NULL;
    akv_buf_init(&text, 0);
    akv_buf_init(&again, 0);
    akv_json_dump(&text, v);
    must(akv_json_parse(&back, text.data, text.len, "again", &err) == 0);
    akv_json_dump(&again, back);
    must(text.len == again.len && !memcmp(text.data, again.data, text.len));
    json_decref(back);
    akv_buf_release(&text);
    akv_buf_release(&again);
}

static void as_record(json_t *v)
{
    struct akv_record r, back;
    struct akv_err err = {0};
    struct akv_buf text;
    if (akv_record_from_json(&r, v, 1000, &err) < 0) {
        must(err.msg[0]);
        return;
    }
    akv_buf_init(&text, 0);
    if (akv_record_write(&r, &text, &err) == 0) {
        must(akv_record_parse(&back, text.data, text.len, 1000, &err) == 0);
        must(back.n == r.n && (!r.n || !memcmp(back.ids, r.ids, r.n * sizeof *r.ids)) && back.n_spans == r.n_spans &&
             back.n_anchors == r.n_anchors && back.gen.has == r.gen.has);
        akv_record_release(&back);
    }
    akv_buf_release(&text);
    akv_record_release(&r);
}

static void as_request(const json_t *v)
{
    for (unsigned flags = 0; flags < 4; flags++) {
        struct akv_chat_request r;
        struct akv_err err = {0};
        if (akv_chat_request_read(&r, v, flags, &err) == 0) {
            must((r.messages != NULL) != (r.prompt != NULL));
            akv_chat_request_release(&r);
        } else {
            must(err.msg[0]);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct akv_in in;
    struct akv_err err = {0};
    int fd = fuzz_file(data, size), rc;
    must(akv_in_open(&in, fd, "fuzz", &err) == 0);
    for (json_t *v = NULL; (rc = akv_json_next(&v, &in, &err)) == 1 || rc == AKV_E_INPUT;) {
        must(in.offset <= size);
        if (rc == 1) {
            same_again(v);
            as_record(v);
            as_request(v);
            json_decref(v);
        } else {
            must(err.msg[0]);
            err = (struct akv_err){0};
        }
        v = NULL;
    }
    must(rc == 0);
    akv_in_release(&in);
    close(fd);
    return 0;
}
