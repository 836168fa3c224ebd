/* Rows that are made: recall at a distance, nested list operations, answers that hang on places. */
#include "support.h"

#include "base/hash.h"
#include "data/listops.h"
#include "data/places.h"
#include "data/recall.h"
#include "qkv/tokenizer.h"

/* ---- list operations ---- */

/* "[MAX 4 3 [MIN 2 3 ] 1 0 ]" to ids. */
static int64_t read_list(const char *text, int32_t *ids) {
    static const char *const names[] = {"[MIN", "[MAX", "[MED", "[SM", "]"};
    int64_t n = 0;
    char copy[512];
    snprintf(copy, sizeof copy, "%s", text);
    for (char *w = strtok(copy, " "); w; w = strtok(NULL, " ")) {
        ids[n] = w[0] >= '0' && w[0] <= '9' ? QKV_LIST_DIGIT + w[0] - '0' : 0;
        for (int i = 0; i < 5; i++)
            if (strcmp(w, names[i]) == 0) ids[n] = QKV_LIST_MIN + i;
        n++;
    }
    return n;
}

static void lists_have_their_value(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int value;
    } lists[] = {{"[MAX 4 3 [MIN 2 3 ] 1 0 ]", 4},
                 {"[MAX 4 3 [MIN 2 3 ] 1 0 [MED 1 5 8 9 2 ] ]", 5},
                 {"[MIN 9 8 7 ]", 7},
                 {"[MED 1 2 ]", 1},     /* 1.5, rounded down */
                 {"[MED 9 1 4 2 ]", 3}, /* of 2 and 4 */
                 {"[MED 3 9 1 ]", 3},
                 {"[SM 9 9 9 ]", 7}, /* 27 */
                 {"[SM 5 5 ]", 0},
                 {"[SM [MAX 1 2 ] [MIN 3 4 ] [SM 9 9 ] [MED 0 0 ] ]", 3},
                 {"7", 7},
                 /* no lists */
                 {"", -1},
                 {"[MAX 1 2", -1},
                 {"[MAX ]", -1},
                 {"]", -1},
                 {"1 2", -1},
                 {"[MAX 1 2 ] 3", -1},
                 {"[MAX 1 x ]", -1}};
    int32_t ids[256];
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        const int64_t n = read_list(lists[i].text, ids);
        if (qkv_listops_value(ids, n) != lists[i].value) fail_msg("%s is %d", lists[i].text, qkv_listops_value(ids, n));
    }
    for (int i = 0; i < 200; i++) ids[i] = QKV_LIST_MAX; /* too deep */
    assert_int_equal(qkv_listops_value(ids, 200), -1);
}

/* Depth and the most arguments of a row. */
static void measure(const int32_t *ids, int64_t n, int *deepest, int *most) {
    int depth = 0, arguments[64] = {0};
    *deepest = *most = 0;
    for (int64_t i = 0; i < n; i++) {
        if (ids[i] == QKV_LIST_END) {
            if (arguments[depth] > *most) *most = arguments[depth];
            assert_true(arguments[depth] >= 2);
            depth--;
            continue;
        }
        arguments[depth]++;
        if (ids[i] < QKV_LIST_MIN) continue;
        if (++depth > *deepest) *deepest = depth;
        arguments[depth] = 0;
    }
    assert_int_equal(depth, 0);
}

static void list_rows_keep_the_rules(void **state) {
    (void)state;
    test_memory memory = {0};
    qkv_ctx ctx = test_ctx(&memory);
    const qkv_listops task = {10, 10, 500, 2000};
    qkv_ragged rows, part;
    int deepest = 0, most = 0, classes[10] = {0};
    assert_int_equal(qkv_listops_make(&ctx, &task, 7, 0, 60, &rows), QKV_OK);
    for (int64_t i = 0; i < rows.count; i++) {
        const int64_t n = rows.offset[i + 1] - rows.offset[i];
        int d, m;
        assert_true(n >= 500 && n <= 2000);
        measure(rows.ids + rows.offset[i], n, &d, &m);
        deepest = d > deepest ? d : deepest;
        most = m > most ? m : most;
        assert_int_equal(rows.target[i], qkv_listops_value(rows.ids + rows.offset[i], n));
        classes[rows.target[i]]++;
    }
    assert_true(deepest == 10 && most == 10);
    for (int i = 0; i < 10; i++) assert_true(classes[i] < 30);
    /* A row is a function of seed and number. */
    assert_int_equal(qkv_listops_make(&ctx, &task, 7, 20, 5, &part), QKV_OK);
    for (int64_t i = 0; i < 5; i++) {
        const int64_t n = part.offset[i + 1] - part.offset[i];
        assert_int_equal(n, rows.offset[21 + i] - rows.offset[20 + i]);
        assert_memory_equal(part.ids + part.offset[i], rows.ids + rows.offset[20 + i], (size_t)n * sizeof *rows.ids);
    }
    qkv_ragged_free(&ctx, &part);
    qkv_ragged_free(&ctx, &rows);
    assert_int_equal(memory.blocks, 0);
}

