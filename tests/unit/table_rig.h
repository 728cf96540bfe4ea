/* Fast kernel tables against the scalar one: each test runs on each of them that runs here. */
#ifndef TABLE_RIG_H
#define TABLE_RIG_H

#include "kern_rig.h"

static const struct akv_ops *fast; /* NULL: it does not run here */
static const struct akv_ops *const spec = &akv_ops_scalar;

#define NEED_TABLE()                                                                                                               \
    do {                                                                                                                           \
        if (!fast)                                                                                                                 \
            skip();                                                                                                                \
    } while (0)

static int use_avx2(void **state)
{
    (void)state;
    fast = akv_ops_pick("avx2");
    return 0;
}

static int use_avx512(void **state)
{
    (void)state;
    fast = akv_ops_pick("avx512");
    return 0;
}

#define EACH_TABLE(test) cmocka_unit_test_setup(test, use_avx2), cmocka_unit_test_setup(test, use_avx512)

#endif
