#include <stddef.h>

#include "data/options.h"
#include "models/encoder.h"
#include "models/options.h"
#include "report/flops.h"

#define AT(field) offsetof(qkv_flops_options, field)
#define INT(name, field, fallback, min, max, needs, help)                                                                          \
    { name, QKV_OPTION_INT, AT(field), fallback, min, max, NULL, GROUP, help, needs }
#define BOOL(name, field, fallback, needs, help)                                                                                   \
    { name, QKV_OPTION_BOOL, AT(field), fallback, 0, 1, NULL, GROUP, help, needs }
#define CHOICE(name, field, fallback, choices, needs, help)                                                                        \
    { name, QKV_OPTION_CHOICE, AT(field), fallback, 0, 0, choices, GROUP, help, needs }
#define RATE(name, field, needs, help)                                                                                             \
    { name, QKV_OPTION_REAL, AT(field), "0", 0, 0.95, NULL, GROUP, help, needs }

#define BLOCKS QKV_NETWORK_ATTENDS

static const qkv_option options_list[] = {
#define GROUP "Network"
    CHOICE("model", model, "transformer", "transformer|rnn|lstm|gru|birnn|bilstm|bigru", NULL,
           "attention, or recurrence in one direction or both"),
    CHOICE("cell", cell, "plain", "plain|relu|peepholes|reset-before", "model=rnn|lstm|gru|birnn|bilstm|bigru",
           "rnn: plain (tanh), relu; lstm: plain, peepholes; gru: plain (reset after the product), reset-before"),
    INT("layers", layers, "0", 0, 4096, NULL, "of the encoder, with an embedding before and a head behind (0: one layer alone)"),
    INT("dim", dim, "512", 1, 65536, NULL, "width of the model"),
    INT("heads", heads, "8", 1, 4096, BLOCKS ",pooling=attention",
        "attention heads, a divisor of dim (of a recurrent model: those of attention pooling)"),
    BOOL("output-projection", output_projection, "yes", BLOCKS " !layers",
         "of an attention layer alone: one more linear map behind the heads"),
    QKV_BLOCK_OPTIONS(AT, GROUP, BLOCKS " layers"),
    QKV_PATTERN_OPTIONS(AT, GROUP, BLOCKS " layers"),
    CHOICE("segment", segment, "none", "none|words|sentences|tokens", "layers",
           "texts are read segment by segment, then the vectors of the segments"),
    INT("segment-length", segment_length, "0", 0, 1 << 24, "segment=words|sentences|tokens",
        "tokens of a segment: all are taken to be of this length (0: 128, of words 16)"),
    INT("segment-layers", segment_layers, "0", 0, 4096, "segment=words|sentences|tokens",
        "encoder layers over the segments (0: 1)"),
    INT("vocab", vocab, "16000", 1, 1 << 28, "layers", "rows of the embedding table"),
    QKV_POSITION_OPTIONS(AT, GROUP, BLOCKS " layers"),
    INT("max-length", max_length, "0", 0, 1 << 24, BLOCKS " layers position=learned",
        "rows of the position table (0: as the longest sequence)"),
    CHOICE("position-beyond", position_beyond, "error", "error|clamp|tile|interpolate",
           BLOCKS " layers position=learned max-length", "what a token beyond the table has"),
    CHOICE("pooling", pooling, "mean", "mean|first|max|attention|last", "layers", "how a text becomes one vector"),
    INT("classes", classes, "2", 1, 1 << 24, "layers", "of the head"),
    BOOL("multi-label", multi_label, "no", "layers train", "a sigmoid a class instead of one softmax"),
    CHOICE("dtype", dtype, "f32", "f32|bf16", NULL, "operands of linear maps and attention; weights, sums and all else are f32"),
#undef GROUP
#define GROUP "Passes"
    BOOL("train", train, "no", NULL, "forward, backward and one update by AdamW, instead of forward alone"),
    CHOICE("recompute", recompute, "none", "none|blocks|sqrt|attention|pointwise", "layers train !reversible",
           "again in the backward pass: less memory, same bits"),
    INT("recompute-every", recompute_every, "0", 0, 4096, "recompute=blocks",
        "blocks in a row that are computed again together (0: each alone)"),
    INT("ffn-chunk", ffn_chunk, "0", 0, 1e8, BLOCKS " layers train",
        "rows that a feed-forward layer goes over at a time: less memory, same bits (0: all)"),
    RATE("dropout", dropout, "layers train", "on the outputs of the layers"),
    RATE("attention-dropout", attention_dropout, BLOCKS " train", "on the attention weights"),
    RATE("embedding-dropout", embedding_dropout, "layers train", "on the embeddings"),
#undef GROUP
#define AT_DATA(field) AT(data.field)
    QKV_DATA_OPTIONS(AT_DATA),
};

