#include <stddef.h>

#include "data/options.h"
#include "models/encoder.h"
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
    CHOICE("pattern", pattern, "full", "full|local|global|alternating|sparse", BLOCKS,
           "who sees whom, by name: sets what of the following is not given"),
    INT("dilation", dilation, "0", 0, 65536, BLOCKS, "neighbours of the window stand so far apart (0: 1)"),
    INT("global-first", global_first, "0", 0, 1 << 24, BLOCKS, "the first so many tokens see all and are seen by all"),
    INT("global-every", global_every, "0", 0, 1 << 24, BLOCKS, "so do tokens 0, k, 2k, ... (0: none)"),
    BOOL("global-projection", global_projection, "no", BLOCKS, "such tokens have queries, keys and values of their own"),
    INT("random-blocks", random_blocks, "0", 0, 64, BLOCKS, "blocks of tokens that each block of tokens sees beside its window"),
    INT("block", block, "0", 0, 65536, BLOCKS, "tokens of such a block (0: 64)"),
    INT("full-every", full_every, "0", 0, 4096, BLOCKS " layers", "layers 0, k, 2k, ... see everything, whatever the window (0: none)"),
    CHOICE("segment", segment, "none", "none|words|sentences|tokens", "layers",
           "texts are read segment by segment, then the vectors of the segments"),
    INT("segment-length", segment_length, "0", 0, 1 << 24, "segment=words|sentences|tokens",
        "tokens of a segment: all are taken to be of this length (0: 128, of words 16)"),
    INT("segment-layers", segment_layers, "0", 0, 4096, "segment=words|sentences|tokens", "encoder layers over the segments (0: 1)"),
    INT("ffn", ffn, "0", 0, 1 << 20, BLOCKS " layers", "width inside the feed-forward layers (0: 4 * dim)"),
    CHOICE("activation", activation, "gelu", "gelu|gelu-tanh|relu|silu|geglu|swiglu", BLOCKS " layers",
           "of the feed-forward layers"),
    CHOICE("norm", norm, "layer", "layer|rms", BLOCKS " layers", "normalisation"),
    CHOICE("norm-place", norm_place, "pre", "pre|post|sandwich", BLOCKS " layers",
           "before each layer, after each residual sum, or before and after each layer"),
    CHOICE("residual", residual, "plain", "plain|deepnorm|none", BLOCKS " layers", "what a layer is added to"),
    BOOL("reversible", reversible, "no", BLOCKS " layers", "two streams of rows, from whose end training rebuilds what it did not keep"),
    BOOL("qk-norm", qk_norm, "no", BLOCKS, "normalise each head's queries and keys"),
    {.name = "softcap",
     .type = QKV_OPTION_REAL,
     .offset = AT(softcap),
     .fallback = "0",
     .max = 1e6,
     .group = GROUP,
     .help = "attention scores x become softcap * tanh(x / softcap) (0: no cap)",
     .needs = BLOCKS},
    INT("vocab", vocab, "16000", 1, 1 << 28, "layers", "rows of the embedding table"),
    CHOICE("position", position, "learned", "none|sinusoidal|learned|shaw|t5|alibi|rope", BLOCKS " layers", "how positions enter"),
    INT("position-reach", position_reach, "0", 0, 1 << 16, BLOCKS " layers position=shaw|t5",
        "distance from which on all are alike (0: shaw 16, t5 128)"),
    INT("position-buckets", position_buckets, "0", 0, 1 << 16, BLOCKS " layers position=t5", "of distances, an even number (0: 32)"),
    {.name = "rope-part",
     .type = QKV_OPTION_REAL,
     .offset = AT(rope_part),
     .fallback = "0",
     .max = 1,
     .group = GROUP,
     .help = "share of a head's columns that turns (0: all)",
     .needs = BLOCKS " layers position=rope"},
    INT("max-length", max_length, "0", 0, 1 << 24, BLOCKS " layers position=learned",
        "rows of the position table (0: as the longest sequence)"),
    CHOICE("pooling", pooling, "mean", "mean|first|max|attention|last", "layers", "how a text becomes one vector"),
    INT("classes", classes, "2", 1, 1 << 24, "layers", "of the head"),
    BOOL("multi-label", multi_label, "no", "layers train", "a sigmoid a class instead of one softmax"),
    CHOICE("dtype", dtype, "f32", "f32|bf16", NULL, "operands of linear maps and attention; weights, sums and all else are f32"),
#undef GROUP
#define GROUP "Passes"
    BOOL("train", train, "no", NULL, "forward, backward and one update by AdamW, instead of forward alone"),
    BOOL("recompute", recompute, "no", "layers train !reversible", "blocks are computed again in the backward pass instead of kept"),
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
        .position_reach = o->position_reach,
        .position_buckets = o->position_buckets,
        .rope_part = o->rope_part,
        .pooling = (qkv_pooling)o->pooling,
        .norm = (qkv_norm)o->norm,
        .activation = (qkv_activation)o->activation,
        .norm_place = (qkv_norm_place)o->norm_place,
        .residual = (qkv_residual_kind)o->residual,
        .qk_norm = o->qk_norm != 0,
        .softcap = o->softcap,
        .reversible = o->reversible != 0,
        .bias = biases(o),
        .segment = o->layers > 0 ? (qkv_segmentation)o->segment : QKV_SEGMENT_NONE,
        .segment_length = o->segment_length,
        .segment_layers = o->segment_layers,
        .multi_label = o->multi_label != 0,
        .bf16 = o->dtype == QKV_COMPUTE_BF16,
        .span = {o->window.left, o->causal ? 0 : o->window.right},
        .dilation = o->dilation,
        .global_first = o->global_first,
        .global_every = o->global_every,
        .global_projection = o->global_projection != 0,
        .random_blocks = o->random_blocks,
        .block = o->block,
        .full_every = o->full_every,
        .norm_epsilon = 1e-5,
        .dropout = o->dropout,
        .attention_dropout = o->attention_dropout,
        .embedding_dropout = o->embedding_dropout,
    };
    if (o->max_length == 0 && longest == 0 && c.segment != QKV_SEGMENT_NONE) {
        c.max_length = QKV_LONGEST; /* no text says how long one is, but a segment of one is as long as usual */
        c.max_length = qkv_config_segment_length(&c);
    }
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
