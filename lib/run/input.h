/* struct akv_input: a descriptor whose content kind was looked at. */
#ifndef AKV_RUN_INPUT_H
#define AKV_RUN_INPUT_H

#include "base/io.h"
#include "chat/chat.h"
#include "snap/snap.h"

struct akv_input {
    struct akv_in in;
    enum akv_kind kind;
    struct akv_reader *reader; /* opened at first use when kind is a stream */
    bool normalising;          /* the normaliser has an input whose outputs are not all taken */
    bool text_taken;           /* it reads text, and has been given all of it */
    bool has_output;           /* and one was taken: the next counts as a request of its own */
    struct akv_chat_cache cache;
    uint64_t n_requests; /* requests met, broken ones included: for default ids and messages */
};

/* Of an input that must be a stream (AKV_E_INPUT): its reader, opened at first use, into in->reader. */
int akv_input_stream(struct akv_input *in, struct akv_err *err);

#endif
