/* The readers of data files on any bytes: every format, forced and guessed, one label, several or none, one text or two. */
#define _GNU_SOURCE 1
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "data/rows.h"
#include "data/table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int holds) {
    if (!holds) abort();
}

static void check_record(const qkv_record *r, qkv_rows_want want, bool pair, int64_t line) {
    require(r->line > line);
    require(r->text_size >= 0 && r->text[r->text_size] == 0);
    if (want == QKV_WANT_TEXT) require(r->label_count == 0);
    if (want == QKV_WANT_LABEL) require(r->label_count == 1);
    const char *label = r->labels;
    for (int64_t i = 0; i < r->label_count; i++) {
        size_t n = strlen(label);
        require(n > 0 && !memchr(label, '\t', n) && !memchr(label, '\n', n));
        const char *other = r->labels;
        for (int64_t k = 0; k < i; k++, other += strlen(other) + 1) require(strcmp(label, other) != 0);
        label += n + 1;
    }
    require(label - r->labels == r->labels_size + (r->label_count > 0));
    if (pair && want != QKV_WANT_TEXT) require(memchr(r->text, '\t', (size_t)r->text_size) != NULL);
}

/* Returns how many rows came before the end or an error. */
static int64_t read_all(qkv_ctx *ctx, const char *path, int format, qkv_rows_want want, bool pair) {
    qkv_data_options o;
    qkv_rows *rows;
    qkv_record r;
    int64_t count = 0, line = 0;
    memset(&o, 0, sizeof o);
    o.format = format;
    ctx->message[0] = 0;
    qkv_status status = qkv_rows_start(ctx, path, &o, want, pair, &rows);
    while (status == QKV_OK && (status = qkv_rows_read(rows, &r)) == QKV_OK && r.text) {
        check_record(&r, want, pair, line);
        line = r.line;
        count++;
        require(qkv_rows_line(rows) == line && qkv_rows_format(rows) != QKV_FORMAT_AUTO && qkv_rows_describe(rows)[0]);
    }
    require(status == QKV_OK || ctx->message[0]);
    qkv_rows_close(rows);
    return count;
}

static void check_table(qkv_ctx *ctx, const char *path) {
    qkv_table t, held;
    if (qkv_table_read(ctx, path, NULL, QKV_WANT_LABELS, false, &t) != QKV_OK) return;
    int64_t rows = t.count, without = t.unlabelled_rows;
    require(rows > 0 && without < rows && t.empty_rows <= rows && t.repaired_rows <= rows);
    require(qkv_table_hold_out(&t, &held) == QKV_OK);
    require(t.count + held.count == rows && t.unlabelled_rows + held.unlabelled_rows == without && t.count > 0);
    qkv_table_free(&held);
    qkv_table_free(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    qkv_ctx ctx = {0};
    char path[64];
    qkv_ctx_setup(&ctx, NULL);
    int file = memfd_create("fuzz", 0);
    require(file >= 0 && write(file, data, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    for (int format = QKV_FORMAT_AUTO; format <= QKV_FORMAT_TEXT; format++)
        for (int want = QKV_WANT_TEXT; want <= QKV_WANT_LABELS; want++)
            for (int pair = 0; pair < 2; pair++) read_all(&ctx, path, format, (qkv_rows_want)want, pair);
    check_table(&ctx, path);
    close(file);
    return 0;
}
