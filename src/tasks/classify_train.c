#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/cpu.h"
#include "data/folds.h"
#include "tasks/classify.h"
#include "tasks/classify_bag.h"
#include "tasks/classify_data.h"
#include "tasks/classify_memory.h"
#include "tasks/pretrain.h"
#include "tasks/scorer.h"
#include "train/checkpoint.h"
#include "train/loop.h"
#include "train/metrics.h"
#include "train/multi.h"

/* Everything a training run owns. Zeroed, it may be freed at any point. */
typedef struct job {
    qkv_ctx *ctx;
    const qkv_classify_options *o;
    const qkv_train_callbacks *callbacks;

    /* data */
    const qkv_classify_source *source;
    qkv_table train_table, dev_table; /* given back once they are encoded */
    bool held_out;
    uint64_t train_hash, dev_hash;
    int64_t file_rows, empty_rows, repaired_rows, unlabelled_rows;
    char train_name[256], dev_name[256], train_format[192], dev_format[192];
    qkv_labels labels;
    int64_t unseen_labels, unseen_rows; /* of the dev set */
    real *class_weight;                 /* [labels], NULL: all weigh the same */
    qkv_tokenizer *tokenizer;
    qkv_encoded train, dev;
    qkv_pretrain_texts texts;
    qkv_beside beside;

    /* model */
    qkv_classifier *plain;     /* until the model owns it */
    qkv_model *model;          /* once its weights are allocated */
    const qkv_classifier *net; /* the same all along */

    /* the task */
    qkv_gather gather;
    qkv_scorer scorer;
    qkv_counts counts;
    qkv_tuner tuner; /* instead of counts, where rows have any number of labels */
    qkv_tuned tuned; /* what the thresholds of the model came to */
    real *packed;
    qkv_loop_result result;
    qkv_pretrained pretrained; /* weights until the model has them */

    /* checkpoints */
    const qkv_train_checkpoint *checkpoint; /* NULL: none */
    json_t *identity;
    json_t *notes;
    qkv_checkpoint *from; /* what is resumed, until it is */
} job;

static void free_tables(job *j) {
    qkv_table_free(&j->train_table);
    qkv_table_free(&j->dev_table);
}

static void free_job(job *j) {
    free_tables(j);
    qkv_labels_free(j->ctx, &j->labels);
    qkv_tokenizer_free(j->tokenizer);
    qkv_beside_free(j->ctx, &j->beside);
    qkv_encoded_free(j->ctx, &j->train);
    qkv_encoded_free(j->ctx, &j->dev);
    qkv_pretrain_texts_free(j->ctx, &j->texts);
    qkv_free(j->ctx, j->pretrained.weights);
    json_decref(j->pretrained.record);
    json_decref(j->notes);
    qkv_scorer_free(&j->scorer);
    qkv_gather_free(j->ctx, &j->gather);
    qkv_counts_free(j->ctx, &j->counts);
    qkv_tuner_free(j->ctx, &j->tuner);
    qkv_free(j->ctx, j->class_weight);
    qkv_free(j->ctx, j->packed);
    qkv_checkpoint_close(j->from);
    json_decref(j->identity);
    qkv_classifier_free(j->plain);
    qkv_model_free(j->model);
}

/* ---- checkpoints ---- */

static bool set_new(json_t *object, const char *key, json_t *value) { return object && json_object_set_new(object, key, value) == 0; }

/* All that the bits of a run depend on. */
static qkv_status make_identity(job *j, json_t *recorded) {
    char version[32], train[17], dev[17];
    snprintf(version, sizeof version, "%d.%d.%d", QKV_VERSION_MAJOR, QKV_VERSION_MINOR, QKV_VERSION_PATCH);
    snprintf(train, sizeof train, "%016" PRIx64, j->train_hash);
    snprintf(dev, sizeof dev, "%016" PRIx64, j->dev_hash);
    j->identity = json_pack("{s:s, s:O?, s:{s:I, s:s}, s:{s:b, s:I, s:s}}", "qkv", version, "options", recorded, "training data", "rows",
                            (json_int_t)j->train_table.count, "hash", train, "dev data", "held out", j->held_out, "rows",
                            (json_int_t)j->dev_table.count, "hash", dev);
    bool whole = j->identity != NULL;
    /* f32 has the same bits on all of them */
    if (j->o->dtype == QKV_COMPUTE_BF16) whole = whole && set_new(j->identity, "kernels of bf16", json_string(qkv_bf16_name(j->ctx)));
    if (j->texts.table.count > 0) {
        char texts[17];
        snprintf(texts, sizeof texts, "%016" PRIx64, j->texts.table.hash);
        whole = whole && set_new(j->identity, "pretraining texts",
                                 json_pack("{s:I, s:s}", "rows", (json_int_t)j->texts.table.count, "hash", texts));
    }
    return whole ? QKV_OK : qkv_fail(j->ctx, QKV_NO_MEMORY, "out of memory for the identity of the run");
}

