/* Training, prediction and testing of real, very small classifiers. */
#include "unit/tasks/toy.h"

#include <math.h>

typedef struct seen {
    qkv_train_data data;
    char first_label[64];
    qkv_train_linear linear;
    qkv_train_plan plan;
    int steps, evaluations, ends, data_events;
    qkv_train_end end;
    double first_epoch_flops;
    int first_epoch_steps;
    int stop_after;
    int polls, stop_at_poll; /* stop_at_poll: from this question on; 0: never */
    int64_t calls_at_step, moves;
    double last_epoch;
    test_memory *memory;
    char log[2048];
} seen;

static void on_event(void *user, const qkv_train_event *e) {
    seen *s = user;
    switch (e->kind) {
    case QKV_TRAIN_DATA:
        s->data = e->u.data;
        s->data_events++;
        snprintf(s->first_label, sizeof s->first_label, "%s", e->u.data.labels[0]);
        break;
    case QKV_TRAIN_LINEAR:
        s->linear = e->u.linear;
        break;
    case QKV_TRAIN_PLAN:
        s->plan = e->u.plan;
        break;
    case QKV_TRAIN_STEP:
        /* inside an epoch nothing is allocated between two steps */
        if (s->memory && s->steps > 0 && ceil(e->u.step.epoch) == ceil(s->last_epoch) && s->memory->calls != s->calls_at_step)
            s->moves++;
        if (s->memory) s->calls_at_step = s->memory->calls;
        s->last_epoch = e->u.step.epoch;
        s->steps++;
        if (e->u.step.epoch <= 1) {
            s->first_epoch_flops += e->u.step.flops;
            s->first_epoch_steps++;
        }
        assert_true(e->u.step.loss >= 0 && e->u.step.rows > 0 && (e->u.step.tokens > 0 || s->data.empty_rows > 0));
        break;
    case QKV_TRAIN_MONITOR: /* nobody asked for it */
        fail();
        break;
    case QKV_TRAIN_EVALUATE:
        s->evaluations++;
        break;
    case QKV_TRAIN_END:
        s->end = e->u.end;
        s->ends++;
        break;
    }
}

static int on_stop(void *user) {
    seen *s = user;
    s->polls++;
    return (s->stop_at_poll > 0 && s->polls >= s->stop_at_poll) || (s->stop_after > 0 && s->steps >= s->stop_after);
}

static void on_log(void *user, const char *line) {
    seen *s = user;
    size_t n = strlen(s->log);
    snprintf(s->log + n, sizeof s->log - n, "%s\n", line);
}

static qkv_status fit(qkv_ctx *ctx, const qkv_classify_options *o, const char *train, const char *dev, seen *s, qkv_model **model) {
    ctx->stop = on_stop;
    ctx->log = on_log;
    ctx->stop_user = ctx->log_user = s;
    qkv_train_callbacks callbacks = {on_event, s};
    return qkv_classify_fit(ctx, o, NULL, train, dev, NULL, &callbacks, model);
}

static void predict(const qkv_model *model, const char *text, float *p) {
    int64_t length = (int64_t)strlen(text);
    assert_int_equal(qkv_classify_apply(model, 1, &text, &length, p, NULL), QKV_OK);
}

