#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "tasks/classify_job.h"

static bool set_new(json_t *object, const char *key, json_t *value) { return object && json_object_set_new(object, key, value) == 0; }

/* All that the bits of a run depend on. */
qkv_status qkv_job_identify(qkv_job *j, json_t *recorded) {
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

/* ---- the record ---- */

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

static json_t *dev_record(const qkv_job *j) {
    if (j->held_out) return json_pack("{s:b, s:I}", "held_out", 1, "rows", (json_int_t)j->dev.rows.count);
    return data_record(j->dev_name, j->dev.rows.count, j->dev_hash);
}

/* JSON has no NaN. */
static json_t *number(double x) {
    return isfinite(x) ? json_real(x) : json_null();
}

static json_t *metrics_record(const qkv_job *j) {
    const qkv_task_score *s = &j->result.best;
    if (j->result.best_step < 0) return json_object();
    json_t *record = json_pack("{s:o, s:o, s:o}", "loss", number(s->loss), j->o->multi_label ? "micro_f1" : "accuracy",
                               number(s->accuracy), "macro_f1", number(s->macro_f1));
    if (record && j->o->multi_label) json_object_set_new(record, "thresholds", json_string(j->tuned.each ? "each" : "one"));
    return record;
}

static json_t *pretraining_record(const qkv_job *j) {
    const qkv_table *t = &j->texts.table;
    json_t *record = json_copy(j->pretrained.record);
    if (t->name[0]) set_new(record, "texts", data_record(t->name, j->texts.encoded.rows.count, t->hash));
    return record;
}

/* Nothing in it depends on time, place or threads, so that the same run gives the same file. */
qkv_status qkv_job_record(qkv_job *j, json_t *recorded, qkv_status ended) {
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