static qkv_status open_checkpoint(job *j, json_t *recorded) {
    if (!j->checkpoint) return QKV_OK;
    QKV_TRY(make_identity(j, recorded));
    return j->checkpoint->resume ? qkv_checkpoint_open(j->ctx, j->checkpoint->path, j->identity, &j->from) : QKV_OK;
}

static qkv_status restore(void *self, qkv_train_state *state) {
    job *j = self;
    QKV_TRY(qkv_checkpoint_restore(j->from, state));
    qkv_checkpoint_close(j->from);
    j->from = NULL;
    return QKV_OK;
}

static qkv_status write_checkpoint(void *self, const qkv_train_state *state) {
    const job *j = self;
    return qkv_checkpoint_save(j->ctx, j->checkpoint->path, j->identity, j->notes, state);
}

/* ---- data ---- */

static qkv_status read_table(job *j, const char *path, const qkv_table *there, qkv_table *table) {
    if (there) return qkv_table_view(there, NULL, 0, true, table);
    return qkv_table_read(j->ctx, path, &j->o->data, j->o->multi_label ? QKV_WANT_LABELS : QKV_WANT_LABEL, j->o->pair != 0, table);
}

static qkv_status read_tables(job *j) {
    const qkv_classify_source *from = j->source;
    QKV_TRY(read_table(j, from->train, from->train_rows, &j->train_table));
    memcpy(j->train_name, j->train_table.name, sizeof j->train_name);
    memcpy(j->train_format, j->train_table.format, sizeof j->train_format);
    j->train_hash = j->train_table.hash;
    j->file_rows = j->train_table.count;
    j->empty_rows = j->train_table.empty_rows;
    j->repaired_rows = j->train_table.repaired_rows;
    j->unlabelled_rows = j->train_table.unlabelled_rows;
    j->held_out = !from->dev && !from->dev_rows;
    if (j->held_out) return qkv_table_hold_out(&j->train_table, &j->dev_table);
    QKV_TRY(read_table(j, from->dev, from->dev_rows, &j->dev_table));
    memcpy(j->dev_name, j->dev_table.name, sizeof j->dev_name);
    memcpy(j->dev_format, j->dev_table.format, sizeof j->dev_format);
    j->dev_hash = j->dev_table.hash;
    return QKV_OK;
}

static qkv_status train_tokenizer(job *j) {
    const qkv_table *tables[] = {&j->train_table, &j->texts.table};
    const int64_t count = tables[0]->count + tables[1]->count;
    const char **texts = NULL;
    int64_t *lengths = NULL, n = 0;
    qkv_tokenizer_options options = {(qkv_tokenizer_kind)j->o->tokenizer, j->o->vocab, j->o->lowercase, j->o->normalize};
    qkv_status status = qkv_alloc(j->ctx, count, sizeof *texts, &texts);
    if (status == QKV_OK) status = qkv_alloc(j->ctx, count, sizeof *lengths, &lengths);
    for (int k = 0; status == QKV_OK && k < 2; k++)
        for (int64_t i = 0; i < tables[k]->count; i++, n++) {
            texts[n] = tables[k]->rows[i].text;
            lengths[n] = tables[k]->rows[i].text_size;
        }
    if (status == QKV_OK) status = qkv_tokenizer_train(j->ctx, &options, count, texts, lengths, &j->tokenizer);
    qkv_free(j->ctx, texts);
    qkv_free(j->ctx, lengths);
    return status;
}

