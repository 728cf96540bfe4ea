/* Which pages of a prompt are there already, and why others are not. */
#include <stdio.h>
#include <string.h>

#include "run/session.h"

void akv_miss(struct akv_session *s, struct akv_stats *st, uint32_t index, const struct akv_err *why)
{
    if (!why->code)
        return;
    akv_session_note(s, "%s", why->msg);
    if (!st->miss[0])
        snprintf(st->miss, sizeof st->miss, "page %u: %.200s", index, why->msg);
}

void akv_explain_miss(const struct akv_session *s, struct akv_stats *st)
{
    uint32_t have = st->cached_tokens;
    if (!strcmp(st->hit, "full") || st->miss[0])
        return;
    if (s->opts.no_reuse)
        snprintf(st->miss, sizeof st->miss, "reuse was not asked for");
    else if (s->no_store_yet)
        snprintf(st->miss, sizeof st->miss, "the store cannot be used or does not exist yet");
    else if (!s->store && !have)
        snprintf(st->miss, sizeof st->miss, "there is nothing to restore from");
    else
        snprintf(st->miss, sizeof st->miss, "page %u (from token %u) is not there: akv-split --against tells why",
                 have / AKV_PAGE_TOKENS, have);
}

int akv_lookup(struct akv_session *s, const uint32_t *ids, uint32_t n, struct akv_stats *st, struct akv_err *err)
{
    double start = akv_now_ms();
    int64_t found = akv_load(s, ids, n, st, err);
    st->restore_ms += akv_now_ms() - start;
    return found < 0 ? (int)found : 0;
}
