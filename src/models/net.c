#include "models/net.h"

#include "ops/residual.h"

qkv_status qkv_net_add(qkv_net *net, const qkv_segment_kind *kind, const void *layer, qkv_policy policy) {
    if (net->count == net->capacity) {
        int64_t capacity = net->capacity > 0 ? 2 * net->capacity : 8;
        QKV_TRY(qkv_grow(net->ctx, capacity, sizeof *net->segments, &net->segments));
        net->capacity = capacity;
    }
    qkv_segment s = {.kind = kind, .layer = layer, .policy = policy, .place = {.name = net->name ? net->name : kind->name, .index = kind->single ? -1 : 0}};
    for (int64_t i = 0; !kind->single && i < net->count; i++) s.place.index += net->segments[i].kind == kind;
    QKV_TRY(qkv_alloc_zero(net->ctx, 1, kind->saved_size, &s.saved));
    net->segments[net->count++] = s;
    return QKV_OK;
}

void qkv_net_free(qkv_net *net) {
    for (int64_t i = 0; i < net->count; i++) qkv_free(net->ctx, net->segments[i].saved);
    qkv_free(net->ctx, net->segments);
    *net = (qkv_net){.ctx = net->ctx};
}

/* ---- two streams ---- */

/* What is done where they begin and end. */
static const qkv_place STREAMS = {"streams", -1, QKV_WORK_RESIDUAL};

/* Both streams through segments from .. to-1, in place. */
static qkv_status couple(qkv_exec *x, const qkv_net *net, int64_t from, int64_t to, const qkv_batch *batch, qkv_mat in, const qkv_mat stream[2]) {
    qkv_exec_at(x, STREAMS);
    for (int i = 0; i < 2; i++) QKV_TRY(qkv_scaled_sum(x, QKV_WORK_RESIDUAL, 1, in, 0, stream[i]));
    for (int64_t i = from; i < to; i++) {
        const qkv_segment *s = &net->segments[i];
        qkv_exec_at(x, s->place);
        QKV_TRY(s->kind->couple(x, s->layer, batch, stream[0], stream[1]));
    }
    return QKV_OK;
}

static qkv_status mean(qkv_exec *x, const qkv_mat stream[2], qkv_mat out) {
    qkv_exec_at(x, STREAMS);
    QKV_TRY(qkv_scaled_sum(x, QKV_WORK_RESIDUAL, (real)0.5, stream[0], 0, out));
    return qkv_scaled_sum(x, QKV_WORK_RESIDUAL, (real)0.5, stream[1], 1, out);
}

/* dout becomes the gradient of the unit's input; d is of its shape. */
static qkv_status uncouple(qkv_exec *x, const qkv_net *net, int64_t from, int64_t to, const qkv_batch *batch, qkv_mat dout, qkv_mat d) {
    const qkv_segment *first = &net->segments[from];
    qkv_exec_at(x, STREAMS);
    QKV_TRY(qkv_scaled_sum(x, QKV_WORK_RESIDUAL, (real)0.5, dout, 0, d));
    QKV_TRY(qkv_scaled_sum(x, QKV_WORK_RESIDUAL, 1, d, 0, dout));
    for (int64_t i = to - 1; i >= from; i--) {
        const qkv_segment *s = &net->segments[i];
        qkv_exec_at(x, s->place);
        QKV_TRY(s->kind->uncouple(x, s->layer, batch, first->stream[0], first->stream[1], dout, d));
    }
    qkv_exec_at(x, STREAMS);
    QKV_TRY(qkv_scaled_sum(x, QKV_WORK_RESIDUAL, 1, d, 1, dout));
    for (int i = 0; i < 2; i++) QKV_TRY(qkv_rebuilt(x, first->stream[i], first->in));
    qkv_arena_low_release(&x->arena, first->low);
    return QKV_OK;
}

