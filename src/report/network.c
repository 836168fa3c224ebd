#include "report/network.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "models/encoder.h"
#include "models/globals.h"

static void __attribute__((format(printf, 2, 3))) add(char *text, const char *format, ...) {
    const size_t at = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + at, QKV_NETWORK_WORDS - at, format, args);
    va_end(args);
}

static const char *s_of(int64_t n) {
    return n == 1 ? "" : "s";
}

static void add_heads(char *text, int64_t heads, int64_t kv_heads) {
    add(text, ", %" PRId64 " head%s", heads, s_of(heads));
    if (kv_heads != heads) add(text, " (%" PRId64 " of keys and values)", kv_heads);
}

/* What a token sees without being one of the global ones: the window, or all of a text. */
static void add_span(char *text, qkv_span w, int64_t dilation) {
    const bool causal = w.left < 0 && w.right == 0, window = !causal && (w.left >= 0 || w.right >= 0);
    if (causal) add(text, ", causal");
    if (window) add(text, ", window %" PRId64 ",%" PRId64, w.left, w.right);
    if (dilation > 1 && window) add(text, " of tokens %" PRId64 " apart", dilation);
    if (dilation > 1 && !window) add(text, ", tokens see those that stand a multiple of %" PRId64 " away", dilation);
}

/* ", global tokens: the first 1, one in 512, each \"?\"" */
static void add_globals(char *text, const qkv_global_rule *g, const qkv_tokenizer *t) {
    const char *between = ", global tokens: ";
    char piece[32];
    if (g->first > 0) add(text, "%sthe first %" PRId64, between, g->first), between = ", ";
    if (g->every > 0) add(text, "%sone in %" PRId64, between, g->every), between = ", ";
    for (int64_t i = 0; i < g->places.count; i++, between = " ")
        add(text, "%s%s%" PRId64, between, i == 0 ? "number " : "", g->places.at[i]);
    if (g->places.count > 0) between = ", ";
    for (int64_t i = 0; i < g->tokens.count; i++, between = " ") {
        qkv_global_token_print(t, (int32_t)g->tokens.at[i], piece, sizeof piece);
        add(text, "%s%s", between, i == 0 ? "each " : "");
        if (t)
            add(text, "\"%s\"", piece);
        else
            add(text, "token %" PRId64, g->tokens.at[i]);
    }
    if (g->tokens.count > 0) between = ", ";
    if (g->question) add(text, "%sthe first text of a pair", between);
}

/* ", window 64,64, global tokens: the first 1, one in 512": of the layers that do not see everything. */
static void add_pattern(char *text, const qkv_block_shape *s, const qkv_global_rule *globals, const qkv_tokenizer *t,
                        int64_t full_every) {
    const qkv_pattern *p = &s->pattern;
    add_span(text, s->span, p->dilation);
    add_globals(text, globals, t);
    if (s->global_projection) add(text, " with projections of their own");
    if (p->random_blocks > 0) add(text, ", %" PRId64 " random block%s", p->random_blocks, s_of(p->random_blocks));
    if (p->random_blocks > 0) add(text, " of %" PRId64, p->block);
    if (full_every > 0) add(text, ", one layer in %" PRId64 " full", full_every);
}

static void add_rope(char *text, const qkv_position_shape *p, int64_t head_dim) {
    static const char *const stretches[] = {"", "linear", "ntk", "yarn"};
    add(text, " (base %s", qkv_plain(p->rope.base).s);
    if (p->local_base > 0) add(text, ", %s in layers that are not full", qkv_plain(p->local_base).s);
    add(text, ", %" PRId64 " of %" PRId64 " columns turned", qkv_rope_columns(p, head_dim), head_dim);
    if (p->pairs == QKV_ROPE_INTERLEAVED) add(text, ", pairs interleaved");
    if (p->rope.stretch != QKV_STRETCH_NONE)
        add(text, ", stretch %s by %s", stretches[p->rope.stretch], qkv_plain(p->rope.factor).s);
    add(text, ")");
}

/* Of the encoding that is used, with the numbers it uses. */
static void add_positions(char *text, const qkv_config *c) {
    static const char *const names[] = {"none", "sinusoidal", "learned", "shaw", "t5", "alibi", "rope"};
    static const char *const beyond[] = {"", "clamp", "tile", "interpolate"};
    const qkv_position_shape p = qkv_encoder_positions(c);
    add(text, ", positions %s", names[p.kind]);
    if (p.kind == QKV_POSITION_SINUSOIDAL && p.layout == QKV_LAYOUT_SPLIT) add(text, " (split)");
    if (p.kind == QKV_POSITION_LEARNED && p.beyond != QKV_BEYOND_ERROR) add(text, " (beyond the table: %s)", beyond[p.beyond]);
    if (p.kind == QKV_POSITION_SHAW) add(text, " (reach %" PRId64 ")", p.reach);
    if (p.kind == QKV_POSITION_T5) add(text, " (%" PRId64 " buckets, reach %" PRId64 ")", p.buckets, p.reach);
    if (p.kind == QKV_POSITION_ROPE) add_rope(text, &p, c->head_dim);
}

