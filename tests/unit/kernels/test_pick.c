#include "unit/kernels/kernel_test.h"

#include "base/cpu.h"

static void the_best_one_comes_first(void **state) {
    (void)state;
    const qkv_kernels *tables[4];
    int n = qkv_kernels_present(tables);
    assert_in_range(n, 1, 4);
    assert_ptr_equal(tables[n - 1], &qkv_kernels_scalar); /* the one that is always there */
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    assert_int_equal(qkv_kernels_pick(&ctx, NULL), QKV_OK);
    assert_ptr_equal(ctx.kernels, tables[0]);
    assert_non_null(strstr(ctx.isa_why, tables[0]->name));
    qkv_cpu cpu;
    qkv_cpu_detect(&cpu);
    bool has512 = false;
    for (int i = 0; i < n; i++) has512 |= strcmp(tables[i]->name, "avx512") == 0;
#if defined(__x86_64__) && !defined(QKV_DOUBLE)
    assert_int_equal(has512, cpu.avx512);
#else
    assert_false(has512);
#endif
}

static void each_by_name(void **state) {
    (void)state;
    const qkv_kernels *tables[4];
    int n = qkv_kernels_present(tables);
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    for (int i = 0; i < n; i++) {
        assert_int_equal(qkv_kernels_pick(&ctx, tables[i]->name), QKV_OK);
        assert_ptr_equal(ctx.kernels, tables[i]);
        assert_non_null(strstr(ctx.isa_why, "asked for"));
    }
}

static void an_unknown_name_lists_those_present(void **state) {
    (void)state;
    static const char *const names[] = {"avx1024", "", "AVX2", "count", "scalar "};
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    assert_int_equal(qkv_kernels_pick(&ctx, "scalar"), QKV_OK);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_int_equal(qkv_kernels_pick(&ctx, names[i]), QKV_BAD_CONFIG);
        assert_non_null(strstr(ctx.message, names[i]));
        assert_non_null(strstr(ctx.message, "scalar"));
        assert_ptr_equal(ctx.kernels, &qkv_kernels_scalar); /* as before */
    }
}

/* No table has a hole, and no two names are the same. */
static void tables_are_whole(void **state) {
    (void)state;
    FOR_EACH_TABLE(t) {
#define CHECK_ENTRY(type, name, parameters) assert_true(t->name != NULL);
        QKV_KERNEL_LIST(CHECK_ENTRY)
#undef CHECK_ENTRY
        assert_non_null(t->name);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_one_comes_first),
        cmocka_unit_test(each_by_name),
        cmocka_unit_test(an_unknown_name_lists_those_present),
        cmocka_unit_test(tables_are_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