static qkv_status encode(job *j, const qkv_table *table, qkv_encoded *out) {
    qkv_config config = qkv_classify_config(j->o, 0, 0);
    return qkv_encode_table(j->ctx, &config, j->tokenizer, table, 0, table->count, j->labels.text, j->labels.size, j->labels.count,
                            out);
}

static void count_unseen_rows(job *j) {
    const qkv_encoded *d = &j->dev;
    for (int64_t i = 0; i < d->rows.count; i++) j->unseen_rows += d->unseen ? d->unseen[i] > 0 : d->rows.target[i] < 0;
}

/* Names the dev labels that training never saw: they can only be wrong. */
static qkv_status note_unseen(job *j) {
    if (j->dev.rows.count == 0)
        qkv_log(j->ctx, "no row could be held out: every label needs its rows for training, so the last weights are kept "
                        "unevaluated");
    qkv_labels unseen;
    QKV_TRY(qkv_labels_collect(j->ctx, &j->dev_table, j->labels.text, j->labels.size, j->labels.count, &unseen));
    count_unseen_rows(j);
    j->unseen_labels = unseen.count;
    for (int64_t i = 0; i < unseen.count && i < 10; i++)
        qkv_log(j->ctx, "label '%.64s' of %" PRId64 " dev rows is not in the training rows: they count as errors", unseen.text[i],
                unseen.rows[i]);
    if (unseen.count > 10) qkv_log(j->ctx, "and %" PRId64 " more labels that are not in the training rows", unseen.count - 10);
    qkv_labels_free(j->ctx, &unseen);
    return QKV_OK;
}

/* Inverse to how often a label occurs; 1 on average over the rows (with several labels: over their mentions). */
static qkv_status weigh_classes(job *j) {
    const qkv_labels *l = &j->labels;
    int64_t all = 0;
    if (!j->o->balance) return QKV_OK;
    QKV_TRY(qkv_alloc(j->ctx, l->count, sizeof *j->class_weight, &j->class_weight));
    for (int64_t i = 0; i < l->count; i++) all += l->rows[i];
    for (int64_t i = 0; i < l->count; i++)
        j->class_weight[i] = (real)((double)all / ((double)l->count * (double)l->rows[i]));
    return QKV_OK;
}

static const qkv_encoded *pretraining_texts(const job *j) {
    return j->texts.encoded.rows.count > 0 ? &j->texts.encoded : &j->train;
}

static qkv_status report_data(job *j) {
    qkv_train_event event = {.kind = QKV_TRAIN_DATA};
    qkv_train_data *d = &event.u.data;
    *d = (qkv_train_data){
        .train_rows = j->train.rows.count,
        .dev_rows = j->dev.rows.count,
        .classes = j->labels.count,
        .class_rows = j->labels.rows,
        .labels = (const char *const *)j->labels.text,
        .held_out = j->held_out,
        .train_tokens = j->train.rows.offset[j->train.rows.count],
        .dev_tokens = j->dev.rows.offset[j->dev.rows.count],
        .vocab = qkv_tokenizer_vocab(j->tokenizer),
        .cut_rows = j->train.cut_rows,
        .cut_tokens = j->train.cut_tokens,
        .empty_rows = j->empty_rows,
        .repaired_rows = j->repaired_rows,
        .unseen_dev_rows = j->unseen_rows,
        .multi_label = j->o->multi_label != 0,
        .unlabelled_rows = j->unlabelled_rows,
        .format = j->train_format,
        .dev_format = j->dev_format,
        .dev_cut_rows = j->dev.cut_rows,
        .resumed_step = j->from ? qkv_checkpoint_step(j->from) : 0,
        .resumed_phase = j->from ? qkv_pretrain_phase(j->from) : QKV_PHASE_TRAIN,
        .pretrain_format = j->texts.table.format,
    };
    if (j->o->pretrain > 0) {
        const qkv_encoded *texts = pretraining_texts(j);
        d->pretrain_rows = texts->rows.count;
        d->pretrain_tokens = texts->rows.offset[texts->rows.count];
        d->pretrain_cut_rows = texts->cut_rows;
    }
    QKV_TRY(qkv_spread(j->ctx, j->train.full, j->train.rows.count, &d->shortest, &d->median, &d->longest));
    if (j->labels.count == 1 && !j->o->multi_label)
        qkv_log(j->ctx, "all %" PRId64 " training rows have the label '%.64s': every text will get it with probability 1",
                d->train_rows, j->labels.text[0]);
    if (j->callbacks && j->callbacks->event) j->callbacks->event(j->callbacks->user, &event);
    return QKV_OK;
}

