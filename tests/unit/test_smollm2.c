/* SmolLM2-135M-Instruct Q4_1: a text, and eight prompts (chat, code, tools, Unicode, long). */
#include "real_rig.h"

static struct real smollm2(void)
{
    return (struct real){.stem = "smollm2-135m-q4_1", .path = demo_model(), .kl_last = 0.02};
}

static void test_text(void **unused)
{
    (void)unused;
    struct real real = smollm2();
    check_text(&real);
}

static void test_prompts(void **unused)
{
    (void)unused;
    struct real real = smollm2();
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
