#include "models/config.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/number.h"
#include "ops/attention.h"
#include "ops/attention_pattern.h"
#include "ops/position.h"

/* ---- the table of fields: one line each, for the check of ranges and for both ways of JSON ---- */

typedef enum field_type { INTEGER, REAL, BOOLEAN, CHOICE, NUMBERS } field_type;

typedef struct field {
    const char *name;
    field_type type;
    size_t offset;
    double min, max;
    const char *const *choices; /* in the order of the enum, ended by NULL */
    bool transformer;           /* means something in such a model only */
    bool optional;              /* written only where it is not 0, which stands for what is usual: files stay as they were before
                                 * there was this field, and older programs read them */
} field;

static const char *const MODELS[] = {"transformer", "rnn", "lstm", "gru", "birnn", "bilstm", "bigru", NULL};
static const char *const CELLS[] = {"plain", "relu", "peepholes", "reset-before", NULL};
static const char *const POSITIONS[] = {"none", "sinusoidal", "learned", "shaw", "t5", "alibi", "rope", NULL};
static const char *const LAYOUTS[] = {"interleaved", "split", NULL};
static const char *const BEYONDS[] = {"error", "clamp", "tile", "interpolate", NULL};
static const char *const PAIRS[] = {"half", "interleaved", NULL};
static const char *const STRETCHES[] = {"none", "linear", "ntk", "yarn", NULL};
static const char *const POOLINGS[] = {"mean", "first", "max", "attention", "last", NULL};
static const char *const NORMS[] = {"layer", "rms", NULL};
static const char *const NORM_PLACES[] = {"pre", "post", "sandwich", NULL};
static const char *const RESIDUALS[] = {"plain", "deepnorm", "none", NULL};
static const char *const INITS[] = {"scaled", "plain", "large", "small", NULL};
static const char *const SEGMENTS[] = {"none", "words", "sentences", "tokens", NULL};
static const char *const ACTIVATIONS[] = {"gelu", "gelu-tanh", "relu", "silu", "geglu", "swiglu", NULL};

