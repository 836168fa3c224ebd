#include "tasks/pretrain.h"

#include <math.h>
#include <string.h>

#include "models/classifier.h"
#include "models/masked.h"
#include "train/masking.h"

/* Keeps its draws apart from those of the training under the same seed. */
static const uint64_t PRETRAIN_DOMAIN = 0x707265747261696e;

/* Batches of the dev texts. */
enum { DEV_TOKENS = 4096, DEV_ROWS = 256 };

/* Texts as batches with hidden tokens. */
typedef struct side {
    const qkv_ragged *texts;
    qkv_gather gather;
    qkv_masking masking;
} side;

typedef struct job {
    qkv_ctx *ctx;
    const qkv_pretraining *p;
    qkv_masked *net;
    side train, dev;
    qkv_batches dev_batches;
    real *weights;
    json_t *notes; /* of checkpoints */
    qkv_train_callbacks callbacks;
    qkv_loop_result result;
} job;

static void free_side(qkv_ctx *ctx, side *s) {
    qkv_masking_free(ctx, &s->masking);
    qkv_gather_free(ctx, &s->gather);
}

static void free_job(job *j) {
    free_side(j->ctx, &j->train);
    free_side(j->ctx, &j->dev);
    qkv_batches_free(j->ctx, &j->dev_batches);
    qkv_masked_free(j->net);
    qkv_free(j->ctx, j->weights);
    json_decref(j->notes);
}

/* ---- texts of their own ---- */

qkv_status qkv_pretrain_read(qkv_ctx *ctx, const qkv_classify_options *o, qkv_pretrain_texts *texts) {
    *texts = (qkv_pretrain_texts){0};
    if (!(o->pretrain > 0) || !o->pretrain_text) return QKV_OK;
    qkv_data_options data = o->data;
    data.format = QKV_FORMAT_AUTO; /* what is said of the training file need not hold for this one */
    return qkv_table_read_texts(ctx, o->pretrain_text, &data, o->pair != 0, &texts->table);
}

qkv_status qkv_pretrain_encode(qkv_ctx *ctx, const qkv_config *config, const qkv_tokenizer *tokenizer, qkv_pretrain_texts *texts) {
    if (texts->table.count == 0) return QKV_OK;
    qkv_config unlabelled = *config;
    unlabelled.multi_label = false;
    qkv_status status =
        qkv_encode_table(ctx, &unlabelled, tokenizer, &texts->table, 0, texts->table.count, NULL, NULL, 0, &texts->encoded);
    qkv_table_free(&texts->table);
    return status;
}

void qkv_pretrain_texts_free(qkv_ctx *ctx, qkv_pretrain_texts *texts) {
    qkv_table_free(&texts->table);
    qkv_encoded_free(ctx, &texts->encoded);
}

/* ---- checkpoints ---- */

qkv_train_phase qkv_pretrain_phase(const qkv_checkpoint *checkpoint) {
    const char *phase = json_string_value(json_object_get(qkv_checkpoint_notes(checkpoint), "phase"));
    return phase && strcmp(phase, "pretraining") == 0 ? QKV_PHASE_PRETRAIN : QKV_PHASE_TRAIN;
}

json_t *qkv_pretrain_record(const qkv_checkpoint *checkpoint) {
    return json_incref(json_object_get(qkv_checkpoint_notes(checkpoint), "pretraining"));
}

qkv_status qkv_pretrain_notes(qkv_ctx *ctx, json_t *record, json_t **notes) {
    *notes = NULL;
    if (!record) return QKV_OK;
    *notes = json_pack("{s:s, s:O}", "phase", "training", "pretraining", record);
    return *notes ? QKV_OK : qkv_fail(ctx, QKV_NO_MEMORY, "out of memory for the notes of a checkpoint");
}

static qkv_status write_checkpoint(void *self, const qkv_train_state *state) {
    const job *j = self;
    return qkv_checkpoint_save(j->ctx, j->p->checkpoint->path, j->p->identity, j->notes, state);
}

static qkv_status restore(void *self, qkv_train_state *state) {
    job *j = self;
    QKV_TRY(qkv_checkpoint_restore(*j->p->from, state));
    qkv_checkpoint_close(*j->p->from);
    *j->p->from = NULL;
    return QKV_OK;
}

/* ---- the task ---- */

static int64_t units(void *self, const int64_t *rows, int64_t count) {
    const job *j = self;
    return qkv_masking_units(&j->train.masking, rows, count);
}

