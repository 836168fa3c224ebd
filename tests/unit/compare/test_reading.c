/* Rows that are split, put together and chosen by length, and a network that is asked in several ways. */
#include "support.h"

#include "compare/reading.h"
#include "data/places.h"
#include "kernels/pick.h"
#include "ops/reg.h"

static qkv_ctx start(test_memory *memory) {
    qkv_ctx ctx = test_ctx(memory);
    ctx.threads = 1;
    assert_int_equal(qkv_kernels_pick(&ctx, NULL), QKV_OK);
    return ctx;
}

static qkv_ragged rows_of(qkv_ctx *ctx, uint64_t seed, int64_t count, int64_t shortest, int64_t longest) {
    const qkv_places t = {QKV_PLACES_ORDER, 4, 0, shortest, longest};
    qkv_ragged rows;
    assert_int_equal(qkv_places_make(ctx, &t, seed, 0, count, &rows), QKV_OK);
    return rows;
}

static void same_row(const qkv_ragged *a, int64_t i, const qkv_ragged *b, int64_t j) {
    const int64_t n = a->offset[i + 1] - a->offset[i];
    assert_int_equal(n, b->offset[j + 1] - b->offset[j]);
    assert_int_equal(a->target[i], b->target[j]);
    assert_memory_equal(a->ids + a->offset[i], b->ids + b->offset[j], (size_t)n * sizeof *a->ids);
}

static void split_and_append(void **state) {
    (void)state;
    test_memory memory = {0};
    qkv_ctx ctx = start(&memory);
    qkv_ragged all = rows_of(&ctx, 1, 23, 2, 20), rows = rows_of(&ctx, 1, 23, 2, 20), fifth;
    assert_int_equal(qkv_ragged_split(&ctx, &rows, 5, &fifth), QKV_OK);
    assert_true(rows.count == 19 && fifth.count == 4);
    for (int64_t i = 0, kept = 0; i < all.count; i++) i % 5 == 4 ? same_row(&all, i, &fifth, i / 5) : same_row(&all, i, &rows, kept++);
    assert_int_equal(qkv_ragged_append(&ctx, &rows, &fifth), QKV_OK);
    assert_int_equal(rows.count, 23);
    assert_int_equal(rows.offset[23], all.offset[23]);
    for (int64_t i = 0; i < 4; i++) same_row(&fifth, i, &rows, 19 + i);
    qkv_ragged_free(&ctx, &fifth);
    qkv_ragged_free(&ctx, &rows);
    qkv_ragged_free(&ctx, &all);
    assert_int_equal(memory.blocks, 0);
}

static int bit(const char *digits, int64_t row) {
    const char d = digits[row / 4];
    return (d <= '9' ? d - '0' : d - 'a' + 10) >> row % 4 & 1;
}

/* A learned table of 8 rows: up to 8 tokens every way of reading gives the same answers; beyond, another table is another network.
 * Rows that no reading is of are counted as wrong. */
static void asked_in_several_ways(void **state) {
    (void)state;
    test_memory memory = {0};
    qkv_ctx ctx = start(&memory);
    qkv_ragged rows = rows_of(&ctx, 2, 400, 2, 24);
    qkv_dataset dataset = {.vocab = QKV_TOKEN_SPECIALS + 6, .classes = 2, .max_length = 8};
    qkv_config c = qkv_recipe_config(&dataset, 1, 16, 2);
    c.position = QKV_POSITION_LEARNED;
    qkv_classifier *net;
    assert_int_equal(qkv_classifier_create(&ctx, &c, false, &net), QKV_OK);
    real *weights;
    assert_int_equal(qkv_alloc(&ctx, qkv_classifier_reg(net)->size, sizeof *weights, &weights), QKV_OK);
    qkv_reg_init(qkv_classifier_reg(net), 7, weights);
    for (int64_t i = 0; i < qkv_classifier_reg(net)->size; i++) weights[i] *= 5; /* far from a constant answer */
    char *answers[4];
    int64_t differ = 0, right = 0;
    for (int k = 0; k < 4; k++) {
        qkv_reading_of r[2] = {{c, 0, 8}, {c, 9, 20}};
        r[1].config.position_beyond = k == 0 ? QKV_BEYOND_ERROR : k == 1 ? QKV_BEYOND_CLAMP : QKV_BEYOND_TILE;
        if (k == 0) r[1].config.max_length = 20;
        assert_int_equal(qkv_reading_ask(&ctx, net, weights, 3, &rows, r, 2, &answers[k]), QKV_OK);
        assert_int_equal(strlen(answers[k]), 100);
    }
    assert_string_equal(answers[2], answers[3]);
    for (int64_t i = 0; i < rows.count; i++) {
        const int64_t n = rows.offset[i + 1] - rows.offset[i];
        const bool same = bit(answers[0], i) == bit(answers[1], i) && bit(answers[1], i) == bit(answers[2], i);
        if (n <= 8) assert_true(same);
        if (n > 20) assert_true(same && !bit(answers[0], i));
        differ += !same;
        right += bit(answers[0], i);
    }
    if (differ == 0 || right <= 20) fail_msg("%lld differ, %lld right", (long long)differ, (long long)right);
    for (int k = 0; k < 4; k++) qkv_free(&ctx, answers[k]);
    /* a text beyond the table, and nothing that says what is there */
    const qkv_reading_of none = {c, 0, 20};
    assert_int_equal(qkv_reading_ask(&ctx, net, weights, 3, &rows, &none, 1, &answers[0]), QKV_BAD_ARGUMENT);
    assert_null(answers[0]);
    qkv_free(&ctx, weights);
    qkv_classifier_free(net);
    qkv_ragged_free(&ctx, &rows);
    assert_int_equal(memory.blocks, 0);
}

/* Who always says the same is right where that is the class. */
static void always_one_class(void **state) {
    (void)state;
    test_memory memory = {0};
    qkv_ctx ctx = start(&memory);
    qkv_ragged rows = rows_of(&ctx, 5, 23, 2, 20);
    char *answers;
    for (int64_t class = 0; class < QKV_PLACES_CLASSES; class++) {
        assert_int_equal(qkv_reading_always(&ctx, &rows, class, &answers), QKV_OK);
        assert_int_equal(strlen(answers), 6);
        for (int64_t i = 0; i < rows.count; i++) assert_int_equal(bit(answers, i), rows.target[i] == class);
        qkv_free(&ctx, answers);
    }
    qkv_ragged_free(&ctx, &rows);
    assert_int_equal(memory.blocks, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(split_and_append), cmocka_unit_test(asked_in_several_ways),
                                       cmocka_unit_test(always_one_class)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