#define AT(name) offsetof(qkv_config, name)
static const field FIELDS[] = {
    {"model", CHOICE, AT(model), 0, 0, MODELS, false, true},
    {"cell", CHOICE, AT(cell), 0, 0, CELLS, false, true},
    {"vocab", INTEGER, AT(vocab), 1, 1 << 28, NULL, false, false},
    {"classes", INTEGER, AT(classes), 1, 1 << 24, NULL, false, false},
    {"layers", INTEGER, AT(layers), 1, 4096, NULL, false, false},
    {"dim", INTEGER, AT(dim), 1, 1 << 16, NULL, false, false},
    {"heads", INTEGER, AT(heads), 1, 1 << 12, NULL, false, false},
    {"kv_heads", INTEGER, AT(kv_heads), 1, 1 << 12, NULL, true, false},
    {"head_dim", INTEGER, AT(head_dim), 1, 1 << 12, NULL, true, false},
    {"ffn", INTEGER, AT(ffn), 1, 1 << 20, NULL, true, false},
    {"max_length", INTEGER, AT(max_length), 1, 1 << 24, NULL, false, false},
    {"ngrams", INTEGER, AT(ngrams), 0, 8, NULL, false, false},
    {"position", CHOICE, AT(position), 0, 0, POSITIONS, true, false},
    {"position_layout", CHOICE, AT(position_layout), 0, 0, LAYOUTS, true, true},
    {"position_beyond", CHOICE, AT(position_beyond), 0, 0, BEYONDS, true, true},
    {"position_reach", INTEGER, AT(position_reach), 0, 1 << 12, NULL, true, true},
    {"position_buckets", INTEGER, AT(position_buckets), 0, 1 << 16, NULL, true, true},
    {"rope_base", REAL, AT(rope_base), 0, 1e12, NULL, true, true},
    {"rope_pairs", CHOICE, AT(rope_pairs), 0, 0, PAIRS, true, true},
    {"rope_part", REAL, AT(rope_part), 0, 1, NULL, true, true},
    {"rope_stretch", CHOICE, AT(rope_stretch), 0, 0, STRETCHES, true, true},
    {"rope_factor", REAL, AT(rope_factor), 0, 1e6, NULL, true, true},
    {"rope_length", INTEGER, AT(rope_length), 0, 1 << 24, NULL, true, true},
    {"pooling", CHOICE, AT(pooling), 0, 0, POOLINGS, false, false},
    {"norm", CHOICE, AT(norm), 0, 0, NORMS, true, false},
    {"activation", CHOICE, AT(activation), 0, 0, ACTIVATIONS, true, false},
    {"norm_place", CHOICE, AT(norm_place), 0, 0, NORM_PLACES, true, true},
    {"residual", CHOICE, AT(residual), 0, 0, RESIDUALS, true, true},
    {"init", CHOICE, AT(init), 0, 0, INITS, true, true},
    {"qk_norm", BOOLEAN, AT(qk_norm), 0, 0, NULL, true, true},
    {"unscaled", BOOLEAN, AT(unscaled), 0, 0, NULL, true, true},
    {"softcap", REAL, AT(softcap), 0, 1e6, NULL, true, true},
    {"reversible", BOOLEAN, AT(reversible), 0, 0, NULL, true, true},
    {"bias", BOOLEAN, AT(bias), 0, 0, NULL, true, false},
    {"segment", CHOICE, AT(segment), 0, 0, SEGMENTS, false, true},
    {"segment_length", INTEGER, AT(segment_length), 0, 1 << 24, NULL, false, true},
    {"segment_layers", INTEGER, AT(segment_layers), 0, 4096, NULL, false, true},
    {"multi_label", BOOLEAN, AT(multi_label), 0, 0, NULL, false, true},
    {"pair", BOOLEAN, AT(pair), 0, 0, NULL, false, true},
    {"bf16", BOOLEAN, AT(bf16), 0, 0, NULL, false, true},
    {"span_left", INTEGER, AT(span.left), -1, 1 << 24, NULL, true, false},
    {"span_right", INTEGER, AT(span.right), -1, 1 << 24, NULL, true, false},
    {"dilation", INTEGER, AT(dilation), 0, 1 << 16, NULL, true, true},
    {"global_first", INTEGER, AT(global_first), 0, 1 << 24, NULL, true, true},
    {"global_every", INTEGER, AT(global_every), 0, 1 << 24, NULL, true, true},
    {"global_at", NUMBERS, AT(global_at), 0, 1 << 24, NULL, true, true},
    {"global_token", NUMBERS, AT(global_token), 0, 1 << 28, NULL, true, true},
    {"global_question", BOOLEAN, AT(global_question), 0, 0, NULL, true, true},
    {"global_projection", BOOLEAN, AT(global_projection), 0, 0, NULL, true, true},
    {"random_blocks", INTEGER, AT(random_blocks), 0, QKV_RANDOM_BLOCKS_MAX, NULL, true, true},
    {"block", INTEGER, AT(block), 0, 1 << 16, NULL, true, true},
    {"full_every", INTEGER, AT(full_every), 0, 4096, NULL, true, true},
    {"local_rope_base", REAL, AT(local_rope_base), 0, 1e12, NULL, true, true},
    {"norm_epsilon", REAL, AT(norm_epsilon), 0, 1, NULL, true, false},
    {"dropout", REAL, AT(dropout), 0, 0.999, NULL, false, false},
    {"attention_dropout", REAL, AT(attention_dropout), 0, 0.999, NULL, true, false},
    {"embedding_dropout", REAL, AT(embedding_dropout), 0, 0.999, NULL, false, false},
};
enum { N_FIELDS = sizeof FIELDS / sizeof *FIELDS };

static int64_t *integer_at(const qkv_config *c, const field *f) {
    return (int64_t *)((char *)c + f->offset);
}
static double *real_at(const qkv_config *c, const field *f) {
    return (double *)((char *)c + f->offset);
}
static bool *boolean_at(const qkv_config *c, const field *f) {
    return (bool *)((char *)c + f->offset);
}
static qkv_numbers *numbers_at(const qkv_config *c, const field *f) {
    return (qkv_numbers *)((char *)c + f->offset);
}

