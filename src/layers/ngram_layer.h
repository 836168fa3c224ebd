/* A bag of n-grams beside the encoder (Joulin et al. 2017, section 2): every token, and every run of 2 .. orders tokens that
 * starts at it, has a vector; the vectors of a position are summed, the positions of a text averaged. Tokens have rows of
 * their own; longer runs share `buckets` rows by hash. A run that would pass the end of the text takes the end in. */
#ifndef QKV_LAYERS_NGRAM_LAYER_H
#define QKV_LAYERS_NGRAM_LAYER_H

#include "layers/layers.h"

typedef struct qkv_ngram_layer {
    int64_t weight; /* parameter number of the table [vocab + buckets, dim] */
    int64_t orders, vocab, buckets;
} qkv_ngram_layer;

/* Parameter ngram.weight. orders >= 1. */
qkv_status qkv_ngram_layer_declare(qkv_ngram_layer *l, qkv_reg *reg, int64_t orders, int64_t vocab, int64_t buckets, int64_t dim) QKV_MUST_USE;
/* out [n_seq, dim]; an empty sequence gives 0. */
qkv_status qkv_ngram_layer_forward(qkv_exec *x, const qkv_ngram_layer *l, const qkv_batch *batch, qkv_mat out) QKV_MUST_USE;
qkv_status qkv_ngram_layer_backward(qkv_exec *x, const qkv_ngram_layer *l, const qkv_batch *batch, qkv_mat dout) QKV_MUST_USE;

#endif
