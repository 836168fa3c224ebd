/* The line reader and the table on any file. */
#define _GNU_SOURCE 1
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "data/table.h"
#include "qkv/data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int holds) {
    if (!holds) abort();
}

static void read_lines(qkv_ctx *ctx, const char *path, size_t size, int packed) {
    qkv_lines *lines;
    const char *text = NULL;
    int64_t length, count = 0, bytes = 0;
    require(qkv_lines_open(ctx, path, &lines) == QKV_OK);
    while (require(qkv_lines_ready(lines) == 1), qkv_lines_next(lines, &text, &length) == QKV_OK && text) {
        require(length >= 0 && text[length] == 0 && !memchr(text, '\n', (size_t)length));
        require(qkv_lines_number(lines) == ++count);
        bytes += length + 1;
        int64_t sum = -1, column = 1, part;
        for (const char *c; (c = qkv_line_column(text, length, column, &part)); column++) {
            require(c >= text && part >= 0 && c + part <= text + length && !memchr(c, '\t', (size_t)part));
            sum += part + 1;
        }
        require(sum == length);
    }
    require(packed || bytes <= (int64_t)size + 1);
    qkv_lines_close(lines);
}

static void check_rows(const qkv_table *t) {
    require(t->count >= 0 && t->empty_rows <= t->count && t->repaired_rows <= t->count);
    for (int64_t i = 0; i < t->count; i++) {
        const qkv_row *r = &t->rows[i];
        require(r->label_size > 0 && (int64_t)strlen(r->label) == r->label_size && !memchr(r->label, '\t', (size_t)r->label_size));
        require(r->text_size >= 0 && r->text[r->text_size] == 0 && !memchr(r->text, '\n', (size_t)r->text_size));
        require(i == 0 || r->line > r[-1].line);
    }
}

/* Every label that is held out is still there to be learned. */
static void check_labels(const qkv_table *t, const qkv_table *held) {
    for (int64_t i = 0; i < held->count && i < 50; i++) {
        bool found = false;
        for (int64_t k = 0; k < t->count && !found; k++)
            found = t->rows[k].label_size == held->rows[i].label_size &&
                    memcmp(t->rows[k].label, held->rows[i].label, (size_t)t->rows[k].label_size) == 0;
        require(found);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    qkv_ctx ctx = {0};
    qkv_table t, held;
    char path[64];
    qkv_ctx_setup(&ctx, NULL);
    int file = memfd_create("fuzz", 0);
    require(file >= 0 && write(file, data, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    read_lines(&ctx, path, size, size >= 2 && data[0] == 0x1F && data[1] == 0x8B);
    if (qkv_table_read(&ctx, path, NULL, QKV_WANT_LABEL, false, &t) == QKV_OK) {
        int64_t rows = t.count;
        check_rows(&t);
        require(rows > 0 && qkv_table_hold_out(&t, &held) == QKV_OK);
        check_rows(&t);
        check_rows(&held);
        require(t.count + held.count == rows && t.count > 0);
        check_labels(&t, &held);
        qkv_table_free(&held);
        qkv_table_free(&t);
    } else {
        require(ctx.message[0] != 0);
    }
    close(file);
    return 0;
}
