/* Thresholds and scores of rows with any number of labels, beside plain counting. */
#include "support.h"

#include <math.h>

#include "base/rng.h"
#include "train/multi.h"

enum { ROWS = 300, CLASSES = 4 };

typedef struct sample {
    real p[ROWS][CLASSES];
    bool gold[ROWS][CLASSES];
    int32_t labels[ROWS][CLASSES];
    int64_t counts[ROWS];
} sample;

/* Class c is common for c = 0 and rare for the last; gold rows have higher probabilities, each class on a scale of its own. */
static void draw(sample *s, uint64_t seed) {
    static const int one_in[CLASSES] = {2, 3, 10, 150};
    memset(s, 0, sizeof *s);
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < CLASSES; c++) {
            uint64_t key = qkv_key2(qkv_key2(seed, (uint64_t)r), (uint64_t)c);
            s->gold[r][c] = qkv_below(key, (uint64_t)one_in[c]) == 0;
            double p = 0.7 * qkv_uniform(qkv_key2(key, 1)) + (s->gold[r][c] ? 0.3 : 0);
            s->p[r][c] = (real)(c == 1 ? p / 4 : p);
            if (s->gold[r][c]) s->labels[r][s->counts[r]++] = c;
        }
}

static void feed(qkv_tuner *t, const sample *s) {
    for (int r = 0; r < ROWS; r++) qkv_tuner_add(t, s->p[r], s->labels[r], s->counts[r], 0, 0.5);
}

/* Micro- and macro-F1 by looking at every pair. */
static void plainly(const sample *s, const double *thresholds, double *micro, double *macro) {
    double hits = 0, both = 0, sum = 0;
    int labels = 0;
    for (int c = 0; c < CLASSES; c++) {
        double h = 0, b = 0;
        for (int r = 0; r < ROWS; r++) {
            bool given = (double)s->p[r][c] >= thresholds[c];
            h += given && s->gold[r][c];
            b += given + s->gold[r][c];
        }
        hits += h, both += b;
        labels += b > 0;
        sum += b > 0 ? 2 * h / b : 0;
    }
    *micro = 2 * hits / both, *macro = sum / labels;
}

static void thresholds_are_the_best_of_the_grid(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    static sample s;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        qkv_tuner t;
        qkv_tuned tuned;
        double thresholds[CLASSES], micro, macro, best = 0;
        draw(&s, seed);
        assert_int_equal(qkv_tuner_create(&ctx, CLASSES, &t), QKV_OK);
        feed(&t, &s);
        assert_int_equal(t.rows, ROWS);
        qkv_tune(&t, false, thresholds, &tuned);
        plainly(&s, thresholds, &micro, &macro);
        assert_true(fabs(tuned.micro_f1 - micro) < 1e-12 && fabs(tuned.macro_f1 - macro) < 1e-12);
        double one[CLASSES];
        for (int k = 1; k < QKV_GRID; k++) {
            double single, mean;
            for (int c = 0; c < CLASSES; c++) one[c] = qkv_grid(k);
            plainly(&s, one, &single, &mean);
            best = single > best ? single : best;
        }
        assert_true(tuned.micro_f1 >= best - 1e-12);
        assert_true(tuned.each); /* class 1 lies on another scale: one threshold cannot be right for all */
        assert_true(thresholds[1] < thresholds[0]);
        double by_macro[CLASSES];
        qkv_tune(&t, true, by_macro, &tuned);
        for (int c = 0; c < 3; c++) { /* no other threshold of its own is better for a class */
            double own, other, unused;
            memcpy(one, by_macro, sizeof one);
            plainly(&s, one, &unused, &own);
            for (int k = 1; k < QKV_GRID; k++) {
                one[c] = qkv_grid(k);
                plainly(&s, one, &unused, &other);
                assert_true(other <= own + 1e-12);
            }
        }
        qkv_tuner_free(&ctx, &t);
    }
    assert_int_equal(memory.blocks, 0);
}

/* Class 1 is of another scale, and `rare` rows have it. */
static void add_rare(qkv_tuner *t, int rare) {
    for (int r = 0; r < 40; r++) {
        int32_t both[2] = {0, 1};
        real p[2] = {(real)(r < 20 ? 0.8 : 0.2), (real)(r < rare ? 0.1 : 0.05)};
        qkv_tuner_add(t, p, both, r < rare ? 2 : r < 20 ? 1 : 0, 0, 0);
    }
}

