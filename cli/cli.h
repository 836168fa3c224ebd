/* What the files of the program share. Results go to standard output, everything else to standard error. */
#ifndef QKV_CLI_H
#define QKV_CLI_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <jansson.h>

#include "qkv.h"

/* What the program returns. */
enum {
    CLI_DONE = 0,
    CLI_FAILED = 1,    /* the work failed */
    CLI_WRONG_USE = 2, /* the command line makes no sense */
    CLI_SIGNAL = 128,  /* plus the signal that ended it */
    CLI_GO_ON = -1     /* not a result: the caller goes on */
};

/* ---- options and verbs (args.c, verbs.c, help.c) ---- */

typedef enum cli_kind {
    CLI_FLAG, /* int: 1 when given */
    CLI_TEXT, /* const char * */
    CLI_INT,  /* int64_t */
    CLI_REAL, /* double */
    CLI_SPAN, /* qkv_span */
    CLI_SEED  /* uint64_t */
} cli_kind;

/* An option of the program itself. The library's options come from its own tables. */
typedef struct cli_option {
    const char *name; /* without the dashes */
    char letter;      /* 'o' for -o, or 0 */
    cli_kind kind;
    size_t offset;        /* of its field */
    const char *value;    /* what stands for the value in the help: FILE */
    const char *fallback; /* the default, as text; NULL: zero, and nothing is shown */
    double min, max;      /* for INT and REAL */
    const char *help;
} cli_option;

/* What an option of the program itself needs to have an effect, as qkv_option says it: options of the program or the library. */
typedef struct cli_need {
    const char *option, *needs;
} cli_need;

typedef struct cli_verb cli_verb;
struct cli_verb {
    const char *name, *task; /* "train", "classify"; task may be NULL */
    const char *usage;       /* lines without the leading "qkv " */
    const char *summary;     /* a few words */
    const char *about;       /* paragraphs, each one line; an empty line between */
    const char *examples;    /* command lines without the leading "qkv " */
    const cli_option *options;
    size_t count;
    const cli_need *needs; /* ends with a NULL; or NULL */
    size_t struct_size;                     /* of the struct that the options fill */
    const qkv_option_table *(*table)(void); /* more options, or NULL */
    int bare; /* 1: does something without arguments; others then print their help */
    int no_labels, writes_labels; /* 1: of rows with labels, those are not read; labels are written */
    int (*run)(const cli_verb *verb, int argc, char **argv);
};

extern const cli_verb cli_train_classify, cli_test, cli_predict, cli_embed, cli_info, cli_attend, cli_bench, cli_flops, cli_compare, cli_help;
extern const cli_verb *const cli_verbs[]; /* ends with NULL */

typedef struct cli_setting {
    const char *name, *value;
} cli_setting;

typedef struct cli_args {
    const char *words[4]; /* what is not an option */
    int count;
    cli_setting *settings; /* options of the verb's library table, in order */
    int setting_count;
    uint64_t given; /* bit i: options[i] of the verb stands on the line */
} cli_args;

/* Reads the command line after the verb into `values` (verb->struct_size bytes, filled with the defaults first) and
 * `args`. CLI_GO_ON, or the code to exit with after it has said why. */
int cli_parse(const cli_verb *verb, int argc, char **argv, int most_words, void *values, cli_args *args);
void cli_args_free(cli_args *args);
int cli_given(const cli_verb *verb, const cli_args *args, const char *option); /* 1: it stands on the line. `option` is one of the verb's own */

/* Fills `options` with the defaults of the verb's library table and what the command line says. */
int cli_set_options(const cli_verb *verb, qkv_ctx *ctx, const cli_args *args, void *options);
/* The settings alone, over what is there. */
int cli_apply_settings(const cli_verb *verb, qkv_ctx *ctx, const cli_args *args, void *options);