static void learns_a_separable_set(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = toy_ctx(&memory, 2);
    char train[512], test[512];
    toy_file("toy_train.tsv", 400, 1, train);
    toy_file("toy_test.tsv", 100, 2, test);
    qkv_classify_options o = toy_options();
    seen s = {.memory = &memory};
    qkv_model *model;
    assert_int_equal(fit(&ctx, &o, train, NULL, &s, &model), QKV_OK);

    assert_int_equal(s.data_events, 1);
    assert_int_equal(s.data.held_out, 1);
    assert_int_equal(s.data.train_rows + s.data.dev_rows, 400);
    assert_true(s.data.dev_rows > 10 && s.data.dev_rows < 90);
    assert_int_equal(s.data.classes, 2);
    assert_string_equal(s.first_label, "no");
    assert_int_equal(s.plan.steps, s.steps);
    assert_int_equal(s.evaluations, 1 + 8); /* what the bag does alone, and every epoch */
    assert_true(s.linear.ngrams == 2 && s.linear.runs > 20);
    assert_int_equal(s.ends, 1);
    assert_int_equal(s.moves, 0);
    assert_true(s.end.accuracy == 1);
    assert_true(s.first_epoch_flops > 0 && fabs(s.first_epoch_flops / s.first_epoch_steps / s.plan.flops_per_step - 1) < 1e-12);

    qkv_classify_report *r;
    assert_int_equal(qkv_classify_score(model, test, NULL, NULL, NULL, &r), QKV_OK);
    assert_int_equal(r->rows, 100);
    assert_true(r->accuracy == 1 && r->macro_f1 == 1 && r->micro_f1 == 1 && r->weighted_f1 == 1);
    assert_true(r->loss < 0.3);
    assert_int_equal(r->classes, 2);
    assert_int_equal(r->scores[0].support, 50);
    assert_int_equal(r->unseen, 0);
    int64_t rows = 0;
    for (int64_t i = 0; i < r->lengths; i++) rows += r->by_length[i].rows;
    assert_int_equal(rows, 100);
    qkv_classify_score_free(&ctx, r);

    float p[2];
    predict(model, "A GLOOMY day", p);
    assert_true(p[0] > 0.8f && fabsf(p[0] + p[1] - 1) < 1e-6f);
    qkv_model_free(model);
    assert_int_equal(memory.blocks, 0);
}

/* One answer a text, the same alone and among others, for texts of any kind. */
static void answers_do_not_depend_on_the_company(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = toy_ctx(&memory, 2);
    char train[512];
    toy_file("toy_company.tsv", 60, 1, train);
    qkv_classify_options o = toy_options();
    o.epochs = 1;
    seen s = {0};
    qkv_model *model;
    assert_int_equal(fit(&ctx, &o, train, NULL, &s, &model), QKV_OK);

    enum { TEXTS = 700 };
    static const char *texts[TEXTS];
    static int64_t lengths[TEXTS];
    static char bytes[TEXTS][40];
    static float together[TEXTS][2], again[TEXTS][2], alone[2];
    for (int i = 0; i < TEXTS; i++) {
        int64_t n = (int64_t)qkv_below(qkv_key2(9, (uint64_t)i), 40);
        for (int64_t c = 0; c < n; c++) bytes[i][c] = (char)qkv_below(qkv_key3(9, (uint64_t)i, (uint64_t)c), i % 2 ? 256 : 128);
        texts[i] = i % 7 == 0 ? NULL : bytes[i];
        lengths[i] = i % 7 == 0 ? 0 : n;
    }
    assert_int_equal(qkv_classify_apply(model, TEXTS, texts, lengths, &together[0][0], NULL), QKV_OK);
    for (int i = 0; i < TEXTS; i += 13) {
        assert_int_equal(qkv_classify_apply(model, 1, &texts[i], &lengths[i], alone, NULL), QKV_OK);
        assert_memory_equal(alone, together[i], sizeof alone);
        assert_true(fabsf(alone[0] + alone[1] - 1) < 1e-6f);
    }
    ctx.threads = 1;
    assert_int_equal(qkv_classify_apply(model, TEXTS, texts, lengths, &again[0][0], NULL), QKV_OK);
    assert_memory_equal(again, together, sizeof again);
    assert_int_equal(qkv_classify_apply(model, 0, NULL, NULL, NULL, NULL), QKV_OK);
    qkv_model_free(model);
    assert_int_equal(memory.blocks, 0);
}

