/* Option tables. One table per kind of work is the only place that names an option, its default, its range and its help:
 * the struct is filled from it, and the program's help, the man page and the training record are printed from it. */
#ifndef QKV_OPTIONS_H
#define QKV_OPTIONS_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum qkv_option_type {
    QKV_OPTION_INT,    /* int64_t */
    QKV_OPTION_REAL,   /* double */
    QKV_OPTION_BOOL,   /* int, 0 or 1; as text yes|no */
    QKV_OPTION_CHOICE, /* int, index into `choices` */
    QKV_OPTION_SPAN,   /* qkv_span; as text L,R with -1 for no limit */
    QKV_OPTION_SEED,   /* uint64_t */
    QKV_OPTION_TEXT,   /* char[QKV_OPTION_TEXT_SIZE], ended by a NUL */
    QKV_OPTION_SIZE    /* int64_t, bytes; as text with k, M, G or T for 2^10, 2^20, 2^30, 2^40: 2G, 1.5G, 800M */
} qkv_option_type;

enum { QKV_OPTION_TEXT_SIZE = 128 };

typedef struct qkv_option {
    const char *name; /* as on the command line, without the dashes: "batch-tokens" */
    qkv_option_type type;
    size_t offset;        /* of the field in the options struct */
    const char *fallback; /* the default, as text */
    double min, max;      /* inclusive, for INT, REAL and SIZE */
    const char *choices;  /* "none|sinusoidal|learned" for CHOICE, else NULL */
    const char *group;    /* heading under which help shows it */
    const char *help;     /* one line */
    const char *needs;    /* without which it has no effect, all of it: "pretrain average=ema !steps": set, one of x|y, not set;
                           * "a,b": one of the two is enough. NULL: nothing */
} qkv_option;

typedef struct qkv_option_table {
    const char *name; /* "train classify" */
    const qkv_option *options;
    size_t count;
    size_t struct_size;
} qkv_option_table;

/* Fills `options` (of table->struct_size bytes) with the defaults. */
QKV_API void qkv_options_default(const qkv_option_table *table, void *options);

/* Sets one option from text. The decimal point is '.', whatever the locale. A name or value that the table does not know
 * is QKV_BAD_ARGUMENT with the nearest name or the accepted range in the message; nothing is changed then. */
QKV_API qkv_status qkv_options_set(qkv_ctx *ctx, const qkv_option_table *table, void *options, const char *name,
                                   const char *value) QKV_MUST_USE;

/* Writes the option's present value as text (reads back to the same value), cut to `size` bytes with its NUL; returns the
 * full length. */
QKV_API size_t qkv_options_text(const qkv_option *option, const void *options, char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