/* Norms, sums and scores, where they are not as usual. */
static void add_block(char *text, const qkv_config *c) {
    static const char *const activations[] = {"", "gelu-tanh", "relu", "silu", "geglu", "swiglu"};
    static const char *const places[] = {"", "post", "sandwich"}, *const inits[] = {"", "plain", "large", "small"};
    if (c->activation != QKV_ACT_GELU) add(text, " (%s)", activations[c->activation]);
    if (!c->bias) add(text, ", no biases");
    if (c->norm_place != QKV_NORM_PRE) add(text, ", %s-norm", places[c->norm_place]);
    if (c->norm == QKV_NORM_RMS) add(text, ", RMS norm");
    if (c->residual == QKV_RESIDUAL_DEEPNORM) add(text, ", DeepNorm");
    if (c->residual == QKV_RESIDUAL_NONE) add(text, ", no residual connections");
    if (c->reversible) add(text, ", reversible");
    if (c->init != QKV_INIT_SCALED) add(text, ", init %s", inits[c->init]);
    if (c->qk_norm) add(text, ", queries and keys normalised");
    if (c->unscaled) add(text, ", scores unscaled");
    if (c->softcap > 0) add(text, ", scores capped at %s", qkv_plain(c->softcap).s);
}

/* ", sentences of at most 128 tokens, 1 layer over them" */
static void add_segments(char *text, const qkv_config *c) {
    static const char *const kinds[] = {"", "words", "sentences", "segments"};
    const int64_t layers = qkv_config_segment_layers(c), length = qkv_config_segment_length(c);
    if (c->segment == QKV_SEGMENT_NONE) return;
    add(text, ", %s of at most %" PRId64 " token%s, %" PRId64 " layer%s over them", kinds[c->segment], length, s_of(length), layers,
        s_of(layers));
}

void qkv_cell_words(const qkv_config *c, char text[QKV_NETWORK_WORDS]) {
    static const char *const cells[] = {"", "relu", "peepholes", "reset-before"};
    text[0] = 0;
    if (!qkv_config_recurrent(c)) return;
    add(text, " of %s", qkv_network_name(c->model));
    if (c->cell != QKV_CELL_PLAIN) add(text, " (%s)", cells[c->cell]);
    if (qkv_encoder_cell(c) == QKV_RECUR_LSTM && qkv_config_forget(c) != 1)
        add(text, ", forget bias %s", qkv_plain(qkv_config_forget(c)).s);
    if (qkv_config_directions(c) > 1) add(text, ", %" PRId64 " units a direction", c->dim / 2);
}

void qkv_network_words(const qkv_config *c, const qkv_tokenizer *tokenizer, char text[QKV_NETWORK_WORDS]) {
    static const char *const poolings[] = {"mean", "first", "max", "attention", "last"};
    const bool recurrent = qkv_config_recurrent(c);
    char cell[QKV_NETWORK_WORDS];
    qkv_cell_words(c, cell);
    text[0] = 0;
    add(text, "%" PRId64 " layer%s%s, dim %" PRId64, c->layers, s_of(c->layers), cell, c->dim);
    if (!recurrent) {
        const qkv_block_shape shape = qkv_encoder_shape(c);
        const qkv_global_rule globals = qkv_config_globals(c);
        add_heads(text, c->heads, c->kv_heads);
        add(text, ", ffn %" PRId64, c->ffn);
        add_block(text, c);
        add_pattern(text, &shape, &globals, tokenizer, c->full_every);
        add_positions(text, c);
    }
    add_segments(text, c);
    add(text, ", pooling %s", poolings[c->pooling]);
    if (recurrent && qkv_config_heads(c)) add_heads(text, c->heads, c->heads);
}

void qkv_attention_words(const qkv_block_shape *s, const qkv_global_rule *globals, char text[QKV_NETWORK_WORDS]) {
    text[0] = 0;
    add(text, "dim %" PRId64, s->dim);
    add_heads(text, s->heads, s->kv_heads);
    if (s->qk_norm) add(text, ", queries and keys normalised");
    if (s->softcap > 0) add(text, ", scores capped at %s", qkv_plain(s->softcap).s);
    add_pattern(text, s, globals, NULL, 0);
}
