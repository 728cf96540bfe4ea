/* Ordering candidates by logit descending, id ascending (numerics, Sampling), in bounded time whatever the logits are. */
#ifndef AKV_ENGINE_ORDER_H
#define AKV_ENGINE_ORDER_H

#include <stddef.h>
#include <stdint.h>

/*
 * A candidate is one u64 that ascends in the wanted order: the complement of the logit's ordered bits above, the id below. All
 * differ, so every correct way to sort gives the same sequence.
 */
uint64_t akv_order_key(float logit, uint32_t id);
float akv_order_logit(uint64_t key); /* -0 comes back as +0 */
static inline uint32_t akv_order_id(uint64_t key)
{
    return (uint32_t)key;
}

/* Bring the first k of keys[n] in order to the front, sorted; k <= n. The others follow in no order. tmp: [n]. */
void akv_order_first(uint64_t *keys, size_t n, size_t k, uint64_t *tmp);

#endif
