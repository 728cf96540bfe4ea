#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd.h"

json_t *cmd_text(const char *text)
{
    char *clean;
    size_t n;
    struct akv_err no_memory = {0};
    if (akv_clean_text(text, strlen(text), &clean, &n, &no_memory) < 0)
        cmd_die_err(&no_memory);
    json_t *string = json_stringn(clean, n);
    free(clean);
    if (!string)
        cmd_die(5, "out of memory");
    return string;
}

json_t *cmd_finding(const char *kind, const char *what, const char *why)
{
    return json_pack("{s:s, s:o, s:o}", "finding", kind, "what", cmd_text(what), "why", cmd_text(why));
}

void cmd_stats(const struct cmd_opts *o, const char *id, const struct akv_stats *st)
{
    static bool failed;
    cmd_detail("%.80s: %u prompt tokens, %u cached (%s), %u to compute%s%s; %u generated", id, st->prompt_tokens, st->cached_tokens,
               st->source, st->prefilled_tokens + st->missing_tokens, st->miss[0] ? ": " : "", st->miss, st->completion_tokens);
    if (!o->stats || failed)
        return;
    json_t *line = json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I}", "id", id, "hit", st->hit, "source", st->source,
                             "prompt_tokens", (json_int_t)st->prompt_tokens, "cached_tokens", (json_int_t)st->cached_tokens,
                             "prefilled_tokens", (json_int_t)st->prefilled_tokens, "missing_tokens", (json_int_t)st->missing_tokens,
                             "completion_tokens", (json_int_t)st->completion_tokens);
    json_t *more =
        json_pack("{s:f, s:f, s:f, s:f, s:I, s:I, s:I, s:o}", "restore_ms", st->restore_ms, "prefill_ms", st->prefill_ms, "ttft_ms",
                  st->ttft_ms, "decode_ms", st->decode_ms, "bytes_read", (json_int_t)st->bytes_read, "bytes_written",
                  (json_int_t)st->bytes_written, "pages", (json_int_t)st->pages, "miss", cmd_text(st->miss));
    if (!line || !more || json_object_update(line, more))
        cmd_die(5, "out of memory");
    json_decref(more);
    char *text = json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_decref(line);
    if (!text)
        cmd_die(5, "statistics: not valid UTF-8");
    size_t n = strlen(text);
    char *with_newline = cmd_alloc(n + 2);
    memcpy(with_newline, text, n);
    with_newline[n] = '\n';
    free(text);
    int fd = o->stats_path ? open(o->stats_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : STDERR_FILENO;
    cmd_progress_end();
    if (fd < 0 || write(fd, with_newline, n + 1) != (ssize_t)(n + 1)) { /* said once: the replies go on */
        struct akv_err err = {.code = AKV_E_IO};
        snprintf(err.msg, sizeof err.msg, "%.900s: cannot write statistics: %s", o->stats_path ? o->stats_path : "standard error",
                 strerror(errno));
        cmd_report(&err);
        failed = true;
    }
    if (o->stats_path && fd >= 0)
        close(fd);
    free(with_newline);
}
