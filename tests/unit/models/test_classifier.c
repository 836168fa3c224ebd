/* The classifier as a whole: names and places of its parameters, initial values, what a pass refuses, attention weights, and
 * an allocator that fails at every call. */
#include "net.h"

static void names(void **state) {
    (void)state;
    static const char *const expected[] = {
        "embedding.weight",        "position.weight",          "encoder.0.norm1.weight",   "encoder.0.norm1.bias",
        "encoder.0.attention.qkv.weight", "encoder.0.attention.qkv.bias", "encoder.0.attention.out.weight", "encoder.0.attention.out.bias",
        "encoder.0.norm2.weight",  "encoder.0.norm2.bias",     "encoder.0.ffn.in.weight",  "encoder.0.ffn.in.bias",
        "encoder.0.ffn.out.weight", "encoder.0.ffn.out.bias",  "norm.weight",              "norm.bias",
        "pool.query",              "head.weight",              "head.bias"};
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = net_ctx(&memory, 1, NULL);
    qkv_config c = net_config();
    c.layers = 1;
    qkv_classifier *net;
    NET_OK(&ctx, qkv_classifier_create(&ctx, &c, false, &net));
    const qkv_reg *reg = qkv_classifier_reg(net);
    assert_int_equal(reg->count, sizeof expected / sizeof *expected);
    int64_t end = 0;
    for (int64_t i = 0; i < reg->count; i++) {
        const qkv_param *p = &reg->params[i];
        assert_string_equal(p->name, expected[i]);
        assert_true(p->offset % 16 == 0 && p->offset >= end && p->offset < end + 16);
        end = p->offset + p->rows * p->cols;
        bool table = i < 2, matrix = strstr(p->name, ".weight") && !strstr(p->name, "norm") && !table;
        assert_true(p->embedding == table && p->decay == matrix && (p->packed_offset >= 0) == matrix && p->vector == !(table || matrix));
    }
    assert_true(reg->size >= end && reg->size % 16 == 0);
    qkv_classifier_free(net);
    c.norm_place = QKV_NORM_POST; /* ends in a norm already */
    NET_OK(&ctx, qkv_classifier_create(&ctx, &c, false, &net));
    for (int64_t i = 0; i < qkv_classifier_reg(net)->count; i++) assert_string_not_equal(qkv_classifier_reg(net)->params[i].name, "norm.weight");
    qkv_classifier_free(net);
    qkv_classifier_free(NULL);
    assert_int_equal(memory.blocks, 0);
}

/* Each parameter has the deviation it declares; the values belong to (seed, parameter, element). */
static void initial_values(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = net_ctx(&memory, 1, NULL);
    qkv_config c = net_config();
    c.vocab = 500;
    c.dim = 64;
    c.head_dim = 16;
    c.ffn = 128;
    qkv_classifier *net;
    NET_OK(&ctx, qkv_classifier_create(&ctx, &c, false, &net));
    const qkv_reg *reg = qkv_classifier_reg(net);
    real *a = malloc((size_t)reg->size * sizeof *a), *b = malloc((size_t)reg->size * sizeof *b), *other = malloc((size_t)reg->size * sizeof *b);
    qkv_reg_init(reg, 1, a);
    qkv_reg_init(reg, 1, b);
    qkv_reg_init(reg, 2, other);
    assert_memory_equal(a, b, (size_t)reg->size * sizeof *a);
    for (int64_t i = 0; i < reg->count; i++) {
        const qkv_param *p = &reg->params[i];
        int64_t n = p->rows * p->cols;
        double sum = 0, squares = 0, apart = 0;
        for (int64_t e = p->offset; e < p->offset + n; e++) {
            sum += (double)a[e];
            squares += (double)a[e] * (double)a[e];
            apart += fabs((double)a[e] - (double)other[e]);
        }
        double mean = sum / (double)n, std = (double)p->init_std;
        if (std == 0) {
            assert_true(mean == (double)p->init_value && apart == 0);
            continue;
        }
        assert_true(fabs(mean) < 5 * std / sqrt((double)n) && apart > 0);
        assert_true(fabs(sqrt(squares / (double)n) - std) < 5 * std / sqrt(2 * (double)n));
    }
    assert_true(reg->params[0].init_std == (real)0.01);
    free(a);
    free(b);
    free(other);
    qkv_classifier_free(net);
}

