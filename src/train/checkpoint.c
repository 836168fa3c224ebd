#include "train/checkpoint.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "formats/json.h"
#include "formats/safetensors.h"
#include "models/model.h"

enum { CHECKPOINT_VERSION = 2, DEPTH = 8 };

/* ---- the numbers of the loop ---- */

static json_t *number(double x) { return isfinite(x) ? json_real(x) : isnan(x) ? json_null() : json_string(x > 0 ? "inf" : "-inf"); }

static json_t *state_to_json(const qkv_train_state *s) {
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:b}", "piece_tokens",
                     (json_int_t)s->piece_tokens, "step", (json_int_t)s->step, "updates",
                     (json_int_t)s->updates, "epoch", (json_int_t)s->epoch, "window", (json_int_t)s->window, "skipped",
                     (json_int_t)s->skipped, "skipped_in_row", (json_int_t)s->skipped_in_row, "evaluations", (json_int_t)s->evaluations,
                     "evaluated_at", (json_int_t)s->evaluated_at, "since_best", (json_int_t)s->since_best, "best_step",
                     (json_int_t)s->best_step, "next_evaluation", number(s->next_evaluation), "loss", number(s->best.loss),
                     "accuracy", number(s->best.accuracy), "macro_f1", number(s->best.macro_f1), "metric", number(s->best.metric), "blind", s->best.blind);
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
    bool good = json_is_boolean(blind) && read_count(json, "piece_tokens", 0, &s->piece_tokens) &&
                read_count(json, "step", 0, &s->step) && read_count(json, "updates", 0, &s->updates) &&
                read_count(json, "epoch", 0, &s->epoch) && read_count(json, "window", 0, &s->window) &&
                read_count(json, "skipped", 0, &s->skipped) && read_count(json, "skipped_in_row", 0, &s->skipped_in_row) &&
                read_count(json, "evaluations", 0, &s->evaluations) && read_count(json, "evaluated_at", -1, &s->evaluated_at) &&
                read_count(json, "since_best", 0, &s->since_best) && read_count(json, "best_step", -1, &s->best_step) &&
                read_number(json, "next_evaluation", &s->next_evaluation) &&
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

static qkv_status write_file(qkv_ctx *ctx, const char *path, const char *identity, const char *notes, const char *numbers,
                             const qkv_train_state *s) {
    qkv_tensor tensors[6] = {block("m", s->m, s->blocks), block("v", s->v, s->blocks), block("weights", s->weights, s->blocks)};
    const int64_t held = qkv_snapshots_held(&s->snapshots, s->evaluations);
    int64_t count = 3;
    if (s->kept) tensors[count++] = block("kept", s->kept, s->blocks);
    if (s->average) tensors[count++] = block("average", s->average, s->blocks);
    if (held > 0) tensors[count++] = block("snapshots", s->snapshots.blocks, held * s->blocks);
    char hex[65], version[16];
    snprintf(version, sizeof version, "%d", CHECKPOINT_VERSION);
    qkv_metadata metadata[5] = {{"qkv.checkpoint", version}, {"qkv.identity", identity}};
    int64_t n = 2;
    if (notes) metadata[n++] = (qkv_metadata){"qkv.notes", notes};
    metadata[n++] = (qkv_metadata){QKV_CHECKSUM_KEY, hex};
    metadata[n++] = (qkv_metadata){"qkv.state", numbers};
    qkv_model_checksum(metadata, n, tensors, count, hex);
    qkv_output *output;
    QKV_TRY(qkv_output_open(ctx, path, &output));
    qkv_status status = qkv_safetensors_write(ctx, output, tensors, count, metadata, n);
    if (status == QKV_OK) return qkv_output_commit(output);
    qkv_output_discard(output);
    return status;
}

qkv_status qkv_checkpoint_save(qkv_ctx *ctx, const char *path, const json_t *identity, const json_t *notes, const qkv_train_state *state) {
    qkv_buf who = {.ctx = ctx}, along = {.ctx = ctx}, numbers = {.ctx = ctx};
    json_t *json = state_to_json(state);
    qkv_status status = json ? qkv_json_print(json, &numbers) : qkv_fail(ctx, QKV_NO_MEMORY, "out of memory for a checkpoint");
    if (status == QKV_OK) status = qkv_json_print(identity, &who);
    if (status == QKV_OK && notes) status = qkv_json_print(notes, &along);
    if (status == QKV_OK) status = write_file(ctx, path, who.p, along.p, numbers.p, state);
    json_decref(json);
    qkv_buf_free(&who);
    qkv_buf_free(&along);
    qkv_buf_free(&numbers);
    return status;
}

/* ---- reading ---- */

struct qkv_checkpoint {
    qkv_ctx *ctx;
    qkv_safetensors *file; /* without its data: that is read once more, straight to where it belongs */
    char *path;
    int64_t header;
    qkv_train_state state; /* the numbers */
    json_t *notes;         /* NULL: none */
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
    *json = NULL;
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
    if (status == QKV_OK && qkv_safetensors_metadata(c->file, "qkv.notes")) status = parse(c->ctx, c->file, "qkv.notes", &c->notes);
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
    if (status == QKV_OK) status = qkv_alloc(ctx, (int64_t)strlen(path) + 1, 1, &c->path);
    if (status == QKV_OK) {
        strcpy(c->path, path);
        qkv_safetensors_drop(c->file, &c->header);
        *checkpoint = c;
    }
    else qkv_checkpoint_close(c);
    return status;
}

int64_t qkv_checkpoint_step(const qkv_checkpoint *checkpoint) { return checkpoint->state.step; }

