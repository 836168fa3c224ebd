#include <inttypes.h>
#include <string.h>

#include "base/cpu.h"
#include "data/folds.h"
#include "models/globals.h"
#include "tasks/classify_job.h"
#include "tasks/classify_memory.h"

void qkv_job_free_tables(qkv_job *j) {
    qkv_table_free(&j->train_table);
    qkv_table_free(&j->dev_table);
}

static qkv_status read_table(qkv_job *j, const char *path, const qkv_table *there, qkv_table *table) {
    if (there) return qkv_table_view(there, NULL, 0, true, table);
    return qkv_table_read(j->ctx, path, &j->o->data, j->o->multi_label ? QKV_WANT_LABELS : QKV_WANT_LABEL, j->o->pair != 0, table);
}

static qkv_status read_tables(qkv_job *j) {
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
    if (j->dev_hash == j->train_hash)
        qkv_log(j->ctx, "the dev rows are the training rows: their scores will say nothing about other texts");
    return QKV_OK;
}

static qkv_status train_tokenizer(qkv_job *j) {
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

qkv_config qkv_job_config(const qkv_job *j, int64_t vocab, int64_t classes) {
    qkv_config config = qkv_classify_config(j->o, vocab, classes);
    if (j->global_token.count > 0) config.global_token = j->global_token; /* until there is a tokenizer, UNK stands for them */
    return config;
}

static qkv_status encode(qkv_job *j, const qkv_table *table, qkv_encoded *out) {
    const qkv_config config = qkv_job_config(j, 0, 0);
    return qkv_encode_table(j->ctx, &config, j->tokenizer, table, 0, table->count, j->labels.text, j->labels.size, j->labels.count,
                            out);
}

static void count_unseen_rows(qkv_job *j) {
    const qkv_encoded *d = &j->dev;
    for (int64_t i = 0; i < d->rows.count; i++) j->unseen_rows += d->unseen ? d->unseen[i] > 0 : d->rows.target[i] < 0;
}

/* Names the dev labels that training never saw: they can only be wrong. */
static qkv_status note_unseen(qkv_job *j) {
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
static qkv_status weigh_classes(qkv_job *j) {
    const qkv_labels *l = &j->labels;
    int64_t all = 0;
    if (!j->o->balance) return QKV_OK;
    QKV_TRY(qkv_alloc(j->ctx, l->count, sizeof *j->class_weight, &j->class_weight));
    for (int64_t i = 0; i < l->count; i++) all += l->rows[i];
    for (int64_t i = 0; i < l->count; i++)
        j->class_weight[i] = (real)((double)all / ((double)l->count * (double)l->rows[i]));
    return QKV_OK;
}

const qkv_encoded *qkv_job_pretraining_texts(const qkv_job *j) {
    return j->texts.encoded.rows.count > 0 ? &j->texts.encoded : &j->train;
}

static qkv_status report_data(qkv_job *j) {
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
        const qkv_encoded *texts = qkv_job_pretraining_texts(j);
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

static qkv_status learn_bag(qkv_job *j) {
    const qkv_bag_data seen = {&j->train_table, &j->train}, held = {&j->dev_table, &j->dev};
    qkv_train_event event = {.kind = QKV_TRAIN_LINEAR, .u.linear = {.ngrams = j->o->ngrams, .runs = -1}};
    const bool told = j->callbacks && j->callbacks->event;
    double begun = qkv_now();
    if (!qkv_classify_has_bag(j->o, j->labels.count)) return QKV_OK;
    if (told) j->callbacks->event(j->callbacks->user, &event);
    QKV_TRY(qkv_beside_make(j->ctx, j->o, j->labels.count, j->class_weight, &seen, &held, j->held_out, &j->beside));
    event.u.linear = (qkv_train_linear){.ngrams = j->beside.bag.ngrams, .runs = j->beside.bag.features, .seconds = qkv_now() - begun};
    if (told) j->callbacks->event(j->callbacks->user, &event);
    return QKV_OK;
}

static qkv_status open_checkpoint(qkv_job *j, json_t *recorded) {
    if (!j->checkpoint) return QKV_OK;
    QKV_TRY(qkv_job_identify(j, recorded));
    return j->checkpoint->resume ? qkv_checkpoint_open(j->ctx, j->checkpoint->path, j->identity, &j->from) : QKV_OK;
}

qkv_status qkv_job_read(qkv_job *j, json_t *recorded) {
    j->doing = "reading the rows";
    QKV_TRY(read_tables(j));
    QKV_TRY(qkv_pretrain_read(j->ctx, j->o, &j->texts));
    QKV_TRY(open_checkpoint(j, recorded));
    QKV_TRY(qkv_labels_collect(j->ctx, &j->train_table, NULL, NULL, 0, &j->labels));
    QKV_TRY(weigh_classes(j));
    j->doing = "learning the tokenizer";
    QKV_TRY(train_tokenizer(j));
    QKV_TRY(qkv_global_tokens_find(j->ctx, j->tokenizer, j->o->global_token, &j->global_token));
    j->doing = "cutting the texts into tokens";
    QKV_TRY(encode(j, &j->train_table, &j->train));
    QKV_TRY(encode(j, &j->dev_table, &j->dev));
    const qkv_config config = qkv_job_config(j, 0, 0);
    QKV_TRY(qkv_pretrain_encode(j->ctx, &config, j->tokenizer, &j->texts));
    QKV_TRY(note_unseen(j));
    QKV_TRY(report_data(j));
    j->encoded = true;
    j->doing = "learning the linear model (--ngrams 0 leaves it out)";
    QKV_TRY(learn_bag(j));
    j->doing = "training";
    j->before_bytes = qkv_classify_reached(j->ctx, j->used_before, j->source->held);
    qkv_job_free_tables(j);
    qkv_give_back(j->ctx);
    return QKV_OK;
}
