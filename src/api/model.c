/* qkv/model.h, but for loading, saving and freeing (models/store.c, models/model.c). */
#include <math.h>
#include <stdio.h>

#include "base/number.h"
#include "formats/json.h"
#include "models/globals.h"
#include "models/hierarchy.h"
#include "models/model.h"
#include "report/network.h"
#include "text/tokenizer.h"

/* ---- looking ---- */

const char *qkv_model_task(const qkv_model *model) {
    return model ? model->task : NULL;
}
const qkv_tokenizer *qkv_model_tokenizer(const qkv_model *model) {
    return model ? model->tokenizer : NULL;
}
int64_t qkv_model_dim(const qkv_model *model) {
    return model ? model->config.dim : 0;
}
int64_t qkv_model_labels(const qkv_model *model) {
    return model ? model->config.classes : 0;
}

const char *qkv_model_label(const qkv_model *model, int64_t index) {
    return model && index >= 0 && index < model->config.classes ? model->labels[index] : NULL;
}

int qkv_model_multi_label(const qkv_model *model) { return model && model->config.multi_label; }
int qkv_model_pair(const qkv_model *model) { return model && model->config.pair; }

double qkv_model_threshold(const qkv_model *model, int64_t index) {
    return model && model->thresholds && index >= 0 && index < model->config.classes ? model->thresholds[index] : 0;
}

qkv_compute qkv_model_compute(const qkv_model *model) {
    return model && model->config.bf16 ? QKV_COMPUTE_BF16 : QKV_COMPUTE_F32;
}

qkv_status qkv_model_set_compute(qkv_model *model, qkv_compute compute) {
    if (!model) return QKV_BAD_ARGUMENT;
    if (compute != QKV_COMPUTE_F32 && compute != QKV_COMPUTE_BF16)
        return qkv_fail(model->ctx, QKV_BAD_ARGUMENT, "compute=%d is neither QKV_COMPUTE_F32 nor QKV_COMPUTE_BF16", (int)compute);
    qkv_model_use_bf16(model, compute == QKV_COMPUTE_BF16);
    return QKV_OK;
}

void qkv_reading_init(qkv_reading *reading) {
    if (reading) *reading = (qkv_reading){.struct_size = sizeof *reading, .position_beyond = -1, .rope_stretch = -1};
}

static qkv_status check_reading(const qkv_model *model, const qkv_reading *r) {
    const qkv_position position = model->config.position;
    qkv_ctx *ctx = model->ctx;
    if (r->struct_size != sizeof *r)
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "qkv_reading.struct_size is %zu, expected %zu: call qkv_reading_init first", r->struct_size,
                        sizeof *r);
    if (r->max_length < 0 || r->max_length > QKV_LONGEST)
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "max_length=%lld is not in 0..%d", (long long)r->max_length, QKV_LONGEST);
    if (r->position_beyond < -1 || r->position_beyond > QKV_BEYOND_INTERPOLATE || r->rope_stretch < -1 || r->rope_stretch > QKV_STRETCH_YARN)
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "position_beyond=%d, rope_stretch=%d: no such choice", r->position_beyond, r->rope_stretch);
    if (r->rope_factor != 0 && !(r->rope_factor >= 1 && r->rope_factor <= 1e6))
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "rope_factor=%g is not in 1..1000000", r->rope_factor);
    if (r->position_beyond >= 0 && position != QKV_POSITION_LEARNED)
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "position_beyond is of learned positions; this model has none");
    if ((r->rope_stretch >= 0 || r->rope_factor != 0) && position != QKV_POSITION_ROPE)
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "rope_stretch and rope_factor are of rotary positions; this model has none");
    if (r->rope_factor != 0 && (r->rope_stretch >= 0 ? r->rope_stretch : (int)model->config.rope_stretch) == QKV_STRETCH_NONE)
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "rope_factor=%g has no effect without a rope_stretch", r->rope_factor);
    return QKV_OK;
}

