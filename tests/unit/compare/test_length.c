/* What `length` says of answers that are made up: of what has learned nothing, beside controls, before all of it is done. */
#include "made.h"

#include "compare/length.h"
/* Rows by turns short (1 token) and long (3 tokens), of four classes; class 0 has two of five. */
enum { ROWS = 200, LEARNED = 2 };

static void make_rows(qkv_ctx *ctx, int64_t rows, qkv_ragged *r) {
    *r = (qkv_ragged){.count = rows};
    assert_int_equal(qkv_alloc_zero(ctx, rows + 1, sizeof *r->offset, &r->offset), QKV_OK);
    assert_int_equal(qkv_alloc_zero(ctx, rows, sizeof *r->target, &r->target), QKV_OK);
    assert_int_equal(qkv_alloc_zero(ctx, 3 * rows, sizeof *r->ids, &r->ids), QKV_OK);
    for (int64_t i = 0; i < rows; i++) {
        const int64_t kind = i / 2 % 5;
        r->target[i] = (int32_t)(kind < 2 ? 0 : kind - 1);
        r->offset[i + 1] = r->offset[i] + (i % 2 ? 3 : 1);
    }
}

static qkv_trial *add(made *c, int64_t arm, int64_t turn, int64_t kind, int64_t rate) {
    qkv_trial *t;
    assert_int_equal(qkv_run_add(&c->run, &t), QKV_OK);
    t->at[QKV_LENGTH_ARM] = arm, t->at[QKV_LENGTH_TURN] = turn, t->at[QKV_LENGTH_KIND] = kind, t->at[QKV_LENGTH_RATE] = rate;
    return t;
}

/* One task, with controls or without, each arm with three seeds. */
static void begin(made *c, bool controls) {
    made_begin(c, &qkv_experiment_length, 3, true, NULL);
    qkv_length *l = c->run.self;
    qkv_length_task *t = &l->tasks[0];
    l->count = 1;
    t->name = "toys";
    t->learned = LEARNED;
    t->buckets = 2, t->within = 1;
    t->edges[1] = LEARNED, t->edges[2] = INT64_MAX;
    t->dataset = (qkv_dataset){.name = "toys", .classes = 4, .max_length = 3};
    make_rows(&c->ctx, ROWS, &t->dataset.test);
    if (controls) make_rows(&c->ctx, 10, &t->all);
    for (int64_t seed = 0; seed < 3; seed++)
        for (int64_t a = 0; a < QKV_LENGTH_ARM_COUNT; a++) {
            add(c, a, seed, QKV_LENGTH_TRAIN, QKV_ANY);
            if (controls) add(c, a, seed, QKV_LENGTH_ALL, QKV_ANY);
        }
}

/* How many of ten rows of each length are right, or (below 0) those of the most frequent class. */
typedef struct ability {
    int near, far;
} ability;

typedef struct asked {
    const qkv_ragged *rows;
    ability a;
} asked;

/* Hit or miss does not go by classes. */
static bool right(const void *of, int64_t row) {
    const asked *q = of;
    const int ten = row % 2 ? q->a.far : q->a.near;
    return ten < 0 ? q->rows->target[row] == 0 : 7 * (row / 2) % 10 < ten;
}

/* All trainings of that kind and arm. */
static void teach(made *c, int64_t arm, int64_t kind, ability a, double dev) {
    const qkv_length *l = c->run.self;
    const asked q = {&l->tasks[0].dataset.test, a};
    for (int64_t i = 0; i < c->run.count; i++) {
        qkv_trial *t = &c->run.trials[i];
        if (t->at[QKV_LENGTH_ARM] != arm || t->at[QKV_LENGTH_KIND] != kind) continue;
        json_t *values = made_training(made_answers(q.rows->count, right, &q), 0.5);
        json_object_set_new(values, "dev", json_real(dev));
        json_object_set_new(values, "rate", json_real(QKV_LENGTH_RATE_OF[qkv_length_picked(&c->run, 0, arm)]));
        made_put(c, t, values);
    }
}

static void forget(made *c) {
    for (int64_t i = 0; i < c->run.count; i++) made_take(&c->run.trials[i]);
}

static void has(const char *text, const char *words) {
    if (!strstr(text, words)) fail_msg("'%s' is not in: %s", words, text);
}

static void teach_all(made *c, int64_t kind, ability a) {
    for (int64_t arm = 0; arm < QKV_LENGTH_ARM_COUNT; arm++) teach(c, arm, kind, a, 0.5);
}