/* REVERSIBLE segments in a row from `from` on, of the first `count`. */
static int64_t streams_end(const qkv_net *net, int64_t from, int64_t count) {
    while (from < count && net->segments[from].policy == QKV_REVERSIBLE) from++;
    return from;
}

/* Inference through them: *out is the mean, or the second stream where the unit does not end there. */
static qkv_status couple_scratch(qkv_exec *x, const qkv_net *net, int64_t from, int64_t to, const qkv_batch *batch, qkv_mat in, qkv_mat *out) {
    qkv_mat stream[2];
    for (int i = 0; i < 2; i++) QKV_TRY(qkv_temp(x, in.rows, in.cols, &stream[i]));
    QKV_TRY(couple(x, net, from, to, batch, in, stream));
    *out = stream[1];
    if (streams_end(net, to, net->count) > to) return QKV_OK;
    *out = stream[0];
    return mean(x, stream, *out);
}

/* ---- forward ---- */

/* Inference: two buffers in turn; the second only if there is a second segment. */
static qkv_status forward_scratch(qkv_exec *x, const qkv_net *net, int64_t count, const qkv_batch *batch, qkv_mat in, qkv_mat *out) {
    qkv_mat buffer[2];
    const int64_t streams = streams_end(net, 0, count);
    if (streams > 0) QKV_TRY(couple_scratch(x, net, 0, streams, batch, in, &in));
    for (int64_t i = streams; i < count; i++) {
        const qkv_segment *s = &net->segments[i];
        if (i < streams + 2) QKV_TRY(qkv_temp(x, in.rows, in.cols, &buffer[i % 2]));
        qkv_exec_at(x, s->place);
        QKV_TRY(s->kind->forward(x, s->layer, batch, in, buffer[i % 2], s->saved));
        in = buffer[i % 2];
    }
    *out = in;
    return QKV_OK;
}

static qkv_status forward_one(qkv_exec *x, qkv_segment *s, const qkv_batch *batch, qkv_mat in, qkv_mat out) {
    s->in = in;
    qkv_exec_at(x, s->place);
    return s->kind->forward(x, s->layer, batch, in, out, s->saved);
}

/* Segments from .. to-1, of which nothing is kept but `out`: two buffers in turn between them. */
static qkv_status forward_through(qkv_exec *x, const qkv_net *net, int64_t from, int64_t to, const qkv_batch *batch, qkv_mat in, qkv_mat out) {
    const size_t mark = qkv_exec_mark(x);
    qkv_mat buffer[2];
    for (int64_t i = from; i < to; i++) {
        qkv_mat *next = i == to - 1 ? &out : &buffer[(i - from) % 2];
        if (next != &out && i - from < 2) QKV_TRY(qkv_temp(x, in.rows, in.cols, next));
        QKV_TRY(forward_one(x, &net->segments[i], batch, in, *next));
        in = *next;
    }
    qkv_exec_release(x, mark);
    return QKV_OK;
}

static qkv_status forward_keeping(qkv_exec *x, qkv_segment *s, const qkv_batch *batch, qkv_mat in, qkv_mat *out) {
    s->low = x->arena.low;
    QKV_TRY(qkv_keep(x, in.rows, in.cols, out));
    return forward_one(x, s, batch, in, *out);
}

/* Where the unit ends that begins with segment `from`: KEEP segments are alone. */
static int64_t unit_end(const qkv_net *net, int64_t from, int64_t count) {
    int64_t to = from + 1;
    if (net->segments[from].policy == QKV_KEEP) return to;
    if (net->segments[from].policy == QKV_REVERSIBLE) return streams_end(net, from, count);
    while (to < count && to - from < net->every && net->segments[to].policy == QKV_RECOMPUTE) to++;
    return to;
}

static qkv_status forward_streams(qkv_exec *x, const qkv_net *net, int64_t from, int64_t to, const qkv_batch *batch, qkv_mat in, qkv_mat *out) {
    qkv_segment *first = &net->segments[from];
    first->low = x->arena.low;
    first->in = in;
    QKV_TRY(qkv_keep(x, in.rows, in.cols, out));
    for (int i = 0; i < 2; i++) QKV_TRY(qkv_keep(x, in.rows, in.cols, &first->stream[i]));
    QKV_TRY(couple(x, net, from, to, batch, in, first->stream));
    return mean(x, first->stream, *out);
}

