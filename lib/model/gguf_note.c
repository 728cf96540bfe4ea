#include "model/gguf_note.h"

#include <stdarg.h>
#include <stdio.h>

void akv_note(struct akv_buf *notes, const char *fmt, ...)
{
    char line[AKV_NOTES_MAX];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    akv_buf_printf(notes, "%s%s", notes->len ? "\n" : "", line);
}

char *akv_notes_take(struct akv_buf *notes)
{
    char *text = notes->len ? akv_buf_steal(notes) : NULL;
    akv_buf_release(notes);
    return text;
}
