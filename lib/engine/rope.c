#include "engine/rope.h"

#include "engine/dmath.h"

void akv_rope_freqs(double *freq, uint32_t n_rot, float base)
{
    double log2_base = dm_log2(base);
    for (uint32_t i = 0; i < n_rot / 2; i++)
        freq[i] = dm_exp2(-(2.0 * i / n_rot) * log2_base);
}

/* The dimension, as a real number, whose frequency turns `turns` times within n_ctx positions. */
static double dim_of_turns(uint32_t n_rot, float base, uint32_t n_ctx, double turns)
{
    return n_rot * dm_log(n_ctx / (turns * DM_2PI)) / (2 * dm_log(base));
}

static double round_down(double x)
{
    double n = dm_rint(x);
    return n > x ? n - 1 : n;
}

static double clamp(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

/* Dimensions that turn often keep their frequency, those that turn seldom are interpolated, a ramp leads from one to the other. */
static void stretch_yarn(double *freq, uint32_t n_rot, float base, const struct akv_rope_scaling *s)
{
    double from = round_down(dim_of_turns(n_rot, base, s->n_ctx_orig, s->beta_fast));
    double to = -round_down(-dim_of_turns(n_rot, base, s->n_ctx_orig, s->beta_slow));
    from = from > 0 ? from : 0;
    to = to < n_rot - 1 ? to : n_rot - 1;
    double length = to - from > 0.001 ? to - from : 0.001;
    for (uint32_t i = 0; i < n_rot / 2; i++) {
        double keep = (1 - clamp((i - from) / length, 0, 1)) * s->ext_factor;
        freq[i] = freq[i] / s->factor * (1 - keep) + freq[i] * keep;
    }
}

double akv_rope_scale(double *freq, uint32_t n_rot, float base, const float *factors, const struct akv_rope_scaling *s)
{
    for (uint32_t i = 0; factors && i < n_rot / 2; i++)
        freq[i] /= factors[i];
    if (s->kind == AKV_ROPE_YARN && s->ext_factor > 0) {
        stretch_yarn(freq, n_rot, base, s);
        return s->attn_factor * (1 + 0.1 * dm_log(s->factor));
    }
    if (s->kind != AKV_ROPE_PLAIN)
        for (uint32_t i = 0; i < n_rot / 2; i++)
            freq[i] /= s->factor;
    return s->attn_factor;
}

void akv_rope_angles(float *cs, const double *freq, size_t n, double scale, uint32_t pos)
{
    for (size_t i = 0; i < n; i++) {
        double c, s;
        dm_cos_sin(pos * freq[i], &c, &s);
        cs[2 * i] = (float)(c * scale);
        cs[2 * i + 1] = (float)(s * scale);
    }
}
