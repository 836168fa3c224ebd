/* What the compared programs share: they read a line of name=value words, run that case for a while, and answer with a line:
 * the median of the seconds of a pass and the megabytes of the process that lie in large pages (or "- why not"). They wait in
 * between without using the processor.
 *
 * qkv asks for large pages for every block from 4 MiB on, so the others get them as well: the operands by turn_random, and what
 * a library keeps for itself (packing buffers, reordered weights) by turn_large_pages after the first pass. */
#ifndef QKV_BENCH_PEERS_TURN_H
#define QKV_BENCH_PEERS_TURN_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { TURN_PASSES = 1000, TURN_LARGE = 1 << 21, TURN_COLLAPSE = 25 /* MADV_COLLAPSE, Linux 6.1 and later */ };

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

/* Large pages for every private block of 4 MiB or more: what comes next, and what is there already where the system can. */
static inline void turn_large_pages(void) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512], rights[8], name[256];
    unsigned long from, to, inode;
    while (maps && fgets(line, sizeof line, maps)) {
        name[0] = 0;
        if (sscanf(line, "%lx-%lx %7s %*s %*s %lu %255s", &from, &to, rights, &inode, name) < 4) continue;
        if (inode != 0 || rights[0] != 'r' || rights[1] != 'w' || (name[0] == '[' && strcmp(name, "[heap]") != 0)) continue;
        from = (from + TURN_LARGE - 1) / TURN_LARGE * TURN_LARGE;
        to = to / TURN_LARGE * TURN_LARGE;
        if (to < from + 2ul * TURN_LARGE) continue;
        madvise((void *)from, to - from, MADV_HUGEPAGE);
        for (; from < to; from += TURN_LARGE) madvise((void *)from, TURN_LARGE, TURN_COLLAPSE); /* gives up at an empty one */
    }
    if (maps) fclose(maps);
}

/* Megabytes of the process in large pages; -1 where the system does not tell. */
static inline double turn_large_mb(void) {
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    char line[256];
    double kb = -1024;
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "AnonHugePages: %lf", &kb) == 1) break;
    if (file) fclose(file);
    return kb / 1024;
}

/* Passes until `seconds` are over, at least three unless they take six times as long; the median. The first two are not counted:
 * between them the library's own memory is moved to large pages. With 0 seconds one is counted. */
static inline double turn_run(void (*pass)(void *), void *arg, double seconds) {
    static double times[TURN_PASSES];
    int count = 0;
    pass(arg);
    turn_large_pages();
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

static inline void turn_answer(double seconds) {
    printf("%.9g %.0f\n", seconds, turn_large_mb());
    fflush(stdout);
}

static inline void turn_refuse(const char *why) {
    printf("- %s\n", why);
    fflush(stdout);
}

/* As qkv's own allocator does it: on a large page, whole ones, from 4 MiB on. */
static inline float *turn_random(size_t n) {
    size_t bytes = n * sizeof(float), unit = bytes >= 2ul * TURN_LARGE ? TURN_LARGE : 64;
    bytes = (bytes + unit - 1) / unit * unit;
    float *p = aligned_alloc(unit, bytes);
    if (p && unit == TURN_LARGE) madvise(p, bytes, MADV_HUGEPAGE);
    unsigned x = 12345;
    for (size_t i = 0; p && i < n; i++) {
        x = x * 1664525u + 1013904223u;
        p[i] = ((float)(x >> 8) / 8388608.0f - 1) * 1.7f;
    }
    return p;
}

#endif
