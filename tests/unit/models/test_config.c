/* Configs: what is refused and in which words; JSON there and back, and every way in which it can be wrong. */
#include "net.h"

#include "models/config.h"

static void accepted(void **state) {
    (void)state;
    qkv_ctx ctx = {0};
    for (int i = 0; i < NET_CONFIGS; i++) {
        qkv_config c = net_grid(i);
        assert_int_equal(qkv_config_check(&ctx, &c), QKV_OK);
    }
    qkv_config c = net_config();
    c.classes = c.vocab = c.max_length = 1;
    assert_int_equal(qkv_config_check(&ctx, &c), QKV_OK);
}

#define REFUSED(change, words)                                                                                              \
    do {                                                                                                                    \
        qkv_config c = net_config();                                                                                        \
        c.dim = 256;                                                                                                        \
        change;                                                                                                             \
        assert_int_equal(qkv_config_check(&ctx, &c), QKV_BAD_CONFIG);                                                       \
        assert_string_equal(ctx.message, words);                                                                            \
    } while (0)

static void refused(void **state) {
    (void)state;
    qkv_ctx ctx = {0};
    REFUSED(c.heads = 6, "heads=6 does not divide dim=256 (try 4 or 8)");
    REFUSED(c.heads = 200, "heads=200 does not divide dim=256 (try 128 or 256)");
    REFUSED(c.heads = 300, "heads=300 does not divide dim=256 (try 256)");
    REFUSED(c.heads = 0, "heads=0 is outside 1..4096");
    REFUSED(c.kv_heads = 3, "kv_heads=3 does not divide heads=4 (try 2 or 4)");
    REFUSED(c.kv_heads = 8, "kv_heads=8 does not divide heads=4 (try 4)");
    REFUSED(c.head_dim = 0, "head_dim=0 is outside 1..4096");
    REFUSED(c.dim = 0, "dim=0 is outside 1..65536");
    REFUSED(c.layers = -1, "layers=-1 is outside 1..4096");
    REFUSED(c.ffn = 0, "ffn=0 is outside 1..1048576");
    REFUSED(c.vocab = 0, "vocab=0 is outside 1..268435456");
    REFUSED(c.classes = 0, "classes=0 is outside 1..16777216");
    REFUSED(c.max_length = 0, "max_length=0 is outside 1..16777216");
    REFUSED(c.span.left = -2, "span_left=-2 is outside -1..16777216");
    REFUSED(c.dropout = 1, "dropout=1 is outside 0..0.999");
    REFUSED(c.attention_dropout = -0.5, "attention_dropout=-0.5 is outside 0..0.999");
    REFUSED(c.embedding_dropout = NAN, "embedding_dropout=nan is outside 0..0.999");
    REFUSED((c.reversible = true, c.bf16 = true),
            "reversible and bf16: rows are rebuilt by subtraction, and what is lost in that turns roundings to bf16 the other way; train with f32");
    REFUSED(c.full_every = 2, "full_every=2 without a window: every layer sees everything anyway");
    REFUSED((c.full_every = 3, c.layers = 1, c.span.left = 4),
            "full_every=3 with layers=1: layers 0, 3, ... see everything, so none is left with the window (try layers=2 or more)");
    REFUSED((c.full_every = 1, c.layers = 3, c.span.left = 4),
            "full_every=1 with layers=3: layers 0, 1, ... see everything, so none is left with the window (try full_every=2 or more)");
    REFUSED((c.position = QKV_POSITION_ROPE, c.rope_stretch = QKV_STRETCH_NTK, c.rope_factor = 0.5),
            "rope_factor=0.5: expected at least 1");
    REFUSED((c.position = QKV_POSITION_ROPE, c.rope_stretch = QKV_STRETCH_NTK),
            "rope_stretch=ntk with rope_factor=1 stretches nothing: set a larger factor");
    REFUSED(c.norm_epsilon = 0, "norm_epsilon=0: a constant row would be divided by 0");
    REFUSED((c.position = QKV_POSITION_T5, c.position_buckets = 7), "position_buckets=7: expected an even number from 4 on");
    REFUSED((c.position = QKV_POSITION_T5, c.position_reach = 8),
            "position_reach=8 is too small for position_buckets=32: each distance below 8 has a bucket of its own, "
            "so the reach must be over 8 (or take fewer buckets)");
    REFUSED((c.position = QKV_POSITION_T5, c.position_reach = 16, c.span.right = 0),
            "position_reach=16 is too small for position_buckets=32: each distance below 16 has a bucket of its own, "
            "so the reach must be over 16 (or take fewer buckets)");
    REFUSED((c.position = QKV_POSITION_SHAW, c.position_reach = 300), "position_reach=300: with position=shaw at most 127");
    REFUSED((c.span.left = 3, c.global_token = (qkv_numbers){2, {5, 29}}), "global_token=29 is outside of the vocabulary of 29");
    REFUSED((c.span.left = 3, c.global_at = (qkv_numbers){2, {5, 5}}),
            "global_at: number 1 is 5; they are 0 to 16777216 and ascend");
    REFUSED((c.span.left = 3, c.global_at = (qkv_numbers){17, {5}}), "global_at has 17 numbers, at most 16 are kept");
    REFUSED((c.global_at = (qkv_numbers){1, {5}}), "global tokens without a window (such as window=64,64): every token sees all anyway");
    REFUSED((c.span.left = 3, c.global_question = true), "global_question is the first text of a pair: set pair");
    REFUSED((c.span.left = 3, c.global_question = c.pair = true, c.segment = QKV_SEGMENT_TOKENS),
            "global_question is the first text of a pair: not with segments, which lie in one of the two");
    REFUSED((c.position = QKV_POSITION_ROPE, c.head_dim = 1), "head_dim=1: position=rope turns pairs of columns");
    REFUSED(c.rope_base = 1, "rope_base=1: expected more than 1");
    REFUSED(c.rope_factor = 0.5, "rope_factor=0.5: expected at least 1");
    REFUSED(c.rope_part = 1.5, "rope_part=1.5 is outside 0..1");
    REFUSED(c.pooling = (qkv_pooling)9, "pooling has no choice number 9");
    REFUSED(c.activation = (qkv_activation)6, "activation has no choice number 6");
}

