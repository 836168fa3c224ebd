/* The bag: keys of runs, features of a text, scores, and what it learns from texts. */
#include "support.h"

#include <math.h>

#include "base/rng.h"
#include "train/bag_fit.h"

static int64_t keys(const char *text, int64_t ngrams, uint64_t *out) {
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    const qkv_bag bag = {.ctx = &ctx, .ngrams = ngrams, .beginnings = true};
    qkv_bag_reader reader = {.bag = &bag};
    int64_t count;
    assert_int_equal(qkv_bag_read(&reader, text, (int64_t)strlen(text), &count), QKV_OK);
    if (count > 0) memcpy(out, reader.keys, (size_t)count * sizeof *out);
    qkv_bag_reader_free(&reader);
    assert_int_equal(memory.blocks, 0);
    return count;
}

static void runs_of_words(void **state) {
    (void)state;
    uint64_t a[64], b[64];
    assert_int_equal(keys("one two four", 1, a), 3);
    assert_int_equal(keys("one two four", 2, a), 5);
    assert_int_equal(keys("one two four", 9, a), 6);
    assert_int_equal(keys("", 3, a), 0);
    assert_int_equal(keys("two four", 2, b), 3);
    assert_int_equal(keys("one two four", 2, a), 5); /* one, one two, two, two four, four */
    assert_memory_equal(a + 2, b, 3 * sizeof *b);
    keys("four two", 2, a);
    assert_true(a[1] != b[1]); /* order counts */
    assert_int_equal(keys("\xE4\xB8\xAD\xE5\x9B\xBD\xE4\xBA\xBA", 2, a), 6);   /* three Han characters: runs of three, too */
    assert_int_equal(keys("\xE4\xB8\xAD\xE5\x9B\xBD abc", 2, a), 5);          /* but not across into words */
    assert_int_equal(keys("\xE4\xB8\xAD\xE5\x9B\xBD\xE4\xBA\xBA", 1, a), 5);
    assert_int_equal(keys("fourteen more", 2, a), 5); /* "four" and "fourte" first */
    assert_int_equal(keys("fourths", 1, b), 3);
    assert_true(a[0] == b[0] && a[1] != b[1]);
}

enum { ROWS = 120 };

typedef struct texts {
    char text[ROWS][64];
    const char *at[ROWS];
    int64_t length[ROWS];
    int32_t target[ROWS];
} texts;

static void fill(texts *t) {
    for (int i = 0; i < ROWS; i++) {
        t->target[i] = i % 3;
        static const char *const telling[] = {"not good", "good", "bad"};
        snprintf(t->text[i], sizeof t->text[i], "word%d %s word%d", (int)qkv_below(qkv_key2(1, (uint64_t)i), 9), telling[i % 3],
                 (int)qkv_below(qkv_key2(2, (uint64_t)i), 9));
        t->at[i] = t->text[i];
        t->length[i] = (int64_t)strlen(t->text[i]);
    }
}

static int best(const qkv_bag *bag, const char *text) {
    uint64_t k[128];
    int32_t found[128];
    real scores[3];
    qkv_bag_score(bag, found, qkv_bag_find(bag, k, keys(text, bag->ngrams, k), found), scores);
    return scores[0] > scores[1] ? (scores[0] > scores[2] ? 0 : 2) : scores[1] > scores[2] ? 1 : 2;
}

static qkv_bag_texts all(const texts *t) {
    return (qkv_bag_texts){.rows = ROWS, .texts = t->at, .lengths = t->length, .target = t->target};
}

static void learns_runs(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    texts t;
    fill(&t);
    qkv_bag_texts rows = all(&t);
    qkv_bag b;
    assert_int_equal(qkv_bag_fit(&ctx, &(qkv_bag_options){.ngrams = 2, .min_rows = 2, .classes = 3, .seed = 1}, &rows, &rows, &b, NULL), QKV_OK);
    assert_int_equal(best(&b, "word1 not good word2"), 0);
    assert_int_equal(best(&b, "word1 GOOD word2"), 1);
    assert_int_equal(best(&b, "good good good good"), 1); /* once or often is the same */
    assert_int_equal(best(&b, "bad"), 2);
    for (int64_t i = 1; i < b.features; i++) assert_true(b.key[i - 1] < b.key[i]);
    for (int i = 0; i < ROWS; i++) assert_int_equal(best(&b, t.at[i]), t.target[i]);
    qkv_bag_free(&b);
    assert_int_equal(memory.blocks, 0);
}