static real *weights_on(const qkv_classify_options *o, int threads, const char *isa, const char *train, int64_t *size,
                        char **record) {
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = toy_ctx(&memory, threads);
    assert_int_equal(qkv_kernels_pick(&ctx, isa), QKV_OK);
    seen s = {0};
    qkv_model *model;
    assert_int_equal(fit(&ctx, o, train, NULL, &s, &model), QKV_OK);
    *size = qkv_classifier_reg(model->net)->size * (int64_t)sizeof(real);
    real *copy = malloc((size_t)*size);
    memcpy(copy, model->weights, (size_t)*size);
    *record = json_dumps(model->record, JSON_SORT_KEYS);
    assert_non_null(*record);
    qkv_model_free(model);
    assert_int_equal(memory.blocks, 0);
    return copy;
}

static real *weights_of(const qkv_classify_options *o, int threads, const char *train, int64_t *size, char **record) {
    return weights_on(o, threads, NULL, train, size, record);
}

static void same_bits_on_every_instruction_set(void **state) {
    (void)state;
    char train[512];
    toy_file("toy_isa.tsv", 60, 1, train);
    qkv_classify_options o = toy_options();
    o.epochs = 2;
    const qkv_kernels *tables[4];
    int n = qkv_kernels_present(tables);
    int64_t size, other_size;
    char *record, *other_record;
    real *weights = weights_on(&o, 1, "scalar", train, &size, &record);
    for (int i = 0; i < n; i++) {
        real *other = weights_on(&o, 2, tables[i]->name, train, &other_size, &other_record);
        assert_int_equal(size, other_size);
        assert_memory_equal(weights, other, (size_t)size);
        assert_string_equal(record, other_record);
        free(other);
        free(other_record);
    }
    free(weights);
    free(record);
}

static void same_bits_for_threads_and_recompute(void **state) {
    (void)state;
    char train[512];
    toy_file("toy_bits.tsv", 120, 1, train);
    qkv_classify_options o = toy_options();
    o.epochs = 2;
    o.layers = 2;
    int64_t size, other_size;
    char *record, *other_record;
    real *weights = weights_of(&o, 1, train, &size, &record);
    for (int k = 0; k < 3; k++) {
        o.recompute = k == 2;
        real *other = weights_of(&o, k == 0 ? 2 : k == 1 ? 3 : 2, train, &other_size, &other_record);
        assert_int_equal(size, other_size);
        assert_memory_equal(weights, other, (size_t)size);
        assert_string_equal(record, other_record);
        free(other);
        free(other_record);
    }
    o.recompute = 0;
    o.seed = 4;
    real *other = weights_of(&o, 1, train, &other_size, &other_record);
    assert_memory_not_equal(weights, other, (size_t)size);
    free(other);
    free(other_record);
    free(weights);
    free(record);
}

/* Gradients of one batch and of the same rows in several: the first update differs by rounding only. Without dropout. */
static void accumulation(void **state) {
    (void)state;
    char train[512];
    toy_file("toy_accumulate.tsv", 80, 1, train);
    qkv_classify_options o = toy_options();
    o.dropout = o.attention_dropout = o.embedding_dropout = o.token_dropout = 0;
    o.steps = 1;
    o.warmup = 0;
    o.epsilon = 1e-3; /* with a tiny epsilon the first step of Adam is the sign of the gradient, whatever its size */
    o.lr = o.embedding_lr = 1e-2;
    o.batch_tokens = 100000;
    o.batch_rows = 0;
    int64_t size, other_size;
    char *record, *other_record;
    real *whole = weights_of(&o, 2, train, &size, &record);
    o.batch_rows = 7;
    o.accumulate = 100;
    real *parts = weights_of(&o, 2, train, &other_size, &other_record);
    double worst = 0;
    for (int64_t i = 0; i < size / (int64_t)sizeof(real); i++) worst = fmax(worst, fabs((double)whole[i] - (double)parts[i]));
    assert_true(worst < 1e-5);
    free(whole);
    free(parts);
    free(record);
    free(other_record);
}

