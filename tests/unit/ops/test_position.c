/* Positions as tables: slopes, buckets and angles against figures worked out by hand; tables spread over longer sequences. */
#include "ops.h"

#include "ops/position.h"

static void slopes(void **state) {
    (void)state;
    float got[12];
    qkv_alibi_slopes(8, got); /* 1/2, 1/4, ... (Press et al. 2022, section 3) */
    for (int h = 0; h < 8; h++) assert_true(got[h] == (float)ldexp(1, -(h + 1)));
    qkv_alibi_slopes(1, got);
    assert_true(got[0] == (float)ldexp(1, -8));
    qkv_alibi_slopes(3, got); /* those of two, then the first of four */
    assert_true(got[0] == (float)ldexp(1, -4) && got[1] == (float)ldexp(1, -8) && got[2] == (float)ldexp(1, -2));
    qkv_alibi_slopes(6, got); /* those of four, then the first and the third of eight */
    assert_true(got[3] == (float)ldexp(1, -8) && got[4] == (float)ldexp(1, -1) && got[5] == (float)ldexp(1, -3));
    qkv_alibi_slopes(12, got); /* of sixteen: 2^-0.5, 2^-1.5, ... */
    for (int h = 8; h < 12; h++) assert_true(fabs((double)got[h] - exp2(-0.5 - (h - 8))) < 1e-7);
}

static void buckets(void **state) {
    (void)state;
    const qkv_buckets both = {32, 128, false}, left = {32, 128, true};
    for (int64_t d = 0; d < 8; d++) {
        assert_int_equal(qkv_bucket(&both, -d), d);
        assert_int_equal(qkv_bucket(&both, d), d > 0 ? 16 + d : 0);
    }
    for (int64_t d = 0; d < 16; d++) assert_int_equal(qkv_bucket(&left, -d), d);
    static const struct {
        int64_t far, bucket; /* from which distance on */
    } steps[] = {{8, 8}, {12, 9}, {16, 10}, {23, 11}, {32, 12}, {46, 13}, {64, 14}, {91, 15}, {128, 15}, {1 << 20, 15}};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        assert_int_equal(qkv_bucket(&both, -steps[i].far), steps[i].bucket);
        assert_int_equal(qkv_bucket(&both, steps[i].far), 16 + steps[i].bucket);
        if (i > 0 && i < 8) assert_int_equal(qkv_bucket(&both, 1 - steps[i].far), steps[i - 1].bucket);
    }
    assert_int_equal(qkv_bucket(&left, 5), 0); /* what is to the right of a causal query is nowhere */
    assert_int_equal(qkv_bucket(&left, -(1 << 20)), 31);
}

/* Angles go up by the same amount from row to row, far out too, where turning a row from the one before it has had 64 steps. */
static void angles(void **state) {
    (void)state;
    enum { ROWS = 70000, DIM = 6 };
    ops_bench one, *bench = &one;
    ops_start(bench, 2);
    ops_ready(bench, 64);
    qkv_mat cosine = ops_mat(ROWS, DIM / 2, DIM / 2, 1), sine = ops_mat(ROWS, DIM / 2, DIM / 2, 2);
    qkv_rope r = {.dim = DIM, .base = 10000, .factor = 1};
    OPS_OK(qkv_rope_angles(&bench->x, &r, cosine, sine));
    for (int64_t p = 0; p < ROWS; p += 997)
        for (int64_t c = 0; c < DIM / 2; c++) {
            const double angle = (double)p * pow(10000, -2.0 * (double)c / DIM);
            ops_near("cosine", (double)ops_at(cosine, p, c), cos(angle), 1e-7);
            ops_near("sine", (double)ops_at(sine, p, c), sin(angle), 1e-7);
        }
    assert_true(qkv_rope_sharpen(&r) == 1);
    /* of two columns the one angle is 1 whatever the base; yarn leaves what turns often and stretches what turns not once */
    const qkv_rope narrow = {.dim = 2, .base = 10000, .factor = 3, .stretch = QKV_STRETCH_NTK};
    qkv_mat c1 = ops_mat(2, 1, 1, 3), s1 = ops_mat(2, 1, 1, 4), c3 = ops_mat(2, 3, 3, 5), s3 = ops_mat(2, 3, 3, 6);
    OPS_OK(qkv_rope_angles(&bench->x, &narrow, c1, s1));
    ops_near("one pair", (double)ops_at(s1, 1, 0), sin(1), 1e-7);
    const qkv_rope yarn = {.dim = DIM, .base = 10000, .factor = 4, .stretch = QKV_STRETCH_YARN, .length = 512};
    OPS_OK(qkv_rope_angles(&bench->x, &yarn, c3, s3));
    ops_near("a fast pair", (double)ops_at(s3, 1, 0), sin(1), 1e-7);
    ops_near("a slow pair", (double)ops_at(s3, 1, 2), sin(pow(10000, -4.0 / 6) / 4), 1e-7);
    ops_near("sharper", qkv_rope_sharpen(&yarn), pow(0.1 * log(4) + 1, 2), 1e-15);
    qkv_mat all[] = {cosine, sine, c1, s1, c3, s3};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i].p);
    ops_end(bench);
}

/* Texts that fit have the table's rows, bit for bit, whatever is beside them; a longer one has its first and last row at its ends. */
static void between(void **state) {
    (void)state;
    enum { COLS = 21 };
    ops_bench one, *bench = &one;
    ops_start(bench, 2);
    ops_ready(bench, 64);
    const int64_t offset[] = {0, 4, 4, 11, 12};
    const qkv_batch batch = {.n_seq = 4, .offset = offset};
    qkv_mat table = ops_mat(4, COLS, COLS, 1), out = ops_mat(12, COLS, COLS, 2);
    memset(out.p, 0, 12 * COLS * sizeof(real));
    OPS_OK(qkv_between_forward(&bench->x, &batch, table, out));
    assert_memory_equal(out.p, table.p, 4 * COLS * sizeof(real));
    assert_memory_equal(out.p + 11 * COLS, table.p, COLS * sizeof(real));
    for (int64_t i = 0; i < 7; i++)
        for (int64_t c = 0; c < COLS; c++) {
            const int64_t low = i / 2 < 3 ? i / 2 : 3, high = low < 3 ? low + 1 : 3;
            const double share = i % 2 ? 0.5 : 0, want = (1 - share) * (double)ops_at(table, low, c) + share * (double)ops_at(table, high, c);
            ops_near("between", (double)ops_at(out, 4 + i, c), want, 1e-6);
        }
    free(table.p);
    free(out.p);
    ops_end(bench);
}

static void split_layout(void **state) {
    (void)state;
    ops_bench one, *bench = &one;
    ops_start(bench, 2);
    ops_ready(bench, 64);
    for (int64_t width = 1; width <= 9; width++) {
        qkv_mat turn = ops_mat(20, width, width, 1), split = ops_mat(20, width, width + 1, 2);
        OPS_OK(qkv_sinusoidal(&bench->x, QKV_LAYOUT_INTERLEAVED, turn));
        OPS_OK(qkv_sinusoidal(&bench->x, QKV_LAYOUT_SPLIT, split));
        for (int64_t p = 0; p < 20; p++)
            for (int64_t c = 0; c < width; c++)
                assert_true(ops_at(split, p, c % 2 ? (width + 1) / 2 + c / 2 : c / 2) == ops_at(turn, p, c));
        ops_untouched(split);
        free(turn.p);
        free(split.p);
    }
    ops_end(bench);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slopes), cmocka_unit_test(buckets), cmocka_unit_test(angles), cmocka_unit_test(between), cmocka_unit_test(split_layout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
