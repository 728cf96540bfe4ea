/*
 * akv: reuse of computed prefixes, bit for bit.
 *
 * The one public header of libakv. Conventions that hold throughout:
 *  - Functions return 0 (or a count, where said) or a negative AKV_E code; the last parameter,
 *    struct akv_err *, may be NULL and otherwise receives the first error's text.
 *  - The library never prints, never exits, reads no environment and touches no signals.
 *  - Strings are UTF-8; token ids are uint32_t; positions count tokens from 0.
 *  - An object may be used by one thread at a time; struct akv_model may be shared by many.
 */
#ifndef AKV_H
#define AKV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Error codes. akv_exit_status() maps them to the exit status of the tools. */
#define AKV_E_NO (-1)       /* the answer is no: a required hit missed, verification failed, files differ */
#define AKV_E_USAGE (-2)    /* the caller asked for something that makes no sense */
#define AKV_E_INPUT (-3)    /* bad input or damaged data */
#define AKV_E_INCOMPAT (-4) /* another model, version or architecture */
#define AKV_E_IO (-5)       /* I/O, memory or another resource */
#define AKV_E_CANCEL (-6)   /* stopped by the caller's cancel flag or callback */

#define AKV_ERR_BYTES 1024

/* An error: msg reads "what: why", one line, control bytes escaped, ready to print after a tool's name. */
struct akv_err {
    int code; /* 0: no error yet */
    char msg[AKV_ERR_BYTES];
};

#ifdef __cplusplus
}
#endif
#endif
