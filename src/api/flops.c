/* The public side of counting costs: arguments are checked, src/report does the work. */
#include "qkv/flops.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "data/rows.h"
#include "models/encoder.h"
#include "models/model.h"
#include "report/flops.h"
#include "report/network.h"

const qkv_option_table *qkv_flops_options_table(void) {
    return &qkv_flops_table;
}

const char *qkv_flops_pass_name(qkv_flops_pass pass) {
    static const char *const names[QKV_FLOPS_PASSES] = {"forward", "backward", "recompute", "optimizer"};
    return pass >= 0 && pass < QKV_FLOPS_PASSES ? names[pass] : "";
}

_Static_assert((int)QKV_FLOPS_PASSES == (int)QKV_PASSES && (int)QKV_FLOPS_OPTIMIZER == (int)QKV_PASS_OPTIMIZER,
               "passes are counted in this order");

/* ---- in words ---- */

static void network_words(const qkv_config *c, qkv_flops *f) {
    char words[QKV_NETWORK_WORDS];
    qkv_network_words(c, words);
    snprintf(f->what, sizeof f->what, "%s, vocabulary %" PRId64 ", %" PRId64 " %s", words, c->vocab, c->classes,
             c->classes == 1 ? "class" : "classes");
}

static void attention_words(const qkv_block_shape *s, qkv_flops *f) {
    char words[QKV_NETWORK_WORDS];
    qkv_attention_words(s, words);
    snprintf(f->what, sizeof f->what, "one attention layer alone, %s, %s, %s", words, s->bias ? "biases" : "no biases",
             s->no_output ? "without an output projection" : "with an output projection");
}

static void batch_words(qkv_flops *f) {
    const char *one = f->sequences == 1 ? "sequence" : "sequences";
    if (f->shortest == f->longest)
        snprintf(f->batch, sizeof f->batch, "%" PRId64 " %s of %" PRId64 " %s", f->sequences, one, f->longest,
                 f->longest == 1 ? "token" : "tokens");
    else
        snprintf(f->batch, sizeof f->batch, "%" PRId64 " %s of %" PRId64 " to %" PRId64 " tokens, %" PRId64 " in all", f->sequences,
                 one, f->shortest, f->longest, f->tokens);
}

static void segment_words(const qkv_config *c, qkv_flops *f) {
    const size_t batch = strlen(f->batch);
    if (c->segment == QKV_SEGMENT_NONE) return;
    snprintf(f->batch + batch, sizeof f->batch - batch, ", %" PRId64 " %s", f->segments, f->segments == 1 ? "segment" : "segments");
}

/* Pairs of segments, whose products are not those of tokens. */
static double upper_pairs(const qkv_config *c, const qkv_batch *b) {
    const bool causal = c->span.right == 0;
    double pairs = 0;
    for (int64_t i = 0; b->segments && i < b->n_seq; i++) {
        const double n = (double)(b->segments[i + 1] - b->segments[i]);
        pairs += causal ? n * (n + 1) / 2 : n * n;
    }
    return pairs * (double)qkv_config_segment_layers(c) / (double)c->layers;
}

/* Pairs that one head of one layer sees. */
static void find_pairs(qkv_flops *f, double columns) {
    for (int64_t i = 0; i < f->operation_count; i++)
        if (strcmp(f->operations[i].name, "queries x keys") == 0)
            f->pairs = f->operations[i].pass[QKV_FLOPS_FORWARD].macs / columns;
}

/* ---- the calls ---- */

