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

static qkv_status reserve(qkv_folded *n, int64_t more) {
    int64_t need = n->length + more;
    if (need <= n->capacity) return QKV_OK;
    int64_t capacity = need + need / 2;
    QKV_TRY(qkv_grow(n->ctx, capacity, 1, &n->own));
    n->capacity = capacity;
    return QKV_OK;
}

/* ---- normalization, a cluster of code points at a time ---- */

enum { CLUSTER = 64, EXPANSION = 18 }; /* no code point decomposes into more than 18 */

/* Does nothing before this code point combine with it? (All that composes with what stands before it is a mark or a Hangul
 * vowel or final; compatibility forms are judged by what they stand for.) */
static bool starts(int32_t cp, utf8proc_option_t options) {
    utf8proc_int32_t parts[EXPANSION];
    if (cp < 0x300 || (cp >= 0x4E00 && cp < 0xA000)) return true;
    int boundary = UTF8PROC_BOUNDCLASS_START;
    if (utf8proc_decompose_char(cp, parts, EXPANSION, options, &boundary) > 0) cp = parts[0];
    if (cp >= 0x1160 && cp <= 0x11FF) return false;
    utf8proc_category_t c = utf8proc_category(cp);
    return c != UTF8PROC_CATEGORY_MN && c != UTF8PROC_CATEGORY_MC && c != UTF8PROC_CATEGORY_ME;
}

/* End of the cluster at text[at]; invalid bytes and NUL stand alone. */
static int64_t cluster_end(const char *text, int64_t length, int64_t at, utf8proc_option_t options) {
    for (int count = 0; at < length && count < CLUSTER; count++) {
        int32_t cp;
        int size = qkv_utf8_next(text + at, length - at, &cp);
        if (count > 0 && (size < 0 || cp == 0 || starts(cp, options))) break;
        at += size < 0 ? -size : size;
        if (size < 0 || cp == 0) break;
    }
    return at;
}

/* The code points of the normalised cluster text[from..to-1]; their number. */
static int64_t compose(const char *text, int64_t from, int64_t to, utf8proc_option_t options, utf8proc_int32_t *cps) {
    int32_t cp;
    int size = qkv_utf8_next(text + from, to - from, &cp);
    if (size < 0 || cp == 0) {
        cps[0] = 0xFFFD;
        return 1;
    }
    utf8proc_ssize_t count =
        utf8proc_decompose((const utf8proc_uint8_t *)text + from, to - from, cps, CLUSTER * EXPANSION, options);
    if (count >= 0) count = utf8proc_normalize_utf32(cps, count, options);
    return count < 0 ? 0 : count;
}

static qkv_status add_cluster(qkv_folded *n, bool lowercase, const char *text, int64_t from, int64_t to,
                              utf8proc_option_t options) {
    utf8proc_int32_t cps[CLUSTER * EXPANSION];
    int64_t begin = n->length, count = compose(text, from, to, options, cps), plain = 0;
    bool changed = false;
    QKV_TRY(reserve(n, 8 * count + 8));
    for (int64_t i = 0; i < count; i++) {
        char as_is[4], out[8];
        int size = qkv_utf8_put(cps[i], as_is), made = size;
        changed |= from + plain + size > to || memcmp(text + from + plain, as_is, (size_t)size) != 0;
        plain += size;
        if (lowercase)
            made = lower_of(cps[i], out);
        else
            memcpy(out, as_is, (size_t)size);
        memcpy(n->own + n->length, out, (size_t)made);
        n->length += made;
    }
    changed |= plain != to - from || n->length - begin != to - from;
    return changed ? add_shift(n, begin, n->length, from, to) : QKV_OK;
}

static qkv_status normalise(qkv_folded *n, qkv_normalization form, bool lowercase, const char *text, int64_t length) {
    utf8proc_option_t options = UTF8PROC_STABLE | UTF8PROC_COMPOSE;
    if (form == QKV_NORMALIZE_NFKC) options |= UTF8PROC_COMPAT;
    n->length = 0;
    for (int64_t i = 0; i < length;) {
        unsigned char c = (unsigned char)text[i];
        if (c > 0 && c < 0x80 && (i + 1 == length || (unsigned char)text[i + 1] < 0x80)) { /* nothing combines with it */
            QKV_TRY(reserve(n, 1));
            n->own[n->length++] = (char)(lowercase && c >= 'A' && c <= 'Z' ? c + 32 : c);
            i++;
            continue;
        }
        int64_t end = cluster_end(text, length, i, options);
        QKV_TRY(add_cluster(n, lowercase, text, i, end, options));
        i = end;
    }
    return QKV_OK;
}

/* ---- lower case alone ---- */

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

qkv_status qkv_folded_make(qkv_ctx *ctx, qkv_normalization normalize, bool lowercase, const char *text, int64_t length,
                           qkv_folded *n) {
    *n = (qkv_folded){.ctx = ctx, .text = text, .length = length};
    if ((!lowercase && normalize == QKV_NORMALIZE_NONE) || length == 0) return QKV_OK;
    /* No lower case takes more than three bytes for two. */
    n->capacity = length + length / 2 + 8;
    QKV_TRY(qkv_alloc(ctx, n->capacity, 1, &n->own));
    qkv_status status = normalize == QKV_NORMALIZE_NONE ? lower(n, text, length) : normalise(n, normalize, lowercase, text, length);
    n->text = n->own;
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
