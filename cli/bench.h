/* The results of `qkv bench`: a table for people, JSON for programs. */
#ifndef QKV_CLI_BENCH_H
#define QKV_CLI_BENCH_H

#include "cli.h"

void bench_machine_list(void); /* the names of what bench_machine_text prints */
void bench_machine_text(const qkv_machine *machines, int count);

/* The table is as wide as its cases need. */
typedef struct bench_columns {
    int name, shape;
} bench_columns;
bench_columns bench_widths(const qkv_bench_case *cases, int64_t count);
void bench_heading(const bench_columns *w);
void bench_row(const bench_columns *w, const qkv_bench_case *c);
void bench_row_skipped(const bench_columns *w, const qkv_bench_case *c, const char *why);

/* "attention.forward, causal  n 1024, dim 64, heads 8" */
void bench_describe(const qkv_bench_case *c, char *text, size_t size);

json_t *bench_machine_json(const qkv_machine *machines, int count);
json_t *bench_case_json(const qkv_bench_case *c);
json_t *bench_left_out_json(const qkv_bench_case *c, int threads, const char *why);

#endif