/* Of a class with fewer than 10 gold rows nothing is believed; what cannot be known counts against the recall. */
static void rare_classes_keep_the_common_threshold(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    qkv_tuner t;
    qkv_tuned tuned;
    double thresholds[2];
    assert_int_equal(qkv_tuner_create(&ctx, 2, &t), QKV_OK);
    qkv_tune(&t, false, thresholds, &tuned);
    assert_true(isnan(tuned.micro_f1) && isnan(tuned.macro_f1) && !tuned.each);
    assert_true(fabs(thresholds[0] - 0.5) < 0.01 && thresholds[0] == thresholds[1]);
    add_rare(&t, 10);
    qkv_tune(&t, true, thresholds, &tuned);
    assert_true(thresholds[0] > 0.2 && thresholds[1] <= 0.1 && tuned.each);
    qkv_tuner_clear(&t);
    add_rare(&t, 9);
    qkv_tune(&t, true, thresholds, &tuned);
    assert_true(thresholds[1] == thresholds[0] && thresholds[0] > 0.2 && thresholds[0] <= 0.8);
    double known = tuned.micro_f1;
    qkv_tuner_add(&t, (real[2]){0, (real)NAN}, NULL, 0, 3, 0);
    t.unseen_labels = 2;
    double macro = tuned.macro_f1;
    qkv_tune(&t, false, thresholds, &tuned);
    assert_true(tuned.micro_f1 < known && fabs(tuned.macro_f1 - macro / 2) < 1e-12);
    qkv_tuner_clear(&t);
    qkv_tune(&t, false, thresholds, &tuned);
    assert_true(isnan(tuned.micro_f1));
    qkv_tuner_free(&ctx, &t);
    assert_int_equal(memory.blocks, 0);
}

static void probabilities_of_the_grid_reach_their_place(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    qkv_tuner t;
    for (int k = 1; k < QKV_GRID; k++) {
        assert_int_equal(qkv_tuner_create(&ctx, 1, &t), QKV_OK);
        real at = (real)qkv_grid(k), below = (real)nextafterf((float)at, 0);
        qkv_tuner_add(&t, &at, NULL, 0, 0, 0);
        qkv_tuner_add(&t, &below, NULL, 0, 0, 0);
        assert_int_equal(t.all[k], 1);
        assert_int_equal(t.all[k - 1], 1);
        qkv_tuner_free(&ctx, &t);
    }
    assert_int_equal(qkv_tuner_create(&ctx, 1, &t), QKV_OK);
    qkv_tuner_add(&t, (real[]){1}, NULL, 0, 0, 0);
    assert_int_equal(t.all[QKV_GRID - 1], 1);
    qkv_tuner_free(&ctx, &t);
}

/* Three rows counted by hand. */
static void scores_by_hand(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    qkv_multi_counts c;
    const double thresholds[3] = {0.5, 0.5, 0.25};
    assert_int_equal(qkv_multi_counts_create(&ctx, 3, &c), QKV_OK);
    assert_true(qkv_multi_counts_add(&c, (real[]){(real)0.9, (real)0.1, (real)0.25}, thresholds, (int32_t[]){0, 2}, 2, 0, 1));
    assert_false(qkv_multi_counts_add(&c, (real[]){(real)0.6, (real)0.7, 0}, thresholds, (int32_t[]){0}, 1, 0, 2));
    assert_false(qkv_multi_counts_add(&c, (real[]){0, 0, 0}, thresholds, NULL, 0, 1, 6)); /* a label nobody knows */
    assert_true(qkv_multi_counts_add(&c, (real[]){0, 0, 0}, thresholds, NULL, 0, 0, 3));
    c.unseen_labels = 1;
    qkv_class_score scores[3];
    qkv_classify_report r = {.scores = scores};
    qkv_multi_report(&c, &r);
    assert_int_equal(r.multi_label, 1);
    assert_int_equal(r.rows, 4);
    assert_true(r.loss == 3 && r.accuracy == 0.5);
    assert_true(r.micro_precision == 0.75 && r.micro_recall == 0.75 && r.micro_f1 == 0.75); /* given 4, gold 4, hits 3 */
    assert_true(fabs(r.macro_f1 - (1.0 + 0 + 1 + 0) / 4) < 1e-15);                          /* 0, 1, 2, the unknown one */
    assert_true(fabs(r.weighted_f1 - (2 * 1.0 + 1 * 1.0) / 4) < 1e-15);
    assert_true(scores[0].support == 2 && scores[0].predicted == 2 && scores[1].predicted == 1 && scores[1].f1 == 0);
    assert_int_equal(r.ranks, 2); /* at 1 and at 3; there are no 5 classes */
    assert_true(r.by_rank[0].k == 1 && r.by_rank[0].precision == 0.25 && r.by_rank[0].recall == 0.25);
    assert_true(r.by_rank[1].k == 3 && r.by_rank[1].precision == 0.25 && r.by_rank[1].recall == 0.75);
    qkv_multi_counts_free(&ctx, &c);
    assert_int_equal(memory.blocks, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(thresholds_are_the_best_of_the_grid),
        cmocka_unit_test(rare_classes_keep_the_common_threshold),
        cmocka_unit_test(probabilities_of_the_grid_reach_their_place),
        cmocka_unit_test(scores_by_hand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
