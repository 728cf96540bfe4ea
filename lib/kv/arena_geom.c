#include <string.h>

#include "kv/arena.h"

#define PAGE AKV_PAGE_TOKENS

size_t akv_geom_elem(const struct akv_geom *g)
{
    return g->dtype == AKV_KV_F32 ? 4 : 2;
}

size_t akv_geom_token_bytes(const struct akv_geom *g)
{
    return (size_t)g->n_layers * g->n_kv_heads * ((size_t)g->dim_k + g->dim_v) * akv_geom_elem(g);
}

size_t akv_geom_page_bytes(const struct akv_geom *g)
{
    return PAGE * akv_geom_token_bytes(g);
}

size_t akv_geom_k_offset(const struct akv_geom *g, uint32_t layer, uint32_t head)
{
    size_t n = (size_t)layer * g->n_kv_heads + head;
    return n * ((size_t)g->dim_k + g->dim_v) * PAGE * akv_geom_elem(g);
}

size_t akv_geom_v_offset(const struct akv_geom *g, uint32_t layer, uint32_t head)
{
    return akv_geom_k_offset(g, layer, head) + (size_t)g->dim_k * PAGE * akv_geom_elem(g);
}

/* Copy n_rows rows of row_bytes between arrays of different strides. */
static void copy_rows(uint8_t *dst, size_t dst_stride, const uint8_t *src, size_t src_stride, size_t row_bytes, size_t n_rows)
{
    for (size_t i = 0; i < n_rows; i++)
        memcpy(dst + i * dst_stride, src + i * src_stride, row_bytes);
}

void akv_body_to_page(const struct akv_geom *g, uint8_t *page, const uint8_t *body, uint32_t n)
{
    if (n == PAGE) {
        memcpy(page, body, akv_geom_page_bytes(g));
        return;
    }
    size_t elem = akv_geom_elem(g), row = n * elem, k_rows = g->dim_k, v_bytes = n * (size_t)g->dim_v * elem;
    for (uint32_t layer = 0; layer < g->n_layers; layer++) {
        for (uint32_t head = 0; head < g->n_kv_heads; head++) {
            copy_rows(page + akv_geom_k_offset(g, layer, head), PAGE * elem, body, row, row, k_rows);
            body += k_rows * row;
            memcpy(page + akv_geom_v_offset(g, layer, head), body, v_bytes);
            body += v_bytes;
        }
    }
}

void akv_page_to_body(const struct akv_geom *g, uint8_t *body, const uint8_t *page, uint32_t n)
{
    if (n == PAGE) {
        memcpy(body, page, akv_geom_page_bytes(g));
        return;
    }
    size_t elem = akv_geom_elem(g), row = n * elem, k_rows = g->dim_k, v_bytes = n * (size_t)g->dim_v * elem;
    for (uint32_t layer = 0; layer < g->n_layers; layer++) {
        for (uint32_t head = 0; head < g->n_kv_heads; head++) {
            copy_rows(body, row, page + akv_geom_k_offset(g, layer, head), PAGE * elem, row, k_rows);
            body += k_rows * row;
            memcpy(body, page + akv_geom_v_offset(g, layer, head), v_bytes);
            body += v_bytes;
        }
    }
}