static qkv_status learn_bag(job *j) {
    const qkv_bag_data seen = {&j->train_table, &j->train}, held = {&j->dev_table, &j->dev};
    double begun = qkv_now();
    QKV_TRY(qkv_beside_make(j->ctx, j->o, j->labels.count, j->class_weight, &seen, &held, j->held_out, &j->beside));
    if (!qkv_beside_is(&j->beside)) return QKV_OK;
    qkv_train_event event = {.kind = QKV_TRAIN_LINEAR};
    event.u.linear = (qkv_train_linear){.ngrams = j->beside.bag.ngrams, .runs = j->beside.bag.features, .seconds = qkv_now() - begun};
    if (j->callbacks && j->callbacks->event) j->callbacks->event(j->callbacks->user, &event);
    return QKV_OK;
}

static qkv_status prepare_data(job *j, json_t *recorded) {
    QKV_TRY(read_tables(j));
    QKV_TRY(qkv_pretrain_read(j->ctx, j->o, &j->texts));
    QKV_TRY(open_checkpoint(j, recorded));
    QKV_TRY(qkv_labels_collect(j->ctx, &j->train_table, NULL, NULL, 0, &j->labels));
    QKV_TRY(weigh_classes(j));
    QKV_TRY(train_tokenizer(j));
    QKV_TRY(encode(j, &j->train_table, &j->train));
    QKV_TRY(encode(j, &j->dev_table, &j->dev));
    const qkv_config config = qkv_classify_config(j->o, 0, 0);
    QKV_TRY(qkv_pretrain_encode(j->ctx, &config, j->tokenizer, &j->texts));
    QKV_TRY(note_unseen(j));
    QKV_TRY(report_data(j));
    QKV_TRY(learn_bag(j));
    free_tables(j);
    qkv_give_back(j->ctx);
    return QKV_OK;
}

/* ---- model ---- */

static qkv_status make_net(job *j) {
    qkv_config config = qkv_classify_config(j->o, qkv_tokenizer_vocab(j->tokenizer), j->labels.count);
    QKV_TRY(qkv_classifier_create(j->ctx, &config, false, &j->plain));
    j->net = j->plain;
    return QKV_OK;
}

static qkv_status make_model(job *j) {
    QKV_TRY(qkv_model_adopt(j->ctx, "classify", j->plain, &j->model));
    j->plain = NULL;
    j->model->tokenizer = j->tokenizer;
    j->tokenizer = NULL;
    for (int64_t i = 0; i < j->labels.count; i++) QKV_TRY(qkv_model_set_label(j->model, i, j->labels.text[i], j->labels.size[i]));
    qkv_reg_init(qkv_classifier_reg(j->net), j->o->seed, j->model->weights);
    if (j->pretrained.weights) memcpy(j->model->weights, j->pretrained.weights, (size_t)j->pretrained.size * sizeof(real));
    qkv_free(j->ctx, j->pretrained.weights);
    j->pretrained.weights = NULL;
    return QKV_OK;
}

static bool bf16_of(const job *j) { return j->o->dtype == QKV_COMPUTE_BF16; }

/* ---- the task ---- */

static qkv_status step(void *self, qkv_exec *x, const int64_t *rows, int64_t count, double loss_scale, double *loss_sum) {
    job *j = self;
    qkv_batch batch;
    qkv_gather_rows(&j->gather, &j->train.rows, rows, count, x->plan, &batch);
    if (!x->plan) qkv_gather_drop(&j->gather, &batch, j->o->token_dropout, QKV_TOKEN_UNK, x->seed, x->step);
    const qkv_aims aims = {
        .target = x->plan ? NULL : j->gather.target,
        .label_at = j->gather.label_at,
        .labels = j->gather.labels,
        .weight = j->class_weight,
        .smoothing = j->o->label_smoothing,
    };
    return qkv_classifier_learn(x, j->net, &batch, &aims, loss_scale, loss_sum, NULL);
}