static void losses_are_of_what_is_above_the_most_frequent_class(void **state) {
    (void)state;
    made c;
    begin(&c, false);
    teach_all(&c, QKV_LENGTH_TRAIN, (ability){10, 7});
    teach(&c, QKV_LENGTH_RNN, QKV_LENGTH_TRAIN, (ability){-1, -1}, 0);
    made_conclude(&c);
    const qkv_compare_claim *m = made_claim(&c, 9, "long sentences");
    const qkv_compare_part *p = made_part(m, "LSTM");
    assert_true(fabs(p->value - 0.5) < 1e-9); /* 60 points above the 40 of the most frequent class, and 30 */
    assert_true(p->low < 0.5 && p->high > 0.5 && p->measurements == 3 && p->missing == 0 && p->figure == 0.37 && p->nothing == 0);
    p = made_part(m, "RNN");
    assert_int_equal(p->verdict, QKV_CANNOT_BE_JUDGED);
    has(p->why, "RNN has not learned the task: 40.0 % (95 % interval ");
    has(p->why, " within the learned lengths, the most frequent class 40.0 %");
    has(m->ours, "RNN not learned, LSTM 50.0 %");
    assert_true(c.result->tables == 1 && c.result->table[0].value[4].value == 0.4);
    assert_false(m->so_far);
    made_free(&c);
}

/* The long rows are hard for everybody: what a control does not know either is not lost. */
static void texts_are_held_against_controls(void **state) {
    (void)state;
    made c;
    begin(&c, true);
    teach_all(&c, QKV_LENGTH_TRAIN, (ability){10, 7});
    teach_all(&c, QKV_LENGTH_ALL, (ability){10, 7});
    teach(&c, QKV_LENGTH_LSTM, QKV_LENGTH_ALL, (ability){8, 10}, 0);
    made_conclude(&c);
    const qkv_compare_claim *m = made_claim(&c, 9, "long sentences");
    assert_true(made_part(m, "GRU")->value == 0 && fabs(made_part(m, "LSTM")->value - 0.5) < 1e-9);
    forget(&c);
    /* A control that has not learned the long rows is nothing to lose from. */
    teach_all(&c, QKV_LENGTH_TRAIN, (ability){10, 7});
    teach_all(&c, QKV_LENGTH_ALL, (ability){10, -1});
    made_conclude(&c);
    has(made_part(made_claim(&c, 9, "long sentences"), "GRU")->why, "GRU has not learned the task: 40.0 %");
    made_free(&c);
}

/* By rows that are not scored, not by those that are. */
static void the_best_positions_are_chosen(void **state) {
    (void)state;
    made c;
    begin(&c, true);
    teach_all(&c, QKV_LENGTH_TRAIN, (ability){10, 10});
    teach_all(&c, QKV_LENGTH_ALL, (ability){8, 8});
    teach(&c, QKV_LENGTH_SINUSOIDAL, QKV_LENGTH_ALL, (ability){10, 10}, 0.6);
    teach(&c, QKV_LENGTH_LEARNED, QKV_LENGTH_ALL, (ability){9, 9}, 0.7);
    teach(&c, QKV_LENGTH_GRU, QKV_LENGTH_ALL, (ability){8, 8}, 0.9);
    made_conclude(&c);
    const qkv_compare_claim *m = made_claim(&c, 11, "sentiment");
    has(m->ours, "attention, learned positions: 90.0 %; less RNN +10.0 points");
    assert_true(fabs(made_part(m, "beside the GRU")->value - 0.1) < 1e-9);
    made_free(&c);
}

static void what_is_not_done_is_not_judged(void **state) {
    (void)state;
    made c;
    begin(&c, false);
    teach_all(&c, QKV_LENGTH_TRAIN, (ability){10, 7});
    for (int64_t i = 0; i < c.run.count; i++) { /* one seed of the LSTM is not there */
        qkv_trial *t = &c.run.trials[i];
        if (t->at[QKV_LENGTH_ARM] != QKV_LENGTH_LSTM || t->at[QKV_LENGTH_TURN] != 1) continue;
        made_take(t);
    }
    made_conclude(&c);
    const qkv_compare_claim *m = made_claim(&c, 9, "long sentences");
    const qkv_compare_part *p = made_part(m, "LSTM");
    assert_true(m->so_far && p->missing == 1 && p->measurements == 2 && p->verdict == QKV_CANNOT_BE_JUDGED);
    assert_string_equal(p->why, "50.0 % so far, 1 more measurement is to come");
    has(m->ours, "So far, and not all of it was measured: toys: ");
    assert_int_equal(made_part(m, "GRU")->verdict, QKV_HOLDS); /* of 37 %, by so few rows */
    assert_int_equal(made_claim(&c, 13, "long sentences")->verdict, QKV_CANNOT_BE_JUDGED);
    assert_false(made_claim(&c, 7, "more robust")->so_far);
    forget(&c);
    made_conclude(&c);
    assert_string_equal(made_claim(&c, 9, "long sentences")->ours, "Run it.");
    made_free(&c);
}

/* ---- rates ---- */

