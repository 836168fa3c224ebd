/* The character tokenizer: a vocabulary of the code points that occur at least twice, the most frequent first. The others are
 * UNK, so that a model trained on the same texts has met it. */
#include "base/sort.h"
#include "text/utf8.h"
#include "text/vocab.h"

enum { PAGE_BITS = 8, PAGE = 1 << PAGE_BITS, PAGES = 0x110000 >> PAGE_BITS, MIN_COUNT = 2 };

/* How often each code point was seen; a page is made when it is first needed. */
typedef struct tally {
    qkv_ctx *ctx;
    int64_t *pages[PAGES];
} tally;

static void tally_free(tally *seen) {
    for (int i = 0; i < PAGES; i++) qkv_free(seen->ctx, seen->pages[i]);
    qkv_free(seen->ctx, seen);
}

static qkv_status count_text(tally *seen, const char *text, int64_t length) {
    for (int64_t i = 0; i < length;) {
        int32_t cp;
        int size = qkv_utf8_next(text + i, length - i, &cp);
        i += size < 0 ? -size : size;
        int64_t **page = &seen->pages[cp >> PAGE_BITS];
        if (!*page) QKV_TRY(qkv_alloc_zero(seen->ctx, PAGE, sizeof **page, page));
        (*page)[cp & (PAGE - 1)]++;
    }
    return QKV_OK;
}

/* Writes the code points that occur often enough (`items` NULL: only counts them), ascending. */
static int64_t list(const tally *seen, qkv_sort_item *items) {
    int64_t count = 0;
    for (int page = 0; page < PAGES; page++)
        for (int i = 0; seen->pages[page] && i < PAGE; i++) {
            int64_t times = seen->pages[page][i];
            if (times < MIN_COUNT) continue;
            if (items) items[count] = (qkv_sort_item){UINT64_MAX - (uint64_t)times, (int64_t)page << PAGE_BITS | i};
            count++;
        }
    return count;
}

static qkv_status choose(qkv_tokenizer *t, const tally *seen) {
    qkv_sort_item *items;
    int32_t *cps = NULL;
    int64_t count = list(seen, NULL), room = t->options.vocab - QKV_TOKEN_SPECIALS;
    QKV_TRY(qkv_alloc(t->ctx, count, sizeof *items, &items));
    list(seen, items);
    qkv_status status = qkv_sort(t->ctx, items, count); /* stable: among equals the smaller code point first */
    if (count > room) count = room;
    if (status == QKV_OK) status = qkv_alloc(t->ctx, count, sizeof *cps, &cps);
    if (status == QKV_OK) {
        for (int64_t i = 0; i < count; i++) cps[i] = (int32_t)items[i].value;
        status = qkv_chars_set(t, cps, count);
    }
    qkv_free(t->ctx, cps);
    qkv_free(t->ctx, items);
    return status;
}

qkv_status qkv_chars_train(qkv_tokenizer *t, int64_t count, const char *const *texts, const int64_t *lengths) {
    tally *seen;
    QKV_TRY(qkv_alloc_zero(t->ctx, 1, sizeof *seen, &seen));
    seen->ctx = t->ctx;
    qkv_status status = QKV_OK;
    for (int64_t i = 0; i < count && status == QKV_OK; i++) {
        qkv_folded f;
        if ((status = qkv_vocab_poll(t, i)) != QKV_OK) break;
        status = qkv_folded_make(t->ctx, (qkv_normalization)t->options.normalize, t->options.lowercase, texts[i], lengths[i], &f);
        if (status != QKV_OK) break;
        status = count_text(seen, f.text, f.length);
        qkv_folded_free(&f);
    }
    if (status == QKV_OK) status = choose(t, seen);
    tally_free(seen);
    return status;
}

qkv_status qkv_chars_set(qkv_tokenizer *t, const int32_t *cps, int64_t count) {
    qkv_sort_item *items;
    QKV_TRY(qkv_alloc(t->ctx, count, sizeof *items, &items));
    for (int64_t i = 0; i < count; i++) items[i] = (qkv_sort_item){(uint64_t)cps[i], i};
    qkv_status status = qkv_sort(t->ctx, items, count);
    if (status == QKV_OK) status = qkv_alloc(t->ctx, count, sizeof *t->cps, &t->cps);
    if (status == QKV_OK) status = qkv_alloc(t->ctx, count, sizeof *t->cp_ids, &t->cp_ids);
    for (int64_t i = 0; i < count && status == QKV_OK; i++) {
        t->cps[i] = (int32_t)items[i].key;
        t->cp_ids[i] = (int32_t)(QKV_TOKEN_SPECIALS + items[i].value);
    }
    for (int64_t i = 0; i < count && status == QKV_OK; i++) {
        char piece[4];
        int size = qkv_utf8_put(cps[i], piece);
        status = qkv_vocab_add(t, piece, size);
    }
    qkv_free(t->ctx, items);
    return status;
}

static int32_t id_of(const qkv_tokenizer *t, int32_t cp) {
    int64_t low = 0, high = t->count - QKV_TOKEN_SPECIALS;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (t->cps[middle] < cp)
            low = middle + 1;
        else
            high = middle;
    }
    return low < t->count - QKV_TOKEN_SPECIALS && t->cps[low] == cp ? t->cp_ids[low] : QKV_TOKEN_UNK;
}

/* A bad sequence is one U+FFFD. */
void qkv_chars_encode(const qkv_tokenizer *t, qkv_sink *s) {
    const qkv_folded *n = s->folded;
    for (int64_t i = 0; i < n->length;) {
        int32_t cp;
        int size = qkv_utf8_next(n->text + i, n->length - i, &cp);
        if (size < 0) size = -size;
        qkv_sink_put(s, id_of(t, cp), i, i + size);
        i += size;
    }
}
