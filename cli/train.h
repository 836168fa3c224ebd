/* What the files behind `qkv train` share. */
#ifndef QKV_CLI_TRAIN_H
#define QKV_CLI_TRAIN_H

#include "cli.h"
#include "progress.h"

typedef struct train_values {
    const char *output, *size, *log, *pretrain_text;
    int64_t threads;
    double checkpoint; /* minutes */
    int64_t folds, trials;
    double autotune; /* minutes */
    int64_t monitor_every; /* steps */
    int resume, json, monitor;
} train_values;

typedef struct train_run {
    const train_values *values;
    const qkv_classify_options *options;
    const char *train, *dev;
    char *resume; /* the checkpoint's path */
    qkv_machine machine;
    cli_progress progress;
    FILE *log; /* NULL: none */
    int log_failed;
    int output_error; /* errno of the first line of scores that could not be written */
    json_t *summary;     /* what --json prints */
    qkv_train_phase phase;
    int64_t step, steps; /* the last one done, of how many, in this phase */
    int ended;
    qkv_train_end end;
    const char *part; /* "fold", "trial": of many trainings this is one; NULL: it is alone */
    int64_t part_number, dev_rows;
    char part_what[64];
} train_run;

/* The training's events: told to people (train_report.c), logged and kept for the summary (train_log.c). */
void train_report(train_run *run, const qkv_train_event *event);
void train_report_end(const train_run *run, const qkv_model *model, double file_bytes);
void train_shell_word(FILE *to, const char *word); /* as it can be pasted into a shell */
void train_record(train_run *run, const qkv_train_event *event);
void train_log_line(train_run *run, json_t *line); /* drops the reference */
json_t *train_event_line(const char *event, json_t *rest); /* "event" first; drops the reference */

/* train.c */
void train_on_event(void *user, const qkv_train_event *event); /* user: the train_run */
/* The next training is one of many; of 0: not known of how many. */
void train_part(train_run *run, const char *part, int64_t number, int64_t of);
const char *train_signal_name(int number);
double train_peak(const train_run *run); /* GFLOP/s of the machine in the type that is trained with */
const char *train_peak_name(const train_run *run);
int train_save(qkv_ctx *ctx, qkv_model *model, train_run *run);

/* Cross-validation. CLI_GO_ON: it is done. */
int train_folds(qkv_ctx *ctx, train_run *run);
/* The search for options, and the best model to its place. */
int train_tune(qkv_ctx *ctx, train_run *run, const cli_args *args);

#endif