static void count_row(void *user, int64_t row, const real *probabilities, int64_t classes, double loss) {
    job *j = user;
    const qkv_ragged *r = &j->dev.rows;
    if (!r->label_at) {
        qkv_counts_add(&j->counts, r->target[row], qkv_argmax(probabilities, classes), loss);
        return;
    }
    int64_t from = r->label_at[row], count = r->label_at[row + 1] - from;
    qkv_tuner_add(&j->tuner, probabilities, r->labels + from, count, j->dev.unseen[row], loss);
}

static void clear_counts(job *j) {
    if (j->o->multi_label)
        qkv_tuner_clear(&j->tuner);
    else
        qkv_counts_clear(&j->counts);
}

static qkv_task_score score_of(const job *j) {
    qkv_task_score score = {.blind = j->unseen_rows == j->dev.rows.count};
    if (j->o->multi_label) {
        qkv_tuned tuned;
        qkv_tune(&j->tuner, j->o->metric == 1, NULL, &tuned);
        score.loss = j->tuner.loss_sum / (double)j->tuner.rows;
        score.accuracy = tuned.micro_f1;
        score.macro_f1 = tuned.macro_f1;
        score.blind = j->dev.rows.label_at[j->dev.rows.count] == 0;
    } else {
        qkv_scores s;
        qkv_counts_scores(&j->counts, &s);
        score.loss = s.loss, score.accuracy = s.accuracy, score.macro_f1 = s.macro_f1;
    }
    score.metric = j->o->metric == 0 ? score.accuracy : j->o->metric == 1 ? score.macro_f1 : -score.loss;
    return score;
}

static qkv_status evaluate(void *self, qkv_exec *x, qkv_task_score *score) {
    job *j = self;
    qkv_exec e = *x;
    if (!x->plan) qkv_reg_pack(j->ctx, x->reg, bf16_of(j), x->weights, j->packed);
    e.packed = j->packed;
    clear_counts(j);
    qkv_status status = qkv_beside_is(&j->beside) ? qkv_scorer_run(&j->scorer, &e, qkv_beside_keep, &j->beside)
                                                  : qkv_scorer_run(&j->scorer, &e, count_row, j);
    x->arena = e.arena;
    x->tally = e.tally;
    if (status != QKV_OK || x->plan) return status;
    if (qkv_beside_is(&j->beside)) qkv_beside_run(&j->beside, x->step == 0, count_row, j);
    *score = score_of(j);
    return QKV_OK;
}

/* Of the weights that were kept: what they weigh beside the bag, and the thresholds. */
static qkv_status settle(job *j) {
    const bool beside = qkv_beside_is(&j->beside), dev = j->dev.rows.count > 0;
    if (dev && (beside || j->o->multi_label)) {
        clear_counts(j);
        qkv_reg_pack(j->ctx, qkv_classifier_reg(j->net), bf16_of(j), j->model->weights, j->packed);
        qkv_scored *scored = beside ? qkv_beside_keep : count_row;
        QKV_TRY(qkv_scorer_alone(&j->scorer, j->model->weights, j->packed, scored, beside ? (void *)&j->beside : j));
        if (beside) qkv_beside_run(&j->beside, j->result.best_step == 0, count_row, j);
        if (j->o->multi_label) qkv_tune(&j->tuner, j->o->metric == 1, j->model->thresholds, &j->tuned);
    }
    if (beside) qkv_beside_settle(&j->beside, j->net, j->model->weights, &j->model->bag);
    return QKV_OK;
}

/* What is there besides the plan of the loop. */
static int64_t held_bytes(const job *j) {
    return QKV_MEMORY_OF_PROGRAM + j->source->held + qkv_beside_bytes(&j->beside) + qkv_encoded_bytes(&j->train) + qkv_encoded_bytes(&j->dev) +
           qkv_encoded_bytes(&j->texts.encoded);
}

static qkv_status prepare_task(job *j, int64_t *bytes) {
    const qkv_reg *reg = qkv_classifier_reg(j->net);
    const int64_t pretrained = j->o->pretrain > 0 ? qkv_classifier_encoder_size(j->net) : 0; /* also where a resumed run has none left */
    *bytes = held_bytes(j) + (reg->size + pretrained) * (int64_t)sizeof(real);
    if (j->dev.rows.count == 0) return QKV_OK;
    *bytes += qkv_reg_packed_size(reg, bf16_of(j)) * (int64_t)sizeof(real);
    if (j->o->multi_label)
        QKV_TRY(qkv_tuner_create(j->ctx, j->labels.count, &j->tuner));
    else
        QKV_TRY(qkv_counts_create(j->ctx, j->labels.count, &j->counts));
    j->counts.unseen_labels = j->tuner.unseen_labels = j->unseen_labels;
    return QKV_OK;
}

