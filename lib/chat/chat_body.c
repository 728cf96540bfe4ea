#include "chat/chat_body.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "chat/jinja_value.h"

#define CLOSER 64 /* bytes; no control token is nearly as long */

void akv_chat_find_opener(struct akv_chat_opener *o, const struct akv_chat_layout *l, struct akv_chat_tmpl *t,
                          const struct akv_chat_request *r)
{
    *o = (struct akv_chat_opener){.text = ""};
    akv_buf_init(&o->own, 0);
    if (!l->n || l->ends[l->n - 1].at == AKV_CHAT_NOWHERE || l->ends[l->n - 1].before_content)
        return;
    if (r->add_generation_prompt) {
        o->text = l->text.data + l->ends[l->n - 1].at;
        o->len = l->text.len - l->ends[l->n - 1].at;
    } else if (akv_chat_tmpl_probe(t, json_incref(r->messages), r->tools, true, &o->own) && o->own.len > l->text.len &&
               !memcmp(o->own.data, l->text.data, l->text.len)) {
        o->text = o->own.data + l->text.len;
        o->len = o->own.len - l->text.len;
    }
}

void akv_chat_opener_release(struct akv_chat_opener *o)
{
    akv_buf_release(&o->own);
}

/* Where the control token begins that ends at `end`; false when there is none. */
static bool token_before(const struct akv_chat_layout *l, const struct akv_tok *tok, size_t from, size_t end, size_t *at)
{
    struct akv_ids ids = {0};
    struct akv_buf text;
    size_t start = end - from > CLOSER ? end - CLOSER : from;
    bool found = false;
    akv_buf_init(&text, 0);
    if (akv_tok_encode(tok, l->text.data + start, end - start, AKV_TOK_SPECIAL | AKV_TOK_CONTINUE, &ids, NULL, NULL) == 0 &&
        ids.n && akv_tok_is_control(tok, ids.v[ids.n - 1]) && akv_tok_decode(tok, &ids.v[ids.n - 1], 1, false, &text, NULL) == 0 &&
        text.len <= end - start) {
        *at = end - text.len;
        found = true;
    }
    akv_buf_release(&text);
    akv_ids_release(&ids);
    return found;
}

bool akv_chat_find_body(const struct akv_chat_layout *l, const struct akv_tok *tok, const struct akv_chat_opener *o, size_t k,
                        size_t *from, size_t *to)
{
    const struct akv_chat_place *before = k ? &l->ends[k - 1] : NULL, *end = &l->ends[k];
    if (!before || !o->len || before->at == AKV_CHAT_NOWHERE || end->at == AKV_CHAT_NOWHERE || end->before_content)
        return false;
    size_t at = before->before_content ? before->at - (o->len < before->at ? o->len : before->at) : before->at;
    if (end->at < at || o->len > end->at - at || memcmp(l->text.data + at, o->text, o->len))
        return false;
    *from = at + o->len;
    size_t last = end->at;
    while (last > *from && akv_is_blank(l->text.data[last - 1]))
        last--;
    return token_before(l, tok, *from, last, to);
}

/* ---- what a reply says ---- */

struct reply {
    struct akv_buf text[3]; /* as it is, and with JSON escapes taken away once and twice: arguments may be a text within a text */
    const char *body;
    size_t body_len, *look_left;
};

/* The four hexadecimal digits of \uXXXX at p; false when that is not what stands there. */
static bool read_u(const char *p, size_t len, unsigned *out)
{
    *out = 0;
    if (len < 6 || p[0] != '\\' || p[1] != 'u')
        return false;
    for (size_t i = 2; i < 6; i++) {
        char c = p[i];
        unsigned v = c >= '0' && c <= '9'                 ? (unsigned)(c - '0')
                     : (c | 32) >= 'a' && (c | 32) <= 'f' ? (unsigned)((c | 32) - 'a' + 10)
                                                          : 16;
        if (v == 16)
            return false;
        *out = *out << 4 | v;
    }
    return true;
}

