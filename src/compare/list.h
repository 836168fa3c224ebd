/* The experiments that there are. */
#ifndef QKV_COMPARE_LIST_H
#define QKV_COMPARE_LIST_H

#include "compare/run.h"

extern const qkv_experiment qkv_experiment_speed, qkv_experiment_heads, qkv_experiment_length, qkv_experiment_gradients,
    qkv_experiment_order, qkv_experiment_positions, qkv_experiment_memory, qkv_experiment_patterns,
    qkv_experiment_stability;

#endif
