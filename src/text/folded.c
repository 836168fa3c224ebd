#include "text/folded.h"

#include <string.h>

#include <utf8proc.h>

#include "text/utf8.h"

/* The only code point whose unconditional lower case is more than one code point (SpecialCasing.txt, Unicode 15). */
enum { I_WITH_DOT = 0x130, DOT_ABOVE = 0x307 };

static int lower_of(int32_t cp, char out[8]) {
    if (cp == I_WITH_DOT) {
        out[0] = 'i';
        return 1 + qkv_utf8_put(DOT_ABOVE, out + 1);
    }
    return qkv_utf8_put(utf8proc_tolower(cp), out);
}

static qkv_status add_shift(qkv_folded *n, int64_t begin, int64_t end, int64_t from, int64_t to) {
    if (n->shift_count == n->shift_capacity) {
        int64_t capacity = n->shift_capacity ? 2 * n->shift_capacity : 16;
        QKV_TRY(qkv_grow(n->ctx, capacity, sizeof *n->shifts, &n->shifts));
        n->shift_capacity = capacity;
    }
    n->shifts[n->shift_count++] = (qkv_shift){begin, end, from, to};
    return QKV_OK;
}

static qkv_status lower(qkv_folded *n, const char *text, int64_t length) {
    int64_t at = 0;
    for (int64_t i = 0; i < length;) {
        unsigned char c = (unsigned char)text[i];
        if (c < 0x80) {
            n->own[at++] = (char)(c >= 'A' && c <= 'Z' ? c + 32 : c);
            i++;
            continue;
        }
        int32_t cp;
        int size = qkv_utf8_next(text + i, length - i, &cp);
        if (size < 0) {
            memcpy(n->own + at, text + i, (size_t)-size);
            at -= size, i -= size;
            continue;
        }
        char out[8];
        int made = lower_of(cp, out);
        memcpy(n->own + at, out, (size_t)made);
        if (made != size) QKV_TRY(add_shift(n, at, at + made, i, i + size));
        at += made, i += size;
    }
    n->length = at;
    return QKV_OK;
}

qkv_status qkv_folded_make(qkv_ctx *ctx, bool lowercase, const char *text, int64_t length, qkv_folded *n) {
    *n = (qkv_folded){.ctx = ctx, .text = text, .length = length};
    if (!lowercase || length == 0) return QKV_OK;
    /* No lower case takes more than three bytes for two. */
    QKV_TRY(qkv_alloc(ctx, length + length / 2 + 8, 1, &n->own));
    n->text = n->own;
    qkv_status status = lower(n, text, length);
    if (status != QKV_OK) qkv_folded_free(n);
    return status;
}

void qkv_folded_free(qkv_folded *n) {
    qkv_free(n->ctx, n->own);
    qkv_free(n->ctx, n->shifts);
    n->own = NULL, n->shifts = NULL, n->text = NULL;
    n->length = n->shift_count = n->shift_capacity = 0;
}

/* *cursor is the number of shifts that begin at or before the position asked last. */
int64_t qkv_folded_begin(const qkv_folded *n, int64_t *cursor, int64_t position) {
    while (*cursor < n->shift_count && n->shifts[*cursor].begin <= position) ++*cursor;
    if (*cursor == 0) return position;
    const qkv_shift *s = &n->shifts[*cursor - 1];
    return position < s->end ? s->from : s->to + (position - s->end);
}

int64_t qkv_folded_end(const qkv_folded *n, int64_t *cursor, int64_t position) {
    while (*cursor < n->shift_count && n->shifts[*cursor].begin < position) ++*cursor;
    if (*cursor == 0) return position;
    const qkv_shift *s = &n->shifts[*cursor - 1];
    return position <= s->end ? s->to : s->to + (position - s->end);
}
