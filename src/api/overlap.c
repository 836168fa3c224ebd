#include "api/overlap.h"

int64_t qkv_area_extent(const qkv_area *a) {
    if (!a->base || a->rows <= 0 || a->heads <= 0 || a->width <= 0) return 0;
    return (a->rows - 1) * a->row + (a->heads - 1) * a->head + a->width;
}

/* Two ranges meet where dh heads forth and dr rows back lead to less than a width away. For each dh only the two rows around
 * the place are that near. */
bool qkv_area_folds(const qkv_area *a) {
    if (qkv_area_extent(a) == 0) return false;
    if (a->rows > 1 && a->row < a->width) return true; /* so row is not 0 below */
    for (int64_t dh = 1; dh < a->heads; dh++) {
        int64_t at = dh * a->head, dr = a->rows > 1 ? at / a->row : 0;
        if (dr > a->rows - 1) dr = a->rows - 1;
        if (at - dr * a->row < a->width) return true;
        if (dr + 1 < a->rows && (dr + 1) * a->row - at < a->width) return true;
    }
    return false;
}

/* Bytes from a to b; addresses are below 2^63. */
static int64_t distance(const void *a, const void *b) {
    return (int64_t)((uintptr_t)b - (uintptr_t)a);
}

static int64_t floor_div(int64_t a, int64_t b) {
    return a / b - (a % b < 0);
}

typedef struct pair {
    int64_t row;             /* stride, in bytes */
    int64_t lowest, highest; /* rows of b minus rows of a */
    int64_t a, b;            /* widths, in bytes */
} pair;

/* Is there a row distance at which [at + dr * row, + b) meets [0, a)? */
static bool meets(const pair *p, int64_t at) {
    int64_t dr = floor_div(-p->b - at, p->row) + 1; /* the first that ends behind 0 */
    if (dr < p->lowest) dr = p->lowest;
    return dr <= p->highest && at + dr * p->row < p->a;
}

static int64_t line(const qkv_area *a) {
    return (a->heads - 1) * a->head + a->width;
}

bool qkv_areas_meet(const qkv_area *a, const qkv_area *b) {
    enum { F = sizeof(float) };
    int64_t size_a = qkv_area_extent(a) * F, size_b = qkv_area_extent(b) * F, at = distance(a->base, b->base);
    if (size_a == 0 || size_b == 0 || at >= size_a || at <= -size_b) return false;
    int64_t row = a->rows > 1 ? a->row : b->row;
    if (a->rows > 1 && b->rows > 1 && a->row != b->row) return true;
    pair p = {row > 0 ? row * F : F, -(a->rows - 1), b->rows - 1, line(a) * F, line(b) * F};
    if (!meets(&p, at)) return false; /* rows side by side, as in a fused projection */
    p.a = a->width * F;
    p.b = b->width * F;
    if (a->head == b->head || a->heads == 1 || b->heads == 1) {
        int64_t head = a->heads > 1 ? a->head : b->head;
        for (int64_t dh = -(a->heads - 1); dh < b->heads; dh++)
            if (meets(&p, at + dh * head * F)) return true;
        return false;
    }
    for (int64_t i = 0; i < a->heads; i++)
        for (int64_t j = 0; j < b->heads; j++)
            if (meets(&p, at + (j * b->head - i * a->head) * F)) return true;
    return false;
}