static void free_buffers(job *j) {
    qkv_gather_free(j->ctx, &j->gather);
    qkv_scorer_free(&j->scorer);
}

static qkv_status choose(void *self, qkv_way way, int64_t *bytes) {
    job *j = self;
    const int64_t tokens = way.piece_tokens > 0 ? way.piece_tokens : j->o->batch_tokens;
    free_buffers(j);
    qkv_classifier_set_recompute(j->plain, way.recompute);
    QKV_TRY(qkv_gather_create(j->ctx, &j->train.rows, tokens, j->o->batch_rows > 0 ? j->o->batch_rows : tokens, &j->gather));
    *bytes += qkv_gather_bytes(&j->gather);
    if (j->dev.rows.count == 0) return QKV_OK;
    QKV_TRY(qkv_scorer_create(j->ctx, j->net, &j->dev.rows, way.piece_tokens, &j->scorer));
    if (qkv_beside_is(&j->beside)) j->scorer.what = QKV_SCORE_LOGITS;
    *bytes += qkv_gather_bytes(&j->scorer.gather) + qkv_batches_bytes(j->dev.rows.count);
    return QKV_OK;
}

static qkv_status need(void *self, const qkv_classify_options *o, const qkv_ragged *train, const qkv_ragged *dev, qkv_way way,
                       int64_t *bytes);

static qkv_memory_ask memory_ask(job *j) {
    return (qkv_memory_ask){.options = j->o, .train = &j->train.rows, .dev = &j->dev.rows, .held = held_bytes(j), .need = need, .self = j};
}

/* The loop calls it between the plan and its own big blocks. */
static qkv_status allocate(void *self, const qkv_train_plan *plan, real **weights) {
    job *j = self;
    const qkv_memory_ask ask = memory_ask(j);
    QKV_TRY(qkv_classify_refuse(j->ctx, &ask, plan));
    QKV_TRY(make_model(j));
    *weights = j->model->weights;
    if (j->dev.rows.count == 0) return QKV_OK;
    return qkv_alloc(j->ctx, qkv_reg_packed_size(qkv_classifier_reg(j->net), bf16_of(j)), sizeof(real), &j->packed);
}

static qkv_loop_options loop_options(const job *j) {
    const qkv_classify_options *o = j->o;
    bool pointless = j->labels.count == 1 && !o->multi_label; /* the softmax of one class is 1 whatever the weights are */
    return (qkv_loop_options){
        .epochs = pointless ? 0 : o->epochs,
        .steps = pointless ? 0 : o->steps,
        .batch_tokens = o->batch_tokens,
        .batch_rows = o->batch_rows,
        .accumulate = o->accumulate,
        .schedule = (qkv_schedule_kind)o->schedule,
        .warmup = o->warmup,
        .lr = o->lr,
        .embedding_lr = o->embedding_lr > 0 ? o->embedding_lr : QKV_CLASSIFY_EMBEDDING_RATE * o->lr,
        .weight_decay = o->weight_decay,
        .beta1 = o->beta1,
        .beta2 = o->beta2,
        .lazy_embedding = o->lazy_embedding != 0,
        .epsilon = o->epsilon,
        .clip = o->clip,
        .evaluate = o->evaluate,
        .patience = o->patience,
        .average = (qkv_average_kind)o->average,
        .ema_decay = o->ema_decay,
        .average_last = o->average_last,
        .checkpoint = j->checkpoint ? 60 * j->checkpoint->minutes : 0,
        .seed = o->seed,
        .room = qkv_classify_room(o, held_bytes(j)),
    };
}

static qkv_task task_of(job *j) {
    return (qkv_task){
        .self = j,
        .reg = qkv_classifier_reg(j->net),
        .rows = j->train.rows.count,
        .offset = j->train.rows.offset,
        .step = step,
        .evaluate = j->dev.rows.count > 0 ? evaluate : NULL,
        .start_counts = qkv_beside_is(&j->beside), /* what the bag can do alone */
        .choose = choose,
        .allocate = allocate,
        .restore = j->from ? restore : NULL,
        .checkpoint = j->checkpoint ? write_checkpoint : NULL,
    };
}

