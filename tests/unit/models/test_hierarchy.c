/* Encoders that read by segments: what sees what, what is refused, segments made by hand. */
#include "net.h"

#include "models/hierarchy.h"
#include "models/masked.h"

static qkv_config config_of(qkv_segmentation kind) {
    qkv_config c = net_config();
    c.segment = kind;
    c.segment_length = 5;
    c.segment_layers = 2;
    c.position = QKV_POSITION_NONE;
    c.pooling = QKV_POOL_MEAN;
    return c;
}

static void numbers(void **state) {
    (void)state;
    qkv_config c = config_of(QKV_SEGMENT_TOKENS);
    assert_int_equal(qkv_config_lower(&c).max_length, 5);
    assert_int_equal(qkv_config_upper(&c).max_length, 13); /* 64 tokens */
    assert_int_equal(qkv_config_upper(&c).layers, 2);
    c.segment = QKV_SEGMENT_SENTENCES;
    assert_int_equal(qkv_config_upper(&c).max_length, 64);
    c.segment_length = c.segment_layers = 0;
    assert_int_equal(qkv_config_segment_length(&c), 64); /* 128, but for the limit of the text */
    assert_int_equal(qkv_config_segment_layers(&c), 1);
    c.segment = QKV_SEGMENT_WORDS;
    qkv_config_settle(&c);
    assert_int_equal(c.segment_length, 16);
    assert_int_equal(c.segment_layers, 1);
    c.span = (qkv_span){3, 2};
    assert_true(qkv_config_lower(&c).span.left == 3 && qkv_config_upper(&c).span.left == -1 &&
                qkv_config_upper(&c).span.right == -1);
    c.span = (qkv_span){-1, 0};
    assert_int_equal(qkv_config_upper(&c).span.right, 0);
    c.segment = QKV_SEGMENT_NONE;
    qkv_config_settle(&c);
    assert_true(c.segment_length == 0 && c.segment_layers == 0 && qkv_config_lower(&c).max_length == 64);
}

/* The logits of one text, 3 segments of 5 tokens, in this order of the segments. */
static void logits_of(qkv_ctx *ctx, const qkv_classifier *net, const real *w, const int *order, int swap, real *logits) {
    static const uint64_t who[] = {4};
    static const int64_t lengths[] = {15};
    const qkv_config *c = qkv_classifier_config(net);
    net_rows b = net_rows_make(c, 1, who, lengths), turned = net_rows_make(c, 1, who, lengths);
    for (int s = 0; s < 3; s++) memcpy(turned.ids + 5 * s, b.ids + 5 * order[s], 5 * sizeof *b.ids);
    if (swap > 0) {
        const int32_t id = turned.ids[0];
        turned.ids[0] = turned.ids[swap];
        turned.ids[swap] = id;
    }
    net_result f = net_forward(ctx, net, w, &turned, &(net_options){0});
    memcpy(logits, f.logits, (size_t)c->classes * sizeof *logits);
    net_result_free(&f);
    net_rows_free(&b);
    net_rows_free(&turned);
}

static double apart(const real *a, const real *b) {
    double most = 0;
    for (int i = 0; i < 5; i++) most = fmax(most, fabs((double)a[i] - (double)b[i]));
    return most;
}

/* Without positions neither the order of the segments nor that of the tokens in one matters; which tokens are together does. */
static void order(void **state) {
    (void)state;
    static const int as_is[] = {0, 1, 2}, turned[] = {2, 0, 1};
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = net_ctx(&memory, 2, NULL);
    const qkv_config c = config_of(QKV_SEGMENT_TOKENS);
    qkv_classifier *net;
    real first[5], other[5];
    NET_OK(&ctx, qkv_classifier_create(&ctx, &c, false, &net));
    real *w = net_weights(net, 3);
    logits_of(&ctx, net, w, as_is, 0, first);
    logits_of(&ctx, net, w, turned, 0, other);
    assert_true(apart(first, other) < 1e-5);
    logits_of(&ctx, net, w, as_is, 3, other);
    assert_true(apart(first, other) < 1e-5);
    logits_of(&ctx, net, w, as_is, 7, other);
    assert_true(apart(first, other) > 1e-3);
    free(w);
    qkv_classifier_free(net);
}

/* Of n tokens: 0 between segments; above, a segment gives the same to each token of another. Rows add up to 1. */
static void check_weights(const net_rows *b, const real *m, bool upper) {
    const int64_t n = b->rows;
    int64_t segment[64];
    for (int64_t s = 0; s < b->segments[1]; s++)
        for (int64_t i = b->segment_at[s]; i < b->segment_at[s + 1]; i++) segment[i] = s;
    for (int64_t i = 0; i < n; i++) {
        double sum = 0;
        for (int64_t j = 0; j < n; j++) {
            sum += (double)m[i * n + j];
            if (!upper && segment[i] != segment[j]) assert_true(m[i * n + j] == 0);
            if (upper && j > 0 && segment[j] == segment[j - 1]) assert_true(m[i * n + j] == m[i * n + j - 1]);
            if (upper && i > 0 && segment[i] == segment[i - 1]) assert_true(m[i * n + j] == m[(i - 1) * n + j]);
        }
        assert_true(fabs(sum - 1) < 1e-5);
    }
}