/* Field by field: padding is not part of a config. */
static void same(const qkv_config *a, const qkv_config *b) {
    assert_true(a->model == b->model && a->cell == b->cell);
    assert_true(a->vocab == b->vocab && a->classes == b->classes && a->layers == b->layers && a->dim == b->dim && a->heads == b->heads);
    assert_true(a->kv_heads == b->kv_heads && a->head_dim == b->head_dim && a->ffn == b->ffn && a->max_length == b->max_length);
    assert_true(a->position_layout == b->position_layout && a->position_beyond == b->position_beyond);
    assert_true(a->position_reach == b->position_reach && a->position_buckets == b->position_buckets);
    assert_true(a->rope_base == b->rope_base && a->rope_pairs == b->rope_pairs && a->rope_part == b->rope_part);
    assert_true(a->rope_stretch == b->rope_stretch && a->rope_factor == b->rope_factor && a->rope_length == b->rope_length);
    assert_true(a->position == b->position && a->pooling == b->pooling && a->norm == b->norm && a->activation == b->activation);
    assert_true(a->norm_place == b->norm_place && a->residual == b->residual && a->init == b->init && a->qk_norm == b->qk_norm);
    assert_true(a->unscaled == b->unscaled && a->softcap == b->softcap && a->bias == b->bias);
    assert_true(a->span.left == b->span.left && a->span.right == b->span.right);
    assert_true(a->dilation == b->dilation && a->global_first == b->global_first && a->global_every == b->global_every);
    assert_true(a->random_blocks == b->random_blocks && a->block == b->block && a->full_every == b->full_every);
    assert_true(a->global_question == b->global_question && a->global_projection == b->global_projection);
    assert_memory_equal(&a->global_at, &b->global_at, sizeof a->global_at);
    assert_memory_equal(&a->global_token, &b->global_token, sizeof a->global_token);
    assert_true(a->norm_epsilon == b->norm_epsilon && a->dropout == b->dropout && a->attention_dropout == b->attention_dropout);
    assert_true(a->embedding_dropout == b->embedding_dropout && a->bf16 == b->bf16);
}

static void there_and_back(void **state) {
    (void)state;
    qkv_ctx ctx = {0};
    for (int i = 0; i < NET_CONFIGS; i++) {
        qkv_config a = net_grid(i), b;
        json_t *json;
        NET_OK(&ctx, qkv_config_to_json(&ctx, &a, &json));
        char *text = json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(17));
        json_t *again = json_loads(text, 0, NULL);
        NET_OK(&ctx, qkv_config_from_json(&ctx, again, &b));
        same(&a, &b);
        assert_true(a.bf16 == (strstr(text, "bf16") != NULL));
        free(text);
        json_decref(json);
        json_decref(again);
    }
    qkv_config q = net_config(), again;
    q.span = (qkv_span){3, 3}, q.pair = q.global_question = true;
    json_t *asked;
    NET_OK(&ctx, qkv_config_to_json(&ctx, &q, &asked));
    assert_true(json_is_true(json_object_get(asked, "global_question")) && !json_object_get(asked, "global_at"));
    NET_OK(&ctx, qkv_config_from_json(&ctx, asked, &again));
    same(&q, &again);
    json_decref(asked);
    /* what cannot be built is not written either */
    qkv_config bad = net_config();
    bad.heads = 5;
    json_t *json;
    assert_int_equal(qkv_config_to_json(&ctx, &bad, &json), QKV_BAD_CONFIG);
    assert_null(json);
}