/* Says what is wrong with the command line and where the help is; returns CLI_WRONG_USE. */
int cli_wrong_use(const cli_verb *verb, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Why there is no such verb or option, and what may have been meant: what is near, or what fastText's is called here (hints.c). `name`
 * without dashes, of `length` bytes; `dashes` as they stand on the line. CLI_WRONG_USE. */
int cli_unknown_verb(const char *name);
int cli_unknown_option(const cli_verb *verb, const char *dashes, const char *name, size_t length);
/* The library calls a thing max_length, the command line max-length: names of options become those of the command line. */
void cli_name_options(char *message);
int cli_is_fasttext(const char *name); /* 1: fastText has an option of that name */

/* What is not an option, but options may need; NULL: it is so, else why not ("the model reads one text a row"). */
typedef struct cli_facts {
    const char *labels, *multi_label, *pair;
} cli_facts;

/* Refuses an option on the line that would have no effect (effect.c). `options`: the library's as they are now; both may be NULL. */
int cli_check_effects(const cli_verb *verb, const cli_args *args, const void *values, const void *options, const cli_facts *facts);
int cli_takes(const cli_verb *verb, const qkv_option *option); /* 0: it would never have one, and help leaves it out */
/* Would the library's option have one? */
int cli_has_effect(const cli_verb *verb, const void *values, const void *options, const qkv_option *option);

void cli_help_overview(FILE *to);
void cli_help_verb(FILE *to, const cli_verb *verb);
const char *cli_verb_title(const cli_verb *verb, char *text, size_t size); /* "train classify" */
const char *cli_type_name(qkv_option_type type, const char *choices);      /* what stands for a value in the help */

void cli_option_left(const qkv_option *option, char *text, size_t size); /* --position NAME */
void cli_option_help(const qkv_option *option, char *text, size_t size); /* the help with the choices */

/* Calls `item` for every value of --size: its name and a sentence of what it sets. */
void cli_sizes(void (*item)(void *user, const char *name, const char *what), void *user);

/* ---- the context of a run (session.c) ---- */

typedef struct cli_progress cli_progress;

/* --dtype of a verb that uses a model: how it is to compute from now on. NULL: as it was trained. */
int cli_set_compute(const cli_verb *verb, qkv_ctx *ctx, qkv_model *model, const char *dtype);
#define CLI_DTYPE_HELP "f32 or bf16: how to compute, if not as the model was trained"

/* How a verb that uses a model is to read texts, if not as the model was trained. */
typedef struct cli_reading {
    int64_t max_length;
    const char *beyond, *stretch;
    double factor;
} cli_reading;
/* Their lines in a verb's table; `at` is where they lie in the struct that it fills. */
#define CLI_READING_OPTIONS(at)                                                                                                    \
    {"max-length", 0, CLI_INT, (at) + offsetof(cli_reading, max_length), "N", "0", 0, 1 << 24,                                     \
     "tokens of a text that are read, if not as in training (more than then only where the model's positions allow it)"},           \
        {"position-beyond", 0, CLI_TEXT, (at) + offsetof(cli_reading, beyond), "NAME", NULL, 0, 0,                                 \
         "what tokens beyond learned positions have: error, clamp, tile, interpolate"},                                            \
        {"rope-stretch", 0, CLI_TEXT, (at) + offsetof(cli_reading, stretch), "NAME", NULL, 0, 0,                                   \
         "of rotary positions: none, linear, ntk, yarn"},                                                                          \
    {                                                                                                                              \
        "rope-factor", 0, CLI_REAL, (at) + offsetof(cli_reading, factor), "X", "0", 0, 1e6,                                        \
            "of the stretch; 0: --max-length / length that it was made for"                                                               \
    }
/* `path` is the model's, for the message. */
int cli_set_reading(const cli_verb *verb, qkv_ctx *ctx, qkv_model *model, const char *path, const cli_reading *reading);

/* A context that says its warnings on standard error (around `progress`, may be NULL). `stoppable`: the first SIGINT or
 * SIGTERM asks long work to end. CLI_GO_ON or the code to exit with. */
int cli_open(const cli_verb *verb, int64_t threads, int stoppable, cli_progress *progress, qkv_ctx **ctx);

/* Says the context's message on standard error and returns the exit code that goes with the status. */
int cli_fail(const qkv_ctx *ctx, qkv_status status);
void cli_say_of(const char *of, const char *format, va_list args) __attribute__((format(printf, 2, 0))); /* "qkv train classify: ..." */
void cli_say(const char *format, ...) __attribute__((format(printf, 1, 2))); /* "qkv: ..." on standard error */

/* Says why standard output takes no more (not for a reader that left) and returns the exit code. */
int cli_output_failed(int error);

/* Closes standard output and turns a failed write into a failed run. */
int cli_finish(int code);

void *cli_alloc(size_t bytes); /* never NULL: ends the program when there is no memory */
void *cli_grow(void *pointer, size_t bytes);

/* ---- names of files to be written (places.c) ---- */

int cli_same_file(const char *a, const char *b); /* NULL and "-" are no files */

/* A file is made beside `path` and removed, before work begins whose result, `what`, is to go there. CLI_GO_ON or CLI_FAILED. */
int cli_check_place(const char *path, const char *what);

/* ---- signals.c ---- */

/* What the program does, for what a signal says. */
typedef enum cli_phase {
    CLI_READS, /* data: nothing is trained yet, and a signal interrupts the wait for it */
    CLI_STEPS,
    CLI_SAVES,
    CLI_SAVED,
    CLI_MEASURES, /* no training: what is measured so far is printed */
    CLI_WRITES    /* rows into a file: it is taken away again */
} cli_phase;

void cli_signals_stoppable(void); /* from now on the first SIGINT, SIGTERM, SIGHUP only asks; the second ends at once */
void cli_signals_phase(cli_phase phase);
int cli_signals_got(void); /* the signal that asked, 0 if none did */
void cli_signals_ask(int number); /* as if it had come: SIGPIPE, where results are all there is and nobody reads them */

/* ---- numbers and text for people and for programs (format.c, json.c) ---- */

typedef struct cli_text {
    char s[40];
} cli_text;

cli_text cli_count(int64_t n);               /* 1,234,567 */
cli_text cli_bytes(double bytes);            /* 12.3 MB */
cli_text cli_si(double n, const char *unit); /* 12.3 GFLOP */
cli_text cli_duration(double seconds);       /* 4.2 s, 3:07 min, 1:02:03 h */
cli_text cli_percent(double share);          /* 79.61 %, or - for what is not a number */
cli_text cli_loss(double loss);              /* 1.2345, or - for what is not a number */
cli_text cli_short(double x);                 /* four digits or the whole part: 0.0312, 12.5, 16,384 */
cli_text cli_of(int64_t n, const char *one); /* 1 row, 2 rows, 3 classes: cli_count and the plural */

/* What a backward pass computes again, as qkv_train_plan and qkv_flops tell it: in words, `join` before each; the name of `part`.
 */
void cli_again(FILE *to, const char *join, int part, int64_t every, int64_t ffn_chunk);
const char *cli_again_part(int part);
int cli_float9(float x, char to[24]); /* as "%.9g", which reads back to the same float, some times as fast; the length */
cli_text cli_float(float x);          /* the shortest decimal that reads back to the same float */

/* `text` for a table, escaped as in JSON (below) and with what the terminal would not show as \xHH too. Returns its width
 * in terminal columns; cut at `most` columns (0: never). */
int cli_printable(const char *text, int64_t length, int most, char *out, size_t size);
int cli_escape(const char *text, int64_t left, char piece[24], int *used); /* the next code point or byte, escaped */
void cli_print_padded(FILE *to, const char *text, int width);              /* left-aligned; text as from cli_printable */
int cli_is_terminal(FILE *stream);

/* Any bytes, different texts always differently: a backslash is doubled, NUL and what is not UTF-8 appear as \xHH. It is
 * the escape of the model file and of qkv_model_describe. */
json_t *cli_json_text(const char *text, int64_t length);
json_t *cli_json_real(double x);                           /* null where JSON has no number */
json_t *cli_json_float(float x);                           /* reads back to the same float */
char *cli_json_print(json_t *value, size_t flags);         /* as text, to be freed; drops the reference */
void cli_json_line(FILE *to, json_t *value, size_t flags); /* writes a line, drops the reference */
int cli_json_file(qkv_ctx *ctx, const char *path, json_t *value); /* there whole or not at all; drops the reference */

/* ---- matrices (matrix.c, npy.c) ---- */

typedef struct cli_matrix {
    int64_t rows, cols;
    float *p;
} cli_matrix;

/* Text (a row a line; spaces, tabs or commas between numbers; # starts a comment) or .npy. 0, or -1 with a sentence. */
int cli_matrix_read(qkv_ctx *ctx, const char *path, cli_matrix *m, char *message, size_t size);
#define CLI_NPY_HEADER 128
void cli_npy_header(int64_t rows, int64_t cols, char header[CLI_NPY_HEADER]); /* of little-endian floats, C order; version 1.0 */
int cli_npy_read(FILE *file, const char *path, cli_matrix *m, char *message, size_t size);
void cli_matrix_print(FILE *to, const float *p, int64_t rows, int64_t cols, int64_t row_stride);
json_t *cli_matrix_json(const float *p, int64_t rows, int64_t cols, int64_t row_stride);

#endif
