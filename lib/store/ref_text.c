#include "store/ref_text.h"

#include <string.h>

#include "base/bytes.h"

#define TEXT_MAX 200

static void put_hex(struct akv_buf *b, const char *key, const uint8_t bytes[AKV_SHA_BYTES])
{
    char hex[AKV_SHA_HEX];
    akv_hex(hex, bytes, AKV_SHA_BYTES);
    akv_buf_printf(b, "%s %s\n", key, hex);
}

/* A line of text for people: what would not fit on one is cut or left out. */
static void put_text(struct akv_buf *b, const char *key, const char *text)
{
    size_t n = text ? strlen(text) : 0;
    if (n > TEXT_MAX)
        for (n = TEXT_MAX; n && ((unsigned char)text[n] & 0xc0) == 0x80;)
            n--;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            return;
    if (n)
        akv_buf_printf(b, "%s %.*s\n", key, (int)n, text);
}

int akv_ref_format(const struct akv_ref *ref, struct akv_buf *text, struct akv_err *err)
{
    const char *made_by = ref->made_by ? ref->made_by : "";
    if (strlen(made_by) > TEXT_MAX || strchr(made_by, '\n'))
        return akv_fail(err, AKV_E_USAGE, "ref: made-by is one line of at most %d bytes", TEXT_MAX);
    akv_buf_puts(text, "akv-ref 1\n");
    put_hex(text, "root", ref->root.b);
    put_hex(text, "tip", ref->tip.b);
    akv_buf_printf(text, "tokens %llu\nbytes %llu\n", (unsigned long long)ref->n_tokens, (unsigned long long)ref->bytes);
    put_hex(text, "content", ref->content);
    akv_buf_printf(text, "made-by %s\n", made_by);
    put_text(text, "model", ref->model);
    put_text(text, "options", ref->options);
    if (ref->has_input)
        put_hex(text, "input", ref->input);
    return akv_buf_check(text, "ref", err);
}

/* The value of a key: a line of its own. */
static const char *value_of(const char *text, size_t len, const char *key, size_t *value_len)
{
    size_t key_len = strlen(key);
    for (const char *at = text, *end = text + len; at < end;) {
        const char *nl = memchr(at, '\n', (size_t)(end - at));
        if (!nl)
            break; /* a line that was cut is none */
        size_t n = (size_t)(nl - at);
        if (n > key_len && !memcmp(at, key, key_len) && at[key_len] == ' ') {
            *value_len = n - key_len - 1;
            return at + key_len + 1;
        }
        at = nl + 1;
    }
    return NULL;
}

static bool get_hex(uint8_t out[AKV_SHA_BYTES], const char *text, size_t len, const char *key)
{
    size_t n;
    const char *v = value_of(text, len, key, &n);
    return v && akv_unhex(out, AKV_SHA_BYTES, v, n);
}

static bool get_u64(uint64_t *out, const char *text, size_t len, const char *key)
{
    size_t n;
    const char *v = value_of(text, len, key, &n);
    *out = 0;
    if (!v || n < 1 || n > 19)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (v[i] < '0' || v[i] > '9')
            return false;
        *out = *out * 10 + (uint64_t)(v[i] - '0');
    }
    return true;
}

/* NULL when there is no such line, or it is not UTF-8. */
static int get_text(char **out, const char *text, size_t len, const char *key, struct akv_err *err)
{
    size_t n;
    const char *v = value_of(text, len, key, &n);
    if (!v || !akv_utf8_valid(v, n, NULL))
        return 0;
    *out = akv_strndup(v, n, err);
    return *out ? 0 : AKV_E_IO;
}

int akv_ref_parse(struct akv_ref *out, const char *text, size_t len, struct akv_err *err)
{
    uint64_t version;
    size_t n = 0;
    *out = (struct akv_ref){0};
    if (len < 8 || memcmp(text, "akv-ref ", 8) || !get_u64(&version, text, len, "akv-ref"))
        return akv_fail(err, AKV_E_INPUT, "not a ref");
    if (version != 1)
        return akv_fail(err, AKV_E_INCOMPAT, "the ref has version %llu, this akv knows version 1", (unsigned long long)version);
    const char *made_by = value_of(text, len, "made-by", &n);
    if (len >= AKV_REF_TEXT_MAX || !get_hex(out->root.b, text, len, "root") || !get_hex(out->tip.b, text, len, "tip") ||
        !get_hex(out->content, text, len, "content") || !get_u64(&out->n_tokens, text, len, "tokens") ||
        !get_u64(&out->bytes, text, len, "bytes") || !made_by)
        return akv_fail(err, AKV_E_INPUT, "a damaged ref");
    out->made_by = akv_strndup(made_by, n, err);
    out->has_input = get_hex(out->input, text, len, "input");
    if (!out->made_by || get_text(&out->model, text, len, "model", err) < 0 ||
        get_text(&out->options, text, len, "options", err) < 0)
        return AKV_E_IO;
    return 0;
}
