#include <math.h>
#include <stddef.h>
#include <string.h>

#include "data/options.h"
#include "tasks/classify.h"
#include "train/schedule.h"

#define AT(field) offsetof(qkv_classify_options, field)
#define INT(name, field, fallback, min, max, help)                                                                                 \
    { name, QKV_OPTION_INT, AT(field), fallback, min, max, NULL, GROUP, help }
#define REAL(name, field, fallback, min, max, help)                                                                                \
    { name, QKV_OPTION_REAL, AT(field), fallback, min, max, NULL, GROUP, help }
#define BOOL(name, field, fallback, help)                                                                                          \
    { name, QKV_OPTION_BOOL, AT(field), fallback, 0, 1, NULL, GROUP, help }
#define CHOICE(name, field, fallback, choices, help)                                                                               \
    { name, QKV_OPTION_CHOICE, AT(field), fallback, 0, 0, choices, GROUP, help }

/* A rate of dropout below 1: at 1 nothing would be left. */
#define P_MAX 0.95

static const qkv_option options_list[] = {
#define GROUP "Training"
    REAL("epochs", epochs, "4", 0.001, 1e6, "passes over the training rows; may be a fraction"),
    INT("steps", steps, "0", 0, 1e12, "optimizer steps, instead of epochs (0: by epochs)"),
    {"seed", QKV_OPTION_SEED, AT(seed), "1", 0, 0, NULL, GROUP, "of weights, order of rows and dropout; same seed, same bits"},
    INT("batch-tokens", batch_tokens, "4096", 1, 1e8, "tokens of a batch at most; a longer row is a batch of its own"),
    INT("batch-rows", batch_rows, "64", 0, 1e7, "rows of a batch at most (0: only tokens count)"),
    INT("accumulate", accumulate, "1", 1, 1e6, "batches whose gradients make one step"),
    REAL("evaluate", evaluate, "1", 0, 1e6, "epochs between evaluations on the dev rows (0: at the end only)"),
    CHOICE("metric", metric, "accuracy", "accuracy|macro-f1|loss",
           "dev metric that picks the weights to keep (accuracy with --multi-label: micro-F1)"),
    INT("patience", patience, "0", 0, 1e9, "evaluations in a row without a better one after which training ends (0: never)"),
    CHOICE("average", average, "none", "none|ema|checkpoints",
           "what to evaluate and keep: single weights, a moving average, or the last ones' mean too"),
    REAL("ema-decay", ema_decay, "0.999", 0.1, 0.99999, "of the moving average, per step; less in the first steps"),
    INT("average-last", average_last, "3", 2, 1000, "evaluations whose weights --average checkpoints takes the mean of"),
    BOOL("multi-label", multi_label, "no", "a text has any number of labels: a sigmoid each, thresholds tuned on the dev rows"),
    BOOL("pair", pair, "no", "a row has two texts (label TAB text TAB text; second field or column)"),
    BOOL("balance", balance, "no", "weigh rows by the inverse frequency of their label, 1 on average"),
#undef GROUP
#define AT_DATA(field) AT(data.field)
    QKV_DATA_OPTIONS(AT_DATA),
#define GROUP "Model"
    INT("layers", layers, "1", 1, 4096, "encoder blocks"),
    INT("dim", dim, "128", 1, 65536, "width of the model"),
    INT("heads", heads, "4", 1, 4096, "attention heads, a divisor of dim"),
    INT("kv-heads", kv_heads, "0", 0, 4096, "key/value heads, a divisor of heads (0: as heads; 1: multi-query)"),
    INT("ffn", ffn, "0", 0, 1 << 20, "width inside the feed-forward layers (0: 4 * dim)"),
    INT("ngrams", ngrams, "2", 0, 8, "longest run of words in the linear model beside the encoder (0: there is none)"),
    INT("ngram-min-rows", ngram_min_rows, "0", 0, 1e9, "texts a run must be in (0: 1 below 10,000 texts, else 3 or more)"),
    CHOICE("position", position, "learned", "none|sinusoidal|learned", "how positions enter"),
    CHOICE("pooling", pooling, "attention", "mean|first|max|attention", "how a text becomes one vector"),
    CHOICE("norm", norm, "layer", "layer|rms", "normalisation"),
    CHOICE("activation", activation, "gelu", "gelu|gelu-tanh|relu|silu|geglu|swiglu", "of the feed-forward layers"),
    BOOL("post-norm", post_norm, "no", "normalise after each residual sum instead of before each layer"),
    BOOL("bias", bias, "yes", "biases in the linear layers"),
    BOOL("causal", causal, "no", "a token sees itself and what stands to its left"),
    {"window", QKV_OPTION_SPAN, AT(window), "-1,-1", 0, 0, NULL, GROUP,
     "neighbours a token sees to its left and right, itself not counted (-1: all)"},
#undef GROUP
#define GROUP "Text"
    CHOICE("tokenizer", tokenizer, "bpe", "bpe|char|byte", "trained on the training texts"),
    INT("vocab", vocab, "16000", 5, 1 << 24, "largest vocabulary; bpe needs at least 260"),
    INT("max-length", max_length, "256", 1, 1 << 24, "tokens of a text that are read; the rest is cut and counted"),
    BOOL("lowercase", lowercase, "yes", "map letters to lower case"),
    CHOICE("normalize", normalize, "none", "none|nfc|nfkc", "Unicode form; nfkc also makes full-width letters ordinary ones"),
#undef GROUP
#define GROUP "Optimizer"
    REAL("lr", lr, "0.0005", 0, 1e6, "peak learning rate of the dense weights"),
    REAL("embedding-lr", embedding_lr, "0", 0, 1e6, "peak learning rate of the embeddings (0: 6 * lr)"),
    BOOL("lazy-embedding", lazy_embedding, "yes", "a token's embedding moves only in steps that saw the token"),
    CHOICE("schedule", schedule, "linear", "linear|cosine|constant|inverse-sqrt", "of the learning rate after the warm-up"),
    REAL("warmup", warmup, "0.1", 0, 1e12, "rising part: below 1 a share of the steps, from 1 a number of steps"),
    REAL("weight-decay", weight_decay, "0.01", 0, 1e3, "decoupled; never on biases and norms"),
    REAL("beta1", beta1, "0.9", 0, 0.999999, "of AdamW"),
    REAL("beta2", beta2, "0.98", 0, 0.999999, "of AdamW"),
    REAL("epsilon", epsilon, "1e-8", 1e-16, 1, "of AdamW"),
    REAL("clip", clip, "1", 0, 1e30, "largest norm of the whole gradient (0: no clipping)"),
    CHOICE("dtype", dtype, "f32", "f32|bf16", "operands of linear maps and attention; weights, sums and all else are f32"),
    CHOICE("recompute", recompute, "auto", "none|blocks|auto",
           "compute blocks again in the backward pass: less memory, same bits (auto: if it must be)"),
    {"memory", QKV_OPTION_SIZE, AT(memory), "0", 0, 0x1p50, NULL, GROUP,
     "that the whole run may take: 800M, 2G; batches are cut to fit (0: what is free)"},
#undef GROUP
#define GROUP "Regularisation"
    REAL("dropout", dropout, "0.2", 0, P_MAX, "on the outputs of the layers"),
    REAL("attention-dropout", attention_dropout, "0.1", 0, P_MAX, "on the attention weights"),
    REAL("embedding-dropout", embedding_dropout, "0.3", 0, P_MAX, "on the embeddings"),
    REAL("token-dropout", token_dropout, "0.2", 0, P_MAX, "share of the training tokens replaced by <unk>"),
    REAL("label-smoothing", label_smoothing, "0.1", 0, 1, "share of the target spread evenly over all classes"),
#undef GROUP
#define GROUP "Pretraining"
    REAL("pretrain", pretrain, "0", 0, 1e6, "epochs of learning to tell hidden tokens, before the training (0: none)"),
    REAL("pretrain-lr", pretrain_lr, "0.001", 0, 1e6, "peak learning rate of all weights meanwhile"),
    REAL("mask", mask, "0.3", 0, 0.95, "share of the tokens of a text that is hidden, at least one"),
#undef GROUP
};

