/* gemma-3-270m Q4_K_M, sliding windows and four block types in one file: a text, and four prompts (English, code, JSON, long). */
#include "real_rig.h"

int main(void)
{
    struct real real = {.stem = "gemma3-270m-q4_k_m", .path = gemma_model(), .kl_last = 0.02};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_text, &real),
        cmocka_unit_test_prestate(test_prompts, &real),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
