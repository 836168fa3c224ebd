/* Texts through a model with random weights, as `qkv predict` answers them: tokens, batches, network, probabilities. */
#include "bench/job.h"

#include <string.h>

#include "models/model.h"
#include "tasks/classify.h"
#include "tasks/classify_data.h"
#include "tasks/scorer.h"

enum { CLASSES = 8, WORDS = 3000, TRAINED_ON = 1000, LEAST_WORDS = 5, MOST_WORDS = 30, MOST_TEXT = 8 * 2 * MOST_WORDS };

typedef struct prediction {
    qkv_model *model;
    qkv_tokenizer *tokenizer; /* until the model owns it */
    int64_t count;
    char *bytes;
    const char **texts;
    int64_t *lengths;
    float *probabilities;
    qkv_encoded encoded; /* in a plan */
    qkv_scorer scorer;
} prediction;

/* A word of two to four syllables, the same for the same number; low numbers are drawn more often, as in a language. */
static int64_t put_word(char *to, uint64_t key) {
    static const char first[] = "bcdfghklmnprstvw", second[] = "aeiou";
    double u = qkv_uniform(key);
    uint64_t word = qkv_key2(21, (uint64_t)(u * u * WORDS));
    int64_t syllables = 2 + (int64_t)qkv_below(word, 3);
    for (int64_t i = 0; i < syllables; i++) {
        to[2 * i] = first[qkv_below(qkv_key3(word, 1, (uint64_t)i), sizeof first - 1)];
        to[2 * i + 1] = second[qkv_below(qkv_key3(word, 2, (uint64_t)i), sizeof second - 1)];
    }
    return 2 * syllables;
}

static qkv_status write_texts(qkv_bench_job *job, prediction *p, int64_t count) {
    QKV_TRY(qkv_bench_array(job, count, MOST_TEXT + MOST_WORDS, &p->bytes));
    QKV_TRY(qkv_bench_array(job, count, sizeof *p->texts, &p->texts));
    QKV_TRY(qkv_bench_array(job, count, sizeof *p->lengths, &p->lengths));
    for (int64_t t = 0; t < count; t++) {
        char *text = p->bytes + t * (MOST_TEXT + MOST_WORDS);
        int64_t words = LEAST_WORDS + (int64_t)qkv_below(qkv_key2(22, (uint64_t)t), MOST_WORDS - LEAST_WORDS + 1), length = 0;
        for (int64_t w = 0; w < words; w++) {
            length += put_word(text + length, qkv_key3(23, (uint64_t)t, (uint64_t)w));
            text[length++] = ' ';
        }
        p->texts[t] = text;
        p->lengths[t] = length;
    }
    return QKV_OK;
}

/* What `qkv train classify` makes by default, in these sizes. */
static qkv_config config_of(const qkv_bench_case *c, int64_t vocab) {
    qkv_config config = qkv_bench_config(c, vocab, CLASSES);
    config.max_length = 256;
    config.pooling = QKV_POOL_ATTENTION;
    return config;
}

static qkv_status make_model(qkv_bench_job *job, prediction *p) {
    qkv_tokenizer_options t = {.kind = QKV_TOKENIZER_BPE, .vocab = 4000, .lowercase = 1};
    QKV_TRY(qkv_tokenizer_train(job->ctx, &t, TRAINED_ON, p->texts, p->lengths, &p->tokenizer));
    qkv_config config = config_of(job->c, qkv_tokenizer_vocab(p->tokenizer));
    qkv_classifier *net;
    QKV_TRY(qkv_classifier_create(job->ctx, &config, false, &net));
    job->memory += 2.0 * (double)qkv_classifier_reg(net)->size * sizeof(real); /* weights and their packed copies */
    qkv_classifier_free(net);
    if (job->plan) QKV_TRY(qkv_bench_fits(job->ctx, job->c, job->memory));
    QKV_TRY(qkv_model_create(job->ctx, "classify", &config, &p->model));
    p->model->tokenizer = p->tokenizer;
    p->tokenizer = NULL;
    if (!job->plan) qkv_reg_init(qkv_classifier_reg(p->model->net), 1, p->model->weights);
    return QKV_OK;
}