/* How far a word that was never seen speaks for class 1 of two, whose words begin as it does. */
static double says(bool beginnings, const char *word) {
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    const char *text[ROWS];
    int64_t length[ROWS];
    int32_t target[ROWS];
    static const char *const seen[2][2] = {{"horrible", "horribly"}, {"delighted", "delights"}};
    for (int i = 0; i < ROWS; i++) {
        text[i] = seen[i % 2][i / 2 % 2];
        length[i] = (int64_t)strlen(text[i]);
        target[i] = i % 2;
    }
    const qkv_bag_texts rows = {.rows = ROWS, .texts = text, .lengths = length, .target = target};
    const qkv_bag_options o = {.ngrams = 1, .beginnings = beginnings, .min_rows = 1, .classes = 2, .cost = 1, .seed = 1};
    qkv_bag b;
    assert_int_equal(qkv_bag_fit(&ctx, &o, &rows, NULL, &b, NULL), QKV_OK);
    assert_int_equal(b.features, beginnings ? 8 : 4);
    uint64_t k[16];
    int32_t found[16];
    real s[2];
    qkv_bag_score(&b, found, qkv_bag_find(&b, k, keys(word, 1, k), found), s);
    const double by = (double)(s[1] - s[0] - (b.bias[1] - b.bias[0]));
    qkv_bag_free(&b);
    assert_int_equal(memory.blocks, 0);
    return by;
}

static void learns_beginnings(void **state) {
    (void)state;
    assert_true(says(true, "Delightful") > 0.5 && says(true, "horribleness") < -0.5);
    assert_true(says(false, "Delightful") == 0 && says(false, "horribleness") == 0);
}

/* Each row has its label and label 3: the labels are told apart, and 3 is always there. */
static void any_number_of_labels(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    texts t;
    fill(&t);
    int64_t at[ROWS + 1];
    int32_t labels[2 * ROWS];
    for (int i = 0; i < ROWS; i++) at[i] = 2 * i, labels[2 * i] = t.target[i], labels[2 * i + 1] = 3;
    at[ROWS] = 2 * ROWS;
    qkv_bag_texts rows = all(&t);
    rows.target = NULL, rows.label_at = at, rows.labels = labels;
    qkv_bag b;
    assert_int_equal(qkv_bag_fit(&ctx, &(qkv_bag_options){.ngrams = 2, .min_rows = 1, .classes = 4, .seed = 1}, &rows, &rows, &b, NULL), QKV_OK);
    uint64_t k[128];
    int32_t found[128];
    real s[4];
    qkv_bag_score(&b, found, qkv_bag_find(&b, k, keys("not good", 2, k), found), s);
    assert_true(s[0] > 0 && s[1] < 0 && s[2] < 0 && s[3] > 0);
    qkv_bag_free(&b);
    assert_int_equal(memory.blocks, 0);
}

/* Rows that all say the same leave nothing to hold back: the larger cost; rows whose labels are noise want the smaller. */
static void dev_rows_choose_the_cost(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    texts t, noise;
    fill(&t);
    fill(&noise);
    for (int i = 0; i < ROWS; i++) noise.target[i] = (int32_t)qkv_below(qkv_key2(5, (uint64_t)i), 3);
    const qkv_bag_options o = {.ngrams = 1, .min_rows = 1, .classes = 3, .seed = 1};
    qkv_bag_texts rows = all(&t), other = all(&noise);
    int32_t none[ROWS];
    for (int i = 0; i < ROWS; i++) none[i] = -1;
    qkv_bag_texts unknown = rows;
    unknown.target = none;
    qkv_bag clear, least, blind;
    double cost[3];
    assert_int_equal(qkv_bag_fit(&ctx, &o, &rows, &rows, &clear, &cost[0]), QKV_OK);
    assert_int_equal(qkv_bag_fit(&ctx, &o, &rows, &other, &least, &cost[1]), QKV_OK);
    assert_int_equal(qkv_bag_fit(&ctx, &o, &rows, &unknown, &blind, &cost[2]), QKV_OK);
    double sum[2] = {0};
    for (int64_t i = 0; i < 3 * clear.features; i++) {
        sum[0] += fabs((double)clear.weight[i]), sum[1] += fabs((double)least.weight[i]);
        assert_true(least.weight[i] == blind.weight[i]);
    }
    assert_true(sum[0] > 1.5 * sum[1]);
    assert_true(cost[0] == 1 && cost[1] == 0.1 && cost[2] == 0.1);
    qkv_bag_free(&clear);
    qkv_bag_free(&least);
    qkv_bag_free(&blind);
    assert_int_equal(memory.blocks, 0);
}

