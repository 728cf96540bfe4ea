/*
 * Differential rendering: the same template writes the request, parts of it, and the request with other continuations; what two
 * renderings have in common tells whose text is whose. Templates may refuse any of the probes; then less is known, nothing is wrong.
 */
#include "chat/chat_layout.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

#define SCAFFOLD 64 /* bytes; the longest known opener is about half of that */

#define NEAR 8 /* bytes on the other side of a boundary that tell it from another one */
#define N_KNOWN 24

struct work {
    struct akv_chat_layout *l;
    struct akv_chat_tmpl *t;
    const struct akv_chat_request *r;
    struct akv_buf probe;
    struct known {
        size_t k; /* the boundary before message k was found by rendering, */
        bool failed;
        unsigned step, wait; /* or looked for in vain: of others like it, the next `wait` are not worth a rendering */
    } known[N_KNOWN];
    size_t n_known, n_guessed;
};

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Length of the common beginning, not ending inside a character. */
static size_t common(const struct akv_buf *a, const struct akv_buf *b)
{
    size_t n = least(a->len, b->len), i = 0;
    while (i < n && a->data[i] == b->data[i])
        i++;
    while (i && i < a->len && ((unsigned char)a->data[i] & 0xc0) == 0x80)
        i--;
    return i;
}

/* Render `messages` (stolen) and compare with the request's text. */
static bool probe(struct work *w, json_t *messages, const json_t *tools, bool add_generation_prompt, size_t *common_len)
{
    if (!akv_chat_tmpl_probe(w->t, messages, tools, add_generation_prompt, &w->probe))
        return false;
    *common_len = common(&w->l->text, &w->probe);
    return true;
}

static json_t *first_messages(const struct work *w, size_t k)
{
    json_t *list = json_array();
    for (size_t i = 0; i < k; i++)
        json_array_append(list, json_array_get(w->r->messages, i));
    return list;
}

/* What a probe says: anything that does not begin like the text that stands there. */
static const char *other_word(const json_t *content)
{
    const char *s = json_string_value(content);
    while (s && akv_is_blank(*s))
        s++;
    return s && *s == 'Q' ? "Some other words." : "Quite other words.";
}

static void append(json_t *list, const char *role, const char *content)
{
    json_array_append_new(list, json_pack("{s:s,s:s}", "role", role, "content", content));
}

/* Message k with other content. */
static json_t *altered(const struct work *w, size_t k)
{
    const json_t *m = json_array_get(w->r->messages, k);
    const char *word = other_word(json_object_get(m, "content"));
    return akv_chat_with_content(m, word, strlen(word));
}

static const char *role_of(const struct work *w, size_t k)
{
    return json_string_value(json_object_get(json_array_get(w->r->messages, k), "role"));
}

static bool is_head_role(const char *role)
{
    return !strcmp(role, "system") || !strcmp(role, "developer");
}

/* Whatever the role of results is called. */
static bool is_result(const char *role)
{
    return !is_head_role(role) && strcmp(role, "user") && strcmp(role, "assistant");
}

/* How far the text is that of any conversation that begins with the head and goes on with a user's message. */
static bool probe_head(struct work *w, size_t *common_len)
{
    size_t h = w->l->n_head;
    json_t *list = first_messages(w, h);
    append(list, "user",
           h < w->l->n ? other_word(json_object_get(json_array_get(w->r->messages, h), "content")) : "Quite other words.");
    return probe(w, list, w->r->tools, true, common_len);
}

/*
 * What the template writes between a boundary and the content after it depends on the role. If it is known from one boundary before
 * a message of that role, then the same bytes before the content of another such message begin there too.
 */
static bool step_back_over_opener(const struct work *w, size_t k, size_t content, size_t floor, size_t *at)
{
    const struct akv_chat_layout *l = w->l;
    for (size_t j = w->l->n_head; j < k; j++) {
        const struct akv_chat_place *end = j > 0 ? &l->ends[j - 1] : &l->head;
        const struct akv_chat_mark *m = &l->marks[j];
        if (end->at == AKV_CHAT_NOWHERE || !m->has_from || m->from < end->at || strcmp(role_of(w, j), role_of(w, k)))
            continue;
        size_t len = m->from - end->at;
        if (len <= content && content - len >= floor && !memcmp(l->text.data + end->at, l->text.data + content - len, len)) {
            *at = content - len;
            return true;
        }
    }
    return false;
}

/* Where what a template writes before a content may begin, when nothing better is known. */
static size_t scaffold(size_t content, size_t least_at)
{
    return content > least_at + SCAFFOLD ? content - SCAFFOLD : least_at;
}

