#include "train/budget.h"

typedef struct search {
    const qkv_budget *b;
    qkv_choice *best;
    bool begun, last; /* the best one was planned last */
} search;

/* Plans this way; true in *done if it fits. */
static qkv_status try_way(search *s, qkv_way way, bool *done) {
    int64_t bytes = 0;
    QKV_TRY(s->b->plan(s->b->self, way, &bytes));
    *done = s->b->room.limit <= 0 || bytes <= s->b->room.limit;
    s->last = *done || !s->begun || bytes < s->best->bytes;
    if (s->last) *s->best = (qkv_choice){way, bytes, *done};
    s->begun = true;
    return QKV_OK;
}

/* With whole batches, then in pieces. */
static qkv_status try_level(search *s, qkv_saving saving, bool whole, int64_t least, bool *done) {
    const int64_t floor = s->b->longest > least ? s->b->longest : least;
    if (whole) QKV_TRY(try_way(s, (qkv_way){saving, 0}, done));
    for (int64_t piece = s->b->batch_tokens / 2; s->b->room.pieces && !*done && piece >= floor; piece /= 2)
        QKV_TRY(try_way(s, (qkv_way){saving, piece}, done));
    return QKV_OK;
}

/* ---- how much is computed again: the more, the later ---- */

enum { LEVELS = 6 };

static int levels_of(const qkv_room *r, qkv_saving level[LEVELS]) {
    const int64_t rows = r->ffn_rows, parts = rows > 0 ? rows : QKV_FFN_ROWS;
    level[0] = qkv_saving_of(r->recompute, r->every, rows, r->layers);
    if (r->recompute != QKV_RECOMPUTE_AUTO) return 1;
    if (r->recurrent) {
        level[1] = (qkv_saving){QKV_AGAIN_NOTHING, 1, 0};
        return 2;
    }
    if (r->reversible) {
        level[1] = (qkv_saving){QKV_AGAIN_NOTHING, 0, parts};
        return rows > 0 ? 1 : 2;
    }
    level[1] = (qkv_saving){QKV_AGAIN_POINTWISE, 0, rows};
    level[2] = (qkv_saving){QKV_AGAIN_ATTENTION, 0, rows};
    level[3] = (qkv_saving){QKV_AGAIN_ATTENTION, 0, parts};
    level[4] = (qkv_saving){QKV_AGAIN_NOTHING, 1, rows};
    level[5] = (qkv_saving){QKV_AGAIN_ATTENTION, 1, parts};
    return LEVELS;
}

qkv_way qkv_budget_least(qkv_room room) {
    qkv_saving level[LEVELS];
    return (qkv_way){level[levels_of(&room, level) - 1], room.pieces ? 1 : 0};
}

static qkv_status look(search *s) {
    const qkv_room *room = &s->b->room;
    qkv_saving level[LEVELS];
    const int levels = levels_of(room, level);
    bool done = false, fits = false;
    QKV_TRY(try_way(s, (qkv_way){level[0], 0}, &done));
    if (done || (levels == 1 && !room->pieces)) return QKV_OK;
    QKV_TRY(try_way(s, qkv_budget_least(*room), &fits));
    if (!fits) return QKV_OK;
    const qkv_choice least = *s->best;
    for (int i = 0; i < levels && !done; i++) QKV_TRY(try_level(s, level[i], i > 0, i + 1 < levels ? QKV_PIECE_LEAST : 1, &done));
    if (done) return QKV_OK;
    *s->best = least;
    s->last = false;
    return QKV_OK;
}

qkv_status qkv_budget_choose(const qkv_budget *b, qkv_choice *choice) {
    search s = {.b = b, .best = choice};
    *choice = (qkv_choice){0};
    QKV_TRY(look(&s));
    return s.last ? QKV_OK : b->plan(b->self, choice->way, &choice->bytes);
}