static void the_same_bytes_everywhere(void **state) {
    (void)state;
    test_memory memory = {0};
    qkv_ctx ctx = test_ctx(&memory);
    const qkv_listops lists = {10, 10, 20, 60};
    const qkv_recall recall = {8, 8, 32, 3, 16, 64};
    qkv_ragged rows;
    qkv_buf text = {.ctx = &ctx};
    assert_int_equal(qkv_listops_make(&ctx, &lists, 1, 0, 20, &rows), QKV_OK);
    assert_int_equal(qkv_listops_text(rows.ids, rows.offset[1], &text), QKV_OK);
    assert_true(text.p[0] == '[' && text.p[text.size - 1] == ']');
    int32_t ids[64];
    assert_int_equal(read_list(text.p, ids), rows.offset[1]);
    assert_memory_equal(ids, rows.ids, (size_t)rows.offset[1] * sizeof *ids);
    assert_int_equal(qkv_hash64(rows.ids, (size_t)rows.offset[20] * sizeof *rows.ids, 0), 0xaf4896ecf636edcb);
    qkv_ragged_free(&ctx, &rows);
    assert_int_equal(qkv_recall_make(&ctx, &recall, 1, 0, 20, &rows), QKV_OK);
    assert_int_equal(qkv_hash64(rows.ids, (size_t)rows.offset[20] * sizeof *rows.ids, 0), 0xefd2c28bf97be93e);
    qkv_ragged_free(&ctx, &rows);
    qkv_buf_free(&text);
}

/* ---- recall ---- */

static void recall_rows_have_one_answer(void **state) {
    (void)state;
    test_memory memory = {0};
    qkv_ctx ctx = test_ctx(&memory);
    const qkv_recall t = {8, 5, 32, 3, 4, 70};
    const int32_t pair = QKV_TOKEN_SPECIALS + 32, question = pair + 8 * 5;
    qkv_ragged rows;
    int64_t shortest = 100, longest = 0;
    assert_int_equal(qkv_recall_make(&ctx, &t, 3, 0, 500, &rows), QKV_OK);
    assert_int_equal(qkv_recall_vocab(&t), question + 8);
    for (int64_t i = 0; i < rows.count; i++) {
        const int32_t *ids = rows.ids + rows.offset[i];
        const int64_t n = rows.offset[i + 1] - rows.offset[i], quarter = n / 4 > 3 ? n / 4 : 3;
        int pairs = 0, answers = 0;
        shortest = n < shortest ? n : shortest;
        longest = n > longest ? n : longest;
        const int32_t key = ids[n - 1] - question;
        assert_true(key >= 0 && key < 8);
        for (int64_t r = 0; r + 1 < n; r++) {
            assert_true(ids[r] >= QKV_TOKEN_SPECIALS && ids[r] < question);
            if (ids[r] < pair) continue;
            assert_true(r < quarter);
            pairs++;
            if ((ids[r] - pair) / 5 != key) continue;
            answers++;
            assert_int_equal((ids[r] - pair) % 5, rows.target[i]);
        }
        assert_true(pairs == 3 && answers == 1);
    }
    assert_true(shortest == 4 && longest == 70);
    qkv_ragged_free(&ctx, &rows);
    assert_int_equal(memory.blocks, 0);
}

/* ---- places ---- */

