/* What prompts are compared with: a store, a pin, a file of records or a stream. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cmd.h"

static struct akv_store *open_store(const char *dir)
{
    struct akv_err err = {0};
    struct akv_store *s;
    if (akv_store_open(&s, dir, 0, &err) < 0)
        cmd_die_err(&err);
    return s;
}

static void read_file(struct akv_basis *b, const char *path, const struct akv_model *m)
{
    struct akv_err err = {0};
    struct cmd_inputs inputs = {0};
    char *name = (char *)(uintptr_t)path;
    cmd_first_input(&inputs, 1, &name);
    if (akv_basis_read(b, inputs.in, m, &err) < 0)
        cmd_die_err(&err);
    cmd_input_done(&inputs);
}

struct akv_basis *cmd_basis(const char *what, const char *store, const struct akv_model *m)
{
    struct akv_err err = {0};
    struct akv_basis *b;
    struct stat st;
    if (akv_basis_open(&b, &err) < 0)
        cmd_die_err(&err);
    bool is_pin = !strncmp(what, "pin:", 4), is_dir = !is_pin && stat(what, &st) == 0 && S_ISDIR(st.st_mode);
    struct akv_store *s = is_pin ? open_store(store ? store : cmd_default_store()) : is_dir ? open_store(what) : NULL;
    if (is_pin)
        akv_basis_pin(b, s, what + 4, NULL, &err);
    else if (is_dir)
        akv_basis_store(b, s, &err);
    else
        read_file(b, what, m);
    if (err.code)
        cmd_die_err(&err);
    akv_store_close(s);
    return b;
}

int cmd_explain(struct cmd_out *out, struct akv_basis *b, const struct akv_request *r, const struct akv_model *m, bool json,
                struct akv_err *err)
{
    char *line;
    int rc = akv_basis_explain(b, r, m, json, &line, err);
    if (rc <= 0)
        return rc;
    char *shown = json ? cmd_strdup(line) : cmd_escaped(line); /* ids may hold anything */
    cmd_out_line(out, shown);
    free(shown);
    free(line);
    return 1;
}
