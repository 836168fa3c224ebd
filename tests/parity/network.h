/* Parameters of a network by name, for the parity tests of blocks and whole models. */
#ifndef QKV_TESTS_PARITY_NETWORK_H
#define QKV_TESTS_PARITY_NETWORK_H

#include "parity.h"
#include "qkv/model.h"

/* Index of the field's text among `names`. */
static inline int parity_choice(const parity *p, const char *key, const char *const *names, int count) {
    for (int i = 0; i < count; i++) {
        if (strcmp(names[i], parity_text(p, key)) == 0) return i;
    }
    fail_msg("%s=%s is not known", key, parity_text(p, key));
    return -1;
}

static inline qkv_norm parity_norm(const parity *p) {
    return parity_choice(p, "norm", (const char *[]){"layer", "rms"}, 2);
}

static inline qkv_norm_place parity_norm_place(const parity *p) {
    return parity_choice(p, "norm_place", (const char *[]){"pre", "post", "sandwich"}, 3);
}

static inline qkv_activation parity_activation(const parity *p) {
    return parity_choice(p, "activation", (const char *[]){"gelu", "gelu_tanh", "relu", "silu", "geglu", "swiglu"}, 6);
}

/* All parameters of the registry, from the tensors "in.<name>"; shapes must agree. */
static inline real *parity_weights(parity *p, const qkv_reg *reg) {
    real *weights = parity_room(reg->size);
    for (int64_t i = 0; i < reg->count; i++) {
        const qkv_param *param = &reg->params[i];
        char name[160];
        snprintf(name, sizeof name, "in.%s", param->name);
        const qkv_tensor *t = parity_tensor(p, name);
        assert_int_equal(t->rank, param->vector ? 1 : 2);
        assert_int_equal(t->count, param->rows * param->cols);
        assert_int_equal(t->shape[t->rank - 1], param->cols);
        assert_int_equal(qkv_tensor_reals(&p->ctx, t, weights + param->offset), QKV_OK);
    }
    return weights;
}

/* Compares every parameter's part of `block` with the tensor prefix + name, and that the file knows no others. */
static inline void parity_blocks(parity *p, const char *prefix, const qkv_reg *reg, const real *block, double tolerance) {
    char name[160];
    int64_t known = 0;
    for (int64_t i = 0; i < reg->count; i++) {
        snprintf(name, sizeof name, "%s%s", prefix, reg->params[i].name);
        parity_equal(p, name, block + reg->params[i].offset, tolerance);
    }
    snprintf(name, sizeof name, "%s%s", p->prefix, prefix);
    for (int64_t i = 0; i < qkv_safetensors_count(p->file); i++) {
        if (strncmp(qkv_safetensors_at(p->file, i)->name, name, strlen(name)) == 0) known++;
    }
    assert_int_equal(known, reg->count);
}

#endif
