/* akv-split in parts. */
#ifndef AKV_CMD_SPLIT_TOOL_H
#define AKV_CMD_SPLIT_TOOL_H

#include "cmd.h"

/* ---- split_tree.c ---- */

/* The prefixes that requests share, as a table or as JSON Lines, and what a store that keeps them saves. */
void split_tree_write(struct cmd_out *out, struct akv_tree *t, bool json);
/* The prefixes that were emitted, and how many requests share each: a line each on standard error. */
void split_tree_tell(struct akv_tree *t);

#endif
