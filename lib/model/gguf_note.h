/* Warnings of the GGUF reader and the model loader: lines in a buffer, bounded. */
#ifndef AKV_MODEL_GGUF_NOTE_H
#define AKV_MODEL_GGUF_NOTE_H

#include "base/buf.h"

#define AKV_NOTES_MAX ((size_t)8192) /* bytes; what does not fit is left out, so that a hostile file cannot flood a terminal */

/* Append one line. */
void akv_note(struct akv_buf *notes, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The lines as a malloc'd string, NULL when there are none; notes is released. */
char *akv_notes_take(struct akv_buf *notes);

#endif