const json_t *qkv_checkpoint_notes(const qkv_checkpoint *checkpoint) { return checkpoint->notes; }

void qkv_checkpoint_close(qkv_checkpoint *checkpoint) {
    if (!checkpoint) return;
    json_decref(checkpoint->notes);
    qkv_safetensors_close(checkpoint->file);
    qkv_free(checkpoint->ctx, checkpoint->path);
    qkv_free(checkpoint->ctx, checkpoint);
}

/* Where a tensor of the file goes. */
typedef struct place {
    const char *name;
    real *to;
    int64_t count;
} place;

enum { PLACES = 6 };

static int64_t places_of(const qkv_checkpoint *c, const qkv_train_state *s, place places[PLACES]) {
    const int64_t held = qkv_snapshots_held(&s->snapshots, c->state.evaluations);
    int64_t n = 0;
    places[n++] = (place){"m", s->m, s->blocks};
    places[n++] = (place){"v", s->v, s->blocks};
    places[n++] = (place){"weights", s->weights, s->blocks};
    if (s->kept) places[n++] = (place){"kept", s->kept, s->blocks};
    if (s->average) places[n++] = (place){"average", s->average, s->blocks};
    if (held > 0) places[n++] = (place){"snapshots", s->snapshots.blocks, held * s->blocks};
    return n;
}

static qkv_status check_places(const qkv_checkpoint *c, const place *places, int64_t n) {
    const char *name = qkv_safetensors_name(c->file);
    for (int64_t i = 0; i < n; i++) {
        const qkv_tensor *t = qkv_safetensors_find(c->file, places[i].name);
        if (!t || t->count != places[i].count)
            return qkv_fail(c->ctx, QKV_BAD_FORMAT, "%s: \"%s\" has %lld numbers, this model %lld", name, places[i].name,
                            (long long)(t ? t->count : 0), (long long)places[i].count);
        if (t->dtype != block("", NULL, 0).dtype)
            return qkv_fail(c->ctx, QKV_BAD_FORMAT, "%s: \"%s\" is of type %s", name, t->name, qkv_dtype_name(t->dtype));
    }
    if (qkv_safetensors_count(c->file) == n) return QKV_OK;
    return qkv_fail(c->ctx, QKV_BAD_FORMAT, "%s: %lld tensors, this run has %lld", name,
                    (long long)qkv_safetensors_count(c->file), (long long)n);
}

static qkv_status changed(const qkv_checkpoint *c) {
    return qkv_fail(c->ctx, QKV_BAD_FORMAT, "%s: was changed while it was read", qkv_safetensors_name(c->file));
}

static qkv_status read_bytes(const qkv_checkpoint *c, qkv_input *input, void *to, int64_t size) {
    for (int64_t at = 0, got; at < size; at += got) {
        QKV_TRY(qkv_input_read(input, (char *)to + at, size - at, &got));
        if (got == 0) return changed(c);
    }
    return QKV_OK;
}

static qkv_status read_data(const qkv_checkpoint *c, qkv_input *input, const place *places, int64_t n) {
    char skipped[4096];
    for (int64_t at = 0, size; at < c->header; at += size) {
        size = c->header - at < (int64_t)sizeof skipped ? c->header - at : (int64_t)sizeof skipped;
        QKV_TRY(read_bytes(c, input, skipped, size));
    }
    for (int64_t i = 0; i < n; i++) {
        const qkv_tensor *t = qkv_safetensors_at(c->file, i);
        int64_t k = 0;
        while (strcmp(places[k].name, t->name) != 0) k++; /* check_places found as many as there are */
        QKV_TRY(read_bytes(c, input, places[k].to, t->bytes));
    }
    return QKV_OK;
}

/* What was checked before must be what was read now. */
static qkv_status check_again(const qkv_checkpoint *c, const place *places, int64_t n) {
    qkv_tensor tensors[PLACES];
    int64_t n_metadata;
    const qkv_metadata *metadata = qkv_safetensors_all_metadata(c->file, &n_metadata);
    const char *sum = qkv_safetensors_metadata(c->file, QKV_CHECKSUM_KEY);
    char hex[65];
    for (int64_t i = 0; i < n; i++) {
        tensors[i] = *qkv_safetensors_at(c->file, i);
        for (int64_t k = 0; k < n; k++)
            if (strcmp(places[k].name, tensors[i].name) == 0) tensors[i].data = places[k].to;
    }
    qkv_model_checksum(metadata, n_metadata, tensors, n, hex);
    return sum && strcmp(sum, hex) == 0 ? QKV_OK : changed(c);
}

qkv_status qkv_checkpoint_restore(const qkv_checkpoint *checkpoint, qkv_train_state *state) {
    place places[PLACES];
    const int64_t n = places_of(checkpoint, state, places);
    QKV_TRY(check_places(checkpoint, places, n));
    qkv_input *input;
    QKV_TRY(qkv_input_open(checkpoint->ctx, checkpoint->path, &input));
    qkv_status status = read_data(checkpoint, input, places, n);
    qkv_input_close(input);
    QKV_TRY(status);
    QKV_TRY(check_again(checkpoint, places, n));
    const qkv_train_state blocks = *state;
    *state = checkpoint->state;
    state->blocks = blocks.blocks;
    state->weights = blocks.weights;
    state->grads = blocks.grads;
    state->m = blocks.m;
    state->v = blocks.v;
    state->kept = blocks.kept;
    state->average = blocks.average;
    state->snapshots = blocks.snapshots;
    return QKV_OK;
}
