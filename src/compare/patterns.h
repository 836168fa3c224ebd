/* The arms of the experiment `patterns`, for those that train them (patterns.c) and those that judge (patterns_results.c). */
#ifndef QKV_COMPARE_PATTERNS_H
#define QKV_COMPARE_PATTERNS_H

#include "compare/crossval.h"
#include "compare/fold_scores.h"

/* What is read of a text, and who sees whom. */
typedef enum qkv_way {
    QKV_WAY_FULL,
    QKV_WAY_ENDS,
    QKV_WAY_LOCAL,
    QKV_WAY_GLOBAL,
    QKV_WAY_FIXED,
    QKV_WAY_SENTENCES,
    QKV_WAY_DEEP,        /* full, of three layers */
    QKV_WAY_ALTERNATING, /* as deep, and all but the first with a window */
    QKV_WAY_SPARSE,
    QKV_WAY_LINEAR,
    QKV_WAYS
} qkv_way;

enum {
    QKV_PATTERNS_SHORT,
    QKV_PATTERNS_ENDS,
    QKV_PATTERNS_FULL_4,
    QKV_PATTERNS_LOCAL_4,
    QKV_PATTERNS_GLOBAL_4,
    QKV_PATTERNS_FIXED_4,
    QKV_PATTERNS_SENTENCES_4,
    QKV_PATTERNS_DEEP_4,
    QKV_PATTERNS_ALTERNATING_4,
    QKV_PATTERNS_SPARSE_4,
    QKV_PATTERNS_LOCAL_16,
    QKV_PATTERNS_GLOBAL_16,
    QKV_PATTERNS_FIXED_16,
    QKV_PATTERNS_SENTENCES_16,
    QKV_PATTERNS_LINEAR,
    QKV_PATTERNS_COUNT
};

/* Lengths are in units of what full attention is used to: 512 tokens. */
typedef struct qkv_patterns_arm {
    qkv_way way;
    int64_t units, layers;
    int stage; /* those of an earlier one are trained first, in all folds */
} qkv_patterns_arm;
enum { QKV_PATTERNS_STAGES = 4 };

extern const qkv_patterns_arm QKV_PATTERNS_ARMS[QKV_PATTERNS_COUNT];
extern const char *const QKV_WAY_NAMES[QKV_WAYS];

/* Places of a trial. */
enum { QKV_PATTERNS_ARM, QKV_PATTERNS_FOLD, QKV_PATTERNS_TURN };

typedef struct qkv_patterns {
    qkv_crossval crossval;
    bool given;                     /* the texts come from a file */
    int64_t unit;                   /* tokens */
    int64_t window, segment; /* neighbours on each side; tokens of a segment at most */
    int64_t first, every;    /* global tokens: so many at the beginning, and every so many-th */
    int64_t dim, heads, batch_rows;
    double epochs, lr;
    qkv_fold_scores fold_scores[QKV_PATTERNS_COUNT];
} qkv_patterns;

int64_t qkv_patterns_length(const qkv_patterns *p, int64_t arm);
void qkv_patterns_name(const qkv_patterns *p, int64_t arm, char text[64]);

/* src/compare/patterns_results.c */
void qkv_patterns_conclude(qkv_run *run, qkv_outcome *outcome);

#endif
