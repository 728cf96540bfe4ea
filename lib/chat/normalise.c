/* The jq programs that come with the library: the files of normalise/, as they stand. */
#include <stdio.h>
#include <string.h>

#include "chat/jq.h"

/* Text of any length, ended by a NUL; a string literal of it would be longer than C promises to take. */
#define PROGRAM(name)                                                                                                              \
    __asm__(".pushsection .rodata\n"                                                                                               \
            "akv_jq_" #name ": .incbin \"lib/chat/normalise/" #name ".jq\"\n"                                                      \
            ".byte 0\n"                                                                                                            \
            ".popsection\n");                                                                                                      \
    extern const char name[] __asm__("akv_jq_" #name)

PROGRAM(anthropic);
PROGRAM(responses);
PROGRAM(sharegpt);
PROGRAM(transcript);

static const struct {
    const char *name, *text;
    bool of_text;
} programs[] = {
    {"anthropic", anthropic, false},
    {"responses", responses, false},
    {"sharegpt", sharegpt, false},
    {"transcript", transcript, true},
};

int akv_normaliser_named(struct akv_normaliser **out, const char *name, struct akv_err *err)
{
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        if (!strcmp(programs[i].name, name))
            return akv_normaliser_make(out, programs[i].text, name, programs[i].of_text, err);
    return akv_fail(err, AKV_E_USAGE, "%.40s: no such format: there are anthropic, responses, sharegpt and transcript", name);
}
