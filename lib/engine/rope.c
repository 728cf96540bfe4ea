#include "engine/rope.h"

#include "engine/dmath.h"

void akv_rope_freqs(double *freq, uint32_t n_rot, float base)
{
    double log2_base = dm_log2(base);
    for (uint32_t i = 0; i < n_rot / 2; i++)
        freq[i] = dm_exp2(-(2.0 * i / n_rot) * log2_base);
}

void akv_rope_angles(float *cs, const double *freq, size_t n, uint32_t pos)
{
    for (size_t i = 0; i < n; i++) {
        double c, s;
        dm_cos_sin(pos * freq[i], &c, &s);
        cs[2 * i] = (float)c;
        cs[2 * i + 1] = (float)s;
    }
}