const qkv_option_table qkv_classify_table = {
    .name = "train classify",
    .options = options_list,
    .count = sizeof options_list / sizeof options_list[0],
    .struct_size = sizeof(qkv_classify_options),
};

typedef struct named_size {
    const char *name;
    int64_t layers, dim, heads;
    double lr;
} named_size;

static const named_size sizes[] = {
    {"tiny", 1, 64, 2, 5e-4},
    {"small", 1, 128, 4, 5e-4},
    {"base", 4, 256, 4, 3e-4},
};

qkv_status qkv_classify_size(qkv_ctx *ctx, qkv_classify_options *o, const char *size) {
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        if (strcmp(size, sizes[i].name) != 0) continue;
        o->layers = sizes[i].layers;
        o->dim = sizes[i].dim;
        o->heads = sizes[i].heads;
        o->kv_heads = 0;
        o->ffn = 0;
        o->lr = sizes[i].lr;
        o->embedding_lr = 0;
        return QKV_OK;
    }
    return qkv_fail(ctx, QKV_BAD_ARGUMENT, "size=%.64s: expected one of tiny|small|base", size);
}

static int choices(const char *names) {
    int n = 1;
    for (; *names; names++) n += *names == '|';
    return n;
}

static qkv_status check_one(qkv_ctx *ctx, const qkv_option *o, const void *options) {
    const char *field = (const char *)options + o->offset;
    double value = 0, min = o->min, max = o->max;
    switch (o->type) {
    case QKV_OPTION_INT:
    case QKV_OPTION_SIZE: {
        int64_t v;
        memcpy(&v, field, sizeof v);
        value = (double)v;
        break;
    }
    case QKV_OPTION_REAL:
        memcpy(&value, field, sizeof value);
        break;
    case QKV_OPTION_BOOL:
    case QKV_OPTION_CHOICE: {
        int v;
        memcpy(&v, field, sizeof v);
        value = v;
        max = o->type == QKV_OPTION_BOOL ? 1 : choices(o->choices) - 1;
        break;
    }
    case QKV_OPTION_SPAN: {
        qkv_span v;
        memcpy(&v, field, sizeof v);
        value = (double)(v.left < v.right ? v.left : v.right);
        min = -1;
        max = INFINITY;
        break;
    }
    case QKV_OPTION_SEED:
    case QKV_OPTION_TEXT: /* looked at by qkv_data_options_fill */
        return QKV_OK;
    }
    if (value >= min && value <= max) return QKV_OK; /* NaN is refused */
    return qkv_fail(ctx, QKV_BAD_CONFIG, "%s=%.17g is not in %.17g .. %.17g", o->name, value, min, max);
}

