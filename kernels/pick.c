/*
 * Which table runs here: the best one, or the one asked for. __builtin_cpu_supports() includes the check that the operating system
 * saves the wide registers.
 */
#include <string.h>
#ifdef __x86_64__
#include <cpuid.h>
#endif

#include "kernels/kernels.h"

static bool have_scalar(void)
{
    return true;
}

#ifdef __x86_64__
static bool have_f16c(void) /* a feature that clang's builtin does not know by name */
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

static bool have_avx2(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && have_f16c();
}

static bool have_avx512(void)
{
    return have_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vnni");
}
#endif

static const struct {
    const struct akv_ops *ops;
    bool (*runs)(void);
} tables[] = {
/* best first */
#ifdef __x86_64__
    {&akv_ops_avx512, have_avx512},
    {&akv_ops_avx2, have_avx2},
#endif
    {&akv_ops_scalar, have_scalar},
};

const struct akv_ops *akv_ops_pick(const char *want)
{
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        if ((!want || strcmp(want, tables[i].ops->name) == 0) && tables[i].runs())
            return tables[i].ops;
    }
    return NULL;
}

const struct akv_ops *akv_ops_nth(size_t i)
{
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        if (tables[t].runs() && i-- == 0)
            return tables[t].ops;
    return NULL;
}
