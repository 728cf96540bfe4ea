/* akv-inspect --explain A B: why does B not go on from A? */
#include "inspect.h"

int inspect_explain(struct inspect *t, const char *a, const char *b)
{
    struct akv_basis *from = cmd_basis(a, t->o.store, t->model), *to = cmd_basis(b, t->o.store, t->model);
    const struct akv_request *r;
    int parts = 0;
    if (!akv_basis_request(to, 0))
        cmd_die(2, "%s: is a store: name a pin of it (pin:NAME), a file of records or a stream", b);
    for (size_t i = 0; (r = akv_basis_request(to, i)); i++) {
        struct akv_err err = {0};
        int rc = cmd_explain(&t->out, from, r, t->model, t->json, &err);
        if (rc < 0)
            cmd_report(&err);
        else
            t->n_done++;
        parts |= rc > 0;
    }
    akv_basis_close(from);
    akv_basis_close(to);
    return parts;
}