const qkv_option_table qkv_flops_table = {
    .name = "flops",
    .options = options_list,
    .count = sizeof options_list / sizeof options_list[0],
    .struct_size = sizeof(qkv_flops_options),
};

static bool biases(const qkv_flops_options *o) {
    return o->biases == QKV_FLOPS_BIASES_AUTO ? o->layers > 0 : o->biases == QKV_FLOPS_BIASES_YES;
}

qkv_config qkv_flops_config(const qkv_flops_options *o, int64_t longest) {
    qkv_config c = {
        QKV_NETWORK_FIELDS(o),
        .vocab = o->vocab,
        .classes = o->classes,
        .layers = o->layers > 0 ? o->layers : 1,
        .max_length = o->max_length > 0 ? o->max_length
                      : longest > 0     ? longest
                                        : 1,
        .bias = biases(o),
        .segment = o->layers > 0 ? (qkv_segmentation)o->segment : QKV_SEGMENT_NONE,
    };
    if (o->max_length == 0 && longest == 0 && c.segment != QKV_SEGMENT_NONE) {
        c.max_length = QKV_LONGEST; /* no text says how long one is, but a segment of one is as long as usual */
        c.max_length = qkv_config_segment_length(&c);
    }
    (void)qkv_numbers_parse(o->global_at, QKV_LONGEST - 1, &c.global_at);
    qkv_config_preset(&c, (qkv_pattern_kind)o->pattern);
    qkv_config_settle(&c);
    return c;
}

qkv_block_shape qkv_flops_layer(const qkv_flops_options *o) {
    const qkv_config c = qkv_flops_config(o, 0);
    const qkv_block_shape s = qkv_encoder_shape(&c);
    return (qkv_block_shape){.dim = o->dim,
                             .heads = o->heads,
                             .kv_heads = o->kv_heads > 0 ? o->kv_heads : o->heads,
                             .head_dim = o->dim / (o->heads > 0 ? o->heads : 1),
                             .bias = biases(o),
                             .qk_norm = o->qk_norm != 0,
                             .softcap = o->softcap,
                             .norm_epsilon = 1e-5,
                             .no_output = !o->output_projection,
                             .span = s.span,
                             .pattern = s.pattern,
                             .global_lists = s.global_lists,
                             .global_projection = s.global_projection,
                             .attention_dropout = o->attention_dropout,
                             .layers = 1};
}

static qkv_status refuse_lengths(qkv_ctx *ctx, const int64_t *lengths, int64_t sequences, double *tokens) {
    const int64_t most = 1 << 24;
    *tokens = 0;
    if (sequences < 0 || sequences > 1 << 20)
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "%lld sequences: a batch has 0 to %d", (long long)sequences, 1 << 20);
    for (int64_t i = 0; i < sequences; i++) {
        if (lengths[i] < 0 || lengths[i] > most)
            return qkv_fail(ctx, QKV_BAD_ARGUMENT, "sequence %lld of %lld tokens: a sequence has 0 to %lld", (long long)i + 1,
                            (long long)lengths[i], (long long)most);
        *tokens += (double)lengths[i];
    }
    return QKV_OK;
}

qkv_status qkv_flops_check(qkv_ctx *ctx, const int64_t *lengths, int64_t sequences, int64_t layers, int64_t heads, int64_t width) {
    double tokens;
    QKV_TRY(refuse_lengths(ctx, lengths, sequences, &tokens));
    const double walk = (tokens + (double)sequences * (double)heads) * (double)layers;
    const double bytes = 64 * (tokens + 1) * (double)width * (double)layers; /* more than are kept */
    if (walk > 0x1p29)
        return qkv_fail(
            ctx, QKV_BAD_ARGUMENT,
            "too large to walk: tokens=%.0f, sequences=%lld, heads=%lld and layers=%lld make %.0f steps; the most is %.0f", tokens,
            (long long)sequences, (long long)heads, (long long)layers, walk, 0x1p29);
    if (bytes > 0x1p60)
        return qkv_fail(
            ctx, QKV_BAD_ARGUMENT,
            "too large to count: tokens=%.0f in rows of up to %lld numbers and layers=%lld make %.3g bytes; the most is %.3g",
            tokens, (long long)width, (long long)layers, bytes, 0x1p60);
    return QKV_OK;
}
