/* Which cases there are, with which sizes, and what a user's sizes make of them. */
#include <math.h>
#include <string.h>

#include "bench/job.h"
#include "ops/attention_pattern.h"

static const qkv_span everything = {-1, -1};

typedef struct row {
    bool quick; /* belongs to the short list too */
    qkv_bench_case c;
} row;

/* ---- attention: one sequence of n rows, 8 heads of 64, unless it says otherwise ---- */

#define ATTEND(which, quick, ...)                                                                                                  \
    { quick, {.name = "attention." which, __VA_ARGS__} }
#define BOTH(quick, ...) ATTEND("forward", quick, __VA_ARGS__), ATTEND("backward", quick, __VA_ARGS__)

static const row attention[] = {
    BOTH(true, .n = 1024, .dim = 64),
    BOTH(false, .n = 512, .dim = 64),
    ATTEND("forward", true, .n = 4096, .dim = 64),
    ATTEND("backward", false, .n = 4096, .dim = 64),
    ATTEND("forward", false, .n = 16384, .dim = 64),
    BOTH(false, .n = 4096, .dim = 32),
    BOTH(false, .n = 4096, .dim = 128),
    BOTH(false, .n = 1024, .dim = 48),
    BOTH(false, .n = 1024, .dim = 80),
    BOTH(false, .n = 1024, .dim = 96),
    BOTH(false, .n = 1024, .dim = 256),
    BOTH(false, .n = 1024, .dim = 37),
    BOTH(false, .n = 1024, .dim = 64, .value_dim = 128),
    BOTH(true, .n = 1024, .dim = 64, .variant = "causal", .window = {-1, 0}),
    BOTH(false, .n = 4096, .dim = 64, .variant = "causal", .window = {-1, 0}),
    BOTH(true, .n = 16384, .dim = 64, .variant = "window", .window = {64, 64}),
    BOTH(false, .n = 16384, .dim = 64, .variant = "window", .window = {256, 256}),
/* Beside the window: the first token and every 512th; what BigBird has; neighbours two apart. */
#define WINDOW(n_, ...) BOTH(false, .n = n_, .dim = 64, .window = {64, 64}, __VA_ARGS__)
#define GLOBAL(n_) WINDOW(n_, .variant = "global", .global_first = 1, .global_every = 512)
#define SPARSE(n_) WINDOW(n_, .variant = "sparse", .global_first = 64, .random_blocks = 3, .block = 64)
    WINDOW(512, .variant = "window"),
    WINDOW(1024, .variant = "window"),
    WINDOW(4096, .variant = "window"),
    WINDOW(65536, .variant = "window"),
    WINDOW(131072, .variant = "window"),
    GLOBAL(512),
    GLOBAL(1024),
    GLOBAL(4096),
    GLOBAL(16384),
    GLOBAL(65536),
    GLOBAL(131072),
    SPARSE(512),
    SPARSE(1024),
    SPARSE(4096),
    SPARSE(16384),
    SPARSE(65536),
    WINDOW(16384, .variant = "dilated"),
#undef SPARSE
#undef GLOBAL
#undef WINDOW
    BOTH(true, .n = 95, .dim = 64, .variant = "ragged", .shortest = 33, .tokens = 2048),
    BOTH(false, .n = 128, .dim = 64, .batch = 16),
    BOTH(true, .n = 1024, .dim = 64, .variant = "one head", .heads = 1),
    BOTH(false, .n = 1024, .dim = 64, .variant = "dropout", .dropout = 0.1),
    BOTH(false, .n = 4096, .dim = 64, .variant = "dropout", .dropout = 0.1),
    BOTH(false, .n = 1024, .dim = 64, .variant = "alibi"),
    BOTH(false, .n = 4096, .dim = 64, .variant = "alibi"),
    BOTH(false, .n = 1024, .dim = 64, .variant = "bias"),
    BOTH(false, .n = 4096, .dim = 64, .variant = "bias"),
    BOTH(false, .n = 1024, .dim = 64, .variant = "rope"),
    BOTH(false, .n = 4096, .dim = 64, .variant = "rope"),
    BOTH(false, .n = 1024, .dim = 64, .variant = "shaw"),
    BOTH(false, .n = 4096, .dim = 64, .variant = "shaw"),
    BOTH(false, .n = 1024, .dim = 64, .variant = "softcap"),
    ATTEND("decode", true, .n = 4096, .dim = 64),
    ATTEND("decode", false, .n = 1024, .dim = 64),
    ATTEND("decode", false, .n = 4096, .dim = 64, .batch = 16),
    ATTEND("decode", false, .n = 4096, .dim = 64, .variant = "by heads", .layout = QKV_BENCH_HEADS),
    ATTEND("decode", false, .n = 4096, .dim = 64, .batch = 16, .variant = "by heads", .layout = QKV_BENCH_HEADS),
};

