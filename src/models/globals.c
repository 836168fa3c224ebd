#include "models/globals.h"

#include <stdio.h>
#include <string.h>

#include "text/utf8.h"

qkv_status qkv_batch_list_globals(qkv_ctx *ctx, const qkv_config *config, qkv_batch *batch) {
    const qkv_global_rule globals = qkv_config_globals(config);
    const qkv_batch lower = qkv_batch_lower(batch);
    const int64_t rows = lower.n_seq > 0 ? lower.offset[lower.n_seq] : 0;
    int64_t *offset, *at;
    if (!qkv_globals_listed(&globals)) return QKV_OK;
    QKV_TRY(qkv_alloc(ctx, lower.n_seq + 1 + rows, sizeof *offset, &offset));
    at = offset + lower.n_seq + 1;
    offset[0] = 0;
    for (int64_t s = 0; s < lower.n_seq; s++) {
        const int64_t from = lower.offset[s], n = lower.offset[s + 1] - from;
        offset[s + 1] = offset[s] + qkv_globals_list(&globals, lower.ids ? lower.ids + from : NULL, n, at + offset[s]);
    }
    batch->global_offset = offset;
    batch->global_at = at;
    return QKV_OK;
}

/* ---- tokens that are named ---- */

/* " " and what a user wrote of one token, without the escapes. */
typedef struct spelled {
    char bytes[QKV_OPTION_TEXT_SIZE + 1];
    int64_t size;
    bool separator;
} spelled;

static const char SEPARATOR[] = "<sep>";

/* The next token of *text, which is moved behind it; size 1: there is none. */
static qkv_status next(qkv_ctx *ctx, const char **text, spelled *one) {
    static const char letters[] = "nts\\", meant[] = "\n\t \\";
    const char *p = *text + strspn(*text, " ");
    const size_t size = strcspn(p, " ");
    *one = (spelled){.bytes = " ", .size = 1, .separator = size == sizeof SEPARATOR - 1 && memcmp(p, SEPARATOR, size) == 0};
    for (const char *end = p + size; p < end; p++) {
        const char *escape = *p == '\\' && p + 1 < end ? strchr(letters, p[1]) : NULL;
        if (*p == '\\' && !escape)
            return qkv_fail(ctx, QKV_BAD_CONFIG, "global-token=%s: behind a backslash stands n, t, s (a space) or another one",
                            *text);
        one->bytes[one->size++] = escape ? meant[escape - letters] : *p;
        p += escape != NULL;
    }
    *text = p;
    return QKV_OK;
}

qkv_status qkv_global_tokens_count(qkv_ctx *ctx, const char *text, int64_t *count, bool *separator) {
    spelled one;
    *count = 0;
    *separator = false;
    for (;;) {
        QKV_TRY(next(ctx, &text, &one));
        if (one.size == 1) return QKV_OK;
        *separator = *separator || one.separator;
        if (++*count > QKV_NUMBERS_MOST / 2)
            return qkv_fail(ctx, QKV_BAD_CONFIG, "global-token: %d tokens at most", QKV_NUMBERS_MOST / 2);
    }
}

enum { SHOWN = 5 }; /* a character of four bytes, or an escape, and the NUL */

/* The first character of a piece as it is shown, or its first byte, where that begins none. Returns how many bytes that is. */
static int show(const char *piece, int64_t length, char text[SHOWN]) {
    static const char special[] = "\n\t\\", letters[] = "nt\\";
    const char *found = *piece ? strchr(special, *piece) : NULL;
    int32_t cp;
    const int size = qkv_utf8_next(piece, length, &cp);
    const bool plain = !found && size > 0 && cp >= 0x20 && (cp < 0x7f || cp >= 0xa0);
    if (found)
        snprintf(text, SHOWN, "\\%c", letters[found - special]);
    else if (plain)
        snprintf(text, SHOWN, "%.*s", size, piece);
    else
        snprintf(text, SHOWN, "\\x%02X", (unsigned)(unsigned char)*piece);
    return plain ? size : 1;
}

