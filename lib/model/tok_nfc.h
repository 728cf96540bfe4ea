/*
 * Unicode NFC with the way back: which byte of the original each byte of the result comes from. Linear in the text, also for
 * long runs of combining marks.
 */
#ifndef AKV_MODEL_TOK_NFC_H
#define AKV_MODEL_TOK_NFC_H

#include "base/err.h"

struct akv_toknfc { /* zero-initialise; reused from call to call */
    char *text;     /* the result */
    uint32_t *from; /* [len] offset in the original, never decreasing */
    size_t len, cap;
    struct akv_toknfc_char { /* the stretch being worked on */
        int32_t cp;
        uint32_t from;
        uint32_t ccc; /* canonical combining class */
    } * chars, *sorted;
    size_t cap_chars;
};

/* Whether NFC may change the text: false is certain, true is not. */
bool akv_toknfc_needed(const char *s, size_t len);

/* Normalise valid UTF-8 of len < UINT32_MAX bytes. */
int akv_toknfc_apply(struct akv_toknfc *b, const char *s, size_t len, struct akv_err *err);
void akv_toknfc_release(struct akv_toknfc *b);

#endif