qkv_status qkv_model_set_reading(qkv_model *model, const qkv_reading *reading) {
    if (!model) return QKV_BAD_ARGUMENT;
    if (!reading) return qkv_fail(model->ctx, QKV_BAD_ARGUMENT, "the qkv_reading is NULL");
    QKV_TRY(check_reading(model, reading));
    qkv_config c = model->config;
    const double made_for = (double)(c.rope_length > 0 ? c.rope_length : c.max_length);
    const double longest = (double)(reading->max_length > 0 ? reading->max_length : c.max_length);
    if (reading->position_beyond >= 0) c.position_beyond = (qkv_position_beyond)reading->position_beyond;
    if (reading->rope_stretch >= 0) {
        const double own = c.rope_stretch != QKV_STRETCH_NONE && c.rope_factor > 1 ? c.rope_factor : 1; /* that it was trained with */
        c.rope_stretch = (qkv_rope_stretch)reading->rope_stretch;
        c.rope_factor = longest > own * made_for ? longest / made_for : own;
    }
    if (reading->rope_factor != 0) c.rope_factor = reading->rope_factor;
    if (reading->rope_stretch > QKV_STRETCH_NONE && !(c.rope_factor > 1))
        return qkv_fail(model->ctx, QKV_BAD_ARGUMENT, "rope_stretch has no effect up to the %s tokens this model was made for: it needs a larger "
                                                      "max_length, or a rope_factor", qkv_plain(made_for).s);
    if (reading->position_beyond >= 0 && longest <= (double)c.max_length)
        return qkv_fail(model->ctx, QKV_BAD_ARGUMENT, "position_beyond has no effect up to the %lld tokens this model has positions for: it needs a "
                                                      "larger max_length", (long long)c.max_length);
    if (reading->max_length > qkv_config_longest(&c))
        return qkv_fail(model->ctx, QKV_BAD_ARGUMENT,
                        "max_length=%lld: this model has learned positions for %lld tokens; position_beyond says what is to follow",
                        (long long)reading->max_length, (long long)c.max_length);
    model->config = c;
    model->max_length = reading->max_length;
    qkv_classifier_set_positions(model->net, &c);
    return QKV_OK;
}

/* ---- one text ---- */

qkv_status qkv_model_tokens(const qkv_model *model, const char *text, int64_t length, qkv_token **tokens, int64_t *count,
                            int64_t *full_count) {
    if (!model) return QKV_BAD_ARGUMENT;
    qkv_ctx *ctx = model->ctx;
    if (!tokens || !count) return qkv_fail(ctx, QKV_BAD_ARGUMENT, "tokens and count must not be NULL");
    *tokens = NULL;
    *count = 0;
    QKV_TRY(qkv_text_check(ctx, "text", 0, text, length));
    /* A guess that nearly always holds: normalization may make more of a text. */
    const qkv_config reads = qkv_model_reads(model);
    int64_t room = length < reads.max_length - 2 ? length + 2 : reads.max_length;
    qkv_token *made;
    if (!text) text = "";
    QKV_TRY(qkv_alloc(ctx, room, sizeof *made, &made));
    qkv_status status = qkv_model_input(ctx, &reads, model->tokenizer, text, length, made, room, count, full_count);
    if (status == QKV_OK && *count > room) {
        room = *count;
        status = qkv_grow(ctx, room, sizeof *made, &made);
        if (status == QKV_OK)
            status = qkv_model_input(ctx, &reads, model->tokenizer, text, length, made, room, count, full_count);
    }
    if (status != QKV_OK) {
        *count = 0;
        qkv_free(ctx, made);
        return status;
    }
    *tokens = made;
    return QKV_OK;
}

/* Runs `batch` (of one sequence) twice: once to learn how much scratch it needs, once for good. */
static qkv_status run_weights(const qkv_model *model, const qkv_batch *batch, int64_t layer, int64_t head, float *weights) {
    qkv_ctx *ctx = model->ctx;
    const qkv_reg *reg = qkv_classifier_reg(model->net);
    qkv_exec plan = {.ctx = ctx, .plan = true, .pass = QKV_PASS_FORWARD, .reg = reg};
    qkv_batch planned = *batch;
    planned.ids = NULL;
    QKV_TRY(qkv_classifier_weights(&plan, model->net, &planned, layer, head, NULL));
    qkv_exec x = {.ctx = ctx, .pass = QKV_PASS_FORWARD, .reg = reg, .weights = model->weights, .packed = model->packed};
    x.arena.size = plan.arena.peak;
    QKV_TRY(qkv_alloc(ctx, (int64_t)plan.arena.peak, 1, &x.arena.base));
    qkv_status status = qkv_classifier_weights(&x, model->net, batch, layer, head, weights);
    qkv_free(ctx, x.arena.base);
    return status;
}

/* The text as a batch of one; ids and sizes have room for its tokens. */
static qkv_status batch_of(const qkv_model *model, const char *text, int64_t length, const qkv_token *tokens, int64_t *offset, int32_t *ids,
                           int32_t *sizes, qkv_batch *batch) {
    const int64_t count = offset[1];
    int64_t at[2] = {0, 0};
    for (int64_t i = 0; i < count; i++) ids[i] = tokens[i].id;
    *batch = (qkv_batch){.n_seq = 1, .offset = offset, .ids = ids};
    if (model->config.segment != QKV_SEGMENT_NONE) {
        at[1] = qkv_model_segments(&model->config, text, length, tokens, count, sizes);
        QKV_TRY(qkv_hierarchy_cut(model->ctx, at, sizes, batch));
    }
    return qkv_batch_list_globals(model->ctx, &model->config, batch);
}