/* Of the four gates of each direction those that forget start with what was given, 0 too, or with 1; and a file is the same. */
static void forget_bias(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = net_ctx(&memory, 1, NULL);
    static const double given[] = {0, 0, -1.5, 3};
    for (int i = 0; i < 4; i++) {
        qkv_config c = net_config();
        c.model = i % 2 ? QKV_NETWORK_BILSTM : QKV_NETWORK_LSTM;
        c.pooling = QKV_POOL_MEAN;
        qkv_config_settle(&c);
        json_t *usual, *now;
        NET_OK(&ctx, qkv_config_to_json(&ctx, &c, &usual));
        c.forget_given = i > 0;
        c.forget_bias = given[i];
        NET_OK(&ctx, qkv_config_to_json(&ctx, &c, &now));
        assert_true(json_equal(usual, now));
        json_decref(usual);
        json_decref(now);
        qkv_classifier *net;
        NET_OK(&ctx, qkv_classifier_create(&ctx, &c, false, &net));
        const qkv_reg *reg = qkv_classifier_reg(net);
        real *w = malloc((size_t)reg->size * sizeof *w);
        qkv_reg_init(reg, 1, w);
        int64_t found = 0;
        for (int64_t k = 0; k < reg->count; k++) {
            const qkv_param *p = &reg->params[k];
            if (!strstr(p->name, "input.bias")) continue;
            const int64_t units = c.dim / qkv_config_directions(&c);
            assert_int_equal(p->cols, qkv_config_directions(&c) * 4 * units);
            for (int64_t e = 0; e < p->cols; e++)
                assert_true(w[p->offset + e] == (e / units % 4 == 1 ? (real)(i > 0 ? given[i] : 1) : 0));
            found++;
        }
        assert_int_equal(found, c.layers);
        free(w);
        qkv_classifier_free(net);
    }
    assert_int_equal(memory.blocks, 0);
}

static const uint64_t WHO[] = {1, 2, 3};
static const int64_t LENGTHS[] = {4, 0, 9};

typedef struct pass {
    test_memory memory;
    qkv_ctx ctx;
    qkv_config config;
    qkv_classifier *net;
    real *w, *g;
    net_rows rows;
    qkv_exec x;
} pass;

static void start(pass *p) {
    memset(p, 0, sizeof *p);
    p->ctx = net_ctx(&p->memory, 1, NULL);
    p->config = net_config();
    NET_OK(&p->ctx, qkv_classifier_create(&p->ctx, &p->config, false, &p->net));
    p->w = net_weights(p->net, 1);
    p->g = calloc((size_t)qkv_classifier_reg(p->net)->size, sizeof *p->g);
    p->rows = net_rows_make(&p->config, 3, WHO, LENGTHS);
    p->x = (qkv_exec){.ctx = &p->ctx, .train = true, .reg = qkv_classifier_reg(p->net), .weights = p->w, .grads = p->g};
    NET_OK(&p->ctx, qkv_arena_create(&p->ctx, 4 << 20, &p->x.arena));
}

static void end(pass *p) {
    qkv_arena_free(&p->ctx, &p->x.arena);
    net_rows_free(&p->rows);
    free(p->w);
    free(p->g);
    qkv_classifier_free(p->net);
    qkv_par_close(&p->ctx);
    assert_int_equal(p->memory.blocks, 0);
}

static qkv_status step(pass *p, const qkv_batch *batch, const int32_t *target) {
    double loss;
    qkv_status status = qkv_classifier_step(&p->x, p->net, batch, target, 0.1, 1, &loss, NULL);
    assert_true(p->x.arena.low == 0 && p->x.arena.high == 0 && !p->x.keep && p->x.pass == QKV_PASS_FORWARD);
    return status;
}

