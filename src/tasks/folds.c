#include "tasks/folds.h"

#include <math.h>

#include "base/cpu.h"
#include "data/folds.h"
#include "tasks/classify_exam.h"

typedef struct job {
    qkv_ctx *ctx;
    const qkv_classify_options *o;
    const qkv_folds_callbacks *callbacks;
    qkv_table table, dev;
    bool has_dev;
    int32_t *fold; /* [table.count] */
    qkv_folds *result;

    qkv_fold_score score; /* of the fold at hand */
} job;

static qkv_status read_rows(job *j, const char *train, const char *dev) {
    const qkv_rows_want want = j->o->multi_label ? QKV_WANT_LABELS : QKV_WANT_LABEL;
    QKV_TRY(qkv_table_read(j->ctx, train, &j->o->data, want, j->o->pair != 0, &j->table));
    QKV_TRY(qkv_alloc(j->ctx, j->table.count, sizeof *j->fold, &j->fold));
    QKV_TRY(qkv_table_deal(&j->table, j->result->folds, j->o->seed, j->fold));
    j->has_dev = dev != NULL;
    return dev ? qkv_table_read(j->ctx, dev, &j->o->data, want, j->o->pair != 0, &j->dev) : QKV_OK;
}

static void on_event(void *user, const qkv_train_event *event) {
    job *j = user;
    const qkv_train_callbacks *theirs = j->callbacks ? j->callbacks->training : NULL;
    if (event->kind == QKV_TRAIN_DATA) {
        j->score.train_rows = event->u.data.train_rows;
        j->score.dev_rows = event->u.data.dev_rows;
    }
    if (theirs && theirs->event) theirs->event(theirs->user, event);
}

static qkv_status train(job *j, int32_t fold, qkv_model **model) {
    qkv_table others;
    QKV_TRY(qkv_table_view(&j->table, j->fold, fold, false, &others));
    const qkv_classify_source source = {
        .train_rows = &others,
        .dev_rows = j->has_dev ? &j->dev : NULL,
        .held = qkv_table_bytes(&j->table) + qkv_table_bytes(&others) + qkv_table_bytes(&j->dev) +
                j->table.count * (int64_t)sizeof *j->fold,
    };
    const qkv_train_callbacks callbacks = {on_event, j};
    qkv_status status = qkv_classify_fit_rows(j->ctx, j->o, NULL, &source, NULL, &callbacks, model);
    qkv_table_free(&others);
    return status;
}

static qkv_status score(job *j, int32_t fold, const qkv_model *model) {
    qkv_table rows;
    qkv_classify_report *r = NULL;
    QKV_TRY(qkv_table_view(&j->table, j->fold, fold, true, &rows));
    QKV_TRY(qkv_classify_score_table(model, &rows, &r));
    j->score.rows = r->rows;
    j->score.accuracy = j->o->multi_label ? r->micro_f1 : r->accuracy;
    j->score.macro_f1 = r->macro_f1;
    j->score.loss = r->loss;
    for (int64_t i = 0; i < r->unseen; i++) j->score.unseen_rows += r->unseen_labels[i].rows;
    qkv_classify_score_free(j->ctx, r);
    return QKV_OK;
}

static qkv_status one_fold(job *j, int32_t fold) {
    const double begun = qkv_now();
    qkv_model *model = NULL;
    j->score = (qkv_fold_score){0};
    qkv_status status = train(j, fold, &model);
    if (status == QKV_OK) status = score(j, fold, model);
    qkv_model_free(model);
    if (status != QKV_OK) return status;
    j->score.seconds = qkv_now() - begun;
    j->result->fold[j->result->done++] = j->score;
    qkv_folds_settle(j->result);
    if (j->callbacks && j->callbacks->scored) j->callbacks->scored(j->callbacks->user, fold, &j->score);
    return QKV_OK;
}

static qkv_status all_folds(job *j, const char *train_path, const char *dev) {
    QKV_TRY(qkv_classify_check(j->ctx, j->o));
    QKV_TRY(read_rows(j, train_path, dev));
    for (int32_t fold = 0; fold < j->result->folds; fold++) QKV_TRY(one_fold(j, fold));
    return QKV_OK;
}

qkv_status qkv_folds_run(qkv_ctx *ctx, const qkv_classify_options *options, const char *train_path, const char *dev, int64_t folds,
                         const qkv_folds_callbacks *callbacks, qkv_folds *result) {
    *result = (qkv_folds){.folds = folds};
    qkv_folds_settle(result);
    job j = {.ctx = ctx, .o = options, .callbacks = callbacks, .result = result};
    j.table.ctx = j.dev.ctx = ctx;
    qkv_status status = all_folds(&j, train_path, dev);
    qkv_free(ctx, j.fold);
    qkv_table_free(&j.table);
    qkv_table_free(&j.dev);
    return status;
}

/* ---- over all of them ---- */

static void settle(const qkv_folds *f, size_t at, double *mean, double *deviation) {
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < f->done; i++) sum += *(const double *)(const void *)((const char *)&f->fold[i] + at);
    *mean = f->done > 0 ? sum / (double)f->done : NAN;
    for (int64_t i = 0; i < f->done; i++) {
        const double off = *(const double *)(const void *)((const char *)&f->fold[i] + at) - *mean;
        squares += off * off;
    }
    *deviation = f->done > 1 ? sqrt(squares / (double)(f->done - 1)) : NAN;
}

void qkv_folds_settle(qkv_folds *f) {
    f->mean = f->deviation = (qkv_fold_score){0};
    settle(f, offsetof(qkv_fold_score, accuracy), &f->mean.accuracy, &f->deviation.accuracy);
    settle(f, offsetof(qkv_fold_score, macro_f1), &f->mean.macro_f1, &f->deviation.macro_f1);
    settle(f, offsetof(qkv_fold_score, loss), &f->mean.loss, &f->deviation.loss);
    settle(f, offsetof(qkv_fold_score, seconds), &f->mean.seconds, &f->deviation.seconds);
}
