/* Builds the result of an experiment: tables, charts, claims. A call that runs out of memory makes all later ones do nothing;
 * qkv_outcome_finish tells. */
#ifndef QKV_REPORT_OUTCOME_H
#define QKV_REPORT_OUTCOME_H

#include "base/ctx.h"
#include "report/verdict.h"

enum { QKV_OUTCOME_COLUMNS = 16, QKV_OUTCOME_PARTS = 12 };

typedef struct qkv_outcome qkv_outcome;

qkv_status qkv_outcome_create(qkv_ctx *ctx, qkv_outcome **outcome) QKV_MUST_USE;
void qkv_outcome_free(qkv_outcome *o);

/* What claims say of which not all was measured: the run that is needed. Copied. */
void qkv_outcome_lacks(qkv_outcome *o, const char *sentence);

/* A copy that lives as long as the outcome; "" once memory has run out. */
const char *qkv_outcome_text(qkv_outcome *o, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Every text that is given is copied. */
void qkv_outcome_table(qkv_outcome *o, const char *key, const char *title, const char *note, const qkv_compare_column *columns,
                       int64_t count);
void qkv_outcome_row(qkv_outcome *o); /* of the last table; all values are "not measured" until they are set */
void qkv_outcome_set_text(qkv_outcome *o, int64_t column, const char *text);
void qkv_outcome_set(qkv_outcome *o, int64_t column, double value, double deviation);
void qkv_outcome_set_estimate(qkv_outcome *o, int64_t column, const qkv_estimate *e);

void qkv_outcome_chart(qkv_outcome *o, const char *title, const char *x_name, qkv_unit x_unit, bool x_log, const char *y_name,
                       qkv_unit y_unit, bool y_log);
void qkv_outcome_line(qkv_outcome *o, const char *name); /* of the last chart */
/* Of the last line; a point that is no number is left out. */
void qkv_outcome_point(qkv_outcome *o, double x, double y, double deviation);

/* A claim in parts, each with its measurement and verdict. */
typedef struct qkv_outcome_claim {
    int row;
    const char *article, *says, *figure;
    int64_t parts;
    const char *name[QKV_OUTCOME_PARTS]; /* in front of what is said of the part; "" where there is one */
    qkv_verdict verdict[QKV_OUTCOME_PARTS];
    char why[QKV_OUTCOME_PARTS][320];
    qkv_compare_part measured[QKV_OUTCOME_PARTS]; /* its numbers; name and why are those above */
    int64_t missing;   /* measurements of the parts that are not there yet: then what is ours is so far */
    char ours[256];    /* "nan" where something was not measured: then `lacks` is said instead */
    const char *lacks; /* a sentence; NULL: that of the outcome */
} qkv_outcome_claim;

/* Judges a further part. Of a count: how many of `all` are as claimed, NaN where that is not known, and so many measurements of them are
 * not there yet. */
void qkv_claim_part(qkv_outcome_claim *claim, const char *name, const qkv_asked *asked, const qkv_estimate *ours);
void qkv_claim_count(qkv_outcome_claim *claim, const char *name, double good, int64_t all, int64_t missing);
/* A part that cannot be judged, for this reason, which lives as long as the outcome. */
void qkv_claim_open(qkv_outcome_claim *claim, const char *name, const char *why);
/* Adds the claim. `remark` (may be ""): a sentence behind all that. */
void qkv_outcome_add_claim(qkv_outcome *o, const qkv_outcome_claim *claim, const char *remark);

/* The result as far as it is, owned by the outcome; fills nothing but tables, charts and claims. */
qkv_status qkv_outcome_finish(qkv_outcome *o, qkv_compare_result **result) QKV_MUST_USE;
qkv_outcome *qkv_outcome_of(qkv_compare_result *result);

#endif
