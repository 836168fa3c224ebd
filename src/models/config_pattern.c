#include "base/number.h"
#include "models/config.h"
#include "ops/attention_pattern.h"

qkv_global_rule qkv_config_globals(const qkv_config *c) {
    return (qkv_global_rule){.first = c->global_first,
                             .every = c->global_every,
                             .places = c->global_at,
                             .tokens = c->global_token,
                             .question = c->global_question};
}

int64_t qkv_config_block(const qkv_config *c) {
    return c->block > 0 ? c->block : 64;
}

bool qkv_config_layer_full(const qkv_config *c, int64_t i) { return c->full_every > 0 && i % c->full_every == 0; }

/* Of nothing that a pattern is made of is anything said. */
static bool says_nothing(const qkv_config *c) {
    return c->span.left < 0 && c->span.right <= 0 && c->dilation <= 1 && !qkv_config_has_globals(c) && c->random_blocks == 0 &&
           c->full_every == 0;
}

static bool is_for_long_text(const qkv_config *c) {
    enum { LONG = 1024, LEAST = 3 };
    return !qkv_config_recurrent(c) && c->segment == QKV_SEGMENT_NONE && c->max_length > LONG && c->layers >= LEAST;
}

qkv_status qkv_config_check_name(qkv_ctx *ctx, qkv_pattern_kind pattern, qkv_span window, int64_t dilation, int64_t layers) {
    if (pattern == QKV_PATTERN_ALTERNATING && layers == 1)
        return qkv_fail(ctx, QKV_BAD_CONFIG,
                        "pattern=alternating with layers=1: the first layer sees everything, so none is left with the window (try layers=2 or more)");
    if (pattern != QKV_PATTERN_FULL || (window.left < 0 && window.right <= 0 && dilation <= 1)) return QKV_OK;
    if (dilation > 1)
        return qkv_fail(ctx, QKV_BAD_CONFIG, "pattern=full and dilation=%lld contradict each other: with full every token sees all",
                        (long long)dilation);
    return qkv_fail(ctx, QKV_BAD_CONFIG, "pattern=full and window=%lld,%lld contradict each other: with full every token sees all",
                    (long long)window.left, (long long)window.right);
}

/* 64 tokens on each side; every third layer full and the bases of its angles as in ModernBERT (Warner et al. 2024, section 2.1.1
 * and table 4); three random blocks and a block of global tokens as in BigBird (Zaheer et al. 2020, section 4). Global is what a
 * text begins with: of contracts that is worth far more, beside one token, than it costs of reviews (docs/long-text.md). */
void qkv_config_preset(qkv_config *c, qkv_pattern_kind pattern) {
    enum { SIDE = 64, FULL_EVERY = 3, RANDOM = 3, FIRST = 64 };
    const bool no_globals = !qkv_config_has_globals(c);
    if (pattern == QKV_PATTERN_AUTO) pattern = says_nothing(c) && is_for_long_text(c) ? QKV_PATTERN_ALTERNATING : QKV_PATTERN_FULL;
    if (pattern == QKV_PATTERN_FULL) return;
    if (c->span.left < 0 && c->span.right <= 0) c->span = (qkv_span){SIDE, c->span.right < 0 ? SIDE : 0};
    if (pattern == QKV_PATTERN_GLOBAL && no_globals) c->global_first = FIRST;
    if (pattern == QKV_PATTERN_ALTERNATING) {
        if (c->full_every == 0) c->full_every = FULL_EVERY;
        if (c->position == QKV_POSITION_ROPE) {
            if (c->rope_base == 0) c->rope_base = 160000;
            if (c->local_rope_base == 0) c->local_rope_base = 10000;
        }
    }
    if (pattern == QKV_PATTERN_SPARSE) {
        if (c->random_blocks == 0) c->random_blocks = RANDOM;
        if (c->block == 0) c->block = qkv_config_block(c);
        if (no_globals) c->global_first = c->block;
    }
}

qkv_status qkv_config_check_pattern(qkv_ctx *ctx, const qkv_config *c) {
    const bool globals = qkv_config_has_globals(c), further = globals || c->random_blocks > 0;
    if (further && c->span.left < 0 && c->span.right <= 0 && c->dilation <= 1)
        return qkv_fail(ctx, QKV_BAD_CONFIG, "%s without a window (such as window=64,64): every token sees all anyway",
                        globals ? "global tokens" : "random_blocks");
    if (c->full_every > 0 && c->span.left < 0 && c->span.right <= 0 && c->dilation <= 1)
        return qkv_fail(ctx, QKV_BAD_CONFIG, "full_every=%lld without a window: every layer sees everything anyway", (long long)c->full_every);
    if (c->full_every > 0 && (c->full_every == 1 || c->layers == 1))
        return qkv_fail(ctx, QKV_BAD_CONFIG, "full_every=%lld with layers=%lld: layers 0, %lld, ... see everything, so none is left with the window%s",
                        (long long)c->full_every, (long long)c->layers, (long long)c->full_every,
                        c->layers == 1 ? " (try layers=2 or more)" : " (try full_every=2 or more)");
    if (c->global_projection && !globals)
        return qkv_fail(ctx, QKV_BAD_CONFIG,
                        "global_projection without global tokens: set global_first, global_every, global_at, global_token or global_question");
    if (c->global_token.count > 0 && c->global_token.at[c->global_token.count - 1] >= c->vocab)
        return qkv_fail(ctx, QKV_BAD_CONFIG, "global_token=%lld is outside of the vocabulary of %lld",
                        (long long)c->global_token.at[c->global_token.count - 1], (long long)c->vocab);
    if (c->global_question && (!c->pair || c->segment != QKV_SEGMENT_NONE))
        return qkv_fail(ctx, QKV_BAD_CONFIG, "global_question is the first text of a pair: %s",
                        c->pair ? "not with segments, which lie in one of the two" : "set pair");
    if (c->random_blocks > 0 && c->dilation > 1)
        return qkv_fail(ctx, QKV_BAD_CONFIG, "random_blocks=%lld and dilation=%lld: blocks are of neighbours, set one of the two",
                        (long long)c->random_blocks, (long long)c->dilation);
    if (c->block > 0 && c->random_blocks == 0)
        return qkv_fail(ctx, QKV_BAD_CONFIG, "block=%lld is of random_blocks, which are 0", (long long)c->block);
    if (c->local_rope_base != 0 && !(c->local_rope_base > 1))
        return qkv_fail(ctx, QKV_BAD_CONFIG, "local_rope_base=%s: expected more than 1", qkv_plain(c->local_rope_base).s);
    if (c->local_rope_base != 0 && (c->position != QKV_POSITION_ROPE || c->full_every == 0))
        return qkv_fail(ctx, QKV_BAD_CONFIG, "local_rope_base=%s is of layers that alternate, with position=rope: set full_every",
                        qkv_plain(c->local_rope_base).s);
    return QKV_OK;
}
