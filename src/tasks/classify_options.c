#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/number.h"
#include "data/options.h"
#include "models/globals.h"
#include "models/options.h"
#include "tasks/classify.h"
#include "train/schedule.h"

#define AT(field) offsetof(qkv_classify_options, field)
#define INT(name, field, fallback, min, max, help)                                                                                 \
    INT_IF(NULL, name, field, fallback, min, max, help)
#define INT_IF(needs, name, field, fallback, min, max, help)                                                                       \
    { name, QKV_OPTION_INT, AT(field), fallback, min, max, NULL, GROUP, help, needs }
#define REAL(name, field, fallback, min, max, help)                                                                                \
    REAL_IF(NULL, name, field, fallback, min, max, help)
#define REAL_IF(needs, name, field, fallback, min, max, help)                                                                      \
    { name, QKV_OPTION_REAL, AT(field), fallback, min, max, NULL, GROUP, help, needs }
#define BOOL(name, field, fallback, help)                                                                                          \
    BOOL_IF(NULL, name, field, fallback, help)
#define BOOL_IF(needs, name, field, fallback, help)                                                                                \
    { name, QKV_OPTION_BOOL, AT(field), fallback, 0, 1, NULL, GROUP, help, needs }
#define CHOICE(name, field, fallback, choices, help)                                                                               \
    CHOICE_IF(NULL, name, field, fallback, choices, help)
#define CHOICE_IF(needs, name, field, fallback, choices, help)                                                                     \
    { name, QKV_OPTION_CHOICE, AT(field), fallback, 0, 0, choices, GROUP, help, needs }

/* What only an encoder of attention has. */
#define BLOCKS QKV_NETWORK_ATTENDS

/* A rate of dropout below 1: at 1 nothing would be left. */
#define P_MAX 0.95

