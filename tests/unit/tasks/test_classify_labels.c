/* Classifiers of several labels a text, of pairs of texts, with weighted classes and normalised text; what training, testing and
 * prediction say about rows that are not as one would think. */
#include "unit/tasks/toy.h"

#include <math.h>

typedef struct heard {
    qkv_train_data data;
    char format[192], log[2048];
    qkv_train_end end;
    double plan_flops, epoch_flops;
    int epoch_steps;
} heard;

static void on_event(void *user, const qkv_train_event *e) {
    heard *h = user;
    if (e->kind == QKV_TRAIN_DATA) {
        h->data = e->u.data;
        snprintf(h->format, sizeof h->format, "%s", e->u.data.format);
    }
    if (e->kind == QKV_TRAIN_PLAN) h->plan_flops = e->u.plan.flops_per_step;
    if (e->kind == QKV_TRAIN_STEP && e->u.step.epoch <= 1) h->epoch_flops += e->u.step.flops, h->epoch_steps++;
    if (e->kind == QKV_TRAIN_END) h->end = e->u.end;
}

static void on_log(void *user, const char *line) {
    heard *h = user;
    size_t n = strlen(h->log);
    snprintf(h->log + n, sizeof h->log - n, "%s\n", line);
}

static qkv_status fit(qkv_ctx *ctx, const qkv_classify_options *o, const char *train, const char *dev, heard *h,
                      qkv_model **model) {
    memset(h, 0, sizeof *h);
    ctx->log = on_log, ctx->log_user = h;
    qkv_train_callbacks callbacks = {on_event, h};
    return qkv_classify_fit(ctx, o, NULL, train, dev, NULL, &callbacks, model);
}

/* Each of three labels has a word of its own; a text has any of them. `ask`: what the file is to be written as. */
static const char *const words[3] = {"bright", "gloomy", "noisy"}, *const names[3] = {"light", "dark", "loud"};

static const char *labelled_file(const char *name, const char *ask, int rows, uint64_t seed, char path[512]) {
    FILE *f = fopen(test_path(name, path), "wb");
    assert_non_null(f);
    if (!strcmp(ask, "csv")) fprintf(f, "label;text\n");
    for (int i = 0; i < rows; i++) {
        uint64_t key = qkv_key2(seed, (uint64_t)i);
        char labels[3][64] = {"", "", ""}, text[128] = "the day";
        int n = 0;
        for (int k = 0; k < 3; k++) {
            if (qkv_below(qkv_key2(key, (uint64_t)k), 3) != 0) continue;
            snprintf(labels[n++], 64, "%s", names[k]);
            strcat(strcat(text, " "), words[k]);
        }
        strcat(text, qkv_below(qkv_key2(key, 7), 2) ? " went on" : " did");
        if (!strcmp(ask, "csv")) {
            for (int k = 0; k < n; k++) fprintf(f, "%s%s", k ? "," : "", labels[k]);
            fprintf(f, ";%s\n", text);
        } else if (!strcmp(ask, "jsonl")) {
            fprintf(f, "{\"text\":\"%s\",\"label\":[", text);
            for (int k = 0; k < n; k++) fprintf(f, "%s\"%s\"", k ? "," : "", labels[k]);
            fprintf(f, "]}\n");
        } else {
            for (int k = 0; k < n; k++) fprintf(f, "__label__%s ", labels[k]);
            fprintf(f, "%s\n", text);
        }
    }
    assert_int_equal(fclose(f), 0);
    return path;
}