/* ---- pointwise: rows that no cache holds ---- */

#define POINT(which, quick, ...)                                                                                                   \
    { quick, {.name = "pointwise." which, __VA_ARGS__} }
static const row pointwise[] = {
    POINT("norm", true, .n = 32768, .dim = 512),
    POINT("norm-backward", true, .n = 32768, .dim = 512),
    POINT("rms-norm", false, .n = 32768, .dim = 512),
    POINT("rms-norm-backward", false, .n = 32768, .dim = 512),
    POINT("gelu", true, .n = 8192, .dim = 2048),
    POINT("gelu-backward", true, .n = 8192, .dim = 2048),
    POINT("swiglu", false, .n = 8192, .dim = 2048),
    POINT("swiglu-backward", false, .n = 8192, .dim = 2048),
    POINT("residual", true, .n = 32768, .dim = 512, .variant = "dropout", .dropout = 0.1),
    POINT("residual", false, .n = 32768, .dim = 512),
    POINT("embedding", true, .n = 32768, .dim = 512),
    POINT("embedding-backward", true, .n = 32768, .dim = 512),
    POINT("column-sum", false, .n = 32768, .dim = 512),
    POINT("loss", true, .n = 32768, .dim = 1024),
    POINT("softmax", false, .n = 32768, .dim = 1024),
    POINT("gradient-norm", false, .n = 32768, .dim = 512),
    POINT("adamw", true, .n = 32768, .dim = 512),
};

static const row layer[] = {
    {false, {.name = "layer.forward", .n = 1024, .dim = 512, .heads = 8, .batch = 32}},
    {false, {.name = "layer.forward", .n = 1024, .dim = 512, .heads = 1, .batch = 32, .variant = "one head"}},
    {false, {.name = "layer.both", .n = 1024, .dim = 512, .heads = 8, .batch = 32}},
    {false, {.name = "layer.both", .n = 1024, .dim = 512, .heads = 1, .batch = 32, .variant = "one head"}},
    {true, {.name = "layer.forward", .n = 1024, .dim = 512, .heads = 8, .batch = 4}},
    {true, {.name = "layer.both", .n = 1024, .dim = 512, .heads = 8, .batch = 4}},
};

/* ---- recurrence: sequences of one length, or of many ---- */

#define WALK(which, quick, ...)                                                                                                    \
    { quick, {.name = "recurrence." which, __VA_ARGS__} }
static const row recurrence[] = {
    WALK("lstm", true, .n = 512, .dim = 512, .batch = 32),
    WALK("lstm-both", true, .n = 512, .dim = 512, .batch = 32),
    WALK("gru", false, .n = 512, .dim = 512, .batch = 32),
    WALK("gru-both", false, .n = 512, .dim = 512, .batch = 32),
    WALK("rnn", false, .n = 512, .dim = 512, .batch = 32),
    WALK("rnn-both", false, .n = 512, .dim = 512, .batch = 32),
    WALK("lstm", false, .n = 512, .dim = 512, .batch = 1),
    WALK("lstm", false, .n = 512, .dim = 512, .batch = 8),
    WALK("lstm-both", false, .n = 512, .dim = 128, .batch = 32),
    WALK("lstm-both", false, .n = 256, .dim = 128, .variant = "ragged", .shortest = 10, .tokens = 8192),
};

