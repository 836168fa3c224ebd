/* The report of one model, for people. */
#include "test.h"

#include <math.h>

/* Up to so many labels the confusions are a matrix, above that a list of so many. */
enum { MATRIX_LABELS = 20, LIST_ROWS = 20, MATRIX_WIDTH = 100 };

const char *test_label(const qkv_model *model, const qkv_classify_report *r, int64_t number) {
    return number < r->classes ? qkv_model_label(model, number) : r->unseen_labels[number - r->classes].label;
}

/* ---- scores ---- */

static void score(const char *name, double share, const qkv_interval *interval) {
    printf("%-12s %9s", name, cli_percent(share).s);
    if (interval && !isnan(interval->low)) printf("  (%.2f to %.2f)", 100 * interval->low, 100 * interval->high);
    putchar('\n');
}

static void print_multi(const qkv_classify_report *r) {
    char name[32];
    score("precision", r->micro_precision, NULL);
    score("recall", r->micro_recall, NULL);
    for (int64_t i = 0; i < r->ranks; i++) {
        snprintf(name, sizeof name, "P@%lld", (long long)r->by_rank[i].k);
        score(name, r->by_rank[i].precision, NULL);
        snprintf(name, sizeof name, "R@%lld", (long long)r->by_rank[i].k);
        score(name, r->by_rank[i].recall, NULL);
    }
}

static void print_scores(const qkv_classify_report *r) {
    score(r->multi_label ? "exact" : "accuracy", r->accuracy, &r->accuracy_interval);
    score("macro F1", r->macro_f1, &r->macro_f1_interval);
    score("micro F1", r->micro_f1, &r->micro_f1_interval);
    score("weighted F1", r->weighted_f1, &r->weighted_f1_interval);
    if (r->multi_label) print_multi(r);
    printf("%-12s %9s%s\n", "loss", cli_loss(r->loss).s, isnan(r->loss) ? "" : " nats");
    if (!r->resamples) return;
    printf("\nIn brackets: 95 %% intervals, by %s of the rows.\n", cli_of(r->resamples, "resample").s);
    if (r->errors == 0)
        printf("No row is wrong, so resampling shows no error: as few would be seen up to a share of %s.\n",
               cli_percent(1 - pow(0.05, 1 / (double)r->rows)).s);
}

static void print_classes(const qkv_model *model, const qkv_classify_report *r) {
    enum { MOST = 32 };
    char text[256];
    int width = 5;
    for (int64_t i = 0; i < r->classes; i++) {
        const char *label = qkv_model_label(model, i);
        int w = cli_printable(label, (int64_t)strlen(label), MOST, text, sizeof text);
        if (w > width) width = w;
    }
    printf("\n%-*s  %9s  %9s  %9s  %9s  %9s\n", width, "class", "precision", "recall", "F1", "rows", "predicted");
    for (int64_t i = 0; i < r->classes; i++) {
        const qkv_class_score *s = &r->scores[i];
        cli_print_padded(stdout, qkv_model_label(model, i), width);
        printf("  %9s  %9s  %9s  %9s  %9s\n", cli_percent(s->precision).s, cli_percent(s->recall).s, cli_percent(s->f1).s,
               cli_count(s->support).s, cli_count(s->predicted).s);
    }
}

static void print_lengths(const qkv_classify_report *r) {
    printf("\n%-13s  %9s  %9s\n", "tokens", r->multi_label ? "exact" : "accuracy", "rows");
    for (int64_t i = 0; i < r->lengths; i++) {
        const qkv_length_score *l = &r->by_length[i];
        char range[100];
        if (!l->rows) continue;
        if (l->to == l->from) {
            snprintf(range, sizeof range, "%s", cli_count(l->from).s);
        } else if (l->to < 0) {
            snprintf(range, sizeof range, "%s and more", cli_count(l->from).s);
        } else {
            snprintf(range, sizeof range, "%s to %s", cli_count(l->from).s, cli_count(l->to).s);
        }
        printf("%-13s  %9s  %9s\n", range, cli_percent(l->accuracy).s, cli_count(l->rows).s);
    }
}

/* ---- confusion ---- */

static int label_width(const char *label, int most) {
    char text[256];
    return cli_printable(label, (int64_t)strlen(label), most, text, sizeof text);
}

static int64_t cell(const qkv_classify_report *r, int64_t gold, int64_t predicted) {
    for (int64_t i = 0; i < r->confusions; i++)
        if (r->confusion[i].gold == gold && r->confusion[i].predicted == predicted) return r->confusion[i].rows;
    return 0;
}

/* Widths of the columns: that of the gold labels, and of the counts below a predicted one. Labels that would make the table too
 * wide have numbers in their place at the top. */
typedef struct matrix_layout {
    int gold, count, numbered;
} matrix_layout;

static matrix_layout lay_out(const qkv_model *model, const qkv_classify_report *r) {
    enum { MOST = 24 };
    matrix_layout l = {(int)strlen("gold \\ predicted"), 1, 0};
    int top = 0;
    for (int64_t i = 0; i < r->classes + r->unseen; i++) {
        int w = label_width(test_label(model, r, i), MOST);
        if (w + 3 > l.gold) l.gold = w + 3;
        if (i < r->classes && w > top) top = w;
    }
    for (int64_t i = 0; i < r->confusions; i++) {
        int w = (int)strlen(cli_count(r->confusion[i].rows).s);
        if (w > l.count) l.count = w;
    }
    int wide = top > l.count ? top : l.count;
    l.numbered = l.gold + (int)r->classes * (wide + 2) > MATRIX_WIDTH;
    if (!l.numbered) l.count = wide;
    if (l.count < 2) l.count = 2;
    return l;
}

