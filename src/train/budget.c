#include "train/budget.h"

typedef struct search {
    const qkv_budget *b;
    qkv_choice *best;
    bool begun;
} search;

/* Plans this way; true in *done if it fits. */
static qkv_status try_way(search *s, qkv_way way, bool *done) {
    int64_t bytes = 0;
    QKV_TRY(s->b->plan(s->b->self, way, &bytes));
    *done = s->b->room.limit <= 0 || bytes <= s->b->room.limit;
    if (*done || !s->begun || bytes < s->best->bytes) *s->best = (qkv_choice){way, bytes, *done};
    s->begun = true;
    return QKV_OK;
}

static qkv_status try_halves(search *s, bool recompute, int64_t least, bool *done) {
    const int64_t floor = s->b->longest > least ? s->b->longest : least;
    for (int64_t piece = s->b->batch_tokens / 2; s->b->room.pieces && !*done && piece >= floor; piece /= 2)
        QKV_TRY(try_way(s, (qkv_way){recompute, piece}, done));
    return QKV_OK;
}

qkv_status qkv_budget_choose(const qkv_budget *b, qkv_choice *choice) {
    search s = {.b = b, .best = choice};
    const bool keep = b->room.recompute != QKV_RECOMPUTE_BLOCKS, recompute = b->room.recompute != QKV_RECOMPUTE_NONE;
    bool done = false;
    *choice = (qkv_choice){0};
    if (keep) QKV_TRY(try_way(&s, (qkv_way){false, 0}, &done));
    if (keep) QKV_TRY(try_halves(&s, false, QKV_PIECE_LEAST, &done));
    if (recompute && !done) QKV_TRY(try_way(&s, (qkv_way){true, 0}, &done));
    if (recompute) QKV_TRY(try_halves(&s, true, 1, &done));
    return done || !b->room.pieces ? QKV_OK : try_way(&s, qkv_budget_least(b->room), &done);
}