static const row train[] = {
    {false, {.name = "train.step", .n = 512, .dim = 512, .heads = 8, .batch = 16, .layers = 6, .ffn = 2048, .dropout = 0.1}},
    {true,
     {.name = "train.step",
      .variant = "ragged",
      .n = 256,
      .shortest = 10,
      .tokens = 8192,
      .dim = 256,
      .heads = 4,
      .layers = 4,
      .ffn = 1024,
      .dropout = 0.1}},
};

static const row predict[] = {
    {true, {.name = "predict.texts", .batch = 2048, .dim = 128, .heads = 4, .layers = 1, .ffn = 512}},
    {true, {.name = "predict.texts", .batch = 64, .dim = 512, .heads = 8, .layers = 6, .ffn = 2048}},
    {false, {.name = "predict.texts", .variant = "one text", .batch = 1, .dim = 128, .heads = 4, .layers = 1, .ffn = 512}},
    {false, {.name = "predict.texts", .variant = "one text", .batch = 1, .dim = 512, .heads = 8, .layers = 6, .ffn = 2048}},
    {false, {.name = "predict.encoder", .n = 128, .batch = 8, .dim = 768, .heads = 12, .layers = 12, .ffn = 3072}},
    {false, {.name = "predict.encoder", .n = 16, .batch = 1, .dim = 768, .heads = 12, .layers = 12, .ffn = 3072}},
};

/* ---- gemm: what the layers of widths 384, 512 and 768 multiply ---- */

typedef struct list {
    const char *what; /* a group, a case, all */
    bool quick;
    qkv_bench_case *cases; /* NULL: only counted */
    int64_t count;
} list;

static bool wanted(const char *what, const char *name) {
    size_t length = strlen(what);
    return strcmp(what, "all") == 0 || strcmp(what, name) == 0 || (strncmp(what, name, length) == 0 && name[length] == '.');
}

static void add(list *l, bool quick, const qkv_bench_case *c) {
    if ((l->quick && !quick) || !wanted(l->what, c->name)) return;
    if (l->cases) l->cases[l->count] = *c;
    l->count++;
}

static void product(list *l, bool quick, const char *name, const char *variant, int64_t m, int64_t n, int64_t k) {
    qkv_bench_case c = {.m = m, .n = n, .k = k, .window = everything};
    strncpy(c.name, name, sizeof c.name - 1);
    strncpy(c.variant, variant, sizeof c.variant - 1);
    add(l, quick, &c);
}

static void gemm_rows(list *l) {
    static const int64_t rows[] = {8192, 128, 1024, 32768}, widths[] = {512, 384, 768}, few[] = {1, 2, 4, 8};
    static const int64_t shape[][2] = {{1, 1}, {3, 1}, {4, 1}, {1, 4}};
    static const char *const names[] = {"gemm.nt", "gemm.nn", "gemm.tn", "gemm.backward"};
    for (int i = 0; i < 4; i++)
        for (int w = 0; w < 3; w++)
            for (int s = 0; s < 4; s++)
                for (int r = 0; r < 4; r++) {
                    int64_t m = rows[r], n = shape[s][0] * widths[w], k = shape[s][1] * widths[w];
                    bool quick = w == 0 && r == 0 && (s == 0 || s == 2) && i < 3;
                    if (i < 2)
                        product(l, quick, names[i], "", m, n, k);
                    else if (m != 128 && (i == 2 || m != 32768))
                        product(l, quick, names[i], "", n, k, m); /* the rows of the batch are the chain */
                }
    for (int s = 0; s < 4; s++)
        for (int r = 0; r < 4; r++)
            product(l, s == 2 && (r == 0 || r == 3), "gemm.nt", "few rows", few[r], shape[s][0] * 512, shape[s][1] * 512);
    product(l, false, "gemm.nt", "few rows", 1, 16384, 2048); /* weights that no cache holds */
    product(l, false, "gemm.nt", "few rows", 8, 16384, 2048);
    for (int r = 0; r < 4; r++) product(l, false, "gemm.nt", "packing included", rows[r], 512, 512);
}