/* The enums have no negative values; all are the size of an int, which the assertions hold the compiler to. */
_Static_assert(sizeof(qkv_position) == sizeof(int) && sizeof(qkv_pooling) == sizeof(int), "enums are read through int");
_Static_assert(sizeof(qkv_network) == sizeof(int) && sizeof(qkv_cell_kind) == sizeof(int), "enums are read through int");
_Static_assert(sizeof(qkv_norm_place) == sizeof(int) && sizeof(qkv_residual_kind) == sizeof(int), "enums are read through int");
_Static_assert(sizeof(qkv_initial) == sizeof(int), "enums are read through int");
_Static_assert(sizeof(qkv_segmentation) == sizeof(int), "enums are read through int");
_Static_assert(sizeof(qkv_norm) == sizeof(int) && sizeof(qkv_activation) == sizeof(int), "enums are read through int");
_Static_assert(sizeof(qkv_position_layout) == sizeof(int) && sizeof(qkv_position_beyond) == sizeof(int), "enums are read through int");
_Static_assert(sizeof(qkv_rope_pairs) == sizeof(int) && sizeof(qkv_rope_stretch) == sizeof(int), "enums are read through int");
static int choice_get(const qkv_config *c, const field *f) {
    int value;
    memcpy(&value, (const char *)c + f->offset, sizeof value);
    return value;
}
static void choice_set(qkv_config *c, const field *f, int value) { memcpy((char *)c + f->offset, &value, sizeof value); }

static bool is_zero(const qkv_config *c, const field *f) {
    switch (f->type) {
    case INTEGER:
        return *integer_at(c, f) == 0;
    case REAL:
        return *real_at(c, f) == 0;
    case BOOLEAN:
        return !*boolean_at(c, f);
    case NUMBERS:
        return numbers_at(c, f)->count == 0;
    case CHOICE:
        break;
    }
    return choice_get(c, f) == 0;
}

static void set_zero(qkv_config *c, const field *f) {
    switch (f->type) {
    case INTEGER:
        *integer_at(c, f) = 0;
        break;
    case REAL:
        *real_at(c, f) = 0;
        break;
    case BOOLEAN:
        *boolean_at(c, f) = false;
        break;
    case CHOICE:
        choice_set(c, f, 0);
        break;
    case NUMBERS:
        *numbers_at(c, f) = (qkv_numbers){0};
        break;
    }
}

static int choice_count(const field *f) {
    int n = 0;
    while (f->choices[n]) n++;
    return n;
}

/* ---- check ---- */

static qkv_status check_numbers(qkv_ctx *ctx, const qkv_numbers *n, const field *f) {
    if (n->count < 0 || n->count > QKV_NUMBERS_MOST)
        return qkv_fail(ctx, QKV_BAD_CONFIG, "%s has %lld numbers, at most %d are kept", f->name, (long long)n->count,
                        QKV_NUMBERS_MOST);
    for (int64_t i = 0; i < n->count; i++)
        if (n->at[i] < (int64_t)f->min || n->at[i] > (int64_t)f->max || (i > 0 && n->at[i] <= n->at[i - 1]))
            return qkv_fail(ctx, QKV_BAD_CONFIG, "%s: number %lld is %lld; they are %lld to %lld and ascend", f->name, (long long)i,
                            (long long)n->at[i], (long long)f->min, (long long)f->max);
    return QKV_OK;
}

static qkv_status check_field(qkv_ctx *ctx, const qkv_config *c, const field *f) {
    if (f->type == INTEGER) {
        int64_t v = *integer_at(c, f);
        if (v < (int64_t)f->min || v > (int64_t)f->max)
            return qkv_fail(ctx, QKV_BAD_CONFIG, "%s=%lld is outside %lld..%lld", f->name, (long long)v, (long long)f->min, (long long)f->max);
    } else if (f->type == REAL) {
        double v = *real_at(c, f);
        if (!(v >= f->min && v <= f->max))
            return qkv_fail(ctx, QKV_BAD_CONFIG, "%s=%s is outside %s..%s", f->name, qkv_plain(v).s, qkv_plain(f->min).s,
                            qkv_plain(f->max).s);
    } else if (f->type == CHOICE) {
        int v = choice_get(c, f);
        if (v < 0 || v >= choice_count(f)) return qkv_fail(ctx, QKV_BAD_CONFIG, "%s has no choice number %d", f->name, v);
    } else if (f->type == NUMBERS)
        return check_numbers(ctx, numbers_at(c, f), f);
    return QKV_OK;
}

/* The divisors of `whole` next to `wish`, from below (0: none but wish itself was asked) and above. */
static void near_divisors(int64_t whole, int64_t wish, int64_t *below, int64_t *above) {
    *below = wish < whole ? wish : whole;
    while (*below > 1 && whole % *below != 0) --*below;
    *above = wish;
    while (*above < whole && whole % *above != 0) ++*above;
}

