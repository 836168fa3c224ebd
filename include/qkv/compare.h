/* Experiments with a verdict: what is often said about attention and recurrence, beside what this machine measures.
 *
 * An experiment is a list of cells, each a measurement of its own (a training with one seed, a layer of one size). Of the cells
 * that are done it makes tables, charts, and a verdict on each claim. A verdict is computed from the measurements and their
 * spread: the 95 % interval of ours is held against the figure of the claim, with half a unit of the last digit the figure is
 * given with, and against the value that would mean "no difference". */
#ifndef QKV_COMPARE_H
#define QKV_COMPARE_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Set by qkv_compare_init. */
typedef struct qkv_compare_options {
    size_t struct_size;
    const char *what;  /* an experiment by name */
    const char *data;  /* labelled rows (docs/data-formats.md), one in ten of them is held out; NULL: rows that are made */
    const char *cells; /* a file: cells that are in it are taken, those that are done are added to it (atomically); it need not
                        * exist. NULL: none is kept */
    int64_t seeds;     /* trainings of each kind, 1 .. 100; 0: as many as the experiment has by default */
    uint64_t seed;     /* the first of them, 100 below the largest number at most */
    int quick;         /* 1: smaller and fewer, within two minutes on two cores */
    const char *only;  /* of the cells that are not in the file only those are measured that have these words in their name, whatever
                        * the case ("seed 1" is not in "seed 10"); NULL: all. Words that no name has are QKV_BAD_ARGUMENT */
    int show;          /* 1: nothing is measured, the result is of what the file has */
} qkv_compare_options;

QKV_API void qkv_compare_init(qkv_compare_options *options);

/* An experiment: its name, and what it compares in a few words. NULL for an index that is out of range. */
QKV_API const char *qkv_compare_name(int64_t index);
QKV_API const char *qkv_compare_summary(int64_t index);

typedef enum qkv_verdict { QKV_HOLDS, QKV_HOLDS_IN_PART, QKV_DOES_NOT_HOLD, QKV_CANNOT_BE_JUDGED } qkv_verdict;
QKV_API const char *qkv_verdict_name(qkv_verdict verdict); /* "holds in part" */

typedef enum qkv_unit {
    QKV_UNIT_TEXT,
    QKV_UNIT_COUNT,
    QKV_UNIT_NUMBER,
    QKV_UNIT_SHARE, /* 0 .. 1, shown in per cent */
    QKV_UNIT_GAIN,  /* a difference of shares, shown in points, with its interval */
    QKV_UNIT_SECONDS,
    QKV_UNIT_BYTES,
    QKV_UNIT_OPERATIONS /* multiply-adds */
} qkv_unit;

typedef struct qkv_compare_column {
    const char *key, *name; /* for programs, for people */
    qkv_unit unit;
} qkv_compare_column;

typedef struct qkv_compare_value {
    const char *text; /* of a TEXT column, else NULL */
    double value;     /* NaN: not measured */
    double deviation; /* of a sample, over the seeds or repeats; NaN: none is known */
    double low, high; /* of a gain: where it lies with 95 % confidence; NaN: not known */
} qkv_compare_value;

typedef struct qkv_compare_table {
    const char *key, *title, *note; /* note: one sentence or more; "" where there is none */
    int64_t columns, rows;
    const qkv_compare_column *column; /* [columns] */
    const qkv_compare_value *value;   /* [rows][columns] */
} qkv_compare_table;

typedef struct qkv_compare_line {
    const char *name;
    int64_t count;
    const double *x, *y, *deviation; /* [count]; deviation NaN: none */
} qkv_compare_line;

typedef struct qkv_compare_chart {
    const char *title, *x_name, *y_name;
    qkv_unit x_unit, y_unit;
    int x_log, y_log;
    int64_t lines;
    const qkv_compare_line *line;
} qkv_compare_chart;

/* What a claim says is judged part by part. Shares and differences of shares are 0 .. 1. What is not known is NaN. */
typedef struct qkv_compare_part {
    const char *name;    /* "" where there is one */
    double figure;       /* of the claim; infinite: a direction, away from `nothing` */
    double nothing;      /* the value that would mean "no difference"; NaN: there is none */
    double value;        /* ours */
    double low, high;    /* where it lies with 95 % confidence */
    int64_t measurements, missing; /* it is of so many; more of them are not there yet */
    qkv_verdict verdict;
    const char *why;
} qkv_compare_part;

/* A row of docs/claims.md, or a part of one. */
typedef struct qkv_compare_claim {
    int row;
    const char *article; /* "A" or "B" */
    const char *says;    /* what is claimed */
    const char *figure;  /* the claim's figure, as it is given */
    const char *ours;    /* what was measured here */
    qkv_verdict verdict;
    const char *why; /* in words and numbers */
    int so_far;      /* 1: measurements that it needs are missing */
    int64_t parts;
    const qkv_compare_part *part;
} qkv_compare_claim;

typedef struct qkv_compare_result {
    const char *what, *summary;
    const char *machine; /* what it ran on */
    const char *setting; /* sizes, data, seeds */
    int64_t cells, done; /* done < cells: it was stopped, or only a part was asked for */
    int64_t taken;       /* of those done: from the file */
    int64_t others;      /* cells in the file that are of other runs */
    int kept;            /* 1: what is done is in the file */
    double seconds;
    int64_t tables, charts, claims;
    const qkv_compare_table *table;
    const qkv_compare_chart *chart;
    const qkv_compare_claim *claim;
} qkv_compare_result;

typedef struct qkv_compare_progress {
    int64_t cell, cells; /* the one at hand, from 0; how many are asked for */
    const char *what;    /* it is */
    double part;         /* of it that is done, 0 .. 1 */
    double left;         /* seconds that all of them will take from now on; NaN: not known yet */
} qkv_compare_progress;

typedef struct qkv_compare_callbacks {
    /* Before each cell, and now and then while it runs. May be NULL. Called on the thread that runs the experiment; it must not
     * call into the same context. */
    void (*progress)(void *user, const qkv_compare_progress *progress);
    /* With options->show, for each cell that is asked for: its name, and whether it is done; the result has no tables then. May be NULL. */
    void (*listed)(void *user, const char *name, int done);
    void *user;
} qkv_compare_callbacks;

/* Runs an experiment. QKV_OK, or QKV_STOPPED when the stop callback asked: then *result has what the cells that are done give,
 * and verdicts that need others are QKV_CANNOT_BE_JUDGED. Else *result is NULL. A file of cells that is damaged is mended: lines
 * that are not as they were written, or lack a value, are passed over, which is logged; one that never was a file of
 * cells is QKV_BAD_FORMAT and stays as it is. One that cannot be written is logged once, and the run goes on without. Several runs
 * may use one file at once.
 * Trainings give the same scores for any number of threads. `callbacks` may be NULL. */
QKV_API qkv_status qkv_compare_run(qkv_ctx *ctx, const qkv_compare_options *options, const qkv_compare_callbacks *callbacks,
                                   qkv_compare_result **result) QKV_MUST_USE;
QKV_API void qkv_compare_free(qkv_ctx *ctx, qkv_compare_result *result); /* NULL is harmless */

/* Writes the result as one page of HTML, with charts, that needs nothing else: no script, no other file, no network. The file is
 * there whole or not at all. */
QKV_API qkv_status qkv_compare_write_page(qkv_ctx *ctx, const qkv_compare_result *result, const char *path) QKV_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