/* What a row leaves open: the whole sequence is seen; attention has 8 heads and one sequence. */
static void table(list *l, const row *rows, size_t count) {
    for (size_t i = 0; i < count; i++) {
        qkv_bench_case c = rows[i].c;
        bool attends = strncmp(c.name, "attention.", 10) == 0;
        if (c.window.left == 0 && c.window.right == 0) c.window = everything;
        if (attends && c.heads == 0) c.heads = 8;
        if (attends && c.batch == 0 && c.tokens == 0) c.batch = 1;
        add(l, rows[i].quick, &c);
    }
}

#define TABLE(rows) table(l, rows, sizeof rows / sizeof *rows)

static void collect(list *l) {
    gemm_rows(l);
    TABLE(attention);
    TABLE(pointwise);
    TABLE(layer);
    TABLE(recurrence);
    TABLE(train);
    TABLE(predict);
}

/* ---- sizes of the user's own ---- */

typedef struct size {
    const char *name;
    size_t given, field;
    int64_t most;
    const char *groups;
} size;

#define SIZE(name, field, most, groups)                                                                                            \
    { name, offsetof(qkv_bench_options, field), offsetof(qkv_bench_case, field), most, groups }
static const size sizes[] = {
    SIZE("m", m, 1 << 24, "gemm"),
    SIZE("n", n, 1 << 24, "gemm attention pointwise layer recurrence train predict"),
    SIZE("k", k, 1 << 24, "gemm"),
    SIZE("dim", dim, 65536, "attention pointwise layer recurrence train predict"),
    SIZE("value-dim", value_dim, 65536, "attention"),
    SIZE("heads", heads, 65536, "attention layer train predict"),
    SIZE("kv-heads", kv_heads, 65536, "attention layer train predict"),
    SIZE("batch", batch, 1 << 24, "attention layer recurrence train predict"),
    SIZE("layers", layers, 65536, "train predict"),
    SIZE("ffn", ffn, 65536, "train predict"),
    SIZE("global-first", global_first, 1 << 24, "attention"),
    SIZE("global-every", global_every, 1 << 24, "attention"),
    SIZE("random-blocks", random_blocks, QKV_RANDOM_BLOCKS_MAX, "attention"),
    SIZE("block", block, 65536, "attention"),
};
enum { SIZES = sizeof sizes / sizeof *sizes };

static bool in_words(const char *words, const char *name, size_t length) {
    for (const char *w = words; *w; w += strcspn(w, " "), w += *w == ' ')
        if (strcspn(w, " ") == length && memcmp(w, name, length) == 0) return true;
    return false;
}

static qkv_status refuse(qkv_ctx *ctx, const char *name, const char *what) {
    return qkv_fail(ctx, QKV_BAD_ARGUMENT, "%s is not a size of '%.40s'; it goes with one kind of case that has it", name, what);
}

/* What stands beside a window needs one. */
static qkv_status pattern_fits(qkv_ctx *ctx, qkv_bench_case *c) {
    const bool further = c->global_first > 0 || c->global_every > 0 || c->random_blocks > 0;
    if (c->random_blocks > 0 && c->block == 0) c->block = 64;
    if (c->block > 0 && c->random_blocks == 0)
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "block=%lld is of random-blocks: give a number of them, too", (long long)c->block);
    if (further && c->window.left < 0 && c->window.right <= 0)
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "%s without a window: every token sees all anyway (--window 64,64)",
                        c->random_blocks > 0 ? "random-blocks" : "global tokens");
    return QKV_OK;
}