qkv_status qkv_classify_check(qkv_ctx *ctx, const qkv_classify_options *o) {
    for (size_t i = 0; i < qkv_classify_table.count; i++) QKV_TRY(check_one(ctx, &qkv_classify_table.options[i], o));
    int64_t least = QKV_TOKEN_SPECIALS + 256;
    if (o->tokenizer == QKV_TOKENIZER_BPE && o->vocab < least)
        return qkv_fail(ctx, QKV_BAD_CONFIG, "vocab=%lld is too small for the bpe tokenizer, which needs at least %lld",
                        (long long)o->vocab, (long long)least);
    qkv_data_options data;
    QKV_TRY(qkv_data_options_fill(ctx, &o->data, &data));
    qkv_config c = qkv_classify_config(o, o->vocab, 2);
    return qkv_config_check(ctx, &c);
}

qkv_config qkv_classify_config(const qkv_classify_options *o, int64_t vocab, int64_t classes) {
    return (qkv_config){
        .vocab = vocab,
        .classes = classes,
        .layers = o->layers,
        .dim = o->dim,
        .heads = o->heads,
        .kv_heads = o->kv_heads > 0 ? o->kv_heads : o->heads,
        .head_dim = o->heads > 0 && o->dim > o->heads ? o->dim / o->heads : 1,
        .ffn = o->ffn > 0 ? o->ffn : 4 * o->dim,
        .max_length = o->max_length,
        .ngrams = qkv_classify_has_bag(o, classes) ? o->ngrams : 0,
        .position = (qkv_position)o->position,
        .pooling = (qkv_pooling)o->pooling,
        .norm = (qkv_norm)o->norm,
        .activation = (qkv_activation)o->activation,
        .post_norm = o->post_norm != 0,
        .bias = o->bias != 0,
        .multi_label = o->multi_label != 0,
        .pair = o->pair != 0,
        .bf16 = o->dtype == QKV_COMPUTE_BF16,
        .span = {o->window.left, o->causal ? 0 : o->window.right},
        .norm_epsilon = 1e-5,
        .dropout = o->dropout,
        .attention_dropout = o->attention_dropout,
        .embedding_dropout = o->embedding_dropout,
    };
}
