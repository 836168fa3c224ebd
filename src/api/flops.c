/* The public side of counting costs: arguments are checked, src/report does the work. */
#include "qkv/flops.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"
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

static void network_words(const qkv_config *c, const qkv_tokenizer *t, qkv_flops *f) {
    char words[QKV_NETWORK_WORDS];
    qkv_network_words(c, t, words);
    snprintf(f->what, sizeof f->what, "%s, vocabulary %" PRId64 ", %" PRId64 " %s", words, c->vocab, c->classes,
             c->classes == 1 ? "class" : "classes");
}

static void attention_words(const qkv_block_shape *s, const qkv_config *c, qkv_flops *f) {
    const qkv_global_rule globals = qkv_config_globals(c);
    char words[QKV_NETWORK_WORDS];
    qkv_attention_words(s, &globals, words);
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

/* Products of queries with vectors by distance, which are none of pairs: so many a token, and in segments a segment. */
static double products_by_distance(const qkv_config *c, const qkv_flops *f) {
    if (c->position != QKV_POSITION_SHAW) return 0;
    const double upper = (double)f->segments * (double)qkv_config_segment_layers(c) / (double)c->layers;
    return (double)(2 * qkv_config_reach(c) + 1) * ((double)f->tokens + upper);
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
                                const qkv_flops_segments *segments, const qkv_tokenizer *tokenizer, qkv_flops **flops) {
    QKV_TRY(qkv_flops_check(w->ctx, lengths, sequences, c->layers, c->heads,
                            most(most(3 * c->dim, 2 * c->ffn), 3 * c->heads * c->head_dim)));
    QKV_TRY(qkv_flops_begin(w, w->ctx, lengths, sequences, c->layers + qkv_config_segment_layers(c)));
    QKV_TRY(qkv_flops_cut(w, c, segments));
    QKV_TRY(qkv_flops_list(w, c, segments));
    QKV_TRY(qkv_flops_network(w, c, flops));
    qkv_flops *f = *flops;
    f->dtype = c->bf16 ? QKV_COMPUTE_BF16 : QKV_COMPUTE_F32;
    f->attention_f32 = c->bf16 && qkv_config_attention_f32(c);
    network_words(c, tokenizer, f);
    batch_words(f);
    segment_words(c, f);
    find_pairs(f, (double)(c->layers * c->heads * c->head_dim));
    if (f->pairs > 0) f->pairs -= upper_pairs(c, &w->batch) + products_by_distance(c, f);
    return QKV_OK;
}

static qkv_status count_attention(qkv_flops_walk *w, const qkv_flops_options *o, const qkv_config *c, const int64_t *lengths,
                                  int64_t sequences, qkv_flops **flops) {
    const qkv_block_shape shape = qkv_flops_layer(o);
    QKV_TRY(qkv_flops_check(w->ctx, lengths, sequences, 1, shape.heads, 3 * shape.dim));
    QKV_TRY(qkv_flops_begin(w, w->ctx, lengths, sequences, 1));
    QKV_TRY(qkv_flops_list(w, c, NULL));
    w->x.bf16 = o->dtype == QKV_COMPUTE_BF16;
    QKV_TRY(qkv_flops_attention(w, &shape, flops));
    qkv_flops *f = *flops;
    f->alone = 1;
    f->dtype = o->dtype;
    f->attention_f32 = o->dtype == QKV_COMPUTE_BF16 && qkv_config_attention_f32(c);
    attention_words(&shape, c, f);
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
    if (o->layers > 0) return count_network(w, c, lengths, sequences, o->segments, NULL, flops);
    if (qkv_config_recurrent(c)) return count_recurrent(w, c, lengths, sequences, flops);
    return count_attention(w, o, c, lengths, sequences, flops);
}

static qkv_status check(qkv_ctx *ctx, const char *call, const qkv_flops_options *o, const int64_t *lengths, int64_t sequences,
                        qkv_flops **flops) {
    if (flops) *flops = NULL;
    if (o && !(o->measure >= 0 && o->measure <= 1e6))
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "measure=%s: expected 0 to 1e6 seconds", qkv_plain(o->measure).s);
    if (o && flops && (lengths || sequences <= 0)) return QKV_OK;
    return qkv_fail(ctx, QKV_BAD_ARGUMENT, "%s: %s is NULL", call, !o ? "options" : !flops ? "flops" : "lengths");
}