/* What nobody chose, for long texts; and what contradicts itself. */
static void long_texts(void **state) {
    (void)state;
    qkv_ctx ctx = {0};
    qkv_config c = net_config();
    c.layers = 3, c.max_length = 1025, c.position = QKV_POSITION_ROPE;
    qkv_config long_text = c, few = c, brief = c, window = c, segments = c, full = c, causal = c, global = c;
    qkv_config_preset(&long_text, QKV_PATTERN_AUTO);
    assert_true(long_text.full_every == 3 && long_text.span.left == 64 && long_text.span.right == 64);
    assert_true(long_text.rope_base == 160000 && long_text.local_rope_base == 10000);
    causal.span.right = 0;
    qkv_config_preset(&causal, QKV_PATTERN_AUTO);
    assert_true(causal.full_every == 3 && causal.span.left == 64 && causal.span.right == 0);
    few.layers = 2, brief.max_length = 1024, window.span.left = 9, segments.segment = QKV_SEGMENT_TOKENS,
    global.global_at = (qkv_numbers){1, {0}};
    qkv_config *alike[] = {&few, &brief, &window, &segments, &global};
    for (size_t i = 0; i < sizeof alike / sizeof *alike; i++) {
        const qkv_config before = *alike[i];
        qkv_config_preset(alike[i], QKV_PATTERN_AUTO);
        same(alike[i], &before);
    }
    qkv_config_preset(&full, QKV_PATTERN_FULL);
    assert_true(full.full_every == 0 && full.span.left == -1);
    qkv_config_preset(&global, QKV_PATTERN_GLOBAL); /* there is one */
    assert_true(global.global_first == 0 && global.span.left == 64);
    assert_int_equal(qkv_config_check_name(&ctx, QKV_PATTERN_ALTERNATING, (qkv_span){-1, -1}, 0, 2), QKV_OK);
    assert_int_equal(qkv_config_check_name(&ctx, QKV_PATTERN_ALTERNATING, (qkv_span){-1, -1}, 0, 1), QKV_BAD_CONFIG);
    assert_int_equal(qkv_config_check_name(&ctx, QKV_PATTERN_FULL, (qkv_span){-1, 0}, 1, 1), QKV_OK); /* causal */
    assert_int_equal(qkv_config_check_name(&ctx, QKV_PATTERN_AUTO, (qkv_span){4, 4}, 3, 1), QKV_OK);
    assert_int_equal(qkv_config_check_name(&ctx, QKV_PATTERN_FULL, (qkv_span){-1, 4}, 0, 1), QKV_BAD_CONFIG);
    assert_string_equal(ctx.message, "pattern=full and window=-1,4 contradict each other: with full every token sees all");
    assert_int_equal(qkv_config_check_name(&ctx, QKV_PATTERN_FULL, (qkv_span){-1, -1}, 2, 1), QKV_BAD_CONFIG);
}

static void names(void **state) {
    (void)state;
    qkv_ctx ctx = {0};
    qkv_config c = net_config();
    c.activation = QKV_ACT_GELU_TANH;
    json_t *json;
    NET_OK(&ctx, qkv_config_to_json(&ctx, &c, &json));
    assert_string_equal(json_string_value(json_object_get(json, "activation")), "gelu-tanh");
    assert_string_equal(json_string_value(json_object_get(json, "position")), "learned");
    assert_string_equal(json_string_value(json_object_get(json, "pooling")), "attention");
    assert_string_equal(json_string_value(json_object_get(json, "norm")), "layer");
    assert_true(json_is_true(json_object_get(json, "bias")));
    json_decref(json);
}

