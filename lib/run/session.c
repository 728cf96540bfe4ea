#include "run/session.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Where positions end: the RoPE tables are exact up to there (akv-numerics(7)). */
#define CTX_MAX (1u << 20)

/* Pages beyond twice the context: room for tails and copies on write. */
#define SPARE_PAGES 8u

double akv_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

void akv_session_note(struct akv_session *s, const char *fmt, ...)
{
    char text[AKV_ERR_BYTES];
    if (!s->opts.note)
        return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    s->opts.note(s->opts.ctx, text);
}

bool akv_session_cancelled(const struct akv_session *s)
{
    return s->opts.cancel && *s->opts.cancel;
}

static uint32_t ctx_pages(const struct akv_session *s)
{
    return (s->opts.n_ctx + AKV_PAGE_TOKENS - 1) / AKV_PAGE_TOKENS;
}

static int copy_options(struct akv_session *s, const struct akv_session_opts *o, struct akv_err *err)
{
    s->opts = *o; /* its strings are copied where they are needed later */
    if (o->store_dir && !(s->store_dir = akv_strndup(o->store_dir, strlen(o->store_dir), err)))
        return AKV_E_IO;
    if (o->cache_dir && !(s->cache_dir = akv_strndup(o->cache_dir, strlen(o->cache_dir), err)))
        return AKV_E_IO;
    if (o->salt) {
        s->salt = akv_alloc(o->salt_bytes, 1, err);
        if (!s->salt)
            return AKV_E_IO;
        memcpy(s->salt, o->salt, o->salt_bytes);
    }
    s->ctx_given = o->n_ctx != 0;
    if (!s->opts.n_ctx)
        s->opts.n_ctx = s->model->hp.n_ctx_train < CTX_MAX ? s->model->hp.n_ctx_train : CTX_MAX;
    if (!s->opts.n_threads)
        s->opts.n_threads = 1;
    return 0;
}

int akv_session_open(struct akv_session **out, const struct akv_model *m, const struct akv_session_opts *opts, struct akv_err *err)
{
    if (!m->arch)
        return akv_fail(err, AKV_E_USAGE, "session: the model was opened for its vocabulary only");
    struct akv_session *s = akv_alloc(1, sizeof *s, err);
    if (!s)
        return AKV_E_IO;
    s->model = m;
    s->out_fd = -1;
    akv_buf_init(&s->coded, 0);
    akv_buf_init(&s->scratch, 0);
    int rc = copy_options(s, opts, err);
    if (rc < 0)
        goto fail;
    if (opts->save && !opts->store_dir) {
        rc = akv_fail(err, AKV_E_USAGE, "saving needs a store");
        goto fail;
    }
    if (opts->salt && opts->salt_bytes < AKV_SALT_MIN) {
        rc = akv_fail(err, AKV_E_USAGE, "salt: %zu bytes: at least %d are needed", opts->salt_bytes, AKV_SALT_MIN);
        goto fail;
    }
    if (s->opts.n_ctx > CTX_MAX) {
        rc = akv_fail(err, AKV_E_USAGE, "context of %u tokens: at most %u", s->opts.n_ctx, CTX_MAX);
        goto fail;
    }
    akv_engine_geom(m, s->opts.kv, &s->geom);
    s->ops = akv_ops_pick(opts->cpu);
    if (!s->ops) {
        rc = akv_fail(err, AKV_E_USAGE, "kernels '%s': not known, or not for this processor", opts->cpu);
        goto fail;
    }
    rc = akv_pool_open(&s->pool, s->opts.n_threads, err);
    if (rc < 0)
        goto fail;
    s->keys = akv_alloc(ctx_pages(s) + 1, sizeof *s->keys, err);
    s->coders = akv_alloc(s->opts.n_threads, sizeof *s->coders, err);
    if (!s->keys || !s->coders) {
        rc = AKV_E_IO;
        goto fail;
    }
    *out = s;
    return 0;
fail:
    akv_session_close(s);
    return rc;
}

