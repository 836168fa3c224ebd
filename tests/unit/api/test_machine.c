/* Measured peaks must be possible ones, on a busy machine and with more threads than cores, too. */
#include "support.h"

#include <qkv.h>

static void all_threads_reach_at_least_what_one_does(void **state) {
    (void)state;
    static const int threads[] = {1, 2, 16};
    for (int i = 0; i < 3; i++) {
        test_memory memory = {0};
        qkv_ctx *ctx;
        qkv_ctx_options o = {.struct_size = sizeof o, .threads = threads[i]};
        o.allocate = test_allocate, o.release = test_release, o.allocator_user = &memory;
        char message[256];
        assert_int_equal(qkv_ctx_create(&o, &ctx, message, sizeof message), QKV_OK);
        qkv_machine m;
        for (int k = 0; k < 3; k++) {
            assert_int_equal(qkv_machine_measure(ctx, 0.05, 0, &m), QKV_OK);
            assert_int_equal(m.threads, threads[i]);
            assert_true(m.fma_gflops_core > 0);
            assert_true(m.fma_gflops >= m.fma_gflops_core);
            int cores = m.cores_allowed < threads[i] ? m.cores_allowed : threads[i];
            assert_true(m.fma_gflops <= m.fma_gflops_core * cores * (1 + 1e-12));
            if (threads[i] == 1) assert_true(m.fma_gflops == m.fma_gflops_core);
            assert_true(m.memory.read_gbs == 0 && m.cache[0].read_gbs == 0);
        }
        qkv_ctx_free(ctx);
        assert_int_equal(memory.blocks, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_threads_reach_at_least_what_one_does)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
