/* Clipping by the global norm (Pascanu et al. 2013). */
#ifndef QKV_TRAIN_CLIP_H
#define QKV_TRAIN_CLIP_H

/* What gradients of this norm are multiplied by: limit / norm where the norm is above the limit, else 1. A limit of 0 means
 * no clipping. */
static inline double qkv_clip_factor(double norm, double limit) {
    return limit > 0 && norm > limit ? limit / norm : 1;
}

#endif