static qkv_status forward_unit(qkv_exec *x, const qkv_net *net, int64_t from, int64_t to, const qkv_batch *batch, qkv_mat in, qkv_mat *out) {
    qkv_segment *first = &net->segments[from];
    for (int64_t i = from; i < to; i++) net->segments[i].first = from;
    if (first->policy == QKV_KEEP) return forward_keeping(x, first, batch, in, out);
    if (first->policy == QKV_REVERSIBLE) return forward_streams(x, net, from, to, batch, in, out);
    first->low = x->arena.low;
    QKV_TRY(qkv_keep(x, in.rows, in.cols, out));
    x->keep = false;
    qkv_status status = forward_through(x, net, from, to, batch, in, *out);
    x->keep = true;
    first->in = in;
    return status;
}

qkv_status qkv_net_forward(qkv_exec *x, const qkv_net *net, int64_t count, const qkv_batch *batch, qkv_mat in, qkv_mat *out) {
    if (!x->keep) return forward_scratch(x, net, count, batch, in, out);
    *out = in;
    for (int64_t i = 0, to; i < count; i = to) {
        to = unit_end(net, i, count);
        QKV_TRY(forward_unit(x, net, i, to, batch, in, out));
        in = *out;
    }
    return QKV_OK;
}

/* ---- backward ---- */

/* Runs a unit again from its input, keeping this time. The output of its last segment is of no interest. */
static qkv_status recompute(qkv_exec *x, const qkv_net *net, int64_t from, int64_t to, const qkv_batch *batch) {
    const size_t mark = qkv_exec_mark(x);
    qkv_mat in = net->segments[from].in, out;
    const qkv_pass pass = x->pass;
    x->pass = QKV_PASS_RECOMPUTE;
    for (int64_t i = from; i < to - 1; i++) {
        QKV_TRY(forward_keeping(x, &net->segments[i], batch, in, &out));
        in = out;
    }
    QKV_TRY(qkv_temp(x, in.rows, in.cols, &out));
    net->segments[to - 1].low = x->arena.low;
    QKV_TRY(forward_one(x, &net->segments[to - 1], batch, in, out));
    x->pass = pass;
    qkv_exec_release(x, mark);
    return QKV_OK;
}

static qkv_status backward_one(qkv_exec *x, const qkv_segment *s, const qkv_batch *batch, qkv_mat dout, qkv_mat din) {
    qkv_exec_at(x, s->place);
    QKV_TRY(s->kind->backward(x, s->layer, batch, dout, din, s->saved));
    qkv_arena_low_release(&x->arena, s->low);
    return QKV_OK;
}

qkv_status qkv_net_backward(qkv_exec *x, const qkv_net *net, const qkv_batch *batch, qkv_mat dout, qkv_mat spare, qkv_mat *din) {
    for (int64_t i = net->count - 1; i >= 0; i--) {
        const qkv_segment *s = &net->segments[i];
        if (s->policy == QKV_REVERSIBLE) {
            QKV_TRY(uncouple(x, net, s->first, i + 1, batch, dout, spare));
            i = s->first;
            continue;
        }
        const bool last = i + 1 == net->count || net->segments[i + 1].first == i + 1; /* of its unit */
        if (last && s->policy == QKV_RECOMPUTE) {
            qkv_arena_low_release(&x->arena, net->segments[s->first].low); /* its output, which nobody reads any more */
            QKV_TRY(recompute(x, net, s->first, i + 1, batch));
        }
        QKV_TRY(backward_one(x, s, batch, dout, spare));
        qkv_mat done = dout;
        dout = spare;
        spare = done;
    }
    *din = dout;
    return QKV_OK;
}
