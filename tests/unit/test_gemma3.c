/* gemma-3-270m Q4_K_M, sliding windows and four block types in one file: a text, and four prompts (English, code, JSON, long). */
#include "real_rig.h"

static struct real gemma3(void)
{
    return (struct real){.stem = "gemma3-270m-q4_k_m", .path = gemma_model(), .kl_last = 0.02};
}

static void test_text(void **unused)
{
    (void)unused;
    struct real real = gemma3();
    check_text(&real);
}

static void test_prompts(void **unused)
{
    (void)unused;
    struct real real = gemma3();
    check_prompts(&real);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_prompts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
