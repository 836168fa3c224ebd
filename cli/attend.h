/* What the three kinds of `qkv attend` share. */
#ifndef QKV_CLI_ATTEND_H
#define QKV_CLI_ATTEND_H

#include "cli.h"

typedef struct attend_values {
    int example;
    const char *q, *k, *v;
    int64_t heads, kv_heads;
    int causal;
    qkv_span window;
    double scale;
    int weights, lse;
    int64_t layer, head, threads;
    cli_reading reading;
    int json;
} attend_values;

int attend_example(qkv_ctx *ctx, const attend_values *values);
int attend_files(const cli_verb *verb, qkv_ctx *ctx, const attend_values *values);
int attend_model(const cli_verb *verb, qkv_ctx *ctx, const attend_values *values, const char *path, const char *text);

#endif
