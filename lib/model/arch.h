/* Private to the model loader: which architectures run, and what in a file would make one of them another model. */
#ifndef AKV_MODEL_ARCH_H
#define AKV_MODEL_ARCH_H

#include "model/model.h"

/* The row for the file's general.architecture; AKV_E_INCOMPAT with the reason when there is none. */
int akv_arch_pick(const struct akv_arch **out, const struct akv_gguf *g, struct akv_err *err);

/* Refuse keys that change what the architecture computes in a way that is not built here. */
int akv_arch_check_keys(const struct akv_arch *a, const struct akv_gguf *g, struct akv_err *err);

/* m->hp from the keys, with defaults; n_vocab stays 0 when no key gives it. */
int akv_arch_read_hparams(struct akv_model *m, struct akv_err *err);

/* m->layers, embd, output_norm, output: presence, shapes, types; notes gets a line for each tensor that nothing uses. */
struct akv_buf;
int akv_arch_bind(struct akv_model *m, struct akv_buf *notes, struct akv_err *err);

#endif
