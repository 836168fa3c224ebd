#include "train/checkpoint.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "formats/json.h"
#include "formats/safetensors.h"
#include "models/model.h"

enum { CHECKPOINT_VERSION = 1, DEPTH = 8 };

/* ---- the numbers of the loop ---- */

static json_t *number(double x) { return isfinite(x) ? json_real(x) : isnan(x) ? json_null() : json_string(x > 0 ? "inf" : "-inf"); }

static json_t *state_to_json(const qkv_train_state *s) {
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:b}", "step", (json_int_t)s->step, "updates",
                     (json_int_t)s->updates, "epoch", (json_int_t)s->epoch, "window", (json_int_t)s->window, "skipped",
                     (json_int_t)s->skipped, "skipped_in_row", (json_int_t)s->skipped_in_row, "evaluations", (json_int_t)s->evaluations,
                     "evaluated_at", (json_int_t)s->evaluated_at, "best_step", (json_int_t)s->best_step, "next_evaluation",
                     number(s->next_evaluation), "loss", number(s->best.loss), "accuracy", number(s->best.accuracy), "macro_f1",
                     number(s->best.macro_f1), "metric", number(s->best.metric), "blind", s->best.blind);
}

static bool read_count(const json_t *json, const char *key, int64_t least, int64_t *value) {
    const json_t *v = json_object_get(json, key);
    if (!json_is_integer(v) || json_integer_value(v) < least) return false;
    *value = json_integer_value(v);
    return true;
}

static bool read_number(const json_t *json, const char *key, double *value) {
    const json_t *v = json_object_get(json, key);
    const char *text = json_string_value(v);
    if (json_is_null(v)) *value = (double)NAN;
    else if (json_is_number(v)) *value = json_number_value(v);
    else if (text && (!strcmp(text, "inf") || !strcmp(text, "-inf"))) *value = text[0] == '-' ? -(double)INFINITY : (double)INFINITY;
    else return false;
    return true;
}

static bool state_from_json(const json_t *json, qkv_train_state *s) {
    const json_t *blind = json_object_get(json, "blind");
    bool good = json_is_boolean(blind) && read_count(json, "step", 0, &s->step) && read_count(json, "updates", 0, &s->updates) &&
                read_count(json, "epoch", 0, &s->epoch) && read_count(json, "window", 0, &s->window) &&
                read_count(json, "skipped", 0, &s->skipped) && read_count(json, "skipped_in_row", 0, &s->skipped_in_row) &&
                read_count(json, "evaluations", 0, &s->evaluations) && read_count(json, "evaluated_at", -1, &s->evaluated_at) &&
                read_count(json, "best_step", -1, &s->best_step) && read_number(json, "next_evaluation", &s->next_evaluation) &&
                read_number(json, "loss", &s->best.loss) && read_number(json, "accuracy", &s->best.accuracy) &&
                read_number(json, "macro_f1", &s->best.macro_f1) && read_number(json, "metric", &s->best.metric);
    s->best.blind = json_is_true(blind);
    return good;
}

/* ---- writing ---- */

static qkv_tensor block(const char *name, const real *p, int64_t count) {
    return (qkv_tensor){.name = name, .dtype = sizeof(real) == 8 ? QKV_DTYPE_F64 : QKV_DTYPE_F32, .rank = 1, .shape = {count}, .count = count,
                        .data = p, .bytes = count * (int64_t)sizeof(real)};
}

static qkv_status write_file(qkv_ctx *ctx, const char *path, const char *identity, const char *numbers, const qkv_train_state *s) {
    const qkv_tensor tensors[] = {block("m", s->m, s->blocks), block("v", s->v, s->blocks), block("weights", s->weights, s->blocks),
                                  block("kept", s->kept, s->blocks)};
    const int64_t count = s->kept ? 4 : 3;
    char hex[65], version[16];
    snprintf(version, sizeof version, "%d", CHECKPOINT_VERSION);
    const qkv_metadata metadata[] = {{"qkv.checkpoint", version}, {"qkv.identity", identity}, {QKV_CHECKSUM_KEY, hex}, {"qkv.state", numbers}};
    const int64_t n = sizeof metadata / sizeof *metadata;
    qkv_model_checksum(metadata, n, tensors, count, hex);
    qkv_output *output;
    QKV_TRY(qkv_output_open(ctx, path, &output));
    qkv_status status = qkv_safetensors_write(ctx, output, tensors, count, metadata, n);
    if (status == QKV_OK) return qkv_output_commit(output);
    qkv_output_discard(output);
    return status;
}

qkv_status qkv_checkpoint_save(qkv_ctx *ctx, const char *path, const json_t *identity, const qkv_train_state *state) {
    qkv_buf who = {.ctx = ctx}, numbers = {.ctx = ctx};
    json_t *json = state_to_json(state);
    qkv_status status = json ? qkv_json_print(json, &numbers) : qkv_fail(ctx, QKV_NO_MEMORY, "out of memory for a checkpoint");
    if (status == QKV_OK) status = qkv_json_print(identity, &who);
    if (status == QKV_OK) status = write_file(ctx, path, who.p, numbers.p, state);
    json_decref(json);
    qkv_buf_free(&who);
    qkv_buf_free(&numbers);
    return status;
}

/* ---- reading ---- */

struct qkv_checkpoint {
    qkv_ctx *ctx;
    qkv_safetensors *file;
    qkv_train_state state; /* the numbers */
};

static qkv_status value_text(const json_t *value, qkv_buf *out) {
    if (!value) return qkv_buf_add(out, "nothing", 7);
    return qkv_json_print(value, out);
}