static void hide(side *s, const int64_t *rows, int64_t count, bool plan, uint64_t seed, uint64_t step, qkv_batch *batch,
                 qkv_masks *masks) {
    qkv_gather_rows(&s->gather, s->texts, rows, count, plan, batch);
    qkv_masking_hide(&s->masking, &s->gather, batch, rows, plan, seed, step, masks);
}

static qkv_status step(void *self, qkv_exec *x, const int64_t *rows, int64_t count, double loss_scale, double *loss_sum) {
    job *j = self;
    qkv_batch batch;
    qkv_masks masks;
    hide(&j->train, rows, count, x->plan, x->seed, x->step, &batch, &masks);
    return qkv_masked_learn(x, j->net, &batch, &masks, loss_scale, loss_sum, NULL);
}

/* The same tokens are hidden every time. */
static qkv_status evaluate(void *self, qkv_exec *x, qkv_task_score *score) {
    job *j = self;
    const qkv_batches *b = &j->dev_batches;
    double sum = 0, loss;
    for (int64_t i = 0; i < b->count; i++) {
        qkv_batch batch;
        qkv_masks masks;
        qkv_arena_low_release(&x->arena, 0);
        qkv_arena_high_release(&x->arena, 0);
        hide(&j->dev, b->order + b->first[i], b->first[i + 1] - b->first[i], x->plan, PRETRAIN_DOMAIN, 0, &batch, &masks);
        QKV_TRY(qkv_masked_loss(x, j->net, &batch, &masks, &loss, NULL));
        sum += loss;
    }
    *score = (qkv_task_score){.loss = sum / (double)j->dev.masking.total, .accuracy = NAN, .macro_f1 = NAN};
    score->metric = -score->loss;
    return QKV_OK;
}

static qkv_status set_prior(job *j) {
    const qkv_ragged *t = j->p->texts;
    int64_t *count;
    QKV_TRY(qkv_alloc_zero(j->ctx, j->p->config->vocab, sizeof *count, &count));
    for (int64_t i = 0; i < t->offset[t->count]; i++) count[t->ids[i]]++;
    qkv_masked_set_prior(j->net, count, j->weights);
    qkv_free(j->ctx, count);
    return QKV_OK;
}

static qkv_status allocate(void *self, const qkv_train_plan *plan, real **weights) {
    job *j = self;
    const qkv_reg *reg = qkv_masked_reg(j->net);
    qkv_train_plan most = *plan;
    qkv_memory_ask ask = *j->p->memory;
    if (j->p->bytes > most.bytes) most.bytes = j->p->bytes;
    else ask.self = NULL; /* what would fit for the training need not for this */
    QKV_TRY(qkv_classify_refuse(j->ctx, &ask, &most));
    QKV_TRY(qkv_alloc(j->ctx, reg->size, sizeof(real), &j->weights));
    qkv_reg_init(reg, j->p->options->seed, j->weights);
    *weights = j->weights;
    return set_prior(j);
}

static void on_event(void *user, const qkv_train_event *event) {
    const qkv_train_callbacks *to = user;
    qkv_train_event phased = *event;
    phased.phase = QKV_PHASE_PRETRAIN;
    to->event(to->user, &phased);
}

/* ---- the run ---- */

static qkv_status choose(void *self, qkv_way way, int64_t *bytes) {
    job *j = self;
    const qkv_ragged *dev = j->p->dev;
    const int64_t tokens = way.piece_tokens > 0 && way.piece_tokens < DEV_TOKENS ? way.piece_tokens : DEV_TOKENS;
    qkv_masked_set_saving(j->net, way.saving);
    qkv_batches_free(j->ctx, &j->dev_batches);
    QKV_TRY(qkv_batches_make(j->ctx, dev->offset, dev->count, tokens, DEV_ROWS, 0, -1, &j->dev_batches));
    *bytes += qkv_gather_bytes(&j->train.gather) + qkv_gather_bytes(&j->dev.gather) + qkv_batches_bytes(dev->count);
    *bytes += qkv_masking_bytes(&j->train.masking) + qkv_masking_bytes(&j->dev.masking);
    return QKV_OK;
}

static qkv_status make_side(job *j, const qkv_ragged *texts, int64_t tokens, int64_t rows, side *s) {
    s->texts = texts;
    QKV_TRY(qkv_gather_create(j->ctx, texts, tokens, rows, &s->gather));
    return qkv_masking_create(j->ctx, texts, j->p->options->mask, j->p->config->vocab, s->gather.max_tokens, &s->masking);
}