/* Norms, residuals, start and scores: written by name, and only where they are not as usual. */
static void stability(void **state) {
    (void)state;
    qkv_ctx ctx = {0};
    qkv_config all = net_config(), back;
    json_t *json;
    static const char *const keys[] = {"norm_place", "residual", "init", "qk_norm", "unscaled", "softcap"};
    NET_OK(&ctx, qkv_config_to_json(&ctx, &all, &json));
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) assert_null(json_object_get(json, keys[i]));
    json_decref(json);
    all.norm_place = QKV_NORM_POST, all.residual = QKV_RESIDUAL_DEEPNORM, all.init = QKV_INIT_PLAIN, all.qk_norm = all.unscaled = true;
    all.softcap = 30;
    NET_OK(&ctx, qkv_config_to_json(&ctx, &all, &json));
    assert_string_equal(json_string_value(json_object_get(json, "norm_place")), "post");
    assert_string_equal(json_string_value(json_object_get(json, "residual")), "deepnorm");
    assert_string_equal(json_string_value(json_object_get(json, "init")), "plain");
    NET_OK(&ctx, qkv_config_from_json(&ctx, json, &back));
    same(&all, &back);
    json_decref(json);
    REFUSED(c.residual = QKV_RESIDUAL_DEEPNORM, "residual=deepnorm is of norm_place=post, not of pre");
    REFUSED(c.softcap = -1, "softcap=-1 is outside 0..1000000");
}

/* What newer programs added is written only where it is not as it was before. */
static void flags(void **state) {
    (void)state;
    qkv_ctx ctx = {0};
    for (int i = 0; i < 4; i++) {
        qkv_config c = net_config(), back;
        json_t *json;
        c.multi_label = i & 1, c.pair = i & 2;
        NET_OK(&ctx, qkv_config_to_json(&ctx, &c, &json));
        assert_int_equal(json_object_get(json, "multi_label") != NULL, c.multi_label);
        assert_int_equal(json_object_get(json, "pair") != NULL, c.pair);
        NET_OK(&ctx, qkv_config_from_json(&ctx, json, &back));
        assert_true(back.multi_label == c.multi_label && back.pair == c.pair);
        json_decref(json);
    }
}

static void wrong(qkv_ctx *ctx, const char *key, json_t *value, qkv_status status, const char *words) {
    qkv_config c = net_config(), back;
    json_t *json;
    NET_OK(ctx, qkv_config_to_json(ctx, &c, &json));
    if (value) json_object_set_new(json, key, value);
    else json_object_del(json, key);
    assert_int_equal(qkv_config_from_json(ctx, json, &back), status);
    assert_string_equal(ctx->message, words);
    json_decref(json);
}

static void wrong_json(void **state) {
    (void)state;
    qkv_ctx ctx = {0};
    wrong(&ctx, "heads", NULL, QKV_BAD_FORMAT, "config: heads is missing");
    wrong(&ctx, "heads", json_string("4"), QKV_BAD_FORMAT, "config: heads is a string, expected an integer");
    wrong(&ctx, "heads", json_real(4), QKV_BAD_FORMAT, "config: heads is a real number, expected an integer");
    wrong(&ctx, "heads", json_integer(5), QKV_BAD_CONFIG, "heads=5 does not divide dim=24 (try 4 or 6)");
    wrong(&ctx, "layers", json_integer(INT64_MAX), QKV_BAD_CONFIG, "layers=9223372036854775807 is outside 1..4096");
    wrong(&ctx, "bias", json_integer(1), QKV_BAD_FORMAT, "config: bias is an integer, expected true or false");
    wrong(&ctx, "dropout", json_null(), QKV_BAD_FORMAT, "config: dropout is null, expected a number");
    wrong(&ctx, "norm", json_string("batch"), QKV_BAD_FORMAT, "config: norm is \"batch\", which this version does not know");
    wrong(&ctx, "norm", json_array(), QKV_BAD_FORMAT, "config: norm is an array, expected a name");
    wrong(&ctx, "pair", json_integer(1), QKV_BAD_FORMAT, "config: pair is an integer, expected true or false");
    wrong(&ctx, "rotary", json_true(), QKV_BAD_FORMAT, "config: unknown key \"rotary\" (written by a newer version?)");
    qkv_config c;
    json_t *list = json_array();
    assert_int_equal(qkv_config_from_json(&ctx, list, &c), QKV_BAD_FORMAT);
    assert_int_equal(qkv_config_from_json(&ctx, NULL, &c), QKV_BAD_FORMAT);
    json_decref(list);
    /* an integer where a real is meant is a number too */
    qkv_config good = net_config(), back;
    json_t *json;
    NET_OK(&ctx, qkv_config_to_json(&ctx, &good, &json));
    json_object_set_new(json, "dropout", json_integer(0));
    NET_OK(&ctx, qkv_config_from_json(&ctx, json, &back));
    assert_int_equal(back.norm_place, good.norm_place);
    json_object_set_new(json, "post_norm", json_true()); /* of older files */
    NET_OK(&ctx, qkv_config_from_json(&ctx, json, &back));
    assert_int_equal(back.norm_place, QKV_NORM_POST);
    json_object_set_new(json, "post_norm", json_false());
    NET_OK(&ctx, qkv_config_from_json(&ctx, json, &back));
    assert_int_equal(back.norm_place, good.norm_place);
    json_decref(json);
}

