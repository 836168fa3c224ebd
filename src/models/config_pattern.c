#include "base/number.h"
#include "models/config.h"
#include "ops/attention_pattern.h"

int64_t qkv_config_block(const qkv_config *c) { return c->block > 0 ? c->block : 64; }

bool qkv_config_layer_full(const qkv_config *c, int64_t i) { return c->full_every > 0 && i % c->full_every == 0; }

/* 64 tokens on each side; every third layer full and the bases of its angles as in ModernBERT (Warner et al. 2024, section 2.1.1 and
 * table 4); global tokens and three random blocks as in BigBird (Zaheer et al. 2020, section 4). */
void qkv_config_preset(qkv_config *c, qkv_pattern_kind pattern) {
    enum { SIDE = 64, FULL_EVERY = 3, RANDOM = 3 };
    const bool no_globals = c->global_first == 0 && c->global_every == 0;
    if (pattern == QKV_PATTERN_FULL) return;
    if (c->span.left < 0 && c->span.right <= 0) c->span = (qkv_span){SIDE, c->span.right < 0 ? SIDE : 0};
    if (pattern == QKV_PATTERN_GLOBAL && no_globals) c->global_first = 1;
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
    const bool globals = c->global_first > 0 || c->global_every > 0, further = globals || c->random_blocks > 0;
    if (further && c->span.left < 0 && c->span.right <= 0 && c->dilation <= 1)
        return qkv_fail(ctx, QKV_BAD_CONFIG, "%s without a window: every token sees all anyway", globals ? "global tokens" : "random_blocks");
    if (c->full_every > 0 && c->span.left < 0 && c->span.right <= 0 && c->dilation <= 1)
        return qkv_fail(ctx, QKV_BAD_CONFIG, "full_every=%lld without a window: every layer sees everything anyway", (long long)c->full_every);
    if (c->full_every > 0 && (c->full_every == 1 || c->layers == 1))
        return qkv_fail(ctx, QKV_BAD_CONFIG, "full_every=%lld with layers=%lld: layers 0, %lld, ... see everything, so none is left with the window%s",
                        (long long)c->full_every, (long long)c->layers, (long long)c->full_every,
                        c->layers == 1 ? " (try layers=2 or more)" : "");
    if (c->global_projection && !globals)
        return qkv_fail(ctx, QKV_BAD_CONFIG, "global_projection without global tokens: set global_first or global_every");
    if (c->global_projection && c->qk_norm)
        return qkv_fail(ctx, QKV_BAD_CONFIG, "global_projection and qk_norm: projections of global tokens are not normalised, set one of the two");
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
