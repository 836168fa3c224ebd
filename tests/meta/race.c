/* For the thread-sanitizer build: without an argument a correct use of qkv_par, over and over, so that a sanitizer that does
 * not see the synchronisation would report it; with one, chunks that add to one number without a lock. */
#include <stdio.h>
#include <string.h>

#include "base/ctx.h"
#include "base/par.h"

enum { CHUNKS = 64, ROUNDS = 40 };

/* Long enough for every thread to get a chunk: accesses of one thread alone are no race. */
static void work(void) {
    for (volatile int i = 0; i < 10000; i++) continue;
}

static void add_own(void *arg, int64_t chunk, int thread) {
    (void)thread;
    work();
    ((double *)arg)[chunk] += (double)chunk;
}

static void add_shared(void *arg, int64_t chunk, int thread) {
    (void)thread;
    work();
    *(double *)arg += (double)chunk;
}

int main(int argc, char **argv) {
    (void)argv;
    qkv_ctx ctx;
    memset(&ctx, 0, sizeof ctx);
    ctx.threads = 3;
    double sums[CHUNKS] = {0}, total = 0;
    for (int round = 0; round < ROUNDS; round++) {
        qkv_par(&ctx, CHUNKS, argc > 1 ? add_shared : add_own, sums);
        for (int i = 0; i < CHUNKS; i++) total += sums[i];
    }
    printf("%g\n", total);
    return 0;
}
