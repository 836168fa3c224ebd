#include "base/sort.h"

#include <string.h>

enum { BITS = 11, BUCKETS = 1 << BITS };

/* Radix sort, digit by digit from the lowest; digits that all keys share are skipped. */
qkv_status qkv_sort(qkv_ctx *ctx, qkv_sort_item *items, int64_t count) {
    if (count < 2) return QKV_OK;
    qkv_sort_item *copy, *from = items;
    uint64_t all = 0, common = UINT64_MAX;
    QKV_TRY(qkv_alloc(ctx, count, sizeof *copy, &copy));
    qkv_sort_item *to = copy;
    for (int64_t i = 0; i < count; i++) all |= items[i].key, common &= items[i].key;
    uint64_t differ = all & ~common;
    for (int shift = 0; shift < 64; shift += BITS) {
        int64_t first[BUCKETS] = {0}, sum = 0;
        if ((differ >> shift & (BUCKETS - 1)) == 0) continue;
        for (int64_t i = 0; i < count; i++) first[from[i].key >> shift & (BUCKETS - 1)]++;
        for (int b = 0; b < BUCKETS; b++) {
            int64_t here = first[b];
            first[b] = sum;
            sum += here;
        }
        for (int64_t i = 0; i < count; i++) to[first[from[i].key >> shift & (BUCKETS - 1)]++] = from[i];
        qkv_sort_item *swap = from;
        from = to, to = swap;
    }
    if (from != items) memcpy(items, from, (size_t)count * sizeof *items);
    qkv_free(ctx, copy);
    return QKV_OK;
}
