/* What the compared programs share: they read a line of name=value words, run that case for a while, and answer with a line:
 * the median of the seconds of a pass, or "- why not". They wait in between without using the processor. */
#ifndef QKV_BENCH_PEERS_TURN_H
#define QKV_BENCH_PEERS_TURN_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TURN_PASSES = 1000 };

static inline double turn_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The number behind name= in the line, or `fallback`. */
static inline double turn_number(const char *line, const char *name, double fallback) {
    size_t n = strlen(name);
    for (const char *at = strstr(line, name); at; at = strstr(at + 1, name))
        if (at[n] == '=' && (at == line || at[-1] == ' ')) return atof(at + n + 1);
    return fallback;
}

static inline int turn_is(const char *line, const char *word) {
    const char *at = strstr(line, word);
    size_t n = strlen(word);
    return at && (at == line || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\n' || at[n] == 0);
}

static inline int turn_ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Passes until `seconds` are over, at least three unless they take six times as long; the median. The first is not counted. */
static inline double turn_run(void (*pass)(void *), void *arg, double seconds) {
    static double times[TURN_PASSES];
    int count = 0;
    pass(arg);
    double begun = turn_now(), t = begun;
    while (count < TURN_PASSES && (count == 0 || t - begun < (count < 3 ? 6 * seconds : seconds))) {
        t = turn_now();
        pass(arg);
        times[count] = turn_now() - t;
        t += times[count++];
    }
    qsort(times, (size_t)count, sizeof *times, turn_ascending);
    return times[count / 2];
}

static inline float *turn_random(size_t n) {
    float *p = aligned_alloc(64, (n * sizeof(float) + 63) / 64 * 64);
    unsigned x = 12345;
    for (size_t i = 0; p && i < n; i++) {
        x = x * 1664525u + 1013904223u;
        p[i] = ((float)(x >> 8) / 8388608.0f - 1) * 1.7f;
    }
    return p;
}

#endif
