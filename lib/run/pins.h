/* Between the stories of pins. */
#ifndef AKV_RUN_PINS_H
#define AKV_RUN_PINS_H

#include "store/store.h"

/* What the ref itself says; strings are the ref's. */
void akv_pin_describe(struct akv_pin *pin, const struct akv_ref *ref);

/* 1: the one pin of this name and a prefix of its root (hex; NULL: any). AKV_E_NO: there is none; AKV_E_USAGE: under several roots. */
int akv_pin_find(struct akv_store *s, const char *name, const char *root, struct akv_ref *out, struct akv_err *err);

#endif