static qkv_status prepare(job *j) {
    const qkv_classify_options *o = j->p->options;
    const qkv_ragged *dev = j->p->dev;
    qkv_config config = *j->p->config;
    /* new tokens are hidden at every step: noise enough */
    config.dropout = config.attention_dropout = config.embedding_dropout = 0;
    QKV_TRY(qkv_masked_create(j->ctx, &config, false, &j->net));
    QKV_TRY(make_side(j, j->p->texts, o->batch_tokens, o->batch_rows > 0 ? o->batch_rows : o->batch_tokens, &j->train));
    if (j->train.masking.total == 0) return qkv_fail(j->ctx, QKV_BAD_DATA, "there is nothing to pretrain on: no text has a token");
    QKV_TRY(make_side(j, dev, DEV_TOKENS, DEV_ROWS, &j->dev));
    j->notes = json_pack("{s:s}", "phase", "pretraining");
    return j->notes ? QKV_OK : qkv_fail(j->ctx, QKV_NO_MEMORY, "out of memory for the notes of a checkpoint");
}

static qkv_loop_options loop_options(const job *j) {
    const qkv_classify_options *o = j->p->options;
    return (qkv_loop_options){
        .epochs = o->pretrain,
        .batch_tokens = o->batch_tokens,
        .batch_rows = o->batch_rows,
        .accumulate = o->accumulate,
        .schedule = (qkv_schedule_kind)o->schedule,
        .warmup = o->warmup,
        .lr = o->pretrain_lr,
        .embedding_lr = o->pretrain_lr,
        .weight_decay = o->weight_decay,
        .beta1 = o->beta1,
        .beta2 = o->beta2,
        .epsilon = o->epsilon,
        .clip = o->clip,
        .evaluate = o->evaluate,
        .checkpoint = j->p->checkpoint ? 60 * j->p->checkpoint->minutes : 0,
        .seed = qkv_key2(o->seed, PRETRAIN_DOMAIN),
        .room = qkv_classify_room(o, j->p->memory->held),
    };
}

static qkv_status run(job *j) {
    const qkv_reg *reg = qkv_masked_reg(j->net);
    const qkv_task task = {
        .self = j,
        .reg = reg,
        .rows = j->p->texts->count,
        .offset = j->p->texts->offset,
        .segment_at = j->p->texts->segment_at,
        .segment_size = j->p->texts->segment_size,
        .uneven = qkv_config_uneven(qkv_masked_config(j->net)),
        .units = units,
        .step = step,
        .evaluate = j->dev.masking.total > 0 ? evaluate : NULL,
        .choose = choose,
        .allocate = allocate,
        .restore = *j->p->from ? restore : NULL,
        .checkpoint = j->p->checkpoint ? write_checkpoint : NULL,
    };
    const qkv_loop_options options = loop_options(j);
    const qkv_train_callbacks *to = j->p->callbacks;
    j->callbacks = (qkv_train_callbacks){on_event, (void *)to};
    return qkv_loop_run(j->ctx, &task, &options, to && to->event ? &j->callbacks : NULL,
                        j->p->memory->held + reg->size * (int64_t)sizeof(real), NULL, &j->result);
}

/* The learning rate that its message speaks of is not the one of the training. */
static qkv_status diverged(qkv_ctx *ctx) {
    char message[sizeof ctx->message];
    memcpy(message, ctx->message, sizeof message);
    return qkv_fail(ctx, QKV_NUMERIC, "pretraining (--pretrain-lr): %s", message);
}

static qkv_status make_record(const job *j, json_t **record) {
    const qkv_ragged *t = j->p->texts;
    const qkv_loop_result *r = &j->result;
    *record = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "rows", (json_int_t)t->count, "tokens",
                        (json_int_t)t->offset[t->count], "hidden_tokens", (json_int_t)j->train.masking.total, "steps", (json_int_t)r->steps, "skipped_steps",
                        (json_int_t)r->skipped, "best_step", (json_int_t)r->best_step, "loss",
                        r->best_step >= 0 ? json_real(r->best.loss) : json_null());
    return *record ? QKV_OK : qkv_fail(j->ctx, QKV_NO_MEMORY, "out of memory for the record of the pretraining");
}

qkv_status qkv_pretrain(qkv_ctx *ctx, const qkv_pretraining *p, qkv_pretrained *pretrained) {
    *pretrained = (qkv_pretrained){0};
    job j = {.ctx = ctx, .p = p};
    qkv_status status = prepare(&j);
    if (status == QKV_OK) status = run(&j);
    if (status == QKV_NUMERIC) status = diverged(ctx);
    if (status == QKV_OK) status = make_record(&j, &pretrained->record);
    if (status == QKV_OK) {
        pretrained->weights = j.weights;
        pretrained->size = qkv_masked_encoder_size(j.net);
        j.weights = NULL;
    }
    free_job(&j);
    return status;
}
