/* Which tokens masked-token pretraining hides, and behind what. */
#include "support.h"

#include <math.h>

#include "qkv/tokenizer.h"
#include "train/masking.h"

enum { ROWS = 400, VOCAB = 60, TOKENS = 20000 };

/* Rows of every length from 0 on; each begins with CLS and has a SEP at 5, where it is so long. */
typedef struct texts {
    qkv_ragged data;
    int64_t offset[ROWS + 1];
    int32_t ids[TOKENS];
} texts;

static void make(texts *t) {
    t->data = (qkv_ragged){.count = ROWS, .offset = t->offset, .ids = t->ids};
    t->offset[0] = 0;
    for (int64_t r = 0; r < ROWS; r++) {
        const int64_t n = r % 50;
        for (int64_t i = 0; i < n; i++) {
            const int32_t word = (int32_t)(QKV_TOKEN_SPECIALS + qkv_below(qkv_key3(9, (uint64_t)r, (uint64_t)i), VOCAB - QKV_TOKEN_SPECIALS));
            t->ids[t->offset[r] + i] = i == 0 ? QKV_TOKEN_CLS : i == 5 ? QKV_TOKEN_SEP : word;
        }
        t->offset[r + 1] = t->offset[r] + n;
    }
}

typedef struct bench {
    test_memory memory;
    qkv_ctx ctx;
    texts t;
    qkv_gather g;
    qkv_masking m;
} bench;

static void start(bench *b, double share) {
    make(&b->t);
    b->memory = (test_memory){0};
    b->ctx = test_ctx(&b->memory);
    assert_int_equal(qkv_gather_create(&b->ctx, &b->t.data, TOKENS, ROWS, &b->g), QKV_OK);
    assert_int_equal(qkv_masking_create(&b->ctx, &b->t.data, share, VOCAB, b->g.max_tokens, &b->m), QKV_OK);
}

static void end(bench *b) {
    qkv_masking_free(&b->ctx, &b->m);
    qkv_gather_free(&b->ctx, &b->g);
    qkv_par_close(&b->ctx);
    assert_int_equal(b->memory.blocks, 0);
}

static void hide(bench *b, const int64_t *rows, int64_t count, bool plan, uint64_t step, qkv_batch *batch, qkv_masks *masks) {
    qkv_gather_rows(&b->g, &b->t.data, rows, count, plan, batch);
    qkv_masking_hide(&b->m, &b->g, batch, rows, plan, 3, step, masks);
}

static void all_rows(int64_t *rows) {
    for (int64_t i = 0; i < ROWS; i++) rows[i] = i;
}

static int64_t expected(int64_t length, double share) {
    const int64_t may = length - (length > 0) - (length > 5);
    int64_t k = (int64_t)floor(share * (double)may + 0.5);
    if (k < 1) k = 1;
    return k < may ? k : may;
}

static void counts(void **state) {
    (void)state;
    static const double shares[] = {0.15, 0.4, 0, 0.95};
    int64_t rows[ROWS];
    all_rows(rows);
    for (int s = 0; s < 4; s++) {
        static bench b;
        start(&b, shares[s]);
        int64_t total = 0;
        for (int64_t r = 0; r < ROWS; r++) {
            assert_int_equal(b.m.count[r], expected(r % 50, shares[s]));
            total += b.m.count[r];
        }
        qkv_batch batch;
        qkv_masks masks;
        hide(&b, rows, ROWS, true, 1, &batch, &masks);
        assert_int_equal(masks.count, total);
        assert_int_equal(b.m.total, total);
        assert_int_equal(qkv_masking_units(&b.m, rows, ROWS), total);
        hide(&b, rows, ROWS, false, 1, &batch, &masks);
        assert_int_equal(masks.count, total);
        int64_t at = 0; /* each row has its number, ascending; targets are what was there; nothing else has changed */
        for (int64_t i = 0, r = 0; i < b.t.offset[ROWS]; i++) {
            while (i >= b.t.offset[r + 1]) r++;
            if (at < masks.count && masks.row[at] == i) {
                assert_int_equal(masks.target[at], b.t.ids[i]);
                assert_true(b.t.ids[i] != QKV_TOKEN_CLS && b.t.ids[i] != QKV_TOKEN_SEP);
                at++;
            } else {
                assert_int_equal(batch.ids[i], b.t.ids[i]);
            }
        }
        assert_int_equal(at, total);
        end(&b);
    }
}

static void within(double seen, double expected_share, int64_t n) {
    const double slack = 5 * sqrt(expected_share * (1 - expected_share) / (double)n);
    if (fabs(seen - expected_share) > slack) fail_msg("a share of %g, expected %g +- %g", seen, expected_share, slack);
}

/* 8 in 10 hidden behind MASK, 1 another token, 1 itself; every place of a row as often as another. */
static void shares(void **state) {
    (void)state;
    static bench b;
    int64_t rows[ROWS], masked = 0, kept = 0, other = 0, all = 0, at_place[50] = {0}, words[VOCAB] = {0};
    all_rows(rows);
    start(&b, 0.2);
    for (uint64_t step = 1; step <= 40; step++) {
        qkv_batch batch;
        qkv_masks masks;
        hide(&b, rows, ROWS, false, step, &batch, &masks);
        for (int64_t i = 0; i < masks.count; i++, all++) {
            const int32_t now = batch.ids[masks.row[i]];
            if (now == QKV_TOKEN_MASK) masked++;
            else if (now == masks.target[i]) kept++;
            else other++, words[now]++;
            assert_true(now >= QKV_TOKEN_MASK && now < VOCAB);
        }
        const int64_t r = 49; /* the row of that number has 49 tokens */
        for (int64_t i = 0; i < masks.count; i++)
            if (masks.row[i] >= b.t.offset[r] && masks.row[i] < b.t.offset[r + 1]) at_place[masks.row[i] - b.t.offset[r]]++;
    }
    within((double)masked / (double)all, 0.8, all);
    within((double)kept / (double)all, 0.1 + 0.1 / (VOCAB - 4), all);
    for (int w = QKV_TOKEN_SPECIALS; w < VOCAB; w++) within((double)words[w] / (double)other, 1.0 / (VOCAB - 4), other);
    for (int i = 1; i < 49; i++)
        if (i != 5) within((double)at_place[i] / 40, 9.0 / 47, 40);
    assert_int_equal(at_place[0] + at_place[5], 0);
    end(&b);
}

/* What is hidden of a row depends on nothing around it, and changes from step to step. */
static void any_batch(void **state) {
    (void)state;
    static bench b;
    int64_t rows[ROWS], backwards[ROWS];
    all_rows(rows);
    for (int64_t i = 0; i < ROWS; i++) backwards[i] = ROWS - 1 - i;
    start(&b, 0.15);
    static int32_t before[TOKENS];
    qkv_batch batch;
    qkv_masks masks;
    hide(&b, rows, ROWS, false, 7, &batch, &masks);
    memcpy(before, batch.ids, (size_t)b.t.offset[ROWS] * sizeof *before);
    hide(&b, backwards, ROWS, false, 7, &batch, &masks);
    for (int64_t s = 0; s < ROWS; s++) {
        const int64_t r = backwards[s], n = b.t.offset[r + 1] - b.t.offset[r];
        assert_memory_equal(batch.ids + batch.offset[s], before + b.t.offset[r], (size_t)n * sizeof *before);
    }
    hide(&b, rows, ROWS, false, 8, &batch, &masks);
    assert_memory_not_equal(batch.ids, before, (size_t)b.t.offset[ROWS] * sizeof *before);
    end(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(counts), cmocka_unit_test(shares), cmocka_unit_test(any_batch)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