static int64_t most(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static qkv_status count_network(qkv_flops_walk *w, const qkv_config *c, const int64_t *lengths, int64_t sequences,
                                const qkv_flops_segments *segments, qkv_flops **flops) {
    QKV_TRY(qkv_flops_check(w->ctx, lengths, sequences, c->layers, c->heads,
                            most(most(3 * c->dim, 2 * c->ffn), 3 * c->heads * c->head_dim)));
    QKV_TRY(qkv_flops_begin(w, w->ctx, lengths, sequences, c->layers + qkv_config_segment_layers(c)));
    QKV_TRY(qkv_flops_cut(w, c, segments));
    QKV_TRY(qkv_flops_network(w, c, flops));
    qkv_flops *f = *flops;
    f->dtype = c->bf16 ? QKV_COMPUTE_BF16 : QKV_COMPUTE_F32;
    network_words(c, f);
    batch_words(f);
    segment_words(c, f);
    find_pairs(f, (double)(c->layers * c->heads * c->head_dim));
    if (f->pairs > 0) f->pairs -= upper_pairs(c, &w->batch);
    return QKV_OK;
}

static qkv_status count_attention(qkv_flops_walk *w, const qkv_flops_options *o, const int64_t *lengths, int64_t sequences,
                                  qkv_flops **flops) {
    const qkv_block_shape shape = qkv_flops_layer(o);
    QKV_TRY(qkv_flops_check(w->ctx, lengths, sequences, 1, shape.heads, 3 * shape.dim));
    QKV_TRY(qkv_flops_begin(w, w->ctx, lengths, sequences, 1));
    w->x.bf16 = o->dtype == QKV_COMPUTE_BF16;
    QKV_TRY(qkv_flops_attention(w, &shape, flops));
    qkv_flops *f = *flops;
    f->alone = 1;
    f->dtype = o->dtype;
    attention_words(&shape, f);
    batch_words(f);
    find_pairs(f, (double)(shape.heads * shape.head_dim));
    return QKV_OK;
}

static qkv_status count_recurrent(qkv_flops_walk *w, const qkv_config *c, const int64_t *lengths, int64_t sequences,
                                  qkv_flops **flops) {
    char cell[QKV_NETWORK_WORDS];
    QKV_TRY(qkv_flops_check(w->ctx, lengths, sequences, 1, 1, 4 * c->dim));
    QKV_TRY(qkv_flops_begin(w, w->ctx, lengths, sequences, 1));
    QKV_TRY(qkv_flops_recurrent(w, c, flops));
    qkv_flops *f = *flops;
    f->alone = 1;
    f->dtype = c->bf16 ? QKV_COMPUTE_BF16 : QKV_COMPUTE_F32;
    qkv_cell_words(c, cell);
    snprintf(f->what, sizeof f->what, "one layer alone%s, dim %" PRId64, cell, c->dim);
    batch_words(f);
    return QKV_OK;
}

static qkv_status count_one(qkv_flops_walk *w, const qkv_flops_options *o, const qkv_config *c, const int64_t *lengths,
                            int64_t sequences, qkv_flops **flops) {
    if (o->layers > 0) return count_network(w, c, lengths, sequences, o->segments, flops);
    if (qkv_config_recurrent(c)) return count_recurrent(w, c, lengths, sequences, flops);
    return count_attention(w, o, lengths, sequences, flops);
}

static qkv_status check(qkv_ctx *ctx, const char *call, const qkv_flops_options *o, const int64_t *lengths, int64_t sequences,
                        qkv_flops **flops) {
    if (flops) *flops = NULL;
    if (o && flops && (lengths || sequences <= 0)) return QKV_OK;
    return qkv_fail(ctx, QKV_BAD_ARGUMENT, "%s: %s is NULL", call, !o ? "options" : !flops ? "flops" : "lengths");
}

static int64_t longest(const int64_t *lengths, int64_t sequences) {
    int64_t n = 0;
    for (int64_t i = 0; i < sequences; i++) n = most(n, lengths[i]);
    return n;
}

qkv_status qkv_flops_count(qkv_ctx *ctx, const qkv_flops_options *options, const int64_t *lengths, int64_t sequences,
                           qkv_flops **flops) {
    if (!ctx) return QKV_BAD_ARGUMENT;
    QKV_TRY(check(ctx, "qkv_flops_count", options, lengths, sequences, flops));
    if (options->layers == 0 && options->recompute)
        return qkv_fail(ctx, QKV_BAD_CONFIG, "recompute is of the layers of a network, and there is none (layers=0)");
    if (options->layers == 0 && options->pattern == QKV_PATTERN_ALTERNATING)
        return qkv_fail(ctx, QKV_BAD_CONFIG, "pattern=alternating is of the layers of a network, and there is none (layers=0)");
    qkv_flops_walk w = {.ctx = ctx, .train = options->train != 0, .recompute = options->train && options->recompute};
    QKV_TRY(qkv_config_check_causal(ctx, options->causal, options->window));
    QKV_TRY(qkv_flops_check(ctx, lengths, sequences, 1, 1, 1));
    const qkv_config config = qkv_flops_config(options, longest(lengths, sequences));
    QKV_TRY(qkv_config_check(ctx, &config));
    qkv_status status = count_one(&w, options, &config, lengths, sequences, flops);
    qkv_flops_end(&w);
    return status;
}

/* Of each word that begins at a token: the runs that begin with it, and what it begins with itself, of 4 and of 6 letters. */
static void count_linear(const qkv_bag *bag, qkv_flops *f) {
    if (!bag) return;
    f->linear_features = bag->features;
    f->linear_weights = (bag->features + 1) * bag->classes;
    f->linear_flops = (double)f->tokens * (double)(bag->ngrams + (bag->beginnings ? 2 : 0)) * (double)bag->classes;
}

qkv_status qkv_flops_count_model(const qkv_model *model, const qkv_flops_options *options, const int64_t *lengths,
                                 int64_t sequences, qkv_flops **flops) {
    if (!model) return QKV_BAD_ARGUMENT;
    qkv_ctx *ctx = model->ctx;
    QKV_TRY(check(ctx, "qkv_flops_count_model", options, lengths, sequences, flops));
    qkv_config config = model->config;
    if (config.reversible && options->train && options->recompute)
        return qkv_fail(ctx, QKV_BAD_CONFIG, "recompute has no effect on this model: it is reversible and keeps nothing");
    config.bf16 = options->dtype == QKV_COMPUTE_BF16;
    qkv_flops_walk w = {.ctx = ctx, .train = options->train != 0, .recompute = options->train && options->recompute};
    qkv_status status = count_network(&w, &config, lengths, sequences, options->segments, flops);
    qkv_flops_end(&w);
    if (status == QKV_OK) count_linear(qkv_model_bag(model), *flops);
    return status;
}

/* ---- the lengths of a data file ---- */

typedef struct lengths_list {
    int64_t *p, count, capacity;
    qkv_flops_segments *segments; /* NULL: they are not asked for */
    int64_t cut, cut_capacity;
} lengths_list;

static qkv_status add_segments(const qkv_model *model, const qkv_record *record, const qkv_token *tokens, int64_t count, lengths_list *list) {
    qkv_flops_segments *s = list->segments;
    if (!s || model->config.segment == QKV_SEGMENT_NONE) return QKV_OK;
    if (list->cut + count > list->cut_capacity) {
        list->cut_capacity = 2 * (list->cut + count) + 64;
        QKV_TRY(qkv_grow(model->ctx, list->cut_capacity, sizeof *s->size, &s->size));
    }
    QKV_TRY(qkv_grow(model->ctx, list->capacity + 1, sizeof *s->at, &s->at));
    s->at[list->count] = list->cut;
    list->cut += qkv_model_segments(&model->config, record->text, record->text_size, tokens, count, s->size + list->cut);
    s->at[list->count + 1] = list->cut;
    return QKV_OK;
}

static qkv_status add_text(const qkv_model *model, const qkv_rows *rows, const qkv_record *record, lengths_list *list) {
    enum { MOST = 1 << 20 };
    qkv_token *tokens;
    int64_t count;
    if (list->count == MOST) return qkv_fail(model->ctx, QKV_BAD_DATA, "%s: more than %d rows", qkv_rows_name(rows), (int)MOST);
    if (list->count == list->capacity) {
        list->capacity = 2 * list->capacity + 64;
        QKV_TRY(qkv_grow(model->ctx, list->capacity, sizeof *list->p, &list->p));
    }
    QKV_TRY(qkv_model_tokens(model, record->text, record->text_size, &tokens, &count, NULL));
    qkv_status status = add_segments(model, record, tokens, count, list);
    qkv_free(model->ctx, tokens);
    list->p[list->count++] = count;
    return status;
}

qkv_status qkv_flops_lengths(const qkv_model *model, const char *path, const qkv_data_options *data, int64_t **lengths,
                             int64_t *count, qkv_flops_segments *segments) {
    if (!model) return QKV_BAD_ARGUMENT;
    qkv_ctx *ctx = model->ctx;
    if (!path || !lengths || !count)
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "qkv_flops_lengths: %s is NULL", !path ? "path" : !lengths ? "lengths" : "count");
    lengths_list list = {.segments = segments};
    qkv_rows *rows;
    qkv_record record;
    *lengths = NULL;
    *count = 0;
    if (segments) *segments = (qkv_flops_segments){0};
    QKV_TRY(qkv_rows_start(ctx, path, data, QKV_WANT_TEXT, model->config.pair, &rows));
    qkv_rows_by_content(rows);
    qkv_status status = qkv_rows_read(rows, &record);
    while (status == QKV_OK && record.text) {
        status = add_text(model, rows, &record, &list);
        if (status == QKV_OK) status = qkv_rows_read(rows, &record);
    }
    qkv_rows_close(rows);
    if (status != QKV_OK) {
        qkv_free(ctx, list.p);
        if (segments) qkv_free(ctx, segments->at), qkv_free(ctx, segments->size), *segments = (qkv_flops_segments){0};
        return status;
    }
    *lengths = list.p;
    *count = list.count;
    return QKV_OK;
}