/* "heads=6 does not divide dim=256 (try 4 or 8)" */
static qkv_status check_divides(qkv_ctx *ctx, const char *part, int64_t n, const char *whole, int64_t of) {
    if (of % n == 0) return QKV_OK;
    int64_t below, above;
    near_divisors(of, n, &below, &above);
    if (above > of || above == below || n > of)
        return qkv_fail(ctx, QKV_BAD_CONFIG, "%s=%lld does not divide %s=%lld (try %lld)", part, (long long)n, whole, (long long)of, (long long)below);
    return qkv_fail(ctx, QKV_BAD_CONFIG, "%s=%lld does not divide %s=%lld (try %lld or %lld)", part, (long long)n, whole, (long long)of,
                    (long long)below, (long long)above);
}

static qkv_status check_recurrent(qkv_ctx *ctx, const qkv_config *c) {
    static const qkv_network of[] = {QKV_NETWORK_TRANSFORMER, QKV_NETWORK_RNN, QKV_NETWORK_LSTM, QKV_NETWORK_GRU};
    const int both = qkv_config_directions(c);
    const qkv_network one = both == 2 ? c->model - (QKV_NETWORK_BIRNN - QKV_NETWORK_RNN) : c->model;
    if (c->cell != QKV_CELL_PLAIN && of[c->cell] != one)
        return qkv_fail(ctx, QKV_BAD_CONFIG, "cell=%s is of model=%s or bi%s, not of %s", CELLS[c->cell], MODELS[of[c->cell]], MODELS[of[c->cell]],
                        MODELS[c->model]);
    if (c->dim % both != 0)
        return qkv_fail(ctx, QKV_BAD_CONFIG, "dim=%lld is odd: model=%s has half of it in each direction", (long long)c->dim, MODELS[c->model]);
    if (both == 1 && c->pooling == QKV_POOL_FIRST)
        return qkv_fail(ctx, QKV_BAD_CONFIG, "pooling=first: the first row of a text has seen nothing of it with model=%s", MODELS[c->model]);
    return QKV_OK;
}

int64_t qkv_config_reach(const qkv_config *c) {
    return c->position_reach > 0 ? c->position_reach : c->position == QKV_POSITION_SHAW ? 16 : 128;
}

int64_t qkv_config_buckets(const qkv_config *c) { return c->position_buckets > 0 ? c->position_buckets : 32; }

int64_t qkv_config_longest(const qkv_config *c) {
    return c->position == QKV_POSITION_LEARNED && c->position_beyond == QKV_BEYOND_ERROR ? c->max_length : QKV_LONGEST;
}

const char *qkv_config_attention_f32(const qkv_config *c) {
    if (qkv_config_recurrent(c)) return NULL;
    if (c->position == QKV_POSITION_ROPE || c->position == QKV_POSITION_T5 || c->position == QKV_POSITION_SHAW) return "positions rope, t5 or shaw";
    return qkv_config_has_globals(c) || c->random_blocks > 0 ? "global tokens or random blocks" : NULL;
}

/* A t5 bucket each for the nearest distances, half of those of a side; the others are spread up to the reach. */
static qkv_status check_positions(qkv_ctx *ctx, const qkv_config *c) {
    const int64_t buckets = qkv_config_buckets(c), reach = qkv_config_reach(c), near = c->span.right == 0 ? buckets / 2 : buckets / 4;
    if (c->position == QKV_POSITION_T5 && (buckets < 4 || buckets % 2 != 0))
        return qkv_fail(ctx, QKV_BAD_CONFIG, "position_buckets=%lld: expected an even number from 4 on", (long long)buckets);
    if (c->position == QKV_POSITION_T5 && reach <= near)
        return qkv_fail(ctx, QKV_BAD_CONFIG, "position_reach=%lld is too small for position_buckets=%lld: each distance below %lld has a bucket of its "
                                             "own, so the reach must be over %lld (or take fewer buckets)",
                        (long long)reach, (long long)buckets, (long long)near, (long long)near);
    if (c->position == QKV_POSITION_SHAW && reach > QKV_SHAW_REACH)
        return qkv_fail(ctx, QKV_BAD_CONFIG, "position_reach=%lld: with position=shaw at most %d", (long long)reach,
                        QKV_SHAW_REACH);
    if (c->position == QKV_POSITION_ROPE && c->head_dim < 2)
        return qkv_fail(ctx, QKV_BAD_CONFIG, "head_dim=%lld: position=rope turns pairs of columns", (long long)c->head_dim);
    if (c->rope_base != 0 && !(c->rope_base > 1))
        return qkv_fail(ctx, QKV_BAD_CONFIG, "rope_base=%s: expected more than 1", qkv_plain(c->rope_base).s);
    if (c->rope_factor != 0 && !(c->rope_factor >= 1))
        return qkv_fail(ctx, QKV_BAD_CONFIG, "rope_factor=%s: expected at least 1", qkv_plain(c->rope_factor).s);
    if (c->position == QKV_POSITION_ROPE && c->rope_stretch != QKV_STRETCH_NONE && !(c->rope_factor > 1))
        return qkv_fail(ctx, QKV_BAD_CONFIG, "rope_stretch=%s with rope_factor=1 stretches nothing: set a larger factor",
                        STRETCHES[c->rope_stretch]);
    return QKV_OK;
}

