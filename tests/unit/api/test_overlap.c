/* Layouts whose written rows and heads overlap, buffers that alias, against a count of every float on a small board. */
#include "support.h"

#include "api/overlap.h"
#include "qkv.h"

enum { BOARD = 4096 };

static void mark(const qkv_area *a, const float *board, unsigned char *times) {
    for (int64_t r = 0; r < a->rows; r++)
        for (int64_t h = 0; h < a->heads; h++)
            for (int64_t w = 0; w < a->width; w++) times[(const float *)a->base - board + r * a->row + h * a->head + w]++;
}

static bool any_twice(const unsigned char *times) {
    for (int i = 0; i < BOARD; i++)
        if (times[i] > 1) return true;
    return false;
}

static void folds_are_found_exactly(void **state) {
    (void)state;
    static float board[BOARD];
    int64_t yes = 0, no = 0;
    for (int64_t rows = 0; rows <= 4; rows++)
        for (int64_t heads = 1; heads <= 4; heads++)
            for (int64_t width = 1; width <= 4; width++)
                for (int64_t row = 1; row <= 18; row++)
                    for (int64_t head = 1; head <= 18; head++) {
                        unsigned char times[BOARD] = {0};
                        qkv_area a = {"a", board, rows, heads, width, row, head};
                        mark(&a, board, times);
                        bool twice = any_twice(times);
                        assert_int_equal(qkv_area_folds(&a), twice);
                        *(twice ? &yes : &no) += 1;
                    }
    assert_true(yes > 1000 && no > 1000);
}

static uint64_t next(uint64_t *seed) {
    return (*seed = *seed * 6364136223846793005u + 1442695040888963407u) >> 33;
}

static qkv_area random_area(uint64_t *seed, const float *board) {
    int64_t rows = (int64_t)(next(seed) % 5), heads = 1 + (int64_t)(next(seed) % 4), width = 1 + (int64_t)(next(seed) % 4);
    return (qkv_area){
        "a", board + next(seed) % 120, rows, heads, width, 1 + (int64_t)(next(seed) % 40), 1 + (int64_t)(next(seed) % 40)};
}

/* Wherever one float is in both; and only there, if the row strides are equal, or one has a row alone, or the extents are apart. */
static void meetings_are_found_exactly(void **state) {
    (void)state;
    static float board[BOARD];
    uint64_t seed = 1;
    int64_t yes = 0, no = 0;
    for (int n = 0; n < 60000; n++) {
        qkv_area a = random_area(&seed, board), b = random_area(&seed, board);
        if (n % 4) b.row = a.row;
        if (n % 8 < 3) b.head = a.head;
        unsigned char in_a[BOARD] = {0}, in_b[BOARD] = {0};
        mark(&a, board, in_a);
        mark(&b, board, in_b);
        bool both = false;
        for (int i = 0; i < BOARD && !both; i++) both = in_a[i] && in_b[i];
        if (both || a.row == b.row || a.rows < 2 || b.rows < 2) assert_int_equal(qkv_areas_meet(&a, &b), both);
        assert_int_equal(qkv_areas_meet(&a, &b), qkv_areas_meet(&b, &a));
        *(both ? &yes : &no) += 1;
    }
    assert_true(yes > 5000 && no > 5000);
}

typedef struct world {
    qkv_ctx *ctx;
    qkv_attention a;
    float x[512], out[512], lse[64], d[3][512];
} world;

static const int64_t offset[] = {0, 5};
enum { ROWS = 5, HEADS = 4, DIM = 3, WIDTH = HEADS * DIM };

static void start(world *w) {
    memset(w, 0, sizeof *w);
    assert_int_equal(qkv_ctx_create(&(qkv_ctx_options){.struct_size = sizeof(qkv_ctx_options), .threads = 2}, &w->ctx, NULL, 0),
                     QKV_OK);
    qkv_attention_init(&w->a);
    w->a.sequences = 1;
    w->a.q_offset = offset;
    w->a.heads = HEADS;
    w->a.dim = DIM;
    for (int i = 0; i < 512; i++) w->x[i] = (float)(i % 7) - 3;
}

