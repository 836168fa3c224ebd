#include "compare/list.h"

#include <stddef.h>

const qkv_experiment *const qkv_experiments[] = {&qkv_experiment_speed,     &qkv_experiment_heads,     &qkv_experiment_length,
                                                 &qkv_experiment_gradients, &qkv_experiment_order,     &qkv_experiment_positions,
                                                 &qkv_experiment_memory,    &qkv_experiment_patterns,  &qkv_experiment_stability,
                                                 NULL};