void akv_session_close(struct akv_session *s)
{
    if (!s)
        return;
    if (s->seq_open)
        akv_seq_close(&s->seq);
    akv_outbox_close(s->outbox);
    akv_writer_abort(s->writer);
    akv_store_close(s->store);
    akv_engine_close(s->engine);
    akv_arena_close(s->arena);
    akv_pool_close(s->pool);
    akv_sampler_free(s->sampler);
    akv_head_release(&s->head);
    akv_buf_release(&s->coded);
    for (unsigned i = 0; s->coders && i < s->opts.n_threads; i++)
        akv_coder_release(&s->coders[i]);
    free(s->coders);
    akv_buf_release(&s->scratch);
    free(s->logits);
    free(s->keys);
    free(s->store_dir);
    free(s->cache_dir);
    free(s->salt);
    free(s->out_name);
    free(s);
}

int akv_session_need_head(struct akv_session *s, struct akv_err *err)
{
    if (s->has_head)
        return 0;
    int rc = akv_root_head(&s->head, s->model, s->opts.kv, s->pool, s->cache_dir, s->salt, s->opts.salt_bytes, err);
    s->has_head = rc == 0;
    return rc;
}

/* A context that was asked for is one that may be filled; the model's own may be larger than anybody will need here. */
static int check_memory(const struct akv_session *s, struct akv_err *err)
{
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    uint64_t have = pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : UINT64_MAX;
    uint64_t need = ctx_pages(s) * (uint64_t)akv_geom_page_bytes(&s->geom);
    if (!s->ctx_given || need <= have)
        return 0;
    return akv_fail(err, AKV_E_IO, "context of %u tokens: its KV takes %llu MiB, this machine has %llu MiB of memory",
                    s->opts.n_ctx, (unsigned long long)(need >> 20), (unsigned long long)(have >> 20));
}

int akv_session_need_arena(struct akv_session *s, struct akv_err *err)
{
    if (s->arena)
        return 0;
    int rc = check_memory(s, err);
    return rc < 0 ? rc : akv_arena_open(&s->arena, &s->geom, (size_t)ctx_pages(s) * 2 + SPARE_PAGES, err);
}

int akv_session_need_engine(struct akv_session *s, struct akv_err *err)
{
    if (s->engine)
        return 0;
    uint32_t rows = s->opts.n_ctx < AKV_STEP_ROWS ? s->opts.n_ctx : AKV_STEP_ROWS;
    return akv_engine_open(&s->engine, s->model, s->ops, s->pool, s->opts.kv, rows, err);
}

int akv_session_need_writer(struct akv_session *s, struct akv_err *err)
{
    if (s->writer || s->out_fd < 0)
        return 0;
    int rc = akv_session_need_head(s, err);
    akv_pipe_widen(s->out_fd);
    if (rc == 0)
        rc = akv_writer_open(&s->writer, s->out_fd, s->out_name, &s->head, err);
    if (rc == 0)
        akv_writer_set_cancel(s->writer, s->opts.cancel);
    return rc;
}

int akv_session_need_store(struct akv_session *s, struct akv_err *err)
{
    if (s->store || !s->store_dir || s->no_store_yet)
        return 0;
    struct akv_err why = {0};
    int rc = akv_store_open(&s->store, s->store_dir, s->opts.save ? AKV_STORE_CREATE : 0, &why);
    if (rc == 0) {
        akv_store_set_cancel(s->store, s->opts.cancel);
        return akv_session_need_head(s, err);
    }
    s->no_store_yet = true;
    if (s->opts.save) /* what was asked is answered without it, and the failure told at the end */
        s->save_err = why;
    else if (rc == AKV_E_NO)
        akv_session_note(s, "%s", why.msg);
    else
        return akv_fail(err, rc, "%s", why.msg);
    return 0;
}

int akv_session_output(struct akv_session *s, int fd, const char *name, bool without_input, struct akv_err *err)
{
    if (s->out_fd >= 0)
        return akv_fail(err, AKV_E_USAGE, "the session has an output already");
    s->out_name = akv_strndup(name, strlen(name), err);
    if (!s->out_name)
        return AKV_E_IO;
    s->out_fd = fd;
    s->without_input = without_input;
    return 0;
}

int akv_session_finish(struct akv_session *s, struct akv_err *err)
{
    if (s->out_fd < 0)
        return 0;
    int rc = akv_session_need_writer(s, err);
    if (rc < 0)
        return rc;
    rc = akv_writer_close(s->writer, NULL, err);
    s->writer = NULL;
    s->out_fd = -1;
    free(s->out_name);
    s->out_name = NULL;
    return rc;
}
