#include "run/root.h"

#include "akv.h"

int akv_exit_status(int code)
{
    switch (code) {
    case AKV_E_NO:
        return 1;
    case AKV_E_USAGE:
        return 2;
    case AKV_E_INPUT:
        return 3;
    case AKV_E_INCOMPAT:
        return 4;
    default:
        return code < 0 ? 5 : 0;
    }
}

const char *akv_version(void)
{
    return AKV_VERSION;
}

int akv_model_open(struct akv_model **out, const char *path, unsigned flags, const char *pre, struct akv_err *err)
{
    return akv_model_load_pre(out, path, flags, pre, err);
}

void akv_model_close(struct akv_model *m)
{
    akv_model_unload(m);
}

const char *akv_model_notes(const struct akv_model *m)
{
    return m->warnings;
}
