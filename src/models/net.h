/* A stack of segments, each mapping rows [N,dim] to rows [N,dim]. The walk forward and the walk back are written here, once.
 *
 * KEEP: forward keeps what backward needs. RECOMPUTE: of up to `every` such segments in a row, a unit, forward keeps only the input
 * of the first; backward runs the unit forward again, with the same dropout bits, and keeps then. REVERSIBLE: all such segments in a row
 * have two streams, which both begin with the input and whose mean is the output; only their end is kept, and backward rebuilds what
 * each segment began with, but for rounding. Kept memory is a stack that backward pops in exactly reverse order. */
#ifndef QKV_MODELS_NET_H
#define QKV_MODELS_NET_H

#include "ops/exec.h"

typedef enum qkv_policy { QKV_KEEP, QKV_RECOMPUTE, QKV_REVERSIBLE } qkv_policy;

typedef struct qkv_segment_kind {
    const char *name; /* with its number among those of the kind ("encoder.0") where the costs are broken down */
    size_t saved_size; /* of the typed struct behind `saved` */
    qkv_status (*forward)(qkv_exec *x, const void *layer, const qkv_batch *batch, qkv_mat in, qkv_mat out, void *saved);
    qkv_status (*backward)(qkv_exec *x, const void *layer, const qkv_batch *batch, qkv_mat dout, qkv_mat din, const void *saved);
    /* In place, as qkv_block_couple and qkv_block_uncouple; NULL: it has no streams. */
    qkv_status (*couple)(qkv_exec *x, const void *layer, const qkv_batch *batch, qkv_mat a, qkv_mat b);
    qkv_status (*uncouple)(qkv_exec *x, const void *layer, const qkv_batch *batch, qkv_mat a, qkv_mat b, qkv_mat da, qkv_mat db);
    bool single; /* there is one in a net: it needs no number */
} qkv_segment_kind;

/* What a segment remembers from forward to backward: marks of the kept stack, its input, the layer's saved struct. */
typedef struct qkv_segment {
    const qkv_segment_kind *kind;
    const void *layer;
    qkv_policy policy;
    qkv_place place;
    int64_t first; /* of its unit */
    size_t low;    /* kept bytes before this segment's output */
    qkv_mat in;
    qkv_mat stream[2]; /* of the first of a REVERSIBLE unit */
    void *saved;
} qkv_segment;

typedef struct qkv_net {
    qkv_ctx *ctx;
    const char *name; /* of its places where the costs are broken down; NULL: as the kinds are called */
    int64_t count, capacity;
    int64_t every; /* RECOMPUTE segments in a row that are one unit; below 1: as 1 */
    qkv_segment *segments;
} qkv_net;

/* `layer` must outlive the net. */
qkv_status qkv_net_add(qkv_net *net, const qkv_segment_kind *kind, const void *layer, qkv_policy policy) QKV_MUST_USE;
void qkv_net_free(qkv_net *net);

/* Runs the first `count` segments. x->keep: *out is kept, and so is what backward needs; `in` must live until then.
 * Otherwise *out is scratch (two buffers in turn) that lives until the caller's mark; where it ends before a REVERSIBLE segment it is
 * what that one's attention sees, the second stream. */
qkv_status qkv_net_forward(qkv_exec *x, const qkv_net *net, int64_t count, const qkv_batch *batch, qkv_mat in, qkv_mat *out) QKV_MUST_USE;

/* After a forward of all segments with x->keep. Pops everything that forward kept. dout and spare, of one shape, are both
 * overwritten; *din is the one of them that ends up with the gradient of the net's input. */
qkv_status qkv_net_backward(qkv_exec *x, const qkv_net *net, const qkv_batch *batch, qkv_mat dout, qkv_mat spare, qkv_mat *din) QKV_MUST_USE;

#endif