bool qkv_config_uneven(const qkv_config *c) {
    const bool cut = c->kv_heads < QKV_ATTEND_FEW_HEADS && c->max_length > QKV_ATTEND_KEYS;
    return !qkv_config_recurrent(c) &&
           (cut || c->position == QKV_POSITION_T5 || c->global_projection || qkv_config_global_lists(c));
}

const char *qkv_network_name(qkv_network model) { return MODELS[model]; }

int64_t qkv_config_segment_length(const qkv_config *c) {
    const int64_t usual = c->segment == QKV_SEGMENT_WORDS ? 16 : 128, n = c->segment_length > 0 ? c->segment_length : usual;
    if (c->segment == QKV_SEGMENT_NONE) return 0;
    return n < c->max_length ? n : c->max_length;
}

int64_t qkv_config_segment_layers(const qkv_config *c) {
    return c->segment == QKV_SEGMENT_NONE ? 0 : c->segment_layers > 0 ? c->segment_layers : 1;
}

qkv_config qkv_config_lower(const qkv_config *c) {
    qkv_config lower = *c;
    if (c->segment != QKV_SEGMENT_NONE) lower.max_length = qkv_config_segment_length(c);
    return lower;
}

/* A window is one of tokens: of segments all are seen, but by a causal model. */
qkv_config qkv_config_upper(const qkv_config *c) {
    const int64_t length = qkv_config_segment_length(c);
    qkv_config upper = *c;
    upper.layers = qkv_config_segment_layers(c);
    if (c->segment == QKV_SEGMENT_TOKENS) upper.max_length = (c->max_length + length - 1) / length;
    upper.span = (qkv_span){-1, c->span.right == 0 ? 0 : -1};
    upper.dilation = upper.global_first = upper.global_every = upper.random_blocks = upper.full_every = 0;
    upper.local_rope_base = 0;
    upper.global_at = upper.global_token = (qkv_numbers){0};
    upper.global_projection = upper.global_question = false;
    return upper;
}

void qkv_config_settle(qkv_config *c) {
    const int64_t length = qkv_config_segment_length(c), over = qkv_config_segment_layers(c); /* 0 where there are no segments */
    c->segment_length = length, c->segment_layers = over;
    if (!qkv_config_recurrent(c)) return;
    c->position = QKV_POSITION_NONE;
    c->norm = QKV_NORM_LAYER;
    c->activation = QKV_ACT_GELU;
    if (!qkv_config_heads(c)) c->heads = 1;
    c->kv_heads = c->heads;
    c->head_dim = c->ffn = 1;
    c->bias = true;
    c->span = (qkv_span){-1, -1};
    c->norm_epsilon = 1e-5;
    c->attention_dropout = 0;
    for (int i = 0; i < N_FIELDS; i++)
        if (FIELDS[i].transformer && FIELDS[i].optional) set_zero(c, &FIELDS[i]);
}

qkv_status qkv_config_check_causal(qkv_ctx *ctx, bool causal, qkv_span window) {
    if (!causal || window.right <= 0) return QKV_OK;
    return qkv_fail(ctx, QKV_BAD_CONFIG, "causal and window=%lld,%lld contradict each other: a causal token sees nothing to its right",
                    (long long)window.left, (long long)window.right);
}