static void expect(world *w, qkv_status status, qkv_status wanted, const char *words) {
    if (status != wanted || (words && !strstr(qkv_message(w->ctx), words)))
        fail_msg("status %d, expected %d; \"%s\" has no \"%s\"", status, wanted, qkv_message(w->ctx), words ? words : "");
}

static qkv_status forward(world *w) {
    return qkv_attention_forward(w->ctx, &w->a, w->x, w->x, w->x, w->out, w->lse);
}
static qkv_status backward(world *w) {
    return qkv_attention_backward(w->ctx, &w->a, w->x, w->x, w->x, w->out, w->lse, w->x, w->d[0], w->d[1], w->d[2]);
}

static void written_layouts_may_not_overlap(void **state) {
    (void)state;
    static world one;
    world *w = &one;
    start(w);
    w->a.o_row = 1;
    expect(w, forward(w), QKV_BAD_ARGUMENT,
           "out is written, but its rows and heads overlap: row stride 1 and head stride 3 for 5 rows of 4 heads of 3 floats");
    assert_int_equal(qkv_attention_pairs(&w->a), -1);
    w->a.o_row = 0;
    w->a.o_head = 2;
    expect(w, forward(w), QKV_BAD_ARGUMENT, "head stride 2");
    w->a.o_head = ROWS * DIM; /* rows inside heads */
    w->a.o_row = DIM;
    expect(w, forward(w), QKV_OK, NULL);
    assert_int_equal(qkv_attention_pairs(&w->a), 25);
    w->a.o_head -= 1;
    expect(w, forward(w), QKV_BAD_ARGUMENT, "out is written");
    w->a.o_head = w->a.o_row = 0;
    w->a.k_head = w->a.v_head = 1; /* read: a broadcast */
    w->a.k_row = 1;
    expect(w, forward(w), QKV_OK, NULL);
    expect(w, backward(w), QKV_BAD_ARGUMENT, "dk is written");
    w->a.k_head = w->a.k_row = 0;
    expect(w, backward(w), QKV_BAD_ARGUMENT, "dv is written");
    w->a.v_head = 0;
    expect(w, backward(w), QKV_OK, NULL);
    w->a.q_row = 1;
    expect(w, backward(w), QKV_BAD_ARGUMENT, "dq is written");
    qkv_ctx_free(w->ctx);
}

static void written_buffers_may_not_alias(void **state) {
    (void)state;
    static world one;
    world *w = &one;
    float *x = w->x, *out = w->out, *lse = w->lse;
    start(w);
    qkv_attention *a = &w->a;
    expect(w, qkv_attention_forward(w->ctx, a, x, x, x, x, lse), QKV_BAD_ARGUMENT,
           "out is written and overlaps q: their first elements are 0 bytes apart");
    expect(w, qkv_attention_forward(w->ctx, a, x, out, out, x + ROWS * WIDTH - 1, lse), QKV_BAD_ARGUMENT, "-236 bytes apart");
    expect(w, qkv_attention_forward(w->ctx, a, x, out, out, x + ROWS * WIDTH, lse), QKV_OK, NULL);
    expect(w, qkv_attention_forward(w->ctx, a, x, x, x, out, out + 7), QKV_BAD_ARGUMENT, "out is written and overlaps lse");
    expect(w, qkv_attention_forward(w->ctx, a, x, out, x, lse, out + 7), QKV_BAD_ARGUMENT, "lse is written and overlaps k");
    expect(w, forward(w), QKV_OK, NULL);
    expect(w, qkv_attention_backward(w->ctx, a, x, x, x, out, lse, x, w->d[0], w->d[0], w->d[2]), QKV_BAD_ARGUMENT,
           "dq is written and overlaps dk");
    expect(w, qkv_attention_backward(w->ctx, a, x, x, x, out, lse, x, w->d[0], w->d[1], out), QKV_BAD_ARGUMENT,
           "dv is written and overlaps out");
    expect(w, qkv_attention_weights(w->ctx, a, x, w->d[0], 0, 0, x), QKV_BAD_ARGUMENT, "weights is written and overlaps q");
    expect(w, qkv_attention_weights(w->ctx, a, x, x, 0, 0, NULL), QKV_BAD_ARGUMENT, "weights is NULL, with 5 rows of 5");
    /* all four side by side in the rows of one buffer: disjoint, with the same row stride */
    a->q_row = a->k_row = a->v_row = a->o_row = 4 * WIDTH;
    expect(w, qkv_attention_forward(w->ctx, a, x, x + WIDTH, x + 2 * WIDTH, x + 3 * WIDTH, lse), QKV_OK, NULL);
    expect(w, qkv_attention_forward(w->ctx, a, x, x + WIDTH, x + 2 * WIDTH, x + 3 * WIDTH - 1, lse), QKV_BAD_ARGUMENT,
           "overlaps v");
    float alibi[HEADS] = {1, 2, 3, 1.0f / 0.0f};
    a->alibi = alibi;
    expect(w, forward(w), QKV_BAD_ARGUMENT, "alibi[3]=inf is not finite");
    assert_int_equal(qkv_attention_pairs(a), -1);
    qkv_ctx_free(w->ctx);
}

