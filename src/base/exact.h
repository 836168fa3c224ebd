/* exp and log of a double from plain IEEE operations: the same bits on every machine, which the C library's do not promise. The
 * relative error is below 1e-15. */
#ifndef QKV_BASE_EXACT_H
#define QKV_BASE_EXACT_H

double qkv_exact_exp(double x); /* inf above 709.8, 0 below -745.1 */
double qkv_exact_log(double x); /* x > 0, normal */
double qkv_exact_sigmoid(double t);
double qkv_exact_softplus(double t); /* log(1 + exp(t)) */

#endif
