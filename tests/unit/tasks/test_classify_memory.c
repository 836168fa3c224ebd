/* Training in little memory: what is chosen, that it is true, that it learns the same, and that a refusal names what would fit. */
#include "unit/tasks/toy.h"

#include <math.h>

#include "models/model.h"
#include "tasks/classify_memory.h"

/* Bytes that are allocated, and the most since the plan was told. */
typedef struct meter {
    int64_t now, most;
    bool planned;
} meter;

static void *metered_allocate(void *user, size_t bytes) {
    meter *m = user;
    m->now += (int64_t)bytes;
    if (m->planned && m->now > m->most) m->most = m->now;
    return aligned_alloc(64, (bytes + 63) / 64 * 64);
}

static void metered_release(void *user, void *pointer, size_t bytes) {
    meter *m = user;
    if (pointer) m->now -= (int64_t)bytes;
    free(pointer);
}

typedef struct outcome {
    qkv_status status;
    qkv_train_plan plan;
    int64_t steps, most;
    char message[512];
    real *weights;
    int64_t count;
} outcome;

typedef struct watcher {
    outcome *out;
    meter *memory;
} watcher;

static void watch(void *user, const qkv_train_event *e) {
    watcher *w = user;
    if (e->kind == QKV_TRAIN_PLAN) {
        w->out->plan = e->u.plan;
        w->memory->planned = true;
    }
    if (e->kind == QKV_TRAIN_STEP) w->out->steps = e->u.step.step;
}

static outcome train(const qkv_classify_options *o, int threads, const char *path) {
    meter memory = {0};
    outcome r = {0};
    TEST_CTX qkv_ctx ctx = {0};
    qkv_ctx_setup(&ctx, &(qkv_ctx_options){.struct_size = sizeof(qkv_ctx_options), .threads = threads, .allocate = metered_allocate,
                                           .release = metered_release, .allocator_user = &memory});
    assert_int_equal(qkv_kernels_pick(&ctx, NULL), QKV_OK);
    watcher w = {&r, &memory};
    const qkv_train_callbacks callbacks = {watch, &w};
    qkv_model *model;
    r.status = qkv_classify_fit(&ctx, o, NULL, path, NULL, NULL, &callbacks, &model);
    strcpy(r.message, ctx.message);
    if (model) {
        r.count = qkv_classifier_reg(model->net)->size;
        r.weights = malloc((size_t)r.count * sizeof(real));
        memcpy(r.weights, model->weights, (size_t)r.count * sizeof(real));
    }
    qkv_model_free(model);
    r.most = memory.most;
    assert_int_equal(memory.now, 0);
    return r;
}

static qkv_classify_options options(void) {
    qkv_classify_options o = toy_options();
    o.dim = 32;
    o.layers = 2;
    o.batch_tokens = 2048;
    o.batch_rows = 0;
    o.accumulate = 1;
    o.steps = 2;
    return o;
}

static const char *rows(char path[512]) { return toy_file("toy_memory.tsv", 400, 5, path); }

static double farthest(const outcome *a, const outcome *b) {
    double worst = 0;
    assert_int_equal(a->count, b->count);
    for (int64_t i = 0; i < a->count; i++) worst = fmax(worst, fabs((double)a->weights[i] - (double)b->weights[i]));
    return worst;
}

/* For limits from all that is asked for down to the least: what is allocated stays below the plan and the plan below the limit, the
 * choice is the same for any number of threads, and what is learnt is the same but for rounding. */
static void every_limit_is_kept(void **state) {
    (void)state;
    char path[512];
    rows(path);
    qkv_classify_options o = options();
    o.recompute = QKV_RECOMPUTE_AUTO;
    o.epsilon = 1e-3; /* so that a gradient of about 0 does not become a step of full length in either direction */
    outcome whole = train(&o, 2, path);
    assert_int_equal(whole.status, QKV_OK);
    assert_true(whole.plan.piece_tokens == 0 && whole.plan.recompute == 0);
    int pieces = 0, recomputed = 0;
    int64_t limit = whole.plan.bytes;
    for (;; limit = limit * 995 / 1000) {
        o.memory = limit;
        outcome r = train(&o, 1, path), again = train(&o, 2, path);
        assert_int_equal(r.status, again.status);
        assert_memory_equal(&r.plan, &again.plan, sizeof r.plan);
        if (r.status == QKV_NO_MEMORY) break;
        assert_int_equal(r.status, QKV_OK);
        assert_memory_equal(r.weights, again.weights, (size_t)r.count * sizeof(real));
        assert_true(r.plan.bytes <= limit && r.plan.limit == limit && r.steps == whole.steps);
        /* the rest is the program itself */
        assert_true(r.most <= r.plan.bytes && r.most > r.plan.bytes - QKV_MEMORY_OF_PROGRAM - (1 << 18));
        assert_true(again.most <= r.plan.bytes);
        assert_true(farthest(&r, &whole) < 1e-5);
        if (r.plan.piece_tokens == 0) assert_true(farthest(&r, &whole) == 0);
        pieces += r.plan.piece_tokens > 1;
        recomputed += r.plan.recompute;
        free(r.weights);
        free(again.weights);
    }
    assert_true(pieces > 1 && recomputed > 0);
    free(whole.weights);
}