/* The class of a row, by the rule. */
static int32_t by_rule(const qkv_places *t, const int32_t *ids, int64_t n) {
    const int32_t filler = QKV_TOKEN_SPECIALS, special = filler + (int32_t)t->filler;
    int64_t at[2] = {-1, -1};
    for (int64_t i = 0; i < n; i++) {
        assert_true(ids[i] >= filler && ids[i] < qkv_places_vocab(t));
        if (ids[i] < special) continue;
        assert_int_equal(at[ids[i] - special], -1); /* one of each */
        at[ids[i] - special] = i;
    }
    assert_true(at[0] >= 0 && at[1] >= 0);
    const int64_t distance = at[0] > at[1] ? at[0] - at[1] : at[1] - at[0];
    if (t->kind == QKV_PLACES_ORDER) return at[0] > at[1];
    assert_true(distance <= t->reach || distance > 2 * t->reach);
    return distance <= t->reach;
}

static void places_have_one_answer(void **state) {
    (void)state;
    test_memory memory = {0};
    qkv_ctx ctx = test_ctx(&memory);
    for (int kind = 0; kind < 2; kind++) {
        const qkv_places t = {(qkv_places_kind)kind, 5, 3, 8, 30};
        int64_t shortest = 100, longest = 0, of[QKV_PLACES_CLASSES] = {0};
        qkv_ragged rows, later;
        assert_int_equal(qkv_places_make(&ctx, &t, 3, 0, 1000, &rows), QKV_OK);
        for (int64_t i = 0; i < rows.count; i++) {
            const int64_t n = rows.offset[i + 1] - rows.offset[i];
            shortest = n < shortest ? n : shortest;
            longest = n > longest ? n : longest;
            assert_int_equal(rows.target[i], by_rule(&t, rows.ids + rows.offset[i], n));
            of[rows.target[i]]++;
        }
        assert_true(shortest == 8 && longest == 30);
        assert_true(of[0] > 400 && of[1] > 400);
        /* rows are what their numbers say */
        assert_int_equal(qkv_places_make(&ctx, &t, 3, 990, 10, &later), QKV_OK);
        assert_memory_equal(later.ids, rows.ids + rows.offset[990], (size_t)later.offset[10] * sizeof *later.ids);
        assert_memory_equal(later.target, rows.target + 990, 10 * sizeof *later.target);
        qkv_ragged_free(&ctx, &later);
        qkv_ragged_free(&ctx, &rows);
    }
    assert_int_equal(memory.blocks, 0);
}

static void what_cannot_be_made_is_refused(void **state) {
    (void)state;
    test_memory memory = {0};
    qkv_ctx ctx = test_ctx(&memory);
    static const qkv_recall recalls[] = {
        {8, 8, 32, 9, 16, 64}, {8, 8, 32, 3, 3, 64}, {8, 8, 32, 3, 64, 16}, {0, 8, 32, 1, 16, 64}, {100, 8, 32, 1, 16, 64}};
    static const qkv_listops lists[] = {{0, 10, 5, 9}, {10, 1, 5, 9}, {10, 10, 9, 5}, {65, 10, 5, 9}, {1, 2, 6, 9}};
    qkv_ragged rows;
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(qkv_recall_make(&ctx, &recalls[i], 1, 0, 3, &rows), QKV_BAD_ARGUMENT);
        assert_int_equal(qkv_listops_make(&ctx, &lists[i], 1, 0, 3, &rows), QKV_BAD_ARGUMENT);
        assert_int_equal(memory.blocks, 0);
    }
    static const qkv_places places[] = {{0, 0, 0, 2, 9}, {0, 8, 0, 1, 9}, {0, 8, 0, 9, 5}, {1, 8, 0, 9, 9}, {1, 8, 3, 7, 9}};
    for (size_t i = 0; i < 5; i++) assert_int_equal(qkv_places_make(&ctx, &places[i], 1, 0, 3, &rows), QKV_BAD_ARGUMENT);
    assert_int_equal(memory.blocks, 0);
    const qkv_listops good = {10, 10, 5, 50};
    for (int64_t k = 1; k < 6; k++) {
        test_memory failing = {.fail_at = k};
        qkv_ctx poor = test_ctx(&failing);
        const qkv_status status = qkv_listops_make(&poor, &good, 1, 0, 10, &rows);
        assert_int_equal(status, failing.calls >= k ? QKV_NO_MEMORY : QKV_OK);
        if (status == QKV_OK) qkv_ragged_free(&poor, &rows);
        assert_int_equal(failing.blocks, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_have_their_value),         cmocka_unit_test(list_rows_keep_the_rules),
        cmocka_unit_test(the_same_bytes_everywhere),      cmocka_unit_test(recall_rows_have_one_answer),
        cmocka_unit_test(places_have_one_answer),
        cmocka_unit_test(what_cannot_be_made_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
