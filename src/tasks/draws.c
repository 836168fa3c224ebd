#include "tasks/draws.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"

enum { LAYERS, DIM, LR, EMBEDDING_RATIO, DROPOUT, EMBEDDING_DROPOUT, TOKEN_DROPOUT, EPOCHS, VOCAB, NGRAMS };

/* The width of a head where heads go with dim. */
enum { HEAD = 32 };

typedef struct range {
    const char *name; /* of the option */
    double low, high; /* a start beyond them widens them */
    bool logarithmic;
} range;

static const range axes[QKV_DRAW_AXES] = {
    [LAYERS] = {"layers", 1, 3, true},
    [DIM] = {"dim", 64, 256, true},
    [LR] = {"lr", 1e-4, 3e-3, true},
    [EMBEDDING_RATIO] = {"embedding-lr", 1, 30, true}, /* of the option, which is a rate, as a multiple of lr */
    [DROPOUT] = {"dropout", 0, 0.5, false},
    [EMBEDDING_DROPOUT] = {"embedding-dropout", 0, 0.6, false},
    [TOKEN_DROPOUT] = {"token-dropout", 0, 0.4, false},
    [EPOCHS] = {"epochs", 1, 12, true},
    [VOCAB] = {"vocab", 2000, 32000, true},
    [NGRAMS] = {"ngrams", 1, 3, false},
};

static double get(const qkv_classify_options *o, int axis) {
    switch (axis) {
    case LAYERS:
        return (double)o->layers;
    case DIM:
        return (double)o->dim;
    case LR:
        return o->lr;
    case EMBEDDING_RATIO:
        return o->embedding_lr > 0 && o->lr > 0 ? o->embedding_lr / o->lr : QKV_CLASSIFY_EMBEDDING_RATE;
    case DROPOUT:
        return o->dropout;
    case EMBEDDING_DROPOUT:
        return o->embedding_dropout;
    case TOKEN_DROPOUT:
        return o->token_dropout;
    case EPOCHS:
        return o->epochs;
    case VOCAB:
        return (double)o->vocab;
    default:
        return (double)o->ngrams;
    }
}

/* To two digits, as the nearest number to that decimal: an option that is printed reads back to the same bits. */
static double two_digits(double x) {
    double up = 1, down = 1;
    while (x * up < 10 && up < 1e18) up *= 10;
    while (x / down >= 100 && down < 1e18) down *= 10;
    return down > 1 ? floor(x / down + 0.5) * down : floor(x * up + 0.5) / up;
}

static double hundredths(double x) {
    return floor(100 * x + 0.5) / 100;
}

static int64_t whole(double x) {
    return (int64_t)floor(x + 0.5);
}

static void set_dim(const qkv_draws *d, double x, qkv_classify_options *o) {
    const int64_t unit = d->heads ? HEAD : o->heads > 0 ? 8 * o->heads : 8;
    const int64_t n = whole(x / (double)unit);
    o->dim = unit * (n > 1 ? n : 1);
    if (d->heads) o->heads = o->dim / HEAD;
}

/* In the order of the axes: the ratio needs lr. */
static void set(const qkv_draws *d, int axis, double x, qkv_classify_options *o) {
    switch (axis) {
    case LAYERS:
        o->layers = whole(x);
        break;
    case DIM:
        set_dim(d, x, o);
        break;
    case LR:
        o->lr = two_digits(x);
        break;
    case EMBEDDING_RATIO:
        o->embedding_lr = two_digits(x * o->lr);
        break;
    case DROPOUT:
        o->dropout = hundredths(x);
        break;
    case EMBEDDING_DROPOUT:
        o->embedding_dropout = hundredths(x);
        break;
    case TOKEN_DROPOUT:
        o->token_dropout = hundredths(x);
        break;
    case EPOCHS:
        o->epochs = two_digits(x);
        break;
    case VOCAB:
        o->vocab = whole(two_digits(x));
        break;
    default:
        o->ngrams = whole(x);
    }
}