static void unseen_labels_are_errors(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = toy_ctx(&memory, 2);
    char train[512], dev[512];
    toy_file("toy_unseen.tsv", 200, 1, train);
    toy_text("toy_unseen_dev.tsv", "yes\tbright day\nno\tgloomy day\nmaybe\tbright gloomy\nmaybe\twe\nnever\tgloomy\n", dev);
    qkv_classify_options o = toy_options();
    seen s = {0};
    qkv_model *model;
    assert_int_equal(fit(&ctx, &o, train, dev, &s, &model), QKV_OK);
    assert_int_equal(s.data.held_out, 0);
    assert_int_equal(s.data.train_rows, 200);
    assert_int_equal(s.data.dev_rows, 5);
    assert_int_equal(s.data.unseen_dev_rows, 3);
    assert_non_null(strstr(s.log, "'maybe'"));
    assert_true(fabs(s.end.accuracy - 0.4) < 1e-12);
    qkv_classify_report *r;
    assert_int_equal(qkv_classify_score(model, dev, NULL, NULL, NULL, &r), QKV_OK);
    assert_int_equal(r->rows, 5);
    assert_int_equal(r->unseen, 2);
    assert_string_equal(r->unseen_labels[0].label, "maybe");
    assert_int_equal(r->unseen_labels[0].rows, 2);
    assert_string_equal(r->unseen_labels[1].label, "never");
    assert_true(fabs(r->accuracy - 0.4) < 1e-12);
    /* two hits among five predictions: f1 of the known labels a and b, and 0 for each of the two unseen ones */
    double f1 = r->scores[0].f1 + r->scores[1].f1;
    assert_true(fabs(r->macro_f1 - f1 / 4) < 1e-12);
    assert_true(fabs(s.end.macro_f1 - r->macro_f1) < 1e-12);
    assert_int_equal(r->scores[0].predicted + r->scores[1].predicted, 5);
    qkv_classify_score_free(&ctx, r);
    qkv_model_free(model);
    assert_int_equal(memory.blocks, 0);
}

static void one_class_is_certain(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = toy_ctx(&memory, 2);
    char train[512];
    toy_text("toy_one.tsv", "all\tone\nall\ttwo\nall\tthree\n", train);
    qkv_classify_options o = toy_options();
    seen s = {0};
    qkv_model *model;
    assert_int_equal(fit(&ctx, &o, train, NULL, &s, &model), QKV_OK);
    assert_int_equal(s.steps, 0);
    assert_non_null(strstr(s.log, "'all'"));
    float p = 0;
    predict(model, "anything", &p);
    assert_true(p == 1);
    predict(model, "", &p);
    assert_true(p == 1);
    qkv_model_free(model);
    assert_int_equal(memory.blocks, 0);
}

/* The smallest sets: one row, two rows, rows without text. */
static void tiny_sets(void **state) {
    (void)state;
    static const char *const sets[] = {"a\tone\n", "a\tone\nb\ttwo\n", "a\t\nb\t\na\t\nb\t\nb\t\n",
                                       "a\tx\nb\t\n\xff\xfe\tlabel of bad bytes\n", "a b\tt\tt\r\nc\t\t\n"};
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        test_memory memory = {0};
        TEST_CTX qkv_ctx ctx = toy_ctx(&memory, 2);
        char train[512];
        toy_text("toy_tiny.tsv", sets[i], train);
        qkv_classify_options o = toy_options();
        for (int tokenizer = QKV_TOKENIZER_BPE; tokenizer <= QKV_TOKENIZER_BYTE; tokenizer++) {
            for (int pooling = QKV_POOL_MEAN; pooling <= QKV_POOL_LAST; pooling++) {
                o.tokenizer = tokenizer;
                o.pooling = pooling;
                o.epochs = 1;
                seen s = {0};
                qkv_model *model;
                qkv_status status = fit(&ctx, &o, train, NULL, &s, &model);
                if (status != QKV_OK) print_error("set %zu: %s\n", i, ctx.message);
                assert_int_equal(status, QKV_OK);
                float p[4];
                predict(model, "", p);
                assert_true(isfinite(p[0]));
                qkv_model_free(model);
            }
        }
        assert_int_equal(memory.blocks, 0);
    }
}

