/* The public side of text classification: arguments are checked, src/tasks does the work. */
#include "qkv/classify.h"

#include <string.h>

#include "data/options.h"
#include "tasks/autotune.h"
#include "tasks/classify.h"
#include "tasks/classify_exam.h"
#include "tasks/folds.h"
#include "text/tokenizer.h"

const qkv_option_table *qkv_classify_options_table(void) {
    return &qkv_classify_table;
}

const qkv_option_table *qkv_data_options_table(void) {
    return &qkv_data_table;
}

qkv_status qkv_classify_options_size(qkv_ctx *ctx, qkv_classify_options *options, const char *size) {
    if (!ctx) return QKV_BAD_ARGUMENT;
    if (!options || !size) return qkv_fail(ctx, QKV_BAD_ARGUMENT, "options and size must not be NULL");
    return qkv_classify_size(ctx, options, size);
}

qkv_status qkv_classify_options_model(qkv_ctx *ctx, qkv_classify_options *options, const char *model) {
    if (!ctx) return QKV_BAD_ARGUMENT;
    if (!options || !model) return qkv_fail(ctx, QKV_BAD_ARGUMENT, "options and model must not be NULL");
    return qkv_classify_model(ctx, options, model);
}

/* Every option as text, which reads back to the same value. */
static qkv_status options_record(qkv_ctx *ctx, const qkv_classify_options *options, json_t **record) {
    *record = json_object();
    bool whole = *record != NULL;
    for (size_t i = 0; whole && i < qkv_classify_table.count; i++) {
        const qkv_option *o = &qkv_classify_table.options[i];
        char text[QKV_OPTION_TEXT_SIZE];
        qkv_options_text(o, options, text, sizeof text);
        json_t *value = json_string(text);
        if (!value) value = json_string("(not UTF-8)");
        whole = json_object_set_new(*record, o->name, value) == 0;
    }
    if (whole) return QKV_OK;
    json_decref(*record);
    *record = NULL;
    return qkv_fail(ctx, QKV_NO_MEMORY, "out of memory for the training record");
}

static qkv_status check_sources(qkv_ctx *ctx, const qkv_classify_options *options, const char *train, const char *dev) {
    if (!options || !train) return qkv_fail(ctx, QKV_BAD_ARGUMENT, "options and train must not be NULL");
    if (dev && strcmp(train, "-") == 0 && strcmp(dev, "-") == 0)
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "training and dev rows cannot both come from standard input");
    return QKV_OK;
}

qkv_status qkv_classify_train(qkv_ctx *ctx, const qkv_classify_options *options, const char *train, const char *dev,
                              const qkv_train_checkpoint *checkpoint, const qkv_train_callbacks *callbacks, qkv_model **model) {
    if (!ctx) return QKV_BAD_ARGUMENT;
    if (!model) return qkv_fail(ctx, QKV_BAD_ARGUMENT, "model must not be NULL");
    *model = NULL;
    QKV_TRY(check_sources(ctx, options, train, dev));
    if (checkpoint && (!checkpoint->path || !(checkpoint->minutes >= 0)))
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "a checkpoint needs a path and a number of minutes that is not negative");
    json_t *record;
    QKV_TRY(options_record(ctx, options, &record));
    qkv_status status = qkv_classify_fit(ctx, options, record, train, dev, checkpoint, callbacks, model);
    json_decref(record);
    return status;
}

/* Each training reads these texts anew. */
static qkv_status check_again(qkv_ctx *ctx, const qkv_classify_options *options) {
    if (!options->pretrain_text || strcmp(options->pretrain_text, "-") != 0) return QKV_OK;
    return qkv_fail(ctx, QKV_BAD_ARGUMENT, "texts to pretrain on are read more than once and cannot come from standard input");
}

qkv_status qkv_classify_folds(qkv_ctx *ctx, const qkv_classify_options *options, const char *train, const char *dev, int64_t folds,
                              const qkv_folds_callbacks *callbacks, qkv_folds *result) {
    if (!ctx) return QKV_BAD_ARGUMENT;
    if (!result) return qkv_fail(ctx, QKV_BAD_ARGUMENT, "result must not be NULL");
    *result = (qkv_folds){0};
    QKV_TRY(check_sources(ctx, options, train, dev));
    QKV_TRY(check_again(ctx, options));
    if (folds < 2 || folds > QKV_FOLDS_MOST)
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "folds=%lld is not in 2 .. %d", (long long)folds, QKV_FOLDS_MOST);
    return qkv_folds_run(ctx, options, train, dev, folds, callbacks, result);
}