/* Text with the escapes of JSON strings taken away; what is no escape stays. */
static void unescape(struct akv_buf *out, const struct akv_buf *in)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    for (size_t i = 0; i < in->len;) {
        const char *p = in->data + i, *known;
        size_t left = in->len - i;
        unsigned c, low;
        if (read_u(p, left, &c)) {
            i += 6;
            if (c >= 0xd800 && c < 0xdc00 && read_u(p + 6, left - 6, &low) && low >= 0xdc00 && low < 0xe000) {
                c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
                i += 6;
            }
            char utf8[4];
            akv_buf_add(out, utf8, akv_jchar_put(utf8, c));
        } else if (*p == '\\' && left > 1 && p[1] && (known = strchr(from, p[1]))) {
            akv_buf_putc(out, to[known - from]);
            i += 2;
        } else {
            akv_buf_putc(out, *p);
            i++;
        }
    }
}

static bool occurs(struct reply *r, const char *s, size_t len)
{
    for (size_t i = 0; i < sizeof r->text / sizeof *r->text; i++) {
        if (r->text[i].len > *r->look_left) {
            *r->look_left = 0;
            return false;
        }
        *r->look_left -= r->text[i].len;
        if (!len || memmem(r->text[i].data, r->text[i].len, s, len))
            return true;
    }
    return false;
}

/* A text that the body must have as it is, too. */
static bool told(struct reply *r, const json_t *str)
{
    const char *s = json_string_value(str);
    size_t len = json_string_length(str);
    while (len && akv_is_blank(*s)) {
        s++;
        len--;
    }
    while (len && akv_is_blank(s[len - 1]))
        len--;
    return !len || (occurs(r, s, len) && memmem(r->body, r->body_len, s, len));
}

/* All names, strings and whole numbers of a value. */
static bool value_occurs(struct reply *r, const json_t *v)
{
    const char *key;
    json_t *member;
    size_t i;
    char digits[24];
    json_object_foreach ((json_t *)(uintptr_t)v, key, member)
        if (!occurs(r, key, strlen(key)) || !value_occurs(r, member))
            return false;
    json_array_foreach (v, i, member)
        if (!value_occurs(r, member))
            return false;
    if (json_is_integer(v)) {
        int n = snprintf(digits, sizeof digits, "%lld", (long long)json_integer_value(v));
        return occurs(r, digits, (size_t)n);
    }
    return !json_is_string(v) || occurs(r, json_string_value(v), json_string_length(v));
}

/* Arguments as a value or as JSON text. */
static bool arguments_occur(struct reply *r, const json_t *arguments)
{
    json_t *parsed = NULL;
    if (json_is_string(arguments))
        (void)akv_json_parse(&parsed, json_string_value(arguments), json_string_length(arguments), "arguments", NULL);
    bool yes = value_occurs(r, parsed ? parsed : arguments);
    json_decref(parsed);
    return yes;
}

static const char *check(struct reply *r, const json_t *m)
{
    static const char *const thoughts[] = {"reasoning_content", "thinking"};
    const json_t *content = json_object_get(m, "content"), *calls = json_object_get(m, "tool_calls");
    size_t i;
    json_t *one;
    if (json_is_string(content) && !told(r, content))
        return "the content is not in both of them";
    json_array_foreach (content, i, one)
        if (!told(r, json_is_string(one) ? one : json_object_get(one, "text")))
            return "the content is not in both of them";
    for (i = 0; i < sizeof thoughts / sizeof *thoughts; i++)
        if (!told(r, json_object_get(m, thoughts[i])))
            return "the thinking is not in both of them";
    json_array_foreach (calls, i, one) {
        const json_t *call = akv_chat_function(one);
        if (!json_is_string(json_object_get(call, "name")) || !told(r, json_object_get(call, "name")))
            return "the name of a call is not in both of them";
        if (!arguments_occur(r, json_object_get(call, "arguments")))
            return "the arguments of a call are not in them";
    }
    return NULL;
}

const char *akv_chat_body_differs(struct akv_buf *reply, const char *body, size_t body_len, const json_t *m, size_t *look_left)
{
    struct reply r = {.body = body, .body_len = body_len, .look_left = look_left};
    r.text[0] = *reply;
    akv_buf_init(&r.text[1], 0);
    akv_buf_init(&r.text[2], 0);
    unescape(&r.text[1], &r.text[0]);
    unescape(&r.text[2], &r.text[1]);
    const char *why = r.text[1].failed || r.text[2].failed ? "out of memory" : check(&r, m);
    if (why && !*look_left)
        why = "there is too much to compare";
    akv_buf_release(&r.text[1]);
    akv_buf_release(&r.text[2]);
    return why;
}
