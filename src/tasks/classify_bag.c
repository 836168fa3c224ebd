#include "tasks/classify_bag.h"

#include <string.h>

#include "tasks/classify.h"
#include "train/bag_fit.h"

/* Below so many texts runs of words that occur once count, and beginnings of words: the words of a family share what they say, where
 * each alone is too rare to say much. */
enum { FEW_ROWS = 10000 };
/* Of a bag whose smallest number of texts a run is not asked for: 256 MB. */
static const int64_t MOST_WEIGHTS = 1 << 26;
/* Classes times texts: minutes. */
static const int64_t SLOW = 100 * 1000 * 1000;

/* The texts and targets of one table, or of two one after the other. */
typedef struct texts {
    qkv_bag_texts of;
    const char **text;
    int64_t *length, *label_at;
    int32_t *target, *labels;
} texts;

static void texts_free(qkv_ctx *ctx, texts *t) {
    qkv_free(ctx, t->text);
    qkv_free(ctx, t->length);
    qkv_free(ctx, t->label_at);
    qkv_free(ctx, t->target);
    qkv_free(ctx, t->labels);
}

static int64_t labels_of(const qkv_ragged *r) { return r->label_at ? r->label_at[r->count] : 0; }

static qkv_status make_texts(qkv_ctx *ctx, int64_t rows, bool many, int64_t labels, texts *t) {
    QKV_TRY(qkv_alloc(ctx, rows, sizeof *t->text, &t->text));
    QKV_TRY(qkv_alloc(ctx, rows, sizeof *t->length, &t->length));
    if (!many) return qkv_alloc(ctx, rows, sizeof *t->target, &t->target);
    QKV_TRY(qkv_alloc(ctx, rows + 1, sizeof *t->label_at, &t->label_at));
    t->label_at[0] = 0;
    return qkv_alloc(ctx, labels, sizeof *t->labels, &t->labels);
}

static void add_texts(const qkv_table *table, const qkv_ragged *rows, texts *t) {
    for (int64_t i = 0; i < table->count; i++) {
        int64_t n = t->of.rows++;
        t->text[n] = table->rows[i].text;
        t->length[n] = table->rows[i].text_size;
        if (t->target) t->target[n] = rows->target[i];
        if (!t->label_at) continue;
        int64_t from = rows->label_at[i], count = rows->label_at[i + 1] - from;
        if (count > 0) memcpy(t->labels + t->label_at[n], rows->labels + from, (size_t)count * sizeof *t->labels);
        t->label_at[n + 1] = t->label_at[n] + count;
    }
}

static qkv_status texts_of(qkv_ctx *ctx, const qkv_bag_data *a, const qkv_bag_data *b, texts *t) {
    const int64_t rows = a->table->count + (b ? b->table->count : 0), labels = labels_of(&a->encoded->rows) + (b ? labels_of(&b->encoded->rows) : 0);
    QKV_TRY(make_texts(ctx, rows, a->encoded->rows.label_at != NULL, labels, t));
    add_texts(a->table, &a->encoded->rows, t);
    if (b) add_texts(b->table, &b->encoded->rows, t);
    t->of = (qkv_bag_texts){rows, t->text, t->length, t->target, t->label_at, t->labels};
    return QKV_OK;
}

/* On the training rows, by the cost that suits the dev rows. */
static qkv_status fit_and_choose(qkv_ctx *ctx, qkv_bag_options *o, const qkv_bag_data *train, const qkv_bag_data *dev, qkv_bag *bag) {
    texts seen = {0}, held = {0};
    qkv_status status = texts_of(ctx, train, NULL, &seen);
    if (status == QKV_OK) status = texts_of(ctx, dev, NULL, &held);
    if (status == QKV_OK) status = qkv_bag_fit(ctx, o, &seen.of, &held.of, bag, &o->cost);
    texts_free(ctx, &seen);
    texts_free(ctx, &held);
    return status;
}

/* By that cost on the rows of both. */
static qkv_status fit_again(qkv_ctx *ctx, const qkv_bag_options *o, const qkv_bag_data *train, const qkv_bag_data *dev, qkv_bag *bag) {
    texts all = {0};
    qkv_bag_free(bag);
    qkv_status status = texts_of(ctx, train, dev, &all);
    if (status == QKV_OK) status = qkv_bag_fit(ctx, o, &all.of, NULL, bag, NULL);
    texts_free(ctx, &all);
    return status;
}

