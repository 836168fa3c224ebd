#include <stddef.h>

#include "data/options.h"
#include "report/flops.h"

#define AT(field) offsetof(qkv_flops_options, field)
#define INT(name_, field, fallback_, min_, max_, needs_, help_)                                                                    \
    {                                                                                                                              \
        .name = name_, .type = QKV_OPTION_INT, .offset = AT(field), .fallback = fallback_, .min = min_, .max = max_,               \
        .group = GROUP, .help = help_, .needs = needs_                                                                             \
    }
#define BOOL(name_, field, fallback_, needs_, help_)                                                                               \
    {                                                                                                                              \
        .name = name_, .type = QKV_OPTION_BOOL, .offset = AT(field), .fallback = fallback_, .max = 1, .group = GROUP,              \
        .help = help_, .needs = needs_                                                                                             \
    }
#define CHOICE(name_, field, fallback_, choices_, needs_, help_)                                                                   \
    {                                                                                                                              \
        .name = name_, .type = QKV_OPTION_CHOICE, .offset = AT(field), .fallback = fallback_, .choices = choices_, .group = GROUP, \
        .help = help_, .needs = needs_                                                                                             \
    }
#define RATE(name_, field, needs_, help_)                                                                                          \
    {                                                                                                                              \
        .name = name_, .type = QKV_OPTION_REAL, .offset = AT(field), .fallback = "0", .max = 0.95, .group = GROUP, .help = help_,  \
        .needs = needs_                                                                                                            \
    }

#define BLOCKS "model=transformer"

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
    INT("kv-heads", kv_heads, "0", 0, 4096, BLOCKS, "key/value heads, a divisor of heads (0: as heads; 1: multi-query)"),
    BOOL("output-projection", output_projection, "yes", BLOCKS " !layers",
         "of an attention layer alone: one more linear map behind the heads"),
    BOOL("causal", causal, "no", BLOCKS, "a token sees itself and what stands to its left"),
    {.name = "window",
     .type = QKV_OPTION_SPAN,
     .offset = AT(window),
     .fallback = "-1,-1",
     .group = GROUP,
     .help = "neighbours a token sees to its left and right, itself not counted (-1: all)",
     .needs = BLOCKS},
    INT("ffn", ffn, "0", 0, 1 << 20, BLOCKS " layers", "width inside the feed-forward layers (0: 4 * dim)"),
    CHOICE("activation", activation, "gelu", "gelu|gelu-tanh|relu|silu|geglu|swiglu", BLOCKS " layers",
           "of the feed-forward layers"),
    CHOICE("norm", norm, "layer", "layer|rms", BLOCKS " layers", "normalisation"),
    BOOL("post-norm", post_norm, "no", BLOCKS " layers", "normalise after each residual sum instead of before each layer"),
    INT("vocab", vocab, "16000", 1, 1 << 28, "layers", "rows of the embedding table"),
    CHOICE("position", position, "learned", "none|sinusoidal|learned", BLOCKS " layers", "how positions enter"),
    INT("max-length", max_length, "0", 0, 1 << 24, BLOCKS " layers position=learned",
        "rows of the position table (0: as the longest sequence)"),
    CHOICE("pooling", pooling, "mean", "mean|first|max|attention", "layers", "how a text becomes one vector"),
    INT("classes", classes, "2", 1, 1 << 24, "layers", "of the head"),
    BOOL("multi-label", multi_label, "no", "layers train", "a sigmoid a class instead of one softmax"),
    CHOICE("dtype", dtype, "f32", "f32|bf16", NULL, "operands of linear maps and attention; weights, sums and all else are f32"),
#undef GROUP
#define GROUP "Passes"
    BOOL("train", train, "no", NULL, "forward, backward and one update by AdamW, instead of forward alone"),
    BOOL("recompute", recompute, "no", "layers train", "blocks are computed again in the backward pass instead of kept"),
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
    const int64_t heads = o->heads > 0 ? o->heads : 1, place = longest > 0 ? longest : 1;
    qkv_config c = {
        .model = (qkv_network)o->model,
        .cell = (qkv_cell_kind)o->cell,
        .vocab = o->vocab,
        .classes = o->classes,
        .layers = o->layers > 0 ? o->layers : 1,
        .dim = o->dim,
        .heads = o->heads,
        .kv_heads = o->kv_heads > 0 ? o->kv_heads : o->heads,
        .head_dim = o->dim / heads,
        .ffn = o->ffn > 0 ? o->ffn : 4 * o->dim,
        .max_length = o->max_length > 0 ? o->max_length : place,
        .position = (qkv_position)o->position,
        .pooling = (qkv_pooling)o->pooling,
        .norm = (qkv_norm)o->norm,
        .activation = (qkv_activation)o->activation,
        .post_norm = o->post_norm != 0,
        .bias = biases(o),
        .multi_label = o->multi_label != 0,
        .bf16 = o->dtype == QKV_COMPUTE_BF16,
        .span = {o->window.left, o->causal ? 0 : o->window.right},
        .norm_epsilon = 1e-5,
        .dropout = o->dropout,
        .attention_dropout = o->attention_dropout,
        .embedding_dropout = o->embedding_dropout,
    };
    qkv_config_settle(&c);
    return c;
}

qkv_block_shape qkv_flops_layer(const qkv_flops_options *o) {
    return (qkv_block_shape){.dim = o->dim,
                             .heads = o->heads,
                             .kv_heads = o->kv_heads > 0 ? o->kv_heads : o->heads,
                             .head_dim = o->dim / (o->heads > 0 ? o->heads : 1),
                             .bias = biases(o),
                             .no_output = !o->output_projection,
                             .span = {o->window.left, o->causal ? 0 : o->window.right},
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