static void empty_rows_are_counted(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = toy_ctx(&memory, 2);
    char train[512];
    toy_text("toy_empty.tsv", "a\t\nb\tone two three four five six seven eight nine ten\na\tone\nb\t\na\ttwo\n", train);
    qkv_classify_options o = toy_options();
    o.max_length = 4;
    o.tokenizer = QKV_TOKENIZER_BYTE;
    seen s = {0};
    qkv_model *model;
    assert_int_equal(fit(&ctx, &o, train, train, &s, &model), QKV_OK);
    assert_int_equal(s.data.empty_rows, 2);
    assert_int_equal(s.data.shortest, 0);
    assert_int_equal(s.data.longest, 48);
    assert_int_equal(s.data.median, 3);
    assert_int_equal(s.data.cut_rows, 1);
    assert_int_equal(s.data.cut_tokens, 44);
    assert_int_equal(s.data.train_tokens, 4 + 3 + 3);
    qkv_classify_report *r;
    assert_int_equal(qkv_classify_score(model, train, NULL, NULL, NULL, &r), QKV_OK);
    assert_int_equal(r->cut_rows, 1);
    assert_int_equal(r->by_length[0].rows, 4);
    assert_int_equal(r->by_length[2].rows, 1);
    assert_int_equal(r->by_length[2].from, 33);
    assert_int_equal(r->by_length[5].to, -1);
    qkv_classify_score_free(&ctx, r);
    qkv_model_free(model);
    assert_int_equal(memory.blocks, 0);
}

static void a_huge_rate_is_a_status(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = toy_ctx(&memory, 2);
    char train[512];
    toy_file("toy_rate.tsv", 200, 1, train);
    qkv_classify_options o = toy_options();
    o.lr = o.embedding_lr = 1e6; /* and the decay of 0.01 times that blows the weights up */
    o.warmup = 0;
    o.clip = 0;
    o.schedule = 2;
    o.epochs = 20;
    seen s = {0};
    qkv_model *model;
    assert_int_equal(fit(&ctx, &o, train, NULL, &s, &model), QKV_NUMERIC);
    assert_non_null(strstr(ctx.message, "learning rate"));
    if (model) {
        int64_t n = qkv_classifier_reg(model->net)->size;
        for (int64_t i = 0; i < n; i++) assert_true(isfinite((double)model->weights[i]));
    }
    qkv_model_free(model);
    assert_int_equal(memory.blocks, 0);
}

static void stops_with_a_model(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = toy_ctx(&memory, 2);
    char train[512];
    toy_file("toy_stop.tsv", 200, 1, train);
    qkv_classify_options o = toy_options();
    seen s = {.stop_after = 3};
    qkv_model *model;
    assert_int_equal(fit(&ctx, &o, train, NULL, &s, &model), QKV_STOPPED);
    assert_int_equal(s.steps, 3);
    assert_int_equal(s.evaluations, 2);
    assert_int_equal(s.end.stopped, 1);
    assert_non_null(model);
    assert_string_equal(json_string_value(json_object_get(model->record, "end")), "stopped");
    float p[2];
    predict(model, "bright", p);
    assert_true(isfinite(p[0]));
    qkv_model_free(model);
    assert_int_equal(memory.blocks, 0);
}