/* A limit to the weights takes the rarest runs away, all that are as rare. */
static void a_limit_to_the_weights(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    texts t;
    fill(&t);
    qkv_bag_texts rows = all(&t);
    qkv_bag_options o = {.ngrams = 2, .min_rows = 1, .classes = 3, .seed = 1};
    qkv_bag whole, less;
    assert_int_equal(qkv_bag_fit(&ctx, &o, &rows, NULL, &whole, NULL), QKV_OK);
    o.most = 3 * whole.features - 1;
    assert_int_equal(qkv_bag_fit(&ctx, &o, &rows, NULL, &less, NULL), QKV_OK);
    assert_true(less.features < whole.features && less.features > 0);
    qkv_bag next = {.features = whole.features};
    for (o.most = 0; next.features == whole.features;) { /* the first number of texts at which runs go */
        o.min_rows++;
        qkv_bag_free(&next);
        assert_int_equal(qkv_bag_fit(&ctx, &o, &rows, NULL, &next, NULL), QKV_OK);
    }
    assert_int_equal(less.features, next.features);
    o.most = 1; /* nothing is left but the bias */
    qkv_bag none;
    assert_int_equal(qkv_bag_fit(&ctx, &o, &rows, NULL, &none, NULL), QKV_OK);
    assert_int_equal(none.features, 0);
    qkv_bag_free(&whole);
    qkv_bag_free(&less);
    qkv_bag_free(&next);
    qkv_bag_free(&none);
    assert_int_equal(memory.blocks, 0);
}

/* No text, texts without words, one row of a class: nothing breaks. */
static void poor_data(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    const qkv_bag_options o = {.ngrams = 3, .min_rows = 1, .classes = 2, .normalize = QKV_NORMALIZE_NFKC, .seed = 1};
    const char *const at[] = {"", " ", "a"};
    const int64_t length[] = {0, 1, 1};
    const int32_t target[] = {0, 1, 1};
    for (int64_t rows = 0; rows <= 3; rows++) {
        qkv_bag b;
        const qkv_bag_texts t = {.rows = rows, .texts = at, .lengths = length, .target = target};
        assert_int_equal(qkv_bag_fit(&ctx, &o, &t, NULL, &b, NULL), QKV_OK);
        for (int64_t i = 0; i < 2; i++) assert_true(isfinite(b.bias[i]));
        qkv_bag_free(&b);
    }
    assert_int_equal(memory.blocks, 0);
}

static void memory_may_end(void **state) {
    (void)state;
    texts t;
    fill(&t);
    qkv_bag_texts rows = all(&t);
    for (int64_t k = 1;; k++) {
        test_memory memory = {.fail_at = k};
        TEST_CTX qkv_ctx ctx = test_ctx(&memory);
        qkv_bag b;
        const qkv_bag_options o = {.ngrams = 2, .min_rows = 1, .classes = 3, .normalize = QKV_NORMALIZE_NFC, .seed = 1};
        qkv_status status = qkv_bag_fit(&ctx, &o, &rows, &rows, &b, NULL);
        if (status == QKV_OK) qkv_bag_free(&b);
        assert_int_equal(memory.blocks, 0);
        if (status == QKV_OK) break;
        assert_int_equal(status, QKV_NO_MEMORY);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(runs_of_words),        cmocka_unit_test(learns_runs),
                                       cmocka_unit_test(learns_beginnings),    cmocka_unit_test(a_limit_to_the_weights),
                                       cmocka_unit_test(any_number_of_labels), cmocka_unit_test(dev_rows_choose_the_cost),
                                       cmocka_unit_test(poor_data),            cmocka_unit_test(memory_may_end)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
