#include "tasks/classify_memory.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/cpu.h"

/* ---- amounts ---- */

typedef struct amount {
    char s[32];
} amount;

static amount amount_of(int64_t bytes) {
    static const char *const units[] = {"kB", "MB", "GB", "TB", "PB"};
    int unit = 0;
    int64_t tenths = bytes / 100;
    for (; tenths >= 10000 && unit < 4; unit++) tenths /= 1000;
    amount a;
    snprintf(a.s, sizeof a.s, "%" PRId64 ".%" PRId64 " %s", tenths / 10, tenths % 10, units[unit]);
    return a;
}

/* As --memory reads it, rounded up. */
static amount size_of(int64_t bytes) {
    int64_t mega = (bytes + (1 << 20) - 1) >> 20;
    amount a;
    if (mega < 10000) snprintf(a.s, sizeof a.s, "%" PRId64 "M", mega);
    else snprintf(a.s, sizeof a.s, "%" PRId64 "G", (mega + 1023) / 1024);
    return a;
}

/* Of the program: the vocabulary and the like, which are counted when they are asked for. */
enum { COUNTED = 4 << 20 };

int64_t qkv_classify_wall(qkv_ctx *ctx, const qkv_classify_options *o) {
    const int64_t before = ctx->most_used, left = o->memory - QKV_MEMORY_OF_PROGRAM + COUNTED;
    if (o->memory > 0) ctx->most_used = ctx->used + (left > 0 ? left : 1);
    ctx->most_wanted = 0;
    ctx->most_reached = ctx->used;
    return before;
}

int64_t qkv_classify_reached(const qkv_ctx *ctx, int64_t used, int64_t held) {
    return ctx->most_reached - used + held + QKV_MEMORY_OF_PROGRAM - COUNTED;
}

qkv_status qkv_classify_walled(qkv_ctx *ctx, const qkv_classify_options *o, const char *doing, int64_t least,
                               const int64_t training[2]) {
    const amount from = amount_of(training[0]), to = amount_of(training[1]), allowed = amount_of(o->memory), now = amount_of(least);
    const bool range = strcmp(from.s, to.s) != 0;
    if (training[1] <= least)
        return qkv_fail(ctx, QKV_NO_MEMORY, "--memory allows %s, and %s takes %s or more (--memory %s)", allowed.s, doing, now.s,
                        size_of(least).s);
    return qkv_fail(ctx, QKV_NO_MEMORY,
                    "--memory allows %s, and %s takes %s or more, the training then %s%s%s (--memory %s; less with a "
                    "smaller --dim%s%s or --max-length)",
                    allowed.s, doing, now.s, range ? from.s : "about ", range ? " to " : "", to.s, size_of(training[1]).s,
                    o->tokenizer == QKV_TOKENIZER_BYTE ? "" : ", --vocab", o->ngrams > 0 ? ", --ngrams" : "");
}

static qkv_room room_with(const qkv_classify_options *o, int64_t available) {
    const bool asked = o->memory > 0;
    return (qkv_room){.limit = asked ? o->memory : available,
                      .recompute = (qkv_recompute_policy)o->recompute,
                      .every = o->recompute_every,
                      .ffn_rows = o->ffn_chunk,
                      .layers = o->layers,
                      .reversible = o->reversible != 0,
                      .recurrent = o->model != QKV_NETWORK_TRANSFORMER,
                      .pieces = asked};
}

/* Pieces change the last bits, so what happens to be free must not bring them about. */
qkv_room qkv_classify_room(const qkv_classify_options *o, int64_t held) {
    const int64_t available = o->memory > 0 ? 0 : qkv_memory_available();
    return room_with(o, available < 0 ? 0 : available + held);
}

/* ---- what would fit ---- */

typedef struct finder {
    qkv_ctx *ctx;
    const qkv_memory_ask *ask;
    int64_t limit;
    char text[256];
    int size;
} finder;

static void note(finder *f, const char *format, ...) {
    va_list args;
    char one[64];
    va_start(args, format);
    vsnprintf(one, sizeof one, format, args);
    va_end(args);
    int n = snprintf(f->text + f->size, sizeof f->text - (size_t)f->size, "%s%s", f->size > 0 ? ", or " : "", one);
    f->size += n < (int)sizeof f->text - f->size ? n : 0;
}