static void several_labels_are_learned(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = toy_ctx(&memory, 2);
    char train[512], dev[512], test[512], file[512];
    labelled_file("labels.jsonl", "jsonl", 400, 1, train);
    labelled_file("labels_dev.txt", "fasttext", 100, 2, dev);
    labelled_file("labels_test.txt", "csv", 100, 3, test);
    qkv_classify_options o = toy_options();
    o.multi_label = 1;
    heard h;
    qkv_model *model, *loaded;
    assert_int_equal(fit(&ctx, &o, train, dev, &h, &model), QKV_OK);
    assert_string_equal(h.format, "JSON lines, guessed from line 1");
    assert_int_equal(h.data.multi_label, 1);
    assert_int_equal(h.data.classes, 3);
    assert_true(h.data.unlabelled_rows > 50 && h.data.unlabelled_rows < 200);
    assert_true(h.end.accuracy == 1 && h.end.macro_f1 == 1);
    assert_true(h.epoch_flops > 0 && fabs(h.epoch_flops / h.epoch_steps / h.plan_flops - 1) < 1e-12);
    assert_int_equal(qkv_model_save(model, test_path("labels.model", file)), QKV_OK);
    assert_int_equal(qkv_model_load(&ctx, file, &loaded), QKV_OK);
    assert_true(loaded->config.multi_label && !loaded->config.pair);
    for (int64_t i = 0; i < 3; i++) assert_true(loaded->thresholds[i] == model->thresholds[i] && model->thresholds[i] > 0.1);

    qkv_classify_report *r;
    assert_int_equal(qkv_classify_score(loaded, test, NULL, NULL, NULL, &r), QKV_OK);
    assert_string_equal(r->format, "CSV, separator semicolon, guessed from line 1");
    assert_int_equal(r->rows, 100);
    assert_true(r->multi_label && r->accuracy == 1 && r->micro_f1 == 1 && r->macro_f1 == 1 && r->micro_recall == 1);
    assert_true(r->ranks == 2 && r->by_rank[1].recall == 1 && r->by_rank[0].precision < 1);
    assert_true(r->unlabelled_rows > 10);
    qkv_classify_score_free(&ctx, r);

    const char *texts[] = {"the day bright went on", "the day gloomy noisy did", "the day did"};
    int64_t lengths[] = {22, 24, 11}, dropped[3];
    float p[3][3];
    assert_int_equal(qkv_classify_apply(loaded, 3, texts, lengths, &p[0][0], dropped), QKV_OK);
    const bool given[3][3] = {{false, true, false}, {true, false, true}, {false, false, false}}; /* dark, light, loud */
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++) assert_int_equal((double)p[i][k] >= loaded->thresholds[k], given[i][k]);
    qkv_model_free(loaded);
    qkv_model_free(model);
    remove(file);
    assert_int_equal(memory.blocks, 0);
}

/* The same rows as other files, for one thread or two: the same weights. Without steps the thresholds stay usable. */
static void the_format_does_not_matter(void **state) {
    (void)state;
    test_memory memory = {0};
    qkv_classify_options o = toy_options();
    o.multi_label = 1;
    o.epochs = 1;
    heard h;
    qkv_model *first = NULL;
    static const char *const formats[] = {"fasttext", "jsonl", "csv"};
    qkv_ctx ctx[3];
    qkv_model *models[3];
    char path[512];
    for (int i = 0; i < 3; i++) {
        ctx[i] = toy_ctx(&memory, 1 + i % 2);
        labelled_file("format.txt", formats[i], 120, 5, path);
        assert_int_equal(fit(&ctx[i], &o, path, NULL, &h, &models[i]), QKV_OK);
        assert_int_equal(h.data.held_out, 1);
        assert_true(h.data.dev_rows > 2);
        if (!first) first = models[i];
        int64_t size = qkv_classifier_reg(first->net)->size;
        assert_memory_equal(models[i]->weights, first->weights, (size_t)size * sizeof(real));
        for (int k = 0; k < 3; k++) assert_true(models[i]->thresholds[k] == first->thresholds[k]);
    }
    for (int i = 0; i < 3; i++) {
        qkv_model_free(models[i]);
        qkv_par_close(&ctx[i]);
    }
    assert_int_equal(memory.blocks, 0);
}

static void labels_that_training_never_saw(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = toy_ctx(&memory, 1);
    char train[512], dev[512];
    labelled_file("seen.txt", "fasttext", 60, 1, train);
    toy_text("unseen.txt", "__label__light __label__odd bright\n__label__odd the day\n__label__strange x\n__label__dark gloomy\n",
             dev);
    qkv_classify_options o = toy_options();
    o.multi_label = 1;
    o.epochs = 1;
    heard h;
    qkv_model *model;
    assert_int_equal(fit(&ctx, &o, train, dev, &h, &model), QKV_OK);
    assert_int_equal(h.data.unseen_dev_rows, 3);
    assert_non_null(strstr(h.log, "label 'odd' of 2 dev rows is not in the training rows"));
    assert_non_null(strstr(h.log, "label 'strange' of 1 dev rows"));
    qkv_classify_report *r;
    assert_int_equal(qkv_classify_score(model, dev, NULL, NULL, NULL, &r), QKV_OK);
    assert_int_equal(r->unseen, 2);
    assert_string_equal(r->unseen_labels[0].label, "odd");
    assert_int_equal(r->unseen_labels[0].rows, 2);
    assert_true(r->accuracy <= 0.25 && r->micro_recall <= 0.4 && r->by_rank[1].recall == 0.4); /* 2 of 5 gold labels can be found */
    qkv_classify_score_free(&ctx, r);
    qkv_model_free(model);
    /* No dev row has a label that is known: the last weights are kept. */
    toy_text("unseen.txt", "__label__odd bright\n", dev);
    assert_int_equal(fit(&ctx, &o, train, dev, &h, &model), QKV_OK);
    qkv_model_free(model);
    assert_int_equal(memory.blocks, 0);
}

