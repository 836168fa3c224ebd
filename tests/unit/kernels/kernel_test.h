/* For the cmocka tests of kernels: every table that can run here, the counting one included. */
#ifndef QKV_TESTS_KERNEL_TEST_H
#define QKV_TESTS_KERNEL_TEST_H

#include "support.h"

#include "kernels/pick.h"

#include "unit/kernels/kernel_case.h"

static inline int all_tables(const qkv_kernels *tables[5]) {
    int n = qkv_kernels_present(tables);
    tables[n++] = &qkv_kernels_count;
    return n;
}

#define FOR_EACH_TABLE(k)                                          \
    const qkv_kernels *tables_[5], *k;                             \
    const int table_count_ = all_tables(tables_);                  \
    for (int table_ = 0; table_ < table_count_ && (k = tables_[table_]); table_++)

static inline void check_near_at(double got, double want, double tolerance, const char *table, const char *what, int64_t at,
                                 const char *file, int line) {
    if (isnan(want) ? isnan(got) : isinf(want) ? got == want : fabs(got - want) <= tolerance) return;
    print_error("%s: %s[%lld] is %.9g, not %.9g (difference %.3g, allowed %.3g)\n", table, what, (long long)at, got, want, got - want,
                tolerance);
    _fail(file, line);
}
#define check_near(got, want, tolerance, table, what, at) \
    check_near_at((double)(got), want, tolerance, (table)->name, what, at, __FILE__, __LINE__)

static inline void check_same_at(const real *got, const real *want, int64_t n, const char *table, const char *what, const char *file,
                                 int line) {
    int64_t i = first_difference(got, want, n);
    if (i < 0) return;
    print_error("%s: %s[%lld] is %.9g (%a), not %.9g (%a)\n", table, what, (long long)i, (double)got[i], (double)got[i], (double)want[i],
                (double)want[i]);
    _fail(file, line);
}
#define check_same(got, want, n, table, what) check_same_at(got, want, n, (table)->name, what, __FILE__, __LINE__)

#endif
