#include "train/mcnemar.h"

/* Binomial coefficients as shares of the one in the middle, from there outwards: no factorial to overflow, no logarithm to round.
 * What is too small for a double is 0. */
double qkv_mcnemar(int64_t only_a, int64_t only_b) {
    int64_t n = only_a + only_b, few = only_a < only_b ? only_a : only_b, middle = n / 2;
    double share = 1, below = 0, upto_few = 0; /* below: the coefficients left of the middle */
    if (few == middle) return 1;
    for (int64_t i = middle; i > 0; i--) {
        share *= (double)i / (double)(n - i + 1);
        below += share;
        upto_few += i - 1 <= few ? share : 0;
    }
    /* The right half mirrors the left one; with an odd n there are two in the middle. */
    double all = 2 * below + (n % 2 ? 2 : 1);
    double p = 2 * upto_few / all;
    return p < 1 ? p : 1;
}