qkv_status qkv_config_check(qkv_ctx *ctx, const qkv_config *c) {
    for (int i = 0; i < N_FIELDS; i++) QKV_TRY(check_field(ctx, c, &FIELDS[i]));
    if (c->segment == QKV_SEGMENT_NONE && (c->segment_length > 0 || c->segment_layers > 0))
        return qkv_fail(ctx, QKV_BAD_CONFIG, "segment_length=%lld and segment_layers=%lld are of a model that reads by segments",
                        (long long)c->segment_length, (long long)c->segment_layers);
    if (qkv_config_recurrent(c)) QKV_TRY(check_recurrent(ctx, c));
    if (qkv_config_heads(c)) QKV_TRY(check_divides(ctx, "heads", c->heads, "dim", c->dim));
    if (qkv_config_recurrent(c)) return QKV_OK;
    if (c->cell != QKV_CELL_PLAIN) return qkv_fail(ctx, QKV_BAD_CONFIG, "cell=%s is of a recurrent model", CELLS[c->cell]);
    QKV_TRY(check_divides(ctx, "kv_heads", c->kv_heads, "heads", c->heads));
    if (c->residual == QKV_RESIDUAL_DEEPNORM && c->norm_place != QKV_NORM_POST)
        return qkv_fail(ctx, QKV_BAD_CONFIG, "residual=deepnorm is of norm_place=post, not of %s", NORM_PLACES[c->norm_place]);
    if (c->reversible && (c->norm_place == QKV_NORM_POST || c->residual != QKV_RESIDUAL_PLAIN))
        return qkv_fail(ctx, QKV_BAD_CONFIG, "reversible: what a block adds to a stream is taken off again, so it needs norm_place=pre or sandwich and "
                                             "residual=plain, not %s and %s", NORM_PLACES[c->norm_place], RESIDUALS[c->residual]);
    if (c->reversible && c->bf16)
        return qkv_fail(ctx, QKV_BAD_CONFIG, "reversible and bf16: rows are rebuilt by subtraction, and what is lost in that turns roundings to bf16 the "
                                             "other way; train with f32");
    QKV_TRY(check_positions(ctx, c));
    QKV_TRY(qkv_config_check_pattern(ctx, c));
    if (c->norm_epsilon == 0) return qkv_fail(ctx, QKV_BAD_CONFIG, "norm_epsilon=0: a constant row would be divided by 0");
    return QKV_OK;
}

/* ---- JSON ---- */

static json_t *numbers_to_json(const qkv_numbers *n) {
    json_t *list = json_array();
    for (int64_t i = 0; list && i < n->count; i++) {
        if (json_array_append_new(list, json_integer((json_int_t)n->at[i])) == 0) continue;
        json_decref(list);
        list = NULL;
    }
    return list;
}

static json_t *field_to_json(const qkv_config *c, const field *f) {
    switch (f->type) {
    case INTEGER:
        return json_integer((json_int_t)*integer_at(c, f));
    case REAL:
        return json_real(*real_at(c, f));
    case BOOLEAN:
        return json_boolean(*boolean_at(c, f));
    case CHOICE:
        return json_string(f->choices[choice_get(c, f)]);
    case NUMBERS:
        return numbers_to_json(numbers_at(c, f));
    }
    return NULL;
}

static bool is_written(const qkv_config *c, const field *f) {
    if (f->offset == AT(heads) && !qkv_config_heads(c)) return false;
    if (f->transformer && qkv_config_recurrent(c)) return false;
    return !f->optional || !is_zero(c, f);
}

qkv_status qkv_config_to_json(qkv_ctx *ctx, const qkv_config *c, json_t **json) {
    *json = NULL;
    QKV_TRY(qkv_config_check(ctx, c));
    json_t *object = json_object();
    for (int i = 0; object && i < N_FIELDS; i++) {
        if (!is_written(c, &FIELDS[i])) continue;
        if (json_object_set_new(object, FIELDS[i].name, field_to_json(c, &FIELDS[i])) != 0) {
            json_decref(object);
            object = NULL;
        }
    }
    if (!object) return qkv_fail(ctx, QKV_NO_MEMORY, "out of memory for the JSON of a config");
    *json = object;
    return QKV_OK;
}

static const char *json_kind(const json_t *v) {
    switch (json_typeof(v)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "an array";
    case JSON_STRING: return "a string";
    case JSON_INTEGER: return "an integer";
    case JSON_REAL: return "a real number";
    case JSON_NULL: return "null";
    default: return "a truth value";
    }
}

