/* The monitor: what it counts and says, and that it changes nothing. */
#include "loop_toy.h"

#include "train/monitor.h"

enum { LAYERS = 2, HEADS = 2 };

typedef struct bench {
    test_memory memory;
    qkv_ctx ctx;
    qkv_reg reg;
    qkv_monitor *m;
    real *weights, *grads;
} bench;

static void start(bench *b) {
    static const char *const names[] = {"embedding.weight", "encoder.0.ffn.in.weight", "encoder.0.norm1.weight",
                                        "encoder.1.ffn.in.weight", "head.bias"};
    *b = (bench){0};
    b->ctx = test_ctx(&b->memory);
    b->reg.ctx = &b->ctx;
    int64_t index;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_int_equal(qkv_reg_add(&b->reg, "", names[i], 1, 11, (qkv_param_kind){.value = 1, .vector = true}, &index), QKV_OK);
    assert_int_equal(qkv_monitor_create(&b->ctx, &b->reg, LAYERS, HEADS, &b->m), QKV_OK);
    b->weights = calloc((size_t)b->reg.size, sizeof(real));
    b->grads = calloc((size_t)b->reg.size, sizeof(real));
    for (int64_t i = 0; i < b->reg.size; i++) b->weights[i] = 2, b->grads[i] = 3;
}

static void end(bench *b) {
    free(b->weights);
    free(b->grads);
    qkv_monitor_free(b->m);
    qkv_reg_free(&b->reg);
    assert_int_equal(b->memory.blocks, 0);
}

static void see(bench *b, double evenness, double score) {
    qkv_watch *w = qkv_monitor_watch(b->m);
    for (int i = 0; i < LAYERS * HEADS; i++)
        w->of[i] = (qkv_watched){.rows = 4, .evenness = 4 * (i < HEADS ? 0.5 : evenness), .score = score};
}

static qkv_train_monitor look(bench *b, int64_t step, double evenness, double score) {
    qkv_monitor_before(b->m, b->weights, b->grads);
    for (int64_t i = 0; i < b->reg.size; i++) b->weights[i] *= (real)1.01;
    qkv_monitor_after(b->m, b->weights);
    qkv_monitor_step(b->m, step, 1, false);
    see(b, evenness, score);
    return qkv_monitor_look(b->m);
}

static bool says(const qkv_train_monitor *t, const char *words) {
    for (int64_t i = 0; i < t->words; i++)
        if (strstr(t->word[i], words)) return true;
    return false;
}

static void parts(void **state) {
    (void)state;
    bench b;
    start(&b);
    const qkv_train_monitor t = look(&b, 1, 0.7, 3);
    static const char *const names[] = {"embedding", "encoder.0", "encoder.1", "head"};
    assert_int_equal(t.parts, 4);
    for (int i = 0; i < 4; i++) {
        assert_string_equal(t.part[i].name, names[i]);
        assert_true(fabs(t.part[i].gradient_norm - 3 * sqrt(i == 1 ? 22 : 11)) < 1e-5);
        assert_true(fabs(t.part[i].update_ratio - 0.01) < 1e-5);
    }
    assert_true(t.looked && !t.over && t.layers == LAYERS && t.heads == HEADS && t.words == 0);
    assert_true(fabs(t.entropy[0] - 0.5) < 1e-9 && fabs(t.entropy[2] - 0.7) < 1e-9 && t.score[3] == 3);
    const qkv_train_monitor all = qkv_monitor_end(b.m);
    assert_true(all.over && all.looks == 1 && says(&all, "nothing wrong"));
    end(&b);
}

static void attention(void **state) {
    (void)state;
    bench b;
    start(&b);
    for (int i = 0; i < 12; i++) {
        const double evenness = i < 5 ? 0.995 : i < 7 ? 0.5 : 0.01;
        const qkv_train_monitor t = look(&b, 10 * i, evenness, 5);
        assert_int_equal(t.words, i == 2 || i == 9);
        if (i == 2) assert_true(says(&t, "layer 1 has gone uniform"));
        if (i == 9) assert_true(says(&t, "layer 1 is saturated"));
    }
    for (int i = 0; i < 3; i++) assert_int_equal(look(&b, 200 + i, 0.5, 101).words, i == 2);
    const qkv_train_monitor t = qkv_monitor_end(b.m);
    assert_int_equal(t.uniform, 5);
    assert_int_equal(t.saturated, 8);
    assert_true(says(&t, "uniform in 5 of 15 looks") && says(&t, "saturated in 8 of 15 looks"));
    end(&b);
}

