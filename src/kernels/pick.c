#include "kernels/pick.h"

#include <stdio.h>
#include <string.h>

#include "base/cpu.h"

int qkv_kernels_present(const qkv_kernels *tables[4]) {
    int n = 0;
    qkv_cpu cpu;
    qkv_cpu_detect(&cpu);
#ifdef QKV_HAVE_X86
    if (cpu.avx512) tables[n++] = &qkv_kernels_avx512;
    if (cpu.avx2) tables[n++] = &qkv_kernels_avx2;
#endif
#ifdef QKV_HAVE_NEON
    if (cpu.neon) tables[n++] = &qkv_kernels_neon;
#endif
    tables[n++] = &qkv_kernels_scalar;
    return n;
}

const qkv_bf16_kernels *qkv_kernels_bf16(const qkv_kernels *table) {
#ifdef QKV_HAVE_X86
    qkv_cpu cpu;
    qkv_cpu_detect(&cpu);
    if (table == &qkv_kernels_avx512) return cpu.avx512_bf16 ? &qkv_kernels_bf16_avx512bf16 : &qkv_kernels_bf16_avx512;
    if (table == &qkv_kernels_avx2) return &qkv_kernels_bf16_avx2;
#endif
#ifdef QKV_HAVE_NEON
    if (table == &qkv_kernels_neon) return &qkv_kernels_bf16_neon;
#endif
    (void)table;
    return &qkv_kernels_bf16_scalar;
}

static void list_names(const qkv_kernels *const *tables, int n, char *text, size_t size) {
    size_t used = 0;
    text[0] = 0;
    for (int i = 0; i < n && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "", tables[i]->name);
}

static void say_why(qkv_ctx *ctx, const qkv_kernels *best, bool asked) {
    qkv_cpu cpu;
    qkv_cpu_detect(&cpu);
    const char *name = ctx->kernels->name;
    if (asked)
        snprintf(ctx->isa_why, sizeof ctx->isa_why, "%s was asked for; the best this machine has is %s", name, best->name);
    else if (cpu.missing[0])
        snprintf(ctx->isa_why, sizeof ctx->isa_why, "%s is the best this machine has: %s", name, cpu.missing);
    else
        snprintf(ctx->isa_why, sizeof ctx->isa_why, "%s is the best this build has and this machine can run", name);
}

qkv_status qkv_kernels_pick(qkv_ctx *ctx, const char *isa) {
    const qkv_kernels *tables[4];
    const int n = qkv_kernels_present(tables);
    for (int i = 0; i < n; i++) {
        if (isa && strcmp(isa, tables[i]->name) != 0) continue;
        ctx->kernels = tables[i];
        ctx->bf16 = qkv_kernels_bf16(tables[i]);
        say_why(ctx, tables[0], isa != NULL);
        return QKV_OK;
    }
    char names[64];
    list_names(tables, n, names, sizeof names);
    return qkv_fail(ctx, QKV_BAD_CONFIG, "isa=%.32s: no such kernels can run here; present are %s", isa, names);
}
