#include "models/saving.h"

#include <math.h>

static int64_t square_root(int64_t layers) {
    const int64_t root = (int64_t)floor(sqrt((double)layers) + 0.5);
    return root > 1 ? root : 1;
}

qkv_saving qkv_saving_of(qkv_recompute_policy policy, int64_t every, int64_t ffn_rows, int64_t layers) {
    qkv_saving s = {QKV_AGAIN_NOTHING, 0, ffn_rows};
    switch (policy) {
    case QKV_RECOMPUTE_BLOCKS: s.every = every > 1 ? every : 1; break;
    case QKV_RECOMPUTE_SQRT: s.every = square_root(layers); break;
    case QKV_RECOMPUTE_ATTENTION: s.again = QKV_AGAIN_ATTENTION; break;
    case QKV_RECOMPUTE_POINTWISE: s.again = QKV_AGAIN_POINTWISE; break;
    case QKV_RECOMPUTE_NONE:
    case QKV_RECOMPUTE_AUTO: break;
    }
    return s;
}