static qkv_status weights_of_tokens(const qkv_model *model, const char *text, int64_t length, const qkv_token *tokens, int64_t count,
                                    int64_t layer, int64_t head, float *weights) {
    int64_t offset[2] = {0, count};
    int32_t *ids;
    qkv_batch batch = {0};
    QKV_TRY(qkv_alloc(model->ctx, 2 * count, sizeof *ids, &ids));
    qkv_status status = batch_of(model, text, length, tokens, offset, ids, ids + count, &batch);
    if (status == QKV_OK) status = run_weights(model, &batch, layer, head, weights);
    for (int64_t i = 0; status == QKV_OK && i < count * count; i++)
        if (!isfinite(weights[i])) status = qkv_model_no_number(model, "the text");
    qkv_free(model->ctx, (void *)batch.segments);
    qkv_free(model->ctx, (void *)batch.global_offset);
    qkv_free(model->ctx, ids);
    return status;
}

static qkv_status check_range(const qkv_model *model, const char *what, int64_t index, int64_t count) {
    if (index >= 0 && index < count) return QKV_OK;
    return qkv_fail(model->ctx, QKV_BAD_ARGUMENT, "%s %lld is out of range: the model has %lld (0..%lld)", what, (long long)index,
                    (long long)count, (long long)count - 1);
}

qkv_status qkv_model_attention(const qkv_model *model, const char *text, int64_t length, int64_t layer, int64_t head,
                               float *weights) {
    if (!model) return QKV_BAD_ARGUMENT;
    qkv_ctx *ctx = model->ctx;
    if (qkv_config_recurrent(&model->config))
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "this model has no attention weights to show: its encoder is of kind %s",
                        qkv_network_name(model->config.model));
    QKV_TRY(check_range(model, "layer", layer, model->config.layers + qkv_config_segment_layers(&model->config)));
    QKV_TRY(check_range(model, "head", head, model->config.heads));
    qkv_token *tokens;
    int64_t count;
    QKV_TRY(qkv_model_tokens(model, text, length, &tokens, &count, NULL));
    qkv_status status = QKV_OK;
    if (count && !weights) status = qkv_fail(ctx, QKV_BAD_ARGUMENT, "weights must not be NULL");
    if (status == QKV_OK && count) status = weights_of_tokens(model, text, length, tokens, count, layer, head, weights);
    qkv_free(ctx, tokens);
    return status;
}

/* ---- describe ---- */

static qkv_status no_memory(qkv_ctx *ctx) {
    return qkv_fail(ctx, QKV_NO_MEMORY, "out of memory while describing a model");
}

/* Puts `value` (taken over, may be NULL) into `object`. */
static qkv_status put(qkv_ctx *ctx, json_t *object, const char *key, json_t *value) {
    return value && json_object_set_new(object, key, value) == 0 ? QKV_OK : no_memory(ctx);
}

static qkv_status put_tokenizer(const qkv_model *model, json_t *out) {
    static const char *const kinds[] = {"bpe", "char", "byte"}, *const forms[] = {"none", "nfc", "nfkc"};
    if (!model->tokenizer) return put(model->ctx, out, "tokenizer", json_null());
    const qkv_tokenizer_options *o = qkv_tokenizer_options_of(model->tokenizer);
    return put(model->ctx, out, "tokenizer",
               json_pack("{s:s, s:I, s:b, s:s}", "kind", kinds[o->kind], "vocab", (json_int_t)qkv_tokenizer_vocab(model->tokenizer),
                         "lowercase", o->lowercase, "normalize", forms[o->normalize]));
}

static json_t *parameter(const qkv_param *p) {
    json_t *shape = p->vector ? json_pack("[I]", (json_int_t)(p->rows * p->cols))
                              : json_pack("[I,I]", (json_int_t)p->rows, (json_int_t)p->cols);
    return json_pack("{s:s, s:o, s:I, s:b, s:b}", "name", p->name, "shape", shape, "count", (json_int_t)(p->rows * p->cols),
                     "decay", p->decay, "embedding", p->embedding);
}