static const qkv_option options_list[] = {
#define GROUP "Training"
    REAL_IF("!steps", "epochs", epochs, "4", 0.001, 1e6, "passes over the training rows; may be a fraction"),
    INT("steps", steps, "0", 0, 1e12, "optimizer steps, instead of epochs (0: by epochs)"),
    {"seed", QKV_OPTION_SEED, AT(seed), "1", 0, 0, NULL, GROUP, "of weights, order of rows and dropout; same seed, same bits", NULL},
    INT("batch-tokens", batch_tokens, "4096", 1, 1e8, "tokens of a batch at most; a longer row is a batch of its own"),
    INT("batch-rows", batch_rows, "64", 0, 1e7, "rows of a batch at most (0: only tokens count)"),
    INT("accumulate", accumulate, "1", 1, 1e6, "batches whose gradients make one step"),
    REAL("evaluate", evaluate, "1", 0, 1e6, "epochs between evaluations on the dev rows (0: at the end only)"),
    CHOICE("metric", metric, "accuracy", "accuracy|macro-f1|loss",
           "dev metric that picks the weights to keep (accuracy with --multi-label: micro-F1)"),
    INT_IF("evaluate", "patience", patience, "0", 0, 1e9, "evaluations in a row without a better one after which training ends (0: never)"),
    CHOICE("average", average, "none", "none|ema|checkpoints",
           "what to evaluate and keep: single weights, a moving average, or the last ones' mean too"),
    REAL_IF("average=ema", "ema-decay", ema_decay, "0.999", 0.1, 0.99999, "of the moving average, per step; less in the first steps"),
    INT_IF("average=checkpoints", "average-last", average_last, "3", 2, 1000, "evaluations whose weights --average checkpoints takes the mean of"),
    BOOL("multi-label", multi_label, "no", "a text has any number of labels: a sigmoid each, thresholds tuned on the dev rows"),
    BOOL("pair", pair, "no", "a row has two texts (label TAB text TAB text; second field or column)"),
    BOOL("balance", balance, "no", "weigh rows by the inverse frequency of their label, 1 on average"),
#undef GROUP
#define AT_DATA(field) AT(data.field)
    QKV_DATA_OPTIONS(AT_DATA),
#define GROUP "Model"
    CHOICE("model", model, "transformer", "transformer|rnn|lstm|gru|birnn|bilstm|bigru",
           "kind of encoder; bi: in both directions, half of dim each"),
    CHOICE_IF("model=rnn|lstm|gru|birnn|bilstm|bigru", "cell", cell, "plain", "plain|relu|peepholes|reset-before",
              "its variants: relu of an rnn, peepholes of an lstm, reset-before of a gru"),
    REAL_IF("model=lstm|bilstm", "forget-bias", forget_bias, "1", -100, 100,
            "of the forget gates at the start; above 0 they begin open"),
    INT("layers", layers, "1", 1, 4096, "encoder blocks, or recurrent layers"),
    INT("dim", dim, "128", 1, 65536, "width of the model"),
    INT_IF(BLOCKS ",pooling=attention", "heads", heads, "4", 1, 4096, "attention heads, a divisor of dim"),
    QKV_BLOCK_OPTIONS(AT, GROUP, BLOCKS),
    CHOICE_IF(BLOCKS, "init", init, "scaled", "scaled|plain|large|small",
              "initial weights of the blocks: by depth or not; poor ones"),
    BOOL_IF(BLOCKS, "unscaled", unscaled, "no", "attention scores without the factor 1/sqrt(d): to see what it is for"),
    BOOL_IF(BLOCKS, "bias", bias, "yes", "biases in the linear layers"),
    QKV_PATTERN_OPTIONS(AT, GROUP, BLOCKS),
    {"global-token", QKV_OPTION_TEXT, AT(global_token), "", 0, 0, NULL, GROUP,
     "so does each of these tokens, with spaces between; \\n \\t \\s \\\\, <sep> (parts a pair)", BLOCKS},
    BOOL_IF(BLOCKS " pair", "global-question", global_question, "no",
            "so do the tokens of the first text of a pair, and the separator"),
    QKV_POSITION_OPTIONS(AT, GROUP, BLOCKS),
    REAL_IF(BLOCKS " position=rope", "rope-base", rope_base, "0", 0, 1e12, "the slowest pair turns by 1/base a token (0: 10000)"),
    CHOICE_IF(BLOCKS " position=rope", "rope-pairs", rope_pairs, "half", "half|interleaved",
              "columns that turn together: c, c+d/2; 2c, 2c+1"),
    CHOICE_IF(BLOCKS " position=rope", "rope-stretch", rope_stretch, "none", "none|linear|ntk|yarn",
              "of the angles, for long texts"),
    REAL_IF("rope-stretch", "rope-factor", rope_factor, "0", 0, 1e6, "of the stretch, at least 1 (0: 1)"),
    INT_IF("rope-stretch=yarn", "rope-length", rope_length, "0", 0, 1 << 24,
           "tokens that the angles are made for without it (0: max-length)"),
    REAL_IF(BLOCKS " position=rope", "local-rope-base", local_rope_base, "0", 0, 1e12,
            "rope-base of the other layers (0: the same)"),
    CHOICE_IF(BLOCKS " position=sinusoidal", "position-layout", position_layout, "interleaved", "interleaved|split",
              "sine and cosine in turn, or all sines first"),
    CHOICE_IF(BLOCKS " position=learned", "position-beyond", position_beyond, "error", "error|clamp|tile|interpolate",
              "what a token beyond the table has, in a text read with a larger --max-length"),
    CHOICE("pooling", pooling, "attention", "mean|first|max|attention|last", "how a text becomes one vector"),
    CHOICE("segment", segment, "none", "none|words|sentences|tokens",
           "read a text segment by segment, then the vectors of the segments: for long texts"),
    INT_IF("segment=words|sentences|tokens", "segment-length", segment_length, "0", 0, 1 << 24,
           "tokens of a segment at most (0: 128, of words 16)"),
    INT_IF("segment=words|sentences|tokens", "segment-layers", segment_layers, "0", 0, 4096,
           "encoder layers over the segments (0: 1)"),
    INT("ngrams", ngrams, "2", 0, 8, "longest run of words in the linear model beside the encoder (0: there is none)"),
    INT_IF("ngrams", "ngram-min-rows", ngram_min_rows, "0", 0, 1e9,
           "texts a run must be in (0: 1 below 10,000 texts, else 3 or more)"),
#undef GROUP
#define GROUP "Text"
    CHOICE("tokenizer", tokenizer, "bpe", "bpe|char|byte", "trained on the training texts"),
    INT_IF("tokenizer=bpe|char", "vocab", vocab, "16000", 5, 1 << 24, "largest vocabulary; bpe needs at least 260"),
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
    CHOICE_IF("!reversible", "recompute", recompute, "auto", "none|blocks|sqrt|attention|pointwise|auto",
           "again in the backward pass: less memory, same bits (auto: if it must be)"),
    INT_IF("recompute=blocks", "recompute-every", recompute_every, "0", 0, 4096,
           "blocks in a row that are computed again together (0: each alone)"),
    INT_IF(BLOCKS, "ffn-chunk", ffn_chunk, "0", 0, 1e8,
           "rows that a feed-forward layer goes over at a time: less memory, same bits (0: all)"),
    {"memory", QKV_OPTION_SIZE, AT(memory), "0", 0, 0x1p50, NULL, GROUP,
     "that the whole run may take: 800M, 2G; batches are cut to fit (0: what is free)", NULL},
#undef GROUP
#define GROUP "Regularisation"
    REAL("dropout", dropout, "0.2", 0, P_MAX, "on the outputs of the layers"),
    REAL_IF(BLOCKS, "attention-dropout", attention_dropout, "0.1", 0, P_MAX, "on the attention weights"),
    REAL("embedding-dropout", embedding_dropout, "0.3", 0, P_MAX, "on the embeddings"),
    REAL("token-dropout", token_dropout, "0.2", 0, P_MAX, "share of the training tokens replaced by <unk>"),
    REAL("label-smoothing", label_smoothing, "0.1", 0, 1, "share of the target spread evenly over all classes"),
#undef GROUP
#define GROUP "Pretraining"
    REAL("pretrain", pretrain, "0", 0, 1e6, "epochs of learning to tell hidden tokens, before the training (0: none)"),
    REAL_IF("pretrain", "pretrain-lr", pretrain_lr, "0.001", 0, 1e6, "peak learning rate of all weights meanwhile"),
    REAL_IF("pretrain", "mask", mask, "0.3", 0, 0.95, "share of the tokens of a text that is hidden, at least one"),
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

/* On movie-review sentences (mr, five folds of the training file, encoder alone) an LSTM has 71.2 at a rate of 0.002 and 67.4 at that
 * of a transformer; a plain rnn was better off with half that rate on the dev rows. Eight epochs gain nothing over four. */
qkv_status qkv_classify_model(qkv_ctx *ctx, qkv_classify_options *o, const char *model) {
    int choice = -1;
    for (int i = QKV_NETWORK_TRANSFORMER; i <= QKV_NETWORK_BIGRU; i++)
        if (strcmp(model, qkv_network_name((qkv_network)i)) == 0) choice = i;
    if (choice < 0)
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "model=%.64s: expected one of transformer|rnn|lstm|gru|birnn|bilstm|bigru", model);
    o->model = choice;
    if (choice == QKV_NETWORK_TRANSFORMER) return QKV_OK;
    o->lr = choice == QKV_NETWORK_RNN || choice == QKV_NETWORK_BIRNN ? 1e-3 : 2e-3;
    return QKV_OK;
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
    case QKV_OPTION_TEXT: /* looked at by qkv_data_options_fill, or by check_globals */
        return QKV_OK;
    }
    if (value >= min && value <= max) return QKV_OK; /* NaN is refused */
    return qkv_fail(ctx, QKV_BAD_CONFIG, "%s=%s is not in %s .. %s", o->name, qkv_plain(value).s, qkv_plain(min).s, qkv_plain(max).s);
}

