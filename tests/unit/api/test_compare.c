/* The public calls of experiments: refusals, and one that takes no time. */
#include "support.h"

#include "qkv.h"

static qkv_ctx *make_ctx(void) {
    qkv_ctx *ctx;
    const qkv_ctx_options o = {.struct_size = sizeof o, .threads = 2};
    assert_int_equal(qkv_ctx_create(&o, &ctx, NULL, 0), QKV_OK);
    return ctx;
}

static void names(void **state) {
    (void)state;
    int order = 0;
    for (int64_t i = 0; qkv_compare_name(i); i++) {
        assert_true(qkv_compare_summary(i)[0] != 0);
        order += strcmp(qkv_compare_name(i), "order") == 0;
    }
    assert_int_equal(order, 1);
    assert_null(qkv_compare_name(-1));
    assert_null(qkv_compare_summary(1000));
    assert_string_equal(qkv_verdict_name(QKV_HOLDS_IN_PART), "holds in part");
    assert_string_equal(qkv_verdict_name((qkv_verdict)7), "");
}

static void refusals(void **state) {
    (void)state;
    qkv_ctx *ctx = make_ctx();
    qkv_compare_options o;
    qkv_compare_result *r = (qkv_compare_result *)(void *)&o;
    qkv_compare_init(&o);
    assert_int_equal(qkv_compare_run(NULL, &o, NULL, &r), QKV_BAD_ARGUMENT);
    assert_null(r);
    assert_int_equal(qkv_compare_run(ctx, NULL, NULL, &r), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_compare_run(ctx, &o, NULL, NULL), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_compare_run(ctx, &o, NULL, &r), QKV_BAD_ARGUMENT); /* what is NULL */
    o.what = "nothing";
    assert_int_equal(qkv_compare_run(ctx, &o, NULL, &r), QKV_BAD_ARGUMENT);
    assert_non_null(strstr(qkv_message(ctx), "there is: speed, heads, length, gradients, order"));
    o.what = "order";
    o.data = "x.tsv";
    assert_int_equal(qkv_compare_run(ctx, &o, NULL, &r), QKV_BAD_ARGUMENT);
    o.data = NULL;
    o.seeds = 101;
    assert_int_equal(qkv_compare_run(ctx, &o, NULL, &r), QKV_BAD_ARGUMENT);
    o.seeds = 1;
    o.seed = UINT64_MAX;
    assert_int_equal(qkv_compare_run(ctx, &o, NULL, &r), QKV_BAD_ARGUMENT);
    o.seed = 1;
    o.struct_size--;
    assert_int_equal(qkv_compare_run(ctx, &o, NULL, &r), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_compare_write_page(ctx, NULL, "x"), QKV_BAD_ARGUMENT);
    qkv_compare_free(ctx, NULL);
    qkv_compare_free(NULL, NULL);
    qkv_compare_init(NULL);
    qkv_ctx_free(ctx);
}

static void an_experiment(void **state) {
    (void)state;
    qkv_ctx *ctx = make_ctx();
    qkv_compare_options o;
    qkv_compare_result *r;
    char path[512];
    qkv_compare_init(&o);
    o.what = "order";
    o.seeds = 1;
    assert_int_equal(qkv_compare_run(ctx, &o, NULL, &r), QKV_OK);
    assert_true(r->cells == r->done && r->taken == 0 && r->tables == 1 && r->claims == 1);
    assert_int_equal(r->claim[0].row, 8);
    assert_int_equal(r->claim[0].verdict, QKV_HOLDS);
    assert_int_equal(qkv_compare_write_page(ctx, r, "/nowhere/page.html"), QKV_IO);
    assert_int_equal(qkv_compare_write_page(ctx, r, test_path("compare_page.html", path)), QKV_OK);
    qkv_compare_free(ctx, r);
    o.only = "GRU";
    assert_int_equal(qkv_compare_run(ctx, &o, NULL, &r), QKV_OK);
    assert_true(r->done == 1 && r->cells > 1 && r->claim[0].so_far);
    qkv_compare_free(ctx, r);
    o.only = "GRUU";
    assert_int_equal(qkv_compare_run(ctx, &o, NULL, &r), QKV_BAD_ARGUMENT);
    assert_null(r);
    qkv_ctx_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(refusals),
        cmocka_unit_test(an_experiment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