static void gradients(void **state) {
    (void)state;
    bench b;
    start(&b);
    for (int i = 0; i < 30; i++) qkv_monitor_step(b.m, i, 2 + i % 3, false);
    assert_false(qkv_monitor_has_words(b.m));
    qkv_monitor_step(b.m, 30, 29, false); /* the median is 3 */
    assert_false(qkv_monitor_has_words(b.m));
    for (int i = 31; i < 33; i++) qkv_monitor_step(b.m, i, 31, false);
    qkv_train_monitor t = qkv_monitor_tell(b.m);
    assert_true(t.words == 1 && says(&t, "step 31") && t.exploding == 2 && t.median_norm == 3 && !t.looked);
    qkv_monitor_step(b.m, 33, NAN, true);
    t = qkv_monitor_tell(b.m);
    assert_true(t.words == 1 && says(&t, "step 33") && t.nonfinite == 1 && t.steps == 34);
    for (int64_t i = 0; i < b.reg.count; i++) /* the first layer gets next to nothing */
        for (int64_t e = 0; e < 11; e++) b.grads[b.reg.params[i].offset + e] = (real)(i == 1 || i == 2 ? 1e-4 : 1);
    for (int i = 0; i < 4; i++) {
        t = look(&b, 40 + i, 0.5, 1);
        assert_int_equal(t.words, i == 2);
    }
    t = qkv_monitor_end(b.m);
    assert_true(t.vanishing == 4 && says(&t, "vanished") && says(&t, "exploded in 2 of 38") && says(&t, "1 of 38 steps"));
    end(&b);
}

/* A run that is watched has the bits of one that is not, and no allocation in a step. */
static void changes_nothing(void **state) {
    (void)state;
    real w[2][16] = {{0}};
    int64_t calls[2][MAX_EVENTS] = {{0}};
    for (int watched = 0; watched < 2; watched++) {
        toy t;
        toy_start(&t, 7, 2);
        qkv_loop_options o = toy_options();
        o.monitor = watched ? 2 : 0;
        const qkv_task task = {
            .self = &t, .reg = &t.reg, .rows = t.rows, .offset = t.offset, .step = toy_step, .evaluate = toy_evaluate};
        const qkv_train_callbacks callbacks = {on_event, &t};
        qkv_loop_result result;
        assert_int_equal(qkv_loop_run(&t.ctx, &task, &o, &callbacks, 0, w[watched], &result), QKV_OK);
        for (int i = 0; i < t.steps_seen; i++) calls[watched][i] = t.calls_at[i] - t.calls_at[0]; /* an epoch has some */
        toy_end(&t);
    }
    assert_memory_equal(w[0], w[1], sizeof w[0]);
    assert_memory_equal(calls[0], calls[1], sizeof calls[0]);
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    bench b;
    start(&b);
    for (int k = 1;; k++) {
        qkv_monitor *m;
        b.memory.fail_at = b.memory.calls + k;
        const int64_t blocks = b.memory.blocks;
        const qkv_status status = qkv_monitor_create(&b.ctx, &b.reg, LAYERS, HEADS, &m);
        const bool failed = b.memory.calls >= b.memory.fail_at;
        b.memory.fail_at = 0;
        assert_int_equal(status, failed ? QKV_NO_MEMORY : QKV_OK);
        qkv_monitor_free(m);
        assert_int_equal(b.memory.blocks, blocks);
        if (!failed) break;
    }
    end(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(parts), cmocka_unit_test(attention), cmocka_unit_test(gradients),
                                       cmocka_unit_test(changes_nothing), cmocka_unit_test(every_allocation_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
