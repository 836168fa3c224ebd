#include "base/rng.h"

#include <math.h>

double qkv_normal(uint64_t key) {
    double u = 1.0 - qkv_uniform(key); /* in (0, 1]: the logarithm is finite */
    double v = qkv_uniform(key ^ 0xA5A5A5A55A5A5A5Au);
    return sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v);
}

uint64_t qkv_below(uint64_t key, uint64_t n) {
    __extension__ typedef unsigned __int128 wide;
    return (uint64_t)(((wide)qkv_mix64(key) * n) >> 64);
}

void qkv_shuffle(uint64_t key, int64_t n, int64_t *order) {
    for (int64_t i = 0; i < n; i++) order[i] = i;
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t j = (int64_t)qkv_below(qkv_key2(key, (uint64_t)i), (uint64_t)i + 1);
        int64_t t = order[i];
        order[i] = order[j];
        order[j] = t;
    }
}