static bool has_calls(const struct work *w, size_t k)
{
    return json_array_size(json_object_get(json_array_get(w->r->messages, k), "tool_calls")) > 0;
}

/* All that the template wrote between what messages k - 1 and k say, when that is known and nothing else is in it. */
static bool between(const struct work *w, size_t k, size_t *from, size_t *to)
{
    const struct akv_chat_mark *before = &w->l->marks[k - 1], *after = &w->l->marks[k];
    *from = before->to;
    *to = after->first;
    return before->has_to && after->has_first && *from <= *to && !has_calls(w, k - 1);
}

/*
 * After calls the end of what they say is not known. The text before message k, as far back as a little before the boundary that is known
 * before message j, tells as much.
 */
static bool same_after_calls(const struct work *w, size_t k, const struct known *known, size_t floor)
{
    const struct akv_chat_layout *l = w->l;
    size_t j = known->k, at = l->ends[j - 1].at, a = l->marks[j].first, b = l->marks[k].first;
    if (!l->marks[j].has_first || !l->marks[k].has_first || !has_calls(w, j - 1) || !has_calls(w, k - 1) || known->failed || at > a)
        return false;
    size_t len = a - at + NEAR;
    return len <= a && b >= floor && len <= b - floor && !memcmp(l->text.data + a - len, l->text.data + b - len, len);
}

/* The same the other way round: what message k says could not be found, but what k - 1 says could. */
static bool same_after_text(const struct work *w, size_t k, const struct known *known)
{
    const struct akv_chat_layout *l = w->l;
    size_t j = known->k, at = l->ends[j - 1].at, a = l->marks[j - 1].to, b = l->marks[k - 1].to;
    if (l->marks[j].has_first || l->marks[k].has_first || !l->marks[j - 1].has_to || !l->marks[k - 1].has_to ||
        has_calls(w, j - 1) || has_calls(w, k - 1) || known->failed || at < a)
        return false;
    size_t len = at - a + NEAR;
    return len <= l->text.len - a && len <= l->text.len - b && !memcmp(l->text.data + a, l->text.data + b, len);
}

static bool same_roles(const struct work *w, size_t j, size_t k)
{
    return !strcmp(role_of(w, j), role_of(w, k)) && !strcmp(role_of(w, j - 1), role_of(w, k - 1));
}

static bool same_between(const struct work *w, size_t k, const struct known *known, size_t floor)
{
    size_t from, to, from2, to2;
    if (!same_roles(w, known->k, k))
        return false;
    bool seen = between(w, k, &from, &to), seen2 = between(w, known->k, &from2, &to2);
    if (seen && seen2)
        return to2 - from2 == to - from && !memcmp(w->l->text.data + from2, w->l->text.data + from, to - from);
    if (known->failed)
        return seen == seen2 && has_calls(w, known->k - 1) == has_calls(w, k - 1);
    return same_after_calls(w, k, known, floor) || same_after_text(w, k, known);
}

/* The same roles with the same text between them have the same boundary: most of a long chat needs no rendering of its own. */
static struct known *find_known(struct work *w, size_t k, size_t floor)
{
    struct known *failed = NULL;
    for (size_t i = 0; i < w->n_known; i++) {
        if (!same_between(w, k, &w->known[i], floor))
            continue;
        if (!w->known[i].failed)
            return &w->known[i];
        failed = &w->known[i];
    }
    return failed;
}

static void use_known(struct work *w, size_t k, const struct known *known)
{
    struct akv_chat_layout *l = w->l;
    const struct akv_chat_place *other = &l->ends[known->k - 1];
    struct akv_chat_place *end = &l->ends[k - 1];
    *end = *other;
    if (l->marks[k].has_first)
        end->at = l->marks[k].first - (l->marks[known->k].first - other->at);
    else
        end->at = l->marks[k - 1].to + (other->at - l->marks[known->k - 1].to);
    end->floor = l->marks[k - 1].has_to ? l->marks[k - 1].to : end->at;
}

/* Note what a rendering has shown. One that fails may do so because of what stands far before: others like it are tried, fewer and fewer. */
static void learn(struct work *w, size_t k, bool failed, struct known *known)
{
    if (!known && w->n_known < N_KNOWN) {
        known = &w->known[w->n_known++];
        *known = (struct known){.step = 1};
    } else if (!known) {
        return;
    }
    known->k = k;
    known->failed = failed;
    known->wait = known->step - 1;
    known->step *= 2;
}

