/*
 * Shared by the unit tests (cmocka): where things are, and skipping with a count when they are absent.
 *   AKV_SHARED  reference data made elsewhere (default: ../shared beside the repository)
 *   AKV_TEST_MODEL  the demo model (default: models/SmolLM2-135M-Instruct.Q4_1.gguf)
 *   AKV_TEST_GEMMA  another real one (default: models/gemma-3-270m-q4_k_m.gguf)
 * A test that lacks its data calls skip().
 */
#ifndef AKV_TESTS_CHECK_H
#define AKV_TESTS_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* Path of a file under the shared directory in a static buffer (a few rotate), or NULL when it is absent. */
static inline const char *shared_file(const char *rel)
{
    static char paths[4][4096];
    static unsigned turn;
    const char *dir = getenv("AKV_SHARED");
    char *p = paths[turn++ % 4];
    snprintf(p, sizeof paths[0], "%s/%s", dir ? dir : "../shared", rel);
    return access(p, R_OK) == 0 ? p : NULL;
}

/* The model that an environment variable names, or else one that scripts/get-model fetched; NULL when it is absent. */
static inline const char *real_model(const char *variable, const char *fetched)
{
    const char *m = getenv(variable);
    if (!m)
        m = fetched;
    return access(m, R_OK) == 0 ? m : NULL;
}

static inline const char *demo_model(void)
{
    return real_model("AKV_TEST_MODEL", "models/SmolLM2-135M-Instruct.Q4_1.gguf");
}

static inline const char *gemma_model(void)
{
    return real_model("AKV_TEST_GEMMA", "models/gemma-3-270m-q4_k_m.gguf");
}

/* Fail with the error's text when rc is negative. */
#define assert_ok(rc, err)                                                                                                         \
    do {                                                                                                                           \
        if ((rc) < 0)                                                                                                              \
            fail_msg("%s", (err)->msg);                                                                                            \
    } while (0)

#endif
