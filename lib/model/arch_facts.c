/* RoPE and windows as text, for the root. */
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "model/model.h"

struct writer {
    struct akv_model_facts *f;
    size_t used; /* of f->text */
};

static void add(struct writer *w, const char *tag, const char *value)
{
    size_t n = strlen(value) + 1;
    char *to = memcpy(w->f->text + w->used, value, n);
    w->used += n;
    w->f->fact[w->f->n].tag = tag;
    w->f->fact[w->f->n++].value = to;
}

static void add_u32(struct writer *w, const char *tag, uint32_t v)
{
    char text[16];
    snprintf(text, sizeof text, "%u", v);
    add(w, tag, text);
}

static void add_float(struct writer *w, const char *tag, float v)
{
    char text[16];
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    snprintf(text, sizeof text, "%08x", bits);
    add(w, tag, text);
}

static int add_factors(struct writer *w, const struct akv_tensor *t, struct akv_err *err)
{
    uint8_t sha[AKV_SHA_BYTES];
    char hex[AKV_SHA_HEX];
    int rc = t ? akv_sha256(sha, t->data, t->bytes, err) : 0;
    if (rc == 0 && t) {
        akv_hex(hex, sha, sizeof sha);
        add(w, "rope.factors", hex);
    }
    return rc;
}

/* One letter a layer: l sees the window, g all. */
static void add_windows(struct writer *w, const struct akv_model *m)
{
    char layers[AKV_MAX_LAYERS + 1] = "";
    for (uint32_t i = 0; i < m->hp.n_layers; i++)
        layers[i] = m->layers[i].local ? 'l' : 'g';
    add_u32(w, "window", m->hp.window);
    add(w, "window.layers", layers);
}

int akv_model_facts(const struct akv_model *m, struct akv_model_facts *out, struct akv_err *err)
{
    const struct akv_hparams *hp = &m->hp;
    const struct akv_rope_scaling *s = &hp->scaling;
    struct writer w = {.f = out};
    out->n = 0;
    if (s->attn_factor != 1)
        add_float(&w, "rope.attn_factor", s->attn_factor);
    add_float(&w, "rope.base", hp->rope_base);
    if (hp->window)
        add_float(&w, "rope.base.local", hp->rope_base_local);
    add_u32(&w, "rope.dims", hp->n_rot);
    if (s->kind != AKV_ROPE_PLAIN)
        add_float(&w, "rope.factor", s->factor);
    int rc = add_factors(&w, m->rope_factors, err);
    if (s->kind != AKV_ROPE_PLAIN)
        add(&w, "rope.scaling", s->kind == AKV_ROPE_LINEAR ? "linear" : "yarn");
    add(&w, "rope.style", hp->rope_style == AKV_ROPE_PAIRS ? "pairs" : "halves");
    if (s->kind == AKV_ROPE_YARN) {
        add_float(&w, "rope.yarn.beta_fast", s->beta_fast);
        add_float(&w, "rope.yarn.beta_slow", s->beta_slow);
        add_u32(&w, "rope.yarn.context", s->n_ctx_orig);
        add_float(&w, "rope.yarn.ext_factor", s->ext_factor);
    }
    if (hp->window)
        add_windows(&w, m);
    else
        add(&w, "window", "none");
    return rc;
}