static qkv_status differ(qkv_ctx *ctx, const char *name, const char *group, const char *key, const json_t *had, const json_t *have) {
    qkv_buf a = {.ctx = ctx}, b = {.ctx = ctx};
    qkv_status status = value_text(had, &a);
    if (status == QKV_OK) status = value_text(have, &b);
    if (status == QKV_OK)
        status = qkv_fail(ctx, QKV_BAD_ARGUMENT, "%s is of another run and cannot be continued: of %s%s%s it had %.100s, this one has %.100s", name,
                          group, *group ? " " : "", key, a.p, b.p);
    qkv_buf_free(&a);
    qkv_buf_free(&b);
    return status;
}

static qkv_status compare(qkv_ctx *ctx, const char *name, const char *group, const json_t *had, const json_t *have, bool deeper) {
    for (int side = 0; side < 2; side++) {
        const char *key;
        json_t *unused;
        json_object_foreach((json_t *)(side ? had : have), key, unused) {
            const json_t *a = json_object_get(had, key), *b = json_object_get(have, key);
            if (a && b && json_equal(a, b)) continue;
            if (!deeper || !json_is_object(a) || !json_is_object(b)) return differ(ctx, name, group, key, a, b);
            QKV_TRY(compare(ctx, name, key, a, b, false));
        }
        (void)unused;
    }
    return QKV_OK;
}

static qkv_status parse(qkv_ctx *ctx, const qkv_safetensors *file, const char *key, json_t **json) {
    const char *text = qkv_safetensors_metadata(file, key), *name = qkv_safetensors_name(file);
    if (!text) return qkv_fail(ctx, QKV_BAD_FORMAT, "%s: the metadata has no %s", name, key);
    QKV_TRY(qkv_json_parse(ctx, name, text, (int64_t)strlen(text), DEPTH, json));
    if (json_is_object(*json)) return QKV_OK;
    json_decref(*json);
    return qkv_fail(ctx, QKV_BAD_FORMAT, "%s: %s is not an object", name, key);
}

static qkv_status check_file(qkv_ctx *ctx, const qkv_safetensors *file) {
    const char *name = qkv_safetensors_name(file), *version = qkv_safetensors_metadata(file, "qkv.checkpoint");
    if (!version)
        return qkv_fail(ctx, QKV_BAD_FORMAT, "%s is %s, not the checkpoint of a training run", name,
                        qkv_safetensors_metadata(file, "qkv.version") ? "a model" : "some other file of tensors");
    char known[16];
    snprintf(known, sizeof known, "%d", CHECKPOINT_VERSION);
    if (strcmp(version, known) != 0)
        return qkv_fail(ctx, QKV_BAD_FORMAT, "%s is a checkpoint of version %.20s, this qkv reads version %s", name, version, known);
    return qkv_model_check_sum(ctx, file, QKV_OK);
}

static qkv_status read_parts(qkv_checkpoint *c, const json_t *identity) {
    const char *name = qkv_safetensors_name(c->file);
    json_t *json;
    QKV_TRY(parse(c->ctx, c->file, "qkv.identity", &json));
    qkv_status status = compare(c->ctx, name, "", json, identity, true);
    json_decref(json);
    QKV_TRY(status);
    QKV_TRY(parse(c->ctx, c->file, "qkv.state", &json));
    if (!state_from_json(json, &c->state)) status = qkv_fail(c->ctx, QKV_BAD_FORMAT, "%s: qkv.state lacks a number", name);
    json_decref(json);
    return status;
}

qkv_status qkv_checkpoint_open(qkv_ctx *ctx, const char *path, const json_t *identity, qkv_checkpoint **checkpoint) {
    qkv_checkpoint *c;
    *checkpoint = NULL;
    QKV_TRY(qkv_alloc_zero(ctx, 1, sizeof *c, &c));
    c->ctx = ctx;
    qkv_status status = qkv_safetensors_open(ctx, path, &c->file);
    if (status == QKV_OK) status = check_file(ctx, c->file);
    if (status == QKV_OK) status = read_parts(c, identity);
    if (status == QKV_OK) *checkpoint = c;
    else qkv_checkpoint_close(c);
    return status;
}

int64_t qkv_checkpoint_step(const qkv_checkpoint *checkpoint) { return checkpoint->state.step; }

void qkv_checkpoint_close(qkv_checkpoint *checkpoint) {
    if (!checkpoint) return;
    qkv_safetensors_close(checkpoint->file);
    qkv_free(checkpoint->ctx, checkpoint);
}

static qkv_status restore_block(const qkv_checkpoint *c, const char *name, real *to, int64_t count) {
    const qkv_tensor *t = qkv_safetensors_find(c->file, name);
    if (!t || t->count != count)
        return qkv_fail(c->ctx, QKV_BAD_FORMAT, "%s: \"%s\" has %lld numbers, this model %lld", qkv_safetensors_name(c->file), name,
                        (long long)(t ? t->count : 0), (long long)count);
    return qkv_tensor_reals(c->ctx, t, to);
}

qkv_status qkv_checkpoint_restore(const qkv_checkpoint *checkpoint, qkv_train_state *state) {
    QKV_TRY(restore_block(checkpoint, "m", state->m, state->blocks));
    QKV_TRY(restore_block(checkpoint, "v", state->v, state->blocks));
    QKV_TRY(restore_block(checkpoint, "weights", state->weights, state->blocks));
    if (state->kept) QKV_TRY(restore_block(checkpoint, "kept", state->kept, state->blocks));
    const qkv_train_state blocks = *state;
    *state = checkpoint->state;
    state->blocks = blocks.blocks;
    state->weights = blocks.weights;
    state->grads = blocks.grads;
    state->m = blocks.m;
    state->v = blocks.v;
    state->kept = blocks.kept;
    return QKV_OK;
}
