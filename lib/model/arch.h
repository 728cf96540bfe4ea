/* Private to the model loader: which architectures run, and what in a file would make one of them another model. */
#ifndef AKV_MODEL_ARCH_H
#define AKV_MODEL_ARCH_H

#include "model/model.h"

struct akv_buf;

/* The row for the file's general.architecture; AKV_E_INCOMPAT with the reason when there is none. */
int akv_arch_pick(const struct akv_arch **out, const struct akv_gguf *g, struct akv_err *err);

/* Refuse keys that change what the architecture computes in a way that is not built here. */
int akv_arch_check_keys(const struct akv_arch *a, const struct akv_gguf *g, struct akv_err *err);

/* m->hp from the keys, with defaults, and m->layers with `local` set; n_vocab stays 0 when no key gives it. */
int akv_arch_read_hparams(struct akv_model *m, struct akv_err *err);

/* The part of it about positions: hp.scaling, window, rope_base_local, and which layers are local. */
int akv_arch_read_positions(struct akv_model *m, struct akv_err *err);

/* The tensors of m and m->layers: presence, shapes, types; notes gets a line for each tensor that nothing uses. */
int akv_arch_bind(struct akv_model *m, struct akv_buf *notes, struct akv_err *err);

/* Typed access below the architecture's name; as akv_gguf_u32() and its kin. */
int akv_arch_u32(const struct akv_model *m, const char *name, uint32_t *out, struct akv_err *err);
int akv_arch_f32(const struct akv_model *m, const char *name, float *out, struct akv_err *err);
int akv_arch_str(const struct akv_model *m, const char *name, struct akv_str *out, struct akv_err *err);
const struct akv_gguf_kv *akv_arch_find(const struct akv_model *m, const char *name);

/* A finite float above zero, or fallback when there is no key; fallback 0: the key is required. */
int akv_arch_positive(const struct akv_model *m, const char *name, float fallback, float *out, struct akv_err *err);

/* AKV_E_INPUT about such a key. */
int akv_arch_wrong_key(const struct akv_model *m, const char *name, struct akv_err *err, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

#endif