static int64_t longest(const int64_t *lengths, int64_t sequences) {
    int64_t n = 0;
    for (int64_t i = 0; i < sequences; i++) n = most(n, lengths[i]);
    return n;
}

/* What is computed again, refused where nothing would be. */
static qkv_status saving_of(qkv_ctx *ctx, const qkv_config *c, const qkv_flops_options *o, qkv_saving *saving) {
    static const char *const names[] = {"none", "blocks", "sqrt", "attention", "pointwise"};
    *saving = (qkv_saving){0};
    if (!o->train) return QKV_OK;
    if (o->recompute < 0 || o->recompute > QKV_RECOMPUTE_POINTWISE || o->recompute_every < 0 || o->ffn_chunk < 0)
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "recompute=%d, recompute_every=%lld, ffn_chunk=%lld: no such choice", o->recompute,
                        (long long)o->recompute_every, (long long)o->ffn_chunk);
    if (c->reversible && o->recompute)
        return qkv_fail(ctx, QKV_BAD_CONFIG, "recompute has no effect on a reversible network, which keeps nothing");
    if (qkv_config_recurrent(c) && (o->recompute >= QKV_RECOMPUTE_ATTENTION || o->ffn_chunk > 0))
        return qkv_fail(ctx, QKV_BAD_CONFIG, "%s%s has no effect on layers of %s; try recompute=blocks",
                        o->ffn_chunk > 0 ? "ffn_chunk" : "recompute=", o->ffn_chunk > 0 ? "" : names[o->recompute],
                        qkv_network_name(c->model));
    if (o->recompute_every > 0 && o->recompute != QKV_RECOMPUTE_BLOCKS)
        return qkv_fail(ctx, QKV_BAD_CONFIG, "recompute_every=%lld has no effect without recompute=blocks",
                        (long long)o->recompute_every);
    *saving = qkv_saving_of((qkv_recompute_policy)o->recompute, o->recompute_every, o->ffn_chunk, c->layers);
    return QKV_OK;
}

static qkv_status check_global_at(qkv_ctx *ctx, const qkv_flops_options *o) {
    if (!memchr(o->global_at, 0, sizeof o->global_at)) return qkv_fail(ctx, QKV_BAD_ARGUMENT, "global-at is not ended by a NUL");
    return qkv_numbers_check(ctx, "global-at", o->global_at, QKV_LONGEST - 1);
}

qkv_status qkv_flops_count(qkv_ctx *ctx, const qkv_flops_options *options, const int64_t *lengths, int64_t sequences,
                           qkv_flops **flops) {
    if (!ctx) return QKV_BAD_ARGUMENT;
    QKV_TRY(check(ctx, "qkv_flops_count", options, lengths, sequences, flops));
    if (options->layers == 0 && (options->recompute || options->ffn_chunk))
        return qkv_fail(ctx, QKV_BAD_CONFIG, "%s is of the layers of a network, and there is none (layers=0)",
                        options->recompute ? "recompute" : "ffn_chunk");
    if (options->layers == 0 && options->pattern == QKV_PATTERN_ALTERNATING)
        return qkv_fail(ctx, QKV_BAD_CONFIG, "pattern=alternating is of the layers of a network, and there is none (layers=0)");
    qkv_flops_walk w = {.ctx = ctx, .train = options->train != 0, .measure = options->measure};
    QKV_TRY(qkv_config_check_causal(ctx, options->causal, options->window));
    QKV_TRY(qkv_config_check_name(ctx, (qkv_pattern_kind)options->pattern, options->window, options->dilation, options->layers));
    QKV_TRY(check_global_at(ctx, options));
    QKV_TRY(qkv_flops_check(ctx, lengths, sequences, 1, 1, 1));
    const qkv_config config = qkv_flops_config(options, longest(lengths, sequences));
    QKV_TRY(qkv_config_check(ctx, &config));
    QKV_TRY(saving_of(ctx, &config, options, &w.saving));
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
    config.bf16 = options->dtype == QKV_COMPUTE_BF16;
    qkv_flops_walk w = {.ctx = ctx, .train = options->train != 0, .measure = options->measure};
    QKV_TRY(saving_of(ctx, &config, options, &w.saving));
    qkv_status status = count_network(&w, &config, lengths, sequences, options->segments, model->tokenizer, flops);
    qkv_flops_end(&w);
    if (status == QKV_OK) count_linear(qkv_model_bag(model), *flops);
    return status;
}