/*
 * The boundary between messages k - 1 and k (1 <= k < n). It is where the first k messages alone stop being like the whole, if that is
 * past all of k - 1. A template that writes its last message differently never stops there; then it is before what k says.
 */
static void find_end(struct work *w, size_t k)
{
    struct akv_chat_layout *l = w->l;
    const struct akv_chat_mark *before = &l->marks[k - 1], *after = &l->marks[k];
    size_t last = k > 1 && l->ends[k - 2].at != AKV_CHAT_NOWHERE ? l->ends[k - 2].at : 0;
    size_t floor = before->has_to && before->to > last ? before->to : last;
    size_t limit = after->has_first && after->first >= floor ? after->first : l->text.len;
    struct akv_chat_place *end = &l->ends[k - 1];
    size_t c;
    bool plain = before->has_to && !has_calls(w, k - 1);
    if (end->at != AKV_CHAT_NOWHERE)
        return;
    struct known *known = find_known(w, k, floor);
    if (known && !known->failed) {
        use_known(w, k, known);
        return;
    }
    if (known && known->wait) {
        known->wait--;
    } else if (probe(w, first_messages(w, k), w->r->tools, false, &c) && c >= floor && c <= limit && (plain || c == w->probe.len)) {
        *end = (struct akv_chat_place){before->has_to ? floor : c, c, after->has_first && c == after->first, false};
        learn(w, k, false, known);
        return;
    } else {
        learn(w, k, true, known);
    }
    w->n_guessed++;
    if (limit == l->text.len) { /* what it says was not found: another content in its place shows where that begins */
        json_t *list = first_messages(w, k);
        json_array_append_new(list, altered(w, k));
        if (!probe(w, list, w->r->tools, w->r->add_generation_prompt, &limit) || limit < floor)
            return;
    }
    *end = (struct akv_chat_place){plain ? floor : scaffold(limit, floor), limit, true, true};
    if (step_back_over_opener(w, k, limit, end->floor, &end->at))
        end->before_content = end->at == limit;
}

/* Boundaries that had to be guessed, where one like them was found later. */
static void mend_ends(struct work *w)
{
    struct akv_chat_layout *l = w->l;
    for (size_t k = 1; w->n_guessed && k < l->n; k++) {
        const struct known *known = l->ends[k - 1].guessed ? find_known(w, k, 0) : NULL;
        if (known && !known->failed)
            use_known(w, k, known);
    }
}

/*
 * The end of the last message is where the generation prompt begins. A template that writes one whether asked or not shows it by writing
 * something else before another message.
 */
static void find_last_end(struct work *w)
{
    struct akv_chat_layout *l = w->l;
    const struct akv_chat_mark *m = l->n ? &l->marks[l->n - 1] : NULL;
    struct akv_chat_place end = {l->text.len, l->text.len, false, false};
    size_t c;
    if (w->r->add_generation_prompt) {
        if (probe(w, first_messages(w, l->n), w->r->tools, false, &c))
            end.at = end.floor = c;
        else
            end.at = end.floor = m && m->has_to ? m->to : 0;
    }
    if (w->r->add_generation_prompt && end.at == l->text.len) {
        json_t *list = first_messages(w, l->n);
        append(list, "user", "Quite other words.");
        if (probe(w, list, w->r->tools, false, &c) && c < end.at && !(m && m->has_to && c < m->to))
            end = (struct akv_chat_place){scaffold(c, 0), c, true, false};
    }
    if (m && m->has_to && m->to < end.at && m->to > end.floor)
        end.floor = m->to;
    if (l->n)
        l->ends[l->n - 1] = end;
    else
        l->head = end;
}

/* Without a system message: the text before the first content. */
static void find_bare_head(struct work *w)
{
    struct akv_chat_layout *l = w->l;
    size_t shared;
    if (l->n && probe_head(w, &shared))
        l->head = (struct akv_chat_place){scaffold(shared, 0), shared, true, false};
}

static void find_head(struct work *w)
{
    struct akv_chat_layout *l = w->l;
    if (!l->n_head) {
        find_bare_head(w);
        return;
    }
    size_t shared;
    if (!probe_head(w, &shared))
        return;
    l->head = l->ends[l->n_head - 1];
    if (l->head.at == AKV_CHAT_NOWHERE || shared < l->head.at)
        l->head = (struct akv_chat_place){shared, shared, true, false};
}

