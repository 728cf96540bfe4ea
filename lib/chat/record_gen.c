/* Sampling settings of a record or a request. */
#include "chat/record.h"

#include <stdlib.h>
#include <string.h>

#define MAX_STOPS 256 /* far more than anyone sends; every one of them is searched for after each token */

/* The member, or NULL when it is absent or null. */
static const json_t *member(const json_t *obj, const char *key)
{
    const json_t *v = json_object_get(obj, key);
    return json_is_null(v) ? NULL : v;
}

static int read_count(const json_t *obj, const char *key, unsigned bit, uint32_t *out, unsigned *has, struct akv_err *err)
{
    const json_t *v = member(obj, key);
    if (!v)
        return 0;
    json_int_t x = json_integer_value(v);
    if (!json_is_integer(v) || x < 0 || x > UINT32_MAX)
        return akv_fail(err, AKV_E_INPUT, "%s: must be a whole number from 0 to %u", key, UINT32_MAX);
    *out = (uint32_t)x;
    *has |= bit;
    return 0;
}

static int read_real(const json_t *obj, const char *key, unsigned bit, double max, double *out, unsigned *has, struct akv_err *err)
{
    const json_t *v = member(obj, key);
    if (!v)
        return 0;
    double x = json_number_value(v);
    if (!json_is_number(v) || !(x >= 0 && x <= max))
        return akv_fail(err, AKV_E_INPUT, "%s: must be a number from 0 to %.0f", key, max);
    *out = x;
    *has |= bit;
    return 0;
}

static int read_seed(struct akv_gen *g, const json_t *obj, struct akv_err *err)
{
    const json_t *v = member(obj, "seed");
    if (!v)
        return 0;
    if (!json_is_integer(v) || json_integer_value(v) < 0)
        return akv_fail(err, AKV_E_INPUT, "seed: must be a whole number from 0 to %lld", (long long)INT64_MAX);
    g->seed = (uint64_t)json_integer_value(v);
    g->has |= AKV_GEN_SEED;
    return 0;
}

static int add_stop(struct akv_gen *g, const json_t *v, struct akv_err *err)
{
    size_t len = json_string_length(v);
    if (!json_is_string(v) || !len)
        return akv_fail(err, AKV_E_INPUT, "stop: must be a string or an array of strings, none of them empty");
    char *s = akv_strndup(json_string_value(v), len, err);
    if (!s)
        return AKV_E_IO;
    g->stop[g->n_stop] = s;
    g->stop_len[g->n_stop++] = len;
    return 0;
}

static int read_stop(struct akv_gen *g, const json_t *obj, struct akv_err *err)
{
    const json_t *v = member(obj, "stop");
    if (!v)
        return 0;
    size_t n = json_is_array(v) ? json_array_size(v) : 1;
    if (n > MAX_STOPS)
        return akv_fail(err, AKV_E_INPUT, "stop: %zu strings, over the limit of %d", n, MAX_STOPS);
    g->stop = akv_alloc(n, sizeof *g->stop, err);
    g->stop_len = akv_alloc(n, sizeof *g->stop_len, err);
    if (!g->stop || !g->stop_len)
        return AKV_E_IO;
    for (size_t i = 0; i < n; i++) {
        int rc = add_stop(g, json_is_array(v) ? json_array_get(v, i) : v, err);
        if (rc < 0)
            return rc;
    }
    g->has |= AKV_GEN_STOP;
    return 0;
}

int akv_gen_from_json(struct akv_gen *g, const json_t *obj, struct akv_err *err)
{
    *g = (struct akv_gen){0};
    int rc = json_is_object(obj) ? 0 : akv_fail(err, AKV_E_INPUT, "must be an object");
    if (rc == 0)
        rc = read_count(obj, "max_tokens", AKV_GEN_MAX_TOKENS, &g->max_tokens, &g->has, err);
    if (rc == 0)
        rc = read_real(obj, "temperature", AKV_GEN_TEMPERATURE, 1000, &g->temperature, &g->has, err);
    if (rc == 0)
        rc = read_count(obj, "top_k", AKV_GEN_TOP_K, &g->top_k, &g->has, err);
    if (rc == 0)
        rc = read_real(obj, "top_p", AKV_GEN_TOP_P, 1, &g->top_p, &g->has, err);
    if (rc == 0)
        rc = read_real(obj, "min_p", AKV_GEN_MIN_P, 1, &g->min_p, &g->has, err);
    if (rc == 0)
        rc = read_real(obj, "repeat_penalty", AKV_GEN_REPEAT, 1000, &g->repeat_penalty, &g->has, err);
    if (rc == 0 && g->has & AKV_GEN_REPEAT && g->repeat_penalty <= 0)
        rc = akv_fail(err, AKV_E_INPUT, "repeat_penalty: must be greater than 0");
    if (rc == 0)
        rc = read_seed(g, obj, err);
    if (rc == 0)
        rc = read_stop(g, obj, err);
    if (rc < 0)
        akv_gen_release(g);
    return rc;
}

void akv_gen_release(struct akv_gen *g)
{
    for (size_t i = 0; i < g->n_stop; i++)
        free(g->stop[i]);
    free(g->stop);
    free(g->stop_len);
    *g = (struct akv_gen){0};
}