static void weights(void **state) {
    (void)state;
    static const uint64_t who[] = {4};
    static const int64_t lengths[] = {33};
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = net_ctx(&memory, 2, NULL);
    const qkv_config c = config_of(QKV_SEGMENT_SENTENCES);
    qkv_classifier *net;
    NET_OK(&ctx, qkv_classifier_create(&ctx, &c, false, &net));
    real *w = net_weights(net, 3), m[33 * 33];
    net_rows b = net_rows_make(&c, 1, who, lengths);
    const qkv_batch shape = net_shape(&b);
    for (int64_t layer = 0; layer < 4; layer++) {
        qkv_exec plan = net_exec(&ctx, net, &(net_options){0}, true), run = net_exec(&ctx, net, &(net_options){0}, false);
        NET_OK(&ctx, qkv_classifier_weights(&plan, net, &shape, layer, 1, NULL));
        run.weights = w;
        NET_OK(&ctx, qkv_arena_create(&ctx, plan.arena.peak, &run.arena));
        NET_OK(&ctx, qkv_classifier_weights(&run, net, &b.batch, layer, 1, m));
        assert_int_equal(run.arena.peak, plan.arena.peak);
        check_weights(&b, m, layer >= 2);
        assert_int_equal(qkv_classifier_weights(&run, net, &b.batch, 4, 1, m), QKV_BAD_ARGUMENT);
        qkv_arena_free(&ctx, &run.arena);
    }
    net_rows_free(&b);
    free(w);
    qkv_classifier_free(net);
}

/* A batch whose segments are not there, too long, empty, or not those of the texts. */
static void refused(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = net_ctx(&memory, 2, NULL);
    const qkv_config c = config_of(QKV_SEGMENT_WORDS);
    qkv_classifier *net;
    NET_OK(&ctx, qkv_classifier_create(&ctx, &c, false, &net));
    static const int64_t offset[] = {0, 6, 8}, segments[] = {0, 2, 3};
    static const int64_t ends[][4] = {{0, 4, 6, 8}, {0, 0, 6, 8}, {0, 6, 6, 8}, {0, 4, 7, 8}, {0, 4, 6, 7}};
    for (int i = 0; i < 5; i++) {
        qkv_exec x = net_exec(&ctx, net, &(net_options){0}, true);
        const qkv_batch b = {.n_seq = 2, .offset = offset, .segments = segments, .segment_at = ends[i]};
        assert_int_equal(qkv_classifier_forward(&x, net, &b, (qkv_mat){NULL, 2, 5, 5}), i == 0 ? QKV_OK : QKV_INTERNAL);
        if (i > 0) assert_non_null(strstr(ctx.message, "into segments of 1 to 5 tokens"));
    }
    qkv_exec x = net_exec(&ctx, net, &(net_options){0}, true);
    const qkv_batch none = {.n_seq = 2, .offset = offset};
    assert_int_equal(qkv_classifier_forward(&x, net, &none, (qkv_mat){NULL, 2, 5, 5}), QKV_INTERNAL);
    qkv_classifier_free(net);
    qkv_config bad = net_config();
    bad.segment_layers = 1;
    assert_int_equal(qkv_config_check(&ctx, &bad), QKV_BAD_CONFIG);
}

static void by_hand(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = net_ctx(&memory, 2, NULL);
    static const int64_t offset[] = {0, 7, 7, 9}, at[] = {4, 6, 6, 7};
    static const int32_t size[] = {0, 0, 0, 0, 3, 4, 2};
    qkv_batch b = {.n_seq = 3, .offset = offset};
    NET_OK(&ctx, qkv_hierarchy_assume(&ctx, 3, &b));
    static const int64_t assumed[] = {0, 3, 3, 4}, ends[] = {0, 3, 6, 7, 9};
    assert_memory_equal(b.segments, assumed, sizeof assumed);
    assert_memory_equal(b.segment_at, ends, sizeof ends);
    qkv_free(&ctx, (void *)b.segments);
    NET_OK(&ctx, qkv_hierarchy_cut(&ctx, at, size, &b));
    static const int64_t cut[] = {0, 2, 2, 3}, cut_ends[] = {0, 3, 7, 9};
    assert_memory_equal(b.segments, cut, sizeof cut);
    assert_memory_equal(b.segment_at, cut_ends, sizeof cut_ends);
    qkv_free(&ctx, (void *)b.segments);
    assert_int_equal(memory.blocks, 0);
}

/* Pretraining hands over the encoder of segments: the parameters that both have come first. */
static void pretrained(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = net_ctx(&memory, 2, NULL);
    const qkv_config c = config_of(QKV_SEGMENT_TOKENS);
    qkv_classifier *net;
    qkv_masked *masked;
    NET_OK(&ctx, qkv_classifier_create(&ctx, &c, false, &net));
    NET_OK(&ctx, qkv_masked_create(&ctx, &c, false, &masked));
    assert_int_equal(qkv_classifier_encoder_size(net), qkv_masked_encoder_size(masked));
    const qkv_reg *a = qkv_classifier_reg(net), *b = qkv_masked_reg(masked);
    for (int64_t i = 0; i < a->count && a->params[i].offset < qkv_classifier_encoder_size(net); i++) {
        assert_string_equal(a->params[i].name, b->params[i].name);
        assert_int_equal(a->params[i].offset, b->params[i].offset);
        assert_null(strstr(a->params[i].name, "segments."));
    }
    qkv_masked_free(masked);
    qkv_classifier_free(net);
    assert_int_equal(memory.blocks, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(numbers), cmocka_unit_test(order),   cmocka_unit_test(weights),
                                       cmocka_unit_test(refused), cmocka_unit_test(by_hand), cmocka_unit_test(pretrained)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