/* What the text has and a rendering without tools has not, when that is one piece: it may reach into what is around it on either side. */
static void find_tools_text(struct akv_chat_layout *l, const struct akv_buf *without, size_t from)
{
    size_t most = least(l->text.len, without->len) - from, same = 0;
    while (same < most && l->text.data[l->text.len - same - 1] == without->data[without->len - same - 1])
        same++;
    l->tools_from = from;
    l->tools_to = from + same == without->len ? l->text.len - same : from;
    while (l->tools_to < l->text.len && l->tools_to > from && ((unsigned char)l->text.data[l->tools_to] & 0xc0) == 0x80)
        l->tools_to++;
}

/* Tools before the system text: a cut that serves other system texts too. All of the tools must stand before it. */
static void find_tools(struct work *w)
{
    struct akv_chat_layout *l = w->l;
    size_t differs, c;
    if (!json_array_size(w->r->tools) || !probe(w, first_messages(w, l->n), NULL, w->r->add_generation_prompt, &differs))
        return;
    l->tools_ignored = differs == l->text.len && w->probe.len == l->text.len;
    find_tools_text(l, &w->probe, differs);
    size_t at = l->n_head && l->marks[0].has_from ? l->marks[0].from : l->n_head ? 0 : l->head.at;
    if (at == AKV_CHAT_NOWHERE || differs >= at)
        return;
    size_t rest = l->text.len - at, same = 0;
    if (rest > w->probe.len || memcmp(l->text.data + at, w->probe.data + w->probe.len - rest, rest))
        return;
    while (same < least(at, w->probe.len - rest) && l->text.data[at - same - 1] == w->probe.data[w->probe.len - rest - same - 1])
        same++;
    size_t floor = at - same > differs ? at - same : differs;
    if (!l->n_head) {
        l->tools = l->head;
        return;
    }
    json_t *list = first_messages(w, l->n);
    json_array_set_new(list, 0, altered(w, 0));
    if (probe(w, list, w->r->tools, w->r->add_generation_prompt, &c) && c >= at)
        l->tools = (struct akv_chat_place){floor, at, true, false};
}

/* A call as it may come next: like one that was made, else of a tool that is offered. NULL when there are none (new reference). */
static json_t *another_call(const struct work *w, bool text_arguments)
{
    for (size_t k = w->l->n; k-- > 0;)
        if (has_calls(w, k))
            return json_incref(json_array_get(json_object_get(json_array_get(w->r->messages, k), "tool_calls"), 0));
    json_t *name = json_object_get(akv_chat_function(json_array_get(w->r->tools, 0)), "name");
    if (!json_is_string(name))
        return NULL;
    return json_pack("{s:s,s:s,s:{s:O,s:o}}", "id", "Quite0the", "type", "function", "function", "name", name, "arguments",
                     text_arguments ? json_string("{}") : json_object());
}

static void append_result(json_t *list, const json_t *call)
{
    json_array_append_new(list, json_pack("{s:s,s:s,s:O*,s:O*}", "role", "tool", "content", "Quite other words.", "tool_call_id",
                                          json_object_get(call, "id"), "name", json_object_get(akv_chat_function(call), "name")));
}

/* The conversation goes on with a call and its result, if there are any in it. */
static bool probe_call(struct work *w, bool text_arguments, size_t *common_len)
{
    json_t *call = another_call(w, text_arguments);
    if (!call)
        return false;
    size_t n = w->l->n;
    bool users_turn = !n || is_head_role(role_of(w, n - 1)) || !strcmp(role_of(w, n - 1), "assistant");
    json_t *list = first_messages(w, n);
    if (!n || !has_calls(w, n - 1)) {
        if (users_turn)
            append(list, "user", "Quite other words.");
        json_array_append_new(list, json_pack("{s:s,s:s,s:[O]}", "role", "assistant", "content", "", "tool_calls", call));
    }
    append_result(list, call);
    json_decref(call);
    return probe(w, list, w->r->tools, w->r->add_generation_prompt, common_len);
}

/* Note what the rendering that was made last has behind the end of the last message, if it is like the text up to there. */
static void note_behind(struct work *w, size_t common_len)
{
    struct akv_chat_layout *l = w->l;
    size_t end = l->n ? l->ends[l->n - 1].at : l->head.at;
    if (end > common_len)
        return;
    struct akv_chat_behind *b = &l->behind[l->n_behind++];
    b->len = least(w->probe.len - end, sizeof b->text);
    memcpy(b->text, w->probe.data + end, b->len);
}

/*
 * Results of calls, of which there may be one more, and the turns behind them: a template may write all results of a turn as one piece, or
 * change what is before only when the user speaks again, who must not speak before the results.
 */