qkv_status qkv_classify_autotune(qkv_ctx *ctx, const qkv_classify_options *options, const qkv_autotune_options *how, const char *train,
                                 const char *dev, const qkv_autotune_callbacks *callbacks, qkv_classify_options *best, qkv_model **model) {
    if (!ctx) return QKV_BAD_ARGUMENT;
    if (!model) return qkv_fail(ctx, QKV_BAD_ARGUMENT, "model must not be NULL");
    *model = NULL;
    QKV_TRY(check_sources(ctx, options, train, dev));
    QKV_TRY(check_again(ctx, options));
    if (!how || !(how->minutes >= 0) || how->trials < 0 || how->fixed_count < 0 || (how->fixed_count > 0 && !how->fixed))
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "how must not be NULL, nor its numbers negative, nor its list missing");
    if (how->minutes == 0 && how->trials == 0)
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "a search needs a limit: minutes or trials");
    return qkv_autotune_run(ctx, options, how, options_record, train, dev, callbacks, best, model);
}

static qkv_status check_model(const qkv_model *model) {
    if (strcmp(model->task, "classify") == 0) return QKV_OK;
    return qkv_fail(model->ctx, QKV_BAD_ARGUMENT, "the model's task is %s, not classify", model->task);
}

static qkv_status check_texts(const qkv_model *model, int64_t count, const char *const *texts, const int64_t *lengths, const char *name,
                              const float *out) {
    QKV_TRY(check_model(model));
    if (count < 0) return qkv_fail(model->ctx, QKV_BAD_ARGUMENT, "count=%lld is negative", (long long)count);
    if (count > 0 && (!texts || !lengths || !out))
        return qkv_fail(model->ctx, QKV_BAD_ARGUMENT, "texts, lengths and %s must not be NULL", name);
    for (int64_t i = 0; i < count; i++) QKV_TRY(qkv_text_check(model->ctx, "text", i, texts[i], lengths[i]));
    return QKV_OK;
}

qkv_status qkv_classify_predict(const qkv_model *model, int64_t count, const char *const *texts, const int64_t *lengths,
                                float *probabilities, int64_t *dropped) {
    if (!model) return QKV_BAD_ARGUMENT;
    QKV_TRY(check_texts(model, count, texts, lengths, "probabilities", probabilities));
    return qkv_classify_apply(model, count, texts, lengths, probabilities, dropped);
}

qkv_status qkv_classify_embed(const qkv_model *model, int64_t count, const char *const *texts, const int64_t *lengths, float *vectors,
                              int64_t *dropped) {
    if (!model) return QKV_BAD_ARGUMENT;
    QKV_TRY(check_texts(model, count, texts, lengths, "vectors", vectors));
    return qkv_classify_vectors(model, count, texts, lengths, vectors, dropped);
}

qkv_status qkv_classify_test(const qkv_model *model, const char *path, const qkv_data_options *data,
                             void (*progress)(void *user, int64_t rows), void *user, qkv_classify_report **report) {
    if (!model) return QKV_BAD_ARGUMENT;
    if (!report) return qkv_fail(model->ctx, QKV_BAD_ARGUMENT, "report must not be NULL");
    *report = NULL;
    QKV_TRY(check_model(model));
    if (!path) return qkv_fail(model->ctx, QKV_BAD_ARGUMENT, "path must not be NULL");
    return qkv_classify_score(model, path, data, progress, user, report);
}

qkv_status qkv_classify_intervals(qkv_classify_report *report, int64_t resamples, uint64_t seed) {
    if (!report) return QKV_BAD_ARGUMENT;
    return qkv_classify_resample(report, resamples, seed);
}

static qkv_status check_file(const qkv_classify_report *report, const char *path) {
    if (!report) return QKV_BAD_ARGUMENT;
    if (!path) return qkv_fail(qkv_tested_of(report)->ctx, QKV_BAD_ARGUMENT, "path must not be NULL");
    return QKV_OK;
}

qkv_status qkv_classify_write_errors(const qkv_classify_report *report, const char *path, int64_t limit) {
    QKV_TRY(check_file(report, path));
    if (limit < 0)
        return qkv_fail(qkv_tested_of(report)->ctx, QKV_BAD_ARGUMENT, "limit=%lld is negative", (long long)limit);
    return qkv_classify_errors(report, path, limit);
}

qkv_status qkv_classify_write_confusion(const qkv_classify_report *report, const char *path) {
    QKV_TRY(check_file(report, path));
    return qkv_classify_confusion(report, path);
}

qkv_status qkv_classify_compare(const qkv_classify_report *a, const qkv_classify_report *b, int64_t resamples, uint64_t seed,
                                qkv_comparison *comparison) {
    if (!a) return QKV_BAD_ARGUMENT;
    if (!b || !comparison) return qkv_fail(qkv_tested_of(a)->ctx, QKV_BAD_ARGUMENT, "b and comparison must not be NULL");
    return qkv_classify_pair(a, b, resamples, seed, comparison);
}

void qkv_classify_report_free(qkv_ctx *ctx, qkv_classify_report *report) {
    qkv_classify_score_free(ctx, report);
}
