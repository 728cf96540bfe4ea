/* The files that a pin consists of, with the SHA-256 of each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "store/chain.h"
#include "store/ref_text.h"
#include "store/store_dir.h"

static int tell(const void *p, size_t n, const char *path, akv_manifest_fn *fn, void *ctx, struct akv_err *err)
{
    uint8_t sha[AKV_SHA_BYTES];
    char hex[AKV_SHA_HEX];
    int rc = akv_sha256(sha, p, n, err);
    if (rc < 0)
        return rc;
    akv_hex(hex, sha, sizeof sha);
    return fn(ctx, hex, path, err);
}

/* An object that is what it should be; its bytes are in s->object. */
static int tell_object(struct akv_store *s, const struct akv_ref *ref, const struct akv_link *link, akv_manifest_fn *fn, void *ctx,
                       struct akv_err *err)
{
    struct akv_object_name name;
    char path[sizeof name.s + 8];
    int rc = akv_chain_read(s, &ref->root, link, &name, err);
    if (rc < 0)
        return rc;
    snprintf(path, sizeof path, "objects/%s", name.s);
    return tell(s->object.bytes.data, s->object.bytes.len, path, fn, ctx, err);
}

int akv_store_manifest(struct akv_store *s, const struct akv_ref *ref, akv_manifest_fn *fn, void *ctx, struct akv_err *err)
{
    struct akv_link *links;
    size_t n;
    char text[AKV_REF_TEXT_MAX], path[AKV_PIN_NAME_MAX + 32], hex[AKV_SHA_HEX];
    int rc = akv_store_read_text(s, "VERSION", text, sizeof text, err);
    if (rc == 1)
        rc = tell(text, strlen(text), "VERSION", fn, ctx, err);
    if (rc < 0)
        return rc;
    rc = akv_chain_of(s, ref, &links, &n, err);
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = tell_object(s, ref, &links[i], fn, ctx, err);
    free(links);
    akv_object_forget(&s->object);
    if (rc < 0)
        return rc;
    akv_hex(hex, ref->root.b, sizeof ref->root.b);
    snprintf(path, sizeof path, "refs/%.16s/%s", hex, ref->name);
    rc = akv_store_read_text(s, path, text, sizeof text, err);
    return rc == 1  ? tell(text, strlen(text), path, fn, ctx, err)
           : rc < 0 ? rc
                    : akv_fail(err, AKV_E_NO, "%s: the pin is gone", ref->name);
}