static void null_has_one_rule(void **state) {
    (void)state;
    static world one;
    world *w = &one;
    float *x = w->x;
    start(w);
    char message[100] = "";
    assert_int_equal(qkv_ctx_create(NULL, NULL, message, sizeof message), QKV_BAD_ARGUMENT);
    assert_non_null(strstr(message, "NULL"));
    expect(w, qkv_attention_forward(w->ctx, NULL, x, x, x, w->out, NULL), QKV_BAD_ARGUMENT, "the qkv_attention is NULL");
    expect(w, qkv_attention_backward(w->ctx, NULL, x, x, x, x, x, x, x, x, x), QKV_BAD_ARGUMENT, "the qkv_attention is NULL");
    expect(w, qkv_attention_weights(w->ctx, NULL, x, x, 0, 0, w->out), QKV_BAD_ARGUMENT, "the qkv_attention is NULL");
    expect(w, qkv_attention_backward(w->ctx, &w->a, x, x, x, w->out, NULL, x, w->d[0], w->d[1], w->d[2]), QKV_BAD_ARGUMENT,
           "lse is NULL");
    assert_int_equal(qkv_attention_forward(NULL, &w->a, x, x, x, w->out, NULL), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_attention_backward(NULL, &w->a, x, x, x, x, x, x, x, x, x), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_attention_weights(NULL, &w->a, x, x, 0, 0, w->out), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_attention_pairs(NULL), -1);
    w->a.heads = 0;
    assert_int_equal(qkv_attention_pairs(&w->a), -1);
    qkv_attention_init(NULL);
    assert_string_equal(qkv_message(NULL), "");
    qkv_release(NULL, NULL);
    qkv_model *model;
    expect(w, qkv_model_load(w->ctx, "x", NULL), QKV_BAD_ARGUMENT, "model is NULL");
    expect(w, qkv_model_load(w->ctx, NULL, &model), QKV_BAD_ARGUMENT, "NULL");
    expect(w, qkv_model_load(w->ctx, "", &model), QKV_IO, "the path is empty");
    assert_int_equal(qkv_model_load(NULL, "x", &model), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_model_save(NULL, "x"), QKV_BAD_ARGUMENT);
    int64_t n;
    char *json;
    qkv_token *tokens;
    assert_int_equal(qkv_model_describe(NULL, &json), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_model_tokens(NULL, "x", 1, &tokens, &n, NULL), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_model_attention(NULL, "x", 1, 0, 0, x), QKV_BAD_ARGUMENT);
    assert_null(qkv_model_task(NULL));
    assert_null(qkv_model_tokenizer(NULL));
    assert_null(qkv_model_label(NULL, 0));
    assert_int_equal(qkv_model_labels(NULL), 0);
    qkv_model_free(NULL);
    qkv_ctx_free(w->ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(folds_are_found_exactly), cmocka_unit_test(meetings_are_found_exactly),
                                       cmocka_unit_test(written_layouts_may_not_overlap),
                                       cmocka_unit_test(written_buffers_may_not_alias), cmocka_unit_test(null_has_one_rule)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