void qkv_global_token_print(const qkv_tokenizer *t, int32_t id, char *text, size_t size) {
    int64_t length;
    const char *piece = qkv_tokenizer_piece(t, id, &length);
    size_t at = 0;
    text[0] = 0;
    for (int64_t i = 0; i < length;) {
        char one[SHOWN];
        i += show(piece + i, length - i, one);
        if (at + strlen(one) >= size) return;
        at += (size_t)snprintf(text + at, size - at, "%s", one);
    }
}

enum { PIECES = 8 };

/* "a", "b" and more */
static void name_pieces(const qkv_tokenizer *t, const qkv_token *pieces, int64_t count, char *text, size_t size) {
    size_t at = 0;
    text[0] = 0;
    for (int64_t i = 0; i < count && i < PIECES && at < size; i++) {
        char one[32];
        qkv_global_token_print(t, pieces[i].id, one, sizeof one);
        const int n = snprintf(text + at, size - at, "%s\"%s\"", i > 0 ? ", " : "", one);
        at += n > 0 ? (size_t)n : 0;
    }
    if (count > PIECES && at < size) snprintf(text + at, size - at, ", ...");
}

static qkv_status pieces_of(qkv_ctx *ctx, const qkv_tokenizer *t, const char *text, int64_t size, qkv_token pieces[PIECES],
                            int64_t *count) {
    memset(pieces, 0, PIECES * sizeof *pieces);
    return qkv_tokenizer_encode(ctx, t, text, size, pieces, PIECES, count);
}

/* At the beginning of a text, and behind a space: two tokens, where words are cut with the space before them. */
static qkv_status find(qkv_ctx *ctx, const qkv_tokenizer *t, const spelled *one, qkv_numbers *ids) {
    qkv_token plain[PIECES], spaced[PIECES];
    int64_t count, behind;
    QKV_TRY(pieces_of(ctx, t, one->bytes + 1, one->size - 1, plain, &count));
    QKV_TRY(pieces_of(ctx, t, one->bytes, one->size, spaced, &behind));
    const bool has = count == 1 && plain[0].id != QKV_TOKEN_UNK, has_behind = behind == 1 && spaced[0].id != QKV_TOKEN_UNK;
    const bool parted =
        has && behind > 0 && behind <= PIECES && spaced[behind - 1].id == plain[0].id; /* the space is a token of its own */
    char pieces[300];
    if (has) (void)qkv_numbers_add(ids, plain[0].id);
    if (has_behind) (void)qkv_numbers_add(ids, spaced[0].id);
    if (!has && !has_behind) {
        name_pieces(t, plain, count, pieces, sizeof pieces);
        return qkv_fail(ctx, QKV_BAD_CONFIG,
                        count == 1 ? "global-token: the tokenizer does not know \"%s\": to it it is %s"
                                   : "global-token: \"%s\" is no token of this tokenizer, which cuts it into %s",
                        one->bytes + 1, pieces);
    }
    name_pieces(t, has_behind ? plain : spaced, has_behind ? count : behind, pieces, sizeof pieces);
    if (!has) qkv_log(ctx, "global-token: \"%s\" is global behind a space only; elsewhere it is %s", one->bytes + 1, pieces);
    if (!has_behind && !parted)
        qkv_log(ctx, "global-token: \"%s\" is not global behind a space, where it is %s", one->bytes + 1, pieces);
    return QKV_OK;
}

qkv_status qkv_global_tokens_find(qkv_ctx *ctx, const qkv_tokenizer *t, const char *text, qkv_numbers *ids) {
    spelled one;
    *ids = (qkv_numbers){0};
    for (;;) {
        QKV_TRY(next(ctx, &text, &one));
        if (one.size == 1) return QKV_OK;
        if (one.separator)
            (void)qkv_numbers_add(ids, QKV_TOKEN_SEP);
        else
            QKV_TRY(find(ctx, t, &one, ids));
    }
}
