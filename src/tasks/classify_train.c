#include <string.h>

#include "tasks/classify_job.h"
#include "tasks/classify_memory.h"

static void free_job(qkv_job *j) {
    qkv_job_free_tables(j);
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

static qkv_status restore(void *self, qkv_train_state *state) {
    qkv_job *j = self;
    QKV_TRY(qkv_checkpoint_restore(j->from, state));
    qkv_checkpoint_close(j->from);
    j->from = NULL;
    return QKV_OK;
}

static qkv_status write_checkpoint(void *self, const qkv_train_state *state) {
    const qkv_job *j = self;
    return qkv_checkpoint_save(j->ctx, j->checkpoint->path, j->identity, j->notes, state);
}

/* ---- model ---- */

static qkv_status make_net_of(qkv_job *j, int64_t vocab) {
    qkv_config config = qkv_job_config(j, vocab, j->labels.count);
    QKV_TRY(qkv_classifier_create(j->ctx, &config, false, &j->plain));
    j->net = j->plain;
    qkv_network_words(&config, j->tokenizer, j->words);
    return QKV_OK;
}

static qkv_status make_net(qkv_job *j) {
    return make_net_of(j, qkv_tokenizer_vocab(j->tokenizer));
}

static qkv_status make_model(qkv_job *j) {
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

static bool bf16_of(const qkv_job *j) { return j->o->dtype == QKV_COMPUTE_BF16; }

/* ---- the task ---- */

static qkv_status step(void *self, qkv_exec *x, const int64_t *rows, int64_t count, double loss_scale, double *loss_sum) {
    qkv_job *j = self;
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

static qkv_status probe(void *self, qkv_exec *x, const int64_t *rows, int64_t count) {
    qkv_job *j = self;
    qkv_batch batch;
    qkv_mat logits;
    const size_t mark = qkv_exec_mark(x);
    qkv_gather_rows(&j->gather, &j->train.rows, rows, count, x->plan, &batch);
    QKV_TRY(qkv_temp(x, count, qkv_classifier_config(j->net)->classes, &logits));
    QKV_TRY(qkv_classifier_forward(x, j->net, &batch, logits));
    qkv_exec_release(x, mark);
    return QKV_OK;
}

static void count_row(void *user, int64_t row, const real *probabilities, int64_t classes, double loss) {
    qkv_job *j = user;
    const qkv_ragged *r = &j->dev.rows;
    if (!r->label_at) {
        qkv_counts_add(&j->counts, r->target[row], qkv_argmax(probabilities, classes), loss);
        return;
    }
    int64_t from = r->label_at[row], count = r->label_at[row + 1] - from;
    qkv_tuner_add(&j->tuner, probabilities, r->labels + from, count, j->dev.unseen[row], loss);
}

static void clear_counts(qkv_job *j) {
    if (j->o->multi_label)
        qkv_tuner_clear(&j->tuner);
    else
        qkv_counts_clear(&j->counts);
}

static qkv_task_score score_of(const qkv_job *j) {
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
    qkv_job *j = self;
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
    score->early = qkv_beside_is(&j->beside) && j->beside.blend.net == 0;
    return QKV_OK;
}

/* Of the weights that were kept: what they weigh beside the bag, and the thresholds. */
static qkv_status settle(qkv_job *j) {
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
static int64_t held_bytes(const qkv_job *j) {
    return QKV_MEMORY_OF_PROGRAM + j->source->held + qkv_beside_bytes(&j->beside) + qkv_encoded_bytes(&j->train) + qkv_encoded_bytes(&j->dev) +
           qkv_encoded_bytes(&j->texts.encoded);
}

static qkv_status prepare_task(qkv_job *j, int64_t *bytes) {
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

static void free_buffers(qkv_job *j) {
    qkv_gather_free(j->ctx, &j->gather);
    qkv_scorer_free(&j->scorer);
}

static qkv_status choose(void *self, qkv_way way, int64_t *bytes) {
    qkv_job *j = self;
    const int64_t tokens = way.piece_tokens > 0 ? way.piece_tokens : j->o->batch_tokens;
    free_buffers(j);
    qkv_classifier_set_saving(j->plain, way.saving);
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

static qkv_memory_ask memory_ask(qkv_job *j) {
    return (qkv_memory_ask){.options = j->o, .train = &j->train.rows, .dev = &j->dev.rows, .held = held_bytes(j), .need = need, .self = j};
}

/* The loop calls it between the plan and its own big blocks. */
static qkv_status allocate(void *self, const qkv_train_plan *plan, real **weights) {
    qkv_job *j = self;
    const qkv_memory_ask ask = memory_ask(j);
    QKV_TRY(qkv_classify_refuse(j->ctx, &ask, plan));
    QKV_TRY(make_model(j));
    *weights = j->model->weights;
    if (j->dev.rows.count == 0) return QKV_OK;
    return qkv_alloc(j->ctx, qkv_reg_packed_size(qkv_classifier_reg(j->net), bf16_of(j)), sizeof(real), &j->packed);
}

static qkv_loop_options loop_options(const qkv_job *j) {
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
        .monitor = o->monitor,
        .evaluate = o->evaluate,
        .patience = o->patience,
        .average = (qkv_average_kind)o->average,
        .ema_decay = o->ema_decay,
        .average_last = o->average_last,
        .checkpoint = j->checkpoint ? 60 * j->checkpoint->minutes : 0,
        .seed = o->seed,
        .room = qkv_classify_room(o, held_bytes(j)),
        .before_bytes = j->before_bytes,
    };
}

static qkv_task task_of(qkv_job *j) {
    return (qkv_task){
        .self = j,
        .reg = qkv_classifier_reg(j->net),
        .rows = j->train.rows.count,
        .offset = j->train.rows.offset,
        .segment_at = j->train.rows.segment_at,
        .segment_size = j->train.rows.segment_size,
        .uneven = qkv_config_uneven(qkv_classifier_config(j->net)),
        .step = step,
        .probe = probe,
        .attention_layers = qkv_config_attention_layers(qkv_classifier_config(j->net)),
        .attention_heads = qkv_classifier_config(j->net)->heads,
        .network = j->words,
        .evaluate = j->dev.rows.count > 0 ? evaluate : NULL,
        .start_counts = qkv_beside_is(&j->beside), /* what the bag can do alone */
        .choose = choose,
        .allocate = allocate,
        .restore = j->from ? restore : NULL,
        .checkpoint = j->checkpoint ? write_checkpoint : NULL,
    };
}

static qkv_status run_task(qkv_job *j) {
    int64_t bytes;
    QKV_TRY(prepare_task(j, &bytes));
    const qkv_task task = task_of(j);
    const qkv_loop_options options = loop_options(j);
    return qkv_loop_run(j->ctx, &task, &options, j->callbacks, bytes, NULL, &j->result);
}

static qkv_status need_of(qkv_job *j, int64_t vocab, qkv_way way, int64_t *bytes) {
    int64_t base;
    QKV_TRY(make_net_of(j, vocab));
    QKV_TRY(prepare_task(j, &base));
    const qkv_task task = task_of(j);
    const qkv_loop_options options = loop_options(j);
    return qkv_loop_need(j->ctx, &task, &options, base, way, bytes);
}

/* This job, a copy of one that goes on, as far as its plan. */
static qkv_status need_at(qkv_job *j, int64_t vocab, qkv_way way, int64_t *bytes) {
    j->plain = NULL;
    j->gather = (qkv_gather){0};
    j->scorer = (qkv_scorer){0};
    j->counts = (qkv_counts){0};
    j->tuner = (qkv_tuner){0};
    qkv_status status = need_of(j, vocab, way, bytes);
    free_buffers(j);
    qkv_counts_free(j->ctx, &j->counts);
    qkv_tuner_free(j->ctx, &j->tuner);
    qkv_classifier_free(j->plain);
    return status;
}

/* The job with other options and lengths. */
static qkv_status need(void *self, const qkv_classify_options *o, const qkv_ragged *train, const qkv_ragged *dev, qkv_way way,
                       int64_t *bytes) {
    qkv_job other = *(const qkv_job *)self;
    other.o = o;
    other.train.rows = *train;
    other.dev.rows = *dev;
    return need_at(&other, qkv_tokenizer_vocab(other.tokenizer), way, bytes);
}

/* ---- where a limit is reached before there is a plan ---- */

/* One row of `length` tokens, with one label; the arrays are the caller's. */
typedef struct one_row {
    int64_t offset[2], label_at[2], segment_at[2];
    int32_t target, *segment_size;
} one_row;

static qkv_status make_row(qkv_job *j, int64_t length, one_row *r, qkv_ragged *rows) {
    const qkv_config config = qkv_job_config(j, 1, 1);
    const int64_t size = qkv_config_segment_length(&config), segments = size > 0 ? (length + size - 1) / size : 0;
    *r = (one_row){.offset = {0, length}, .label_at = {0, 1}, .segment_at = {0, segments}};
    *rows = (qkv_ragged){.count = 1, .offset = r->offset, .target = &r->target, .globals = qkv_config_globals(&config)};
    if (qkv_globals_read(&rows->globals)) rows->globals.first = length; /* what they are may make all of them global */
    if (j->o->multi_label) rows->label_at = r->label_at, rows->labels = &r->target;
    if (size == 0) return QKV_OK;
    QKV_TRY(qkv_alloc(j->ctx, segments, sizeof *r->segment_size, &r->segment_size));
    for (int64_t i = 0; i < segments; i++) r->segment_size[i] = (int32_t)(i + 1 < segments ? size : length - i * size);
    rows->segment_at = r->segment_at, rows->segment_size = r->segment_size;
    return QKV_OK;
}

/* The least way of a training with this vocabulary, of one row; and ids, 4 bytes for about as many of a text. */
static qkv_status plan_ahead(const qkv_job *j, int64_t vocab, int64_t length, int64_t *bytes) {
    qkv_job other = *j;
    one_row r;
    const qkv_way way = qkv_budget_least(qkv_classify_room(j->o, 0));
    if (other.labels.count < 2) other.labels.count = 2;
    other.train = other.dev = (qkv_encoded){0};
    QKV_TRY(make_row(&other, length, &r, &other.train.rows));
    other.dev.rows = other.train.rows;
    const qkv_status status = need_at(&other, vocab, way, bytes);
    qkv_free(j->ctx, r.segment_size);
    *bytes += j->train_table.pool_size + j->dev_table.pool_size;
    return status;
}

/* Tokens of a row at most, by what is read so far: a token has a byte or more. Before any is, those of a long text as they usually
 * are. */
static int64_t longest_ahead(const qkv_job *j) {
    enum { LONG_TEXT = 1024 };
    const qkv_table *const tables[] = {&j->train_table, &j->dev_table};
    int64_t most = 0;
    for (int t = 0; t < 2; t++)
        for (int64_t i = 0; i < tables[t]->count; i++)
            if (tables[t]->rows[i].text_size + 2 > most) most = tables[t]->rows[i].text_size + 2;
    if (most == 0) most = LONG_TEXT;
    return most < j->o->max_length ? most : j->o->max_length;
}

/* Of the rows, where they are encoded already; before that as little and as much as they may come to. */
static qkv_status plan_range(qkv_job *j, int64_t training[2]) {
    const qkv_classify_options *o = j->o;
    const int64_t few = o->tokenizer == QKV_TOKENIZER_CHAR ? QKV_TOKEN_SPECIALS + 1 : QKV_TOKEN_SPECIALS + 256,
                  many = o->tokenizer == QKV_TOKENIZER_BYTE ? few : o->vocab,
                  known = j->tokenizer ? qkv_tokenizer_vocab(j->tokenizer) : 0;
    if (!j->encoded) QKV_TRY(plan_ahead(j, known > 0 ? known : few, 1, &training[0]));
    if (!j->encoded) return plan_ahead(j, known > 0 ? known : many, longest_ahead(j), &training[1]);
    const qkv_way way = qkv_budget_least(qkv_classify_room(o, held_bytes(j)));
    QKV_TRY(need(j, o, &j->train.rows, &j->dev.rows, way, &training[0]));
    training[1] = training[0];
    return QKV_OK;
}

static qkv_status refuse_ahead(qkv_job *j, int64_t wall) {
    const int64_t least = j->ctx->most_wanted - j->ctx->most_used + j->o->memory;
    int64_t training[2] = {0, 0};
    j->ctx->most_used = wall; /* a plan takes next to nothing */
    if (!j->doing || plan_range(j, training) != QKV_OK) training[0] = training[1] = 0;
    if (training[1] > 0 && !qkv_beside_is(&j->beside))
        training[1] += qkv_beside_most(j->o, j->labels.count > 1 ? j->labels.count : 2, &j->train_table, &j->dev_table);
    return qkv_classify_walled(j->ctx, j->o, j->doing, least, training);
}

/* ---- pretraining ---- */

/* A run that was interrupted after it has what it needs in the checkpoint. */
static qkv_status pretrain(qkv_job *j) {
    if (!(j->o->pretrain > 0)) return QKV_OK;
    const qkv_memory_ask ask = memory_ask(j);
    qkv_pretraining p = {
        .options = j->o,
        .config = qkv_classifier_config(j->net),
        .texts = &qkv_job_pretraining_texts(j)->rows,
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

/* Where bf16 is less than what was asked for. */
static void note_dtype(const qkv_job *j) {
    const qkv_config *c = qkv_classifier_config(j->net);
    if (!bf16_of(j)) return;
    qkv_bf16_note(j->ctx);
    const char *why = qkv_config_attention_f32(c);
    if (why) qkv_log(j->ctx, "linear maps run in bf16, attention in f32: it has no bf16 with %s", why);
}

/* What nobody asked for. */
static void note_pattern(const qkv_job *j) {
    const qkv_config *c = qkv_classifier_config(j->net);
    const bool whole = c->segment == QKV_SEGMENT_NONE;
    const int64_t longest = whole ? c->max_length : c->segment_length;
    if (c->global_first >= longest && !c->global_projection)
        qkv_log(j->ctx,
                "the first %lld tokens are global, and a %s has at most %lld: every token sees all (--pattern full: the same for less "
                "work)",
                (long long)c->global_first, whole ? "text" : "segment", (long long)longest);
    if (j->o->pattern != QKV_PATTERN_AUTO || c->full_every == j->o->full_every) return;
    qkv_log(j->ctx,
            "texts of up to %lld tokens: one layer in %lld sees all of a text, the others %lld tokens %s (--pattern full: all "
            "layers see all)",
            (long long)c->max_length, (long long)c->full_every, (long long)c->span.left,
            c->span.right == 0 ? "to the left" : "on each side");
}

static qkv_status fit(qkv_job *j, json_t *recorded) {
    QKV_TRY(qkv_classify_check(j->ctx, j->o));
    QKV_TRY(qkv_job_read(j, recorded));
    QKV_TRY(make_net(j));
    note_dtype(j);
    note_pattern(j);
    QKV_TRY(pretrain(j));
    qkv_status status = run_task(j);
    if (j->result.usable && (status == QKV_OK || status == QKV_STOPPED || status == QKV_NUMERIC)) {
        QKV_TRY(settle(j));
        QKV_TRY(qkv_job_record(j, recorded, status));
    } else {
        qkv_model_free(j->model);
        j->model = NULL;
    }
    return status;
}

qkv_status qkv_classify_fit_rows(qkv_ctx *ctx, const qkv_classify_options *options, json_t *recorded, const qkv_classify_source *source,
                                 const qkv_train_checkpoint *checkpoint, const qkv_train_callbacks *callbacks, qkv_model **model) {
    *model = NULL;
    qkv_job j = {.ctx = ctx, .o = options, .source = source, .callbacks = callbacks, .checkpoint = checkpoint, .result.best_step = -1};
    j.used_before = ctx->used;
    j.train_table.ctx = j.dev_table.ctx = ctx;
    const int64_t wall = qkv_classify_wall(ctx, options);
    if (options->memory > 0) ctx->most_used -= source->held; /* they are used already, and of the run all the same */
    qkv_status status = fit(&j, recorded);
    if (status == QKV_NO_MEMORY && options->memory > 0 && ctx->most_wanted > 0) status = refuse_ahead(&j, wall);
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