static qkv_status check_globals(qkv_ctx *ctx, const qkv_classify_options *o) {
    int64_t tokens;
    bool separator;
    if (!memchr(o->global_at, 0, sizeof o->global_at) || !memchr(o->global_token, 0, sizeof o->global_token))
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "global-at or global-token is not ended by a NUL");
    const qkv_config lengths = {.segment = (qkv_segmentation)o->segment, .segment_length = o->segment_length, .max_length = o->max_length};
    const int64_t segment = qkv_config_segment_length(&lengths); /* places count from its beginning */
    QKV_TRY(qkv_numbers_check(ctx, "global-at", o->global_at, (segment > 0 ? segment : o->max_length) - 1));
    QKV_TRY(qkv_global_tokens_count(ctx, o->global_token, &tokens, &separator));
    if (tokens == 0 && o->global_token[0])
        return qkv_fail(ctx, QKV_BAD_CONFIG, "global-token has no token: a space between parts them, and one that is meant is \\s");
    if (separator && !o->pair)
        return qkv_fail(ctx, QKV_BAD_CONFIG, "global-token: <sep> parts the two texts of a pair, and without pair there is none");
    return QKV_OK;
}

qkv_status qkv_classify_check(qkv_ctx *ctx, const qkv_classify_options *o) {
    for (size_t i = 0; i < qkv_classify_table.count; i++) QKV_TRY(check_one(ctx, &qkv_classify_table.options[i], o));
    int64_t least = QKV_TOKEN_SPECIALS + 256;
    if (o->tokenizer == QKV_TOKENIZER_BPE && o->vocab < least)
        return qkv_fail(ctx, QKV_BAD_CONFIG, "vocab=%lld is too small for the bpe tokenizer, which needs at least %lld",
                        (long long)o->vocab, (long long)least);
    qkv_data_options data;
    QKV_TRY(qkv_data_options_fill(ctx, &o->data, &data));
    if (o->pretrain > 0 && o->model >= QKV_NETWORK_RNN && o->model < QKV_NETWORK_BIRNN)
        return qkv_fail(ctx, QKV_BAD_CONFIG, "pretrain: in a %s a hidden token is told from what stands to its left alone; try model=bi%s",
                        qkv_network_name((qkv_network)o->model), qkv_network_name((qkv_network)o->model));
    QKV_TRY(qkv_config_check_causal(ctx, o->causal, o->window));
    QKV_TRY(qkv_config_check_name(ctx, (qkv_pattern_kind)o->pattern, o->window, o->dilation, o->layers));
    QKV_TRY(check_globals(ctx, o));
    qkv_config c = qkv_classify_config(o, o->vocab, 2);
    return qkv_config_check(ctx, &c);
}

