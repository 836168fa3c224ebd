/* Every op and every layer by name: the gradient test walks these lists, so an op or layer without a case does not link, and
 * a file of src/ops or src/layers that is not listed is refused. */
#ifndef QKV_OPS_LIST_H
#define QKV_OPS_LIST_H

#define QKV_OP_LIST(X)                                                                                                             \
    X(linear) X(attention) X(global_rows) X(norm) X(head_norm) X(activation) X(residual) X(embedding) X(position)                 \
    X(pooling) X(loss) X(loss_sigmoid) X(optimizer) X(recurrence)

#define QKV_LAYER_LIST(X) X(attention_layer) X(global_projection) X(head_norms) X(ffn) X(block) X(embedding_layer) \
    X(positions) X(pooling_layer) X(head) X(masked_head) X(recurrent)

#endif
