#define _GNU_SOURCE 1
#include "base/cpu.h"

#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <unistd.h>

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
    if (cpu->avx512 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) cpu->avx512_bf16 = a & (1u << 5);
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

/* What the system says of the caches comes first: some C libraries take CPUID's word for a cache that is shared by machines. */
int64_t qkv_cpu_cache(int level) {
    char path[96], text[32];
    for (int i = 0; i < 8; i++) {
        long long bytes = 0;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/level", i);
        if (!qkv_file_peek(path, text, sizeof text)) break;
        if (atoi(text) != level) continue;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/type", i);
        if (qkv_file_peek(path, text, sizeof text) && text[0] == 'I') continue; /* instructions */
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", i);
        char *unit = text;
        if (qkv_file_peek(path, text, sizeof text)) bytes = strtoll(text, &unit, 10);
        if (bytes > 0) return bytes * (*unit == 'K' ? 1024 : *unit == 'M' ? 1048576 : 1);
    }
#ifdef _SC_LEVEL1_DCACHE_SIZE
    static const int name[] = {_SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE};
    long bytes = level >= 1 && level <= 3 ? sysconf(name[level - 1]) : 0;
    if (bytes > 0) return bytes;
#endif
    return 0;
}

/* ---- memory ---- */

bool qkv_memory_field(const char *text, const char *name, int64_t *value) {
    size_t n = strlen(name);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        if (*line == '\n') line++;
        if (strncmp(line, name, n) != 0 || (line[n] != ' ' && line[n] != '\t')) continue;
        char *end;
        long long v = strtoll(line + n, &end, 10);
        if (end == line + n || v < 0) return false;
        *value = v;
        return true;
    }
    return false;
}

static bool peek_number(const char *folder, const char *file, int64_t *value) {
    char path[512], text[64], *end;
    if (snprintf(path, sizeof path, "%s/%s", folder, file) >= (int)sizeof path) return false;
    if (!qkv_file_peek(path, text, sizeof text)) return false;
    long long v = strtoll(text, &end, 10);
    if (end == text || v < 0) return false; /* "max": no limit */
    *value = v;
    return true;
}

/* -1: this group has no limit. */
static int64_t group_left(const char *folder, bool version_2) {
    int64_t limit, used, active = 0, inactive = 0;
    char path[512], text[4096];
    if (!peek_number(folder, version_2 ? "memory.max" : "memory.limit_in_bytes", &limit)) return -1;
    if (!peek_number(folder, version_2 ? "memory.current" : "memory.usage_in_bytes", &used)) return -1;
    if (limit >= INT64_C(1) << 60) return -1; /* how version 1 writes "none" */
    if (snprintf(path, sizeof path, "%s/memory.stat", folder) < (int)sizeof path && qkv_file_peek(path, text, sizeof text)) {
        (void)qkv_memory_field(text, version_2 ? "active_file" : "total_active_file", &active);
        (void)qkv_memory_field(text, version_2 ? "inactive_file" : "total_inactive_file", &inactive);
    }
    int64_t caches = active + inactive < used ? active + inactive : used;
    return used - caches < limit ? limit - (used - caches) : 0;
}

static int64_t least(int64_t a, int64_t b) { return a < 0 || (b >= 0 && b < a) ? b : a; }

int64_t qkv_memory_group_left(const char *root, const char *path, bool version_2) {
    char folder[512];
    size_t stem = strlen(root);
    int64_t left = -1;
    if (snprintf(folder, sizeof folder, "%s%s", root, path) >= (int)sizeof folder) folder[stem < sizeof folder ? stem : 0] = 0;
    for (;;) { /* a limit above binds too; in a container only the root may be there */
        left = least(left, group_left(folder, version_2));
        char *slash = strrchr(folder, '/');
        if (strlen(folder) <= stem || !slash) return left;
        *slash = 0;
    }
}

/* The path of this process in a line "N:controllers:path" of /proc/self/cgroup. */
static void group_path(const char *text, const char *mark, char *path, size_t size) {
    const char *at = strstr(text, mark);
    path[0] = 0;
    if (at) snprintf(path, size, "%.*s", (int)strcspn(at + strlen(mark), "\n"), at + strlen(mark));
    if (strcmp(path, "/") == 0) path[0] = 0;
}

int64_t qkv_memory_available(void) {
    char text[4096], path[400];
    int64_t left = -1, kilobytes;
    bool told = qkv_file_peek("/proc/meminfo", text, sizeof text) && qkv_memory_field(text, "MemAvailable:", &kilobytes);
    if (told) left = kilobytes * 1024;
    if (!qkv_file_peek("/proc/self/cgroup", text, sizeof text)) text[0] = 0;
    group_path(text, "0::", path, sizeof path);
    left = least(left, qkv_memory_group_left("/sys/fs/cgroup", path, true));
    group_path(text, ":memory:", path, sizeof path);
    return least(left, qkv_memory_group_left("/sys/fs/cgroup/memory", path, false));
}

/* Bytes of this process under such a name. */
static int64_t own_memory(const char *name) {
    char text[4096];
    int64_t kilobytes;
    return qkv_file_peek("/proc/self/status", text, sizeof text) && qkv_memory_field(text, name, &kilobytes) ? kilobytes * 1024
                                                                                                             : -1;
}

int64_t qkv_memory_resident(void) {
#ifdef __GLIBC__
    malloc_trim(0);
#endif
    return own_memory("VmRSS:");
}

int64_t qkv_memory_peak(void) {
    return own_memory("VmHWM:");
}

bool qkv_memory_forget_peak(void) {
    return qkv_file_poke("/proc/self/clear_refs", "5");
}

double qkv_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