static qkv_status make(qkv_bench_job *job) {
    prediction *p = job->self;
    p->count = job->c->batch;
    QKV_TRY(write_texts(job, p, p->count > TRAINED_ON ? p->count : TRAINED_ON));
    QKV_TRY(make_model(job, p));
    QKV_TRY(qkv_bench_array(job, p->count * CLASSES, sizeof *p->probabilities, &p->probabilities));
    job->x.reg = qkv_classifier_reg(p->model->net);
    job->arithmetic = true;
    job->items = (double)p->count;
    if (!job->plan) return QKV_OK;
    QKV_TRY(qkv_encode_texts(job->ctx, &p->model->config, p->model->tokenizer, p->count, p->texts, p->lengths, &p->encoded));
    const qkv_config *g = &p->model->config;
    qkv_batch rows = {.n_seq = p->count, .offset = p->encoded.rows.offset};
    job->inside = (double)g->layers * qkv_bench_attention_flops(&rows, g->heads, g->head_dim, g->head_dim, g->span, false);
    job->inside += 4.0 * (double)rows.offset[rows.n_seq] * (double)g->dim; /* pooling: one query a text */
    return qkv_scorer_create(job->ctx, p->model->net, &p->encoded.rows, 0, &p->scorer);
}

static qkv_status pass(qkv_bench_job *job) {
    prediction *p = job->self;
    if (job->plan) return qkv_scorer_run(&p->scorer, &job->x, NULL, NULL);
    return qkv_classify_apply(p->model, p->count, p->texts, p->lengths, p->probabilities, NULL);
}

static void drop(qkv_bench_job *job) {
    prediction *p = job->self;
    qkv_scorer_free(&p->scorer);
    qkv_encoded_free(job->ctx, &p->encoded);
    qkv_tokenizer_free(p->tokenizer);
    qkv_model_free(p->model);
}

/* ---- the network alone: `batch` sequences of n tokens, weights packed ---- */

typedef struct encoding {
    qkv_classifier *net;
    qkv_batch batch;
    int32_t *ids;
    qkv_mat logits;
} encoding;

enum { ENCODER_VOCABULARY = 30522 };

static qkv_status encoder_make(qkv_bench_job *job) {
    encoding *e = job->self;
    qkv_config config = qkv_bench_config(job->c, ENCODER_VOCABULARY, CLASSES);
    QKV_TRY(qkv_classifier_create(job->ctx, &config, false, &e->net));
    job->x.reg = qkv_classifier_reg(e->net);
    QKV_TRY(qkv_bench_values(job, job->x.reg, false));
    QKV_TRY(qkv_bench_pack(job));
    QKV_TRY(qkv_bench_batch(job, &e->batch));
    int64_t rows = e->batch.offset[e->batch.n_seq];
    QKV_TRY(qkv_bench_array(job, rows, sizeof *e->ids, &e->ids));
    for (int64_t i = 0; i < rows; i++) e->ids[i] = (int32_t)qkv_below(qkv_key2(31, (uint64_t)i), ENCODER_VOCABULARY);
    if (!job->plan) e->batch.ids = e->ids;
    job->arithmetic = true;
    job->inside = (double)config.layers *
                     qkv_bench_attention_flops(&e->batch, config.heads, config.head_dim, config.head_dim, config.span, false);
    return qkv_bench_mat(job, e->batch.n_seq, CLASSES, QKV_BENCH_ZERO, &e->logits);
}

static qkv_status encoder_pass(qkv_bench_job *job) {
    encoding *e = job->self;
    return qkv_classifier_forward(&job->x, e->net, &e->batch, e->logits);
}

static void encoder_drop(qkv_bench_job *job) {
    encoding *e = job->self;
    qkv_classifier_free(e->net);
}

static const qkv_bench_kind ENCODER = {"predict.encoder", sizeof(encoding), encoder_make, encoder_pass, encoder_drop, NULL};
static const qkv_bench_kind TEXTS = {"predict.texts", sizeof(prediction), make, pass, drop, NULL};
const qkv_bench_kind *const qkv_bench_predict_kinds[] = {&TEXTS, &ENCODER, NULL};