static qkv_status apply(qkv_ctx *ctx, const qkv_bench_options *o, const char *what, qkv_bench_case *c) {
    size_t group = strcspn(what, ".");
    for (int i = 0; i < SIZES; i++) {
        int64_t given;
        memcpy(&given, (const char *)o + sizes[i].given, sizeof given);
        if (given == -1) continue;
        if (!in_words(sizes[i].groups, what, group)) return refuse(ctx, sizes[i].name, what);
        if (strcmp(c->name, "predict.texts") == 0 && strcmp(sizes[i].name, "n") == 0)
            return refuse(ctx, "n", c->name); /* texts vary */
        memcpy((char *)c + sizes[i].field, &given, sizeof given);
        if (sizes[i].field == offsetof(qkv_bench_case, batch) || sizes[i].field == offsetof(qkv_bench_case, n)) {
            c->tokens = c->shortest = 0; /* all of one length */
            if (c->batch == 0 && strcmp(what, "gemm") != 0) c->batch = 1;
        }
    }
    if (o->dim != -1 && o->ffn == -1 && c->ffn > 0) c->ffn = 4 * c->dim; /* a model of that width, not one width of another */
    if (o->window.left != -2) {
        if (!in_words("attention layer train", what, group)) return refuse(ctx, "window", what);
        c->window = o->window;
    }
    if (o->layout != -1) {
        if (strcmp(c->name, "attention.decode") != 0) return refuse(ctx, "layout", what);
        c->layout = (qkv_bench_layout)o->layout;
    }
    if (o->dropout >= 0) {
        if (!in_words("attention layer train", what, group) && strcmp(c->name, "pointwise.residual") != 0) return refuse(ctx, "dropout", what);
        c->dropout = o->dropout;
    }
    if (c->heads > 0 && c->kv_heads > 0 && c->heads % c->kv_heads != 0)
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "kv-heads=%lld does not divide heads=%lld", (long long)c->kv_heads,
                        (long long)c->heads);
    if (!in_words("attention", what, group) && c->heads > 0 && c->dim % c->heads != 0)
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "heads=%lld does not divide dim=%lld", (long long)c->heads, (long long)c->dim);
    c->variant[0] = 0;
    return pattern_fits(ctx, c);
}

static bool any_size(const qkv_bench_options *o) {
    for (int i = 0; i < SIZES; i++) {
        int64_t given;
        memcpy(&given, (const char *)o + sizes[i].given, sizeof given);
        if (given != -1) return true;
    }
    return o->window.left != -2 || o->dropout >= 0 || o->layout != -1;
}

static qkv_status check(qkv_ctx *ctx, const qkv_bench_options *o) {
    for (int i = 0; i < SIZES; i++) {
        int64_t given;
        memcpy(&given, (const char *)o + sizes[i].given, sizeof given);
        if (given != -1 && (given < 1 || given > sizes[i].most))
            return qkv_fail(ctx, QKV_BAD_ARGUMENT, "%s=%lld: expected 1 to %lld", sizes[i].name, (long long)given,
                            (long long)sizes[i].most);
    }
    if (o->window.left < -2 || o->window.right < -1 || o->window.left > 1 << 24 || o->window.right > 1 << 24)
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "window=%lld,%lld: expected -1 to %d on both sides", (long long)o->window.left,
                        (long long)o->window.right, 1 << 24);
    if (o->layout < -1 || o->layout > QKV_BENCH_HEADS) return qkv_fail(ctx, QKV_BAD_ARGUMENT, "layout=%d is not known", o->layout);
    if (isnan(o->dropout) || o->dropout > 0.95 || (o->dropout < 0 && o->dropout != -1))
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "dropout=%g: expected 0 to 0.95", o->dropout);
    if (o->seconds != 0 && !(o->seconds >= 0.01 && o->seconds <= 3600))
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "seconds=%g: expected 0.01 to 3600", o->seconds);
    const char *why;
    if (o->dtype != QKV_BENCH_F32 && o->dtype != QKV_BENCH_BF16)
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "dtype=%d is not known", (int)o->dtype);
    if (!qkv_bench_has(ctx, o->dtype, &why)) return qkv_fail(ctx, QKV_BAD_ARGUMENT, "bf16 cannot be measured here: %s", why);
    return QKV_OK;
}