static qkv_status make_rows(qkv_ctx *ctx, const qkv_ragged *dev, qkv_beside *b) {
    const int64_t classes = b->bag.classes;
    QKV_TRY(qkv_alloc(ctx, dev->count * classes, sizeof *b->net, &b->net));
    QKV_TRY(qkv_alloc(ctx, classes, sizeof *b->probabilities, &b->probabilities));
    b->rows = (qkv_blend_rows){dev->count, classes, b->net, dev->bag, dev->target, dev->label_at, dev->labels};
    return QKV_OK;
}

static qkv_status make(qkv_ctx *ctx, qkv_bag_options *o, const qkv_bag_data *train, const qkv_bag_data *dev, bool held_out, qkv_beside *b) {
    QKV_TRY(fit_and_choose(ctx, o, train, dev, &b->bag));
    QKV_TRY(qkv_encoded_score_table(&b->bag, dev->table, 0, dev->encoded));
    QKV_TRY(make_rows(ctx, &dev->encoded->rows, b));
    return held_out && dev->table->count > 0 ? fit_again(ctx, o, train, dev, &b->bag) : QKV_OK;
}

/* Texts that a run must be in. */
static int64_t least_rows(const qkv_classify_options *options, int64_t rows) {
    return options->ngram_min_rows > 0 ? options->ngram_min_rows : rows < FEW_ROWS ? 1 : 3;
}

int64_t qkv_beside_most(const qkv_classify_options *options, int64_t classes, const qkv_table *train, const qkv_table *dev) {
    const int64_t words = (train->pool_size + dev->pool_size) / 4, kinds = options->ngrams + (train->count < FEW_ROWS);
    int64_t runs = words * kinds / least_rows(options, train->count);
    if (!qkv_classify_has_bag(options, classes)) return 0;
    if (options->ngram_min_rows == 0 && runs > MOST_WEIGHTS / classes) runs = MOST_WEIGHTS / classes;
    return runs * (int64_t)(sizeof(uint64_t) + 4 * sizeof(int32_t) + (size_t)classes * sizeof(real)) +
           2 * dev->count * classes * (int64_t)sizeof(real);
}

qkv_status qkv_beside_make(qkv_ctx *ctx, const qkv_classify_options *options, int64_t classes, const real *class_weight,
                           const qkv_bag_data *train, const qkv_bag_data *dev, bool held_out, qkv_beside *b) {
    const int64_t rows = train->table->count;
    qkv_bag_options o = {
        .ngrams = options->ngrams,
        .beginnings = rows < FEW_ROWS, .min_rows = least_rows(options, rows), .most = options->ngram_min_rows > 0 ? 0 : MOST_WEIGHTS,
        .classes = classes,
        .weight = class_weight,
        .normalize = (qkv_normalization)options->normalize,
        .seed = options->seed,
    };
    *b = (qkv_beside){.blend = qkv_blend_even()};
    if (!qkv_classify_has_bag(options, classes)) return QKV_OK;
    if (classes * rows > SLOW)
        qkv_log(ctx, "the linear model has to tell %lld classes apart in %lld texts, which takes a while; --ngrams 0 leaves it out",
                (long long)classes, (long long)rows);
    qkv_status status = make(ctx, &o, train, dev, held_out, b);
    if (status != QKV_OK) qkv_beside_free(ctx, b);
    return status;
}

void qkv_beside_free(qkv_ctx *ctx, qkv_beside *b) {
    qkv_bag_free(&b->bag);
    qkv_free(ctx, b->net);
    qkv_free(ctx, b->probabilities);
    *b = (qkv_beside){0};
}

int64_t qkv_beside_bytes(const qkv_beside *b) {
    if (!qkv_beside_is(b)) return 0;
    return qkv_bag_bytes(&b->bag) + 2 * b->rows.rows * b->rows.classes * (int64_t)sizeof(real);
}

void qkv_beside_keep(void *user, int64_t row, const real *logits, int64_t classes, double loss) {
    (void)loss;
    memcpy(((qkv_beside *)user)->net + row * classes, logits, (size_t)classes * sizeof *logits);
}

void qkv_beside_run(qkv_beside *b, bool alone, qkv_scored *scored, void *user) {
    b->blend = alone ? qkv_blend_fit_bag(&b->rows) : qkv_blend_fit(&b->rows);
    for (int64_t i = 0; i < b->rows.rows; i++) {
        double loss = qkv_blend_row(&b->rows, b->blend, i, b->probabilities);
        scored(user, i, b->probabilities, b->rows.classes, loss);
    }
}

void qkv_beside_settle(qkv_beside *b, const qkv_classifier *net, real *weights, qkv_bag *bag) {
    qkv_classifier_scale(net, b->blend.net, weights);
    qkv_bag_scale(&b->bag, b->blend.bag);
    *bag = b->bag;
    b->bag = (qkv_bag){0};
}