static qkv_status put_parameters(const qkv_model *model, json_t *out) {
    const qkv_reg *reg = qkv_classifier_reg(model->net);
    json_t *list = json_array();
    QKV_TRY(put(model->ctx, out, "parameters", list));
    int64_t count = 0;
    for (int64_t i = 0; i < reg->count; i++) {
        json_t *p = parameter(&reg->params[i]);
        if (!p || json_array_append_new(list, p)) return no_memory(model->ctx);
        count += reg->params[i].rows * reg->params[i].cols;
    }
    QKV_TRY(put(model->ctx, out, "parameter_count", json_integer(count)));
    int64_t held = reg->size + qkv_reg_packed_size(reg, model->config.bf16); /* weights and their packed copies */
    return put(model->ctx, out, "bytes", json_integer(held * (int64_t)sizeof(real) + qkv_bag_bytes(&model->bag)));
}

static qkv_status put_linear(const qkv_model *model, json_t *out) {
    const qkv_bag *b = qkv_model_bag(model);
    if (!b) return QKV_OK;
    return put(model->ctx, out, "linear", json_pack("{s:I, s:I, s:I}", "ngrams", (json_int_t)b->ngrams, "runs", (json_int_t)b->features, "bytes",
                                                    (json_int_t)qkv_bag_bytes(b)));
}

static qkv_status put_flops(const qkv_model *model, int64_t tokens, json_t *out) {
    qkv_exec x = {.ctx = model->ctx, .plan = true, .pass = QKV_PASS_FORWARD, .reg = qkv_classifier_reg(model->net)};
    int64_t offset[2] = {0, tokens};
    qkv_batch batch = {.n_seq = 1, .offset = offset};
    QKV_TRY(qkv_hierarchy_assume(model->ctx, qkv_config_segment_length(&model->config), &batch));
    qkv_status status = qkv_batch_list_globals(model->ctx, &model->config, &batch);
    if (status == QKV_OK)
        status = qkv_classifier_forward(&x, model->net, &batch, (qkv_mat){NULL, 1, model->config.classes, model->config.classes});
    qkv_free(model->ctx, (void *)batch.segments);
    qkv_free(model->ctx, (void *)batch.global_offset);
    QKV_TRY(status);
    char key[32];
    snprintf(key, sizeof key, "%lld", (long long)tokens);
    return put(model->ctx, out, key, json_real(qkv_tally_flops(&x.tally) / (double)tokens));
}

static qkv_status put_work(const qkv_model *model, json_t *out) {
    json_t *flops = json_object();
    QKV_TRY(put(model->ctx, out, "flops_per_token", flops));
    if (model->config.max_length > 32) QKV_TRY(put_flops(model, 32, flops));
    return put_flops(model, model->config.max_length, flops);
}

static qkv_status describe(const qkv_model *model, json_t *out) {
    qkv_ctx *ctx = model->ctx;
    QKV_TRY(put(ctx, out, "task", json_string(model->task)));
    QKV_TRY(put(ctx, out, "version", json_integer(QKV_MODEL_FILE_VERSION)));
    char words[QKV_NETWORK_WORDS];
    qkv_network_words(&model->config, model->tokenizer, words);
    QKV_TRY(put(ctx, out, "network", json_string(words)));
    json_t *labels, *config;
    QKV_TRY(qkv_labels_to_json(model, &labels));
    QKV_TRY(put(ctx, out, "labels", labels));
    if (model->thresholds) {
        json_t *thresholds;
        QKV_TRY(qkv_thresholds_to_json(model, &thresholds));
        QKV_TRY(put(ctx, out, "thresholds", thresholds));
    }
    QKV_TRY(put_tokenizer(model, out));
    QKV_TRY(qkv_config_to_json(ctx, &model->config, &config));
    QKV_TRY(put(ctx, out, "config", config));
    QKV_TRY(put_parameters(model, out));
    QKV_TRY(put_linear(model, out));
    QKV_TRY(put_work(model, out));
    return put(ctx, out, "record", json_incref(model->record));
}

qkv_status qkv_model_describe(const qkv_model *model, char **json) {
    if (!model) return QKV_BAD_ARGUMENT;
    if (!json) return qkv_fail(model->ctx, QKV_BAD_ARGUMENT, "json must not be NULL");
    *json = NULL;
    json_t *out = json_object();
    if (!out) return no_memory(model->ctx);
    qkv_buf text = {model->ctx, NULL, 0, 0};
    qkv_status status = describe(model, out);
    if (status == QKV_OK) status = qkv_json_print(out, &text);
    json_decref(out);
    if (status != QKV_OK) {
        qkv_buf_free(&text);
        return status;
    }
    *json = text.p;
    return QKV_OK;
}