static qkv_status choice_from_json(qkv_ctx *ctx, const json_t *v, const field *f, qkv_config *c) {
    const char *text = json_string_value(v);
    for (int i = 0; f->choices[i]; i++)
        if (strcmp(text, f->choices[i]) == 0) {
            choice_set(c, f, i);
            return QKV_OK;
        }
    return qkv_fail(ctx, QKV_BAD_FORMAT, "config: %s is \"%.60s\", which this version does not know", f->name, text);
}

static qkv_status numbers_from_json(qkv_ctx *ctx, const json_t *v, const field *f, qkv_numbers *numbers) {
    const size_t count = json_array_size(v);
    if (count > QKV_NUMBERS_MOST)
        return qkv_fail(ctx, QKV_BAD_FORMAT, "config: %s has %zu numbers, this version knows at most %d", f->name, count,
                        QKV_NUMBERS_MOST);
    for (size_t i = 0; i < count; i++) {
        const json_t *number = json_array_get(v, i);
        if (!json_is_integer(number))
            return qkv_fail(ctx, QKV_BAD_FORMAT, "config: %s has an element that is not an integer", f->name);
        numbers->at[numbers->count++] = json_integer_value(number);
    }
    return QKV_OK;
}

static qkv_status field_from_json(qkv_ctx *ctx, const json_t *json, const field *f, qkv_config *c) {
    const json_t *v = json_object_get(json, f->name);
    if (!v && (f->optional || (f->offset == AT(heads) && qkv_config_recurrent(c)))) return QKV_OK; /* heads: see check_heads */
    if (f->transformer && qkv_config_recurrent(c))
        return v ? qkv_fail(ctx, QKV_BAD_FORMAT, "config: %s is of no use to a model of kind %s", f->name, MODELS[c->model]) : QKV_OK;
    if (!v) return qkv_fail(ctx, QKV_BAD_FORMAT, "config: %s is missing", f->name);
    if (f->type == INTEGER && json_is_integer(v))
        *integer_at(c, f) = json_integer_value(v);
    else if (f->type == REAL && json_is_number(v))
        *real_at(c, f) = json_number_value(v);
    else if (f->type == BOOLEAN && json_is_boolean(v))
        *boolean_at(c, f) = json_is_true(v);
    else if (f->type == CHOICE && json_is_string(v))
        return choice_from_json(ctx, v, f, c);
    else if (f->type == NUMBERS && json_is_array(v))
        return numbers_from_json(ctx, v, f, numbers_at(c, f));
    else {
        static const char *const wants[] = {"an integer", "a number", "true or false", "a name", "an array"};
        return qkv_fail(ctx, QKV_BAD_FORMAT, "config: %s is %s, expected %s", f->name, json_kind(v), wants[f->type]);
    }
    return QKV_OK;
}

/* Only when all fields are read is it known whether heads mean anything. Where they do not, a file may have them all the same. */
static qkv_status check_heads(qkv_ctx *ctx, const json_t *json, const qkv_config *c) {
    if (json_object_get(json, "heads") || !qkv_config_heads(c)) return QKV_OK;
    return qkv_fail(ctx, QKV_BAD_FORMAT, "config: heads is missing");
}

/* What said where norms stand before there were three places. */
static const char POST_NORM[] = "post_norm";

static bool known(const char *name) {
    for (int i = 0; i < N_FIELDS; i++)
        if (strcmp(FIELDS[i].name, name) == 0) return true;
    return strcmp(name, POST_NORM) == 0;
}

qkv_status qkv_config_from_json(qkv_ctx *ctx, const json_t *json, qkv_config *c) {
    memset(c, 0, sizeof *c);
    if (!json_is_object(json)) return qkv_fail(ctx, QKV_BAD_FORMAT, "config: %s, expected an object", json ? json_kind(json) : "nothing");
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)json, key, value) {
        if (!known(key)) return qkv_fail(ctx, QKV_BAD_FORMAT, "config: unknown key \"%.60s\" (written by a newer version?)", key);
    }
    for (int i = 0; i < N_FIELDS; i++) QKV_TRY(field_from_json(ctx, json, &FIELDS[i], c));
    if (json_is_true(json_object_get(json, POST_NORM))) c->norm_place = QKV_NORM_POST;
    QKV_TRY(check_heads(ctx, json, c));
    qkv_config_settle(c);
    return qkv_config_check(ctx, c);
}