/* One class may still be given or not. */
static void one_label_alone(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = toy_ctx(&memory, 1);
    char path[512];
    FILE *f = fopen(test_path("single.tsv", path), "wb");
    for (int i = 0; i < 80; i++) fprintf(f, i % 2 ? "odd\tstrange day %d\n" : "\tusual day %d\n", i % 7);
    fclose(f);
    qkv_classify_options o = toy_options();
    o.multi_label = 1;
    heard h;
    qkv_model *model;
    assert_int_equal(fit(&ctx, &o, path, NULL, &h, &model), QKV_OK);
    assert_int_equal(h.data.classes, 1);
    assert_string_equal(h.log, "");
    const char *texts[] = {"a strange day", "a usual day"};
    int64_t lengths[] = {13, 11};
    float p[2];
    assert_int_equal(qkv_classify_apply(model, 2, texts, lengths, p, NULL), QKV_OK);
    assert_true((double)p[0] >= model->thresholds[0] && (double)p[1] < model->thresholds[0]);
    qkv_model_free(model);
    toy_text("single.tsv", "\tx\n\ty\n", path);
    assert_int_equal(fit(&ctx, &o, path, NULL, &h, &model), QKV_BAD_DATA);
    assert_non_null(strstr(ctx.message, "single.tsv: none of the 2 rows has a label"));
    assert_int_equal(memory.blocks, 0);
}

/* ---- pairs ---- */

static void pairs_are_two_texts(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = toy_ctx(&memory, 2);
    char path[512];
    FILE *f = fopen(test_path("pairs.tsv", path), "wb");
    static const char *const all[] = {"red", "blue", "green"};
    for (int i = 0; i < 600; i++) { /* does the second text name what the first does? */
        uint64_t key = qkv_key2(9, (uint64_t)i);
        int a = (int)qkv_below(key, 3), same = i % 2, b = same ? a : (a + 1 + (int)qkv_below(qkv_key2(key, 1), 2)) % 3;
        fprintf(f, "%s\tthe %s one %d\ta %s thing\n", same ? "same" : "other", all[a], (int)qkv_below(qkv_key2(key, 2), 90),
                all[b]);
    }
    fclose(f);
    qkv_classify_options o = toy_options();
    o.pair = 1;
    o.epochs = 25;
    o.dropout = o.attention_dropout = o.embedding_dropout = o.token_dropout = 0;
    heard h;
    qkv_model *model;
    assert_int_equal(fit(&ctx, &o, path, NULL, &h, &model), QKV_OK);
    assert_true(model->config.pair);
    assert_true(h.end.accuracy > 0.95);
    qkv_token tokens[32];
    int64_t count, full;
    const char text[] = "the red one\ta blue thing";
    assert_int_equal(qkv_model_input(&ctx, &model->config, model->tokenizer, text, 24, tokens, 32, &count, &full), QKV_OK);
    int separators = 0;
    for (int64_t i = 0; i < count; i++) {
        if (tokens[i].id == QKV_TOKEN_SEP) assert_true(tokens[i].begin == 11 && tokens[i].end == 12), separators++;
        assert_true(i == 0 ? tokens[i].begin == 0 : tokens[i].begin == tokens[i - 1].end);
    }
    assert_int_equal(separators, 1);
    assert_int_equal(tokens[count - 1].end, 24);
    qkv_model_free(model);
    assert_int_equal(memory.blocks, 0);
}

