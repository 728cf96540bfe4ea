/* lib/akv.h: codes, version, and that every call survives hostile or empty arguments with words. */
#include "akv.h"

#include "tests/check.h"

#include <fcntl.h>

/* Exit statuses are the documented ones, and no failure looks like success. */
static void exit_statuses(void **state)
{
    (void)state;
    assert_int_equal(akv_exit_status(0), 0);
    assert_int_equal(akv_exit_status(17), 0);
    assert_int_equal(akv_exit_status(AKV_E_NO), 1);
    assert_int_equal(akv_exit_status(AKV_E_USAGE), 2);
    assert_int_equal(akv_exit_status(AKV_E_INPUT), 3);
    assert_int_equal(akv_exit_status(AKV_E_INCOMPAT), 4);
    assert_int_equal(akv_exit_status(AKV_E_IO), 5);
    for (int code = -1; code > -100; code--)
        assert_in_range(akv_exit_status(code), 1, 5);
}

/* The library says the version that it was built as. */
static void version(void **state)
{
    (void)state;
    assert_string_equal(akv_version(), AKV_VERSION);
}

/* What was never opened can be closed. */
static void closing_nothing(void **state)
{
    (void)state;
    akv_model_close(NULL);
    akv_session_close(NULL);
    akv_store_close(NULL);
    akv_input_close(NULL);
    akv_request_free(NULL);
}

static void refuses_model(const char *path, int code)
{
    struct akv_model *m = NULL;
    struct akv_err err = {0};
    assert_int_equal(akv_model_open(&m, path, 0, NULL, &err), code);
    assert_null(m);
    assert_int_equal(err.code, code);
    if (strncmp(err.msg, path, strlen(path)) != 0 || strchr(err.msg, '\n'))
        fail_msg("%s: said \"%s\"", path, err.msg);
    assert_int_equal(akv_model_open(&m, path, 0, NULL, NULL), code);
}

/* Things that are no model are refused in one line that begins with their path, with or without an err to fill. */
static void no_model(void **state)
{
    (void)state;
    refuses_model("/nonexistent/model.gguf", AKV_E_IO);
    refuses_model("/tmp", AKV_E_INPUT);
    refuses_model("/dev/null", AKV_E_INPUT);
    refuses_model("VERSION", AKV_E_INPUT);
}

static enum akv_kind kind_of(const void *bytes, size_t n)
{
    int fd[2];
    struct akv_input *in = NULL;
    struct akv_err err = {0};
    assert_int_equal(pipe(fd), 0);
    assert_int_equal(write(fd[1], bytes, n), n);
    close(fd[1]);
    assert_ok(akv_input_open(&in, fd[0], "stdin", NULL, &err), &err);
    enum akv_kind kind = akv_input_kind(in);
    akv_input_close(in);
    close(fd[0]);
    return kind;
}

/* Input is told apart by its first bytes, also when it is shorter than any magic. */
static void input_kinds(void **state)
{
    (void)state;
    assert_int_equal(kind_of("", 0), AKV_KIND_EMPTY);
    assert_int_equal(kind_of("{", 1), AKV_KIND_JSON);
    assert_int_equal(kind_of(" \n{\"prompt\":\"x\"}", 16), AKV_KIND_JSON);
    assert_int_equal(kind_of("GGUF\3\0\0\0", 8), AKV_KIND_GGUF);
    assert_int_equal(kind_of("GG", 2), AKV_KIND_JSON);
}

/* A descriptor that cannot be read is an error that names the input. */
static void unreadable_input(void **state)
{
    (void)state;
    struct akv_input *in = NULL;
    struct akv_err err = {0};
    int fd = open("/", O_RDONLY);
    assert_true(fd >= 0);
    assert_int_equal(akv_input_open(&in, fd, "some input", NULL, &err), AKV_E_IO);
    assert_non_null(strstr(err.msg, "some input"));
    assert_null(in);
    close(fd);
}

/* A store that is not there is an answer, not a failure, and nothing is made. */
static void missing_store(void **state)
{
    (void)state;
    struct akv_store *s = NULL;
    struct akv_err err = {0};
    assert_int_equal(akv_store_open(&s, "/nonexistent/store", 0, &err), AKV_E_NO);
    assert_null(s);
    assert_non_null(strstr(err.msg, "/nonexistent/store"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exit_statuses), cmocka_unit_test(version),     cmocka_unit_test(closing_nothing),
        cmocka_unit_test(no_model),      cmocka_unit_test(input_kinds), cmocka_unit_test(unreadable_input),
        cmocka_unit_test(missing_store),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