static bool has_effect(const qkv_classify_options *o, int axis) {
    if (axis == EPOCHS) return o->steps == 0;
    if (axis == VOCAB) return o->tokenizer == QKV_TOKENIZER_BPE;
    if (axis == LR || axis == EMBEDDING_RATIO) return o->lr > 0;
    return true;
}

static bool is_option(const char *name) {
    for (size_t i = 0; i < qkv_classify_table.count; i++)
        if (strcmp(qkv_classify_table.options[i].name, name) == 0) return true;
    return false;
}

static bool named(const char *name, const char *const *names, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        if (strcmp(name, names[i]) == 0) return true;
    return false;
}

qkv_status qkv_draws_make(qkv_ctx *ctx, const qkv_classify_options *start, const char *const *fixed, int64_t count, qkv_draws *d) {
    *d = (qkv_draws){.start = *start};
    for (int64_t i = 0; i < count; i++)
        if (!fixed[i] || !is_option(fixed[i]))
            return qkv_fail(ctx, QKV_BAD_ARGUMENT, "there is no option '%.64s' to be fixed", fixed[i] ? fixed[i] : "NULL");
    d->heads = start->kv_heads == 0 && !named("heads", fixed, count) && !named("kv-heads", fixed, count);
    for (int i = 0; i < QKV_DRAW_AXES; i++) {
        const double x = get(start, i);
        d->open[i] = has_effect(start, i) && !named(axes[i].name, fixed, count);
        d->low[i] = x < axes[i].low ? x : axes[i].low;
        d->high[i] = x > axes[i].high ? x : axes[i].high;
    }
    return QKV_OK;
}

int qkv_draws_open(const qkv_draws *d) {
    int n = 0;
    for (int i = 0; i < QKV_DRAW_AXES; i++) n += d->open[i];
    return n;
}

/* ---- drawing ---- */

/* Where on its axis a value is, 0 to 1, and back. */
static double place(const qkv_draws *d, int axis, double x) {
    const double low = d->low[axis], high = d->high[axis];
    const double at = axes[axis].logarithmic ? log(x / low) / log(high / low) : (x - low) / (high - low);
    return at < 0 ? 0 : at > 1 ? 1 : at;
}

static double value(const qkv_draws *d, int axis, double at) {
    const double low = d->low[axis], high = d->high[axis];
    return axes[axis].logarithmic ? low * pow(high / low, at) : low + at * (high - low);
}

/* Beyond an end the way goes back. */
static double reflect(double at) {
    at = fabs(at);
    at = fmod(at, 2);
    return at > 1 ? 2 - at : at;
}

/* Three in four draws are near the best, in the beginning one in two: half of the options move, by less and less. The others are
 * far around the start, where all do. */
void qkv_draw(const qkv_draws *d, int64_t trial, const qkv_classify_options *best, qkv_classify_options *o) {
    const uint64_t key = qkv_key3(d->start.seed, 0x6472617773u, (uint64_t)trial);
    const bool far = trial == 0 || qkv_uniform(qkv_key2(key, 0)) < (trial <= 4 ? 0.5 : 0.25);
    const double nearer = trial > 0 ? 1 / sqrt((double)trial) : 1, width = far ? 0.35 : 0.3 * (nearer > 0.25 ? nearer : 0.25);
    const int sure = (int)qkv_below(qkv_key2(key, 1), QKV_DRAW_AXES); /* so that something moves, as a rule */
    const qkv_classify_options from = far ? d->start : *best;
    *o = from;
    if (trial == 0) return;
    for (int i = 0; i < QKV_DRAW_AXES; i++) {
        const bool moves = far || i == sure || qkv_uniform(qkv_key3(key, 2, (uint64_t)i)) < 0.5;
        if (!d->open[i]) continue;
        const double x = get(&from, i);
        if (moves)
            set(d, i, value(d, i, reflect(place(d, i, x) + width * qkv_normal(qkv_key3(key, 3, (uint64_t)i)))), o);
        else if (i == EMBEDDING_RATIO && o->embedding_lr > 0)
            set(d, i, x, o); /* of the new rate */
    }
}