/* ---- the lengths of a data file ---- */

typedef struct lengths_list {
    int64_t *p, count, capacity;
    qkv_flops_segments *segments; /* NULL: they are not asked for */
    int64_t cut, cut_capacity;
    int32_t *ids; /* of a text */
    int64_t sequences, sequences_capacity, globals, globals_capacity, ids_capacity;
} lengths_list;

static qkv_status add_segments(const qkv_model *model, const qkv_record *record, const qkv_token *tokens, int64_t count, lengths_list *list) {
    qkv_flops_segments *s = list->segments;
    if (!s || model->config.segment == QKV_SEGMENT_NONE) return QKV_OK;
    if (list->cut + count > list->cut_capacity || !s->size) {
        list->cut_capacity = 2 * (list->cut + count) + 64;
        QKV_TRY(qkv_grow(model->ctx, list->cut_capacity, sizeof *s->size, &s->size));
    }
    QKV_TRY(qkv_grow(model->ctx, list->capacity + 1, sizeof *s->at, &s->at));
    s->at[list->count] = list->cut;
    list->cut += qkv_model_segments(&model->config, record->text, record->text_size, tokens, count, s->size + list->cut);
    s->at[list->count + 1] = list->cut;
    return QKV_OK;
}

static qkv_status global_room(qkv_ctx *ctx, int64_t sequences, int64_t tokens, lengths_list *list) {
    qkv_flops_segments *s = list->segments;
    if (list->sequences + sequences >= list->sequences_capacity) {
        list->sequences_capacity = 2 * (list->sequences + sequences) + 64;
        QKV_TRY(qkv_grow(ctx, list->sequences_capacity, sizeof *s->global_offset, &s->global_offset));
    }
    if (list->globals + tokens > list->globals_capacity || !s->global_at) {
        list->globals_capacity = 2 * (list->globals + tokens) + 64;
        QKV_TRY(qkv_grow(ctx, list->globals_capacity, sizeof *s->global_at, &s->global_at));
    }
    if (tokens <= list->ids_capacity) return QKV_OK;
    list->ids_capacity = 2 * tokens;
    return qkv_grow(ctx, list->ids_capacity, sizeof *list->ids, &list->ids);
}

/* Of the text that was added last. */
static qkv_status add_globals(const qkv_model *model, const qkv_token *tokens, int64_t count, lengths_list *list) {
    const qkv_global_rule globals = qkv_config_globals(&model->config);
    qkv_flops_segments *s = list->segments;
    if (!s || !qkv_globals_read(&globals)) return QKV_OK;
    const int64_t first = s->at ? s->at[list->count] : 0, last = s->at ? s->at[list->count + 1] : 1;
    QKV_TRY(global_room(model->ctx, last - first, count, list));
    for (int64_t i = 0; i < count; i++) list->ids[i] = tokens[i].id;
    for (int64_t i = first, at = 0; i < last; i++) {
        const int64_t n = s->at ? s->size[i] : count;
        s->global_offset[list->sequences++] = list->globals;
        list->globals += qkv_globals_list(&globals, list->ids + at, n, s->global_at + list->globals);
        s->global_offset[list->sequences] = list->globals;
        at += n;
    }
    return QKV_OK;
}

static void segments_free(qkv_ctx *ctx, qkv_flops_segments *s) {
    qkv_free(ctx, s->at);
    qkv_free(ctx, s->size);
    qkv_free(ctx, s->global_offset);
    qkv_free(ctx, s->global_at);
    *s = (qkv_flops_segments){0};
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
    if (status == QKV_OK) status = add_globals(model, tokens, count, list);
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
    qkv_free(ctx, list.ids);
    if (status != QKV_OK) {
        qkv_free(ctx, list.p);
        if (segments) segments_free(ctx, segments);
        return status;
    }
    *lengths = list.p;
    *count = list.count;
    return QKV_OK;
}