qkv_config qkv_classify_config(const qkv_classify_options *o, int64_t vocab, int64_t classes) {
    qkv_config c = {
        QKV_NETWORK_FIELDS(o),
        .vocab = vocab,
        .classes = classes,
        .layers = o->layers,
        .max_length = o->max_length,
        .forget_given = true,
        .forget_bias = o->forget_bias,
        .ngrams = qkv_classify_has_bag(o, classes) ? o->ngrams : 0,
        .position_layout = (qkv_position_layout)o->position_layout,
        .rope_base = o->rope_base,
        .rope_pairs = (qkv_rope_pairs)o->rope_pairs,
        .rope_stretch = (qkv_rope_stretch)o->rope_stretch,
        .rope_factor = o->rope_factor,
        .rope_length = o->rope_length,
        .local_rope_base = o->local_rope_base,
        .init = (qkv_initial)o->init,
        .unscaled = o->unscaled != 0,
        .bias = o->bias != 0,
        .segment = (qkv_segmentation)o->segment,
        .pair = o->pair != 0,
        .global_question = o->global_question != 0,
    };
    (void)qkv_numbers_parse(o->global_at, QKV_LONGEST - 1, &c.global_at);
    if (o->global_token[strspn(o->global_token, " ")]) (void)qkv_numbers_add(&c.global_token, QKV_TOKEN_UNK);
    qkv_config_preset(&c, (qkv_pattern_kind)o->pattern);
    qkv_config_settle(&c);
    return c;
}
