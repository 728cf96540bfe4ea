/* akv-inspect --verify: is each file what it says? As JSON what is wrong and the totals, as akv-pin --verify has them. */
#include <stdlib.h>

#include "inspect.h"

void inspect_good(struct inspect *t, const char *name, long long pages, long long tokens, long long requests)
{
    t->n_done++;
    t->verified.files++;
    t->verified.pages += pages;
    t->verified.tokens += tokens;
    t->verified.requests += requests;
    if (t->json)
        return;
    char *line = cmd_escaped(name);
    inspect_print(t, "%s: ok: %lld pages, %lld tokens, %lld requests%s\n", line, pages, tokens, requests,
                  t->quick ? " (quick)" : "");
    free(line);
}

void inspect_bad(struct inspect *t, const char *name, const struct akv_err *why)
{
    struct akv_err err = *why;
    bool damaged = err.code == AKV_E_INPUT;
    if (akv_exit_status(err.code) != 5)
        err.code = AKV_E_NO; /* the answer is no, whatever was wrong */
    cmd_report(&err);
    t->verified.files++;
    t->verified.damaged += damaged;
    t->verified.unreadable += !damaged;
    if (!t->json)
        return;
    t->n_done++; /* there is something to be written */
    json_t *finding = cmd_finding(damaged ? "damaged" : "unreadable", name, err.msg);
    inspect_json(t, finding);
    json_decref(finding);
}

void inspect_verified(struct inspect *t)
{
    json_t *o = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "files", t->verified.files, "damaged", t->verified.damaged,
                          "unreadable", t->verified.unreadable, "pages", t->verified.pages, "tokens", t->verified.tokens,
                          "requests", t->verified.requests);
    if (t->json)
        inspect_json(t, o);
    json_decref(o);
}
