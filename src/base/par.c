#include "base/par.h"

#ifdef _OPENMP
#include <omp.h>
#endif

void qkv_par(const qkv_ctx *ctx, int64_t chunks, qkv_par_fn *fn, void *arg) {
#ifdef _OPENMP
    if (chunks > 1 && ctx->threads > 1) {
        int threads = chunks < ctx->threads ? (int)chunks : ctx->threads;
#pragma omp parallel num_threads(threads)
        {
            int thread = omp_get_thread_num();
#pragma omp for schedule(dynamic, 1)
            for (int64_t i = 0; i < chunks; i++) fn(arg, i, thread);
        }
        return;
    }
#endif
    (void)ctx;
    for (int64_t i = 0; i < chunks; i++) fn(arg, i, 0);
}

const char *qkv_par_kind(void) {
#ifdef _OPENMP
    return "OpenMP";
#else
    return "no threads";
#endif
}