/* The segments of what is left: the last of a row may be shorter, and those behind it are gone. */
static qkv_status cut_segments(qkv_ctx *ctx, const qkv_ragged *rows, qkv_ragged *out) {
    if (!rows->segment_at) return QKV_OK;
    int64_t n = 0;
    QKV_TRY(qkv_alloc(ctx, rows->count + 1, sizeof *out->segment_at, &out->segment_at));
    QKV_TRY(qkv_alloc(ctx, rows->segment_at[rows->count], sizeof *out->segment_size, &out->segment_size));
    out->segment_at[0] = 0;
    for (int64_t i = 0; i < rows->count; i++) {
        int64_t left = out->offset[i + 1] - out->offset[i];
        for (int64_t k = rows->segment_at[i]; left > 0; k++) {
            out->segment_size[n] = rows->segment_size[k] < left ? rows->segment_size[k] : (int32_t)left;
            left -= out->segment_size[n++];
        }
        out->segment_at[i + 1] = n;
    }
    return QKV_OK;
}

/* Which tokens are global hangs on what is left. */
static qkv_status cut_ids(qkv_ctx *ctx, const qkv_ragged *rows, qkv_ragged *out) {
    if (!qkv_globals_read(&rows->globals)) return QKV_OK;
    QKV_TRY(qkv_alloc(ctx, out->offset[rows->count], sizeof *out->ids, &out->ids));
    for (int64_t i = 0; i < rows->count; i++)
        for (int64_t k = 0; k < out->offset[i + 1] - out->offset[i]; k++)
            out->ids[out->offset[i] + k] = rows->ids[rows->offset[i] + k];
    return QKV_OK;
}

/* Lengths cut at `most`; everything else is the same. */
static qkv_status cut(qkv_ctx *ctx, const qkv_ragged *rows, int64_t most, qkv_ragged *out) {
    *out = *rows;
    QKV_TRY(qkv_alloc(ctx, rows->count + 1, sizeof *out->offset, &out->offset));
    out->offset[0] = 0;
    for (int64_t i = 0; i < rows->count; i++) {
        int64_t n = rows->offset[i + 1] - rows->offset[i];
        out->offset[i + 1] = out->offset[i] + (n < most ? n : most);
    }
    QKV_TRY(cut_ids(ctx, rows, out));
    return cut_segments(ctx, rows, out);
}

static void cut_free(qkv_ctx *ctx, const qkv_ragged *rows, qkv_ragged *out) {
    if (out->offset != rows->offset) qkv_free(ctx, out->offset);
    if (out->ids != rows->ids) qkv_free(ctx, out->ids);
    if (out->segment_at != rows->segment_at) qkv_free(ctx, out->segment_at);
    if (out->segment_size != rows->segment_size) qkv_free(ctx, out->segment_size);
}

/* What the least way of a run with these options needs. */
static qkv_status least(const finder *f, const qkv_classify_options *o, int64_t *bytes) {
    const qkv_memory_ask *a = f->ask;
    qkv_ragged train = {0}, dev = {0};
    qkv_status status = cut(f->ctx, a->train, o->max_length, &train);
    if (status == QKV_OK) status = cut(f->ctx, a->dev, o->max_length, &dev);
    if (status == QKV_OK) status = a->need(a->self, o, &train, &dev, qkv_budget_least(room_with(o, 0)), bytes);
    cut_free(f->ctx, a->train, &train);
    cut_free(f->ctx, a->dev, &dev);
    return status;
}

static qkv_status fits(const finder *f, const qkv_classify_options *o, bool *yes) {
    int64_t bytes;
    QKV_TRY(least(f, o, &bytes));
    *yes = bytes <= f->limit;
    return QKV_OK;
}

static qkv_status try_recompute(finder *f) {
    qkv_classify_options o = *f->ask->options;
    bool yes = false;
    if (o.recompute == QKV_RECOMPUTE_AUTO) return QKV_OK;
    o.recompute = QKV_RECOMPUTE_AUTO;
    o.recompute_every = 0;
    QKV_TRY(fits(f, &o, &yes));
    if (yes) note(f, "--recompute auto");
    return QKV_OK;
}

