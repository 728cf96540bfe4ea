#include "engine/order.h"

#include <string.h>

#define DIGIT_BITS 11u
#define DIGITS (1u << DIGIT_BITS)

/* Bits that ascend with the float: negative ones are complemented, the sign of the others is set. */
uint64_t akv_order_key(float logit, uint32_t id)
{
    uint32_t u;
    logit += 0.0f; /* -0 and +0 are equal logits */
    memcpy(&u, &logit, sizeof u);
    u = u & 0x80000000u ? ~u : u | 0x80000000u;
    return (uint64_t)~u << 32 | id;
}

float akv_order_logit(uint64_t key)
{
    uint32_t u = ~(uint32_t)(key >> 32);
    u = u & 0x80000000u ? u & 0x7fffffffu : ~u;
    float logit;
    memcpy(&logit, &u, sizeof logit);
    return logit;
}

static void count_digits(const uint64_t *keys, size_t n, unsigned shift, uint32_t starts[DIGITS])
{
    memset(starts, 0, DIGITS * sizeof *starts);
    for (size_t i = 0; i < n; i++)
        starts[keys[i] >> shift & (DIGITS - 1)]++;
    uint32_t at = 0;
    for (size_t d = 0; d < DIGITS; d++) {
        uint32_t count = starts[d];
        starts[d] = at;
        at += count;
    }
}

/* Radix sort of the logit's 32 bits; stable, and the ids come in ascending, so they need no pass. */
static void sort_all(uint64_t *keys, size_t n, uint64_t *tmp)
{
    uint32_t starts[DIGITS];
    uint64_t *from = keys, *to = tmp;
    for (unsigned shift = 32; shift < 64; shift += DIGIT_BITS) {
        count_digits(from, n, shift, starts);
        for (size_t i = 0; i < n; i++)
            to[starts[from[i] >> shift & (DIGITS - 1)]++] = from[i];
        uint64_t *swap = from;
        from = to;
        to = swap;
    }
    if (from != keys)
        memcpy(keys, from, n * sizeof *keys);
}

/* heap[0..n): the largest on top */
static void sift_down(uint64_t *heap, size_t n, size_t i, uint64_t key)
{
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && heap[child + 1] > heap[child])
            child++;
        if (heap[child] <= key)
            break;
        heap[i] = heap[child];
    }
    heap[i] = key;
}

static void select_first(uint64_t *keys, size_t n, size_t k)
{
    for (size_t i = k / 2; i-- > 0;)
        sift_down(keys, k, i, keys[i]);
    for (size_t i = k; i < n; i++) {
        if (keys[i] < keys[0]) {
            uint64_t key = keys[i];
            keys[i] = keys[0];
            sift_down(keys, k, 0, key);
        }
    }
    for (size_t left = k; left > 1;) { /* the largest goes last */
        uint64_t last = keys[--left];
        keys[left] = keys[0];
        sift_down(keys, left, 0, last);
    }
}

void akv_order_first(uint64_t *keys, size_t n, size_t k, uint64_t *tmp)
{
    if (!k)
        return;
    if (k <= n / 16) /* a heap of k beats three passes over all */
        select_first(keys, n, k);
    else
        sort_all(keys, n, tmp);
}
