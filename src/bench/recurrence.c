/* Recurrent layers: the projection of the inputs of all steps and the walk along the sequences; and with their backward pass. */
#include "bench/job.h"

#include <string.h>

#include "layers/recurrent.h"

typedef struct recurrent {
    qkv_recurrent layer;
    qkv_batch batch;
    qkv_mat in, out, dout, din;
    bool backward;
} recurrent;

static qkv_status make(qkv_bench_job *job, qkv_recur_cell cell, bool backward) {
    recurrent *r = job->self;
    const qkv_bench_case *c = job->c;
    const qkv_recurrent_shape shape = {.cell = cell, .in = c->dim, .units = c->dim, .directions = 1, .forget = 1};
    r->backward = backward;
    QKV_TRY(qkv_recurrent_declare(&r->layer, &job->reg, "", &shape, 0));
    QKV_TRY(qkv_bench_weights(job, backward));
    if (!backward) QKV_TRY(qkv_bench_pack(job));
    QKV_TRY(qkv_bench_batch(job, &r->batch));
    const int64_t rows = r->batch.offset[r->batch.n_seq];
    QKV_TRY(qkv_bench_mat(job, rows, c->dim, QKV_BENCH_RANDOM, &r->in));
    QKV_TRY(qkv_bench_mat(job, rows, c->dim, QKV_BENCH_ZERO, &r->out));
    job->arithmetic = true;
    /* of the steps; the first row of a sequence has no product */
    job->inside =
        (backward ? 2 : 1) * 2.0 * (double)(rows - r->batch.n_seq) * (double)qkv_recur_gates(cell) * (double)c->dim * (double)c->dim;
    job->x.train = job->x.keep = backward;
    if (!backward) return QKV_OK;
    QKV_TRY(qkv_bench_mat(job, rows, c->dim, QKV_BENCH_RANDOM, &r->dout));
    return qkv_bench_mat(job, rows, c->dim, QKV_BENCH_ZERO, &r->din);
}

static qkv_status pass(qkv_bench_job *job) {
    recurrent *r = job->self;
    qkv_exec *x = &job->x;
    qkv_recurrent_saved saved;
    const size_t low = x->arena.low;
    x->pass = QKV_PASS_FORWARD;
    QKV_TRY(qkv_recurrent_forward(x, &r->layer, &r->batch, NULL, r->in, r->out, &saved));
    if (!r->backward) return QKV_OK;
    x->pass = QKV_PASS_BACKWARD;
    QKV_TRY(qkv_recurrent_backward(x, &r->layer, &r->batch, NULL, r->dout, r->din, &saved));
    qkv_arena_low_release(&x->arena, low);
    return QKV_OK;
}

static qkv_status lstm(qkv_bench_job *job) {
    return make(job, QKV_RECUR_LSTM, false);
}
static qkv_status lstm_both(qkv_bench_job *job) {
    return make(job, QKV_RECUR_LSTM, true);
}
static qkv_status gru(qkv_bench_job *job) {
    return make(job, QKV_RECUR_GRU, false);
}
static qkv_status gru_both(qkv_bench_job *job) {
    return make(job, QKV_RECUR_GRU, true);
}
static qkv_status rnn(qkv_bench_job *job) {
    return make(job, QKV_RECUR_TANH, false);
}
static qkv_status rnn_both(qkv_bench_job *job) {
    return make(job, QKV_RECUR_TANH, true);
}

static const qkv_bench_kind LSTM = {"recurrence.lstm", sizeof(recurrent), lstm, pass, NULL, NULL};
static const qkv_bench_kind LSTM_BOTH = {"recurrence.lstm-both", sizeof(recurrent), lstm_both, pass, NULL, NULL};
static const qkv_bench_kind GRU = {"recurrence.gru", sizeof(recurrent), gru, pass, NULL, NULL};
static const qkv_bench_kind GRU_BOTH = {"recurrence.gru-both", sizeof(recurrent), gru_both, pass, NULL, NULL};
static const qkv_bench_kind RNN = {"recurrence.rnn", sizeof(recurrent), rnn, pass, NULL, NULL};
static const qkv_bench_kind RNN_BOTH = {"recurrence.rnn-both", sizeof(recurrent), rnn_both, pass, NULL, NULL};
const qkv_bench_kind *const qkv_bench_recurrence_kinds[] = {&LSTM, &LSTM_BOTH, &GRU, &GRU_BOTH, &RNN, &RNN_BOTH, NULL};