/* Where only what is free sets the limit, a limit that is asked for allows pieces, too. */
static qkv_status try_pieces(finder *f) {
    qkv_classify_options o = *f->ask->options;
    bool yes = false;
    if (o.memory > 0) return QKV_OK;
    o.memory = f->limit;
    QKV_TRY(fits(f, &o, &yes));
    if (yes) note(f, "--memory %" PRId64 "M", f->limit >> 20);
    return QKV_OK;
}

/* A half, a quarter, ... of the longest row, or of the limit where there is a vector for each place. */
static qkv_status try_length(finder *f) {
    const qkv_classify_options *asked = f->ask->options;
    const int64_t most = qkv_longest_row(f->ask->train->offset, f->ask->train->count);
    const bool by_limit = asked->position == QKV_POSITION_LEARNED || asked->max_length < most;
    bool yes = false;
    for (int64_t n = (by_limit ? asked->max_length : most) / 2; !yes && n >= 8; n /= 2) {
        qkv_classify_options o = *asked;
        o.max_length = n;
        QKV_TRY(fits(f, &o, &yes));
        if (yes) note(f, "--max-length %" PRId64, n);
    }
    return QKV_OK;
}

/* Three quarters, a half, three eighths, a quarter, ... in whole heads. */
static qkv_status try_dim(finder *f) {
    const qkv_classify_options *asked = f->ask->options;
    bool yes = false;
    for (int k = 0; !yes && k < 12; k++) {
        qkv_classify_options o = *asked;
        const int64_t part = k % 2 ? asked->dim >> (k / 2 + 1) : 3 * asked->dim >> (k / 2 + 2);
        o.dim = part / (2 * o.heads) * 2 * o.heads;
        if (o.dim < 2 * o.heads) break;
        QKV_TRY(fits(f, &o, &yes));
        if (yes) note(f, "--dim %" PRId64, o.dim);
    }
    return QKV_OK;
}

static qkv_status find(finder *f) {
    QKV_TRY(try_recompute(f));
    QKV_TRY(try_pieces(f));
    QKV_TRY(try_length(f));
    return try_dim(f);
}

/* ---- the refusal ---- */

/* How the plan that still does not fit was made small: "in pieces of 256 tokens with recomputation, ". */
static void describe(const qkv_train_plan *plan, char *text, size_t size) {
    char pieces[40] = "";
    if (plan->piece_tokens == 1) snprintf(pieces, sizeof pieces, "row by row");
    if (plan->piece_tokens > 1) snprintf(pieces, sizeof pieces, "in pieces of %" PRId64 " tokens", plan->piece_tokens);
    snprintf(text, size, "%s%s%s%s", pieces, pieces[0] && plan->recompute ? " " : "", plan->recompute ? "with recomputation" : "",
             pieces[0] || plan->recompute ? ", " : "");
}

static qkv_status refuse(qkv_ctx *ctx, const qkv_memory_ask *a, const qkv_train_plan *plan, int64_t limit) {
    finder f = {.ctx = ctx, .ask = a, .limit = limit};
    const bool asked = a->options->memory > 0 && limit == a->options->memory;
    char way[80];
    describe(plan, way, sizeof way);
    if (asked) note(&f, "--memory %s", size_of(plan->bytes).s);
    if (a->self) QKV_TRY(find(&f));
    return qkv_fail(ctx, QKV_NO_MEMORY, "training needs %s of memory (%s%s of it activations), %s%s%s%s%s",
                    amount_of(plan->bytes).s, way, amount_of(plan->activation_bytes).s, asked ? "--memory allows " : "",
                    amount_of(limit).s, asked ? "" : " are free", f.size > 0 ? "; would fit: " : "", f.text);
}

qkv_status qkv_classify_refuse(qkv_ctx *ctx, const qkv_memory_ask *a, const qkv_train_plan *plan) {
    const int64_t memory = a->options->memory, available = qkv_memory_available();
    if (memory > 0 && plan->bytes > memory) return refuse(ctx, a, plan, memory);
    if (available < 0 || plan->bytes <= available + a->held) return QKV_OK;
    return refuse(ctx, a, plan, available + a->held);
}
