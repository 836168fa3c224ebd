#define _GNU_SOURCE 1
#include "base/cpu.h"

#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"

#if defined(__x86_64__)
#include <cpuid.h>

/* XCR0: which register states the operating system saves. Asked only when CPUID says XGETBV exists. */
static uint64_t saved_states(void) {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

static void brand(char *name, size_t size) {
    unsigned r[12] = {0}, top = __get_cpuid_max(0x80000000u, NULL);
    if (top < 0x80000004u) return;
    for (unsigned i = 0; i < 3; i++) __get_cpuid(0x80000002u + i, &r[4 * i], &r[4 * i + 1], &r[4 * i + 2], &r[4 * i + 3]);
    char text[49] = {0};
    memcpy(text, r, 48);
    const char *start = text;
    while (*start == ' ') start++;
    snprintf(name, size, "%s", start);
    for (size_t n = strlen(name); n && name[n - 1] == ' '; n--) name[n - 1] = 0;
}

void qkv_cpu_detect(qkv_cpu *cpu) {
    *cpu = (qkv_cpu){.name = "x86-64"};
    brand(cpu->name, sizeof cpu->name);
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return;
    bool fma = c & (1u << 12), osxsave = c & (1u << 27), avx = c & (1u << 28), f16c = c & (1u << 29);
    unsigned b7 = 0;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) b7 = b;
    uint64_t states = osxsave ? saved_states() : 0;
    bool ymm = (states & 0x6) == 0x6, zmm = (states & 0xe6) == 0xe6;
    bool has512 = (b7 & (1u << 16)) && (b7 & (1u << 17)) && (b7 & (1u << 30)) && (b7 & (1u << 31)); /* F, DQ, BW, VL */
    cpu->avx2 = avx && fma && f16c && (b7 & (1u << 5)) && ymm;
    cpu->avx512 = cpu->avx2 && has512 && zmm;
    const char *why = "";
    if (!cpu->avx512) why = !has512 ? "the CPU has no AVX-512 F, DQ, BW, VL" : "the operating system does not save AVX-512 registers";
    if (!cpu->avx2) why = ymm ? "the CPU has no AVX2 with FMA and F16C" : "the CPU or the operating system does not support AVX registers";
    snprintf(cpu->missing, sizeof cpu->missing, "%s", why);
}
#else
void qkv_cpu_detect(qkv_cpu *cpu) {
    *cpu = (qkv_cpu){.name = "unknown CPU"};
#if defined(__aarch64__)
    snprintf(cpu->name, sizeof cpu->name, "AArch64");
    cpu->neon = true; /* part of the baseline */
#else
    snprintf(cpu->missing, sizeof cpu->missing, "no vector kernels exist for this kind of CPU");
#endif
}
#endif

/* Cores' worth of time that the control group grants (version 2, then version 1), or 0 where there is no limit. */
static int quota_cores(void) {
    char text[64];
    long long quota = 0, period = 0;
    if (qkv_file_peek("/sys/fs/cgroup/cpu.max", text, sizeof text)) {
        if (sscanf(text, "%lld %lld", &quota, &period) != 2) return 0; /* "max 100000": no limit */
    } else {
        if (qkv_file_peek("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", text, sizeof text)) quota = atoll(text);
        if (qkv_file_peek("/sys/fs/cgroup/cpu/cpu.cfs_period_us", text, sizeof text)) period = atoll(text);
    }
    if (quota <= 0 || period <= 0) return 0;
    long long cores = (quota + period - 1) / period;
    return cores > 1 << 20 ? 1 << 20 : (int)cores;
}

int qkv_cpu_cores_allowed(void) {
    int cores = 1;
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) cores = CPU_COUNT(&set);
    int quota = quota_cores();
    if (quota > 0 && quota < cores) cores = quota;
    return cores < 1 ? 1 : cores;
}

double qkv_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
