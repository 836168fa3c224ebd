/* An experiment that is concluded from cells that are made up. */
#ifndef QKV_TESTS_COMPARE_MADE_H
#define QKV_TESTS_COMPARE_MADE_H

#include "support.h"

#include <math.h>

#include "compare/dataset.h"
#include "compare/list.h"

typedef struct made {
    test_memory memory;
    qkv_ctx ctx;
    qkv_compare_options o;
    qkv_run run;
    qkv_compare_result *result;
} made;

/* Without trials yet. */
static inline void made_begin(made *m, const qkv_experiment *e, int64_t seeds, bool quick, const char *data) {
    *m = (made){.o = {.struct_size = sizeof m->o, .what = e->name, .quick = quick, .data = data, .seed = 1}};
    m->ctx = test_ctx(&m->memory);
    m->run = (qkv_run){.ctx = &m->ctx, .experiment = e, .o = &m->o, .seeds = seeds, .machine = "m"};
    assert_int_equal(qkv_alloc_zero(&m->ctx, 1, e->self_size, &m->run.self), QKV_OK);
}

static inline void made_prepare(made *m, const qkv_experiment *e, int64_t seeds, bool quick, const char *data) {
    made_begin(m, e, seeds, quick, data);
    assert_int_equal(e->prepare(&m->run), QKV_OK);
}

/* A cell as its measurement gives it; takes over `values`. */
static inline void made_put(made *m, qkv_trial *t, json_t *values) {
    assert_true(m->run.experiment->whole(&m->run, t, values));
    json_decref((json_t *)t->values);
    t->values = values;
}

static inline void made_take(qkv_trial *t) {
    json_decref((json_t *)t->values);
    t->values = NULL;
}

/* May be called again, after other cells have been put. */
static inline void made_conclude(made *m) {
    qkv_outcome *o;
    if (m->result) qkv_outcome_free(qkv_outcome_of(m->result));
    assert_int_equal(qkv_outcome_create(&m->ctx, &o), QKV_OK);
    qkv_outcome_lacks(o, "Run it.");
    m->run.experiment->conclude(&m->run, o);
    assert_int_equal(qkv_outcome_finish(o, &m->result), QKV_OK);
    for (int64_t i = 0; i < m->result->tables; i++) {
        const qkv_compare_table *t = &m->result->table[i];
        for (int64_t k = 0; k < t->rows * t->columns; k++)
            if (t->value[k].text && strstr(t->value[k].text, "nan")) fail_msg("%s: '%s'", t->key, t->value[k].text);
    }
}

static inline void made_free(made *m) {
    if (m->result) qkv_outcome_free(qkv_outcome_of(m->result));
    for (int64_t i = 0; i < m->run.count; i++) made_take(&m->run.trials[i]);
    if (m->run.experiment->drop) m->run.experiment->drop(&m->run);
    qkv_free(&m->ctx, m->run.trials);
    qkv_free(&m->ctx, m->run.self);
    qkv_par_close(&m->ctx);
    assert_int_equal(m->memory.blocks, 0);
}

/* The first claim whose words have this in them. */
static inline const qkv_compare_claim *made_claim(const made *m, int row, const char *says) {
    for (int64_t i = 0; i < m->result->claims; i++)
        if (m->result->claim[i].row == row && strstr(m->result->claim[i].says, says)) return &m->result->claim[i];
    fail_msg("no claim of row %d says '%s'", row, says);
    return NULL;
}

static inline void made_verdict(const made *m, int row, const char *says, qkv_verdict verdict) {
    const qkv_compare_claim *c = made_claim(m, row, says);
    if (c->verdict != verdict) fail_msg("%s: %s: %s", c->says, qkv_verdict_name(c->verdict), c->why);
}

/* The sentence of a claim has this in it; of a part, with its verdict: "(holds)". */
static inline void made_why(const made *m, int row, const char *says, const char *words) {
    const qkv_compare_claim *c = made_claim(m, row, says);
    if (!strstr(c->why, words)) fail_msg("'%s' is not in: %s", words, c->why);
}

static inline const qkv_compare_part *made_part(const qkv_compare_claim *c, const char *name) {
    for (int64_t i = 0; i < c->parts; i++)
        if (strcmp(c->part[i].name, name) == 0) return &c->part[i];
    fail_msg("no part '%s' of: %s", name, c->says);
    return NULL;
}

/* A bit a row as a cell has it; `right` says it of each row. */
static inline json_t *made_answers(int64_t rows, bool (*right)(const void *of, int64_t row), const void *of) {
    char digits[4096];
    const int64_t count = (rows + 3) / 4;
    assert_true(count < (int64_t)sizeof digits);
    for (int64_t d = 0; d < count; d++) {
        int bits = 0;
        for (int64_t k = 0; k < 4 && 4 * d + k < rows; k++) bits |= right(of, 4 * d + k) << k;
        digits[d] = "0123456789abcdef"[bits];
    }
    digits[count] = 0;
    return json_string(digits);
}

/* What each training has; takes over `right`. */
static inline json_t *made_training(json_t *right, double accuracy) {
    return json_pack("{s:f, s:o, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "accuracy", accuracy, "right", right, "loss", 1.0,
                     "step_seconds", 0.1, "tokens_per_second", 1e4, "parameters", 1e5, "bytes", 1e7, "step_flops", 1e9, "diverged",
                     0.0);
}

/* A file of rows of so many kinds, so many of each, of `words` words by the row. */
static inline const char *made_rows(const char *name, int kinds, int each, int (*words)(int row), char path[512]) {
    FILE *f = fopen(test_path(name, path), "wb");
    assert_non_null(f);
    for (int i = 0; i < kinds * each; i++) {
        fprintf(f, "kind%d\t", i % kinds);
        for (int w = 0; w < words(i); w++) fprintf(f, "%sw%d", w ? " " : "", (i * 7 + w * 3) % 50);
        fputc('\n', f);
    }
    fclose(f);
    return path;
}

#endif