/* Whatever is wrong, the pass ends in a status and leaves the exec as it was. */
static void refused(void **state) {
    (void)state;
    pass one, *p = &one;
    start(p);
    assert_int_equal(step(p, &p->rows.batch, p->rows.target), QKV_OK);
    int32_t targets[] = {0, 5, 1};
    assert_int_equal(step(p, &p->rows.batch, targets), QKV_BAD_ARGUMENT);
    assert_string_equal(p->ctx.message, "row 1 has target 5; there are 5 classes");
    p->rows.ids[6] = 29;
    assert_int_equal(step(p, &p->rows.batch, p->rows.target), QKV_BAD_ARGUMENT);
    assert_string_equal(p->ctx.message, "token table: row 6 asks for entry 29 of 0..28");
    p->rows.ids[6] = 0;
    const int64_t too_long[] = {0, 65}, descending[] = {0, 5, 3}, late[] = {1, 3};
    qkv_batch b = {.n_seq = 1, .offset = too_long, .ids = p->rows.ids};
    assert_int_equal(step(p, &b, targets), QKV_BAD_ARGUMENT);
    assert_string_equal(p->ctx.message, "sequence 0 has 65 tokens; this network takes 0 to 64: its table of positions ends there (position_beyond=error)");
    b = (qkv_batch){.n_seq = 2, .offset = descending, .ids = p->rows.ids};
    assert_int_equal(step(p, &b, targets), QKV_BAD_ARGUMENT);
    b = (qkv_batch){.n_seq = 1, .offset = late, .ids = p->rows.ids};
    assert_int_equal(step(p, &b, targets), QKV_INTERNAL);
    p->x.grads = NULL;
    assert_int_equal(step(p, &p->rows.batch, p->rows.target), QKV_INTERNAL);
    p->x.grads = p->g;
    real logits[16];
    assert_int_equal(qkv_classifier_forward(&p->x, p->net, &p->rows.batch, (qkv_mat){logits, 3, 4, 4}), QKV_INTERNAL);
    qkv_reg strange = {0};
    p->x.reg = &strange;
    assert_int_equal(step(p, &p->rows.batch, p->rows.target), QKV_INTERNAL);
    end(p);
}

/* The longest text the network takes fits its position table exactly. */
static void longest(void **state) {
    (void)state;
    pass one, *p = &one;
    start(p);
    static const int64_t full[] = {64, 1, 64};
    net_rows_free(&p->rows);
    p->rows = net_rows_make(&p->config, 3, WHO, full);
    assert_int_equal(step(p, &p->rows.batch, p->rows.target), QKV_OK);
    end(p);
}

static void weights(void **state) {
    (void)state;
    pass one, *p = &one;
    start(p);
    static const int64_t length[] = {9};
    net_rows_free(&p->rows);
    p->rows = net_rows_make(&p->config, 1, WHO, length);
    p->x.train = false;
    real map[81];
    for (int64_t layer = 0; layer < 2; layer++)
        for (int64_t head = 0; head < 4; head++) {
            NET_OK(&p->ctx, qkv_classifier_weights(&p->x, p->net, &p->rows.batch, layer, head, map));
            for (int i = 0; i < 9; i++) {
                double sum = 0;
                for (int j = 0; j < 9; j++) sum += (double)map[9 * i + j];
                assert_true(fabs(sum - 1) < 1e-5);
            }
        }
    assert_int_equal(qkv_classifier_weights(&p->x, p->net, &p->rows.batch, 2, 0, map), QKV_BAD_ARGUMENT);
    assert_string_equal(p->ctx.message, "layer 2: this model has layers 0 to 1");
    assert_int_equal(qkv_classifier_weights(&p->x, p->net, &p->rows.batch, 0, 4, map), QKV_BAD_ARGUMENT);
    assert_string_equal(p->ctx.message, "head 4: this model has heads 0 to 3");
    assert_int_equal(qkv_classifier_weights(&p->x, p->net, &p->rows.batch, -1, 0, map), QKV_BAD_ARGUMENT);
    assert_true(p->x.arena.low == 0 && p->x.arena.high == 0);
    net_rows_free(&p->rows);
    p->rows = net_rows_make(&p->config, 3, WHO, LENGTHS);
    assert_int_equal(qkv_classifier_weights(&p->x, p->net, &p->rows.batch, 0, 0, map), QKV_BAD_ARGUMENT);
    end(p);
}

static void no_memory(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = net_ctx(&memory, 1, NULL);
    qkv_config c = net_config();
    c.layers = 12;
    qkv_classifier *net;
    int64_t k = 0;
    qkv_status status;
    do {
        memory.calls = 0;
        memory.fail_at = ++k;
        status = qkv_classifier_create(&ctx, &c, true, &net);
        if (status != QKV_OK) {
            assert_int_equal(status, QKV_NO_MEMORY);
            assert_null(net);
            assert_int_equal(memory.blocks, 0);
        }
    } while (status != QKV_OK);
    assert_true(k > 10);
    qkv_classifier_free(net);
    assert_int_equal(memory.blocks, 0);
    c.heads = 7;
    assert_int_equal(qkv_classifier_create(&ctx, &c, true, &net), QKV_BAD_CONFIG);
    assert_null(net);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(names),    cmocka_unit_test(initial_values), cmocka_unit_test(forget_bias),
                                       cmocka_unit_test(refused),  cmocka_unit_test(longest),        cmocka_unit_test(weights),
                                       cmocka_unit_test(no_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