static void print_matrix(const qkv_model *model, const qkv_classify_report *r) {
    const matrix_layout l = lay_out(model, r);
    printf("\n%-*s", l.gold, "gold \\ predicted");
    for (int64_t p = 0; p < r->classes; p++) {
        const char *label = qkv_model_label(model, p);
        int used = l.numbered ? 0 : label_width(label, l.count);
        if (l.numbered) {
            printf("  %*lld", l.count, (long long)p + 1);
        } else {
            printf("  %*s", l.count > used ? l.count - used : 0, "");
            cli_print_padded(stdout, label, used);
        }
    }
    putchar('\n');
    for (int64_t g = 0; g < r->classes + r->unseen; g++) {
        int64_t rows = g < r->classes ? r->scores[g].support : r->unseen_labels[g - r->classes].rows;
        if (l.numbered && g < r->classes)
            printf("%2lld ", (long long)g + 1);
        else if (l.numbered)
            printf(" ? ");
        cli_print_padded(stdout, test_label(model, r, g), l.numbered ? l.gold - 3 : l.gold);
        for (int64_t p = 0; p < r->classes; p++) {
            int64_t n = rows ? cell(r, g, p) : 0;
            printf("  %*s", l.count, n ? cli_count(n).s : ".");
        }
        putchar('\n');
    }
}

static int by_rows(const void *a, const void *b) {
    const qkv_confusion *x = a, *y = b;
    if (x->rows != y->rows) return x->rows < y->rows ? 1 : -1;
    if (x->gold != y->gold) return x->gold < y->gold ? -1 : 1;
    return (x->predicted > y->predicted) - (x->predicted < y->predicted);
}

static void print_list(const qkv_model *model, const qkv_classify_report *r) {
    enum { MOST = 32 };
    qkv_confusion *wrong = cli_alloc((size_t)r->confusions * sizeof *wrong);
    int64_t count = 0;
    int gold = 4, predicted = 9;
    for (int64_t i = 0; i < r->confusions; i++)
        if (r->confusion[i].gold != r->confusion[i].predicted) wrong[count++] = r->confusion[i];
    qsort(wrong, (size_t)count, sizeof *wrong, by_rows);
    int64_t shown = count < LIST_ROWS ? count : LIST_ROWS;
    for (int64_t i = 0; i < shown; i++) {
        int g = label_width(test_label(model, r, wrong[i].gold), MOST),
            p = label_width(test_label(model, r, wrong[i].predicted), MOST);
        gold = g > gold ? g : gold;
        predicted = p > predicted ? p : predicted;
    }
    if (shown) printf("\n%-*s -> %-*s  %9s\n", gold, "gold", predicted, "predicted", "rows");
    for (int64_t i = 0; i < shown; i++) {
        cli_print_padded(stdout, test_label(model, r, wrong[i].gold), gold);
        fputs(" -> ", stdout);
        cli_print_padded(stdout, test_label(model, r, wrong[i].predicted), predicted);
        printf("  %9s\n", cli_count(wrong[i].rows).s);
    }
    if (count > shown) printf("and %s of other labels, less frequent\n", cli_of(count - shown, "pair").s);
    free(wrong);
}

/* ---- calibration ---- */

static void print_calibration(const qkv_classify_report *r) {
    printf("\n%-13s  %11s  %9s  %9s\n", "probability", "mean", r->multi_label ? "has it" : "accuracy",
           r->multi_label ? "decisions" : "rows");
    for (int64_t i = 0; i < r->bins; i++) {
        const qkv_reliability *b = &r->reliability[i];
        if (!b->rows) continue;
        printf("%.3f to %.3f %12s  %9s  %9s\n", b->from, b->to, cli_percent(b->confidence).s, cli_percent(b->accuracy).s,
               cli_count(b->rows).s);
    }
    printf("calibration error: expected (ECE) %s, largest (MCE) %s; Brier score %s\n", cli_percent(r->ece).s, cli_percent(r->mce).s,
           cli_loss(r->brier).s);
}

/* ---- the whole ---- */

/* What is not as one would think about the rows. */
void test_print_notes(const qkv_classify_report *r) {
    char text[256];
    if (r->cut_rows)
        printf("\n%s longer than the model reads: cut to what it reads, %s dropped.\n", cli_of(r->cut_rows, "row").s,
               cli_of(r->cut_tokens, "token").s);
    if (r->empty_rows) printf("\n%s without text.\n", cli_of(r->empty_rows, "row").s);
    if (r->repaired_rows) printf("\n%s with NUL or bytes that are not UTF-8.\n", cli_of(r->repaired_rows, "row").s);
    if (r->unlabelled_rows) printf("\n%s without a label.\n", cli_of(r->unlabelled_rows, "row").s);
    if (r->unseen) printf("\nLabels that the model does not know; their rows count as errors:\n");
    for (int64_t i = 0; i < r->unseen; i++) {
        const char *label = r->unseen_labels[i].label;
        cli_printable(label, (int64_t)strlen(label), 0, text, sizeof text);
        printf("  %s  %s\n", text, cli_of(r->unseen_labels[i].rows, "row").s);
    }
}

void test_print(const qkv_model *model, const qkv_classify_report *r) {
    printf("%s, %s, %s", cli_of(r->rows, "row").s, cli_of(r->classes, "class").s, cli_duration(r->seconds).s);
    if (r->seconds > 0) printf(" (%s rows/s)", cli_count((int64_t)((double)r->rows / r->seconds)).s);
    printf("\n\n");
    print_scores(r);
    print_classes(model, r);
    print_lengths(r);
    if (!r->multi_label && r->classes + r->unseen <= MATRIX_LABELS)
        print_matrix(model, r);
    else if (!r->multi_label)
        print_list(model, r);
    print_calibration(r);
    test_print_notes(r);
}
