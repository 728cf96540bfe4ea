/* Tests: what stands behind `is`. */
#include "chat/jinja_str.h"

#define TEST(name, condition)                                                                                                      \
    static struct akv_jval name(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)                                \
    {                                                                                                                              \
        (void)r;                                                                                                                   \
        (void)a;                                                                                                                   \
        return akv_jbool(condition);                                                                                               \
    }

static bool sized_and_indexed(struct akv_jval v) /* undefined values look like empty sequences */
{
    return v.kind == AKV_J_STR || v.kind == AKV_J_DICT || v.kind == AKV_J_RANGE || v.kind == AKV_J_UNDEF ||
           (v.kind == AKV_J_LIST && v.u.l->type <= AKV_JL_TUPLE);
}

static bool callable(struct akv_jval v)
{
    return v.kind == AKV_J_MACRO || v.kind == AKV_J_BOUND || v.kind == AKV_J_FUNC || v.kind == AKV_J_LOOP || v.kind == AKV_J_UNDEF;
}

static bool iterable(struct akv_jval v)
{
    return v.kind == AKV_J_STR || v.kind == AKV_J_LIST || v.kind == AKV_J_DICT || v.kind == AKV_J_RANGE || v.kind == AKV_J_UNDEF ||
           v.kind == AKV_J_LOOP;
}

static bool remainder_is(struct akv_jrun *r, struct akv_jval v, struct akv_jval by, int64_t rest)
{
    if (!akv_jis_num(v) || !akv_jis_num(by))
        akv_jdie(r, "test needs numbers, not %s", akv_jtype(v));
    return akv_jequal(r, akv_jarith(r, AKV_JOP_MOD, v, by), akv_jint(rest));
}

TEST(is_defined, self.kind != AKV_J_UNDEF)
TEST(is_undefined, self.kind == AKV_J_UNDEF)
TEST(is_none, self.kind == AKV_J_NONE)
TEST(is_boolean, self.kind == AKV_J_BOOL)
TEST(is_true, self.kind == AKV_J_BOOL && self.u.i)
TEST(is_false, self.kind == AKV_J_BOOL && !self.u.i)
TEST(is_integer, self.kind == AKV_J_INT)
TEST(is_float, self.kind == AKV_J_FLOAT)
TEST(is_number, akv_jis_num(self))
TEST(is_string, self.kind == AKV_J_STR)
TEST(is_mapping, self.kind == AKV_J_DICT)
TEST(is_sequence, sized_and_indexed(self))
TEST(is_iterable, iterable(self))
TEST(is_callable, callable(self))
TEST(is_escaped, self.kind == AKV_J_STR && self.safe)
TEST(is_sameas, akv_jsame(self, a[0]))
TEST(is_odd, remainder_is(r, self, akv_jint(2), 1))
TEST(is_even, remainder_is(r, self, akv_jint(2), 0))
TEST(is_divisible, remainder_is(r, self, a[0], 0))
TEST(is_in, akv_jcontains(r, a[0], self))
TEST(is_eq, akv_jequal(r, self, a[0]))
TEST(is_ne, !akv_jequal(r, self, a[0]))
TEST(is_lt, akv_jcompare(r, AKV_JOP_LT, self, a[0]))
TEST(is_le, akv_jcompare(r, AKV_JOP_LE, self, a[0]))
TEST(is_gt, akv_jcompare(r, AKV_JOP_GT, self, a[0]))
TEST(is_ge, akv_jcompare(r, AKV_JOP_GE, self, a[0]))
TEST(is_lower, akv_jcased_as(akv_jto_str(r, self).u.s, false))
TEST(is_upper, akv_jcased_as(akv_jto_str(r, self).u.s, true))
TEST(is_filter, akv_jfilter_find(akv_jwant_str(r, self, "filter")) != NULL)
TEST(is_test, akv_jtest_find(akv_jwant_str(r, self, "test")) != NULL)

static const struct akv_jfunc tests[] = {
    {"defined", "", 0, is_defined, NULL},
    {"undefined", "", 0, is_undefined, NULL},
    {"none", "", 0, is_none, NULL},
    {"boolean", "", 0, is_boolean, NULL},
    {"true", "", 0, is_true, NULL},
    {"false", "", 0, is_false, NULL},
    {"integer", "", 0, is_integer, NULL},
    {"float", "", 0, is_float, NULL},
    {"number", "", 0, is_number, NULL},
    {"string", "", 0, is_string, NULL},
    {"mapping", "", 0, is_mapping, NULL},
    {"sequence", "", 0, is_sequence, NULL},
    {"iterable", "", 0, is_iterable, NULL},
    {"callable", "", 0, is_callable, NULL},
    {"escaped", "", 0, is_escaped, NULL},
    {"sameas", "other", 1, is_sameas, NULL},
    {"odd", "", 0, is_odd, NULL},
    {"even", "", 0, is_even, NULL},
    {"divisibleby", "num", 1, is_divisible, NULL},
    {"in", "seq", 1, is_in, NULL},
    {"eq", "other", 1, is_eq, NULL},
    {"equalto", "other", 1, is_eq, NULL},
    {"==", "other", 1, is_eq, NULL},
    {"ne", "other", 1, is_ne, NULL},
    {"!=", "other", 1, is_ne, NULL},
    {"lt", "other", 1, is_lt, NULL},
    {"lessthan", "other", 1, is_lt, NULL},
    {"<", "other", 1, is_lt, NULL},
    {"le", "other", 1, is_le, NULL},
    {"<=", "other", 1, is_le, NULL},
    {"gt", "other", 1, is_gt, NULL},
    {"greaterthan", "other", 1, is_gt, NULL},
    {">", "other", 1, is_gt, NULL},
    {"ge", "other", 1, is_ge, NULL},
    {">=", "other", 1, is_ge, NULL},
    {"lower", "", 0, is_lower, NULL},
    {"upper", "", 0, is_upper, NULL},
    {"filter", "", 0, is_filter, NULL},
    {"test", "", 0, is_test, NULL},
};

const struct akv_jfunc *akv_jtest_find(const struct akv_jstr *name)
{
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        if (akv_jstr_is(name, tests[i].name))
            return &tests[i];
    }
    return NULL;
}
