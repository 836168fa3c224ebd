/* How a training run is made to fit into a given amount of memory without changing what it learns: batches are walked in pieces,
 * or parts of the network are computed again in the backward pass. Which of them is decided by planning, one after another. */
#ifndef QKV_TRAIN_BUDGET_H
#define QKV_TRAIN_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include "models/saving.h"

/* What a run may do to fit. All 0: nothing, there is no limit. */
typedef struct qkv_room {
    int64_t limit; /* bytes of the whole run; 0: none is known */
    qkv_recompute_policy recompute;
    int64_t every;    /* of BLOCKS; 0: 1 */
    int64_t ffn_rows; /* 0: as it comes */
    int64_t layers;   /* blocks that there are */
    bool recurrent;   /* they are layers with nothing in them that could be computed again alone */
    bool reversible;  /* none of them keeps anything */
    bool pieces; /* batches may be walked in pieces: the last bits of the gradients of biases and norms then differ */
} qkv_room;

/* One way to run the steps that were asked for. */
typedef struct qkv_way {
    qkv_saving saving;
    int64_t piece_tokens; /* 0: batches are walked as a whole */
} qkv_way;

typedef struct qkv_budget {
    qkv_room room;
    int64_t batch_tokens, longest; /* of a batch at most, and of a row */
    /* The bytes that the run would need this way: exact, as they are of a plan. */
    qkv_status (*plan)(void *self, qkv_way way, int64_t *bytes);
    void *self;
} qkv_budget;

typedef struct qkv_choice {
    qkv_way way;
    int64_t bytes;
    bool fits; /* no: `way` is the one that needs the least */
} qkv_choice;

/* Smaller pieces cost more time than recomputation, as the weights are packed anew for each. Rows of feed-forward layers at a time,
 * where that is chosen here. */
enum { QKV_PIECE_LEAST = 256, QKV_FFN_ROWS = 512 };

/* Takes the first way that fits: as asked; in halves, quarters, ... of batch_tokens that have at least QKV_PIECE_LEAST tokens; then, for
 * AUTO, the same with more and more computed again, what costs least time for a byte first: POINTWISE, ATTENTION, this with feed-forward
 * layers in parts, whole blocks, all of these together; at last every row alone. No piece but these is smaller than the longest row,
 * since that would gain nothing. Where not even the last way fits nothing between is planned. The way that is taken is the one that was
 * planned last, so what `plan` leaves behind is of it. */
qkv_status qkv_budget_choose(const qkv_budget *budget, qkv_choice *choice) QKV_MUST_USE;

/* The last of them. */
qkv_way qkv_budget_least(qkv_room room);

#endif