/* Of a pair that is too long each text keeps something; the shorter one is cut only where it is longer than half. */
static void long_pairs_are_cut_fairly(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = toy_ctx(&memory, 1);
    qkv_tokenizer *t;
    qkv_tokenizer_options o = {QKV_TOKENIZER_BYTE, 260, 0, 0};
    assert_int_equal(qkv_tokenizer_train(&ctx, &o, 0, NULL, NULL, &t), QKV_OK);
    qkv_config c = {.max_length = 8, .pair = true, .pooling = QKV_POOL_FIRST}; /* CLS, SEP and 6 bytes */
    static const struct {
        const char *text;
        int64_t first, second;
    } cases[] = {
        {"abc\tdef", 3, 3},   {"abcdefgh\tx", 5, 1}, {"a\tbcdefghi", 1, 5}, {"abcdef\tghijkl", 3, 3}, {"abcdefgh\tijklm", 3, 3},
        {"\tabcdefgh", 0, 6}, {"abcdefgh\t", 6, 0},  {"abcdefgh", 6, 0},    {"ab\tc\td", 2, 3},       {"", 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        qkv_token tokens[8];
        int64_t count, full, size = (int64_t)strlen(cases[i].text), first = 0, second = 0, at = 1;
        assert_int_equal(qkv_model_input(&ctx, &c, t, cases[i].text, size, tokens, 8, &count, &full), QKV_OK);
        bool tab = strchr(cases[i].text, '\t') != NULL;
        assert_int_equal(full, size + 1 + !tab); /* CLS, and SEP for the tab or without one */
        assert_int_equal(tokens[0].id, QKV_TOKEN_CLS);
        for (; tokens[at].id != QKV_TOKEN_SEP; at++) first++;
        for (at++; at < count; at++) second++;
        assert_int_equal(first, cases[i].first);
        assert_int_equal(second, cases[i].second);
        /* with less room than the limit the count is the same, so that the caller can come again */
        int64_t again;
        assert_int_equal(qkv_model_input(&ctx, &c, t, cases[i].text, size, tokens, 2, &again, NULL), QKV_OK);
        assert_int_equal(again, count);
        assert_int_equal(qkv_model_input(&ctx, &c, t, cases[i].text, size, NULL, 0, &again, NULL), QKV_OK);
        assert_int_equal(again, count);
    }
    qkv_tokenizer_free(t);
    assert_int_equal(memory.blocks, 0);
}

/* ---- weights ---- */

static void rare_labels_weigh_more(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = toy_ctx(&memory, 1);
    char path[512], dev[512];
    FILE *f = fopen(test_path("rare.tsv", path), "wb");
    for (int i = 0; i < 200; i++) fprintf(f, "%s\tthe same text\n", i % 20 ? "common" : "rare");
    fclose(f);
    toy_text("rare_dev.tsv", "common\tthe same text\n", dev);
    qkv_classify_options o = toy_options();
    o.epochs = 10;
    o.label_smoothing = 0;
    float p[2][2];
    for (int balance = 0; balance < 2; balance++) {
        heard h;
        qkv_model *model;
        const char *text = "the same text";
        int64_t length = 13;
        o.balance = balance;
        assert_int_equal(fit(&ctx, &o, path, dev, &h, &model), QKV_OK);
        assert_true(fabs(h.epoch_flops / h.epoch_steps / h.plan_flops - 1) < 1e-12);
        assert_int_equal(qkv_classify_apply(model, 1, &text, &length, p[balance], NULL), QKV_OK);
        qkv_model_free(model);
    }
    assert_true(p[0][1] < 0.1);                    /* about as often as it occurs */
    assert_true(p[1][1] > 0.25 && p[1][1] < 0.75); /* about as if both were equally frequent */
    assert_int_equal(memory.blocks, 0);
}

/* ---- what is said ---- */

static void what_was_cut_is_told_by_everybody(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = toy_ctx(&memory, 1);
    char path[512];
    toy_text("cut.tsv", "a\t1 2 3 4 5 6 7 8 9\nb\t1 2\na\t1 2 3 4 5 6\nb\t\nb\tx\xFF\nb\tnul\n", path);
    qkv_classify_options o = toy_options();
    o.max_length = 4;
    o.epochs = 1;
    heard h;
    qkv_model *model;
    assert_int_equal(fit(&ctx, &o, path, path, &h, &model), QKV_OK);
    assert_int_equal(h.data.cut_rows, 2);
    assert_int_equal(h.data.dev_cut_rows, 2);
    assert_true(h.data.cut_tokens >= 5 + 2);
    assert_int_equal(h.data.repaired_rows, 1);
    assert_int_equal(h.data.empty_rows, 1);
    qkv_classify_report *r;
    assert_int_equal(qkv_classify_score(model, path, NULL, NULL, NULL, &r), QKV_OK);
    assert_int_equal(r->cut_rows, 2);
    assert_int_equal(r->cut_tokens, h.data.cut_tokens);
    assert_int_equal(r->repaired_rows, 1);
    assert_int_equal(r->empty_rows, 1);
    qkv_classify_score_free(&ctx, r);
    const char *texts[] = {"1 2 3 4 5 6 7 8 9", "1 2", ""};
    int64_t lengths[] = {17, 3, 0}, dropped[3];
    float p[3][2];
    assert_int_equal(qkv_classify_apply(model, 3, texts, lengths, &p[0][0], dropped), QKV_OK);
    int64_t count, full;
    assert_int_equal(qkv_model_input(&ctx, &model->config, model->tokenizer, texts[0], lengths[0], NULL, 0, &count, &full), QKV_OK);
    assert_true(count == 4 && dropped[0] == full - 4 && dropped[0] >= 5 && dropped[1] == 0 && dropped[2] == 0);
    qkv_model_free(model);
    assert_int_equal(memory.blocks, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(several_labels_are_learned),
        cmocka_unit_test(the_format_does_not_matter),
        cmocka_unit_test(labels_that_training_never_saw),
        cmocka_unit_test(one_label_alone),
        cmocka_unit_test(pairs_are_two_texts),
        cmocka_unit_test(long_pairs_are_cut_fairly),
        cmocka_unit_test(rare_labels_weigh_more),
        cmocka_unit_test(what_was_cut_is_told_by_everybody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
