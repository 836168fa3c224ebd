/* The results of `qkv flops`: tables for people, JSON for programs. */
#ifndef QKV_CLI_FLOPS_H
#define QKV_CLI_FLOPS_H

#include "cli.h"

enum { FLOPS_LOOKS = 5 };

/* The time that no program could beat: the useful multiply-adds at the ceiling of all threads, the highest of FLOPS_LOOKS, or at
 * the one that was given. */
typedef struct flops_time {
    int threads;             /* 0: nothing was measured */
    double gflops, read_gbs; /* 0: there is no time */
    double floor_s, tokens_per_s;
    double bytes_s;           /* of all bytes, as if no cache held any */
    double share, expected_s; /* with --measure: what a pass took, and the floor's share of that; 0: not measured */
    int64_t passes;           /* that were timed */
} flops_time;

/* Of an attention layer alone: the same with and without its output projection, and with one head. */
typedef struct flops_variants {
    const qkv_flops *with, *without, *one_head;
} flops_variants;

void flops_text(const qkv_flops *f, int by_layer, const flops_variants *variants, const flops_time *time);
json_t *flops_json(const qkv_flops *f, const flops_variants *variants, const flops_time *time);

#endif