qkv_status qkv_bench_check_case(qkv_ctx *ctx, const qkv_bench_case *c) {
    const size_t group = strcspn(c->name, ".");
    for (int i = 0; i < SIZES; i++) {
        int64_t has;
        memcpy(&has, (const char *)c + sizes[i].field, sizeof has);
        /* what such a case cannot be without */
        bool needed = in_words("m n k dim heads", sizes[i].name, strlen(sizes[i].name)) && in_words(sizes[i].groups, c->name, group) &&
                      !(sizes[i].field == offsetof(qkv_bench_case, n) && strncmp(c->name, "predict", group) == 0);
        if (has < needed || has > sizes[i].most)
            return qkv_fail(ctx, QKV_BAD_ARGUMENT, "%.40s: %s=%lld, expected %d to %lld", c->name, sizes[i].name, (long long)has, needed,
                            (long long)sizes[i].most);
    }
    return QKV_OK;
}

/* Decoding reads what lies there: there is nothing in it for a window and the like, nor for dropout. Only its keys and values can
 * lie otherwise. */
static bool beyond_case(const qkv_bench_options *o, const qkv_bench_case *c) {
    const bool of_others = o->window.left >= 0 || o->global_first > 0 || o->global_every > 0 || o->random_blocks > 0 ||
                           o->dropout > 0;
    if (strncmp(c->name, "attention.", 10) != 0) return false;
    return strcmp(c->name, "attention.decode") == 0 ? of_others : o->layout != -1;
}

/* The first case of each name, with the user's sizes. */
static qkv_status resize(qkv_ctx *ctx, const qkv_bench_options *o, const char *what, list *l) {
    int64_t kept = 0;
    for (int64_t i = 0; i < l->count; i++) {
        bool seen = false;
        for (int64_t j = 0; j < kept; j++) seen |= strcmp(l->cases[j].name, l->cases[i].name) == 0;
        if (seen || beyond_case(o, &l->cases[i])) continue;
        l->cases[kept] = l->cases[i];
        QKV_TRY(apply(ctx, o, what, &l->cases[kept]));
        kept++;
    }
    l->count = kept;
    if (kept == 0)
        return qkv_fail(ctx, QKV_BAD_ARGUMENT,
                        o->layout != -1 ? "layout is of attention.decode, which has no windows, patterns and no dropout"
                                        : "windows, global tokens, random blocks and dropout are of attention.forward and "
                                          "attention.backward, not of attention.decode");
    return QKV_OK;
}

qkv_status qkv_bench_cases(qkv_ctx *ctx, const qkv_bench_options *o, qkv_bench_case **cases, int64_t *count) {
    const char *what = o->what ? o->what : "all";
    bool resized = any_size(o);
    QKV_TRY(check(ctx, o));
    list l = {.what = what, .quick = o->quick && !resized};
    collect(&l);
    if (l.count == 0)
        return qkv_fail(ctx, QKV_BAD_ARGUMENT,
                        "there is no case '%.40s'; there are peak, gemm, attention, pointwise, layer, recurrence, train, predict, one of "
                        "their cases like attention.forward, and all",
                        what);
    QKV_TRY(qkv_alloc(ctx, l.count, sizeof *l.cases, &l.cases));
    l.count = 0;
    collect(&l);
    qkv_status status = resized ? resize(ctx, o, what, &l) : QKV_OK;
    if (status != QKV_OK) {
        qkv_free(ctx, l.cases);
        return status;
    }
    *cases = l.cases;
    *count = l.count;
    return QKV_OK;
}
