/* Declaring parameters. A registry is a list of names and shapes; their values live in blocks of reg->size reals. */
#ifndef QKV_OPS_REG_H
#define QKV_OPS_REG_H

#include "ops/exec.h"

/* Adds a parameter and returns its number in *index. The name is prefix + name ("encoder.0." + "norm1.weight"). Offsets are
 * multiples of 16 reals. `what` sets the init, decay, embedding and vector fields; a parameter with matrix set is multiplied
 * by and gets a packed_offset. */
typedef struct qkv_param_kind {
    double std, value; /* normal(0, std), or the constant value where std is 0 */
    bool decay, vector, embedding, matrix;
    int64_t period, from, to; /* of the constant, as init_period and so on */
    int64_t gates;
    int64_t last_rows; /* so many rows, the last, start with last_std instead of std */
    double last_std;
} qkv_param_kind;

qkv_status qkv_reg_add(qkv_reg *reg, const char *prefix, const char *name, int64_t rows, int64_t cols, qkv_param_kind kind,
                       int64_t *index) QKV_MUST_USE;
/* Reals (pairs in a bf16 model) that the packed copy of a matrix takes. */
int64_t qkv_param_packed_size(const qkv_param *p, bool bf16);
void qkv_reg_free(qkv_reg *reg);

#endif