static qkv_status run_task(job *j) {
    int64_t bytes;
    QKV_TRY(prepare_task(j, &bytes));
    const qkv_task task = task_of(j);
    const qkv_loop_options options = loop_options(j);
    return qkv_loop_run(j->ctx, &task, &options, j->callbacks, bytes, NULL, &j->result);
}

static qkv_status need_of(job *j, qkv_way way, int64_t *bytes) {
    int64_t base;
    QKV_TRY(make_net(j));
    QKV_TRY(prepare_task(j, &base));
    const qkv_task task = task_of(j);
    const qkv_loop_options options = loop_options(j);
    return qkv_loop_need(j->ctx, &task, &options, base, way, bytes);
}

/* The job with other options and lengths, as far as its plan. */
static qkv_status need(void *self, const qkv_classify_options *o, const qkv_ragged *train, const qkv_ragged *dev, qkv_way way,
                       int64_t *bytes) {
    job other = *(const job *)self;
    other.o = o;
    other.train.rows = *train;
    other.dev.rows = *dev;
    other.plain = NULL;
    other.gather = (qkv_gather){0};
    other.scorer = (qkv_scorer){0};
    other.counts = (qkv_counts){0};
    other.tuner = (qkv_tuner){0};
    qkv_status status = need_of(&other, way, bytes);
    free_buffers(&other);
    qkv_counts_free(other.ctx, &other.counts);
    qkv_tuner_free(other.ctx, &other.tuner);
    qkv_classifier_free(other.plain);
    return status;
}

/* ---- pretraining ---- */

/* A run that was interrupted after it has what it needs in the checkpoint. */
static qkv_status pretrain(job *j) {
    if (!(j->o->pretrain > 0)) return QKV_OK;
    const qkv_memory_ask ask = memory_ask(j);
    qkv_pretraining p = {
        .options = j->o,
        .config = qkv_classifier_config(j->net),
        .texts = &pretraining_texts(j)->rows,
        .dev = &j->dev.rows,
        .callbacks = j->callbacks,
        .checkpoint = j->checkpoint,
        .identity = j->identity,
        .from = &j->from,
        .memory = &ask,
    };
    if (j->from && qkv_pretrain_phase(j->from) == QKV_PHASE_TRAIN) j->pretrained.record = qkv_pretrain_record(j->from);
    else {
        QKV_TRY(need(j, j->o, &j->train.rows, p.dev, qkv_budget_least(qkv_classify_room(j->o, ask.held)), &p.bytes));
        QKV_TRY(qkv_pretrain(j->ctx, &p, &j->pretrained));
    }
    return qkv_pretrain_notes(j->ctx, j->pretrained.record, &j->notes);
}

/* ---- record ---- */

/* The file's own name: where it lay says nothing about the model. */
static json_t *file_name(const char *path) {
    const char *slash = strrchr(path, '/');
    json_t *name = json_string(slash ? slash + 1 : path);
    return name ? name : json_string("(not UTF-8)");
}

static json_t *data_record(const char *name, int64_t rows, uint64_t hash) {
    char hex[17];
    for (int i = 0; i < 16; i++) hex[i] = "0123456789abcdef"[hash >> (60 - 4 * i) & 15];
    hex[16] = 0;
    return json_pack("{s:o, s:I, s:s}", "file", file_name(name), "rows", (json_int_t)rows, "hash", hex);
}

static json_t *dev_record(const job *j) {
    if (j->held_out) return json_pack("{s:b, s:I}", "held_out", 1, "rows", (json_int_t)j->dev.rows.count);
    return data_record(j->dev_name, j->dev.rows.count, j->dev_hash);
}

/* JSON has no NaN. */
static json_t *number(double x) {
    return isfinite(x) ? json_real(x) : json_null();
}

static json_t *metrics_record(const job *j) {
    const qkv_task_score *s = &j->result.best;
    if (j->result.best_step < 0) return json_object();
    json_t *record = json_pack("{s:o, s:o, s:o}", "loss", number(s->loss), j->o->multi_label ? "micro_f1" : "accuracy",
                               number(s->accuracy), "macro_f1", number(s->macro_f1));
    if (record && j->o->multi_label) json_object_set_new(record, "thresholds", json_string(j->tuned.each ? "each" : "one"));
    return record;
}

