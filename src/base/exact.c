#include "base/exact.h"

#include <math.h>

/* log 2 in two parts: the first has zeros at its end, so that a multiple of it by a small integer is exact. */
static const double LN2_HIGH = 0x1.62e42feep-1, LN2_LOW = 0x1.a39ef35793c76p-33, LOG2E = 0x1.71547652b82fep+0;

double qkv_exact_exp(double x) {
    if (!(x < 709.8)) return x > 0 ? (double)INFINITY : x;
    if (x < -745.2) return 0;
    double k = floor(x * LOG2E + 0.5), r = (x - k * LN2_HIGH) - k * LN2_LOW, sum = 1;
    for (int n = 14; n >= 1; n--) sum = 1 + sum * r / n; /* |r| <= 0.35 */
    return ldexp(sum, (int)k);
}

double qkv_exact_log(double x) {
    int k;
    double m = frexp(x, &k); /* in [0.5, 1) */
    if (m < 0x1.6a09e667f3bcdp-1) m *= 2, k--;
    double z = (m - 1) / (m + 1), square = z * z, sum = 0; /* log m = 2 atanh z, |z| <= 0.172 */
    for (int n = 23; n >= 1; n -= 2) sum = sum * square + 1.0 / n;
    return k * LN2_HIGH + (k * LN2_LOW + 2 * z * sum);
}

double qkv_exact_sigmoid(double t) { return t >= 0 ? 1 / (1 + qkv_exact_exp(-t)) : 1 - 1 / (1 + qkv_exact_exp(t)); }

double qkv_exact_softplus(double t) { return fmax(t, 0) + qkv_exact_log(1 + qkv_exact_exp(-fabs(t))); }