static void rates_are_picked_by_the_mean(void **state) {
    (void)state;
    /* accuracy by rate, of two seeds */
    static const double of[QKV_LENGTH_RATES][2] = {{0.2, 0.3}, {0.9, 0.1}, {0.5, 0.6}, {0.625, 0.75}, {0.5, 0.875}};
    made c;
    begin(&c, false);
    qkv_length *l = c.run.self;
    l->picks = true;
    assert_true(qkv_length_rates(l, QKV_LENGTH_GRU) == 5 && qkv_length_rates(l, QKV_LENGTH_SINUSOIDAL) == 3);
    for (int64_t r = 0; r < QKV_LENGTH_RATES; r++)
        for (int64_t s = 0; s < 2; s++) {
            add(&c, QKV_LENGTH_GRU, 1000 + s, QKV_LENGTH_PICK, r)->values = json_pack("{s:f}", "accuracy", of[r][s]);
            add(&c, QKV_LENGTH_LSTM, 1000 + s, QKV_LENGTH_PICK, r)->values = json_pack("{s:f}", "accuracy", 0.1 * (double)r);
            if (r < 3) add(&c, QKV_LENGTH_NONE, 1000 + s, QKV_LENGTH_PICK, r)->values = json_pack("{s:f}", "accuracy", 1.0);
        }
    assert_int_equal(qkv_length_picked(&c.run, 0, QKV_LENGTH_GRU), 3); /* as good as the next, and smaller */
    assert_int_equal(qkv_length_picked(&c.run, 0, QKV_LENGTH_NONE), 0);
    assert_int_equal(qkv_length_picked(&c.run, 0, QKV_LENGTH_LSTM), 4);
    teach_all(&c, QKV_LENGTH_TRAIN, (ability){10, 10});
    made_conclude(&c);
    has(c.result->table[0].note, " At the edge of the rates that were tried: LSTM.");
    l->picks = false;
    assert_true(QKV_LENGTH_RATE_OF[qkv_length_picked(&c.run, 0, QKV_LENGTH_GRU)] == 0.002);
    made_free(&c);
}

/* Two files with other rows have other cells, whatever they are called; the same rows have the same. */
static void keys_tell_rows_apart(void **state) {
    (void)state;
    char name[256], path[512], key[3][640];
    for (int i = 0; i < 3; i++) {
        made c;
        snprintf(name, sizeof name, "%0*d.tsv", i < 2 ? 230 : 2, 1);
        FILE *f = fopen(test_path(name, path), "wb");
        assert_non_null(f);
        for (int r = 0; r < 80; r++) fprintf(f, "%c\tone two three four five six %d\n", "ab"[r % 2], r + (i > 0));
        assert_int_equal(fclose(f), 0);
        made_prepare(&c, &qkv_experiment_length, 3, true, path);
        assert_int_equal(c.run.count, 2 * 3 * QKV_LENGTH_ARM_COUNT);
        for (int64_t a = 0; a < c.run.count; a++)
            for (int64_t b = 0; b < a; b++) assert_string_not_equal(c.run.trials[a].key, c.run.trials[b].key);
        snprintf(key[i], sizeof key[i], "%s", c.run.trials[0].key);
        remove(path);
        made_free(&c);
    }
    assert_string_not_equal(key[0], key[1]);
    assert_string_equal(key[1], key[2]);
    assert_string_equal(qkv_name_in_key("made of letters", 15).s, "made of letters");
    has(qkv_name_in_key("made of letters", 14).s, "made of letter [");
    assert_string_equal(qkv_name_in_key("dir/file.tsv (rows 12), up to 5 tokens", 40).s, "(rows 12), up to 5 tokens");
}

/* What is there stays usable: keys of cells that were measured once. */
static void keys_of_made_rows_stay(void **state) {
    (void)state;
    static const char *const keys[] = {
        "length: recall of one of 2 pairs (4 keys, 8 values), learned from texts of 8 to 64 tokens, d 64, steps 300 of 4096, "
        "GRU, seed 1, rate 0.002",
        "length: nested list operations, learned from texts of 20 to 40 tokens, d 64, steps 150 of 4096, attention, no positions, "
        "seed 3, rate 0.002"};
    made c;
    made_prepare(&c, &qkv_experiment_length, 3, true, NULL);
    for (int k = 0; k < 2; k++) {
        int found = 0;
        for (int64_t i = 0; i < c.run.count; i++) found += strcmp(c.run.trials[i].key, keys[k]) == 0;
        assert_int_equal(found, 1);
    }
    made_free(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_are_of_what_is_above_the_most_frequent_class),
        cmocka_unit_test(texts_are_held_against_controls),
        cmocka_unit_test(the_best_positions_are_chosen),
        cmocka_unit_test(what_is_not_done_is_not_judged),
        cmocka_unit_test(rates_are_picked_by_the_mean),
        cmocka_unit_test(keys_tell_rows_apart),
        cmocka_unit_test(keys_of_made_rows_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
