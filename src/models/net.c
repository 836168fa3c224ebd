#include "models/net.h"

qkv_status qkv_net_add(qkv_net *net, const qkv_segment_kind *kind, const void *layer, qkv_policy policy) {
    if (net->count == net->capacity) {
        int64_t capacity = net->capacity > 0 ? 2 * net->capacity : 8;
        QKV_TRY(qkv_grow(net->ctx, capacity, sizeof *net->segments, &net->segments));
        net->capacity = capacity;
    }
    qkv_segment s = {.kind = kind, .layer = layer, .policy = policy, .place = {.name = kind->name, .index = kind->single ? -1 : 0}};
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

/* Inference: two buffers in turn; the second only if there is a second segment. */
static qkv_status forward_scratch(qkv_exec *x, const qkv_net *net, int64_t count, const qkv_batch *batch, qkv_mat in, qkv_mat *out) {
    qkv_mat buffer[2];
    for (int64_t i = 0; i < count; i++) {
        const qkv_segment *s = &net->segments[i];
        if (i < 2) QKV_TRY(qkv_temp(x, in.rows, in.cols, &buffer[i]));
        qkv_exec_at(x, s->place);
        QKV_TRY(s->kind->forward(x, s->layer, batch, in, buffer[i % 2], s->saved));
        in = buffer[i % 2];
    }
    *out = in;
    return QKV_OK;
}

static qkv_status forward_keeping(qkv_exec *x, qkv_segment *s, const qkv_batch *batch, qkv_mat in, qkv_mat *out) {
    s->low = x->arena.low;
    s->in = in;
    QKV_TRY(qkv_keep(x, in.rows, in.cols, out));
    x->keep = s->policy == QKV_KEEP;
    qkv_exec_at(x, s->place);
    qkv_status status = s->kind->forward(x, s->layer, batch, in, *out, s->saved);
    x->keep = true;
    return status;
}

qkv_status qkv_net_forward(qkv_exec *x, const qkv_net *net, int64_t count, const qkv_batch *batch, qkv_mat in, qkv_mat *out) {
    if (!x->keep) return forward_scratch(x, net, count, batch, in, out);
    *out = in;
    for (int64_t i = 0; i < count; i++) {
        QKV_TRY(forward_keeping(x, &net->segments[i], batch, in, out));
        in = *out;
    }
    return QKV_OK;
}

/* Runs the segment again from its input, keeping this time. Its output is of no interest. */
static qkv_status recompute(qkv_exec *x, const qkv_segment *s, const qkv_batch *batch) {
    size_t mark = qkv_exec_mark(x);
    qkv_mat unused;
    QKV_TRY(qkv_temp(x, s->in.rows, s->in.cols, &unused));
    qkv_pass pass = x->pass;
    x->pass = QKV_PASS_RECOMPUTE;
    qkv_status status = s->kind->forward(x, s->layer, batch, s->in, unused, s->saved);
    x->pass = pass;
    qkv_exec_release(x, mark);
    return status;
}

static qkv_status backward_one(qkv_exec *x, const qkv_segment *s, const qkv_batch *batch, qkv_mat dout, qkv_mat din) {
    qkv_exec_at(x, s->place);
    if (s->policy == QKV_RECOMPUTE) {
        qkv_arena_low_release(&x->arena, s->low); /* its output, which nobody reads any more */
        QKV_TRY(recompute(x, s, batch));
    }
    QKV_TRY(s->kind->backward(x, s->layer, batch, dout, din, s->saved));
    qkv_arena_low_release(&x->arena, s->low);
    return QKV_OK;
}

qkv_status qkv_net_backward(qkv_exec *x, const qkv_net *net, const qkv_batch *batch, qkv_mat dout, qkv_mat spare, qkv_mat *din) {
    for (int64_t i = net->count - 1; i >= 0; i--) {
        QKV_TRY(backward_one(x, &net->segments[i], batch, dout, spare));
        qkv_mat done = dout;
        dout = spare;
        spare = done;
    }
    *din = dout;
    return QKV_OK;
}