static json_t *pretraining_record(const job *j) {
    const qkv_table *t = &j->texts.table;
    json_t *record = json_copy(j->pretrained.record);
    if (t->name[0]) set_new(record, "texts", data_record(t->name, j->texts.encoded.rows.count, t->hash));
    return record;
}

/* Nothing in it depends on time, place or threads, so that the same run gives the same file. */
static qkv_status make_record(job *j, json_t *recorded, qkv_status ended) {
    char version[32];
    snprintf(version, sizeof version, "%d.%d.%d", QKV_VERSION_MAJOR, QKV_VERSION_MINOR, QKV_VERSION_PATCH);
    const char *finished = j->result.out_of_patience ? "out of patience" : "finished";
    const char *end = ended == QKV_STOPPED ? "stopped" : ended == QKV_NUMERIC ? "diverged" : finished;
    json_t *record = json_pack(
        "{s:s, s:o, s:o, s:I, s:I, s:I, s:O?, s:s, s:I, s:I, s:I, s:b, s:o}", "version", version, "train",
        data_record(j->train_name, j->file_rows, j->train_hash), "dev", dev_record(j), "train_rows",
        (json_int_t)j->train.rows.count, "train_tokens", (json_int_t)j->train.rows.offset[j->train.rows.count], "cut_tokens",
        (json_int_t)j->train.cut_tokens, "options", recorded, "end", end, "steps", (json_int_t)j->result.steps, "skipped_steps",
        (json_int_t)j->result.skipped, "best_step", (json_int_t)j->result.best_step, "averaged",
        j->result.averaged, "metrics", metrics_record(j));
    if (!record || (j->pretrained.record && !set_new(record, "pretraining", pretraining_record(j)))) {
        json_decref(record);
        return qkv_fail(j->ctx, QKV_NO_MEMORY, "out of memory for the training record");
    }
    json_decref(j->model->record);
    j->model->record = record;
    return QKV_OK;
}

static qkv_status fit(job *j, json_t *recorded) {
    QKV_TRY(qkv_classify_check(j->ctx, j->o));
    QKV_TRY(prepare_data(j, recorded));
    QKV_TRY(make_net(j));
    if (bf16_of(j)) qkv_bf16_note(j->ctx);
    QKV_TRY(pretrain(j));
    qkv_status status = run_task(j);
    if (j->result.usable && (status == QKV_OK || status == QKV_STOPPED || status == QKV_NUMERIC)) {
        QKV_TRY(settle(j));
        QKV_TRY(make_record(j, recorded, status));
    } else {
        qkv_model_free(j->model);
        j->model = NULL;
    }
    return status;
}

qkv_status qkv_classify_fit_rows(qkv_ctx *ctx, const qkv_classify_options *options, json_t *recorded, const qkv_classify_source *source,
                                 const qkv_train_checkpoint *checkpoint, const qkv_train_callbacks *callbacks, qkv_model **model) {
    *model = NULL;
    job j = {.ctx = ctx, .o = options, .source = source, .callbacks = callbacks, .checkpoint = checkpoint, .result.best_step = -1};
    j.train_table.ctx = j.dev_table.ctx = ctx;
    const int64_t wall = qkv_classify_wall(ctx, options);
    if (options->memory > 0) ctx->most_used -= source->held; /* they are used already, and of the run all the same */
    qkv_status status = fit(&j, recorded);
    ctx->most_used = wall;
    if (status == QKV_OK || status == QKV_STOPPED || status == QKV_NUMERIC) {
        *model = j.model;
        j.model = NULL;
    }
    free_job(&j);
    return status;
}

qkv_status qkv_classify_fit(qkv_ctx *ctx, const qkv_classify_options *options, json_t *recorded, const char *train, const char *dev,
                            const qkv_train_checkpoint *checkpoint, const qkv_train_callbacks *callbacks, qkv_model **model) {
    const qkv_classify_source source = {.train = train, .dev = dev};
    return qkv_classify_fit_rows(ctx, options, recorded, &source, checkpoint, callbacks, model);
}
