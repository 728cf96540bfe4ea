#include <string.h>

#include "run/session.h"

/* Length of the longest suffix of text that is a proper prefix of the stop string. */
static size_t open_end(const char *text, size_t len, const char *stop, size_t stop_len)
{
    size_t n = len < stop_len - 1 ? len : stop_len - 1;
    while (n && memcmp(text + len - n, stop, n))
        n--;
    return n;
}

size_t akv_stop_find(const char *text, size_t len, size_t scanned, const char *const *stop, const size_t *stop_len, size_t n_stop,
                     size_t *safe)
{
    size_t found = SIZE_MAX, held = 0;
    for (size_t i = 0; i < n_stop; i++) {
        if (!stop_len[i])
            continue;
        size_t from = scanned >= stop_len[i] - 1 ? scanned - (stop_len[i] - 1) : 0;
        const char *at = len > from ? memmem(text + from, len - from, stop[i], stop_len[i]) : NULL;
        if (at && (size_t)(at - text) < found)
            found = (size_t)(at - text);
        size_t tail = open_end(text, len, stop[i], stop_len[i]);
        if (tail > held)
            held = tail;
    }
    *safe = len - held;
    return found;
}
