/* A stack of segments, each mapping rows [N,dim] to rows [N,dim]. The walk forward and the walk back are written here, once.
 *
 * KEEP: forward keeps what backward needs. RECOMPUTE: forward keeps only the segment's input; backward runs forward again,
 * with the same dropout bits, and keeps then. Kept memory is a stack that backward pops in exactly reverse order. */
#ifndef QKV_MODELS_NET_H
#define QKV_MODELS_NET_H

#include "ops/exec.h"

typedef enum qkv_policy { QKV_KEEP, QKV_RECOMPUTE } qkv_policy;

typedef struct qkv_segment_kind {
    const char *name; /* with its number among those of the kind ("encoder.0") where the costs are broken down */
    size_t saved_size; /* of the typed struct behind `saved` */
    qkv_status (*forward)(qkv_exec *x, const void *layer, const qkv_batch *batch, qkv_mat in, qkv_mat out, void *saved);
    qkv_status (*backward)(qkv_exec *x, const void *layer, const qkv_batch *batch, qkv_mat dout, qkv_mat din, const void *saved);
    bool single; /* there is one in a net: it needs no number */
} qkv_segment_kind;

/* What a segment remembers from forward to backward: marks of the kept stack, its input, the layer's saved struct. */
typedef struct qkv_segment {
    const qkv_segment_kind *kind;
    const void *layer;
    qkv_policy policy;
    qkv_place place;
    size_t low; /* kept bytes before this segment's output */
    qkv_mat in;
    void *saved;
} qkv_segment;

typedef struct qkv_net {
    qkv_ctx *ctx;
    int64_t count, capacity;
    qkv_segment *segments;
} qkv_net;

/* `layer` must outlive the net. */
qkv_status qkv_net_add(qkv_net *net, const qkv_segment_kind *kind, const void *layer, qkv_policy policy) QKV_MUST_USE;
void qkv_net_free(qkv_net *net);

/* Runs the first `count` segments. x->keep: *out is kept, and so is what backward needs; `in` must live until then.
 * Otherwise *out is scratch (two buffers in turn) that lives until the caller's mark. */
qkv_status qkv_net_forward(qkv_exec *x, const qkv_net *net, int64_t count, const qkv_batch *batch, qkv_mat in, qkv_mat *out) QKV_MUST_USE;

/* After a forward of all segments with x->keep. Pops everything that forward kept. dout and spare, of one shape, are both
 * overwritten; *din is the one of them that ends up with the gradient of the net's input. */
qkv_status qkv_net_backward(qkv_exec *x, const qkv_net *net, const qkv_batch *batch, qkv_mat dout, qkv_mat spare, qkv_mat *din) QKV_MUST_USE;

#endif
