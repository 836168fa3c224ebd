/* What the verbs share that run a model over texts (predict, embed): options, rows, and batches as large as may be without
 * waiting for more input. */
#ifndef QKV_CLI_TEXTS_H
#define QKV_CLI_TEXTS_H

#include "cli.h"

typedef struct cli_texts_options {
    int64_t column, threads;
    const char *dtype;
    cli_reading reading;
} cli_texts_options;

/* Their lines in a verb's table; `at` is where they lie in the struct that it fills. */
#define CLI_TEXTS_OPTIONS(at)                                                                                                      \
    {"column", 0, CLI_INT, (at) + offsetof(cli_texts_options, column), "N", "0", 0, 1e9,                                           \
     "the text is column N of tab-separated lines, from 1; a line with fewer has no text. 0: the whole line"},                     \
        {"dtype", 0, CLI_TEXT, (at) + offsetof(cli_texts_options, dtype), "NAME", NULL, 0, 0, CLI_DTYPE_HELP},                     \
        CLI_READING_OPTIONS((at) + offsetof(cli_texts_options, reading)), {                                                        \
        "threads", 0, CLI_INT, (at) + offsetof(cli_texts_options, threads), "N", "0", 0, 1024, "threads; 0: every core allowed"    \
    }

typedef struct cli_texts {
    qkv_ctx *ctx;
    qkv_model *model;
    qkv_rows *rows;
    qkv_data_options data;
    int64_t column;
    /* the batch at hand */
    int64_t count, capacity;
    const char **text;
    int64_t *length;
    int64_t *dropped; /* for who answers to fill */
    int64_t *line;    /* where each begins in the file */
    const char *name; /* of the file */
    /* its bytes, and where each text begins in them */
    char *bytes;
    size_t used, room;
    int64_t *begin;
    /* for the notes at the end */
    int64_t short_lines, first_short; /* without the column */
    int64_t done, cut_rows, cut_tokens;
} cli_texts;

/* Opens what `args` name: MODEL [FILE]. CLI_GO_ON, or the code to exit with. To be closed in any case. */
int cli_texts_open(const cli_verb *verb, const cli_texts_options *options, const cli_args *args, int stoppable, cli_texts *t);
void cli_texts_close(cli_texts *t);

/* What a model said to the batch: how many rows have an answer (all, or those before the first that is not a number), with `code` to go
 * on with afterwards: CLI_GO_ON or, once the reason was said, CLI_FAILED. */
int64_t cli_texts_answered(const cli_texts *t, qkv_status status, const float *answers, int64_t width, int *code);

/* Reads to the end and calls `answer` with each batch; it returns CLI_GO_ON or the code to exit with. `width`: numbers that a row
 * makes, to bound the rows of a batch. Says what was odd about the rows. CLI_DONE or the code to exit with. */
int cli_texts_run(cli_texts *t, int64_t width, int (*answer)(void *user, cli_texts *t), void *user);

#endif
