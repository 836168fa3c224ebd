/* What the files behind `qkv train` share. */
#ifndef QKV_CLI_TRAIN_H
#define QKV_CLI_TRAIN_H

#include "cli.h"
#include "progress.h"

typedef struct train_values {
    const char *output, *size, *log;
    int64_t threads;
    double checkpoint; /* minutes */
    int resume, json;
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
    json_t *summary;     /* what --json prints */
    int64_t step, steps; /* the last one done, of how many */
    int ended;
    qkv_train_end end;
} train_run;

/* The training's events: told to people (train_report.c), logged and kept for the summary (train_log.c). */
void train_report(train_run *run, const qkv_train_event *event);
void train_report_end(const train_run *run, const qkv_model *model, double file_bytes);
void train_shell_word(const char *word); /* on standard error, as it can be pasted into a shell */
void train_record(train_run *run, const qkv_train_event *event);

#endif
