/* SmolLM2-135M-Instruct Q4_1: a text, and eight prompts (chat, code, tools, Unicode, long). */
#include "real_rig.h"

int main(void)
{
    struct real real = {.stem = "smollm2-135m-q4_1", .path = demo_model(), .kl_last = 0.02};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_text, &real),
        cmocka_unit_test_prestate(test_prompts, &real),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