static bool probe_result(struct work *w, size_t *common_len)
{
    size_t n = w->l->n;
    if (!n || !(has_calls(w, n - 1) || is_result(role_of(w, n - 1))))
        return false;
    json_t *list = first_messages(w, n);
    if (has_calls(w, n - 1))
        append_result(list, json_array_get(json_object_get(json_array_get(w->r->messages, n - 1), "tool_calls"), 0));
    else
        json_array_append_new(list, altered(w, n - 1));
    append(list, "assistant", "Quite other words.");
    append(list, "user", "Quite other words.");
    return probe(w, list, w->r->tools, w->r->add_generation_prompt, common_len);
}

/* What stays when the conversation goes on: the least that is left after one more message, after two, after a call, after a result. */
static void find_stable(struct work *w)
{
    struct akv_chat_layout *l = w->l;
    const char *last = l->n ? role_of(w, l->n - 1) : "system";
    bool users_turn = is_head_role(last) || !strcmp(last, "assistant");
    size_t stable = l->text.len, c;
    bool seen = false;
    for (unsigned more = 1; more <= AKV_CHAT_N_BEHIND; more++) {
        bool done;
        if (more < 3) {
            json_t *list = first_messages(w, l->n);
            for (unsigned i = 0; i < more; i++)
                append(list, users_turn == (i == 0) ? "user" : "assistant", "Quite other words.");
            done = probe(w, list, w->r->tools, w->r->add_generation_prompt, &c);
        } else if (more == 3) {
            done = probe_call(w, false, &c) || probe_call(w, true, &c);
        } else {
            done = probe_result(w, &c);
        }
        if (!done)
            continue;
        seen = true;
        stable = least(stable, c);
        note_behind(w, c);
    }
    bool has_head = l->head.at != AKV_CHAT_NOWHERE;
    l->stable = seen ? stable : has_head ? l->head.at : 0;
    if (has_head && l->head.at > l->stable) /* a template that moves the tools to the newest message */
        l->head = (struct akv_chat_place){l->stable, l->stable, true, false};
}

static int by_place(const void *a, const void *b)
{
    const struct akv_chat_content *x = a, *y = b;
    return (x->from > y->from) - (x->from < y->from);
}

static int list_contents(struct akv_chat_layout *l, struct akv_err *err)
{
    l->contents = akv_alloc(l->n, sizeof *l->contents, err);
    if (!l->contents)
        return AKV_E_IO;
    for (size_t k = 0; k < l->n; k++)
        if (l->marks[k].has_from && l->marks[k].has_to && l->marks[k].from < l->marks[k].to)
            l->contents[l->n_contents++] = (struct akv_chat_content){l->marks[k].from, l->marks[k].to};
    if (l->n_contents)
        qsort(l->contents, l->n_contents, sizeof *l->contents, by_place);
    return 0;
}

int akv_chat_layout_make(struct akv_chat_layout *l, struct akv_chat_tmpl *t, const struct akv_chat_request *r, struct akv_err *err)
{
    *l = (struct akv_chat_layout){.n = json_array_size(r->messages)};
    struct work w = {.l = l, .t = t, .r = r};
    l->tools.at = l->head.at = AKV_CHAT_NOWHERE;
    akv_buf_init(&l->text, 0);
    akv_buf_init(&w.probe, 0);
    l->marks = akv_alloc(l->n, sizeof *l->marks, err);
    l->ends = akv_alloc(l->n, sizeof *l->ends, err);
    int rc = l->marks && l->ends ? akv_chat_tmpl_render(t, r, &l->text, err) : AKV_E_IO;
    if (rc == 0)
        rc = akv_chat_find_marks(t, r, &l->text, l->marks, err);
    if (rc == 0)
        rc = list_contents(l, err);
    if (rc < 0)
        goto out;
    while (l->n_head < l->n && is_head_role(role_of(&w, l->n_head)))
        l->n_head++;
    for (size_t k = 0; k < l->n; k++)
        l->ends[k].at = AKV_CHAT_NOWHERE;
    /* what matters most comes first: the renderings are limited */
    if (l->n_head && l->n_head < l->n)
        find_end(&w, l->n_head);
    find_last_end(&w);
    find_head(&w);
    find_stable(&w);
    find_tools(&w);
    for (size_t k = 1; k < l->n && akv_chat_tmpl_may_probe(t); k++)
        find_end(&w, k);
    mend_ends(&w);
out:
    akv_buf_release(&w.probe);
    if (rc < 0)
        akv_chat_layout_release(l);
    return rc;
}

void akv_chat_layout_release(struct akv_chat_layout *l)
{
    akv_buf_release(&l->text);
    free(l->marks);
    free(l->contents);
    free(l->ends);
    *l = (struct akv_chat_layout){0};
}
