/* Weighing a network against a bag of words on held-out rows. */
#include "support.h"

#include <math.h>

#include "base/rng.h"
#include "train/blend.h"

enum { ROWS = 400, CLASSES = 3 };

typedef struct scores {
    real net[ROWS * CLASSES], bag[ROWS * CLASSES];
    int32_t target[ROWS];
    int64_t at[ROWS + 1];
} scores;

static double noise(uint64_t a, uint64_t b) { return qkv_uniform(qkv_key2(a, b)) * 2 - 1; }

/* Each side speaks for the right class with so much voice, and noise. */
static qkv_blend_rows fill(scores *s, double net, double bag) {
    for (uint64_t i = 0; i < ROWS; i++) {
        s->at[i] = (int64_t)i;
        s->target[i] = (int32_t)qkv_below(qkv_key2(1, i), CLASSES);
        for (uint64_t c = 0; c < CLASSES; c++) {
            double right = c == (uint64_t)s->target[i] ? 1 : 0;
            s->net[i * CLASSES + c] = (real)(net * right + 3 * noise(2, i * CLASSES + c));
            s->bag[i * CLASSES + c] = (real)(bag * right + 3 * noise(3, i * CLASSES + c));
        }
    }
    s->at[ROWS] = ROWS;
    return (qkv_blend_rows){.rows = ROWS, .classes = CLASSES, .net = s->net, .bag = s->bag, .target = s->target};
}

static double objective(const qkv_blend_rows *r, qkv_blend b) {
    real p[CLASSES];
    double sum = 2 * (b.net - 0.5) * (b.net - 0.5) + 2 * (b.bag - 0.5) * (b.bag - 0.5);
    for (int64_t i = 0; i < r->rows; i++) sum += qkv_blend_row(r, b, i, p);
    return sum;
}

/* No neighbour within bounds is lower. */
static void check_minimum(const qkv_blend_rows *r, qkv_blend b) {
    double least = objective(r, b);
    assert_true(b.net >= 0 && b.bag >= 0);
    for (int i = -1; i <= 1; i++)
        for (int k = -1; k <= 1; k++) {
            qkv_blend other = {fmax(0, b.net + 0.01 * i), fmax(0, b.bag + 0.01 * k)};
            assert_true(objective(r, other) >= least - 1e-9);
        }
}

static void finds_the_minimum(void **state) {
    (void)state;
    static scores s;
    static const double voices[][2] = {{2, 2}, {3, 1}, {0.5, 3}, {0, 2}, {2, 0}, {-1, 2}, {2, -1}};
    for (size_t i = 0; i < sizeof voices / sizeof *voices; i++) {
        qkv_blend_rows r = fill(&s, voices[i][0], voices[i][1]);
        qkv_blend b = qkv_blend_best(&r);
        check_minimum(&r, b);
        if (voices[i][0] > voices[i][1]) assert_true(b.net > b.bag);
        if (voices[i][0] < 0) assert_true(b.net == 0 && b.bag > 0);
        if (voices[i][1] < 0) assert_true(b.bag == 0 && b.net > 0);
        qkv_blend alone = qkv_blend_fit_bag(&r);
        assert_true(alone.net == 0 && alone.bag > 0);
        if (voices[i][1] > 0)
            assert_true(objective(&r, alone) <= objective(&r, (qkv_blend){0, alone.bag + 0.01}) &&
                        objective(&r, alone) <= objective(&r, (qkv_blend){0, alone.bag - 0.01}));
        r.label_at = s.at, r.labels = s.target, r.target = NULL; /* the same with a sigmoid a class */
        check_minimum(&r, qkv_blend_best(&r));
    }
}

/* How much higher the rows' losses are by `b` than by `best`, in standard errors. */
static double errors_above(const qkv_blend_rows *r, qkv_blend best, qkv_blend b) {
    real p[CLASSES];
    double sum = 0, squares = 0, n = (double)r->rows;
    for (int64_t i = 0; i < r->rows; i++) {
        double d = qkv_blend_row(r, b, i, p) - qkv_blend_row(r, best, i, p);
        sum += d, squares += d * d;
    }
    return sum / n / sqrt((squares / n - sum / n * (sum / n)) / (n - 1));
}

static void check_least(const qkv_blend_rows *r) {
    const qkv_blend best = qkv_blend_best(r), b = qkv_blend_fit(r);
    assert_true(b.net >= 0 && b.bag > 0);
    assert_true(b.net / b.bag < best.net / best.bag);
    assert_true(errors_above(r, best, b) <= 1);
    /* clearly less of the network, a step being a sixteenth, is worse at its best scale */
    const double less = b.net / b.bag - 2.5 / 16 * best.net / best.bag;
    qkv_blend scaled = {less, 1};
    for (double bag = 0.05; bag < 2; bag += 0.05)
        if (objective(r, (qkv_blend){less * bag, bag}) < objective(r, scaled)) scaled = (qkv_blend){less * bag, bag};
    assert_true(less > 0 && errors_above(r, best, scaled) > 1);
    for (int i = -1; i <= 1; i += 2)
        assert_true(objective(r, b) <= objective(r, (qkv_blend){b.net * (1 + 0.01 * i), b.bag * (1 + 0.01 * i)}) + 1e-9);
}

/* A network that says little more than the bag does is not heard; one that says much is, and a bit less than by the minimum. */
static void least_weight(void **state) {
    (void)state;
    static scores s;
    qkv_blend_rows r = fill(&s, 0.1, 3);
    assert_true(qkv_blend_best(&r).net > 0);
    qkv_blend b = qkv_blend_fit(&r), alone = qkv_blend_fit_bag(&r);
    assert_true(b.net == 0 && b.bag == alone.bag);
    r = fill(&s, 2, 0.1);
    b = qkv_blend_fit(&r);
    assert_true(b.net > 5 * b.bag);
    r = fill(&s, 2, 2);
    assert_true(qkv_blend_fit(&r).net > 0);
    check_least(&r);
    r.label_at = s.at, r.labels = s.target, r.target = NULL;
    assert_true(qkv_blend_fit(&r).net > 0);
    check_least(&r);
}

/* Rows that all are right would want scores without end; no rows, and rows of no class, want nothing; rows that say the contrary are
 * not followed. */
static void ends(void **state) {
    (void)state;
    static scores s;
    qkv_blend_rows r = fill(&s, 40, 40);
    qkv_blend b = qkv_blend_fit(&r);
    assert_true(isfinite(b.net) && isfinite(b.bag) && b.net > 0 && b.bag > 0);
    for (int i = 0; i < ROWS; i++) s.target[i] = -1;
    b = qkv_blend_fit(&r);
    assert_true(b.net == 0.5 && b.bag == 0.5);
    real p[CLASSES];
    assert_true(qkv_blend_row(&r, b, 0, p) == 0);
    assert_true(fabs((double)(p[0] + p[1] + p[2]) - 1) < 1e-6);
    r.rows = 0;
    b = qkv_blend_fit(&r);
    assert_true(b.net == 0.5 && b.bag == 0.5);
    r = fill(&s, -3, -3);
    b = qkv_blend_fit(&r);
    assert_true(b.net == 0.5 && b.bag == 0.5);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(finds_the_minimum), cmocka_unit_test(least_weight), cmocka_unit_test(ends)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