/* A stop while rows are read, the tokenizer is trained, rows are encoded or steps are planned: at once, without a model. */
static void a_stop_before_the_first_step_leaves_no_model(void **state) {
    (void)state;
    char train[512];
    toy_file("toy_early.tsv", 6000, 1, train);
    for (int tokenizer = QKV_TOKENIZER_BPE; tokenizer <= QKV_TOKENIZER_BYTE; tokenizer++) {
        int tokenizing = 0, encoding = 0, reading = 0, planning = 0, counting = 0;
        for (int poll = 1;; poll++) {
            test_memory memory = {0};
            TEST_CTX qkv_ctx ctx = toy_ctx(&memory, 2);
            qkv_classify_options o = toy_options();
            o.tokenizer = tokenizer;
            o.steps = 2;
            seen s = {.stop_at_poll = poll};
            qkv_model *model = (qkv_model *)&o;
            assert_int_equal(fit(&ctx, &o, train, NULL, &s, &model), QKV_STOPPED);
            tokenizing += strstr(ctx.message, "tokenizer") != NULL;
            reading += strstr(ctx.message, "at line") != NULL;
            encoding += strstr(ctx.message, "before row") != NULL;
            planning += strstr(ctx.message, "planned") != NULL || strstr(ctx.message, "before the first step") != NULL;
            int steps = s.steps;
            assert_int_equal(model != NULL, steps > 0);
            counting += strstr(ctx.message, "stopped on request") != NULL;
            qkv_model_free(model);
            assert_int_equal(memory.blocks, 0);
            if (steps > 0) break;
        }
        assert_int_equal(tokenizing > 2, tokenizer != QKV_TOKENIZER_BYTE);
        assert_true(reading == 2 && encoding >= 6 && planning == 2 && counting > 4);
    }
}

/* Two rows of two classes: both are trained on, and nothing is left to evaluate. */
static void without_dev_rows_the_last_weights_are_kept(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = toy_ctx(&memory, 2);
    char train[512];
    toy_text("toy_two.tsv", "no\tgloomy\nyes\tbright\n", train);
    qkv_classify_options o = toy_options();
    for (o.metric = 0; o.metric < 3; o.metric++) {
        seen s = {0};
        qkv_model *model;
        assert_int_equal(fit(&ctx, &o, train, NULL, &s, &model), QKV_OK);
        assert_true(s.data.train_rows == 2 && s.data.dev_rows == 0 && s.data.classes == 2 && s.data.held_out == 1);
        assert_non_null(strstr(s.log, "no row could be held out"));
        assert_int_equal(s.evaluations, 0);
        assert_int_equal(s.end.best_step, s.steps);
        assert_true(isnan(s.end.accuracy) && isnan(s.end.macro_f1) && isnan(s.end.loss));
        assert_int_equal(json_object_size(json_object_get(model->record, "metrics")), 0);
        qkv_model_free(model);
    }
    assert_int_equal(memory.blocks, 0);
}

/* Dev rows of labels that training never saw: no loss, no choice, and the last weights. */
static void a_dev_set_without_a_known_label(void **state) {
    (void)state;
    char train[512], dev[512];
    toy_file("toy_blind.tsv", 40, 1, train);
    toy_text("toy_blind_dev.tsv", "maybe\tbright\nnever\tgloomy\n", dev);
    for (int metric = 0; metric < 3; metric++) {
        test_memory memory = {0};
        TEST_CTX qkv_ctx ctx = toy_ctx(&memory, 2);
        qkv_classify_options o = toy_options();
        o.metric = metric;
        seen s = {0};
        qkv_model *model;
        assert_int_equal(fit(&ctx, &o, train, dev, &s, &model), QKV_OK);
        assert_int_equal(s.end.best_step, s.steps);
        assert_true(s.end.accuracy == 0 && s.end.macro_f1 == 0 && isnan(s.end.loss));
        assert_true(json_is_null(json_object_get(json_object_get(model->record, "metrics"), "loss")));
        qkv_classify_report *r;
        assert_int_equal(qkv_classify_score(model, dev, NULL, NULL, NULL, &r), QKV_OK);
        assert_true(r->rows == 2 && r->accuracy == 0 && isnan(r->loss));
        qkv_classify_score_free(&ctx, r);
        qkv_model_free(model);
        assert_int_equal(memory.blocks, 0);
    }
}

static void *modest_allocate(void *user, size_t bytes) {
    assert_true(bytes < (size_t)64 << 20);
    return test_allocate(user, bytes);
}

