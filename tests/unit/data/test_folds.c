#include "support.h"

#include "base/hash.h"
#include "base/rng.h"
#include "data/folds.h"

static void read_text(qkv_ctx *ctx, const char *text, qkv_table *t) {
    char path[512];
    test_write_file(test_path("folds.tsv", path), text, strlen(text));
    if (qkv_table_read(ctx, path, NULL, QKV_WANT_LABEL, false, t) != QKV_OK) fail_msg("%s", ctx->message);
    remove(path);
}

enum { ROWS = 240 };

/* 240 rows of three labels, of which 40 rows say what another row says; in another order for another key. */
static void make(qkv_ctx *ctx, uint64_t key, qkv_table *t) {
    char text[ROWS * 40] = "";
    int64_t order[ROWS];
    size_t at = 0;
    qkv_shuffle(key, ROWS, order);
    for (int i = 0; i < ROWS; i++) {
        int n = (int)order[i];
        static const char *const label[] = {"a", "b", "a", "c", "a", "b"};
        at += (size_t)snprintf(text + at, sizeof text - at, "%s\ttext %d\n", label[n % 6], n < 200 ? n : n - 180);
    }
    read_text(ctx, text, t);
}

static int32_t fold_of(const qkv_table *t, const int32_t *fold, const char *text) {
    int32_t found = -1;
    for (int64_t i = 0; i < t->count; i++) {
        if (strcmp(t->rows[i].text, text) != 0) continue;
        assert_true(found < 0 || found == fold[i]);
        found = fold[i];
    }
    assert_true(found >= 0);
    return found;
}

static void doubles_together_labels_spread_and_any_order(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    enum { FOLDS = 7 };
    qkv_table t, u;
    int32_t fold[ROWS], other[ROWS], reseeded[ROWS];
    make(&ctx, 1, &t);
    make(&ctx, 2, &u);
    assert_int_equal(qkv_table_deal(&t, FOLDS, 5, fold), QKV_OK);
    assert_int_equal(qkv_table_deal(&u, FOLDS, 5, other), QKV_OK);
    for (int64_t i = 0; i < t.count; i++) assert_int_equal(fold_of(&t, fold, t.rows[i].text), fold_of(&u, other, t.rows[i].text));
    int rows[FOLDS] = {0}, of[FOLDS][3] = {{0}};
    for (int64_t i = 0; i < t.count; i++) {
        rows[fold[i]]++;
        of[fold[i]][t.rows[i].label[0] - 'a']++;
    }
    for (int k = 1; k < FOLDS; k++) {
        assert_true(abs(rows[k] - rows[0]) <= 6);
        for (int c = 0; c < 3; c++) assert_true(abs(of[k][c] - of[0][c]) <= 3);
    }
    assert_int_equal(qkv_table_deal(&t, FOLDS, 6, reseeded), QKV_OK);
    assert_int_not_equal(memcmp(fold, reseeded, sizeof fold), 0);
    qkv_table_free(&t);
    qkv_table_free(&u);
    assert_int_equal(memory.blocks, 0);
}

static void no_fold_is_empty(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    qkv_table t;
    int32_t fold[7];
    read_text(&ctx, "a\t1\nb\t2\nc\t3\na\t4\nb\t4\na\t5\na\t4\n", &t);
    for (int64_t folds = 2; folds <= 5; folds++) {
        unsigned seen = 0;
        assert_int_equal(qkv_table_deal(&t, folds, 1, fold), QKV_OK);
        for (int i = 0; i < 7; i++) seen |= 1u << fold[i];
        assert_int_equal(seen, (1u << folds) - 1);
    }
    assert_int_equal(qkv_table_deal(&t, 6, 1, fold), QKV_BAD_DATA);
    assert_non_null(strstr(ctx.message, "folds.tsv: 5 different texts cannot be dealt to 6 folds"));
    qkv_table_free(&t);
    assert_int_equal(memory.blocks, 0);
}

/* As if the rows of the view were a file. */
static void views_are_tables(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    static const int32_t fold[] = {0, 1, 0, 1};
    qkv_table t, inside, outside, all, expected;
    read_text(&ctx, "b\ttwo words\na\t\nc\t\xff!\na\tx\n", &t);
    assert_int_equal(qkv_table_view(&t, fold, 0, true, &inside), QKV_OK);
    assert_int_equal(qkv_table_view(&t, fold, 0, false, &outside), QKV_OK);
    assert_int_equal(qkv_table_view(&t, NULL, 0, true, &all), QKV_OK);
    read_text(&ctx, "b\ttwo words\nc\t\xff!\n", &expected);
    assert_true(inside.hash == expected.hash && all.hash == t.hash && outside.hash != t.hash);
    assert_int_equal(inside.count, 2);
    assert_int_equal(inside.repaired_rows, 1);
    assert_int_equal(inside.empty_rows, 0);
    assert_int_equal(inside.rows[1].line, 3);
    assert_int_equal(outside.count, 2);
    assert_int_equal(outside.empty_rows, 1);
    assert_string_equal(outside.rows[1].text, "x");
    assert_int_equal(all.count, 4);
    assert_string_equal(inside.name, t.name);
    assert_string_equal(inside.format, t.format);
    /* holding out of a view leaves its table alone */
    qkv_table held;
    const uint64_t hash = t.hash;
    assert_int_equal(qkv_table_hold_out(&all, &held), QKV_OK);
    assert_int_equal(all.count + held.count, 4);
    assert_true(t.count == 4 && t.hash == hash);
    assert_true(qkv_table_bytes(&inside) < qkv_table_bytes(&t));
    qkv_table_free(&held);
    qkv_table_free(&expected);
    qkv_table_free(&all);
    qkv_table_free(&outside);
    qkv_table_free(&inside);
    qkv_table_free(&t);
    assert_int_equal(memory.blocks, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(doubles_together_labels_spread_and_any_order),
        cmocka_unit_test(no_fold_is_empty),
        cmocka_unit_test(views_are_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