/* What a recurrent model has no use for is neither written nor taken, and what it has is held against its kind. */
static void recurrent(void **state) {
    (void)state;
    qkv_ctx ctx = {0};
    qkv_config a = net_config(), b;
    a.model = QKV_NETWORK_BILSTM;
    a.cell = QKV_CELL_PEEPHOLES;
    qkv_config_settle(&a);
    json_t *json;
    NET_OK(&ctx, qkv_config_to_json(&ctx, &a, &json));
    assert_string_equal(json_string_value(json_object_get(json, "model")), "bilstm");
    assert_string_equal(json_string_value(json_object_get(json, "cell")), "peepholes");
    static const char *const absent[] = {"position", "kv_heads", "head_dim", "ffn", "norm", "activation", "norm_place", "bias", "span_left",
                                         "span_right", "norm_epsilon", "attention_dropout"};
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++) assert_null(json_object_get(json, absent[i]));
    NET_OK(&ctx, qkv_config_from_json(&ctx, json, &b));
    same(&a, &b);
    json_object_set_new(json, "ffn", json_integer(3));
    assert_int_equal(qkv_config_from_json(&ctx, json, &b), QKV_BAD_FORMAT);
    assert_string_equal(ctx.message, "config: ffn is of no use to a model of kind bilstm");
    json_decref(json);
    REFUSED(c.cell = QKV_CELL_PEEPHOLES, "cell=peepholes is of a recurrent model");
    /* heads are those of attention pooling */
    REFUSED((c.model = QKV_NETWORK_LSTM, c.heads = 6), "heads=6 does not divide dim=256 (try 4 or 8)");
    REFUSED((c.model = QKV_NETWORK_BILSTM, c.dim = 65, c.heads = 8), "dim=65 is odd: model=bilstm has half of it in each direction");
    a = net_config();
    a.model = QKV_NETWORK_LSTM;
    a.pooling = QKV_POOL_MEAN;
    a.dim = 101;
    assert_int_equal(qkv_config_check(&ctx, &a), QKV_OK);
    /* without it there are none; files that had some are read all the same */
    qkv_config_settle(&a);
    NET_OK(&ctx, qkv_config_to_json(&ctx, &a, &json));
    assert_null(json_object_get(json, "heads"));
    for (int i = 0; i < 2; i++) {
        NET_OK(&ctx, qkv_config_from_json(&ctx, json, &b));
        same(&a, &b);
        json_object_set_new(json, "heads", json_integer(4));
    }
    json_object_del(json, "heads");
    json_object_set_new(json, "pooling", json_string("attention"));
    assert_int_equal(qkv_config_from_json(&ctx, json, &b), QKV_BAD_FORMAT);
    assert_string_equal(ctx.message, "config: heads is missing");
    json_decref(json);
    assert_int_equal(qkv_config_check_causal(&ctx, true, (qkv_span){5, 7}), QKV_BAD_CONFIG);
    assert_non_null(strstr(ctx.message, "window=5,7"));
    assert_int_equal(qkv_config_check_causal(&ctx, true, (qkv_span){5, 0}), QKV_OK);
    assert_int_equal(qkv_config_check_causal(&ctx, false, (qkv_span){5, 7}), QKV_OK);
    REFUSED((c.model = QKV_NETWORK_BIGRU, c.cell = QKV_CELL_RELU), "cell=relu is of model=rnn or birnn, not of bigru");
    REFUSED((c.model = QKV_NETWORK_BIRNN, c.dim = c.heads = 3), "dim=3 is odd: model=birnn has half of it in each direction");
    REFUSED((c.model = QKV_NETWORK_GRU, c.pooling = QKV_POOL_FIRST), "pooling=first: the first row of a text has seen nothing of it with model=gru");
    REFUSED(c.model = (qkv_network)7, "model has no choice number 7");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(accepted),   cmocka_unit_test(refused),    cmocka_unit_test(there_and_back),
                                       cmocka_unit_test(long_texts), cmocka_unit_test(names),      cmocka_unit_test(flags),
                                       cmocka_unit_test(stability),  cmocka_unit_test(wrong_json), cmocka_unit_test(recurrent)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