/* A position table of terabytes: planned, told, refused; nothing big was asked of the allocator. */
static void what_does_not_fit_is_refused_with_its_plan(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = toy_ctx(&memory, 2);
    ctx.allocate = modest_allocate;
    char train[512];
    toy_file("toy_large.tsv", 60, 1, train);
    qkv_classify_options o = toy_options();
    o.max_length = 1 << 24;
    o.dim = 65536;
    o.heads = 1024;
    seen s = {0};
    qkv_model *model = (qkv_model *)&o;
    assert_int_equal(fit(&ctx, &o, train, NULL, &s, &model), QKV_NO_MEMORY);
    assert_null(model);
    assert_true(s.plan.bytes > INT64_C(20000000000000) && s.steps == 0);
    assert_non_null(strstr(ctx.message, sizeof(real) == 8 ? "training needs 4" : "training needs 2"));
    assert_non_null(strstr(ctx.message, " TB of memory"));
    assert_non_null(strstr(ctx.message, " are free"));
    assert_int_equal(memory.blocks, 0);
}

static void bad_input_is_refused(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = toy_ctx(&memory, 1);
    char train[512], bad[512];
    toy_file("toy_bad.tsv", 40, 1, train);
    qkv_classify_options o = toy_options();
    seen s = {0};
    qkv_model *model = (qkv_model *)&o;
    o.heads = 3;
    assert_int_equal(fit(&ctx, &o, "no such file", NULL, &s, &model), QKV_BAD_CONFIG); /* before any file is opened */
    assert_null(model);
    assert_non_null(strstr(ctx.message, "heads=3 does not divide dim=16"));
    o = toy_options();
    o.vocab = 100;
    assert_int_equal(fit(&ctx, &o, train, NULL, &s, &model), QKV_BAD_CONFIG);
    assert_non_null(strstr(ctx.message, "vocab=100"));
    o = toy_options();
    o.lr = NAN;
    assert_int_equal(fit(&ctx, &o, train, NULL, &s, &model), QKV_BAD_CONFIG);
    o = toy_options();
    o.pooling = 5;
    assert_int_equal(fit(&ctx, &o, train, NULL, &s, &model), QKV_BAD_CONFIG);
    o = toy_options();
    o.window.left = -2;
    assert_int_equal(fit(&ctx, &o, train, NULL, &s, &model), QKV_BAD_CONFIG);
    o = toy_options();
    assert_int_equal(fit(&ctx, &o, "no such file", NULL, &s, &model), QKV_IO);
    toy_text("toy_bad_row.tsv", "a\tb\nno tab here\n", bad);
    assert_int_equal(fit(&ctx, &o, train, bad, &s, &model), QKV_BAD_DATA);
    assert_non_null(strstr(ctx.message, ":2:"));
    toy_text("toy_bad_row.tsv", "", bad);
    assert_int_equal(fit(&ctx, &o, bad, NULL, &s, &model), QKV_BAD_DATA);
    assert_null(model);
    assert_int_equal(memory.blocks, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(learns_a_separable_set),
        cmocka_unit_test(answers_do_not_depend_on_the_company),
        cmocka_unit_test(same_bits_for_threads_and_recompute),
        cmocka_unit_test(same_bits_on_every_instruction_set),
        cmocka_unit_test(accumulation),
        cmocka_unit_test(unseen_labels_are_errors),
        cmocka_unit_test(one_class_is_certain),
        cmocka_unit_test(tiny_sets),
        cmocka_unit_test(empty_rows_are_counted),
        cmocka_unit_test(a_huge_rate_is_a_status),
        cmocka_unit_test(stops_with_a_model),
        cmocka_unit_test(a_stop_before_the_first_step_leaves_no_model),
        cmocka_unit_test(without_dev_rows_the_last_weights_are_kept),
        cmocka_unit_test(a_dev_set_without_a_known_label),
        cmocka_unit_test(what_does_not_fit_is_refused_with_its_plan),
        cmocka_unit_test(bad_input_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