static void recomputation_is_a_policy(void **state) {
    (void)state;
    char path[512];
    rows(path);
    qkv_classify_options o = options();
    o.layers = 3;
    outcome r[QKV_RECOMPUTE_AUTO + 2]; /* and feed-forward layers in parts */
    for (int k = 0; k < QKV_RECOMPUTE_AUTO + 2; k++) {
        o.recompute = k <= QKV_RECOMPUTE_AUTO ? k : QKV_RECOMPUTE_NONE;
        o.ffn_chunk = k <= QKV_RECOMPUTE_AUTO ? 0 : 64;
        r[k] = train(&o, 2, path);
        const qkv_train_plan *p = &r[k].plan;
        assert_int_equal(r[k].status, QKV_OK);
        assert_int_equal(p->recompute, k != QKV_RECOMPUTE_NONE && k != QKV_RECOMPUTE_AUTO);
        assert_int_equal(p->recompute_every, k == QKV_RECOMPUTE_BLOCKS ? 1 : k == QKV_RECOMPUTE_SQRT ? 2 : 0);
        assert_int_equal(p->recompute_part, k == QKV_RECOMPUTE_ATTENTION ? 2 : k == QKV_RECOMPUTE_POINTWISE ? 1 : 0);
        assert_memory_equal(r[k].weights, r[0].weights, (size_t)r[0].count * sizeof(real));
        if (p->recompute) assert_true(p->bytes < r[0].plan.bytes && p->flops_per_step > r[0].plan.flops_per_step && p->recompute_share > 0);
        else assert_true(p->bytes == r[0].plan.bytes && p->recompute_share == 0);
    }
    assert_true(r[QKV_RECOMPUTE_POINTWISE].plan.recompute_share < r[QKV_RECOMPUTE_ATTENTION].plan.recompute_share);
    o.memory = r[0].plan.bytes - 1;
    o.recompute = QKV_RECOMPUTE_NONE;
    o.ffn_chunk = 0;
    outcome none = train(&o, 2, path);
    assert_int_equal(none.status, QKV_OK);
    assert_true(none.plan.recompute == 0 && none.plan.piece_tokens == o.batch_tokens / 2);
    free(none.weights);
    for (int k = 0; k < QKV_RECOMPUTE_AUTO + 2; k++) free(r[k].weights);
}

/* Takes "--name value" out of the sentence; 0: it is not there. */
static int64_t offered(const char *message, const char *name) {
    const char *at = strstr(message, name);
    return at ? strtoll(at + strlen(name), NULL, 10) : 0;
}

/* What a refusal offers fits, and what it passes over does not. */
static void a_refusal_says_what_would_fit(void **state) {
    (void)state;
    char path[512];
    rows(path);
    qkv_classify_options o = options();
    o.dim = 128;
    o.ffn = 512;
    o.max_length = 4096;
    o.memory = 30 << 20;
    outcome r = train(&o, 2, path);
    assert_int_equal(r.status, QKV_NO_MEMORY);
    assert_null(r.weights);
    assert_non_null(strstr(r.message, "--memory allows 31.4 MB; would fit: --memory "));
    assert_int_equal(r.steps, 0);
    const int64_t mega = offered(r.message, "would fit: --memory "), length = offered(r.message, "--max-length "),
                  dim = offered(r.message, "--dim ");
    assert_true(mega << 20 >= r.plan.bytes && (mega - 1) << 20 < r.plan.bytes);
    int found = 0;
    for (int k = 0; k < 3; k++) {
        qkv_classify_options other = o;
        if (k == 0) other.memory = mega << 20;
        if (k == 1) other.max_length = length;
        if (k == 2) other.dim = dim;
        if (k > 0 && (k == 1 ? length : dim) == 0) continue;
        outcome fits = train(&other, 2, path);
        assert_int_equal(fits.status, QKV_OK);
        free(fits.weights);
        found++;
        if (k == 1) other.max_length *= 2;
        if (k == 2) other.dim = other.dim * 3 / 2 / 4 * 4;
        if (k == 0) other.memory = (mega - 1) << 20;
        outcome does_not = train(&other, 2, path);
        assert_int_equal(does_not.status, QKV_NO_MEMORY);
    }
    if (found < 2) print_error("%s\n", r.message);
    assert_true(found >= 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_limit_is_kept), cmocka_unit_test(recomputation_is_a_policy),
                                       cmocka_unit_test(a_refusal_says_what_would_fit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
