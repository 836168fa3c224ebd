#include "data/made.h"

#include "base/rng.h"

qkv_status qkv_made_rows(qkv_ctx *ctx, const qkv_made *made, uint64_t seed, int64_t first, int64_t count, qkv_ragged *rows) {
    *rows = (qkv_ragged){.count = count};
    qkv_status status = qkv_alloc(ctx, count + 1, sizeof *rows->offset, &rows->offset);
    if (status == QKV_OK) status = qkv_alloc(ctx, count, sizeof *rows->target, &rows->target);
    if (status == QKV_OK) {
        rows->offset[0] = 0;
        for (int64_t i = 0; i < count; i++)
            rows->offset[i + 1] = rows->offset[i] + made->length(made->task, qkv_key2(seed, (uint64_t)(first + i)));
        status = qkv_alloc(ctx, rows->offset[count], sizeof *rows->ids, &rows->ids);
    }
    for (int64_t i = 0; status == QKV_OK && i < count; i++)
        made->row(made->task, qkv_key2(seed, (uint64_t)(first + i)), rows->offset[i + 1] - rows->offset[i],
                  rows->ids + rows->offset[i], &rows->target[i]);
    if (status != QKV_OK) qkv_ragged_free(ctx, rows);
    return status;
}
