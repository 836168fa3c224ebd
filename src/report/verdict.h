/* What a measurement says about a claim. */
#ifndef QKV_REPORT_VERDICT_H
#define QKV_REPORT_VERDICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "qkv/compare.h"

/* A quantity with the interval in which it lies with 95 % confidence. */
typedef struct qkv_estimate {
    double value, low, high; /* value NaN: not measured. low, high NaN: nothing is known of the spread */
    double deviation;        /* of a sample; NaN below two */
    int64_t count;           /* measurements */
    int64_t missing;         /* further ones, which are not there yet: it is known, but is judged by nothing */
} qkv_estimate;

/* Mean and interval by Student's t over the measurements that are numbers; one alone has no interval. `error`: a standard error on
 * top that is the same for all of them (that of the rows they are all scored on), added in quadrature. */
qkv_estimate qkv_estimate_mean(const double *measured, int64_t count, double error);

/* The same of the quotient of two positive quantities a[i] / b[i], by their logarithms. */
qkv_estimate qkv_estimate_ratio(const double *a, const double *b, int64_t count);

/* The slope of a line through y[round][point] by x[point], the same in all rounds, each of which has a level of its own: least
 * squares, the interval by Student's t of what is left over, what is no line too. A round that lacks a point is left out; one alone
 * has no interval. */
qkv_estimate qkv_estimate_slope(const double *x, int64_t points, const double *y, int64_t rounds);

/* The quotient of two times known by median and extremes of their repeats: the interval is that of the extremes. */
qkv_estimate qkv_estimate_quotient(const qkv_estimate *a, const qkv_estimate *b);

/* What is exact: no spread. */
qkv_estimate qkv_estimate_exact(double value);

/* A further uncertainty, which reaches so far below and above the value with 95 % confidence: added in quadrature. */
void qkv_estimate_reach(qkv_estimate *e, double below, double above);

/* Where a share lies with 95 % confidence that came out as `share` of so many rows: Wilson's interval, which knows that 200 of 200
 * is not all. */
void qkv_share_limits(double share, double rows, double *low, double *high);

/* Student's t, two-sided 95 %; NaN below 1 degree of freedom. */
double qkv_student(int64_t freedom);

typedef struct qkv_asked {
    double figure;      /* of the claim; infinite: any size in this direction from `nothing` */
    double slack;       /* half a unit of its last digit */
    double nothing;     /* the value that means "no difference" (0 of a difference, 1 of a quotient); NaN: there is none. Of a
                         * direction any other value is a mark: "under 2 % lost" */
    const char *format; /* how a value is printed: "%+.1f points"; one double goes in */
    double scale;       /* times the value */
} qkv_asked;

/* holds: the interval contains the figure and not `nothing`. Where the claim denies no value (`nothing` is NaN, or is the figure),
 * half of the interval must also be at most 2.5 times the slack: noise is no reason to believe a figure. in part: it contains
 * neither, but ours is on the figure's side of `nothing`: the direction is right, the size is not. does not hold: ours is on the
 * other side, or the interval contains `nothing` and not the figure. cannot be judged: measurements are missing, or both are inside
 * the spread, or it is too wide, or there is none to judge by. Of a direction alone: holds where all of the interval lies on its
 * side, does not where all of it lies on the other. */
qkv_verdict qkv_judge(const qkv_asked *asked, const qkv_estimate *ours, char *why, size_t size);

/* Of a claim about `all` things, exactly known for each, that is true of `good`; NaN: some are not measured. */
qkv_verdict qkv_judge_count(double good, int64_t all, char *why, size_t size);

/* Of a claim in parts: all hold, none holds (and all could be judged), or something between. */
qkv_verdict qkv_judge_parts(const qkv_verdict *parts, int64_t count);

#endif
