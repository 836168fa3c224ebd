#include "data/folds.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

/* ---- views ---- */

qkv_status qkv_table_view(const qkv_table *table, const int32_t *fold, int32_t which, bool inside, qkv_table *view) {
    *view = (qkv_table){.ctx = table->ctx};
    memcpy(view->name, table->name, sizeof view->name);
    memcpy(view->format, table->format, sizeof view->format);
    int64_t count = 0;
    for (int64_t i = 0; i < table->count; i++) count += !fold || (fold[i] == which) == inside;
    QKV_TRY(qkv_alloc(table->ctx, count, sizeof *view->rows, &view->rows));
    view->capacity = count;
    for (int64_t i = 0; i < table->count; i++)
        if (!fold || (fold[i] == which) == inside) qkv_table_put(view, &table->rows[i]);
    return QKV_OK;
}

int64_t qkv_table_bytes(const qkv_table *table) {
    return table->capacity * (int64_t)sizeof *table->rows + table->pool_capacity;
}

/* ---- dealing ---- */

/* Rows that share a text; first as members sorted by text, then one for each text. */
typedef struct group {
    const qkv_row *row; /* with the smallest label, so that the order of the rows does not matter */
    uint64_t text, key;
    int64_t rows;
    int32_t fold;
} group;

static int compare_bytes(const char *a, int64_t a_size, const char *b, int64_t b_size) {
    int order = memcmp(a, b, (size_t)(a_size < b_size ? a_size : b_size));
    return order ? order : (a_size > b_size) - (a_size < b_size);
}

static int by_text(const void *a, const void *b) {
    const group *x = a, *y = b;
    if (x->text != y->text) return x->text < y->text ? -1 : 1;
    return compare_bytes(x->row->label, x->row->label_size, y->row->label, y->row->label_size);
}

static int by_label(const void *a, const void *b) {
    const group *x = a, *y = b;
    int order = compare_bytes(x->row->label, x->row->label_size, y->row->label, y->row->label_size);
    if (order) return order;
    return x->key < y->key ? -1 : x->key > y->key;
}

static int by_text_alone(const void *a, const void *b) {
    const group *x = a, *y = b;
    return x->text < y->text ? -1 : x->text > y->text;
}

/* One group for each text; their number. */
static int64_t collect(const qkv_table *t, uint64_t seed, group *g) {
    for (int64_t i = 0; i < t->count; i++) {
        const qkv_row *row = &t->rows[i];
        const uint64_t text = qkv_hash64(row->text, (size_t)row->text_size, 0);
        g[i] = (group){row, text, qkv_hash64(&text, sizeof text, seed), 1, 0};
    }
    qsort(g, (size_t)t->count, sizeof *g, by_text);
    int64_t n = 0;
    for (int64_t i = 0; i < t->count; i++) {
        if (n > 0 && g[n - 1].text == g[i].text)
            g[n - 1].rows++;
        else
            g[n++] = g[i];
    }
    return n;
}

/* Each goes to the fold that has the fewest rows of its label, and of those to the one with the fewest rows. So the first groups go
 * to a fold each, and none stays empty. */
static void spread(group *g, int64_t n, int64_t folds, int64_t *rows, int64_t *of_label) {
    qsort(g, (size_t)n, sizeof *g, by_label);
    for (int64_t i = 0; i < n; i++) {
        const qkv_row *row = g[i].row, *before = i > 0 ? g[i - 1].row : NULL;
        if (!before || compare_bytes(before->label, before->label_size, row->label, row->label_size) != 0)
            memset(of_label, 0, (size_t)folds * sizeof *of_label);
        int64_t to = 0;
        for (int64_t k = 1; k < folds; k++)
            if (of_label[k] < of_label[to] || (of_label[k] == of_label[to] && rows[k] < rows[to])) to = k;
        g[i].fold = (int32_t)to;
        of_label[to] += g[i].rows;
        rows[to] += g[i].rows;
    }
    qsort(g, (size_t)n, sizeof *g, by_text_alone);
}

static int32_t fold_of(const group *g, int64_t n, uint64_t text) {
    int64_t low = 0, high = n - 1;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (g[middle].text < text)
            low = middle + 1;
        else
            high = middle;
    }
    return g[low].fold;
}

static qkv_status deal(const qkv_table *t, int64_t count, uint64_t seed, group *g, int64_t *tally, int32_t *fold) {
    const int64_t n = collect(t, seed, g);
    if (n < count)
        return qkv_fail(t->ctx, QKV_BAD_DATA, "%s: %lld different texts cannot be dealt to %lld folds", t->name, (long long)n,
                        (long long)count);
    spread(g, n, count, tally, tally + count);
    for (int64_t i = 0; i < t->count; i++) fold[i] = fold_of(g, n, qkv_hash64(t->rows[i].text, (size_t)t->rows[i].text_size, 0));
    return QKV_OK;
}

qkv_status qkv_table_deal(const qkv_table *t, int64_t count, uint64_t seed, int32_t *fold) {
    group *g = NULL;
    int64_t *tally = NULL;
    qkv_status status = qkv_alloc(t->ctx, t->count, sizeof *g, &g);
    if (status == QKV_OK) status = qkv_alloc_zero(t->ctx, 2 * count, sizeof *tally, &tally);
    if (status == QKV_OK) status = deal(t, count, seed, g, tally, fold);
    qkv_free(t->ctx, tally);
    qkv_free(t->ctx, g);
    return status;
}
